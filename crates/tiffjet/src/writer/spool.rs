//! Compressed bytes put aside until their place in the file is known.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use crate::error::{Error, Result};
use crate::sink::Sink;
use crate::tensor::{HostBuffer, Storage};

/// Small tiles share a system call.
const BUFFER: usize = 64 << 10;
/// Memory is taken in chunks of so many bytes, and no more than may be filled; what comes first has less.
const CHUNK: usize = 16 << 20;
const FIRST: usize = 1 << 20;

/// Bytes in memory as long as they are few, then in a file without a name, which is gone with the process.
pub(super) struct Spool {
    name: Arc<str>,
    directory: PathBuf,
    /// Bytes that may stay in memory.
    limit: u64,
    memory: Chunks,
    file: Option<BufWriter<File>>,
    length: u64,
}

impl Spool {
    /// Nothing yet; a file would be in the directory of the destination, or in that for temporary files.
    pub(super) fn new(sink: &dyn Sink, limit: u64) -> Self {
        Self {
            name: sink.name().clone(),
            directory: sink.directory().map_or_else(std::env::temp_dir, Path::to_owned),
            limit,
            memory: Chunks::default(),
            file: None,
            length: 0,
        }
    }

    /// Where the next byte will stand.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Adds bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.add(bytes).map_err(|e| Error::io(&self.name, e))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn add(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.file.is_none() {
            if self.length + bytes.len() as u64 <= self.limit {
                return self.memory.add(bytes, self.limit);
            }
            let mut file = BufWriter::with_capacity(BUFFER, nameless(&self.directory)?);
            self.memory.parts(0..self.length).iter().try_for_each(|part| file.write_all(part))?;
            self.memory = Chunks::default();
            self.file = Some(file);
        }
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    /// Adds bytes of it to a sink.
    pub(super) fn copy_to(&mut self, range: Range<u64>, sink: &mut dyn Sink) -> Result<()> {
        match &mut self.file {
            Some(file) => {
                file.flush().map_err(|e| Error::io(&self.name, e))?;
                let file = file.get_mut();
                sink.copy(file, range)?;
                // Bytes to come go to the end again.
                std::io::Seek::seek(file, std::io::SeekFrom::End(0)).map_err(|e| Error::io(&self.name, e))?;
                Ok(())
            }
            None => sink.write_all(&self.memory.parts(range)),
        }
    }
}

/// Bytes in memory that is kept for the next who needs some: fresh pages cost more than what is copied into them. Where few
/// may stay in memory a file soon takes their place, and it goes back to the system.
#[derive(Default)]
struct Chunks {
    chunks: Vec<HostBuffer>,
    /// Bytes in the last one.
    filled: usize,
}

impl Chunks {
    /// Adds bytes. All together are no more than `limit`.
    fn add(&mut self, mut bytes: &[u8], limit: u64) -> std::io::Result<()> {
        while !bytes.is_empty() {
            let left = self.chunks.last().map_or(0, |chunk| chunk.length() - self.filled);
            if left == 0 {
                self.chunks.push(self.next(limit).ok_or(std::io::ErrorKind::OutOfMemory)?);
                self.filled = 0;
                continue;
            }
            let Some(chunk) = self.chunks.last_mut() else { continue };
            let (now, later) = bytes.split_at(left.min(bytes.len()));
            chunk.bytes_mut()[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
        }
        Ok(())
    }

    /// Memory for the bytes that come next.
    fn next(&self, limit: u64) -> Option<HostBuffer> {
        let held: u64 = self.chunks.iter().map(|chunk| chunk.length() as u64).sum();
        let most = if self.chunks.is_empty() { FIRST } else { CHUNK };
        let length = (limit.saturating_sub(held)).clamp(1, most as u64) as usize;
        if limit < CHUNK as u64 { HostBuffer::take_own(length) } else { HostBuffer::take(length) }
    }

    /// The bytes of a range.
    fn parts(&self, range: Range<u64>) -> Vec<&[u8]> {
        let mut begin = 0;
        let mut parts = Vec::new();
        for chunk in self.chunks.iter().filter_map(|chunk| chunk.host()) {
            let (from, to) = (range.start.max(begin), range.end.min(begin + chunk.len() as u64));
            if from < to {
                parts.push(&chunk[(from - begin) as usize..(to - begin) as usize]);
            }
            begin += chunk.len() as u64;
        }
        parts
    }
}

/// A file without a name.
fn nameless(directory: &Path) -> std::io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) {
        return Ok(file.into());
    }
    // Not every file system has such files: there it loses its name at once.
    loop {
        let random = RandomState::new().hash_one(directory);
        let path = directory.join(format!(".tiffjet-spool-{}-{random:016x}", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => return fs::remove_file(&path).map(|()| file),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::MemorySink;

    #[test]
    fn chunks_are_filled_one_after_the_other() {
        let bytes: Vec<u8> = (0..FIRST + 2 * CHUNK + 10).map(|i| (i / 1000 + i) as u8).collect();
        let mut chunks = Chunks::default();
        for part in bytes.chunks(777_777) {
            chunks.add(part, 1 << 30).unwrap();
        }
        assert_eq!(chunks.chunks.len(), 4);
        // What may not be filled is not taken.
        let mut few = Chunks::default();
        for part in bytes[..5 * FIRST].chunks(70_000) {
            few.add(part, 5 * FIRST as u64).unwrap();
        }
        let lengths: Vec<usize> = few.chunks.iter().map(Storage::length).collect();
        assert_eq!(lengths, [FIRST, 4 * FIRST]);
        assert!(few.parts(0..5 * FIRST as u64).concat() == bytes[..5 * FIRST]);
        for range in [0..bytes.len(), FIRST - 3..FIRST + CHUNK + 5, 5..6, 0..0] {
            let parts = chunks.parts(range.start as u64..range.end as u64);
            assert!(parts.concat() == bytes[range]);
        }
    }

    #[test]
    fn bytes_come_back_from_memory_and_from_the_file() {
        for limit in [0, 5, 100] {
            let mut sink = MemorySink::new();
            let mut spool = Spool::new(&sink, limit);
            for part in [&b"abc"[..], b"defg", b"hij"] {
                spool.write(part).unwrap();
            }
            spool.copy_to(2..6, &mut sink).unwrap();
            spool.write(b"kl").unwrap();
            spool.copy_to(8..12, &mut sink).unwrap();
            assert_eq!((spool.length(), spool.file.is_some()), (12, limit < 100));
            let keep = sink.clone();
            Box::new(sink).commit().unwrap();
            assert_eq!(keep.take().unwrap(), b"cdefijkl");
        }
    }
}
