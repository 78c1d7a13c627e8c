//! An image of a million tiles opens in a moment and little memory: what is not asked for is not read.

mod measured;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use measured::{Run, tiffjet};
use tiffjet::source::{FileSource, Source, Version};
use tiffjet::{Image, OpenOptions, Result, Window};
use tiffjet_testkit::big;

/// Tiles across and down.
const SIDE: u32 = 1000;
/// The tile in row 500 and column 500, and those at the ends.
const STORED: [u64; 3] = [0, 500_500, 999_999];
/// Memory for any question about one window.
const MEMORY: u64 = 32 << 20;
/// Far more than it takes, for machines with other things to do.
const PATIENCE: Duration = Duration::from_secs(1);

struct Million {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Million {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("million.tif");
        big::write(&path, SIDE, SIDE, &STORED).unwrap();
        Self { path, _folder: folder }
    }

    fn run(&self, arguments: &[&str]) -> Run {
        let path = self.path.to_str().unwrap();
        let run = tiffjet(&[arguments, &[path]].concat(), 10 * PATIENCE);
        report(&format!("tiffjet {}: {:?}, {} KiB", arguments.join(" "), run.time, run.peak >> 10));
        assert_eq!(run.code, Some(0), "{arguments:?}: {run:?}");
        assert!(run.peak < MEMORY, "{arguments:?} took {} KiB", run.peak >> 10);
        assert!(run.time < PATIENCE, "{arguments:?} took {:?}", run.time);
        run
    }
}

/// Figures to be seen with `--nocapture`.
#[expect(clippy::print_stderr)]
fn report(figure: &str) {
    eprintln!("{figure}");
}

/// Rows and columns across the corner of four tiles, that of tile (500, 500) and three that are not stored.
const WINDOW: &str = "--window=127990:128010,127990:128010";

#[test]
fn the_program_takes_little_memory() {
    let file = Million::new();
    let plan = file.run(&["plan", WINDOW]).stdout;
    assert!(plan.contains("tile 500500") && plan.contains("tile 499499") && !plan.contains("tile 500501"), "{plan}");
    let whole_tile = file.run(&["checksum", "--window=128000:128256,128000:128256"]).stdout;
    let other_tile = file.run(&["checksum", "--window=255744:256000,255744:256000"]).stdout;
    let absent = file.run(&["checksum", "--window=1024:1280,1024:1280"]).stdout;
    assert!(whole_tile != other_tile && whole_tile != absent && other_tile != absent);
    file.run(&["checksum", "--json", WINDOW]);
    if has_verb("info") {
        file.run(&["info", "--json"]);
    }
}

fn has_verb(verb: &str) -> bool {
    let help = tiffjet(&["--help"], 10 * PATIENCE).stdout;
    help.lines().any(|line| line.split_whitespace().next() == Some(verb))
}

/// Counts the bytes that are read.
struct Counting {
    inner: FileSource,
    bytes: AtomicU64,
}

impl Source for Counting {
    fn name(&self) -> &Arc<str> {
        self.inner.name()
    }

    fn version(&self) -> &Version {
        self.inner.version()
    }

    fn read(&self, ranges: &[Range<u64>], out: &mut [&mut [u8]], landed: &mut dyn FnMut(usize)) -> Result<()> {
        let asked: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        self.bytes.fetch_add(asked, Ordering::Relaxed);
        self.inner.read(ranges, out, landed)
    }
}

#[test]
fn few_bytes_are_read() {
    let file = Million::new();
    let source = Arc::new(Counting { inner: FileSource::open(&file.path).unwrap(), bytes: AtomicU64::new(0) });
    let read = || source.bytes.load(Ordering::Relaxed);

    let begun = Instant::now();
    let image = Image::from_source(source.clone(), &OpenOptions::default()).unwrap();
    let (opened, opening) = (read(), begun.elapsed());
    assert_eq!(image.shape(), [1, 256_000, 256_000]);
    assert_eq!(image.levels()[0].layout.tiles(), 1_000_000);

    let begun = Instant::now();
    let window = Window { rows: Some(127_990..128_010), cols: Some(127_990..128_010), ..Window::default() };
    let tensor = image.read(&window).unwrap();
    let (both, reading) = (read(), begun.elapsed());
    report(&format!("opened: {opened} bytes, {opening:?}; one window: {} bytes, {reading:?}", both - opened));
    let tile = big::tile(500_500);
    for (row, pixels) in tensor.bytes().unwrap().chunks_exact(20).enumerate() {
        let mut expected = [0; 20];
        if row >= 10 {
            expected[10..].copy_from_slice(&tile[(row - 10) * 256..][..10]);
        }
        assert_eq!(pixels, expected, "row {row}");
    }
    assert!(opened < 256 << 10, "{opened} bytes to open");
    assert!(both - opened < 256 << 10, "{} bytes for one window", both - opened);
    assert!(opening < PATIENCE && reading < PATIENCE, "{opening:?}, {reading:?}");
}
