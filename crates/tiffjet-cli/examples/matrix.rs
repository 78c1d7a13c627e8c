//! Writes one small image in every way that the writer has, for others to judge: `scripts/judge_written.py`.
//!
//! Each `NAME.tif` comes with a `NAME.json` that says what was handed to the writer. With `--short` every codec, predictor,
//! type and layout is there, but only every so many combinations.

#![allow(clippy::print_stdout)] // saying what happens is the point

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use sha2::{Digest, Sha256};
use tiffjet::geo::{Crs, Geo};
use tiffjet::sink::FileSink;
use tiffjet::{BigTiff, Blocks, DType, Nodata, Overviews, Prediction, Resampling, RowsView, WriteOptions, Writer};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const HEIGHT: usize = 70;
const WIDTH: usize = 101;
const TRANSFORM: [f64; 6] = [10.0, 0.0, 500_000.0, 0.0, -10.0, 5_000_000.0];
const EPSG: u32 = 32633;
/// The short matrix has one of so many combinations.
const SHORT: usize = 29;

/// Names of codecs with the quality that makes them lossless, where there is one.
const CODECS: [(&str, Option<u8>); 14] = [
    ("none", None),
    ("packbits", None),
    ("lzw", None),
    ("deflate", None),
    ("zstd", None),
    ("lzma", None),
    ("lerc", None),
    ("lerc_deflate", None),
    ("lerc_zstd", None),
    ("jpeg", Some(90)),
    ("webp", Some(100)),
    ("webp", Some(75)),
    ("jpeg2000", Some(100)),
    ("jpeg2000", Some(40)),
];

#[derive(Clone, Copy, PartialEq)]
enum Cut {
    Strips,
    Tiles,
    Overviews,
    Cog,
}

const CUTS: [(Cut, &str); 4] =
    [(Cut::Strips, "strips"), (Cut::Tiles, "tiles"), (Cut::Overviews, "overviews"), (Cut::Cog, "cog")];
const PREDICTORS: [(Prediction, &str); 3] =
    [(Prediction::None, "p1"), (Prediction::Horizontal, "p2"), (Prediction::Float, "p3")];

/// One way to write.
#[derive(Clone, Copy)]
struct Way {
    codec: &'static str,
    quality: Option<u8>,
    predictor: (Prediction, &'static str),
    dtype: DType,
    bands: usize,
    cut: (Cut, &'static str),
    planar: bool,
    big: bool,
    mask: bool,
}

impl Way {
    fn name(&self) -> String {
        let mut name = format!("{}-{}-{}-{}x", self.codec, self.predictor.1, self.dtype, self.bands);
        let quality = self.quality.map(|quality| format!("-q{quality}"));
        let marks = [(self.planar, "-planar"), (self.big, "-big"), (self.mask, "-mask")];
        name.extend(quality);
        name.push('-');
        name.push_str(self.cut.1);
        name.extend(marks.iter().filter(|(set, _)| *set).map(|(_, mark)| *mark));
        name
    }

    fn lossy(&self) -> bool {
        self.codec == "jpeg" || self.quality.is_some_and(|quality| quality < 100)
    }

    fn nodata(&self) -> Option<Nodata> {
        let float = matches!(self.dtype, DType::Float16 | DType::Float32 | DType::Float64);
        (float && !self.mask).then_some(Nodata::Float(-9999.0))
    }

    fn options(&self) -> Outcome<WriteOptions> {
        let mut options = WriteOptions::new([self.bands, HEIGHT, WIDTH], self.dtype);
        options.compression = self.codec.into();
        options.settings.quality = self.quality;
        options.predictor = self.predictor.0;
        options.planar = self.planar;
        options.big = if self.big { BigTiff::Yes } else { BigTiff::No };
        options.mask = self.mask;
        options.nodata = self.nodata();
        options.resampling = Some(Resampling::Nearest);
        options.cog = self.cut.0 == Cut::Cog;
        options.blocks = match self.cut.0 {
            // JPEG wants strips of whole blocks.
            Cut::Strips => Blocks::Strips { rows: Some(16) },
            _ => Blocks::Tiles { width: 32, height: 16 },
        };
        if self.cut.0 == Cut::Overviews {
            options.overviews = Overviews::Factors(vec![2, 4]);
        }
        let geo = Geo { transform: Some(TRANSFORM), crs: Some(Crs::from_epsg(EPSG)), ..Geo::default() };
        options.geo = geo.to_tags()?;
        Ok(options)
    }
}

fn main() -> Outcome {
    let mut arguments = std::env::args_os().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("usage: matrix FOLDER [--short]")?);
    let step = if arguments.next().is_some_and(|word| word == "--short") { SHORT } else { 1 };
    fs::create_dir_all(&folder)?;
    let (mut written, mut refused) = (0, 0);
    for way in ways() {
        let options = way.options()?;
        // What a codec does not take (JPEG of floats) is no way to write.
        if tiffjet::WritePlan::new(&"matrix".into(), &options).is_err() {
            refused += 1;
            continue;
        }
        if written % step == 0 {
            write(&folder, &way, &options)?;
        }
        written += 1;
    }
    println!("{} files in {}; {refused} combinations that no codec takes", written.div_ceil(step), folder.display());
    Ok(())
}

fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    for (codec, quality) in CODECS {
        for dtype in DType::ALL {
            for predictor in PREDICTORS {
                for bands in [1, 3, 4] {
                    for cut in CUTS {
                        for bits in 0..8 {
                            let [planar, big, mask] = [1, 2, 4].map(|bit| bits & bit != 0);
                            ways.push(Way { codec, quality, predictor, dtype, bands, cut, planar, big, mask });
                        }
                    }
                }
            }
        }
    }
    // Planes of one band are no planes; four bands are for pictures.
    let sensible = |way: &Way| match way.bands {
        1 => !way.planar,
        4 => way.dtype == DType::UInt8 && way.predictor.1 == "p1",
        _ => true,
    };
    ways.retain(sensible);
    ways
}

/// Writes the image one way, in ragged pieces, and what it was made of beside it.
fn write(folder: &Path, way: &Way, options: &WriteOptions) -> Outcome {
    let path = folder.join(format!("{}.tif", way.name()));
    let pixels = pixels(way);
    let mask: Vec<u8> = (0..HEIGHT * WIDTH).map(|i| u8::from(i % 11 < 7) * 255).collect();
    let mut writer = Writer::create(FileSink::create(&path)?, options)?;
    let row = WIDTH * way.dtype.size();
    for first in (0..HEIGHT).step_by(23) {
        let rows = 23.min(HEIGHT - first);
        let shape = [way.bands, rows, WIDTH];
        let view = RowsView::strided(&pixels[first * row..], shape, way.dtype, HEIGHT * row).ok_or("rows")?;
        let view = if way.mask { view.with_mask(&mask[first * WIDTH..][..rows * WIDTH]).ok_or("mask")? } else { view };
        writer.push(&view)?;
    }
    writer.finish()?;
    let bands: Vec<String> = pixels.chunks_exact(HEIGHT * row).map(hash).collect();
    let mut expect = json!({
        "shape": [way.bands, HEIGHT, WIDTH],
        "dtype": way.dtype.name(),
        "codec": way.codec,
        "planar": way.planar,
        "transform": TRANSFORM,
        "epsg": EPSG,
        "cog": options.cog,
        "levels": writer_levels(options),
        "bands": bands,
    });
    if let Some(Nodata::Float(value)) = way.nodata() {
        expect["nodata"] = json!(value);
    }
    if way.mask {
        expect["mask"] = json!(hash(&mask));
    }
    match way.lossy() {
        true => expect["lossy"] = json!(true),
        // NumPy has no integers that are complex: others compare these as numbers.
        false if !matches!(way.dtype, DType::ComplexInt16 | DType::ComplexInt32) => expect["sha256"] = json!(bands),
        false => {}
    }
    fs::write(path.with_extension("json"), serde_json::to_vec_pretty(&expect)?)?;
    Ok(())
}

fn writer_levels(options: &WriteOptions) -> usize {
    tiffjet::WritePlan::new(&"matrix".into(), options).map_or(0, |plan| plan.levels.len())
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A smooth slope with a little noise, the same numbers for all types as far as they can hold them.
fn pixels(way: &Way) -> Vec<u8> {
    let mut out = Vec::with_capacity(way.bands * HEIGHT * WIDTH * way.dtype.size());
    for i in 0..way.bands * HEIGHT * WIDTH {
        let (band, y, x) = (i / (HEIGHT * WIDTH), i / WIDTH % HEIGHT, i % WIDTH);
        let noise = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62;
        let value = (x + y / 2 + 9 * band) as i64 / 2 + noise as i64;
        store(value, way.dtype, &mut out);
    }
    out
}

/// Appends a number below 128; floats get a fraction.
fn store(value: i64, dtype: DType, out: &mut Vec<u8>) {
    let real = value as f64 + 0.25;
    match dtype {
        DType::UInt8 | DType::Int8 => out.push(value as u8),
        DType::UInt16 | DType::Int16 => out.extend((value as i16 * 200).to_ne_bytes()),
        DType::UInt32 | DType::Int32 => out.extend((value as i32 * 70_000).to_ne_bytes()),
        DType::UInt64 | DType::Int64 => out.extend((value << 40 | value).to_ne_bytes()),
        // 0x3c00 is 1, 0x400 doubles it.
        DType::Float16 => out.extend((0x3c00 + value as u16 * 16).to_ne_bytes()),
        DType::Float32 => out.extend((real as f32 / 3.0).to_ne_bytes()),
        DType::Float64 => out.extend((real / 3.0).to_ne_bytes()),
        DType::ComplexInt16 => [value as i16, -3].iter().for_each(|v| out.extend(v.to_ne_bytes())),
        DType::ComplexInt32 => [value as i32, -70_000].iter().for_each(|v| out.extend(v.to_ne_bytes())),
        DType::Complex64 => [real as f32, -0.5].iter().for_each(|v| out.extend(v.to_ne_bytes())),
        DType::Complex128 => [real, -0.5].iter().for_each(|v| out.extend(v.to_ne_bytes())),
    }
}
