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
    let mut found = vec![("cpu".into(), cpu().map_err(raise)?)];
    let devices = tiffjet_cuda::devices().unwrap_or_default();
    found.extend(devices.into_iter().map(|device| (format!("cuda:{}", device.ordinal), describe(device))));
    Ok(found)
}

fn describe(device: tiffjet_cuda::DeviceInfo) -> String {
    match device.unusable {
        Some(why) => format!("{}, can't be used: {why}", device.name),
        None => device.name,
    }
}

/// Name, path, version, what it is for, what is wrong and to be installed.
type Library = (String, Option<String>, Option<String>, String, Option<String>);

/// Libraries that are looked for at run time, found or not.
#[pyfunction]
#[pyo3(name = "_libraries")]
pub fn libraries() -> Vec<Library> {
    let told = |library: tiffjet_cuda::LibraryInfo| {
        let problem = library.problem.map(|problem| format!("{problem}; {}", library.hint));
        let path = library.path.map(|path| path.display().to_string());
        (library.name.to_owned(), path, library.version, library.enables.to_owned(), problem)
    };
    tiffjet_cuda::libraries().into_iter().map(told).collect()
}
