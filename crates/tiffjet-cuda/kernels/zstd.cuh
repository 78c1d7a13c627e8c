// Zstandard: what its kernels share. How they work together, and how they are launched, is told in `zstd.cu`.
#pragma once
#include "abi.h"

// Inputs and outputs are counted in bits and bytes of 32-bit words; larger tiles are the host's.
enum : u32 { ZSTD_MOST_INPUT = 1u << 27, ZSTD_MOST_OUTPUT = 1u << 28 };
// Blocks that a tile may have: four, and one for every 1024 bytes it gives.
enum : u32 { ZSTD_FREE_BLOCKS = 4, ZSTD_BYTES_PER_BLOCK = 1024 };
enum : u32 { ZSTD_UNIT = 16, ZSTD_NONE = 0xffffffffu };

// The first bytes of the scratch memory; zero before the first kernel.
struct ZstdCounters {
    u32 blocks;     // places of the list of blocks that are taken
    u32 units;      // and of the arena
    u32 sequences;  // jobs
    u32 literals;   // jobs
    u32 tickets;    // groups of jobs that are taken
    u32 pad[11];
};

// The blocks of one tile, in order, up to the end of the data or to where they stop making sense.
struct ZstdTile {
    u32 first;
    u32 count;
    u32 tail;  // Status of what comes after them, good when the data just end
    u32 sums;  // frames with a checksum
};

enum ZstdBlockKind : u32 { ZSTD_RAW = 0, ZSTD_RLE = 1, ZSTD_COMPRESSED = 2 };
enum ZstdLiterals : u32 { ZSTD_LITERALS_RAW = 0, ZSTD_LITERALS_RLE = 1, ZSTD_LITERALS_TREE = 2, ZSTD_LITERALS_TREELESS = 3 };
enum ZstdMode : u32 { ZSTD_PREDEFINED = 0, ZSTD_ONE = 1, ZSTD_TABLE = 2, ZSTD_REPEAT = 3 };
enum ZstdTable : u32 { ZSTD_LENGTHS = 0, ZSTD_OFFSETS = 1, ZSTD_MATCHES = 2, ZSTD_TREE = 3 };
enum ZstdFlags : u32 {
    ZSTD_FIRST = 1,    // of its frame
    ZSTD_LAST = 2,     // of its frame
    ZSTD_CONTENT = 4,  // the frame says how much it holds
    ZSTD_SUM = 8,      // the frame has a checksum
};

// One block. Places in the input are bytes from the tile's first.
struct ZstdBlock {
    u32 tile;
    u32 kind;   // ZstdBlockKind
    u32 flags;  // ZstdFlags
    u32 at;     // its content
    u32 size;   // bytes of it; what it gives, for RLE
    u32 most;   // bytes it may give
    u32 content;         // bytes of the frame
    u32 sum;             // low half of the frame's XXH64
    u32 literals;        // bytes of them, decoded
    u32 literals_kind;   // ZstdLiterals
    u32 literals_at;     // after their header
    u32 literals_size;   // as they are in the input
    u32 streams;         // 1 or 4
    u32 sequences;       // how many
    u32 sequences_at;    // after their header: tables, then bits
    u32 modes;           // ZstdMode of each ZstdTable, two bits each
    u32 from[4];         // for each ZstdTable the block that describes it
    u32 literals_unit;   // where in the arena decoded literals are
    u32 sequences_unit;  // and records of sequences
    u32 frame_at;        // set by `execute`: first byte of the frame's output,
    u32 frame_end;       // and the one after its last
};

// A sequence as it comes out of the state machines: where its extra bits end (they are read downwards), and its codes.
struct __align__(8) ZstdRecord {
    u32 bit;    // from the tile's first aligned 16 bytes
    u32 codes;  // of literals 0..5, of match 6..11, of offset 12..16
};

struct __align__(16) ZstdUnit {
    u32 word[4];
};

// The parts of the scratch memory, one after the other.
struct ZstdScratch {
    ZstdCounters* counters;
    ZstdTile* tiles;
    ZstdBlock* blocks;
    u32* sequences;  // jobs: numbers of blocks
    u32* literals;
    ZstdUnit* arena;
    u32 units;
};

DEVICE ZstdScratch zstd_scratch(u8* memory, u32 tiles, u32 slots, u32 units) {
    ZstdScratch s;
    s.counters = reinterpret_cast<ZstdCounters*>(memory);
    s.tiles = reinterpret_cast<ZstdTile*>(memory + sizeof(ZstdCounters));
    s.blocks = reinterpret_cast<ZstdBlock*>(s.tiles + tiles);
    s.sequences = reinterpret_cast<u32*>(s.blocks + slots);
    s.literals = s.sequences + slots;
    // Two lists of jobs, up to a whole unit.
    s.arena = reinterpret_cast<ZstdUnit*>(s.sequences) + (static_cast<u64>(slots) + 1) / 2;
    s.units = units;
    return s;
}

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define ZSTD_UNROLL _Pragma("unroll")
#define ZSTD_LOOP _Pragma("unroll 1")
#else
#define ZSTD_UNROLL
#define ZSTD_LOOP
#endif

DEVICE u32 zstd_min(u32 a, u32 b) { return a < b ? a : b; }
DEVICE u32 zstd_high_bit(u32 x) { return 31 - __clz(static_cast<int>(x)); }  // of x > 0

// The top `n` bits of `x`, 0 to 31 of them; what `n` has above its five low bits does not matter.
DEVICE u32 zstd_top(u32 x, u32 n) { return __funnelshift_l(x, 0, n); }

// Four bytes from anywhere; up to seven after the address are touched.
DEVICE u32 zstd_load(const u8* p) {
    u64 address = reinterpret_cast<u64>(p);
    const u32* w = reinterpret_cast<const u32*>(address & ~3ull);
    return __funnelshift_r(w[0], w[1], static_cast<u32>(address & 3) * 8);
}

// Status codes only grow: which of several kernels finds something first does not matter.
DEVICE void zstd_fail(u32* status, const Tile& tile, u32 code) { atomicMax(&status[tile.id], code); }

// Bits of a code's extra value above its base, as `base | bits << 24`.
DEVICE u32 zstd_length_code(u32 code) {
    if (code < 16) return code;
    if (code < 20) return (16 + (code - 16) * 2) | 1u << 24;
    if (code < 22) return (24 + (code - 20) * 4) | 2u << 24;
    if (code < 24) return (32 + (code - 22) * 8) | 3u << 24;
    if (code < 25) return 48 | 4u << 24;
    return (1u << (code - 19)) | (code - 19) << 24;
}

DEVICE u32 zstd_match_code(u32 code) {
    if (code < 32) return code + 3;
    if (code < 36) return (35 + (code - 32) * 2) | 1u << 24;
    if (code < 38) return (43 + (code - 36) * 4) | 2u << 24;
    if (code < 40) return (51 + (code - 38) * 8) | 3u << 24;
    if (code < 42) return (67 + (code - 40) * 16) | 4u << 24;
    if (code < 43) return 99 | 5u << 24;
    return ((1u << (code - 36)) + 3) | (code - 36) << 24;
}
