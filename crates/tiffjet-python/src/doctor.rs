//! What this build can do on this machine.

use pyo3::prelude::*;
use tiffjet::codec::CODECS;
use tiffjet::{Cpu, Result};

use crate::error::raise;

/// Names of the codecs.
#[pyfunction]
#[pyo3(name = "_codecs")]
pub fn codecs() -> Vec<&'static str> {
    CODECS.iter().map(|codec| codec.name()).collect()
}

/// Devices that can be used: name, and what there is to say.
#[pyfunction]
#[pyo3(name = "_devices")]
pub fn devices() -> PyResult<Vec<(String, String)>> {
    let cpu = || -> Result<String> { Ok(format!("{} threads", Cpu::shared()?.threads())) };
    Ok(vec![("cpu".into(), cpu().map_err(raise)?)])
}
