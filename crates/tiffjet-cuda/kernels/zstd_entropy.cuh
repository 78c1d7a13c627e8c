// Literals and sequences of all blocks of a batch: a warp for a group of blocks, a lane for each stream of bits.
//
// Streams are short (a quarter of a block's literals, the sequences of 128 KiB) and many, so nothing is speculated: each
// lane goes through its stream as fast as one load from shared memory after the other allows.
#pragma once
#include "zstd_tables.cuh"

enum : u32 { ZSTD_GROUP = 4, ZSTD_LANES = ZSTD_GROUP * 4 };
// Sequences between two looks at the bits ahead, of 89 bits at most; and literals, of 11.
enum : u32 { ZSTD_SEQUENCES_STEP = 8, ZSTD_LITERALS_STEP = 16 };
typedef ZstdBits<32, 8> ZstdSequenceBits;
typedef ZstdBits<16, 2> ZstdLiteralBits;
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
        ZstdUnit ring[ZSTD_GROUP][ZstdSequenceBits::STRIDE];
    };
};

struct ZstdLiteralsShared {
    u16 cells[ZSTD_GROUP << ZSTD_TREE_LOG];
    ZstdUnit ring[ZSTD_LANES][ZstdLiteralBits::STRIDE];
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

// The cells that the three states of a block's sequences are at.
struct ZstdCells {
    u32 length, match, offset;
};

// And the places of the next.
struct ZstdPlaces {
    u32 length, match, offset;
};

DEVICE ZstdCells zstd_load_cells(const u32* cells, const ZstdPlaces& at) {
    return ZstdCells{zstd_shared_u32(cells, at.length), zstd_shared_u32(cells, at.match), zstd_shared_u32(cells, at.offset)};
}

// The record of a sequence from its cells.
DEVICE ZstdRecord zstd_record(int bit, const ZstdCells& x) {
    return ZstdRecord{static_cast<u32>(bit), (x.length >> 11 & 63) | (x.match >> 5 & 63 << 6) | (x.offset << 1 & 31 << 12)};
}

// One lane takes a block's sequences apart; true when its bits are used up exactly. `place` is that of its first cell.
DEVICE bool zstd_take_sequences(const ZstdStream& s, u32 count, const u32* logs, const u32* cells, u32 place, ZstdUnit* ring, ZstdRecord* to) {
    ZstdSequenceBits bits;
    bits.open(s.units, s.start, s.end, ring);
    ZstdPlaces at;
    at.length = place + bits.take(logs[ZSTD_LENGTHS]) * 4;
    at.offset = place + (ZSTD_OFFSET_CELLS + bits.take(logs[ZSTD_OFFSETS])) * 4;
    at.match = place + (ZSTD_MATCH_CELLS + bits.take(logs[ZSTD_MATCHES])) * 4;
    ZstdCells x = zstd_load_cells(cells, at);
    int left = static_cast<int>(s.end - logs[0] - logs[1] - logs[2]);
    auto one = [&](ZstdRecord& record) {
        const u32 a = x.length, b = x.match, c = x.offset;
        u32 sum = a + b + c, extra = sum & 63, total = extra + (sum >> 6 & 31);
        // The usual case, and the next cells on their way, before it is known to be it: every value of the bits leads to
        // some cell. Only the low five bits of a shift count.
        u32 next = __funnelshift_l(bits.low, bits.high, sum);
        at.length = (a >> 17) + zstd_top(next, a >> 6) * 4;
        at.match = (b >> 17) + zstd_top(__funnelshift_l(0, next, a >> 6), b >> 6) * 4;
        at.offset = (c >> 17) + zstd_top(__funnelshift_l(0, next, (a >> 6) + (b >> 6)), c >> 6) * 4;
        ZstdCells then = zstd_load_cells(cells, at);
        record = zstd_record(left, x);
        left -= static_cast<int>(total);
        ZstdSequenceBits before = bits;
        bits.skip(total);
        x = then;
        if (total > 31) {
            bits = before;
            ZSTD_LOOP
            while (extra) {
                u32 n = zstd_min(extra, 31);
                bits.skip(n);
                extra -= n;
            }
            at.length = (a >> 17) + bits.take(a >> 6 & 31) * 4;
            at.match = (b >> 17) + bits.take(b >> 6 & 31) * 4;
            at.offset = (c >> 17) + bits.take(c >> 6 & 31) * 4;
            x = zstd_load_cells(cells, at);
        }
    };
    // The last one moves no state.
    u32 moves = count - 1;
    for (; moves >= ZSTD_SEQUENCES_STEP; moves -= ZSTD_SEQUENCES_STEP) {
        bits.advance();
        ZSTD_LOOP
        for (u32 k = 0; k < ZSTD_SEQUENCES_STEP; k += 2) {
            one(to[0]);
            one(to[1]);
            to += 2;
        }
    }
    bits.advance();
    ZSTD_LOOP
    for (; moves; --moves) one(*to++);
    *to = zstd_record(left, x);
    return left - static_cast<int>((x.length + x.match + x.offset) & 63) == static_cast<int>(s.start);
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
    u32 working = __ballot_sync(FULL_WARP, works), base = zstd_shared_place(sh.cells);
    for (u32 g = 0; g < count; ++g) {
        if (!(working >> g & 1)) continue;
        for (u32 k = 0; k < 3; ++k) {
            u32 cell = g * ZSTD_BLOCK_CELLS + zstd_first_cell(k);
            zstd_make_table(sh.make.counts[g][k], k, sh.cells + cell, base + cell * 4, sh.make.next, sh.make.order, lane);
        }
    }
    __syncwarp();
    if (works) {
        ZstdRecord* to = reinterpret_cast<ZstdRecord*>(s.arena + b->sequences_unit);
        if (!zstd_take_sequences(stream, b->sequences, logs, sh.cells, base + lane * ZSTD_BLOCK_CELLS * 4, sh.ring[lane], to)) {
            zstd_fail(status, tiles[b->tile], STATUS_DAMAGED);
        }
    }
    __syncwarp();
}

// Two symbols, at most 22 bits, of which there are 32.
DEVICE u32 zstd_two_literals(ZstdLiteralBits& bits, const u16* cells, u32 place, u32 log, u32& used) {
    u32 a = zstd_shared_u16(cells, place + zstd_top(bits.high, log) * 2);
    bits.high = __funnelshift_l(bits.low, bits.high, a);
    bits.low = __funnelshift_l(0, bits.low, a);
    u32 b = zstd_shared_u16(cells, place + zstd_top(bits.high, log) * 2);
    bits.high = __funnelshift_l(bits.low, bits.high, b);
    bits.low = __funnelshift_l(0, bits.low, b);
    u32 n = (a + b) & 63;
    bits.have -= n;
    used += n;
    bits.refill();
    return a >> 8 | (b & 0xff00);
}

// One lane decodes a stream of literals; true when its bits are used up exactly.
DEVICE bool zstd_take_literals(const ZstdStream& s, u32 count, u32 log, const u16* cells, ZstdUnit* ring, u8* to) {
    ZstdLiteralBits bits;
    bits.open(s.units, s.start, s.end, ring);
    u32 used = 0, place = zstd_shared_place(cells);
    // Single ones up to a whole unit, units, and single ones again.
    u32 before = zstd_min(count, (0 - static_cast<u32>(reinterpret_cast<u64>(to))) & (ZSTD_UNIT - 1));
    auto singles = [&](u32 n) {
        bits.advance();
        for (u32 k = 0; k < n; ++k) {
            u32 c = cells[zstd_top(bits.high, log)];
            bits.skip(c & 31);
            used += c & 31;
            *to++ = static_cast<u8>(c >> 8);
        }
    };
    singles(before);
    count -= before;
    for (; count >= ZSTD_LITERALS_STEP; count -= ZSTD_LITERALS_STEP) {
        bits.advance();
        ZstdUnit unit;
        ZSTD_UNROLL
        for (u32 k = 0; k < 4; ++k) {
            u32 low = zstd_two_literals(bits, cells, place, log, used), high = zstd_two_literals(bits, cells, place, log, used);
            unit.word[k] = low | high << 16;
        }
        *reinterpret_cast<ZstdUnit*>(to) = unit;
        to += ZSTD_UNIT;
    }
    singles(count);
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
        u8* to = reinterpret_cast<u8*>(s.arena + b->literals_unit) + from;
        good = good && zstd_take_literals(stream, literals, sh.weights[g].log, sh.cells + (g << ZSTD_TREE_LOG), sh.ring[lane], to);
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
