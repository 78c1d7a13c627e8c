//! Pixels in Python: DLPack, the buffer protocol, NumPy.

#![allow(unsafe_code)] // the buffer protocol is a struct of C

use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use tiffjet::dlpack::{IS_COPIED, Legacy, Versioned};
use tiffjet::{DType, Device, Error, HostBuffer};

use crate::capsule;
use crate::device::{self, CUDA};
use crate::error::raise;
use crate::report::Report;

/// Pixels with axes (band, y, x), or (n, band, y, x) for several windows, wherever they live.
///
/// `numpy.asarray`, `numpy.from_dlpack`, `torch.from_dlpack` and their kin share its memory.
#[pyclass(frozen, module = "tiffjet")]
pub struct Tensor {
    pub inner: tiffjet::Tensor,
    /// For the buffer protocol, which borrows them.
    shape: Vec<isize>,
    strides: Vec<isize>,
}

impl Tensor {
    pub fn new(inner: tiffjet::Tensor) -> Self {
        let shape: Vec<isize> = inner.dims().into_iter().map(|n| n as isize).collect();
        let mut strides = vec![inner.dtype.size() as isize; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
        }
        Self { inner, shape, strides }
    }

    fn device_of(&self) -> Device {
        self.inner.device()
    }

    fn is_on_host(&self) -> bool {
        self.device_of() == Device::HOST
    }

    /// A tensor of its own on the host.
    fn copied(&self, py: Python<'_>) -> PyResult<tiffjet::Tensor> {
        let storage = self.inner.storage().clone();
        let copy = py.detach(move || -> tiffjet::Result<HostBuffer> {
            let length = storage.length();
            let mut copy = HostBuffer::take(length)
                .ok_or_else(|| Error::limit(&"<tensor>".into(), "bytes of a copy", length as u64, 0))?;
            storage.to_host(copy.bytes_mut())?;
            Ok(copy)
        });
        let copy = copy.map_err(raise)?;
        let tiffjet::Tensor { windows, shape, dtype, ref report, .. } = self.inner;
        Ok(match windows {
            Some(n) => tiffjet::Tensor::many(n, shape, dtype, Arc::new(copy), report.clone()),
            None => tiffjet::Tensor::new(shape, dtype, Arc::new(copy), report.clone()),
        })
    }

    /// Makes the consumer's stream wait for the pixels.
    fn ready_for(&self, py: Python<'_>, stream: Option<i64>) -> PyResult<()> {
        let stream = match (self.is_on_host(), stream) {
            (true, None) => return Ok(()),
            (true, Some(_)) => return Err(PyBufferError::new_err("stream: there are none on the host")),
            (false, Some(0)) => return Err(PyValueError::new_err("stream: 0 could mean two streams; say 1 or 2")),
            (false, Some(stream)) if stream < -1 => return Err(PyValueError::new_err(format!("stream: {stream}"))),
            (false, Some(-1)) => return Ok(()), // the consumer takes care of it
            (false, None) => 1,
            // DLPack's numbers of the two default streams are the driver's handles of them.
            (false, Some(stream)) => stream,
        };
        let storage = self.inner.storage().clone();
        py.detach(move || storage.ready_for(stream as usize)).map_err(raise)
    }
}

/// The tensor in a capsule of the version the consumer asks for.
fn export<'py>(
    py: Python<'py>,
    tensor: &tiffjet::Tensor,
    flags: u64,
    max_version: Option<(u32, u32)>,
) -> PyResult<Bound<'py, PyAny>> {
    let refuse = || PyBufferError::new_err(format!("DLPack has no {}; use numpy.asarray", tensor.dtype));
    match max_version {
        Some((major, _)) if major >= 1 => capsule::wrap(py, tensor.to_dlpack::<Versioned>(flags).ok_or_else(refuse)?),
        _ => capsule::wrap(py, tensor.to_dlpack::<Legacy>(flags).ok_or_else(refuse)?),
    }
}

/// The letter of the buffer protocol.
fn format(dtype: DType) -> Option<&'static CStr> {
    Some(match dtype {
        DType::UInt8 => c"B",
        DType::Int8 => c"b",
        DType::UInt16 => c"H",
        DType::Int16 => c"h",
        DType::UInt32 => c"I",
        DType::Int32 => c"i",
        DType::UInt64 => c"Q",
        DType::Int64 => c"q",
        DType::Float16 => c"e",
        DType::Float32 => c"f",
        DType::Float64 => c"d",
        DType::Complex64 => c"Zf",
        DType::Complex128 => c"Zd",
        DType::ComplexInt16 | DType::ComplexInt32 => return None,
    })
}

/// The type that NumPy has for the values: pairs of integers become complex numbers that hold them exactly.
pub fn numpy_name(dtype: DType) -> &'static str {
    match dtype {
        DType::ComplexInt16 => "complex64",
        DType::ComplexInt32 => "complex128",
        other => other.name(),
    }
}

/// `numpy.dtype` of a name.
pub fn numpy_dtype<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("numpy")?.getattr("dtype")?.call1((name,))
}

#[pymethods]
impl Tensor {
    /// Shares the memory of any object with `__dlpack__`, which must be C-contiguous and have three or four axes.
    #[staticmethod]
    fn from_dlpack(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let foreign = capsule::import(object)?;
        let (dtype, report) = (foreign.dtype(), tiffjet::Report::default());
        let tensor = match *foreign.shape() {
            [b, y, x] => tiffjet::Tensor::new([b, y, x], dtype, Arc::new(foreign), report),
            [n, b, y, x] => tiffjet::Tensor::many(n, [b, y, x], dtype, Arc::new(foreign), report),
            ref other => return Err(PyValueError::new_err(format!("{other:?} is no shape of (band, y, x)"))),
        };
        Ok(Self::new(tensor))
    }

    /// Length of each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.inner.dims())
    }

    /// Number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// Type of a value, a `numpy.dtype`.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        numpy_dtype(py, numpy_name(self.inner.dtype))
    }

    /// Bytes of all values.
    #[getter]
    fn nbytes(&self) -> usize {
        self.inner.storage().length()
    }

    /// Where it is: `"cpu"` or `"cuda:0"`.
    #[getter]
    fn device(&self) -> String {
        device::name(self.device_of())
    }

    /// What it took to read it.
    #[getter]
    fn report(&self) -> Report {
        Report(self.inner.report.clone())
    }

    /// The same on the host; itself where it is there.
    fn cpu(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        if slf.get().is_on_host() {
            return Ok(slf);
        }
        let copy = slf.get().copied(slf.py())?;
        Bound::new(slf.py(), Self::new(copy))
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let tensor = &slf.get().inner;
        let numpy = py.import("numpy")?;
        let Some(bytes) = tensor.bytes() else {
            let place = slf.get().device();
            return Err(PyTypeError::new_err(format!("the tensor is on {place}: use .cpu(), or from_dlpack there")));
        };
        let half = match tensor.dtype {
            DType::ComplexInt16 => "int16",
            DType::ComplexInt32 => "int32",
            _ => {
                // Shared through the buffer protocol.
                let view = py.import("builtins")?.getattr("memoryview")?.call1((slf,))?;
                let array = numpy.call_method1("asarray", (view,))?;
                return match (dtype, copy) {
                    (None, Some(true)) => array.call_method0("copy"),
                    (None, _) => Ok(array),
                    (Some(dtype), _) => {
                        let options = PyDict::new(py);
                        options.set_item("copy", copy == Some(true))?;
                        let cast = array.call_method("astype", (dtype,), Some(&options))?;
                        if copy == Some(false) && !cast.is(&array) {
                            return Err(PyValueError::new_err("another type needs a copy"));
                        }
                        Ok(cast)
                    }
                };
            }
        };
        if copy == Some(false) {
            return Err(PyValueError::new_err(format!("{} needs a copy to become complex", tensor.dtype)));
        }
        let name = numpy_name(tensor.dtype);
        let float = if name == "complex64" { "float32" } else { "float64" };
        let pairs = numpy.call_method1("frombuffer", (PyBytes::new(py, bytes), half))?;
        let values = pairs.call_method1("astype", (float,))?.call_method1("view", (name,))?;
        let values = values.call_method1("reshape", (slf.get().shape(py)?,))?;
        match dtype {
            Some(dtype) => values.call_method1("astype", (dtype,)),
            None => Ok(values),
        }
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        let device = self.device_of();
        (device.kind, device.id)
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let here = self.__dlpack_device__();
        let there = dl_device.unwrap_or(here);
        if there == here && copy != Some(true) {
            self.ready_for(py, stream)?;
            return export(py, &self.inner, 0, max_version);
        }
        let host = (Device::HOST.kind, Device::HOST.id);
        if there != host {
            return Err(PyBufferError::new_err(format!("no copy from {here:?} to {there:?} is made")));
        }
        if copy == Some(false) {
            return Err(PyBufferError::new_err(format!("from {here:?} to {there:?} only with a copy")));
        }
        if stream.is_some() {
            return Err(PyBufferError::new_err("stream: there are none on the host"));
        }
        export(py, &self.copied(py)?, IS_COPIED, max_version)
    }

    /// For CuPy, Numba and PyTorch; there on CUDA devices alone.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let typestr = match format(self.inner.dtype) {
            Some(_) if self.device_of().kind == CUDA => self.dtype(py)?.getattr("str")?,
            _ => return Err(PyAttributeError::new_err("__cuda_array_interface__")),
        };
        self.ready_for(py, None)?;
        let out = PyDict::new(py);
        out.set_item("version", 3)?;
        out.set_item("shape", self.shape(py)?)?;
        out.set_item("typestr", typestr)?;
        out.set_item("data", (self.inner.storage().address(), false))?;
        out.set_item("strides", py.None())?;
        out.set_item("stream", 1)?;
        Ok(out)
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let tensor = slf.get();
        let dtype = tensor.inner.dtype;
        let (Some(format), Some(_), false) = (format(dtype), tensor.inner.bytes(), view.is_null()) else {
            let place = tensor.device();
            return Err(PyBufferError::new_err(format!("{dtype} on {place} has no buffer")));
        };
        let asked = |flag: c_int| flags & flag == flag;
        let (shape, strides) = (tensor.shape.as_ptr().cast_mut(), tensor.strides.as_ptr().cast_mut());
        // SAFETY: the interpreter hands a struct to be filled. All pointers are of `slf`, which is frozen and which the
        // view keeps alive; the memory is `length` bytes without gaps, and no Rust code holds a reference to it outside
        // of a call.
        unsafe {
            (*view).buf = tensor.inner.storage().address() as *mut c_void;
            (*view).len = tensor.inner.storage().length() as isize;
            (*view).readonly = 0;
            (*view).itemsize = dtype.size() as isize;
            (*view).format = if asked(ffi::PyBUF_FORMAT) { format.as_ptr().cast_mut() } else { std::ptr::null_mut() };
            (*view).ndim = tensor.shape.len() as c_int;
            (*view).shape = if asked(ffi::PyBUF_ND) { shape } else { std::ptr::null_mut() };
            (*view).strides = if asked(ffi::PyBUF_STRIDES) { strides } else { std::ptr::null_mut() };
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.into_ptr();
        }
        Ok(())
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {}

    fn __repr__(&self) -> String {
        let shape: Vec<String> = self.inner.dims().iter().map(ToString::to_string).collect();
        format!("Tensor(shape=({}), dtype={}, device={:?})", shape.join(", "), self.inner.dtype, self.device())
    }
}
