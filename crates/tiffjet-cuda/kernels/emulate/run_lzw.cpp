// The kernels of `lzw.cu` over cases from the input.
#include "cases.h"

#include "../lzw.cu"

static_assert(sizeof(LzwShared) == 37648, "the head of lzw.cu says so");
static_assert(sizeof(LzwSlot) == 32 && sizeof(LzwHead) == 16, "the head of lzw.cu says so");

struct Run {
    const Tile* tiles;
    u32 count;
    LzwHead* head;
    LzwSlot* slots;
    u32* bases;
    u32* status;
    u32 turns;
};

int main() {
    Cases cases;
    cases.read();
    u32 slots = 0, most = 0;
    for (const Tile& tile : cases.tiles) {
        slots += lzw_room(tile);
        most = lzw_room(tile) > most ? lzw_room(tile) : most;
    }
    const u32 count = (u32)cases.tiles.size();
    // Either order of tickets must do.
    const u32 turns = cases.seed % 2 ? count : 0;
    std::vector<LzwSlot> memory(slots, LzwSlot{~0ull, ~0ull, 77, 77, 77, 77});
    std::vector<u32> bases(count, 77);
    LzwHead head = {};
    Run run = {cases.tiles.data(), count, &head, memory.data(), bases.data(), cases.status.data(), turns};
    void* args[] = {&run};
    const auto list = [](void** a) {
        Run& r = *(Run*)a[0];
        lzw_list(r.tiles, r.count, r.head, r.slots, r.bases, r.status);
    };
    const auto segments = [](void** a) {
        Run& r = *(Run*)a[0];
        lzw_segments(r.tiles, r.turns, r.head, r.slots, r.bases, r.status);
    };
    const auto retry = [](void** a) { Run& r = *(Run*)a[0]; lzw_retry(r.tiles, r.count, r.status); };
    simt::launch(dim3((run.count + 7) / 8), dim3(256), 0, list, args, cases.seed);
    simt::launch(dim3(turns ? turns * most : slots), dim3(LZW_THREADS), sizeof(LzwShared), segments, args, cases.seed);
    simt::launch(dim3(run.count), dim3(LZW_THREADS), sizeof(LzwShared), retry, args, cases.seed);
    cases.write();
    return 0;
}
