// Kernels that pack tiles, and one that collects rows; `pack.cuh` says how.
//
// All packing kernels have the same arguments: the tiles of a batch, how many there are, how many warps each tile gets,
// the format that all of them share, and a word for each tile that becomes 1 where not all its values are the absent one
// (cleared by the host, not touched when the format has no absent value). Which one to launch:
//
//     entry:     pack_any                    when carried, or bits != 8 * size
//                pack_line_SIZE              else, when all tiles have lines: col == samples * size, and band == size or one
//                                            sample; 8 with two samples for each where size is 16 and there is no predictor
//                pack_line_floats_SIZE       the same with PREDICTOR_FLOAT
//                pack_bands_SIZE_N           else, when N = samples is 2 to 4, size at most 8 and col == size for all tiles
//                pack_bands_floats_4_N       the same with PREDICTOR_FLOAT and size 4
//                pack_any                    else
//     per_tile:  most rows of a tile / PACK_ROWS (4), rounded up; at least 1
//     block:     256 threads
//     grid:      count * per_tile / 8 blocks, rounded up, in x
//     shared:    none
//
//     collect(copy)    a warp for each row of each band: grid bands * rows / 8, rounded up; block: 256; shared: none
#include "pack.cuh"

#define PACK_KERNEL(NAME, ...)                                                                          \
    SIMT_KERNEL void __launch_bounds__(256)                                                             \
        NAME(const PackTile* tiles, u32 count, u32 per_tile, PackFormat format, u32* differs) {         \
        pack_by<__VA_ARGS__>(tiles, count, per_tile, format, differs);                                  \
    }
#define PACK_LINE(SIZE) PACK_KERNEL(pack_line_##SIZE, Line<SIZE>)
#define PACK_LINE_FLOATS(SIZE) PACK_KERNEL(pack_line_floats_##SIZE, LineFloats<SIZE>)
#define PACK_BANDS(SIZE)                          \
    PACK_KERNEL(pack_bands_##SIZE##_2, Bands<SIZE, 2>) \
    PACK_KERNEL(pack_bands_##SIZE##_3, Bands<SIZE, 3>) \
    PACK_KERNEL(pack_bands_##SIZE##_4, Bands<SIZE, 4>)

PACK_LINE(1)
PACK_LINE(2)
PACK_LINE(4)
PACK_LINE(8)
PACK_LINE_FLOATS(2)
PACK_LINE_FLOATS(4)
PACK_LINE_FLOATS(8)
PACK_BANDS(1)
PACK_BANDS(2)
PACK_BANDS(4)
PACK_BANDS(8)
PACK_KERNEL(pack_bands_floats_4_2, BandsFloats<4, 2>)
PACK_KERNEL(pack_bands_floats_4_3, BandsFloats<4, 3>)
PACK_KERNEL(pack_bands_floats_4_4, BandsFloats<4, 4>)
PACK_KERNEL(pack_any, PackAny)

SIMT_KERNEL void __launch_bounds__(256) collect(CollectCopy copy) {
    const u64 warp = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const u64 band = warp / copy.rows, y = warp % copy.rows;
    if (band >= copy.bands) return;
    const u8* in = copy.in + (int64_t)band * copy.in_band + (int64_t)y * copy.in_row;
    u8* out = copy.out + (int64_t)band * copy.out_band + (int64_t)y * copy.out_row;
    const Collect row = {in,        out,          copy.in_col,      copy.out_col,  copy.columns,
                         copy.size, threadIdx.x & 31, copy.nan != 0, copy.nan_value};
    row.row();
}
