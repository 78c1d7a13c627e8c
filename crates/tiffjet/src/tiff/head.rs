//! Small reads near each other, as headers need them, served from few large ones.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::source::{Source, within};

/// Blocks kept.
const KEPT: usize = 8;
/// Bytes that may be read ahead of being asked for, where a request costs more than they do.
const AHEAD: u64 = 2 << 20;

/// Parts of a file by their first byte.
type Blocks = Vec<(u64, Arc<[u8]>)>;

/// A source with a small cache of blocks in front, for headers and tag values.
pub struct Head {
    source: Arc<dyn Source>,
    limits: Limits,
    /// Bytes fetched at once: most headers with all their values fit in the first block.
    block: u64,
    blocks: Mutex<Blocks>,
    /// One thread at a time fetches: what another needs as well may be there when it is its turn.
    turn: Mutex<()>,
}

impl Head {
    /// Reads the first block.
    pub fn new(source: Arc<dyn Source>, limits: Limits) -> Result<Self> {
        let block = source.distance().head;
        let head = Self { source, limits, block, blocks: Mutex::default(), turn: Mutex::default() };
        head.covering(0..block.min(head.length()))?;
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

    fn lock(&self) -> MutexGuard<'_, Blocks> {
        // A poisoned lock only means that another thread panicked between two pushes: the blocks are whole.
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block that has the first byte of a range. What is missing of the range, in whole blocks, is read at once.
    fn covering(&self, range: Range<u64>) -> Result<(u64, Arc<[u8]>)> {
        if let Some(block) = self.block_at(range.start) {
            return Ok(block);
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = self.block_at(range.start) {
            return Ok(block);
        }
        let start = range.start / self.block * self.block;
        let end = range.end.max(range.start + 1).div_ceil(self.block).saturating_mul(self.block).min(self.length());
        self.fetch(start..end)
    }

    fn block_at(&self, at: u64) -> Option<(u64, Arc<[u8]>)> {
        let holds = |(start, bytes): &&(u64, Arc<[u8]>)| *start <= at && at < start + bytes.len() as u64;
        self.lock().iter().find(holds).cloned()
    }

    fn fetch(&self, range: Range<u64>) -> Result<(u64, Arc<[u8]>)> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.source.read_range(range.clone(), &mut bytes)?;
        let bytes: Arc<[u8]> = bytes.into();
        self.source.remember(range.start, &bytes);
        let mut blocks = self.lock();
        if blocks.len() == KEPT {
            blocks.remove(1); // the first block of the file stays
        }
        blocks.push((range.start, bytes.clone()));
        Ok((range.start, bytes))
    }

    /// Reads ahead what will be asked for, where a request costs more than a few bytes in vain: the ranges and all between
    /// them. `false` where that is too much.
    pub fn expect(&self, ranges: &[Range<u64>]) -> Result<bool> {
        if !self.source.distance().is_far() {
            return Ok(false);
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let here = |range: &Range<u64>| {
            let holds =
                |(start, bytes): &(u64, Arc<[u8]>)| *start <= range.start && range.end <= start + bytes.len() as u64;
            range.is_empty() || self.lock().iter().any(holds)
        };
        let missing: Vec<&Range<u64>> = ranges.iter().filter(|range| !here(range)).collect();
        let start = missing.iter().map(|range| range.start).min().unwrap_or(0);
        let end = missing.iter().map(|range| range.end).max().unwrap_or(0).min(self.length());
        if start >= end {
            return Ok(true);
        }
        if end - start > AHEAD {
            return Ok(false);
        }
        // Where a block ends in the middle of it, that is where to begin.
        let reaches =
            |(at, bytes): &(u64, Arc<[u8]>)| *at <= start && (start..end).contains(&(at + bytes.len() as u64));
        let held = self.lock().iter().find(|block| reaches(block)).map(|(at, bytes)| at + bytes.len() as u64);
        self.fetch(held.unwrap_or(start)..end)?;
        Ok(true)
    }

    /// `length` bytes at `offset`; `what` names them in the error when they are not in the file.
    pub fn bytes(&self, offset: u64, length: u64, what: &str) -> Result<Vec<u8>> {
        let range = within(&*self.source, offset, length, what)?;
        if length > self.limits.value_bytes {
            return Err(Error::limit(self.name(), what, length, self.limits.value_bytes));
        }
        let mut out = vec![0; length as usize];
        let far = self.source.distance().is_far();
        if length > self.block && !(far && length <= AHEAD && self.holds_any(&range)) {
            self.source.read_range(range, &mut out)?;
            return Ok(out);
        }
        let mut done = 0;
        while done < out.len() {
            let at = range.start + done as u64;
            let (start, block) = self.covering(at..range.end)?;
            let from = (at - start) as usize;
            let n = (block.len() - from).min(out.len() - done);
            out[done..done + n].copy_from_slice(&block[from..from + n]);
            done += n;
        }
        Ok(out)
    }

    /// Whether some of a range is here already.
    fn holds_any(&self, range: &Range<u64>) -> bool {
        self.lock().iter().any(|(start, bytes)| *start < range.end && range.start < start + bytes.len() as u64)
    }
}
