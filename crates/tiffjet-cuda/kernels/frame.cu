// Kernels that follow the compression of tiles; `frame.cuh` says how.
//
//     adler(tiles, bytes, count, sums)              grid: count; block: 256; shared: 64 bytes
//     offsets(from, count, lengths, offsets)        grid: 1; block: 1024; shared: 256 bytes
//     gather(payloads, sums, per_tile, blob)        grid: blob.count * per_tile; block: 256; shared: none
//
// `adler` makes Adler-32 of tiles, which are aligned to 16 bytes, of fewer than 2^32 bytes each. `offsets` makes the
// lengths of tiles in the file (all ones where a tile was not compressed, 0 where it is left out) and their sums, one more
// than there are tiles. `gather` puts tiles one after the other; `per_tile` is the longest payload / 16384 (BLOB_PIECE),
// rounded up, and at least 1. With `sums` every tile gets the frame of zlib, for which `offsets` was told 6 `extra` bytes.
#include "frame.cuh"

SIMT_KERNEL void __launch_bounds__(ADLER_THREADS) adler(const u8* const* tiles, const u64* bytes, u32 count, u32* sums) {
    SIMT_DYN_SHARED(AdlerShared, shared);
    if (blockIdx.x >= count) return;
    const u32 sum = adler_of(*shared, tiles[blockIdx.x], (u32)bytes[blockIdx.x]);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

SIMT_KERNEL void __launch_bounds__(OFFSETS_THREADS) offsets(Lengths from, u32 count, u64* lengths, u64* offsets) {
    SIMT_DYN_SHARED(OffsetsShared, shared);
    add_up(*shared, from, count, lengths, offsets);
}

SIMT_KERNEL void __launch_bounds__(BLOB_THREADS)
    gather(const u8* const* payloads, const u32* sums, u32 per_tile, Blob blob) {
    const u32 tile = blob.first + blockIdx.x / per_tile;
    if (tile - blob.first < blob.count) gather_piece(payloads[tile], sums, blob, tile, blockIdx.x % per_tile);
}
