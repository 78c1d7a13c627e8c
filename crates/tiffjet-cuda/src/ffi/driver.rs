//! The part of the CUDA driver that is used, as safe functions.
//!
//! What makes them safe: addresses of device memory are numbers that the host never follows, handles come from the
//! driver alone and live as long as the process or as long as the types here that own them, and host memory that the
//! device reads or writes on its own is page-locked memory that is never given back.

#![allow(unsafe_code)] // calls functions of the driver

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::load::{Library, Missing, Wanted, functions};

/// The driver's library.
pub const WANTED: Wanted = Wanted {
    name: "CUDA driver",
    sonames: &["libcuda.so.1"],
    wheels: &[],
    enables: "everything on the GPU: none, PackBits, LZW, Deflate and ZSTD by own kernels",
    hint: "install the NVIDIA driver, 525 or later",
};

/// What the driver calls its objects.
pub(super) type Handle = *mut c_void;
type Status = c_int;

functions! {
    struct Functions {
        fn cuInit(c_uint) -> Status;
        fn cuDriverGetVersion(*mut c_int) -> Status;
        fn cuDeviceGetCount(*mut c_int) -> Status;
        fn cuDeviceGet(*mut c_int, c_int) -> Status;
        fn cuDeviceGetName(*mut c_char, c_int, c_int) -> Status;
        fn cuDeviceGetAttribute(*mut c_int, c_int, c_int) -> Status;
        fn cuDeviceTotalMem_v2(*mut usize, c_int) -> Status;
        fn cuDevicePrimaryCtxRetain(*mut Handle, c_int) -> Status;
        fn cuCtxPushCurrent_v2(Handle) -> Status;
        fn cuCtxPopCurrent_v2(*mut Handle) -> Status;
        fn cuCtxGetDevice(*mut c_int) -> Status;
        fn cuMemGetInfo_v2(*mut usize, *mut usize) -> Status;
        fn cuModuleLoadData(*mut Handle, *const c_void) -> Status;
        fn cuModuleGetFunction(*mut Handle, Handle, *const c_char) -> Status;
        fn cuFuncSetAttribute(Handle, c_int, c_int) -> Status;
        fn cuStreamCreate(*mut Handle, c_uint) -> Status;
        fn cuStreamDestroy_v2(Handle) -> Status;
        fn cuStreamSynchronize(Handle) -> Status;
        fn cuStreamWaitEvent(Handle, Handle, c_uint) -> Status;
        fn cuEventCreate(*mut Handle, c_uint) -> Status;
        fn cuEventDestroy_v2(Handle) -> Status;
        fn cuEventRecord(Handle, Handle) -> Status;
        fn cuEventQuery(Handle) -> Status;
        fn cuEventSynchronize(Handle) -> Status;
        fn cuEventElapsedTime(*mut f32, Handle, Handle) -> Status;
        fn cuMemPoolCreate(*mut Handle, *const PoolProperties) -> Status;
        fn cuMemPoolSetAttribute(Handle, c_int, *mut c_void) -> Status;
        fn cuMemPoolGetAttribute(Handle, c_int, *mut c_void) -> Status;
        fn cuMemPoolTrimTo(Handle, usize) -> Status;
        fn cuMemAllocFromPoolAsync(*mut u64, usize, Handle, Handle) -> Status;
        fn cuMemFreeAsync(u64, Handle) -> Status;
        fn cuMemHostAlloc(*mut *mut c_void, usize, c_uint) -> Status;
        fn cuMemFreeHost(*mut c_void) -> Status;
        fn cuMemAlloc_v2(*mut u64, usize) -> Status;
        fn cuMemFree_v2(u64) -> Status;
        fn cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, Handle) -> Status;
        fn cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, Handle) -> Status;
        fn cuMemsetD8Async(u64, u8, usize, Handle) -> Status;
        fn cuLaunchKernel(Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void) -> Status;
        fn cuGetErrorName(Status, *mut *const c_char) -> Status;
        fn cuGetErrorString(Status, *mut *const c_char) -> Status;
    }
}

/// What a pool of device memory is made with.
#[repr(C)]
struct PoolProperties {
    kind: c_int,
    handles: c_int,
    location: [c_int; 2],
    security: *mut c_void,
    limit: usize,
    rest: [u8; 56],
}

/// A call that the driver refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which call.
    pub call: &'static str,
    /// The driver's number for the reason.
    pub code: i32,
    /// The reason in the driver's words.
    pub reason: String,
}

impl Failure {
    /// There is no more memory.
    pub const OUT_OF_MEMORY: i32 = 2;
    /// Not done yet.
    const NOT_READY: i32 = 600;
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed with {}: {}", self.call, self.code, self.reason)
    }
}

/// Whether the driver did as asked.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// The driver, loaded and initialised.
pub struct Driver {
    functions: Functions,
    library: Library,
    /// 12080 is CUDA 12.8.
    version: i32,
    counted: Counted,
}

/// What has been asked of the driver in this process.
#[derive(Debug, Default)]
struct Counted {
    takes: AtomicU64,
    lent: AtomicU64,
    waits: AtomicU64,
}

/// What has been asked of the driver in this process, so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pieces of device memory taken for reads and results.
    pub takes: u64,
    /// Pieces of device memory that libraries took from the pool.
    pub lent: u64,
    /// Times the host waited for a whole stream. It never waits for a whole device.
    pub waits: u64,
}

// SAFETY: the driver's functions may be called from any thread.
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}

/// Why there is no driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absence {
    /// No library, or a part of one.
    Missing(Missing),
    /// It does not start.
    Failed(Failure),
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(missing) => missing.fmt(f),
            Self::Failed(failure) => failure.fmt(f),
        }
    }
}

/// `driver.call!(name(arguments))`: calls a function and turns its status into a value.
macro_rules! call {
    ($driver:expr, $f:ident($($a:expr),* $(,)?)) => {{
        let driver: &Driver = $driver;
        // SAFETY: see the comment of this module; pointers in the arguments are to values alive during the call, with
        // the exceptions that the callers of this macro explain.
        let code = unsafe { (driver.functions.$f)($($a),*) };
        driver.checked(stringify!($f), code)
    }};
}

/// Asks for more streams that run side by side than the eight that the driver has by itself, unless somebody has said how
/// many: what has a stream for each tile, as nvJPEG2000, and many reads at once are faster. It counts where nobody has started the
/// driver yet.
pub fn widen() {
    const STREAMS: (&str, &str) = ("CUDA_DEVICE_MAX_CONNECTIONS", "32");
    const FORBIDDEN: &str = "TIFFJET_KEEP_ENVIRONMENT";
    if std::env::var_os(STREAMS.0).is_none() && std::env::var_os(FORBIDDEN).is_none() {
        // SAFETY: once in the life of a process, before the driver reads it. Rust's own functions take turns; C code that
        // reads the environment in this very moment is what every `setenv` risks, and why it can be forbidden.
        unsafe { std::env::set_var(STREAMS.0, STREAMS.1) };
    }
}

impl Driver {
    /// The driver of this machine, loaded when it is first asked for.
    pub fn get() -> Result<&'static Self, &'static Absence> {
        static DRIVER: OnceLock<Result<Driver, Absence>> = OnceLock::new();
        DRIVER.get_or_init(Self::load).as_ref()
    }

    fn load() -> Result<Self, Absence> {
        let library = Library::open(WANTED).map_err(Absence::Missing)?;
        // SAFETY: the types are those of cuda.h, which the driver keeps from version to version by new names.
        let functions = unsafe { Functions::load(&library) }.map_err(Absence::Missing)?;
        let mut driver = Self { functions, library, version: 0, counted: Counted::default() };
        widen();
        let started = call!(&driver, cuInit(0));
        started.map_err(Absence::Failed)?;
        let mut version = 0;
        call!(&driver, cuDriverGetVersion(&mut version)).map_err(Absence::Failed)?;
        driver.version = version;
        Ok(driver)
    }

    /// What has been asked of it.
    pub fn counts(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts { takes: of(&self.counted.takes), lent: of(&self.counted.lent), waits: of(&self.counted.waits) }
    }

    /// Where it was found.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Major and minor version of CUDA that it serves.
    pub fn version(&self) -> (i32, i32) {
        (self.version / 1000, self.version % 1000 / 10)
    }

    fn checked(&self, call: &'static str, code: Status) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let text = |function: unsafe extern "C" fn(Status, *mut *const c_char) -> Status| {
            let mut text = std::ptr::null();
            // SAFETY: writes the address of a string that lives as long as the driver, or null.
            let status = unsafe { function(code, &mut text) };
            // SAFETY: as above.
            (status == 0 && !text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        let name = text(self.functions.cuGetErrorName);
        let words = text(self.functions.cuGetErrorString);
        let reason = [name, words].into_iter().flatten().collect::<Vec<_>>().join(", ");
        Err(Failure { call, code, reason: if reason.is_empty() { "unknown".to_owned() } else { reason } })
    }

    /// The device of this thread's context, which others who use the GPU have made current; `None` without one.
    pub fn current(&self) -> Option<i32> {
        let mut device = 0;
        call!(self, cuCtxGetDevice(&mut device)).ok().map(|()| device)
    }

    /// How many devices there are.
    pub fn devices(&self) -> Result<i32> {
        let mut count = 0;
        call!(self, cuDeviceGetCount(&mut count))?;
        Ok(count)
    }

    /// The device of an ordinal.
    pub fn device(&'static self, ordinal: i32) -> Result<Device> {
        let mut id = 0;
        call!(self, cuDeviceGet(&mut id, ordinal))?;
        Ok(Device { driver: self, id })
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("library", &self.library).field("version", &self.version).finish()
    }
}

/// A number that describes a device.
#[derive(Debug, Clone, Copy)]
pub enum Attribute {
    /// Multiprocessors.
    Multiprocessors = 16,
    /// Major number of what it can compute.
    Major = 75,
    /// Minor number.
    Minor = 76,
    /// Whether memory can be had in the order of a stream.
    Pools = 115,
    /// The most shared memory that a block can ask for.
    SharedMemory = 97,
}

/// One device.
#[derive(Debug, Clone, Copy)]
pub struct Device {
    driver: &'static Driver,
    id: i32,
}

impl Device {
    /// Its name.
    pub fn name(&self) -> Result<String> {
        let mut name = [0 as c_char; 128];
        call!(self.driver, cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int - 1, self.id))?;
        let bytes: Vec<u8> = name.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// One of its numbers.
    pub fn attribute(&self, attribute: Attribute) -> Result<i32> {
        let mut value = 0;
        call!(self.driver, cuDeviceGetAttribute(&mut value, attribute as c_int, self.id))?;
        Ok(value)
    }

    /// Bytes of its memory.
    pub fn memory(&self) -> Result<u64> {
        let mut bytes = 0usize;
        call!(self.driver, cuDeviceTotalMem_v2(&mut bytes, self.id))?;
        Ok(bytes as u64)
    }

    /// The context that everyone in this process shares. It is kept for good, as others who use it do.
    pub fn context(&self) -> Result<Context> {
        let mut handle = std::ptr::null_mut();
        call!(self.driver, cuDevicePrimaryCtxRetain(&mut handle, self.id))?;
        Ok(Context { driver: self.driver, handle, device: self.id })
    }
}

/// The primary context of a device.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    driver: &'static Driver,
    handle: Handle,
    device: i32,
}

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// As long as it lives, calls of this thread go to its context; then to the one before.
pub struct Current {
    driver: &'static Driver,
    /// Of one thread.
    _thread: std::marker::PhantomData<*mut ()>,
}

impl Drop for Current {
    fn drop(&mut self) {
        let mut before = std::ptr::null_mut();
        // There is nothing to do where the driver does not answer any more.
        let _ = call!(self.driver, cuCtxPopCurrent_v2(&mut before));
    }
}

impl Context {
    /// Makes it the context of this thread for a while.
    pub fn enter(&self) -> Result<Current> {
        call!(self.driver, cuCtxPushCurrent_v2(self.handle))?;
        Ok(Current { driver: self.driver, _thread: std::marker::PhantomData })
    }

    /// Bytes of device memory that are free, and all.
    pub fn free_memory(&self) -> Result<(u64, u64)> {
        let (mut free, mut total) = (0usize, 0usize);
        call!(self.driver, cuMemGetInfo_v2(&mut free, &mut total))?;
        Ok((free as u64, total as u64))
    }

    /// A stream of its own, which waits for nobody.
    pub fn stream(&self) -> Result<Stream> {
        const NON_BLOCKING: c_uint = 1;
        let mut handle = std::ptr::null_mut();
        call!(self.driver, cuStreamCreate(&mut handle, NON_BLOCKING))?;
        Ok(Stream { driver: self.driver, handle })
    }

    /// An event of a kind.
    pub fn event(&self, kind: EventKind) -> Result<Event> {
        let mut handle = std::ptr::null_mut();
        call!(self.driver, cuEventCreate(&mut handle, kind as c_uint))?;
        Ok(Event { driver: self.driver, handle })
    }

    /// A pool of device memory that keeps up to `kept` bytes for the next one who asks.
    pub fn pool(&self, kept: u64) -> Result<Pool> {
        const PINNED: c_int = 1;
        const ON_DEVICE: c_int = 1;
        let properties = PoolProperties {
            kind: PINNED,
            handles: 0,
            location: [ON_DEVICE, self.device],
            security: std::ptr::null_mut(),
            limit: 0,
            rest: [0; 56],
        };
        let mut handle = std::ptr::null_mut();
        call!(self.driver, cuMemPoolCreate(&mut handle, &properties))?;
        let pool = Pool { driver: self.driver, handle };
        pool.set(PoolValue::ReleaseThreshold, kept)?;
        Ok(pool)
    }

    /// Page-locked memory that every device can reach, for the life of the process.
    pub fn pinned(&self, length: usize) -> Result<Pinned> {
        const PORTABLE: c_uint = 1;
        let mut address = std::ptr::null_mut();
        call!(self.driver, cuMemHostAlloc(&mut address, length, PORTABLE))?;
        Ok(Pinned { address: address.cast(), length })
    }

    /// Page-locked memory that is given back when it is dropped. Who drops it knows that no device uses it any more.
    pub fn locked(&self, length: usize) -> Result<Locked> {
        Ok(Locked { driver: self.driver, memory: self.pinned(length)? })
    }

    /// Device memory outside of pools, which storage can write to directly. Taking it may hold the device up.
    pub fn plain(&self, length: u64) -> Result<Plain> {
        let mut address = 0;
        call!(self.driver, cuMemAlloc_v2(&mut address, length as usize))?;
        self.driver.counted.takes.fetch_add(1, Ordering::Relaxed);
        Ok(Plain { driver: self.driver, address, length })
    }

    /// Loads a cubin or PTX, which must end with a zero byte.
    pub fn module(&self, image: &[u8]) -> Result<Module> {
        let mut handle = std::ptr::null_mut();
        // The driver reads as much of the image as the image says of itself: it is one that this crate carries.
        call!(self.driver, cuModuleLoadData(&mut handle, image.as_ptr().cast()))?;
        Ok(Module { driver: self.driver, handle })
    }
}

/// Kernels, loaded for good.
#[derive(Debug)]
pub struct Module {
    driver: &'static Driver,
    handle: Handle,
}

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// A kernel by its name, allowed to use so much shared memory.
    pub fn function(&self, name: &str, shared: u32) -> Result<Function> {
        /// What a kernel needs no leave for.
        const FREE: u32 = 48 << 10;
        const MAX_DYNAMIC_SHARED: c_int = 8;
        let mut handle = std::ptr::null_mut();
        let name = CString::new(name).unwrap_or_default();
        call!(self.driver, cuModuleGetFunction(&mut handle, self.handle, name.as_ptr()))?;
        if shared > FREE {
            call!(self.driver, cuFuncSetAttribute(handle, MAX_DYNAMIC_SHARED, shared as c_int))?;
        }
        Ok(Function { driver: self.driver, handle })
    }
}

/// A kernel.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    driver: &'static Driver,
    handle: Handle,
}

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// How many blocks of how many threads.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Blocks.
    pub grid: (u32, u32),
    /// Threads of a block.
    pub block: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
}

/// One argument of a kernel: its bytes, aligned as the widest type of an argument is.
#[repr(C, align(16))]
pub struct Argument<const N: usize>([u8; N]);

/// An argument of some size.
pub trait Arguments {
    /// Where it stands.
    fn address(&self) -> *mut c_void;
}

impl Arguments for u64 {
    fn address(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

impl Arguments for u32 {
    fn address(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

impl<const N: usize> Argument<N> {
    /// A struct as its bytes.
    pub fn new(bytes: [u8; N]) -> Self {
        Self(bytes)
    }
}

impl<const N: usize> Arguments for Argument<N> {
    fn address(&self) -> *mut c_void {
        self.0.as_ptr().cast_mut().cast()
    }
}

impl Function {
    /// Puts a launch into a stream.
    ///
    /// The arguments must be those of the kernel: with others the device, not the host, does what nobody wants.
    pub fn launch(&self, shape: Shape, stream: &Stream, arguments: &[&dyn Arguments]) -> Result<()> {
        let mut addresses: Vec<*mut c_void> = arguments.iter().map(|argument| argument.address()).collect();
        // The driver reads as many bytes of each argument as the kernel declares before it returns. `kernels.rs`, which
        // alone makes lists of arguments, mirrors the declarations, and a test compares their sizes.
        call!(
            self.driver,
            cuLaunchKernel(
                self.handle,
                shape.grid.0,
                shape.grid.1,
                1,
                shape.block,
                1,
                1,
                shape.shared,
                stream.handle,
                addresses.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        )
    }
}

/// Work in order.
#[derive(Debug)]
pub struct Stream {
    driver: &'static Driver,
    handle: Handle,
}

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above; calls on one stream from two threads are put in some order.
unsafe impl Sync for Stream {}

impl Drop for Stream {
    fn drop(&mut self) {
        // Work in it goes on to its end.
        let _ = call!(self.driver, cuStreamDestroy_v2(self.handle));
    }
}

impl Stream {
    /// As libraries take it.
    pub(super) fn handle(&self) -> Handle {
        self.handle
    }

    /// Waits until all is done.
    pub fn wait(&self) -> Result<()> {
        self.driver.counted.waits.fetch_add(1, Ordering::Relaxed);
        call!(self.driver, cuStreamSynchronize(self.handle))
    }

    /// What comes after this waits for an event.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        call!(self.driver, cuStreamWaitEvent(self.handle, event.handle, 0))
    }

    /// Copies page-locked bytes to the device. Nobody may change them before an event that is recorded after this.
    pub fn upload(&self, from: &Pinned, at: usize, length: usize, to: u64) -> Result<()> {
        assert!(at.checked_add(length).is_some_and(|end| end <= from.length), "a copy must stay inside the memory");
        // The memory is never given back, so the device reads what there is, whenever it does.
        call!(self.driver, cuMemcpyHtoDAsync_v2(to, from.address.wrapping_add(at).cast(), length, self.handle))
    }

    /// Copies bytes of the device to page-locked memory. They are there after an event that is recorded after this.
    pub fn download(&self, from: u64, to: &mut Pinned, length: usize) -> Result<()> {
        self.download_at(from, to, 0, length)
    }

    /// The same to some place in the memory.
    pub fn download_at(&self, from: u64, to: &mut Pinned, at: usize, length: usize) -> Result<()> {
        assert!(at.checked_add(length).is_some_and(|end| end <= to.length), "a copy must stay inside the memory");
        // As above. What the host reads of it before the copy is done are old bytes or new ones.
        call!(self.driver, cuMemcpyDtoHAsync_v2(to.address.wrapping_add(at).cast(), from, length, self.handle))
    }

    /// Sets bytes of the device.
    pub fn fill(&self, at: u64, byte: u8, length: u64) -> Result<()> {
        call!(self.driver, cuMemsetD8Async(at, byte, length as usize, self.handle))
    }

    /// Memory from a pool, which work that comes after this can use.
    pub fn take(&self, pool: &Pool, length: u64) -> Result<u64> {
        let mut address = 0;
        call!(self.driver, cuMemAllocFromPoolAsync(&mut address, length as usize, pool.handle, self.handle))?;
        self.driver.counted.takes.fetch_add(1, Ordering::Relaxed);
        Ok(address)
    }

    /// Gives memory back when the work before this is done.
    pub fn give_back(&self, address: u64) -> Result<()> {
        call!(self.driver, cuMemFreeAsync(address, self.handle))
    }
}

/// What an event is for, in the driver's flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Who waits for it keeps a core busy, and goes on at once.
    Plain = 2,
    /// The same, and it can be asked how long it took.
    Timed = 0,
    /// Who waits for it sleeps, and goes on a little later.
    Quiet = 3,
}

/// A point in a stream.
#[derive(Debug)]
pub struct Event {
    driver: &'static Driver,
    handle: Handle,
}

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = call!(self.driver, cuEventDestroy_v2(self.handle));
    }
}

impl Event {
    /// Stands for all that is in the stream so far.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        call!(self.driver, cuEventRecord(self.handle, stream.handle))
    }

    /// The same for a stream of somebody else.
    pub fn record_foreign(&self, stream: usize) -> Result<()> {
        // The caller of the library names it as one of the driver's streams; 0 and 1 are the driver's own names.
        call!(self.driver, cuEventRecord(self.handle, stream as Handle))
    }

    /// Makes a stream of somebody else wait for this.
    pub fn hold_foreign(&self, stream: usize) -> Result<()> {
        // As in `record_foreign`.
        call!(self.driver, cuStreamWaitEvent(stream as Handle, self.handle, 0))
    }

    /// Whether it has come.
    pub fn is_done(&self) -> Result<bool> {
        match call!(self.driver, cuEventQuery(self.handle)) {
            Err(failure) if failure.code == Failure::NOT_READY => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }

    /// Waits for it.
    pub fn wait(&self) -> Result<()> {
        call!(self.driver, cuEventSynchronize(self.handle))
    }

    /// Milliseconds from another one, both of them timed and done.
    pub fn since(&self, start: &Self) -> Result<f32> {
        let mut milliseconds = 0.0;
        call!(self.driver, cuEventElapsedTime(&mut milliseconds, start.handle, self.handle))?;
        Ok(milliseconds)
    }
}

/// What a pool can tell.
#[derive(Debug, Clone, Copy)]
pub enum PoolValue {
    /// Whether memory of another stream may be taken by making one wait for the other.
    ReuseByWaiting = 3,
    /// Bytes it may keep.
    ReleaseThreshold = 4,
    /// Bytes it holds.
    Reserved = 5,
    /// Bytes in use.
    Used = 7,
    /// The most that was in use.
    UsedHigh = 8,
}

/// A pool of device memory, for the life of the process.
#[derive(Debug, Clone, Copy)]
pub struct Pool {
    driver: &'static Driver,
    handle: Handle,
}

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// Sets one of its numbers.
    pub fn set(&self, which: PoolValue, value: u64) -> Result<()> {
        // Flags are read as four bytes, sizes as eight: on a little-endian machine the first four are the number's.
        let mut value = value.to_le();
        call!(self.driver, cuMemPoolSetAttribute(self.handle, which as c_int, std::ptr::from_mut(&mut value).cast()))
    }

    /// One of its numbers.
    pub fn value(&self, which: PoolValue) -> Result<u64> {
        let mut value = 0u64;
        call!(self.driver, cuMemPoolGetAttribute(self.handle, which as c_int, std::ptr::from_mut(&mut value).cast()))?;
        Ok(value)
    }

    /// Memory for a library, in the order of the stream that it names.
    pub(super) fn lend(&self, length: usize, stream: Handle) -> Result<u64> {
        let mut address = 0;
        call!(self.driver, cuMemAllocFromPoolAsync(&mut address, length, self.handle, stream))?;
        self.driver.counted.lent.fetch_add(1, Ordering::Relaxed);
        Ok(address)
    }

    /// Takes memory back from a library.
    pub(super) fn take_back(&self, address: u64, stream: Handle) -> Result<()> {
        call!(self.driver, cuMemFreeAsync(address, stream))
    }

    /// Page-locked memory for a library.
    pub(super) fn lend_locked(&self, length: usize) -> Result<*mut c_void> {
        const PORTABLE: c_uint = 1;
        let mut address = std::ptr::null_mut();
        call!(self.driver, cuMemHostAlloc(&mut address, length, PORTABLE))?;
        Ok(address)
    }

    /// Takes page-locked memory back from a library, which no longer uses it.
    pub(super) fn take_back_locked(&self, address: *mut c_void) -> Result<()> {
        call!(self.driver, cuMemFreeHost(address))
    }

    /// Gives unused memory back to the device.
    pub fn trim(&self) -> Result<()> {
        call!(self.driver, cuMemPoolTrimTo(self.handle, 0))
    }
}

/// Page-locked memory of the host. It is never given back: the device may read it at any time.
#[derive(Debug)]
pub struct Pinned {
    address: *mut u8,
    length: usize,
}

// SAFETY: it is plain memory with one owner.
unsafe impl Send for Pinned {}
// SAFETY: shared use only reads.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: allocated with this length, zeroed by the system, never freed.
        unsafe { std::slice::from_raw_parts(self.address, self.length) }
    }

    /// The bytes, to be filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.length) }
    }
}

/// Page-locked memory of the host with an owner, who drops it when no device uses it any more.
#[derive(Debug)]
pub struct Locked {
    driver: &'static Driver,
    memory: Pinned,
}

impl Locked {
    /// Makes `memory` hold `length` bytes at least; gives the first of them. What was there is lost where it was too
    /// small, so nobody may use it any more.
    pub fn grow<'a>(memory: &'a mut Option<Self>, context: &Context, length: usize) -> Result<&'a mut [u8]> {
        /// The least that is worth page-locking.
        const LEAST: usize = 256 << 10;
        let memory = match memory.take() {
            Some(enough) if enough.bytes().len() >= length => memory.insert(enough),
            _ => {
                let roomy = length.max(LEAST).checked_next_power_of_two().unwrap_or(length);
                memory.insert(context.locked(roomy)?)
            }
        };
        Ok(&mut memory.bytes_mut()[..length])
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    /// The bytes, to be filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.bytes_mut()
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // A driver that does not answer any more has nothing to give back to.
        let _ = call!(self.driver, cuMemFreeHost(self.memory.address.cast()));
    }
}

/// Device memory outside of pools.
#[derive(Debug)]
pub struct Plain {
    driver: &'static Driver,
    address: u64,
    length: u64,
}

impl Plain {
    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes.
    pub fn length(&self) -> u64 {
        self.length
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = call!(self.driver, cuMemFree_v2(self.address));
    }
}
