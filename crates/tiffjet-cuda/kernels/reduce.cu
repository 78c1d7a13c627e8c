// Kernels that make overviews; `reduce.cuh` says how. All take the plan alone.
//
//     reduce_whole_TYPE(plan)     grid: in_rows, bands; block: 256; shared: none
//     reduce_mask(plan)           grid: width / 256, rounded up, times out_rows; block: 256; shared: none
//     the others                  the same, with as many in y as there are bands
//
// In this order: `reduce_whole_TYPE` where the plan has `whole` (for means, bilinear and cubic of floats, or with nodata or
// a mask), `reduce_mask` where it has `out_mask`, then
//
//     reduce_nearest              for REDUCE_NEAREST, all types
//     reduce_mean_TYPE            for REDUCE_AVERAGE and REDUCE_RMS
//     reduce_complex_TYPE         for REDUCE_AVERAGE of pairs of i16, i32, f32, f64
//     reduce_TYPE                 for all else; of REDUCE_MODE the time grows with the square of the window
#include "reduce.cuh"

#define REDUCE_KERNEL(NAME, BODY) \
    SIMT_KERNEL void __launch_bounds__(REDUCE_THREADS) NAME(Reduction plan) { BODY(plan); }
#define REDUCE_TYPE(NAME, T)                                    \
    REDUCE_KERNEL(reduce_mean_##NAME, reduce_mean_to<T>)        \
    REDUCE_KERNEL(reduce_##NAME, reduce_to<T>)                  \
    REDUCE_KERNEL(reduce_whole_##NAME, mark_whole<T>)

REDUCE_TYPE(u8, u8)
REDUCE_TYPE(i8, int8_t)
REDUCE_TYPE(u16, u16)
REDUCE_TYPE(i16, int16_t)
REDUCE_TYPE(u32, u32)
REDUCE_TYPE(i32, int32_t)
REDUCE_TYPE(u64, u64)
REDUCE_TYPE(i64, int64_t)
REDUCE_TYPE(f16, Half)
REDUCE_TYPE(f32, float)
REDUCE_TYPE(f64, double)
REDUCE_KERNEL(reduce_complex_i16, reduce_complex_to<int16_t>)
REDUCE_KERNEL(reduce_complex_i32, reduce_complex_to<int32_t>)
REDUCE_KERNEL(reduce_complex_f32, reduce_complex_to<float>)
REDUCE_KERNEL(reduce_complex_f64, reduce_complex_to<double>)
REDUCE_KERNEL(reduce_nearest, reduce_nearest_to)
REDUCE_KERNEL(reduce_mask, reduce_mask_to)
