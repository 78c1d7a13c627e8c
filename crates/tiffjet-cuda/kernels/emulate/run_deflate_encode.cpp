// The kernels of `deflate_encode.cu` over plain tiles from the input, with the frame of zlib.
#include "encoded.h"

#include "../deflate_encode.cu"

static_assert(sizeof(DeShared) == 76088, "the head of deflate_encode.cu says so");

static u64 scratch(u64 bytes, u64) {
    const u64 blocks = (bytes + DE_BLOCK - 1) / DE_BLOCK;
    return ((12 * blocks + 8 + 15) & ~15ull) + blocks * DE_BLOCK;
}

static u32 adler_of(const Tile& tile) {
    u32 a = 1, b = 0;
    for (u32 i = 0; i < tile.in_bytes; ++i) {
        a = (a + tile.in[i]) % ADLER_MODULUS;
        b = (b + a) % ADLER_MODULUS;
    }
    return b << 16 | a;
}

int main() {
    Plain plain;
    plain.read(scratch);
    struct Run {
        const Tile* tiles;
        u32 count, blocks;
        u64* sizes;
        const u32* sums;
        Blob blob;
    } run = {plain.tiles.data(), (u32)plain.tiles.size(), 1, plain.sizes.data(), nullptr, {}};
    std::vector<u32> sums;
    for (const Tile& tile : plain.tiles) {
        const u32 blocks = (tile.in_bytes + DE_BLOCK - 1) / DE_BLOCK;
        run.blocks = blocks > run.blocks ? blocks : run.blocks;
        sums.push_back(adler_of(tile));
    }
    run.sums = sums.data();
    void* args[] = {&run};
    const auto encode = [](void** a) { Run& r = *(Run*)a[0]; deflate_encode(r.tiles, r.count, r.blocks); };
    const auto sum = [](void** a) { Run& r = *(Run*)a[0]; deflate_sum(r.tiles, r.count, r.sizes); };
    const auto write = [](void** a) { Run& r = *(Run*)a[0]; deflate_write(r.tiles, r.sums, r.blocks, r.blob); };
    simt::launch(dim3(run.count * run.blocks), dim3(DE_THREADS), sizeof(DeShared), encode, args, plain.seed);
    simt::launch(dim3((run.count + 7) / 8), dim3(256), 0, sum, args, plain.seed);
    for (u64& size : plain.sizes) size += ZLIB_HEAD + ZLIB_TAIL;
    plain.write([&](Blob blob) {
        run.blob = blob;
        simt::launch(dim3(blob.count * run.blocks), dim3(BLOB_THREADS), 0, write, args, plain.seed);
    });
}
