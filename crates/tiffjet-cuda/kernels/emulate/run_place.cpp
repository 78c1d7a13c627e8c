// Reads batches of places from the input, gives the arrays they make: the other side of `tests/emulated/place.rs`.
#include "cases.h"

#include "../place.cu"

typedef void (*PlaceEntry)(const Place*, u32, u32, Format);

static const struct {
    const char* name;
    PlaceEntry entry;
} ENTRIES[] = {
#define ENTRY(NAME) {#NAME, NAME},
#define ENTRIES_OF(SIZE) \
    ENTRY(place_##SIZE##_1) ENTRY(place_##SIZE##_2) ENTRY(place_##SIZE##_3) ENTRY(place_##SIZE##_4) ENTRY(place_##SIZE##_many)
    ENTRIES_OF(1) ENTRIES_OF(2) ENTRIES_OF(4) ENTRIES_OF(8)
    ENTRY(place_floats_2_1) ENTRY(place_floats_4_1) ENTRY(place_floats_4_2) ENTRY(place_floats_4_3)
    ENTRY(place_floats_4_4) ENTRY(place_floats_8_1) ENTRY(place_any)
};

static PlaceEntry find(const char* name) {
    for (const auto& entry : ENTRIES) {
        if (!strcmp(entry.name, name)) return entry.entry;
    }
    abort();
}

template <class T> static T next() {
    T value;
    Cases::bytes(&value, sizeof value);
    return value;
}

static Format read_format() {
    Format f = {};
    f.row_bytes = next<u64>();
    f.out_row = next<u64>();
    f.out_band = next<u64>();
    for (u32* field : {&f.tile_width, &f.samples, &f.depth, &f.bits, &f.is_signed, &f.size, &f.word, &f.swap, &f.big,
                       &f.predictor, &f.planar, &f.bands, &f.all, &f.reversed, &f.nodata})
        *field = next<u32>();
    Cases::bytes(f.fill, sizeof f.fill);
    Cases::bytes(f.nodata_value, sizeof f.nodata_value);
    return f;
}

static void run(void** args) {
    const auto entry = *static_cast<PlaceEntry*>(args[0]);
    entry(*static_cast<const Place**>(args[1]), *static_cast<u32*>(args[2]), *static_cast<u32*>(args[3]),
          *static_cast<Format*>(args[4]));
}

int main() {
    const u64 seed = next<u64>();
    for (u32 left = next<u32>(); left > 0; --left) {
        Cases memory;
        char name[24] = {};
        Cases::bytes(name, sizeof name);
        PlaceEntry entry = find(name);
        Format format = read_format();
        std::vector<u16> band_of(format.bands);
        Cases::bytes(band_of.data(), 2 * band_of.size());
        format.band_of = format.all ? nullptr : band_of.data();
        const u32 out_skew = next<u32>(), out_bytes = next<u32>();
        u8* out = memory.take(out_skew + out_bytes) + out_skew;
        memset(out, 0x5a, out_bytes);
        std::vector<Place> places(next<u32>());
        u32 tallest = 0;
        for (Place& place : places) {
            const u32 skew = next<u32>(), in_bytes = next<u32>();
            // As small as the contract allows: aligned units of 16 bytes around the rows.
            u8* in = memory.take(skew + in_bytes) + skew;
            Cases::data(in, in_bytes);
            place.in = in_bytes ? in : nullptr;
            place.out = out;
            for (u32* field : {&place.x, &place.height, &place.width, &place.at_y, &place.at_x, &place.plane})
                *field = next<u32>();
            tallest = place.height > tallest ? place.height : tallest;
        }
        u32 count = (u32)places.size(), per_place = (tallest + PLACE_ROWS - 1) / PLACE_ROWS;
        const Place* first = places.data();
        void* args[] = {&entry, &first, &count, &per_place, &format};
        simt::launch(dim3((count * per_place + 7) / 8), dim3(256), 0, run, args, seed);
        Cases::give(out, out_bytes);
    }
    return 0;
}
