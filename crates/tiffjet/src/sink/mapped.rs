//! A file that lives in memory, filled by many threads at once.
//!
//! The system lets one thread at a time write to a file. Where its pages are memory and nothing else, most of that
//! thread's time goes into making them; through a mapping many threads make them. Room is taken before it is touched, so
//! that a full file system is an error and no signal.

#![allow(unsafe_code)] // maps a file, and copies to places of it that nobody else touches

use std::fs::File;
use std::io::{Error, Result};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::ThreadPool;
use rustix::fs::{FallocateFlags, fallocate, fstatfs};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::cpu::Cpu;
use crate::team::together;

/// How `statfs` names file systems in memory.
const TMPFS: u64 = 0x0102_1994;
/// Fewer threads gain less than a mapping costs; more stand in each other's way.
const FEWEST: usize = 4;
const MOST: usize = 8;
/// Bytes that are worth waking other threads for, and those that a thread copies at a time.
const LARGE: usize = 512 << 10;
const PART: usize = 128 << 10;
/// Bytes of room that are taken at once, ahead of those who need them.
const STEP: u64 = 32 << 20;
/// Addresses that the first mapping has, and a multiple of which later ones have.
const SPAN: u64 = 1 << 30;

/// Such a file.
#[derive(Debug)]
pub(super) struct Mapped {
    room: Arc<Room>,
    span: Option<Span>,
    pool: Arc<ThreadPool>,
}

impl Mapped {
    /// `None` where the file is not in memory, or where cores are few.
    pub(super) fn new(file: &Arc<File>) -> Option<Self> {
        let cpu = Cpu::shared().ok().filter(|cpu| cpu.threads() >= FEWEST)?;
        Self::with(file, cpu.pool())
    }

    /// The same with these threads, however few.
    pub(super) fn with(file: &Arc<File>, pool: &Arc<ThreadPool>) -> Option<Self> {
        let system = fstatfs(file).ok()?;
        let room = Room { file: file.clone(), taken: Mutex::new(0) };
        (system.f_type as u64 == TMPFS).then(|| Self { room: Arc::new(room), span: None, pool: pool.clone() })
    }

    /// Copies pieces to their places. `false` where that is not worth it, or where they are not in order: then nothing
    /// was done.
    pub(super) fn fill(&mut self, pieces: &[(u64, &[u8])]) -> Result<bool> {
        let total: usize = pieces.iter().map(|(_, bytes)| bytes.len()).sum();
        let apart = pieces.windows(2).all(|two| two[0].0 + two[0].1.len() as u64 <= two[1].0);
        let end = pieces.last().and_then(|(at, bytes)| at.checked_add(bytes.len() as u64));
        let Some(end) = end.filter(|_| total >= LARGE && apart) else { return Ok(false) };
        self.room.take(end)?;
        if self.span.as_ref().is_none_or(|span| span.length < end) {
            self.span = None;
            self.span = Some(Span::new(&self.room.file, end)?);
        }
        let Some(span) = &self.span else { return Ok(false) };
        let all: Vec<(u64, &[u8])> = pieces.iter().flat_map(|(at, bytes)| parts(*at, bytes)).collect();
        let next = AtomicUsize::new(0);
        together(&self.pool, all.len().min(MOST) - 1, &|| {
            while let Some((at, bytes)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                // SAFETY: there is room up to the end of the last piece, the span has it, pieces are apart, and no other
                // thread has this one.
                unsafe { span.copy(*at, bytes) };
            }
        });
        let room = self.room.clone();
        self.pool.spawn(move || room.go_ahead(end));
        Ok(true)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // Who still goes ahead would make the file longer again.
        *self.room.taken.lock().unwrap_or_else(PoisonError::into_inner) = u64::MAX;
    }
}

/// Pieces that a thread takes.
fn parts(at: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    bytes.chunks(PART).zip((at..).step_by(PART)).map(|(part, at)| (at, part))
}

/// Bytes of the file, from its first on, that have memory.
#[derive(Debug)]
struct Room {
    file: Arc<File>,
    taken: Mutex<u64>,
}

impl Room {
    fn take(&self, end: u64) -> Result<()> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if *taken < end {
            fallocate(&self.file, FallocateFlags::empty(), *taken, end - *taken).map_err(Error::from)?;
            *taken = end;
        }
        Ok(())
    }

    /// Takes what will be needed soon; where there is none, who needs it is told.
    fn go_ahead(&self, end: u64) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if *taken < end.saturating_add(STEP) && fallocate(&self.file, FallocateFlags::empty(), *taken, STEP).is_ok() {
            *taken += STEP;
        }
    }
}

/// Addresses of the file's first bytes, and of more than it has.
#[derive(Debug)]
struct Span {
    address: NonNull<u8>,
    length: u64,
}

// SAFETY: it is addresses of a shared mapping, which every thread has.
unsafe impl Send for Span {}
// SAFETY: what `copy` asks for makes it sound from several threads.
unsafe impl Sync for Span {}

impl Span {
    fn new(file: &File, end: u64) -> Result<Self> {
        let length = end.max(SPAN).checked_next_power_of_two().unwrap_or(end);
        let size = usize::try_from(length).map_err(|_| Error::from(std::io::ErrorKind::OutOfMemory))?;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the system's choice touches no other memory.
        let address = unsafe { mmap(std::ptr::null_mut(), size, access, flags, file, 0) }?;
        let address = NonNull::new(address.cast()).ok_or(std::io::ErrorKind::OutOfMemory)?;
        Ok(Self { address, length })
    }

    /// # Safety
    /// The file has these bytes, they are inside the span, and no one else uses them meanwhile.
    unsafe fn copy(&self, at: u64, bytes: &[u8]) {
        // SAFETY: the caller's word; the mapping can be written, and `bytes` is memory of this process, not of the file.
        unsafe {
            let to = self.address.as_ptr().add(at as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        // SAFETY: `new` mapped just this range, and its only owner is gone.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), self.length as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rayon::ThreadPoolBuilder;
    use std::os::unix::fs::FileExt;

    /// A file of a file system in memory, where there is one.
    fn in_memory() -> Option<File> {
        tempfile::tempfile_in("/dev/shm").ok().filter(|file| fstatfs(file).is_ok_and(|s| s.f_type as u64 == TMPFS))
    }

    fn pool() -> Arc<ThreadPool> {
        Arc::new(ThreadPoolBuilder::new().num_threads(4).build().unwrap())
    }

    fn pixels(length: usize) -> Vec<u8> {
        (0..length as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
    }

    #[test]
    fn pieces_come_to_their_places_and_the_rest_stays() {
        let Some(file) = in_memory().map(Arc::new) else { return };
        let mut mapped = Mapped::with(&file, &pool()).unwrap();
        file.write_all_at(b"head", 0).unwrap();
        let bytes = pixels(3 * LARGE);
        let (first, second) = bytes.split_at(LARGE + 7);
        let far = SPAN - LARGE as u64;
        assert!(mapped.fill(&[(4, first), (far, second)]).unwrap());
        let mut back = vec![0; bytes.len()];
        file.read_exact_at(&mut back[..first.len()], 4).unwrap();
        file.read_exact_at(&mut back[first.len()..], far).unwrap();
        assert!(back == bytes);
        file.read_exact_at(&mut back[..4], 0).unwrap();
        assert_eq!(&back[..4], b"head");
        // Few bytes, and pieces that could overlap, are somebody else's matter.
        assert!(!mapped.fill(&[(4, &bytes[..100])]).unwrap());
        assert!(!mapped.fill(&[(far, first), (4, second)]).unwrap());
        drop(mapped);
        file.set_len(4).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 4);
    }

    #[test]
    fn without_room_nothing_is_touched() {
        let Some(file) = in_memory() else { return };
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let sealed = Arc::new(File::open(path).unwrap());
        let mut mapped = Mapped::with(&sealed, &pool()).unwrap();
        assert!(mapped.fill(&[(0, &pixels(2 * LARGE))]).is_err());
        assert_eq!(file.metadata().unwrap().len(), 0);
    }
}
