// Literals and sequences of all blocks of a batch: a warp for a group of blocks, a lane for each stream of bits.
//
// Streams are short (a quarter of a block's literals, the sequences of 128 KiB) and many, so nothing is speculated: each
// lane goes through its stream as fast as one load from shared memory after the other allows.
#pragma once
#include "zstd_tables.cuh"

enum : u32 { ZSTD_GROUP = 4, ZSTD_LANES = ZSTD_GROUP * 4 };
// Cells of the tables of one block's sequences: literals, matches, offsets.
enum : u32 { ZSTD_MATCH_CELLS = 512, ZSTD_OFFSET_CELLS = 1024, ZSTD_BLOCK_CELLS = 1280 };

DEVICE u32 zstd_first_cell(u32 table) {
    if (table == ZSTD_LENGTHS) return 0;
    return table == ZSTD_MATCHES ? ZSTD_MATCH_CELLS : ZSTD_OFFSET_CELLS;
}

struct ZstdSequencesShared {
    u32 cells[ZSTD_GROUP * ZSTD_BLOCK_CELLS];
    union {
        struct {
            ZstdCounts counts[ZSTD_GROUP][3];
            u32 next[ZSTD_SYMBOLS];
            u8 order[512];
        } make;
        ZstdUnit ring[ZSTD_GROUP * ZSTD_RING_STRIDE / 4];
    };
};

struct ZstdLiteralsShared {
    u16 cells[ZSTD_GROUP << ZSTD_TREE_LOG];
    ZstdUnit ring[ZSTD_LANES * ZSTD_RING_STRIDE / 4];
    ZstdWeights weights[ZSTD_GROUP];
    u16 small[ZSTD_GROUP][64];
    u8 sorted[256];
    u32 start[32];
};

union ZstdEntropyShared {
    ZstdSequencesShared sequences;
    ZstdLiteralsShared literals;
};

// The bits of a stream in a tile's input: where from, and the tile's first aligned unit.
struct ZstdStream {
    const ZstdUnit* units;
    u32 start, end;
};

DEVICE bool zstd_stream(const Tile& tile, u32 at, u32 size, ZstdStream& s) {
    u32 skew = static_cast<u32>(reinterpret_cast<u64>(tile.in) & 15);
    s.units = reinterpret_cast<const ZstdUnit*>(tile.in - skew);
    s.start = (skew + at) * 8;
    return zstd_end_bit(tile.in, at, size, skew, s.end);
}

// Reads the descriptions of all tables of a block; gives the place of its bits, 0 when something is wrong.
DEVICE u32 zstd_read_tables(const Tile& tile, const ZstdBlock* blocks, const ZstdBlock& b, ZstdCounts* counts) {
    u32 at = b.sequences_at, end = b.at + b.size;
    for (u32 k = 0; k < 3; ++k) {
        u32 mode = b.modes >> 2 * k & 3;
        if (mode != ZSTD_REPEAT) {
            at = zstd_read_table(tile.in, at, end, k, mode, counts[k]);
            if (at == 0) return 0;
        } else if (!zstd_read_again(tile.in, blocks[b.from[k]], k, counts[k])) {
            return 0;
        }
    }
    return at;
}

// One lane takes a block's sequences apart; true when its bits are used up exactly.
DEVICE bool zstd_take_sequences(const ZstdStream& s, u32 count, const u32* logs, const u32* cells, u32 first, u32* ring, ZstdRecord* to) {
    ZstdBits bits;
    zstd_open_bits(bits, s.units, s.start, s.end, ring);
    u32 lengths = first + zstd_take(bits, logs[ZSTD_LENGTHS]);
    u32 offsets = first + ZSTD_OFFSET_CELLS + zstd_take(bits, logs[ZSTD_OFFSETS]);
    u32 matches = first + ZSTD_MATCH_CELLS + zstd_take(bits, logs[ZSTD_MATCHES]);
    int left = static_cast<int>(s.end - logs[0] - logs[1] - logs[2]);
    for (u32 k = 1;; ++k) {
        u32 a = cells[lengths], b = cells[matches], c = cells[offsets];
        u32 sum = a + b + c, extra = sum & 63, width = sum >> 6 & 31;
        *to++ = ZstdRecord{static_cast<u32>(left), (a >> 11 & 63) | (b >> 5 & 63 << 6) | (c << 1 & 31 << 12)};
        left -= static_cast<int>(extra);
        if (k == count) break;
        left -= static_cast<int>(width);
        u32 total = extra + width;
        if (total < 32) {
            // The usual case; only the low five bits of a shift count.
            u32 next = __funnelshift_l(bits.low, bits.high, sum);
            u32 wider = (a >> 6) + (b >> 6);
            lengths = (a >> 19) + zstd_top(next, a >> 6);
            matches = (b >> 19) + zstd_top(__funnelshift_l(0, next, a >> 6), b >> 6);
            offsets = (c >> 19) + zstd_top(__funnelshift_l(0, next, wider), c >> 6);
            zstd_skip(bits, total);
        } else {
            for (; extra > 31; extra -= 31) zstd_skip(bits, 31);
            zstd_skip(bits, extra);
            lengths = (a >> 19) + zstd_take(bits, a >> 6 & 31);
            matches = (b >> 19) + zstd_take(bits, b >> 6 & 31);
            offsets = (c >> 19) + zstd_take(bits, c >> 6 & 31);
        }
    }
    return left == static_cast<int>(s.start);
}

// A group of blocks, a lane for the sequences of each.
DEVICE void zstd_sequences(const Tile* tiles, u32* status, const ZstdScratch& s, u32 first, u32 count, ZstdSequencesShared& sh, u32 lane) {
    bool works = lane < count;
    const ZstdBlock* b = works ? &s.blocks[s.sequences[first + lane]] : nullptr;
    u32 logs[3] = {}, at = 0;
    ZstdStream stream;
    if (works) {
        const Tile& tile = tiles[b->tile];
        ZstdCounts* counts = sh.make.counts[lane];
        at = zstd_read_tables(tile, s.blocks, *b, counts);
        works = at && zstd_stream(tile, at, b->at + b->size - at, stream);
        if (works) {
            for (u32 k = 0; k < 3; ++k) logs[k] = counts[k].log;
        } else {
            zstd_fail(status, tile, STATUS_DAMAGED);
        }
    }
    u32 working = __ballot_sync(FULL_WARP, works);
    for (u32 g = 0; g < count; ++g) {
        if (!(working >> g & 1)) continue;
        for (u32 k = 0; k < 3; ++k) {
            u32 cell = g * ZSTD_BLOCK_CELLS + zstd_first_cell(k);
            zstd_make_table(sh.make.counts[g][k], k, sh.cells + cell, cell, sh.make.next, sh.make.order, lane);
        }
    }
    __syncwarp();
    if (works) {
        ZstdRecord* to = reinterpret_cast<ZstdRecord*>(s.arena + b->sequences_unit);
        u32* ring = sh.ring[lane * (ZSTD_RING_STRIDE / 4)].word;
        if (!zstd_take_sequences(stream, b->sequences, logs, sh.cells, lane * ZSTD_BLOCK_CELLS, ring, to)) {
            zstd_fail(status, tiles[b->tile], STATUS_DAMAGED);
        }
    }
    __syncwarp();
}

// One lane decodes a stream of literals; true when its bits are used up exactly.
DEVICE bool zstd_take_literals(const ZstdStream& s, u32 count, u32 log, const u16* cells, u32* ring, u8* to) {
    ZstdBits bits;
    zstd_open_bits(bits, s.units, s.start, s.end, ring);
    u32 used = 0;
    // Two symbols take at most 22 bits, of which there are 32.
    auto two = [&](u32& low, u32& high) {
        low = cells[zstd_top(bits.high, log)];
        bits.high = __funnelshift_l(bits.low, bits.high, low);
        bits.low = __funnelshift_l(0, bits.low, low);
        high = cells[zstd_top(bits.high, log)];
        bits.high = __funnelshift_l(bits.low, bits.high, high);
        bits.low = __funnelshift_l(0, bits.low, high);
        u32 n = (low + high) & 63;
        bits.have -= n;
        used += n;
        zstd_refill(bits);
    };
    auto one = [&]() {
        u32 c = cells[zstd_top(bits.high, log)];
        zstd_skip(bits, c & 31);
        used += c & 31;
        *to++ = static_cast<u8>(c >> 8);
    };
    while (count && (reinterpret_cast<u64>(to) & 3)) {
        one();
        --count;
    }
    for (; count >= 4; count -= 4) {
        u32 a, b, c, d;
        two(a, b);
        two(c, d);
        *reinterpret_cast<u32*>(to) = a >> 8 | (b & 0xff00) | (c << 8 & 0xff0000) | (d << 16 & 0xff000000);
        to += 4;
    }
    for (; count; --count) one();
    return s.end - s.start == used;
}

// A group of blocks, a lane for each of four streams of each.
DEVICE void zstd_literals(const Tile* tiles, u32* status, const ZstdScratch& s, u32 first, u32 count, ZstdLiteralsShared& sh, u32 lane) {
    u32 g = lane / 4, part = lane % 4;
    bool works = g < count;
    const ZstdBlock* b = works ? &s.blocks[s.literals[first + g]] : nullptr;
    if (works && part == 0) {
        const ZstdBlock& source = s.blocks[b->from[ZSTD_TREE]];
        works = zstd_read_weights(tiles[b->tile].in, source.literals_at, source.literals_at + source.literals_size, sh.weights[g], sh.small[g]);
        if (!works) zstd_fail(status, tiles[b->tile], STATUS_DAMAGED);
    }
    __syncwarp();
    u32 working = __ballot_sync(FULL_WARP, works);
    for (u32 k = 0; k < count; ++k) {
        if (working >> 4 * k & 1) zstd_make_tree(sh.weights[k], sh.cells + (k << ZSTD_TREE_LOG), sh.sorted, sh.start, lane);
    }
    works = works && (working >> 4 * g & 1) && part < b->streams;
    if (works) {
        const Tile& tile = tiles[b->tile];
        u32 at = b->literals_kind == ZSTD_LITERALS_TREE ? sh.weights[g].after : b->literals_at;
        u32 size = b->literals_at + b->literals_size - at, literals = b->literals, from = 0;
        bool good = true;
        if (b->streams == 4) {
            // Sizes of three streams, then all four.
            const u8* jump = tile.in + at;
            u32 quarter = (literals + 3) / 4, a = zstd_load(jump), c = zstd_load(jump + 4) & 0xffff;
            u32 sizes[3] = {a & 0xffff, a >> 16, c}, all = 6 + sizes[0] + sizes[1] + sizes[2];
            good = size >= 10 && literals >= 6 && all < size && quarter * 3 <= literals;
            at += 6;
            for (u32 k = 0; k < 3; ++k) at += part > k ? sizes[k] : 0;
            size = part == 0 ? sizes[0] : part == 1 ? sizes[1] : part == 2 ? sizes[2] : size - all;
            from = part * quarter;
            literals = part < 3 ? quarter : literals - 3 * quarter;
        }
        ZstdStream stream;
        good = good && zstd_stream(tile, at, size, stream);
        u32* ring = sh.ring[lane * (ZSTD_RING_STRIDE / 4)].word;
        u8* to = reinterpret_cast<u8*>(s.arena + b->literals_unit) + from;
        good = good && zstd_take_literals(stream, literals, sh.weights[g].log, sh.cells + (g << ZSTD_TREE_LOG), ring, to);
        if (!good) zstd_fail(status, tile, STATUS_DAMAGED);
    }
    __syncwarp();
}

// Takes groups of jobs until there are none; sequences first, for they take longest.
DEVICE void zstd_entropy_jobs(const Tile* tiles, u32* status, const ZstdScratch& s, ZstdEntropyShared& sh, u32 lane) {
    u32 sequences = s.counters->sequences, literals = s.counters->literals;
    // Small groups when there are warps for all of them.
    u32 group = zstd_min(ZSTD_GROUP, (sequences + literals + gridDim.x - 1) / gridDim.x);
    if (group == 0) return;
    u32 sequence_groups = (sequences + group - 1) / group, groups = sequence_groups + (literals + group - 1) / group;
    for (;;) {
        u32 ticket = 0;
        if (lane == 0) ticket = atomicAdd(&s.counters->tickets, 1u);
        ticket = __shfl_sync(FULL_WARP, ticket, 0);
        if (ticket >= groups) return;
        if (ticket < sequence_groups) {
            u32 first = ticket * group;
            zstd_sequences(tiles, status, s, first, zstd_min(group, sequences - first), sh.sequences, lane);
        } else {
            u32 first = (ticket - sequence_groups) * group;
            zstd_literals(tiles, status, s, first, zstd_min(group, literals - first), sh.literals, lane);
        }
    }
}
