//! NeXT 2-bit.

use super::{Cause, Codec, Encoded};

/// NeXT 2-bit.
#[derive(Debug)]
pub struct Next;

impl Codec for Next {
    fn name(&self) -> &'static str {
        "next"
    }

    fn compression(&self) -> &'static [u16] {
        &[32766]
    }

    fn decode(&self, _tile: &Encoded<'_>, _out: &mut [u8]) -> Result<(), Cause> {
        Err(Cause::unsupported("next"))
    }
}
