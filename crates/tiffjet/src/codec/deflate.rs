//! Deflate in a zlib frame.

use super::{Cause, Codec, Encoded};

/// Deflate in a zlib frame.
#[derive(Debug)]
pub struct Deflate;

impl Codec for Deflate {
    fn name(&self) -> &'static str {
        "deflate"
    }

    fn compression(&self) -> &'static [u16] {
        &[8, 32946]
    }

    fn decode(&self, _tile: &Encoded<'_>, _out: &mut [u8]) -> Result<(), Cause> {
        Err(Cause::unsupported("deflate"))
    }
}
