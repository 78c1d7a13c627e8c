// Reads structs that the host wrote and says whether every field has its value; then what the headers say of launches.
#include "../abi.h"
#include "../deflate_encode.cuh"
#include "../deflate_launch.h"
#include "../frame.cuh"
#include "../lzw.cuh"
#include "../lzw_encode.cuh"
#include "../pack.cuh"
#include "../packbits.cuh"
#include "../packbits_encode.cuh"
#include "../zstd_encode.cuh"
#include "../zstd_launch.h"

template <class T>
T repeated(unsigned n) {
    T value;
    memset(&value, (int)n, sizeof value);
    return value;
}

#define SAME(value, expected) \
    if ((value) != (expected)) return printf(#value " differs\n"), 1

template <class T>
bool next(T& value) {
    return fread(&value, sizeof value, 1, stdin) == 1;
}

static int same_pack(const PackTile& tile, const PackFormat& format, const CollectCopy& copy) {
    SAME((u64)tile.in, repeated<u64>(1));
    SAME((u64)tile.out, repeated<u64>(2));
    SAME(tile.band, repeated<int64_t>(3));
    SAME(tile.row, repeated<int64_t>(4));
    SAME(tile.col, repeated<int64_t>(5));
    SAME(tile.height, repeated<u32>(6));
    SAME(tile.width, repeated<u32>(7));
    SAME(tile.rows, repeated<u32>(8));
    SAME(format.row_bytes, repeated<u64>(1));
    SAME(format.tile_width, repeated<u32>(2));
    SAME(format.samples, repeated<u32>(3));
    SAME(format.size, repeated<u32>(4));
    SAME(format.bits, repeated<u32>(5));
    SAME(format.is_signed, 1u);
    SAME(format.predictor, (u32)PREDICTOR_FLOAT);
    SAME(format.carried, 1u);
    SAME(format.nan, 1u);
    SAME(format.absent, 1u);
    for (int i = 0; i < 16; ++i) {
        SAME(format.nan_value[i], i < 4 ? 6 : 0);
        SAME(format.absent_value[i], 7 + i % 2);
    }
    SAME((u64)copy.in, repeated<u64>(1));
    SAME((u64)copy.out, repeated<u64>(2));
    SAME(copy.in_band, repeated<int64_t>(3));
    SAME(copy.in_row, repeated<int64_t>(4));
    SAME(copy.in_col, repeated<int64_t>(5));
    SAME(copy.out_band, repeated<int64_t>(6));
    SAME(copy.out_row, repeated<int64_t>(7));
    SAME(copy.out_col, repeated<int64_t>(8));
    SAME(copy.bands, repeated<u32>(9));
    SAME(copy.rows, repeated<u32>(10));
    SAME(copy.columns, repeated<u32>(11));
    SAME(copy.size, repeated<u32>(12));
    SAME(copy.nan, 1u);
    SAME(copy.nan_value[1], 13);
    return 0;
}

static int same_frame(const Lengths& lengths, const Blob& blob) {
    SAME((u64)lengths.sizes, repeated<u64>(1));
    SAME((u64)lengths.statuses, repeated<u64>(2));
    SAME((u64)lengths.differs, repeated<u64>(3));
    SAME(lengths.extra, repeated<u32>(4));
    SAME((u64)blob.lengths, repeated<u64>(1));
    SAME((u64)blob.offsets, repeated<u64>(2));
    SAME((u64)blob.out, repeated<u64>(3));
    SAME(blob.room, repeated<u64>(4));
    SAME(blob.first, repeated<u32>(5));
    SAME(blob.count, repeated<u32>(6));
    return 0;
}

// Of an average of 8-bit numbers, 12 x 6 from 24 x 12, with a table at 4096.
static int same_reduction(const Reduction& plan) {
    SAME((u64)plan.columns, 4096u);
    SAME((u64)plan.rows, 4096 + 12 * sizeof(ReduceWindow));
    SAME((u64)plan.weights, 4096 + 18 * sizeof(ReduceWindow));
    SAME((u64)plan.in, repeated<u64>(1));
    SAME(plan.in_band, repeated<u64>(2));
    SAME(plan.in_row, repeated<u64>(3));
    SAME((u64)plan.in_mask, repeated<u64>(4));
    SAME(plan.in_first, repeated<u32>(5));
    SAME(plan.in_rows, repeated<u32>(6));
    SAME((u64)plan.out, repeated<u64>(7));
    SAME(plan.out_band, repeated<u64>(8));
    SAME(plan.out_row, repeated<u64>(9));
    SAME((u64)plan.out_mask, repeated<u64>(10));
    SAME(plan.out_first, repeated<u32>(11));
    SAME(plan.out_rows, repeated<u32>(12));
    SAME((u64)plan.whole, repeated<u64>(13));
    SAME(plan.from_width, 24u);
    SAME(plan.width, 12u);
    SAME(plan.size, 1u);
    SAME(plan.method, (u32)REDUCE_AVERAGE);
    SAME(plan.pairs, 1u);
    SAME(plan.trios, 1u);
    SAME(plan.masked, 1u);
    SAME(plan.has_nodata, 1u);
    SAME(plan.nodata[0], 14);
    SAME(plan.beside[0], 15);
    SAME(plan.low[0], 0);
    SAME(plan.high[0], 127);
    return 0;
}

int main() {
    Tile tile;
    Place place;
    Format format;
    PackTile pack_tile;
    PackFormat pack_format;
    CollectCopy copy;
    Lengths lengths;
    Blob blob;
    Reduction reduction;
    if (!next(tile) || !next(place) || !next(format) || !next(pack_tile) || !next(pack_format) || !next(copy) ||
        !next(lengths) || !next(blob) || !next(reduction) || getchar() != EOF)
        return printf("sizes differ\n"), 1;
    if (same_pack(pack_tile, pack_format, copy) || same_frame(lengths, blob) || same_reduction(reduction)) return 1;
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
    printf("writing %zu %zu %zu %zu %zu %zu\n", sizeof(AdlerShared), sizeof(OffsetsShared), sizeof(PackBitsSumShared),
           sizeof(LzwTable), sizeof(ZeShared), sizeof(DeShared));
    printf("rows %d, pieces %d %d %d %d, room %d\n", PACK_ROWS, BLOB_PIECE, LZW_PIECE, ZE_BLOCK, DE_BLOCK, LZW_ROOM);
}
