//! Damaged tiles on the GPU: the same error or the same pixels as the CPU gives, and a device that goes on after each.
//!
//!     hostile [SEEDS] [TILE]
//!     hostile set
//!
//! Every codec with a GPU route, tiles cut short, with flipped bits, too long and too short, SEEDS (100) of each; or every
//! hostile file of the testkit, with a good read after each.

#![allow(clippy::print_stdout)] // its one job

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tiffjet::codec::{self, Plain, Settings, TileFormat};
use tiffjet::source::MemorySource;
use tiffjet::{Backend, Cpu, DType, Image, Limits, OpenOptions, Tensor, Window};
use tiffjet_cuda::Cuda;
use tiffjet_testkit::{Tiff, hostile};

const CODECS: [u16; 4] = [32773, 5, 8, 50000];

#[derive(Debug, Clone, Copy)]
enum Damage {
    Truncated,
    Flipped,
    Overwritten,
    Oversized,
    Undersized,
}

const DAMAGES: [Damage; 5] =
    [Damage::Truncated, Damage::Flipped, Damage::Overwritten, Damage::Oversized, Damage::Undersized];

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn compress(number: u16, rows: &[u8]) -> Vec<u8> {
    let codec = codec::find(number).expect("a codec");
    let format = TileFormat::new(number, (rows.len() as u32, 1), 1, DType::UInt8);
    let settings = Settings { level: (number == 50000).then_some(3), ..Settings::default() };
    let mut out = Vec::new();
    codec.encode(&Plain { bytes: rows, rows: 1, format: &format, settings: &settings }, &mut out).expect("it encodes");
    out
}

fn damaged(number: u16, rows: &[u8], damage: Damage, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for _ in 0..8 {
        random(&mut state);
    }
    let mut state = state ^ rows.iter().fold(7, |hash: u64, &b| hash.wrapping_mul(31).wrapping_add(b.into())) | 1;
    // Some tiles stay whole: the damage of a neighbour must not be theirs.
    if random(&mut state).is_multiple_of(4) {
        return compress(number, rows);
    }
    let mut bytes = compress(number, rows);
    let at = (random(&mut state) % bytes.len() as u64) as usize;
    match damage {
        Damage::Truncated => bytes.truncate(at.max(1)),
        Damage::Flipped => (0..1 + seed % 3).for_each(|_| {
            let at = (random(&mut state) % bytes.len() as u64) as usize;
            bytes[at] ^= 1 << (random(&mut state) % 8);
        }),
        Damage::Overwritten => {
            let end = (at + 1 + (random(&mut state) % 64) as usize).min(bytes.len());
            bytes[at..end].iter_mut().for_each(|b| *b = random(&mut state) as u8);
        }
        Damage::Oversized => {
            let mut long = rows.to_vec();
            long.extend((0..1 + random(&mut state) % 4000).map(|i| i as u8));
            bytes = compress(number, &long);
        }
        Damage::Undersized => {
            let keep = (random(&mut state) % rows.len() as u64) as usize;
            bytes = compress(number, &rows[..keep.max(1)]);
        }
    }
    bytes
}

fn open(file: Vec<u8>) -> Image {
    Image::from_source(Arc::new(MemorySource::named("hostile", file)), &OpenOptions::default()).expect("a good header")
}

/// The pixels, or the error.
fn outcome(image: &Image, backend: &dyn Backend) -> Result<Vec<u8>, String> {
    let tensor: Tensor = image.read_on(backend, &Window::default()).map_err(|e| e.to_string())?;
    let mut bytes = vec![0; tensor.storage().length()];
    tensor.storage().to_host(&mut bytes).map_err(|e| format!("copying: {e}"))?;
    Ok(bytes)
}

/// No read may take longer, kernels, copies and the host's part together.
const LONGEST: Duration = Duration::from_secs(2);

/// What became of the set.
#[derive(Default)]
struct Tally {
    refused: usize,
    read: usize,
    differ: usize,
    slow: usize,
    longest: (Duration, String),
}

/// Every hostile file on the device, and a good one after each.
fn set(cpu: &Cpu, cuda: &Cuda) -> ExitCode {
    let good = Tiff::new(128, 64).bits(16).tile(64, 64).compress_with(8, |rows| compress(8, rows));
    let good = open(good.build(&good.terrain(5)));
    let expected = outcome(&good, cpu);
    let mut tally = Tally::default();
    let cases = hostile::cases();
    for case in &cases {
        judge(case, cpu, cuda, &mut tally);
        if outcome(&good, cuda) != expected {
            println!("{}: the device is not well afterwards", case.name);
            return ExitCode::FAILURE;
        }
    }
    let Tally { refused, read, differ, slow, longest } = tally;
    println!("{} files: {refused} refused, {read} read, {differ} differ, {slow} longer than {LONGEST:?}", cases.len());
    println!("the longest read on the device: {:?}, {}", longest.0, longest.1);
    if differ + slow == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn judge(case: &hostile::Case, cpu: &Cpu, cuda: &Cuda, tally: &mut Tally) {
    // Memory of the device is for tiles, not for the claims of a file.
    let limits = Limits { output_bytes: 1 << 26, tile_bytes: 1 << 26, ..Limits::default() };
    let source = Arc::new(MemorySource::named("hostile", case.bytes.clone()));
    let Ok(image) = Image::from_source(source, &OpenOptions { limits, ..OpenOptions::default() }) else {
        tally.refused += 1;
        return;
    };
    let host = outcome(&image, cpu);
    let begun = Instant::now();
    let device = outcome(&image, cuda);
    let taken = begun.elapsed();
    if taken > tally.longest.0 {
        tally.longest = (taken, case.name.clone());
    }
    if taken > LONGEST {
        println!("{}: {taken:?}", case.name);
        tally.slow += 1;
    }
    *if host.is_ok() { &mut tally.read } else { &mut tally.refused } += 1;
    // Libraries that decode pictures say less of damage than the host does, and round another way.
    let picture = matches!(image.levels()[0].layout.codec.name(), "jpeg" | "jpeg2000");
    if host != device && !picture {
        let say = |o: &Result<Vec<u8>, String>| o.as_ref().map_or_else(|e| e.clone(), |b| format!("{} bytes", b.len()));
        println!("{}: cpu {} / cuda {}", case.name, say(&host), say(&device));
        tally.differ += 1;
    }
}

fn main() -> ExitCode {
    let number = |n: usize, default: u64| std::env::args().nth(n).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (seeds, tile) = (number(1, 100), number(2, 64) as u32);
    let cuda = match Cuda::new(0) {
        Ok(cuda) => cuda,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let cpu = Cpu::shared().expect("a CPU");
    if std::env::args().nth(1).as_deref() == Some("set") {
        return set(&cpu, &cuda);
    }
    let mut wrong = 0;
    for codec in CODECS {
        let name = codec::find(codec).map_or("", |c| c.name());
        let control =
            Tiff::new(2 * tile, tile).bits(16).tile(tile, tile).compress_with(codec, move |r| compress(codec, r));
        let control = open(control.build(&control.terrain(5)));
        let control_pixels = outcome(&control, &cpu);
        for damage in DAMAGES {
            let (mut errors, mut pixels, mut differ) = (0, 0, 0);
            for seed in 0..seeds {
                let tiff = Tiff::new(4 * tile - 3, 2 * tile).bits(16).tile(tile, tile);
                let tiff = if codec == 32773 { tiff } else { tiff.predictor(2) };
                let tiff = tiff.compress_with(codec, move |rows| damaged(codec, rows, damage, seed));
                let source = if seed.is_multiple_of(2) { tiff.terrain(seed) } else { tiff.noise(seed) };
                let image = open(tiff.build(&source));
                let (host, device) = (outcome(&image, &cpu), outcome(&image, &cuda));
                match &host {
                    Ok(_) => pixels += 1,
                    Err(_) => errors += 1,
                }
                if host != device {
                    differ += 1;
                    let say = |o: &Result<Vec<u8>, String>| {
                        o.as_ref().map_or_else(|e| e.clone(), |b| format!("{} bytes", b.len()))
                    };
                    println!("{name} {damage:?} seed {seed}: cpu {} / cuda {}", say(&host), say(&device));
                }
                if outcome(&control, &cuda) != control_pixels {
                    println!("{name} {damage:?} seed {seed}: the device is not well afterwards");
                    return ExitCode::FAILURE;
                }
            }
            println!("{name} {damage:?}: {seeds} seeds, {errors} errors, {pixels} with pixels, {differ} differ");
            wrong += differ;
        }
    }
    println!("{wrong} differences");
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
