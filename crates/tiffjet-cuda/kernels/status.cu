// One word for the host from the statuses of a batch.
//
//     status_first(status, count, first)    grid: count / 256 blocks, rounded up; block: 256; shared: none
//
// `first`, all ones before the launch, becomes the least id << 32 | status of the tiles whose status is not OK. So all
// ones mean that all is well, and else the first bad tile is named.
#include "abi.h"

SIMT_KERNEL void __launch_bounds__(256) status_first(const u32* status, u32 count, u64* first) {
    const u32 id = blockIdx.x * 256 + threadIdx.x;
    const u32 own = id < count ? status[id] : (u32)STATUS_OK;
    const u32 bad = __ballot_sync(FULL_WARP, own != STATUS_OK);
    // Ids grow with the lanes: the lowest bad lane speaks for its warp.
    if (bad && (threadIdx.x & 31) == (u32)__ffs((int)bad) - 1) atomicMin(first, (u64)id << 32 | own);
}
