// What comes after compressing: checksums of plain tiles, places of compressed ones, and one blob of all of them.
#pragma once
#include "abi.h"
#include "adler.cuh"
#include "lanes.h"

enum {
    ADLER_THREADS = 256,
    // Bytes that a block sums before the sums are reduced: 16 words for each thread.
    ADLER_STEP = 16384,
    OFFSETS_THREADS = 1024,
    BLOB_THREADS = 256,
    // Bytes of a tile that one block copies.
    BLOB_PIECE = 16384,
    // Of the frame of zlib: before the data, and behind them.
    ZLIB_HEAD = 2,
    ZLIB_TAIL = 4,
};

// Length of a tile that could not be compressed.
constexpr u64 NO_LENGTH = ~0ull;

struct AdlerShared {
    u32 sums[ADLER_THREADS / 32], weighted[ADLER_THREADS / 32];
};

// Adler-32 of a tile that is aligned to 16 bytes, in thread 0.
DEVICE u32 adler_of(AdlerShared& shared, const u8* tile, u32 bytes) {
    Adler adler;
    for (u64 base = 0; base < bytes; base += ADLER_STEP) {
#pragma unroll
        for (u32 i = 0; i < ADLER_STEP / 16 / ADLER_THREADS; ++i) {
            const u32 place = 16 * (i * ADLER_THREADS + threadIdx.x);
            const u64 at = base + place;
            if (at >= bytes) continue;
            const Quad quad = *(const Quad*)(tile + at);
            const u32 words[4] = {quad.x, quad.y, quad.z, quad.w};
#pragma unroll
            for (u32 w = 0; w < 4; ++w) {
                adler.add(words[w] & bytes_inside((int64_t)(at + 4 * w), (int64_t)bytes), place + 4 * w);
            }
        }
        adler.close((u32)base);
    }
    const u32 warp = threadIdx.x / 32, sum = warp_sum(adler.sum), weighted = warp_sum(adler.weighted);
    if (threadIdx.x % 32 == 0) {
        shared.sums[warp] = sum;
        shared.weighted[warp] = weighted;
    }
    __syncthreads();
    u32 all_sum = 0, all_weighted = 0;
    for (u32 i = 0; i < ADLER_THREADS / 32; ++i) {
        all_sum += shared.sums[i];
        all_weighted += shared.weighted[i] % ADLER_MODULUS;
    }
    return Adler::value(all_sum, all_weighted, bytes);
}

// Lengths of tiles in the file, and their sums.
struct OffsetsShared {
    u64 warps[32];
};

DEVICE u64 length_of(const Lengths& from, u32 tile) {
    if (from.differs && from.differs[tile] == 0) return 0;
    if (from.statuses && from.statuses[tile] != 0) return NO_LENGTH;
    return from.sizes[tile] + from.extra;
}

DEVICE void add_up(OffsetsShared& shared, const Lengths& from, u32 count, u64* lengths, u64* offsets) {
    const u32 thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
    u64 before = 0;
    for (u64 first = 0; first < count; first += OFFSETS_THREADS) {
        const u64 tile = first + thread;
        const u64 length = tile < count ? length_of(from, (u32)tile) : 0;
        const u64 own = length == NO_LENGTH ? 0 : length;
        const u64 up_to = warp_sum_up_to(own, lane);
        if (lane == 31) shared.warps[warp] = up_to;
        __syncthreads();
        const u64 of_warps = warp_sum_up_to(shared.warps[lane], lane);
        const u64 lower = __shfl_sync(FULL_WARP, of_warps - shared.warps[lane], (int)warp);
        if (tile < count) {
            lengths[tile] = length;
            offsets[tile] = before + lower + up_to - own;
        }
        before += __shfl_sync(FULL_WARP, of_warps, 31);
        __syncthreads();
    }
    if (thread == 0) offsets[count] = before;
}

// Where a tile goes; null when it has no bytes or no room.
DEVICE u8* place_in(const Blob& blob, u32 tile) {
    const u64 length = blob.lengths[tile], start = blob.offsets[tile] - blob.offsets[blob.first];
    if (length == 0 || length == NO_LENGTH || length > blob.room || start > blob.room - length) return nullptr;
    return blob.out + start;
}

// A copy by all threads of a block, from anywhere to anywhere.
DEVICE void copy_bytes(const u8* from, u8* to, u64 bytes) {
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int64_t end = (int64_t)bytes;
    // Units begin at aligned places of the output.
    int64_t step = 512 * (int64_t)warp - (int64_t)(address_of(to) & 15);
    for (; step < end; step += 16 * BLOB_THREADS) {
        const int64_t at = step + 16 * lane;
        u32 words[4];
        load_words<4>(from, at, end, step_is_inside<4>(from, step, end), words);
        if (at < end) store_words<4>(to, at, end, words);
    }
}

// One piece of a tile.
DEVICE void gather_piece(const u8* payload, const u32* sum, const Blob& blob, u32 tile, u32 piece) {
    u8* to = place_in(blob, tile);
    if (!to) return;
    const u64 frame = sum ? ZLIB_HEAD + ZLIB_TAIL : 0, bytes = blob.lengths[tile] - frame;
    if (sum && piece == 0 && threadIdx.x < ZLIB_HEAD + ZLIB_TAIL) {
        // Deflate with a window of 32 KiB, no dictionary; then the checksum, the highest byte first.
        const u32 i = threadIdx.x, shift = 8 * (ZLIB_HEAD + ZLIB_TAIL - 1 - i);
        const u32 byte = i == 0 ? 0x78 : i == 1 ? 0x9c : sum[tile] >> shift;
        to[i < ZLIB_HEAD ? i : bytes + i] = (u8)byte;
    }
    if (sum) to += ZLIB_HEAD;
    const u64 from = (u64)piece * BLOB_PIECE;
    if (from >= bytes) return;
    copy_bytes(payload + from, to + from, bytes - from < BLOB_PIECE ? bytes - from : (u64)BLOB_PIECE);
}
