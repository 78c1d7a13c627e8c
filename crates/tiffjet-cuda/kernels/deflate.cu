// The entry points of the Deflate decoder, one for each number of threads that share a tile.
//
//   name           threads  blocks on a multiprocessor
//   deflate_128        128  8
//   deflate_256        256  4
//   deflate_512        512  2
//   deflate_1024      1024  1
//
// Launch: grid = `count` blocks of that many threads, dynamic shared memory `deflate::LAUNCHES[i].shared_bytes` (raise the
// limit of the function first), no scratch. Statuses of all tiles are written.
//
// The rule, a pure function of the batch and the device, takes the most threads for which
//   - all blocks are resident at once: count <= multiprocessors x blocks on one, or it is the smallest choice,
//   - a tile is worth them: out_bytes of the largest tile >= 32 x threads,
//   - shared memory suffices: shared_bytes <= what a block may have on the device.
#include "deflate_launch.h"

#define DEFLATE(threads, blocks)                                                                                        \
    SIMT_KERNEL void __launch_bounds__(threads, blocks)                                                                 \
        deflate_##threads(const Tile* tiles, u32 count, u32* status) {                                                  \
        SIMT_DYN_SHARED(deflate::Shared##threads, shared);                                                              \
        if (blockIdx.x < count) deflate::decode_tile(*shared, tiles[blockIdx.x], status);                               \
    }

DEFLATE(128, 8)
DEFLATE(256, 4)
DEFLATE(512, 2)
DEFLATE(1024, 1)
