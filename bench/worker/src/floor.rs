//! The least time a reader can take: the codec alone over the tiles of a file, on all cores.
//!
//! Compressed tiles are in memory before the clock starts, and every thread decodes into its own buffer again and again:
//! no predictor, no byte order, no placing. An uncompressed file is read by parallel `pread`s, as few as there can be,
//! each into pages of its own.

use std::error::Error;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::buffer::{Buffer, PAGE};
use crate::library::{Picture, Tiles};

/// Bytes of one `pread` at most.
const RUN: u64 = 4 << 20;

/// A file made ready.
pub struct Floor {
    pool: ThreadPool,
    work: Work,
}

enum Work {
    /// Tiles, their bytes, and a buffer for each thread.
    Decode(Tiles, Vec<Vec<u8>>, Vec<Mutex<Vec<u8>>>),
    /// Runs of adjacent tiles.
    Pread(File, Vec<Range<u64>>),
}

impl Floor {
    pub fn load(path: &str) -> Result<Self, Box<dyn Error>> {
        let pool = ThreadPoolBuilder::new().build()?;
        let tiles = Picture::open(path)?.tiles()?;
        let file = File::open(path)?;
        let work = if tiles.compressed() {
            let bytes = tiles.tiles.iter().map(|t| load(&file, &t.range)).collect::<Result<_, _>>()?;
            let size = tiles.decoded_bytes()?;
            let buffers = (0..pool.current_num_threads()).map(|_| Mutex::new(vec![0; size])).collect();
            Work::Decode(tiles, bytes, buffers)
        } else {
            Work::Pread(file, runs(tiles.tiles.into_iter().map(|t| t.range).collect()))
        };
        Ok(Self { pool, work })
    }

    pub fn run(&self, out: &mut Buffer) -> Result<(), Box<dyn Error>> {
        match &self.work {
            Work::Decode(tiles, bytes, buffers) => self.decode(tiles, bytes, buffers),
            Work::Pread(file, runs) => self.pread(file, runs, out),
        }
    }

    fn decode(&self, tiles: &Tiles, bytes: &[Vec<u8>], buffers: &[Mutex<Vec<u8>>]) -> Result<(), Box<dyn Error>> {
        let next = AtomicUsize::new(0);
        let done = self.pool.broadcast(|thread| {
            let mut buffer = buffers[thread.index()].lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let (Some(tile), Some(bytes)) = (tiles.tiles.get(i), bytes.get(i)) else { return Ok(()) };
                tiles.decode(tile, bytes, &mut buffer)?;
            }
        });
        Ok(done.into_iter().collect::<Result<(), String>>()?)
    }

    fn pread(&self, file: &File, runs: &[Range<u64>], out: &mut Buffer) -> Result<(), Box<dyn Error>> {
        let places = runs.iter().map(|r| ((r.end - r.start) as usize).next_multiple_of(PAGE));
        let mut rest = out.bytes(places.clone().sum());
        let mut parts = Vec::with_capacity(runs.len());
        for (run, place) in runs.iter().zip(places) {
            let (part, after) = rest.split_at_mut(place);
            parts.push((run.start, &mut part[..(run.end - run.start) as usize]));
            rest = after;
        }
        let queue = Mutex::new(parts.into_iter());
        let done = self.pool.broadcast(|_| {
            loop {
                let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((offset, part)) = next else { return Ok(()) };
                file.read_exact_at(part, offset)?;
            }
        });
        Ok(done.into_iter().collect::<std::io::Result<()>>()?)
    }
}

fn load(file: &File, range: &Range<u64>) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}

/// Ranges that follow each other as one, none longer than [`RUN`].
fn runs(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|r| r.start);
    let mut whole: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match whole.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => whole.push(range),
        }
    }
    let cut = |r: Range<u64>| (r.start..r.end).step_by(RUN as usize).map(move |at| at..r.end.min(at + RUN));
    whole.into_iter().flat_map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_ranges_become_one_run() {
        assert_eq!(runs(vec![30..40, 10..20, 20..30, 50..60]), [10..40, 50..60]);
    }

    #[test]
    fn a_long_run_is_cut() {
        assert_eq!(runs(vec![8..8 + RUN, 8 + RUN..18 + RUN]), [8..8 + RUN, 8 + RUN..18 + RUN]);
        assert_eq!(runs(Vec::new()), []);
    }
}
