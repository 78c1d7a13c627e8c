// Encodes ZSTD tiles; `zstd_encode.cuh` says how. Three kernels, one after the other in one stream, the last one after
// `offsets` of `frame.cu`:
//
//     zstd_encode(tiles, count, per_tile)          grid: count * per_tile; block: 256; shared: 76276 bytes
//     zstd_sum(tiles, count, sizes)                grid: count / 8, rounded up; block: 256; shared: none
//     zstd_write(tiles, per_tile, blob)            grid: blob.count * per_tile; block: 256; shared: none
//
// A `Tile` here is a plain one, of at least one byte: `in_bytes` at `in`, aligned to 16 bytes; the aligned unit of 16 bytes
// with its last byte can be read. `out` is scratch, aligned to 16 bytes: with n blocks of 32768 bytes (ZE_BLOCK), 12 * n + 8
// bytes, rounded up to 16, and n * 32768. `per_tile` are the most blocks that a tile has. Every tile becomes one frame that
// says how long its content is, without a checksum.
#include "zstd_encode.cuh"

SIMT_KERNEL void __launch_bounds__(ZE_THREADS) zstd_encode(const Tile* tiles, u32 count, u32 per_tile) {
    SIMT_DYN_SHARED(ZeShared, shared);
    const u32 number = blockIdx.x / per_tile, block = blockIdx.x % per_tile;
    if (number >= count) return;
    const Tile tile = tiles[number];
    if (block < ZeScratch(tile).count) ze_encode(*shared, tile, block);
}

SIMT_KERNEL void __launch_bounds__(256) zstd_sum(const Tile* tiles, u32 count, u64* sizes) {
    const u32 number = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x & 31;
    if (number >= count) return;
    const u64 bytes = ze_places(ZeScratch(tiles[number]), lane);
    if (lane == 0) sizes[number] = bytes;
}

SIMT_KERNEL void __launch_bounds__(BLOB_THREADS) zstd_write(const Tile* tiles, u32 per_tile, Blob blob) {
    const u32 number = blockIdx.x / per_tile, block = blockIdx.x % per_tile;
    if (number >= blob.count) return;
    u8* out = place_in(blob, blob.first + number);
    const Tile tile = tiles[blob.first + number];
    if (out && block < ZeScratch(tile).count) ze_write(tile, block, out);
}
