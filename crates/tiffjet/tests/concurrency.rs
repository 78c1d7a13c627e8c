//! One open image, many threads: every one gets the same pixels.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use tiffjet::sink::{FileSink, MemorySink};
use tiffjet::source::MemorySource;
use tiffjet::{Cpu, DType, Image, OpenOptions, RowsView, Tensor, Window, WriteOptions, Writer};
use tiffjet_testkit::{Compression, Pixels, Tiff};

const THREADS: u32 = 16;

/// Tiles from several pages of the tile arrays, so that threads meet in the caches too.
fn image() -> (Tiff, Pixels) {
    let image = Tiff::new(700, 500).bits(16).samples(2).tile(16, 16).planar().compression(Compression::Lzw);
    let pixels = image.terrain(1);
    (image, pixels)
}

fn open(folder: &tempfile::TempDir, file: &[u8]) -> Image {
    let path = folder.path().join("image.tif");
    std::fs::write(&path, file).unwrap();
    Image::open(&path, &OpenOptions::default()).unwrap()
}

/// Rows and columns of the window of a thread in a round.
fn window(thread: u32, round: u32) -> (std::ops::Range<u32>, std::ops::Range<u32>) {
    let (y, x) = ((thread * 29 + round * 53) % 400, (thread * 41 + round * 97) % 600);
    (y..y + 1 + (thread * 7 + round) % 100, x..x + 1 + (thread * 13 + round * 5) % 100)
}

fn expected(pixels: &Pixels, rows: std::ops::Range<u32>, cols: std::ops::Range<u32>) -> Vec<u8> {
    let shape = (cols.len() as u32, rows.len() as u32, pixels.samples);
    let part = Pixels::from_fn(shape, pixels.format, |band, y, x| pixels.get(band, rows.start + y, cols.start + x));
    part.values.iter().flat_map(|value| (*value as u16).to_ne_bytes()).collect()
}

#[test]
fn sixteen_threads_read_the_whole_image() {
    let (tiff, pixels) = image();
    let folder = tempfile::tempdir().unwrap();
    let image = open(&folder, &tiff.build(&pixels));
    let whole = expected(&pixels, 0..500, 0..700);
    let start = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (image, whole, start) = (&image, &whole, &start);
            scope.spawn(move || {
                start.wait();
                let tensor = image.read(&Window::default()).unwrap();
                assert!(tensor.bytes() == Some(whole), "thread {thread} got other pixels");
            });
        }
    });
}

#[test]
fn windows_are_right_while_others_read_all_of_it() {
    let (tiff, pixels) = image();
    let folder = tempfile::tempdir().unwrap();
    let image = open(&folder, &tiff.build(&pixels));
    let whole = expected(&pixels, 0..500, 0..700);
    let start = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (image, pixels, whole, start) = (&image, &pixels, &whole, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..12 {
                    if thread % 4 == 0 {
                        let tensor = image.read(&Window::default()).unwrap();
                        assert!(tensor.bytes() == Some(whole), "thread {thread}, round {round}: the whole image");
                        continue;
                    }
                    let (rows, cols) = window(thread, round);
                    let asked = Window { rows: Some(rows.clone()), cols: Some(cols.clone()), ..Window::default() };
                    let tensor = image.read(&asked).unwrap();
                    let part = expected(pixels, rows, cols);
                    assert!(tensor.bytes() == Some(&part[..]), "thread {thread}, round {round}: {asked:?}");
                }
            });
        }
    });
}

/// Writes an image of one value over a file.
fn write_plain(path: &std::path::Path, value: u8) {
    let mut options = WriteOptions::new([1, 256, 256], DType::UInt8);
    options.compression = "lzw".into();
    options.blocks = tiffjet::Blocks::Tiles { width: 32, height: 32 };
    let mut writer = Writer::create(FileSink::create(path).unwrap(), &options).unwrap();
    let pixels = vec![value; 256 * 256];
    writer.push(&RowsView::new(&pixels, [1, 256, 256], DType::UInt8).unwrap()).unwrap();
    writer.finish().unwrap();
}

#[test]
fn readers_see_the_old_file_or_the_new_one() {
    const REWRITES: u8 = 40;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image.tif");
    write_plain(&path, 0);
    let (done, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (path, done, reads) = (&path, &done, &reads);
            scope.spawn(move || {
                let mut newest = 0;
                while !done.load(Ordering::Relaxed) {
                    let image = tiffjet::open(path).unwrap();
                    let tensor = image.read(&Window::default()).unwrap();
                    let bytes = tensor.bytes().unwrap();
                    assert!(bytes.iter().all(|&b| b == bytes[0]), "thread {thread} got a mix");
                    assert!(bytes[0] >= newest, "thread {thread} got an older file than before");
                    newest = bytes[0];
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for value in 1..=REWRITES {
            write_plain(&path, value);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(reads.into_inner() > 4);
    let last = tiffjet::open(&path).unwrap().read(&Window::default()).unwrap();
    assert!(last.bytes().unwrap().iter().all(|&b| b == REWRITES));
}

/// One backend, a cache that is too small, results that other threads let go of, and writers among the readers: what
/// threads share is the pool, the cache of tiles, pages of tile arrays and memory that is kept for later results.
#[test]
fn readers_and_writers_share_one_backend() {
    const ROUNDS: u32 = 30;
    let cpu = Cpu::new(3).unwrap().with_cache(200_000);
    let folder = tempfile::tempdir().unwrap();
    let codecs = [Compression::None, Compression::Lzw, Compression::Deflate, Compression::Zstd];
    let images: Vec<(Image, Pixels)> = (codecs.into_iter().enumerate())
        .map(|(number, compression)| {
            let tiff = Tiff::new(700, 500).bits(16).samples(2).tile(64, 32).compression(compression);
            let pixels = tiff.noise(number as u64);
            let path = folder.path().join(format!("{number}.tif"));
            std::fs::write(&path, tiff.build(&pixels)).unwrap();
            (Image::open(&path, &OpenOptions::default()).unwrap(), pixels)
        })
        .collect();
    // What one thread has read another compares once more, later, and lets go of.
    let kept: Mutex<Vec<(Tensor, Vec<u8>)>> = Mutex::new(Vec::new());
    let start = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cpu, images, kept, start) = (&cpu, &images, &kept, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..ROUNDS {
                    let (image, pixels) = &images[(thread + round) as usize % images.len()];
                    let (rows, cols) = if round % 10 == 3 { (0..500, 0..700) } else { window(thread, round % 5) };
                    let part = expected(pixels, rows.clone(), cols.clone());
                    let asked = Window { rows: Some(rows), cols: Some(cols), ..Window::default() };
                    let tensor = image.read_on(cpu, &asked).unwrap();
                    assert!(tensor.bytes() == Some(&part[..]), "thread {thread}, round {round}: {asked:?}");
                    if round % 7 == thread % 7 {
                        assert!(written(cpu, &part, tensor.shape) == part, "thread {thread}, round {round}: written");
                    }
                    let mut kept = kept.lock().unwrap();
                    let old = (kept.len() > 20).then(|| kept.swap_remove((thread * 7 + round) as usize % 20));
                    kept.push((tensor, part));
                    drop(kept);
                    let unchanged = old.is_none_or(|(tensor, part)| tensor.bytes() == Some(&part[..]));
                    assert!(unchanged, "thread {thread}, round {round}: a result changed after it was given away");
                }
            });
        }
    });
}

/// Pixels after they were written and read.
fn written(cpu: &Cpu, pixels: &[u8], shape: [usize; 3]) -> Vec<u8> {
    let mut options = WriteOptions::new(shape, DType::UInt16);
    options.blocks = tiffjet::Blocks::Tiles { width: 48, height: 32 };
    let sink = MemorySink::new();
    let mut writer = Writer::create_on(Arc::new(cpu.clone()), Box::new(sink.clone()), &options).unwrap();
    writer.push(&RowsView::new(pixels, shape, DType::UInt16).unwrap()).unwrap();
    writer.finish().unwrap();
    let source = Arc::new(MemorySource::new(sink.take().unwrap()));
    let image = Image::from_source(source, &OpenOptions::default()).unwrap();
    image.read_on(cpu, &Window::default()).unwrap().bytes().unwrap().to_vec()
}
