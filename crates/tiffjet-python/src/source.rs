//! Bytes in: paths, URLs, bytes and objects of Python.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};
use tiffjet::source::{MemorySource, Source, Version, is_url, redacted};
use tiffjet::{Error, Image, OpenOptions, Result};

use crate::error::raise;
use crate::interrupt::run;
use crate::ranges::RangesObject;

/// Where an image comes from, to open it again elsewhere.
pub enum Origin {
    /// A local file or a URL.
    Path(PathBuf),
    /// Bytes or an object: it goes along.
    Object(Py<PyAny>),
}

/// Opens what the caller gave; of a file the header alone is read.
pub fn open(src: &Bound<'_, PyAny>, options: &OpenOptions) -> PyResult<(Image, Origin)> {
    let (image, origin) = try_open(src, options)?;
    Ok((image.map_err(raise)?, origin))
}

/// The same, with what the file is to blame for told apart from what the caller is.
pub fn try_open(src: &Bound<'_, PyAny>, options: &OpenOptions) -> PyResult<(Result<Image>, Origin)> {
    let py = src.py();
    if let Some(path) = path(src)? {
        let image = run(py, || Ok(Image::open(&path, options)))?;
        return Ok((image, Origin::Path(path)));
    }
    let (source, object): (Arc<dyn Source>, Bound<'_, PyAny>) = match bytes(src)? {
        Some(bytes) => {
            let backed: PyBackedBytes = bytes.extract()?;
            (Arc::new(MemorySource::named("<bytes>", backed)), bytes.into_any())
        }
        None => (object(src)?, src.clone()),
    };
    let image = run(py, || Ok(Image::from_source(source, options)))?;
    Ok((image, Origin::Object(object.unbind())))
}

/// Files in stores by their ranges, file objects by their one position.
fn object(src: &Bound<'_, PyAny>) -> PyResult<Arc<dyn Source>> {
    match RangesObject::of(src)? {
        Some(ranges) => Ok(Arc::new(ranges)),
        None => Ok(Arc::new(FileObject::new(src)?)),
    }
}

/// The path or URL that is meant; `None` for something else, an error for a scheme that nobody serves.
pub fn path(src: &Bound<'_, PyAny>) -> PyResult<Option<PathBuf>> {
    if !src.is_instance_of::<PyString>() && !src.hasattr("__fspath__")? {
        return Ok(None);
    }
    let path: PathBuf = src.extract()?;
    if let Some(text) = path.to_str()
        && let Some(scheme) = scheme(text)
        && scheme != "file"
        && !is_url(text)
    {
        let hint = "there are http, https, s3, gs, az and file; of others an object of fsspec or obstore";
        return Err(raise(Error::unsupported(&redacted(text).into(), format!("{scheme}://"), hint)));
    }
    Ok(Some(path))
}

/// `s3` of `s3://bucket/key`.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let letters = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    (scheme.len() > 1 && letters).then_some(scheme)
}

/// Bytes of a whole file; what could change is copied.
fn bytes<'py>(src: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    if let Ok(bytes) = src.cast::<PyBytes>() {
        return Ok(Some(bytes.clone()));
    }
    if src.is_instance_of::<PyByteArray>() || src.is_instance_of::<PyMemoryView>() {
        let copy = src.py().get_type::<PyBytes>().call1((src,))?;
        return Ok(Some(copy.cast_into::<PyBytes>()?));
    }
    Ok(None)
}

/// The name of a file object, for errors.
pub fn object_name(object: &Bound<'_, PyAny>) -> String {
    let name = object.getattr("name").or_else(|_| object.getattr("path"));
    name.and_then(|name| name.extract::<String>()).unwrap_or_else(|_| "<file object>".into())
}

/// A binary file object: anything with `read` and `seek`.
struct FileObject {
    name: Arc<str>,
    version: Version,
    /// It has one position: one thread at a time.
    object: Mutex<Py<PyAny>>,
}

impl FileObject {
    fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if !object.hasattr("read")? || !object.hasattr("seek")? {
            let kind = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!("{kind}: a path, bytes or a binary file object is meant")));
        }
        let end = object.call_method1("seek", (0, 2))?;
        let length = if end.is_none() { object.call_method0("tell")? } else { end };
        let length: u64 = length.extract()?;
        let version = Version { length, modified: None, etag: None };
        Ok(Self { name: object_name(object).into(), version, object: Mutex::new(object.clone().unbind()) })
    }

    fn fill(&self, object: &Bound<'_, PyAny>, start: u64, out: &mut [u8]) -> PyResult<()> {
        object.call_method1("seek", (start,))?;
        let mut filled = 0;
        while filled < out.len() {
            let piece = object.call_method1("read", (out.len() - filled,))?;
            let piece = match piece.cast_into::<PyBytes>() {
                Ok(piece) => piece,
                // obstore and others have bytes of their own.
                Err(other) => object.py().get_type::<PyBytes>().call1((other.into_inner(),))?.cast_into()?,
            };
            let piece = piece.as_bytes();
            let room = &mut out[filled..];
            if piece.is_empty() || piece.len() > room.len() {
                let what = format!("{}: read() gave {} bytes of {}", self.name, piece.len(), room.len());
                return Err(PyValueError::new_err(what));
            }
            room[..piece.len()].copy_from_slice(piece);
            filled += piece.len();
        }
        Ok(())
    }
}

impl Source for FileObject {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn version(&self) -> &Version {
        &self.version
    }

    fn read(&self, ranges: &[Range<u64>], out: &mut [&mut [u8]], landed: &mut dyn FnMut(usize)) -> Result<()> {
        // The lock first, the interpreter after: who waits for the lock must not keep the interpreter.
        let object = self.object.lock().unwrap_or_else(PoisonError::into_inner);
        for (i, (range, out)) in ranges.iter().zip(out).enumerate() {
            Python::attach(|py| self.fill(object.bind(py), range.start, out))
                .map_err(|raised| Error::io(&self.name, std::io::Error::other(raised)))?;
            landed(i);
        }
        Ok(())
    }
}
