//! JPEG in TIFF.

use super::{Cause, Codec, Encoded};

/// JPEG in TIFF.
#[derive(Debug)]
pub struct Jpeg;

impl Codec for Jpeg {
    fn name(&self) -> &'static str {
        "jpeg"
    }

    fn compression(&self) -> &'static [u16] {
        &[7]
    }

    fn decode(&self, _tile: &Encoded<'_>, _out: &mut [u8]) -> Result<(), Cause> {
        Err(Cause::unsupported("jpeg"))
    }
}
