//! Damaged JPEG and JPEG 2000 on the GPU, where libraries decode them: the process and the device must go on after each.
//!
//!     hostile_pictures CODEC [SEEDS] [TILE]          CODEC: 7 or 34712
//!
//! Half of the damage is in the first 200 bytes of a tile, where sizes and tables stand. JPEG must be the host's in all of
//! it, the same error or pixels that are near: its codes are gone through before the library has them. What nvJPEG2000
//! makes of damage in the bits of a block is counted, not judged: nothing in them tells that they are damaged.
//!
//! Who is at work is told every two seconds, and in the end what each took: what is slow is told from what hangs.

#![allow(clippy::print_stdout)] // its one job

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tiffjet::codec::{self, Plain, Settings, TileFormat};
use tiffjet::source::MemorySource;
use tiffjet::{Backend, Cpu, DType, Image, OpenOptions, Window};
use tiffjet_cuda::Cuda;
use tiffjet_testkit::Tiff;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn compress(number: u16, tile: u32, rows: &[u8], quality: Option<u8>) -> Vec<u8> {
    let mut format = TileFormat::new(number, (tile, tile), 3, DType::UInt8);
    if number == 7 {
        (format.photometric, format.subsampling) = (6, (2, 2));
    }
    let settings = Settings { quality, ..Settings::default() };
    let mut out = Vec::new();
    let plain = Plain { bytes: rows, rows: tile, format: &format, settings: &settings };
    codec::find(number).expect("a codec").encode(&plain, &mut out).expect("it encodes");
    out
}

fn damage(mut bytes: Vec<u8>, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (bytes.len() as u64) << 7 | 1;
    for _ in 0..8 {
        random(&mut state);
    }
    // Some tiles stay whole: the damage of a neighbour must not be theirs.
    if random(&mut state).is_multiple_of(3) {
        return bytes;
    }
    let within = if seed.is_multiple_of(2) { bytes.len().min(200) } else { bytes.len() } as u64;
    match random(&mut state) % 8 {
        0 => bytes.truncate((random(&mut state) % bytes.len() as u64) as usize + 1),
        1 => {
            let at = (random(&mut state) % within) as usize;
            let end = (at + 1 + (random(&mut state) % 32) as usize).min(bytes.len());
            bytes[at..end].iter_mut().for_each(|b| *b = random(&mut state) as u8);
        }
        _ => (0..1 + random(&mut state) % 3).for_each(|_| {
            let at = (random(&mut state) % within) as usize;
            bytes[at] ^= 1 << (random(&mut state) % 8);
        }),
    }
    bytes
}

fn open(file: Vec<u8>) -> Image {
    Image::from_source(Arc::new(MemorySource::named("hostile", file)), &OpenOptions::default()).expect("a good header")
}

fn outcome(image: &Image, backend: &dyn Backend) -> Result<Vec<u8>, String> {
    let tensor = image.read_on(backend, &Window::default()).map_err(|e| e.to_string())?;
    let mut bytes = vec![0; tensor.storage().length()];
    tensor.storage().to_host(&mut bytes).map_err(|e| format!("copying: {e}"))?;
    Ok(bytes)
}

/// What a seed goes through.
const STEPS: [&str; 4] = ["making the file", "the host", "the device", "the device afterwards"];

/// Who is at work, since when, and the seconds of each so far.
struct Watch {
    seed: AtomicUsize,
    step: AtomicUsize,
    since: Mutex<Instant>,
    spent: Mutex<[f64; STEPS.len()]>,
}

impl Watch {
    fn start() -> &'static Self {
        let watch: &'static Self = Box::leak(Box::new(Self {
            seed: AtomicUsize::new(0),
            step: AtomicUsize::new(0),
            since: Mutex::new(Instant::now()),
            spent: Mutex::default(),
        }));
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(2));
                let since = watch.since.lock().unwrap_or_else(PoisonError::into_inner).elapsed().as_secs_f64();
                let step = STEPS[watch.step.load(Ordering::Relaxed)];
                println!("seed {}: {step} since {since:.3} s", watch.seed.load(Ordering::Relaxed));
            }
        });
        watch
    }

    /// Does a step; gives its seconds too.
    fn step<T>(&self, seed: u64, step: usize, work: impl FnOnce() -> T) -> (T, f64) {
        self.seed.store(seed as usize, Ordering::Relaxed);
        self.step.store(step, Ordering::Relaxed);
        let begun = Instant::now();
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = begun;
        let done = work();
        let seconds = begun.elapsed().as_secs_f64();
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)[step] += seconds;
        (done, seconds)
    }

    fn told(&self) -> String {
        let spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        STEPS.iter().zip(*spent).map(|(step, seconds)| format!("{step} {seconds:.3} s")).collect::<Vec<_>>().join(", ")
    }
}

fn main() -> ExitCode {
    let number = |n: usize, default: u64| std::env::args().nth(n).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (codec, seeds, tile) = (number(1, 34712) as u16, number(2, 200), number(3, 64) as u32);
    let cuda = match Cuda::new(0) {
        Ok(cuda) => cuda,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let cpu = Cpu::shared().expect("a CPU");
    // The pixels are the same for all: making them takes longer than all else.
    let raster = Tiff::new(4 * tile, 2 * tile).samples(3).tile(tile, tile).terrain(5);
    let image = |damaged: Option<u64>| {
        let quality = damaged.filter(|seed| seed % 4 >= 2).map(|_| 30).or((codec == 7).then_some(80));
        let tiff =
            Tiff::new(4 * tile, 2 * tile).samples(3).photometric(if codec == 7 { 6 } else { 2 }).tile(tile, tile);
        let tiff = tiff.compress_with(codec, move |rows| {
            let bytes = compress(codec, tile, rows, quality);
            damaged.map_or(bytes.clone(), |seed| damage(bytes, seed))
        });
        open(tiff.build(&raster))
    };
    let watch = Watch::start();
    let control = watch.step(0, 0, || image(None)).0;
    let good = watch.step(0, 2, || outcome(&control, &cuda)).0;
    let (mut same, mut near, mut far, mut errors, mut lenient, mut strict) = (0, 0, 0, 0, 0, 0);
    let mut slowest = (0.0, 0);
    for seed in 0..seeds {
        let image = watch.step(seed, 0, || image(Some(seed))).0;
        let host = watch.step(seed, 1, || outcome(&image, &cpu)).0;
        let (device, seconds) = watch.step(seed, 2, || outcome(&image, &cuda));
        if seconds > slowest.0 {
            slowest = (seconds, seed);
        }
        match (host, device) {
            (Ok(host), Ok(device)) => match host.iter().zip(&device).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0) {
                0 => same += 1,
                1..=3 => near += 1,
                _ => far += 1,
            },
            (Err(host), Err(device)) if host == device => errors += 1,
            (Err(host), Err(device)) => {
                println!("seed {seed}: {host} / {device}");
                strict += 1;
            }
            (Err(host), Ok(_)) => {
                println!("seed {seed}: the host alone says {host}");
                lenient += 1;
            }
            (Ok(_), Err(error)) => {
                println!("seed {seed}: the device alone says {error}");
                strict += 1;
            }
        }
        if watch.step(seed, 3, || outcome(&control, &cuda)).0 != good {
            println!("seed {seed}: the device is not well afterwards");
            return ExitCode::FAILURE;
        }
    }
    println!(
        "codec {codec}, {seeds} seeds: {same} the same, {near} within 3, {far} further off, {errors} errors on both, {lenient} on the host alone, {strict} on the device alone or others; the slowest took {:.3} s (seed {})",
        slowest.0, slowest.1
    );
    println!("{}", watch.told());
    let judged = codec != 7 || far + lenient == 0;
    if strict == 0 && judged && good.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
