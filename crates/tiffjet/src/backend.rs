//! Where pixels are decoded.

use crate::error::Result;
use crate::plan::{OverviewPlan, ReadPlan};
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

/// Executes plans. Few, deep methods: a backend may fuse, batch and overlap as it likes.
pub trait Backend: Send + Sync {
    /// Short name for reports.
    fn name(&self) -> &str;

    /// Reads a window into new memory of this backend.
    fn read(&self, job: &ReadJob<'_>) -> Result<Tensor>;

    /// Reads a window into memory of the host, which has just the size of the result.
    fn read_into(&self, job: &ReadJob<'_>, out: &mut [u8]) -> Result<Report>;

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
