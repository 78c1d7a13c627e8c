// The kernels of `packbits_encode.cu` over plain tiles from the input.
#include "encoded.h"

#include "../packbits_encode.cu"

static_assert(sizeof(PackBitsSumShared) == 128, "the head of packbits_encode.cu says so");

int main() {
    Plain plain;
    plain.read([](u64 bytes, u64 row) { return (bytes + row - 1) / row * 4; });
    struct Run {
        const Tile* tiles;
        u32 count, rows;
        u64* sizes;
        Blob blob;
    } run = {plain.tiles.data(), (u32)plain.tiles.size(), 1, plain.sizes.data(), {}};
    for (const Tile& tile : plain.tiles) {
        const u32 rows = (tile.in_bytes + tile.out_bytes - 1) / tile.out_bytes;
        run.rows = rows > run.rows ? rows : run.rows;
    }
    void* args[] = {&run};
    const auto counts = [](void** a) { Run& r = *(Run*)a[0]; packbits_count(r.tiles, r.count, r.rows); };
    const auto sums = [](void** a) { Run& r = *(Run*)a[0]; packbits_sum(r.tiles, r.count, r.sizes); };
    const auto writes = [](void** a) { Run& r = *(Run*)a[0]; packbits_write(r.tiles, r.rows, r.blob); };
    simt::launch(dim3((run.count * run.rows + 7) / 8), dim3(256), 0, counts, args, plain.seed);
    simt::launch(dim3(run.count), dim3(256), sizeof(PackBitsSumShared), sums, args, plain.seed);
    plain.write([&](Blob blob) {
        run.blob = blob;
        simt::launch(dim3((blob.count * run.rows + 7) / 8), dim3(256), 0, writes, args, plain.seed);
    });
}
