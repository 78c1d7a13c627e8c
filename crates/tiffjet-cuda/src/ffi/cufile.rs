//! The part of cuFile that is used, as safe functions: from storage to device memory.
//!
//! Reads are calls that return when the bytes are there, each from a thread of its own. The library has two ways more, and
//! they were tried where it copies by way of the host (1.15 and 1.19): reads in several streams give wrong bytes in some
//! places and say that all is well, and batches do not return with the older one.

#![allow(unsafe_code)] // calls functions of the library

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::driver::{Failure, Handle, Plain};
use super::load::{Library, Missing, Wanted, functions};

/// The library.
pub const WANTED: Wanted = Wanted {
    name: "cuFile",
    sonames: &["libcufile.so.0"],
    wheels: &["nvidia/cu13/lib", "nvidia/cufile/lib"],
    enables: "GPUDirect Storage: bytes from storage to the GPU past the memory of the host",
    hint: "pip install nvidia-cufile (or nvidia-cufile-cu12, as the driver is)",
};

/// What reads to device memory begin and end at, in the file and in memory.
pub const PAGE: u64 = 4096;

/// What a call came to: numbers of the library and of the driver.
#[repr(C)]
#[derive(Clone, Copy)]
struct Status {
    code: c_int,
    driver: c_int,
}

functions! {
    struct Functions {
        fn cuFileDriverOpen() -> Status;
        fn cuFileGetVersion(*mut c_int) -> Status;
        fn cuFileHandleRegister(*mut Handle, *mut Descriptor) -> Status;
        fn cuFileHandleDeregister(Handle) -> ();
        fn cuFileBufRegister(*const c_void, usize, c_int) -> Status;
        fn cuFileBufDeregister(*const c_void) -> Status;
        fn cuFileRead(Handle, *mut c_void, usize, i64, i64) -> isize;
    }
}

/// An open file, as the library takes it.
#[repr(C)]
struct Descriptor {
    kind: c_int,
    descriptor: Union,
    operations: *const c_void,
}

#[repr(C, align(8))]
struct Union {
    descriptor: c_int,
}

/// The library, loaded.
pub struct CuFile {
    functions: Functions,
    library: Library,
    opened: OnceLock<Result<(), Failure>>,
}

impl CuFile {
    /// The library of this machine, loaded when it is first asked for.
    pub fn get() -> Result<&'static Self, &'static Missing> {
        static LIBRARY: OnceLock<Result<CuFile, Missing>> = OnceLock::new();
        LIBRARY.get_or_init(Self::load).as_ref()
    }

    fn load() -> Result<Self, Missing> {
        let library = Library::open(WANTED)?;
        // SAFETY: the types are those of the header, which has kept them since streams came to it.
        let functions = unsafe { Functions::load(&library) }?;
        Ok(Self { functions, library, opened: OnceLock::new() })
    }

    /// Where it was found.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Its version.
    pub fn version(&self) -> Option<String> {
        let mut version = 0;
        // SAFETY: writes one number.
        let status = unsafe { (self.functions.cuFileGetVersion)(&mut version) };
        (status.code == 0).then(|| format!("{}.{}", version / 1000, version % 1000 / 10))
    }

    /// Whether storage writes to device memory itself. Without the driver for that, the library copies.
    pub fn is_direct() -> bool {
        Path::new("/proc/driver/nvidia-fs/version").exists()
    }

    /// Starts it, once; a context must be current.
    pub fn open(&self) -> Result<(), Failure> {
        let opened = self.opened.get_or_init(|| {
            // SAFETY: takes nothing.
            checked("cuFileDriverOpen", unsafe { (self.functions.cuFileDriverOpen)() })
        });
        opened.clone()
    }

    /// Registers a file that is open already.
    pub fn file(&'static self, file: &File) -> Result<OpenFile, Failure> {
        const DESCRIPTOR: c_int = 1;
        let file = reopened(file)?;
        let mut descriptor = Descriptor {
            kind: DESCRIPTOR,
            descriptor: Union { descriptor: file.as_raw_fd() },
            operations: std::ptr::null(),
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the struct lives during the call; the descriptor as long as the handle.
        let status = unsafe { (self.functions.cuFileHandleRegister)(&mut handle, &mut descriptor) };
        checked("cuFileHandleRegister", status)?;
        Ok(OpenFile { library: self, handle, _file: file })
    }

    /// Registers device memory, which goes faster then; memory that can't be registered serves as well.
    pub fn buffer(&'static self, memory: Plain) -> Buffer {
        // SAFETY: the memory lives as long as the buffer, which takes the registration back first.
        let status = unsafe {
            (self.functions.cuFileBufRegister)(memory.address() as *const c_void, memory.length() as usize, 0)
        };
        Buffer { library: self, memory, registered: status.code == 0 }
    }
}

// SAFETY: the library's functions may be called from any thread.
unsafe impl Send for CuFile {}
// SAFETY: as above.
unsafe impl Sync for CuFile {}

fn checked(call: &'static str, status: Status) -> Result<(), Failure> {
    let reason = match status.code {
        0 => return Ok(()),
        5001 => "its driver is not loaded, and compatible mode is not allowed".to_owned(),
        5008 => "not on this file system".to_owned(),
        5011 => format!("the driver of the GPU says {}", status.driver),
        5019 => "the flags the file was opened with".to_owned(),
        5027 => "the file can't be registered: its file system is not supported, or udev does not know the disk, as in many containers".to_owned(),
        5030 => "internal error".to_owned(),
        code => format!("cuFile's error {code}"),
    };
    Err(Failure { call, code: status.code, reason })
}

/// The same file once more, opened so that storage can write past the page cache where that is what is done.
fn reopened(file: &File) -> Result<File, Failure> {
    #[cfg(target_arch = "aarch64")]
    const O_DIRECT: c_int = 0o200_000;
    #[cfg(not(target_arch = "aarch64"))]
    const O_DIRECT: c_int = 0o40_000;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut options = std::fs::OpenOptions::new();
    options.read(true);
    let opened = match CuFile::is_direct() {
        true => options.clone().custom_flags(O_DIRECT).open(&path).or_else(|_| options.open(&path)),
        false => options.open(&path),
    };
    opened.map_err(|error| Failure {
        call: "opening the file again",
        code: error.raw_os_error().unwrap_or(0),
        reason: error.to_string(),
    })
}

/// A registered file.
pub struct OpenFile {
    library: &'static CuFile,
    handle: Handle,
    _file: File,
}

// SAFETY: handles of the library may be used from any thread.
unsafe impl Send for OpenFile {}
// SAFETY: as above.
unsafe impl Sync for OpenFile {}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // SAFETY: registered once, and nothing reads it any more: reads return when they are done.
        unsafe { (self.library.functions.cuFileHandleDeregister)(self.handle) }
    }
}

/// Device memory that storage can write to.
pub struct Buffer {
    library: &'static CuFile,
    memory: Plain,
    registered: bool,
}

impl Buffer {
    /// The memory.
    pub fn memory(&self) -> &Plain {
        &self.memory
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.registered {
            // SAFETY: registered once, and nothing writes to it any more.
            unsafe { (self.library.functions.cuFileBufDeregister)(self.memory.address() as *const c_void) };
        }
    }
}

/// One read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Which of the transfer's files.
    pub file: usize,
    /// First byte in the file.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// First byte in the buffer.
    pub at: u64,
}

/// Reads of some files into one buffer.
pub struct Transfer {
    library: &'static CuFile,
    files: Vec<Arc<OpenFile>>,
    buffer: Buffer,
    requests: Vec<Request>,
    /// What each gave.
    read: Vec<AtomicIsize>,
}

/// What a read gave that was not done.
const NOT_DONE: isize = -1;

impl Transfer {
    /// All reads at once; none is done yet.
    pub fn new(library: &'static CuFile, files: Vec<Arc<OpenFile>>, buffer: Buffer, requests: Vec<Request>) -> Self {
        let read = requests.iter().map(|_| AtomicIsize::new(NOT_DONE)).collect();
        Self { library, files, buffer, requests, read }
    }

    /// What was asked for.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Where the buffer begins.
    pub fn address(&self) -> u64 {
        self.buffer.memory.address()
    }

    /// Does a read, whose part of the buffer nobody else uses meanwhile; what it gave is told in the end.
    pub fn read(&self, number: usize) {
        let Request { file, start, length, at } = self.requests[number];
        let room = self.buffer.memory.length();
        let read = match at.checked_add(length) {
            // SAFETY: the file is registered; the bytes are in the buffer, which is device memory and lives as long as this.
            Some(end) if end <= room => unsafe {
                (self.library.functions.cuFileRead)(
                    self.files[file].handle,
                    self.buffer.memory.address() as *mut c_void,
                    length as usize,
                    start as i64,
                    at as i64,
                )
            },
            _ => NOT_DONE,
        };
        self.read[number].store(read, Ordering::Release);
    }

    /// Bytes that each read gave (a negative number is an error), and the buffer.
    pub fn settle(self) -> (Vec<isize>, Buffer) {
        (self.read.into_iter().map(AtomicIsize::into_inner).collect(), self.buffer)
    }
}
