//! Pixar log.

use super::{Cause, Codec, Encoded};

/// Pixar log.
#[derive(Debug)]
pub struct PixarLog;

impl Codec for PixarLog {
    fn name(&self) -> &'static str {
        "pixarlog"
    }

    fn compression(&self) -> &'static [u16] {
        &[32909]
    }

    fn decode(&self, _tile: &Encoded<'_>, _out: &mut [u8]) -> Result<(), Cause> {
        Err(Cause::unsupported("pixarlog"))
    }
}
