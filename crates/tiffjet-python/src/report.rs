//! What reading or writing took.

use pyo3::prelude::*;

/// What really happened while a tensor was read or a file written.
#[pyclass(frozen, module = "tiffjet")]
#[derive(Debug, Clone)]
pub struct Report(pub tiffjet::Report);

#[pymethods]
impl Report {
    /// Tiles that pixels came from.
    #[getter]
    fn tiles(&self) -> usize {
        self.0.tiles
    }

    /// Tiles of them that were decoded before, and copied from a cache.
    #[getter]
    fn cached(&self) -> usize {
        self.0.cached
    }

    /// Tiles that are not in the file and were filled.
    #[getter]
    fn sparse(&self) -> usize {
        self.0.sparse
    }

    /// Bytes read from the source.
    #[getter]
    fn bytes_read(&self) -> u64 {
        self.0.bytes_read
    }

    /// Bytes of pixels given.
    #[getter]
    fn bytes_out(&self) -> u64 {
        self.0.bytes_out
    }

    /// Seconds from the plan to the last pixel.
    #[getter]
    fn seconds(&self) -> f64 {
        self.0.seconds
    }

    /// What was decoded by another route than asked, and why.
    #[getter]
    fn fallbacks(&self) -> Vec<String> {
        self.0.fallbacks.clone()
    }

    /// Windows of `read_many` that could not be read and were filled: place in the list, and why.
    #[getter]
    fn failures(&self) -> Vec<(usize, String)> {
        self.0.failures.clone()
    }

    /// How many tiles went which way, where there are several.
    #[getter]
    fn routes(&self) -> Vec<(String, usize)> {
        self.0.routes.clone()
    }

    /// The most memory of a device that a write had at once, in bytes.
    #[getter]
    fn device_memory(&self) -> u64 {
        self.0.device_memory
    }

    /// The most memory of the host that a write kept rows and tiles in at once, in bytes.
    #[getter]
    fn host_memory(&self) -> u64 {
        self.0.host_memory
    }

    fn __repr__(&self) -> String {
        let r = &self.0;
        format!(
            "Report(tiles={}, cached={}, sparse={}, bytes_read={}, bytes_out={}, seconds={:.6}, fallbacks={:?}, failures={:?})",
            r.tiles, r.cached, r.sparse, r.bytes_read, r.bytes_out, r.seconds, r.fallbacks, r.failures
        )
    }
}
