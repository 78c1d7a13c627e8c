// Decodes PackBits tiles; `packbits.cuh` says how.
//
//     packbits(tiles, count, status)    grid: count; block: 256; shared: 33184 bytes
//
// Every tile has its status afterwards: OK with the bytes that the host codec gives, or INPUT where it refuses.
#include "packbits.cuh"

SIMT_KERNEL void __launch_bounds__(PACKBITS_THREADS) packbits(const Tile* tiles, u32 count, u32* status) {
    SIMT_DYN_SHARED(PackBitsShared, shared);
    if (blockIdx.x < count) packbits_tile(*shared, tiles[blockIdx.x], status);
}
