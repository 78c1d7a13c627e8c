//! Compression, the writing side.

use std::fmt;
use std::io::Write;
use std::sync::Arc;

/// Makes the bytes of a tile from its packed rows.
pub type Compress = dyn Fn(&[u8]) -> Vec<u8> + Send + Sync;

/// How the tiles of an image are compressed.
#[derive(Clone)]
pub enum Compression {
    /// 1
    None,
    /// 32773
    PackBits,
    /// 5
    Lzw,
    /// 8
    Deflate,
    /// 32946, the number Deflate had before Adobe's
    OldDeflate,
    /// 50000
    Zstd,
    /// Anything: the value of tag 259, and what compresses.
    Custom(u16, Arc<Compress>),
}

impl Compression {
    /// Value of tag 259.
    pub fn number(&self) -> u16 {
        match self {
            Self::None => 1,
            Self::PackBits => 32773,
            Self::Lzw => 5,
            Self::Deflate => 8,
            Self::OldDeflate => 32946,
            Self::Zstd => 50000,
            Self::Custom(number, _) => *number,
        }
    }

    /// Whether the predictor has a meaning: readers pass over the tag where nothing, or PackBits, compresses.
    pub fn has_predictor(&self) -> bool {
        !matches!(self, Self::None | Self::PackBits)
    }

    /// Compresses the rows of a tile.
    pub(crate) fn compress(&self, rows: &[Vec<u8>]) -> Vec<u8> {
        match self {
            Self::None => rows.concat(),
            // Runs must not cross rows.
            Self::PackBits => rows.iter().flat_map(|row| packbits(row)).collect(),
            Self::Lzw => lzw(&rows.concat()),
            Self::Deflate | Self::OldDeflate => deflate(&rows.concat()),
            Self::Zstd => zstd(&rows.concat()),
            Self::Custom(_, compress) => compress(&rows.concat()),
        }
    }
}

impl fmt::Debug for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::None => "None",
            Self::PackBits => "PackBits",
            Self::Lzw => "Lzw",
            Self::Deflate => "Deflate",
            Self::OldDeflate => "OldDeflate",
            Self::Zstd => "Zstd",
            Self::Custom(number, _) => return write!(f, "Custom({number})"),
        };
        f.write_str(name)
    }
}

/// Runs of 2 to 128 equal bytes, the rest as they are in pieces of at most 128.
pub(crate) fn packbits(bytes: &[u8]) -> Vec<u8> {
    let run = |at: usize| bytes[at..].iter().take(128).take_while(|b| **b == bytes[at]).count();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = run(at);
        if length > 1 {
            out.extend([(257 - length) as u8, bytes[at]]);
            at += length;
        } else {
            let start = at;
            while at < bytes.len() && at - start < 128 && run(at) == 1 {
                at += 1;
            }
            out.push((at - start - 1) as u8);
            out.extend_from_slice(&bytes[start..at]);
        }
    }
    out
}

pub(crate) fn lzw(bytes: &[u8]) -> Vec<u8> {
    weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8)
        .encode(bytes)
        .expect("bytes are always 8-bit symbols")
}

pub(crate) fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("writing to memory")
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
    zstd_safe::compress(&mut out, bytes, 3).expect("the bound is large enough");
    out
}
