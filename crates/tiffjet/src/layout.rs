//! One validated image level: what a directory says about its pixels, checked once.
//!
//! After this no value is optional, no size is checked again, and nothing a file holds can make the reader panic.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::codec::{self, Chroma, Codec, OldJpeg, TileFormat, Unit};
use crate::cog::{self, Ghost};
use crate::dtype::{ByteOrder, DType, SampleKind};
use crate::error::{Cause, Error, Result};
use crate::tiff::{Directory, Entry, Head, Header, Place, tag};

/// PhotometricInterpretation of images in red, green and blue.
const RGB: u16 = 2;
/// PhotometricInterpretation of images in inks.
const SEPARATED: u16 = 5;
/// PhotometricInterpretation of images in luminance and chrominance.
pub const YCBCR: u16 = 6;

/// Undone after decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predictor {
    /// Values as they are.
    None,
    /// Differences of neighbours in a row.
    Horizontal,
    /// Differences of byte planes of floating point numbers.
    Float,
}

impl Predictor {
    /// TIFF tag 317.
    pub fn code(self) -> u16 {
        match self {
            Self::None => 1,
            Self::Horizontal => 2,
            Self::Float => 3,
        }
    }
}

/// One image level whose tags make sense together.
pub struct Layout {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Samples of a pixel.
    pub bands: u16,
    /// Tiles rather than strips.
    pub tiled: bool,
    /// Tiles in a row of tiles.
    pub across: u32,
    /// Rows of tiles.
    pub down: u32,
    /// Each band in tiles of its own (PlanarConfiguration 2).
    pub planar: bool,
    /// How the pixels of a tile are stored; `width` and `height` in it are the tile's.
    pub format: TileFormat,
    /// Decodes the tiles.
    pub codec: &'static dyn Codec,
    /// Undone after decoding.
    pub predictor: Predictor,
    /// FillOrder 2, and the codec follows it.
    pub reversed: bool,
    /// ExtraSamples (338).
    pub extra_samples: Vec<u16>,
    /// Orientation (274), reported, never applied.
    pub orientation: u16,
    /// Where the tiles stand.
    pub index: TileIndex,
    /// Offset of the directory.
    pub offset: u64,
}

impl std::fmt::Debug for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Layout")
            .field("size", &(self.width, self.height, self.bands))
            .field("format", &self.format)
            .field("codec", &self.codec.name())
            .finish_non_exhaustive()
    }
}

impl Layout {
    /// Checks a directory.
    pub fn new(head: &Head, header: &Header, directory: &Directory) -> Result<Self> {
        Builder { head, header, directory }.build()
    }

    /// Type of a pixel value in memory.
    pub fn dtype(&self) -> DType {
        self.format.dtype
    }

    /// Planes of tiles: one for each band, or one for all.
    pub fn planes(&self) -> u16 {
        if self.planar { self.bands } else { 1 }
    }

    /// Number of tiles in all planes.
    pub fn tiles(&self) -> u64 {
        u64::from(self.across) * u64::from(self.down) * u64::from(self.planes())
    }

    /// Rows that the tiles of a tile row hold: the last strip ends with the image, tiles are always full.
    pub fn rows_in_tile(&self, row: u32) -> u32 {
        if self.tiled { self.format.height } else { self.format.height.min(self.height - row * self.format.height) }
    }

    /// Rows and columns of a tile that are inside the image.
    pub fn size_inside(&self, row: u32, col: u32) -> (u32, u32) {
        let (height, width) = (self.format.height, self.format.width);
        (height.min(self.height - row * height), width.min(self.width - col * width))
    }

    /// Chrominance stored once for several pixels, as the uncompressed and byte-wise codecs pack it.
    pub fn packed_chroma(&self) -> Option<(usize, usize)> {
        let (h, v) = self.format.subsampling;
        (self.format.photometric == YCBCR && self.codec.unit() == Unit::Bytes && !self.planar && (h, v) != (1, 1))
            .then_some((h as usize, v as usize))
    }

    /// PhotometricInterpretation of the pixels that reading gives: some codecs turn theirs into red, green and blue.
    pub fn shown_photometric(&self) -> u16 {
        let jpeg = matches!(self.codec.name(), "jpeg" | "old-jpeg");
        match self.format.photometric {
            YCBCR if (jpeg && self.format.samples == 3) || self.packed_chroma().is_some() => RGB,
            SEPARATED if self.shows_inks_as_light() => RGB,
            other => other,
        }
    }

    /// Whether four inks come as red, green, blue and alpha.
    pub fn shows_inks_as_light(&self) -> bool {
        self.codec.name() == "jpeg"
            && (self.format.photometric, self.format.samples, self.dtype()) == (SEPARATED, 4, DType::UInt8)
    }

    /// The band, from 1, that ExtraSamples names as alpha.
    pub fn alpha_band(&self) -> Option<u16> {
        let first = usize::from(self.bands).checked_sub(self.extra_samples.len())?;
        self.extra_samples.iter().position(|&kind| kind == 1 || kind == 2).map(|i| (first + i + 1) as u16)
    }

    /// Decoded bytes of `rows` rows of a tile, as the codec gives them. Saturates.
    pub fn decoded_bytes(&self, rows: u32) -> u64 {
        let width = u64::from(self.format.width);
        let samples = u64::from(self.format.samples);
        if let Some((h, v)) = self.packed_chroma() {
            let (h, v) = (h as u64, v as u64);
            return width.div_ceil(h) * u64::from(rows).div_ceil(v) * (h * v + 2);
        }
        let row = match self.codec.unit() {
            Unit::Bytes => width.saturating_mul(samples).saturating_mul(u64::from(self.format.bits)).div_ceil(8),
            Unit::Samples => width.saturating_mul(samples).saturating_mul(self.dtype().size() as u64),
        };
        row.saturating_mul(u64::from(rows))
    }

    /// Bytes of `rows` rows of a tile once chrominance that pixels share is spread: what unpacking begins with. Saturates.
    pub fn plain_bytes(&self, rows: u32) -> u64 {
        match self.packed_chroma() {
            Some(_) => u64::from(self.format.width).saturating_mul(3).saturating_mul(u64::from(rows)),
            None => self.decoded_bytes(rows),
        }
    }

    /// Bytes of one unit of byte order, 0 where the order of the file does not matter.
    pub fn swapped_word(&self) -> usize {
        let word = match (self.predictor, self.dtype().is_complex(), self.format.bits) {
            // The byte planes of this predictor stand in one order in all files.
            (Predictor::Float, ..) => 1,
            // Differences are taken of whole samples, complex ones too.
            (Predictor::None, true, bits) => bits / 16,
            (_, _, bits @ (16 | 32 | 64)) => bits / 8,
            _ => 1,
        };
        let foreign = self.format.order != ByteOrder::NATIVE && self.codec.unit() == Unit::Bytes;
        if foreign && word > 1 { usize::from(word) } else { 0 }
    }

    /// Whether bytes of the file are rows of pixels, so that a part of a tile can be read alone.
    pub fn rows_are_bytes(&self) -> bool {
        self.format.compression == 1 && self.packed_chroma().is_none()
    }
}

struct Builder<'a> {
    head: &'a Head,
    header: &'a Header,
    directory: &'a Directory,
}

impl Builder<'_> {
    fn malformed(&self, what: impl Into<String>) -> Error {
        Error::malformed(self.head.name(), self.directory.offset, what)
    }

    fn unsupported(&self, feature: impl Into<String>) -> Error {
        Error::unsupported(self.head.name(), feature, "")
    }

    fn number(&self, tag: u16) -> Result<Option<u64>> {
        self.directory.number(self.head, tag)
    }

    fn short(&self, tag: u16, default: u16) -> Result<u16> {
        match self.number(tag)? {
            None => Ok(default),
            Some(v) => u16::try_from(v).map_err(|_| self.malformed(format!("{} is {v}", tag::name(tag)))),
        }
    }

    /// A size in pixels: at least 1, at most what a signed 32-bit number holds.
    fn size(&self, tag: u16, value: u64) -> Result<u32> {
        match u32::try_from(value) {
            Ok(v) if v > 0 && v <= i32::MAX as u32 => Ok(v),
            _ => Err(self.malformed(format!("{} is {value}", tag::name(tag)))),
        }
    }

    fn required(&self, tag: u16) -> Result<u32> {
        let value = self.number(tag)?.ok_or_else(|| self.malformed(format!("{} is missing", tag::name(tag))))?;
        self.size(tag, value)
    }

    fn build(self) -> Result<Layout> {
        let width = self.required(tag::IMAGE_WIDTH)?;
        let height = self.required(tag::IMAGE_LENGTH)?;
        let compression = self.short(tag::COMPRESSION, 1)?;
        let codec = codec::find(compression).unwrap_or(&codec::UNKNOWN);
        let bands = self.short(tag::SAMPLES_PER_PIXEL, 1)?;
        if bands == 0 {
            return Err(self.malformed("SamplesPerPixel is 0"));
        }
        let extra_samples = self.extra_samples(bands)?;
        let photometric = self.photometric(bands, &extra_samples)?;
        let planar = match self.short(tag::PLANAR_CONFIGURATION, 1)? {
            1 => false,
            2 => bands > 1,
            other => return Err(self.malformed(format!("PlanarConfiguration is {other}"))),
        };
        let (bits, kind) = self.samples(bands, compression)?;
        let dtype = self.dtype(bits, kind)?;
        let (tiled, tile_width, tile_height) = self.grid(width, height)?;
        let across = width.div_ceil(tile_width);
        let down = height.div_ceil(tile_height);
        let format = TileFormat {
            compression,
            width: tile_width,
            height: tile_height,
            samples: if planar { 1 } else { bands },
            bits,
            kind,
            dtype,
            order: self.header.order,
            photometric,
            subsampling: self.subsampling(photometric)?,
            chroma: self.chroma()?,
            fax_options: self.number(if compression == 4 { tag::T6_OPTIONS } else { tag::T4_OPTIONS })?.unwrap_or(0)
                as u32,
            jpeg_tables: self.jpeg_tables(compression)?,
            lerc: self.lerc()?,
            old_jpeg: if compression == 6 { Some(Arc::new(self.old_jpeg(bands, width, height)?)) } else { None },
        };
        let predictor = self.predictor(codec, &format)?;
        let reversed = match self.short(tag::FILL_ORDER, 1)? {
            2 => codec.bits_follow_fill_order(),
            _ => false, // every reader takes nonsense here for the default
        };
        let layout = Layout {
            width,
            height,
            bands,
            tiled,
            across,
            down,
            planar,
            codec,
            predictor,
            reversed,
            extra_samples,
            orientation: self.short(tag::ORIENTATION, 1).unwrap_or(1),
            index: self.index(tiled)?,
            offset: self.directory.offset,
            format,
        };
        self.check_chroma(&layout)?;
        let decoded = layout.decoded_bytes(tile_height);
        // Rows of an uncompressed tile are read as they are needed: its size does not matter, that of a row does.
        let held = if layout.rows_are_bytes() { layout.decoded_bytes(1) } else { decoded };
        let allowed = self.head.limits().tile_bytes;
        if held > allowed {
            return Err(Error::limit(self.head.name(), "decoded bytes of one tile", held, allowed));
        }
        self.check_size(&layout, decoded)?;
        Ok(layout)
    }

    /// Chrominance that pixels share is known for one kind of sample only.
    fn check_chroma(&self, layout: &Layout) -> Result<()> {
        let usual = (layout.bands, layout.format.bits, layout.format.kind) == (3, 8, SampleKind::Unsigned);
        if layout.packed_chroma().is_none() || (usual && layout.predictor == Predictor::None) {
            return Ok(());
        }
        Err(self.unsupported("subsampled YCbCr that is not three bands of 8 bits without a predictor"))
    }

    /// Nothing is decoded that is out of all proportion to the image.
    fn check_size(&self, layout: &Layout, tile: u64) -> Result<()> {
        const SMALL: u64 = 64 << 20;
        let pixel = u64::from(layout.bands) * layout.dtype().size() as u64;
        let image = (u64::from(layout.width) * u64::from(layout.height)).saturating_mul(pixel);
        let sane = image.saturating_mul(256).saturating_add(SMALL);
        if !layout.rows_are_bytes() && tile > sane {
            return Err(Error::limit(self.head.name(), "bytes of a tile, for an image of this size", tile, sane));
        }
        // Old-style JPEG may have to decode the whole image for one strip.
        let allowed = self.head.limits().tile_bytes;
        if layout.format.compression == 6 && image > allowed {
            return Err(Error::limit(self.head.name(), "bytes of an image in old-style JPEG", image, allowed));
        }
        Ok(())
    }

    fn extra_samples(&self, bands: u16) -> Result<Vec<u16>> {
        let values = self.directory.first_numbers(self.head, tag::EXTRA_SAMPLES, u64::from(bands))?.unwrap_or_default();
        Ok(values.into_iter().map(|v| u16::try_from(v).unwrap_or(0)).collect())
    }

    fn photometric(&self, bands: u16, extra: &[u16]) -> Result<u16> {
        // Where it is missing, three colours are red, green and blue; anything else is a scale from black.
        let colours = usize::from(bands).saturating_sub(extra.len());
        self.short(tag::PHOTOMETRIC, if colours == 3 { 2 } else { 1 })
    }

    /// Bits and kind of a sample, the same for all of them.
    fn samples(&self, bands: u16, compression: u16) -> Result<(u16, SampleKind)> {
        let first = |tag, default| -> Result<u64> {
            let values = self.directory.first_numbers(self.head, tag, u64::from(bands))?.unwrap_or_default();
            let first = values.first().copied().unwrap_or(default);
            if values.iter().any(|&v| v != first) {
                return Err(self.unsupported(format!("samples that differ in {}", tag::name(tag))));
            }
            Ok(first)
        };
        let bits = first(tag::BITS_PER_SAMPLE, 1)?;
        let bits = u16::try_from(bits).map_err(|_| self.malformed(format!("BitsPerSample is {bits}")))?;
        let kind = match first(tag::SAMPLE_FORMAT, 1)? {
            1 | 4 => SampleKind::Unsigned,
            2 => SampleKind::Signed,
            3 => SampleKind::Float,
            5 => SampleKind::ComplexInt,
            6 => SampleKind::ComplexFloat,
            other => return Err(self.malformed(format!("SampleFormat is {other}"))),
        };
        Ok(match compression {
            // SGI's logarithmic formats are decoded to 16-bit integers whatever the tags say.
            34676 | 34677 => (16, SampleKind::Signed),
            _ => (bits, kind),
        })
    }

    fn dtype(&self, bits: u16, kind: SampleKind) -> Result<DType> {
        Ok(match (kind, bits) {
            (SampleKind::Unsigned, 1..=8) => DType::UInt8,
            (SampleKind::Unsigned, 9..=16) => DType::UInt16,
            (SampleKind::Unsigned, 17..=32) => DType::UInt32,
            (SampleKind::Unsigned, 33..=64) => DType::UInt64,
            (SampleKind::Signed, 1..=8) => DType::Int8,
            (SampleKind::Signed, 9..=16) => DType::Int16,
            (SampleKind::Signed, 17..=32) => DType::Int32,
            (SampleKind::Signed, 33..=64) => DType::Int64,
            (SampleKind::Float, 16) => DType::Float16,
            (SampleKind::Float, 24 | 32) => DType::Float32,
            (SampleKind::Float, 64) => DType::Float64,
            (SampleKind::ComplexInt, 32) => DType::ComplexInt16,
            (SampleKind::ComplexInt, 64) => DType::ComplexInt32,
            (SampleKind::ComplexFloat, 64) => DType::Complex64,
            (SampleKind::ComplexFloat, 128) => DType::Complex128,
            (_, 0) => return Err(self.malformed("BitsPerSample is 0")),
            _ => return Err(self.unsupported(format!("{kind:?} samples of {bits} bits"))),
        })
    }

    /// Tiles or strips, and their size.
    fn grid(&self, width: u32, height: u32) -> Result<(bool, u32, u32)> {
        // One of them alone is damage: read as strips, the tiles would give pixels in the wrong places.
        if self.directory.get(tag::TILE_WIDTH).is_some() || self.directory.get(tag::TILE_LENGTH).is_some() {
            return Ok((true, self.required(tag::TILE_WIDTH)?, self.required(tag::TILE_LENGTH)?));
        }
        // One strip for the whole image is the default, and some write it as 2^32 - 1 or as 0.
        let rows = match self.number(tag::ROWS_PER_STRIP)? {
            None | Some(0) => height,
            Some(rows) => u32::try_from(rows).unwrap_or(u32::MAX).min(height),
        };
        Ok((false, width, rows))
    }

    fn subsampling(&self, photometric: u16) -> Result<(u8, u8)> {
        if photometric != YCBCR {
            return Ok((1, 1));
        }
        let values = self.directory.first_numbers(self.head, tag::YCBCR_SUBSAMPLING, 2)?.unwrap_or_default();
        match values[..] {
            [] => Ok((2, 2)),
            [h @ (1 | 2 | 4), v @ (1 | 2 | 4), ..] => Ok((h as u8, v as u8)),
            _ => Err(self.malformed(format!("YCbCrSubSampling is {values:?}"))),
        }
    }

    fn chroma(&self) -> Result<Chroma> {
        fn fill<const N: usize>(known: [f32; N], values: Option<Vec<f64>>) -> [f32; N] {
            match values.as_deref().and_then(<[f64]>::first_chunk::<N>) {
                Some(values) if values.iter().all(|v| v.is_finite()) => values.map(|v| v as f32),
                _ => known,
            }
        }
        let known = Chroma::default();
        Ok(Chroma {
            coefficients: fill(known.coefficients, self.directory.floats(self.head, tag::YCBCR_COEFFICIENTS)?),
            reference: fill(known.reference, self.directory.floats(self.head, tag::REFERENCE_BLACK_WHITE)?),
        })
    }

    fn jpeg_tables(&self, compression: u16) -> Result<Option<Arc<[u8]>>> {
        /// Four tables of each kind, with room for comments.
        const MOST: u64 = 64 << 10;
        let Some(entry) = self.directory.get(tag::JPEG_TABLES).filter(|_| compression == 7) else { return Ok(None) };
        if entry.length() > MOST {
            return Err(Error::limit(self.head.name(), "bytes of JPEGTables", entry.length(), MOST));
        }
        Ok(Some(self.directory.values(self.head, entry, 0..entry.count)?.bytes.into()))
    }

    fn lerc(&self) -> Result<[u32; 2]> {
        let values = self.directory.first_numbers(self.head, tag::LERC_PARAMETERS, 2)?.unwrap_or_default();
        Ok([0, 1].map(|i| values.get(i).map_or(0, |&v| v as u32)))
    }

    fn predictor(&self, codec: &dyn Codec, format: &TileFormat) -> Result<Predictor> {
        // In files of other codecs the tag means nothing.
        if !codec.takes_predictor() {
            return Ok(Predictor::None);
        }
        match self.short(tag::PREDICTOR, 1)? {
            1 => Ok(Predictor::None),
            2 if matches!(format.bits, 8 | 16 | 32 | 64) => Ok(Predictor::Horizontal),
            2 => Err(self.unsupported(format!("predictor 2 with samples of {} bits", format.bits))),
            3 if format.kind == SampleKind::Float => Ok(Predictor::Float),
            3 => Err(self.unsupported(format!("predictor 3 with {:?} samples", format.kind))),
            other => Err(self.malformed(format!("Predictor is {other}"))),
        }
    }

    fn old_jpeg(&self, bands: u16, width: u32, height: u32) -> Result<OldJpeg> {
        OldJpeg::load(self.head, self.directory, bands, (width, height))
    }

    fn index(&self, tiled: bool) -> Result<TileIndex> {
        // The two pairs of tags mean the same, and some writers mix them up.
        let pick = |a, b| {
            let (a, b) = if tiled { (a, b) } else { (b, a) };
            self.directory.get(a).or_else(|| self.directory.get(b)).copied()
        };
        let offsets = pick(tag::TILE_OFFSETS, tag::STRIP_OFFSETS)
            .ok_or_else(|| self.malformed(if tiled { "TileOffsets is missing" } else { "StripOffsets is missing" }))?;
        let counts = pick(tag::TILE_BYTE_COUNTS, tag::STRIP_BYTE_COUNTS).filter(|e| e.count > 0);
        for entry in [Some(offsets), counts].into_iter().flatten() {
            if !entry.kind.is_integer() {
                return Err(self.malformed(format!("{} must hold integers", tag::name(entry.tag))));
            }
        }
        Ok(TileIndex {
            directory: self.directory.clone(),
            offsets,
            counts,
            pages: Mutex::default(),
            sorted: OnceLock::new(),
            huge: AtomicBool::new(false),
            promised: OnceLock::new(),
        })
    }
}

/// Elements of the tile arrays that are read at once.
const PAGE: u64 = 4096;

/// Parts of the tile arrays, by tag and number.
type Pages = HashMap<(u16, u64), Arc<[u64]>>;

/// The parts that somebody looked at last, one of each array: the next tile is mostly in the same.
type Looked = [LookedAt; 2];
type LookedAt = Option<((u16, u64), Arc<[u64]>)>;

/// Where the tiles of a level stand. The arrays stay in the file until a tile is asked for.
pub struct TileIndex {
    directory: Directory,
    offsets: Entry,
    counts: Option<Entry>,
    pages: Mutex<Pages>,
    /// Made where the file has no byte counts.
    sorted: OnceLock<Vec<u64>>,
    /// The arrays are too large to be read whole from far away.
    huge: AtomicBool,
    /// What the file promises of the order of its tiles, once that was asked.
    promised: OnceLock<bool>,
}

impl TileIndex {
    /// Bytes of a tile in the file; empty when it is not there (sparse).
    pub fn locate(&self, head: &Head, layout: &Layout, level: usize, tile: u64) -> Result<Range<u64>> {
        self.locate_next(head, layout, (level, tile), &mut Looked::default())
    }

    /// The same for one tile after the other.
    pub fn locator<'a>(
        &'a self,
        head: &'a Head,
        layout: &'a Layout,
        level: usize,
    ) -> impl FnMut(u64) -> Result<Range<u64>> + 'a {
        let mut looked = Looked::default();
        move |tile| self.locate_next(head, layout, (level, tile), &mut looked)
    }

    fn locate_next(
        &self,
        head: &Head,
        layout: &Layout,
        (level, tile): (usize, u64),
        looked: &mut Looked,
    ) -> Result<Range<u64>> {
        if looked[0].as_ref().is_none_or(|(key, _)| key.1 != tile / PAGE) {
            self.expect(head, tile / PAGE)?;
        }
        let [offsets, counts] = looked;
        let offset = self.element(head, &self.offsets, tile, offsets)?;
        let stated = match (self.promised_length(head, tile, offset)?, &self.counts) {
            (Some(length), _) => Some(length),
            (None, Some(entry)) => Some(self.element(head, entry, tile, counts)?),
            (None, None) => None,
        };
        if offset == 0 || (stated == Some(0) && !is_single_strip(layout)) {
            return Ok(0..0);
        }
        let length = self.length(head, layout, tile, offset, stated.unwrap_or(0))?;
        match offset.checked_add(length) {
            // No bytes would mean a tile that is not stored: a file cut right before its tile must not say that.
            Some(end) if length > 0 && end <= head.length() => Ok(offset..end),
            _ => Err(Error::Tile {
                name: head.name().clone(),
                level,
                row: (tile / u64::from(layout.across) % u64::from(layout.down)) as u32,
                col: (tile % u64::from(layout.across)) as u32,
                codec: layout.codec.name(),
                source: Cause::damaged(format!(
                    "{} bytes at byte {offset} are past the end of the file ({} bytes)",
                    length.max(1),
                    head.length()
                )),
            }),
        }
    }

    /// Where each request costs time, both arrays come with one: whole, or the pages of a tile where they are huge.
    fn expect(&self, head: &Head, number: u64) -> Result<()> {
        let loaded = |pages: &Pages| pages.contains_key(&(self.offsets.tag, number));
        if !head.source().distance().is_far() || loaded(&self.pages.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(());
        }
        let range = |entry: &Entry, from: u64, to: u64| {
            let at = |n: u64| entry.offset().saturating_add(n.saturating_mul(entry.kind.size() as u64));
            at(from)..at(to.min(entry.count))
        };
        let arrays = || [Some(&self.offsets), self.counts.as_ref()].into_iter().flatten();
        let outside = |entry: &&Entry| matches!(entry.place, Place::At(_));
        let whole: Vec<Range<u64>> = arrays().filter(outside).map(|entry| range(entry, 0, entry.count)).collect();
        if head.expect(&whole)? {
            return Ok(());
        }
        self.huge.store(true, Ordering::Relaxed);
        let page = |entry: &Entry| range(entry, number.saturating_mul(PAGE), (number + 1).saturating_mul(PAGE));
        let needed = if self.is_promised(head) { 1 } else { 2 };
        head.expect(&arrays().take(needed).filter(outside).map(page).collect::<Vec<_>>()).map(drop)
    }

    /// Whether a COG promises that tiles stand in order, with nothing between two of them but eight bytes: the last four of
    /// the one again, and the length of the other.
    fn is_promised(&self, head: &Head) -> bool {
        *self.promised.get_or_init(|| {
            let ghost = Ghost::read(head, self.directory.header()).ok().flatten();
            ghost.is_some_and(|ghost| {
                let ordered = ghost.row_major() && ghost.leaders() && ghost.trailers();
                ordered && !ghost.interleaved_masks() && !ghost.broken()
            })
        })
    }

    /// The length of a tile by the place of the next one. Where arrays are too large to be read whole from far away, that
    /// saves the request for the byte counts.
    fn promised_length(&self, head: &Head, tile: u64, offset: u64) -> Result<Option<u64>> {
        let next = tile.saturating_add(1);
        let known = !next.is_multiple_of(PAGE) && next < self.offsets.count && offset != 0;
        if !self.huge.load(Ordering::Relaxed) || !known || !self.is_promised(head) {
            return Ok(None);
        }
        let between = cog::LEADER + cog::TRAILER;
        let length = self.element(head, &self.offsets, next, &mut None)?.checked_sub(offset.saturating_add(between));
        Ok(length.filter(|&length| length > 0))
    }

    /// How many bytes to read. `stated` is 0 where the file does not say.
    fn length(&self, head: &Head, layout: &Layout, tile: u64, offset: u64, stated: u64) -> Result<u64> {
        let row = (tile / u64::from(layout.across) % u64::from(layout.down)) as u32;
        let needed = layout.decoded_bytes(layout.rows_in_tile(row));
        if layout.format.compression == 1 {
            // Uncompressed pixels tell their own length.
            let believed = stated != 0 && !is_single_strip(layout);
            return Ok(if believed { stated.min(needed) } else { needed });
        }
        let left = match stated {
            0 => self.next_offset(head, offset)?.unwrap_or(head.length()),
            _ => head.length(),
        };
        let left = left.saturating_sub(offset);
        // Some writers state more than there is; the codec knows where its data end, and says when they do not. The worst
        // code of a codec takes a few times the room of the pixels, so no more is ever read.
        let length = if stated == 0 { left } else { stated.min(left) };
        Ok(length.min(needed.saturating_mul(16).saturating_add(1 << 20)))
    }

    /// The smallest offset behind another one.
    fn next_offset(&self, head: &Head, offset: u64) -> Result<Option<u64>> {
        let sorted = self.sorted_offsets(head)?;
        Ok(sorted.get(sorted.partition_point(|&other| other <= offset)).copied())
    }

    /// All offsets in order, made once: searching them anew for every tile would take the square of their number.
    fn sorted_offsets(&self, head: &Head) -> Result<&[u64]> {
        if let Some(sorted) = self.sorted.get() {
            return Ok(sorted);
        }
        let (asked, allowed) = (self.offsets.count.saturating_mul(8), head.limits().value_bytes);
        if asked > allowed {
            return Err(Error::limit(head.name(), "bytes of offsets of tiles without byte counts", asked, allowed));
        }
        let mut sorted = Vec::new();
        for number in 0..self.offsets.count.div_ceil(PAGE) {
            sorted.extend_from_slice(&self.page(head, &self.offsets, number)?);
        }
        sorted.sort_unstable();
        Ok(self.sorted.get_or_init(|| sorted))
    }

    /// One element of a tile array.
    fn element(&self, head: &Head, entry: &Entry, tile: u64, looked: &mut LookedAt) -> Result<u64> {
        if tile >= entry.count {
            let what = format!("{} has {} values, tile {tile} has none", tag::name(entry.tag), entry.count);
            return Err(Error::malformed(head.name(), entry.offset(), what));
        }
        let key = (entry.tag, tile / PAGE);
        if let Some((_, page)) = looked.as_ref().filter(|(last, _)| *last == key) {
            return Ok(page[(tile % PAGE) as usize]);
        }
        let page = self.page(head, entry, key.1)?;
        let element = page[(tile % PAGE) as usize];
        *looked = Some((key, page));
        Ok(element)
    }

    fn page(&self, head: &Head, entry: &Entry, number: u64) -> Result<Arc<[u64]>> {
        let key = (entry.tag, number);
        // A poisoned lock only means that another thread panicked between two inserts: the pages are whole.
        if let Some(page) = self.pages.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(page.clone());
        }
        let elements = number * PAGE..((number + 1) * PAGE).min(entry.count);
        let array = self.directory.values(head, entry, elements)?;
        let page: Arc<[u64]> = array
            .unsigned()
            .ok_or_else(|| Error::malformed(head.name(), entry.offset(), "negative numbers in a tile array"))?
            .into();
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).insert(key, page.clone());
        Ok(page)
    }

    /// Offsets and byte counts of some tiles as the file states them. Nothing of it is kept, so that a pass over a
    /// huge index takes no memory.
    pub fn stated(&self, head: &Head, tiles: Range<u64>) -> Result<Vec<(u64, Option<u64>)>> {
        let column = |entry: &Entry| -> Result<Vec<u64>> {
            if tiles.end > entry.count || tiles.start > tiles.end {
                let what = format!("{} has {} values, not {}", tag::name(entry.tag), entry.count, tiles.end);
                return Err(Error::malformed(head.name(), entry.offset(), what));
            }
            let array = self.directory.values(head, entry, tiles.clone())?;
            array
                .unsigned()
                .ok_or_else(|| Error::malformed(head.name(), entry.offset(), "negative numbers in a tile array"))
        };
        let offsets = column(&self.offsets)?;
        Ok(match &self.counts {
            Some(counts) => offsets.into_iter().zip(column(counts)?.into_iter().map(Some)).collect(),
            None => offsets.into_iter().map(|offset| (offset, None)).collect(),
        })
    }

    /// Where the offset array stands in the file.
    pub fn offset(&self) -> u64 {
        self.offsets.offset()
    }

    /// Values in the array of byte counts; `None` where the file has none.
    pub fn byte_counts(&self) -> Option<u64> {
        self.counts.map(|entry| entry.count)
    }

    /// Values in the offset array.
    pub fn count(&self) -> u64 {
        self.offsets.count
    }
}

/// Old writers leave out or misstate the byte count of an image in one strip.
fn is_single_strip(layout: &Layout) -> bool {
    !layout.tiled && layout.tiles() == 1
}

impl OldJpeg {
    /// Loads the tags of old-style JPEG, tables with their bytes.
    fn load(head: &Head, directory: &Directory, bands: u16, image: (u32, u32)) -> Result<Self> {
        let tables = |tag: u16, fixed: Option<u64>| -> Result<Vec<Vec<u8>>> {
            let offsets = directory.numbers(head, tag)?.unwrap_or_default();
            offsets
                .into_iter()
                .take(usize::from(bands).min(4))
                .map(|at| match fixed {
                    Some(length) => head.bytes(at, length, "JPEG table"),
                    None => {
                        let counts = head.bytes(at, 16, "JPEG table")?;
                        let symbols = counts.iter().map(|&c| u64::from(c)).sum::<u64>();
                        head.bytes(at, 16 + symbols, "JPEG table")
                    }
                })
                .collect()
        };
        let interchange = match directory.number(head, tag::JPEG_INTERCHANGE)? {
            Some(at) if at > 0 && at < head.length() => {
                let left = head.length() - at;
                let length = directory.number(head, tag::JPEG_INTERCHANGE_LENGTH)?.unwrap_or(0);
                let length = if length == 0 { left } else { length.min(left) };
                Some(head.bytes(at, length, "JPEG interchange stream")?)
            }
            _ => None,
        };
        Ok(Self {
            interchange,
            q_tables: tables(tag::JPEG_Q_TABLES, Some(64))?,
            dc_tables: tables(tag::JPEG_DC_TABLES, None)?,
            ac_tables: tables(tag::JPEG_AC_TABLES, None)?,
            process: directory.number(head, tag::JPEG_PROC)?.unwrap_or(1) as u16,
            restart_interval: directory.number(head, tag::JPEG_RESTART_INTERVAL)?.unwrap_or(0) as u16,
            image,
            ..Self::default()
        })
    }
}
