// Adler-32 of a tile, taken by all threads of a block from the words they write.
//
// With N bytes d(0) .. d(N-1): a = 1 + sum d(i), b = N + sum (N - i) d(i) = N + N sum d(i) - sum i d(i), both modulo 65521.
// So every byte counts for itself, whoever sees it and when: a thread keeps the sum and the sum weighted by position.
#pragma once
#include "device.h"

constexpr u32 ADLER_MODULUS = 65521;

// The bytes of `a`, each times the same byte of `b`, added up.
DEVICE u32 dot_bytes(u32 a, u32 b) {
#if defined(__CUDA_ARCH__)
    return __dp4a(a, b, 0u);
#else
    u32 sum = 0;
    for (u32 k = 0; k < 32; k += 8) sum += (a >> k & 255) * (b >> k & 255);
    return sum;
#endif
}

struct Adler {
    u32 sum = 0;       // modulo 65521
    u32 weighted = 0;  // likewise
    u32 new_sum = 0;   // since `base` was last named; positions count from there
    u32 new_weighted = 0;

    // Four bytes, the first in the low ones, at `position`. Between two calls of `close` a thread adds at most 16 words
    // at positions below 65536: 16 x 4 x 255 x 65536 < 2^31.
    __device__ __forceinline__ void add(u32 word, u32 position) {
        u32 bytes = dot_bytes(word, 0x01010101u);
        new_sum += bytes;
        new_weighted += position * bytes + dot_bytes(word, 0x03020100u);
    }

    // What was added stands at `base` bytes from the start of the tile.
    __device__ __forceinline__ void close(u32 base) {
        weighted = (weighted + new_weighted + base % ADLER_MODULUS * new_sum) % ADLER_MODULUS;
        sum = (sum + new_sum) % ADLER_MODULUS;
        new_sum = new_weighted = 0;
    }

    // From the totals of all threads.
    static __device__ __forceinline__ u32 value(u32 all_sum, u32 all_weighted, u32 bytes) {
        u64 n = bytes % ADLER_MODULUS;
        u32 s = all_sum % ADLER_MODULUS, w = all_weighted % ADLER_MODULUS;
        u32 a = (1 + s) % ADLER_MODULUS;
        u32 b = static_cast<u32>((n + n * s + ADLER_MODULUS - w) % ADLER_MODULUS);
        return b << 16 | a;
    }
};
