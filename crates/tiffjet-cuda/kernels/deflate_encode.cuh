// Deflate, in blocks that know nothing of each other: runs of a byte as matches, all else as Huffman codes, without any
// chain over the bytes; `zstd_encode.cuh` says why that is enough behind a predictor.
//
//   1. a bit for every byte that equals the one before it; runs of six such bits and more become matches at distance 1
//   2. bytes and lengths are counted and given codes of at most 15 bits
//   3. every thread codes some of the bytes, and the matches that begin there: sums of bits say where
//
// A block ends with an empty stored block, which ends with a whole byte: so blocks are put one behind the other as they
// are. What a block becomes depends on its bytes, and on whether it is the last one.
#pragma once
#include "codes.cuh"
#include "frame.cuh"

enum {
    DE_THREADS = CODES_THREADS,
    DE_BLOCK = RUN_BYTES,   // plain bytes of a block
    DE_CHUNK = 132,         // bytes of a thread: an odd number of words keeps lanes out of each other's way
    DE_SYMBOLS = 286,       // bytes, the end of a block, lengths
    DE_END = 256,
    DE_LONGEST = 258,       // bytes of a match
    DE_LENGTHS = 19,        // symbols that describe widths
    DE_HISTOGRAMS = 2,
    DE_SYNC = 4,            // bytes of an empty stored block behind its head
    DE_STORED = 5,          // bytes of the head of a stored block that begins with a byte
    DE_IS_STORED = 1u << 31,
};

static_assert(DE_CHUNK * DE_THREADS >= DE_BLOCK && DE_CHUNK % 8 == 4, "every byte has a thread");

// The order in which widths of the description stand.
__constant__ u8 DE_ORDER[DE_LENGTHS] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

typedef CodeWidths<DE_SYMBOLS, 15> DeWidths;
typedef CodeWidths<DE_LENGTHS, 7> DeLengthWidths;

// What is known once the codes of bytes and lengths are.
struct DeCodes {
    u32 code[DE_SYMBOLS];           // the code, its first bit lowest, and in the high half its width
    u16 described[DE_SYMBOLS + 2];  // how widths are described: a symbol, and above 8 bits the value of its extra ones
    CodeTree<DE_LENGTHS> tree;
};

struct DeShared {
    u32 plain[DE_BLOCK / 4 + 4];
    u32 packed[DE_BLOCK / 4 + 4];
    u32 matched[RUN_WORDS];
    union {
        u32 counts[DE_HISTOGRAMS][DE_SYMBOLS];
        CodeTree<DE_SYMBOLS> tree;
        DeCodes codes;
    };
    DeWidths widths;
    DeLengthWidths lengths;
    u32 warps[32];
    u32 descriptions, at;

    DEVICE_MEMBER const u8* bytes() const { return (const u8*)plain; }
    DEVICE_MEMBER bool is_matched(u32 place) const { return matched[place / 32] >> (place % 32) & 1; }
    DEVICE_MEMBER bool starts_match(u32 place) const {
        return is_matched(place) && (place == 0 || !is_matched(place - 1));
    }
};

// The symbol of a length, and its extra bits.
struct DeLength {
    u32 symbol, bits, extra;

    __device__ explicit DeLength(u32 length) {
        const u32 more = length - 3, high = more < 8 ? 2 : high_bit(more);
        bits = length == DE_LONGEST ? 0 : high - 2;
        symbol = length == DE_LONGEST ? 285 : more < 8 ? 257 + more : 257 + 4 * (high - 1) + (more >> bits & 3);
        extra = more & ((1u << bits) - 1);
    }
};

// Matches that a run is cut into: none is longer than DE_LONGEST or shorter than 3.
struct DeMatches {
    u32 left;

    __device__ explicit DeMatches(u32 run) : left(run) {}

    DEVICE_MEMBER u32 next() {
        const u32 most = left > DE_LONGEST && left < DE_LONGEST + 3 ? left - 3 : (u32)DE_LONGEST;
        const u32 own = smaller(left, most);
        left -= own;
        return own;
    }
};

// -- counts and codes

DEVICE void de_count(DeShared& shared, u32 bytes) {
    for (u32 i = threadIdx.x; i < DE_SYMBOLS; i += DE_THREADS) {
        for (u32 h = 0; h < DE_HISTOGRAMS; ++h) shared.counts[h][i] = 0;
    }
    __syncthreads();
    u32* counts = shared.counts[threadIdx.x / 32 % DE_HISTOGRAMS];
    for (u32 place = threadIdx.x; place < bytes; place += DE_THREADS) {
        if (!shared.is_matched(place)) {
            atomicAdd(&counts[shared.bytes()[place]], 1u);
        } else if (shared.starts_match(place)) {
            for (DeMatches matches(match_end(shared.matched, place) - place); matches.left > 0;) {
                atomicAdd(&counts[DeLength(matches.next()).symbol], 1u);
            }
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < DE_SYMBOLS; i += DE_THREADS) {
        u32 sum = i == DE_END ? 1 : 0;
        for (u32 h = 0; h < DE_HISTOGRAMS; ++h) sum += shared.counts[h][i];
        shared.widths.count[i] = sum;
    }
    __syncthreads();
}

// The code of a symbol, its first bit lowest: the shortest come first, and of one width the lowest symbols.
template <int SYMBOLS, int MOST> DEVICE u32 de_code(const CodeWidths<SYMBOLS, MOST>& widths, u32 symbol) {
    const u32 width = widths.width[symbol];
    if (width == 0) return 0;
    u32 code = 0;
    for (u32 shorter = 1; shorter < width; ++shorter) code = (code + widths.with_width[shorter]) << 1;
    for (u32 other = 0; other < symbol; ++other) code += widths.width[other] == width;
    return __brev(code) >> (32 - width);
}

// -- the description of codes

// Describes widths, by one thread: runs of zeros and of equal ones have symbols of their own. Gives how many there are.
DEVICE u32 de_describe(DeShared& shared, u32 symbols) {
    for (u32 i = 0; i < DE_LENGTHS; ++i) shared.lengths.count[i] = 0;
    u32 count = 0;
    const auto put = [&](u32 symbol, u32 extra) {
        shared.codes.described[count++] = (u16)(symbol | extra << 8);
        ++shared.lengths.count[symbol];
    };
    // Behind the symbols stands the width of the only distance.
    const auto width = [&](u32 i) { return i < symbols ? (u32)shared.widths.width[i] : 1u; };
    for (u32 i = 0; i <= symbols;) {
        const u32 own = width(i);
        u32 run = 1;
        while (i + run <= symbols && width(i + run) == own) ++run;
        i += run;
        if (own != 0) {
            put(own, 0);
            --run;
        }
        while (run > 0) {
            const u32 most = own != 0 ? 6 : 138, part = smaller(run, most);
            if (part < 3) put(own, 0);
            else if (own != 0) put(16, part - 3);
            else if (part < 11) put(17, part - 3);
            else put(18, part - 11);
            run -= part < 3 ? 1 : part;
        }
    }
    return count;
}

// Bits, the lowest first, by one thread.
struct DeBits {
    u32* words;
    u32 word = 0;
    u64 held = 0;
    u32 count = 0;

    __device__ explicit DeBits(u32* words) : words(words) {}

    DEVICE_MEMBER void put(u32 value, u32 bits) {
        held |= (u64)value << count;
        count += bits;
        if (count < 32) return;
        words[word++] = (u32)held;
        held >>= 32;
        count -= 32;
    }

    // Gives the number of all bits.
    DEVICE_MEMBER u32 close() {
        if (count) words[word] = (u32)held;
        return 32 * word + count;
    }
};

// The head of a block and the description of its codes, by one thread. Gives its bits.
DEVICE u32 de_put_description(DeShared& shared, u32 symbols, bool last) {
    const DeLengthWidths& lengths = shared.lengths;
    u32 widths = DE_LENGTHS;
    while (widths > 4 && lengths.width[DE_ORDER[widths - 1]] == 0) --widths;
    DeBits out(shared.packed);
    out.put(last | 2 << 1, 3);
    out.put(symbols - 257, 5);
    out.put(0, 5);  // one distance
    out.put(widths - 4, 4);
    for (u32 i = 0; i < widths; ++i) out.put(lengths.width[DE_ORDER[i]], 3);
    for (u32 i = 0; i < shared.descriptions; ++i) {
        const u32 symbol = shared.codes.described[i] & 0xff, extra = shared.codes.described[i] >> 8;
        out.put(de_code(lengths, symbol), lengths.width[symbol]);
        out.put(extra, symbol < 16 ? 0 : symbol == 16 ? 2 : symbol == 17 ? 3 : 7);
    }
    return out.close();
}

// Makes codes and their description; all threads. Gives the bits of the description, the same for all.
DEVICE u32 de_put_codes(DeShared& shared, bool last) {
    shared.widths.order();
    // The end and a byte: there are always two.
    if (threadIdx.x == 0) shared.widths.grow(shared.tree);
    __syncthreads();
    shared.widths.assign();
    for (u32 i = threadIdx.x; i < DE_SYMBOLS; i += DE_THREADS) {
        shared.codes.code[i] = de_code(shared.widths, i) | (u32)shared.widths.width[i] << 16;
    }
    u32 symbols = DE_SYMBOLS;
    while (shared.widths.width[symbols - 1] == 0) --symbols;
    if (threadIdx.x == 0) shared.descriptions = de_describe(shared, symbols);
    __syncthreads();
    shared.lengths.order();
    // A width of some symbol, and that of the distance or of symbols that are not there.
    if (threadIdx.x == 0) shared.lengths.grow(shared.codes.tree);
    __syncthreads();
    shared.lengths.assign();
    if (threadIdx.x == 0) shared.at = de_put_description(shared, symbols, last);
    __syncthreads();
    return shared.at;
}

// -- bytes

// Calls `put(value, bits)` for what becomes of bytes first..end.
template <class Put> DEVICE void de_tokens(const DeShared& shared, u32 first, u32 end, Put put) {
    for (u32 place = first; place < end; ++place) {
        if (!shared.is_matched(place)) {
            const u32 code = shared.codes.code[shared.bytes()[place]];
            put(code & 0xffff, code >> 16);
        } else if (shared.starts_match(place)) {
            for (DeMatches matches(match_end(shared.matched, place) - place); matches.left > 0;) {
                const DeLength length(matches.next());
                const u32 code = shared.codes.code[length.symbol], width = code >> 16;
                // The only distance is one bit, a zero.
                put((code & 0xffff) | length.extra << width, width + length.bits + 1);
            }
        }
    }
}

// Codes all bytes from bit `at` on; all threads. Gives the bits of all, or DE_BLOCK * 8 when there is no room.
DEVICE u32 de_put_bytes(DeShared& shared, u32 bytes, u32 at) {
    const u32 first = smaller(threadIdx.x * DE_CHUNK, bytes), behind = smaller(first + DE_CHUNK, bytes);
    u32 bits = 0, total;
    de_tokens(shared, first, behind, [&](u32, u32 width) { bits += width; });
    const u32 before = block_sum_before<DE_THREADS>(bits, shared.warps, total);
    const u32 end = shared.codes.code[DE_END];
    if (at + total + (end >> 16) + 8 * (DE_SYNC + 2) >= 8 * bytes) return 8 * DE_BLOCK;
    u32 word = (at + before) / 32, count = (at + before) % 32;
    u64 held = 0;
    de_tokens(shared, first, behind, [&](u32 value, u32 width) {
        held |= (u64)value << count;
        count += width;
        if (count < 32) return;
        atomicOr(&shared.packed[word++], (u32)held);
        held >>= 32;
        count -= 32;
    });
    if (threadIdx.x == DE_THREADS - 1) {
        held |= (u64)(end & 0xffff) << count;
        count += end >> 16;
    }
    if (held) atomicOr(&shared.packed[word], (u32)held);
    if (held >> 32) atomicOr(&shared.packed[word + 1], (u32)(held >> 32));
    __syncthreads();
    return at + total + (end >> 16);
}

// -- blocks

// What became of blocks: places in the tile, sizes, and room for what is packed.
struct DeScratch {
    u64* at;     // one more than there are blocks
    u32* sizes;  // bytes of the block in the tile; DE_IS_STORED: its plain bytes
    u8* room;
    u32 count;

    __device__ explicit DeScratch(const Tile& tile)
        : at((u64*)tile.out), sizes(nullptr), room(nullptr),
          count(tile.in_bytes / DE_BLOCK + (tile.in_bytes % DE_BLOCK != 0)) {
        sizes = (u32*)(at + count + 1);
        room = tile.out + ((8 * (u64)(count + 1) + 4 * (u64)count + 15) & ~15ull);
    }

    DEVICE_MEMBER u8* slot(u32 block) const { return room + (u64)block * DE_BLOCK; }
};

DEVICE u32 de_bytes(const Tile& tile, u32 block) { return smaller(tile.in_bytes - block * DE_BLOCK, DE_BLOCK); }

// Encodes one block of a tile by a block of threads.
DEVICE void de_encode(DeShared& shared, const Tile& tile, u32 block) {
    const DeScratch scratch(tile);
    const u32 bytes = de_bytes(tile, block);
    const bool last = block + 1 == scratch.count;
    const Quad* in = (const Quad*)(tile.in + (u64)block * DE_BLOCK);
    for (u32 i = threadIdx.x; i < (bytes + 15) / 16; i += DE_THREADS) ((Quad*)shared.plain)[i] = in[i];
    __syncthreads();
    find_runs(shared.bytes(), bytes, shared.packed, shared.matched);
    for (u32 i = threadIdx.x; i < DE_BLOCK / 4 + 4; i += DE_THREADS) shared.packed[i] = 0;
    de_count(shared, bytes);
    const u32 described = de_put_codes(shared, last);
    const u32 bits = de_put_bytes(shared, bytes, described);
    const bool stored = bits >= 8 * DE_BLOCK || described >= 8 * bytes;
    // An empty stored block: three zeros, up to a whole byte, a length of 0 and its complement.
    const u32 size = last ? (bits + 7) / 8 : (bits + 3 + 7) / 8 + DE_SYNC;
    if (threadIdx.x == 0) {
        scratch.sizes[block] = stored ? DE_IS_STORED | bytes : size;
        if (!stored && !last) {
            ((u8*)shared.packed)[size - 2] = 0xff;
            ((u8*)shared.packed)[size - 1] = 0xff;
        }
    }
    if (stored) return;
    __syncthreads();
    Quad* out = (Quad*)scratch.slot(block);
    for (u32 i = threadIdx.x; i < (size + 15) / 16; i += DE_THREADS) out[i] = ((const Quad*)shared.packed)[i];
}

DEVICE u64 de_size(u32 size) { return size & DE_IS_STORED ? (size & ~DE_IS_STORED) + (u64)DE_STORED : size; }

// Places of the blocks of a tile, by a warp. Gives the bytes of the tile, without the frame of zlib.
DEVICE u64 de_places(const DeScratch& scratch, u32 lane) {
    u64 before = 0;
    for (u32 first = 0; first < scratch.count; first += 32) {
        const u32 i = first + lane;
        const u64 own = i < scratch.count ? de_size(scratch.sizes[i]) : 0;
        const u64 up_to = warp_sum_up_to(own, lane);
        if (i < scratch.count) scratch.at[i] = before + up_to - own;
        before += __shfl_sync(FULL_WARP, up_to, 31);
    }
    if (lane == 0) scratch.at[scratch.count] = before;
    return before;
}

// One block goes to its place, by all threads of a block.
DEVICE void de_write(const Tile& tile, u32 block, u32 sum, u8* out) {
    const DeScratch scratch(tile);
    const u32 size = scratch.sizes[block], bytes = size & ~DE_IS_STORED, i = threadIdx.x;
    const bool last = block + 1 == scratch.count;
    if (block == 0 && i < ZLIB_HEAD) out[i] = i == 0 ? 0x78 : 0x9c;
    u8* to = out + ZLIB_HEAD + scratch.at[block];
    if (last && i < ZLIB_TAIL) to[de_size(size) + i] = (u8)(sum >> 8 * (ZLIB_TAIL - 1 - i));
    if (!(size & DE_IS_STORED)) return copy_bytes(scratch.slot(block), to, size);
    const u64 head = (u64)last | (u64)bytes << 8 | (u64)(~bytes & 0xffff) << 24;
    if (i < DE_STORED) to[i] = (u8)(head >> 8 * i);
    copy_bytes(tile.in + (u64)block * DE_BLOCK, to + DE_STORED, bytes);
}
