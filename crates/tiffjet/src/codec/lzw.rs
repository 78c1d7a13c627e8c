//! LZW.

use super::{Cause, Codec, Encoded};

/// LZW.
#[derive(Debug)]
pub struct Lzw;

impl Codec for Lzw {
    fn name(&self) -> &'static str {
        "lzw"
    }

    fn compression(&self) -> &'static [u16] {
        &[5]
    }

    fn decode(&self, _tile: &Encoded<'_>, _out: &mut [u8]) -> Result<(), Cause> {
        Err(Cause::unsupported("lzw"))
    }
}
