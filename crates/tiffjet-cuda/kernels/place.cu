// Kernels that unpack decoded tiles and put their pixels in place; `place.cuh` says how.
//
// All have the same arguments: the places of a batch, how many there are, how many warps each place gets, and the
// format that all of them share. Which one to launch, and how, follows from the format and the largest height:
//
//     entry:      place_any     when depth != DEPTH_WHOLE, or reversed, or size == 16
//                 place_floats  else, when predictor == PREDICTOR_FLOAT and samples == 1
//                 place_any     else, when predictor == PREDICTOR_FLOAT or samples > 4
//                 place_8, place_16, place_32, place_64   else, by 8 * size
//     per_place:  largest height of the places / PLACE_ROWS (4), rounded up; at least 1
//     block:      256 threads
//     grid:       count * per_place / 8 blocks, rounded up, in x
//     shared:     none
//
// `place_any` takes every format, and is the slowest.
#include "place.cuh"

SIMT_KERNEL void __launch_bounds__(256) place_8(const Place* places, u32 count, u32 per_place, Format format) {
    place_whole<1>(places, count, per_place, format);
}

SIMT_KERNEL void __launch_bounds__(256) place_16(const Place* places, u32 count, u32 per_place, Format format) {
    place_whole<2>(places, count, per_place, format);
}

SIMT_KERNEL void __launch_bounds__(256) place_32(const Place* places, u32 count, u32 per_place, Format format) {
    place_whole<4>(places, count, per_place, format);
}

SIMT_KERNEL void __launch_bounds__(256) place_64(const Place* places, u32 count, u32 per_place, Format format) {
    place_whole<8>(places, count, per_place, format);
}

SIMT_KERNEL void __launch_bounds__(256) place_floats(const Place* places, u32 count, u32 per_place, Format format) {
    const PlaceWarp warp(per_place);
    if (warp.place >= count) return;
    const Place place = places[warp.place];
    switch (format.size) {
        case 2: return place_rows<Floats<2>, true>(format, place, warp.first_row, warp.lane);
        case 4: return place_rows<Floats<4>, true>(format, place, warp.first_row, warp.lane);
        default: return place_rows<Floats<8>, true>(format, place, warp.first_row, warp.lane);
    }
}

SIMT_KERNEL void __launch_bounds__(256) place_any(const Place* places, u32 count, u32 per_place, Format format) {
    const PlaceWarp warp(per_place);
    if (warp.place >= count) return;
    place_rows<Any, true>(format, places[warp.place], warp.first_row, warp.lane);
}
