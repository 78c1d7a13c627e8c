//! Bytes that Python lends for one call.

#![allow(unsafe_code)] // memory of the interpreter is used while it does not watch

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Bytes without gaps of an object with the buffer protocol.
pub struct Bytes(PyBuffer<u8>);

impl Bytes {
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyBuffer::<u8>::get(object)?;
        match buffer.is_c_contiguous() {
            true => Ok(Self(buffer)),
            false => Err(PyValueError::new_err("bytes without gaps are meant")),
        }
    }

    /// All of them.
    pub fn get(&self) -> &[u8] {
        if self.0.len_bytes() == 0 {
            return &[];
        }
        // SAFETY: the buffer holds `len_bytes` bytes at its pointer until it is released, which is when `self` goes, and
        // it is contiguous. Whoever lends pixels to be written does not change them meanwhile, as with any array library.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), self.0.len_bytes()) }
    }
}
