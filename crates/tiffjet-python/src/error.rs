//! Errors of the core as exceptions: the one place where they meet.

use std::io::ErrorKind;

use pyo3::exceptions::{
    PyIndexError, PyKeyboardInterrupt, PyMemoryError, PyNotImplementedError, PyOSError, PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::{PyErr, create_exception};
use tiffjet::{Cause, Error};

create_exception!(tiffjet, FormatError, PyValueError, "The bytes of the file break the rules of TIFF.");
create_exception!(tiffjet, LimitError, PyValueError, "The file asks for more than the limits allow.");
create_exception!(tiffjet, UnavailableError, PyRuntimeError, "A device or an optional library is not there.");

/// The exceptions of this module.
pub fn add_to(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    m.add("FormatError", py.get_type::<FormatError>())?;
    m.add("LimitError", py.get_type::<LimitError>())?;
    m.add("UnavailableError", py.get_type::<UnavailableError>())
}

/// The exception for an error.
pub fn raise(error: Error) -> PyErr {
    let text = error.to_string();
    match &error {
        Error::Io { name, source } => io(name, source, text),
        Error::Changed { .. } => PyOSError::new_err(text),
        Error::Malformed { .. } => FormatError::new_err(text),
        Error::Tile { source: Cause::Unsupported(_), .. } => PyNotImplementedError::new_err(text),
        Error::Tile { .. } => FormatError::new_err(text),
        Error::Unsupported { .. } => PyNotImplementedError::new_err(text),
        Error::OutOfBounds { .. } => PyIndexError::new_err(text),
        Error::InvalidArgument { .. } => PyValueError::new_err(text),
        // Nothing was allowed: that is how the core says that the system has no more.
        Error::Limit { allowed: 0, .. } => PyMemoryError::new_err(text),
        Error::Limit { .. } => LimitError::new_err(text),
        Error::Unavailable { .. } => UnavailableError::new_err(text),
        Error::Cancelled { .. } => PyKeyboardInterrupt::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

/// `FileNotFoundError` and its kin, with `errno` and `filename`; what a file object raised comes back as it was.
fn io(name: &str, source: &std::io::Error, text: String) -> PyErr {
    let raised = source.get_ref().and_then(|inner| inner.downcast_ref::<PyErr>());
    match (raised, source.raw_os_error().or_else(|| number(source.kind()))) {
        (Some(raised), _) => Python::attach(|py| raised.clone_ref(py)),
        (None, Some(code)) => {
            let reason = source.to_string();
            let reason = reason.strip_suffix(&format!(" (os error {code})")).unwrap_or(&reason).to_owned();
            PyOSError::new_err((code, reason, name.to_owned()))
        }
        _ if source.kind() == ErrorKind::OutOfMemory => PyMemoryError::new_err(text),
        _ => PyOSError::new_err(text),
    }
}

/// `errno` of kinds that the core raises itself.
fn number(kind: ErrorKind) -> Option<i32> {
    Some(match kind {
        ErrorKind::NotFound => 2,
        ErrorKind::PermissionDenied => 13,
        ErrorKind::AlreadyExists => 17,
        ErrorKind::NotADirectory => 20,
        ErrorKind::IsADirectory => 21,
        ErrorKind::InvalidInput => 22,
        _ => return None,
    })
}
