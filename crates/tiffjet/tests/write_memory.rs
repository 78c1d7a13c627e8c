//! The writer keeps to its budget, whatever the size of the image.
//!
//! No two tests of this binary run in one process: the peak that they look at is that of the process.

use tiffjet::sink::FileSink;
use tiffjet::{DType, RowsView, WriteOptions, Writer};

const MIB: u64 = 1 << 20;

/// The most memory that this process ever had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Writes a COG of `size` rows and columns of float32, one row at a time: noise in the bits of `mask`.
fn write(size: usize, budget: u64, mask: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut options = WriteOptions::new([1, size, size], DType::Float32);
    options.cog = true;
    options.compression = "zstd".into();
    options.settings.level = Some(1);
    options.memory = Some(budget);
    let mut writer = Writer::create(FileSink::create(dir.path().join("large.tif")).unwrap(), &options).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut row = vec![0; size * 4];
    for _ in 0..size {
        for bytes in row.as_chunks_mut::<8>().0 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *bytes = (state & mask).to_ne_bytes();
        }
        writer.push(&RowsView::new(&row, [1, 1, size], DType::Float32).unwrap()).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn a_cog_of_any_size_is_written_within_the_budget() {
    for budget in [64 * MIB, 256 * MIB] {
        // Tiles that do not compress are the worst there is.
        write(16384, budget, u64::MAX);
        check(budget);
    }
}

#[test]
#[ignore = "16 GiB of pixels take minutes and 6 GB of disk: cargo test --release --test write_memory -- --ignored --nocapture"]
fn nor_does_memory_grow_with_the_image() {
    // One row of tiles of each level is 256 MiB, and no budget makes less of it.
    write(65536, 256 * MIB, 0x0000_000f_0000_000f);
    report(&format!("a peak of {} MiB", check(256 * MIB) / MIB));
}

/// Figures to be seen with `--nocapture`.
#[expect(clippy::print_stderr)]
fn report(figure: &str) {
    eprintln!("{figure}");
}

/// Looks at the peak and gives it.
fn check(budget: u64) -> u64 {
    let peak = peak();
    assert!(peak < budget + 64 * MIB, "a peak of {} MiB for a budget of {}", peak / MIB, budget / MIB);
    peak
}
