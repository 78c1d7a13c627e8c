//! DLPack's capsules: a managed tensor on its way through the interpreter.

#![allow(unsafe_code)] // capsules hold pointers

use std::ffi::CStr;
use std::ptr::NonNull;

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiffjet::dlpack::{Foreign, Handle, Legacy, Lent, Managed, Versioned, dense};
use tiffjet::{DType, Device};

use crate::device::CUDA;

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
    let capsule = capsule(object, None)?;
    let foreign = match unwrap::<Versioned>(&capsule) {
        Some(handle) => Foreign::new(handle),
        None => match unwrap::<Legacy>(&capsule) {
            Some(handle) => Foreign::new(handle),
            None => return Err(no_tensor()),
        },
    };
    foreign.map_err(PyBufferError::new_err)
}

fn no_tensor() -> PyErr {
    PyBufferError::new_err("__dlpack__ gave no capsule of a tensor")
}

/// Asks for a capsule, whose values are there for work that comes later in a stream.
fn capsule<'py>(object: &Bound<'py, PyAny>, stream: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    if !object.hasattr("__dlpack__")? {
        let kind = object.get_type().name()?;
        return Err(PyTypeError::new_err(format!("{kind} has no __dlpack__: an array or a tensor is meant")));
    }
    let options = PyDict::new(py);
    if let Some(stream) = stream {
        options.set_item("stream", stream)?;
    }
    let old = options.copy()?;
    options.set_item("max_version", (1, 0))?;
    match object.call_method("__dlpack__", (), Some(&options)) {
        // Makers from before version 1 do not know the argument.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => object.call_method("__dlpack__", (), Some(&old)),
        outcome => outcome,
    }
}

/// The device that the values of an array are on, in DLPack's numbers; `None` for those of the host. What only has
/// `__cuda_array_interface__` does not say which one: that is `otherwise`.
pub fn device_of(object: &Bound<'_, PyAny>, otherwise: i32) -> PyResult<Option<Device>> {
    if object.hasattr("__dlpack_device__")? {
        let (kind, id): (Bound<'_, PyAny>, i32) = object.call_method0("__dlpack_device__")?.extract()?;
        // Some give a member of an enum.
        let kind: i32 = kind.call_method0("__int__")?.extract()?;
        return Ok((kind == CUDA).then_some(Device { kind, id }));
    }
    Ok(object.hasattr("__cuda_array_interface__")?.then_some(Device { kind: CUDA, id: otherwise }))
}

/// The values of an array on a device, with any strides.
pub fn lend(object: &Bound<'_, PyAny>, device: Device) -> PyResult<Lent> {
    /// The stream that everybody's work waits for, in DLPack's numbers and in the driver's.
    const LEGACY: i64 = 1;
    if !object.hasattr("__dlpack__")? {
        return interface(object, device);
    }
    let capsule = capsule(object, Some(LEGACY))?;
    let lent = match unwrap::<Versioned>(&capsule) {
        Some(handle) => Lent::new(handle, LEGACY as usize),
        None => match unwrap::<Legacy>(&capsule) {
            Some(handle) => Lent::new(handle, LEGACY as usize),
            None => return Err(no_tensor()),
        },
    };
    lent.map_err(PyBufferError::new_err)
}

/// The same by `__cuda_array_interface__`, for the length of a call that keeps the object alive.
fn interface(object: &Bound<'_, PyAny>, device: Device) -> PyResult<Lent> {
    let said = object.getattr("__cuda_array_interface__")?.cast_into::<PyDict>()?;
    let get = |name: &str| -> PyResult<Option<Bound<'_, PyAny>>> { Ok(said.get_item(name)?.filter(|v| !v.is_none())) };
    let needed = |name: &str| get(name)?.ok_or_else(|| PyBufferError::new_err(format!("an array without {name}")));
    let (address, _): (usize, bool) = needed("data")?.extract()?;
    let shape: Vec<usize> = needed("shape")?.extract()?;
    let kind: String = needed("typestr")?.extract()?;
    let dtype = interface_dtype(&kind).ok_or_else(|| PyBufferError::new_err(format!("{kind} is no type of pixels")))?;
    let strides = match get("strides")? {
        Some(strides) => strides.extract()?,
        None => dense(&shape, dtype.size()),
    };
    let stream = get("stream")?.map_or(Ok(0), |stream| stream.extract())?;
    // SAFETY: the maker of the array vouches for its values; nobody changes them while they are written, as with any
    // array library, and the caller has the object as long as it uses this.
    let lent = unsafe { Lent::of(device, address, shape, strides, dtype, stream) };
    lent.map_err(PyBufferError::new_err)
}

/// `<f4` and the like, of native byte order.
fn interface_dtype(text: &str) -> Option<DType> {
    let (order, rest) = text.split_at_checked(1)?;
    let name = match rest {
        "u1" | "b1" => "uint8",
        "i1" => "int8",
        "u2" => "uint16",
        "i2" => "int16",
        "u4" => "uint32",
        "i4" => "int32",
        "u8" => "uint64",
        "i8" => "int64",
        "f2" => "float16",
        "f4" => "float32",
        "f8" => "float64",
        "c8" => "complex64",
        "c16" => "complex128",
        _ => return None,
    };
    matches!(order, "<" | "|" | "=").then(|| DType::from_name(name)).flatten()
}
