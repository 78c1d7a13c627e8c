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

/// Small tiles share a system call.
const BUFFER: usize = 64 << 10;

/// Bytes in memory as long as they are few, then in a file without a name, which is gone with the process.
pub(super) struct Spool {
    name: Arc<str>,
    directory: PathBuf,
    /// Bytes that may stay in memory.
    limit: usize,
    memory: Vec<u8>,
    file: Option<BufWriter<File>>,
    length: u64,
}

impl Spool {
    /// Nothing yet; a file would be in the directory of the destination, or in that for temporary files.
    pub(super) fn new(sink: &dyn Sink, limit: u64) -> Self {
        Self {
            name: sink.name().clone(),
            directory: sink.directory().map_or_else(std::env::temp_dir, Path::to_owned),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            memory: Vec::new(),
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
            if self.memory.len() + bytes.len() <= self.limit {
                self.memory.extend_from_slice(bytes);
                return Ok(());
            }
            let mut file = BufWriter::with_capacity(BUFFER, nameless(&self.directory)?);
            file.write_all(&std::mem::take(&mut self.memory))?;
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
            None => sink.write(&self.memory[range.start as usize..range.end as usize]),
        }
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
