//! Which device a caller means, and what executes plans there.

use std::sync::Arc;

use pyo3::prelude::*;
use tiffjet::{Backend, Cpu, Device, Error, Result};

use crate::error::raise;

/// DLPack's number of CUDA memory.
pub const CUDA: i32 = 2;

/// The backend of `auto`, `cpu`, `cuda` or `cuda:N`.
pub fn device(choice: &str) -> Result<Arc<dyn Backend>> {
    match choice {
        "auto" | "cpu" => Ok(Arc::new(Cpu::shared()?)),
        _ if is_cuda(choice) => Err(Error::Unavailable {
            name: choice.into(),
            library: format!("device {choice}"),
            hint: "this build of tiffjet has no CUDA backend; use device=\"cpu\"".into(),
        }),
        _ => Err(Error::invalid(&"device".into(), format!("{choice:?} is none of auto, cpu, cuda and cuda:N"))),
    }
}

fn is_cuda(choice: &str) -> bool {
    let id = choice.strip_prefix("cuda:").map(|id| id.parse::<u16>().is_ok());
    choice == "cuda" || id == Some(true)
}

/// The argument `device=`: a name, or the number of a CUDA device.
pub fn chosen(argument: &Bound<'_, PyAny>) -> PyResult<Arc<dyn Backend>> {
    let name = match argument.extract::<u16>() {
        Ok(id) => format!("cuda:{id}"),
        Err(_) => argument.extract::<String>()?,
    };
    device(&name).map_err(raise)
}

/// An error when a device can't be had.
#[pyfunction]
#[pyo3(name = "_check_device")]
pub fn check(device: &Bound<'_, PyAny>) -> PyResult<()> {
    chosen(device).map(drop)
}

/// The name of a place.
pub fn name(device: Device) -> String {
    match device.kind {
        1 => "cpu".into(),
        CUDA => format!("cuda:{}", device.id),
        kind => format!("dlpack:{kind}:{}", device.id),
    }
}
