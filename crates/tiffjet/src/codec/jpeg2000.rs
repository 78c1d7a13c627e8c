//! JPEG 2000.

use super::{Cause, Codec, Encoded};

/// JPEG 2000.
#[derive(Debug)]
pub struct Jpeg2000;

impl Codec for Jpeg2000 {
    fn name(&self) -> &'static str {
        "jpeg2000"
    }

    fn compression(&self) -> &'static [u16] {
        &[34712, 33003, 33005]
    }

    fn decode(&self, _tile: &Encoded<'_>, _out: &mut [u8]) -> Result<(), Cause> {
        Err(Cause::unsupported("jpeg2000"))
    }
}
