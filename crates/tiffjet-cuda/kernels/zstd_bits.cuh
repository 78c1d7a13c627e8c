// Bits read backwards, the way Zstandard writes them: one lane, one stream, the bytes ahead of it on their way.
#pragma once
#include "zstd.cuh"

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

// Tables in shared memory by address: a cell can hold the place of another, and one addition gives the address of the
// next. `table` is where addresses count from; on the device they are those of the multiprocessor.
#if defined(__CUDA_ARCH__)
DEVICE u32 zstd_shared_place(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }
DEVICE u32 zstd_shared_u32(const void*, u32 place) {
    u32 x;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(place) : "memory");
    return x;
}
DEVICE u32 zstd_shared_u16(const void*, u32 place) {
    u32 x;
    asm volatile("{ .reg .u16 t; ld.shared.u16 t, [%1]; cvt.u32.u16 %0, t; }" : "=r"(x) : "r"(place) : "memory");
    return x;
}
#else
DEVICE u32 zstd_shared_place(const void*) { return 0; }
DEVICE u32 zstd_shared_u32(const void* table, u32 place) {
    return *reinterpret_cast<const u32*>(static_cast<const u8*>(table) + place);
}
DEVICE u32 zstd_shared_u16(const void* table, u32 place) {
    return *reinterpret_cast<const u16*>(static_cast<const u8*>(table) + place);
}
#endif

// A reader with RING units of 16 bytes in shared memory. Between two calls of `advance` at most STEP units are read, and
// the copies of the units after them had AHEAD such calls to arrive.
//
// `high` and `low` hold the next bits, the first at the top; `have` of them, 32 to 63, and zeros after. `word` is the one
// after them. Nothing of this branches: lanes go together, and each must be fast alone.
template <u32 RING, u32 STEP>
struct ZstdBits {
    enum : u32 { WORDS = RING * 4, STRIDE = RING + 1, AHEAD = RING / STEP - 2 };
    static_assert((RING & (RING - 1)) == 0 && RING >= 3 * STEP, "");

    u32 high, low, have, word;
    int next;     // number of `word`
    int fetched;  // the last unit whose copy has begun
    int floor;    // the first of the stream
    const ZstdUnit* units;
    ZstdUnit* ring;

    DEVICE_MEMBER u32 load(int number) const { return ring[0].word[number & (WORDS - 1)]; }

    // Copies as far ahead as units that were read leave room.
    DEVICE_MEMBER void fetch() {
        int upto = (next >> 2) - static_cast<int>(RING) + 1;
        if (upto < floor) upto = floor;
        while (fetched > upto) {
            --fetched;
            zstd_copy_unit(ring[fetched & (RING - 1)].word, units + fetched);
        }
        zstd_close_unit();
    }

    DEVICE_MEMBER void advance() {
        fetch();
        zstd_wait_units<AHEAD>();
    }

    // Starts below bit `end`. Bits below `start` are not the stream's: the caller finds out when they were read.
    DEVICE_MEMBER void open(const ZstdUnit* from, u32 start, u32 end, ZstdUnit* memory) {
        units = from;
        ring = memory;
        floor = static_cast<int>(start >> 7);
        next = static_cast<int>(end >> 5);
        fetched = (next >> 2) + 1;
        fetch();
        zstd_wait_units<0>();
        u32 k = end & 31, upper = load(next), lower = load(next - 1);
        high = k ? upper << (32 - k) | lower >> k : lower;
        low = k ? lower << (32 - k) : 0;
        have = 32 + k;
        next -= 2;
        word = load(next);
    }

    // Takes `word` in when fewer than 32 bits, and at least one, are left.
    DEVICE_MEMBER void refill() {
        u32 few = (have >> 5) - 1;  // all ones, or zero
        high |= __funnelshift_r(word, 0, have) & few;
        low |= __funnelshift_r(0, word, have) & few;
        next += static_cast<int>(few);
        have |= 32;
        word = load(next);
    }

    // Goes past `n` bits, at most 31.
    DEVICE_MEMBER void skip(u32 n) {
        high = __funnelshift_l(low, high, n);
        low = __funnelshift_l(0, low, n);
        have -= n;
        refill();
    }

    DEVICE_MEMBER u32 take(u32 n) {
        u32 bits = zstd_top(high, n);
        skip(n);
        return bits;
    }
};

// The bit after the last of a stream: its last byte ends with a one above the bits. False when there is none.
DEVICE bool zstd_end_bit(const u8* in, u32 at, u32 size, u32 skew, u32& end) {
    if (size == 0) return false;
    u32 last = in[at + size - 1];
    if (last == 0) return false;
    end = (skew + at + size - 1) * 8 + zstd_high_bit(last);
    return true;
}
