//! `make demo`: the main job from end to end, on a raster made on the spot.
//!
//! Makes a georeferenced terrain, reads it, writes it as a COG, reads a window of that and saves a picture of an overview;
//! checks what it reads against what it made, and says how fast each step was.

#![allow(clippy::print_stdout)] // saying what happens is the point

use std::borrow::Cow;
use std::error::Error;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tiffjet::sink::FileSink;
use tiffjet::{Backend, Cpu, DeviceRows, GeoTags, Image, RowsView, Tensor, Window, WriteOptions, Writer};
use tiffjet_cuda::Cuda;
use tiffjet_testkit::{Compression, Tiff};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Rows and columns of the raster.
const SIZE: u32 = 2048;
/// Rows and columns of the window that is read back.
const WINDOW: u32 = 512;
/// Longest side of the picture.
const PICTURE: usize = 1024;

fn main() -> Outcome {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: demo FOLDER")?);
    fs::create_dir_all(&folder)?;
    let device = Device::best()?;
    println!("tiffjet demo on {}\n", device.name);

    let path = folder.join("terrain.tif");
    let made = make(&path)?;
    let image = tiffjet::open(&path)?;
    describe(&image);
    let pixels = read_whole(&device, &image, &made)?;
    let cog = write_cog(&device, &image, &pixels, &folder.join("terrain-cog.tif"))?;
    read_window(&device, &cog, &made)?;
    save_picture(&cog, &folder.join("terrain.png"))?;

    println!("\nThe files are in {}", folder.display());
    Ok(())
}

/// Where the work is done: a GPU where there is one.
struct Device {
    name: String,
    backend: Arc<dyn Backend>,
}

impl Device {
    fn best() -> Outcome<Self> {
        if let Ok(cuda) = tiffjet_cuda::available().and_then(|()| Cuda::new(0)) {
            let name = format!("{}, {}", cuda.name(), cuda.device().name);
            return Ok(Self { name, backend: Arc::new(cuda) });
        }
        let cpu = Cpu::shared()?;
        Ok(Self {
            name: format!("the CPU, {} threads (no GPU can be used here)", cpu.threads()),
            backend: Arc::new(cpu),
        })
    }

    /// Reads twice, for the first time takes memory and, on a GPU, loads kernels; gives the second.
    fn read(&self, image: &Image, window: &Window) -> Outcome<(Tensor, f64)> {
        image.read_on(&*self.backend, window)?;
        let begun = Instant::now();
        let pixels = image.read_on(&*self.backend, window)?;
        Ok((pixels, begun.elapsed().as_secs_f64()))
    }
}

/// Writes heights in metres as a GeoTIFF; gives them as they must be read.
fn make(path: &Path) -> Outcome<Vec<u8>> {
    let terrain = Tiff::new(SIZE, SIZE)
        .float(32)
        .tile(256, 256)
        .compression(Compression::Zstd)
        .predictor(3)
        .geo((10.0, 10.0), (500_000.0, 5_250_000.0))
        .epsg(32633)
        .nodata("-9999");
    let heights = terrain.terrain(7);
    let file = terrain.build(&heights);
    fs::write(path, &file)?;
    let made = heights.to_le_bytes();
    println!("made    {}: {}, {} of pixels", path.display(), megabytes(file.len()), megabytes(made.len()));
    Ok(made)
}

fn describe(image: &Image) {
    let [bands, rows, columns] = image.shape();
    let layout = &image.levels()[0].layout;
    let geo = image.geo();
    let crs = geo.crs.as_ref().map_or("no CRS", |crs| &crs.name);
    let size = geo.transform.map_or(0.0, |transform| transform[0]);
    println!(
        "opened  {columns} x {rows}, {bands} band of {}, tiles of {}, {}",
        image.dtype(),
        layout.format.width,
        layout.codec.name()
    );
    println!("        {crs}, pixels of {size} m");
}

fn read_whole(device: &Device, image: &Image, made: &[u8]) -> Outcome<Tensor> {
    let (pixels, seconds) = device.read(image, &Window::default())?;
    if *little_endian(&pixels)? != *made {
        return Err("the pixels are not those that were written".into());
    }
    let speed = pixels.report.bytes_out as f64 / seconds / 1e6;
    println!(
        "read    all {} tiles in {:.1} ms, {speed:.0} MB/s: every pixel as it was made",
        pixels.report.tiles,
        1e3 * seconds
    );
    Ok(pixels)
}

/// Writes pixels with overviews in the order of a COG, where the image lies.
fn write_cog(device: &Device, image: &Image, pixels: &Tensor, path: &Path) -> Outcome<Image> {
    let tags = image.geo().to_tags()?;
    let mut options = WriteOptions::new(pixels.shape, pixels.dtype);
    options.cog = true;
    options.geo = GeoTags {
        pixel_scale: tags.pixel_scale,
        tiepoints: tags.tiepoints,
        transformation: tags.transformation,
        key_directory: tags.key_directory,
        double_params: tags.double_params,
        ascii_params: tags.ascii_params,
        gdal_metadata: tags.gdal_metadata,
        gdal_nodata: tags.gdal_nodata,
        rpc: tags.rpc,
    };
    let begun = Instant::now();
    let mut writer = Writer::create_on(device.backend.clone(), Box::new(FileSink::create(path)?), &options)?;
    match DeviceRows::of(pixels) {
        Some(rows) => writer.push(&rows)?,
        None => writer.push(&RowsView::of(pixels).ok_or("pixels of another size")?)?,
    }
    let written = writer.finish()?;
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "wrote   {}: COG of {}, {} levels, {} tiles in {:.1} ms, {:.0} MB/s",
        path.display(),
        megabytes(written.bytes as usize),
        written.levels,
        written.tiles,
        1e3 * seconds,
        pixels.report.bytes_out as f64 / seconds / 1e6
    );
    let cog = tiffjet::open(path)?;
    if cog.geo().transform != image.geo().transform {
        return Err("the COG lies elsewhere".into());
    }
    Ok(cog)
}

fn read_window(device: &Device, image: &Image, made: &[u8]) -> Outcome {
    let first = (SIZE - WINDOW) / 2 + 77; // across tiles on purpose
    let range = first..first + WINDOW;
    let window = Window { rows: Some(range.clone()), cols: Some(range.clone()), ..Window::default() };
    let (pixels, seconds) = device.read(image, &window)?;
    let row = 4 * SIZE as usize;
    let columns = 4 * range.start as usize..4 * range.end as usize;
    let expected: Vec<u8> = range.flat_map(|y| &made[y as usize * row..][columns.clone()]).copied().collect();
    if *little_endian(&pixels)? != expected {
        return Err("the window is not the same part of the image".into());
    }
    println!(
        "read    a window of {WINDOW} x {WINDOW} in {:.2} ms, {} from the file: the same pixels",
        1e3 * seconds,
        megabytes(pixels.report.bytes_read as usize)
    );
    Ok(())
}

/// A shaded relief of the smallest level that is large enough.
fn save_picture(image: &Image, path: &Path) -> Outcome {
    let levels = image.levels();
    let large_enough = |level: &usize| levels[*level].layout.width as usize >= PICTURE;
    let level = (0..levels.len()).rev().find(large_enough).unwrap_or(0);
    let pixels = image.read(&Window { level, ..Window::default() })?;
    let [_, rows, columns] = pixels.shape;
    let step = columns.div_ceil(PICTURE).max(1);
    let bytes = little_endian(&pixels)?;
    let heights: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    let (width, height) = (columns / step, rows / step);
    let mut picture = Vec::with_capacity(3 * width * height);
    for y in 0..height {
        for x in 0..width {
            let here = heights[y * step * columns + x * step];
            let west = heights[y * step * columns + (x * step).saturating_sub(step)];
            let north = heights[(y * step).saturating_sub(step) * columns + x * step];
            picture.extend(shade(here, (here - west) + (here - north)));
        }
    }
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header()?.write_image_data(&picture)?;
    println!("saved   {}: {width} x {height}, shaded, from level {level}", path.display());
    Ok(())
}

/// Green valleys, brown slopes, white tops; slopes that face the sun in the north-west are lighter.
fn shade(height: f32, rise: f32) -> [u8; 3] {
    const COLOURS: [[f32; 3]; 4] = [[70.0, 120.0, 70.0], [170.0, 180.0, 110.0], [150.0, 110.0, 80.0], [245.0; 3]];
    let place = (height / 2600.0).clamp(0.0, 0.999) * (COLOURS.len() - 1) as f32;
    let (low, part) = (place as usize, place.fract());
    let light = (1.0 + rise / 160.0).clamp(0.45, 1.3);
    std::array::from_fn(|i| ((COLOURS[low][i] * (1.0 - part) + COLOURS[low + 1][i] * part) * light) as u8)
}

/// Pixels as the file has them.
fn little_endian(pixels: &Tensor) -> Outcome<Cow<'_, [u8]>> {
    if cfg!(target_endian = "big") {
        return Err("the demo runs on little-endian machines".into());
    }
    if let Some(bytes) = pixels.bytes() {
        return Ok(bytes.into());
    }
    let mut bytes = vec![0; pixels.storage().length()];
    pixels.storage().to_host(&mut bytes)?;
    Ok(bytes.into())
}

fn megabytes(bytes: usize) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
