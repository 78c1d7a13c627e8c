// Zstandard, in blocks that know nothing of each other: runs of a byte as matches, all else as Huffman codes.
//
// After a predictor most of what a raster can save lies in how often bytes are, and in runs; longer matches bring little and
// cost a search. So a block of 32 KiB is encoded by a block of threads without any chain over its bytes:
//
//   1. a bit for every byte that equals the one before it; runs of six such bits and more become matches at distance 1
//   2. all other bytes are moved together, counted, and given codes of at most 11 bits
//   3. every thread codes some of them: sums of bits say where
//   4. the lengths of literals and matches go through the states of the predefined tables, by one thread
//
// All matches repeat the last distance, which is 1 from the start of a frame on, so that their offsets need no bits. What a
// block becomes depends on its bytes alone.
#pragma once
#include "codes.cuh"
#include "frame.cuh"

enum {
    ZE_THREADS = CODES_THREADS,
    ZE_BLOCK = RUN_BYTES,  // plain bytes of a block
    ZE_WORDS = RUN_WORDS,
    ZE_MOST_BITS = 11,
    ZE_STREAMS = 4,
    ZE_PER_STREAM = ZE_THREADS / ZE_STREAMS,
    ZE_HISTOGRAMS = 4,
    ZE_FEW = 64,       // literals that are not worth a table
    ZE_FRAME = 9,      // bytes of the header of a frame
    ZE_HEAD = 3,       // of a block
    ZE_RAW = 0,
    ZE_ONE = 1,
    ZE_PACKED = 2,
};

__constant__ signed char ZE_LITERAL_COUNTS[36] = {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2,
                                                  2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
__constant__ signed char ZE_MATCH_COUNTS[53] = {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1,  1,
                                                1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,
                                                1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};

// How a symbol changes a state of a table.
struct ZeChange {
    u32 bits;   // less the state: bits that are written, in the high half
    int place;  // of its next states
};

// A table of states, and the work of making one.
template <int SIZE, int SYMBOLS> struct ZeTable {
    u16 states[SIZE];
    ZeChange changes[SYMBOLS];
    u8 order[SIZE];
    u16 next[SYMBOLS];

    // By one thread. A count of -1 is one at the end of the table.
    template <class Counts> DEVICE_MEMBER void make(const Counts& counts, u32 symbols, u32 log) {
        const u32 size = 1u << log, mask = size - 1, step = (size >> 1) + (size >> 3) + 3;
        u32 rare = 0, sum = 0;
        for (u32 s = 0; s < symbols; ++s) {
            const int count = counts[s];
            next[s] = (u16)sum;
            if (count == -1) order[mask - rare++] = (u8)s;
            const u32 cells = count < 0 ? 1 : (u32)count;
            if (cells == 0) continue;
            if (cells == 1) {
                changes[s] = ZeChange{(log << 16) - size, (int)sum - 1};
            } else {
                const u32 most = log - high_bit(cells - 1);
                changes[s] = ZeChange{(most << 16) - (cells << most), (int)sum - (int)cells};
            }
            sum += cells;
        }
        u32 at = 0;
        for (u32 s = 0; s < symbols; ++s) {
            for (int i = 0; i < counts[s]; ++i) {
                order[at] = (u8)s;
                do at = (at + step) & mask;
                while (at > mask - rare);
            }
        }
        for (u32 i = 0; i < size; ++i) states[next[order[i]]++] = (u16)(size + i);
    }
};

// Bits, the lowest first, from a byte of the block on.
struct ZeBits {
    enum { END = ZE_BLOCK / 4 + 4 };  // words that there are
    u32* words;
    u32 word;  // the one that is filled
    u64 held;
    u32 count;

    __device__ ZeBits(u32* words, u32 byte) : words(words), word(byte / 4), held(0), count(8 * (byte % 4)) {
        held = words[word] & ((1ull << count) - 1);
    }

    // At most 32 at a time.
    DEVICE_MEMBER void put(u32 value, u32 bits) {
        held |= (u64)value << count;
        count += bits;
        if (count < 32) return;
        if (word < END) words[word] = (u32)held;
        ++word;
        held >>= 32;
        count -= 32;
    }

    // A one behind the last bit. Gives the place behind the last byte, which may be one that there is no room for.
    DEVICE_MEMBER u32 close() {
        put(1, 1);
        if (count > 0 && word < END) words[word] = (u32)held;
        return 4 * word + (count + 7) / 8;
    }
};

// A state of a table on its way from the last symbol to the first.
template <class Table> struct ZeState {
    const Table& table;
    u32 state;

    __device__ ZeState(const Table& table, u32 symbol) : table(table), state(0) {
        const ZeChange change = table.changes[symbol];
        const u32 bits = (change.bits + (1u << 15)) >> 16, value = (bits << 16) - change.bits;
        state = table.states[(int)(value >> bits) + change.place];
    }

    DEVICE_MEMBER void put(ZeBits& out, u32 symbol) {
        const ZeChange change = table.changes[symbol];
        const u32 bits = (state + change.bits) >> 16;
        out.put(state & ((1u << bits) - 1), bits);
        state = table.states[(int)(state >> bits) + change.place];
    }

    DEVICE_MEMBER void close(ZeBits& out, u32 log) { out.put(state & ((1u << log) - 1), log); }
};

typedef ZeTable<64, 36> ZeLiteralTable;
typedef ZeTable<64, 53> ZeMatchTable;
typedef ZeTable<64, ZE_MOST_BITS + 1> ZeWeightTable;

// What is known of runs, until literals have been moved together.
struct ZeRuns {
    u32 matched[ZE_WORDS];    // bytes of matches
    u16 literals[ZE_WORDS];   // before each word
    u16 sequences[ZE_WORDS];
};

typedef CodeWidths<256, ZE_MOST_BITS> ZeWidths;

// Counts of bytes, and the tree that is made of them.
struct ZeTree {
    u32 counts[ZE_HISTOGRAMS][256];
    CodeTree<256> tree;
};

struct ZeTables {
    ZeLiteralTable literals;
    ZeMatchTable matches;
    ZeWeightTable weights;
};

struct ZeShared {
    u32 plain[ZE_BLOCK / 4 + 4];     // the bytes of the block; later what they become
    u32 literals[ZE_BLOCK / 4];      // literals from the front, sequences from the back
    union {
        ZeRuns runs;
        ZeTree tree;
        ZeTables tables;
    };
    ZeWidths widths;
    u16 code[256];  // the code, and in the high bits its width
    u32 streams[ZE_STREAMS];  // bits
    u32 warps[32];
    u32 total, sequences, at;

    DEVICE_MEMBER u8* bytes() { return (u8*)plain; }
    DEVICE_MEMBER const u8* literal_bytes() const { return (const u8*)literals; }
    // Literals before the match, and its length.
    DEVICE_MEMBER u32& sequence(u32 i) { return literals[ZE_BLOCK / 4 - 1 - i]; }
};

// -- runs

// Moves literals together and makes the list of sequences.
DEVICE void ze_part(ZeShared& shared, u32 bytes) {
    ZeRuns& runs = shared.runs;
    enum { EACH = ZE_WORDS / ZE_THREADS };
    const u32 first = threadIdx.x * EACH;
    u32 own = 0;
    for (u32 word = first; word < first + EACH; ++word) {
        const u32 left = bytes > 32 * word ? bytes - 32 * word : 0;
        const u32 inside = left >= 32 ? ~0u : (1u << left) - 1;
        own += (u32)__popc(~runs.matched[word] & inside) | (u32)__popc(match_starts(runs.matched, word)) << 16;
    }
    u32 total;
    u32 before = block_sum_before<ZE_THREADS>(own, shared.warps, total);
    for (u32 word = first; word < first + EACH; ++word) {
        const u32 left = bytes > 32 * word ? bytes - 32 * word : 0;
        const u32 inside = left >= 32 ? ~0u : (1u << left) - 1;
        runs.literals[word] = (u16)before;
        runs.sequences[word] = (u16)(before >> 16);
        before += (u32)__popc(~runs.matched[word] & inside) | (u32)__popc(match_starts(runs.matched, word)) << 16;
    }
    if (threadIdx.x == 0) {
        shared.total = total & 0xffff;
        shared.sequences = total >> 16;
    }
    __syncthreads();
    const u32 lane = threadIdx.x & 31, below = (1u << lane) - 1;
    for (u32 word = threadIdx.x / 32; word < ZE_WORDS; word += ZE_THREADS / 32) {
        const u32 place = 32 * word + lane, matched = runs.matched[word];
        if (place >= bytes) continue;
        const u32 literal = runs.literals[word] + (u32)__popc(~matched & below);
        if (!(matched >> lane & 1)) ((u8*)shared.literals)[literal] = shared.bytes()[place];
        const u32 starts = match_starts(runs.matched, word);
        if (starts >> lane & 1) {
            const u32 index = runs.sequences[word] + (u32)__popc(starts & below);
            shared.sequence(index) = literal | (match_end(runs.matched, place) - place) << 16;
        }
    }
    __syncthreads();
}

// -- codes

// Counts literals, and puts the symbols in order.
DEVICE void ze_count(ZeShared& shared) {
    ZeTree& tree = shared.tree;
    for (u32 i = 0; i < ZE_HISTOGRAMS; ++i) tree.counts[i][threadIdx.x] = 0;
    __syncthreads();
    u32* counts = tree.counts[threadIdx.x / 32 % ZE_HISTOGRAMS];
    for (u32 i = threadIdx.x; i < shared.total; i += ZE_THREADS) atomicAdd(&counts[shared.literal_bytes()[i]], 1u);
    __syncthreads();
    u32 own = 0;
    for (u32 i = 0; i < ZE_HISTOGRAMS; ++i) own += tree.counts[i][threadIdx.x];
    shared.widths.count[threadIdx.x] = own;
    __syncthreads();
    shared.widths.order();
}

// The code of every symbol: the longest come first.
DEVICE void ze_assign(ZeShared& shared) {
    const ZeWidths& widths = shared.widths;
    const u32 symbol = threadIdx.x, width = widths.width[symbol];
    u32 place = 0;
    for (u32 longer = widths.most; longer > width; --longer) {
        place += widths.with_width[longer] << (widths.most - longer);
    }
    u32 index = place >> (widths.most - width);
    for (u32 other = 0; other < symbol; ++other) index += widths.width[other] == width;
    shared.code[symbol] = width ? (u16)(index | width << 12) : 0;
    __syncthreads();
}

// -- the description of codes

DEVICE u32 ze_weight(const ZeShared& shared, u32 symbol) {
    const u32 width = shared.widths.width[symbol];
    return width ? shared.widths.most + 1 - width : 0;
}

// Counts of weights as cells of a table of 64; false when there is but one weight.
DEVICE bool ze_normal_counts(const ZeShared& shared, u32 symbols, int (&cells)[ZE_MOST_BITS + 1]) {
    u32 counts[ZE_MOST_BITS + 1] = {};
    for (u32 s = 0; s < symbols; ++s) ++counts[ze_weight(shared, s)];
    u32 largest = 0;
    int sum = 0;
    for (u32 w = 0; w <= ZE_MOST_BITS; ++w) {
        const u32 cell = (counts[w] * 64 + symbols / 2) / symbols;
        cells[w] = counts[w] == 0 ? 0 : cell == 0 ? 1 : (int)cell;
        sum += cells[w];
        if (counts[w] > counts[largest]) largest = w;
    }
    if (counts[largest] == symbols) return false;
    cells[largest] += 64 - sum;
    return cells[largest] > 0;
}

// Writes counts of cells, the sum of which is 64.
DEVICE void ze_put_counts(ZeBits& out, const int (&cells)[ZE_MOST_BITS + 1]) {
    out.put(1, 4);  // 6 bits, less 5
    int remaining = 65, threshold = 64;
    u32 width = 7;
    for (u32 w = 0; remaining > 1;) {
        const int count = cells[w], most = 2 * threshold - 1 - remaining;
        remaining -= count;
        int value = count + 1;
        if (value >= threshold) value += most;
        out.put((u32)value, value < most ? width - 1 : width);
        ++w;
        while (remaining < threshold) {
            --width;
            threshold >>= 1;
        }
        if (count != 0 || remaining <= 1) continue;
        // How many more have none, two bits at a time.
        u32 more = 0;
        while (cells[w + more] == 0) ++more;
        w += more;
        for (; more >= 3; more -= 3) out.put(3, 2);
        out.put(more, 2);
    }
}

// The weights of all symbols but the last, at `at`, by one thread. Gives the place behind it; 0 when it has none.
DEVICE u32 ze_put_weights(ZeShared& shared, u32 at) {
    u32 last = 255;
    while (shared.widths.width[last] == 0) --last;
    int cells[ZE_MOST_BITS + 1];
    if (last > 4 && ze_normal_counts(shared, last, cells)) {
        ZeWeightTable& table = shared.tables.weights;
        table.make(cells, ZE_MOST_BITS + 1, 6);
        ZeBits counts(shared.plain, at + 1);
        ze_put_counts(counts, cells);
        // The states begin with a byte of their own.
        if (counts.count % 8) counts.put(0, 8 - counts.count % 8);
        // Symbols take turns with two states, the last of them first.
        const u32 tail = last - 1;
        ZeState<ZeWeightTable> one(table, ze_weight(shared, tail % 2 ? tail - 1 : tail));
        ZeState<ZeWeightTable> two(table, ze_weight(shared, tail % 2 ? tail : tail - 1));
        for (u32 s = last - 2; s-- > 0;) {
            if (s % 2) two.put(counts, ze_weight(shared, s));
            else one.put(counts, ze_weight(shared, s));
        }
        two.close(counts, 6);
        one.close(counts, 6);
        const u32 behind = counts.close(), size = behind - at - 1;
        if (size < 128 && (last > 128 || size < (last + 1) / 2)) {
            shared.bytes()[at] = (u8)size;
            return behind;
        }
        for (u32 i = at + 1; i < behind; ++i) shared.bytes()[i] = 0;
    }
    if (last > 128) return 0;
    // Four bits each.
    shared.bytes()[at] = (u8)(127 + last);
    for (u32 s = 0; s < last; s += 2) {
        const u32 second = s + 1 < last ? ze_weight(shared, s + 1) : 0;
        shared.bytes()[at + 1 + s / 2] = (u8)(ze_weight(shared, s) << 4 | second);
    }
    return at + 1 + (last + 1) / 2;
}

// -- literals

// Literals first..end of a thread: threads of a stream go from its end to its start, as its bits do. Chunks of an odd
// number of words keep lanes out of each other's way.
DEVICE void ze_chunk(u32 literals, u32& first, u32& end) {
    const u32 quarter = (literals + 3) / 4, stream = threadIdx.x / ZE_PER_STREAM;
    const u32 begin = smaller(stream * quarter, literals), behind = stream == 3 ? literals : smaller(begin + quarter, literals);
    const u32 each = 4 * (((behind - begin + ZE_PER_STREAM - 1) / ZE_PER_STREAM + 3) / 4 | 1);
    const u32 index = ZE_PER_STREAM - 1 - threadIdx.x % ZE_PER_STREAM;
    first = smaller(begin + index * each, behind);
    end = smaller(first + each, behind);
}

// Codes literals in four streams at `at`, behind the description of codes; all threads. Gives the place behind them, the same
// for all; `end` or more when there is no room.
DEVICE u32 ze_put_streams(ZeShared& shared, u32 at, u32 end) {
    u32 first, behind;
    ze_chunk(shared.total, first, behind);
    const u8* literals = shared.literal_bytes();
    u32 bits = 0;
    for (u32 i = first; i < behind; ++i) bits += shared.code[literals[i]] >> 12;
    u32 total;
    const u32 before = block_sum_before<ZE_THREADS>(bits, shared.warps, total);
    const u32 stream = threadIdx.x / ZE_PER_STREAM;
    if (threadIdx.x % ZE_PER_STREAM == ZE_PER_STREAM - 1) shared.streams[stream] = before + bits;
    __syncthreads();
    // Sums up to streams become places: every stream ends with a one and a whole byte.
    u32 place = at + 6, base = 0, sizes[ZE_STREAMS];
    for (u32 s = 0; s < ZE_STREAMS; ++s) {
        const u32 up_to = shared.streams[s], own = up_to - base;
        sizes[s] = own / 8 + 1;
        if (s < stream) place += sizes[s];
        base = up_to;
    }
    const u32 sum = at + 6 + sizes[0] + sizes[1] + sizes[2] + sizes[3];
    if (sum >= end) return end;
    if (threadIdx.x < 6) shared.bytes()[at + threadIdx.x] = (u8)(sizes[threadIdx.x / 2] >> 8 * (threadIdx.x % 2));
    __syncthreads();
    const u32 stream_base = stream ? shared.streams[stream - 1] : 0;
    u32 bit = 8 * place + before - stream_base;
    u32 word = bit / 32, held_bits = bit % 32;
    u64 held = 0;
    for (u32 i = behind; i-- > first;) {
        const u32 code = shared.code[literals[i]];
        held |= (u64)(code & 0xfff) << held_bits;
        held_bits += code >> 12;
        if (held_bits >= 32) {
            atomicOr(&shared.plain[word++], (u32)held);
            held >>= 32;
            held_bits -= 32;
        }
    }
    if (threadIdx.x % ZE_PER_STREAM == ZE_PER_STREAM - 1) {
        held |= 1ull << held_bits;
        ++held_bits;
    }
    if (held) atomicOr(&shared.plain[word], (u32)held);
    if (held >> 32) atomicOr(&shared.plain[word + 1], (u32)(held >> 32));
    __syncthreads();
    return sum;
}

// Literals as they are, or one byte for all; all threads. Gives the place behind them.
DEVICE u32 ze_put_plain_literals(ZeShared& shared, u32 at, bool one) {
    const u32 count = shared.total;
    u8* out = shared.bytes() + at;
    if (threadIdx.x == 0) {
        out[0] = (u8)((one ? ZE_ONE : ZE_RAW) | 3 << 2 | (count & 15) << 4);
        out[1] = (u8)(count >> 4);
        out[2] = (u8)(count >> 12);
    }
    const u32 bytes = one ? 1 : count;
    for (u32 i = threadIdx.x; i < bytes; i += ZE_THREADS) out[3 + i] = shared.literal_bytes()[i];
    __syncthreads();
    return at + 3 + bytes;
}

// The section of literals at the start of the block; all threads. Gives the place behind it, or `end`.
DEVICE u32 ze_put_literals(ZeShared& shared, u32 end) {
    ze_count(shared);
    if (shared.widths.used == 1 && shared.total > 1) return ze_put_plain_literals(shared, 0, true);
    const bool few = shared.total < ZE_FEW;
    if (!few) {
        if (threadIdx.x == 0) shared.widths.grow(shared.tree.tree);
        __syncthreads();
        shared.widths.assign();
        ze_assign(shared);
        if (threadIdx.x == 0) shared.at = ze_put_weights(shared, 5);
        __syncthreads();
        const u32 described = shared.at;
        if (described) {
            const u32 behind = ze_put_streams(shared, described, end);
            if (behind < end && behind < shared.total + 3) {
                // Type 2, four streams, and 18 bits for both sizes.
                const u64 head = ZE_PACKED | 3 << 2 | (u64)shared.total << 4 | (u64)(behind - 5) << 22;
                if (threadIdx.x < 5) shared.bytes()[threadIdx.x] = (u8)(head >> 8 * threadIdx.x);
                __syncthreads();
                return behind;
            }
        }
        if (shared.total + 3 >= end) return end;
        for (u32 i = threadIdx.x; i < ZE_BLOCK / 4; i += ZE_THREADS) shared.plain[i] = 0;
        __syncthreads();
    }
    return ze_put_plain_literals(shared, 0, false);
}

// -- sequences

DEVICE u32 ze_literal_code(u32 length) {
    if (length < 16) return length;
    if (length < 24) return 16 + (length - 16) / 2;
    if (length < 32) return 20 + (length - 24) / 4;
    if (length < 48) return 22 + (length - 32) / 8;
    return length < 64 ? 24 : high_bit(length) + 19;
}

DEVICE u32 ze_match_code(u32 length) {
    const u32 more = length - 3;
    if (more < 32) return more;
    if (more < 40) return 32 + (more - 32) / 2;
    if (more < 48) return 36 + (more - 40) / 4;
    if (more < 64) return 38 + (more - 48) / 8;
    if (more < 96) return 40 + (more - 64) / 16;
    return more < 128 ? 42 : high_bit(more) + 36;
}

// Extra bits of a code: those above the first of its kind, which all begin at multiples of their number.
DEVICE u32 ze_literal_bits(u32 code) {
    return code < 16 ? 0 : code < 20 ? 1 : code < 22 ? 2 : code < 24 ? 3 : code == 24 ? 4 : code - 19;
}
DEVICE u32 ze_match_bits(u32 code) {
    return code < 32 ? 0 : code < 36 ? 1 : code < 38 ? 2 : code < 40 ? 3 : code < 42 ? 4 : code == 42 ? 5 : code - 36;
}

// The lengths of one sequence: codes, and extra bits.
struct ZeSequence {
    u32 literals, match;
    u32 literal_bits, match_bits, literal_extra, match_extra;

    __device__ ZeSequence(ZeShared& shared, u32 i) {
        const u32 own = shared.sequence(i), before = i > 0 ? shared.sequence(i - 1) & 0xffff : 0;
        const u32 run = (own & 0xffff) - before, length = own >> 16;
        literals = ze_literal_code(run);
        match = ze_match_code(length);
        literal_bits = ze_literal_bits(literals);
        match_bits = ze_match_bits(match);
        literal_extra = run & ((1u << literal_bits) - 1);
        match_extra = (length - 3) & ((1u << match_bits) - 1);
    }

    DEVICE_MEMBER void put_extra(ZeBits& out) const {
        out.put(literal_extra, literal_bits);
        out.put(match_extra, match_bits);
    }
};

// The section of sequences at `at`, by one thread. Gives the place behind it, or `end` and more.
DEVICE u32 ze_put_sequences(ZeShared& shared, u32 at, u32 end) {
    const u32 count = shared.sequences;
    if (at + 6 >= end) return end;
    u8* out = shared.bytes();
    if (count < 128) {
        out[at++] = (u8)count;
    } else {
        out[at++] = (u8)((count >> 8) + 128);
        out[at++] = (u8)count;
    }
    if (count == 0) return at;
    // Predefined tables for lengths; for offsets one code, that of the last distance.
    out[at++] = ZE_ONE << 4;
    out[at++] = 0;
    ZeTables& tables = shared.tables;
    tables.literals.make(ZE_LITERAL_COUNTS, 36, 6);
    tables.matches.make(ZE_MATCH_COUNTS, 53, 6);
    ZeBits bits(shared.plain, at);
    const ZeSequence last(shared, count - 1);
    ZeState<ZeMatchTable> match(tables.matches, last.match);
    ZeState<ZeLiteralTable> literals(tables.literals, last.literals);
    last.put_extra(bits);
    for (u32 i = count - 1; i-- > 0;) {
        const ZeSequence sequence(shared, i);
        match.put(bits, sequence.match);
        literals.put(bits, sequence.literals);
        sequence.put_extra(bits);
    }
    match.close(bits, 6);
    literals.close(bits, 6);
    return bits.close();
}

// -- blocks

// What became of blocks: places in the tile, kinds and sizes, and room for what is packed.
struct ZeScratch {
    u64* at;     // one more than there are blocks
    u32* kinds;  // the kind in the two highest bits, the bytes of the block's content below
    u8* room;
    u32 count;

    __device__ explicit ZeScratch(const Tile& tile)
        : at((u64*)tile.out), kinds(nullptr), room(nullptr),
          count(tile.in_bytes / ZE_BLOCK + (tile.in_bytes % ZE_BLOCK != 0)) {
        kinds = (u32*)(at + count + 1);
        room = tile.out + ((8 * (u64)(count + 1) + 4 * (u64)count + 15) & ~15ull);
    }

    DEVICE_MEMBER u8* slot(u32 block) const { return room + (u64)block * ZE_BLOCK; }
};

DEVICE u32 ze_bytes(const Tile& tile, u32 block) { return smaller(tile.in_bytes - block * ZE_BLOCK, ZE_BLOCK); }

// Encodes one block of a tile by a block of threads.
DEVICE void ze_encode(ZeShared& shared, const Tile& tile, u32 block) {
    const ZeScratch scratch(tile);
    const u32 bytes = ze_bytes(tile, block);
    const Quad* in = (const Quad*)(tile.in + (u64)block * ZE_BLOCK);
    for (u32 i = threadIdx.x; i < (bytes + 15) / 16; i += ZE_THREADS) ((Quad*)shared.plain)[i] = in[i];
    __syncthreads();
    // The first words of the literals are free until these stand there.
    find_runs(shared.bytes(), bytes, shared.literals, shared.runs.matched);
    ze_part(shared, bytes);
    for (u32 i = threadIdx.x; i < ZE_BLOCK / 4 + 4; i += ZE_THREADS) shared.plain[i] = 0;
    __syncthreads();
    // Packed bytes must be fewer than plain ones.
    u32 behind = ze_put_literals(shared, bytes);
    __syncthreads();
    if (behind < bytes && threadIdx.x == 0) shared.at = ze_put_sequences(shared, behind, bytes);
    __syncthreads();
    behind = behind < bytes ? shared.at : bytes;
    const bool one = shared.total == 1 && shared.sequences == 1 && bytes > 1;
    if (threadIdx.x == 0) {
        const u32 kind = one ? ZE_ONE : behind < bytes ? ZE_PACKED : ZE_RAW;
        scratch.kinds[block] = kind << 30 | (one ? 1 : behind < bytes ? behind : bytes);
    }
    if (one || behind >= bytes) return;
    Quad* out = (Quad*)scratch.slot(block);
    for (u32 i = threadIdx.x; i < (behind + 15) / 16; i += ZE_THREADS) out[i] = ((const Quad*)shared.plain)[i];
}

// Places of the blocks of a tile, by a warp. Gives the bytes of the tile.
DEVICE u64 ze_places(const ZeScratch& scratch, u32 lane) {
    u64 before = ZE_FRAME;
    for (u32 first = 0; first < scratch.count; first += 32) {
        const u32 i = first + lane;
        const u64 own = i < scratch.count ? (scratch.kinds[i] & 0x3fffffff) + ZE_HEAD : 0;
        const u64 up_to = warp_sum_up_to(own, lane);
        if (i < scratch.count) scratch.at[i] = before + up_to - own;
        before += __shfl_sync(FULL_WARP, up_to, 31);
    }
    if (lane == 0) scratch.at[scratch.count] = before;
    return before;
}

// One block goes to its place, by all threads of a block.
DEVICE void ze_write(const Tile& tile, u32 block, u8* out) {
    const ZeScratch scratch(tile);
    const u32 kind = scratch.kinds[block] >> 30, size = scratch.kinds[block] & 0x3fffffff, bytes = ze_bytes(tile, block);
    const u8* plain = tile.in + (u64)block * ZE_BLOCK;
    u8* to = out + scratch.at[block];
    if (block == 0 && threadIdx.x < ZE_FRAME) {
        // The magic number; one segment, with four bytes that say how long it is; and these.
        const u64 head = 0xa0fd2fb528ull | (u64)tile.in_bytes << 40;
        out[threadIdx.x] = threadIdx.x < 8 ? (u8)(head >> 8 * threadIdx.x) : (u8)(tile.in_bytes >> 24);
    }
    if (threadIdx.x < ZE_HEAD) {
        const u32 head = (block + 1 == scratch.count) | kind << 1 | (kind == ZE_ONE ? bytes : size) << 3;
        to[threadIdx.x] = (u8)(head >> 8 * threadIdx.x);
    }
    copy_bytes(kind == ZE_PACKED ? scratch.slot(block) : plain, to + ZE_HEAD, size);
}
