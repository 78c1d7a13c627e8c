//! Reading from far away: many requests are under way, and cores decode what has arrived while the rest is on its way.
//!
//! Lanes wait for requests and never for cores; cores decode and never wait for requests. So one slow server holds up nobody
//! but who asked for its file. What is not compressed has no need of a core: lanes put it in its place. At the end a lane
//! stands in for a core that is late.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rayon::{Scope, ThreadPool};

use super::read::{Failures, RUN, Reader, drop_scratch, with_decoded};
use crate::error::{Error, Result};
use crate::interrupt::{interruptible, wanted};
use crate::plan::{Gathered, TileRead, gather};
use crate::source::{Source, lanes};
use crate::tensor::{HostBuffer, Report, Storage};

/// Compressed bytes that are under way or wait to be decoded, at most; a single request may have more.
const HELD: u64 = 128 << 20;
/// Bytes of a request that nobody wants, where the others go right to their places.
const BIN: usize = 1 << 20;
/// Bytes of pixels that memory is found for ahead, at most: what no request waits for must not take long.
const POPULATED: usize = 64 << 20;
/// Absent tiles that are filled at once.
const SPARSE: usize = 64;

/// Neighbouring tiles that one request brings.
struct Request {
    job: usize,
    range: Range<u64>,
    runs: Vec<Run>,
    /// Runs that are not done.
    left: AtomicUsize,
}

/// Tiles of a request that one core decodes.
struct Run {
    range: Range<u64>,
    /// In the order of their bytes.
    tiles: Vec<usize>,
}

impl Request {
    fn new(job: usize, gathered: Gathered, tiles: &[TileRead]) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        for number in gathered.parts {
            let range = &tiles[number].range;
            match runs.last_mut() {
                // Small ones together.
                Some(run) if range.end - run.range.start <= RUN => {
                    run.range.end = range.end;
                    run.tiles.push(number);
                }
                _ => runs.push(Run { range: range.clone(), tiles: vec![number] }),
            }
        }
        Self { job, range: gathered.range, left: AtomicUsize::new(runs.len()), runs }
    }

    fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn ranges(&self) -> Vec<Range<u64>> {
        self.runs.iter().map(|run| run.range.clone()).collect()
    }

    /// Bytes of each run; more than there can be where they can't be told.
    fn lengths(&self) -> Vec<usize> {
        self.runs.iter().map(|run| usize::try_from(run.range.end - run.range.start).unwrap_or(usize::MAX)).collect()
    }

    fn no_memory(&self, source: &dyn Source) -> Error {
        Error::limit(source.name(), "bytes of compressed tiles in memory", self.bytes(), 0)
    }
}

/// A run that has come and waits to be decoded.
struct Landed {
    request: usize,
    run: usize,
    bytes: HostBuffer,
}

struct Far<'a> {
    readers: &'a [Reader<'a>],
    requests: Vec<Request>,
    at_once: usize,
    /// Runs that may be decoded at once.
    decoders: usize,
    keep_going: bool,
    /// Who waits is one of the cores.
    from_core: bool,
    /// Nothing more is wanted.
    stop: Arc<AtomicBool>,
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Default)]
struct State {
    /// The next request to make.
    next: usize,
    under_way: usize,
    /// Bytes of all that is under way or waits to be decoded.
    held: u64,
    landed: VecDeque<Landed>,
    /// Runs that are being decoded.
    decoding: usize,
    report: Report,
    /// The first error of each window, by the place of its tile.
    failed: BTreeMap<usize, (usize, Error)>,
    cancelled: Option<Error>,
}

/// Reads the windows whose files are far away.
pub(super) fn read(
    pool: &ThreadPool,
    readers: &[Reader<'_>],
    decoders: usize,
    keep_going: bool,
) -> Result<(Report, Failures)> {
    let mut requests = Vec::new();
    let mut sparse: Vec<(usize, &TileRead)> = Vec::new();
    let mut at_once = 1;
    for (job, reader) in readers.iter().enumerate() {
        let distance = reader.source.distance();
        if !distance.is_far() {
            continue;
        }
        at_once = at_once.max(distance.at_once);
        let tiles = &reader.plan.tiles;
        let ranges: Vec<Range<u64>> = tiles.iter().map(|tile| tile.range.clone()).collect();
        let gathered = gather(&ranges, distance.gap, distance.request);
        requests.extend(gathered.into_iter().map(|gathered| Request::new(job, gathered, tiles)));
        sparse.extend(tiles.iter().filter(|tile| tile.range.is_empty()).map(|tile| (job, tile)));
    }
    if requests.is_empty() && sparse.is_empty() {
        return Ok(Default::default());
    }
    let state = Mutex::new(State::default());
    let (stop, moved) = (Arc::default(), Condvar::new());
    let from_core = pool.current_thread_index().is_some();
    let far = Far { readers, requests, at_once, decoders, keep_going, from_core, stop, state, moved };
    far.run(pool, &sparse)?;
    far.outcome(sparse.len())
}

impl<'a> Far<'a> {
    fn run(&self, pool: &ThreadPool, sparse: &[(usize, &TileRead)]) -> Result<()> {
        let lanes = if self.requests.len() > 1 { Some(lanes()?) } else { None };
        pool.in_place_scope(|cores| {
            for tiles in sparse.chunks(SPARSE) {
                cores.spawn(move |_| tiles.iter().for_each(|(job, tile)| self.readers[*job].fill(tile)));
            }
            match &lanes {
                Some(lanes) => lanes.in_place_scope(|lanes| {
                    self.start(lanes, cores);
                    self.prepare();
                    self.wait(lanes, cores);
                }),
                // The only request needs no lane.
                None => {
                    if let Some(request) = self.requests.first() {
                        self.lock().held = request.bytes();
                        self.fetch(0, cores);
                        self.decode_landed();
                    }
                }
            }
        });
        Ok(())
    }

    fn outcome(self, sparse: usize) -> Result<(Report, Failures)> {
        let mut state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.report.tiles += sparse;
        state.report.sparse += sparse;
        if let Some(error) = state.cancelled {
            return Err(error);
        }
        let mut failures: Failures = state.failed.into_iter().map(|(job, (_, error))| (job, error)).collect();
        match failures.pop_first() {
            Some((_, error)) if !self.keep_going => Err(error),
            first => {
                failures.extend(first);
                Ok((state.report, failures))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What can be done before the first byte comes.
    fn prepare(&self) {
        let mut left = POPULATED;
        for reader in self.readers.iter().filter(|reader| reader.source.distance().is_far()) {
            left = left.saturating_sub(reader.populate(left));
        }
    }

    /// Makes requests until enough are under way.
    fn start<'l, 'c: 'l>(&'c self, lanes: &Scope<'l>, cores: &'l Scope<'c>) {
        let mut state = self.lock();
        while let Some(request) = self.requests.get(state.next)
            && state.under_way < self.at_once
            && (state.held == 0 || state.held + request.bytes() <= HELD)
            && !self.stop.load(Ordering::Relaxed)
        {
            let number = state.next;
            state.next += 1;
            state.under_way += 1;
            state.held += request.bytes();
            lanes.spawn(move |lanes| {
                self.fetch(number, cores);
                self.lock().under_way -= 1;
                self.start(lanes, cores);
                self.tell();
                self.help();
            });
        }
    }

    /// Whether no request will be made any more.
    fn is_made(&self, state: &State) -> bool {
        state.next == self.requests.len() || self.stop.load(Ordering::Relaxed)
    }

    /// Wakes who waits, where there is something to do for it.
    fn tell(&self) {
        let state = self.lock();
        if self.from_core || state.under_way == 0 || !self.is_made(&state) {
            self.moved.notify_all();
        }
    }

    /// A lane that is needed no more decodes, where a core that should is not at it: one that is awake but has no turn yet
    /// may wait for milliseconds until the system moves it from a core that is busy to this one.
    fn help(&self) {
        if self.is_made(&self.lock()) {
            self.decode_landed();
            drop_scratch();
        }
    }

    /// Waits until all requests are answered, makes more as memory becomes free, and looks whether all that is still wanted.
    fn wait<'l, 'c: 'l>(&'c self, lanes: &Scope<'l>, cores: &'l Scope<'c>) {
        loop {
            // A caller who is a core itself decodes while it waits: there may be no other.
            while rayon::yield_now() == Some(rayon::Yield::Executed) {}
            let state = self.lock();
            if self.is_made(&state) && state.under_way == 0 {
                return;
            }
            let tick = Duration::from_millis(20);
            drop(self.moved.wait_timeout(state, tick).unwrap_or_else(PoisonError::into_inner));
            if let Err(error) = wanted(self.readers[0].source.name()) {
                let mut state = self.lock();
                self.stop.store(true, Ordering::Relaxed);
                state.cancelled.get_or_insert(error);
            }
            self.start(lanes, cores);
        }
    }

    /// One request; what it brings is work for the cores, as it comes.
    fn fetch<'c>(&'c self, number: usize, cores: &Scope<'c>) {
        let request = &self.requests[number];
        let reader = &self.readers[request.job];
        let bring = || match reader.is_copy() {
            true => self.scatter(number).unwrap_or_else(|| self.copy(number)),
            false => self.hand_over(number, cores),
        };
        let (landed, outcome) = match self.stop.load(Ordering::Relaxed) {
            true => (0, Err(Error::Cancelled { name: reader.source.name().clone() })),
            // A lane does not know who waits for it.
            false if self.requests.len() > 1 => {
                let stop = self.stop.clone();
                interruptible(move || stop.load(Ordering::Relaxed), bring)
            }
            false => bring(),
        };
        self.lock().report.bytes_read += request.bytes();
        if let Err(error) = outcome {
            // The first tile of the image that it would have brought is the one to name.
            let first = request.runs.iter().flat_map(|run| &run.tiles).copied().min().unwrap_or(0);
            self.fail(request.job, first, error);
        }
        self.done(number, request.runs.len() - landed);
    }

    /// Fetches the runs of a request side by side in memory; each is decoded by a core. Tells how many came.
    fn hand_over<'c>(&'c self, number: usize, cores: &Scope<'c>) -> (usize, Result<()>) {
        let request = &self.requests[number];
        let source = self.readers[request.job].source;
        let Some(parts) = HostBuffer::take_parts(&request.lengths()) else {
            return (0, Err(request.no_memory(source)));
        };
        let mut parts: Vec<Option<HostBuffer>> = parts.into_iter().map(Some).collect();
        let mut landed = 0;
        let outcome = source.deliver(&request.ranges(), &mut |i| parts.get_mut(i)?.take(), &mut |i, bytes| {
            landed += 1;
            self.lock().landed.push_back(Landed { request: number, run: i, bytes });
            cores.spawn(|_| self.decode_landed());
        });
        (landed, outcome)
    }

    /// Fetches the rows of all tiles of a request right into their places; `None` where something must be done with some.
    fn scatter(&self, number: usize) -> Option<(usize, Result<()>)> {
        let request = &self.requests[number];
        let reader = &self.readers[request.job];
        let tiles = || request.runs.iter().flat_map(|run| &run.tiles).map(|&tile| &reader.plan.tiles[tile]);
        if request.bytes() > reader.source.distance().request {
            return None;
        }
        // What lies between tiles, and rows of them that nobody wants.
        let placed: u64 = tiles().map(|tile| reader.placed_bytes(tile)).sum::<Option<u64>>()?;
        let mut bin = vec![0; usize::try_from(request.bytes().checked_sub(placed)?).ok().filter(|&n| n <= BIN)?];
        let (mut pieces, mut rest) = (Vec::new(), &mut bin[..]);
        let mut at = request.range.start;
        for tile in tiles() {
            let (gap, left) = rest.split_at_mut_checked(usize::try_from(tile.range.start.checked_sub(at)?).ok()?)?;
            rest = left;
            pieces.push(IoSliceMut::new(gap));
            at = tile.range.start + reader.places(tile, |place| pieces.push(IoSliceMut::new(place)))?;
        }
        pieces.push(IoSliceMut::new(rest));
        if let Err(error) = reader.source.scatter(request.range.clone(), &mut pieces) {
            return Some((0, Err(error)));
        }
        tiles().for_each(|tile| reader.swap_placed(tile));
        self.lock().report.tiles += tiles().count();
        self.done(number, request.runs.len());
        Some((request.runs.len(), Ok(())))
    }

    /// Fetches the runs of a request one after the other into the same memory, and puts each in its place while it is in
    /// the cache of this core: that is done before another core is awake.
    fn copy(&self, number: usize) -> (usize, Result<()>) {
        let request = &self.requests[number];
        let source = self.readers[request.job].source;
        let lengths = request.lengths();
        let most = lengths.iter().copied().max().unwrap_or(0);
        let spare = Cell::new(None);
        let mut landed = 0;
        let mut memory = |i: usize| match spare.take() {
            Some(bytes) => HostBuffer::fit(bytes, lengths[i]),
            None => HostBuffer::take(most)?.fit(lengths[i]),
        };
        let outcome = source.deliver(&request.ranges(), &mut memory, &mut |i, bytes| {
            landed += 1;
            self.decode(number, i, &bytes);
            spare.set(Some(bytes));
            self.done(number, 1);
        });
        (landed, outcome)
    }

    /// Decodes what has come, as long as there is some and not enough others do.
    fn decode_landed(&self) {
        while let Some((Landed { request, run, bytes }, turn)) = self.next_landed() {
            self.decode(request, run, &bytes);
            drop(bytes);
            drop(turn);
            self.done(request, 1);
        }
    }

    /// Nobody is needed any more where there is none: who has a turn comes back before it goes.
    fn next_landed(&self) -> Option<(Landed, Turn<'_, 'a>)> {
        let mut state = self.lock();
        if state.decoding >= self.decoders {
            return None;
        }
        let landed = state.landed.pop_front()?;
        state.decoding += 1;
        Some((landed, Turn(self)))
    }

    fn decode(&self, number: usize, run: usize, bytes: &HostBuffer) {
        let request = &self.requests[number];
        let run = &request.runs[run];
        let reader = &self.readers[request.job];
        let done = with_decoded(|decoded| {
            let mut done = 0;
            for &number in &run.tiles {
                if self.stop.load(Ordering::Relaxed) {
                    break;
                }
                let tile = &reader.plan.tiles[number];
                if let Err(error) = reader.tile(tile, run.range.start, bytes.host().unwrap_or_default(), decoded) {
                    self.fail(request.job, number, error);
                }
                done += 1;
            }
            done
        });
        self.lock().report.tiles += done;
    }

    /// So many runs of a request are decoded, or will never come.
    fn done(&self, number: usize, runs: usize) {
        if runs > 0 && self.requests[number].left.fetch_sub(runs, Ordering::AcqRel) == runs {
            self.release(number);
        }
    }

    /// The tiles of a request are done with.
    fn release(&self, number: usize) {
        self.lock().held -= self.requests[number].bytes();
        self.tell();
    }

    fn fail(&self, job: usize, tile: usize, error: Error) {
        let mut state = self.lock();
        // What was cut off by a failure elsewhere is no failure of its own.
        if matches!(error, Error::Cancelled { .. }) && self.stop.load(Ordering::Relaxed) {
            return;
        }
        self.stop.fetch_or(!self.keep_going, Ordering::Relaxed);
        if state.failed.get(&job).is_none_or(|(first, _)| tile < *first) {
            state.failed.insert(job, (tile, error));
        }
    }
}

/// The right to decode one of the runs.
struct Turn<'a, 'f>(&'a Far<'f>);

impl Drop for Turn<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().decoding -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use rayon::ThreadPoolBuilder;
    use tiffjet_testkit::{Compression, Tiff};

    use super::*;
    use crate::backend::ReadJob;
    use crate::source::{Distance, MemorySource, Version};
    use crate::{Image, OpenOptions, Window};

    /// Bytes in memory that are said to be elsewhere.
    struct Distant(Arc<dyn Source>);

    impl Source for Distant {
        fn name(&self) -> &Arc<str> {
            self.0.name()
        }
        fn version(&self) -> &Version {
            self.0.version()
        }
        fn read(&self, ranges: &[Range<u64>], out: &mut [&mut [u8]], landed: &mut dyn FnMut(usize)) -> Result<()> {
            self.0.read(ranges, out, landed)
        }
        fn distance(&self) -> Distance {
            Distance::FAR
        }
    }

    #[test]
    fn lanes_stand_in_for_cores_that_are_late_and_for_no_others() {
        let file = Tiff::new(64, 64).tile(16, 16).compression(Compression::PackBits);
        let memory = Arc::new(MemorySource::new(file.build(&file.gradient())));
        let image = Image::from_source(memory, &OpenOptions::default()).unwrap();
        let plan = image.plan(&Window::default()).unwrap();
        let expected = image.read(&Window::default()).unwrap();
        let source = Distant(image.source().clone());
        let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        for busy in [false, true] {
            let mut out = vec![0; expected.bytes().unwrap().len()];
            let bytes = out.len();
            let readers = [Reader::new(&ReadJob { source: &source, plan: &plan }, &mut out, bytes)];
            let ranges: Vec<Range<u64>> = plan.tiles.iter().map(|tile| tile.range.clone()).collect();
            let gathered = gather(&ranges, u64::MAX, u64::MAX).into_iter();
            let requests: Vec<Request> = gathered.map(|one| Request::new(0, one, &plan.tiles)).collect();
            assert_eq!(requests.len(), 1);
            let state = State { next: 1, held: requests[0].bytes(), decoding: usize::from(busy), ..Default::default() };
            let (stop, moved, state) = (Arc::default(), Condvar::new(), Mutex::new(state));
            let far = Far {
                readers: &readers,
                requests,
                at_once: 1,
                decoders: 1,
                keep_going: false,
                from_core: false,
                stop,
                state,
                moved,
            };
            // The only core is not to be had until the lane has gone.
            let (free, late) = channel::<()>();
            pool.spawn(move || _ = late.recv());
            pool.in_place_scope(|cores| {
                far.fetch(0, cores);
                far.help();
                assert_eq!(far.lock().landed.is_empty(), !busy);
                assert_eq!(far.lock().report.tiles, if busy { 0 } else { 16 });
                far.lock().decoding = 0;
                drop(free);
            });
            let state = far.state.into_inner().unwrap();
            assert_eq!((state.report.tiles, state.held, state.decoding), (16, 0, 0));
            drop(readers);
            assert_eq!(Some(&out[..]), expected.bytes());
        }
    }
}
