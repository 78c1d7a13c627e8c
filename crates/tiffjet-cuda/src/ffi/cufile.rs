//! The part of cuFile that is used, as safe functions: from storage to device memory, in the order of streams.
//!
//! What makes them safe: what the library reads and writes on its own while a stream is busy belongs to a [`Transfer`],
//! which gives nothing back before its owner says that all its streams have been waited for.

#![allow(unsafe_code)] // calls functions of the library

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::driver::{Failure, Handle, Plain, Stream};
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
        fn cuFileReadAsync(Handle, *mut c_void, *mut usize, *mut i64, *mut i64, *mut isize, Handle) -> Status;
        fn cuFileStreamRegister(Handle, c_uint) -> Status;
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

    /// Makes reads in a stream cheaper: their sizes and places are known when they are put into it.
    pub fn know(&self, stream: &Stream) {
        const FIXED: c_uint = 7;
        // SAFETY: the stream is live. One that is not known serves as well.
        let _ = unsafe { (self.functions.cuFileStreamRegister)(stream.handle(), FIXED) };
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
        5027 => "the file can't be registered".to_owned(),
        5030 => "internal error".to_owned(),
        5038 => "reads in streams are not supported".to_owned(),
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
        // SAFETY: registered once, and nothing reads it any more: a `Transfer` keeps what is read.
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

/// What the library reads, and what it writes when it is done; it may look at any time until then.
struct Cell {
    length: usize,
    start: i64,
    at: i64,
    read: isize,
}

/// What reads need while they are on their way.
struct Needed {
    files: Vec<Arc<OpenFile>>,
    buffer: Buffer,
    cells: Box<[UnsafeCell<Cell>]>,
}

/// Reads that may be on their way, and all that they need.
pub struct Transfer {
    library: &'static CuFile,
    /// Given back by `settle` alone: what is still on its way needs it for ever.
    needed: ManuallyDrop<Needed>,
    requests: Vec<Request>,
}

// SAFETY: `submit` touches one cell, whose number its callers have for themselves; the rest is shared for reading.
unsafe impl Sync for Transfer {}
// SAFETY: all parts may move to another thread.
unsafe impl Send for Transfer {}

/// What a read gave that was not submitted.
const NOT_SUBMITTED: isize = -1;

impl Transfer {
    /// All reads at once; none is on its way yet.
    pub fn new(library: &'static CuFile, files: Vec<Arc<OpenFile>>, buffer: Buffer, requests: Vec<Request>) -> Self {
        let cells = requests.iter().map(|request| {
            UnsafeCell::new(Cell {
                length: request.length as usize,
                start: request.start as i64,
                at: request.at as i64,
                read: NOT_SUBMITTED,
            })
        });
        let cells = cells.collect();
        Self { library, needed: ManuallyDrop::new(Needed { files, buffer, cells }), requests }
    }

    /// What was asked for.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Where the buffer begins.
    pub fn address(&self) -> u64 {
        self.needed.buffer.memory.address()
    }

    /// Puts a read into a stream. Each is put once.
    pub fn submit(&self, number: usize, stream: &Stream) -> Result<(), Failure> {
        let Needed { files, buffer, cells } = &*self.needed;
        let file = &files[self.requests[number].file];
        let cell = cells[number].get();
        // SAFETY: the cell lives until `settle`, after all streams have been waited for; nobody else touches it, as each
        // number is submitted once. File and buffer live as long.
        let status = unsafe {
            (self.library.functions.cuFileReadAsync)(
                file.handle,
                buffer.memory.address() as *mut c_void,
                &raw mut (*cell).length,
                &raw mut (*cell).start,
                &raw mut (*cell).at,
                &raw mut (*cell).read,
                stream.handle(),
            )
        };
        checked("cuFileReadAsync", status)
    }

    /// After all streams have been waited for: bytes that each read gave (a negative number is an error), and the buffer.
    pub fn settle(mut self) -> (Vec<isize>, Buffer) {
        // SAFETY: taken once, as `self` is consumed and has no `Drop`.
        let Needed { files, buffer, cells } = unsafe { ManuallyDrop::take(&mut self.needed) };
        drop(files);
        (cells.into_iter().map(|cell| cell.into_inner().read).collect(), buffer)
    }
}
