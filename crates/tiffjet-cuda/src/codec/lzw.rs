//! LZW: `kernels/lzw.cu`.

use super::{Batch, Route, Size};
use crate::ffi::driver::{Arguments, Failure, Shape, Stream};
use crate::memory::Gpu;

/// LZW.
pub struct Lzw;

/// Threads of a block.
const BLOCK: u32 = 256;
/// Shared memory of a block.
pub const SHARED: u32 = 37648;
/// Bytes in front of the slots.
const HEAD: u64 = 16;
/// Bytes of a slot.
const SLOT: u64 = 32;
/// Bytes of a tile's place among the slots.
const BASE: u64 = 4;

/// Tiles that blocks go round, or 0 for tile by tile, and the blocks: going round needs as many for each tile as for the
/// largest, of which those without a segment end at once.
fn turns(count: u32, size: Size) -> (u32, u32) {
    let round = u64::from(count) * (u64::from(size.largest_in) / 4096 + 1);
    if round <= 2 * size.pages { (count, round as u32) } else { (0, size.pages as u32) }
}

impl Route for Lzw {
    fn codec(&self) -> &'static str {
        "lzw"
    }

    fn scratch(&self, size: Size) -> u64 {
        HEAD + SLOT * size.pages + BASE * u64::from(size.tiles)
    }

    fn rates(&self) -> (f64, f64, f64) {
        (20e9, 120e9, 0.5e9)
    }

    fn launch(&self, gpu: &Gpu, stream: &Stream, batch: &Batch) -> Result<(), Failure> {
        let Batch { tiles, count, statuses, scratch: head, size, .. } = batch;
        let slots = head + HEAD;
        let bases = slots + SLOT * size.pages;
        stream.fill(*head, 0, HEAD)?;
        let list = gpu.kernels.function("lzw", "lzw_list", 0)?;
        let shape = Shape { grid: (count.div_ceil(BLOCK / 32), 1), block: BLOCK, shared: 0 };
        list.launch(shape, stream, &[tiles as &dyn Arguments, count, head, &slots, &bases, statuses])?;
        let segments = gpu.kernels.function("lzw", "lzw_segments", SHARED)?;
        let (turns, grid) = turns(*count, *size);
        let shape = Shape { grid: (grid, 1), block: BLOCK, shared: SHARED };
        segments.launch(shape, stream, &[tiles as &dyn Arguments, &turns, head, &slots, &bases, statuses])?;
        let retry = gpu.kernels.function("lzw", "lzw_retry", SHARED)?;
        let shape = Shape { grid: (*count, 1), block: BLOCK, shared: SHARED };
        retry.launch(shape, stream, &[tiles as &dyn Arguments, count, statuses])
    }
}
