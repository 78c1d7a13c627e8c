//! One device: its context, streams, memory and the pinned ring, made when first used and kept for the process.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};
use tiffjet::{Error, Result};

use crate::ffi::cufile::{Buffer, CuFile};
use crate::ffi::driver::{
    Absence, Attribute, Context, Current, Driver, Event, EventKind, Failure, Pinned, Pool, PoolValue, Stream,
};
use crate::ffi::lend::{Lender, Refusal};
use crate::ffi::load::Missing;
use crate::ffi::nvjpeg::{self, Nvjpeg};
use crate::ffi::nvjpeg2k::{self, Nvjpeg2k};
use crate::kernels::Kernels;
use crate::states::States;

/// Streams that decode side by side in one read: while the tiles of one are decoded, those of the next arrive.
pub const LANES: usize = 8;
/// Bytes of one slot of the ring: large enough for full speed over the bus, small enough to begin soon.
pub const SLOT: usize = 4 << 20;
/// Bytes of the notes of a lane.
pub const NOTES: usize = (1 << 20) + (64 << 10);
/// Slots that a process has at most. Page-locking costs a millisecond for a few MiB, so they are made as they are needed.
const SLOTS: usize = 40;
/// Threads that fill slots: more give no more bytes a second from the page cache.
const THREADS: usize = 24;
/// Threads that wait for other machines or for storage, so that the number of cores does not matter.
const FAR_THREADS: usize = 32;
/// Device memory that stays with the pool between reads, at least, and the part of the device's memory where that is more:
/// what many reads at once have is taken from the device again and again if it is not kept.
const KEPT: (u64, u64) = (4 << 30, 16);
/// Tiles of JPEG 2000 that are decoded at once: each has a state with memory for all steps of one.
const JPEG2000_STATES: usize = 32;
/// Batches of JPEG that are decoded at once.
const JPEG_STATES: usize = 8;
/// Tiles that a library encodes at once.
const ENCODE_STATES: usize = 32;
/// What the buffer that storage writes to grows by.
const BUFFER_STEP: u64 = 32 << 20;

/// What is known of a device before it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number, as in `cuda:N`.
    pub ordinal: i32,
    /// Its name.
    pub name: String,
    /// What it can compute: (9, 0) is sm_90.
    pub capability: (i32, i32),
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of its memory.
    pub memory: u64,
    /// Why it can't be used, where it can't.
    pub unusable: Option<String>,
}

impl DeviceInfo {
    /// Asks the driver. Makes no context.
    pub fn new(driver: &'static Driver, ordinal: i32) -> Result<Self, Failure> {
        let device = driver.device(ordinal)?;
        let capability = (device.attribute(Attribute::Major)?, device.attribute(Attribute::Minor)?);
        let pools = device.attribute(Attribute::Pools)? != 0;
        let unusable = match capability {
            (major, minor) if (major, minor) < (7, 5) => {
                Some(format!("compute capability {major}.{minor} is too old, 7.5 is the least"))
            }
            _ if !pools => Some("the driver has no memory pools for it".to_owned()),
            _ => None,
        };
        Ok(Self {
            ordinal,
            name: device.name()?,
            capability,
            multiprocessors: device.attribute(Attribute::Multiprocessors)?.max(1) as u32,
            memory: device.memory()?,
            unusable,
        })
    }
}

/// A device in use.
pub struct Gpu {
    /// What it is.
    pub info: DeviceInfo,
    /// The most shared memory that a block can ask for.
    pub shared_memory: u32,
    /// Its name in errors: `cuda:0`.
    pub device: String,
    /// Its kernels.
    pub kernels: Kernels,
    /// Threads that read, decode on the host and fill slots.
    pub threads: ThreadPool,
    /// Those for files of other machines, made when one is read.
    far_threads: OnceLock<ThreadPool>,
    /// Page-locked memory.
    pub ring: Ring,
    /// Where results are given back.
    pub frees: Stream,
    context: Context,
    pool: Pool,
    lender: &'static Lender,
    jpeg2000: OnceLock<Result<States<nvjpeg2k::Decoder>, String>>,
    jpeg: OnceLock<Result<States<nvjpeg::Decoder>, String>>,
    jpeg2000_encoders: OnceLock<Result<States<nvjpeg2k::Encoder>, String>>,
    jpeg_encoders: OnceLock<Result<States<nvjpeg::Encoder>, String>>,
    /// Memory that storage writes to, while nobody reads.
    buffer: Mutex<Option<Buffer>>,
    streams: Mutex<Vec<Streams>>,
    lanes: Mutex<Vec<Lane>>,
    /// Reads that are under way.
    reads: AtomicUsize,
    /// Reads that have begun.
    begun: AtomicU64,
}

/// One of the reads that are under way on a device.
pub struct Presence<'a> {
    reads: &'a AtomicUsize,
    /// No other read of the device has it.
    pub number: u64,
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        self.reads.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream of a write, with what waits for it and what the host and the device tell each other.
pub struct Lane {
    /// Where its work goes.
    pub stream: Stream,
    /// What it waits for is there.
    pub ready: Event,
    /// What the host must know is known.
    pub known: Event,
    /// Its memory may be used again.
    pub free: Event,
    /// Tables on their way to the device, numbers on their way back.
    pub notes: Pinned,
}

/// The streams of one read. The first one is where it begins and ends.
pub struct Streams {
    /// Where groups of tiles are decoded side by side.
    pub lanes: Vec<Stream>,
    /// One for each of them.
    pub joins: Vec<Event>,
    /// Where the group that a lane has in hand begins.
    pub begins: Vec<Event>,
    /// Where the one word comes that says how it went.
    pub verdict: Pinned,
    /// The end of a read that is not alone.
    end: Event,
}

impl Streams {
    /// Waits for all that the first one has. Who is not alone sleeps: the cores have slots of other reads to fill.
    pub fn wait(&self, gpu: &Gpu) -> Result<(), Failure> {
        if gpu.is_shared() {
            self.end.record(&self.lanes[0])?;
            return self.end.wait();
        }
        self.lanes[0].wait()
    }

    /// Waits for all of them, whatever they say.
    pub fn settle(&self) {
        self.lanes.iter().for_each(|stream| drop(stream.wait()));
    }
}

/// The devices in use, by ordinal.
static GPUS: Mutex<BTreeMap<i32, Arc<Gpu>>> = Mutex::new(BTreeMap::new());

/// Whether this process was forked from the one whose devices these are: no call of the driver works in it any more.
pub fn is_forked() -> bool {
    static OWNER: OnceLock<u32> = OnceLock::new();
    *OWNER.get_or_init(std::process::id) != std::process::id()
}

/// The library's name in errors that belong to no file.
fn nobody() -> Arc<str> {
    "cuda".into()
}

/// What the absence of a library means for a caller.
pub fn unavailable_library(missing: &Missing) -> Error {
    Error::Unavailable { name: nobody(), library: missing.library(), hint: missing.hint().to_owned() }
}

/// What the absence of a driver means for a caller.
pub fn unavailable(absence: &Absence) -> Error {
    match absence {
        Absence::Missing(missing) => unavailable_library(missing),
        Absence::Failed(failure) => Error::Unavailable {
            name: nobody(),
            library: format!("CUDA driver ({failure})"),
            hint: "is there a GPU, and is its driver running? `tiffjet doctor` tells more".to_owned(),
        },
    }
}

impl Gpu {
    /// Threads for reads that wait; where there can be no more, those for files of this machine.
    pub fn far_threads(&self) -> &ThreadPool {
        if let Some(threads) = self.far_threads.get() {
            return threads;
        }
        match crew(FAR_THREADS, "cuda-far") {
            Ok(threads) => self.far_threads.get_or_init(|| threads),
            Err(_) => &self.threads,
        }
    }

    /// The device of an ordinal, made ready when it is first asked for.
    pub fn get(ordinal: i32) -> Result<Arc<Self>> {
        let driver = Driver::get().map_err(unavailable)?;
        // A lock that another thread held while the process was forked is never opened again: look before.
        if is_forked() {
            let source = "this process was forked from one that uses the GPU; start workers with spawn or forkserver";
            return Err(Error::Device { name: nobody(), device: format!("cuda:{ordinal}"), source: source.to_owned() });
        }
        let mut gpus = GPUS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = gpus.get(&ordinal) {
            return Ok(gpu.clone());
        }
        let gpu = Arc::new(Self::new(driver, ordinal)?);
        gpus.insert(ordinal, gpu.clone());
        Ok(gpu)
    }

    fn new(driver: &'static Driver, ordinal: i32) -> Result<Self> {
        let device = format!("cuda:{ordinal}");
        let failed = |failure: Failure| refused(&nobody(), &device, &failure);
        let count = driver.devices().map_err(failed)?;
        if !(0..count).contains(&ordinal) {
            return Err(Error::Unavailable {
                name: nobody(),
                library: format!("device {device}"),
                hint: format!("there are {count} devices"),
            });
        }
        let info = DeviceInfo::new(driver, ordinal).map_err(failed)?;
        if let Some(why) = &info.unusable {
            let library = format!("device {device} ({})", info.name);
            return Err(Error::Unavailable { name: nobody(), library, hint: why.clone() });
        }
        let context = driver.device(ordinal).and_then(|device| device.context()).map_err(failed)?;
        let _current = context.enter().map_err(failed)?;
        let pool = context.pool(KEPT.0.max(info.memory / KEPT.1)).map_err(failed)?;
        // A lane that waits for another's memory would undo what lanes are for.
        pool.set(PoolValue::ReuseByWaiting, 0).map_err(failed)?;
        let kernels = Kernels::load(&context, info.capability).map_err(failed)?;
        let shared =
            driver.device(ordinal).and_then(|device| device.attribute(Attribute::SharedMemory)).map_err(failed)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = crew(cores.clamp(2, THREADS), "cuda").map_err(|e| Error::Device {
            name: nobody(),
            device: device.clone(),
            source: e.to_string(),
        })?;
        Ok(Self {
            kernels,
            threads,
            far_threads: OnceLock::new(),
            shared_memory: shared.max(0) as u32,
            ring: Ring::new(context),
            frees: context.stream().map_err(failed)?,
            context,
            lender: Lender::new(&pool),
            pool,
            jpeg2000: OnceLock::new(),
            jpeg: OnceLock::new(),
            jpeg2000_encoders: OnceLock::new(),
            jpeg_encoders: OnceLock::new(),
            buffer: Mutex::default(),
            streams: Mutex::default(),
            lanes: Mutex::default(),
            reads: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            device,
            info,
        })
    }

    /// Makes this device the one of this thread for a while.
    pub fn enter(&self) -> Result<Current, Failure> {
        self.context.enter()
    }

    /// An event.
    pub fn event(&self) -> Result<Event, Failure> {
        self.context.event(EventKind::Plain)
    }

    /// An event that can be asked how long it took.
    pub fn timed_event(&self) -> Result<Event, Failure> {
        self.context.event(EventKind::Timed)
    }

    /// One read more is under way, as long as what this gives is alive.
    pub fn begin(&self) -> Presence<'_> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Presence { reads: &self.reads, number: 1 + self.begun.fetch_add(1, Ordering::Relaxed) }
    }

    /// Reads that share the device and the cores at this moment, the one that asks included.
    pub fn company(&self) -> usize {
        self.reads.load(Ordering::Relaxed).max(1)
    }

    /// Whether there is more than one.
    pub fn is_shared(&self) -> bool {
        self.company() > 1
    }

    /// Its memory.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Bytes that can be had: what the device has left, and what the pool keeps unused.
    pub fn free_memory(&self) -> Result<u64, Failure> {
        self.room(u64::MAX)
    }

    /// The same for one who needs no more than `enough`: what the pool keeps is known without asking the device, which
    /// takes long, and one thread after the other.
    pub fn room(&self, enough: u64) -> Result<u64, Failure> {
        let kept = self.pool.value(PoolValue::Reserved)?.saturating_sub(self.pool.value(PoolValue::Used)?);
        if kept >= enough {
            return Ok(kept);
        }
        let (free, _) = self.context.free_memory()?;
        Ok(free.saturating_add(kept))
    }

    /// States of nvJPEG2000, or why there are none.
    pub fn jpeg2000(&self) -> Result<&States<nvjpeg2k::Decoder>, &str> {
        let made = self.jpeg2000.get_or_init(|| {
            let library = Nvjpeg2k::get().map_err(ToString::to_string)?;
            let decoder = self.prepared(|| nvjpeg2k::Decoder::new(library, self.context, self.lender))?;
            Ok(States::new(decoder, JPEG2000_STATES))
        });
        made.as_ref().map_err(String::as_str)
    }

    /// States of nvJPEG, or why there are none.
    pub fn jpeg(&self) -> Result<&States<nvjpeg::Decoder>, &str> {
        let made = self.jpeg.get_or_init(|| {
            let library = Nvjpeg::get().map_err(ToString::to_string)?;
            let decoder = self.prepared(|| nvjpeg::Decoder::new(library, self.context, self.lender))?;
            Ok(States::new(decoder, JPEG_STATES))
        });
        made.as_ref().map_err(String::as_str)
    }

    /// States of nvJPEG2000 that encode, or why there are none.
    pub fn jpeg2000_encoders(&self) -> Result<&States<nvjpeg2k::Encoder>, &str> {
        let made = self.jpeg2000_encoders.get_or_init(|| {
            let library = Nvjpeg2k::get().map_err(ToString::to_string)?;
            let encoder = self.prepared(|| nvjpeg2k::Encoder::new(library, self.context, self.lender))?;
            Ok(States::new(encoder, ENCODE_STATES))
        });
        made.as_ref().map_err(String::as_str)
    }

    /// States of nvJPEG that encode, or why there are none.
    pub fn jpeg_encoders(&self) -> Result<&States<nvjpeg::Encoder>, &str> {
        let made = self.jpeg_encoders.get_or_init(|| {
            let library = Nvjpeg::get().map_err(ToString::to_string)?;
            let encoder = self.prepared(|| nvjpeg::Encoder::new(library, self.context, self.lender))?;
            Ok(States::new(encoder, ENCODE_STATES))
        });
        made.as_ref().map_err(String::as_str)
    }

    /// What a library makes with this device as the thread's own.
    fn prepared<T>(&self, make: impl FnOnce() -> Result<T, Refusal>) -> Result<T, String> {
        let _current = self.enter().map_err(|failure| failure.to_string())?;
        make().map_err(|(Refusal::Data(failure) | Refusal::Failed(failure))| failure.to_string())
    }

    /// Streams for one read, used before or new: one lane at least.
    pub fn take_streams(&self) -> Result<Streams, Failure> {
        if let Some(streams) = self.streams.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(streams);
        }
        let (verdict, end) = (self.context.pinned(4096)?, self.context.event(EventKind::Quiet)?);
        let mut streams = Streams { lanes: Vec::new(), joins: Vec::new(), begins: Vec::new(), verdict, end };
        self.widen(&mut streams, 1)?;
        Ok(streams)
    }

    /// Gives a read as many lanes. They are made when they are needed: the device runs so many streams side by side and no
    /// more, and those that nobody uses count.
    pub fn widen(&self, streams: &mut Streams, lanes: usize) -> Result<(), Failure> {
        while streams.lanes.len() < lanes {
            let (join, begin) = (self.event()?, self.event()?);
            streams.lanes.push(self.context.stream()?);
            streams.joins.push(join);
            streams.begins.push(begin);
        }
        Ok(())
    }

    /// Memory of `length` bytes at least that storage can write to: the one that is kept where it suffices.
    pub fn take_buffer(&self, library: &'static CuFile, length: u64) -> Result<Buffer, Failure> {
        let kept = self.buffer.lock().unwrap_or_else(PoisonError::into_inner).take();
        match kept.filter(|buffer| buffer.memory().length() >= length) {
            Some(buffer) => Ok(buffer),
            None => {
                let length = length.next_multiple_of(BUFFER_STEP);
                // What the pool keeps unused is in the way of memory outside of it.
                let memory = self.context.plain(length).or_else(|_| {
                    self.pool.trim()?;
                    self.context.plain(length)
                })?;
                Ok(library.buffer(memory))
            }
        }
    }

    /// Gives it back; the larger one is kept.
    pub fn give_buffer(&self, buffer: Buffer) {
        let mut kept = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|kept| kept.memory().length() < buffer.memory().length()) {
            *kept = Some(buffer);
        }
    }

    /// Gives streams back. Work may still be in them: what comes next is in order behind it.
    pub fn give_streams(&self, streams: Streams) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).push(streams);
    }

    /// A lane of a write, used before or new.
    pub fn take_lane(&self) -> Result<Lane, Failure> {
        if let Some(lane) = self.lanes.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(lane);
        }
        let event = || self.event();
        let notes = self.context.pinned(NOTES)?;
        Ok(Lane { stream: self.context.stream()?, ready: event()?, known: event()?, free: event()?, notes })
    }

    /// Gives a lane back, with no work in it any more.
    pub fn give_lane(&self, lane: Lane) {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
    }

    /// What a refusal of the driver means for a file.
    pub fn refused(&self, name: &Arc<str>, failure: &Failure) -> Error {
        refused(name, &self.device, failure)
    }
}

fn refused(name: &Arc<str>, device: &str, failure: &Failure) -> Error {
    Error::Device { name: name.clone(), device: device.to_owned(), source: failure.to_string() }
}

/// Slots of page-locked memory that bytes pass through on their way to the device.
///
/// A slot is taken, filled, copied and given back with an event; who takes it next waits for that event, and for
/// nothing else.
pub struct Ring {
    context: Context,
    state: Mutex<RingState>,
    back: Condvar,
}

#[derive(Default)]
struct RingState {
    /// Slots given back, the oldest first: its copy is done soonest.
    idle: VecDeque<Slot>,
    made: usize,
}

/// Threads that fill slots.
fn crew(threads: usize, name: &'static str) -> Result<ThreadPool, rayon::ThreadPoolBuildError> {
    ThreadPoolBuilder::new().num_threads(threads).thread_name(move |i| format!("tiffjet-{name}-{i}")).build()
}

/// One slot.
pub struct Slot {
    /// Its memory.
    pub memory: Pinned,
    /// When its last copy is done: for one who is in a hurry, and for one who leaves the core to others.
    done: [Event; 2],
    /// Which of them has a copy before it.
    copied: Option<usize>,
    /// The read whose copy that is; 0 for none.
    read: u64,
}

impl Slot {
    /// The stream has a copy from it. Whoever waits for that sleeps where it is to be quiet.
    pub fn copied(&mut self, stream: &Stream, quiet: bool) -> Result<(), Failure> {
        self.copied_for(0, stream, quiet)
    }

    /// The same for a read, which tells when all its copies are done.
    pub fn copied_for(&mut self, read: u64, stream: &Stream, quiet: bool) -> Result<(), Failure> {
        let which = usize::from(quiet);
        (self.copied, self.read) = (Some(which), read);
        self.done[which].record(stream)
    }

    /// Waits for its copy.
    pub fn settle(&mut self) -> Result<(), Failure> {
        if let Some(which) = self.copied {
            self.done[which].wait()?;
            self.copied = None;
        }
        Ok(())
    }
}

impl Ring {
    fn new(context: Context) -> Self {
        Self { context, state: Mutex::default(), back: Condvar::new() }
    }

    /// Takes a slot that can be filled. Who has one already takes the next by [`Ring::take_free`]: those who wait with
    /// slots in their hands can wait for each other.
    pub fn take(&self) -> Result<Slot, Failure> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match self.next(state) {
                Ok(slot) => return slot,
                Err(none) => state = self.back.wait(none).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Takes a slot that can be filled, where nobody has to give one back for it.
    pub fn take_free(&self) -> Result<Option<Slot>, Failure> {
        self.next(self.state.lock().unwrap_or_else(PoisonError::into_inner)).map_or(Ok(None), |slot| slot.map(Some))
    }

    /// An idle slot or a new one; the lock again where there is neither.
    fn next<'a>(
        &self,
        mut state: MutexGuard<'a, RingState>,
    ) -> Result<Result<Slot, Failure>, MutexGuard<'a, RingState>> {
        // Waiting for a copy takes less time than making a slot, as long as there are a few.
        let enough = state.made >= SLOTS / 2 || state.idle.front().is_some_and(|slot| slot.is_settled());
        if enough && let Some(mut slot) = state.idle.pop_front() {
            drop(state);
            return Ok(match slot.settle() {
                Ok(()) => Ok(slot),
                Err(failure) => {
                    // Whoever asks next shall hear of it too, and not wait for a slot that never comes.
                    self.give_back(slot);
                    Err(failure)
                }
            });
        }
        if state.made == SLOTS {
            return Err(state);
        }
        state.made += 1;
        drop(state);
        Ok(self.make().inspect_err(|_| self.lose()))
    }

    /// All copies of a read are done: whoever takes one of its slots next need not ask the driver. Many who do at once wait
    /// for each other.
    pub fn settled(&self, read: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.idle.iter_mut().filter(|slot| slot.read == read).for_each(|slot| slot.copied = None);
    }

    /// Gives it back.
    pub fn give_back(&self, slot: Slot) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).idle.push_back(slot);
        self.back.notify_one();
    }

    fn make(&self) -> Result<Slot, Failure> {
        let done = [self.context.event(EventKind::Plain)?, self.context.event(EventKind::Quiet)?];
        Ok(Slot { memory: self.context.pinned(SLOT)?, done, copied: None, read: 0 })
    }

    fn lose(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).made -= 1;
        self.back.notify_one();
    }
}

impl Slot {
    fn is_settled(&self) -> bool {
        self.copied.is_none_or(|which| self.done[which].is_done().unwrap_or(true))
    }
}
