//! A local file, read by position from any thread.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::{Source, Version};
use crate::error::{Error, Result};

/// A local file.
#[derive(Debug)]
pub struct FileSource {
    name: Arc<str>,
    file: File,
    version: Version,
}

impl FileSource {
    /// Opens a file for reading.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let name: Arc<str> = path.to_string_lossy().into();
        let file = File::open(path).map_err(|e| Error::io(&name, e))?;
        Self::new(name, file)
    }

    /// Takes a file that is open already.
    pub fn new(name: Arc<str>, file: File) -> Result<Self> {
        let version = version(&name, &file)?;
        Ok(Self { name, file, version })
    }
}

fn version(name: &Arc<str>, file: &File) -> Result<Version> {
    let meta = file.metadata().map_err(|e| Error::io(name, e))?;
    if meta.is_dir() {
        return Err(Error::io(name, std::io::ErrorKind::IsADirectory.into()));
    }
    Ok(Version { length: meta.len(), modified: meta.modified().ok(), etag: None })
}

impl Source for FileSource {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn version(&self) -> &Version {
        &self.version
    }

    fn read(&self, ranges: &[Range<u64>], out: &mut [&mut [u8]], landed: &mut dyn FnMut(usize)) -> Result<()> {
        for (i, (range, out)) in ranges.iter().zip(out).enumerate() {
            self.file.read_exact_at(out, range.start).map_err(|e| match e.kind() {
                // The range was inside the file when it was opened.
                std::io::ErrorKind::UnexpectedEof => Error::Changed { name: self.name.clone() },
                _ => Error::io(&self.name, e),
            })?;
            landed(i);
        }
        Ok(())
    }

    fn unchanged(&self) -> Result<()> {
        if version(&self.name, &self.file)? == self.version {
            Ok(())
        } else {
            Err(Error::Changed { name: self.name.clone() })
        }
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }
}
