//! SGI LogLuv.

use super::{Cause, Codec, Encoded};

/// SGI LogLuv.
#[derive(Debug)]
pub struct SgiLog;

impl Codec for SgiLog {
    fn name(&self) -> &'static str {
        "sgilog"
    }

    fn compression(&self) -> &'static [u16] {
        &[34676, 34677]
    }

    fn decode(&self, _tile: &Encoded<'_>, _out: &mut [u8]) -> Result<(), Cause> {
        Err(Cause::unsupported("sgilog"))
    }
}
