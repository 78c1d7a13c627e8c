//! Damaged tiles on the GPU: the same error or the same pixels as the CPU gives, and a device that goes on after each.
//!
//!     hostile [SEEDS] [TILE]
//!     hostile set
//!
//! Every codec that our kernels decode, tiles cut short, with flipped bits, too long and too short, SEEDS (100) of each; or
//! every hostile file of the testkit. A good read after each, and none may take more than two seconds.

#![allow(clippy::print_stdout)] // its one job

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tiffjet::codec::{self, Plain, Settings, TileFormat};
use tiffjet::source::MemorySource;
use tiffjet::{Backend, Cpu, DType, Image, Limits, OpenOptions, Tensor, Window};
use tiffjet_cuda::Cuda;
use tiffjet_testkit::{Tiff, hostile};

const CODECS: [u16; 5] = [1, 32773, 5, 8, 50000];

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

/// What became of the files.
#[derive(Default)]
struct Tally {
    refused: usize,
    read: usize,
    differ: usize,
    slow: usize,
    longest: (Duration, String),
}

impl Tally {
    /// Reads on both and compares; pixels of pictures may differ.
    fn judge(&mut self, name: &str, image: &Image, cpu: &Cpu, cuda: &Cuda) {
        let host = outcome(image, cpu);
        let begun = Instant::now();
        let device = outcome(image, cuda);
        let taken = begun.elapsed();
        if taken > self.longest.0 {
            self.longest = (taken, name.to_owned());
        }
        if taken > LONGEST {
            println!("{name}: {taken:?}");
            self.slow += 1;
        }
        *if host.is_ok() { &mut self.read } else { &mut self.refused } += 1;
        // Libraries that decode pictures say less of damage than the host does, and round another way.
        let picture = matches!(image.levels()[0].layout.codec.name(), "jpeg" | "jpeg2000");
        if host != device && !picture {
            let say =
                |o: &Result<Vec<u8>, String>| o.as_ref().map_or_else(|e| e.clone(), |b| format!("{} bytes", b.len()));
            println!("{name}: cpu {} / cuda {}", say(&host), say(&device));
            self.differ += 1;
        }
    }

    fn verdict(&self, what: &str) -> bool {
        let Self { refused, read, differ, slow, longest: (longest, name) } = self;
        println!("{what}: {refused} refused, {read} read, {differ} differ, {slow} longer than {LONGEST:?}");
        println!("  the longest read on the device: {longest:?}, {name}");
        differ + slow == 0
    }
}

/// Every hostile file on the device, and a good one after each.
fn set(cpu: &Cpu, cuda: &Cuda) -> bool {
    let good = Tiff::new(128, 64).bits(16).tile(64, 64).compress_with(8, |rows| compress(8, rows));
    let good = open(good.build(&good.terrain(5)));
    let expected = outcome(&good, cpu);
    let mut tally = Tally::default();
    let cases = hostile::cases();
    // Memory of the device is for tiles, not for the claims of a file.
    let limits = Limits { output_bytes: 1 << 26, tile_bytes: 1 << 26, ..Limits::default() };
    let options = OpenOptions { limits, ..OpenOptions::default() };
    for case in &cases {
        let source = Arc::new(MemorySource::named("hostile", case.bytes.clone()));
        match Image::from_source(source, &options) {
            Ok(image) => tally.judge(&case.name, &image, cpu, cuda),
            Err(_) => tally.refused += 1,
        }
        if outcome(&good, cuda) != expected {
            println!("{}: the device is not well afterwards", case.name);
            return false;
        }
    }
    tally.verdict(&format!("{} files", cases.len()))
}

/// Damaged tiles of one codec, and a good file of it after each.
fn tiles(codec: u16, seeds: u64, tile: u32, cpu: &Cpu, cuda: &Cuda) -> bool {
    let name = codec::find(codec).map_or("", |c| c.name());
    let good = Tiff::new(2 * tile, tile).bits(16).tile(tile, tile).compress_with(codec, move |r| compress(codec, r));
    let good = open(good.build(&good.terrain(5)));
    let expected = outcome(&good, cpu);
    let mut well = true;
    for damage in DAMAGES {
        let mut tally = Tally::default();
        for seed in 0..seeds {
            let tiff = Tiff::new(4 * tile - 3, 2 * tile).bits(16).tile(tile, tile);
            let tiff = if matches!(codec, 1 | 32773) { tiff } else { tiff.predictor(2) };
            let tiff = tiff.compress_with(codec, move |rows| damaged(codec, rows, damage, seed));
            let source = if seed.is_multiple_of(2) { tiff.terrain(seed) } else { tiff.noise(seed) };
            tally.judge(&format!("{name} {damage:?} seed {seed}"), &open(tiff.build(&source)), cpu, cuda);
            if outcome(&good, cuda) != expected {
                println!("{name} {damage:?} seed {seed}: the device is not well afterwards");
                return false;
            }
        }
        well &= tally.verdict(&format!("{name} {damage:?}, {seeds} seeds"));
    }
    well
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
    let well = if std::env::args().nth(1).as_deref() == Some("set") {
        set(&cpu, &cuda)
    } else {
        CODECS.iter().filter(|&&codec| !tiles(codec, seeds, tile, &cpu, &cuda)).count() == 0
    };
    println!("{}", if well { "all is well" } else { "FAILED" });
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
