//! How the kernels of writing are launched. Where there is nothing to do, nothing is: a grid without blocks is an error.

use super::Kernels;
use super::reduce::{Level, Reduction};
use super::write::{Blob, Lengths, PackFormat, PackTile, Strided, collect_copy};
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
        if shape.contains(&0) {
            return Ok(());
        }
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
        /// Warps of one launch.
        const MOST: u32 = 1 << 30;
        let function = self.function("pack", format.kernel(tiles), 0)?;
        let tallest = tiles.iter().map(|tile| tile.rows).max().unwrap_or(0);
        let per_tile = tallest.div_ceil(PACK_ROWS).max(1);
        let step = (MOST / per_tile).max(1) as usize;
        let format = Argument::new(format.bytes());
        for (part, first) in tiles.chunks(step).zip((0u64..).step_by(step)) {
            let (count, at, differs) = (part.len() as u32, at + first * PackTile::SIZE, differs + 4 * first);
            let arguments: [&dyn Arguments; 5] = [&at, &count, &per_tile, &format, &differs];
            function.launch(warps(count * per_tile), stream, &arguments)?;
        }
        Ok(())
    }

    /// Makes the Adler-32 of plain tiles: arrays of their addresses, each aligned to 16 bytes, and of their bytes.
    pub fn adler(&self, stream: &Stream, tiles: u64, bytes: u64, count: u32, sums: u64) -> Result<(), Failure> {
        if count == 0 {
            return Ok(());
        }
        let function = self.function("frame", "adler", shared::ALL.adler)?;
        let shape = Shape { grid: (count, 1), block: BLOCK, shared: shared::ALL.adler };
        function.launch(shape, stream, &[&tiles as &dyn Arguments, &bytes, &count, &sums])
    }

    /// Makes the lengths of tiles in the file, all ones for a tile that was not compressed, and their sums, one more than
    /// there are tiles.
    pub fn offsets(
        &self,
        stream: &Stream,
        from: &Lengths,
        count: u32,
        lengths: u64,
        offsets: u64,
    ) -> Result<(), Failure> {
        let function = self.function("frame", "offsets", shared::ALL.offsets)?;
        let shape = Shape { grid: (1, 1), block: 1024, shared: shared::ALL.offsets };
        let from = Argument::new(from.bytes());
        function.launch(shape, stream, &[&from as &dyn Arguments, &count, &lengths, &offsets])
    }

    /// Puts compressed tiles, whose addresses stand at `payloads`, one behind the other. None is longer than `longest`.
    /// With the Adler-32s at `sums` they become zlib streams; 0 leaves them as they are.
    pub fn gather(&self, stream: &Stream, payloads: u64, longest: u64, sums: u64, blob: &Blob) -> Result<(), Failure> {
        self.write_pieces(("frame", "gather"), stream, &[&payloads, &sums], pieces(longest, BLOB_PIECE)?, blob)
    }

    /// Makes the sizes of plain tiles as PackBits packs them. Each [`Tile`](super::Tile) has rows of `out_bytes`, and at
    /// `output` scratch: [`packbits_scratch`]. None has more rows than `rows`.
    pub fn packbits_sizes(
        &self,
        stream: &Stream,
        tiles: u64,
        count: u32,
        rows: u32,
        sizes: u64,
    ) -> Result<(), Failure> {
        if count == 0 {
            return Ok(());
        }
        let rows = rows.max(1);
        let function = self.function("packbits_encode", "packbits_count", 0)?;
        function.launch(warps(blocks(count, rows)?), stream, &[&tiles as &dyn Arguments, &count, &rows])?;
        let function = self.function("packbits_encode", "packbits_sum", shared::ALL.packbits_sum)?;
        let shape = Shape { grid: (count, 1), block: BLOCK, shared: shared::ALL.packbits_sum };
        function.launch(shape, stream, &[&tiles as &dyn Arguments, &count, &sizes])
    }

    /// Packs the same tiles into a blob.
    pub fn packbits_write(&self, stream: &Stream, tiles: u64, rows: u32, blob: &Blob) -> Result<(), Failure> {
        if blob.count == 0 {
            return Ok(());
        }
        let rows = rows.max(1);
        let function = self.function("packbits_encode", "packbits_write", 0)?;
        let shape = warps(blocks(blob.count, rows)?);
        let blob = Argument::new(blob.bytes());
        function.launch(shape, stream, &[&tiles as &dyn Arguments, &rows, &blob])
    }

    /// Encodes plain tiles with LZW and makes their sizes. Each [`Tile`](super::Tile) has at `output` scratch:
    /// [`lzw_scratch`]. None has more bytes than `longest`, and none has no byte.
    pub fn lzw_encode(&self, stream: &Stream, tiles: u64, count: u32, longest: u64, sizes: u64) -> Result<(), Failure> {
        if count == 0 {
            return Ok(());
        }
        let per_tile = pieces(longest, LZW_PIECE)?;
        let segments = Shape { grid: (blocks(count, per_tile)?, 1), block: 32, shared: shared::ALL.lzw_encode };
        let function = |name, shared| self.function("lzw_encode", name, shared);
        let table = shared::ALL.lzw_encode;
        let all: [&dyn Arguments; 3] = [&tiles, &count, &per_tile];
        function("lzw_encode", table)?.launch(segments, stream, &all)?;
        function("lzw_choose", 0)?.launch(warps(count), stream, &all[..2])?;
        function("lzw_again", table)?.launch(segments, stream, &all)?;
        function("lzw_sum", 0)?.launch(warps(count), stream, &[&tiles as &dyn Arguments, &count, &sizes])
    }

    /// Puts the same tiles into a blob.
    pub fn lzw_write(&self, stream: &Stream, tiles: u64, longest: u64, blob: &Blob) -> Result<(), Failure> {
        self.write_pieces(("lzw_encode", "lzw_write"), stream, &[&tiles], pieces(longest, LZW_PIECE)?, blob)
    }

    /// A block of threads for each piece of each tile, by the kernel of a module that needs so much shared memory, then the
    /// sizes of tiles from those of their pieces.
    fn encode_blocks(
        &self,
        (module, encode, sum, shared): (&'static str, &'static str, &'static str, u32),
        stream: &Stream,
        (tiles, count): (u64, u32),
        per_tile: u32,
        sizes: u64,
    ) -> Result<(), Failure> {
        if count == 0 {
            return Ok(());
        }
        let shape = Shape { grid: (blocks(count, per_tile)?, 1), block: BLOCK, shared };
        let function = self.function(module, encode, shared)?;
        function.launch(shape, stream, &[&tiles as &dyn Arguments, &count, &per_tile])?;
        self.function(module, sum, 0)?.launch(warps(count), stream, &[&tiles as &dyn Arguments, &count, &sizes])
    }

    /// Pieces of encoded tiles into a blob; `given` is what the kernel is told before them.
    fn write_pieces(
        &self,
        (module, write): (&'static str, &'static str),
        stream: &Stream,
        given: &[&dyn Arguments],
        per_tile: u32,
        blob: &Blob,
    ) -> Result<(), Failure> {
        if blob.count == 0 {
            return Ok(());
        }
        let shape = Shape { grid: (blocks(blob.count, per_tile)?, 1), block: BLOCK, shared: 0 };
        let blob = Argument::new(blob.bytes());
        let all: Vec<&dyn Arguments> = given.iter().copied().chain([&per_tile as &dyn Arguments, &blob]).collect();
        self.function(module, write, 0)?.launch(shape, stream, &all)
    }

    /// Encodes plain tiles with ZSTD, each as one frame, and makes their sizes. Each [`Tile`](super::Tile) has at `output`
    /// scratch: [`zstd_scratch`]. None has more bytes than `longest`, and none has no byte.
    pub fn zstd_encode(
        &self,
        stream: &Stream,
        tiles: u64,
        count: u32,
        longest: u64,
        sizes: u64,
    ) -> Result<(), Failure> {
        let kernels = ("zstd_encode", "zstd_encode", "zstd_sum", shared::ALL.zstd_encode);
        self.encode_blocks(kernels, stream, (tiles, count), pieces(longest, ZSTD_BLOCK)?, sizes)
    }

    /// Puts the same tiles into a blob.
    pub fn zstd_write(&self, stream: &Stream, tiles: u64, longest: u64, blob: &Blob) -> Result<(), Failure> {
        self.write_pieces(("zstd_encode", "zstd_write"), stream, &[&tiles], pieces(longest, ZSTD_BLOCK)?, blob)
    }

    /// Encodes plain tiles with Deflate and makes their sizes, without the frame of zlib. Each [`Tile`](super::Tile) has at
    /// `output` scratch: [`deflate_scratch`]. None has more bytes than `longest`, and none has no byte.
    pub fn deflate_encode(
        &self,
        stream: &Stream,
        tiles: u64,
        count: u32,
        longest: u64,
        sizes: u64,
    ) -> Result<(), Failure> {
        let kernels = ("deflate_encode", "deflate_encode", "deflate_sum", shared::ALL.deflate_encode);
        self.encode_blocks(kernels, stream, (tiles, count), pieces(longest, DEFLATE_BLOCK)?, sizes)
    }

    /// Puts the same tiles into a blob, in the frame of zlib: lengths have 6 bytes more than sizes, and `sums` are the
    /// Adler-32s.
    pub fn deflate_write(
        &self,
        stream: &Stream,
        tiles: u64,
        longest: u64,
        sums: u64,
        blob: &Blob,
    ) -> Result<(), Failure> {
        let kernel = ("deflate_encode", "deflate_write");
        self.write_pieces(kernel, stream, &[&tiles, &sums], pieces(longest, DEFLATE_BLOCK)?, blob)
    }

    /// Makes rows of a level, and their mask where there is one, from rows of the level above. The table of the reduction
    /// stands at `table`; `scratch` has [`Reduction::scratch`] bytes for the rows of `above`.
    pub fn reduce(
        &self,
        stream: &Stream,
        reduction: &Reduction,
        table: u64,
        above: &Level,
        below: &Level,
        scratch: u64,
    ) -> Result<(), Failure> {
        if below.rows == 0 {
            return Ok(());
        }
        let plan = Argument::new(reduction.bytes(table, above, below, scratch));
        let across = blocks(reduction.width().div_ceil(BLOCK), below.rows)?;
        let shape = |x: u32, y: u32| Shape { grid: (x, y), block: BLOCK, shared: 0 };
        let launch =
            |name, x, y| self.function("reduce", name, 0)?.launch(shape(x, y), stream, &[&plan as &dyn Arguments]);
        if let Some(marker) = reduction.marker() {
            launch(marker, above.rows, reduction.bands())?;
        }
        if below.mask != 0 {
            launch("reduce_mask", across, 1)?;
        }
        launch(reduction.kernel(), across, reduction.bands())
    }
}

/// Rows of a tile that a warp packs.
pub const PACK_ROWS: u32 = 4;
/// Bytes of a tile that a block copies.
pub const BLOB_PIECE: u64 = 16384;
/// Bytes of a tile that LZW takes as one.
pub const LZW_PIECE: u64 = 32768;
/// Bytes that they can become.
pub const LZW_ROOM: u64 = 49200;

/// Bytes of scratch that LZW needs for a tile.
pub fn lzw_scratch(bytes: u64) -> u64 {
    let segments = bytes.div_ceil(LZW_PIECE);
    (8 * (segments + 1)).next_multiple_of(16) + segments * LZW_ROOM
}

/// Bytes of a tile that ZSTD takes as one block.
pub const ZSTD_BLOCK: u64 = 32768;

/// Bytes of scratch that ZSTD needs for a tile.
pub fn zstd_scratch(bytes: u64) -> u64 {
    let blocks = bytes.div_ceil(ZSTD_BLOCK);
    (12 * blocks + 8).next_multiple_of(16) + blocks * ZSTD_BLOCK
}

/// Bytes of a tile that Deflate takes as one block.
pub const DEFLATE_BLOCK: u64 = 32768;

/// Bytes of scratch that Deflate needs for a tile.
pub fn deflate_scratch(bytes: u64) -> u64 {
    let blocks = bytes.div_ceil(DEFLATE_BLOCK);
    (12 * blocks + 8).next_multiple_of(16) + blocks * DEFLATE_BLOCK
}

/// Bytes of scratch that PackBits needs for a tile.
pub fn packbits_scratch(bytes: u64, row_bytes: u64) -> u64 {
    4 * bytes.div_ceil(row_bytes.max(1))
}

/// Shared memory of blocks, as the headers of the kernels have it; a test compares.
pub mod shared {
    /// Of each kernel that has some.
    pub struct Shared {
        /// Of `adler`.
        pub adler: u32,
        /// Of `offsets`.
        pub offsets: u32,
        /// Of `packbits_sum`.
        pub packbits_sum: u32,
        /// Of `lzw_encode` and `lzw_again`.
        pub lzw_encode: u32,
        /// Of `zstd_encode`.
        pub zstd_encode: u32,
        /// Of `deflate_encode`.
        pub deflate_encode: u32,
    }

    /// What they have.
    pub const ALL: Shared = Shared {
        adler: 64,
        offsets: 256,
        packbits_sum: 128,
        lzw_encode: 24576,
        zstd_encode: 76276,
        deflate_encode: 76088,
    };
}

/// Pieces of so many bytes that the longest tile has.
fn pieces(longest: u64, piece: u64) -> Result<u32, Failure> {
    u32::try_from(longest.div_ceil(piece).max(1)).map_err(|_| too_large())
}

/// Blocks of a grid.
fn blocks(count: u32, each: u32) -> Result<u32, Failure> {
    count.checked_mul(each).filter(|&blocks| blocks <= i32::MAX as u32).ok_or_else(too_large)
}

fn too_large() -> Failure {
    Failure { call: "launching", code: 0, reason: "more blocks than a grid has".into() }
}
