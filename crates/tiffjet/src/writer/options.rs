//! What the user may choose.

use crate::codec::Settings;
use crate::dtype::DType;
use crate::geo::{GeoTags, Nodata};
use crate::plan::{Fallback, Resampling};
use crate::tiff::{Field, Nested, tag};

/// How an image is written. [`WriteOptions::new`] gives a tiled, ZSTD-compressed GeoTIFF.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// Bands, rows and columns.
    pub shape: [usize; 3],
    /// Type of a value.
    pub dtype: DType,
    /// Bits of a sample in the file, where they are fewer than the type has; values that need more become the
    /// nearest that fits.
    pub bits: Option<u16>,
    /// Name of the codec; `lerc_deflate` and `lerc_zstd` too.
    pub compression: String,
    /// What the codec can be told.
    pub settings: Settings,
    /// What is done before compressing.
    pub predictor: Prediction,
    /// Tiles or strips.
    pub blocks: Blocks,
    /// Each band in tiles of its own.
    pub planar: bool,
    /// 64-bit offsets.
    pub big: BigTiff,
    /// Cloud-optimised order, with overviews.
    pub cog: bool,
    /// Which overviews.
    pub overviews: Overviews,
    /// How they are made; where it is not given by averaging, but nearest where the values are indices of a colour map
    /// or single bits.
    pub resampling: Option<Resampling>,
    /// The value that stands for no data.
    pub nodata: Option<Nodata>,
    /// Writes the nodata value where a pixel is NaN. The caller's pixels stay as they are.
    pub nan_to_nodata: bool,
    /// Leaves out tiles that hold nothing but nodata, or zeros where there is no such value.
    pub sparse: bool,
    /// Every row comes with a mask, which is kept with one bit a pixel.
    pub mask: bool,
    /// PhotometricInterpretation; as GDAL would choose where it is not given.
    pub photometric: Option<u16>,
    /// ExtraSamples; as GDAL would choose where they are not given.
    pub extra_samples: Option<Vec<u16>>,
    /// ColorMap: all red, then all green, then all blue, 16 bits each.
    pub colour_map: Option<Vec<u16>>,
    /// Where the image lies, and GDAL's metadata; the text of nodata in it counts where `nodata` says nothing.
    pub geo: GeoTags,
    /// Other fields of the directory: those that [`WriteOptions::carries`] tells.
    pub tags: Vec<Field>,
    /// Directories of facts that the first one points to: EXIF and GPS.
    pub nested: Vec<Nested>,
    /// Bytes that the writer may use, of the host and of a device each; as the backend sees fit where it is not given.
    /// It needs one row of tiles of each level whatever this says.
    pub memory: Option<u64>,
    /// Whether tiles may be encoded by another route than the backend's own.
    pub fallback: Fallback,
}

impl WriteOptions {
    /// The defaults for an image of bands, rows and columns.
    pub fn new(shape: [usize; 3], dtype: DType) -> Self {
        Self {
            shape,
            dtype,
            bits: None,
            compression: "zstd".into(),
            settings: Settings::default(),
            predictor: Prediction::Auto,
            blocks: Blocks::Tiles { width: 512, height: 512 },
            planar: false,
            big: BigTiff::Auto,
            cog: false,
            overviews: Overviews::Auto,
            resampling: None,
            nodata: None,
            nan_to_nodata: false,
            sparse: false,
            mask: false,
            photometric: None,
            extra_samples: None,
            colour_map: None,
            geo: GeoTags::default(),
            tags: Vec::new(),
            nested: Vec::new(),
            memory: None,
            fallback: Fallback::default(),
        }
    }

    /// Whether a field of another file can be carried over in `tags`: those that the writer sets itself can't.
    pub fn carries(tag: u16) -> bool {
        !matches!(
            tag,
            tag::NEW_SUBFILE_TYPE..=tag::COMPRESSION
                | tag::PHOTOMETRIC
                | tag::FILL_ORDER
                | tag::STRIP_OFFSETS
                | tag::SAMPLES_PER_PIXEL..=tag::STRIP_BYTE_COUNTS
                | tag::PLANAR_CONFIGURATION
                | tag::T4_OPTIONS
                | tag::T6_OPTIONS
                | tag::PREDICTOR
                | tag::COLOR_MAP
                | tag::TILE_WIDTH..=tag::TILE_BYTE_COUNTS
                | tag::SUB_IFDS
                | tag::EXTRA_SAMPLES
                | tag::SAMPLE_FORMAT
                | tag::JPEG_TABLES
                | tag::JPEG_PROC..=tag::JPEG_AC_TABLES
                | tag::YCBCR_SUBSAMPLING
                | tag::YCBCR_POSITIONING
                | tag::MODEL_PIXEL_SCALE
                | tag::MODEL_TIEPOINT
                | tag::MODEL_TRANSFORMATION
                | tag::GEO_KEY_DIRECTORY..=tag::GEO_ASCII_PARAMS
                | tag::GDAL_METADATA
                | tag::GDAL_NODATA
                | tag::LERC_PARAMETERS
                | tag::RPC_COEFFICIENTS
                | tag::EXIF
                | tag::GPS
        )
    }
}

/// What is done before compressing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prediction {
    /// Byte planes for floating point, differences for integers, nothing where the codec or the samples don't allow
    /// either.
    Auto,
    /// Nothing.
    None,
    /// Predictor 2.
    Horizontal,
    /// Predictor 3.
    Float,
}

/// How the image is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Blocks {
    /// Sizes that 16 divides.
    Tiles { width: u32, height: u32 },
    /// As wide as the image; about 256 KiB each where the number of rows is not given.
    Strips { rows: Option<u32> },
}

/// Whether the file has 64-bit offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BigTiff {
    /// Where it could grow past 4 GiB. The size of a COG is known when it is laid out, so there it is exact; of any
    /// other file the largest size that the codec could make counts.
    Auto,
    /// Always.
    Yes,
    /// Never: a file that grows past 4 GiB is an error.
    No,
}

/// Which overviews.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Overviews {
    /// A COG has half the size, a quarter, and so on until one tile holds it all, rounded down as GDAL's COG driver
    /// does; any other file has none.
    Auto,
    /// None at all.
    None,
    /// These parts of the full size: 2 is half, rounded up as GDAL does when it adds overviews. They must grow.
    Factors(Vec<u32>),
}
