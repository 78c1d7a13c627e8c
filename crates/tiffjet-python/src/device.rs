//! Which device a caller means, and what executes plans there.

use std::sync::Arc;

use pyo3::prelude::*;
use tiffjet::{Backend, Cpu, Device, Error, Result};
use tiffjet_cuda::{Cuda, Settings};

use crate::error::raise;

/// DLPack's number of CUDA memory.
pub const CUDA: i32 = 2;

/// The backend of `auto`, `cpu`, `cuda` or `cuda:N`. `auto` is CUDA where a device can be used, `cuda` the device that
/// this thread's other libraries use.
pub fn device(choice: &str) -> Result<Arc<dyn Backend>> {
    match choice {
        "cpu" => Ok(Arc::new(Cpu::shared()?)),
        "auto" if tiffjet_cuda::available().is_err() => Ok(Arc::new(Cpu::shared()?)),
        "auto" | "cuda" => Ok(Arc::new(Cuda::current()?)),
        _ => match choice.strip_prefix("cuda:").and_then(|id| id.parse::<u16>().ok()) {
            Some(id) => Ok(Arc::new(Cuda::new(id.into())?)),
            None => Err(Error::invalid(&"device".into(), format!("{choice:?} is none of auto, cpu, cuda and cuda:N"))),
        },
    }
}

/// The backend that encodes, and the number of its device where it is a GPU. `auto` is the CPU: who knows that rows are on
/// a device names it.
pub fn encoder(choice: &str) -> Result<(Arc<dyn Backend>, Option<i32>)> {
    let backend = device(if choice == "auto" { "cpu" } else { choice })?;
    let id = backend.name().strip_prefix("cuda:").and_then(|id| id.parse().ok());
    Ok((backend, id))
}

/// The argument `device=`: a name, or the number of a CUDA device.
pub fn chosen(argument: &Bound<'_, PyAny>) -> PyResult<Arc<dyn Backend>> {
    let name = match argument.extract::<u16>() {
        Ok(id) => format!("cuda:{id}"),
        Err(_) => argument.extract::<String>()?,
    };
    device(&name).map_err(raise)
}

/// The backend of a read. `auto` goes where the memory is that the caller lends for the pixels.
pub fn for_read(argument: Option<&Bound<'_, PyAny>>, lent: Option<Device>) -> PyResult<Arc<dyn Backend>> {
    let auto = argument.is_none_or(|argument| argument.extract::<&str>().is_ok_and(|name| name == "auto"));
    match (argument, lent) {
        (_, Some(lent)) if auto => device(&if lent.kind == CUDA { name(lent) } else { "cpu".into() }).map_err(raise),
        (Some(argument), _) => chosen(argument),
        (None, _) => device("auto").map_err(raise),
    }
}

/// The driver's handle of a stream: a number, or an object of CuPy (`ptr`), PyTorch (`cuda_stream`) or any library that
/// has `__cuda_stream__`.
pub fn stream_handle(stream: &Bound<'_, PyAny>) -> PyResult<usize> {
    if let Ok(handle) = stream.extract::<usize>() {
        return Ok(handle);
    }
    for name in ["ptr", "cuda_stream"] {
        if let Ok(handle) = stream.getattr(name).and_then(|handle| handle.extract()) {
            return Ok(handle);
        }
    }
    let (_version, handle): (u32, usize) = stream.call_method0("__cuda_stream__")?.extract()?;
    Ok(handle)
}

/// A part of a device's memory that a read of many windows may use beside its result, where nobody says.
const SHARE: u64 = 32;
/// The part of that which one group of tiles may take as it comes from the files: all groups are on the device at once
/// then, and none waits for another, which takes as long as the slowest tile.
const GROUPS: u64 = 32;

/// The backend of a read of many windows, which may use so many bytes of a device beside its result.
pub fn for_many(argument: &Bound<'_, PyAny>, memory: Option<u64>) -> PyResult<Arc<dyn Backend>> {
    let backend = chosen(argument)?;
    let Some(id) = backend.name().strip_prefix("cuda:").and_then(|id| id.parse().ok()) else { return Ok(backend) };
    let cuda = Cuda::new(id).map_err(raise)?;
    let usual = *cuda.settings();
    let budget = memory.unwrap_or_else(|| usual.budget.max(cuda.device().memory / SHARE));
    let group = usual.group.max(budget / GROUPS);
    Ok(Arc::new(cuda.with(Settings { budget, group, ..usual })))
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
