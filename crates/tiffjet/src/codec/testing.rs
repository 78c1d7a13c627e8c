//! What the tests of several codecs share.

use super::{Encoded, TileFormat};
use crate::dtype::{ByteOrder, DType, SampleKind};

/// A plain unsigned format.
pub fn format(compression: u16, width: u32, height: u32, samples: u16, bits: u16) -> TileFormat {
    TileFormat {
        compression,
        width,
        height,
        samples,
        bits,
        kind: SampleKind::Unsigned,
        dtype: DType::UInt8,
        order: ByteOrder::NATIVE,
        photometric: 1,
        subsampling: (1, 1),
        fax_options: 0,
        jpeg_tables: None,
        lerc: [0; 2],
        old_jpeg: None,
    }
}

/// A full tile of that format.
pub fn tile<'a>(format: &'a TileFormat, bytes: &'a [u8]) -> Encoded<'a> {
    Encoded { bytes, rows: format.height, index: 0, format }
}

/// Numbers without order, the same each time (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| (self.next() >> 32) as u8).collect()
    }
}
