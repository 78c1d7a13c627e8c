// How the Zstandard decoder is launched: see zstd.cu.
#pragma once
#include "zstd_entropy.cuh"
#include "zstd_execute.cuh"

namespace zstd {

using Execute128 = ZstdExecuteShared<128, 128 * 128>;
using Execute256 = ZstdExecuteShared<256, 256 * 128>;
using Execute512 = ZstdExecuteShared<512, 512 * 128>;
using Execute1024 = ZstdExecuteShared<1024, 1024 * 128>;

struct Launch {
    u32 threads, blocks, shared_bytes;
};

// Numbers, so that others can read them from here; the assertions below keep them true.
constexpr Launch ENTROPY = {32, 8, 22880};
constexpr Launch EXECUTE[] = {
    {128, 8, 17408},
    {256, 4, 34416},
    {512, 2, 68432},
    {1024, 1, 136464},
};

// What the rule gives: an index into EXECUTE.
constexpr u32 choose(u32 count, u32 largest, u32 multiprocessors, u32 shared_limit) {
    u32 chosen = 0;
    for (u32 i = 1; i < 4; ++i) {
        const Launch& launch = EXECUTE[i];
        bool resident = count <= multiprocessors * launch.blocks;
        if (resident && largest >= 32 * launch.threads && launch.shared_bytes <= shared_limit) chosen = i;
    }
    return chosen;
}

// The scratch memory of a batch.
constexpr u64 slots(u64 out_bytes) { return out_bytes / ZSTD_BYTES_PER_BLOCK + ZSTD_FREE_BLOCKS; }
constexpr u64 units(u64 out_bytes) { return out_bytes / 6 + 1 + 3 * slots(out_bytes); }
constexpr u64 scratch_bytes(u64 tiles, u64 slots, u64 units) {
    return sizeof(ZstdCounters) + tiles * sizeof(ZstdTile) + slots * sizeof(ZstdBlock) + (slots + 1) / 2 * 16 + units * 16;
}

static_assert(ENTROPY.shared_bytes == sizeof(ZstdEntropyShared), "");
static_assert(EXECUTE[0].shared_bytes == sizeof(Execute128), "");
static_assert(EXECUTE[1].shared_bytes == sizeof(Execute256), "");
static_assert(EXECUTE[2].shared_bytes == sizeof(Execute512), "");
static_assert(EXECUTE[3].shared_bytes == sizeof(Execute1024), "");
static_assert(sizeof(ZstdCounters) == 64 && sizeof(ZstdTile) == 16 && sizeof(ZstdBlock) == 96, "");

// So many blocks fit: of 228 KiB of shared memory, 1 KiB for each block is the system's.
static_assert(ENTROPY.blocks * (sizeof(ZstdEntropyShared) + 1024) <= 233472, "");
static_assert(8 * (sizeof(Execute128) + 1024) <= 233472, "");
static_assert(sizeof(Execute512) <= 101376, "99 KiB: the most that a block gets on devices of graphics cards");
static_assert(sizeof(Execute1024) <= 166912, "163 KiB: the most on compute capability 8.0");

}  // namespace zstd
