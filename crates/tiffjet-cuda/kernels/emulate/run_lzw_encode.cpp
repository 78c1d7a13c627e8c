// The kernels of `lzw_encode.cu` over plain tiles from the input.
#include "encoded.h"

#include "../lzw_encode.cu"

static_assert(sizeof(LzwTable) == 24576 && LZW_ROOM == 49200, "the head of lzw_encode.cu says so");

static u64 scratch(u64 bytes, u64) {
    const u64 segments = (bytes + LZW_PIECE - 1) / LZW_PIECE;
    return ((8 * (segments + 1) + 15) & ~15ull) + segments * LZW_ROOM;
}

int main() {
    Plain plain;
    plain.read(scratch);
    struct Run {
        const Tile* tiles;
        u32 count, segments;
        u64* sizes;
        Blob blob;
    } run = {plain.tiles.data(), (u32)plain.tiles.size(), 1, plain.sizes.data(), {}};
    for (const Tile& tile : plain.tiles) {
        const u32 segments = (tile.in_bytes + LZW_PIECE - 1) / LZW_PIECE;
        run.segments = segments > run.segments ? segments : run.segments;
    }
    void* args[] = {&run};
    const auto encode = [](void** a) { Run& r = *(Run*)a[0]; lzw_encode(r.tiles, r.count, r.segments); };
    const auto choose = [](void** a) { Run& r = *(Run*)a[0]; lzw_choose(r.tiles, r.count); };
    const auto again = [](void** a) { Run& r = *(Run*)a[0]; lzw_again(r.tiles, r.count, r.segments); };
    const auto sum = [](void** a) { Run& r = *(Run*)a[0]; lzw_sum(r.tiles, r.count, r.sizes); };
    const auto write = [](void** a) { Run& r = *(Run*)a[0]; lzw_write(r.tiles, r.segments, r.blob); };
    const u32 warps = (run.count + 7) / 8;
    simt::launch(dim3(run.count * run.segments), dim3(32), sizeof(LzwTable), encode, args, plain.seed);
    simt::launch(dim3(warps), dim3(256), 0, choose, args, plain.seed);
    simt::launch(dim3(run.count * run.segments), dim3(32), sizeof(LzwTable), again, args, plain.seed);
    simt::launch(dim3(warps), dim3(256), 0, sum, args, plain.seed);
    plain.write([&](Blob blob) {
        run.blob = blob;
        simt::launch(dim3(blob.count * run.segments), dim3(BLOB_THREADS), 0, write, args, plain.seed);
    });
}
