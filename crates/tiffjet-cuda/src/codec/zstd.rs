//! ZSTD: `kernels/zstd.cu`.

use super::{Batch, Route, Size, fit};
use crate::ffi::driver::{Arguments, Failure, Shape, Stream};
use crate::memory::Gpu;

/// ZSTD.
pub struct Zstd;

/// Threads of a block, blocks on a multiprocessor and shared memory of the kernel that decodes entropy.
pub const ENTROPY: (u32, u32, u32) = (32, 8, 22880);
/// Kernel, threads of a block, blocks on a multiprocessor, shared memory; the least threads first.
pub const EXECUTE: [(&str, u32, u32, u32); 4] = [
    ("zstd_execute_128", 128, 8, 17408),
    ("zstd_execute_256", 256, 4, 34416),
    ("zstd_execute_512", 512, 2, 68432),
    ("zstd_execute_1024", 1024, 1, 136_464),
];
/// Bytes at the start of scratch that are zero at first.
const COUNTERS: u64 = 64;

/// Room for blocks and for what they give, as the head of `zstd.cu` counts it; rounded up for all tiles at once.
fn room(size: Size) -> (u64, u64) {
    let tiles = u64::from(size.tiles);
    let slots = size.out_bytes / 1024 + 4 * tiles;
    (slots, size.out_bytes / 6 + tiles + 3 * slots)
}

impl Route for Zstd {
    fn codec(&self) -> &'static str {
        "zstd"
    }

    fn scratch(&self, size: Size) -> u64 {
        let (slots, units) = room(size);
        COUNTERS + 16 * u64::from(size.tiles) + 96 * slots + 16 * slots.div_ceil(2) + 16 * units
    }

    fn rates(&self) -> (f64, f64, f64) {
        (0.5e9, 40e9, 1.0e9)
    }

    fn launch(&self, gpu: &Gpu, stream: &Stream, batch: &Batch) -> Result<(), Failure> {
        let Batch { tiles, count, statuses, scratch, size, at_once } = batch;
        let (slots, units) = room(*size);
        let (slots, units) = (slots as u32, units as u32);
        let arguments: [&dyn Arguments; 6] = [tiles, count, statuses, scratch, &slots, &units];
        stream.fill(*scratch, 0, COUNTERS)?;
        let warps = Shape { grid: (count.div_ceil(4), 1), block: 128, shared: 0 };
        gpu.kernels.function("zstd", "zstd_scan", 0)?.launch(warps, stream, &arguments)?;
        let (block, blocks, shared) = ENTROPY;
        // Its share of the warps that the device has room for: they take several blocks each where they are few, in about
        // the time of one, and leave room for those of other batches.
        let warps_of_all = u64::from(blocks * gpu.info.multiprocessors);
        let share = (warps_of_all * u64::from(*count)).div_ceil(u64::from((*at_once).max(*count).max(1)));
        let shape = Shape { grid: (share as u32, 1), block, shared };
        gpu.kernels.function("zstd", "zstd_entropy", shared)?.launch(shape, stream, &arguments)?;
        let (name, block, _, shared) = fit(&EXECUTE, batch, gpu.info.multiprocessors, gpu.shared_memory);
        let shape = Shape { grid: (*count, 1), block, shared };
        gpu.kernels.function("zstd", name, shared)?.launch(shape, stream, &arguments)?;
        gpu.kernels.function("zstd", "zstd_sums", 0)?.launch(warps, stream, &arguments)
    }
}
