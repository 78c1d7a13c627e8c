// How the Deflate decoder is launched: see deflate.cu.
#pragma once
#include "deflate.cuh"

namespace deflate {

using Shared128 = Shared<128, 7, 5632, 4>;
using Shared256 = Shared<256, 9, 14336, 4>;
using Shared512 = Shared<512, 9, 30720, 4>;
using Shared1024 = Shared<1024, 9, 49152, 4>;

struct Launch {
    u32 threads, blocks, shared_bytes;
};

// Numbers, so that others can read them from here; the assertions below keep them true.
constexpr Launch LAUNCHES[] = {
    {128, 8, 27136},
    {256, 4, 52560},
    {512, 2, 99184},
    {1024, 1, 161536},
};

// What the rule gives: an index into LAUNCHES.
constexpr u32 choose(u32 count, u32 largest, u32 multiprocessors, u32 shared_limit) {
    u32 chosen = 0;
    for (u32 i = 1; i < 4; ++i) {
        const Launch& launch = LAUNCHES[i];
        bool resident = count <= multiprocessors * launch.blocks;
        if (resident && largest >= 32 * launch.threads && launch.shared_bytes <= shared_limit) chosen = i;
    }
    return chosen;
}

static_assert(LAUNCHES[0].shared_bytes == sizeof(Shared128), "");
static_assert(LAUNCHES[1].shared_bytes == sizeof(Shared256), "");
static_assert(LAUNCHES[2].shared_bytes == sizeof(Shared512), "");
static_assert(LAUNCHES[3].shared_bytes == sizeof(Shared1024), "");

// So many blocks fit: of 228 KiB of shared memory, 1 KiB for each block is the system's.
static_assert(8 * (sizeof(Shared128) + 1024) <= 233472, "");
static_assert(4 * (sizeof(Shared256) + 1024) <= 233472, "");
static_assert(2 * (sizeof(Shared512) + 1024) <= 233472, "");
static_assert(sizeof(Shared512) <= 101376, "99 KiB: the most that a block gets on devices of graphics cards");
static_assert(sizeof(Shared1024) <= 166912, "163 KiB: the most on compute capability 8.0");

}  // namespace deflate
