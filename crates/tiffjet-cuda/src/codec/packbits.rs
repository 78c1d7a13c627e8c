//! PackBits: `kernels/packbits.cu`.

use super::{Batch, Route};
use crate::ffi::driver::{Arguments, Failure, Shape, Stream};
use crate::memory::Gpu;

/// PackBits.
pub struct PackBits;

/// Shared memory of a block.
pub const SHARED: u32 = 33184;

impl Route for PackBits {
    fn codec(&self) -> &'static str {
        "packbits"
    }

    fn rates(&self) -> (f64, f64, f64) {
        (5e9, 200e9, 4e9)
    }

    fn launch(&self, gpu: &Gpu, stream: &Stream, batch: &Batch) -> Result<(), Failure> {
        let function = gpu.kernels.function("packbits", "packbits", SHARED)?;
        let shape = Shape { grid: (batch.count, 1), block: 256, shared: SHARED };
        function.launch(shape, stream, &[&batch.tiles as &dyn Arguments, &batch.count, &batch.statuses])
    }
}
