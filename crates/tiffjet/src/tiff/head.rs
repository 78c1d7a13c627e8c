//! Small reads near each other, as headers need them, served from few large ones.

use std::sync::{Arc, Mutex};

use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::source::{Source, within};

/// Bytes fetched at once: most headers with all their values fit in the first block.
const BLOCK: u64 = 16 << 10;
/// Blocks kept.
const KEPT: usize = 8;

/// A source with a small cache of blocks in front, for headers and tag values.
pub struct Head {
    source: Arc<dyn Source>,
    limits: Limits,
    blocks: Mutex<Vec<(u64, Arc<[u8]>)>>,
}

impl Head {
    /// Reads the first block.
    pub fn new(source: Arc<dyn Source>, limits: Limits) -> Result<Self> {
        let head = Self { source, limits, blocks: Mutex::default() };
        head.block(0)?;
        Ok(head)
    }

    /// Name of the source.
    pub fn name(&self) -> &Arc<str> {
        self.source.name()
    }

    /// Length of the source.
    pub fn length(&self) -> u64 {
        self.source.length()
    }

    /// What a file may ask for.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The source itself.
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    fn block(&self, number: u64) -> Result<Arc<[u8]>> {
        // A poisoned lock only means that another thread panicked between two pushes: the blocks are whole.
        let mut blocks = self.blocks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, block)) = blocks.iter().find(|(n, _)| *n == number) {
            return Ok(block.clone());
        }
        let start = number * BLOCK;
        let end = (start + BLOCK).min(self.length());
        let mut bytes = vec![0; (end - start) as usize];
        self.source.read_range(start..end, &mut bytes)?;
        let block: Arc<[u8]> = bytes.into();
        if blocks.len() == KEPT {
            blocks.remove(1); // the first block of the file stays
        }
        blocks.push((number, block.clone()));
        Ok(block)
    }

    /// `length` bytes at `offset`; `what` names them in the error when they are not in the file.
    pub fn bytes(&self, offset: u64, length: u64, what: &str) -> Result<Vec<u8>> {
        let range = within(&*self.source, offset, length, what)?;
        if length > self.limits.value_bytes {
            return Err(Error::limit(self.name(), what, length, self.limits.value_bytes));
        }
        let mut out = vec![0; length as usize];
        if length > BLOCK {
            self.source.read_range(range, &mut out)?;
            return Ok(out);
        }
        let mut done = 0;
        while done < out.len() {
            let at = range.start + done as u64;
            let block = self.block(at / BLOCK)?;
            let from = (at % BLOCK) as usize;
            let n = (block.len() - from).min(out.len() - done);
            out[done..done + n].copy_from_slice(&block[from..from + n]);
            done += n;
        }
        Ok(out)
    }
}
