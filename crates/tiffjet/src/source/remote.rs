//! A file on another machine.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::{Distance, LANES, Remote, Source, Version, deliver_together, lanes, redacted};
use crate::error::{Error, Result};
use crate::interrupt::wanted;
use crate::limits::Limits;
use crate::net::{Answer, Condition, Failure, Origin, Watch, origin, persist};
use crate::plan::{Gathered, gather, transfers};
use crate::tensor::HostBuffer;

/// A file on another machine, of a web server or an object store. Every answer is checked against what was opened: a file
/// that changes is an error, never a mixture.
pub struct RemoteSource {
    name: Arc<str>,
    origin: Box<dyn Origin>,
    remote: Remote,
    version: Version,
    /// When it changed last, as the server writes it; for those without ETags.
    modified: Option<String>,
    held: Arc<Held>,
    /// How long it took to open it.
    wait: Duration,
}

impl std::fmt::Debug for RemoteSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteSource").field("name", &self.name).field("version", &self.version).finish_non_exhaustive()
    }
}

impl RemoteSource {
    /// Opens the file of an address with one request, which brings the first bytes along. A file that this process has
    /// opened before is asked for its ETag alone.
    pub fn open(url: &str, remote: &Remote, limits: &Limits) -> Result<Self> {
        let name: Arc<str> = redacted(url).into();
        let origin = origin(&name, url, remote, limits)?;
        let key = Key::new(url, remote, limits);
        let known = cache().find(&key);
        let source = |origin, known: Known| {
            let (name, remote) = (name.clone(), remote.clone());
            let Known { version, modified, held, wait, .. } = known;
            Self { name, origin, remote, version, modified, held, wait }
        };
        if let Some(known) = known.as_ref().filter(|known| known.asked.elapsed() < remote.header_age) {
            return Ok(source(origin, known.clone()));
        }
        let etag = known.as_ref().and_then(|known| known.version.etag.as_deref());
        let condition = etag.map_or(Condition::Any, Condition::Other);
        let begun = Instant::now();
        let first = fetch_first(&name, &*origin, remote, condition);
        let (asked, wait) = (Instant::now(), begun.elapsed());
        match (first, known) {
            (Err(Failure::Unmodified), Some(known)) => {
                let known = Known { asked, wait, ..known };
                cache().touch(&key, &known);
                Ok(source(origin, known))
            }
            (first, _) => {
                let (version, modified, bytes) = first.map_err(|failure| failure.error(&name))?;
                let held = Arc::new(Held::default());
                held.add(0, &bytes.into());
                let known = Known { version, modified, held, asked, wait };
                if known.version.etag.is_some() {
                    cache().add(key, known.clone());
                }
                Ok(source(origin, known))
            }
        }
    }

    /// One request with its retries. `take` takes what an answer brings and says in its first argument how far it has come:
    /// what did arrive of a try that failed is not asked for again.
    fn ask(
        &self,
        mut range: Range<u64>,
        stop: &Arc<AtomicBool>,
        mut take: impl FnMut(&mut u64, Answer) -> std::io::Result<()>,
    ) -> Result<()> {
        let bytes = range.end - range.start;
        let watch = || Watch::new(&self.name, stop, self.remote.timeout, bytes);
        let outcome = persist(&self.remote, &watch(), || {
            let _permit = Permit::take();
            let condition = self.version.etag.as_deref().map_or(Condition::Any, Condition::Same);
            let answer = self.origin.get(range.clone(), condition, &watch())?;
            self.check(&answer)?;
            check_part(&self.name, &answer, &range)?;
            take(&mut range.start, answer).map_err(|e| Failure::of(&self.name, e))
        });
        outcome.map_err(|failure| failure.error(&self.name))
    }

    /// One request for the ranges of a delivery.
    fn fetch<M: AsMut<[u8]>>(
        &self,
        transfer: &mut Delivery<M>,
        stop: &Arc<AtomicBool>,
        memory: &mut dyn FnMut(usize) -> Option<M>,
        landed: &mut dyn FnMut(usize, M),
    ) -> Result<()> {
        self.ask(transfer.at..transfer.range.end, stop, |at, answer| {
            let taken = transfer.take(answer, memory, landed);
            *at = transfer.at;
            taken
        })
    }

    /// Whether an answer comes from the file that was opened.
    fn check(&self, answer: &Answer) -> Result<(), Failure> {
        let same = answer.total == self.version.length
            && match (&self.version.etag, &answer.etag) {
                (Some(opened), Some(now)) => opened == now,
                _ => self.modified.is_none() || answer.modified.is_none() || self.modified == answer.modified,
            };
        if same { Ok(()) } else { Err(Failure::Changed) }
    }

    /// An error for what is not in the file.
    fn is_inside(&self, range: &Range<u64>) -> Result<()> {
        match range.start <= range.end && range.end <= self.version.length {
            true => Ok(()),
            false => Err(Error::io(&self.name, std::io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Fills the memory for a range, which has its length, where nothing needs to be fetched.
    fn is_here(&self, range: &Range<u64>, out: &mut [u8]) -> Result<bool> {
        self.is_inside(range)?;
        if range.end - range.start != out.len() as u64 {
            return Err(Error::io(&self.name, std::io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(range.is_empty() || self.held.copy(range.start, out))
    }

    fn no_memory(&self) -> Error {
        Error::io(&self.name, std::io::ErrorKind::OutOfMemory.into())
    }

    /// Several requests side by side.
    fn fetch_all(&self, deliveries: Vec<Delivery<&mut [u8]>>, landed: &mut dyn FnMut(usize)) -> Result<()> {
        let stop: Arc<AtomicBool> = Arc::default();
        let lanes = lanes()?;
        // Who is in a lane already waits for nobody else's.
        if deliveries.len() == 1 || lanes.current_thread_index().is_some() {
            return deliveries
                .into_iter()
                .try_for_each(|mut delivery| self.fetch(&mut delivery, &stop, &mut |_| None, &mut |i, _| landed(i)));
        }
        let mut first = None;
        lanes.in_place_scope(|scope| {
            let (sender, receiver) = channel();
            for mut delivery in deliveries {
                let (sender, stop): (Sender<Result<usize>>, _) = (sender.clone(), stop.clone());
                scope.spawn(move |_| {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    // Nobody listens any more when it has failed elsewhere.
                    let outcome = self.fetch(&mut delivery, &stop, &mut |_| None, &mut |i, _| drop(sender.send(Ok(i))));
                    if let Err(error) = outcome {
                        drop(sender.send(Err(error)));
                    }
                });
            }
            drop(sender);
            loop {
                match receiver.recv_timeout(Duration::from_millis(100)) {
                    Ok(Ok(i)) => landed(i),
                    Ok(Err(error)) => {
                        stop.store(true, Ordering::Relaxed);
                        first.get_or_insert(error);
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        if let Err(error) = wanted(&self.name) {
                            stop.store(true, Ordering::Relaxed);
                            first.get_or_insert(error);
                        }
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        });
        first.map_or(Ok(()), Err)
    }
}

impl Source for RemoteSource {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn version(&self) -> &Version {
        &self.version
    }

    fn read(&self, ranges: &[Range<u64>], out: &mut [&mut [u8]], landed: &mut dyn FnMut(usize)) -> Result<()> {
        let mut wanted: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for (i, (range, out)) in ranges.iter().zip(out.iter_mut()).enumerate() {
            let here = self.is_here(range, out)?;
            if here {
                landed(i);
            }
            wanted.push(if here { 0..0 } else { range.clone() });
        }
        let deliveries = deliveries(&wanted, out, &self.distance());
        if deliveries.is_empty() { Ok(()) } else { self.fetch_all(deliveries, landed) }
    }

    fn deliver(
        &self,
        ranges: &[Range<u64>],
        memory: &mut dyn FnMut(usize) -> Option<HostBuffer>,
        landed: &mut dyn FnMut(usize, HostBuffer),
    ) -> Result<()> {
        let distance = self.distance();
        // What takes several requests is best read in one go: they are made side by side.
        if ranges.iter().any(|range| range.end.saturating_sub(range.start) > distance.request) {
            return deliver_together(self, ranges, memory, landed);
        }
        let mut wanted: Vec<Range<u64>> = ranges.to_vec();
        for (i, range) in wanted.iter_mut().enumerate() {
            self.is_inside(range)?;
            if range.is_empty() || self.held.has(range) {
                let mut out = memory(i).ok_or_else(|| self.no_memory())?;
                if !self.is_here(range, out.bytes_mut())? {
                    return Err(self.no_memory());
                }
                landed(i, out);
                *range = 0..0;
            }
        }
        let stop = Arc::default();
        gather(&wanted, distance.gap, distance.request)
            .into_iter()
            .try_for_each(|gathered| self.fetch(&mut Delivery::of(gathered, ranges), &stop, memory, landed))
    }

    fn scatter(&self, range: Range<u64>, out: &mut [IoSliceMut<'_>]) -> Result<()> {
        self.is_inside(&range)?;
        if range.end - range.start != out.iter().map(|piece| piece.len() as u64).sum::<u64>() {
            return Err(Error::io(&self.name, std::io::ErrorKind::UnexpectedEof.into()));
        }
        // What came with the header is not asked for again.
        let (mut start, end, mut left) = (range.start, range.end, out);
        while let Some(piece) = left.first_mut()
            && (piece.is_empty() || self.held.copy(start, piece))
        {
            start += piece.len() as u64;
            left = &mut std::mem::take(&mut left)[1..];
        }
        if start == end {
            return Ok(());
        }
        self.ask(start..end, &Arc::default(), |at, mut answer| {
            while *at < end {
                let pieces = left.len().min(PIECES);
                match answer.body.read_pieces(&mut left[..pieces])? {
                    0 => return Err(ended_early()),
                    read => {
                        *at += read as u64;
                        IoSliceMut::advance_slices(&mut left, read);
                    }
                }
            }
            no_more(&mut answer)
        })
    }

    fn distance(&self) -> Distance {
        Distance { wait: self.wait, ..Distance::FAR }
    }

    fn remember(&self, at: u64, bytes: &Arc<[u8]>) {
        self.held.add(at, bytes);
    }
}

/// What the first request brings: which file it is, and its first bytes.
fn fetch_first(
    name: &Arc<str>,
    origin: &dyn Origin,
    remote: &Remote,
    condition: Condition<'_>,
) -> Result<(Version, Option<String>, Vec<u8>), Failure> {
    let stop = Arc::default();
    let wanted = 0..Distance::FAR.head;
    let watch = || Watch::new(name, &stop, remote.timeout, wanted.end);
    persist(remote, &watch(), || {
        let _permit = Permit::take();
        let answer = origin.get(wanted.clone(), condition, &watch())?;
        check_part(name, &answer, &wanted)?;
        let version = Version { length: answer.total, modified: None, etag: answer.etag.clone() };
        let modified = answer.modified.clone();
        let mut bytes = vec![0; (answer.range.end - answer.range.start) as usize];
        let range = answer.range.clone();
        let piece = Slot { part: 0, range: range.clone(), out: Some(&mut bytes[..]), left: None };
        let mut delivery = Delivery { at: range.start, range, slots: VecDeque::from([piece]) };
        delivery.take(answer, &mut |_| None, &mut |_, _| ()).map_err(|e| Failure::of(name, e))?;
        Ok((version, modified, bytes))
    })
}

/// Whether an answer is the part that was asked for, and as long as it must be.
fn check_part(name: &Arc<str>, answer: &Answer, asked: &Range<u64>) -> Result<(), Failure> {
    let whole = asked.start..asked.end.min(answer.total);
    let wrong =
        |what: String| Failure::Final(Error::io(name, std::io::Error::new(std::io::ErrorKind::InvalidData, what)));
    if answer.range != whole {
        return Err(wrong(format!("the server sends bytes {:?} where {whole:?} are asked for", answer.range)));
    }
    let bytes = whole.end - whole.start;
    match answer.body.length() {
        Some(length) if length > bytes => {
            Err(wrong(format!("the server sends {length} bytes where {bytes} are asked for")))
        }
        // It may have been cut on the way.
        Some(length) if length < bytes => {
            let what = format!("the server sends {length} bytes where {bytes} are asked for");
            let short = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, what);
            Err(Failure::Passing(Error::io(name, short), None))
        }
        _ => Ok(()),
    }
}

/// Where a piece of a range goes.
struct Slot<M> {
    part: usize,
    range: Range<u64>,
    /// `None` until its first byte is due.
    out: Option<M>,
    /// Pieces of the range that are still to come, where it was cut.
    left: Option<Arc<AtomicUsize>>,
}

impl<M: AsMut<[u8]>> Slot<M> {
    /// The memory from a byte of the file on.
    fn room(&mut self, at: u64, memory: &mut dyn FnMut(usize) -> Option<M>) -> std::io::Result<&mut [u8]> {
        if self.out.is_none() {
            self.out = memory(self.part);
        }
        let out = self.out.as_mut().ok_or(std::io::ErrorKind::OutOfMemory)?.as_mut();
        if out.len() as u64 != self.range.end - self.range.start {
            return Err(std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                "memory of another length than its range",
            ));
        }
        Ok(&mut out[(at - self.range.start) as usize..])
    }
}

/// Pieces of memory that one call of the system fills, at most.
const PIECES: usize = 512;

/// One request, with the memory for what it brings.
struct Delivery<M> {
    range: Range<u64>,
    /// The next byte to come.
    at: u64,
    /// Those that are still to be filled.
    slots: VecDeque<Slot<M>>,
}

impl<M: AsMut<[u8]>> Delivery<M> {
    /// For whole ranges, whose memory is still to come.
    fn of(gathered: Gathered, ranges: &[Range<u64>]) -> Self {
        let Gathered { range, parts } = gathered;
        let slots = parts.into_iter().map(|part| Slot { part, range: ranges[part].clone(), out: None, left: None });
        Self { at: range.start, slots: slots.collect(), range }
    }

    /// Takes the body of an answer, from where the one before ended. What is full is given away.
    fn take(
        &mut self,
        mut answer: Answer,
        memory: &mut dyn FnMut(usize) -> Option<M>,
        landed: &mut dyn FnMut(usize, M),
    ) -> std::io::Result<()> {
        let mut bin = [0; 16 << 10];
        while self.at < self.range.end {
            let Some(slot) = self.slots.front_mut() else { break };
            let room: &mut [u8] = match self.at < slot.range.start {
                true => {
                    let gap = (slot.range.start - self.at).min(bin.len() as u64);
                    &mut bin[..gap as usize]
                }
                false => slot.room(self.at, memory)?,
            };
            let n = answer.body.read(room)?;
            if n == 0 {
                return Err(ended_early());
            }
            self.at += n as u64;
            if self.at == slot.range.end
                && let Some(Slot { part, out: Some(out), left, .. }) = self.slots.pop_front()
                && left.as_ref().is_none_or(|left| left.fetch_sub(1, Ordering::AcqRel) == 1)
            {
                landed(part, out);
            }
        }
        no_more(&mut answer)
    }
}

fn ended_early() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the response ends too early")
}

/// The end of an answer: one that has more than it should is not to be trusted with the rest.
fn no_more(answer: &mut Answer) -> std::io::Result<()> {
    match answer.body.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "the server sends more than was asked for")),
    }
}

/// Distributes memory over the requests for some ranges. A range that was cut lands with its last piece to arrive.
fn deliveries<'a>(ranges: &[Range<u64>], out: &'a mut [&mut [u8]], distance: &Distance) -> Vec<Delivery<&'a mut [u8]>> {
    let mut left: Vec<&'a mut [u8]> = out.iter_mut().map(|out| &mut **out).collect();
    let mut list = Vec::new();
    let mut cut: HashMap<usize, Arc<AtomicUsize>> = HashMap::new();
    for transfer in transfers(ranges, distance.gap, distance.request) {
        let slots = transfer.pieces.into_iter().map(|piece| {
            // Pieces of a range come in order.
            let rest = std::mem::take(&mut left[piece.part]);
            let (out, rest) = rest.split_at_mut((piece.range.end - piece.range.start) as usize);
            left[piece.part] = rest;
            let whole = &ranges[piece.part];
            let pieces = (whole.end - whole.start).div_ceil(distance.request.max(1)) as usize;
            let left = (pieces > 1).then(|| cut.entry(piece.part).or_insert_with(|| Arc::new(pieces.into())).clone());
            Slot { part: piece.part, range: piece.range, out: Some(out), left }
        });
        list.push(Delivery { at: transfer.range.start, slots: slots.collect(), range: transfer.range });
    }
    list
}

/// The right to one request: so many are under way in this process, whoever makes them.
struct Permit;

/// The process they belong to, and how many are free: a fork has none of the requests of its parent.
static PERMITS: (Mutex<(u32, usize)>, Condvar) = (Mutex::new((0, LANES)), Condvar::new());

impl Permit {
    fn take() -> Self {
        let mut permits = PERMITS.0.lock().unwrap_or_else(PoisonError::into_inner);
        if permits.0 != std::process::id() {
            *permits = (std::process::id(), LANES);
        }
        while permits.1 == 0 {
            permits = PERMITS.1.wait(permits).unwrap_or_else(PoisonError::into_inner);
        }
        permits.1 -= 1;
        Self
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        PERMITS.0.lock().unwrap_or_else(PoisonError::into_inner).1 += 1;
        PERMITS.1.notify_one();
    }
}

/// Bytes of headers kept for one file, at most.
const HELD: usize = 4 << 20;
/// Bytes of headers kept for all files together.
const KEPT: usize = 64 << 20;

/// Parts of a file that need not be asked for again.
#[derive(Default)]
struct Held(Mutex<Vec<(u64, Arc<[u8]>)>>);

impl Held {
    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Arc<[u8]>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, at: u64, bytes: &Arc<[u8]>) {
        let mut parts = self.lock();
        let held: usize = parts.iter().map(|(_, bytes)| bytes.len()).sum();
        if held + bytes.len() <= HELD && !parts.iter().any(|(start, held)| *start == at && held.len() >= bytes.len()) {
            parts.push((at, bytes.clone()));
        }
    }

    /// Whether all of a range is there.
    fn has(&self, range: &Range<u64>) -> bool {
        let holds =
            |(start, bytes): &(u64, Arc<[u8]>)| *start <= range.start && range.end - start <= bytes.len() as u64;
        self.lock().iter().any(holds)
    }

    /// Copies from what is there; `false` where it is not all there.
    fn copy(&self, at: u64, out: &mut [u8]) -> bool {
        self.lock().iter().any(|(start, bytes)| {
            let from = at.checked_sub(*start).and_then(|from| usize::try_from(from).ok());
            let Some(found) = from.and_then(|from| bytes.get(from..)?.get(..out.len())) else { return false };
            out.copy_from_slice(found);
            true
        })
    }

    fn bytes(&self) -> usize {
        self.lock().iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

/// A file that was opened before.
#[derive(Clone)]
struct Known {
    version: Version,
    modified: Option<String>,
    held: Arc<Held>,
    asked: Instant,
    /// How long it took to ask.
    wait: Duration,
}

/// An address and how it was reached. The settings may be secret: of them a number is kept that nobody can guess.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key(u64, u64);

impl Key {
    fn new(url: &str, remote: &Remote, limits: &Limits) -> Self {
        static SEEDS: OnceLock<[RandomState; 2]> = OnceLock::new();
        let [a, b] = SEEDS.get_or_init(|| [RandomState::new(), RandomState::new()]);
        let all = (url, remote.settings(), limits.private_hosts);
        Self(a.hash_one(all), b.hash_one(all))
    }
}

/// Headers of files that this process has opened, the last used at the end.
#[derive(Default)]
struct Cache(Mutex<Vec<(Key, Known)>>);

fn cache() -> &'static Cache {
    static CACHE: OnceLock<Cache> = OnceLock::new();
    CACHE.get_or_init(Cache::default)
}

impl Cache {
    fn lock(&self) -> MutexGuard<'_, Vec<(Key, Known)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, key: &Key) -> Option<Known> {
        let mut list = self.lock();
        let place = list.iter().position(|(k, _)| k == key)?;
        let found = list.remove(place);
        let known = found.1.clone();
        list.push(found);
        Some(known)
    }

    /// It was asked just now whether it has changed.
    fn touch(&self, key: &Key, asked: &Known) {
        if let Some((_, known)) = self.lock().iter_mut().find(|(k, _)| k == key) {
            (known.asked, known.wait) = (asked.asked, asked.wait);
        }
    }

    fn add(&self, key: Key, known: Known) {
        let mut list = self.lock();
        list.retain(|(k, _)| *k != key);
        list.push((key, known));
        // Headers grow while they are read, so all are counted anew.
        let mut bytes: usize = list.iter().map(|(_, known)| known.held.bytes()).sum();
        while bytes > KEPT && list.len() > 1 {
            bytes -= list.remove(0).1.held.bytes();
        }
    }
}
