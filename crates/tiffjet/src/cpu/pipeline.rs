//! An image on its way through the cores: rows wait for their batch, batches are encoded while the next level is made.

use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use rayon::ThreadPool;

use super::reduce::{self, Reducer};
use super::{host, write};
use crate::backend::{Emit, EncodeJob, EncodedRows, Pipeline};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::interrupt::wanted;
use crate::limits::Limits;
use crate::plan::{LevelPlan, WritePlan};
use crate::rows::{Rows, RowsBuf, RowsView};
use crate::tensor::Report;

/// Tiles for each worker in one batch: enough that a slow one does not keep the others waiting. Of overviews there are
/// fewer, and all rows of their batches wait in memory.
const TILES_EACH: u64 = 8;
const OVERVIEW_TILES_EACH: u64 = 4;
/// Pixels of a batch, in bytes, below which sharing the work costs more than it brings.
const SMALL_BATCH: u64 = 1 << 20;
/// Rows that a reducer gets at once.
const REDUCED: usize = 64;

/// All levels.
pub(super) struct Stages {
    pool: Arc<ThreadPool>,
    name: Arc<str>,
    plan: Arc<WritePlan>,
    stages: Vec<Stage>,
    report: Report,
    begun: Instant,
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

    /// Rows of all batches that `rows` rows hold. Where no level is made from them on the way, they are encoded together:
    /// cores wait for each other at the end of a batch.
    fn whole(&self, rows: usize) -> usize {
        let rest = self.height - self.done;
        if rows as u64 >= rest { rest as usize } else { rows - rows % self.batch as usize }
    }
}

impl Stages {
    pub(super) fn new(pool: &Arc<ThreadPool>, name: &Arc<str>, plan: &Arc<WritePlan>) -> Result<Self> {
        let stages = stages(pool, name, plan)?;
        let (name, plan) = (name.clone(), plan.clone());
        Ok(Self { pool: pool.clone(), name, plan, stages, report: Report::default(), begun: Instant::now() })
    }

    /// Cuts rows into batches. Whole batches are encoded where they stand; the rest is kept.
    fn take(&mut self, rows: &RowsView<'_>, emit: &mut Emit<'_>) -> Result<()> {
        let mut first = 0;
        while first < rows.rows() {
            wanted(&self.name)?;
            let left = rows.rows() - first;
            let stage = &mut self.stages[0];
            let due = stage.due();
            if stage.pending.rows() == 0 && left >= due && self.plan.nan.is_none() {
                let due = if self.plan.levels.len() == 1 { stage.whole(left) } else { due };
                self.batch(0, &rows.part(first, due), emit)?;
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
            self.drain(0, emit)?;
        }
        Ok(())
    }

    /// Encodes all whole batches that wait at a level.
    fn drain(&mut self, level: usize, emit: &mut Emit<'_>) -> Result<()> {
        loop {
            let stage = &mut self.stages[level];
            let due = stage.due();
            if due == 0 || stage.pending.rows() < due {
                return Ok(());
            }
            let empty = RowsBuf::new(1, 0, DType::UInt8, false);
            let mut pending = std::mem::replace(&mut stage.pending, empty);
            self.batch(level, &pending.view().part(0, due), emit)?;
            pending.drop_front(due);
            self.stages[level].pending = pending;
        }
    }

    /// Encodes a batch of a level while the next level is made from it.
    fn batch(&mut self, level: usize, rows: &RowsView<'_>, emit: &mut Emit<'_>) -> Result<()> {
        let Self { pool, name, plan, stages, report, .. } = self;
        let (above, below) = stages.split_at_mut(level + 1);
        let stage = &mut above[level];
        let first = stage.done;
        stage.done += rows.rows() as u64;
        let last = stage.done == stage.height;
        let mut taken = std::thread::scope(|scope| {
            let next = below.first_mut().map(|next| scope.spawn(move || next.reduce(rows, 0, last)));
            let encoded = encode(pool, (name, plan), level, rows, first, emit, report);
            // A panic of the other thread goes on in this one.
            let join = |next: ScopedJoinHandle<'_, _>| next.join().unwrap_or_else(|p| std::panic::resume_unwind(p));
            let taken = next.map_or(Ok(rows.rows()), join);
            encoded.and(taken)
        })?;
        if level + 1 == self.stages.len() {
            return Ok(());
        }
        self.drain(level + 1, emit)?;
        while taken < rows.rows() {
            taken = self.stages[level + 1].reduce(rows, taken, last)?;
            self.drain(level + 1, emit)?;
        }
        Ok(())
    }
}

impl Pipeline for Stages {
    fn push(&mut self, rows: &Rows<'_>, emit: &mut Emit<'_>) -> Result<()> {
        let rows = host(&self.name, rows)?;
        self.report.bytes_read += (rows.bands() * rows.rows() * rows.row_bytes()) as u64;
        self.take(&rows, emit)
    }

    fn finish(&mut self, _emit: &mut Emit<'_>) -> Result<Report> {
        // The last rows of the image ended the last batch of every level.
        let mut report = std::mem::take(&mut self.report);
        report.seconds = self.begun.elapsed().as_secs_f64();
        report.host_memory = self.stages.iter().map(|stage| stage.pending.bytes() as u64).sum();
        Ok(report)
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

/// Encodes rows of a level and of its mask from row `first` on.
fn encode(
    pool: &ThreadPool,
    (name, plan): (&Arc<str>, &WritePlan),
    level: usize,
    rows: &RowsView<'_>,
    first: u64,
    emit: &mut Emit<'_>,
    report: &mut Report,
) -> Result<()> {
    let mut counted = |rows: EncodedRows<'_>| {
        report.tiles += rows.tiles.len();
        report.sparse += rows.tiles.iter().filter(|tile| tile.is_empty()).count();
        report.bytes_out += rows.tiles.iter().map(|tile| tile.len() as u64).sum::<u64>();
        emit(rows)
    };
    let mut encode = |image: &LevelPlan, rows: RowsView<'_>| {
        let first = (first / u64::from(image.format.height)) as u32;
        let job = EncodeJob { name, rows: Rows::Host(rows), plan: image, first, fallback: plan.fallback };
        write::encode(pool, &job, rows, &mut counted)
    };
    encode(&plan.levels[level], *rows)?;
    let (Some(mask), Some(image)) = (rows.mask(), plan.masks.get(level)) else { return Ok(()) };
    let shape = [1, rows.rows(), rows.width()];
    let mask =
        RowsView::new(mask, shape, DType::UInt8).ok_or_else(|| Error::invalid(name, "a mask has one byte a pixel"))?;
    encode(image, mask)
}

fn stages(pool: &Arc<ThreadPool>, name: &Arc<str>, plan: &WritePlan) -> Result<Vec<Stage>> {
    // What is left beside the spool holds rows, and as much again what they are encoded to.
    let masked = !plan.masks.is_empty();
    let row = |level: &LevelPlan| level.image_row_bytes() + if masked { u64::from(level.width) } else { 0 };
    let tile_row = |level: &LevelPlan| row(level).saturating_mul(level.format.height.into());
    let floor = plan.levels.iter().fold(0u64, |sum, level| sum.saturating_add(tile_row(level))).max(1);
    let allowed = Limits::default().output_bytes;
    if floor > allowed {
        return Err(Error::limit(name, "bytes of one row of tiles of each level", floor, allowed));
    }
    let affordable = (plan.rows_memory() / 2 / floor).max(1);
    let stage = |(i, level): (usize, &LevelPlan)| {
        let tiles = u64::from(level.across) * u64::from(level.planes());
        let each = if i == 0 { TILES_EACH } else { OVERVIEW_TILES_EACH };
        let busy = (each * pool.current_num_threads() as u64).div_ceil(tiles);
        let worthwhile = SMALL_BATCH / tile_row(level).max(1);
        let batch = busy.max(worthwhile).clamp(1, affordable);
        let rows = (batch * u64::from(level.format.height)).min(level.height.into()) as usize;
        let room = rows + if i == 0 { 0 } else { REDUCED };
        let reducer = match i.checked_sub(1) {
            Some(i) => Some(reduce::reducer(&plan.overviews[i], pool.clone())?),
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
