//! ThunderScan.

use super::{Cause, Codec, Encoded};

/// ThunderScan.
#[derive(Debug)]
pub struct ThunderScan;

impl Codec for ThunderScan {
    fn name(&self) -> &'static str {
        "thunderscan"
    }

    fn compression(&self) -> &'static [u16] {
        &[32809]
    }

    fn decode(&self, _tile: &Encoded<'_>, _out: &mut [u8]) -> Result<(), Cause> {
        Err(Cause::unsupported("thunderscan"))
    }
}
