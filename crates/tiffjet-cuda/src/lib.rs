//! The CUDA backend of tiffjet: whole batches of tiles decoded and placed in device memory, and rows in device memory
//! packed and encoded.
//!
//! Needs the NVIDIA driver alone, found at run time; without one, [`available`] says what is missing. Nothing of CUDA
//! happens before the first [`Cuda::new`].

mod batch;
mod codec;
mod decode;
mod direct;
mod encode;
mod fetch;
mod ffi;
mod format;
mod kernels;
mod memory;
mod states;
mod storage;

use std::path::PathBuf;
use std::sync::Arc;

use tiffjet::backend::common_shape;
use tiffjet::{
    Backend, Destination, Emit, EncodeJob, Error, Pipeline, ReadJob, ReadOptions, Report, Result, Tensor, WritePlan,
};

pub use decode::{Phases, Settings};
pub use ffi::driver::Counts;
pub use ffi::load::look_in_site_packages;
pub use memory::DeviceInfo;

use ffi::cufile::CuFile;
use ffi::driver::Driver;
use ffi::load::{Library, Wanted};
use ffi::nvcomp::Nvcomp;
use ffi::nvjpeg::Nvjpeg;
use ffi::nvjpeg2k::Nvjpeg2k;
use memory::Gpu;

/// Decodes and encodes on one GPU.
#[derive(Clone)]
pub struct Cuda {
    gpu: Arc<Gpu>,
    settings: Settings,
}

/// The devices of this machine, or why there are none. Makes no context.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    let driver = Driver::get().map_err(memory::unavailable)?;
    let failed = |failure: ffi::driver::Failure| memory::unavailable(&ffi::driver::Absence::Failed(failure));
    (0..driver.devices().map_err(failed)?).map(|i| DeviceInfo::new(driver, i).map_err(failed)).collect()
}

/// Asks the driver for 32 streams side by side (`CUDA_DEVICE_MAX_CONNECTIONS`), unless the environment says how many, or has
/// `TIFFJET_KEEP_ENVIRONMENT`. Said before anybody uses CUDA, it counts for all who do; [`Cuda::new`] says it too. To be
/// called while no other thread reads the environment.
pub fn ask_for_streams() {
    ffi::driver::widen();
}

/// Whether there is a device that can be used; an error says why not.
pub fn available() -> Result<()> {
    let devices = devices()?;
    match devices.iter().find(|device| device.unusable.is_none()) {
        Some(_) => Ok(()),
        None => Err(Error::Unavailable {
            name: "cuda".into(),
            library: "a GPU".into(),
            hint: devices.into_iter().find_map(|device| device.unusable).unwrap_or("there is none".to_owned()),
        }),
    }
}

/// A library that is found at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryInfo {
    /// Its name.
    pub name: &'static str,
    /// Where it was found.
    pub path: Option<PathBuf>,
    /// Its version.
    pub version: Option<String>,
    /// What it is good for.
    pub enables: &'static str,
    /// What to install.
    pub hint: &'static str,
    /// Why it can't be used, where it can't.
    pub problem: Option<String>,
}

/// Every library that is looked for, found or not.
pub fn libraries() -> Vec<LibraryInfo> {
    let driver = Driver::get();
    let info = |wanted: Wanted, path: Option<PathBuf>, version: Option<String>, problem: Option<String>| LibraryInfo {
        name: wanted.name,
        path,
        version,
        enables: wanted.enables,
        hint: wanted.hint,
        problem,
    };
    let found = |library: &Library| Some(library.path().to_owned());
    let driver = match driver {
        Ok(driver) => {
            let (major, minor) = driver.version();
            info(ffi::driver::WANTED, found(driver.library()), Some(format!("for CUDA {major}.{minor}")), None)
        }
        Err(absence) => info(ffi::driver::WANTED, None, None, Some(absence.to_string())),
    };
    let jpeg2000 = match Nvjpeg2k::get() {
        Ok(library) => info(ffi::nvjpeg2k::WANTED, found(library.library()), Some(library.version()), None),
        Err(missing) => info(ffi::nvjpeg2k::WANTED, None, None, Some(missing.to_string())),
    };
    let jpeg = match Nvjpeg::get() {
        Ok(library) => info(ffi::nvjpeg::WANTED, found(library.library()), Some(library.version()), None),
        Err(missing) => info(ffi::nvjpeg::WANTED, None, None, Some(missing.to_string())),
    };
    let cufile = match CuFile::get() {
        Ok(library) => {
            let mode = if CuFile::is_direct() { "GPUDirect Storage" } else { "compatible mode: io auto is pread" };
            let version = library.version().map_or(mode.to_owned(), |version| format!("{version}, {mode}"));
            info(ffi::cufile::WANTED, found(library.library()), Some(version), None)
        }
        Err(missing) => info(ffi::cufile::WANTED, None, None, Some(missing.to_string())),
    };
    let nvcomp = match Nvcomp::get() {
        Ok(nvcomp) => info(ffi::nvcomp::WANTED, found(nvcomp.library()), Some(nvcomp.version()), None),
        Err(missing) => info(ffi::nvcomp::WANTED, None, None, Some(missing.to_string())),
    };
    vec![driver, nvcomp, jpeg, jpeg2000, cufile]
}

/// What does the work of a codec on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Own kernels.
    Kernels,
    /// A library, where it is installed; the host's codec where it is not.
    Library(&'static str),
    /// The host's codec: pixels cross to the device, or from it.
    Host,
}

/// What decodes a codec and what encodes it.
pub fn routes(codec: &str) -> (By, By) {
    let library = || codec::find_library(codec).map(|route| By::Library(codec::LIBRARY_ROUTES[route].library()));
    let decodes = match codec == "none" || codec::find(codec).is_some() {
        true => By::Kernels,
        false => library().unwrap_or(By::Host),
    };
    let encodes = match encode::Picture::of(codec) {
        Some(picture) => By::Library(picture.library()),
        None if encode::ENCODED.contains(&codec) => By::Kernels,
        None => By::Host,
    };
    (decodes, encodes)
}

/// Whether storage of this machine can write to device memory itself (GPUDirect Storage): then `io` auto is cuFile.
pub fn has_direct_storage() -> bool {
    CuFile::get().is_ok() && CuFile::is_direct()
}

impl Cuda {
    /// The backend of a device. Its context is the one that everyone in this process shares; made when first asked for.
    pub fn new(ordinal: i32) -> Result<Self> {
        Ok(Self { gpu: Gpu::get(ordinal)?, settings: Settings::default() })
    }

    /// The backend of the device that this thread's context belongs to, as other libraries have set it; else the first.
    pub fn current() -> Result<Self> {
        let driver = Driver::get().map_err(memory::unavailable)?;
        Self::new(driver.current().unwrap_or(0))
    }

    /// The same with other settings.
    pub fn with(&self, settings: Settings) -> Self {
        Self { gpu: self.gpu.clone(), settings }
    }

    /// What it works with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Measures the phases of a read one by one.
    pub fn phases(&self, jobs: &[ReadJob<'_>]) -> Result<Phases> {
        decode::phases(&self.gpu, &self.settings, jobs)
    }

    /// The most device memory that results and reads had at once in this process.
    pub fn peak_memory(&self) -> Result<u64> {
        let peak = self.gpu.pool().value(ffi::driver::PoolValue::UsedHigh);
        peak.map_err(|failure| self.gpu.refused(&self.name().into(), &failure))
    }

    /// What has been asked of the driver in this process, so far.
    pub fn counts(&self) -> Counts {
        Driver::get().map_or_else(|_| Counts::default(), Driver::counts)
    }

    /// The device.
    pub fn device(&self) -> &DeviceInfo {
        &self.gpu.info
    }
}

impl std::fmt::Debug for Cuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cuda").field("device", &self.gpu.info).field("settings", &self.settings).finish()
    }
}

impl Backend for Cuda {
    fn name(&self) -> &str {
        &self.gpu.device
    }

    fn read(&self, jobs: &[ReadJob<'_>], options: &ReadOptions) -> Result<Tensor> {
        let (shape, dtype) = common_shape(jobs)?;
        let (buffer, report) = decode::read_new(&self.gpu, &self.settings, jobs, options)?;
        Ok(Tensor::many(jobs.len(), shape, dtype, Arc::new(buffer), report))
    }

    fn read_into(&self, jobs: &[ReadJob<'_>], out: Destination<'_>, options: &ReadOptions) -> Result<Report> {
        let bytes = tiffjet::backend::common_bytes(jobs)?;
        let name = jobs[0].source.name();
        if out.length() != bytes {
            return Err(Error::invalid(name, format!("the output has {} bytes, the windows {bytes}", out.length())));
        }
        match out {
            Destination::Host(out) => decode::read_to_host(&self.gpu, &self.settings, jobs, options, out),
            Destination::Device(memory) => {
                let own = storage::device(&self.gpu);
                if memory.device() != own {
                    let what = format!("{} cannot write memory of device {:?}", self.name(), memory.device());
                    return Err(Error::invalid(name, what));
                }
                let at = (memory.address() as u64, memory.stream());
                decode::read_at(&self.gpu, &self.settings, jobs, options, at)
            }
        }
    }

    fn pipeline(&self, name: &Arc<str>, plan: &Arc<WritePlan>) -> Result<Box<dyn Pipeline>> {
        Ok(Box::new(encode::Encoding::new(&self.gpu, name, plan)?))
    }

    fn encode(&self, job: &EncodeJob<'_>, emit: &mut Emit<'_>) -> Result<()> {
        encode::encode(&self.gpu, job, emit)
    }
}
