//! Tiles packed and encoded, each by one core while it is in its cache.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rayon::ThreadPool;

use super::pack::Pack;
use crate::backend::{Emit, EncodeJob, EncodedRows};
use crate::codec::Plain;
use crate::error::{Error, Result};
use crate::interrupt::wanted;
use crate::plan::LevelPlan;
use crate::rows::RowsView;

/// Runs that each worker may be ahead of the one that is given next. More would only fill memory.
const AHEAD: usize = 3;
/// Bytes of pixels that are worth a worker's turn: smaller tiles are encoded several at a time.
const RUN: u64 = 64 << 10;

/// A tile of a job: tile row counted from the first one of the job, plane, column.
#[derive(Clone, Copy)]
struct Place {
    row: u32,
    plane: u16,
    col: u32,
}

/// Encodes tile rows and gives the tiles in the order of the image. While this thread gives them away, the others go
/// on.
pub(super) fn encode(pool: &ThreadPool, job: &EncodeJob<'_>, rows: RowsView<'_>, emit: &mut Emit<'_>) -> Result<()> {
    let EncodeJob { name, plan, first, .. } = *job;
    let down = (rows.rows() as u64).div_ceil(u64::from(plan.format.height)) as u32;
    let (across, planes) = (plan.across as usize, usize::from(plan.planes()));
    let count = down as usize * planes * across;
    let place = |i: usize| Place {
        row: (i / across / planes) as u32,
        plane: (i / across % planes) as u16,
        col: (i % across) as u32,
    };
    let encoder = Encoder { rows: &rows, plan, pack: Pack::new(plan), first };
    let tile = |i: usize| {
        let at = place(i);
        encoder.tile(at).map_err(|source| Error::Tile {
            name: name.clone(),
            level: plan.level,
            row: first + at.row,
            col: at.col,
            codec: plan.codec.name(),
            source,
        })
    };
    // Tiles of one tile row at a time.
    let mut give = |mut i: usize, mut tiles: Vec<Vec<u8>>| {
        wanted(name)?;
        while !tiles.is_empty() {
            let Place { row, plane, col } = place(i);
            let rest = tiles.split_off(tiles.len().min(across - col as usize));
            i += tiles.len();
            let owned = tiles.into_iter().map(Cow::Owned).collect();
            emit(EncodedRows { level: plan.level, mask: plan.mask, plane, row: first + row, col, tiles: owned })?;
            tiles = rest;
        }
        Ok(())
    };
    let bytes = plan.plain_bytes(plan.format.height).max(1);
    let run = usize::try_from(RUN / bytes).unwrap_or(1).max(1);
    let runs = count.div_ceil(run);
    let make = |i: usize| (i * run..count.min((i + 1) * run)).map(tile).collect();
    let workers = pool.current_num_threads().min(runs);
    if workers == 1 {
        return (0..runs).try_for_each(|i| give(i * run, make(i)?));
    }
    let queue = Queue::new(runs, workers * AHEAD);
    pool.in_place_scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|_| queue.work(&make));
        }
        let _stop = Stop(&queue, true);
        for i in 0..runs {
            match queue.take() {
                Some(tiles) => give(i * run, tiles?)?,
                // A worker panicked, and the scope goes on with that.
                None => break,
            }
        }
        Ok(())
    })
}

/// The tiles of one run.
type Run = Result<Vec<Vec<u8>>>;

/// Numbers for workers, and what they make of them, in order.
struct Queue {
    count: usize,
    ahead: usize,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The next number that a worker takes.
    next: usize,
    /// The number of the first of `made`.
    first: usize,
    /// Results from `first` on; `None` while they are made.
    made: VecDeque<Option<Run>>,
    stopped: bool,
}

impl Queue {
    fn new(count: usize, ahead: usize) -> Self {
        let state = State { next: 0, first: 0, made: VecDeque::new(), stopped: false };
        Self { count, ahead, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes results until there are no numbers left.
    fn work(&self, make: &impl Fn(usize) -> Run) {
        // Should it panic, nobody waits for its result.
        let _stop = Stop(self, false);
        loop {
            let mut state = self.lock();
            while state.next >= state.first + self.ahead && state.next < self.count && !state.stopped {
                state = self.wait(state);
            }
            if state.stopped || state.next >= self.count {
                break;
            }
            let i = state.next;
            state.next += 1;
            state.made.push_back(None);
            drop(state);
            let result = make(i);
            let mut state = self.lock();
            let at = i - state.first;
            state.made[at] = Some(result);
            drop(state);
            self.changed.notify_all();
        }
    }

    /// The next result; `None` when it will never come.
    fn take(&self) -> Option<Run> {
        let mut state = self.lock();
        while !matches!(state.made.front(), Some(Some(_))) {
            if state.stopped {
                return None;
            }
            state = self.wait(state);
        }
        state.first += 1;
        let result = state.made.pop_front().flatten();
        drop(state);
        self.changed.notify_all();
        result
    }
}

/// Stops everybody when it goes: always, or when its thread panics.
struct Stop<'a>(&'a Queue, bool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        if self.1 || std::thread::panicking() {
            self.0.lock().stopped = true;
            self.0.changed.notify_all();
        }
    }
}

thread_local! {
    /// A packed tile, and an encoded one with all the room that the codec wants.
    static SCRATCH: RefCell<(Vec<u8>, Vec<u8>)> = RefCell::default();
}

/// Buffers that are larger do not stay behind the user's back.
const KEPT: usize = 16 << 20;

struct Encoder<'a> {
    rows: &'a RowsView<'a>,
    plan: &'a LevelPlan,
    pack: Pack<'a>,
    first: u32,
}

impl Encoder<'_> {
    fn tile(&self, at: Place) -> Result<Vec<u8>, crate::Cause> {
        let plan = self.plan;
        let top = at.row as usize * plan.format.height as usize;
        let left = at.col as usize * plan.format.width as usize;
        let height = (self.rows.rows() - top).min(plan.format.height as usize);
        let width = (plan.width as usize - left).min(plan.format.width as usize);
        let part = self.pack.part(self.rows, at.plane, (top, left), (height, width));
        if plan.absent.as_ref().is_some_and(|value| part.is_all(value)) {
            return Ok(Vec::new());
        }
        let tile_rows = plan.rows_in_tile(self.first + at.row);
        // Bytes that are not compressed need no second place.
        if plan.format.compression == 1 {
            let mut packed = Vec::new();
            self.pack.pack(&part, tile_rows, &mut packed);
            return Ok(packed);
        }
        SCRATCH.with_borrow_mut(|(packed, encoded)| {
            self.pack.pack(&part, tile_rows, packed);
            encoded.clear();
            let plain = Plain { bytes: packed, rows: tile_rows, format: &plan.format, settings: &plan.settings };
            plan.codec.encode(&plain, encoded)?;
            let tile = encoded.to_vec();
            if packed.capacity() + encoded.capacity() > KEPT {
                (*packed, *encoded) = Default::default();
            }
            Ok(tile)
        })
    }
}
