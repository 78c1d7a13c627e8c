// Encodes LZW tiles; `lzw_encode.cuh` says how. Five kernels, one after the other in one stream, the last one after
// `offsets` of `frame.cu`:
//
//     lzw_encode(tiles, count, per_tile)           grid: count * per_tile; block: 32; shared: 24576 bytes
//     lzw_choose(tiles, count)                     grid: count / 8, rounded up; block: 256; shared: none
//     lzw_again(tiles, count, per_tile)            grid: count * per_tile; block: 32; shared: 24576 bytes
//     lzw_sum(tiles, count, sizes)                 grid: count / 8, rounded up; block: 256; shared: none
//     lzw_write(tiles, per_tile, blob)             grid: blob.count * per_tile; block: 256; shared: none
//
// A `Tile` here is a plain one, of at least one byte: `in_bytes` at `in`, aligned to 16 bytes; the aligned unit of 16 bytes
// with its last byte can be read. `out` is scratch, aligned to 16 bytes: with n segments of 32768 bytes (LZW_PIECE), 8 * (n + 1)
// bytes, rounded up to 16, and n * 49200 (LZW_ROOM). `per_tile` are the most segments that a tile has.
#include "lzw_encode.cuh"

SIMT_KERNEL void __launch_bounds__(32) lzw_encode(const Tile* tiles, u32 count, u32 per_tile) {
    SIMT_DYN_SHARED(LzwTable, table);
    const u32 number = blockIdx.x / per_tile, segment = blockIdx.x % per_tile;
    if (number >= count) return;
    const Tile tile = tiles[number];
    if (segment < LzwScratch(tile).count) lzw_encode_segment(*table, tile, segment, 1, threadIdx.x);
}

SIMT_KERNEL void __launch_bounds__(256) lzw_choose(const Tile* tiles, u32 count) {
    const u32 number = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x & 31;
    if (number >= count) return;
    const LzwScratch scratch(tiles[number]);
    const u64 bits = lzw_all_bits(scratch, lane);
    if (lane == 0) scratch.bits[scratch.count] = lzw_joined(bits, scratch.count);
}

SIMT_KERNEL void __launch_bounds__(32) lzw_again(const Tile* tiles, u32 count, u32 per_tile) {
    SIMT_DYN_SHARED(LzwTable, table);
    const u32 number = blockIdx.x / per_tile, segment = blockIdx.x % per_tile;
    if (number >= count) return;
    const Tile tile = tiles[number];
    const LzwScratch scratch(tile);
    if (segment >= scratch.count || scratch.count == 1) return;
    const u32 joined = (u32)scratch.bits[scratch.count];
    if (joined > 1 && segment % joined == 0) lzw_encode_segment(*table, tile, segment, joined, threadIdx.x);
}

SIMT_KERNEL void __launch_bounds__(256) lzw_sum(const Tile* tiles, u32 count, u64* sizes) {
    const u32 number = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x & 31;
    if (number >= count) return;
    const u64 bytes = lzw_places(LzwScratch(tiles[number]), lane);
    if (lane == 0) sizes[number] = bytes;
}

SIMT_KERNEL void __launch_bounds__(BLOB_THREADS) lzw_write(const Tile* tiles, u32 per_tile, Blob blob) {
    const u32 number = blockIdx.x / per_tile, segment = blockIdx.x % per_tile;
    if (number >= blob.count) return;
    u8* out = place_in(blob, blob.first + number);
    const LzwScratch scratch(tiles[blob.first + number]);
    if (out && segment < scratch.count) lzw_move(scratch, segment, out);
}
