//! A file in memory.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Patches, Sink};
use crate::error::{Error, Result};

/// A file in memory. Clones share it: keep one, and take the bytes when the writer has finished.
#[derive(Debug, Clone)]
pub struct MemorySink {
    name: Arc<str>,
    bytes: Vec<u8>,
    done: Arc<Mutex<Option<Vec<u8>>>>,
}

impl MemorySink {
    /// An empty one.
    pub fn new() -> Self {
        Self { name: "<memory>".into(), bytes: Vec::new(), done: Arc::default() }
    }

    /// The whole file; `None` before it is committed, and once it is taken.
    pub fn take(&self) -> Option<Vec<u8>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Default for MemorySink {
    fn default() -> Self {
        Self::new()
    }
}

impl Sink for MemorySink {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.bytes.try_reserve(bytes.len()).is_err() {
            return Err(Error::io(&self.name, std::io::ErrorKind::OutOfMemory.into()));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn patches(&self) -> Patches {
        Patches::Anywhere
    }

    fn is_memory(&self) -> bool {
        true
    }

    fn patch(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let fails = || Error::io(&self.name, std::io::ErrorKind::OutOfMemory.into());
        let start = usize::try_from(at).map_err(|_| fails())?;
        let end = start.checked_add(bytes.len()).ok_or_else(fails)?;
        if let Some(more) = end.checked_sub(self.bytes.len()) {
            self.bytes.try_reserve(more).map_err(|_| fails())?;
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<()> {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.bytes);
        Ok(())
    }
}
