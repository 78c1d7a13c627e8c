//! Writing an image: rows in order, a file at the end.
//!
//! Rows go to the backend, which encodes them, and to the reducer of the next level, whose rows go the same way. Each
//! level keeps the rows of a few tile rows at most; compressed tiles wait in a spool until their place is known.

mod options;
mod spool;
mod store;

use std::sync::Arc;
use std::thread::ScopedJoinHandle;

pub use options::{BigTiff, Blocks, Overviews, Prediction, WriteOptions};

use crate::backend::{Backend, EncodeJob, EncodedRows, Reducer};
use crate::cpu::Cpu;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::interrupt::wanted;
use crate::limits::Limits;
use crate::plan::{LevelPlan, WritePlan};
use crate::rows::{RowsBuf, RowsView};
use crate::sink::Sink;
use store::Store;

/// Tiles for each worker in one batch: enough that a slow one does not keep the others waiting.
const TILES_EACH: u64 = 8;
/// Pixels of a batch, in bytes, below which sharing the work costs more than it brings.
const SMALL_BATCH: u64 = 1 << 20;

/// Rows that a reducer gets at once.
const REDUCED: usize = 64;
/// The part of the memory in which compressed tiles wait before they go to a file.
const SPOOLED: u64 = 8;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Bytes of the file.
    pub bytes: u64,
    /// It is a BigTIFF.
    pub big: bool,
    /// Levels, the full size among them.
    pub levels: usize,
    /// Tiles of all levels and masks.
    pub tiles: u64,
    /// Those of them that were left out.
    pub absent: u64,
}

/// Writes one image. Nothing is seen of it before [`Writer::finish`]; dropped before that it leaves no trace.
///
/// ```
/// use tiffjet::{DType, RowsView, WriteOptions, Writer, sink::MemorySink};
///
/// let sink = MemorySink::new();
/// let mut options = WriteOptions::new([1, 64, 100], DType::UInt8);
/// options.cog = true;
/// let mut writer = Writer::create(sink.clone(), &options)?;
/// for y in 0..64 {
///     let row = [y; 100];
///     writer.push(&RowsView::new(&row, [1, 1, 100], DType::UInt8).unwrap())?;
/// }
/// writer.finish()?;
/// assert!(sink.take().unwrap().starts_with(b"II*\0"));
/// # Ok::<(), tiffjet::Error>(())
/// ```
pub struct Writer {
    plan: Arc<WritePlan>,
    backend: Arc<dyn Backend>,
    store: Store,
    stages: Vec<Stage>,
    /// An error leaves rows half way: nothing more can come of it.
    failed: bool,
}

/// One level on its way.
struct Stage {
    /// Makes the rows of this level; the full size needs none.
    reducer: Option<Box<dyn Reducer>>,
    /// Rows that wait for the rest of their batch.
    pending: RowsBuf,
    /// Rows of a batch: whole tile rows.
    batch: u64,
    /// Rows that are encoded.
    done: u64,
    height: u64,
}

impl Stage {
    /// Rows of the next batch.
    fn due(&self) -> usize {
        self.batch.min(self.height - self.done) as usize
    }
}

impl Writer {
    /// Begins a file, to be encoded on the CPU.
    pub fn create(sink: impl Sink + 'static, options: &WriteOptions) -> Result<Self> {
        Self::create_on(Arc::new(Cpu::shared()?), Box::new(sink), options)
    }

    /// Begins a file, to be encoded on some backend.
    pub fn create_on(backend: Arc<dyn Backend>, sink: Box<dyn Sink>, options: &WriteOptions) -> Result<Self> {
        let plan = Arc::new(WritePlan::new(sink.name(), options)?);
        let stages = stages(sink.name(), &plan, &*backend)?;
        let store = Store::new(plan.clone(), sink)?;
        Ok(Self { plan, backend, store, stages, failed: false })
    }

    /// What will be written.
    pub fn plan(&self) -> &WritePlan {
        &self.plan
    }

    /// Rows of the full image that were pushed.
    pub fn rows(&self) -> u64 {
        self.stages[0].done + self.stages[0].pending.rows() as u64
    }

    /// Takes the next rows of the image, any number of them. The bytes of the file do not depend on how the rows are
    /// cut.
    pub fn push(&mut self, rows: &RowsView<'_>) -> Result<()> {
        self.check(rows)?;
        self.guard(|writer| writer.take(rows))
    }

    /// Takes tiles that were encoded elsewhere, in any order, instead of rows.
    pub fn append(&mut self, rows: &EncodedRows) -> Result<()> {
        self.guard(|writer| writer.store.append(rows))
    }

    /// All rows are there: lays the file out and shows it.
    pub fn finish(self) -> Result<Written> {
        let (rows, height) = (self.rows(), self.stages[0].height);
        if self.failed || (rows > 0 && rows < height) {
            return Err(self.incomplete(rows, height));
        }
        self.store.finish()
    }

    fn incomplete(&self, rows: u64, height: u64) -> Error {
        let what = match self.failed {
            true => "writing failed before".into(),
            false => format!("{rows} of {height} rows were pushed"),
        };
        Error::invalid(self.store.name(), what)
    }

    fn guard(&mut self, act: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.failed {
            return Err(self.incomplete(0, 0));
        }
        let result = act(self);
        self.failed = result.is_err();
        result
    }

    fn check(&self, rows: &RowsView<'_>) -> Result<()> {
        let level = &self.plan.levels[0];
        let refuse = |what: String| Err(Error::invalid(self.store.name(), what));
        let (bands, width, dtype) = (usize::from(level.bands), level.width as usize, level.format.dtype);
        if (rows.bands(), rows.width(), rows.dtype()) != (bands, width, dtype) {
            let have = format!("{} bands, {} columns, {}", rows.bands(), rows.width(), rows.dtype());
            return refuse(format!("rows of {have} for an image of {bands} bands, {width} columns, {dtype}"));
        }
        if rows.mask().is_some() == self.plan.masks.is_empty() {
            let (have, due) = if self.plan.masks.is_empty() { ("with", "without") } else { ("without", "with") };
            return refuse(format!("rows {have} a mask for an image {due} one"));
        }
        let total = self.rows() + rows.rows() as u64;
        if total > self.stages[0].height {
            return refuse(format!("{total} rows for an image of {}", self.stages[0].height));
        }
        Ok(())
    }

    /// Cuts rows into batches. Whole batches are encoded where they stand; the rest is kept.
    fn take(&mut self, rows: &RowsView<'_>) -> Result<()> {
        let mut first = 0;
        while first < rows.rows() {
            wanted(self.store.name())?;
            let left = rows.rows() - first;
            let stage = &mut self.stages[0];
            let due = stage.due();
            if stage.pending.rows() == 0 && left >= due && self.plan.nan.is_none() {
                self.batch(0, &rows.part(first, due))?;
                first += due;
                continue;
            }
            let count = left.min(due - stage.pending.rows());
            let part = rows.part(first, count);
            match &self.plan.nan {
                None => stage.pending.extend(&part),
                Some(value) => {
                    stage.pending.extend(&part);
                    let fresh = stage.pending.rows() - count;
                    for band in 0..part.bands() {
                        replace_nan(&mut stage.pending.band_mut(band)[fresh * part.row_bytes()..], part.dtype(), value);
                    }
                }
            }
            first += count;
            self.drain(0)?;
        }
        Ok(())
    }

    /// Encodes all whole batches that wait at a level.
    fn drain(&mut self, level: usize) -> Result<()> {
        loop {
            let stage = &mut self.stages[level];
            let due = stage.due();
            if due == 0 || stage.pending.rows() < due {
                return Ok(());
            }
            let empty = RowsBuf::new(1, 0, DType::UInt8, false);
            let mut pending = std::mem::replace(&mut stage.pending, empty);
            self.batch(level, &pending.view().part(0, due))?;
            pending.drop_front(due);
            self.stages[level].pending = pending;
        }
    }

    /// Encodes a batch of a level while the next level is made from it.
    fn batch(&mut self, level: usize, rows: &RowsView<'_>) -> Result<()> {
        let Self { plan, backend, store, stages, .. } = self;
        let (above, below) = stages.split_at_mut(level + 1);
        let stage = &mut above[level];
        let first = stage.done;
        stage.done += rows.rows() as u64;
        let last = stage.done == stage.height;
        let mut taken = std::thread::scope(|scope| {
            let next = below.first_mut().map(|next| scope.spawn(move || next.reduce(rows, 0, last)));
            let encoded = encode(&**backend, plan, store, level, rows, first);
            // A panic of the other thread goes on in this one.
            let join = |next: ScopedJoinHandle<'_, _>| next.join().unwrap_or_else(|p| std::panic::resume_unwind(p));
            let taken = next.map_or(Ok(rows.rows()), join);
            encoded.and(taken)
        })?;
        if level + 1 == self.stages.len() {
            return Ok(());
        }
        self.drain(level + 1)?;
        while taken < rows.rows() {
            taken = self.stages[level + 1].reduce(rows, taken, last)?;
            self.drain(level + 1)?;
        }
        Ok(())
    }
}

impl Stage {
    /// Makes rows of this level from those of the level above, from row `from` on, until a batch is full, and tells
    /// how many rows above it has taken. So no more than a batch waits, and what a few rows more give.
    fn reduce(&mut self, above: &RowsView<'_>, from: usize, last: bool) -> Result<usize> {
        let Some(reducer) = &mut self.reducer else { return Ok(above.rows()) };
        let mut taken = from;
        while taken < above.rows() && self.pending.rows() < self.batch as usize {
            let count = REDUCED.min(above.rows() - taken);
            reducer.push(&above.part(taken, count), &mut self.pending)?;
            taken += count;
            if last && taken == above.rows() {
                reducer.finish(&mut self.pending)?;
            }
            let made = self.done + self.pending.rows() as u64;
            if made > self.height {
                let what = format!("a reducer made {made} rows of a level of {}", self.height);
                return Err(Error::invalid(&"overviews".into(), what));
            }
        }
        Ok(taken)
    }
}

/// Encodes rows of a level and of its mask from row `first` on, and puts them into the store.
fn encode(
    backend: &dyn Backend,
    plan: &WritePlan,
    store: &mut Store,
    level: usize,
    rows: &RowsView<'_>,
    first: u64,
) -> Result<()> {
    let name = store.name().clone();
    let mut emit = |rows: EncodedRows| store.append(&rows);
    let image = &plan.levels[level];
    let tile_row = (first / u64::from(image.format.height)) as u32;
    backend.encode(&EncodeJob { name: &name, rows, plan: image, first: tile_row }, &mut emit)?;
    let (Some(mask), Some(image)) = (rows.mask(), plan.masks.get(level)) else { return Ok(()) };
    let shape = [1, rows.rows(), rows.width()];
    let mask =
        RowsView::new(mask, shape, DType::UInt8).ok_or_else(|| Error::invalid(&name, "a mask has one byte a pixel"))?;
    let tile_row = (first / u64::from(image.format.height)) as u32;
    backend.encode(&EncodeJob { name: &name, rows: &mask, plan: image, first: tile_row }, &mut emit)
}

fn stages(name: &Arc<str>, plan: &WritePlan, backend: &dyn Backend) -> Result<Vec<Stage>> {
    // What is left beside the spool holds rows, and as much again what they are encoded to.
    let masked = !plan.masks.is_empty();
    let row = |level: &LevelPlan| level.image_row_bytes() + if masked { u64::from(level.width) } else { 0 };
    let tile_row = |level: &LevelPlan| row(level).saturating_mul(level.format.height.into());
    let floor = plan.levels.iter().fold(0u64, |sum, level| sum.saturating_add(tile_row(level))).max(1);
    let allowed = Limits::default().output_bytes;
    if floor > allowed {
        return Err(Error::limit(name, "bytes of one row of tiles of each level", floor, allowed));
    }
    let affordable = ((plan.memory - plan.memory / SPOOLED) / 2 / floor).max(1);
    let stage = |(i, level): (usize, &LevelPlan)| {
        let tiles = u64::from(level.across) * u64::from(level.planes());
        let busy = (TILES_EACH * backend.parallelism() as u64).div_ceil(tiles);
        let worthwhile = SMALL_BATCH / tile_row(level).max(1);
        let batch = busy.max(worthwhile).clamp(1, affordable);
        let rows = (batch * u64::from(level.format.height)).min(level.height.into()) as usize;
        let room = rows + if i == 0 { 0 } else { REDUCED };
        let reducer = match i.checked_sub(1) {
            Some(i) => Some(backend.reducer(&plan.overviews[i])?),
            None => None,
        };
        Ok(Stage {
            reducer,
            pending: RowsBuf::new(level.bands.into(), level.width as usize, level.format.dtype, masked).expecting(room),
            batch: batch * u64::from(level.format.height),
            done: 0,
            height: level.height.into(),
        })
    };
    plan.levels.iter().enumerate().map(stage).collect()
}

/// Puts one value where a float is NaN.
fn replace_nan(bytes: &mut [u8], dtype: DType, value: &[u8]) {
    fn each<const N: usize>(bytes: &mut [u8], value: &[u8], is_nan: fn([u8; N]) -> bool) {
        for v in bytes.as_chunks_mut::<N>().0 {
            if is_nan(*v) {
                v.copy_from_slice(value);
            }
        }
    }
    match dtype {
        DType::Float16 => each::<2>(bytes, value, |v| u16::from_ne_bytes(v) & 0x7fff > 0x7c00),
        DType::Float32 => each::<4>(bytes, value, |v| f32::from_ne_bytes(v).is_nan()),
        DType::Float64 => each::<8>(bytes, value, |v| f64::from_ne_bytes(v).is_nan()),
        _ => {}
    }
}
