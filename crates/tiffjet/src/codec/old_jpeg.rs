//! Old-style JPEG (TIFF 6.0).

use super::{Cause, Codec, Encoded};

/// Old-style JPEG (TIFF 6.0).
#[derive(Debug)]
pub struct OldJpegCodec;

impl Codec for OldJpegCodec {
    fn name(&self) -> &'static str {
        "old-jpeg"
    }

    fn compression(&self) -> &'static [u16] {
        &[6]
    }

    fn decode(&self, _tile: &Encoded<'_>, _out: &mut [u8]) -> Result<(), Cause> {
        Err(Cause::unsupported("old-jpeg"))
    }
}

/// Tags of old-style JPEG.
#[derive(Debug, Clone, Default)]
pub struct OldJpeg {
    /// Bytes of the JPEG interchange stream (513, 514), where the file has one.
    pub interchange: Option<Vec<u8>>,
    /// Quantisation tables (519), one of 64 bytes a component.
    pub q_tables: Vec<Vec<u8>>,
    /// DC Huffman tables (520): 16 counts, then the symbols.
    pub dc_tables: Vec<Vec<u8>>,
    /// AC Huffman tables (521): 16 counts, then the symbols.
    pub ac_tables: Vec<Vec<u8>>,
    /// JPEGProc (512): 1 baseline, 14 lossless.
    pub process: u16,
    /// JPEGRestartInterval (515), in MCUs.
    pub restart_interval: u16,
    /// Whole image, for streams that are cut into strips.
    pub image: (u32, u32),
}
