// Samples that several pixels share, or that are wider than their type, to a whole plane.
//
//     spread(in, out, pitch, width, height, dx, dy, kind)    grid: width * height / 256 blocks, rounded up; block: 256
//
// `in` has a sample for every dx columns and dy rows, in rows of `pitch` bytes; `out` gets one for each of width * height
// pixels, its rows one behind the other. `kind` says what samples are.
#include "abi.h"

enum { SPREAD_BYTES = 0, SPREAD_WORDS = 1, SPREAD_WORDS_TO_BYTES = 2 };

SIMT_KERNEL void __launch_bounds__(256)
    spread(const u8* in, u8* out, u32 pitch, u32 width, u32 height, u32 dx, u32 dy, u32 kind) {
    const u64 i = (u64)blockIdx.x * 256 + threadIdx.x;
    if (i >= (u64)width * height) return;
    const u32 x = (u32)(i % width), y = (u32)(i / width);
    const u8* row = in + (u64)(y / dy) * pitch;
    if (kind == SPREAD_BYTES) out[i] = row[x / dx];
    else if (kind == SPREAD_WORDS) ((u16*)out)[i] = ((const u16*)row)[x / dx];
    else out[i] = (u8)((const u16*)row)[x / dx];
}
