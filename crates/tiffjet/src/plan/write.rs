//! What is written: the levels, how each is cut and stored, and the directories that say so.

use std::sync::Arc;

use crate::codec::{self, CODECS, Chroma, Codec, Plain, Settings, TileFormat, Unit};
use crate::dtype::{ByteOrder, DType, SampleKind};
use crate::error::{Error, Result};
use crate::layout::{Predictor, YCBCR};
use crate::tiff::{Field, FieldType, Nested, tag};
use crate::writer::{BigTiff, Blocks, Overviews, Prediction, WriteOptions};

use super::{Fallback, LevelPlan, OverviewPlan, Resampling};

/// PhotometricInterpretation.
const MIN_IS_BLACK: u16 = 1;
const RGB: u16 = 2;
const PALETTE: u16 = 3;
const TRANSPARENCY_MASK: u16 = 4;
const LOG_LUV: u16 = 32845;

/// Pixels of a strip whose height is not given, in bytes.
const STRIP: u64 = 256 << 10;
/// The largest tile: readers refuse larger ones.
const LARGEST_TILE: u64 = 1 << 30;
/// The most tiles of one level: what is kept of each must fit into memory, and GDAL reads no more.
const MOST_TILES: u64 = 1 << 28;
/// Codecs that take a quality.
const GRADED: [&str; 3] = ["jpeg", "jpeg2000", "webp"];

/// All that must happen to write an image.
#[derive(Debug, Clone)]
pub struct WritePlan {
    /// Full size first, then ever smaller.
    pub levels: Vec<LevelPlan>,
    /// The masks of all levels, or none.
    pub masks: Vec<LevelPlan>,
    /// How level `i + 1` is made from level `i`.
    pub overviews: Vec<OverviewPlan>,
    /// Cloud-optimised order.
    pub cog: bool,
    /// 64-bit offsets.
    pub big: BigTiff,
    /// Written instead of NaN.
    pub nan: Option<Vec<u8>>,
    /// Bytes that the writer may use; as the backend sees fit where it is not said.
    pub memory: Option<u64>,
    /// Whether another route than the backend's own will do.
    pub fallback: Fallback,
    /// Fields of the first directory alone.
    carried: Vec<Field>,
    /// Fields of every level.
    shared: Vec<Field>,
    nested: Vec<Nested>,
    extra_samples: Vec<u16>,
}

impl WritePlan {
    /// Checks what the user chose.
    pub fn new(name: &Arc<str>, options: &WriteOptions) -> Result<Self> {
        Planner { name, options }.plan()
    }

    /// Level `level`, or its mask.
    pub fn image(&self, level: usize, mask: bool) -> Option<&LevelPlan> {
        if mask { self.masks.get(level) } else { self.levels.get(level) }
    }

    /// Level and mask of every directory in the order of the file: GDAL looks for the mask right behind the image, and
    /// for those of the overviews behind all of these.
    pub fn directories(&self) -> Vec<(usize, bool)> {
        let overviews = 1..self.levels.len();
        let masked = !self.masks.is_empty();
        let mut order = vec![(0, false)];
        order.extend(masked.then_some((0, true)));
        order.extend(overviews.clone().map(|level| (level, false)));
        order.extend(overviews.filter(|_| masked).map(|level| (level, true)));
        order
    }

    /// Whether the tile of the mask stands right behind each tile of the image.
    pub fn mask_follows(&self) -> bool {
        self.cog && !self.masks.is_empty() && !self.levels[0].planar
    }

    /// Directories that the first one points to.
    pub fn nested(&self) -> &[Nested] {
        &self.nested
    }

    /// No file of this plan has more bytes of tiles.
    pub fn largest(&self) -> u64 {
        self.levels.iter().chain(&self.masks).fold(0, |sum, level| sum.saturating_add(level.largest()))
    }

    /// The fields of a directory but for the tile arrays, by tag.
    pub fn fields(&self, level: usize, mask: bool) -> Vec<Field> {
        let Some(plan) = self.image(level, mask) else { return Vec::new() };
        let format = &plan.format;
        let bands = usize::from(plan.bands);
        let mut fields = vec![
            Field::number(tag::IMAGE_WIDTH, plan.width),
            Field::number(tag::IMAGE_LENGTH, plan.height),
            Field::shorts(tag::BITS_PER_SAMPLE, &vec![format.bits; bands]),
            Field::shorts(tag::COMPRESSION, &[format.compression]),
            Field::shorts(tag::PHOTOMETRIC, &[format.photometric]),
            Field::shorts(tag::SAMPLES_PER_PIXEL, &[plan.bands]),
            Field::shorts(tag::PLANAR_CONFIGURATION, &[if plan.planar { 2 } else { 1 }]),
            Field::shorts(tag::SAMPLE_FORMAT, &vec![sample_format(format.kind); bands]),
        ];
        let subfile = u32::from(level > 0) | if mask { 4 } else { 0 };
        if subfile != 0 {
            fields.push(Field::longs(tag::NEW_SUBFILE_TYPE, &[subfile]));
        }
        if plan.tiled {
            fields.push(Field::number(tag::TILE_WIDTH, format.width));
            fields.push(Field::number(tag::TILE_LENGTH, format.height));
        } else {
            fields.push(Field::number(tag::ROWS_PER_STRIP, format.height));
        }
        if plan.predictor != Predictor::None {
            fields.push(Field::shorts(tag::PREDICTOR, &[plan.predictor.code()]));
        }
        fields.extend(codec_fields(format).into_iter().filter(|f| mask || self.shared.iter().all(|s| s.tag != f.tag)));
        if !mask {
            if !self.extra_samples.is_empty() {
                fields.push(Field::shorts(tag::EXTRA_SAMPLES, &self.extra_samples));
            }
            fields.extend(self.shared.iter().cloned());
            if level == 0 {
                fields.extend(self.carried.iter().cloned());
            }
        }
        fields.sort_by_key(|f| f.tag);
        fields
    }
}

/// What readers of some codecs need to know.
fn codec_fields(format: &TileFormat) -> Vec<Field> {
    let mut fields = Vec::new();
    if let Some(tables) = &format.jpeg_tables {
        fields.push(Field::new(tag::JPEG_TABLES, FieldType::Undefined, tables.to_vec()));
    }
    if format.photometric == YCBCR {
        let (h, v) = format.subsampling;
        fields.push(Field::shorts(tag::YCBCR_SUBSAMPLING, &[u16::from(h), u16::from(v)]));
        let reference = format.chroma.reference.map(|v| (v as u32, 1));
        fields.push(Field::rationals(tag::REFERENCE_BLACK_WHITE, &reference));
    }
    if format.compression == LERC {
        fields.push(Field::longs(tag::LERC_PARAMETERS, &format.lerc));
    }
    fields
}

const JPEG: u16 = 7;
const LERC: u16 = 34887;
/// What `LercParameters` says of the blobs written here.
const LERC_VERSION: u32 = 4;

/// TIFF tag 339.
fn sample_format(kind: SampleKind) -> u16 {
    match kind {
        SampleKind::Unsigned => 1,
        SampleKind::Signed => 2,
        SampleKind::Float => 3,
        SampleKind::ComplexInt => 5,
        SampleKind::ComplexFloat => 6,
    }
}

struct Planner<'a> {
    name: &'a Arc<str>,
    options: &'a WriteOptions,
}

impl Planner<'_> {
    fn invalid(&self, what: impl Into<String>) -> Error {
        Error::invalid(self.name, what)
    }

    fn plan(self) -> Result<WritePlan> {
        let options = self.options;
        let (bands, height, width) = self.shape()?;
        let (codec, lerc) = self.codec(&options.compression)?;
        self.heeded(codec)?;
        let bits = self.bits(codec)?;
        let extra_samples = self.extra_samples(bands)?;
        let nodata = self.nodata()?;
        let planar = options.planar && bands > 1;
        let mut format = TileFormat {
            compression: codec.compression()[0],
            width: 0,
            height: 0,
            samples: if planar { 1 } else { bands },
            bits,
            kind: options.dtype.kind(),
            dtype: options.dtype,
            order: ByteOrder::NATIVE,
            photometric: self.photometric(bands)?,
            subsampling: (1, 1),
            chroma: Chroma::default(),
            fax_options: 0,
            jpeg_tables: None,
            lerc: [LERC_VERSION, lerc],
            old_jpeg: None,
        };
        self.jpeg_colours(&mut format);
        codec.prepare(&mut format, &options.settings).map_err(|cause| self.refused(codec, &cause))?;
        let base = LevelPlan {
            level: 0,
            mask: false,
            width,
            height,
            bands,
            tiled: false,
            across: 0,
            down: 0,
            planar,
            predictor: self.predictor(codec, &format)?,
            format,
            codec,
            settings: options.settings.clone(),
            absent: options.sparse.then(|| nodata.clone().unwrap_or_else(|| vec![0; options.dtype.size()])),
        };
        let sizes = self.sizes(width, height)?;
        let levels = sizes.iter().enumerate().map(|(i, &size)| self.cut(&base, i, size)).collect::<Result<Vec<_>>>()?;
        let mask = self.mask(&base)?;
        let masks = match mask {
            Some(mask) => sizes.iter().enumerate().map(|(i, &size)| self.cut(&mask, i, size)).collect::<Result<_>>()?,
            None => Vec::new(),
        };
        self.probe(&levels[0])?;
        let resampling = options.resampling.unwrap_or(match options.colour_map.is_some() || bits == 1 {
            true => Resampling::Nearest,
            false => Resampling::Average,
        });
        let overviews = sizes
            .windows(2)
            .map(|pair| OverviewPlan {
                from: pair[0],
                to: pair[1],
                bands: usize::from(bands),
                dtype: options.dtype,
                bits,
                resampling,
                nodata: nodata.clone(),
                mask: options.mask,
                palette: options.colour_map.is_some(),
            })
            .collect();
        if options.nan_to_nodata && nodata.is_none() {
            return Err(self.invalid("nan_to_nodata needs a nodata value"));
        }
        Ok(WritePlan {
            levels,
            masks,
            overviews,
            cog: options.cog,
            big: options.big,
            nan: nodata.filter(|_| options.nan_to_nodata && options.dtype.is_float() && !options.dtype.is_complex()),
            memory: options.memory,
            fallback: options.fallback,
            carried: self.carried()?,
            shared: self.shared(bits)?,
            nested: self.nested()?,
            extra_samples,
        })
    }

    fn shape(&self) -> Result<(u16, u32, u32)> {
        let [bands, height, width] = self.options.shape;
        let bad = || self.invalid(format!("an image of {bands} bands, {height} rows and {width} columns"));
        let size = |n: usize| u32::try_from(n).ok().filter(|&n| n > 0 && n <= i32::MAX as u32).ok_or_else(bad);
        let bands = u16::try_from(bands).ok().filter(|&n| n > 0).ok_or_else(bad)?;
        Ok((bands, size(height)?, size(width)?))
    }

    /// The codec of a name, and what LERC's blobs are wrapped in.
    fn codec(&self, name: &str) -> Result<(&'static dyn Codec, u32)> {
        let (name, lerc) = match name {
            "lerc_deflate" => ("lerc", 1),
            "lerc_zstd" => ("lerc", 2),
            name => (name, 0),
        };
        let found = CODECS.iter().copied().find(|c| c.name() == name);
        let codec = found.ok_or_else(|| {
            let names: Vec<&str> = CODECS.iter().filter(|codec| codec::writes(**codec)).map(|c| c.name()).collect();
            self.invalid(format!("no codec is named {name}; those that write are {}", names.join(", ")))
        })?;
        Ok((codec, lerc))
    }

    /// A setting that the codec would not heed is a mistake, and no file should be made of it.
    fn heeded(&self, codec: &dyn Codec) -> Result<()> {
        let (name, settings) = (codec.name(), &self.options.settings);
        match settings.quality {
            Some(quality) if !GRADED.contains(&name) => {
                Err(self.invalid(format!("quality {quality} with {name}: it is for {}", GRADED.join(", "))))
            }
            _ if settings.max_z_error != 0.0 && name != "lerc" => {
                Err(self.invalid(format!("a max_z_error with {name}: it is for lerc")))
            }
            _ => Ok(()),
        }
    }

    fn bits(&self, codec: &dyn Codec) -> Result<u16> {
        let dtype = self.options.dtype;
        let whole = dtype.size() as u16 * 8;
        let Some(bits) = self.options.bits.filter(|&bits| bits != whole) else { return Ok(whole) };
        // A reader takes the smallest type that holds the bits.
        let fits = bits < whole && (whole == 8 || bits > whole / 2) && bits > 0;
        let integer = matches!(dtype.kind(), SampleKind::Unsigned | SampleKind::Signed);
        if !fits || !integer || codec.unit() == Unit::Samples {
            return Err(self.invalid(format!("{bits} bits for {dtype} samples with {}", codec.name())));
        }
        Ok(bits)
    }

    fn photometric(&self, bands: u16) -> Result<u16> {
        let options = self.options;
        if options.colour_map.is_some() {
            if !matches!(options.dtype, DType::UInt8 | DType::UInt16) {
                return Err(self.invalid("a colour map is for values of uint8 or uint16"));
            }
            // Some files have a colour map beside another meaning of the values; GDAL goes by the map.
            return Ok(options.photometric.filter(|&p| p <= MIN_IS_BLACK).unwrap_or(PALETTE));
        }
        match options.photometric {
            Some(PALETTE) => Err(self.invalid("photometric 3 needs a colour map")),
            Some(photometric) if colours(photometric) > bands => {
                Err(self.invalid(format!("photometric {photometric} with {bands} bands")))
            }
            Some(photometric) => Ok(photometric),
            None if options.dtype == DType::UInt8 && matches!(bands, 3 | 4) => Ok(RGB),
            None => Ok(MIN_IS_BLACK),
        }
    }

    fn extra_samples(&self, bands: u16) -> Result<Vec<u16>> {
        let photometric = self.photometric(bands)?;
        let due = usize::from(bands - colours(photometric));
        match &self.options.extra_samples {
            Some(given) if given.len() == due => Ok(given.clone()),
            Some(given) => Err(self.invalid(format!("{} extra samples where {due} are due", given.len()))),
            // The fourth of red, green and blue is alpha; what others mean nobody knows.
            None if photometric == RGB && due == 1 => Ok(vec![2]),
            None => Ok(vec![0; due]),
        }
    }

    /// JPEG keeps colours as luminance and chrominance, the latter at half the size, unless told otherwise.
    fn jpeg_colours(&self, format: &mut TileFormat) {
        let chosen = self.options.photometric.is_none() && format.photometric == RGB;
        if format.compression == JPEG && format.samples == 3 && chosen {
            format.photometric = YCBCR;
        }
        if format.compression == JPEG && format.photometric == YCBCR {
            format.subsampling = (2, 2);
        }
    }

    fn nodata(&self) -> Result<Option<Vec<u8>>> {
        let dtype = self.options.dtype;
        let Some(nodata) = self.options.nodata else { return Ok(None) };
        let bytes = nodata.bytes(dtype);
        bytes.map(Some).ok_or_else(|| self.invalid(format!("{dtype} can't hold the nodata value {nodata:?}")))
    }

    fn predictor(&self, codec: &dyn Codec, format: &TileFormat) -> Result<Predictor> {
        let takes = codec.takes_predictor();
        // Readers disagree on what the neighbour of half a complex number is.
        let horizontal = takes && matches!(format.bits, 8 | 16 | 32 | 64) && !format.dtype.is_complex();
        let float = takes && format.kind == SampleKind::Float;
        let refuse = |what| {
            Err(self.invalid(format!(
                "predictor {what} for {} samples of {} bits with {}",
                format.dtype,
                format.bits,
                codec.name()
            )))
        };
        match self.options.predictor {
            Prediction::Auto if float => Ok(Predictor::Float),
            Prediction::Auto if horizontal => Ok(Predictor::Horizontal),
            Prediction::Auto | Prediction::None => Ok(Predictor::None),
            Prediction::Horizontal if horizontal => Ok(Predictor::Horizontal),
            Prediction::Float if float => Ok(Predictor::Float),
            Prediction::Horizontal => refuse(2),
            Prediction::Float => refuse(3),
        }
    }

    /// Columns and rows of all levels.
    fn sizes(&self, width: u32, height: u32) -> Result<Vec<(u32, u32)>> {
        let mut sizes = vec![(width, height)];
        match &self.options.overviews {
            Overviews::Auto if self.options.cog => {
                let (tile_width, tile_height) = self.blocks(width, height)?;
                let (mut w, mut h) = (width, height);
                while w > tile_width || h > tile_height {
                    (w, h) = ((w / 2).max(1), (h / 2).max(1));
                    sizes.push((w, h));
                }
            }
            Overviews::Auto | Overviews::None => {}
            Overviews::Factors(factors) => {
                if !factors.is_sorted_by(|a, b| a < b) || factors.first().is_some_and(|&f| f < 2) {
                    return Err(self.invalid(format!("overviews {factors:?}: they begin at 2 and grow")));
                }
                sizes.extend(factors.iter().map(|&f| (width.div_ceil(f), height.div_ceil(f))));
                // Two levels of one size could not be told apart.
                sizes.dedup();
            }
        }
        Ok(sizes)
    }

    /// Columns and rows of a tile of a level of that size.
    fn blocks(&self, width: u32, height: u32) -> Result<(u32, u32)> {
        match self.options.blocks {
            Blocks::Tiles { width, height } => {
                let good = |n: u32| n > 0 && n.is_multiple_of(16);
                if !good(width) || !good(height) {
                    return Err(self.invalid(format!("tiles of {width} x {height}: 16 must divide both")));
                }
                Ok((width, height))
            }
            Blocks::Strips { .. } if self.options.cog => Err(self.invalid("a COG has tiles, not strips")),
            Blocks::Strips { rows: Some(0) } => Err(self.invalid("strips of 0 rows")),
            Blocks::Strips { rows: Some(rows) } => Ok((width, rows.min(height))),
            Blocks::Strips { rows: None } => {
                let bands = if self.options.planar { 1 } else { self.options.shape[0] as u64 };
                let row = u64::from(width).saturating_mul(bands).saturating_mul(self.options.dtype.size() as u64);
                let rows = u32::try_from((STRIP / row.max(1)).max(1)).unwrap_or(u32::MAX);
                Ok((width, rows.min(height)))
            }
        }
    }

    /// An image of some size, cut into tiles.
    fn cut(&self, base: &LevelPlan, level: usize, (width, height): (u32, u32)) -> Result<LevelPlan> {
        let (tile_width, tile_height) = self.blocks(width, height)?;
        let mut plan = base.clone();
        plan.level = level;
        (plan.width, plan.height) = (width, height);
        plan.tiled = matches!(self.options.blocks, Blocks::Tiles { .. });
        (plan.format.width, plan.format.height) = (tile_width, tile_height);
        (plan.across, plan.down) = (width.div_ceil(tile_width), height.div_ceil(tile_height));
        let sample = u64::from(plan.format.samples) * plan.format.dtype.size() as u64;
        let tile = u64::from(tile_width).saturating_mul(u64::from(tile_height)).saturating_mul(sample);
        if tile > LARGEST_TILE {
            return Err(self.invalid(format!("tiles of {tile} bytes: {LARGEST_TILE} is the most")));
        }
        if plan.tiles() > MOST_TILES {
            return Err(self.invalid(format!("{} tiles: {MOST_TILES} are the most, choose larger ones", plan.tiles())));
        }
        Ok(plan)
    }

    /// The mask of the full size before it is cut. Codecs of pictures can't hold single bits.
    fn mask(&self, base: &LevelPlan) -> Result<Option<LevelPlan>> {
        if !self.options.mask {
            return Ok(None);
        }
        let own = base.codec.unit() == Unit::Bytes;
        let codec = if own { base.codec } else { self.codec("deflate")?.0 };
        let mut plan = base.clone();
        plan.mask = true;
        plan.bands = 1;
        plan.planar = false;
        plan.predictor = Predictor::None;
        plan.codec = codec;
        plan.settings = if own { base.settings.clone() } else { Settings::default() };
        plan.absent = base.absent.as_ref().map(|_| vec![0]);
        plan.format = TileFormat {
            compression: codec.compression()[0],
            samples: 1,
            bits: 1,
            kind: SampleKind::Unsigned,
            dtype: DType::UInt8,
            photometric: TRANSPARENCY_MASK,
            subsampling: (1, 1),
            jpeg_tables: None,
            ..plan.format
        };
        Ok(Some(plan))
    }

    /// Encodes a small tile of zeros, so that what the codec refuses is refused before anything is written.
    fn probe(&self, plan: &LevelPlan) -> Result<()> {
        let mut small = plan.clone();
        small.format.width = small.format.width.min(16);
        small.format.height = small.format.height.min(16);
        let rows = small.format.height;
        let bytes = vec![0; small.plain_bytes(rows) as usize];
        let plain = Plain { bytes: &bytes, rows, format: &small.format, settings: &small.settings };
        small.codec.encode(&plain, &mut Vec::new()).map_err(|cause| self.refused(plan.codec, &cause))
    }

    fn refused(&self, codec: &dyn Codec, cause: &codec::Cause) -> Error {
        self.invalid(format!("{}: {cause}", codec.name()))
    }

    /// Fields of the first directory.
    fn carried(&self) -> Result<Vec<Field>> {
        let geo = &self.options.geo;
        let doubles = [
            (tag::MODEL_PIXEL_SCALE, &geo.pixel_scale),
            (tag::MODEL_TIEPOINT, &geo.tiepoints),
            (tag::MODEL_TRANSFORMATION, &geo.transformation),
            (tag::GEO_DOUBLE_PARAMS, &geo.double_params),
            (tag::RPC_COEFFICIENTS, &geo.rpc),
        ];
        let mut fields = Vec::new();
        for (tag, values) in doubles.into_iter().filter(|(_, values)| !values.is_empty()) {
            fields.push(Field::doubles(tag, values));
        }
        if !geo.key_directory.is_empty() {
            fields.push(Field::shorts(tag::GEO_KEY_DIRECTORY, &geo.key_directory));
        }
        if !geo.ascii_params.is_empty() {
            let mut bytes = geo.ascii_params.clone();
            if bytes.last() != Some(&0) {
                bytes.push(0);
            }
            fields.push(Field::new(tag::GEO_ASCII_PARAMS, FieldType::Ascii, bytes));
        }
        if let Some(metadata) = &geo.gdal_metadata {
            fields.push(Field::text(tag::GDAL_METADATA, metadata));
        }
        for field in self.options.tags.iter().filter(|f| !is_shared(f.tag)) {
            self.carry(field, &mut fields)?;
        }
        Ok(fields)
    }

    fn carry(&self, field: &Field, fields: &mut Vec<Field>) -> Result<()> {
        if !WriteOptions::carries(field.tag) {
            let name = tag::name(field.tag);
            return Err(self.invalid(format!("tag {} ({name}) is set by the writer", field.tag)));
        }
        self.put(field, fields)
    }

    /// Takes a field that could stand in any directory.
    fn put(&self, field: &Field, fields: &mut Vec<Field>) -> Result<()> {
        let refuse = |why: &str| Err(self.invalid(format!("tag {} ({}) {why}", field.tag, tag::name(field.tag))));
        if fields.iter().any(|f| f.tag == field.tag) {
            return refuse("is given twice");
        }
        if field.bytes.is_empty() || !field.bytes.len().is_multiple_of(field.kind.size()) {
            return refuse("has no whole number of values");
        }
        if matches!(field.kind, FieldType::Ifd | FieldType::Ifd8) {
            return refuse("points into another file");
        }
        let eight = matches!(field.kind, FieldType::Long8 | FieldType::SLong8);
        if eight && self.options.big != BigTiff::Yes {
            return refuse("has 64-bit values, which need a BigTIFF");
        }
        fields.push(field.clone());
        Ok(())
    }

    /// Directories that the first one points to.
    fn nested(&self) -> Result<Vec<Nested>> {
        let mut done: Vec<Nested> = Vec::new();
        for Nested { tag, fields: given } in self.options.nested.iter().filter(|nested| !nested.fields.is_empty()) {
            if !matches!(*tag, tag::EXIF | tag::GPS) || done.iter().any(|nested| nested.tag == *tag) {
                return Err(self.invalid(format!("a directory at tag {tag} ({})", tag::name(*tag))));
            }
            let mut fields = Vec::with_capacity(given.len());
            given.iter().try_for_each(|field| self.put(field, &mut fields))?;
            fields.sort_by_key(|f| f.tag);
            done.push(Nested { tag: *tag, fields });
        }
        Ok(done)
    }

    /// Fields of every level.
    fn shared(&self, bits: u16) -> Result<Vec<Field>> {
        let options = self.options;
        let mut fields = Vec::new();
        for field in options.tags.iter().filter(|f| is_shared(f.tag)) {
            self.carry(field, &mut fields)?;
        }
        if let Some(map) = &options.colour_map {
            let due = 3usize << bits;
            if map.len() != due {
                return Err(self.invalid(format!("a colour map of {} values where {due} are due", map.len())));
            }
            fields.push(Field::shorts(tag::COLOR_MAP, map));
        }
        let text = options.nodata.map(|n| n.text(options.dtype)).or_else(|| options.geo.gdal_nodata.clone());
        fields.extend(text.map(|text| Field::text(tag::GDAL_NODATA, &text)));
        Ok(fields)
    }
}

/// Fields of other files that say what pixels mean, those of overviews too.
fn is_shared(tag: u16) -> bool {
    matches!(tag, tag::YCBCR_COEFFICIENTS | tag::REFERENCE_BLACK_WHITE)
}

/// Samples that a PhotometricInterpretation needs.
fn colours(photometric: u16) -> u16 {
    match photometric {
        RGB | YCBCR | 8 | 9 | 10 | LOG_LUV => 3,
        5 => 4,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::Nodata;

    fn plan(change: impl FnOnce(&mut WriteOptions)) -> Result<WritePlan> {
        let mut options = WriteOptions::new([1, 600, 700], DType::UInt8);
        options.blocks = Blocks::Tiles { width: 256, height: 256 };
        change(&mut options);
        WritePlan::new(&"test".into(), &options)
    }

    fn sizes(plan: &WritePlan) -> Vec<(u32, u32)> {
        plan.levels.iter().map(|l| (l.width, l.height)).collect()
    }

    #[test]
    fn overviews_halve_until_one_tile_holds_them() {
        let cog = plan(|o| o.cog = true).unwrap();
        assert_eq!(sizes(&cog), [(700, 600), (350, 300), (175, 150)]);
        let odd = plan(|o| {
            o.shape = [1, 3, 1111];
            o.cog = true;
        });
        assert_eq!(sizes(&odd.unwrap()), [(1111, 3), (555, 1), (277, 1), (138, 1)]);
        assert_eq!(sizes(&plan(|_| ()).unwrap()), [(700, 600)]);
        let listed = plan(|o| o.overviews = Overviews::Factors(vec![3, 10, 1000, 2000])).unwrap();
        assert_eq!(sizes(&listed), [(700, 600), (234, 200), (70, 60), (1, 1)]);
    }

    #[test]
    fn overviews_are_averages_of_what_can_be_averaged() {
        let resampling = |change: fn(&mut WriteOptions)| {
            let cog = plan(|o| {
                (o.cog, o.dtype) = (true, DType::UInt8);
                change(o);
            });
            cog.unwrap().overviews[0].resampling
        };
        assert_eq!(resampling(|_| ()), Resampling::Average);
        assert_eq!(resampling(|o| o.bits = Some(1)), Resampling::Nearest);
        assert_eq!(resampling(|o| (o.shape[0], o.colour_map) = (1, Some(vec![0; 768]))), Resampling::Nearest);
        assert_eq!(resampling(|o| (o.bits, o.resampling) = (Some(1), Some(Resampling::Mode))), Resampling::Mode);
    }

    #[test]
    fn directories_stand_as_gdal_expects_them() {
        let masked = plan(|o| {
            o.cog = true;
            o.mask = true;
        })
        .unwrap();
        assert_eq!(masked.directories(), [(0, false), (0, true), (1, false), (2, false), (1, true), (2, true)]);
        let tags: Vec<u16> = masked.fields(1, true).iter().map(|f| f.tag).collect();
        assert!(tags.is_sorted() && tags[0] == tag::NEW_SUBFILE_TYPE);
    }

    #[test]
    fn predictors_follow_the_samples() {
        let of = |dtype, name: &str| {
            let plan = plan(|o| {
                o.dtype = dtype;
                o.compression = name.into();
            });
            plan.unwrap().levels[0].predictor
        };
        assert_eq!(of(DType::Float32, "deflate"), Predictor::Float);
        assert_eq!(of(DType::Int16, "lzw"), Predictor::Horizontal);
        assert_eq!(of(DType::Complex64, "zstd"), Predictor::None);
        assert_eq!(of(DType::Int16, "packbits"), Predictor::None);
    }

    #[test]
    fn nonsense_is_refused_before_anything_is_written() {
        type Change = fn(&mut WriteOptions);
        let cases: [(&str, Change); 19] = [
            ("16 must divide", |o| o.blocks = Blocks::Tiles { width: 17, height: 16 }),
            ("the most, choose", |o| o.shape = [1, 1 << 30, 1 << 30]),
            ("1073741824 is the most", |o| o.blocks = Blocks::Tiles { width: 1 << 16, height: 1 << 16 }),
            ("strips of 0", |o| o.blocks = Blocks::Strips { rows: Some(0) }),
            ("not strips", |o| {
                o.cog = true;
                o.blocks = Blocks::Strips { rows: None };
            }),
            ("no codec is named", |o| o.compression = "zip".into()),
            ("deflate level 13", |o| {
                o.compression = "deflate".into();
                o.settings.level = Some(13);
            }),
            ("quality 50 with zstd", |o| o.settings.quality = Some(50)),
            ("it is for lerc", |o| o.settings.max_z_error = 0.1),
            ("can't hold", |o| o.nodata = Some(Nodata::Float(300.0))),
            ("nodata value", |o| o.nan_to_nodata = true),
            ("predictor 2", |o| {
                o.dtype = DType::Complex64;
                o.predictor = Prediction::Horizontal;
            }),
            ("predictor 3", |o| o.predictor = Prediction::Float),
            ("grow", |o| o.overviews = Overviews::Factors(vec![4, 2])),
            ("0 bands", |o| o.shape[0] = 0),
            ("colour map of 2", |o| o.colour_map = Some(vec![0; 2])),
            ("extra samples", |o| o.extra_samples = Some(vec![1])),
            ("set by the writer", |o| o.tags.push(Field::shorts(tag::COMPRESSION, &[1]))),
            ("9 bits", |o| o.bits = Some(9)),
        ];
        for (what, change) in cases {
            let error = plan(change).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
