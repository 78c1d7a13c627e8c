//! The part of cuFile that is used, as safe functions: from storage to device memory.
//!
//! Reads go in batches, all of them submitted before the first is waited for. Where the library takes no batches, they are
//! calls that return when the bytes are there, each from a thread of its own. Its third way, reads in streams, was tried where
//! it copies by way of the host (1.15 and 1.19): in several streams they give wrong bytes in some places and say that all is
//! well, and in one they are twenty times slower than the calls.

#![allow(unsafe_code)] // calls functions of the library

use std::collections::VecDeque;
use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

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

/// Batches that are under way at once.
const BATCHES: usize = 32;
/// Reads that are under way at once: the most that the library can be told to hold, and what it holds otherwise. Where one more
/// is submitted, 1.15 never returns, and 1.19 when there is room.
const DEPTH: usize = 256;
const USUAL_DEPTH: usize = 128;
/// Who waits for a batch looks up so often.
const TICK: Duration = Duration::from_millis(100);
/// Storage that gives nothing for so long gives nothing any more.
const PATIENCE: Duration = Duration::from_secs(60);

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
        fn cuFileDriverGetProperties(*mut Properties) -> Status;
        fn cuFileBatchIOSetUp(*mut Handle, c_uint) -> Status;
        fn cuFileBatchIOSubmit(Handle, c_uint, *mut Entry, c_uint) -> Status;
        fn cuFileBatchIOGetStatus(Handle, c_uint, *mut c_uint, *mut Landed, *mut Span) -> Status;
        fn cuFileBatchIOCancel(Handle) -> Status;
        fn cuFileBatchIODestroy(Handle) -> ();
    }
}

functions! {
    struct Parameters {
        fn cuFileSetParameterSizeT(c_int, usize) -> Status;
        fn cuFileGetParameterSizeT(c_int, *mut usize) -> Status;
    }
}

/// The parameter that says how many reads may be under way.
const QUEUE_DEPTH: c_int = 1;

/// What the library says of itself.
#[repr(C)]
#[derive(Default)]
struct Properties {
    driver: [c_uint; 2],
    sizes: [usize; 2],
    flags: [c_uint; 3],
    cache: [c_uint; 3],
    batch: c_uint,
    batch_milliseconds: c_uint,
}

/// One read of a batch.
#[repr(C)]
struct Entry {
    mode: c_int,
    buffer: *mut c_void,
    start: i64,
    at: i64,
    length: usize,
    file: Handle,
    operation: c_int,
    number: usize,
}

/// One read of a batch that is done.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Landed {
    number: usize,
    status: c_int,
    read: isize,
}

/// A time, as the system counts.
#[repr(C)]
struct Span {
    seconds: i64,
    nanoseconds: i64,
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
    /// Not all versions have them.
    parameters: Option<Parameters>,
    library: Library,
    opened: OnceLock<Result<(), Failure>>,
    /// Batches that are done, for the next reads: ending one takes as long as reading a gigabyte.
    idle: Mutex<Vec<Idle>>,
    /// Batches came to no end, or did not begin.
    without_batches: AtomicBool,
}

/// A batch that is set up, with nothing in it.
struct Idle(Handle);

// SAFETY: handles of the library may be used from any thread, by one at a time.
unsafe impl Send for Idle {}

/// How many reads the library takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batches {
    /// In one batch.
    pub reads: usize,
    /// In all that are under way.
    pub under_way: usize,
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
        // SAFETY: as above.
        let parameters = unsafe { Parameters::load(&library) }.ok();
        let (opened, idle, without_batches) = (OnceLock::new(), Mutex::default(), AtomicBool::new(false));
        Ok(Self { functions, parameters, library, opened, idle, without_batches })
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
            if let Some(parameters) = &self.parameters {
                // SAFETY: takes two numbers. Where it is open already, its depth stays what it is.
                unsafe { (parameters.cuFileSetParameterSizeT)(QUEUE_DEPTH, DEPTH) };
            }
            // SAFETY: takes nothing.
            checked("cuFileDriverOpen", unsafe { (self.functions.cuFileDriverOpen)() })
        });
        opened.clone()
    }

    /// How many reads it takes in batches, `None` where it takes none. It must be open.
    pub fn batches(&self) -> Option<Batches> {
        let mut properties = Properties::default();
        // SAFETY: writes one struct, which is that of the header.
        let status = unsafe { (self.functions.cuFileDriverGetProperties)(&mut properties) };
        let depth = self.parameters.as_ref().and_then(|parameters| {
            let mut depth = 0;
            // SAFETY: writes one number.
            let status = unsafe { (parameters.cuFileGetParameterSizeT)(QUEUE_DEPTH, &mut depth) };
            (status.code == 0 && depth > 0).then_some(depth.min(DEPTH))
        });
        let under_way = depth.unwrap_or(USUAL_DEPTH);
        let takes = status.code == 0 && properties.batch > 0 && !self.without_batches.load(Ordering::Relaxed);
        takes.then(|| Batches { reads: (properties.batch as usize).min(under_way), under_way })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Before what it writes to: dropped first.
    flight: Mutex<Flight>,
    library: &'static CuFile,
    files: Vec<Arc<OpenFile>>,
    buffer: Buffer,
    requests: Vec<Request>,
    /// What each gave.
    read: Vec<AtomicIsize>,
    /// How many reads go in batches, where they do.
    batches: Option<Batches>,
}

/// Reads that are under way in batches, in the order of the requests.
#[derive(Default)]
struct Flight {
    batches: VecDeque<Batch>,
    /// Reads of all of them.
    under_way: usize,
    /// The first that is not submitted.
    next: usize,
    /// The first whose memory is not free.
    free: usize,
    /// Some may still be written, and nobody can tell.
    is_lost: bool,
}

/// What a read gave that was not done.
const NOT_DONE: isize = -1;

impl Transfer {
    /// All reads at once; none is done yet.
    pub fn new(
        library: &'static CuFile,
        files: Vec<Arc<OpenFile>>,
        buffer: Buffer,
        requests: Vec<Request>,
        batches: Option<Batches>,
    ) -> Self {
        let read = requests.iter().map(|_| AtomicIsize::new(NOT_DONE)).collect();
        Self { flight: Mutex::default(), library, files, buffer, requests, read, batches }
    }

    /// What was asked for.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Where the buffer begins.
    pub fn address(&self) -> u64 {
        self.buffer.memory.address()
    }

    /// Whether reads go in batches, by `submit` and `wait`; otherwise each is done by `read`.
    pub fn has_batches(&self) -> bool {
        self.batches.is_some()
    }

    /// Does a read, whose part of the buffer nobody else uses meanwhile; what it gave is told in the end.
    pub fn read(&self, number: usize) {
        let Request { file, start, length, at } = self.requests[number];
        if !self.has_room(number) {
            return;
        }
        // SAFETY: the file is registered; the bytes are in the buffer, which is device memory and lives as long as this.
        let read = unsafe {
            (self.library.functions.cuFileRead)(
                self.files[file].handle,
                self.buffer.memory.address() as *mut c_void,
                length as usize,
                start as i64,
                at as i64,
            )
        };
        self.read[number].store(read, Ordering::Release);
    }

    fn has_room(&self, number: usize) -> bool {
        let Request { length, at, .. } = self.requests[number];
        at.checked_add(length).is_some_and(|end| end <= self.buffer.memory.length())
    }

    fn flight(&self) -> MutexGuard<'_, Flight> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody else uses the memory of reads before `end`: submits them, as many as may be under way.
    pub fn submit(&self, end: usize) {
        let mut flight = self.flight();
        flight.free = flight.free.max(end);
        self.fill(&mut flight);
    }

    fn fill(&self, flight: &mut Flight) {
        let Some(most) = self.batches else { return };
        while flight.next < flight.free && flight.batches.len() < BATCHES {
            let reads = flight.next..flight.free.min(flight.next + most.reads);
            if flight.under_way + reads.len() > most.under_way {
                return;
            }
            flight.next = reads.end;
            match Batch::submit(self, reads.clone(), most.reads) {
                Ok(batch) => {
                    flight.under_way += batch.left;
                    flight.batches.push_back(batch);
                }
                // One after the other now; the next transfer has threads for them.
                Err(_) => {
                    self.library.without_batches.store(true, Ordering::Relaxed);
                    reads.for_each(|number| self.read(number));
                }
            }
        }
    }

    /// Waits for all submitted reads before `end`.
    pub fn wait(&self, end: usize) -> Result<(), Failure> {
        let mut flight = self.flight();
        while flight.batches.front().is_some_and(|batch| batch.first < end)
            && let Some(mut batch) = flight.batches.pop_front()
        {
            flight.under_way = flight.under_way.saturating_sub(batch.left);
            if let Err(failure) = batch.wait(&self.read) {
                self.library.without_batches.store(true, Ordering::Relaxed);
                flight.is_lost |= !batch.end();
                return Err(failure);
            }
            self.fill(&mut flight);
        }
        Ok(())
    }

    /// Bytes that each read gave (a negative number is an error), and the buffer, unless storage may still write to it.
    pub fn settle(self) -> (Vec<isize>, Option<Buffer>) {
        let mut flight = self.flight.into_inner().unwrap_or_else(PoisonError::into_inner);
        for batch in flight.batches.drain(..) {
            flight.is_lost |= !batch.end();
        }
        let buffer = match flight.is_lost {
            // Nobody may get this memory any more.
            true => {
                std::mem::forget(self.buffer);
                None
            }
            false => Some(self.buffer),
        };
        (self.read.into_iter().map(AtomicIsize::into_inner).collect(), buffer)
    }
}

/// Some reads under way together.
struct Batch {
    library: &'static CuFile,
    handle: Handle,
    /// What the library was given, for as long as it may look at it.
    entries: Vec<Entry>,
    /// The first of its reads.
    first: usize,
    /// Those that are not done.
    left: usize,
}

// SAFETY: handles of the library may be used from any thread, by one at a time.
unsafe impl Send for Batch {}

impl Batch {
    fn submit(transfer: &Transfer, reads: Range<usize>, most: usize) -> Result<Self, Failure> {
        const BATCH: c_int = 1;
        const READ: c_int = 0;
        let entry = |number: usize| {
            let Request { file, start, length, at } = transfer.requests[number];
            Entry {
                mode: BATCH,
                buffer: transfer.address() as *mut c_void,
                start: start as i64,
                at: at as i64,
                length: length as usize,
                file: transfer.files[file].handle,
                operation: READ,
                number,
            }
        };
        let first = reads.start;
        let mut entries: Vec<Entry> = reads.filter(|&number| transfer.has_room(number)).map(entry).collect();
        let (library, count) = (transfer.library, entries.len());
        let functions = &library.functions;
        let idle = library.idle().pop();
        let mut handle = idle.map_or(std::ptr::null_mut(), |idle| idle.0);
        if handle.is_null() {
            // SAFETY: writes one handle. All have the same room: any may be used again.
            checked("cuFileBatchIOSetUp", unsafe { (functions.cuFileBatchIOSetUp)(&mut handle, most as c_uint) })?;
        }
        // SAFETY: the files are registered; the bytes are in the buffer, which is device memory and outlives the batch, as do
        // the entries.
        let status = unsafe { (functions.cuFileBatchIOSubmit)(handle, count as c_uint, entries.as_mut_ptr(), 0) };
        if let Err(failure) = checked("cuFileBatchIOSubmit", status) {
            // SAFETY: it was set up, and nothing of it is under way.
            unsafe { (functions.cuFileBatchIODestroy)(handle) };
            return Err(failure);
        }
        Ok(Self { library, handle, entries, first, left: count })
    }

    /// Waits until all are done, and notes what each gave.
    fn wait(&mut self, read: &[AtomicIsize]) -> Result<(), Failure> {
        const COMPLETE: c_int = 16;
        let mut moved = Instant::now();
        while self.left > 0 {
            let landed = self.landed()?;
            if !landed.is_empty() {
                moved = Instant::now();
            } else if moved.elapsed() > PATIENCE {
                let reason = format!("nothing came for {} s", PATIENCE.as_secs());
                return Err(Failure { call: "cuFileBatchIOGetStatus", code: 0, reason });
            }
            for Landed { number, status, read: bytes } in landed {
                if let Some(read) = read.get(number) {
                    read.store(if status == COMPLETE { bytes } else { NOT_DONE }, Ordering::Release);
                }
            }
        }
        Ok(())
    }

    /// Those that have come to an end since the last time; none where none has for a while.
    fn landed(&mut self) -> Result<Vec<Landed>, Failure> {
        let mut landed = vec![Landed::default(); self.left];
        let mut count = self.left as c_uint;
        let mut tick = Span { seconds: 0, nanoseconds: TICK.as_nanos() as i64 };
        // SAFETY: writes as many events as there is room for, and their number.
        let status = unsafe {
            let ask = self.library.functions.cuFileBatchIOGetStatus;
            ask(self.handle, 1, &mut count, landed.as_mut_ptr(), &mut tick)
        };
        checked("cuFileBatchIOGetStatus", status)?;
        landed.truncate(count as usize);
        self.left = self.left.saturating_sub(landed.len());
        Ok(landed)
    }

    /// Ends it, done or not; `false` when that can't be: something may still be written.
    fn end(mut self) -> bool {
        let ended = self.call_off();
        if !ended {
            std::mem::forget(self);
        }
        ended
    }

    fn call_off(&mut self) -> bool {
        if self.left > 0 {
            // SAFETY: takes the handle of a batch that is under way.
            let _ = unsafe { (self.library.functions.cuFileBatchIOCancel)(self.handle) };
            let begun = Instant::now();
            while self.left > 0 && begun.elapsed() < PATIENCE && self.landed().is_ok() {}
        }
        self.left == 0
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if self.call_off() {
            self.library.idle().push(Idle(self.handle));
        } else {
            std::mem::forget(std::mem::take(&mut self.entries));
        }
    }
}
