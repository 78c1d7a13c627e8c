// Descriptions of tables, and the tables made of them.
#pragma once
#include "zstd_bits.cuh"

enum : u32 { ZSTD_SYMBOLS = 64 };  // room for the counts of one table

__constant__ signed char ZSTD_LENGTH_COUNTS[36] = {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2,
                                                   2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
__constant__ signed char ZSTD_OFFSET_COUNTS[29] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1,
                                                   1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1};
__constant__ signed char ZSTD_MATCH_COUNTS[53] = {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1,  1,
                                                  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,
                                                  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};

// A distribution: how many cells of a table each symbol has; -1 is one at the end.
struct ZstdCounts {
    int16_t count[ZSTD_SYMBOLS];
    u32 log;      // the table has 1 << log cells
    u32 symbols;  // counts that are set
};

// Reads a description of counts at `at`, and gives the place after it; 0 when it cannot be.
DEVICE u32 zstd_read_counts(const u8* in, u32 at, u32 end, u32 most_log, u32 most_symbols, ZstdCounts& to) {
    if (at >= end) return 0;
    u32 bit = 4, log = (in[at] & 15) + 5;
    if (log > most_log) return 0;
    int remaining = (1 << log) + 1, threshold = 1 << log;
    u32 width = log + 1, symbol = 0;
    while (remaining > 1) {
        if (symbol >= most_symbols || at + bit / 8 >= end) return 0;
        u32 bits = zstd_load(in + at + bit / 8) >> (bit & 7);
        int most = 2 * threshold - 1 - remaining, count = static_cast<int>(bits) & (threshold - 1);
        if (count < most) {
            bit += width - 1;
        } else {
            count = static_cast<int>(bits) & (2 * threshold - 1);
            if (count >= threshold) count -= most;
            bit += width;
        }
        count -= 1;
        remaining -= count < 0 ? -count : count;
        if (remaining < 1) return 0;
        to.count[symbol++] = static_cast<int16_t>(count);
        while (remaining < threshold) {
            width -= 1;
            threshold >>= 1;
        }
        // After a symbol without a cell: how many more have none, two bits at a time.
        u32 more = count == 0 ? 3 : 0;
        while (more == 3) {
            if (at + bit / 8 >= end) return 0;
            more = zstd_load(in + at + bit / 8) >> (bit & 7) & 3;
            bit += 2;
            if (symbol + more > most_symbols) return 0;
            for (u32 k = 0; k < more; ++k) to.count[symbol++] = 0;
        }
    }
    u32 after = at + (bit + 7) / 8;
    if (after > end) return 0;
    to.log = log;
    to.symbols = symbol;
    return after;
}

DEVICE u32 zstd_table_log(u32 table) { return table == ZSTD_OFFSETS ? 8 : 9; }
DEVICE u32 zstd_table_symbols(u32 table) { return table == ZSTD_LENGTHS ? 36 : table == ZSTD_OFFSETS ? 32 : 53; }

// Reads the description of one table of sequences in a mode that is not REPEAT; 0 when it cannot be.
DEVICE u32 zstd_read_table(const u8* in, u32 at, u32 end, u32 table, u32 mode, ZstdCounts& to) {
    if (mode == ZSTD_PREDEFINED) {
        const signed char* counts = table == ZSTD_LENGTHS ? ZSTD_LENGTH_COUNTS : table == ZSTD_OFFSETS ? ZSTD_OFFSET_COUNTS : ZSTD_MATCH_COUNTS;
        to.symbols = table == ZSTD_OFFSETS ? 29 : zstd_table_symbols(table);
        to.log = table == ZSTD_OFFSETS ? 5 : 6;
        for (u32 k = 0; k < to.symbols; ++k) to.count[k] = counts[k];
        return at;
    }
    if (mode == ZSTD_ONE) {
        if (at >= end || in[at] >= zstd_table_symbols(table)) return 0;
        to.log = 0;
        to.symbols = in[at] + 1;
        for (u32 k = 0; k < in[at]; ++k) to.count[k] = 0;
        to.count[in[at]] = 1;
        return at + 1;
    }
    return zstd_read_counts(in, at, end, zstd_table_log(table), zstd_table_symbols(table), to);
}

// Reads the table of a block that another block uses again.
DEVICE bool zstd_read_again(const u8* in, const ZstdBlock& b, u32 table, ZstdCounts& to) {
    u32 at = b.sequences_at, end = b.at + b.size;
    for (u32 k = 0; k <= table; ++k) {
        u32 mode = b.modes >> 2 * k & 3;
        if (mode == ZSTD_REPEAT) continue;
        at = zstd_read_table(in, at, end, k, mode, to);
        if (at == 0) return false;
    }
    return true;
}

// A cell of a table of sequences: extra bits 0..5, bits of the next state 6..10, symbol 11..16, and in 17..31 the place
// in shared memory, below 32 KiB, of the cell that those bits count from. The two widths can be added for three cells at
// once.
DEVICE u32 zstd_cell(u32 table, u32 symbol, u32 width, u32 place) {
    u32 extra = table == ZSTD_OFFSETS ? symbol : (table == ZSTD_LENGTHS ? zstd_length_code(symbol) : zstd_match_code(symbol)) >> 24;
    return extra | width << 6 | symbol << 11 | place << 17;
}

// Makes a table of a distribution, all lanes together; `place` is that of its first cell. `next` and `order` are working
// memory of ZSTD_SYMBOLS words and 512 bytes.
DEVICE void zstd_make_table(const ZstdCounts& counts, u32 table, u32* cells, u32 place, u32* next, u8* order, u32 lane) {
    u32 log = counts.log, size = 1u << log, mask = size - 1;
    // Symbols with less than one cell take theirs at the end; the others follow each other in `upto`.
    u32 rare = 0, before = 0;
    u32 begin[2], cells_of[2];
    for (u32 half = 0; half < 2; ++half) {
        u32 symbol = half * 32 + lane;
        int count = symbol < counts.symbols ? counts.count[symbol] : 0;
        u32 lows = __ballot_sync(FULL_WARP, count < 0);
        if (count < 0) order[mask - rare - __popc(lows & ((1u << lane) - 1))] = static_cast<u8>(symbol);
        rare += __popc(lows);
        u32 own = count > 0 ? count : 0, upto = own;
        for (u32 d = 1; d < 32; d <<= 1) {
            u32 y = __shfl_up_sync(FULL_WARP, upto, d);
            if (lane >= d) upto += y;
        }
        begin[half] = before + upto - own;
        cells_of[half] = own;
        before += __shfl_sync(FULL_WARP, upto, 31);
        next[symbol] = begin[half];
    }
    __syncwarp();
    // The k-th step lands on cell k * step; steps that land among the rare ones do not count.
    u32 step = (size >> 1) + (size >> 3) + 3, open = size - rare, counted = 0;
    for (u32 k0 = 0; k0 < size; k0 += 32) {
        u32 k = k0 + lane, cell = k * step & mask;
        bool lands = k < size && cell < open;
        u32 landed = __ballot_sync(FULL_WARP, lands);
        if (lands) {
            u32 rank = counted + __popc(landed & ((1u << lane) - 1));
            u32 low = 0, high = ZSTD_SYMBOLS;  // the last symbol that begins at or before `rank`
            while (high - low > 1) {
                u32 middle = (low + high) / 2;
                if (next[middle] <= rank) low = middle; else high = middle;
            }
            order[cell] = static_cast<u8>(low);
        }
        counted += __popc(landed);
    }
    __syncwarp();
    for (u32 half = 0; half < 2; ++half) next[half * 32 + lane] = cells_of[half] ? cells_of[half] : 1;
    __syncwarp();
    for (u32 k0 = 0; k0 < size; k0 += 32) {
        u32 k = k0 + lane, symbol = k < size ? order[k] : 255;
        u32 same = __match_any_sync(FULL_WARP, symbol);
        u32 rank = __popc(same & ((1u << lane) - 1)), x = 0;
        if (k < size) x = next[symbol] + rank;
        __syncwarp();
        if (k < size) {
            if (rank == 0) next[symbol] = x + __popc(same);
            u32 width = log - zstd_high_bit(x);
            cells[k] = zstd_cell(table, symbol, width, place + ((x << width) - size) * 4);
        }
        __syncwarp();
    }
}

enum : u32 { ZSTD_TREE_LOG = 11, ZSTD_WEIGHT_LOG = 6 };

// Weights of the symbols of a Huffman code, and the bits of its longest code word.
struct ZstdWeights {
    u8 weight[256];
    u32 symbols;
    u32 log;
    u32 after;  // place in the input after the description
};

// Weights that are themselves coded, by two states that take turns.
DEVICE bool zstd_read_coded_weights(const u8* in, u32 at, u32 end, ZstdWeights& to, u16* cells) {
    ZstdCounts counts;
    u32 begin = zstd_read_counts(in, at, end, ZSTD_WEIGHT_LOG, 13, counts);
    if (begin == 0 || begin >= end || in[end - 1] == 0) return false;
    // A table of at most 64 cells: symbol 0..3, bits of the next state 4..7, the cell they count from 8..15.
    u32 size = 1u << counts.log, mask = size - 1, high = mask, cell = 0, step = (size >> 1) + (size >> 3) + 3;
    u16 next[13];
    for (u32 s = 0; s < counts.symbols; ++s) {
        if (counts.count[s] < 0) cells[high--] = static_cast<u16>(s);
        next[s] = static_cast<u16>(counts.count[s] < 0 ? 1 : counts.count[s]);
    }
    for (u32 s = 0; s < counts.symbols; ++s) {
        for (int k = 0; k < counts.count[s]; ++k) {
            cells[cell] = static_cast<u16>(s);
            do cell = (cell + step) & mask;
            while (cell > high);
        }
    }
    for (u32 k = 0; k < size; ++k) {
        u32 s = cells[k], x = next[s]++, width = counts.log - zstd_high_bit(x);
        cells[k] = static_cast<u16>(s | width << 4 | ((x << width) - size) << 8);
    }
    int bit = static_cast<int>((end - begin - 1) * 8 + zstd_high_bit(in[end - 1]));
    auto take = [&](u32 n) {
        bit -= static_cast<int>(n);
        if (bit < 0) return 0u;
        return zstd_load(in + begin + (bit >> 3)) >> (bit & 7) & ((1u << n) - 1);
    };
    u32 state[2];
    state[0] = take(counts.log);
    state[1] = take(counts.log);
    if (bit < 0) return false;
    u32 n = 0;
    // Each turn gives a weight; bits may run out only once.
    for (u32 turn = 0;; turn ^= 1) {
        if (n > 253) return false;
        u32 c = cells[state[turn]];
        to.weight[n++] = static_cast<u8>(c & 15);
        state[turn] = (c >> 8) + take(c >> 4 & 15);
        if (bit < 0) {
            to.weight[n++] = static_cast<u8>(cells[state[turn ^ 1]] & 15);
            break;
        }
    }
    to.symbols = n;
    return true;
}

// Reads a description of a Huffman code.
DEVICE bool zstd_read_weights(const u8* in, u32 at, u32 end, ZstdWeights& to, u16* cells) {
    if (at >= end) return false;
    u32 header = in[at++];
    if (header < 128) {
        if (header == 0 || header > end - at) return false;
        if (!zstd_read_coded_weights(in, at, at + header, to, cells)) return false;
        to.after = at + header;
    } else {
        u32 n = header - 127, bytes = (n + 1) / 2;
        if (bytes > end - at) return false;
        for (u32 k = 0; k < n; ++k) to.weight[k] = in[at + k / 2] >> (k & 1 ? 0 : 4) & 15;
        to.symbols = n;
        to.after = at + bytes;
    }
    u32 sum = 0, ones = 0;
    for (u32 k = 0; k < to.symbols; ++k) {
        u32 w = to.weight[k];
        if (w > ZSTD_TREE_LOG) return false;
        sum += (1u << w) >> 1;
        ones += w == 1;
    }
    if (sum == 0) return false;
    // The last symbol has what is left up to a power of two, and that must be one itself.
    u32 log = zstd_high_bit(sum) + 1, left = (1u << log) - sum;
    if (log > ZSTD_TREE_LOG || (left & (left - 1))) return false;
    u32 last = zstd_high_bit(left) + 1;
    ones += last == 1;
    if (ones < 2 || (ones & 1)) return false;
    to.weight[to.symbols++] = static_cast<u8>(last);
    to.log = log;
    return true;
}

// Makes the table of a Huffman code, all lanes together: for every value of `log` bits the width of the code word 0..7
// and its symbol 8..15. `sorted` and `start` are working memory of 256 bytes and 32 words.
DEVICE void zstd_make_tree(const ZstdWeights& from, u16* cells, u8* sorted, u32* start, u32 lane) {
    // Lane w < 16: symbols of weight w, then where they begin in `sorted`, then their first cell.
    start[lane] = 0;
    __syncwarp();
    u32 ranks[8];
    ZSTD_UNROLL
    for (u32 c = 0; c < 8; ++c) {
        u32 symbol = c * 32 + lane, w = symbol < from.symbols ? from.weight[symbol] : 0;
        u32 same = __match_any_sync(FULL_WARP, w);
        u32 base = start[w], rank = __popc(same & ((1u << lane) - 1));
        ranks[c] = base + rank;
        __syncwarp();
        if (rank == 0) start[w] = base + __popc(same);
        __syncwarp();
    }
    u32 n = lane > 0 && lane <= ZSTD_TREE_LOG ? start[lane] : 0, many = n, wide = n << (lane > 0 && lane < 16 ? lane - 1 : 0);
    u32 own_wide = wide;
    for (u32 d = 1; d < 32; d <<= 1) {
        u32 x = __shfl_up_sync(FULL_WARP, many, d), y = __shfl_up_sync(FULL_WARP, wide, d);
        if (lane >= d) {
            many += x;
            wide += y;
        }
    }
    __syncwarp();
    if (lane < 16) {
        start[lane] = many - n;
        start[16 + lane] = wide - own_wide;
    }
    __syncwarp();
    ZSTD_UNROLL
    for (u32 c = 0; c < 8; ++c) {
        u32 symbol = c * 32 + lane, w = symbol < from.symbols ? from.weight[symbol] : 0;
        if (w) sorted[start[w] + ranks[c]] = static_cast<u8>(symbol);
    }
    __syncwarp();
    for (u32 k = lane; k < 1u << from.log; k += 32) {
        u32 w = 1;
        for (u32 q = 2; q <= ZSTD_TREE_LOG; ++q) w += k >= start[16 + q];
        u32 symbol = sorted[start[w] + ((k - start[16 + w]) >> (w - 1))];
        cells[k] = static_cast<u16>((from.log + 1 - w) | symbol << 8);
    }
    __syncwarp();
}
