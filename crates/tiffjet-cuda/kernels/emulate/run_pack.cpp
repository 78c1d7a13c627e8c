// Reads batches of tiles to pack, or rows to collect, from the input and gives what becomes of them: the other side of
// `tests/pack.rs`.
#include "cases.h"

#include "../pack.cu"

typedef void (*PackEntry)(const PackTile*, u32, u32, PackFormat, u32*);

static const struct {
    const char* name;
    PackEntry entry;
} ENTRIES[] = {
#define ENTRY(NAME) {#NAME, NAME},
#define ENTRIES_OF(SIZE) ENTRY(pack_bands_##SIZE##_2) ENTRY(pack_bands_##SIZE##_3) ENTRY(pack_bands_##SIZE##_4)
    ENTRY(pack_line_1) ENTRY(pack_line_2) ENTRY(pack_line_4) ENTRY(pack_line_8)
    ENTRY(pack_line_floats_2) ENTRY(pack_line_floats_4) ENTRY(pack_line_floats_8)
    ENTRIES_OF(1) ENTRIES_OF(2) ENTRIES_OF(4) ENTRIES_OF(8)
    ENTRY(pack_bands_floats_4_2) ENTRY(pack_bands_floats_4_3) ENTRY(pack_bands_floats_4_4) ENTRY(pack_any)
};

template <class T> static T next() {
    T value;
    Cases::bytes(&value, sizeof value);
    return value;
}

// Bytes of the input in memory of their own at an alignment of their own, with not a byte more than the contract says:
// whole units of 16.
static u8* pixels(Cases& memory, u32 skew) {
    const u32 bytes = next<u32>();
    u8* at = memory.take(skew + bytes) + skew;
    Cases::bytes(at, bytes);
    return at;
}

static void pack(Cases& memory, u64 seed, const char* name) {
    PackEntry entry = nullptr;
    for (const auto& known : ENTRIES) {
        if (!strcmp(known.name, name)) entry = known.entry;
    }
    if (!entry) abort();
    PackFormat format = next<PackFormat>();
    const u32 skew = next<u32>();
    u8* in = pixels(memory, skew);
    std::vector<PackTile> tiles(next<u32>());
    u32 most = 0;
    for (PackTile& tile : tiles) {
        tile = next<PackTile>();
        tile.in = in + (size_t)tile.in;
        tile.out = memory.take(tile.rows * format.row_bytes);
        memset(tile.out, 0x5a, tile.rows * format.row_bytes);
        most = tile.rows > most ? tile.rows : most;
    }
    std::vector<u32> differs(tiles.size());
    const PackTile* first = tiles.data();
    u32 count = (u32)tiles.size(), per_tile = (most + PACK_ROWS - 1) / PACK_ROWS;
    u32* flags = format.absent ? differs.data() : nullptr;
    void* args[] = {&entry, &first, &count, &per_tile, &format, &flags};
    const auto run = [](void** a) {
        (*(PackEntry*)a[0])(*(const PackTile**)a[1], *(u32*)a[2], *(u32*)a[3], *(PackFormat*)a[4], *(u32**)a[5]);
    };
    simt::launch(dim3((count * per_tile + 7) / 8), dim3(256), 0, run, args, seed);
    for (size_t i = 0; i < tiles.size(); ++i) {
        fwrite(&differs[i], 4, 1, stdout);
        fwrite(tiles[i].out, 1, tiles[i].rows * format.row_bytes, stdout);
    }
}

static void collect_rows(Cases& memory, u64 seed) {
    CollectCopy copy = next<CollectCopy>();
    const u32 skew = next<u32>(), out_skew = next<u32>(), out_bytes = next<u32>();
    copy.in = pixels(memory, skew) + (size_t)copy.in;
    u8* out = memory.take(out_skew + out_bytes) + out_skew;
    memset(out, 0x5a, out_bytes);
    copy.out = out + (size_t)copy.out;
    void* args[] = {&copy};
    const auto run = [](void** a) { collect(*(CollectCopy*)a[0]); };
    simt::launch(dim3((copy.bands * copy.rows + 7) / 8), dim3(256), 0, run, args, seed);
    fwrite(out, 1, out_bytes, stdout);
}

int main() {
    const u64 seed = next<u64>();
    for (u32 left = next<u32>(); left > 0; --left) {
        Cases memory;
        char name[24] = {};
        Cases::bytes(name, sizeof name);
        if (!strcmp(name, "collect")) collect_rows(memory, seed);
        else pack(memory, seed, name);
    }
}
