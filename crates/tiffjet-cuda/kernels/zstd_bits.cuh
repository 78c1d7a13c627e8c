// Bits read backwards, the way Zstandard writes them: one lane, one stream, the bytes ahead of it on their way.
#pragma once
#include "zstd.cuh"

// Units of 16 bytes that each lane has in shared memory, the next ones copied in while these are read.
enum : u32 { ZSTD_RING = 16, ZSTD_RING_WORDS = ZSTD_RING * 4, ZSTD_RING_STRIDE = ZSTD_RING_WORDS + 4, ZSTD_RING_AHEAD = 8 };

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
DEVICE void zstd_copy_unit(u32* to, const ZstdUnit* from) {
    u32 address = static_cast<u32>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}
DEVICE void zstd_close_unit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <u32 AHEAD>
DEVICE void zstd_wait_units() {
    asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD) : "memory");
}
#else
DEVICE void zstd_copy_unit(u32* to, const ZstdUnit* from) { *reinterpret_cast<ZstdUnit*>(to) = *from; }
DEVICE void zstd_close_unit() {}
template <u32 AHEAD>
DEVICE void zstd_wait_units() {}
#endif

// `high` and `low` hold the next bits, the first at the top; `have` of them, at least 32 between two reads, and zeros after.
struct ZstdBits {
    u32 high, low, have;
    u32 ahead;      // the word after them
    int next;       // number of the word after that
    int floor;      // first unit of the stream
    const ZstdUnit* units;
    u32* ring;
};

DEVICE void zstd_fetch(ZstdBits& b, int unit) {
    if (unit >= b.floor) zstd_copy_unit(b.ring + (unit & (ZSTD_RING - 1)) * 4, b.units + unit);
    zstd_close_unit();  // an empty one too: waiting counts them
}

DEVICE u32 zstd_ring_word(const ZstdBits& b, int word) { return b.ring[word & (ZSTD_RING_WORDS - 1)]; }

// Starts below bit `end`; bits below `start` are not the stream's, and its caller finds out when they were read.
DEVICE void zstd_open_bits(ZstdBits& b, const ZstdUnit* units, u32 start, u32 end, u32* ring) {
    b.units = units;
    b.ring = ring;
    b.floor = static_cast<int>(start >> 7);
    int word = static_cast<int>(end >> 5);
    for (int k = 0; k < static_cast<int>(ZSTD_RING); ++k) zstd_fetch(b, (word >> 2) - k);
    zstd_wait_units<0>();
    u32 k = end & 31, upper = zstd_ring_word(b, word), lower = zstd_ring_word(b, word - 1);
    b.high = k ? upper << (32 - k) | lower >> k : lower;
    b.low = k ? lower << (32 - k) : 0;
    b.have = 32 + k;
    b.ahead = zstd_ring_word(b, word - 2);
    b.next = word - 3;
    // Words are fetched when the unit above them is used up: the first ones may have been, already.
    for (int u = word >> 2; u > b.next >> 2; --u) zstd_fetch(b, u - static_cast<int>(ZSTD_RING));
}

// Takes another word in when fewer than 32 bits, and at least one, are left.
DEVICE void zstd_refill(ZstdBits& b) {
    if (b.have < 32) {
        b.high |= b.ahead >> b.have;
        b.low = b.ahead << (32 - b.have);
        b.have += 32;
        b.ahead = zstd_ring_word(b, b.next);
        if ((b.next & 3) == 0) {
            zstd_fetch(b, (b.next >> 2) - static_cast<int>(ZSTD_RING));
            zstd_wait_units<ZSTD_RING_AHEAD>();
        }
        b.next -= 1;
    }
}

// Goes past `n` bits, at most 31.
DEVICE void zstd_skip(ZstdBits& b, u32 n) {
    b.high = __funnelshift_l(b.low, b.high, n);
    b.low = __funnelshift_l(0, b.low, n);
    b.have -= n;
    zstd_refill(b);
}

DEVICE u32 zstd_take(ZstdBits& b, u32 n) {
    u32 bits = zstd_top(b.high, n);
    zstd_skip(b, n);
    return bits;
}

// The bit after the last of a stream: its last byte ends with a one above the bits. False when there is none.
DEVICE bool zstd_end_bit(const u8* in, u32 at, u32 size, u32 skew, u32& end) {
    if (size == 0) return false;
    u32 last = in[at + size - 1];
    if (last == 0) return false;
    end = (skew + at + size - 1) * 8 + zstd_high_bit(last);
    return true;
}
