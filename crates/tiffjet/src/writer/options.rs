//! What the user may choose.

use crate::codec::Settings;
use crate::dtype::DType;
use crate::plan::Resampling;
use crate::tiff::{Field, tag};

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
    /// Where the image lies, and GDAL's metadata.
    pub geo: GeoTags,
    /// Other fields of the directory: those that [`WriteOptions::carries`] tells.
    pub tags: Vec<Field>,
    /// Bytes that the writer may use. It needs one row of tiles of each level whatever this says.
    pub memory: u64,
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
            memory: 256 << 20,
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
                | tag::JPEG_PROC..=tag::REFERENCE_BLACK_WHITE
                | tag::MODEL_PIXEL_SCALE
                | tag::MODEL_TIEPOINT
                | tag::MODEL_TRANSFORMATION
                | tag::GEO_KEY_DIRECTORY..=tag::GEO_ASCII_PARAMS
                | tag::GDAL_METADATA
                | tag::GDAL_NODATA
                | tag::LERC_PARAMETERS
                | tag::RPC_COEFFICIENTS
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

/// The value that stands for no data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Nodata {
    /// For every type but the 64-bit integers.
    Float(f64),
    /// For `int64`, exact.
    Int(i64),
    /// For `uint64`, exact.
    UInt(u64),
}

impl Nodata {
    /// One value of a type, native byte order. `None` when the type can't hold it.
    pub fn bytes(self, dtype: DType) -> Option<Vec<u8>> {
        let whole = |value: f64| (value.fract() == 0.0 && value.abs() < 2f64.powi(100)).then_some(value as i128);
        let integer = match self {
            Self::Float(value) => whole(value),
            Self::Int(value) => Some(i128::from(value)),
            Self::UInt(value) => Some(i128::from(value)),
        };
        let float = match self {
            Self::Float(value) => value,
            Self::Int(value) => value as f64,
            Self::UInt(value) => value as f64,
        };
        fn native<T: TryFrom<i128>, const N: usize>(value: Option<i128>, bytes: fn(T) -> [u8; N]) -> Option<Vec<u8>> {
            T::try_from(value?).ok().map(|v| bytes(v).to_vec())
        }
        // A finite number must not become an infinite one.
        let single = |value: f64| (!value.is_finite() || (value as f32).is_finite()).then_some(value as f32);
        match dtype {
            DType::UInt8 => native(integer, u8::to_ne_bytes),
            DType::Int8 => native(integer, i8::to_ne_bytes),
            DType::UInt16 => native(integer, u16::to_ne_bytes),
            DType::Int16 => native(integer, i16::to_ne_bytes),
            DType::UInt32 => native(integer, u32::to_ne_bytes),
            DType::Int32 => native(integer, i32::to_ne_bytes),
            DType::UInt64 => native(integer, u64::to_ne_bytes),
            DType::Int64 => native(integer, i64::to_ne_bytes),
            DType::Float16 => half(float).map(|v| v.to_ne_bytes().to_vec()),
            DType::Float32 => single(float).map(|v| v.to_ne_bytes().to_vec()),
            DType::Float64 => Some(float.to_ne_bytes().to_vec()),
            // The real part says it, as GDAL has it.
            DType::ComplexInt16 => native(integer, i16::to_ne_bytes).map(|real| [real, vec![0; 2]].concat()),
            DType::ComplexInt32 => native(integer, i32::to_ne_bytes).map(|real| [real, vec![0; 4]].concat()),
            DType::Complex64 => single(float).map(|v| [v.to_ne_bytes(), [0; 4]].concat()),
            DType::Complex128 => Some([float.to_ne_bytes(), [0; 8]].concat()),
        }
    }

    /// The text of GDAL_NODATA for an image of that type.
    pub fn text(self, dtype: DType) -> String {
        match self {
            Self::Int(value) => value.to_string(),
            Self::UInt(value) => value.to_string(),
            Self::Float(value) if value.is_nan() => "nan".into(),
            Self::Float(value) if value.is_infinite() => if value > 0.0 { "inf" } else { "-inf" }.into(),
            // The value that the pixels have, so that nobody compares with one they can't have.
            Self::Float(value) => {
                let value = if dtype == DType::Float32 { f64::from(value as f32) } else { value };
                let exponent = value.abs().log10();
                if value == 0.0 || (-5.0..17.0).contains(&exponent) { format!("{value}") } else { format!("{value:e}") }
            }
        }
    }
}

/// Half precision, where it holds just that value.
fn half(value: f64) -> Option<u16> {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    if value.is_nan() {
        return Some(0x7e00);
    }
    if value.is_infinite() {
        return Some(sign | 0x7c00);
    }
    let magnitude = value.abs();
    // Numbers below 2^-14 are multiples of 2^-24; from there on 11 bits follow the first one.
    let exponent = if magnitude < 2f64.powi(-14) { -14 } else { magnitude.log2().floor() as i32 };
    let steps = magnitude / 2f64.powi(exponent - 10);
    if steps.fract() != 0.0 || steps >= 2048.0 || exponent > 15 {
        return None;
    }
    let steps = steps as u16;
    Some(sign | if steps < 1024 { steps } else { ((exponent + 15) as u16) << 10 | (steps & 0x3ff) })
}

/// The georeferencing fields of a directory; what is empty is not written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GeoTags {
    /// ModelPixelScale, 33550.
    pub pixel_scale: Vec<f64>,
    /// ModelTiepoint, 33922.
    pub tiepoints: Vec<f64>,
    /// ModelTransformation, 34264.
    pub transformation: Vec<f64>,
    /// GeoKeyDirectory, 34735.
    pub key_directory: Vec<u16>,
    /// GeoDoubleParams, 34736.
    pub double_params: Vec<f64>,
    /// GeoAsciiParams, 34737: bytes, as the keys count them.
    pub ascii_params: Vec<u8>,
    /// GDAL_METADATA, 42112.
    pub gdal_metadata: Option<String>,
    /// GDAL_NODATA, 42113, where [`WriteOptions::nodata`] says nothing.
    pub gdal_nodata: Option<String>,
    /// RPCCoefficient, 50844.
    pub rpc: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_holds_it_or_not() {
        assert_eq!(Nodata::Float(255.0).bytes(DType::UInt8), Some(vec![255]));
        for (value, dtype) in
            [(256.0, DType::UInt8), (-1.0, DType::UInt16), (0.5, DType::Int32), (1e300, DType::Float32)]
        {
            assert_eq!(Nodata::Float(value).bytes(dtype), None, "{value} {dtype}");
        }
        assert_eq!(Nodata::Float(f64::NAN).bytes(DType::Int16), None);
        assert_eq!(Nodata::UInt(u64::MAX).bytes(DType::UInt64), Some(vec![255; 8]));
        assert_eq!(Nodata::Int(-1).bytes(DType::UInt64), None);
        assert!(Nodata::Float(f64::NAN).bytes(DType::Float32).is_some());
    }

    #[test]
    fn half_precision_is_exact() {
        let cases =
            [(1.0, 0x3c00), (-2.0, 0xc000), (65504.0, 0x7bff), (2f64.powi(-24), 1), (2f64.powi(-14), 0x400), (0.0, 0)];
        for (value, bits) in cases {
            assert_eq!(half(value), Some(bits), "{value}");
        }
        assert_eq!(half(65520.0), None);
        assert_eq!(half(1.0 + 2f64.powi(-11)), None);
        assert_eq!(half(f64::NEG_INFINITY), Some(0xfc00));
    }

    #[test]
    fn the_text_is_what_others_parse() {
        assert_eq!(Nodata::Float(-9999.0).text(DType::Float32), "-9999");
        assert_eq!(Nodata::Float(f64::from(f32::MIN)).text(DType::Float32), "-3.4028234663852886e38");
        assert_eq!(Nodata::Float(0.1).text(DType::Float32), "0.10000000149011612");
        assert_eq!(Nodata::Float(f64::NAN).text(DType::Float32), "nan");
        assert_eq!(Nodata::UInt(u64::MAX).text(DType::UInt64), "18446744073709551615");
    }
}
