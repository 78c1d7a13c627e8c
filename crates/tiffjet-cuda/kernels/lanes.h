// What several kernels need: 16 bytes at once, words from anywhere, and sums over the lanes of a warp and the threads of a
// block.
#pragma once
#include "device.h"

// A function of a struct. The emulation is told less, or its compiler would take minutes over copies of the same code.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define MEMBER static __device__ __forceinline__
#else
#define MEMBER static
#endif

// The widest load and store there is.
struct __align__(16) Quad {
    u32 x, y, z, w;
};

DEVICE u32 smaller(u32 a, u32 b) { return a < b ? a : b; }

DEVICE u64 address_of(const void* p) { return (u64)(size_t)p; }

// `sum` and the bytes of `word` for which `which` has a one, the others zeros.
DEVICE u32 add_bytes(u32 word, u32 which, u32 sum) {
#if defined(__CUDA_ARCH__)
    return __dp4a(word, which, sum);
#else
    for (u32 k = 0; k < 32; k += 8) sum += (word >> k & 255) * (which >> k & 255);
    return sum;
#endif
}

// Sum of `v` of this lane and all lanes below.
template <class T> DEVICE T warp_sum_up_to(T v, u32 lane) {
#pragma unroll
    for (u32 d = 1; d < 32; d *= 2) {
        const T other = __shfl_up_sync(FULL_WARP, v, d);
        if (lane >= d) v += other;
    }
    return v;
}

// Sum of `v` of all lanes.
DEVICE u32 warp_sum(u32 v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_add_sync(FULL_WARP, v);
#else
#pragma unroll
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(FULL_WARP, v, d);
    return v;
#endif
}

// Sum of `v` of all threads before this one in a block of THREADS, and in `total` of all. Every thread must call it;
// `warps` is shared memory for 32 words, free again after the next barrier.
template <int THREADS> DEVICE u32 block_sum_before(u32 v, u32* warps, u32& total) {
    const u32 thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const u32 up_to = warp_sum_up_to(v, lane);
    if (lane == 31) warps[warp] = up_to;
    __syncthreads();
    // Each warp sums the sums of all warps for itself, which spares a barrier.
    const u32 of_warp = lane < THREADS / 32 ? warps[lane] : 0;
    const u32 of_warps = warp_sum_up_to(of_warp, lane);
    const u32 before = __shfl_sync(FULL_WARP, of_warps - of_warp, warp);
    total = __shfl_sync(FULL_WARP, of_warps, 31);
    return before + up_to - v;
}

// Words of 4 bytes that hold `WORDS` words from `from` on, which has any alignment; `end` bytes of the row can be read.
// Bytes outside of the row are anyone's where they share a word with bytes inside, else 0. All lanes of a warp must
// have the same `from & 3`. `inside` says that every word is known to lie inside, the same for all lanes.
template <int WORDS> DEVICE void load_words(const u8* row, int64_t from, int64_t end, bool inside, u32 (&words)[WORDS]) {
    const u8* at = row + from;
    const u32 skew = (u32)(address_of(at) & 3);
    const u32* aligned = (const u32*)(at - skew);
    if (WORDS % 4 == 0 && inside && (address_of(at) & 15) == 0) {
#pragma unroll
        for (int i = 0; i + 3 < WORDS; i += 4) {
            const Quad quad = *(const Quad*)(aligned + i);
            words[i] = quad.x;
            words[i + 1] = quad.y;
            words[i + 2] = quad.z;
            words[i + 3] = quad.w;
        }
        return;
    }
    if (inside && skew == 0) {
#pragma unroll
        for (int i = 0; i < WORDS; ++i) words[i] = aligned[i];
        return;
    }
    if (inside) {
        u32 low = aligned[0];
#pragma unroll
        for (int i = 0; i < WORDS; ++i) {
            const u32 high = aligned[i + 1];
            words[i] = __funnelshift_r(low, high, 8 * skew);
            low = high;
        }
        return;
    }
    const int64_t first = from - (int64_t)skew;
    u32 low = 0;
#pragma unroll
    for (int i = 0; i <= WORDS; ++i) {
        const int64_t place = first + 4 * i;
        const bool readable = (inside || (place + 4 > 0 && place < end)) && (i < WORDS || skew != 0);
        const u32 high = readable ? aligned[i] : 0;
        if (i > 0) words[i - 1] = skew == 0 ? low : __funnelshift_r(low, high, 8 * skew);
        low = high;
    }
}

// Whether all words that a warp loads in one step, WORDS for each lane from `first` on, lie inside of the row.
template <int WORDS> DEVICE bool step_is_inside(const u8* row, int64_t first, int64_t end) {
    const int64_t skew = (int64_t)(address_of(row + first) & 3);
    return first >= skew && first + 32 * 4 * WORDS + (skew ? 4 : 0) <= end;
}

// Ones for those bytes of a word at `place` that lie in 0..end.
DEVICE u32 bytes_inside(int64_t place, int64_t end) {
    if (place <= -4 || place >= end) return 0;
    u32 mask = ~0u;
    if (place < 0) mask <<= 8 * (u32)-place;
    if (end - place < 4) mask &= (1u << 8 * (u32)(end - place)) - 1;
    return mask;
}

// Stores the bytes of words that lie in 0..end of a row.
template <int WORDS> DEVICE void store_words(u8* row, int64_t from, int64_t end, const u32 (&words)[WORDS]) {
    u8* at = row + from;
    if (from >= 0 && from + 4 * WORDS <= end && (address_of(at) & 3) == 0) {
        if (WORDS % 4 == 0 && (address_of(at) & 15) == 0) {
#pragma unroll
            for (int i = 0; i + 3 < WORDS; i += 4) {
                *(Quad*)(at + 4 * i) = Quad{words[i], words[i + 1], words[i + 2], words[i + 3]};
            }
        } else {
#pragma unroll
            for (int i = 0; i < WORDS; ++i) *(u32*)(at + 4 * i) = words[i];
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
        // A rare way, which must not fill the caches of code.
#pragma unroll 1
        for (int b = 0; b < 4; ++b) {
            const int64_t place = from + 4 * i + b;
            if (place >= 0 && place < end) row[place] = (u8)(words[i] >> 8 * b);
        }
    }
}

DEVICE u64 little(const u8* bytes, u32 size) {
    u64 value = 0;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        if (i < size) value |= (u64)bytes[i] << 8 * i;
    }
    return value;
}
