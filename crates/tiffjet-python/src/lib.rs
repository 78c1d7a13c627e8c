//! The extension module `tiffjet._tiffjet`: parses arguments, lets go of the interpreter, calls the core, wraps results.

mod buffer;
mod capsule;
mod crs;
mod device;
mod doctor;
mod encoder;
mod error;
mod image;
mod interrupt;
mod many;
mod ranges;
mod report;
mod source;
mod tensor;
mod validate;
mod window;
mod writer;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _tiffjet(m: &Bound<'_, PyModule>) -> PyResult<()> {
    // CuPy and PyTorch start the driver where they are used first, and with it the number of streams is settled.
    tiffjet_cuda::ask_for_streams();
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    error::add_to(m)?;
    m.add_class::<crs::Crs>()?;
    m.add_class::<encoder::Encoder>()?;
    m.add_class::<image::Image>()?;
    m.add_class::<image::Level>()?;
    m.add_class::<report::Report>()?;
    m.add_class::<tensor::Tensor>()?;
    m.add_class::<writer::Writer>()?;
    m.add_class::<writer::Written>()?;
    m.add_function(wrap_pyfunction!(image::open, m)?)?;
    m.add_function(wrap_pyfunction!(image::reopen, m)?)?;
    m.add_function(wrap_pyfunction!(many::read_many, m)?)?;
    m.add_function(wrap_pyfunction!(many::read_phases, m)?)?;
    m.add_function(wrap_pyfunction!(validate::validate, m)?)?;
    m.add_function(wrap_pyfunction!(writer::send_part, m)?)?;
    m.add_function(wrap_pyfunction!(device::check, m)?)?;
    m.add_function(wrap_pyfunction!(doctor::codecs, m)?)?;
    m.add_function(wrap_pyfunction!(doctor::devices, m)?)?;
    m.add_function(wrap_pyfunction!(doctor::libraries, m)?)?;
    Ok(())
}
