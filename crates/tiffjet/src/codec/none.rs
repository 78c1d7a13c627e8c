//! No compression.

use super::{Cause, Codec, Encoded, Plain, short};

/// Compression 1.
#[derive(Debug)]
pub struct Uncompressed;

impl Codec for Uncompressed {
    fn name(&self) -> &'static str {
        "none"
    }

    fn compression(&self) -> &'static [u16] {
        &[1]
    }

    fn decode(&self, tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
        let bytes = tile.bytes.get(..out.len()).ok_or_else(|| short(tile.bytes.len(), out.len()))?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn encode(&self, tile: &Plain<'_>, out: &mut Vec<u8>) -> Result<(), Cause> {
        out.extend_from_slice(tile.bytes);
        Ok(())
    }
}
