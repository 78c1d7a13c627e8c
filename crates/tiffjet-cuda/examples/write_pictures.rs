//! JPEG and JPEG 2000 written by way of the GPU, next to what the CPU writes.
//!
//!     write_pictures FOLDER [SIDE]
//!
//! A small matrix of files goes to FOLDER, for other programs to look at; then, with SIDE, pictures of that side are timed.
//! One line of JSON for each: bytes and the signal-to-noise ratio of both, how far the GPU's pixels are from the original
//! at most, routes, fallbacks. What is not what it should be is a failure: a lossless file that differs, a lossy one that
//! is 2 dB worse than the CPU's or larger than it was asked to be, a fallback that is not expected.

#![allow(clippy::print_stdout)] // its one job

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use tiffjet::{
    Backend, Blocks, Cpu, DType, Overviews, Result, RowsView, Window, WriteOptions, Writer, Written, sink::FileSink,
};
use tiffjet_cuda::Cuda;

/// Hills, texture and noise within so many bits, from a signed type's middle where it has a sign.
fn pixels([bands, height, width]: [usize; 3], dtype: DType, bits: u32) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut out = Vec::with_capacity(bands * height * width * dtype.size());
    let most = f64::from((1u32 << bits) - 1);
    let signed = matches!(dtype, DType::Int8 | DType::Int16);
    for band in 0..bands {
        let row: Vec<(f64, f64)> =
            (0..width).map(|x| ((x as f64 / 97.0 + band as f64).sin(), (x as f64 / 11.0).cos())).collect();
        for y in 0..height {
            let (slow, fast) = ((y as f64 / 131.0).cos(), (y as f64 / 7.0 + band as f64).sin());
            for &(a, b) in &row {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let noise = (state >> 40) as f64 / f64::from(1 << 24) - 0.5;
                let value = (0.5 + 0.3 * a * slow + 0.1 * b * fast + 0.02 * noise).clamp(0.0, 1.0) * most;
                let value = if signed { value - (most + 1.0) / 2.0 } else { value } as i32;
                match dtype.size() {
                    1 => out.push(value as u8),
                    _ => out.extend((value as u16).to_ne_bytes()),
                }
            }
        }
    }
    out
}

fn samples(bytes: &[u8], dtype: DType) -> Vec<i32> {
    let words = || bytes.as_chunks::<2>().0.iter();
    match dtype {
        DType::UInt8 => bytes.iter().map(|&v| v.into()).collect(),
        DType::Int8 => bytes.iter().map(|&v| (v as i8).into()).collect(),
        DType::UInt16 => words().map(|v| u16::from_ne_bytes(*v).into()).collect(),
        _ => words().map(|v| i16::from_ne_bytes(*v).into()).collect(),
    }
}

struct Case {
    name: &'static str,
    options: WriteOptions,
    /// Encoded by the library, all of it.
    by_library: bool,
}

fn case(
    name: &'static str,
    codec: &str,
    shape: [usize; 3],
    dtype: DType,
    change: impl FnOnce(&mut WriteOptions),
) -> Case {
    let mut options = WriteOptions::new(shape, dtype);
    options.compression = codec.into();
    options.blocks = Blocks::Tiles { width: 256, height: 256 };
    options.overviews = Overviews::None;
    change(&mut options);
    Case { name, options, by_library: true }
}

fn quality(options: &mut WriteOptions, quality: u8) {
    options.settings.quality = Some(quality);
}

fn cases() -> Vec<Case> {
    let rgb = [3, 700, 900];
    let grey = [1, 700, 900];
    let mut cases = vec![
        case("jpeg_ycbcr", "jpeg", rgb, DType::UInt8, |_| {}),
        case("jpeg_q30", "jpeg", rgb, DType::UInt8, |o| quality(o, 30)),
        case("jpeg_q95", "jpeg", rgb, DType::UInt8, |o| quality(o, 95)),
        case("jpeg_grey", "jpeg", grey, DType::UInt8, |_| {}),
        case("jpeg_planar", "jpeg", rgb, DType::UInt8, |o| o.planar = true),
        case("jpeg_strips", "jpeg", rgb, DType::UInt8, |o| o.blocks = Blocks::Strips { rows: Some(48) }),
        case("jpeg_cog", "jpeg", rgb, DType::UInt8, |o| (o.cog, o.overviews) = (true, Overviews::Auto)),
        case("j2k_lossless_rgb", "jpeg2000", rgb, DType::UInt8, |_| {}),
        case("j2k_lossless_grey", "jpeg2000", grey, DType::UInt8, |_| {}),
        case("j2k_lossless_2", "jpeg2000", [2, 300, 400], DType::UInt8, |_| {}),
        case("j2k_lossless_4", "jpeg2000", [4, 300, 400], DType::UInt16, |_| {}),
        case("j2k_lossless_u16", "jpeg2000", rgb, DType::UInt16, |_| {}),
        case("j2k_lossless_i16", "jpeg2000", grey, DType::Int16, |_| {}),
        case("j2k_lossless_planar", "jpeg2000", rgb, DType::UInt8, |o| o.planar = true),
        case("j2k_lossless_strips", "jpeg2000", rgb, DType::UInt8, |o| o.blocks = Blocks::Strips { rows: Some(50) }),
        case("j2k_lossless_cog", "jpeg2000", rgb, DType::UInt8, |o| (o.cog, o.overviews) = (true, Overviews::Auto)),
        case("j2k_q50", "jpeg2000", rgb, DType::UInt8, |o| quality(o, 50)),
        case("j2k_q20", "jpeg2000", rgb, DType::UInt8, |o| quality(o, 20)),
        case("j2k_q5", "jpeg2000", rgb, DType::UInt8, |o| quality(o, 5)),
        case("j2k_q1", "jpeg2000", grey, DType::UInt8, |o| quality(o, 1)),
        case("j2k_q10_u16", "jpeg2000", grey, DType::UInt16, |o| quality(o, 10)),
        case("j2k_q10_i16", "jpeg2000", [2, 300, 400], DType::Int16, |o| quality(o, 10)),
    ];
    for (name, codec, shape, dtype, photometric) in [
        ("host_jpeg_rgb", "jpeg", rgb, DType::UInt8, Some(2)),
        ("host_jpeg_4", "jpeg", [4, 300, 400], DType::UInt8, None),
        ("host_j2k_lossless_i8", "jpeg2000", grey, DType::Int8, None),
    ] {
        let mut other = case(name, codec, shape, dtype, |o| o.photometric = photometric);
        other.by_library = false;
        cases.push(other);
    }
    cases
}

fn write(path: &Path, options: &WriteOptions, pixels: &[u8], backend: Arc<dyn Backend>) -> Result<(Written, f64)> {
    let begun = Instant::now();
    let mut writer = Writer::create_on(backend, Box::new(FileSink::create(path)?), options)?;
    let rows = RowsView::new(pixels, options.shape, options.dtype)
        .ok_or_else(|| tiffjet::Error::invalid(&"pixels".into(), "too few pixels"))?;
    writer.push(&rows)?;
    let written = writer.finish()?;
    Ok((written, begun.elapsed().as_secs_f64() * 1e3))
}

/// Decibels, and the largest difference.
fn distance(path: &Path, original: &[i32], dtype: DType, bits: u32) -> Result<(f64, u32)> {
    let tensor = tiffjet::open(path.to_string_lossy().as_ref())?.read(&Window::default())?;
    let found = samples(tensor.bytes().unwrap_or_default(), dtype);
    let differences = found.iter().zip(original).map(|(a, b)| a.abs_diff(*b));
    let largest = differences.clone().max().unwrap_or(u32::MAX);
    let square = differences.map(|d| f64::from(d).powi(2)).sum::<f64>() / original.len() as f64;
    Ok((20.0 * f64::from((1u32 << bits) - 1).log10() - 10.0 * square.max(1e-9).log10(), largest))
}

fn run(folder: &Path, case: &Case, cuda: &Cuda, timed: bool) -> Result<(String, Vec<String>)> {
    let options = &case.options;
    let bits = options.bits.map_or(8 * options.dtype.size() as u32, u32::from);
    let pixels = pixels(options.shape, options.dtype, bits);
    let (device, host) = (folder.join(format!("{}.tif", case.name)), folder.join(format!("{}.cpu.tif", case.name)));
    let backends: [(&Path, Arc<dyn Backend>); 2] =
        [(&device, Arc::new(cuda.clone())), (&host, Arc::new(Cpu::shared()?))];
    let [(path, backend), (cpu_path, cpu)] = backends;
    if timed {
        write(path, options, &pixels, backend.clone())?;
    }
    let (written, ms) = write(path, options, &pixels, backend)?;
    let (_, cpu_ms) = write(cpu_path, options, &pixels, cpu)?;
    let original = samples(&pixels, options.dtype);
    let (db, largest) = distance(path, &original, options.dtype, bits)?;
    let (cpu_db, _) = distance(cpu_path, &original, options.dtype, bits)?;
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
    let report = &written.report;
    let mut bad = Vec::new();
    let lossless = case.name.contains("lossless");
    if lossless && largest > 0 {
        bad.push(format!("lossless, and differs by {largest}"));
    }
    if !lossless && db < cpu_db - 2.0 {
        bad.push(format!("{db:.2} dB where the CPU has {cpu_db:.2}"));
    }
    if let (Some(quality), "jpeg2000") = (options.settings.quality, options.compression.as_str()) {
        // Whole tiles, and what is around them.
        let plain = written.tiles as usize * 256 * 256 * options.dtype.size() * options.shape[0];
        let plain = if timed { pixels.len() } else { plain };
        let most = plain as f64 * f64::from(quality) / 100.0 + 10_000.0;
        if length(path) as f64 > most {
            bad.push(format!("{} bytes, asked for {most:.0}", length(path)));
        }
    }
    if report.fallbacks.is_empty() != case.by_library {
        bad.push(format!("fallbacks {:?}", report.fallbacks));
    }
    let line = format!(
        "{{\"case\":{:?},\"bytes\":{},\"cpu_bytes\":{},\"db\":{db:.2},\"cpu_db\":{cpu_db:.2},\"largest\":{largest},\"ms\":{ms:.1},\"cpu_ms\":{cpu_ms:.1},\"device_memory\":{},\"routes\":{:?},\"fallbacks\":{:?}}}",
        case.name,
        length(path),
        length(cpu_path),
        report.device_memory,
        report.routes.iter().map(|(route, n)| format!("{route}: {n}")).collect::<Vec<_>>(),
        report.fallbacks,
    );
    Ok((line, bad))
}

fn main() -> ExitCode {
    let folder = std::env::args().nth(1).unwrap_or(".".to_owned());
    let side = std::env::args().nth(2).and_then(|a| a.parse::<usize>().ok());
    let cuda = match Cuda::new(0) {
        Ok(cuda) => cuda,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut all: Vec<(Case, bool)> = cases().into_iter().map(|case| (case, false)).collect();
    if let Some(side) = side {
        let large = |o: &mut WriteOptions| o.blocks = Blocks::Tiles { width: 512, height: 512 };
        let shape = [3, side, side];
        all.push((case("timed_jpeg", "jpeg", shape, DType::UInt8, large), true));
        all.push((case("timed_j2k_lossless", "jpeg2000", shape, DType::UInt8, large), true));
        all.push((
            case("timed_j2k_q10", "jpeg2000", shape, DType::UInt8, |o| {
                large(o);
                quality(o, 10);
            }),
            true,
        ));
    }
    let mut failed = 0;
    for (case, timed) in &all {
        match run(Path::new(&folder), case, &cuda, *timed) {
            Ok((line, bad)) => {
                println!("{line}");
                failed += usize::from(!bad.is_empty());
                bad.iter().for_each(|what| println!("FAILED {}: {what}", case.name));
            }
            Err(error) => {
                failed += 1;
                println!("FAILED {}: {error}", case.name);
            }
        }
    }
    println!("{} pictures, {failed} failed", all.len());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
