//! From files to device memory: threads fill slots of the pinned ring, each slot is one large copy.
//!
//! All loads of a pass are there for the taking at once. A load waits for nothing but its group's memory and a slot, so
//! reading, copying and decoding overlap by themselves.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tiffjet::codec::reverse_bits;
use tiffjet::{Error, ReadJob, decode_tile, interruptible, wanted};

use crate::batch::{Fill, Group, Load, What};
use crate::ffi::driver::{Failure, Stream};
use crate::memory::{Gpu, SLOT};

/// Bytes of buffers that a thread may keep from one read to the next.
const KEPT: usize = 16 << 20;
/// Who waits looks up so often.
const TICK: Duration = Duration::from_millis(100);

/// Device memory of a group that can be filled.
pub struct Opened {
    /// Where it begins.
    pub base: u64,
    /// The bytes of its tables.
    pub tables: Vec<u8>,
}

/// The loads of all groups of a pass, and how far they are.
pub struct Fetch<'a> {
    gpu: &'a Gpu,
    jobs: &'a [ReadJob<'a>],
    groups: &'a [Group],
    opened: Vec<OnceLock<Opened>>,
    /// Group and load, in order.
    loads: Vec<(usize, usize)>,
    next: AtomicUsize,
    /// Where a window that can't be read does not end it all.
    keep_going: bool,
    /// Nothing is copied: how fast slots are filled.
    dry: bool,
    state: Mutex<State>,
    moved: Condvar,
    /// The same as in the state, for those who wait for other machines.
    stopped: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    /// Loads of each group that are not yet on their way.
    left: Vec<usize>,
    /// The first error of each window, by the place of its load.
    failed: BTreeMap<usize, (usize, Error)>,
    refused: Option<Failure>,
    stop: bool,
    /// Threads that have a load in hand.
    working: usize,
}

/// How a pass over the groups went.
#[derive(Default)]
pub struct Outcome {
    /// The first error of each window.
    pub failed: BTreeMap<usize, Error>,
    /// What the driver refused.
    pub refused: Option<Failure>,
}

thread_local! {
    /// Compressed bytes and a decoded tile that is larger than a slot.
    static BUFFERS: RefCell<(Vec<u8>, Vec<u8>)> = RefCell::default();
}

impl<'a> Fetch<'a> {
    /// For all loads of these groups.
    pub fn new(gpu: &'a Gpu, jobs: &'a [ReadJob<'a>], groups: &'a [Group], keep_going: bool, dry: bool) -> Self {
        let loads: Vec<(usize, usize)> =
            groups.iter().enumerate().flat_map(|(g, group)| (0..group.loads.len()).map(move |l| (g, l))).collect();
        let left = groups.iter().map(|group| group.loads.len()).collect();
        Self {
            gpu,
            jobs,
            groups,
            opened: groups.iter().map(|_| OnceLock::new()).collect(),
            loads,
            next: AtomicUsize::new(0),
            keep_going,
            dry,
            state: Mutex::new(State { left, ..State::default() }),
            moved: Condvar::new(),
            stopped: Arc::default(),
        }
    }

    /// How many loads there are.
    pub fn loads(&self) -> usize {
        self.loads.len()
    }

    /// The memory of a group is there.
    pub fn open(&self, group: usize, opened: Opened) {
        // A group is opened once, by the one thread that conducts.
        let _ = self.opened[group].set(opened);
        drop(self.lock());
        self.moved.notify_all();
    }

    /// The memory of a group, once there.
    pub fn opened(&self, group: usize) -> Option<&Opened> {
        self.opened[group].get()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all loads of a group are on their way; `false` when that will not be.
    pub fn wait(&self, group: usize) -> bool {
        let mut state = self.lock();
        while state.left[group] > 0 && !state.stop {
            state = self.moved.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
            // Who waits for other machines may want no more.
            if !self.keep_going
                && let Some(Err(error)) = self.jobs.first().map(|job| wanted(job.source.name()))
            {
                drop(state);
                self.fail(0, 0, error);
                state = self.lock();
            }
        }
        !state.stop
    }

    /// Ends it, because of the driver or because all is done.
    pub fn stop(&self, refused: Option<Failure>) {
        let mut state = self.lock();
        state.stop = true;
        self.stopped.store(true, Ordering::Relaxed);
        state.refused = state.refused.take().or(refused);
        drop(state);
        self.moved.notify_all();
    }

    /// How it went.
    pub fn outcome(self) -> Outcome {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let failed = state.failed.into_iter().map(|(job, (_, error))| (job, error)).collect();
        Outcome { failed, refused: state.refused }
    }

    /// Takes load after load until none is left. `lane` tells the stream of a group.
    pub fn work(&self, lane: &(dyn Fn(usize) -> &'a Stream + Sync)) {
        let stopped = self.stopped.clone();
        let work = || self.gpu.enter().and_then(|_current| self.work_through(lane));
        if let Err(failure) = interruptible(move || stopped.load(Ordering::Relaxed), work) {
            self.stop(Some(failure));
        }
    }

    /// Takes the loads of one group, the next one, on this thread.
    pub fn work_alone(&self, lane: &(dyn Fn(usize) -> &'a Stream + Sync), group: usize) -> Result<(), Failure> {
        let Some(opened) = self.opened(group) else { return Ok(()) };
        for load in 0..self.groups[group].loads.len() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            self.load(number, group, load, opened, lane(group))?;
            self.lock().left[group] -= 1;
        }
        Ok(())
    }

    /// After a stop: waits until no thread puts anything into a stream any more.
    pub fn settle(&self) {
        let mut state = self.lock();
        while state.working > 0 {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn work_through(&self, lane: &(dyn Fn(usize) -> &'a Stream + Sync)) -> Result<(), Failure> {
        loop {
            let i = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(&(group, load)) = self.loads.get(i) else { return Ok(()) };
            let Some(opened) = self.wait_open(group) else { return Ok(()) };
            let loaded = self.load(i, group, load, opened, lane(group));
            let mut state = self.lock();
            // Before the group counts as loaded: nobody may launch what is not there.
            state.stop |= loaded.is_err();
            state.working -= 1;
            state.left[group] -= 1;
            let tell = state.left[group] == 0 || state.stop;
            drop(state);
            if tell {
                self.moved.notify_all();
            }
            loaded?;
        }
    }

    fn wait_open(&self, group: usize) -> Option<&Opened> {
        let mut state = self.lock();
        loop {
            if state.stop {
                return None;
            }
            if let Some(opened) = self.opened[group].get() {
                state.working += 1;
                return Some(opened);
            }
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn load(&self, number: usize, group: usize, load: usize, opened: &Opened, stream: &Stream) -> Result<(), Failure> {
        let load = &self.groups[group].loads[load];
        let at = self.groups[group].image_at(opened.base, load.at);
        if load.length > SLOT as u64 {
            return self.load_large(number, load, at, stream);
        }
        let mut slot = self.gpu.ring.take()?;
        let length = load.length as usize;
        self.fill(number, load, opened, &mut slot.memory.bytes_mut()[..length]);
        let copied = match self.dry {
            true => Ok(()),
            false => stream.upload(&slot.memory, 0, length, at).and_then(|()| slot.copied(stream)),
        };
        self.gpu.ring.give_back(slot);
        copied
    }

    /// A decoded tile that is larger than a slot passes through several.
    fn load_large(&self, number: usize, load: &Load, at: u64, stream: &Stream) -> Result<(), Failure> {
        let Some(Fill { what: What::Tile { job, tile }, .. }) = load.fills.first() else { return Ok(()) };
        BUFFERS.with_borrow_mut(|(encoded, decoded)| {
            decoded.clear();
            decoded.resize(load.length as usize, 0);
            if let Err(error) = self.decode(*job, *tile, encoded, decoded) {
                self.fail(number, *job, error);
            }
            let outcome = decoded.chunks(SLOT).enumerate().try_for_each(|(i, piece)| {
                let mut slot = self.gpu.ring.take()?;
                slot.memory.bytes_mut()[..piece.len()].copy_from_slice(piece);
                let to = at + (i * SLOT) as u64;
                let copied = stream.upload(&slot.memory, 0, piece.len(), to).and_then(|()| slot.copied(stream));
                self.gpu.ring.give_back(slot);
                copied
            });
            shed(encoded, decoded);
            outcome
        })
    }

    /// Fills a slot. What can't be read or decoded is the failure of its window.
    fn fill(&self, number: usize, load: &Load, opened: &Opened, mut slot: &mut [u8]) {
        let mut at = 0;
        // Parts of one file in a row are one request.
        let mut asked: Vec<(u64, bool, &mut [u8])> = Vec::new();
        let mut of = 0;
        for fill in &load.fills {
            let (gap, length) = ((fill.at - at) as usize, fill.length as usize);
            let (part, rest) = std::mem::take(&mut slot)[gap..].split_at_mut(length);
            (slot, at) = (rest, fill.at + fill.length);
            match fill.what {
                What::File { job, start, reversed } => {
                    if job != of {
                        self.read(number, of, &mut asked);
                        of = job;
                    }
                    asked.push((start, reversed, part));
                }
                What::Tables { start } => part.copy_from_slice(&opened.tables[start as usize..][..length]),
                What::Tile { job, tile } => BUFFERS.with_borrow_mut(|(encoded, decoded)| {
                    if let Err(error) = self.decode(job, tile, encoded, part) {
                        self.fail(number, job, error);
                    }
                    shed(encoded, decoded);
                }),
            }
        }
        self.read(number, of, &mut asked);
    }

    fn read(&self, number: usize, job: usize, asked: &mut Vec<(u64, bool, &mut [u8])>) {
        if asked.is_empty() {
            return;
        }
        let reversed: Vec<bool> = asked.iter().map(|(_, reversed, _)| *reversed).collect();
        let (ranges, mut parts): (Vec<_>, Vec<_>) =
            asked.drain(..).map(|(start, _, part)| (start..start + part.len() as u64, part)).unzip();
        if let Err(error) = self.jobs[job].source.read(&ranges, &mut parts, &mut |_| ()) {
            return self.fail(number, job, error);
        }
        parts.iter_mut().zip(reversed).filter(|(_, reversed)| *reversed).for_each(|(part, _)| reverse_bits(part));
    }

    /// Reads and decodes a tile on the host.
    fn decode(&self, job: usize, tile: usize, encoded: &mut Vec<u8>, out: &mut [u8]) -> tiffjet::Result<()> {
        let ReadJob { source, plan } = self.jobs[job];
        let tile = &plan.tiles()[tile];
        let length = (tile.range.end - tile.range.start) as usize;
        if encoded.len() < length {
            encoded.resize(length, 0);
        }
        let encoded = &mut encoded[..length];
        source.read_range(tile.range.clone(), encoded)?;
        decode_tile(plan.layout(), tile, encoded, out).map_err(|cause| plan.failure(source.name(), tile, cause))
    }

    fn fail(&self, number: usize, job: usize, error: Error) {
        let mut state = self.lock();
        // What was cut off by a failure elsewhere is no failure of its own.
        if state.stop && matches!(error, Error::Cancelled { .. }) {
            return;
        }
        state.stop |= !self.keep_going;
        self.stopped.fetch_or(!self.keep_going, Ordering::Relaxed);
        if state.failed.get(&job).is_none_or(|(first, _)| number < *first) {
            state.failed.insert(job, (number, error));
        }
        drop(state);
        self.moved.notify_all();
    }
}

/// Lets go of buffers that have become huge.
fn shed(encoded: &mut Vec<u8>, decoded: &mut Vec<u8>) {
    for buffer in [encoded, decoded] {
        if buffer.capacity() > KEPT {
            *buffer = Vec::new();
        }
    }
}
