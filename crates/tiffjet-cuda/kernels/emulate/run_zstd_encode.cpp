// The kernels of `zstd_encode.cu` over plain tiles from the input.
#include "encoded.h"

#include "../zstd_encode.cu"

static_assert(sizeof(ZeShared) == 76276, "the head of zstd_encode.cu says so");

static u64 scratch(u64 bytes, u64) {
    const u64 blocks = (bytes + ZE_BLOCK - 1) / ZE_BLOCK;
    return ((12 * blocks + 8 + 15) & ~15ull) + blocks * ZE_BLOCK;
}

int main() {
    Plain plain;
    plain.read(scratch);
    struct Run {
        const Tile* tiles;
        u32 count, blocks;
        u64* sizes;
        Blob blob;
    } run = {plain.tiles.data(), (u32)plain.tiles.size(), 1, plain.sizes.data(), {}};
    for (const Tile& tile : plain.tiles) {
        const u32 blocks = (tile.in_bytes + ZE_BLOCK - 1) / ZE_BLOCK;
        run.blocks = blocks > run.blocks ? blocks : run.blocks;
    }
    void* args[] = {&run};
    const auto encode = [](void** a) { Run& r = *(Run*)a[0]; zstd_encode(r.tiles, r.count, r.blocks); };
    const auto sum = [](void** a) { Run& r = *(Run*)a[0]; zstd_sum(r.tiles, r.count, r.sizes); };
    const auto write = [](void** a) { Run& r = *(Run*)a[0]; zstd_write(r.tiles, r.blocks, r.blob); };
    simt::launch(dim3(run.count * run.blocks), dim3(ZE_THREADS), sizeof(ZeShared), encode, args, plain.seed);
    simt::launch(dim3((run.count + 7) / 8), dim3(256), 0, sum, args, plain.seed);
    plain.write([&](Blob blob) {
        run.blob = blob;
        simt::launch(dim3(blob.count * run.blocks), dim3(BLOB_THREADS), 0, write, args, plain.seed);
    });
}
