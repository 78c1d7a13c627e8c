//! Host codecs: the trait, and the one table of them all.
//!
//! A codec knows no file and no place in the image. It gets the bytes of one tile, how its pixels are stored, and a
//! buffer of exactly the size that must be filled.

mod ccitt;
mod chroma;
mod deflate;
#[cfg(test)]
mod image_tests;
mod jpeg;
mod jpeg2000;
mod jxl;
mod lerc;
mod lzma;
mod lzw;
mod next;
mod none;
mod old_jpeg;
mod packbits;
mod pixarlog;
mod sgilog;
#[cfg(test)]
mod testing;
mod thunderscan;
mod webp;
mod zstd;

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::dtype::{ByteOrder, DType, SampleKind};
pub use crate::error::Cause;
pub use chroma::Chroma;
pub(crate) use chroma::Conversion;
pub use jpeg::tables as jpeg_tables;
pub use old_jpeg::OldJpeg;

/// Every codec there is. A new one is a file beside this one and a line here.
pub static CODECS: &[&dyn Codec] = &[
    &none::Uncompressed,
    &packbits::PackBits,
    &lzw::Lzw,
    &deflate::Deflate,
    &zstd::Zstd,
    &lzma::Lzma,
    &lerc::Lerc,
    &jpeg::Jpeg,
    &old_jpeg::OldJpegCodec,
    &jpeg2000::Jpeg2000,
    &webp::WebP,
    &jxl::JpegXl,
    &ccitt::Ccitt,
    &sgilog::SgiLog,
    &pixarlog::PixarLog,
    &thunderscan::ThunderScan,
    &next::Next,
];

/// The codec of a value of TIFF tag 259.
pub fn find(compression: u16) -> Option<&'static dyn Codec> {
    CODECS.iter().copied().find(|c| c.compression().contains(&compression))
}

/// Whether files can be written with a codec: it is tried on small tiles of zeros.
pub fn writes(codec: &dyn Codec) -> bool {
    let grey = TileFormat::new(codec.compression()[0], (16, 16), 1, DType::UInt8);
    let colour = TileFormat { photometric: 2, ..TileFormat::new(codec.compression()[0], (16, 16), 3, DType::UInt8) };
    [grey, colour].into_iter().any(|mut format| {
        let settings = Settings::default();
        let bytes = vec![0; 16 * format.row_samples_bytes()];
        let prepared = codec.prepare(&mut format, &settings);
        let tile = Plain { bytes: &bytes, rows: 16, format: &format, settings: &settings };
        prepared.and_then(|()| codec.encode(&tile, &mut Vec::new())).is_ok()
    })
}

/// One compression scheme on the host.
pub trait Codec: Send + Sync {
    /// Short lower-case name, as on the command line.
    fn name(&self) -> &'static str;

    /// Values of TIFF tag 259 that mean it.
    fn compression(&self) -> &'static [u16];

    /// What `decode` gives and `encode` takes.
    fn unit(&self) -> Unit {
        Unit::Bytes
    }

    /// Whether Predictor (317) means anything in its files.
    fn takes_predictor(&self) -> bool {
        false
    }

    /// Whether FillOrder 2 turns the bits of its bytes round (the embedded image formats never do).
    fn bits_follow_fill_order(&self) -> bool {
        self.unit() == Unit::Bytes
    }

    /// Decodes one tile into `out`, which has exactly the size of the tile and is filled whole, or it is an error.
    /// Bytes after the end of the tile's data are ignored, as every TIFF reader does.
    fn decode(&self, tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause>;

    /// Whether [`Codec::decode_along`] does more than decode and hand over.
    fn decodes_along(&self) -> bool {
        false
    }

    /// Decodes one tile as [`Codec::decode`] does, and each time some more of it is done hands over all of it that is,
    /// from the start on. When the answer is to break, what is left need not be decoded, nor be sound.
    fn decode_along(
        &self,
        tile: &Encoded<'_>,
        out: &mut [u8],
        landed: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), Cause> {
        self.decode(tile, out)?;
        let _ = landed(out);
        Ok(())
    }

    /// Completes the format of a level that is to be written with what all its tiles share, such as the tables of
    /// JPEG, which then stand in the directory.
    fn prepare(&self, format: &mut TileFormat, settings: &Settings) -> Result<(), Cause> {
        let _ = (format, settings);
        Ok(())
    }

    /// Encodes one tile, appending to `out`.
    fn encode(&self, tile: &Plain<'_>, out: &mut Vec<u8>) -> Result<(), Cause> {
        let _ = (tile, out);
        Err(Cause::unsupported(format!("writing {}", self.name())))
    }
}

/// What a codec compresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of rows as TIFF packs them: file byte order, bits packed, rows padded to whole bytes, predictor applied.
    Bytes,
    /// Samples of the tile's dtype, native byte order, pixel-interleaved, no padding, no predictor.
    Samples,
}

/// A compressed tile.
#[derive(Debug, Clone, Copy)]
pub struct Encoded<'a> {
    /// Its bytes in the file.
    pub bytes: &'a [u8],
    /// Rows in it: the last strip may have fewer than `format.height`.
    pub rows: u32,
    /// Which tile of its plane, in order of the image; old-style JPEG needs it.
    pub index: u64,
    /// How its pixels are stored.
    pub format: &'a TileFormat,
}

/// A tile to compress.
#[derive(Debug, Clone, Copy)]
pub struct Plain<'a> {
    /// Its bytes, as [`Codec::unit`] says.
    pub bytes: &'a [u8],
    /// Rows in it.
    pub rows: u32,
    /// How its pixels are stored.
    pub format: &'a TileFormat,
    /// What the user chose.
    pub settings: &'a Settings,
}

/// How the pixels of the tiles of one level are stored: all that a codec may need to know of them.
#[derive(Debug, Clone)]
pub struct TileFormat {
    /// TIFF tag 259.
    pub compression: u16,
    /// Pixels in a row of a tile, padding included.
    pub width: u32,
    /// Rows of a full tile.
    pub height: u32,
    /// Samples of a pixel that stand in one tile: all of them, or 1 when the planes are apart.
    pub samples: u16,
    /// Bits of a sample in the file, 1 to 64 (128 for complex).
    pub bits: u16,
    /// SampleFormat.
    pub kind: SampleKind,
    /// Type of a sample in memory.
    pub dtype: DType,
    /// Of the file.
    pub order: ByteOrder,
    /// PhotometricInterpretation (262).
    pub photometric: u16,
    /// YCbCrSubSampling (530), horizontal and vertical; (1, 1) where there is none.
    pub subsampling: (u8, u8),
    /// How YCbCr becomes RGB.
    pub chroma: Chroma,
    /// T4Options (292) or T6Options (293).
    pub fax_options: u32,
    /// JPEGTables (347).
    pub jpeg_tables: Option<Arc<[u8]>>,
    /// LercParameters (50674): version and additional compression (0 none, 1 deflate, 2 zstd).
    pub lerc: [u32; 2],
    /// Tags of old-style JPEG (compression 6).
    pub old_jpeg: Option<Arc<OldJpeg>>,
}

impl TileFormat {
    /// Whole samples of a type in this machine's byte order, and nothing special.
    pub fn new(compression: u16, (width, height): (u32, u32), samples: u16, dtype: DType) -> Self {
        Self {
            compression,
            width,
            height,
            samples,
            bits: dtype.size() as u16 * 8,
            kind: dtype.kind(),
            dtype,
            order: ByteOrder::NATIVE,
            photometric: 1,
            subsampling: (1, 1),
            chroma: Chroma::default(),
            fax_options: 0,
            jpeg_tables: None,
            lerc: [0; 2],
            old_jpeg: None,
        }
    }

    /// Bytes of one row as TIFF packs it.
    pub fn row_bytes(&self) -> usize {
        (self.width as usize * self.samples as usize * self.bits as usize).div_ceil(8)
    }

    /// Bytes of one row of samples in memory.
    pub fn row_samples_bytes(&self) -> usize {
        self.width as usize * self.samples as usize * self.dtype.size()
    }
}

/// What the user chose for encoding.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Compression level of the codec's own scale.
    pub level: Option<i32>,
    /// JPEG, WebP, JPEG 2000: 1 to 100; 100 is lossless for WebP and JPEG 2000.
    pub quality: Option<u8>,
    /// LERC: the largest error allowed.
    pub max_z_error: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { level: None, quality: None, max_z_error: 0.0 }
    }
}

/// A tile whose data end too early.
fn short(got: usize, due: usize) -> Cause {
    Cause::damaged(format!("the data give {got} bytes where {due} are due"))
}

/// The bits of a byte in reverse order: FillOrder 2.
pub fn reverse_bits(bytes: &mut [u8]) {
    for b in bytes {
        *b = b.reverse_bits();
    }
}

/// Stands for every compression that nobody here decodes, so that such a file can still be described.
pub(crate) static UNKNOWN: Unknown = Unknown;

/// A compression without a codec.
#[derive(Debug)]
pub(crate) struct Unknown;

impl Codec for Unknown {
    fn name(&self) -> &'static str {
        "unknown"
    }

    fn compression(&self) -> &'static [u16] {
        &[]
    }

    fn decode(&self, tile: &Encoded<'_>, _out: &mut [u8]) -> Result<(), Cause> {
        Err(Cause::unsupported(format!("compression {}", tile.format.compression)))
    }
}
