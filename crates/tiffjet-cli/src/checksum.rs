//! `tiffjet checksum`: decodes and prints the hash of every band.

use std::borrow::Cow;
use std::fmt::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tiffjet::geo::Nodata;
use tiffjet::{DType, Image, Layout, Tensor, Window};

use crate::Outcome;
use crate::args::{On, Pixels, Reading};
use crate::output::{NewFile, print};
use crate::pieces::{Pieces, in_proportion};
use crate::terminal::Progress;

/// Bytes of pixels in memory at once, as far as the file's tiles allow.
const PIECE: u64 = 64 << 20;

/// Decode, and print the sha256 of each band's raw little-endian pixels
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tiffjet checksum scene.tif
  tiffjet checksum cog.tif --level 1 --json
  tiffjet checksum scene.tif --window 0:256,0:256 --bands 1 --dump pixels.raw")]
pub struct Checksum {
    #[command(flatten)]
    pixels: Pixels,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    reading: Reading,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// Also write the bands, one after the other, to this file
    #[arg(long, value_name = "RAW")]
    dump: Option<PathBuf>,
}

impl Checksum {
    pub fn run(&self) -> Outcome {
        let backend = self.on.backend(&self.pixels.file.name())?;
        let options = self.reading.options();
        let image = self.pixels.file.open()?;
        let window = self.pixels.window();
        let whole = image.plan_shape(&window)?;
        in_proportion(&image, window.level, whole)?;
        let dump = self.dump.as_deref().map(NewFile::create).transpose()?;
        let mut hashes = vec![Sha256::new(); whole[0]];
        let layout = &image.level(window.level)?.layout;
        let dtype = layout.dtype();
        let band_bytes = whole[1] * whole[2] * shown_as(dtype).size();
        let mut done = 0;
        let progress = Progress::new(band_bytes as u64);
        for piece in pieces(layout, &window, whole) {
            let tensor = image.read_with(&*backend, &piece, &options)?;
            let bytes = on_host(&tensor)?;
            for (band, (hash, pixels)) in hashes.iter_mut().zip(bytes.chunks_exact(bytes.len() / whole[0])).enumerate()
            {
                let pixels = as_shown(pixels, dtype);
                hash.update(&*pixels);
                if let Some(dump) = &dump {
                    let at = (band * band_bytes + done) as u64;
                    dump.file().write_all_at(&pixels, at).map_err(|e| dump.failed(e))?;
                }
            }
            let piece_bytes = tensor.shape[1] * tensor.shape[2] * shown_as(dtype).size();
            done += piece_bytes;
            progress.advance(piece_bytes as u64);
        }
        drop(progress);
        let hashes: Vec<String> = hashes.into_iter().map(|h| hex(&h.finalize())).collect();
        if let Some(dump) = dump {
            dump.finish()?;
        }
        print(&if self.json {
            format!("{}\n", line(&image, whole, dtype, &hashes))
        } else {
            hashes.iter().enumerate().fold(String::new(), |mut out, (band, hash)| {
                // Writing to a string can't fail.
                let _ = writeln!(out, "{hash}  band {}", band + 1);
                out
            })
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The bytes of pixels, wherever they are.
fn on_host(tensor: &Tensor) -> tiffjet::Result<Cow<'_, [u8]>> {
    if let Some(bytes) = tensor.bytes() {
        return Ok(bytes.into());
    }
    let mut bytes = vec![0; tensor.storage().length()];
    tensor.storage().to_host(&mut bytes)?;
    Ok(bytes.into())
}

fn line(image: &Image, shape: [usize; 3], dtype: DType, hashes: &[String]) -> Value {
    let overviews: Vec<[u32; 2]> = image.levels()[1..].iter().map(|l| [l.layout.width, l.layout.height]).collect();
    let geo = image.geo();
    json!({
        "shape": shape,
        "dtype": shown_as(dtype).name(),
        "sha256": hashes,
        "transform": geo.transform,
        "epsg": geo.crs.as_ref().or(geo.gcp_crs.as_ref()).and_then(|crs| crs.epsg),
        "nodata": geo.nodata(0).map(nodata_json),
        "overviews": overviews,
    })
}

/// A number, or its name where JSON has no number for it.
pub fn nodata_json(nodata: Nodata) -> Value {
    match nodata {
        Nodata::Float(v) if v.is_finite() => json!(v),
        Nodata::Float(v) => json!(v.to_string().to_lowercase()),
        Nodata::Int(v) => json!(v),
        Nodata::UInt(v) => json!(v),
    }
}

/// GDAL's Python bindings have no pair of 32-bit integers and give single-precision pairs: so do the hashes here.
fn shown_as(dtype: DType) -> DType {
    if dtype == DType::ComplexInt32 { DType::Complex64 } else { dtype }
}

/// Little-endian bytes of pixels, as they are hashed.
fn as_shown(pixels: &[u8], dtype: DType) -> Cow<'_, [u8]> {
    if dtype == DType::ComplexInt32 {
        let floats = pixels.as_chunks::<4>().0.iter().flat_map(|b| (i32::from_ne_bytes(*b) as f32).to_le_bytes());
        return floats.collect::<Vec<u8>>().into();
    }
    if cfg!(target_endian = "little") || dtype.word() == 1 {
        return pixels.into();
    }
    let mut pixels = pixels.to_vec();
    pixels.chunks_exact_mut(dtype.word()).for_each(<[u8]>::reverse);
    pixels.into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Cuts a window into pieces that fit in memory, in order of its rows: rows of whole tiles, or parts of a row where a
/// single one is too long and can be read in parts.
fn pieces<'a>(layout: &Layout, window: &'a Window, shape: [usize; 3]) -> impl Iterator<Item = Window> + 'a {
    let column_bytes = (shape[0] * layout.dtype().size()) as u64;
    let fit = u32::try_from(PIECE / column_bytes.max(1)).unwrap_or(u32::MAX).max(1);
    let top = window.rows.as_ref().map_or(0, |r| r.start);
    let left = window.cols.as_ref().map_or(0, |r| r.start);
    let (bottom, right) = (top + shape[1] as u32, left + shape[2] as u32);
    let across = if layout.rows_are_bytes() { fit } else { u32::MAX };
    let rows = Pieces::new(layout, column_bytes.saturating_mul(shape[2] as u64), PIECE).cut(top..bottom);
    rows.flat_map(move |rows| {
        (left..right).step_by(across as usize).map(move |x| {
            let cols = x..x.saturating_add(across).min(right);
            Window { rows: Some(rows.clone()), cols: Some(cols), ..window.clone() }
        })
    })
}
