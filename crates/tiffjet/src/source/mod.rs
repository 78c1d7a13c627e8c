//! Bytes in.

mod address;
mod file;
mod lanes;
mod memory;
#[cfg(feature = "remote")]
mod remote;
mod settings;

use std::fs::File;
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub(crate) use address::{Address, address};
pub use address::{is_url, redacted};
pub use file::FileSource;
pub(crate) use lanes::{LANES, lanes};
pub use memory::MemorySource;
#[cfg(feature = "remote")]
pub use remote::RemoteSource;
pub use settings::Remote;

use crate::error::{Error, Result};
use crate::tensor::HostBuffer;

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

/// How far away the bytes of a source are: what a request costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Distance {
    /// Bytes that are cheaper to fetch in vain than another request is.
    pub gap: u64,
    /// Bytes of a request, at most.
    pub request: u64,
    /// Requests that are best under way at once; 1 where those who need bytes fetch them.
    pub at_once: usize,
    /// Bytes of a request for headers: what most of them need, directories and tile arrays together.
    pub head: u64,
    /// How long an answer takes to come.
    pub wait: Duration,
}

impl Distance {
    /// This machine: a request costs microseconds.
    pub const NEAR: Self = Self { gap: 4 << 10, request: u64::MAX, at_once: 1, head: 16 << 10, wait: Duration::ZERO };
    /// The network: in the time of a request a megabyte passes.
    pub const FAR: Self =
        Self { gap: 1 << 20, request: 8 << 20, at_once: LANES, head: 64 << 10, wait: Duration::from_millis(20) };

    /// Whether requests are worth saving.
    pub fn is_far(&self) -> bool {
        self.at_once > 1
    }

    /// Whether answers come so soon that whoever waits for them does little else: a server beside this machine.
    pub fn is_brisk(&self) -> bool {
        self.wait < Duration::from_millis(1)
    }
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

    /// Reads `ranges[i]` into `memory(i)`, which has its length, and gives it away as it is full: what has arrived can be
    /// decoded while the rest is on its way, and memory may be used again. All is given at the end where a source does
    /// nothing about it.
    fn deliver(
        &self,
        ranges: &[Range<u64>],
        memory: &mut dyn FnMut(usize) -> Option<HostBuffer>,
        landed: &mut dyn FnMut(usize, HostBuffer),
    ) -> Result<()> {
        deliver_together(self, ranges, memory, landed)
    }

    /// An error when the bytes are no longer those that were opened.
    fn unchanged(&self) -> Result<()> {
        Ok(())
    }

    /// The plain file behind it, which may be read by other means.
    fn file(&self) -> Option<&File> {
        None
    }

    /// Reads one range into pieces of memory, one behind the other, which have its length together.
    fn scatter(&self, range: Range<u64>, out: &mut [IoSliceMut<'_>]) -> Result<()> {
        let length = out.iter().map(|piece| piece.len()).sum();
        let memory = HostBuffer::take(length);
        let mut bytes = memory.ok_or_else(|| Error::io(self.name(), std::io::ErrorKind::OutOfMemory.into()))?;
        self.read_range(range, bytes.bytes_mut())?;
        let mut rest = &*bytes.bytes_mut();
        for piece in out {
            let (bytes, behind) = rest.split_at(piece.len());
            piece.copy_from_slice(bytes);
            rest = behind;
        }
        Ok(())
    }

    /// How far away it is.
    fn distance(&self) -> Distance {
        Distance::NEAR
    }

    /// Bytes of a header that were read: a source may keep them for the next one who opens the same.
    fn remember(&self, at: u64, bytes: &Arc<[u8]>) {
        let _ = (at, bytes);
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

/// Reads all ranges, then gives away their memory.
fn deliver_together<S: Source + ?Sized>(
    source: &S,
    ranges: &[Range<u64>],
    memory: &mut dyn FnMut(usize) -> Option<HostBuffer>,
    landed: &mut dyn FnMut(usize, HostBuffer),
) -> Result<()> {
    let out: Option<Vec<HostBuffer>> = (0..ranges.len()).map(memory).collect();
    let mut out = out.ok_or_else(|| Error::io(source.name(), std::io::ErrorKind::OutOfMemory.into()))?;
    let mut slices: Vec<&mut [u8]> = out.iter_mut().map(HostBuffer::bytes_mut).collect();
    source.read(ranges, &mut slices, &mut |_| ())?;
    out.into_iter().enumerate().for_each(|(i, buffer)| landed(i, buffer));
    Ok(())
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
