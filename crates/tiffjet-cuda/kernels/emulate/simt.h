// CUDA C++ kernels on the host, one fiber for each CUDA thread. One OS thread runs one block at a time, so
// shared memory is a plain heap buffer, and the order in which lanes run can be shuffled to
// expose missing barriers. Warp collectives wait until every lane named in the mask arrived at
// the same kind of collective; anything else (a lane left, two kinds, two masks) is reported.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cstddef>
#include <vector>
#include <sys/mman.h>
#ifndef SIMT_USE_UCONTEXT
#  if !defined(__x86_64__)
#    define SIMT_USE_UCONTEXT 1
#  endif
#endif
#ifdef SIMT_USE_UCONTEXT
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#  define SIMT_ASAN 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define SIMT_ASAN 1
#  endif
#endif
#ifdef SIMT_ASAN
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/asan_interface.h>
#endif
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __align__(n) alignas(n)
#define __constant__ static const
#define SIMT_KERNEL extern "C"
#define SIMT_DYN_SHARED(T, name) T* name = reinterpret_cast<T*>(simt::cur->blk->smem)
struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {} };

namespace simt {
enum Op : uint8_t { OP_NONE, OP_SHFL, OP_SHFL_UP, OP_SHFL_DOWN, OP_SHFL_XOR, OP_BALLOT, OP_SYNCWARP, OP_MATCH, OP_RADD, OP_RMIN, OP_RMAX, OP_ROR, OP_SYNCTHREADS };
enum St : uint8_t { READY, WAITING, DONE };
struct Block;
struct Fiber {
#ifdef SIMT_USE_UCONTEXT
    ucontext_t uc;
#else
    void* sp;
#endif
    void* fake = nullptr;          // ASAN fake stack
    uint8_t* stack; St st; Op op; uint32_t mask; uint64_t val; uint32_t arg; uint64_t res;
    uint3 tid; uint32_t lane, warp, lin; Block* blk;
};
struct Pend { Op op; uint32_t mask, arrived; };
struct Warp { Pend p[32]; uint32_t n = 0, done = 0; };
struct Block {
    std::vector<Warp>* w; dim3 grid, bdim; uint3 bid; uint8_t* smem; size_t smem_bytes; uint32_t nthreads;
    std::vector<Fiber>* f; void (*entry)(void**); void** args;
#ifdef SIMT_USE_UCONTEXT
    ucontext_t main;
#else
    void* main_sp;
#endif
    void* main_fake = nullptr; const void* main_bottom = nullptr; size_t main_size = 0;
    uint64_t switches = 0, collectives = 0;
};
inline thread_local Fiber* cur = nullptr;
inline thread_local uint64_t total_switches = 0, total_collectives = 0;
constexpr size_t STACK = 64 * 1024;

#ifndef SIMT_USE_UCONTEXT
extern "C" void simt_switch_(void** save_sp, void* to_sp);
__asm__(R"(
.text
.weak simt_switch_
.type simt_switch_,@function
simt_switch_:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size simt_switch_, .-simt_switch_
)");
#endif

[[noreturn]] inline void die(const char* what) {
    Fiber* c = cur;
    if (c) fprintf(stderr, "simt: %s: block (%u,%u,%u) thread %u lane %u mask %08x\n", what, c->blk->bid.x, c->blk->bid.y, c->blk->bid.z, c->lin, c->lane, c->mask);
    else fprintf(stderr, "simt: %s\n", what);
    abort();
}
inline void to_main(Fiber* c, bool dying = false) {
    ++c->blk->switches;
#ifdef SIMT_ASAN
    __sanitizer_start_switch_fiber(dying ? nullptr : &c->fake, c->blk->main_bottom, c->blk->main_size);
#endif
#ifdef SIMT_USE_UCONTEXT
    swapcontext(&c->uc, &c->blk->main);
#else
    simt_switch_(&c->sp, c->blk->main_sp);
#endif
#ifdef SIMT_ASAN
    __sanitizer_finish_switch_fiber(c->fake, &c->blk->main_bottom, &c->blk->main_size);
#endif
    (void)dying;
}
inline void to_fiber(Block* b, Fiber* c) {
    cur = c;
#ifdef SIMT_ASAN
    __sanitizer_start_switch_fiber(&b->main_fake, c->stack, STACK);
#endif
#ifdef SIMT_USE_UCONTEXT
    swapcontext(&b->main, &c->uc);
#else
    simt_switch_(&b->main_sp, c->sp);
#endif
#ifdef SIMT_ASAN
    __sanitizer_finish_switch_fiber(b->main_fake, nullptr, nullptr);
#endif
    cur = nullptr;
}
inline void fiber_main() {
    Fiber* c = cur;
#ifdef SIMT_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &c->blk->main_bottom, &c->blk->main_size);
#endif
    c->blk->entry(c->blk->args);
    c->st = DONE;
    (*c->blk->w)[c->warp].done |= 1u << c->lane;
    to_main(c, true);
    die("resumed a finished thread");
}
/// Complete one collective: all lanes of `mask` wait on `op`.
inline void complete(Fiber* w, uint32_t width, Op op, uint32_t mask) {
    uint64_t ball = 0, acc = 0; bool first = true;
    for (uint32_t l = 0; l < width; ++l) if (mask >> l & 1) {
        uint64_t v = w[l].val;
        switch (op) {
            case OP_BALLOT: ball |= (uint64_t)(v != 0) << l; break;
            case OP_RADD: acc += v; break;
            case OP_ROR: acc |= v; break;
            case OP_RMIN: acc = first ? v : (v < acc ? v : acc); break;
            case OP_RMAX: acc = first ? v : (v > acc ? v : acc); break;
            default: break;
        }
        first = false;
    }
    for (uint32_t l = 0; l < width; ++l) if (mask >> l & 1) {
        uint32_t a = w[l].arg & 0xff, sub = w[l].arg >> 8 ? w[l].arg >> 8 : 32, base = l & ~(sub - 1); int64_t s = l;
        switch (op) {
            case OP_SHFL: s = base + (a & (sub - 1)); break;
            case OP_SHFL_UP: s = (int64_t)l - a < base ? l : (int64_t)l - a; break;
            case OP_SHFL_DOWN: s = l + a >= base + sub ? l : l + a; break;
            case OP_SHFL_XOR: s = l ^ a; break;
            case OP_MATCH: { uint64_t m = 0; for (uint32_t k = 0; k < width; ++k) if ((mask >> k & 1) && w[k].val == w[l].val) m |= 1ull << k; w[l].res = m; break; }
            default: break;
        }
        if (op >= OP_SHFL && op <= OP_SHFL_XOR) {
            if (s >= (int64_t)width || !(mask >> s & 1)) w[l].res = 0xDEADBEEFDEADBEEFull; // undefined on the GPU: poison
            else w[l].res = w[s].val;
        } else if (op == OP_BALLOT) w[l].res = ball;
        else if (op >= OP_RADD) w[l].res = acc;
        w[l].st = READY;
    }
}
inline uint64_t collective(Op op, uint32_t mask, uint64_t val, uint32_t arg) {
    Fiber* c = cur; Block* b = c->blk;
    if (op != OP_SYNCTHREADS) {
        uint32_t w0 = c->lin & ~31u, width = b->nthreads - w0 < 32 ? b->nthreads - w0 : 32;
        uint32_t live = width == 32 ? ~0u : (1u << width) - 1;
        c->mask = mask;
        if (!(mask >> c->lane & 1)) die("calling lane is not in its own mask");
        mask &= live;
        c->op = op; c->val = val; c->arg = arg; c->mask = mask; c->st = WAITING;
        Warp& wp = (*b->w)[c->warp];
        if (mask & wp.done) die("collective names a lane that has exited");
        uint32_t k = 0; while (k < wp.n && (wp.p[k].mask != mask || wp.p[k].op != op)) ++k;
        if (k == wp.n) wp.p[wp.n++] = Pend{op, mask, 0};
        wp.p[k].arrived |= 1u << c->lane;
        if (wp.p[k].arrived != mask) { to_main(c); return c->res; } // the scheduler detects a deadlock
        wp.p[k] = wp.p[--wp.n];
        Fiber* w = &(*b->f)[w0];
        ++b->collectives;
        complete(w, width, op, mask);
        return c->res; // last arriver goes on without a switch
    }
    c->op = op; c->val = val; c->mask = ~0u; c->st = WAITING;
    to_main(c);
    return c->res;
}
inline uint64_t rng(uint64_t& s) { s ^= s << 13; s ^= s >> 7; s ^= s << 17; return s; }

struct Stacks { std::vector<uint8_t*> v; ~Stacks() { for (auto p : v) munmap(p, STACK); } uint8_t* get(size_t i) { while (v.size() <= i) { void* p = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); if (p == MAP_FAILED) abort(); v.push_back((uint8_t*)p); } return v[i]; } };

/// Runs the whole grid. `entry(args)` calls the kernel with unpacked arguments. seed 0 = lanes in order.
inline void launch(dim3 grid, dim3 bdim, size_t smem_bytes, void (*entry)(void**), void** args, uint64_t seed = 0) {
    static thread_local Stacks stacks; static thread_local std::vector<Fiber> fibers; static thread_local std::vector<Warp> warps;
    uint32_t n = bdim.x * bdim.y * bdim.z;
    if (n == 0 || n > 1024) die("bad block size");
    fibers.resize(n); warps.resize((n + 31) / 32);
    Block b; b.grid = grid; b.bdim = bdim; b.nthreads = n; b.f = &fibers; b.w = &warps; b.entry = entry; b.args = args; b.smem_bytes = smem_bytes;
    uint64_t rs = seed * 0x9E3779B97F4A7C15ull + 1;
    for (uint32_t bz = 0; bz < grid.z; ++bz) for (uint32_t by = 0; by < grid.y; ++by) for (uint32_t bx = 0; bx < grid.x; ++bx) {
        b.bid = {bx, by, bz}; for (auto& w : warps) w.n = w.done = 0;
        b.smem = (uint8_t*)aligned_alloc(16, (smem_bytes + 15) & ~size_t(15)); // exact size: ASAN sees an overrun
        memset(b.smem, 0xCD, smem_bytes);                                       // uninitialised on the GPU: poison
        for (uint32_t i = 0; i < n; ++i) {
            Fiber& c = fibers[i]; c.stack = stacks.get(i); c.st = READY; c.op = OP_NONE; c.blk = &b; c.fake = nullptr;
            c.lin = i; c.lane = i & 31; c.warp = i >> 5; c.tid = {i % bdim.x, i / bdim.x % bdim.y, i / (bdim.x * bdim.y)};
#ifdef SIMT_USE_UCONTEXT
            getcontext(&c.uc); c.uc.uc_stack.ss_sp = c.stack; c.uc.uc_stack.ss_size = STACK; c.uc.uc_link = nullptr; makecontext(&c.uc, (void (*)())fiber_main, 0);
#else
            void** sp = (void**)(c.stack + STACK - (i * 448 % 8192 & ~15u)); // colour the stacks: tops in different cache sets
             *--sp = nullptr; *--sp = (void*)fiber_main; for (int k = 0; k < 6; ++k) *--sp = nullptr; c.sp = sp;
#endif
        }
        uint32_t done = 0;
        while (done < n) {
            uint32_t ran = 0, nw = (n + 31) / 32, w0 = seed ? (uint32_t)(rng(rs) % nw) : 0;
            for (uint32_t wk = 0; wk < nw; ++wk) { // one warp at a time until it blocks: 32 hot stacks, not 256
                uint32_t w = w0 + wk; if (w >= nw) w -= nw;
                uint32_t lo = w * 32, m = n - lo < 32 ? n - lo : 32, before;
                do {
                    before = ran; uint64_t r = seed ? rng(rs) : 0; uint32_t start = (uint32_t)(r % m); bool rev = seed && (r >> 40 & 1);
                    for (uint32_t k = 0; k < m; ++k) {
                        uint32_t i = start + k; if (i >= m) i -= m; if (rev) i = m - 1 - i;
                        Fiber& c = fibers[lo + i];
                        if (c.st == READY) { ++ran; to_fiber(&b, &c); if (c.st == DONE) ++done; }
                    }
                } while (ran != before && !(seed && (rng(rs) & 3) == 0)); // shuffled: leave a warp early now and then
            }
            if (!ran) { // every live thread waits: either __syncthreads or a deadlock
                uint64_t cnt = 0, any = 0, all = 1; bool ok = true;
                for (auto& c : fibers) if (c.st == WAITING) { if (c.op != OP_SYNCTHREADS) { ok = false; cur = &c; break; } cnt += c.val != 0; any |= c.val != 0; all &= c.val != 0; }
                if (!ok) die("deadlock: lanes wait on collectives that can never complete (divergent __xxx_sync or __syncthreads)");
                ++b.collectives;
                for (auto& c : fibers) if (c.st == WAITING) { c.res = cnt | any << 32 | all << 33; c.st = READY; }
            }
        }
        free(b.smem);
    }
    total_switches += b.switches; total_collectives += b.collectives;
}
template <class T> inline uint64_t bits(T v) { static_assert(sizeof(T) <= 8, ""); uint64_t b = 0; memcpy(&b, &v, sizeof v); return b; }
template <class T> inline T unbits(uint64_t b) { T v; memcpy(&v, &b, sizeof v); return v; }
} // namespace simt

#define threadIdx (simt::cur->tid)
#define blockIdx (simt::cur->blk->bid)
#define blockDim (simt::cur->blk->bdim)
#define gridDim (simt::cur->blk->grid)
constexpr int warpSize = 32;
template <class T> inline T __shfl_sync(unsigned m, T v, int s, int w = 32) { return simt::unbits<T>(simt::collective(simt::OP_SHFL, m, simt::bits(v), (s & 31) | w << 8)); }
template <class T> inline T __shfl_up_sync(unsigned m, T v, unsigned d, int w = 32) { return simt::unbits<T>(simt::collective(simt::OP_SHFL_UP, m, simt::bits(v), d | w << 8)); }
template <class T> inline T __shfl_down_sync(unsigned m, T v, unsigned d, int w = 32) { return simt::unbits<T>(simt::collective(simt::OP_SHFL_DOWN, m, simt::bits(v), d | w << 8)); }
template <class T> inline T __shfl_xor_sync(unsigned m, T v, int x, int w = 32) { return simt::unbits<T>(simt::collective(simt::OP_SHFL_XOR, m, simt::bits(v), x | w << 8)); }
inline unsigned __ballot_sync(unsigned m, int p) { return (unsigned)simt::collective(simt::OP_BALLOT, m, p != 0, 0); }
inline int __any_sync(unsigned m, int p) { return __ballot_sync(m, p) != 0; }
inline int __all_sync(unsigned m, int p) { return __ballot_sync(m, !p) == 0; }
template <class T> inline unsigned __match_any_sync(unsigned m, T v) { return (unsigned)simt::collective(simt::OP_MATCH, m, simt::bits(v), 0); }
inline unsigned __reduce_add_sync(unsigned m, unsigned v) { return (unsigned)simt::collective(simt::OP_RADD, m, v, 0); }
inline unsigned __reduce_max_sync(unsigned m, unsigned v) { return (unsigned)simt::collective(simt::OP_RMAX, m, v, 0); }
inline unsigned __reduce_min_sync(unsigned m, unsigned v) { return (unsigned)simt::collective(simt::OP_RMIN, m, v, 0); }
inline unsigned __reduce_or_sync(unsigned m, unsigned v) { return (unsigned)simt::collective(simt::OP_ROR, m, v, 0); }
inline void __syncwarp(unsigned m = ~0u) { simt::collective(simt::OP_SYNCWARP, m, 0, 0); }
inline void __syncthreads() { simt::collective(simt::OP_SYNCTHREADS, ~0u, 0, 0); }
inline int __syncthreads_count(int p) { return (int)(uint32_t)simt::collective(simt::OP_SYNCTHREADS, ~0u, p != 0, 0); }
inline int __syncthreads_or(int p) { return (simt::collective(simt::OP_SYNCTHREADS, ~0u, p != 0, 0) >> 32) & 1; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __brev(unsigned v) { v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1; v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2; v = (v >> 4 & 0x0F0F0F0Fu) | (v & 0x0F0F0F0Fu) << 4; return __builtin_bswap32(v); }
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned s) { return (unsigned)(((uint64_t)hi << 32 | lo) >> (s & 31)); }
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s) { return (unsigned)((((uint64_t)hi << 32 | lo) << (s & 31)) >> 32); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) { uint64_t t = (uint64_t)b << 32 | a; unsigned r = 0; for (int i = 0; i < 4; ++i) { unsigned n = s >> 4 * i & 15; unsigned v = (unsigned)(t >> 8 * (n & 7)) & 255; if (n & 8) v = v & 128 ? 255 : 0; r |= v << 8 * i; } return r; }
template <class T> inline T __ldg(const T* p) { return *p; }
template <class T> inline T atomicAdd(T* p, T v) { T o = *p; *p = o + v; return o; }
template <class T> inline T atomicMin(T* p, T v) { T o = *p; if (v < o) *p = v; return o; }
template <class T> inline T atomicMax(T* p, T v) { T o = *p; if (v > o) *p = v; return o; }
template <class T> inline T atomicOr(T* p, T v) { T o = *p; *p = o | v; return o; }
template <class T> inline T atomicCAS(T* p, T c, T v) { T o = *p; if (o == c) *p = v; return o; }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return sqrt(a); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __double2float_rn(double a) { return (float)a; }
inline long long __double_as_longlong(double a) { return simt::unbits<long long>(simt::bits(a)); }
inline double __longlong_as_double(long long a) { return simt::unbits<double>((uint64_t)a); }
inline float __int_as_float(int a) { return simt::unbits<float>((uint64_t)(uint32_t)a); }
inline void __threadfence() {}
inline void __threadfence_block() {}
