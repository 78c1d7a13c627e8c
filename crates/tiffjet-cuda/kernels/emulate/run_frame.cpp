// Reads plain tiles and what compression made of them, gives lengths, offsets and the blob: the other side of
// `tests/frame.rs`.
#include "cases.h"

#include "../frame.cu"

static_assert(sizeof(AdlerShared) == 64 && sizeof(OffsetsShared) == 256, "the head of frame.cu says so");

template <class T> static T next() {
    T value;
    Cases::bytes(&value, sizeof value);
    return value;
}

int main() {
    const u64 seed = next<u64>();
    Cases memory;
    const u32 count = next<u32>(), zlib = next<u32>(), at_once = next<u32>();
    u64 room = next<u64>();
    std::vector<const u8*> tiles, payloads;
    std::vector<u64> bytes, sizes, lengths(count, 77), offsets(count + 1, 77);
    std::vector<int32_t> statuses;
    std::vector<u32> differs, sums(count, 77);
    u64 longest = 0;
    for (u32 i = 0; i < count; ++i) {
        statuses.push_back(next<int32_t>());
        differs.push_back(next<u32>());
        const u32 plain = next<u32>(), packed = next<u32>(), skew = i * 7 % 16;
        // As small as the contract allows: aligned units of 16 bytes.
        u8* tile = memory.take(plain);
        memset(tile, 0xa5, (plain + 15) & ~15u);
        Cases::bytes(tile, plain);
        u8* payload = memory.take(skew + packed) + skew;
        Cases::bytes(payload, packed);
        tiles.push_back(tile);
        payloads.push_back(payload);
        bytes.push_back(plain);
        sizes.push_back(packed);
        longest = packed > longest ? packed : longest;
    }
    struct Run {
        const u8* const* tiles;
        const u8* const* payloads;
        const u64* bytes;
        u32 count, per_tile;
        u32* sums;
        Lengths from;
        u64 *lengths, *offsets;
        Blob blob;
    } run;
    run.tiles = tiles.data();
    run.payloads = payloads.data();
    run.bytes = bytes.data();
    run.count = count;
    run.per_tile = (u32)((longest + BLOB_PIECE - 1) / BLOB_PIECE) + (longest == 0);
    run.sums = zlib ? sums.data() : nullptr;
    run.from = Lengths{sizes.data(), statuses.data(), differs.data(), zlib ? 6u : 0u, 0};
    run.lengths = lengths.data();
    run.offsets = offsets.data();
    void* args[] = {&run};
    const auto sum = [](void** a) { Run& r = *(Run*)a[0]; adler(r.tiles, r.bytes, r.count, r.sums); };
    const auto add = [](void** a) { Run& r = *(Run*)a[0]; ::offsets(r.from, r.count, r.lengths, r.offsets); };
    const auto put = [](void** a) { Run& r = *(Run*)a[0]; gather(r.payloads, r.sums, r.per_tile, r.blob); };
    if (zlib) simt::launch(dim3(count), dim3(ADLER_THREADS), sizeof(AdlerShared), sum, args, seed);
    simt::launch(dim3(1), dim3(OFFSETS_THREADS), sizeof(OffsetsShared), add, args, seed);
    fwrite(lengths.data(), 8, count, stdout);
    fwrite(offsets.data(), 8, count + 1, stdout);
    // Some tiles at a time, each time into memory of its own that is no larger than the room.
    for (u32 first = 0; first < count; first += at_once) {
        const u32 some = count - first < at_once ? count - first : at_once;
        const u64 wanted = offsets[first + some] - offsets[first], size = wanted < room ? wanted : room;
        u8* out = memory.take(5 + size) + 5;
        memset(out, 0x5a, size);
        run.blob = Blob{lengths.data(), offsets.data(), out, room, first, some};
        simt::launch(dim3(some * run.per_tile), dim3(BLOB_THREADS), 0, put, args, seed);
        fwrite(out, 1, size, stdout);
    }
}
