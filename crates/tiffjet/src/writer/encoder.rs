//! Tiles of parts of an image, made apart from it: by another thread, device or machine than the one that writes.

use std::ops::Range;
use std::sync::Arc;

use super::WriteOptions;
use crate::backend::{Backend, EncodeJob, EncodedRows};
use crate::cpu::Cpu;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::plan::{LevelPlan, OverviewPlan, WritePlan};
use crate::rows::{Rows, RowsBuf, RowsView};

/// Which tiles are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// 0 is full size.
    pub level: usize,
    /// Of the mask of that level, whose rows are one band of bytes.
    pub mask: bool,
    /// The tile row that the rows begin with.
    pub row: u32,
    /// Columns of tiles.
    pub cols: Range<u32>,
}

/// Makes the tiles and the overview rows of parts of an image. All that have the same options make the same, and a
/// [`Writer`](super::Writer) that was begun with them takes the tiles in any order.
pub struct Encoder {
    name: Arc<str>,
    plan: WritePlan,
    backend: Arc<dyn Backend>,
    cpu: Cpu,
}

impl Encoder {
    /// For the image that some options describe. `name` is that of the destination, for errors.
    pub fn new(backend: Arc<dyn Backend>, name: &str, options: &WriteOptions) -> Result<Self> {
        let name: Arc<str> = name.into();
        let plan = WritePlan::new(&name, options)?;
        Ok(Self { name, plan, backend, cpu: Cpu::shared()? })
    }

    /// What is written.
    pub fn plan(&self) -> &WritePlan {
        &self.plan
    }

    /// Columns of pixels that a part has; `None` when it is not in the image.
    pub fn width(&self, part: &Part) -> Option<usize> {
        let image = self.plan.image(part.level, part.mask)?;
        columns(image, &part.cols).map(|plan| plan.width as usize)
    }

    /// Encodes rows: whole tile rows, or those up to the end of the image. NaN stays what it is.
    pub fn encode(&self, part: &Part, rows: Rows<'_>) -> Result<Vec<EncodedRows<'static>>> {
        let Some(image) = self.plan.image(part.level, part.mask) else {
            return self.refuse(part, "there is no such image");
        };
        let Some(plan) = columns(image, &part.cols) else {
            return self.refuse(part, "there are no such columns of tiles");
        };
        self.check(part, &plan, &rows)?;
        let (name, fallback) = (&self.name, self.plan.fallback);
        let job = EncodeJob { name, rows, plan: &plan, first: part.row, fallback };
        let mut tiles = Vec::new();
        self.backend.encode(&job, &mut |rows| {
            tiles.push(EncodedRows { col: rows.col + part.cols.start, ..rows.into_owned() });
            Ok(())
        })?;
        Ok(tiles)
    }

    /// The rows of the level above that some rows of a level are made from.
    pub fn needs(&self, level: usize, ys: Range<usize>) -> Result<Range<usize>> {
        let outside = || Error::invalid(&self.name, format!("rows {ys:?} of level {level} are not in the image"));
        self.cpu.needs(self.overview(level)?, ys.clone())?.ok_or_else(outside)
    }

    /// Makes rows of a level from rows of the level above, which begin with row `first`.
    pub fn reduce(&self, level: usize, above: &RowsView<'_>, first: usize, ys: Range<usize>) -> Result<RowsBuf> {
        self.cpu.reduce(self.overview(level)?, above, first, ys)
    }

    fn overview(&self, level: usize) -> Result<&OverviewPlan> {
        let found = level.checked_sub(1).and_then(|i| self.plan.overviews.get(i));
        found.ok_or_else(|| Error::invalid(&self.name, format!("level {level} is made from no other")))
    }

    fn check(&self, part: &Part, plan: &LevelPlan, rows: &Rows<'_>) -> Result<()> {
        let dtype = if part.mask { DType::UInt8 } else { plan.format.dtype };
        let [bands, count, width] = rows.shape();
        if (bands, width, rows.dtype()) != (plan.bands.into(), plan.width as usize, dtype) {
            return self.refuse(part, &format!("rows of {bands} bands, {width} columns, {}", rows.dtype()));
        }
        let (height, tile) = (u64::from(plan.height), u64::from(plan.format.height));
        let end = (u64::from(part.row) * tile).saturating_add(count as u64);
        let whole = end == height || (count as u64).is_multiple_of(tile);
        if count == 0 || end > height || !whole {
            return self.refuse(part, &format!("{count} rows are no whole tile rows of {}", plan.height));
        }
        Ok(())
    }

    fn refuse<T>(&self, part: &Part, why: &str) -> Result<T> {
        Err(Error::invalid(&self.name, format!("{part:?}: {why}")))
    }
}

/// Some columns of tiles alone, as if they were all of an image; `None` when there are no such columns.
fn columns(image: &LevelPlan, cols: &Range<u32>) -> Option<LevelPlan> {
    if cols.is_empty() || cols.end > image.across {
        return None;
    }
    let left = cols.start * image.format.width;
    let right = cols.end.saturating_mul(image.format.width).min(image.width);
    Some(LevelPlan { width: right - left, across: cols.end - cols.start, ..image.clone() })
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder")
            .field("name", &self.name)
            .field("backend", &self.backend.name())
            .finish_non_exhaustive()
    }
}
