//! Routes by libraries without a GPU: recorded fakes of the libraries beside the fake driver, on one timeline.

mod fake;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fake::{count, read, timeline};
use tiffjet::codec::{self, Plain, TileFormat};
use tiffjet::sink::MemorySink;
use tiffjet::source::{MemorySource, Source};
use tiffjet::{
    Blocks, Cpu, DType, Error, Fallback, Image, Io, OpenOptions, Overviews, ReadOptions, RowsView, Window,
    WriteOptions, Writer,
};
use tiffjet_cuda::{Cuda, Settings};
use tiffjet_testkit::{Tiff, Value};

const J2K: u16 = 34712;
const JPEG: u16 = 7;
const FORBID: ReadOptions = ReadOptions { fallback: Fallback::Forbid, io: Io::Auto, fill_failed: None };

fn open(file: Vec<u8>) -> Image {
    let source: Arc<dyn Source> = Arc::new(MemorySource::named("library", file));
    Image::from_source(source, &OpenOptions::default()).unwrap()
}

/// The pixels that a file of `tiff` must give.
fn pixels(tiff: &Tiff, seed: u64) -> Vec<u8> {
    let plain = tiff.clone().compression(tiffjet_testkit::Compression::None);
    let tensor = open(plain.build(&tiff.terrain(seed))).read(&Window::default()).unwrap();
    tensor.bytes().unwrap().to_vec()
}

/// Interleaved samples of `size` bytes to planes.
fn planes(rows: &[u8], samples: usize, size: usize) -> Vec<u8> {
    (0..samples)
        .flat_map(|s| rows.chunks_exact(samples * size).flat_map(move |p| p[s * size..][..size].to_vec()))
        .collect()
}

/// A codestream with a real head and a body that the fake takes.
fn codestream(rows: &[u8], width: u32, samples: usize, dtype: DType) -> Vec<u8> {
    let steps = vec![(1, 1); samples];
    let body = planes(rows, samples, dtype.size());
    // The library gives bytes with a sign as words.
    let body = match dtype {
        DType::Int8 => body.iter().flat_map(|&v| i16::from(v as i8).to_le_bytes()).collect(),
        _ => body,
    };
    let height = (rows.len() / (width as usize * samples * dtype.size())) as u32;
    codestream_of(&body, (width, height), &steps, dtype)
}

/// The same with samples that pixels share.
fn codestream_of(body: &[u8], (width, height): (u32, u32), steps: &[(u8, u8)], dtype: DType) -> Vec<u8> {
    let samples = steps.len();
    let signed = matches!(dtype, DType::Int8 | DType::Int16);
    let depth = (dtype.size() * 8 - 1) as u8 | if signed { 0x80 } else { 0 };
    let mut out = vec![0xff, 0x4f, 0xff, 0x51];
    out.extend((38 + 3 * samples as u16).to_be_bytes());
    out.extend([0, 0]);
    for field in [width, height, 0, 0, width, height, 0, 0] {
        out.extend(field.to_be_bytes());
    }
    out.extend((samples as u16).to_be_bytes());
    steps.iter().for_each(|&(dx, dy)| out.extend([depth, dx, dy]));
    out.extend([0xff, 0x90, 0, 10, 0, 0]);
    out.extend((body.len() as u32 + 18).to_be_bytes());
    out.extend([0, 1, 0xff, 0x93]);
    out.extend(b"FAKE");
    out.extend(body);
    out.extend([0xff, 0xd9]);
    out
}

fn dtype_of(tiff: &Tiff) -> DType {
    open(tiff.build(&tiff.terrain(0))).plan(&Window::default()).unwrap().layout().dtype()
}

/// A file of codestreams for the fake.
fn jpeg2000(tiff: Tiff, width: u32, samples: usize) -> Tiff {
    let dtype = dtype_of(&tiff);
    tiff.compress_with(J2K, move |rows| codestream(rows, width, samples, dtype))
}

#[test]
fn jpeg2000_of_all_kinds_goes_to_the_library() {
    timeline("child_jpeg2000", &[]);
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_jpeg2000() {
    let cuda = Cuda::new(0).unwrap();
    let tiled = || Tiff::new(100, 90).tile(32, 32);
    for (tiff, width, samples) in [
        (tiled(), 32, 1),
        (tiled().samples(2), 32, 2),
        (tiled().samples(3), 32, 3),
        (tiled().samples(4), 32, 4),
        (tiled().samples(3).bits(16), 32, 3),
        (tiled().samples(3).signed(16), 32, 3),
        (tiled().samples(3).signed(8), 32, 3),
        (tiled().samples(3).planar(), 32, 1),
        (Tiff::new(100, 90).samples(3).strips(7), 100, 3),
    ] {
        let expected = pixels(&tiff, 3);
        let tiff = jpeg2000(tiff, width, samples);
        let image = open(tiff.build(&tiff.terrain(3)));
        let (found, report) = read(&image, &cuda, &FORBID).unwrap();
        assert!(found == expected, "{samples} samples");
        assert_eq!(report.routes, [("jpeg2000 on cuda:0 by nvJPEG2000".to_owned(), report.tiles)]);
        assert_eq!(report.fallbacks, [""; 0]);
        // Parts of it, and bands in another order.
        let bands: Vec<u16> = (1..=tiff.shape().2).rev().collect();
        let window = Window { rows: Some(5..61), cols: Some(30..99), bands: Some(bands), ..Window::default() };
        let part = image.read_on(&cuda, &window).unwrap();
        let mut bytes = vec![0; part.storage().length()];
        part.storage().to_host(&mut bytes).unwrap();
        let plain = tiff.clone().compression(tiffjet_testkit::Compression::None);
        let plain = open(plain.build(&tiff.terrain(3))).read(&window).unwrap();
        assert_eq!(bytes, plain.bytes().unwrap());
    }
}

#[test]
fn samples_that_pixels_share_are_spread() {
    timeline("child_shared", &[]);
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_shared() {
    let cuda = Cuda::new(0).unwrap();
    for (bits, steps) in [(8, [(1, 1), (2, 2), (2, 2)]), (8, [(1, 1), (2, 1), (2, 1)]), (16, [(1, 1), (1, 2), (4, 2)])]
    {
        let plain = Tiff::new(100, 90).samples(3).bits(bits).tile(32, 32);
        let (size, dtype) = (usize::from(bits) / 8, dtype_of(&plain));
        let mut expected = pixels(&plain, 3);
        let whole = expected.clone();
        for (b, &(dx, dy)) in steps.iter().enumerate() {
            for (y, x) in (0..90).flat_map(|y| (0..100).map(move |x| (y, x))) {
                let at = |y: usize, x: usize| ((b * 90 + y) * 100 + x) * size;
                let from = at(y - y % usize::from(dy), x - x % usize::from(dx));
                expected[at(y, x)..][..size].copy_from_slice(&whole[from..][..size]);
            }
        }
        let tiff = plain.compress_with(J2K, move |rows| {
            let planes = planes(rows, 3, size);
            let mut body = Vec::new();
            for (plane, (dx, dy)) in planes.chunks(32 * 32 * size).zip(steps) {
                for row in plane.chunks(32 * size).step_by(dy.into()) {
                    body.extend(row.chunks(size).step_by(dx.into()).flatten());
                }
            }
            codestream_of(&body, (32, 32), &steps, dtype)
        });
        let image = open(tiff.build(&tiff.terrain(3)));
        for _ in 0..2 {
            assert!(read(&image, &cuda, &FORBID).unwrap().0 == expected, "{bits} bits {steps:?}");
        }
    }
}

#[test]
fn all_tiles_are_given_to_the_library_before_anybody_waits() {
    let timeline = timeline("child_structure", &[]);
    let submits = count(&timeline, "nvjpeg2kDecode");
    assert_eq!(submits, 12);
    let last = timeline.iter().rposition(|line| line == "nvjpeg2kDecode").unwrap();
    let first_wait = timeline.iter().position(|line| line.starts_with("wait")).unwrap();
    assert!(last < first_wait, "interleaved: {timeline:?}");
    assert_eq!(count(&timeline, "wait"), 2, "one for the read, one for the copy to the host: {timeline:?}");
    // The pixels, the statuses, the one pool of all tiles; and what the states of the library asked for.
    let own: Vec<&String> = timeline.iter().filter(|l| l.starts_with("take") && *l != "take 12345").collect();
    assert_eq!(own.len(), 3, "{timeline:?}");
    assert_eq!(own[0], "take 27000");
    assert_eq!(count(&timeline, "take 12345"), 12);
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_structure() {
    let tiff = jpeg2000(Tiff::new(100, 90).samples(3).tile(32, 32), 32, 3);
    let cuda = Cuda::new(0).unwrap();
    let before = cuda.counts();
    let image = open(tiff.build(&tiff.terrain(3)));
    let tensor = image.read_with(&cuda, &Window::default(), &FORBID).unwrap();
    let after = cuda.counts();
    assert_eq!((after.takes - before.takes, after.lent - before.lent, after.waits - before.waits), (3, 12, 1));
    let mut bytes = vec![0; tensor.storage().length()];
    tensor.storage().to_host(&mut bytes).unwrap();
}

#[test]
fn more_tiles_than_states_wait_for_their_own_state_alone() {
    let timeline = timeline("child_many", &[]);
    assert_eq!(count(&timeline, "nvjpeg2kDecode"), 2 * 144);
    assert_eq!(count(&timeline, "take 12345"), 32, "states are kept from read to read");
    assert_eq!(count(&timeline, "wait for stream"), 2);
    // Memory of the read: the pixels, the statuses, the pool; whatever the number of tiles and groups.
    assert_eq!(count(&timeline, "take") - 32, 6);
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_many() {
    let tiff = jpeg2000(Tiff::new(192, 192).samples(3).tile(16, 16), 16, 3);
    let image = open(tiff.build(&tiff.terrain(5)));
    let cuda = Cuda::new(0).unwrap();
    // Several groups on several lanes.
    let cuda = cuda.with(Settings { budget: 100_000, ..Settings::default() });
    for _ in 0..2 {
        image.read_with(&cuda, &Window::default(), &FORBID).unwrap();
    }
}

#[test]
fn pixels_are_right_when_states_are_used_again() {
    timeline("child_again", &[]);
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_again() {
    let plain = Tiff::new(192, 192).samples(3).tile(16, 16);
    let cuda = Cuda::new(0).unwrap().with(Settings { budget: 100_000, ..Settings::default() });
    for seed in 5..8 {
        let expected = pixels(&plain, seed);
        let tiff = jpeg2000(plain.clone(), 16, 3);
        let image = open(tiff.build(&tiff.terrain(seed)));
        assert!(read(&image, &cuda, &FORBID).unwrap().0 == expected);
    }
}

/// Tiles that the fake refuses, every third one: real codestreams.
fn mixed() -> (Tiff, Vec<u8>) {
    let plain = Tiff::new(100, 90).samples(3).tile(32, 32);
    let expected = pixels(&plain, 3);
    let number = AtomicUsize::new(0);
    let tiff = plain.compress_with(J2K, move |rows| {
        if !number.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) {
            return codestream(rows, 32, 3, DType::UInt8);
        }
        let format = TileFormat::new(J2K, (32, 32), 3, DType::UInt8);
        let mut out = Vec::new();
        let plain = Plain { bytes: rows, rows: 32, format: &format, settings: &codec::Settings::default() };
        codec::find(J2K).unwrap().encode(&plain, &mut out).unwrap();
        out
    });
    (tiff, expected)
}

#[test]
fn tiles_that_the_library_refuses_go_to_the_host_and_the_report_says_so() {
    timeline("child_refused", &[]);
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_refused() {
    let cuda = Cuda::new(0).unwrap();
    let (tiff, expected) = mixed();
    let image = open(tiff.build(&tiff.terrain(3)));
    let (found, report) = read(&image, &cuda, &ReadOptions::default()).unwrap();
    assert!(found == expected);
    assert_eq!(report.fallbacks.len(), 1);
    assert!(report.fallbacks[0].starts_with("4 tiles of jpeg2000 decoded on the host"), "{:?}", report.fallbacks);
    let error = read(&image, &cuda, &FORBID).unwrap_err();
    assert!(matches!(&error, Error::Unsupported { feature, .. } if feature.contains("row 0, column 0")), "{error}");
}

#[test]
fn tiles_that_are_not_in_the_file_are_filled() {
    let timeline = timeline("child_sparse", &[]);
    assert_eq!(count(&timeline, "nvjpeg2kDecode"), 9);
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_sparse() {
    let plain = Tiff::new(100, 90).samples(3).tile(32, 32).sparse([0, 5, 11]);
    let expected = pixels(&plain, 3);
    let tiff = jpeg2000(plain, 32, 3);
    let (found, report) = read(&open(tiff.build(&tiff.terrain(3))), &Cuda::new(0).unwrap(), &FORBID).unwrap();
    assert!(found == expected);
    assert_eq!(report.sparse, 3);
}

#[test]
fn what_the_library_says_of_itself_is_heard() {
    // Sizes that differ from those of the head, a parser and a decoder that refuse: the host decides, and says it is damage.
    for rule in ["FAKELIB_DISAGREES=1", "FAKELIB_FAIL=nvjpeg2kStreamParse=4", "FAKELIB_FAIL=nvjpeg2kDecode=3"] {
        let (name, value) = rule.split_once('=').unwrap();
        timeline("child_all_refused", &[(name, value)]);
    }
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_all_refused() {
    let tiff = jpeg2000(Tiff::new(100, 90).tile(32, 32), 32, 1);
    let image = open(tiff.build(&tiff.terrain(3)));
    let error = read(&image, &Cuda::new(0).unwrap(), &ReadOptions::default()).unwrap_err();
    assert!(matches!(&error, Error::Tile { row: 0, col: 0, .. }), "{error}");
}

#[test]
fn memory_that_is_refused_is_named_as_the_driver_named_it() {
    // Pixels, statuses, pool, and then what the library asks for.
    for n in 1..=4 {
        timeline("child_no_memory", &[("FAKECUDA_FAIL", &format!("cuMemAllocFromPoolAsync=2@{n}"))]);
    }
    timeline("child_guarded", &[("FAKECUDA_MEMORY", "40000")]);
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_no_memory() {
    let plain = Tiff::new(100, 90).samples(3).tile(32, 32);
    let expected = pixels(&plain, 3);
    let tiff = jpeg2000(plain, 32, 3);
    let image = open(tiff.build(&tiff.terrain(3)));
    let cuda = Cuda::new(0).unwrap();
    let error = read(&image, &cuda, &FORBID).unwrap_err();
    assert!(
        matches!(&error, Error::Limit { what, .. } if what.contains("cuMemAllocFromPoolAsync failed with 2")),
        "{error}"
    );
    assert!(read(&image, &cuda, &FORBID).unwrap().0 == expected);
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_guarded() {
    let tiff = jpeg2000(Tiff::new(100, 90).samples(3).tile(96, 96), 96, 3);
    let image = open(tiff.build(&tiff.terrain(3)));
    // 27000 bytes of pixels leave too few for one tile of 27648: nothing is taken.
    let error = read(&image, &Cuda::new(0).unwrap(), &FORBID).unwrap_err();
    assert!(matches!(error, Error::Limit { asked, .. } if asked >= 27648), "{error}");
}

#[test]
fn a_library_of_another_age_or_none_is_a_fallback_with_a_reason() {
    timeline("child_other_version", &[("FAKELIB_VERSION", "1"), ("EXPECTED", "is version 1.11.0")]);
    timeline("child_other_version", &[("FAKELIB_FAIL", "nvjpeg2kCreateV2=7"), ("EXPECTED", "nvjpeg2kCreateV2")]);
    fake::child("child_other_version", &[("EXPECTED", "nvJPEG2000: not available")]);
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_other_version() {
    let format = TileFormat::new(J2K, (32, 32), 1, DType::UInt8);
    let tiff = Tiff::new(100, 90).tile(32, 32).compress_with(J2K, move |rows| {
        let mut out = Vec::new();
        let plain = Plain { bytes: rows, rows: 32, format: &format, settings: &codec::Settings::default() };
        codec::find(J2K).unwrap().encode(&plain, &mut out).unwrap();
        out
    });
    let (_, report) =
        read(&open(tiff.build(&tiff.terrain(3))), &Cuda::new(0).unwrap(), &ReadOptions::default()).unwrap();
    let word = std::env::var("EXPECTED").unwrap();
    assert!(report.fallbacks[0].contains(&word), "{:?}", report.fallbacks);
}

/// Tables that every decoder takes: JPEGTables of the host codec.
fn tables() -> Vec<u8> {
    codec::jpeg_tables(&codec::Settings::default(), &TileFormat::new(JPEG, (32, 32), 3, DType::UInt8))
}

/// A JPEG stream with a real head and a real scan, and pixels where the fake looks for them; without other tables, as in
/// most TIFFs.
fn jpeg_stream(rows: &[u8], width: u16, samples: usize, in_planes: bool) -> Vec<u8> {
    let height = (rows.len() / (usize::from(width) * samples)) as u16;
    let mut out = vec![0xff, 0xd8, 0xff, 0xe0, 0, 4, b'J', b'F'];
    let pixels = if in_planes { planes(rows, samples, 1) } else { rows.to_vec() };
    let mut tables = vec![3; 65];
    tables[1..5].copy_from_slice(b"FAKE");
    for part in pixels.chunks(64) {
        tables.push(3);
        tables.extend(part);
        tables.resize(tables.len().next_multiple_of(65), 0);
    }
    out.extend([0xff, 0xdb]);
    out.extend((tables.len() as u16 + 2).to_be_bytes());
    out.extend(tables);
    out.extend([0xff, 0xc0]);
    out.extend((8 + 3 * samples as u16).to_be_bytes());
    out.push(8);
    out.extend(height.to_be_bytes());
    out.extend(width.to_be_bytes());
    out.push(samples as u8);
    (0..samples as u8).for_each(|i| out.extend([i, 0x11, 0]));
    out.extend([0xff, 0xda]);
    out.extend((6 + 2 * samples as u16).to_be_bytes());
    out.push(samples as u8);
    (0..samples as u8).for_each(|i| out.extend([i, 0]));
    out.extend([0, 63, 0]);
    // Blocks of nothing in the codes of the standard, four of them in three bytes.
    let blocks = usize::from(width.div_ceil(8)) * usize::from(height.div_ceil(8)) * samples;
    assert!(blocks.is_multiple_of(4));
    (0..blocks / 4).for_each(|_| out.extend([0b0010_1000, 0b1010_0010, 0b1000_1010]));
    out.extend([0xff, 0xd9]);
    out
}

/// A file for the fake.
fn jpeg(tiff: Tiff, width: u16, samples: usize, in_planes: bool) -> Tiff {
    let tag = Value::Undefined(tables());
    tiff.tag(347, tag).compress_with(JPEG, move |rows| jpeg_stream(rows, width, samples, in_planes))
}

#[test]
fn jpeg_goes_to_the_library_in_batches() {
    let timeline = timeline("child_jpeg", &[]);
    assert_eq!(timeline.iter().filter(|line| *line == "nvjpegDecodeBatched 12").count(), 3, "{timeline:?}");
    // Waits of the copy to the host are not of this read.
    let last = timeline.iter().position(|line| line.starts_with("nvjpeg")).unwrap();
    let first_wait = timeline.iter().position(|line| line.starts_with("wait")).unwrap();
    assert!(last < first_wait, "{timeline:?}");
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_jpeg() {
    let cuda = Cuda::new(0).unwrap();
    let tiled = |samples| Tiff::new(100, 90).samples(samples).tile(32, 32);
    for (tiff, samples, in_planes) in
        [(tiled(3).photometric(6), 3, false), (tiled(3).photometric(2), 3, true), (tiled(1), 1, true)]
    {
        let expected = pixels(&tiff.clone().photometric(1), 3);
        let tiff = jpeg(tiff, 32, samples, in_planes);
        let (found, report) = read(&open(tiff.build(&tiff.terrain(3))), &cuda, &FORBID).unwrap();
        assert!(found == expected, "{samples} samples");
        assert_eq!(report.routes, [("jpeg on cuda:0 by nvJPEG".to_owned(), 12)]);
    }
}

#[test]
fn many_tiles_of_jpeg_are_several_batches_with_one_pool() {
    let timeline = timeline("child_many_jpegs", &[]);
    let batches: Vec<&String> = timeline.iter().filter(|line| line.starts_with("nvjpegDecodeBatched")).collect();
    assert_eq!(batches.len(), 2, "{batches:?}");
    assert_eq!(count(&timeline, "take") - count(&timeline, "take 23456"), 3);
    let last = timeline.iter().rposition(|line| line.starts_with("nvjpegDecodeBatched")).unwrap();
    let first_wait = timeline.iter().position(|line| line.starts_with("wait")).unwrap();
    assert!(last < first_wait, "{timeline:?}");
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_many_jpegs() {
    let plain = Tiff::new(400, 400).tile(16, 16);
    let expected = pixels(&plain, 3);
    let tiff = jpeg(plain, 16, 1, true);
    let (found, _) = read(&open(tiff.build(&tiff.terrain(3))), &Cuda::new(0).unwrap(), &FORBID).unwrap();
    assert!(found == expected);
}

#[test]
fn a_batch_that_the_library_refuses_goes_to_the_host() {
    timeline("child_real_jpeg", &[]);
    timeline("child_real_jpeg", &[("FAKELIB_FAIL", "nvjpegDecodeBatched=6")]);
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_real_jpeg() {
    let mut format = TileFormat::new(JPEG, (32, 32), 3, DType::UInt8);
    (format.photometric, format.subsampling) = (6, (2, 2));
    let tiff = Tiff::new(100, 90).samples(3).photometric(6).tile(32, 32).compress_with(JPEG, move |rows| {
        let mut out = Vec::new();
        let plain = Plain { bytes: rows, rows: 32, format: &format, settings: &codec::Settings::default() };
        codec::find(JPEG).unwrap().encode(&plain, &mut out).unwrap();
        out
    });
    let image = open(tiff.build(&tiff.terrain(3)));
    let host = image.read_on(&Cpu::shared().unwrap(), &Window::default()).unwrap();
    let (found, report) = read(&image, &Cuda::new(0).unwrap(), &ReadOptions::default()).unwrap();
    assert_eq!(found, host.bytes().unwrap());
    assert!(report.fallbacks[0].starts_with("12 tiles of jpeg decoded on the host"), "{:?}", report.fallbacks);
}

/// What is pushed, and what it is written as.
struct Written {
    pixels: Vec<u8>,
    file: Vec<u8>,
    report: tiffjet::Report,
}

fn options(codec: &str, shape: [usize; 3], dtype: DType) -> WriteOptions {
    let mut options = WriteOptions::new(shape, dtype);
    options.compression = codec.into();
    options.blocks = Blocks::Tiles { width: 32, height: 32 };
    options.fallback = Fallback::Forbid;
    options
}

fn write(cuda: &Cuda, options: &WriteOptions) -> Result<Written, Error> {
    let [bands, height, width] = options.shape;
    // The first tile has nothing but zeros.
    let value = |i: usize| {
        let pixel = i / options.dtype.size() % (height * width);
        let empty = pixel / width < 32 && pixel % width < 32;
        if empty { 0 } else { (i * 7 + i / width * 3) as u8 }
    };
    let bytes = (0..bands * height * width * options.dtype.size()).map(value);
    let pixels: Vec<u8> = bytes.collect();
    let sink = MemorySink::new();
    let mut writer = Writer::create_on(Arc::new(cuda.clone()), Box::new(sink.clone()), options)?;
    writer.push(&RowsView::new(&pixels, options.shape, options.dtype).unwrap())?;
    let report = writer.finish()?.report;
    Ok(Written { pixels, file: sink.take().unwrap(), report })
}

/// The bytes of all tiles of a file.
fn tiles(file: &[u8]) -> Vec<Vec<u8>> {
    let image = open(file.to_vec());
    let plan = image.plan(&Window::default()).unwrap();
    plan.tiles().iter().map(|tile| file[tile.range.start as usize..tile.range.end as usize].to_vec()).collect()
}

/// The segments of the tables of the host codec, in hexadecimal digits.
fn table_digits(settings: &codec::Settings, samples: u16) -> String {
    let mut format = TileFormat::new(JPEG, (32, 32), samples, DType::UInt8);
    (format.photometric, format.subsampling) = if samples == 3 { (6, (2, 2)) } else { (1, (1, 1)) };
    let tables = codec::jpeg_tables(settings, &format);
    tables[2..tables.len() - 2].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a tile has tables but those that the fake has its pixels in.
fn has_tables(tile: &[u8]) -> bool {
    let mut at = 2;
    while tile[at + 1] != 0xda {
        let length = usize::from(u16::from_be_bytes([tile[at + 2], tile[at + 3]]));
        if tile[at + 1] == 0xc4 || tile[at + 1] == 0xdb && tile[at + 4] != 3 {
            return true;
        }
        at += 2 + length;
    }
    false
}

#[test]
fn jpeg_is_encoded_by_the_library_and_its_tables_stand_in_the_file_once() {
    let (usual, other) = (codec::Settings::default(), codec::Settings { quality: Some(30), ..Default::default() });
    for (samples, name) in [(3, "pixels"), (1, "planes")] {
        let [usual, other] = [&usual, &other].map(|settings| table_digits(settings, samples));
        timeline("child_encoded_jpeg", &[("FAKELIB_TABLES", &usual), ("OWN", ""), ("SHAPES", name)]);
        // Tables that are not those of the file stay with their tile.
        timeline("child_encoded_jpeg", &[("FAKELIB_TABLES", &other), ("OWN", "1"), ("SHAPES", name)]);
    }
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_encoded_jpeg() {
    let cuda = Cuda::new(0).unwrap();
    let own = !std::env::var("OWN").unwrap().is_empty();
    let shapes = match std::env::var("SHAPES").unwrap().as_str() {
        "pixels" => [([3, 90, 100], false, false), ([3, 200, 230], false, true)],
        _ => [([1, 90, 100], false, true), ([3, 90, 100], true, false)],
    };
    for (shape, planar, sparse) in shapes {
        let mut options = options("jpeg", shape, DType::UInt8);
        (options.planar, options.sparse) = (planar, sparse);
        let written = write(&cuda, &options).unwrap();
        let (found, _) = read(&open(written.file.clone()), &cuda, &FORBID).unwrap();
        assert!(found == written.pixels, "{shape:?}");
        assert_eq!(written.report.routes, [("jpeg on cuda:0 by nvJPEG".to_owned(), written.report.tiles)]);
        assert_eq!(written.report.fallbacks, [""; 0]);
        assert_eq!(written.report.sparse, usize::from(sparse));
        let tiles = tiles(&written.file);
        assert!(tiles.iter().skip(1).all(|tile| has_tables(tile) == own), "{shape:?}");
        assert!(tiles.iter().all(|tile| !tile.windows(4).any(|word| word == b"JFIF")), "colours are the file's matter");
    }
}

#[test]
fn jpeg2000_is_encoded_by_the_library() {
    timeline("child_encoded_jpeg2000", &[]);
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_encoded_jpeg2000() {
    let cuda = Cuda::new(0).unwrap();
    for (bands, dtype) in [
        (1, DType::UInt8),
        (2, DType::UInt8),
        (3, DType::UInt8),
        (4, DType::UInt8),
        (3, DType::UInt16),
        (1, DType::Int16),
    ] {
        for strips in [false, true] {
            let mut options = options("jpeg2000", [bands, 90, 100], dtype);
            if strips {
                options.blocks = Blocks::Strips { rows: Some(7) };
            }
            options.overviews = Overviews::Factors(vec![2]);
            let written = write(&cuda, &options).unwrap();
            let image = open(written.file);
            assert!(read(&image, &cuda, &FORBID).unwrap().0 == written.pixels, "{bands} bands of {dtype}");
            // Strips of an overview are narrower.
            let window = Window { level: 1, ..Window::default() };
            image.read_with(&cuda, &window, &FORBID).unwrap();
            assert_eq!(written.report.routes, [("jpeg2000 on cuda:0 by nvJPEG2000".to_owned(), written.report.tiles)]);
        }
    }
    // Bytes with a sign are nothing that the library knows.
    let mut signed = options("jpeg2000", [1, 90, 100], DType::Int8);
    let error = write(&cuda, &signed).err().unwrap().to_string();
    assert!(error.contains("nvJPEG2000 does not take their pixels"), "{error}");
    signed.fallback = Fallback::Allow;
    assert_eq!(write(&cuda, &signed).unwrap().report.fallbacks.len(), 1);
}

#[test]
fn jpeg2000_comes_to_the_size_that_was_asked_for() {
    let timeline = timeline("child_sized", &[]);
    let encodes = count(&timeline, "nvjpeg2kEncode");
    assert!((12..12 * 5 * 4).contains(&encodes), "{encodes} encodes of 48 tiles");
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_sized() {
    let cuda = Cuda::new(0).unwrap();
    for quality in [10, 25, 40, 55] {
        let mut options = options("jpeg2000", [3, 250, 350], DType::UInt8);
        options.blocks = Blocks::Tiles { width: 128, height: 128 };
        options.settings.quality = Some(quality);
        let target = 128 * 128 * 3 * usize::from(quality) / 100;
        for tile in tiles(&write(&cuda, &options).unwrap().file) {
            assert!((target * 17 / 20..=target).contains(&tile.len()), "{} of {target}", tile.len());
        }
    }
    // States that have made a size go on without one.
    let lossless = write(&cuda, &options("jpeg2000", [3, 250, 350], DType::UInt8)).unwrap();
    assert!(read(&open(lossless.file), &cuda, &FORBID).unwrap().0 == lossless.pixels);
}

#[test]
fn tiles_that_the_library_does_not_encode_go_to_the_host_and_the_report_says_so() {
    for (codec, rule) in [("jpeg", "nvjpegEncodeImage=4@3"), ("jpeg2000", "nvjpeg2kEncodeRetrieveBitstream=6@4")] {
        timeline("child_not_encoded", &[("CODEC", codec), ("FAKELIB_FAIL", rule), ("REFUSED", "1")]);
    }
    timeline("child_not_encoded", &[("CODEC", "jpeg2000"), ("FAKELIB_FAIL", "nvjpeg2kEncode=4"), ("REFUSED", "12")]);
    // No state, no encoder: known before the first tile.
    for rule in ["nvjpeg2kEncoderCreateSimple=7", "nvjpeg2kEncodeStateCreate=7"] {
        timeline("child_not_encoded", &[("CODEC", "jpeg2000"), ("FAKELIB_FAIL", rule), ("REFUSED", "12")]);
    }
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_not_encoded() {
    let cuda = Cuda::new(0).unwrap();
    let codec = std::env::var("CODEC").unwrap();
    let refused: usize = std::env::var("REFUSED").unwrap().parse().unwrap();
    let mut options = options(&codec, [3, 90, 100], DType::UInt8);
    options.fallback = Fallback::Allow;
    let written = write(&cuda, &options).unwrap();
    let [why] = &written.report.fallbacks[..] else { panic!("{:?}", written.report) };
    assert!(why.contains(&codec) && why.contains("nvj"), "{why}");
    let on_host = written.report.routes.iter().find(|(route, _)| route.ends_with("on the host"));
    assert_eq!(on_host.map(|(_, count)| *count), Some(refused), "{:?}", written.report.routes);
    // The host's tiles are whole: those of the fake are the rest.
    let tiles = tiles(&written.file);
    let fakes = tiles.iter().filter(|tile| tile.windows(4).any(|word| word == b"FAKE")).count();
    assert_eq!(fakes, 12 - refused);
    if refused == 12 {
        options.fallback = Fallback::Forbid;
        let error = write(&cuda, &options).err().unwrap().to_string();
        assert!(error.contains(&format!("encoding {codec} on the GPU")), "{error}");
    }
}

#[test]
fn states_are_kept_from_write_to_write_and_nobody_waits_for_the_device() {
    let timeline =
        timeline("child_encoded_twice", &[("FAKELIB_TABLES", &table_digits(&codec::Settings::default(), 3))]);
    assert_eq!(count(&timeline, "nvjpegEncodeImage"), 2 * 289);
    let states = count(&timeline, "take 34567");
    assert!((1..=32).contains(&states), "{states} states");
    let first = timeline.iter().position(|line| line == "again").unwrap();
    assert!(timeline[first..].iter().all(|line| line != "take 34567"), "the second write has what the first had");
    // One piece of memory for each write.
    assert_eq!(count(&timeline, "take") - states, 2, "{timeline:?}");
    // Lanes are waited for when they are given back, states for their own work alone.
    assert!(count(&timeline, "wait for stream") <= 2 * 5, "{timeline:?}");
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_encoded_twice() {
    let cuda = Cuda::new(0).unwrap();
    let options = options("jpeg", [3, 540, 540], DType::UInt8);
    let once = write(&cuda, &options).unwrap().file;
    let path = std::env::var("FAKECUDA_TIMELINE").unwrap();
    let mut timeline = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    std::io::Write::write_all(&mut timeline, b"again\n").unwrap();
    assert!(write(&cuda, &options).unwrap().file == once, "the same pixels, the same file");
}

#[test]
fn memory_that_an_encoder_is_refused_is_named() {
    timeline("child_encoder_without_memory", &[("FAKECUDA_FAIL", "cuMemAllocFromPoolAsync=2@2")]);
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_encoder_without_memory() {
    let cuda = Cuda::new(0).unwrap();
    let options = options("jpeg", [3, 90, 100], DType::UInt8);
    let error = write(&cuda, &options).err().unwrap().to_string();
    assert!(error.contains("cuMemAllocFromPoolAsync failed with 2"), "{error}");
    write(&cuda, &options).unwrap();
}
