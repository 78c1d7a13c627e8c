//! DLPack's capsules: a managed tensor on its way through the interpreter.

#![allow(unsafe_code)] // capsules hold pointers

use std::ffi::CStr;
use std::ptr::NonNull;

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiffjet::dlpack::{Foreign, Handle, Legacy, Managed, Versioned};

/// A struct that has a name of its own for capsules.
pub trait Named: Managed {
    const NAME: &CStr;
    const USED: &CStr;
}

impl Named for Legacy {
    const NAME: &CStr = c"dltensor";
    const USED: &CStr = c"used_dltensor";
}

impl Named for Versioned {
    const NAME: &CStr = c"dltensor_versioned";
    const USED: &CStr = c"used_dltensor_versioned";
}

/// Puts a tensor into a capsule. One that nobody takes out is let go with the capsule.
pub fn wrap<M: Named>(py: Python<'_>, handle: Handle<M>) -> PyResult<Bound<'_, PyAny>> {
    let raw = handle.into_raw();
    // SAFETY: the pointer is not null, the name lives for ever, and the destructor knows what is inside.
    let capsule = unsafe { ffi::PyCapsule_New(raw.as_ptr().cast(), M::NAME.as_ptr(), Some(destroy::<M>)) };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, capsule) }.inspect_err(|_| {
        // SAFETY: nobody took it.
        drop(unsafe { Handle::from_raw(raw) });
    })
}

/// Called with the interpreter when a capsule goes.
unsafe extern "C" fn destroy<M: Named>(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule is alive; under its first name it still owns the tensor, renamed it does not.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, M::NAME.as_ptr()) == 0 {
            return;
        }
        if let Some(raw) = NonNull::new(ffi::PyCapsule_GetPointer(capsule, M::NAME.as_ptr())) {
            drop(Handle::from_raw(raw.cast::<M>()));
        }
    }
}

/// Takes the tensor out of a capsule; `None` when it holds something else.
fn unwrap<M: Named>(capsule: &Bound<'_, PyAny>) -> Option<Handle<M>> {
    let pointer = capsule.as_ptr();
    // SAFETY: `capsule` is a live object; the calls check what it is. Renamed, the capsule owns the tensor no more, and
    // the handle does: DLPack's rule for consumers.
    unsafe {
        if ffi::PyCapsule_IsValid(pointer, M::NAME.as_ptr()) == 0 {
            return None;
        }
        let raw = NonNull::new(ffi::PyCapsule_GetPointer(pointer, M::NAME.as_ptr()))?;
        (ffi::PyCapsule_SetName(pointer, M::USED.as_ptr()) == 0).then(|| Handle::from_raw(raw.cast::<M>()))
    }
}

/// The memory of any object with `__dlpack__`.
pub fn import(object: &Bound<'_, PyAny>) -> PyResult<Foreign> {
    let py = object.py();
    if !object.hasattr("__dlpack__")? {
        let kind = object.get_type().name()?;
        return Err(PyTypeError::new_err(format!("{kind} has no __dlpack__: an array or a tensor is meant")));
    }
    let options = PyDict::new(py);
    options.set_item("max_version", (1, 0))?;
    let capsule = match object.call_method("__dlpack__", (), Some(&options)) {
        // Makers from before version 1 do not know the argument.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => object.call_method0("__dlpack__")?,
        outcome => outcome?,
    };
    let foreign = match unwrap::<Versioned>(&capsule) {
        Some(handle) => Foreign::new(handle),
        None => match unwrap::<Legacy>(&capsule) {
            Some(handle) => Foreign::new(handle),
            None => return Err(PyBufferError::new_err("__dlpack__ gave no capsule of a tensor")),
        },
    };
    foreign.map_err(PyBufferError::new_err)
}
