//! Whole files.

use std::sync::{Arc, LazyLock};

use tiffjet::sink::MemorySink;
use tiffjet::source::MemorySource;
use tiffjet::validate::Verdict;
use tiffjet::{
    Backend, BigTiff, Blocks, Cpu, DType, Destination, Image, Limits, OpenOptions, Overviews, Prediction, ReadJob,
    ReadOptions, Resampling, Result, RowsView, Window, WriteOptions, WritePlan, Writer,
};

use super::Input;

/// One thread, which coverage can follow, and no tile from the read before.
static CPU: LazyLock<Cpu> = LazyLock::new(|| Cpu::new(1).expect("a thread").with_cache(0));

/// Small, so that many files are tried.
fn limits() -> Limits {
    Limits {
        directories: 64,
        levels: 8,
        value_bytes: 1 << 18,
        tile_bytes: 1 << 20,
        output_bytes: 1 << 20,
        ..Limits::default()
    }
}

fn opened(bytes: &[u8]) -> Result<Image> {
    let options = OpenOptions { limits: limits(), ..OpenOptions::default() };
    Image::from_source(Arc::new(MemorySource::named("fuzz", bytes.to_vec())), &options)
}

/// Header, directories, layouts, georeferencing, tags and verdicts; no pixel.
pub fn open(bytes: &[u8]) {
    let image = match opened(bytes) {
        Ok(image) => image,
        Err(error) => {
            assert_eq!(error.name(), "fuzz", "{error}");
            return;
        }
    };
    let geo = image.geo();
    let _ = (geo.to_tags(), image.colour_map(), image.sidecars());
    for entry in &image.directory().entries {
        let _ = image.tag(entry.tag);
        let _ = image.nested(entry.tag);
    }
    for level in image.levels() {
        let _ = level.stated_tiles(0..level.layout.tiles().min(64));
    }
    let _ = Verdict::of(&image);
    for page in 1..image.pages().min(4) {
        let options = OpenOptions { page, limits: limits(), ..OpenOptions::default() };
        let _ = Image::from_source(image.source().clone(), &options);
    }
}

/// The pixels of a window in memory that held something else before.
fn pixels(image: &Image, window: &Window, before: u8) -> Result<Vec<u8>> {
    let plan = image.plan(window)?;
    let [bands, height, width] = image.plan_shape(window)?;
    let mut out = vec![before; bands * height * width * image.dtype().size()];
    let source = &**image.level(window.level)?.source();
    CPU.read_into(&[ReadJob { source, plan: &plan }], Destination::Host(&mut out), &ReadOptions::default())?;
    Ok(out)
}

/// Every level and mask, twice: all of the result is written, and the same each time.
pub fn read(bytes: &[u8]) {
    let Ok(image) = opened(bytes) else { return };
    for level in 0..image.levels().len().min(4) {
        let window = Window { level, ..Window::default() };
        match (pixels(&image, &window, 0xa5), pixels(&image, &window, 0x5a)) {
            (Ok(first), Ok(second)) => assert!(first == second, "one level gave two pictures"),
            (Err(error), Err(_)) => assert_eq!(error.name(), "fuzz", "{error}"),
            (first, second) => panic!("read {}, then {}", first.is_ok(), second.is_ok()),
        }
        let _ = image.read_mask(&window);
    }
}

/// A window is the same part of the whole.
pub fn window(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (level, from, size) = (input.byte(), [input.short(), input.short()], [input.short(), input.short()]);
    let bands = input.byte();
    let Ok(image) = opened(input.rest()) else { return };
    let level = usize::from(level) % image.levels().len();
    let layout = &image.levels()[level].layout;
    let (width, height) = (layout.width, layout.height);
    let part = |from: u16, size: u16, end: u32| {
        let start = u32::from(from) % end;
        start..start + u32::from(size) % (end - start) + 1
    };
    let (rows, cols) = (part(from[0], size[0], height), part(from[1], size[1], width));
    let band = u16::from(bands) % layout.bands + 1;
    let chosen = (bands & 0x80 != 0).then(|| vec![band, 1]);
    let window = Window { level, rows: Some(rows.clone()), cols: Some(cols.clone()), bands: chosen.clone() };
    let part = pixels(&image, &window, 0xa5);
    let Ok(whole) = pixels(&image, &Window { level, ..Window::default() }, 0x5a) else { return };
    let part = part.expect("a part of what can be read can be read");
    let value = image.dtype().size();
    let all: Vec<u16> = (1..=layout.bands).collect();
    let mut at = 0;
    for &band in chosen.as_ref().unwrap_or(&all) {
        for y in rows.clone() {
            let row = (usize::from(band) - 1) * height as usize + y as usize;
            let start = (row * width as usize + cols.start as usize) * value;
            let length = cols.len() * value;
            assert!(part[at..at + length] == whole[start..start + length], "{window:?}: band {band}, row {y}");
            at += length;
        }
    }
    assert_eq!(at, part.len());
}

/// Codecs that lose nothing.
const LOSSLESS: [&str; 11] =
    ["zstd", "none", "packbits", "lzw", "deflate", "lzma", "lerc", "lerc_deflate", "lerc_zstd", "webp", "jpeg2000"];

/// What is read, written and read again is the same.
pub fn convert(bytes: &[u8]) {
    let mut input = Input(bytes);
    let [codec, flags, blocks, more] = [input.byte(), input.byte(), input.byte(), input.byte()];
    let Ok(image) = opened(input.rest()) else { return };
    let shape = image.shape();
    let Ok(before) = pixels(&image, &Window::default(), 0) else { return };
    if before.len() > 1 << 16 {
        return;
    }
    let mut options = WriteOptions::new(shape, image.dtype());
    options.compression = LOSSLESS[usize::from(codec) % LOSSLESS.len()].into();
    if matches!(options.compression.as_str(), "webp" | "jpeg2000") {
        options.settings.quality = Some(100);
    }
    options.cog = flags & 1 != 0;
    options.planar = flags & 2 != 0;
    options.sparse = flags & 4 != 0;
    options.mask = flags & 8 != 0;
    options.big = if flags & 16 != 0 { BigTiff::Yes } else { BigTiff::Auto };
    options.predictor =
        [Prediction::Auto, Prediction::None, Prediction::Horizontal, Prediction::Float][usize::from(flags >> 5) % 4];
    options.blocks = match blocks % 4 {
        0 => Blocks::Strips { rows: None },
        1 => Blocks::Strips { rows: Some(u32::from(blocks >> 2) + 1) },
        _ => Blocks::Tiles { width: u32::from(blocks >> 5) * 16 + 16, height: u32::from(blocks >> 2 & 7) * 16 + 16 },
    };
    if more & 1 != 0 {
        options.overviews = Overviews::Factors(vec![2, 4]);
    }
    let all = Resampling::ALL;
    options.resampling = (more & 2 != 0).then(|| all[usize::from(more >> 2) % all.len()]);
    options.geo = image.geo_tags();
    let Some(file) = written(&image, &options, &before) else { return };
    let back = opened(&file).expect("what is written can be opened");
    assert_eq!((back.shape(), back.dtype()), (shape, image.dtype()));
    let after = pixels(&back, &Window::default(), 0xff).expect("what is written can be read");
    assert!(same(&options, &before, &after), "{options:?}: pixels changed");
}

/// Equal bit by bit; LERC knows one NaN only.
fn same(options: &WriteOptions, before: &[u8], after: &[u8]) -> bool {
    let size = options.dtype.size();
    let nan = |value: &[u8]| match options.dtype {
        DType::Float32 => value.try_into().is_ok_and(|bytes| f32::from_ne_bytes(bytes).is_nan()),
        DType::Float64 => value.try_into().is_ok_and(|bytes| f64::from_ne_bytes(bytes).is_nan()),
        _ => false,
    };
    let lerc = options.compression.starts_with("lerc");
    before == after || lerc && before.chunks(size).zip(after.chunks(size)).all(|(a, b)| a == b || nan(a) && nan(b))
}

/// The file; none where the options are refused, which they may be before the first row.
fn written(image: &Image, options: &WriteOptions, pixels: &[u8]) -> Option<Vec<u8>> {
    WritePlan::new(&"out".into(), options).ok()?;
    let sink = MemorySink::new();
    let mut writer = Writer::create_on(Arc::new(CPU.clone()), Box::new(sink.clone()), options).ok()?;
    let rows = RowsView::new(pixels, options.shape, options.dtype).expect("pixels of that shape");
    let mask = if options.mask { Some(image.read_mask(&Window::default()).ok()?) } else { None };
    let rows = match mask.as_ref().and_then(tiffjet::Tensor::bytes) {
        Some(mask) => rows.with_mask(mask).expect("a mask of that shape"),
        None => rows,
    };
    writer.push(&rows).expect("rows of an image that may be written");
    writer.finish().expect("a file of them");
    sink.take()
}
