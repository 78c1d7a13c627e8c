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

constexpr Launch LAUNCHES[] = {
    {128, 8, sizeof(Shared128)},
    {256, 4, sizeof(Shared256)},
    {512, 2, sizeof(Shared512)},
    {1024, 1, sizeof(Shared1024)},
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

// What must fit for the number of blocks above: 228 KiB of shared memory less 1 KiB of the system's for each block.
static_assert(sizeof(Shared128) <= 233472 / 8 - 1024, "");
static_assert(sizeof(Shared256) <= 233472 / 4 - 1024, "");
static_assert(sizeof(Shared512) <= 101376, "99 KiB: also on devices with little shared memory");
static_assert(sizeof(Shared1024) <= 166912, "163 KiB");

}  // namespace deflate
