// Reads structs that the host wrote and says whether every field has its value; then what the headers say of launches.
#include "../abi.h"
#include "../deflate_launch.h"
#include "../lzw.cuh"
#include "../packbits.cuh"
#include "../zstd_launch.h"

template <class T>
T repeated(unsigned n) {
    T value;
    memset(&value, (int)n, sizeof value);
    return value;
}

#define SAME(value, expected) \
    if ((value) != (expected)) return printf(#value " differs\n"), 1

int main() {
    Tile tile;
    Place place;
    Format format;
    if (fread(&tile, sizeof tile, 1, stdin) != 1 || fread(&place, sizeof place, 1, stdin) != 1 ||
        fread(&format, sizeof format, 1, stdin) != 1 || getchar() != EOF)
        return printf("sizes differ\n"), 1;
    SAME((u64)tile.in, repeated<u64>(1));
    SAME((u64)tile.out, repeated<u64>(2));
    SAME(tile.in_bytes, repeated<u32>(3));
    SAME(tile.out_bytes, repeated<u32>(4));
    SAME(tile.id, repeated<u32>(5));
    SAME(tile.flags, (u32)TILE_PLAIN);
    SAME((u64)place.in, repeated<u64>(1));
    SAME((u64)place.out, repeated<u64>(2));
    SAME(place.x, repeated<u32>(3));
    SAME(place.height, repeated<u32>(4));
    SAME(place.width, repeated<u32>(5));
    SAME(place.at_y, repeated<u32>(6));
    SAME(place.at_x, repeated<u32>(7));
    SAME(place.plane, repeated<u32>(8));
    SAME(format.row_bytes, repeated<u64>(1));
    SAME(format.out_row, repeated<u64>(2));
    SAME(format.out_band, repeated<u64>(3));
    SAME(format.tile_width, repeated<u32>(4));
    SAME(format.samples, repeated<u32>(5));
    SAME(format.depth, (u32)DEPTH_FLOAT24);
    SAME(format.bits, repeated<u32>(6));
    SAME(format.is_signed, 1u);
    SAME(format.size, repeated<u32>(7));
    SAME(format.word, repeated<u32>(8));
    SAME(format.swap, repeated<u32>(9));
    SAME(format.big, 1u);
    SAME(format.predictor, (u32)PREDICTOR_FLOAT);
    SAME(format.planar, 1u);
    SAME(format.bands, 300u);
    SAME(format.all, 1u);
    SAME(format.reversed, 1u);
    SAME(format.nodata, 1u);
    SAME((u64)format.band_of, repeated<u64>(12));
    for (int i = 0; i < 16; ++i) {
        SAME(format.fill[i], 10);
        SAME(format.nodata_value[i], 11);
    }
    printf("structs agree\n");
    for (const auto& l : deflate::LAUNCHES) printf("deflate %u %u %u\n", l.threads, l.blocks, l.shared_bytes);
    for (const auto& l : zstd::EXECUTE) printf("zstd %u %u %u\n", l.threads, l.blocks, l.shared_bytes);
    printf("entropy %u %u %u\n", zstd::ENTROPY.threads, zstd::ENTROPY.blocks, zstd::ENTROPY.shared_bytes);
    printf("shared %zu %zu\n", sizeof(LzwShared), sizeof(PackBitsShared));
}
