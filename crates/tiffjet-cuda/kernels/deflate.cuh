// Deflate in a zlib frame, one block of threads for each tile, all of them at work inside it.
//
// A Deflate stream says nowhere where its symbols begin, but a decoder that starts at a wrong bit falls into step with the
// right one after a few symbols. So the input of a Deflate block is cut into one segment for each thread:
//
//   header     the code lengths of a dynamic block, parsed from all bit positions at once
//   tables     every slot of the decoding tables finds its own symbol
//   then window after window, until the block ends:
//   speculate  a thread starts some bits before its segment, hopes to be in step when it gets there, and counts the
//              bytes its segment gives
//   repair     where a thread did not start at the bit at which the one before it ended, it decodes its segment again
//   place      a prefix sum of the counts says where in the window each thread writes: for a literal its byte, for each byte
//              of a match how far back it comes from
//   resolve    every byte follows these references to a literal or to output written before; four at a time go out as one
//              word, and into the checksum
//
// No step writes what another thread reads before the next barrier. Every window takes at least one bit of input, repair
// lengthens the right part by a segment at least with each round, and references lead back, so everything ends after a time
// bounded by the sizes of input and output, whatever the input.
//
// What is valid is what the host codec takes for valid, less some oddities that are left to it (see `Status`): codes that
// are not complete but for a single one of one bit, streams that end before their end-of-block symbol.
#pragma once
#include "abi.h"
#include "adler.cuh"

namespace deflate {

#define METHOD __device__ __forceinline__
#if defined(__CUDA_ARCH__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL
#endif

constexpr u32 LITERAL_BITS = 10;   // of the first lookup for literals and lengths
constexpr u32 DISTANCE_BITS = 8;   // of the first lookup for distances
constexpr u32 LITERAL_SLOTS = 1u << LITERAL_BITS;
constexpr u32 DISTANCE_SLOTS = 1u << DISTANCE_BITS;
constexpr u32 SECOND_SLOTS = 512;  // of second lookups, of both codes together
constexpr u32 LITERALS = 288;      // symbols of the first code, with two that nobody may use
constexpr u32 SYMBOLS = LITERALS + 32;
constexpr u32 HEADER_WORDS = 80;   // the longest header of a block: 3 + 14 + 19 x 3 + 316 x 7 bits
constexpr u32 SHORT_MATCH = 12;    // the longest match that one thread places alone

// Bits decoded before a segment to fall into step. More cost more, fewer leave more to repair.
#ifndef DEFLATE_WARM
#define DEFLATE_WARM 128
#endif
constexpr u32 WARM_BITS = DEFLATE_WARM;

// What a table says about the bits that index it:
//   bits 0-4    bits to take in all, extra bits and those of a second literal included (of a second lookup: its index bits)
//   bits 5-8    bits of the code itself
//   bits 9-10   kind
//   bits 11-15  flags
//   bits 16-31  literal, or two; smallest length or distance; first slot of the second lookup
constexpr u32 KIND = 3 << 9, LITERAL = 0 << 9, LENGTH = 1 << 9, DISTANCE = 2 << 9, SPECIAL = 3 << 9;
constexpr u32 SEARCH = 1 << 11, END = 1 << 12, PAIR = 1 << 14, SECOND = 1 << 15;
constexpr u32 INVALID = SPECIAL | 1 << 5 | 1;

// A byte of the window: a literal with this bit, or else the distance to where it comes from, less one.
constexpr u32 KNOWN = 0x8000;

// In the count of bytes of a segment: it ends the block.
constexpr u32 LAST = 0x80000000u;

// What one block of threads shares. WINDOW is the most bytes it puts out at once, SEGMENT the most words of one thread,
// an odd number so that threads that are in step don't meet in one bank.
template <u32 THREADS_, u32 SEGMENT_, u32 WINDOW_, u32 QUADS_> struct Shared {
    static constexpr u32 THREADS = THREADS_, SEGMENT = SEGMENT_, WINDOW = WINDOW_, QUADS = QUADS_, WARPS = THREADS / 32;
    static constexpr u32 INPUT = THREADS * SEGMENT + 4 + HEADER_WORDS;
    static_assert(WINDOW % 4 == 0 && WINDOW <= 65528, "positions are 16 bits wide");
    static_assert(WINDOW >= 17 * 258, "a segment of one word always fits: it holds 16 matches and the end of another");
    static_assert(WINDOW / 4 <= 15 * THREADS, "a thread adds at most 16 words to its checksum before it reduces it");

    u32 table[LITERAL_SLOTS + DISTANCE_SLOTS + SECOND_SLOTS];
    u32 sorted[SYMBOLS];       // entries of all symbols in the order of their codes, those of distances from LITERALS on
    u32 limit[2][16];          // for each length the first 15-bit number above all codes of at most that length
    u32 offset[2][16];         // place in `sorted` of a code of that length, less the code
    u32 count[2][16];          // codes of that length
    u32 longest[2];
    u16 rank[SYMBOLS];         // of a symbol among those of its length
    u8 lengths[SYMBOLS];
    u8 small[128];             // code of the code lengths: bits | symbol << 3
    u32 path[WARPS][16];       // from each of the first 16 bits of 32: bits at which symbols start,
    u32 path_end[WARPS][16];   // lengths they give << 16 | how far into the next 32 bits the last one reaches
    u32 enter[WARPS];          // lengths before these 32 bits << 16 | where the first symbol starts
    u32 partial[WARPS];        // of sums over the block
    u32 ends[THREADS];         // where the segments' last symbols end
    u32 first_end[2];          // the first segment with an end of block; two, used in turn
    u32 again_count[2];        // segments to be decoded again, likewise
    u32 header_bad, header_end, codes_bad;
    u32 entered;               // where the chase stands
    u32 window_end, window_bytes, window_last;
    u32 damaged, long_count, carry;
    u32 input[INPUT + 4];
    u16 longs[WINDOW / (SHORT_MATCH + 1) + 1];  // where long matches start
    alignas(16) u16 window[WINDOW + 8];

    // Before anything is placed in the window, it has room for the counts of bytes of all segments, and for a list of
    // segments to be decoded again: start << 10 | segment.
    METHOD u32* counts() { return reinterpret_cast<u32*>(window); }
    METHOD u32* again() { return reinterpret_cast<u32*>(window) + THREADS; }
    static_assert(WINDOW * 2 >= THREADS * 8, "both fit into the window");
    static_assert((INPUT + 4) * 32 < 1 << 22 && THREADS <= 1024, "a start and a segment fit into a word");
};

DEVICE u32 smaller(u32 a, u32 b) { return a < b ? a : b; }
DEVICE u64 smaller64(u64 a, u64 b) { return a < b ? a : b; }

// Codes stand in the stream with their highest bit first. The next 15 bits as a number, in which codes are in order.
DEVICE u32 code_order(u32 bits) { return __brev(bits) >> 17; }

DEVICE u32 literal_entry(u32 symbol, u32 bits) {
    u32 code = bits << 5;
    if (symbol < 256) return symbol << 16 | LITERAL | code | bits;
    if (symbol == 256) return SPECIAL | END | code | bits;
    if (symbol > 285) return SPECIAL | code | bits;
    u32 index = symbol - 257, extra = 0, base = 3 + index;
    if (index == 28) {
        base = 258;
    } else if (index >= 8) {
        extra = (index >> 2) - 1;
        base = 3 + ((4 + (index & 3)) << extra);
    }
    return base << 16 | LENGTH | code | (bits + extra);
}

DEVICE u32 distance_entry(u32 symbol, u32 bits) {
    u32 code = bits << 5, extra = 0, base = 1 + symbol;
    if (symbol > 29) return SPECIAL | code | bits;
    if (symbol >= 4) {
        extra = (symbol >> 1) - 1;
        base = 1 + ((2 + (symbol & 1)) << extra);
    }
    return base << 16 | DISTANCE | code | (bits + extra);
}

// Copies a word to shared memory, without waiting for it where the device can.
DEVICE void copy_ahead(u32* to, const u32* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(static_cast<u32>(__cvta_generic_to_shared(to))), "l"(from)
                 : "memory");
#else
    *to = *from;
#endif
}

DEVICE void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

struct Quad {
    u32 low, high;
};

// Four bytes of the window.
DEVICE Quad load_quad(const u16* at) {
#if defined(__CUDA_ARCH__)
    uint2 v = *reinterpret_cast<const uint2*>(at);
    return Quad{v.x, v.y};
#else
    Quad v;
    memcpy(&v, at, 8);
    return v;
#endif
}

DEVICE void store_quad(u16* at, Quad v) {
#if defined(__CUDA_ARCH__)
    *reinterpret_cast<uint2*>(at) = make_uint2(v.low, v.high);
#else
    memcpy(at, &v, 8);
#endif
}

DEVICE void store_word(u8* at, u32 v) {
#if defined(__CUDA_ARCH__)
    *reinterpret_cast<u32*>(at) = v;
#else
    memcpy(at, &v, 4);
#endif
}

// Memory of the device, not shared memory: loads and stores need not find out.
DEVICE void assume_global(const void* p) {
#if defined(__CUDA_ARCH__)
    __builtin_assume(__isGlobal(p));
#else
    (void)p;
#endif
}

enum Purpose { WARM, COUNT, PLACE };

// One tile. Members are the same in all threads unless their comment says otherwise.
template <class S> struct Decoder {
    static constexpr u32 T = S::THREADS;

    S& s;
    const u32 t, lane, warp;  // of this thread

    METHOD Decoder(S& shared, u32 thread) : s(shared), t(thread), lane(thread & 31), warp(thread >> 5) {}

    const u8* source;         // 4-byte aligned; positions in bits count from here
    u64 bit, end_bit;         // the next bit to decode; the end of the input
    u32 input_words;
    u32 staged;               // word of the input that stands first in shared memory
    bool is_staged;

    u8* out;
    u32 capacity, written;
    u32 excess;               // bytes that the tile has no room for
    u32 segment;              // words
    u32 block_bits;           // length of the last Huffman block
    Adler adler;              // of this thread's words

    // There is more output than is wanted, so the rest is nobody's concern. The host looks one byte ahead, and at the
    // checksum if that was the last one.
    METHOD bool is_overfull() const { return excess > 1; }

    // -- the block of threads as one

    METHOD u32 sum_before(u32 value, u32& total) {
        u32 sum = value;
        for (u32 step = 1; step < 32; step <<= 1) {
            u32 other = __shfl_up_sync(FULL_WARP, sum, step);
            if (lane >= step) sum += other;
        }
        if (lane == 31) s.partial[warp] = sum;
        __syncthreads();
        u32 base = 0;
        total = 0;
        for (u32 i = 0; i < S::WARPS; ++i) {
            u32 part = s.partial[i];
            if (i < warp) base += part;
            total += part;
        }
        __syncthreads();
        return base + sum - value;
    }

    METHOD u32 peek(u32 at) { return __funnelshift_r(s.input[at >> 5], s.input[(at >> 5) + 1], at & 31); }

    // Begins to bring the input from the next bit on into shared memory. Nobody may be reading there.
    METHOD void stage() {
        staged = static_cast<u32>(bit >> 5);
        is_staged = true;
        const u32* words = reinterpret_cast<const u32*>(source);
        for (u32 i = t; i < T * segment + 4 + HEADER_WORDS; i += T) {
            if (staged + i < input_words) {
                copy_ahead(&s.input[i], words + staged + i);
            } else {
                s.input[i] = 0;
            }
        }
    }

    // The input is there, for everyone.
    METHOD void await_input() {
        if (!is_staged) stage();
        wait_for_copies();
        __syncthreads();
    }

    // -- the header of a block

    // The code of the code lengths, by the first warp: lane = symbol. Gives false when it is not complete.
    METHOD bool read_small_code(u32 at, u32 given) {
        // In the order in which their lengths stand in the header: 16 17 18 0 8 7 9 6 10 5 11 4 12 3 13 2 14 1 15.
        u32 place = lane == 0 ? 3 : lane >= 16 ? lane - 16 : lane >= 8 ? 2 * lane - 12 : 19 - 2 * lane;
        u32 length = 0;
        if (lane < 19 && place < given) length = peek(at + 3 * place) & 7;
        u32 same = __match_any_sync(FULL_WARP, length);
        u32 code = 0, own = 0, left = 1;
        bool over = false;
        for (u32 bits = 1; bits <= 7; ++bits) {
            u32 codes = __popc(__ballot_sync(FULL_WARP, length == bits));
            code <<= 1;
            left <<= 1;
            over |= codes > left;
            left -= codes;
            if (length == bits) own = code + __popc(same & ((1u << lane) - 1));
            code += codes;
        }
        if (over || left) return false;
        if (length) {
            for (u32 slot = __brev(own) >> (32 - length); slot < 128; slot += 1u << length) {
                s.small[slot] = static_cast<u8>(lane << 3 | length);
            }
        }
        return true;
    }

    // Place of the n-th code length: those of distances follow those of literals at once, whatever the number of these.
    static METHOD u32 length_place(u32 n, u32 literals) { return n < literals ? n : n - literals + LITERALS; }

    // The code lengths of a dynamic block, `at` bits into the staged input. Each thread decodes the symbol that would start
    // at its own bit. In each warp, five rounds of pointer doubling give for every start the symbols that follow from it
    // within 32 bits; one thread then goes from warp to warp, and all know whether their symbol is a real one.
    METHOD u32 read_lengths(u32 at, u32 header) {
        const u32 literals = 257 + (header >> 3 & 31), distances = 1 + (header >> 8 & 31), given = 4 + (header >> 13 & 15);
        if (literals > 286 || distances > 30) return STATUS_DAMAGED;
        for (u32 i = t; i < SYMBOLS; i += T) s.lengths[i] = 0;
        if (t < 32) {
            bool good = read_small_code(at + 17, given);
            if (t == 0) {
                s.header_bad = !good;
                s.header_end = 0;
            }
        }
        __syncthreads();
        if (s.header_bad) return STATUS_DAMAGED;

        const u32 wanted = literals + distances;
        u32 enter = 0;  // as in Shared
        for (u32 base = at + 17 + 3 * given; enter >> 16 < wanted && base < HEADER_WORDS * 32 - 160; base += T) {
            const u32 here = base + t, bits = peek(here), code = s.small[bits & 127];
            const u32 length = code & 7, symbol = code >> 3;
            const u32 extra = symbol < 16 ? 0 : symbol == 16 ? 2 : symbol == 17 ? 3 : 7;
            const u32 repeat = symbol < 16 ? 1 : (bits >> length & ((1u << extra) - 1)) + (symbol == 18 ? 11 : 3);
            u32 next = lane + length + extra, starts = 1u << lane, gives = repeat;
            UNROLL
            for (u32 round = 0; round < 5; ++round) {
                u32 next_of = __shfl_sync(FULL_WARP, next, next & 31);
                u32 starts_of = __shfl_sync(FULL_WARP, starts, next & 31);
                u32 gives_of = __shfl_sync(FULL_WARP, gives, next & 31);
                if (next < 32) {
                    starts |= starts_of;
                    gives += gives_of;
                    next = next_of;
                }
            }
            if (lane < 16) {
                s.path[warp][lane] = starts;
                s.path_end[warp][lane] = smaller(gives, SYMBOLS) << 16 | (next - 32);
            }
            if (lane == 0) s.enter[warp] = SYMBOLS << 16;  // behind the last length, unless the chase comes here
            __syncthreads();
            if (t == 0) {
                for (u32 i = 0; i < S::WARPS && enter >> 16 < wanted; ++i) {
                    s.enter[i] = enter;
                    const u32 step = s.path_end[i][enter & 15];
                    enter = (enter & 0xffff0000u) + step;
                }
                s.entered = enter;
            }
            __syncthreads();
            const u32 here_enter = s.enter[warp];
            const bool real = s.path[warp][here_enter & 15] >> lane & 1;
            u32 sum = real ? repeat : 0;
            for (u32 step = 1; step < 32; step <<= 1) {
                u32 other = __shfl_up_sync(FULL_WARP, sum, step);
                if (lane >= step) sum += other;
            }
            const u32 n = (here_enter >> 16) + sum - repeat;
            if (real && n < wanted) {
                if (n + repeat > wanted || (symbol == 16 && n == 0)) {
                    atomicOr(&s.header_bad, 1u);
                } else {
                    if (symbol < 16) s.lengths[length_place(n, literals)] = static_cast<u8>(symbol);
                    if (symbol == 16) {
                        for (u32 i = n; i < n + repeat; ++i) s.lengths[length_place(i, literals)] = 0xff;
                    }
                    if (n + repeat == wanted) s.header_end = here + length + extra;
                }
            }
            enter = s.entered;
            __syncthreads();
        }
        repeat_lengths(literals, wanted);
        if (s.header_bad || s.header_end == 0 || s.lengths[256] == 0) return STATUS_DAMAGED;
        bit = static_cast<u64>(staged) * 32 + s.header_end;
        return STATUS_OK;
    }

    // Where the last length is to be repeated (0xff so far), it is the nearest one before.
    METHOD void repeat_lengths(u32 literals, u32 wanted) {
        for (u32 i = t; i < wanted; i += T) {
            u32 length = s.lengths[length_place(i, literals)];
            for (u32 k = i; length == 0xff && k > 0;) length = s.lengths[length_place(--k, literals)];
            s.rank[i] = static_cast<u16>(length);
        }
        __syncthreads();
        for (u32 i = t; i < wanted; i += T) s.lengths[length_place(i, literals)] = static_cast<u8>(s.rank[i]);
        __syncthreads();
    }

    METHOD void fixed_lengths() {
        for (u32 i = t; i < SYMBOLS; i += T) {
            s.lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : i < LITERALS ? 8 : 5;
        }
        bit += 3;
        __syncthreads();
    }

    // -- tables

    // The first warp counts and ranks the lengths of both codes. Gives false for a code with more symbols than its lengths
    // have room for, or with less but for one of one bit.
    METHOD bool rank_lengths() {
        s.count[lane >> 4][lane & 15] = 0;
        __syncwarp();
        for (u32 start = 0; start < SYMBOLS; start += 32) {
            const u32 code = start >= LITERALS, length = s.lengths[start + lane];
            const u32 same = __match_any_sync(FULL_WARP, length), before = __popc(same & ((1u << lane) - 1));
            const u32 so_far = s.count[code][length];
            s.rank[start + lane] = static_cast<u16>(so_far + before);
            __syncwarp();
            if (before == 0) s.count[code][length] = so_far + __popc(same);
            __syncwarp();
        }
        bool good = true;
        if (lane < 2) {
            u32 code = 0, symbols = 0, left = 1, longest = 0;
            s.limit[lane][0] = 0;
            for (u32 length = 1; length <= 15; ++length) {
                u32 codes = s.count[lane][length];
                code <<= 1;
                left <<= 1;
                good &= codes <= left;
                left -= codes;
                s.offset[lane][length] = symbols - code;
                code += codes;
                symbols += codes;
                if (codes) longest = length;
                s.limit[lane][length] = code << (15 - length);
            }
            good &= left == 0 || longest <= 1;
            s.longest[lane] = longest;
        }
        return __all_sync(FULL_WARP, good);
    }

    METHOD u32 build_tables() {
        if (t < 32) {
            bool good = rank_lengths();
            if (t == 0) s.codes_bad = !good;
        }
        __syncthreads();
        if (s.codes_bad) return STATUS_DAMAGED;
        for (u32 i = t; i < SYMBOLS; i += T) {
            const u32 code = i >= LITERALS, length = s.lengths[i];
            if (length) {
                u32 first = (s.limit[code][length] >> (15 - length)) - s.count[code][length];
                u32 place = s.offset[code][length] + first + s.rank[i];
                s.sorted[code * LITERALS + place] =
                    code ? distance_entry(i - LITERALS, length) : literal_entry(i, length);
            }
        }
        __syncthreads();
        u32 second = LITERAL_SLOTS + DISTANCE_SLOTS;
        fill_table<LITERAL_BITS, 0>(second);
        fill_table<DISTANCE_BITS, 1>(second);
        __syncthreads();
        return STATUS_OK;
    }

    // Every slot of the table of one code finds its symbol by comparing with the limits. Codes longer than the first lookup
    // get second ones, all of the same size, from slot `second` on; where these have no room, a search takes their place.
    template <u32 BITS, u32 CODE> METHOD void fill_table(u32& second) {
        u32 limit[16];
        UNROLL
        for (u32 length = 1; length <= 15; ++length) limit[length] = s.limit[CODE][length];
        const u32* sorted = s.sorted + CODE * LITERALS;
        const u32* offset = s.offset[CODE];
        auto length_of = [&](u32 code) {
            u32 length = 1;
            UNROLL
            for (u32 i = 1; i <= 15; ++i) length += code >= limit[i];
            return length;
        };
        const u32 longer = s.longest[CODE] > BITS ? s.longest[CODE] - BITS : 0;
        const u32 first_longer = limit[BITS] >> (15 - BITS);
        const u32 slots = longer ? ((1u << BITS) - first_longer) << longer : 0;
        const bool has_room = second + slots <= LITERAL_SLOTS + DISTANCE_SLOTS + SECOND_SLOTS;
        for (u32 slot = t; slot < 1u << BITS; slot += T) {
            const u32 code = code_order(slot), length = length_of(code);
            u32 entry;
            if (length <= BITS) {
                entry = sorted[offset[length] + (code >> (15 - length))];
                if (CODE == 0 && (entry & KIND) == LITERAL && length < BITS) {
                    const u32 code2 = code_order(slot >> length), length2 = length_of(code2);
                    if (length2 <= BITS - length) {
                        const u32 entry2 = sorted[offset[length2] + (code2 >> (15 - length2))];
                        if ((entry2 & KIND) == LITERAL) {
                            entry = (entry2 & 0xff0000u) << 8 | (entry & 0xff0000u) | PAIR | length << 5 | (length + length2);
                        }
                    }
                }
            } else if (!longer) {
                entry = INVALID;
            } else if (has_room) {
                entry = (second + (((code >> (15 - BITS)) - first_longer) << longer)) << 16 | SECOND | SPECIAL | longer;
            } else {
                entry = SEARCH | SPECIAL;
            }
            s.table[CODE * LITERAL_SLOTS + slot] = entry;
        }
        if (has_room && slots) {
            for (u32 i = t; i < slots; i += T) {
                const u32 rest = __brev(i & ((1u << longer) - 1)) >> (32 - longer);
                const u32 code = (first_longer + (i >> longer)) << (15 - BITS) | rest << (15 - BITS - longer);
                const u32 length = length_of(code);
                s.table[second + i] = length <= 15 ? sorted[offset[length] + (code >> (15 - length))] : INVALID;
            }
            second += slots;
        }
    }

    // The entry of a code longer than the first lookup.
    METHOD u32 second_entry(u32 entry, u32 bits, bool is_distance) {
        if (entry & SEARCH) return search(bits, is_distance);
        const u32 rest = bits >> (is_distance ? DISTANCE_BITS : LITERAL_BITS);
        return s.table[(entry >> 16) + (rest & ((1u << (entry & 31)) - 1))];
    }

    // The entry of a code that no table holds.
    METHOD u32 search(u32 bits, bool is_distance) {
        const u32 code = code_order(bits), index = is_distance;
        u32 length = (is_distance ? DISTANCE_BITS : LITERAL_BITS) + 1;
        while (length <= 15 && code >= s.limit[index][length]) ++length;
        if (length > 15) return INVALID;
        return s.sorted[index * LITERALS + s.offset[index][length] + (code >> (15 - length))];
    }

    // -- windows

    // What became of one thread's segment.
    struct Run {
        u32 end;        // bit after its last symbol
        u32 bytes;      // it gives
        bool last;      // it met the end of the block
        u32 bad;        // PLACE only: place in the window of the first symbol or distance that cannot be
    };

    // Decodes the symbols that start in [from, to). To PLACE, `at` is the place of the first byte in the window, and
    // `reach` + place is how far back a match may go.
    template <Purpose PURPOSE> METHOD Run decode(u32 from, u32 to, u32 at, u32 reach) {
        Run run = {from, 0, false, ~0u};
        u32 here = from, low = s.input[here >> 5], high = s.input[(here >> 5) + 1], length = 0;
        // Of the table that is next: where it begins (0 for literals) and its index bits.
        u32 table = 0, mask = LITERAL_SLOTS - 1;
        while (table || here < to) {
            const u32 bits = __funnelshift_r(low, high, here & 31);
            u32 entry = s.table[table + (bits & mask)];
            if (entry & (SECOND | SEARCH)) entry = second_entry(entry, bits, table != 0);
            u32 take = entry & 31;
            const u32 code_bits = entry >> 5 & 15, kind = entry & KIND;
            bool two = false;
            if (entry & PAIR) {
                // The second of two literals belongs to the segment it starts in, or else where segments end would
                // depend on where decoding began.
                two = here + code_bits < to;
                if (!two) take = code_bits;
            }
            const u32 next = here + take;
            if ((next ^ here) >> 5) {
                low = high;
                high = s.input[(next >> 5) + 1];
            }
            here = next;
            const u32 value = (entry >> 16) + (bits >> code_bits & ((1u << (take - code_bits)) - 1));
            if (PURPOSE != WARM && kind == SPECIAL) {
                if (entry & END) {
                    run.last = true;
                    break;
                }
                run.bad = smaller(run.bad, at);
            }
            if (PURPOSE == COUNT) run.bytes += kind == LITERAL ? 1 + two : kind == LENGTH ? value : 0;
            if (PURPOSE == PLACE) {
                if (kind == LITERAL) {
                    s.window[at] = static_cast<u16>(KNOWN | (entry >> 16 & 255));
                    if (two) s.window[at + 1] = static_cast<u16>(KNOWN | entry >> 24);
                    at += 1 + two;
                } else if (kind == DISTANCE) {
                    run.bad = smaller(run.bad, value > reach + at ? at : ~0u);
                    place_match(at, length, value);
                    at += length;
                }
                length = value;
            }
            table = kind == LENGTH ? LITERAL_SLOTS : 0;
            mask = kind == LENGTH ? DISTANCE_SLOTS - 1 : LITERAL_SLOTS - 1;
        }
        run.end = here;
        return run;
    }

    // Byte k of a match that overlaps itself comes from byte k % distance before it, so that nobody has to wait for another
    // byte of the same match.
    METHOD void place_match(u32 at, u32 length, u32 distance) {
        if (length > SHORT_MATCH) {
            s.window[at] = static_cast<u16>(distance - 1);
            s.window[at + 1] = static_cast<u16>(length);
            s.longs[atomicAdd(&s.long_count, 1u)] = static_cast<u16>(at);
            return;
        }
        for (u32 k = 0, back = distance, turn = distance; k < length; ++k) {
            if (k == turn) {
                back += distance;
                turn += distance;
            }
            s.window[at + k] = static_cast<u16>(back - 1);
        }
    }

    // Long matches, one by each warp at a time.
    METHOD void place_long_matches() {
        const u32 count = s.long_count;
        for (u32 i = warp; i < count; i += S::WARPS) {
            const u32 at = s.longs[i], distance = s.window[at] + 1, length = s.window[at + 1];
            __syncwarp();
            for (u32 k = lane; k < length; k += 32) {
                const u32 back = distance >= length ? distance : (k / distance + 1) * distance;
                s.window[at + k] = static_cast<u16>(back - 1);
            }
        }
    }

    // The window holds `bytes` new bytes after `skew` old ones, which complete its first word. They go out, as far as the
    // tile has room. Begins and ends with a barrier.
    METHOD void resolve(u32 skew, u32 bytes) {
        u8* const base = out + (written - skew);
        assume_global(base);
        const u32 room = capacity - written;
        if (bytes > room) {
            excess += bytes - room;
            bytes = room;
        }
        const u32 end = skew + bytes, quads = (end + 3) >> 2;
        __syncthreads();
        for (u32 chunk = 0; chunk < quads; chunk += T * S::QUADS) {
            u32 words[S::QUADS];
            UNROLL
            for (u32 g = 0; g < S::QUADS; ++g) {
                const u32 quad = chunk + g * T + t;
                words[g] = quad < quads ? resolve_quad(base, quad * 4) : 0;
            }
            const bool more = chunk + T * S::QUADS < quads;
            if (more) __syncthreads();
            UNROLL
            for (u32 g = 0; g < S::QUADS; ++g) {
                const u32 quad = chunk + g * T + t, at = quad * 4;
                if (quad < quads) {
                    store_word(base + at, words[g]);
                    u32 counted = words[g];
                    if (at < skew) counted &= ~0u << 8 * skew;
                    if (at + 4 > end) {
                        s.carry = words[g];
                        counted &= ~0u >> 8 * (at + 4 - end);
                    }
                    adler.add(counted, at);
                    if (more) {
                        store_quad(s.window + at, Quad{KNOWN << 16 | KNOWN | (words[g] & 255) | (words[g] & 0xff00) << 8,
                                                       KNOWN << 16 | KNOWN | (words[g] >> 16 & 255) | words[g] >> 24 << 16});
                    }
                }
            }
            if (more) __syncthreads();
        }
        adler.close(written - skew);
        written += bytes;
        __syncthreads();
    }

    // Four bytes of output.
    METHOD u32 resolve_quad(const u8* base, u32 at) {
        const Quad quad = load_quad(s.window + at);
        u32 value[4] = {quad.low & 0xffff, quad.low >> 16, quad.high & 0xffff, quad.high >> 16};
        int from[4] = {static_cast<int>(at), static_cast<int>(at) + 1, static_cast<int>(at) + 2, static_cast<int>(at) + 3};
        // One more step for all until all are known, or come from output written before: these loads are then on their way
        // together. A known byte steps nowhere.
        while (!(value[0] & value[1] & value[2] & value[3] & KNOWN)) {
            UNROLL
            for (u32 k = 0; k < 4; ++k) {
                from[k] -= value[k] < KNOWN ? static_cast<int>(value[k]) + 1 : 0;
                value[k] = from[k] < 0 ? KNOWN : s.window[from[k]];
            }
        }
        UNROLL
        for (u32 k = 0; k < 4; ++k) {
            if (from[k] < 0) value[k] = base[from[k]];
        }
        return (value[0] & 255) | (value[1] & 255) << 8 | (value[2] & 255) << 16 | value[3] << 24;
    }

    // The last bytes of output that do not fill a word stand first in the window, as literals.
    METHOD u32 open_window() {
        const u32 skew = written & 3;
        if (t < skew) s.window[t] = static_cast<u16>(KNOWN | (s.carry >> 8 * t & 255));
        return skew;
    }

    // The window ends before `end`; the word it lies in does not.
    METHOD void close_window(u32 end) {
        if (t < 4) s.window[end + t] = KNOWN;
    }

    // Counts what each segment gives, from its `start` on and, where that is not where the one before ends, from there.
    // Those that have to do it again are handed to the first threads, so that few warps are kept busy. Segments after the
    // first end of block belong to no one. Gives the thread that met it, or T.
    METHOD u32 repair(u32 base, u32& start) {
        u32 index = t, from = start;
        bool works = true;
        for (u32 round = 0;; ++round) {
            const u32 now = round & 1, then = now ^ 1;
            if (works) {
                const Run run = decode<COUNT>(from, base + (index + 1) * segment * 32, 0, 0);
                s.ends[index] = run.end;
                s.counts()[index] = run.bytes | (run.last ? LAST : 0);
                if (run.last) atomicMin(&s.first_end[now], index);
            }
            __syncthreads();
            const u32 first_end = s.first_end[now];
            if (t == 0) {
                s.first_end[then] = T;
                s.again_count[then] = 0;
            }
            const u32 due = t ? s.ends[t - 1] : start;
            const bool last = s.counts()[t] & LAST, differs = t <= first_end && due != start;
            if (differs) {
                start = due;
                s.again()[atomicAdd(&s.again_count[now], 1u)] = due << 10 | t;
            }
            if (!__syncthreads_or(differs)) return first_end;
            works = t < s.again_count[now];
            if (works) {
                index = s.again()[t] & 1023;
                from = s.again()[t] >> 10;
            }
            if (last && !differs) atomicMin(&s.first_end[then], t);
        }
    }

    // A part of a Huffman block. Gives OK to go on; `ended` when it was the last part.
    METHOD u32 decode_window(bool& ended) {
        if (bit >= end_bit) return STATUS_INPUT;
        if (t == 0) {
            s.first_end[0] = T;
            s.again_count[0] = 0;
            s.damaged = 0;
            s.long_count = 0;
        }
        await_input();
        const u32 origin = static_cast<u32>(bit - static_cast<u64>(staged) * 32);
        const u32 from = (origin & ~31u) + t * segment * 32, to = from + segment * 32;

        // Speculate.
        u32 start = origin;
        if (from > origin) {
            start = decode<WARM>(from > origin + WARM_BITS ? from - WARM_BITS : origin, from, 0, 0).end;
        }
        const u32 first_end = repair(origin & ~31u, start);

        // As many threads as fit into the window have their say.
        u32 threads = smaller(first_end + 1, T), total;
        const u32 count = s.counts()[t], bytes = t < threads ? count & ~LAST : 0, before = sum_before(bytes, total);
        if (total > S::WINDOW) {
            threads = __syncthreads_count(t < threads && before + bytes <= S::WINDOW);
            if (threads == 0) {
                segment = 1;  // what is staged stays good
                return STATUS_OK;
            }
        }
        if (t == threads - 1) {
            s.window_end = s.ends[t];
            s.window_last = count & LAST;
            s.window_bytes = before + bytes;
        }
        const u32 skew = open_window();
        if (t < threads) {
            // `reach`: matches of 32768 bytes at most, so that more output than twice that need not be counted.
            const Run placed = decode<PLACE>(start, to, skew + before, smaller(written, 65536) - skew);
            // What comes behind the last byte of the tile, and the one that the host looks at, may be damaged or not there;
            // the rest of the last word is looked at here.
            const u64 needed = static_cast<u64>(skew) + (capacity - written) + 4;
            if (placed.bad < needed) atomicOr(&s.damaged, 1u);
            if (static_cast<u64>(staged) * 32 + placed.end > end_bit && skew + before < needed) atomicOr(&s.damaged, 2u);
        }
        __syncthreads();
        const u32 end = s.window_end, given = s.window_bytes;
        if (s.damaged) return s.damaged & 1 ? STATUS_DAMAGED : STATUS_INPUT;
        ended = s.window_last;
        close_window(skew + given);
        place_long_matches();

        const u32 taken = end - origin;
        bit = smaller64(static_cast<u64>(staged) * 32 + end, end_bit);
        // So many words that the output fills the window, and not many more than the last block had.
        const u32 fill = static_cast<u32>(static_cast<u64>(taken) * (S::WINDOW / 8 * 7) / (given ? given : 1) / (T * 32));
        segment = smaller(fill | 1, S::SEGMENT);
        stage();
        resolve(skew, given);
        return STATUS_OK;
    }

    // -- blocks

    METHOD u32 stored_block() {
        const u32 at = static_cast<u32>(((bit + 3 + 7) & ~7ull) - static_cast<u64>(staged) * 32);
        const u32 sizes = peek(at);
        u32 left = sizes & 0xffff;
        if ((left ^ 0xffff) != sizes >> 16) return STATUS_DAMAGED;
        bit = static_cast<u64>(staged) * 32 + at + 32;
        if (bit + left * 8ull > end_bit) return STATUS_INPUT;
        __syncthreads();  // all have read the header
        is_staged = false;
        const u8* from = source + (bit >> 3);
        bit += left * 8ull;
        while (left && !is_overfull()) {
            const u32 part = smaller(left, S::WINDOW), skew = open_window();
            for (u32 i = t; i < part; i += T) s.window[skew + i] = static_cast<u16>(KNOWN | from[i]);
            close_window(skew + part);
            resolve(skew, part);
            from += part;
            left -= part;
        }
        return STATUS_OK;
    }

    METHOD u32 huffman_block(u32 type, u32 header) {
        u32 status = STATUS_OK;
        if (type == 1) {
            fixed_lengths();
        } else {
            status = read_lengths(static_cast<u32>(bit & 31), header);
        }
        if (status == STATUS_OK) status = build_tables();
        const u64 begin = bit;
        // If this block is as long as the last one, short segments keep more threads at work in it.
        segment = smaller(segment, (block_bits / (T * 32) + block_bits / (T * 256) + 1) | 1);
        for (bool ended = false; status == STATUS_OK && !ended && !is_overfull();) status = decode_window(ended);
        block_bits = static_cast<u32>(smaller64(bit - begin, 0xffffffffu));
        return status;
    }

    METHOD u32 blocks() {
        // Blocks that give next to nothing keep this kernel busy for long, and no host.
        u32 patience = 1024 + capacity / 32;
        for (bool last = false; !last && !is_overfull();) {
            if (patience-- == 0) return STATUS_FOREIGN;
            if (bit + 3 > end_bit) return STATUS_INPUT;
            await_input();
            const u32 header = peek(static_cast<u32>(bit & 31)), type = header >> 1 & 3;
            last = header & 1;
            u32 status = STATUS_DAMAGED;
            if (type == 0) status = stored_block();
            if (type == 1 || type == 2) status = huffman_block(type, header);
            if (status != STATUS_OK) return status;
        }
        return written == capacity ? STATUS_OK : STATUS_INPUT;
    }

    // The checksum after the last block. One that was lost is forgiven, as the host does.
    METHOD u32 check() {
        const u64 at = (bit + 7) >> 3;
        // Damage can make a stream longer: whether it comes to a sound end is for the host to find out.
        if (excess) return STATUS_LONGER;
        if ((at + 4) * 8 > end_bit) return STATUS_OK;
        u32 sum, weighted;
        sum_before(adler.sum, sum);
        sum_before(adler.weighted, weighted);
        const u8* p = source + at;
        const u32 due = static_cast<u32>(p[0]) << 24 | p[1] << 16 | p[2] << 8 | p[3];
        return Adler::value(sum, weighted, capacity) == due ? STATUS_OK : STATUS_CHECKSUM;
    }

    METHOD u32 run(const Tile& tile) {
        if (tile.in_bytes < 2) return STATUS_INPUT;
        const u32 method = tile.in[0], flags = tile.in[1];
        // Deflate, a window of at most 32 KiB, no dictionary.
        if ((method & 15) != 8 || method > 0x7f || (method << 8 | flags) % 31 || flags & 0x20) return STATUS_FOREIGN;
        const u32 skew = static_cast<u32>(reinterpret_cast<size_t>(tile.in) & 3);
        source = tile.in - skew;
        bit = (skew + 2) * 8;
        end_bit = (static_cast<u64>(skew) + tile.in_bytes) * 8;
        input_words = static_cast<u32>((end_bit + 31) >> 5);
        staged = 0;
        is_staged = false;
        out = tile.out;
        capacity = tile.out_bytes;
        written = 0;
        excess = 0;
        segment = S::SEGMENT;
        block_bits = 0xffffffffu;
        const u32 status = blocks();
        return status == STATUS_OK ? check() : status;
    }
};

// One tile by one block of threads.
template <class S> DEVICE void decode_tile(S& shared, const Tile& tile, u32* status) {
    const u32 t = threadIdx.x;
    Decoder<S> decoder(shared, t);
    const u32 became = decoder.run(tile);
    if (t == 0) status[tile.id] = became;
}

#undef METHOD
#undef UNROLL

}  // namespace deflate
