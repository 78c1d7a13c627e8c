//! Where pixels are decoded and encoded.

use std::sync::Arc;

use crate::error::Result;
use crate::plan::{LevelPlan, OverviewPlan, ReadPlan};
use crate::rows::{RowsBuf, RowsView};
use crate::source::Source;
use crate::tensor::{Report, Tensor};

/// One window of one file.
pub struct ReadJob<'a> {
    /// The bytes.
    pub source: &'a dyn Source,
    /// What must happen.
    pub plan: &'a ReadPlan,
}

/// Rows of one level to encode.
#[derive(Clone, Copy)]
pub struct EncodeJob<'a> {
    /// Of the destination, for errors.
    pub name: &'a Arc<str>,
    /// Whole tile rows, or less at the end of the image. Rows of a mask are one band of bytes.
    pub rows: &'a RowsView<'a>,
    /// How they are stored.
    pub plan: &'a LevelPlan,
    /// The tile row they begin with.
    pub first: u32,
}

/// Compressed tiles of one tile row of one plane: the waist of writing. However rows came and wherever they were
/// encoded, these are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedRows {
    /// 0 is full size.
    pub level: usize,
    /// Of the mask of that level.
    pub mask: bool,
    /// Plane, 0 when all bands stand in one tile.
    pub plane: u16,
    /// Tile row.
    pub row: u32,
    /// Column of the first tile.
    pub col: u32,
    /// Tiles from left to right; an empty one is left out of the file.
    pub tiles: Vec<Vec<u8>>,
}

/// Executes plans. Few, deep methods: a backend may fuse, batch and overlap as it likes.
pub trait Backend: Send + Sync {
    /// Short name for reports.
    fn name(&self) -> &str;

    /// Reads a window into new memory of this backend.
    fn read(&self, job: &ReadJob<'_>) -> Result<Tensor>;

    /// Reads a window into memory of the host, which has just the size of the result.
    fn read_into(&self, job: &ReadJob<'_>, out: &mut [u8]) -> Result<Report>;

    /// Packs and encodes rows, and gives the tiles in the order of the image: row by row, plane by plane, from left
    /// to right, some at a time.
    fn encode(&self, job: &EncodeJob<'_>, emit: &mut (dyn FnMut(EncodedRows) -> Result<()> + Send)) -> Result<()>;

    /// Tiles that are encoded at once: fewer of them in a job leave it idle.
    fn parallelism(&self) -> usize;

    /// Makes the rows of one level from those of the level above.
    fn reducer(&self, plan: &OverviewPlan) -> Result<Box<dyn Reducer>>;
}

/// Makes the rows of a level from those of the level above, as they pass. It keeps only the rows it still needs.
pub trait Reducer: Send {
    /// Takes the next rows of the level above, any number of them, and appends the rows of this level that are
    /// complete to `out`. What it gives in all must not depend on how the rows were cut.
    fn push(&mut self, rows: &RowsView<'_>, out: &mut RowsBuf) -> Result<()>;

    /// There are no more rows above: appends what is left. In all it has given as many rows as the plan says.
    fn finish(&mut self, out: &mut RowsBuf) -> Result<()>;
}
