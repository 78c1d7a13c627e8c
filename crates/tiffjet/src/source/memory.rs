//! Bytes that are in memory already.

use std::ops::Range;
use std::sync::Arc;

use super::{Source, Version};
use crate::error::{Error, Result};

/// A file in memory.
#[derive(Debug)]
pub struct MemorySource<B> {
    name: Arc<str>,
    bytes: B,
    version: Version,
}

impl<B: AsRef<[u8]> + Send + Sync> MemorySource<B> {
    /// Takes the bytes of a whole file.
    pub fn new(bytes: B) -> Self {
        Self::named("<memory>", bytes)
    }

    /// The same, with a name for errors.
    pub fn named(name: &str, bytes: B) -> Self {
        let version = Version { length: bytes.as_ref().len() as u64, modified: None, etag: None };
        Self { name: name.into(), bytes, version }
    }
}

impl<B: AsRef<[u8]> + Send + Sync> Source for MemorySource<B> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn version(&self) -> &Version {
        &self.version
    }

    fn read(&self, ranges: &[Range<u64>], out: &mut [&mut [u8]], landed: &mut dyn FnMut(usize)) -> Result<()> {
        for (i, (range, out)) in ranges.iter().zip(out).enumerate() {
            let bytes = usize::try_from(range.start)
                .ok()
                .zip(usize::try_from(range.end).ok())
                .and_then(|(a, b)| self.bytes.as_ref().get(a..b))
                .filter(|bytes| bytes.len() == out.len())
                .ok_or_else(|| Error::io(&self.name, std::io::ErrorKind::UnexpectedEof.into()))?;
            out.copy_from_slice(bytes);
            landed(i);
        }
        Ok(())
    }
}
