//! Runs of tiles spread over the threads.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rayon::ThreadPool;

use super::cache::{Cache, Pixels, Touch};
use super::canvas::Canvas;
use super::far;
use super::stream::Rows;
use super::team::together;
use super::tile;
use super::unpack::{self, Unpack};
use crate::backend::{ReadJob, ReadOptions, changed, common_bytes};
use crate::codec::{Cause, Encoded, reverse_bits};
use crate::error::{Error, Result};
use crate::interrupt::wanted;
use crate::plan::{ReadPlan, TileRead, runs as tile_runs};
use crate::source::Source;
use crate::tensor::Report;

/// Compressed bytes that one run fetches at once.
pub(super) const RUN: u64 = 256 << 10;
/// Memory that all workers together may use for tiles, beside the one tile that each needs at least.
pub(super) const SCRATCH: u64 = 64 << 20;
/// Reads that give less than this are done before another thread is awake.
const ALONE: usize = 64 << 10;
/// The same where all pixels are in the cache of tiles.
const ALONE_CACHED: usize = 256 << 10;
/// Bytes of a tile in that cache that one thread copies at a time.
const COPIED: usize = 64 << 10;
/// Rows scattered by one system call.
const SCATTER: usize = 512;

/// Reads windows into `out`, one after the other.
pub(super) fn read(
    pool: &ThreadPool,
    cache: &Cache,
    jobs: &[ReadJob<'_>],
    out: &mut [u8],
    options: &ReadOptions,
) -> Result<Report> {
    let begun = Instant::now();
    let bytes = common_bytes(jobs)?;
    if bytes != out.len() {
        let what = format!("the output has {} bytes, the windows {bytes}", out.len());
        return Err(Error::invalid(jobs[0].source.name(), what));
    }
    let readers: Vec<Reader<'_>> = std::iter::zip(jobs, out.chunks_exact_mut(bytes / jobs.len()))
        .map(|(job, out)| Reader::new(job, out, bytes).with_cache(cache))
        .collect();
    let near = |(_, reader): &(usize, &Reader<'_>)| !reader.source.distance().is_far();
    let pieces: Vec<(usize, Piece)> = readers
        .iter()
        .enumerate()
        .filter(near)
        .flat_map(|(i, reader)| reader.pieces().into_iter().map(move |p| (i, p)))
        .collect();
    let alone = if readers.iter().all(Reader::is_cached) { ALONE_CACHED } else { ALONE };
    let workers = match bytes <= alone {
        true => 1,
        false => jobs.iter().map(|job| workers(pool, job.plan)).min().unwrap_or(1),
    };
    let fill = options.fill_failed.as_deref();
    let outcome = far::read(pool, &readers, workers, fill.is_some()).and_then(|(mut report, mut failures)| {
        let (near, failed) = run_all(pool, &readers, &pieces, workers, fill.is_some())?;
        report.add(&near);
        failures.extend(failed);
        Ok((report, failures))
    });
    // First of all: where the file changed, damage is no news.
    let mut failures = changed(jobs);
    failures.keys().for_each(|&i| cache.forget(jobs[i].source));
    if fill.is_none()
        && let Some((_, error)) = failures.pop_first()
    {
        return Err(error);
    }
    let (mut report, failed) = outcome?;
    drop(readers);
    failures.extend(failed);
    for (&i, error) in &failures {
        let value = fill.unwrap_or_default();
        out.chunks_exact_mut(bytes / jobs.len()).skip(i).take(1).for_each(|window| fill_with(window, value));
        report.failures.push((i, error.to_string()));
    }
    report.bytes_out = bytes as u64;
    report.seconds = begun.elapsed().as_secs_f64();
    Ok(report)
}

/// The first error of each window that could not be read.
pub(super) type Failures = BTreeMap<usize, Error>;

/// Sets all values to one.
fn fill_with(pixels: &mut [u8], value: &[u8]) {
    match value.iter().all(|&b| b == 0) {
        true => pixels.fill(0),
        false => pixels.chunks_exact_mut(value.len()).for_each(|v| v.copy_from_slice(value)),
    }
}

/// Threads that can each hold a decoded and a compressed tile without breaking the bound on memory.
fn workers(pool: &ThreadPool, plan: &ReadPlan) -> usize {
    let tile = if plan.layout.rows_are_bytes() { RUN } else { plan.layout.decoded_bytes(plan.layout.format.height) };
    let fit = SCRATCH / (2 * tile).max(1);
    pool.current_num_threads().min(usize::try_from(fit).unwrap_or(usize::MAX).max(2))
}

/// Buffers that a thread keeps from one tile to the next.
#[derive(Default)]
struct Scratch {
    encoded: Vec<u8>,
    decoded: Vec<u8>,
    /// The part of the file that `encoded` holds.
    held: Range<u64>,
}

thread_local! {
    static SCRATCH_OF_THREAD: RefCell<Scratch> = RefCell::default();
}

/// Lends the buffer for decoded tiles that this thread keeps.
pub(super) fn with_decoded<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    // Taken, not borrowed: what runs here may read something else in this thread.
    let mut scratch = SCRATCH_OF_THREAD.take();
    let done = work(&mut scratch.decoded);
    super::shed([&mut scratch.encoded, &mut scratch.decoded]);
    SCRATCH_OF_THREAD.set(scratch);
    unpack::shed();
    done
}

/// Lets go of the buffers of a thread that seldom decodes.
pub(super) fn drop_scratch() {
    drop(SCRATCH_OF_THREAD.take());
}

/// A buffer of `length` bytes. Fresh memory comes zeroed from the system, page by page as it is used.
fn sized(buffer: &mut Vec<u8>, length: usize) -> &mut [u8] {
    if buffer.len() < length {
        *buffer = Vec::new();
        *buffer = vec![0; length];
    }
    &mut buffer[..length]
}

pub(super) struct Reader<'a> {
    pub(super) source: &'a dyn Source,
    pub(super) plan: &'a ReadPlan,
    canvas: Canvas<'a>,
    unpack: Unpack,
    cache: Option<&'a Cache>,
    /// What the cache knows of each tile of the plan; empty where it has no say.
    touched: Vec<Touch>,
}

/// What a thread does at a time.
enum Piece {
    /// Reads and decodes neighbouring tiles of the plan.
    Run(Range<usize>),
    /// Copies rows of the wanted part of a band of a tile that is in the cache.
    Rows { tile: usize, band: usize, rows: Range<u32> },
}

/// Threads take the next piece until none is left. Of several damaged tiles the first in the list of windows, and in its
/// image, is reported; where the rest is wanted all the same, the first of each window.
fn run_all(
    pool: &ThreadPool,
    readers: &[Reader<'_>],
    pieces: &[(usize, Piece)],
    workers: usize,
    keep_going: bool,
) -> Result<(Report, Failures)> {
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let cancelled = AtomicBool::new(false);
    let total = Mutex::new((Report::default(), BTreeMap::<usize, (usize, Error)>::new()));
    let work = || {
        let mut report = Report::default();
        let mut failed: Vec<(usize, Error)> = Vec::new();
        // Taken, not borrowed: whoever is asked whether to go on may read something else in this thread.
        let mut scratch = SCRATCH_OF_THREAD.take();
        while !stop.load(Ordering::Relaxed) {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some((job, piece)) = pieces.get(i) else { break };
            let reader = &readers[*job];
            if let Err(error) = wanted(reader.source.name()) {
                stop.store(true, Ordering::Relaxed);
                cancelled.store(true, Ordering::Relaxed);
                failed.push((i, error));
                break;
            }
            if let Err(error) = reader.piece(piece, &mut scratch, &mut report) {
                stop.store(!keep_going, Ordering::Relaxed);
                failed.push((i, error));
            }
        }
        super::shed([&mut scratch.encoded, &mut scratch.decoded]);
        SCRATCH_OF_THREAD.set(scratch);
        unpack::shed();
        let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
        total.0.add(&report);
        for (i, error) in failed {
            let job = pieces[i].0;
            if total.1.get(&job).is_none_or(|(first, _)| i < *first) {
                total.1.insert(job, (i, error));
            }
        }
    };
    together(pool, workers.min(pieces.len()).max(1) - 1, &work);
    let (report, failures) = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut failures: Failures = failures.into_iter().map(|(job, (_, error))| (job, error)).collect();
    match failures.pop_first() {
        Some((_, error)) if !keep_going || cancelled.into_inner() => Err(error),
        Some((job, error)) => {
            failures.insert(job, error);
            Ok((report, failures))
        }
        None => Ok((report, failures)),
    }
}

impl<'a> Reader<'a> {
    /// A reader of one window, into its part of a result of `whole` bytes.
    pub(super) fn new(job: &ReadJob<'a>, out: &'a mut [u8], whole: usize) -> Self {
        let plan = job.plan;
        if let Some(value) = &plan.pad {
            fill_with(out, value);
        }
        let canvas = Canvas::new(out, plan.shape(), plan.layout.dtype().size());
        let unpack = Unpack::new(plan, whole);
        Self { source: job.source, plan, canvas, unpack, cache: None, touched: Vec::new() }
    }

    /// The same with what a cache has of its tiles.
    /// What is far away comes by another path, which has no use for it.
    fn with_cache(self, cache: &'a Cache) -> Self {
        if self.source.distance().is_far() {
            return self;
        }
        let touched = cache.touch(&self.job());
        Self { cache: Some(cache), touched, ..self }
    }

    fn job(&self) -> ReadJob<'a> {
        ReadJob { source: self.source, plan: self.plan }
    }
}

impl Reader<'_> {
    /// All that is to be done, in pieces, in the order of the plan.
    fn pieces(&self) -> Vec<Piece> {
        let tiles = &self.plan.tiles;
        if self.touched.is_empty() {
            return tile_runs(tiles, RUN).into_iter().map(Piece::Run).collect();
        }
        let mut pieces = Vec::new();
        let mut first = 0;
        for touched in self.touched.chunk_by(|a, b| a.kept().is_none() && b.kept().is_none()) {
            let some = first..first + touched.len();
            first = some.end;
            if touched.iter().any(|touch| touch.kept().is_some()) {
                some.for_each(|i| pieces.extend(self.copies(i)));
            } else {
                let runs = tile_runs(&tiles[some.clone()], RUN).into_iter();
                pieces.extend(runs.map(|run| Piece::Run(some.start + run.start..some.start + run.end)));
            }
        }
        pieces
    }

    /// A tile that is in the cache, in pieces: rows of one band, which lie in one place.
    fn copies(&self, number: usize) -> impl Iterator<Item = Piece> {
        let tile = &self.plan.tiles[number];
        let row = tile.part.width as usize * self.plan.layout.dtype().size();
        let step = (COPIED / row.max(1)).max(1);
        let height = tile.part.height;
        let rows = move |y: u32| y..height.min(y.saturating_add(step as u32));
        (0..self.unpack.bands(tile).count()).flat_map(move |band| {
            (0..height).step_by(step).map(move |y| Piece::Rows { tile: number, band, rows: rows(y) })
        })
    }

    fn piece(&self, piece: &Piece, scratch: &mut Scratch, report: &mut Report) -> Result<()> {
        match piece {
            Piece::Run(run) => self.run(run.clone(), scratch, report),
            Piece::Rows { tile, band, rows } => {
                if let Some(pixels) = self.touched.get(*tile).and_then(Touch::kept) {
                    let first = usize::from(rows.start == 0 && *band == 0);
                    report.tiles += first;
                    report.cached += first;
                    self.copy(&self.plan.tiles[*tile], *band..*band + 1, rows.clone(), pixels);
                }
                Ok(())
            }
        }
    }

    /// One run: one read, then tile after tile.
    fn run(&self, run: Range<usize>, scratch: &mut Scratch, report: &mut Report) -> Result<()> {
        let tiles = &self.plan.tiles[run.clone()];
        let touched = self.touched.get(run).unwrap_or_default();
        let span = span(tiles);
        report.bytes_read += span.end - span.start;
        scratch.held = 0..0;
        for (i, tile) in tiles.iter().enumerate() {
            report.tiles += 1;
            if tile.range.is_empty() {
                report.sparse += 1;
                self.fill(tile);
            } else if self.straight(tile)? {
                // Its pixels went from the file to their place.
            } else {
                if scratch.held != span {
                    let buffer = sized(&mut scratch.encoded, (span.end - span.start) as usize);
                    self.source.read_range(span.clone(), buffer)?;
                    scratch.held = span.clone();
                }
                let again = matches!(touched.get(i), Some(Touch::Again));
                match if again { self.keep(tile, scratch) } else { None } {
                    Some(pixels) => self.copy(tile, 0..usize::MAX, 0..tile.part.height, &pixels),
                    None => {
                        let Scratch { encoded, decoded, held } = scratch;
                        self.tile(tile, held.start, encoded, decoded)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether all its pixels are in the cache, but for those that are not even in the file.
    fn is_cached(&self) -> bool {
        let known = |(tile, touch): (&TileRead, &Touch)| tile.range.is_empty() || touch.kept().is_some();
        self.touched.len() == self.plan.tiles.len() && std::iter::zip(&self.plan.tiles, &self.touched).all(known)
    }

    /// Decodes the whole of a tile and keeps it. `None` where that cannot be: what is wanted of it may be fine.
    fn keep(&self, tile: &TileRead, scratch: &mut Scratch) -> Option<Arc<Pixels>> {
        let cache = self.cache?;
        let whole = self.plan.whole_tile(tile);
        let mut pixels = cache.room(whole.output_bytes()?)?;
        let bytes = pixels.bytes().len();
        let job = ReadJob { source: self.source, plan: &whole };
        let Scratch { encoded, decoded, held } = scratch;
        Reader::new(&job, pixels.bytes_mut(), bytes).tile(whole.tiles.first()?, held.start, encoded, decoded).ok()?;
        Some(cache.keep(&self.job(), tile, pixels))
    }

    /// Puts rows of the wanted part of some bands of a kept tile in their place.
    fn copy(&self, tile: &TileRead, bands: Range<usize>, rows: Range<u32>, pixels: &Pixels) {
        let (height, width) = self.plan.layout.size_inside(tile.row, tile.col);
        let (height, width) = (height as usize, width as usize);
        let size = self.plan.layout.dtype().size();
        let (count, first) = (rows.len(), tile.part.y + rows.start);
        for (out, band) in self.unpack.bands(tile).skip(bands.start).take(bands.len()) {
            let start = (band * height + first as usize) * width + tile.part.x as usize;
            let from = &pixels.bytes()[start * size..];
            let from = Rows::new(from, count, tile.part.width as usize * size, width * size);
            self.unpack.copy_rows(from, |y| self.row(out, tile, rows.start + y as u32));
        }
        self.unpack.settle();
    }

    /// A tile that is not in the file.
    pub(super) fn fill(&self, tile: &TileRead) {
        let fill = |pixels: &mut [u8]| fill_with(pixels, &self.plan.fill);
        for (out, _) in self.unpack.bands(tile) {
            match self.block(out, tile) {
                Some(block) => fill(block),
                None => (0..tile.part.height).for_each(|y| fill(self.row(out, tile, y))),
            }
        }
    }

    /// Row `y` of the wanted part of a tile in an output band.
    #[allow(unsafe_code, clippy::mut_from_ref)]
    fn row(&self, band: usize, tile: &TileRead, y: u32) -> &mut [u8] {
        let (top, left) = tile.at;
        // SAFETY: the tiles of a plan have disjoint parts and a row of a tile is handled by one thread, which asks for no
        // row of a band again while it holds it: unpacking and copying hold one row of each band, `scatter` and `places`
        // several, all of them different.
        unsafe { self.canvas.span(band, (top + y) as usize, left as usize, tile.part.width as usize) }
    }

    /// All of the wanted part of a tile in an output band, where it is one piece: whole rows of the canvas.
    #[allow(unsafe_code, clippy::mut_from_ref)]
    fn block(&self, band: usize, tile: &TileRead) -> Option<&mut [u8]> {
        let whole = tile.part.width == self.plan.layout.format.width && tile.part.width as usize == self.canvas.width();
        let (top, left) = tile.at;
        let n = tile.part.width as usize * tile.part.height as usize;
        // SAFETY: as in `row`, and rows as wide as the canvas follow each other; while a block is held, no row of it is
        // asked for.
        whole.then(|| unsafe { self.canvas.span(band, top as usize, left as usize, n) })
    }

    /// Uncompressed samples of one band need no buffer between the file and their place.
    fn straight(&self, tile: &TileRead) -> Result<bool> {
        let (Some(file), true, Some(band)) = (self.source.file(), self.unpack.is_plain(), self.unpack.only_band(tile))
        else {
            return Ok(false);
        };
        if !self.plan.layout.rows_are_bytes() || self.plan.layout.reversed {
            return Ok(false);
        }
        let needed = self.plan.layout.decoded_bytes(tile.rows);
        if tile.range.end - tile.range.start < needed {
            return Ok(false); // the codec says what is missing
        }
        if let Some(block) = self.block(band, tile) {
            self.source.read_range(tile.range.start..tile.range.start + block.len() as u64, block)?;
            self.unpack.swap(block);
            return Ok(true);
        }
        self.scatter(file, band, tile)?;
        Ok(true)
    }

    /// Bytes of an uncompressed tile that are pixels in their order from its first byte on, so that they can be read right
    /// into their places; `None` where something must be done with them before.
    pub(super) fn placed_bytes(&self, tile: &TileRead) -> Option<u64> {
        let layout = &self.plan.layout;
        self.unpack.only_band(tile).filter(|_| self.is_copy() && !layout.reversed)?;
        let whole = tile.part.width == layout.format.width && tile.part.y == tile.first_row;
        let enough = tile.range.end - tile.range.start >= layout.decoded_bytes(tile.rows);
        (whole && enough).then(|| layout.decoded_bytes(1) * u64::from(tile.part.height))
    }

    /// Hands over those places in order, and tells how many bytes they have.
    pub(super) fn places<'r>(&'r self, tile: &TileRead, mut take: impl FnMut(&'r mut [u8])) -> Option<u64> {
        let (bytes, band) = (self.placed_bytes(tile)?, self.unpack.only_band(tile)?);
        match self.block(band, tile) {
            Some(block) => take(block),
            None => (0..tile.part.height).for_each(|y| take(self.row(band, tile, y))),
        }
        Some(bytes)
    }

    /// Turns round the bytes of samples in their places.
    pub(super) fn swap_placed(&self, tile: &TileRead) {
        if self.unpack.swaps() {
            self.places(tile, |place| self.unpack.swap(place));
        }
    }

    /// Reads the rows of a tile into the rows of the canvas; what hangs over the window goes to a bin.
    fn scatter(&self, file: &std::fs::File, band: usize, tile: &TileRead) -> Result<()> {
        let size = self.plan.layout.dtype().size();
        let row_bytes = self.plan.layout.format.width as usize * size;
        let before = tile.part.x as usize * size;
        let after = row_bytes - before - tile.part.width as usize * size;
        if before + after > row_bytes / 2 {
            return self.sieve(band, tile);
        }
        let mut bins = vec![0u8; (before + after) * SCATTER.min(tile.part.height as usize)];
        let mut y = 0;
        while y < tile.part.height {
            let rows = (tile.part.height - y).min(SCATTER as u32);
            let mut bins = bins.chunks_exact_mut((before + after).max(1));
            let mut slices = Vec::with_capacity(3 * rows as usize);
            for r in y..y + rows {
                let row = self.row(band, tile, r);
                match bins.next().map(|bin| bin.split_at_mut(before)) {
                    Some((left, right)) => slices.extend([left, row, right].map(IoSliceMut::new)),
                    None => slices.push(IoSliceMut::new(row)),
                }
            }
            let offset = tile.range.start + u64::from(y) * row_bytes as u64;
            read_scattered(self.source, file, offset, &mut slices)?;
            y += rows;
        }
        for y in 0..tile.part.height {
            self.unpack.swap(self.row(band, tile, y));
        }
        Ok(())
    }

    /// Where most of a tile hangs over the window, its rows are read one by one.
    fn sieve(&self, band: usize, tile: &TileRead) -> Result<()> {
        let size = self.plan.layout.dtype().size() as u64;
        let row_bytes = u64::from(self.plan.layout.format.width) * size;
        for y in 0..tile.part.height {
            let row = self.row(band, tile, y);
            let start = tile.range.start + u64::from(y) * row_bytes + u64::from(tile.part.x) * size;
            self.source.read_range(start..start + row.len() as u64, row)?;
            self.unpack.swap(row);
        }
        Ok(())
    }

    /// Decodes a tile and puts its pixels in their place. `fetched` are bytes of the file from `start` on, its own among them.
    pub(super) fn tile(&self, tile: &TileRead, start: u64, fetched: &[u8], decoded: &mut Vec<u8>) -> Result<()> {
        let bytes = &fetched[(tile.range.start - start) as usize..(tile.range.end - start) as usize];
        if self.plan.layout.reversed {
            // Two tiles may share their bytes: turned round once is enough, so each works on a copy.
            let mut turned = bytes.to_vec();
            reverse_bits(&mut turned);
            return self.decode(tile, &turned, decoded);
        }
        self.decode(tile, bytes, decoded)
    }

    fn decode(&self, tile: &TileRead, bytes: &[u8], buffer: &mut Vec<u8>) -> Result<()> {
        let layout = &self.plan.layout;
        let index = u64::from(tile.row) * u64::from(layout.across) + u64::from(tile.col);
        let encoded = Encoded { bytes, rows: tile.rows, index, format: &layout.format };
        let fails = |cause| self.plan.failure(self.source.name(), tile, cause);
        if self.unpack.is_in_place()
            && tile.part.height == tile.rows
            && let Some(band) = self.unpack.only_band(tile)
            && let Some(block) = self.block(band, tile)
        {
            layout.codec.decode(&encoded, block).map_err(fails)?;
            self.unpack.in_place(block, tile.part.width as usize * layout.dtype().size());
            return Ok(());
        }
        if layout.rows_are_bytes() && bytes.len() as u64 >= layout.decoded_bytes(tile.rows) {
            self.place_bytes(tile, bytes, layout.decoded_bytes(1) as usize);
            return Ok(());
        }
        let plain = sized(buffer, layout.plain_bytes(tile.rows) as usize);
        if tile::stops_early(layout, tile) {
            return self.decode_along(tile, &encoded, plain).map_err(fails);
        }
        tile::decode(layout, tile, bytes, plain).map_err(fails)?;
        self.place(tile, plain);
        Ok(())
    }

    /// Decodes a tile and puts rows in their place while they are in the cache, up to the last one that is wanted.
    fn decode_along(&self, tile: &TileRead, encoded: &Encoded<'_>, decoded: &mut [u8]) -> Result<(), Cause> {
        let row_bytes = decoded.len() / tile.rows as usize;
        let first = (tile.part.y - tile.first_row) as usize;
        let mut placed = 0;
        let all = tile.part.height as usize;
        let outcome = self.plan.layout.codec.decode_along(encoded, decoded, &mut |done| {
            for row in done.chunks_exact(row_bytes).take(first + all).skip(first + placed) {
                self.unpack.row(row, tile, |band| self.row(band, tile, placed as u32));
                placed += 1;
            }
            if placed == all { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        self.unpack.settle();
        // Some writers leave out the rows of a tile that hang over the lower edge of the image.
        if placed == all { Ok(()) } else { outcome }
    }

    /// Unpacks the wanted rows of an uncompressed tile where they are.
    fn place_bytes(&self, tile: &TileRead, bytes: &[u8], row_bytes: usize) {
        let first = (tile.part.y - tile.first_row) as usize;
        for (y, row) in bytes.chunks_exact(row_bytes).skip(first).take(tile.part.height as usize).enumerate() {
            self.unpack.row(row, tile, |band| self.row(band, tile, y as u32));
        }
        self.unpack.settle();
    }

    /// Has memory found for its pixels while there is time, unless they take more than so many bytes; how many they take.
    pub(super) fn populate(&self, most: usize) -> usize {
        let bytes = self.canvas.length();
        if bytes <= most {
            self.canvas.populate();
        }
        bytes
    }

    /// Whether tiles need hardly more than to be copied.
    pub(super) fn is_copy(&self) -> bool {
        self.plan.layout.rows_are_bytes() && self.unpack.is_plain()
    }

    /// Unpacks the wanted rows of a decoded tile.
    fn place(&self, tile: &TileRead, decoded: &mut [u8]) {
        let row_bytes = decoded.len() / tile.rows as usize;
        let first = (tile.part.y - tile.first_row) as usize;
        for (y, row) in decoded.chunks_exact_mut(row_bytes).skip(first).take(tile.part.height as usize).enumerate() {
            self.unpack.used_row(row, tile, |band| self.row(band, tile, y as u32));
        }
        self.unpack.settle();
    }
}

/// All bytes of a run of tiles; sparse ones have none.
fn span(tiles: &[TileRead]) -> Range<u64> {
    let mut span = 0..0;
    for range in tiles.iter().map(|t| &t.range).filter(|r| !r.is_empty()) {
        span = if span.is_empty() { range.clone() } else { span.start..range.end };
    }
    span
}

/// Fills slices from a file, going on where the system stops short.
fn read_scattered(source: &dyn Source, file: &std::fs::File, mut at: u64, slices: &mut [IoSliceMut<'_>]) -> Result<()> {
    let mut left = slices;
    while !left.is_empty() {
        // IOV_MAX is 1024 everywhere.
        let n = left.len().min(1024);
        match rustix::io::preadv(file, &mut left[..n], at) {
            Ok(0) => return Err(Error::Changed { name: source.name().clone() }),
            Ok(read) => {
                at += read as u64;
                IoSliceMut::advance_slices(&mut left, read);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(Error::io(source.name(), errno.into())),
        }
    }
    Ok(())
}
