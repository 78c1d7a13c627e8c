// The kernels of one source, chosen by a definition, for the fake driver: sources do not share one unit.
#if defined(FAKE_PLACE)
#include "../place.cu"
#include "fakecuda.h"
FAKE_KERNEL(place_1_1)
FAKE_KERNEL(place_1_2)
FAKE_KERNEL(place_1_3)
FAKE_KERNEL(place_1_4)
FAKE_KERNEL(place_1_many)
FAKE_KERNEL(place_2_1)
FAKE_KERNEL(place_2_2)
FAKE_KERNEL(place_2_3)
FAKE_KERNEL(place_2_4)
FAKE_KERNEL(place_2_many)
FAKE_KERNEL(place_4_1)
FAKE_KERNEL(place_4_2)
FAKE_KERNEL(place_4_3)
FAKE_KERNEL(place_4_4)
FAKE_KERNEL(place_4_many)
FAKE_KERNEL(place_8_1)
FAKE_KERNEL(place_8_2)
FAKE_KERNEL(place_8_3)
FAKE_KERNEL(place_8_4)
FAKE_KERNEL(place_8_many)
FAKE_KERNEL(place_floats_2_1)
FAKE_KERNEL(place_floats_4_1)
FAKE_KERNEL(place_floats_4_2)
FAKE_KERNEL(place_floats_4_3)
FAKE_KERNEL(place_floats_4_4)
FAKE_KERNEL(place_floats_8_1)
FAKE_KERNEL(place_any)
#elif defined(FAKE_DEFLATE)
#include "../deflate.cu"
#include "fakecuda.h"
FAKE_KERNEL(deflate_128)
FAKE_KERNEL(deflate_256)
FAKE_KERNEL(deflate_512)
FAKE_KERNEL(deflate_1024)
#elif defined(FAKE_LZW)
#include "../lzw.cu"
#include "fakecuda.h"
FAKE_KERNEL(lzw_list)
FAKE_KERNEL(lzw_segments)
FAKE_KERNEL(lzw_retry)
#elif defined(FAKE_PACKBITS)
#include "../packbits.cu"
#include "fakecuda.h"
FAKE_KERNEL(packbits)
#elif defined(FAKE_SPREAD)
#include "../spread.cu"
#include "fakecuda.h"
FAKE_KERNEL(spread)
#elif defined(FAKE_STATUS)
#include "../status.cu"
#include "fakecuda.h"
FAKE_KERNEL(status_first)
#elif defined(FAKE_ZSTD)
#include "../zstd.cu"
#include "fakecuda.h"
FAKE_KERNEL(zstd_scan)
FAKE_KERNEL(zstd_entropy)
FAKE_KERNEL(zstd_execute_128)
FAKE_KERNEL(zstd_execute_256)
FAKE_KERNEL(zstd_execute_512)
FAKE_KERNEL(zstd_execute_1024)
FAKE_KERNEL(zstd_sums)
#endif
