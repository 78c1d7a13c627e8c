//! Files in stores of other libraries, read by ranges: `tiffjet._objects.Ranges`.

use std::ops::Range;
use std::sync::Arc;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use tiffjet::plan::{Piece, Transfer};
use tiffjet::source::{Distance, Source, Version};
use tiffjet::{Error, Result};

use crate::buffer::Bytes;

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
        let Distance { gap, request, .. } = self.distance();
        let transfers = tiffjet::plan::transfers(ranges, gap, request);
        let starts: Vec<u64> = transfers.iter().map(|transfer| transfer.range.start).collect();
        let ends: Vec<u64> = transfers.iter().map(|transfer| transfer.range.end).collect();
        let fetched = self.object.bind(py).call_method1("read_ranges", (starts, ends))?;
        let fetched: Vec<Bytes> = fetched.try_iter()?.map(|bytes| Bytes::of(&bytes?)).collect::<PyResult<_>>()?;
        if fetched.len() != transfers.len() {
            let what = format!("{}: {} ranges came of {}", self.name, fetched.len(), transfers.len());
            return Err(PyValueError::new_err(what));
        }
        // The copies need no interpreter.
        py.detach(|| fetched.iter().zip(&transfers).try_for_each(|(bytes, t)| place(bytes.get(), t, ranges, out)))
            .map_err(|came| PyOSError::new_err(format!("{}: {came}", self.name)))
    }
}

/// Copies what a request brought to where it belongs.
fn place(bytes: &[u8], transfer: &Transfer, ranges: &[Range<u64>], out: &mut [&mut [u8]]) -> Result<(), String> {
    let start = transfer.range.start;
    let wanted = transfer.range.end - start;
    if bytes.len() as u64 != wanted {
        return Err(format!("{} bytes came of {wanted}", bytes.len()));
    }
    for Piece { part, range } in &transfer.pieces {
        let first = ranges[*part].start;
        let to = (range.start - first) as usize..(range.end - first) as usize;
        out[*part][to].copy_from_slice(&bytes[(range.start - start) as usize..(range.end - start) as usize]);
    }
    Ok(())
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
