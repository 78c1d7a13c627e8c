#include "../zstd.cu"

#include "cases.h"

typedef void (*Kernel)(const Tile*, u32, u32*, u8*, u32, u32);

struct Arguments {
    Kernel kernel;
    const Tile* tiles;
    u32 count;
    u32* status;
    u8* scratch;
    u32 slots, units;
};

static void call(void** args) {
    const Arguments& a = *static_cast<Arguments*>(args[0]);
    a.kernel(a.tiles, a.count, a.status, a.scratch, a.slots, a.units);
}

int main() {
    Cases cases;
    cases.read();
    u32 count = static_cast<u32>(cases.tiles.size());
    u64 slots = 0, units = 0;
    for (const Tile& tile : cases.tiles) {
        slots += zstd::slots(tile.out_bytes);
        units += zstd::units(tile.out_bytes);
    }
    u64 bytes = zstd::scratch_bytes(count, slots, units);
    u8* scratch = cases.take(bytes);
    memset(scratch, 0xee, bytes);
    memset(scratch, 0, 64);
    Arguments a{zstd_scan, cases.tiles.data(), count, cases.status.data(), scratch, u32(slots), u32(units)};
    void* args[] = {&a};
    auto launch = [&](Kernel kernel, u32 grid, u32 block, size_t shared) {
        a.kernel = kernel;
        simt::launch(grid, block, shared, call, args, cases.seed);
    };
    launch(zstd_scan, (count + 3) / 4, 128, 16);
    launch(zstd_entropy, 3, 32, sizeof(ZstdEntropyShared));
    // The seed chooses among the sizes.
    switch (cases.seed % 4) {
        case 1: launch(zstd_execute_256, count, 256, sizeof(zstd::Execute256)); break;
        case 2: launch(zstd_execute_512, count, 512, sizeof(zstd::Execute512)); break;
        case 3: launch(zstd_execute_1024, count, 1024, sizeof(zstd::Execute1024)); break;
        default: launch(zstd_execute_128, count, 128, sizeof(zstd::Execute128));
    }
    launch(zstd_sums, (count + 3) / 4, 128, 16);
    cases.write();
    return 0;
}
