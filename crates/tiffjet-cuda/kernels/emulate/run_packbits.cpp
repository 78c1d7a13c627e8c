// The kernel of `packbits.cu` over cases from the input, and the word that `status.cu` makes of their statuses.
#include "cases.h"

#include "../packbits.cu"
#include "../status.cu"

static_assert(sizeof(PackBitsShared) == 33184, "the head of packbits.cu says so");

int main() {
    Cases cases;
    cases.read();
    const auto decode = [](void** args) {
        Cases& c = *(Cases*)args[0];
        packbits(c.tiles.data(), (u32)c.tiles.size(), c.status.data());
    };
    u64 first = ~0ull;
    const auto reduce = [](void** args) {
        Cases& c = *(Cases*)args[0];
        status_first(c.status.data(), (u32)c.status.size(), (u64*)args[1]);
    };
    void* args[] = {&cases, &first};
    const u32 count = (u32)cases.tiles.size();
    simt::launch(dim3(count), dim3(PACKBITS_THREADS), sizeof(PackBitsShared), decode, args, cases.seed);
    simt::launch(dim3((count + 255) / 256), dim3(256), 0, reduce, args, cases.seed);
    u64 expected = ~0ull;
    for (u32 i = count; i-- > 0;) {
        if (cases.status[i] != STATUS_OK) expected = (u64)i << 32 | cases.status[i];
    }
    if (first != expected) abort();
    cases.write();
    return 0;
}
