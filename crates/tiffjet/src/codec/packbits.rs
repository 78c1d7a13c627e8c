//! PackBits.

use super::{Cause, Codec, Encoded};

/// PackBits.
#[derive(Debug)]
pub struct PackBits;

impl Codec for PackBits {
    fn name(&self) -> &'static str {
        "packbits"
    }

    fn compression(&self) -> &'static [u16] {
        &[32773]
    }

    fn decode(&self, _tile: &Encoded<'_>, _out: &mut [u8]) -> Result<(), Cause> {
        Err(Cause::unsupported("packbits"))
    }
}
