// What encoders share that take runs of a byte for matches and all else for Huffman codes: runs, and the widths of codes.
#pragma once
#include "lanes.h"

enum {
    CODES_THREADS = 256,
    RUN_BYTES = 32768,  // bytes in which runs are found
    RUN_WORDS = RUN_BYTES / 32,
    RUN_SHORTEST = 6,   // bytes that equal the one before
};

DEVICE u32 high_bit(u32 x) { return 31 - (u32)__clz((int)x); }

// -- runs

// Bits from which on there are RUN_SHORTEST ones.
DEVICE u64 first_of_run(u64 bits) {
    bits &= bits >> 1;
    bits &= bits >> 2;
    return bits & bits >> 2;
}

// Sets a bit for every byte of a run that equals the one before it, where there are enough of them; all threads of a block.
// `equal` is memory for as many words.
DEVICE void find_runs(const u8* bytes, u32 count, u32* equal, u32* matched) {
    const u32 lane = threadIdx.x & 31;
    for (u32 word = threadIdx.x / 32; word < RUN_WORDS; word += CODES_THREADS / 32) {
        const u32 place = 32 * word + lane;
        const bool same = place > 0 && place < count && bytes[place] == bytes[place - 1];
        const u32 all = __ballot_sync(FULL_WARP, same);
        if (lane == 0) equal[word] = all;
    }
    __syncthreads();
    for (u32 word = threadIdx.x; word < RUN_WORDS; word += CODES_THREADS) {
        const u64 before = word > 0 ? equal[word - 1] : 0, own = equal[word];
        const u64 after = word + 1 < RUN_WORDS ? equal[word + 1] : 0;
        // Where enough ones begin, in the word before and in this one; then all that these cover.
        const u64 covers = (first_of_run(own << 32 | before) & 0xffffffffu) | first_of_run(after << 32 | own) << 32;
        const u64 two = covers | covers << 1, four = two | two << 2;
        matched[word] = (u32)((four | four << 2) >> 32);
    }
    __syncthreads();
}

// Where a match that begins at `start` ends.
DEVICE u32 match_end(const u32* matched, u32 start) {
    u32 word = start / 32, rest = ~matched[word] & ~0u << (start % 32);
    while (rest == 0 && ++word < RUN_WORDS) rest = ~matched[word];
    return rest ? 32 * word + (u32)__ffs((int)rest) - 1 : (u32)RUN_BYTES;
}

// First bytes of the matches of a word.
DEVICE u32 match_starts(const u32* matched, u32 word) {
    const u32 own = matched[word];
    return own & ~(own << 1 | (word > 0 ? matched[word - 1] >> 31 : 0));
}

// -- codes

// Working memory: weights of leaves, rarest first, then of what was joined of two.
template <int SYMBOLS> struct CodeTree {
    u32 weight[2 * SYMBOLS];
    u16 parent[2 * SYMBOLS];
    u8 depth[2 * SYMBOLS];
};

// Widths of the codes of symbols, at most MOST bits. Every function but `grow` is for all threads of a block, with a barrier
// before it and one inside at its end.
template <int SYMBOLS, int MOST> struct CodeWidths {
    u32 count[SYMBOLS];
    u16 rarest[SYMBOLS];  // symbols, the rarest first
    u8 width[SYMBOLS];    // 0 for none
    u32 with_width[16];
    u32 used, most;       // symbols that there are, and the widest code

    DEVICE_MEMBER void order() {
        if (threadIdx.x < 16) with_width[threadIdx.x] = 0;
        if (threadIdx.x == 0) used = 0;
        __syncthreads();
        for (u32 symbol = threadIdx.x; symbol < SYMBOLS; symbol += CODES_THREADS) {
            const u32 own = count[symbol];
            width[symbol] = 0;
            if (own == 0) continue;
            u32 rank = 0;
            for (u32 other = 0; other < SYMBOLS; ++other) {
                const u32 theirs = count[other];
                rank += theirs > 0 && (theirs < own || (theirs == own && other < symbol));
            }
            rarest[rank] = (u16)symbol;
            atomicAdd(&used, 1u);
        }
        __syncthreads();
    }

    // How many codes have each width, by one thread; two symbols at least.
    DEVICE_MEMBER void grow(CodeTree<SYMBOLS>& tree) {
        const u32 leaves = used, all = 2 * leaves - 1;
        for (u32 i = 0; i < leaves; ++i) tree.weight[i] = count[rarest[i]];
        u32 leaf = 0, joined = leaves;
        for (u32 next = leaves; next < all; ++next) {
            u32 sum = 0;
            for (u32 k = 0; k < 2; ++k) {
                const bool take_leaf = leaf < leaves && (joined >= next || tree.weight[leaf] <= tree.weight[joined]);
                const u32 node = take_leaf ? leaf++ : joined++;
                tree.parent[node] = (u16)next;
                sum += tree.weight[node];
            }
            tree.weight[next] = sum;
        }
        tree.depth[all - 1] = 0;
        for (u32 node = all - 1; node-- > 0;) {
            const u32 depth = tree.depth[tree.parent[node]] + 1u;
            tree.depth[node] = (u8)depth;
            if (node < leaves) ++with_width[smaller(depth, MOST)];
        }
        // What was too deep takes more room than there is: longer codes for some others make up for it.
        u32 taken = 0;
        for (u32 w = 1; w <= MOST; ++w) taken += with_width[w] << (MOST - w);
        for (; taken > 1u << MOST; --taken) {
            u32 w = MOST - 1;
            while (with_width[w] == 0) --w;
            --with_width[MOST];
            --with_width[w];
            with_width[w + 1] += 2;
        }
        most = 1;
        for (u32 w = 1; w <= MOST; ++w) {
            if (with_width[w]) most = w;
        }
    }

    // The rarest have the longest.
    DEVICE_MEMBER void assign() {
        for (u32 rank = threadIdx.x; rank < used; rank += CODES_THREADS) {
            u32 own = most, before = 0;
            while (rank >= before + with_width[own]) before += with_width[own--];
            width[rarest[rank]] = (u8)own;
        }
        __syncthreads();
    }
};
