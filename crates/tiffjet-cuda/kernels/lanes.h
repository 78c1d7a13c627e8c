// What several kernels need: 16 bytes at once, and sums over the lanes of a warp and the threads of a block.
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
