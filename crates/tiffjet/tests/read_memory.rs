//! What opening and reading take, measured.
//!
//! The only test of its binary: the peak that it looks at is that of the process.

use std::path::Path;

use tiffjet::sink::FileSink;
use tiffjet::{Blocks, DType, Image, OpenOptions, RowsView, Window, WriteOptions, Writer};
use tiffjet_testkit::{Tiff, Value, hostile, tag};

const MIB: u64 = 1 << 20;

/// A line of `/proc/self/status`, in bytes.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// What an act takes at the most, beside what is held before it.
fn taken<T>(act: impl FnOnce() -> T) -> (T, u64) {
    std::fs::write("/proc/self/clear_refs", "5").unwrap(); // the peak is now what is held
    let before = status("VmRSS:");
    let result = act();
    (result, status("VmHWM:").saturating_sub(before))
}

/// Files with much to say of themselves.
fn opening(path: &Path) {
    let described = |bytes: usize| {
        let image = Tiff::new(16, 16).tag(tag::IMAGE_DESCRIPTION, Value::Ascii(vec![b'a'; bytes]));
        image.build(&image.gradient())
    };
    let chain = hostile::cases().into_iter().find(|case| case.name == "65000-directories").unwrap().bytes;
    for (name, file) in [("plain", described(10)), ("described", described(32 << 20)), ("chain", chain)] {
        std::fs::write(path, &file).unwrap();
        let length = file.len() as u64;
        drop(file);
        let (image, memory) = taken(|| {
            let image = tiffjet::open(path).unwrap();
            image.geo();
            image
        });
        let allowed = 16 * MIB + 2 * length;
        assert!(memory <= allowed, "{name}: {} KiB to open, {} are allowed", memory >> 10, allowed >> 10);
        drop(image);
    }
}

/// Large and small tiles, strips, whole images and windows.
fn reading(path: &Path) {
    const SIZE: usize = 4096;
    for (codec, blocks) in [
        ("none", Blocks::Tiles { width: 512, height: 512 }),
        ("deflate", Blocks::Tiles { width: 2048, height: 2048 }),
        ("zstd", Blocks::Tiles { width: 256, height: 256 }),
        ("lzw", Blocks::Strips { rows: Some(16) }),
    ] {
        let mut options = WriteOptions::new([1, SIZE, SIZE], DType::UInt16);
        (options.compression, options.blocks) = (codec.into(), blocks);
        let mut writer = Writer::create(FileSink::create(path).unwrap(), &options).unwrap();
        let row: Vec<u8> = (0..SIZE * 2).map(|i| (i / 5) as u8).collect();
        for _ in 0..SIZE {
            writer.push(&RowsView::new(&row, [1, 1, SIZE], DType::UInt16).unwrap()).unwrap();
        }
        writer.finish().unwrap();
        let image = Image::open(path, &OpenOptions::default()).unwrap();
        let tile = image.levels()[0].layout.plain_bytes(image.levels()[0].layout.format.height);
        for rows in [None, Some(100..400)] {
            let window = Window { rows, ..Window::default() };
            let (tensor, memory) = taken(|| image.read(&window).unwrap());
            let output = tensor.bytes().unwrap().len() as u64;
            let allowed = output + 4 * tile + 64 * MIB;
            assert!(memory <= allowed, "{codec} {window:?}: {} MiB, {} are allowed", memory >> 20, allowed >> 20);
        }
    }
}

#[test]
fn opening_and_reading_keep_to_their_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image.tif");
    opening(&path);
    reading(&path);
}
