//! The cache of tiles: the same pixels with it and without, kept at the second touch, within its budget.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tiffjet::source::{MemorySource, Source, Version};
use tiffjet::{Cpu, Error, Image, OpenOptions, Report, Window};
use tiffjet_testkit::{Compression, Pixels, Tiff, conformance};

const KIB: usize = 1 << 10;

/// Counts the bytes that are read, and can say that it changed.
struct Watched {
    inner: MemorySource<Vec<u8>>,
    read: AtomicU64,
    changed: AtomicBool,
}

impl Source for Watched {
    fn name(&self) -> &Arc<str> {
        self.inner.name()
    }

    fn version(&self) -> &Version {
        self.inner.version()
    }

    fn read(&self, ranges: &[Range<u64>], out: &mut [&mut [u8]], landed: &mut dyn FnMut(usize)) -> tiffjet::Result<()> {
        self.read.fetch_add(ranges.iter().map(|r| r.end - r.start).sum(), Ordering::Relaxed);
        self.inner.read(ranges, out, landed)
    }

    fn unchanged(&self) -> tiffjet::Result<()> {
        match self.changed.load(Ordering::Relaxed) {
            true => Err(Error::Changed { name: self.name().clone() }),
            false => Ok(()),
        }
    }
}

fn open(file: Vec<u8>) -> (Arc<Watched>, Image) {
    let inner = MemorySource::named("made.tif", file);
    let source = Arc::new(Watched { inner, read: AtomicU64::default(), changed: AtomicBool::default() });
    let image = Image::from_source(source.clone(), &OpenOptions::default()).unwrap();
    (source, image)
}

fn window(rows: Range<u32>, cols: Range<u32>) -> Window {
    Window { rows: Some(rows), cols: Some(cols), ..Window::default() }
}

/// Reads a window; its pixels must be those of a backend without a cache.
fn read(image: &Image, cpu: &Cpu, window: &Window) -> Report {
    let tensor = image.read_on(cpu, window).unwrap();
    let plain = image.read_on(&Cpu::new(1).unwrap().with_cache(0), window).unwrap();
    assert_eq!(plain.report.cached, 0);
    assert!(tensor.bytes() == plain.bytes(), "other pixels in {window:?}");
    tensor.report
}

/// Tiles of 8 KiB.
fn tiles() -> Tiff {
    Tiff::new(256, 256).bits(16).tile(64, 64).compression(Compression::Zstd).predictor(2)
}

fn random(seed: &mut u64, below: u32) -> u32 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*seed >> 33) % u64::from(below)) as u32
}

fn random_window(seed: &mut u64, image: &Image) -> Window {
    let [bands, height, width] = image.shape().map(|n| n as u32);
    let (y, x) = (random(seed, height), random(seed, width));
    let rows = y..y + 1 + random(seed, (height - y).min(120));
    let cols = x..x + 1 + random(seed, (width - x).min(120));
    let picked = match random(seed, 3) {
        0 => Some(vec![1 + random(seed, bands) as u16, 1 + random(seed, bands) as u16]),
        _ => None,
    };
    Window { rows: Some(rows), cols: Some(cols), bands: picked, level: 0 }
}

#[test]
fn a_small_cache_conforms() {
    let cpu = Cpu::new(3).unwrap().with_cache(1 << 20);
    conformance(&cpu);
    assert!(cpu.cache_bytes() <= 1 << 20);
}

#[test]
fn random_windows_are_the_same_with_any_cache() {
    let images = [
        ("zstd", tiles()),
        ("chunky", Tiff::new(203, 301).samples(3).tile(48, 64).compression(Compression::Zstd).predictor(2)),
        ("planar", Tiff::new(203, 301).bits(16).samples(3).planar().tile(48, 64).compression(Compression::Lzw)),
        (
            "floats",
            Tiff::new(203, 301).float(32).big_endian().tile(48, 64).compression(Compression::Deflate).predictor(3),
        ),
        ("strips", Tiff::new(203, 301).bits(12).strips(7).compression(Compression::Deflate)),
        ("sparse", Tiff::new(256, 256).tile(64, 64).sparse([1, 2, 5, 6]).compression(Compression::Deflate)),
        ("plain", Tiff::new(203, 301).bits(16).tile(48, 64)),
    ];
    for (name, tiff) in images {
        let (_, image) = open(tiff.build(&tiff.terrain(2)));
        for budget in [100 * KIB, 1 << 20] {
            let cpu = Cpu::new(2).unwrap().with_cache(budget);
            let mut seed = 7;
            let mut cached = 0;
            for _ in 0..150 {
                cached += read(&image, &cpu, &random_window(&mut seed, &image)).cached;
                assert!(cpu.cache_bytes() <= budget, "{name}: {} of {budget}", cpu.cache_bytes());
            }
            // Bytes of an uncompressed file are as near as those of a cache.
            assert_eq!(cached > 0, name != "plain", "{name}: {cached} tiles from a cache of {budget}");
        }
    }
}

#[test]
fn a_tile_is_kept_at_the_second_touch() {
    let tiff = tiles();
    let (source, image) = open(tiff.build(&tiff.terrain(1)));
    let cpu = Cpu::new(1).unwrap().with_cache(1 << 20);
    let corner = window(10..20, 10..20);
    let bytes = image.plan(&corner).unwrap().input_bytes();
    let touch = || {
        let before = source.read.load(Ordering::Relaxed);
        let report = image.read_on(&cpu, &corner).unwrap().report;
        assert_eq!(report.tiles, 1);
        assert_eq!(source.read.load(Ordering::Relaxed) - before, report.bytes_read);
        (report.cached, report.bytes_read, cpu.cache_bytes() > 0)
    };
    assert_eq!(touch(), (0, bytes, false));
    assert_eq!(touch(), (0, bytes, true));
    assert_eq!(touch(), (1, 0, true));
    assert_eq!(read(&image, &cpu, &window(0..64, 0..64)).cached, 1, "a whole tile");
    assert_eq!(read(&image, &cpu, &Window::default()).cached, 1, "the whole image");
}

#[test]
fn what_is_read_whole_leaves_no_trace() {
    let tiff = tiles();
    let (_, image) = open(tiff.build(&tiff.terrain(1)));
    let cpu = Cpu::new(2).unwrap().with_cache(1 << 20);
    for _ in 0..3 {
        assert_eq!(read(&image, &cpu, &Window::default()).cached, 0);
        assert_eq!(read(&image, &cpu, &window(64..192, 0..64)).cached, 0);
        assert_eq!(cpu.cache_bytes(), 0);
    }
    // Nearly all of it is a scan too, where the cache is not much larger.
    let small = Cpu::new(2).unwrap().with_cache(200 * KIB);
    for _ in 0..3 {
        assert_eq!(read(&image, &small, &window(1..256, 0..256)).cached, 0);
        assert_eq!(small.cache_bytes(), 0);
    }
}

#[test]
fn tiles_that_are_large_for_the_budget_are_not_kept() {
    let tiff = tiles();
    let (_, image) = open(tiff.build(&tiff.terrain(1)));
    for (budget, cached) in [(8 * 8 * KIB, 1), (8 * 8 * KIB - 1, 0), (0, 0)] {
        let cpu = Cpu::new(1).unwrap().with_cache(budget);
        let last = (0..3).map(|_| read(&image, &cpu, &window(10..20, 10..20))).last().unwrap();
        assert_eq!(last.cached, cached, "a budget of {budget}");
    }
}

#[test]
fn threads_share_a_cache_that_is_too_small() {
    let tiff = tiles();
    let (_, image) = open(tiff.build(&tiff.terrain(4)));
    let budget = 70 * KIB;
    let cpu = Cpu::new(4).unwrap().with_cache(budget);
    let cached = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (image, cpu, cached) = (&image, &cpu, &cached);
            scope.spawn(move || {
                let mut seed = thread;
                for _ in 0..150 {
                    let report = read(image, cpu, &random_window(&mut seed, image));
                    cached.fetch_add(report.cached as u64, Ordering::Relaxed);
                    assert!(cpu.cache_bytes() <= budget);
                }
            });
        }
    });
    assert!(cached.into_inner() > 0);
}

#[test]
fn a_changed_file_is_an_error_and_leaves_the_cache() {
    let tiff = tiles();
    let (source, image) = open(tiff.build(&tiff.terrain(1)));
    let cpu = Cpu::new(1).unwrap().with_cache(1 << 20);
    let corner = window(10..20, 10..20);
    let last = (0..3).map(|_| read(&image, &cpu, &corner)).last().unwrap();
    assert_eq!(last.cached, 1);
    source.changed.store(true, Ordering::Relaxed);
    assert!(matches!(image.read_on(&cpu, &corner), Err(Error::Changed { .. })));
    assert_eq!(cpu.cache_bytes(), 0);
    assert!(matches!(image.read_on(&cpu, &corner), Err(Error::Changed { .. })));
}

#[test]
fn a_file_that_is_opened_again_has_other_tiles() {
    let tiff = tiles();
    let cpu = Cpu::new(1).unwrap().with_cache(1 << 20);
    let corner = window(10..20, 10..20);
    for seed in 0..20 {
        let pixels = tiff.noise(seed);
        let (_, image) = open(tiff.build(&pixels));
        let cached: Vec<usize> = (0..3).map(|_| read(&image, &cpu, &corner).cached).collect();
        assert_eq!(cached, [0, 0, 1]);
        let one = 9 * KIB;
        assert!(cpu.cache_bytes() <= one, "tiles of closed images stay: {} bytes", cpu.cache_bytes());
    }
}

#[test]
fn a_damaged_tile_is_not_kept() {
    let tiff = Tiff::new(512, 512).float(32).tile(512, 512).compression(Compression::Zstd).predictor(3);
    let pixels: Pixels = tiff.noise(1);
    let mut file = tiff.build(&pixels);
    let mut range = open(file.clone()).1.plan(&Window::default()).unwrap().tiles()[0].range.clone();
    range.start += (range.end - range.start) / 2;
    file[range.start as usize..range.end as usize].fill(0xff);
    let (_, image) = open(file);
    let cpu = Cpu::new(1).unwrap().with_cache(16 << 20);
    for _ in 0..5 {
        // What is wanted is sound, and stays readable however often it is read.
        assert_eq!(read(&image, &cpu, &window(0..100, 0..100)).cached, 0);
        assert!(matches!(image.read_on(&cpu, &window(500..512, 0..10)), Err(Error::Tile { .. })));
        assert_eq!(cpu.cache_bytes(), 0);
    }
}

#[test]
fn a_closed_image_leaves_the_cache_of_the_process() {
    let tiff = tiles();
    let (_, image) = open(tiff.build(&tiff.terrain(1)));
    let cpu = Cpu::new(1).unwrap();
    let cached: Vec<usize> = (0..3).map(|_| read(&image, &cpu, &window(10..20, 10..20)).cached).collect();
    assert_eq!(cached, [0, 0, 1]);
    assert!(cpu.cache_bytes() > 0);
    drop(image);
    assert_eq!(cpu.cache_bytes(), 0);
}
