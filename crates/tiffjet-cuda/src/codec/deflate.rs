//! Deflate: `kernels/deflate.cu`.

use super::{Batch, Route, fit};
use crate::ffi::driver::{Arguments, Failure, Shape, Stream};
use crate::memory::Gpu;

/// Deflate.
pub struct Deflate;

/// Kernel, threads of a block, blocks on a multiprocessor, shared memory; the least threads first.
pub const LAUNCHES: [(&str, u32, u32, u32); 4] = [
    ("deflate_128", 128, 8, 27136),
    ("deflate_256", 256, 4, 52560),
    ("deflate_512", 512, 2, 99184),
    ("deflate_1024", 1024, 1, 161536),
];

impl Route for Deflate {
    fn codec(&self) -> &'static str {
        "deflate"
    }

    fn rates(&self) -> (f64, f64, f64) {
        (0.4e9, 80e9, 0.7e9)
    }

    fn launch(&self, gpu: &Gpu, stream: &Stream, batch: &Batch) -> Result<(), Failure> {
        let (name, threads, _, shared) = fit(&LAUNCHES, batch, gpu.info.multiprocessors, gpu.shared_memory);
        let function = gpu.kernels.function("deflate", name, shared)?;
        let shape = Shape { grid: (batch.count, 1), block: threads, shared };
        function.launch(shape, stream, &[&batch.tiles as &dyn Arguments, &batch.count, &batch.statuses])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Size;

    fn threads(at_once: u32, largest_out: u32, shared: u32) -> u32 {
        let size = Size { largest_out, ..Size::default() };
        let batch = Batch { tiles: 0, count: at_once, statuses: 0, scratch: 0, size, at_once };
        fit(&LAUNCHES, &batch, 132, shared).1
    }

    #[test]
    fn few_large_tiles_get_many_threads() {
        let all = 227 << 10;
        assert_eq!(threads(1024, 256 << 10, all), 128);
        assert_eq!(threads(256, 1 << 20, all), 512);
        assert_eq!(threads(64, 4 << 20, all), 1024);
        assert_eq!(threads(64, 4 << 20, 99 << 10), 512);
        assert_eq!(threads(1, 1000, all), 128);
        assert_eq!(threads(100_000, 1 << 20, all), 128);
    }
}
