//! LERC.

use super::{Cause, Codec, Encoded};

/// LERC.
#[derive(Debug)]
pub struct Lerc;

impl Codec for Lerc {
    fn name(&self) -> &'static str {
        "lerc"
    }

    fn compression(&self) -> &'static [u16] {
        &[34887]
    }

    fn decode(&self, _tile: &Encoded<'_>, _out: &mut [u8]) -> Result<(), Cause> {
        Err(Cause::unsupported("lerc"))
    }
}
