//! Bytes out.

mod file;
mod mapped;
mod memory;
#[cfg(feature = "remote")]
mod object;
mod stream;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub use file::FileSink;
pub use memory::MemorySink;
#[cfg(feature = "remote")]
pub use object::ObjectSink;
pub use stream::StreamSink;

use crate::error::{Error, Result};
use crate::source::{Address, Remote, address};

/// Where bytes can still be written over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patches {
    /// What was written stays.
    Nowhere,
    /// Over the bytes of the first write.
    First,
    /// Over all that was written, and further on, where the gap is filled later.
    Anywhere,
}

/// A sink for a path or the address of an object (`s3://`, `gs://`, `az://`).
pub fn create(path: impl AsRef<Path>, remote: &Remote) -> Result<Box<dyn Sink>> {
    match address(path.as_ref()) {
        Address::Path(path) => Ok(Box::new(FileSink::create(path)?)),
        Address::Url(url) => object(&url, remote),
    }
}

/// Sends a part of an object that another process writes ([`Sink::share`]): the parts are counted from 0, and what the writer
/// adopts begins with 1. Gives what stands for it. Sent again it takes the place of the one before.
#[cfg(feature = "remote")]
pub fn send_part(url: &str, remote: &Remote, upload: &str, number: usize, bytes: Vec<u8>) -> Result<String> {
    object::send_part(url, remote, upload, number, bytes)
}

/// Nobody has begun one.
#[cfg(not(feature = "remote"))]
pub fn send_part(url: &str, remote: &Remote, _upload: &str, _number: usize, _bytes: Vec<u8>) -> Result<String> {
    object(url, remote).map(|_| String::new())
}

#[cfg(feature = "remote")]
fn object(url: &str, remote: &Remote) -> Result<Box<dyn Sink>> {
    Ok(Box::new(ObjectSink::create(url, remote)?))
}

#[cfg(not(feature = "remote"))]
fn object(url: &str, _remote: &Remote) -> Result<Box<dyn Sink>> {
    let name = crate::source::redacted(url).into();
    Err(Error::unsupported(&name, "files on other machines", "build with the feature `remote`"))
}

/// Something that takes the bytes of a file, from the first to the last. Nobody sees them before `commit`, where the
/// kind of sink allows it; dropped before that it leaves no trace.
pub trait Sink: Send {
    /// Path, URL or `<memory>`, for every error.
    fn name(&self) -> &Arc<str>;

    /// Adds bytes at the end.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Adds parts at the end, one after the other.
    fn write_all(&mut self, parts: &[&[u8]]) -> Result<()> {
        parts.iter().try_for_each(|part| self.write(part))
    }

    /// Adds a part of a file at the end.
    fn copy(&mut self, file: &mut File, range: Range<u64>) -> Result<()> {
        let fail = |e| Error::io(self.name(), e);
        file.seek(SeekFrom::Start(range.start)).map_err(fail)?;
        let mut left = range.end - range.start;
        let mut buffer = vec![0; left.min(1 << 20) as usize];
        while left > 0 {
            let part = &mut buffer[..left.min(1 << 20) as usize];
            file.read_exact(part).map_err(|e| Error::io(self.name(), e))?;
            self.write(part)?;
            left -= part.len() as u64;
        }
        Ok(())
    }

    /// Where [`Sink::patch`] may write.
    fn patches(&self) -> Patches {
        Patches::Nowhere
    }

    /// Writes at a place, where [`Sink::patches`] allows it.
    fn patch(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let _ = (at, bytes);
        Err(Error::io(self.name(), std::io::ErrorKind::Unsupported.into()))
    }

    /// Begins a file whose parts others send to the same place, and gives what they must name with [`send_part`].
    fn share(&mut self) -> Result<String> {
        Err(Error::io(self.name(), std::io::ErrorKind::Unsupported.into()))
    }

    /// Instead of the first write of a file that is shared: its first part, and those behind it that others have sent, in
    /// order and of so many bytes together.
    fn adopt(&mut self, first: Vec<u8>, parts: &[String], bytes: u64) -> Result<()> {
        let _ = (first, parts, bytes);
        Err(Error::io(self.name(), std::io::ErrorKind::Unsupported.into()))
    }

    /// Whether what it takes stays in memory: what is put aside for it is best there too.
    fn is_memory(&self) -> bool {
        false
    }

    /// Bytes come faster than one thread writes them; all in all about so many. Said again, the later is nearer.
    fn hurry(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// A directory for what must be put aside: where the destination has room, so has this.
    fn directory(&self) -> Option<&Path> {
        None
    }

    /// All is written: makes it last, and seen.
    fn commit(self: Box<Self>) -> Result<()>;
}
