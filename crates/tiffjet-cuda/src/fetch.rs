//! From files to device memory: threads fill slots of the pinned ring, each slot is one large copy.
//!
//! What libraries decode passes by: they get it from the threads that read it.
//!
//! All loads of a pass are there for the taking at once. A load waits for nothing but its group's memory and a slot, so
//! reading, copying and decoding overlap by themselves. Copies are put into streams by the one thread that conducts: many
//! that do would wait for each other in the driver, for longer than a copy takes. From far away they come more slowly, and
//! whoever has one puts it there: the cores have the network to look after.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tiffjet::codec::reverse_bits;
use tiffjet::{Error, ReadJob, decode_tile, interruptible, wanted};

use crate::batch::{Fill, Gift, Group, Load, What};
use crate::codec::{Coded, LIBRARY_ROUTES, Submission};
use crate::ffi::cufile::Transfer;
use crate::ffi::driver::{Event, Failure, Stream};
use crate::memory::{Gpu, SLOT, Slot};

/// Bytes of buffers that a thread may keep from one read to the next.
const KEPT: usize = 16 << 20;
/// Who waits looks up so often.
const TICK: Duration = Duration::from_millis(100);
/// So long who conducts keeps a core busy while nothing comes, and sleeps after that.
const AWAKE: Duration = Duration::from_micros(300);
/// Where there are so many threads, one that keeps a core busy is not in their way.
const MANY_THREADS: usize = 4;

/// Device memory of a group that can be filled.
pub struct Opened {
    /// Where it begins.
    pub base: u64,
    /// The bytes of its tables.
    pub tables: Vec<u8>,
}

/// What a thread takes: a part of a group.
#[derive(Debug, Clone, Copy)]
enum Task {
    Load(usize),
    Gift(usize),
    Span(usize),
}

impl Task {
    /// Whether it is on its way when its copies are.
    fn is_copied(self) -> bool {
        matches!(self, Self::Load(_))
    }
}

/// Where a group's work goes.
#[derive(Clone, Copy)]
pub struct Lane<'a> {
    /// Its stream.
    pub stream: &'a Stream,
    /// Where the group begins in it.
    pub begin: &'a Event,
}

/// Tells the lane of a group.
pub type Lanes<'a> = dyn Fn(usize) -> Lane<'a> + Sync + 'a;

/// The loads of all groups of a pass, and how far they are.
pub struct Fetch<'a> {
    gpu: &'a Gpu,
    jobs: &'a [ReadJob<'a>],
    groups: &'a [Group],
    opened: Vec<OnceLock<Opened>>,
    /// Where tiles get their statuses.
    statuses: u64,
    /// What storage writes to device memory itself, all groups' spans in order.
    transfer: Option<&'a Transfer>,
    /// The first of each group, and how many there are.
    spans: Vec<usize>,
    /// Group and what to do of it, in order.
    tasks: Vec<(usize, Task)>,
    next: AtomicUsize,
    /// Where a window that can't be read does not end it all.
    keep_going: bool,
    /// Nothing is copied: how fast slots are filled.
    dry: bool,
    /// From another machine.
    far: bool,
    /// The number of the read.
    read: u64,
    state: Mutex<State>,
    moved: Condvar,
    /// What the one who conducts waits for has happened so often.
    news: AtomicUsize,
    /// One thread does it all: nobody else conducts.
    alone: AtomicBool,
    /// The same as in the state, for those who wait for other machines.
    stopped: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    /// Tasks of each group that are not yet on their way.
    left: Vec<usize>,
    /// Slots that are to be copied, in order.
    copies: VecDeque<Copy>,
    /// Who conducts sleeps.
    asleep: bool,
    /// The first error of each window, by the place of its load.
    failed: BTreeMap<usize, (usize, Error)>,
    refused: Option<Failure>,
    stop: bool,
    /// Threads that have a load in hand.
    working: usize,
}

/// A slot that is to be copied.
struct Copy {
    slot: Slot,
    /// Bytes of it.
    length: usize,
    /// Where they go.
    to: u64,
    group: usize,
    /// It is the last of its load.
    last: bool,
}

/// A part of a file that a load needs.
struct Asked<'a> {
    job: usize,
    /// First byte.
    start: u64,
    /// The bits of each byte are turned round.
    reversed: bool,
    part: &'a mut [u8],
}

/// How a pass over the groups went.
#[derive(Default)]
pub struct Outcome {
    /// The first error of each window.
    pub failed: BTreeMap<usize, Error>,
    /// What the driver refused.
    pub refused: Option<Failure>,
    /// What storage has on its way, or had.
    pub transfer: Option<Transfer>,
}

thread_local! {
    /// Compressed bytes and a decoded tile that is larger than a slot.
    static BUFFERS: RefCell<(Vec<u8>, Vec<u8>)> = RefCell::default();
}

impl<'a> Fetch<'a> {
    /// For all loads of these groups.
    pub fn new(
        (gpu, jobs): (&'a Gpu, &'a [ReadJob<'a>]),
        groups: &'a [Group],
        (statuses, transfer): (u64, Option<&'a Transfer>),
        (read, keep_going): (u64, bool),
        dry: bool,
    ) -> Self {
        let mut spans = vec![0];
        spans.extend(groups.iter().scan(0, |all, group| {
            *all += group.spans.len();
            Some(*all)
        }));
        let calls = transfer.is_some_and(|transfer| !transfer.has_batches());
        // What storage does by itself begins at once; of the rest, what libraries get takes longest.
        let of_group = |group: &Group| {
            let spans = (0..if calls { group.spans.len() } else { 0 }).map(Task::Span);
            let gifts = (0..group.gifts.len()).map(Task::Gift);
            spans.chain(gifts).chain((0..group.loads.len()).map(Task::Load)).collect::<Vec<_>>()
        };
        let tasks: Vec<(usize, Task)> = (groups.iter().enumerate())
            .flat_map(|(g, group)| of_group(group).into_iter().map(move |task| (g, task)))
            .collect();
        let left = groups.iter().map(|group| of_group(group).len()).collect();
        Self {
            gpu,
            jobs,
            groups,
            opened: groups.iter().map(|_| OnceLock::new()).collect(),
            statuses,
            transfer,
            spans,
            tasks,
            next: AtomicUsize::new(0),
            keep_going,
            dry,
            far: jobs.iter().any(|job| job.source.distance().is_far()),
            read,
            state: Mutex::new(State { left, ..State::default() }),
            moved: Condvar::new(),
            news: AtomicUsize::new(0),
            alone: AtomicBool::new(false),
            stopped: Arc::default(),
        }
    }

    /// How much there is to take.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// How many spans there are in all groups before this one.
    pub fn spans_before(&self, group: usize) -> usize {
        self.spans[group]
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

    /// Puts copies into their streams until all tasks of a group are on their way; `false` when that will not be.
    pub fn conduct(&self, group: usize, lane: &Lanes<'_>) -> Result<bool, Failure> {
        loop {
            let mut state = self.lock();
            if state.stop || state.left[group] == 0 {
                return Ok(!state.stop);
            }
            let next = state.copies.pop_front();
            let seen = self.news.load(Ordering::Relaxed);
            drop(state);
            match next {
                Some(copy) => {
                    let stream = lane(copy.group).stream;
                    self.put(copy, stream)?;
                }
                None => self.wait(seen),
            }
        }
    }

    /// Waits for news: for a while with open eyes, where nobody else needs the core, then asleep.
    fn wait(&self, seen: usize) {
        let free = self.gpu.threads.current_num_threads() >= MANY_THREADS;
        if free && !self.far && !self.gpu.is_shared() {
            let begun = Instant::now();
            while self.news.load(Ordering::Relaxed) == seen && begun.elapsed() < AWAKE {
                std::hint::spin_loop();
            }
        }
        let mut state = self.lock();
        while self.news.load(Ordering::Relaxed) == seen {
            state.asleep = true;
            state = self.moved.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
            state.asleep = false;
            // Who waits for other machines may want no more.
            if !self.keep_going
                && let Some(Err(error)) = self.jobs.first().map(|job| wanted(job.source.name()))
            {
                drop(state);
                return self.fail(0, 0, error);
            }
        }
    }

    /// Something has happened that the one who conducts may wait for.
    fn tell(&self, state: MutexGuard<'_, State>) {
        self.news.fetch_add(1, Ordering::Relaxed);
        // Whoever takes up tasks may wait for the same.
        let sleeping = state.asleep || state.stop;
        drop(state);
        if sleeping {
            self.moved.notify_all();
        }
    }

    /// Has a slot copied, by the one who conducts unless it comes from far away.
    fn hand_over(&self, copy: Copy, stream: &Stream) -> Result<(), Failure> {
        if self.far || self.alone.load(Ordering::Relaxed) {
            return self.put(copy, stream);
        }
        let mut state = self.lock();
        state.copies.push_back(copy);
        self.tell(state);
        Ok(())
    }

    /// Puts a copy into a stream, and gives the slot back.
    fn put(&self, copy: Copy, stream: &Stream) -> Result<(), Failure> {
        let Copy { mut slot, length, to, group, last } = copy;
        let copied = match self.dry {
            true => Ok(()),
            false => (stream.upload(&slot.memory, 0, length, to))
                .and_then(|()| slot.copied_for(self.read, stream, self.gpu.is_shared())),
        };
        self.gpu.ring.give_back(slot);
        // Nobody may launch what is not there.
        if last && copied.is_ok() {
            self.lock().left[group] -= 1;
        }
        copied
    }

    /// Ends it, because of the driver or because all is done.
    pub fn stop(&self, refused: Option<Failure>) {
        let mut state = self.lock();
        state.stop = true;
        self.stopped.store(true, Ordering::Relaxed);
        state.refused = state.refused.take().or(refused);
        self.tell(state);
    }

    /// How it went.
    pub fn outcome(self) -> Outcome {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let failed = state.failed.into_iter().map(|(job, (_, error))| (job, error)).collect();
        Outcome { failed, refused: state.refused, transfer: None }
    }

    /// Takes load after load until none is left. `lane` tells the stream of a group.
    pub fn work(&self, lane: &Lanes<'_>) {
        let stopped = self.stopped.clone();
        let work = || self.gpu.enter().and_then(|_current| self.work_through(lane));
        if let Err(failure) = interruptible(move || stopped.load(Ordering::Relaxed), work) {
            self.stop(Some(failure));
        }
    }

    /// Takes all of one group, the next one, on this thread.
    pub fn work_alone(&self, lane: &Lanes<'_>, group: usize) -> Result<(), Failure> {
        self.alone.store(true, Ordering::Relaxed);
        let Some(opened) = self.opened(group) else { return Ok(()) };
        loop {
            let number = self.next.load(Ordering::Relaxed);
            let Some(&(of, task)) = self.tasks.get(number).filter(|(of, _)| *of == group) else { return Ok(()) };
            self.next.store(number + 1, Ordering::Relaxed);
            self.take(number, (of, task), opened, lane(group))?;
            self.lock().left[group] -= usize::from(!task.is_copied());
        }
    }

    /// After a stop: waits until no thread puts anything into a stream any more, and gives back what is not copied.
    pub fn settle(&self) {
        let mut state = self.lock();
        while state.working > 0 {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.copies.drain(..).for_each(|copy| self.gpu.ring.give_back(copy.slot));
    }

    fn work_through(&self, lane: &Lanes<'_>) -> Result<(), Failure> {
        loop {
            let i = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(&(group, task)) = self.tasks.get(i) else { return Ok(()) };
            let Some(opened) = self.wait_open(group) else { return Ok(()) };
            let loaded = self.take(i, (group, task), opened, lane(group));
            let mut state = self.lock();
            // Before the group counts as loaded: nobody may launch what is not there.
            state.stop |= loaded.is_err();
            state.working -= 1;
            state.left[group] -= usize::from(!task.is_copied());
            self.tell(state);
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

    fn take(
        &self,
        number: usize,
        (group, task): (usize, Task),
        opened: &Opened,
        lane: Lane<'_>,
    ) -> Result<(), Failure> {
        match task {
            Task::Span(span) => self.span(self.spans[group] + span, lane),
            Task::Load(load) => self.load(number, (group, load), opened, lane.stream),
            Task::Gift(gift) => {
                let group = &self.groups[group];
                self.give(number, group, &group.gifts[gift], opened, lane)
            }
        }
    }

    /// Has storage write a span, when its memory is free. How it went is looked at when all is done.
    fn span(&self, number: usize, lane: Lane<'_>) -> Result<(), Failure> {
        let (Some(transfer), false) = (self.transfer, self.dry) else { return Ok(()) };
        lane.begin.wait()?;
        transfer.read(number);
        Ok(())
    }

    /// Gives tiles to a library.
    fn give(&self, number: usize, group: &Group, gift: &Gift, opened: &Opened, lane: Lane<'_>) -> Result<(), Failure> {
        let tiles: Vec<Coded<'_>> = gift
            .tiles
            .iter()
            .map(|given| {
                let plan = self.jobs[given.job].plan;
                let tile = &plan.tiles()[given.tile];
                let length = (tile.range.end - tile.range.start) as usize;
                Coded { plan, rows: tile.rows, length, output: group.output_of(opened.base, given), id: given.id }
            })
            .collect();
        let read = |i: usize, out: &mut [u8]| {
            let job = gift.tiles[i].job;
            let ReadJob { source, plan } = self.jobs[job];
            let range = plan.tiles()[gift.tiles[i].tile].range.clone();
            source.read_range(range, out).map_err(|error| self.fail(number, job, error)).is_ok()
        };
        LIBRARY_ROUTES[gift.route].submit(&Submission {
            gpu: self.gpu,
            tiles: &tiles,
            output: gift.output,
            statuses: self.statuses,
            after: lane.begin,
            lane: lane.stream,
            dry: self.dry,
            read: &read,
        })
    }

    fn load(
        &self,
        number: usize,
        (group, load): (usize, usize),
        opened: &Opened,
        stream: &Stream,
    ) -> Result<(), Failure> {
        let load = &self.groups[group].loads[load];
        let to = self.groups[group].image_at(opened.base, load.at);
        if load.length > SLOT as u64 {
            return self.load_large(number, load, to, (group, stream));
        }
        let mut slot = self.gpu.ring.take()?;
        let length = load.length as usize;
        self.fill(number, load, opened, &mut slot.memory.bytes_mut()[..length]);
        self.hand_over(Copy { slot, length, to, group, last: true }, stream)
    }

    /// A decoded tile that is larger than a slot passes through several.
    fn load_large(
        &self,
        number: usize,
        load: &Load,
        to: u64,
        (group, stream): (usize, &Stream),
    ) -> Result<(), Failure> {
        let Some(Fill { what: What::Tile { job, tile }, .. }) = load.fills.first() else { return Ok(()) };
        BUFFERS.with_borrow_mut(|(encoded, decoded)| {
            decoded.clear();
            decoded.resize(load.length as usize, 0);
            if let Err(error) = self.decode(*job, *tile, encoded, decoded) {
                self.fail(number, *job, error);
            }
            let end = decoded.len();
            let outcome = decoded.chunks(SLOT).enumerate().try_for_each(|(i, piece)| {
                let mut slot = self.gpu.ring.take()?;
                let (length, done) = (piece.len(), i * SLOT);
                slot.memory.bytes_mut()[..length].copy_from_slice(piece);
                let (to, last) = (to + done as u64, done + length == end);
                self.hand_over(Copy { slot, length, to, group, last }, stream)
            });
            shed(encoded, decoded);
            outcome
        })
    }

    /// Fills a slot. What can't be read or decoded is the failure of its window.
    fn fill(&self, number: usize, load: &Load, opened: &Opened, mut slot: &mut [u8]) {
        let mut at = 0;
        // Parts of one file in a row are one request, whichever windows they are for.
        let mut asked: Vec<Asked<'_>> = Vec::new();
        for fill in &load.fills {
            let (gap, length) = ((fill.at - at) as usize, fill.length as usize);
            let (part, rest) = std::mem::take(&mut slot)[gap..].split_at_mut(length);
            (slot, at) = (rest, fill.at + fill.length);
            match fill.what {
                What::File { job, start, reversed } => {
                    if asked.last().is_some_and(|last| !self.is_one_file(last.job, job)) {
                        self.read(number, &mut asked);
                    }
                    asked.push(Asked { job, start, reversed, part });
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
        self.read(number, &mut asked);
    }

    /// Whether two windows are of one file.
    fn is_one_file(&self, a: usize, b: usize) -> bool {
        let address = |job: usize| std::ptr::from_ref(self.jobs[job].source).cast::<u8>();
        a == b || address(a) == address(b)
    }

    /// Reads parts of one file. Where that fails, each window is tried alone, to tell whose failure it is.
    fn read(&self, number: usize, asked: &mut Vec<Asked<'_>>) {
        let Some(first) = asked.first().map(|asked| asked.job) else { return };
        let alone = asked.iter().all(|asked| asked.job == first);
        match self.read_parts(asked) {
            Ok(()) => {}
            Err(error) if alone => self.fail(number, first, error),
            Err(_) => asked.chunk_by_mut(|a, b| a.job == b.job).for_each(|parts| {
                if let Err(error) = self.read_parts(parts) {
                    self.fail(number, parts[0].job, error);
                }
            }),
        }
        for asked in asked.drain(..).filter(|asked| asked.reversed) {
            reverse_bits(asked.part);
        }
    }

    fn read_parts(&self, asked: &mut [Asked<'_>]) -> tiffjet::Result<()> {
        let Some(source) = asked.first().map(|asked| self.jobs[asked.job].source) else { return Ok(()) };
        let (ranges, mut parts): (Vec<_>, Vec<_>) =
            asked.iter_mut().map(|a| (a.start..a.start + a.part.len() as u64, &mut *a.part)).unzip();
        source.read(&ranges, &mut parts, &mut |_| ())
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
        self.tell(state);
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
