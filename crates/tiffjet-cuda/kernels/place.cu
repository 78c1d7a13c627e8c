// Kernels that unpack decoded tiles and put their pixels in place; `place.cuh` says how.
//
// All have the same arguments: the places of a batch, how many there are, how many warps each place gets, and the
// format that all of them share. Which one to launch, and how, follows from the format and the largest height:
//
//     entry:      place_any              when depth != DEPTH_WHOLE, or reversed, or size == 16
//                 place_floats_SIZE_N    else, when predictor == PREDICTOR_FLOAT and N = samples is 1, or up to 4 with
//                                        size == 4
//                 place_any              else, when predictor == PREDICTOR_FLOAT
//                 place_SIZE_N           else, when N = samples is up to 4      (SIZE in bytes: place_2_3 for RGB of 16 bits)
//                 place_SIZE_many        else
//     per_place:  largest height of the places / PLACE_ROWS (4), rounded up; at least 1
//     block:      256 threads
//     grid:       count * per_place / 8 blocks, rounded up, in x
//     shared:     none
//
// `place_any` takes every format, and is the slowest.
#include "place.cuh"

#define PLACE_KERNEL(NAME, BODY)                                                                                  \
    SIMT_KERNEL void __launch_bounds__(256) NAME(const Place* places, u32 count, u32 per_place, Format format) { \
        BODY(places, count, per_place, format);                                                                  \
    }
#define PLACE_WHOLE(SIZE, SAMPLES) PLACE_KERNEL(place_##SIZE##_##SAMPLES, (place_whole<SIZE, SAMPLES, false>))
#define PLACE_MANY(SIZE) PLACE_KERNEL(place_##SIZE##_many, (place_whole<SIZE, 4, true>))
#define PLACE_WHOLES(SIZE) \
    PLACE_WHOLE(SIZE, 1) PLACE_WHOLE(SIZE, 2) PLACE_WHOLE(SIZE, 3) PLACE_WHOLE(SIZE, 4) PLACE_MANY(SIZE)
#define PLACE_FLOATS(SIZE, SAMPLES) \
    PLACE_KERNEL(place_floats_##SIZE##_##SAMPLES, (place_by<Floats<SIZE, SAMPLES>, SAMPLES == 1>))

PLACE_WHOLES(1)
PLACE_WHOLES(2)
PLACE_WHOLES(4)
PLACE_WHOLES(8)
PLACE_FLOATS(2, 1)
PLACE_FLOATS(4, 1)
PLACE_FLOATS(4, 2)
PLACE_FLOATS(4, 3)
PLACE_FLOATS(4, 4)
PLACE_FLOATS(8, 1)
PLACE_KERNEL(place_any, (place_by<Any, true>))
