// The kernels of one source, chosen by a definition, for the fake driver: sources do not share one unit.
#if defined(FAKE_PLACE)
#include "../place.cu"
#include "fakecuda.h"
FAKE_KERNEL(place_8)
FAKE_KERNEL(place_16)
FAKE_KERNEL(place_32)
FAKE_KERNEL(place_64)
FAKE_KERNEL(place_floats)
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
#elif defined(FAKE_STATUS)
#include "../status.cu"
#include "fakecuda.h"
FAKE_KERNEL(status_first)
#endif
