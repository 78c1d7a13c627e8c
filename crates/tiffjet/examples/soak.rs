//! Reads and writes for a long time: pixels must be right, memory must stay flat.
//!
//!     soak [SECONDS]
//!
//! Files of many kinds are written into a folder, read whole and in windows by several threads, compared and removed.

#![allow(clippy::print_stdout)] // its one job

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tiffjet::sink::FileSink;
use tiffjet::{Blocks, DType, Result, RowsView, Window, WriteOptions, Writer};

const CODECS: [&str; 7] = ["none", "packbits", "lzw", "deflate", "zstd", "lerc", "lzma"];
const TYPES: [DType; 5] = [DType::UInt8, DType::Int16, DType::UInt32, DType::Float32, DType::Float64];
const THREADS: u64 = 4;
/// What memory may grow by from the middle third of the time to the last.
const GROWTH: u64 = 32 << 20;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 11
}

/// Memory of this process now, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}

/// Files that are open in this process.
fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Writes an image, reads it and compares; tells what is wrong.
fn round(path: &Path, state: &mut u64) -> Result<Option<String>> {
    let pick = |state: &mut u64, end: usize| random(state) as usize % end;
    let shape = [1 + pick(state, 3), 200 + pick(state, 800), 200 + pick(state, 800)];
    let mut options = WriteOptions::new(shape, TYPES[pick(state, TYPES.len())]);
    options.compression = CODECS[pick(state, CODECS.len())].into();
    options.cog = pick(state, 3) == 0;
    options.planar = pick(state, 3) == 0;
    options.blocks = if options.cog || pick(state, 2) == 0 {
        Blocks::Tiles { width: 128, height: 128 }
    } else {
        Blocks::Strips { rows: Some(1 + pick(state, 40) as u32) }
    };
    let size = options.dtype.size();
    let slope = 1 + pick(state, 7);
    let pixels: Vec<u8> =
        (0..shape.iter().product::<usize>() * size).map(|i| (i / size / slope) as u8 & 0x3f).collect();
    let mut writer = Writer::create(FileSink::create(path)?, &options)?;
    let Some(rows) = RowsView::new(&pixels, shape, options.dtype) else { return Ok(Some("rows of no shape".into())) };
    writer.push(&rows)?;
    writer.finish()?;
    let image = tiffjet::open(path)?;
    let wrong = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (image, pixels) = (&image, &pixels);
                scope.spawn(move || -> Result<bool> {
                    let y = (thread as usize * 37) % (shape[1] - 64);
                    let window =
                        Window { rows: Some(y as u32..y as u32 + 64), bands: Some(vec![1]), ..Window::default() };
                    let part = image.read(&window)?;
                    let row = shape[2] * size;
                    let right = part.bytes() == Some(&pixels[y * row..(y + 64) * row]);
                    Ok(right && (thread > 0 || image.read(&Window::default())?.bytes() == Some(&pixels[..])))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(Ok(false))).collect::<Result<Vec<bool>>>()
    })?;
    Ok(wrong.contains(&false).then(|| format!("other pixels: {options:?}")))
}

fn main() -> ExitCode {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3600);
    let (begun, all) = (Instant::now(), Duration::from_secs(seconds));
    let folder = std::env::temp_dir().join(format!("tiffjet-soak-{}", std::process::id()));
    if let Err(error) = std::fs::create_dir_all(&folder) {
        println!("{}: {error}", folder.display());
        return ExitCode::FAILURE;
    }
    let path = folder.join("soak.tif");
    let (mut state, mut rounds, mut peaks, mut said) = (0x9e37_79b9_7f4a_7c15, 0u64, [0; 3], 0);
    let mut outcome = Ok(None);
    while begun.elapsed() < all {
        outcome = round(&path, &mut state);
        if !matches!(outcome, Ok(None)) {
            break;
        }
        rounds += 1;
        let third = (begun.elapsed().as_millis() * 3 / all.as_millis().max(1)).min(2) as usize;
        peaks[third] = resident().max(peaks[third]);
        if begun.elapsed().as_secs() / 60 > said {
            said = begun.elapsed().as_secs() / 60;
            println!("{said} min: {rounds} rounds, {} MiB, {} open files", resident() >> 20, open_files());
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    println!(
        "{rounds} rounds in {:?}; memory at the most, by thirds of the time: {:?} MiB; {} open files",
        begun.elapsed(),
        peaks.map(|p| p >> 20),
        open_files()
    );
    match outcome {
        Ok(None) if peaks[2] <= peaks[1] + GROWTH => ExitCode::SUCCESS,
        Ok(None) => {
            println!("memory grows");
            ExitCode::FAILURE
        }
        Ok(Some(wrong)) => {
            println!("{wrong}");
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
