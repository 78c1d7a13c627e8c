//! Bytes in.

mod file;
mod memory;

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

pub use file::FileSource;
pub use memory::MemorySource;

use crate::error::{Error, Result};

/// Which bytes a source had when it was opened. A file that changes while it is read is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Length in bytes.
    pub length: u64,
    /// Last change of a file.
    pub modified: Option<SystemTime>,
    /// ETag of an object.
    pub etag: Option<String>,
}

/// Something that has bytes at offsets.
pub trait Source: Send + Sync {
    /// Path, URL or `<memory>`, for every error.
    fn name(&self) -> &Arc<str>;

    /// What it was when it was opened.
    fn version(&self) -> &Version;

    /// Reads `ranges[i]` into `out[i]`, which has its length. Blocks until all are there; calls `landed(i)` as each
    /// arrives, in any order, so that decoding can overlap the transfer.
    fn read(&self, ranges: &[Range<u64>], out: &mut [&mut [u8]], landed: &mut dyn FnMut(usize)) -> Result<()>;

    /// An error when the bytes are no longer those that were opened.
    fn unchanged(&self) -> Result<()> {
        Ok(())
    }

    /// The plain file behind it, which may be read by other means.
    fn file(&self) -> Option<&File> {
        None
    }

    /// Length in bytes.
    fn length(&self) -> u64 {
        self.version().length
    }

    /// Reads one range.
    fn read_range(&self, range: Range<u64>, out: &mut [u8]) -> Result<()> {
        self.read(&[range], &mut [out], &mut |_| ())
    }
}

/// A range that a file asks for, checked against the length of the source.
pub(crate) fn within(source: &dyn Source, offset: u64, length: u64, what: &str) -> Result<Range<u64>> {
    match offset.checked_add(length) {
        Some(end) if end <= source.length() => Ok(offset..end),
        _ => Err(Error::malformed(
            source.name(),
            offset,
            format!("{what} takes {length} bytes, past the end of the file ({} bytes)", source.length()),
        )),
    }
}
