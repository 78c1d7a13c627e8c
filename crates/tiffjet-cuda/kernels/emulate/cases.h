// Reads cases from the input, gives a decoder's outcome for each: the other side of `tests/emulated/mod.rs`.
#pragma once
#include "../abi.h"

#include <cstdio>
#include <memory>

// Where input comes from and output goes to: the streams of the program, or memory where a fuzzer feeds it.
#ifdef CASES_IN_MEMORY
namespace memory_cases {
void take(void* to, size_t n);
void spoil(void* data, size_t n);
void give(const void* from, size_t n);
}  // namespace memory_cases
#endif

// Tiles of one run and their statuses, in memory as small as the contract of `Tile` allows, so that AddressSanitizer
// sees a read or a write outside of it.
struct Cases {
    uint64_t seed = 0;
    std::vector<Tile> tiles;
    std::vector<u32> status;
    std::vector<std::unique_ptr<u8, void (*)(void*)>> memory;

    u8* take(size_t n) {
        void* p = aligned_alloc(16, (n + 15) & ~size_t(15));
        if (!p) abort();
        memory.emplace_back(static_cast<u8*>(p), free);
        return static_cast<u8*>(p);
    }

    static void bytes(void* to, size_t n) {
#ifdef CASES_IN_MEMORY
        memory_cases::take(to, n);
#else
        if (n && fread(to, 1, n, stdin) != n) abort();
#endif
    }

    // Bytes that may have any value: a fuzzer may change them.
    static void data(void* to, size_t n) {
        bytes(to, n);
#ifdef CASES_IN_MEMORY
        memory_cases::spoil(to, n);
#endif
    }

    static void give(const void* from, size_t n) {
#ifdef CASES_IN_MEMORY
        memory_cases::give(from, n);
#else
        fwrite(from, 1, n, stdout);
#endif
    }

    void read() {
        u32 n;
        bytes(&seed, 8);
        bytes(&n, 4);
        status.assign(n, 0xffffffffu);
        for (u32 i = 0; i < n; ++i) {
            u32 size[2];
            bytes(size, 8);
            // Every alignment of the input takes its turn.
            u32 skew = i % 16;
            u8* in = take(16 + skew + size[0] + 32) + 16 + skew;
            memset(in - 16 - skew, 0xa5, 16 + skew + size[0] + 32);
            data(in, size[0]);
            u8* out = take(size[1] + 16);
            memset(out, 0x5a, size[1] + 16);
            tiles.push_back(Tile{in, out, size[0], size[1], i, TILE_PLAIN});
        }
    }

    void write() {
        for (size_t i = 0; i < tiles.size(); ++i) {
#ifdef CASES_IN_MEMORY
            // What is in a refused tile is nobody's, nor which fault of several is seen first.
            const u8 refused = status[i] != STATUS_OK;
            give(&refused, 1);
            if (refused) continue;
#else
            give(&status[i], 4);
#endif
            give(tiles[i].out, tiles[i].out_bytes);
        }
    }
};
