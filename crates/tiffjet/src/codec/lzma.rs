//! LZMA in an xz frame.

use super::{Cause, Codec, Encoded};

/// LZMA in an xz frame.
#[derive(Debug)]
pub struct Lzma;

impl Codec for Lzma {
    fn name(&self) -> &'static str {
        "lzma"
    }

    fn compression(&self) -> &'static [u16] {
        &[34925]
    }

    fn decode(&self, _tile: &Encoded<'_>, _out: &mut [u8]) -> Result<(), Cause> {
        Err(Cause::unsupported("lzma"))
    }
}
