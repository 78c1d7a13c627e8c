//! How the kernels of writing are launched.

use super::Kernels;
use super::write::{PackFormat, PackTile, Strided, collect_copy};
use crate::ffi::driver::{Argument, Arguments, Failure, Shape, Stream};

/// Threads of a block where warps work for themselves.
const BLOCK: u32 = 256;
/// Warps of such a block.
const WARPS: u32 = BLOCK / 32;

/// A grid of so many warps.
fn warps(count: u32) -> Shape {
    Shape { grid: (count.div_ceil(WARPS), 1), block: BLOCK, shared: 0 }
}

impl Kernels {
    /// Copies bands, rows and columns of values of `size` bytes from strides to strides, which may be the same; floats
    /// that are NaN become `nan`.
    pub fn collect(
        &self,
        stream: &Stream,
        from: &Strided,
        to: &Strided,
        shape: [u32; 3],
        size: u32,
        nan: Option<&[u8]>,
    ) -> Result<(), Failure> {
        /// Warps of one launch.
        const MOST: u32 = 1 << 30;
        let function = self.function("pack", "collect", 0)?;
        let [bands, rows, columns] = shape;
        let at_once = (MOST / rows.max(1)).max(1);
        for first in (0..bands).step_by(at_once as usize) {
            let count = at_once.min(bands - first);
            let part = |all: &Strided| Strided {
                address: all.address.wrapping_add_signed(all.strides[0].wrapping_mul(first.into())),
                ..*all
            };
            let copy = Argument::new(collect_copy(&part(from), &part(to), [count, rows, columns], size, nan));
            function.launch(warps(count * rows), stream, &[&copy as &dyn Arguments])?;
        }
        Ok(())
    }

    /// Packs tiles, whose table stands at an address. The words at `differs`, one for each tile, become 1 where not all
    /// values are absent ones; it is not read when the format has none.
    pub fn pack(
        &self,
        stream: &Stream,
        (at, tiles): (u64, &[PackTile]),
        format: &PackFormat,
        differs: u64,
    ) -> Result<(), Failure> {
        /// Rows of a warp.
        const ROWS: u32 = 4;
        /// Warps of one launch.
        const MOST: u32 = 1 << 30;
        let function = self.function("pack", format.kernel(tiles), 0)?;
        let tallest = tiles.iter().map(|tile| tile.rows).max().unwrap_or(0);
        let per_tile = tallest.div_ceil(ROWS).max(1);
        let step = (MOST / per_tile).max(1) as usize;
        let format = Argument::new(format.bytes());
        for (part, first) in tiles.chunks(step).zip((0u64..).step_by(step)) {
            let (count, at, differs) = (part.len() as u32, at + first * PackTile::SIZE, differs + 4 * first);
            let arguments: [&dyn Arguments; 5] = [&at, &count, &per_tile, &format, &differs];
            function.launch(warps(count * per_tile), stream, &arguments)?;
        }
        Ok(())
    }
}
