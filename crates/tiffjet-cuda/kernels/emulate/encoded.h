// Reads plain tiles, gives what an encoder makes of them: the other side of `tests/emulated/encoders.rs`.
#pragma once
#include "cases.h"

// Tiles of one run, each with scratch of its own, in memory as small as the contract allows.
struct Plain {
    Cases memory;
    u64 seed = 0;
    u32 at_once = 0;
    std::vector<Tile> tiles;
    std::vector<u64> sizes, offsets;

    template <class T> static T next() {
        T value;
        Cases::bytes(&value, sizeof value);
        return value;
    }

    // `scratch`: bytes that a tile needs, from its bytes and those of a row.
    void read(u64 (*scratch)(u64, u64)) {
        seed = next<u64>();
        const u32 count = next<u32>();
        at_once = next<u32>();
        for (u32 i = 0; i < count; ++i) {
            const u32 bytes = next<u32>(), row = next<u32>();
            u8* in = memory.take(bytes);
            Cases::bytes(in, bytes);
            const u64 room = scratch(bytes, row);
            u8* out = memory.take(room);
            memset(out, 0xa5, room);
            tiles.push_back(Tile{in, out, bytes, row, i, TILE_PLAIN});
        }
        sizes.assign(count, 77);
    }

    // Gives tiles to `put`, some at a time, and what it writes to the output, with the size of each before it.
    template <class Put> void write(Put put) {
        offsets.assign(1, 0);
        for (u64 size : sizes) offsets.push_back(offsets.back() + size);
        fwrite(sizes.data(), 8, sizes.size(), stdout);
        const u32 count = (u32)tiles.size();
        for (u32 first = 0; first < count; first += at_once) {
            const u32 some = count - first < at_once ? count - first : at_once;
            const u64 room = offsets[first + some] - offsets[first];
            // No byte more than the tiles have.
            std::vector<u8> out(room);
            put(Blob{sizes.data(), offsets.data(), out.data(), room, first, some});
            fwrite(out.data(), 1, room, stdout);
        }
    }
};
