// Encodes PackBits tiles; `packbits_encode.cuh` says how. Three kernels, one after the other in one stream, the last one
// after `offsets` of `frame.cu`:
//
//     packbits_count(tiles, count, per_tile)           grid: count * per_tile / 8 blocks, rounded up; block: 256; shared: none
//     packbits_sum(tiles, count, sizes)                grid: count; block: 256; shared: 128 bytes
//     packbits_write(tiles, per_tile, blob)            grid: blob.count * per_tile / 8, rounded up; block: 256; shared: none
//
// A `Tile` here is a plain one: `in_bytes` at `in`, in rows of `out_bytes`; `out` is scratch, a word for each row, aligned to
// 4 bytes. `per_tile` are the most rows that a tile has. A packed tile has fewer than 2^32 bytes.
#include "packbits_encode.cuh"

SIMT_KERNEL void __launch_bounds__(256) packbits_count(const Tile* tiles, u32 count, u32 per_tile) {
    const u64 warp = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (warp / per_tile >= count) return;
    const PackBitsWork work = {tiles[warp / per_tile], (u32)(warp % per_tile)};
    if (work.row >= work.rows()) return;
    const u32 lane = threadIdx.x & 31;
    const u32 size = packbits_row<false>(work.in(), work.bytes(), nullptr, lane);
    if (lane == 0) *work.place() = size;
}

SIMT_KERNEL void __launch_bounds__(256) packbits_sum(const Tile* tiles, u32 count, u64* sizes) {
    SIMT_DYN_SHARED(PackBitsSumShared, shared);
    if (blockIdx.x >= count) return;
    const u64 size = packbits_places(*shared, tiles[blockIdx.x]);
    if (threadIdx.x == 0) sizes[blockIdx.x] = size;
}

SIMT_KERNEL void __launch_bounds__(256) packbits_write(const Tile* tiles, u32 per_tile, Blob blob) {
    const u64 warp = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (warp / per_tile >= blob.count) return;
    const u32 tile = blob.first + (u32)(warp / per_tile);
    const PackBitsWork work = {tiles[tile], (u32)(warp % per_tile)};
    u8* out = place_in(blob, tile);
    if (!out || work.row >= work.rows()) return;
    packbits_row<true>(work.in(), work.bytes(), out + *work.place(), threadIdx.x & 31);
}
