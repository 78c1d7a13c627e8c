// Encodes Deflate tiles with the frame of zlib; `deflate_encode.cuh` says how. Three kernels, one after the other in one
// stream, the last one after `adler` and `offsets` of `frame.cu`, which is told 6 `extra` bytes:
//
//     deflate_encode(tiles, count, per_tile)         grid: count * per_tile; block: 256; shared: 76088 bytes
//     deflate_sum(tiles, count, sizes)               grid: count / 8, rounded up; block: 256; shared: none
//     deflate_write(tiles, sums, per_tile, blob)     grid: blob.count * per_tile; block: 256; shared: none
//
// A `Tile` here is a plain one, of at least one byte: `in_bytes` at `in`, aligned to 16 bytes; the aligned unit of 16 bytes
// with its last byte can be read. `out` is scratch, aligned to 16 bytes: with n blocks of 32768 bytes (DE_BLOCK), 12 * n + 8
// bytes, rounded up to 16, and n * 32768. `per_tile` are the most blocks that a tile has. `sums` are Adler-32s of plain tiles.
#include "deflate_encode.cuh"

SIMT_KERNEL void __launch_bounds__(DE_THREADS) deflate_encode(const Tile* tiles, u32 count, u32 per_tile) {
    SIMT_DYN_SHARED(DeShared, shared);
    const u32 number = blockIdx.x / per_tile, block = blockIdx.x % per_tile;
    if (number >= count) return;
    const Tile tile = tiles[number];
    if (block < DeScratch(tile).count) de_encode(*shared, tile, block);
}

SIMT_KERNEL void __launch_bounds__(256) deflate_sum(const Tile* tiles, u32 count, u64* sizes) {
    const u32 number = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x & 31;
    if (number >= count) return;
    const u64 bytes = de_places(DeScratch(tiles[number]), lane);
    if (lane == 0) sizes[number] = bytes;
}

SIMT_KERNEL void __launch_bounds__(BLOB_THREADS)
    deflate_write(const Tile* tiles, const u32* sums, u32 per_tile, Blob blob) {
    const u32 number = blockIdx.x / per_tile, block = blockIdx.x % per_tile;
    if (number >= blob.count) return;
    u8* out = place_in(blob, blob.first + number);
    const Tile tile = tiles[blob.first + number];
    if (out && block < DeScratch(tile).count) de_write(tile, block, sums[blob.first + number], out);
}
