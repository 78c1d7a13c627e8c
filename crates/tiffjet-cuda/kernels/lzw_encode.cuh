// LZW, in segments of a tile that know nothing of each other.
//
// LZW is one long chain: no code can be found before the one in front of it. But a stream may clear its table at any time,
// and does so every few thousand codes in any case. So tiles are cut into segments, each of which ends with a Clear and
// is encoded by one thread of a block of its own, with its table in shared memory; the others help to clear it. Then bits
// of segments are moved together. A cut costs little where a segment fills the table several times. A tile that
// becomes so short that it does not is encoded again in longer segments.
//
// What a tile becomes depends on its bytes alone; up to one segment it is what the host's codec makes of it.
#pragma once
#include "frame.cuh"

enum {
    LZW_CLEAR_CODE = 256,
    LZW_END_CODE = 257,
    LZW_FIRST_CODE = 258,
    LZW_FULL_CODE = 4094,  // codes known when the table is cleared
    LZW_PIECE = 32768,     // bytes of a segment
    // Bytes that a segment can become: a code of 12 bits for each byte, and some Clears.
    LZW_ROOM = LZW_PIECE + LZW_PIECE / 2 + 48,
    LZW_SLOTS = 6144,
    LZW_KEY_BITS = 20,  // of a prefix and a byte
    LZW_MOST = 4,       // segments that are encoded as one
};

// Of segments, the bits they have, later where these begin in the tile; one more for all. Behind them, aligned to 16
// bytes, LZW_ROOM bytes for each segment.
struct LzwScratch {
    u64* bits;
    u8* room;
    u32 count;

    __device__ explicit LzwScratch(const Tile& tile)
        : bits((u64*)tile.out), room(nullptr), count(tile.in_bytes / LZW_PIECE + (tile.in_bytes % LZW_PIECE != 0)) {
        room = tile.out + ((8 * (u64)(count + 1) + 15) & ~15ull);
    }

    // 32 bits in each word, the first in the highest.
    DEVICE_MEMBER u32* words(u32 segment) const { return (u32*)(room + (u64)segment * LZW_ROOM); }
};

// A code in the high bits, below it the prefix and the byte it stands for; 0 for none.
struct LzwTable {
    u32 slots[LZW_SLOTS];
};

// What one thread knows of its segment.
struct LzwChain {
    const u8* in;
    u32 at, end;       // next byte, and the one behind the last
    u32 word;          // bytes of the input from `at` on, up to the next whole four
    Quad quad, ahead;  // those behind it, and those behind them
    u32 *out, *start;
    u64 held = 0;      // bits that are not stored yet
    u32 held_bits = 0;
    u32 prefix = 0, next = LZW_FIRST_CODE, width = 9;

    __device__ LzwChain(const u8* in, u32 bytes, u32* out) : in(in), at(0), end(bytes), word(0), out(out), start(out) {
        quad = ahead = *(const Quad*)in;
        if (end > 16) ahead = *(const Quad*)(in + 16);
    }

    __device__ __forceinline__ u32 byte() {
        if ((at & 3) == 0) {
            word = quad.x;
            quad.x = quad.y;
            quad.y = quad.z;
            quad.z = quad.w;
            if ((at & 15) == 12) {
                quad = ahead;
                // Asked for long before it is used.
                if (end - at > 20) ahead = *(const Quad*)(in + at + 20);
            }
        }
        const u32 byte = word & 0xff;
        word >>= 8;
        ++at;
        return byte;
    }

    __device__ __forceinline__ void put(u32 code) {
        held = held << width | code;
        held_bits += width;
        if (held_bits >= 32) {
            held_bits -= 32;
            *out++ = (u32)(held >> held_bits);
        }
    }

    static __device__ __forceinline__ u32 home(u32 key) { return __umulhi(key * 2654435761u, LZW_SLOTS); }

    // Goes on until the table is full or nothing is left. Says whether there is more.
    __device__ bool run(LzwTable& table) {
        const u32 key_mask = (1u << LZW_KEY_BITS) - 1;
        while (at < end) {
            const u32 byte = this->byte(), key = prefix << 8 | byte;
            u32 slot = home(key), entry = table.slots[slot];
            while (entry != 0 && (entry & key_mask) != key) {
                slot = slot + 1 < LZW_SLOTS ? slot + 1 : 0;
                entry = table.slots[slot];
            }
            if (entry != 0) {
                prefix = entry >> LZW_KEY_BITS;
                continue;
            }
            put(prefix);
            table.slots[slot] = next << LZW_KEY_BITS | key;
            prefix = byte;
            if (++next == LZW_FULL_CODE) {
                put(LZW_CLEAR_CODE);
                next = LZW_FIRST_CODE;
                width = 9;
                return true;
            }
            if (next == 1u << width) ++width;
        }
        return false;
    }

    // The last code, and a Clear or an End. The reader counts a string for the last code too, so that its width may grow.
    __device__ u64 finish(bool last) {
        put(prefix);
        if (next + 1 == LZW_FULL_CODE && last) {
            put(LZW_CLEAR_CODE);
            width = 9;
        } else if (next + 1 == 1u << width) {
            ++width;
        }
        put(last ? LZW_END_CODE : LZW_CLEAR_CODE);
        const u64 bits = 32 * (u64)(out - start) + held_bits;
        if (held_bits) *out = (u32)(held << (32 - held_bits));
        return bits;
    }
};

// Encodes bytes first..end of a tile by a warp; gives their bits.
DEVICE u64 lzw_encode_part(LzwTable& table, const Tile& tile, u32 first, u32 end, u32* out, u32 lane) {
    const Quad zeros = {0, 0, 0, 0};
    LzwChain chain(tile.in + first, end - first, out);
    if (lane == 0) {
        if (first == 0) chain.put(LZW_CLEAR_CODE);
        chain.prefix = chain.byte();
    }
    bool more = true;
    while (more) {
        for (u32 i = lane; i < LZW_SLOTS / 4; i += 32) ((Quad*)table.slots)[i] = zeros;
        __syncwarp();
        if (lane == 0) more = chain.run(table);
        more = __shfl_sync(FULL_WARP, more, 0);
    }
    return lane == 0 ? chain.finish(end == tile.in_bytes) : 0;
}

// One segment, or `joined` of them as one.
DEVICE void lzw_encode_segment(LzwTable& table, const Tile& tile, u32 segment, u32 joined, u32 lane) {
    const LzwScratch scratch(tile);
    const u64 first = (u64)segment * LZW_PIECE, behind = first + (u64)joined * LZW_PIECE;
    const u32 end = behind < tile.in_bytes ? (u32)behind : tile.in_bytes;
    const u64 bits = lzw_encode_part(table, tile, (u32)first, end, scratch.words(segment), lane);
    if (lane != 0) return;
    scratch.bits[segment] = bits;
    for (u32 i = segment + 1; i < segment + joined && i < scratch.count; ++i) scratch.bits[i] = 0;
}

// How many segments of a tile are worth being one: a table has about 40 000 bits, and half of one is much to lose.
DEVICE u32 lzw_joined(u64 bits, u32 segments) {
    const u64 each = bits / segments;
    return each >= 8 * LZW_PIECE / 8 ? 1 : each >= 8 * LZW_PIECE / 16 ? 2 : (u32)LZW_MOST;
}

// The sum of the bits of a tile's segments, by a warp.
DEVICE u64 lzw_all_bits(const LzwScratch& scratch, u32 lane) {
    u64 own = 0;
    for (u32 i = lane; i < scratch.count; i += 32) own += scratch.bits[i];
    return __shfl_sync(FULL_WARP, warp_sum_up_to(own, lane), 31);
}

// Bits of segments become the places where they begin, by a warp. Gives the bytes of the tile.
DEVICE u64 lzw_places(const LzwScratch& scratch, u32 lane) {
    u64 before = 0;
    for (u32 first = 0; first < scratch.count; first += 32) {
        const u32 i = first + lane;
        const u64 own = i < scratch.count ? scratch.bits[i] : 0;
        const u64 up_to = warp_sum_up_to(own, lane);
        if (i < scratch.count) scratch.bits[i] = before + up_to - own;
        before += __shfl_sync(FULL_WARP, up_to, 31);
    }
    if (lane == 0) scratch.bits[scratch.count] = before;
    return (before + 7) / 8;
}

// A segment on its way to its place.
struct LzwMove {
    const u32* words;
    u64 bits;

    // 32 bits from `place` on, which may lie before the first; zeros outside.
    DEVICE_MEMBER u32 at(int64_t place) const {
        if (place <= -32 || place >= (int64_t)bits) return 0;
        if (place < 0) return words[0] >> (u32)-place;
        const u64 word = (u64)place / 32;
        const u32 low = 32 * (word + 1) < bits ? words[word + 1] : 0;
        return __funnelshift_l(low, words[word], (u32)place & 31);
    }
};

// Puts the bytes that begin in a segment in place, by all threads of a block.
DEVICE void lzw_move(const LzwScratch& scratch, u32 segment, u8* out) {
    const u64 begin = scratch.bits[segment], behind = scratch.bits[segment + 1];
    const u64 first = (begin + 7) / 8, end = (behind + 7) / 8;
    if (first >= end) return;
    const LzwMove move = {scratch.words(segment), behind - begin};
    const u64 whole = end - 1 - first;
    u8* to = out + first;
    for (int64_t at = 16 * (int64_t)threadIdx.x - (int64_t)(address_of(to) & 15); at < (int64_t)whole; at += 16 * BLOB_THREADS) {
        u32 words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            words[i] = __byte_perm(move.at(8 * ((int64_t)first + at + 4 * i) - (int64_t)begin), 0, 0x0123);
        }
        store_words<4>(to, at, (int64_t)whole, words);
    }
    if (threadIdx.x != 0) return;
    // The last byte may go on with bits of the next segment that has some: it has enough for it.
    u32 byte = move.at((int64_t)(8 * (end - 1) - begin)) >> 24;
    u32 next = segment + 1;
    while (next < scratch.count && scratch.bits[next + 1] == behind) ++next;
    if (next < scratch.count) byte |= scratch.words(next)[0] >> 24 >> (u32)(behind - 8 * (end - 1));
    out[end - 1] = (u8)byte;
}
