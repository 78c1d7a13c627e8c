//! JPEG XL.

use super::{Cause, Codec, Encoded};

/// JPEG XL.
#[derive(Debug)]
pub struct JpegXl;

impl Codec for JpegXl {
    fn name(&self) -> &'static str {
        "jxl"
    }

    fn compression(&self) -> &'static [u16] {
        &[50002, 52546]
    }

    fn decode(&self, _tile: &Encoded<'_>, _out: &mut [u8]) -> Result<(), Cause> {
        Err(Cause::unsupported("jxl"))
    }
}
