//! ZSTD.

use super::{Cause, Codec, Encoded};

/// ZSTD.
#[derive(Debug)]
pub struct Zstd;

impl Codec for Zstd {
    fn name(&self) -> &'static str {
        "zstd"
    }

    fn compression(&self) -> &'static [u16] {
        &[50000]
    }

    fn decode(&self, _tile: &Encoded<'_>, _out: &mut [u8]) -> Result<(), Cause> {
        Err(Cause::unsupported("zstd"))
    }
}
