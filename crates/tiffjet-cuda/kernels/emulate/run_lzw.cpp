// The kernels of `lzw.cu` over cases from the input.
#include "cases.h"

#include "../lzw.cu"

static_assert(sizeof(LzwShared) == 40688, "the head of lzw.cu says so");
static_assert(sizeof(LzwSlot) == 32 && sizeof(LzwHead) == 16, "the head of lzw.cu says so");

struct Run {
    const Tile* tiles;
    u32 count;
    LzwHead* head;
    LzwSlot* slots;
    u32* status;
};

int main() {
    Cases cases;
    cases.read();
    u32 slots = 0;
    for (const Tile& tile : cases.tiles) slots += tile.in_bytes / LZW_SEGMENT_BYTES + 1;
    std::vector<LzwSlot> memory(slots, LzwSlot{~0ull, ~0ull, 77, 77, 77, 77});
    LzwHead head = {};
    Run run = {cases.tiles.data(), (u32)cases.tiles.size(), &head, memory.data(), cases.status.data()};
    void* args[] = {&run};
    const auto list = [](void** a) { Run& r = *(Run*)a[0]; lzw_list(r.tiles, r.count, r.head, r.slots, r.status); };
    const auto segments = [](void** a) { Run& r = *(Run*)a[0]; lzw_segments(r.tiles, r.head, r.slots, r.status); };
    const auto retry = [](void** a) { Run& r = *(Run*)a[0]; lzw_retry(r.tiles, r.count, r.status); };
    simt::launch(dim3((run.count + 7) / 8), dim3(256), 0, list, args, cases.seed);
    simt::launch(dim3(slots), dim3(LZW_THREADS), sizeof(LzwShared), segments, args, cases.seed);
    simt::launch(dim3(run.count), dim3(LZW_THREADS), sizeof(LzwShared), retry, args, cases.seed);
    cases.write();
}
