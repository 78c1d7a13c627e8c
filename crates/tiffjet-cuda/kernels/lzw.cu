// Decodes LZW tiles; `lzw.cuh` says how. Three kernels, one after the other in one stream:
//
//     lzw_list(tiles, count, head, slots, bases, status)          grid: count / 8 blocks, rounded up; block: 256
//     lzw_segments(tiles, turns, head, slots, bases, status)      grid: below; block: 256; shared: 37648 bytes
//     lzw_retry(tiles, count, status)                             grid: count; block: 256; shared: 37648 bytes
//
// Slots: for each tile in_bytes / 4096 + 1 (LZW_SEGMENT_BYTES), of 32 bytes. `head` has 16 bytes, which the host clears
// before each batch; slots need no clearing. `bases` has 4 bytes for each tile. So the scratch of a batch is
// 16 + 32 * (sum of in_bytes / 4096 + 1) + 4 * count, aligned to 16.
//
// Where tiles are of about one size, `turns` is their number, and the grid of `lzw_segments` is that times the slots of the
// largest; else it is 0 and the grid is all slots.
//
// After `lzw_retry` every tile has its status: OK with the bytes that the host codec gives, or INPUT, DAMAGED or FOREIGN
// (tables cleared every few bytes).
#include "lzw.cuh"

SIMT_KERNEL void __launch_bounds__(256)
    lzw_list(const Tile* tiles, u32 count, LzwHead* head, LzwSlot* slots, u32* bases, u32* status) {
    const u32 number = blockIdx.x * 8 + threadIdx.x / 32;
    if (number < count) lzw_find_segments(tiles[number], number, head, slots, bases, status, threadIdx.x & 31);
}

SIMT_KERNEL void __launch_bounds__(LZW_THREADS, 6)
    lzw_segments(const Tile* tiles, u32 turns, LzwHead* head, LzwSlot* slots, const u32* bases, u32* status) {
    SIMT_DYN_SHARED(LzwShared, shared);
    if (threadIdx.x == 0) shared->ticket = atomicAdd(&head->ticket, 1u);
    __syncthreads();
    LzwSlot* slot = lzw_slot(slots, tiles, bases, turns, shared->ticket);
    if (slot == nullptr || slot->tile == LZW_NO_TILE) return;
    lzw_segment(*shared, tiles[slot->tile], slot, status);
}

SIMT_KERNEL void __launch_bounds__(LZW_THREADS, 6) lzw_retry(const Tile* tiles, u32 count, u32* status) {
    SIMT_DYN_SHARED(LzwShared, shared);
    if (blockIdx.x >= count) return;
    const Tile tile = tiles[blockIdx.x];
    if (status[tile.id] != STATUS_RETRY) return;
    if (lzw_is_old(tile)) lzw_in_order<true>(*shared, tile, status);
    else lzw_in_order<false>(*shared, tile, status);
}
