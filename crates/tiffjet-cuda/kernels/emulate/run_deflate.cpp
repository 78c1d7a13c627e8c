// The Deflate decoder on the host. Which entry point a case gets depends on its number.
#include "cases.h"

#include "../deflate.cu"

namespace {

// Smaller than any that is shipped: windows, segments and chunks end more often.
using Tight = deflate::Shared<96, 3, 4400, 1>;

// The rule of launches, on a device with 132 multiprocessors, and on small ones.
constexpr u32 threads(u32 count, u32 largest, u32 multiprocessors, u32 shared) {
    return deflate::LAUNCHES[deflate::choose(count, largest, multiprocessors, shared)].threads;
}
static_assert(threads(1024, 262144, 132, 232448) == 128, "");
static_assert(threads(528, 262144, 132, 232448) == 256, "");
static_assert(threads(256, 1048576, 132, 232448) == 512, "");
static_assert(threads(64, 4194304, 132, 232448) == 1024, "");
static_assert(threads(64, 4194304, 132, 101376) == 512, "");
static_assert(threads(1, 4194304, 40, 65536) == 256, "");
static_assert(threads(64, 20000, 132, 232448) == 512, "");
static_assert(threads(1, 0, 132, 232448) == 128, "");

struct Arguments {
    const Tile* tiles;
    u32 count;
    u32* status;
};

using Kernel = void (*)(const Tile*, u32, u32*);

void tight(const Tile* tiles, u32 count, u32* status) {
    SIMT_DYN_SHARED(Tight, shared);
    if (blockIdx.x < count) deflate::decode_tile(*shared, tiles[blockIdx.x], status);
}

template <Kernel KERNEL> void enter(void** arguments) {
    const Arguments& a = *static_cast<const Arguments*>(arguments[0]);
    KERNEL(a.tiles, a.count, a.status);
}

struct Choice {
    u32 threads;
    size_t shared_bytes;
    void (*entry)(void**);
};

const Choice CHOICES[] = {
    {96, sizeof(Tight), enter<tight>},
    {128, sizeof(deflate::Shared128), enter<deflate_128>},
    {256, sizeof(deflate::Shared256), enter<deflate_256>},
    {512, sizeof(deflate::Shared512), enter<deflate_512>},
    {1024, sizeof(deflate::Shared1024), enter<deflate_1024>},
};

// Half of the cases for the narrow ones, which are quick to emulate.
size_t choice_of(size_t number) {
    const size_t turn[] = {1, 0, 1, 2, 0, 1, 3, 0, 1, 2, 4};
    return turn[number % 11];
}

}  // namespace

int main() {
    Cases cases;
    cases.read();
    for (size_t choice = 0; choice < 5; ++choice) {
        std::vector<Tile> tiles;
        for (size_t i = 0; i < cases.tiles.size(); ++i) {
            if (choice_of(i) == choice) tiles.push_back(cases.tiles[i]);
        }
        if (tiles.empty()) continue;
        Arguments arguments{tiles.data(), static_cast<u32>(tiles.size()), cases.status.data()};
        void* packed[] = {&arguments};
        const Choice& c = CHOICES[choice];
        simt::launch(dim3(arguments.count), dim3(c.threads), c.shared_bytes, c.entry, packed, cases.seed);
    }
    cases.write();
    return 0;
}
