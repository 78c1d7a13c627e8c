//! One suite for every backend: what it reads must be what was written.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tiffjet::source::{FileSource, MemorySource, Source};
use tiffjet::{Backend, DType, Destination, Frame, Image, OpenOptions, ReadJob, ReadOptions, Tensor, Window};

use crate::builder::Tiff;
use crate::compression::Compression;
use crate::matrix::{self, Case};
use crate::naive;
use crate::pixels::{Pixels, mix};
use crate::tag;

/// Reads every file of [`matrix::cases`], and some large enough to be shared between threads, on a backend: whole, in
/// windows, by bands and at every level, from memory and, where the bytes of a file are its pixels, from a file.
///
/// # Panics
/// When anything is not as it was written, with the name of each such case.
pub fn conformance(backend: &dyn Backend) {
    let folder = tempfile::tempdir().expect("a folder for files");
    let path = folder.path().join("case.tif");
    let mut wrong = Vec::new();
    let mut count = 0u64;
    for case in matrix::cases().chain(large()) {
        count += 1;
        let suite = Suite { backend, seed: mix(count) };
        if let Err(what) = suite.case(&case, &path) {
            wrong.push(format!("{}: {what}", case.name));
        }
    }
    let first = wrong.iter().take(30).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {count} cases are wrong on {}:\n{first}", wrong.len(), backend.name());
}

/// Images of many tiles: a reader may take small ones by shorter paths than it takes these.
pub fn large() -> impl Iterator<Item = Case> {
    let compressions = [Compression::None, Compression::Lzw, Compression::Deflate, Compression::Zstd];
    let images = compressions.into_iter().flat_map(|compression| {
        let image = Tiff::new(431, 307).bits(16).samples(3).compression(compression.clone());
        let image = if compression.has_predictor() { image.predictor(2) } else { image };
        [
            ("tiles-chunky", image.clone().tile(64, 48)),
            ("tiles-planar", image.clone().tile(64, 48).planar().big_endian()),
            ("strips-chunky", image.clone().strips(5).big_endian()),
            ("strips-planar", image.clone().strips(1).planar()),
            ("one-strip", image.clone().big_tiff()),
            ("bits-12", image.bits(12).predictor(1).tile(80, 80)),
        ]
        .map(|(name, image)| (format!("large-{name}-{compression:?}"), image))
    });
    images.map(|(name, image)| {
        let pixels = image.terrain(1);
        Case { name, file: image.build(&pixels), levels: vec![pixels] }
    })
}

/// What is wrong, in words.
type Verdict = Result<(), String>;

struct Suite<'a> {
    backend: &'a dyn Backend,
    /// Another for every case, the same in every run.
    seed: u64,
}

impl Suite<'_> {
    fn case(&self, case: &Case, path: &Path) -> Verdict {
        self.pages(case, Arc::new(MemorySource::named(&case.name, case.file.clone())))?;
        if is_uncompressed(&case.file)? {
            // Pixels of plain files may be read by other means than the source's.
            std::fs::write(path, &case.file).map_err(|e| e.to_string())?;
            let source = FileSource::open(path).map_err(|e| e.to_string())?;
            self.pages(case, Arc::new(source)).map_err(|what| format!("as a file: {what}"))?;
        }
        Ok(())
    }

    fn pages(&self, case: &Case, source: Arc<dyn Source>) -> Verdict {
        let pages = pages(case)?;
        for (number, page) in pages.iter().enumerate() {
            let options = OpenOptions { page: number, ..OpenOptions::default() };
            let image = Image::from_source(source.clone(), &options).map_err(|e| e.to_string())?;
            same("pages", image.pages(), pages.len())?;
            same("levels", image.levels().len(), page.levels.len())?;
            for (level, pixels) in page.levels.iter().enumerate() {
                self.level(&image, &*source, level, pixels)
                    .map_err(|what| format!("page {number}, level {level}: {what}"))?;
            }
            check_masks(&image, &page.masks)?;
        }
        Ok(())
    }

    fn level(&self, image: &Image, source: &dyn Source, level: usize, pixels: &Pixels) -> Verdict {
        let layout = &image.levels()[level].layout;
        same("size", (layout.width, layout.height, layout.bands), (pixels.width, pixels.height, pixels.samples))?;
        same("type", layout.dtype().name(), pixels.dtype())?;
        let bytes = native(pixels, layout.dtype());
        let whole = Window { level, ..Window::default() };
        self.window(image, source, &whole, pixels, &bytes)?;
        for window in self.windows(level, pixels, (layout.format.width, layout.format.height)) {
            self.window(image, source, &window, pixels, &bytes).map_err(|what| format!("{window:?}: {what}"))?;
        }
        self.frames(image, source, level, pixels, &bytes)
    }

    /// Reads several windows at once, which hang over the edges of the image or lie beside it.
    fn frames(&self, image: &Image, source: &dyn Source, level: usize, pixels: &Pixels, whole: &[u8]) -> Verdict {
        let random = |n: u64, below: u32| i64::from((mix(self.seed ^ n) % u64::from(below)) as u32);
        let (height, width) = (random(21, pixels.height) as u32 + 1, random(22, pixels.width) as u32 + 1);
        let somewhere = |n: u64, size: u32, length: u32| random(n, size + length + 1) - i64::from(length);
        let places = [(0, 0), (-1, -2), (i64::from(pixels.height), 0), (i64::MIN, i64::MAX)];
        let random_places =
            (0..3).map(|n| (somewhere(30 + n, pixels.height, height), somewhere(40 + n, pixels.width, width)));
        let frames: Vec<Frame> = places
            .into_iter()
            .chain(random_places)
            .map(|(y, x)| Frame { level, y, x, height, width, bands: None })
            .collect();
        let size = whole.len() / (pixels.width as usize * pixels.height as usize * usize::from(pixels.samples));
        let pad: Vec<u8> = (0..size as u8).map(|i| 0xe0 | i).collect();
        let plans = frames.iter().map(|frame| image.plan_framed(frame, &pad)).collect::<Result<Vec<_>, _>>();
        let plans = plans.map_err(|e| e.to_string())?;
        let jobs: Vec<ReadJob<'_>> = plans.iter().map(|plan| ReadJob { source, plan }).collect();
        let tensor = self.backend.read(&jobs, &ReadOptions::default()).map_err(|e| e.to_string())?;
        same("windows", tensor.windows, Some(frames.len()))?;
        let bytes = on_host(&tensor)?;
        for (frame, bytes) in frames.iter().zip(bytes.chunks_exact(bytes.len() / frames.len())) {
            compare(bytes, &framed(whole, pixels, frame, &pad), tensor.shape)
                .map_err(|what| format!("{frame:?} of several: {what}"))?;
        }
        Ok(())
    }

    /// Reads a window into memory of the backend and into memory of the host.
    fn window(&self, image: &Image, source: &dyn Source, window: &Window, pixels: &Pixels, whole: &[u8]) -> Verdict {
        let (shape, expected) = cut(whole, pixels, window);
        let tensor = image.read_on(self.backend, window).map_err(|e| e.to_string())?;
        same("shape", tensor.shape, shape)?;
        same("type", tensor.dtype.name(), pixels.dtype())?;
        compare(&on_host(&tensor)?, &expected, shape)?;
        let plan = image.plan(window).map_err(|e| e.to_string())?;
        // Memory that is never what is left from before: all of it must be written.
        let mut bytes: Vec<u8> = expected.iter().map(|b| !b).collect();
        let job = ReadJob { source, plan: &plan };
        let out = Destination::Host(&mut bytes);
        let report = self.backend.read_into(&[job], out, &ReadOptions::default()).map_err(|e| e.to_string())?;
        compare(&bytes, &expected, shape).map_err(|what| format!("into memory of the caller: {what}"))?;
        same("bytes out", report.bytes_out, expected.len() as u64)
    }

    /// Single pixels, edges, the corners where four tiles meet, anything; bands in any order and more than once.
    fn windows(&self, level: usize, pixels: &Pixels, tile: (u32, u32)) -> Vec<Window> {
        let (width, height) = (pixels.width, pixels.height);
        let random = |n: u64, below: u32| (mix(self.seed ^ n) % u64::from(below)) as u32;
        let range = |n: u64, length: u32| {
            let (a, b) = (random(n, length), random(n + 1, length));
            a.min(b)..a.max(b) + 1
        };
        let across = |edge: u32, length: u32| edge.min(length).saturating_sub(1)..(edge + 1).min(length);
        let one = |at: u32| at..at + 1;
        let windows: [(Range<u32>, Range<u32>); 7] = [
            (one(random(1, height)), one(random(2, width))),
            (one(height - 1), one(width - 1)),
            (across(tile.1, height), across(tile.0, width)),
            (one(random(3, height)), 0..width),
            (0..height, one(random(4, width))),
            (range(5, height), range(7, width)),
            (range(9, height), 0..width),
        ];
        let bands = |n: usize| {
            let count = u32::from(pixels.samples);
            let pick = |k: u64| random(100 * (n as u64 + 1) + k, count) as u16 + 1;
            (n % 2 == 1).then(|| (0..1 + u64::from(random(11 + n as u64, 4))).map(pick).collect())
        };
        let parts = windows.into_iter().enumerate().map(|(n, (rows, cols))| Window {
            level,
            rows: Some(rows),
            cols: Some(cols),
            bands: bands(n),
        });
        let reversed = Window { level, bands: Some((1..=pixels.samples).rev().collect()), ..Window::default() };
        let twice = Window { level, bands: Some(vec![1, pixels.samples, 1]), ..Window::default() };
        parts.chain([reversed, twice]).collect()
    }
}

/// The bytes of a tensor, wherever it is.
fn on_host(tensor: &Tensor) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; tensor.storage().length()];
    tensor.storage().to_host(&mut bytes).map_err(|e| e.to_string())?;
    Ok(bytes)
}

/// The pixels of a frame, `pad` where there are none.
fn framed(whole: &[u8], pixels: &Pixels, frame: &Frame, pad: &[u8]) -> Vec<u8> {
    let (height, width) = (i64::from(pixels.height), i64::from(pixels.width));
    let mut out = Vec::new();
    for band in 0..i64::from(pixels.samples) {
        for y in (0..i64::from(frame.height)).map(|y| frame.y.saturating_add(y)) {
            for x in (0..i64::from(frame.width)).map(|x| frame.x.saturating_add(x)) {
                let inside = (0..height).contains(&y) && (0..width).contains(&x);
                let at = if inside { ((band * height + y) * width + x) as usize * pad.len() } else { 0 };
                out.extend_from_slice(if inside { &whole[at..][..pad.len()] } else { pad });
            }
        }
    }
    out
}

/// The masks of a file, largest first as its levels, are 255 where a pixel is valid.
fn check_masks(image: &Image, masks: &[&Pixels]) -> Verdict {
    let masked = (0..image.levels().len()).filter(|level| image.levels()[*level].mask.is_some());
    let masked: Vec<usize> = masked.collect();
    same("masks", masked.len(), masks.len())?;
    for (level, pixels) in masked.into_iter().zip(masks) {
        let found = image.read_mask(&Window { level, ..Window::default() }).map_err(|e| e.to_string())?;
        same("shape of a mask", found.shape, [1, pixels.height as usize, pixels.width as usize])?;
        let expected: Vec<u8> = pixels.values.iter().map(|value| if *value == 0 { 0 } else { 255 }).collect();
        compare(found.bytes().unwrap_or_default(), &expected, found.shape)
            .map_err(|what| format!("mask of level {level}: {what}"))?;
    }
    Ok(())
}

/// The images of a file as a reader presents them.
struct Page<'a> {
    /// Full size, then the overviews.
    levels: Vec<&'a Pixels>,
    masks: Vec<&'a Pixels>,
}

/// Which directories are pages, and which belong to them: the reduced ones behind a page in the chain come first, then
/// those it names itself. SubIFDs of its parts belong to nobody, and an overview has the bands of its image.
fn pages(case: &Case) -> Result<Vec<Page<'_>>, String> {
    let (_, directories) = naive::directories(&case.file)?;
    let mut pages: Vec<(usize, Page<'_>)> = Vec::new();
    let mut children = Vec::new();
    for (number, (directory, pixels)) in directories.iter().zip(&case.levels).enumerate() {
        let kind = match directory.tags.get(&tag::NEW_SUBFILE_TYPE) {
            Some(field) => field.numbers()?.first().copied().unwrap_or(0),
            None => 0,
        };
        match (directory.parent, pages.last_mut()) {
            (Some(parent), _) => children.push((parent, kind, pixels)),
            (None, Some((_, page))) if kind & 5 != 0 => page.add(kind, pixels),
            _ => pages.push((number, Page { levels: vec![pixels], masks: Vec::new() })),
        }
    }
    for (parent, kind, pixels) in children {
        if let Some((_, page)) = pages.iter_mut().find(|(number, _)| *number == parent) {
            page.add(kind, pixels);
        }
    }
    Ok(pages.into_iter().map(|(_, page)| page).collect())
}

impl<'a> Page<'a> {
    fn add(&mut self, kind: u64, pixels: &'a Pixels) {
        if kind & 4 != 0 {
            self.masks.push(pixels);
        } else if pixels.samples == self.levels[0].samples {
            self.levels.push(pixels);
        }
    }
}

fn is_uncompressed(file: &[u8]) -> Result<bool, String> {
    let (_, directories) = naive::directories(file)?;
    match directories[0].tags.get(&tag::COMPRESSION) {
        Some(field) => Ok(field.numbers()? == [1]),
        None => Ok(true),
    }
}

/// The bytes of pixels as this machine has them in memory.
fn native(pixels: &Pixels, dtype: DType) -> Vec<u8> {
    let mut bytes = pixels.to_le_bytes();
    if cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(dtype.word()).for_each(<[u8]>::reverse);
    }
    bytes
}

/// Shape and bytes of a window of an image.
fn cut(whole: &[u8], pixels: &Pixels, window: &Window) -> ([usize; 3], Vec<u8>) {
    let rows = window.rows.clone().unwrap_or(0..pixels.height);
    let cols = window.cols.clone().unwrap_or(0..pixels.width);
    let bands = window.bands.clone().unwrap_or_else(|| (1..=pixels.samples).collect());
    let size = pixels.format.size();
    let mut out = Vec::new();
    for band in &bands {
        for row in rows.clone() {
            let row = (usize::from(*band) - 1) * pixels.height as usize + row as usize;
            let start = (row * pixels.width as usize + cols.start as usize) * size;
            out.extend_from_slice(&whole[start..start + cols.len() * size]);
        }
    }
    ([bands.len(), rows.len(), cols.len()], out)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Verdict {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?} instead of {expected:?}")) }
}

/// Says where the first wrong value stands.
fn compare(found: &[u8], expected: &[u8], [bands, height, width]: [usize; 3]) -> Verdict {
    same("bytes", found.len(), expected.len())?;
    let Some(at) = found.iter().zip(expected).position(|(a, b)| a != b) else { return Ok(()) };
    let size = expected.len() / (bands * height * width);
    let value = at / size;
    let place = (value / width / height + 1, value / width % height, value % width);
    let of = |bytes: &[u8]| format!("{:02x?}", &bytes[value * size..(value + 1) * size]);
    Err(format!("band, row, column {place:?}: {} instead of {}", of(found), of(expected)))
}
