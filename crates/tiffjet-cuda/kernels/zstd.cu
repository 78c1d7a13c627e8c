// Zstandard (RFC 8878) for a batch of tiles: frames one after the other, skippable ones too, with or without content
// size and checksum; no dictionaries.
//
// Four kernels, one stream, in this order:
//
//   zstd_scan         a warp for each tile lists its blocks        block 128, grid ceil(tiles / 4), no shared memory
//   zstd_entropy      a warp for a group of blocks, literals and   block 32, grid 8 * multiprocessors,
//                     sequences decoded into the arena             shared ENTROPY.shared_bytes
//   zstd_execute_T    a block of threads for each tile, sequences  block T, grid tiles,
//                     carried out                                  shared EXECUTE[i].shared_bytes
//   zstd_sums         a warp for each tile, checksums              block 128, grid ceil(tiles / 4), no shared memory
//
// T, the number of threads that share a tile, and shared memory stand in zstd_launch.h. The rule takes the most threads
// for which
//   - all blocks are resident at once: tiles <= multiprocessors x blocks on one, or it is the smallest choice,
//   - a tile is worth them: out_bytes of the largest tile >= 32 x threads,
//   - shared memory suffices: shared_bytes <= what a block may have on the device.
//
// All take (tiles, count, status, scratch, slots, units). The scratch memory is aligned to 16 bytes, its first 64 bytes
// are zero before zstd_scan, and it has
//
//   slots = sum over tiles of (out_bytes / 1024 + 4)                       blocks
//   units = sum over tiles of (out_bytes / 6 + 1) + 3 * slots              of 16 bytes: literals, 8 bytes a sequence
//   bytes = 64 + 16 * count + 96 * slots + 16 * ((slots + 1) / 2) + 16 * units
//
// which is 2.82 times the output, because a sequence gives three bytes or more. The status of every tile is written.
#include "zstd_launch.h"
#include "zstd_scan.cuh"
#include "zstd_sum.cuh"

SIMT_KERNEL void __launch_bounds__(128) zstd_scan(const Tile* tiles, u32 count, u32* status, u8* scratch, u32 slots, u32 units) {
    u32 index = blockIdx.x * 4 + threadIdx.x / 32;
    if (index >= count) return;
    zstd_scan_tile(tiles[index], index, status, zstd_scratch(scratch, count, slots, units), threadIdx.x & 31);
}

SIMT_KERNEL void __launch_bounds__(32) zstd_entropy(const Tile* tiles, u32 count, u32* status, u8* scratch, u32 slots, u32 units) {
    SIMT_DYN_SHARED(ZstdEntropyShared, sh);
    zstd_entropy_jobs(tiles, status, zstd_scratch(scratch, count, slots, units), *sh, threadIdx.x);
}

template <u32 T, u32 W>
DEVICE void zstd_execute(const Tile* tiles, u32 count, u32* status, u8* scratch, u32 slots, u32 units, ZstdExecuteShared<T, W>& sh) {
    u32 t = threadIdx.x;
    ZstdExecute<T, W> e{sh, tiles[blockIdx.x], t, t & 31, 0, 0, 0, {}};
    e.run(zstd_scratch(scratch, count, slots, units), blockIdx.x, status);
}

#define ZSTD_EXECUTE(T, PER_SM)                                                                                      \
    SIMT_KERNEL void __launch_bounds__(T, PER_SM)                                                                     \
        zstd_execute_##T(const Tile* tiles, u32 count, u32* status, u8* scratch, u32 slots, u32 units) {              \
        SIMT_DYN_SHARED(zstd::Execute##T, sh);                                                                         \
        zstd_execute(tiles, count, status, scratch, slots, units, *sh);                                               \
    }

ZSTD_EXECUTE(128, 8)
ZSTD_EXECUTE(256, 4)
ZSTD_EXECUTE(512, 2)
ZSTD_EXECUTE(1024, 1)

SIMT_KERNEL void __launch_bounds__(128) zstd_sums(const Tile* tiles, u32 count, u32* status, u8* scratch, u32 slots, u32 units) {
    u32 index = blockIdx.x * 4 + threadIdx.x / 32;
    if (index >= count) return;
    zstd_check_sums(tiles[index], index, status, zstd_scratch(scratch, count, slots, units), threadIdx.x & 31);
}
