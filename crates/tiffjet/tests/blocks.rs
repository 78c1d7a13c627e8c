//! Tiles of many ZSTD blocks, whose rows are placed as they come, in results so large that they go past the caches.

use std::sync::Arc;

use tiffjet::source::MemorySource;
use tiffjet::{Image, OpenOptions, Window};
use tiffjet_testkit::{Compression, Pixels, Tiff};

fn open(file: Vec<u8>) -> Image {
    Image::from_source(Arc::new(MemorySource::new(file)), &OpenOptions::default()).unwrap()
}

/// Rows and columns of all bands, in the order of this machine.
fn expected(pixels: &Pixels, rows: std::ops::Range<u32>, cols: std::ops::Range<u32>) -> Vec<u8> {
    let shape = (cols.len() as u32, rows.len() as u32, pixels.samples);
    let part = Pixels::from_fn(shape, pixels.format, |band, y, x| pixels.get(band, rows.start + y, cols.start + x));
    let mut bytes = part.to_le_bytes();
    if cfg!(target_endian = "big") {
        let size = bytes.len() / part.values.len();
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    bytes
}

fn check(name: &str, tiff: &Tiff) {
    let pixels = tiff.terrain(3);
    let (width, height) = (pixels.width, pixels.height);
    let image = open(tiff.build(&pixels));
    let windows = [
        (0..height, 0..width),
        (0..1, 0..width),
        (height - 1..height, width - 1..width),
        (100..612, 77..589),
        (500..513, 256..512),
    ];
    for (rows, cols) in windows {
        let window = Window { rows: Some(rows.clone()), cols: Some(cols.clone()), ..Window::default() };
        let tensor = image.read(&window).unwrap();
        assert!(tensor.bytes() == Some(&expected(&pixels, rows, cols)[..]), "{name}: {window:?}");
    }
}

#[test]
fn rows_come_to_their_place() {
    let zstd = |tiff: Tiff, predictor| tiff.compression(Compression::Zstd).predictor(predictor);
    let floats = || Tiff::new(1536, 1400).float(32).tile(512, 512);
    check("floats", &zstd(floats(), 3));
    check("floats of the other byte order", &zstd(floats().big_endian(), 3));
    check("floats that begin amid a line", &zstd(Tiff::new(1509, 1400).float(32).tile(496, 512), 3));
    check("floats of two bands", &zstd(Tiff::new(1024, 1100).float(32).samples(2).tile(512, 512), 3));
    check("bytes of three bands", &zstd(Tiff::new(2048, 1400).samples(3).tile(512, 512), 2));
    check("bytes that begin amid a line", &zstd(Tiff::new(2001, 1400).samples(3).tile(496, 512), 2));
    check("numbers of one band", &zstd(Tiff::new(2048, 2100).bits(16).tile(512, 512), 2));
    check("numbers of four bands", &zstd(Tiff::new(1024, 1100).bits(16).samples(4).tile(512, 512), 1));
    check(
        "numbers of four bands, turned round",
        &zstd(Tiff::new(1024, 1100).bits(16).samples(4).tile(512, 512).big_endian(), 2),
    );
}

#[test]
fn damage_behind_the_window_does_not_matter() {
    let tiff = Tiff::new(512, 512).float(32).tile(512, 512).compression(Compression::Zstd).predictor(3);
    let pixels = tiff.noise(1);
    let file = tiff.build(&pixels);
    let mut range = open(file.clone()).plan(&Window::default()).unwrap().tiles()[0].range.clone();
    let mut damaged = file;
    range.start += (range.end - range.start) / 2;
    damaged[range.start as usize..range.end as usize].fill(0xff);
    let image = open(damaged);
    let first = Window { rows: Some(0..100), ..Window::default() };
    assert!(image.read(&first).unwrap().bytes() == Some(&expected(&pixels, 0..100, 0..512)[..]));
    assert!(image.read(&Window::default()).is_err());
    assert!(image.read(&Window { rows: Some(500..512), ..Window::default() }).is_err());
}
