//! Where pixels are decoded.

use crate::error::Result;
use crate::plan::ReadPlan;
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
}
