// What every kernel begins with: the language of the device, or its emulation on the host.
#pragma once
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#if defined(__CUDACC_RTC__)
typedef unsigned char uint8_t;
typedef signed char int8_t;
typedef unsigned short uint16_t;
typedef short int16_t;
typedef unsigned int uint32_t;
typedef int int32_t;
typedef unsigned long long uint64_t;
typedef long long int64_t;
#else
#include <stdint.h>
#endif
// The shared memory of a block, as one struct. Static `__shared__` arrays are not emulated.
#define SIMT_DYN_SHARED(T, name)                              \
    extern __shared__ __align__(16) unsigned char simt_smem_[]; \
    T* name = reinterpret_cast<T*>(simt_smem_)
#define SIMT_KERNEL extern "C" __global__
#define DEVICE_CALL static __device__ __noinline__
#else
#include "emulate/simt.h"
#define DEVICE_CALL static __attribute__((unused))
#endif

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
#define FULL_WARP 0xffffffffu
