//! Several devices at once, without one: what each of them does stays on it, and what goes wrong with one is its own matter.

mod fake;

use std::sync::Arc;

use tiffjet::sink::MemorySink;
use tiffjet::source::{MemorySource, Source};
use tiffjet::{
    Backend, Blocks, Cpu, DType, Device, EncodedRows, Encoder, Error, Image, OpenOptions, Part, RowsBuf, RowsView,
    Window, WriteOptions, Writer,
};
use tiffjet_cuda::Cuda;
use tiffjet_testkit::{Compression, Tiff};

/// DLPack's number of CUDA devices.
const CUDA: i32 = 2;
const THREE: (&str, &str) = ("FAKECUDA_DEVICES", "3");

fn sample(compression: Compression) -> Image {
    let tiff = Tiff::new(100, 90).bits(16).tile(32, 32).compression(compression);
    let source: Arc<dyn Source> = Arc::new(MemorySource::named("sample", tiff.build(&tiff.terrain(3))));
    Image::from_source(source, &OpenOptions::default()).unwrap()
}

fn window(rows: std::ops::Range<u32>) -> Window {
    Window { rows: Some(rows), ..Window::default() }
}

fn pixels(image: &Image, backend: &dyn Backend, window: &Window) -> Result<Vec<u8>, Error> {
    let tensor = image.read_on(backend, window)?;
    let mut bytes = vec![0; tensor.storage().length()];
    tensor.storage().to_host(&mut bytes)?;
    Ok(bytes)
}

#[test]
fn pixels_are_where_they_were_asked_for() {
    fake::child("child_placement", &[THREE]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_placement() {
    assert_eq!(tiffjet_cuda::devices().unwrap().len(), 3);
    let image = sample(Compression::Zstd);
    let cpu = Cpu::shared().unwrap();
    // All at once, each device by several threads that are the first to ask for it.
    std::thread::scope(|scope| {
        for turn in 0..9u32 {
            let (image, cpu) = (&image, &cpu);
            scope.spawn(move || {
                let (ordinal, window) = ((turn % 3) as i32, window(turn * 8..turn * 8 + 26));
                let cuda = Cuda::new(ordinal).unwrap();
                assert_eq!(cuda.name(), format!("cuda:{ordinal}"));
                let tensor = image.read_on(&cuda, &window).unwrap();
                assert_eq!(tensor.storage().device(), Device { kind: CUDA, id: ordinal });
                assert!(pixels(image, &cuda, &window).unwrap() == pixels(image, cpu, &window).unwrap(), "{turn}");
            });
        }
    });
    let error = Cuda::new(3).unwrap_err();
    assert!(matches!(&error, Error::Unavailable { hint, .. } if hint.contains("3 devices")), "{error}");
}

fn options() -> WriteOptions {
    let mut options = WriteOptions::new([2, 90, 130], DType::UInt16);
    options.blocks = Blocks::Tiles { width: 32, height: 32 };
    options.compression = "zstd".into();
    options
}

fn image_bytes() -> Vec<u8> {
    (0..2 * 90 * 130).flat_map(|i: usize| ((i / 7 * 31 % 997) as u16).to_ne_bytes()).collect()
}

/// Some columns of some rows.
fn columns(all: &RowsView<'_>, rows: std::ops::Range<usize>, cols: std::ops::Range<usize>) -> RowsBuf {
    let mut out = RowsBuf::new(all.bands(), cols.len(), DType::UInt16, false);
    let mut new = out.grow(rows.len());
    for band in 0..all.bands() {
        for (y, row) in rows.clone().enumerate() {
            new.row(band, y).copy_from_slice(&all.row(band, row)[2 * cols.start..2 * cols.end]);
        }
    }
    out
}

#[test]
fn parts_of_several_devices_are_one_file() {
    fake::child("child_parts", &[THREE]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_parts() {
    let (options, bytes) = (options(), image_bytes());
    let all = RowsView::new(&bytes, options.shape, DType::UInt16).unwrap();
    let sink = MemorySink::new();
    let mut writer = Writer::create_on(Arc::new(Cuda::new(0).unwrap()), Box::new(sink.clone()), &options).unwrap();
    writer.push(&all).unwrap();
    writer.finish().unwrap();
    let whole = sink.take().unwrap();
    // Tiles take turns between devices, all devices work at once, and the last parts come first.
    let encoder = |ordinal| Encoder::new(Arc::new(Cuda::new(ordinal).unwrap()), "parts", &options).unwrap();
    let encoders: Vec<Encoder> = (0..3).map(encoder).collect();
    let mut tiles: Vec<EncodedRows<'static>> = std::thread::scope(|scope| {
        let work = |turn: usize| {
            let (row, col) = (turn / 3, turn % 3);
            let (rows, last) = (row * 32..90.min(row * 32 + 32), if col == 2 { 130 } else { col * 32 + 32 });
            let part = Part {
                level: 0,
                mask: false,
                row: row as u32,
                cols: col as u32..if col == 2 { 5 } else { col as u32 + 1 },
            };
            let pixels = columns(&all, rows, col * 32..last);
            encoders[turn % 3].encode(&part, (&pixels.view()).into()).unwrap()
        };
        let threads: Vec<_> = (0..9).map(|turn| scope.spawn(move || work(turn))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    tiles.reverse();
    let sink = MemorySink::new();
    let mut writer = Writer::collect(Box::new(sink.clone()), &options).unwrap();
    tiles.iter().for_each(|tiles| writer.append(tiles).unwrap());
    writer.finish().unwrap();
    assert!(sink.take().unwrap() == whole);
}

#[test]
fn a_device_that_is_lost_is_lost_alone() {
    fake::child("child_lost", &[THREE, ("FAKECUDA_FAIL", "lost@1:1")]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_lost() {
    let (image, cpu) = (sample(Compression::Deflate), Cpu::shared().unwrap());
    let due = pixels(&image, &cpu, &Window::default()).unwrap();
    for ordinal in [0, 1, 2, 1, 0] {
        let outcome = Cuda::new(ordinal).and_then(|cuda| pixels(&image, &cuda, &Window::default()));
        match ordinal {
            1 => assert!(matches!(&outcome, Err(Error::Device { device, .. }) if device == "cuda:1"), "{outcome:?}"),
            _ => assert!(outcome.unwrap() == due, "{ordinal}"),
        }
    }
}

#[test]
fn a_device_that_is_full_or_broken_is_so_alone() {
    fake::child("child_full", &[THREE, ("FAKECUDA_FAIL", "cuMemAllocFromPoolAsync=2:2,cuStreamCreate=1:1")]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_full() {
    let (image, cpu) = (sample(Compression::Lzw), Cpu::shared().unwrap());
    let due = pixels(&image, &cpu, &Window::default()).unwrap();
    let broken = Cuda::new(1).unwrap_err();
    assert!(broken.to_string().contains("cuda:1"), "{broken}");
    let full = pixels(&image, &Cuda::new(2).unwrap(), &Window::default()).unwrap_err();
    assert!(matches!(&full, Error::Limit { .. }) && full.to_string().contains("cuda:2"), "{full}");
    assert!(pixels(&image, &Cuda::new(0).unwrap(), &Window::default()).unwrap() == due);
}
