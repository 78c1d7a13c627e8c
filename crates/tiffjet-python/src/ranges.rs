//! Files in stores of other libraries, read by ranges: `tiffjet._objects.Ranges`.

use std::ops::Range;
use std::sync::Arc;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use tiffjet::source::{Distance, Source, Version};
use tiffjet::{Error, Result};

use crate::buffer::Bytes;

/// Bytes of a gap that are cheaper to fetch than a request more.
const GAP: u64 = 128 << 10;
/// Most bytes of one request.
const REQUEST: u64 = 8 << 20;

/// An object that gives many ranges in one call. Threads may call it at once: stores let go of the interpreter while
/// they wait.
pub struct RangesObject {
    name: Arc<str>,
    version: Version,
    object: Py<PyAny>,
}

impl RangesObject {
    /// The object as `Ranges`; `None` for anything else.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        if !object.hasattr("read_ranges")? {
            return Ok(None);
        }
        let name: String = object.getattr("name")?.extract()?;
        let version = ask_version(object)?;
        Ok(Some(Self { name: name.into(), version, object: object.clone().unbind() }))
    }

    fn fill(&self, py: Python<'_>, ranges: &[Range<u64>], out: &mut [&mut [u8]]) -> PyResult<()> {
        let transfers = tiffjet::plan::transfers(ranges, GAP, REQUEST);
        let starts: Vec<u64> = transfers.iter().map(|transfer| transfer.range.start).collect();
        let ends: Vec<u64> = transfers.iter().map(|transfer| transfer.range.end).collect();
        let pieces = self.object.bind(py).call_method1("read_ranges", (starts, ends))?;
        let pieces: Vec<Bytes> = pieces.try_iter()?.map(|piece| Bytes::of(&piece?)).collect::<PyResult<_>>()?;
        if pieces.len() != transfers.len() {
            let what = format!("{}: {} ranges came of {}", self.name, pieces.len(), transfers.len());
            return Err(PyValueError::new_err(what));
        }
        for (piece, transfer) in pieces.iter().zip(&transfers) {
            let wanted = transfer.range.end - transfer.range.start;
            if piece.get().len() as u64 != wanted {
                let what = format!("{}: {} bytes came of {wanted}", self.name, piece.get().len());
                return Err(PyOSError::new_err(what));
            }
            for &part in &transfer.parts {
                let at = (ranges[part].start - transfer.range.start) as usize;
                let room = &mut *out[part];
                room.copy_from_slice(&piece.get()[at..at + room.len()]);
            }
        }
        Ok(())
    }
}

fn ask_version(object: &Bound<'_, PyAny>) -> PyResult<Version> {
    let (length, etag) = object.call_method0("version")?.extract()?;
    Ok(Version { length, modified: None, etag })
}

impl Source for RangesObject {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn version(&self) -> &Version {
        &self.version
    }

    fn read(&self, ranges: &[Range<u64>], out: &mut [&mut [u8]], landed: &mut dyn FnMut(usize)) -> Result<()> {
        Python::attach(|py| self.fill(py, ranges, out)).map_err(|raised| raised_as_io(&self.name, raised))?;
        (0..ranges.len()).for_each(landed);
        Ok(())
    }

    fn unchanged(&self) -> Result<()> {
        let now = Python::attach(|py| ask_version(self.object.bind(py)));
        match now.map_err(|raised| raised_as_io(&self.name, raised))? {
            now if now == self.version => Ok(()),
            _ => Err(Error::Changed { name: self.name.clone() }),
        }
    }

    fn distance(&self) -> Distance {
        Distance::FAR
    }
}

fn raised_as_io(name: &Arc<str>, raised: PyErr) -> Error {
    Error::io(name, std::io::Error::other(raised))
}
