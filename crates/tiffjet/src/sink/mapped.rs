//! Bytes into a file in memory, faster than one writer puts them there.
//!
//! Half of what such a file costs is finding pages for it, and the kernel lets one at a time do so. So a thread does nothing
//! else, from the moment on when it is known about how long the file will be, and several copy bytes through a mapping behind
//! it. Where there are no pages left, finding them is what fails, with an answer: nobody touches a page that is not there,
//! which would be a signal. (Asking for pages through the mapping, `MADV_POPULATE_WRITE`, takes a lock of the whole process: eight
//! threads that do so are slower than one that finds and eight that copy.)

#![allow(unsafe_code)] // maps a part of a file and gives it back

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Resource, getrlimit};

/// The least that is worth waking threads for.
pub(super) const LEAST: usize = 1 << 20;
/// What one thread copies at a time: whole pages of every size that processors have.
const PIECE: u64 = 128 << 10;
/// Bytes that are copied together, while pages for the next are found.
const GRAIN: u64 = 8 << 20;
/// Pages that are found at once: others can touch the file in between.
const STEP: u64 = 2 << 20;
/// Pages for so many bytes are found ahead of those that come: what is expected may be wrong.
const AHEAD: u64 = 128 << 20;
/// Bytes of a file that are mapped at once.
const WINDOW: u64 = 1 << 30;
/// More threads are in each other's way.
const THREADS: usize = 8;

/// A file in memory that may have room for more than is written.
#[derive(Debug)]
pub(super) struct Room {
    search: Arc<Search>,
    /// Who finds pages ahead.
    searcher: Option<JoinHandle<()>>,
    mapped: Option<Mapped>,
}

/// The search for pages, and those who wait for it.
#[derive(Debug, Default)]
struct Search {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes that pages are to be found for, in the end.
    wanted: u64,
    /// Bytes that are written, or about to be.
    taken: u64,
    /// Bytes that have them.
    ready: u64,
    /// No more can be had.
    failed: bool,
    stop: bool,
}

impl Search {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds pages until it is told to stop.
    fn run(&self, file: &File) {
        let mut state = self.lock();
        while !state.stop && !state.failed {
            let end = state.wanted.min(state.taken + AHEAD);
            if state.ready >= end {
                state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let step = state.ready..end.min(state.ready + STEP);
            drop(state);
            let found = find(file, step.clone());
            state = self.lock();
            match found {
                Ok(()) => state.ready = step.end,
                Err(_) => state.failed = true,
            }
            self.moved.notify_all();
        }
    }

    /// Waits until there are pages for so many bytes; `false` when there will be none.
    fn wait(&self, bytes: u64) -> bool {
        let mut state = self.lock();
        state.wanted = state.wanted.max(bytes);
        state.taken = bytes;
        self.moved.notify_all();
        while state.ready < bytes && !state.failed {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.ready >= bytes
    }
}

impl Room {
    /// For a file of which nothing is mapped yet; `None` where there are no threads for it.
    pub(super) fn new() -> Option<Self> {
        threads().map(|_| Self { search: Arc::default(), searcher: None, mapped: None })
    }

    /// The file will have about so many bytes. From now on it may be longer than what was written to it.
    pub(super) fn expect(&mut self, file: &File, bytes: u64) {
        // More than a process may write ends it, even if it is never written.
        let most = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        self.search.lock().wanted = bytes.min(most);
        self.search.moved.notify_all();
        if self.searcher.is_none()
            && let Ok(own) = file.try_clone()
        {
            let shared = self.search.clone();
            let builder = std::thread::Builder::new().name("tiffjet-room".into());
            // Without it, who copies asks for pages.
            self.searcher = builder.spawn(move || shared.run(&own)).ok();
        }
    }

    /// Writes parts, one after the other from `at` on. `false` where that is not possible, with any bytes behind `at`.
    pub(super) fn write(&mut self, file: &File, at: u64, parts: &[&[u8]]) -> bool {
        let end = at + parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let Some(threads) = threads() else { return false };
        let search = self.searcher.as_ref().map(|_| &*self.search);
        copy(threads, file, (search, &mut self.mapped), at..end, parts).is_ok()
    }

    /// As if there were no more pages, and none had been found.
    #[cfg(test)]
    pub(super) fn give_up(&self) {
        let mut state = self.search.lock();
        (state.failed, state.ready) = (true, 0);
    }

    /// No more is written: gives what takes a while to be taken away.
    pub(super) fn end(mut self) -> Option<Mapped> {
        self.stop();
        self.mapped.take()
    }

    fn stop(&mut self) {
        self.search.lock().stop = true;
        self.search.moved.notify_all();
        if let Some(searcher) = self.searcher.take() {
            let _ = searcher.join();
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A part of a file as memory.
#[derive(Debug)]
pub(super) struct Mapped {
    address: *mut u8,
    window: Range<u64>,
}

// SAFETY: an address range that nobody else has, used through `&self` for disjoint pieces only.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// The part of a file that has the byte at `at`.
    fn new(file: &File, at: u64) -> io::Result<Self> {
        let start = at - at % PIECE;
        let (access, length) = (ProtFlags::READ | ProtFlags::WRITE, WINDOW as usize);
        // SAFETY: a new mapping at an address that the system chooses.
        let address = unsafe { mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, file, start)? };
        Ok(Self { address: address.cast(), window: start..start + WINDOW })
    }

    /// Copies parts, which stand one after the other from `at` on, as far as a piece of the file reaches. The piece has pages.
    fn fill(&self, piece: Range<u64>, at: u64, parts: &[&[u8]], starts: &[u64]) {
        let place = self.address.wrapping_add((piece.start - self.window.start) as usize);
        let (first, end) = (piece.start - at, piece.end - at);
        let mut next = starts.partition_point(|&start| start <= first).saturating_sub(1);
        let mut done = first;
        while done < end {
            let from = &parts[next][(done - starts[next]) as usize..];
            let from = &from[..from.len().min((end - done) as usize)];
            let to = place.wrapping_add((done - first) as usize);
            // SAFETY: `to` and the bytes behind it are inside the piece, whose pages are there, and which one thread has.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
            done += from.len() as u64;
            next += 1;
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: all of it is ours, and nobody has a reference into it.
        let _ = unsafe { munmap(self.address.cast(), (self.window.end - self.window.start) as usize) };
    }
}

/// The threads that copy, where there are cores for several.
fn threads() -> Option<&'static ThreadPool> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let make = || {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (count, name) = ((cores / 2).clamp(2, THREADS), |i| format!("tiffjet-map-{i}"));
        let build = || ThreadPoolBuilder::new().num_threads(count).thread_name(name).build();
        // Tests run anywhere.
        (cores >= 4 || cfg!(test)).then(build).and_then(Result::ok)
    };
    POOL.get_or_init(make).as_ref()
}

/// Finds pages for bytes of a file, which is as long as that afterwards.
fn find(file: &File, bytes: Range<u64>) -> io::Result<()> {
    loop {
        match fallocate(file, FallocateFlags::empty(), bytes.start, bytes.end - bytes.start) {
            Err(rustix::io::Errno::INTR) => {}
            found => return Ok(found?),
        }
    }
}

/// Copies parts to bytes of a file, as soon as they have pages.
fn copy(
    threads: &ThreadPool,
    file: &File,
    (search, mapped): (Option<&Search>, &mut Option<Mapped>),
    bytes: Range<u64>,
    parts: &[&[u8]],
) -> io::Result<()> {
    let mut next = 0;
    let starts: Vec<u64> = parts.iter().map(|part| (next, next += part.len() as u64).0).collect();
    let mut done = bytes.start;
    while done < bytes.end {
        let mapping = match mapped.take().filter(|mapped| mapped.window.contains(&done)) {
            Some(mapping) => mapped.insert(mapping),
            None => mapped.insert(Mapped::new(file, done)?),
        };
        let stop = bytes.end.min(mapping.window.end).min((done / GRAIN + 1) * GRAIN);
        match search {
            Some(search) if search.wait(stop) => {}
            Some(_) => return Err(io::ErrorKind::StorageFull.into()),
            None => find(file, done..stop)?,
        }
        let (first, last) = (done / PIECE, stop.div_ceil(PIECE));
        let fill = |i: usize| {
            let start = (first + i as u64) * PIECE;
            mapping.fill(start.max(done)..(start + PIECE).min(stop), bytes.start, parts, &starts);
        };
        let pieces = 0..(last - first) as usize;
        threads.install(|| pieces.into_par_iter().with_max_len(1).for_each(fill));
        done = stop;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn pool() -> ThreadPool {
        ThreadPoolBuilder::new().num_threads(3).build().unwrap()
    }

    fn bytes(length: usize) -> Vec<u8> {
        (0..length as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
    }

    /// A room whatever the machine, and its file.
    fn room() -> (Arc<Search>, JoinHandle<()>, File) {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        let search = Arc::<Search>::default();
        let (shared, own) = (search.clone(), file.try_clone().unwrap());
        (search, std::thread::spawn(move || shared.run(&own)), file)
    }

    #[test]
    fn parts_of_all_sizes_from_any_byte_on() {
        let (search, searcher, file) = room();
        let all = bytes(22_000_000);
        file.write_all_at(&all[..777], 0).unwrap();
        let (mut mapped, mut at) = (None, 777);
        for (size, step) in [(1_000_000, 4097), (1_500_000, 1000), (19_499_223, 300_000)] {
            let part = &all[at..at + size];
            let mut parts: Vec<&[u8]> = part.chunks(step).flat_map(|part| [b"", part]).collect();
            parts.push(b"");
            copy(&pool(), &file, (Some(&*search), &mut mapped), at as u64..(at + size) as u64, &parts).unwrap();
            at += size;
        }
        search.lock().stop = true;
        search.moved.notify_all();
        searcher.join().unwrap();
        assert_eq!(file.metadata().unwrap().len(), at as u64);
        let mut found = vec![0; at];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found == all[..at]);
    }

    #[test]
    fn one_window_goes_on_where_the_other_ends() {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        let all = bytes(2_000_000);
        let mut mapped = Some(Mapped::new(&file, 0).unwrap());
        let at = WINDOW - 1_234_567;
        copy(&pool(), &file, (None, &mut mapped), at..at + all.len() as u64, &[&all]).unwrap();
        assert_eq!(mapped.unwrap().window.start, WINDOW);
        let mut found = vec![0; all.len()];
        file.read_exact_at(&mut found, at).unwrap();
        assert!(found == all);
    }

    #[test]
    fn a_page_that_cannot_be_had_is_an_answer() {
        // Where there are none, who looks for them says so, and nobody copies.
        let nowhere = File::open("/dev/null").unwrap();
        let search = Search::default();
        search.lock().wanted = 1;
        search.run(&nowhere);
        assert!(search.lock().failed && !search.wait(1));
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        let mut mapped = Some(Mapped::new(&file, 0).unwrap());
        for search in [Some(&search), None] {
            assert!(copy(&pool(), &nowhere, (search, &mut mapped), 0..9, &[b"123456789"]).is_err());
        }
        assert_eq!(file.metadata().unwrap().len(), 0);
    }
}
