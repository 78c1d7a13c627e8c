//! The codecs that the device decodes: one file each, and the tables of them all. Most are kernels; some are libraries,
//! which want their bytes in memory of the host.

mod deflate;
mod jpeg;
mod jpeg2000;
mod lzw;
mod packbits;
mod zstd;

pub use jpeg::abbreviate;
use tiffjet::{Layout, ReadPlan};

use crate::ffi::driver::{Event, Failure, Stream};
use crate::ffi::lend::Refusal;
use crate::memory::Gpu;

/// Every codec with a route on the device but that of no compression. A new one is a file beside this one and a line.
pub static ROUTES: &[&dyn Route] = &[&packbits::PackBits, &lzw::Lzw, &deflate::Deflate, &zstd::Zstd];

/// Every codec that a library decodes on the device. A new one is a file beside this one and a line.
pub static LIBRARY_ROUTES: &[&dyn LibraryRoute] = &[&jpeg2000::Jpeg2000, &jpeg::Jpeg];

/// The place in the table of the codec of this name.
pub fn find(codec: &str) -> Option<usize> {
    ROUTES.iter().position(|route| route.codec() == codec)
}

/// The place in the table of libraries.
pub fn find_library(codec: &str) -> Option<usize> {
    LIBRARY_ROUTES.iter().position(|route| route.codec() == codec)
}

/// How a library leaves the pixels of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Output {
    /// Samples of a pixel side by side.
    Pixels,
    /// A plane for each sample, one behind the other.
    Planes,
}

/// A tile that a library decodes.
#[derive(Debug, Clone, Copy)]
pub struct Coded<'a> {
    /// Of which plan.
    pub plan: &'a ReadPlan,
    /// Rows that it must give.
    pub rows: u32,
    /// Bytes in the file.
    pub length: usize,
    /// Where it goes: device memory with room for the whole tile.
    pub output: u64,
    /// Place of its status.
    pub id: u32,
}

/// Some tiles for a library, and what must happen around them.
pub struct Submission<'a> {
    /// The device.
    pub gpu: &'a Gpu,
    /// Tiles, all with one output.
    pub tiles: &'a [Coded<'a>],
    /// How they come out.
    pub output: Output,
    /// Where statuses go, by the `id` of a tile; all are bad at first.
    pub statuses: u64,
    /// What must be done before anything is written.
    pub after: &'a Event,
    /// What goes on after it.
    pub lane: &'a Stream,
    /// Nothing is decoded.
    pub dry: bool,
    /// Reads the bytes of a tile, by its place in the list; `false` when they can't be read, which is then known.
    pub read: &'a (dyn Fn(usize, &mut [u8]) -> bool + Sync),
}

impl Submission<'_> {
    /// Makes the statuses of tiles good when the stream comes to it.
    fn mark(&self, stream: &Stream, mut ids: impl Iterator<Item = u32>) -> Result<(), Failure> {
        let Some(mut first) = ids.next() else { return Ok(()) };
        let mut next = first + 1;
        let fill =
            |first: u32, next: u32| stream.fill(self.statuses + 4 * u64::from(first), 0, 4 * u64::from(next - first));
        for id in ids {
            if id != next {
                fill(first, next)?;
                first = id;
            }
            next = id + 1;
        }
        fill(first, next)
    }
}

/// A codec of a library on the device.
pub trait LibraryRoute: Send + Sync {
    /// Name of the host codec that decides when this one fails.
    fn codec(&self) -> &'static str;

    /// Name of the library.
    fn library(&self) -> &'static str;

    /// Why the library can't be used on a device, where it can't.
    fn absence(&self, gpu: &Gpu) -> Option<String>;

    /// How tiles of a file come out; `None` for those that the host decodes better.
    fn output(&self, layout: &Layout) -> Option<Output>;

    /// Tiles that are best given to the library at once.
    fn at_once(&self) -> usize;

    /// Gives tiles to the library. Those that it takes get a good status, in order behind their pixels; those that it
    /// refuses keep the bad one. The lane goes on when the pixels are there.
    fn submit(&self, submission: &Submission<'_>) -> Result<(), Failure>;
}

/// Data that a library refuses are no failure.
fn data_refused<T>(outcome: Result<T, Refusal>) -> Result<Option<T>, Failure> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Refusal::Data(_)) => Ok(None),
        Err(Refusal::Failed(failure)) => Err(failure),
    }
}

/// Tiles of one codec, with their table on the device.
#[derive(Debug, Clone, Copy)]
pub struct Batch {
    /// Where the table stands.
    pub tiles: u64,
    /// Entries of it.
    pub count: u32,
    /// Where statuses go, by the `id` of a tile.
    pub statuses: u64,
    /// Memory that the route asked for, aligned to 256 bytes.
    pub scratch: u64,
    /// What the route asked for by.
    pub size: Size,
    /// Tiles of this codec that are decoded at about the same time, those of other batches included.
    pub at_once: u32,
}

/// What a batch is, as far as it is known before its memory is there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Size {
    /// Tiles.
    pub tiles: u32,
    /// Compressed bytes of all.
    pub in_bytes: u64,
    /// Decoded bytes of all.
    pub out_bytes: u64,
    /// Compressed bytes of each in units of 4 KiB, the one begun included.
    pub pages: u64,
    /// Compressed bytes of the largest.
    pub largest_in: u32,
    /// Decoded bytes of the largest.
    pub largest_out: u32,
}

impl Size {
    /// With one more tile.
    pub fn with(self, in_bytes: u32, out_bytes: u32) -> Self {
        Self {
            tiles: self.tiles + 1,
            in_bytes: self.in_bytes + u64::from(in_bytes),
            out_bytes: self.out_bytes + u64::from(out_bytes),
            pages: self.pages + u64::from(in_bytes / 4096) + 1,
            largest_in: self.largest_in.max(in_bytes),
            largest_out: self.largest_out.max(out_bytes),
        }
    }
}

/// A codec on the device.
pub trait Route: Send + Sync {
    /// Name of the host codec that decides when this one fails.
    fn codec(&self) -> &'static str;

    /// Bytes of scratch that a batch needs. It must not shrink as a batch grows.
    fn scratch(&self, size: Size) -> u64 {
        let _ = size;
        0
    }

    /// Bytes that one tile alone gives in a second, all that the device takes together, and one core of the host.
    fn rates(&self) -> (f64, f64, f64);

    /// Puts the decoding of a batch into a stream. Every tile gets a status.
    fn launch(&self, gpu: &Gpu, stream: &Stream, batch: &Batch) -> Result<(), Failure>;
}

/// Batches that come one after the other are in different kernels, and of all their tiles this part is in the same one.
const STAGGERED: u32 = 3;

/// Of kernels with their threads, blocks on a multiprocessor and shared memory: the one with the most threads for which
/// all blocks are on the device at once, a tile is worth them and shared memory suffices.
fn fit<'k>(
    kernels: &[(&'k str, u32, u32, u32)],
    batch: &Batch,
    multiprocessors: u32,
    shared_memory: u32,
) -> (&'k str, u32, u32, u32) {
    // A whole multiprocessor for a tile is worth it only where there is one for each of them.
    let at_once = match batch.at_once > batch.count {
        true => (batch.at_once / STAGGERED).max(batch.at_once.min(multiprocessors + 1)).max(batch.count),
        false => batch.at_once,
    };
    let fits = |(_, threads, blocks, shared): &&(&str, u32, u32, u32)| {
        at_once <= multiprocessors * blocks && batch.size.largest_out >= 32 * threads && *shared <= shared_memory
    };
    *kernels.iter().rev().find(fits).unwrap_or(&kernels[0])
}

/// Launches as the headers of the kernels have them, which a test compares: of Deflate, of ZSTD, of ZSTD's entropy, and
/// shared memory of LZW and PackBits.
#[cfg(test)]
pub mod mirrored {
    pub use super::deflate::LAUNCHES as DEFLATE;
    pub use super::lzw::SHARED as LZW;
    pub use super::packbits::SHARED as PACKBITS;
    pub use super::zstd::{ENTROPY, EXECUTE as ZSTD};
}
