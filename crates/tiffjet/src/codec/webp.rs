//! WebP.

use super::{Cause, Codec, Encoded};

/// WebP.
#[derive(Debug)]
pub struct WebP;

impl Codec for WebP {
    fn name(&self) -> &'static str {
        "webp"
    }

    fn compression(&self) -> &'static [u16] {
        &[50001]
    }

    fn decode(&self, _tile: &Encoded<'_>, _out: &mut [u8]) -> Result<(), Cause> {
        Err(Cause::unsupported("webp"))
    }
}
