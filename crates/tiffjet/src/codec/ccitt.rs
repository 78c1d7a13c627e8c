//! CCITT RLE, Group 3 and Group 4.

use super::{Cause, Codec, Encoded};

/// CCITT RLE, Group 3 and Group 4.
#[derive(Debug)]
pub struct Ccitt;

impl Codec for Ccitt {
    fn name(&self) -> &'static str {
        "ccitt"
    }

    fn compression(&self) -> &'static [u16] {
        &[2, 3, 4, 32771]
    }

    fn decode(&self, _tile: &Encoded<'_>, _out: &mut [u8]) -> Result<(), Cause> {
        Err(Cause::unsupported("ccitt"))
    }
}
