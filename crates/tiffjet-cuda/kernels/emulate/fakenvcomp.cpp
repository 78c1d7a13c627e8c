// An nvCOMP without a GPU, of version FAKE_MAJOR: chunks become streams that any decoder takes, but small they are not.
//
// Of Deflate it makes stored blocks, of ZSTD raw blocks, and RLE blocks where all bytes are one: so lengths differ. It works
// when the stream of the fake driver gets there, and looks at every rule of the headers: alignments, room, scratch.
//
// FAKENVCOMP_SCRATCH are bytes of scratch beside twice the input; FAKENVCOMP_BAD the number, from 1 on, of a chunk that is
// not compressed; FAKENVCOMP_REFUSE makes every call to compress fail.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) int
typedef void* Handle;
typedef unsigned char u8;

namespace {

[[noreturn]] void die(const char* what) {
    fprintf(stderr, "fake nvCOMP: %s\n", what);
    abort();
}

void* driver(const char* symbol) {
    static void* library = dlopen((std::string(getenv("TIFFJET_CUDA_LIBS")) + "/libcuda.so.1").c_str(), RTLD_NOW);
    void* found = library ? dlsym(library, symbol) : nullptr;
    if (!found) die("no fake driver");
    return found;
}

void inside(const void* address, size_t length, const char* what) {
    using Inside = void (*)(unsigned long long, size_t, const char*);
    reinterpret_cast<Inside>(driver("fakecuda_inside"))((unsigned long long)address, length, what);
}

struct Options {
    int algorithm;
    char reserved[60];
};
struct Alignments {
    size_t input, output, scratch;
};
struct Properties {
    uint32_t version, runtime;
};

size_t number(const char* name, size_t otherwise) {
    const char* text = getenv(name);
    return text ? strtoull(text, nullptr, 10) : otherwise;
}

size_t most(size_t bytes) { return bytes + bytes / 4 + 100; }
size_t scratch_of(size_t count, size_t total) { return number("FAKENVCOMP_SCRATCH", 4096) + 64 * count + 2 * total; }

std::vector<u8> deflated(const u8* in, size_t bytes) {
    std::vector<u8> out;
    size_t at = 0;
    do {
        const size_t now = bytes - at < 65535 ? bytes - at : 65535;
        const u8 head[5] = {u8(at + now == bytes), u8(now), u8(now >> 8), u8(~now), u8(~now >> 8)};
        out.insert(out.end(), head, head + 5);
        out.insert(out.end(), in + at, in + at + now);
        at += now;
    } while (at < bytes);
    return out;
}

std::vector<u8> zstd(const u8* in, size_t bytes) {
    // One segment with a content size of four bytes.
    std::vector<u8> out{0x28, 0xb5, 0x2f, 0xfd, 0xa0, u8(bytes), u8(bytes >> 8), u8(bytes >> 16), u8(bytes >> 24)};
    size_t at = 0;
    do {
        const size_t now = bytes - at < 4096 ? bytes - at : 4096;
        const bool same = now > 1 && memcmp(in + at, in + at + 1, now - 1) == 0;
        const uint32_t head = uint32_t(at + now == bytes) | (same ? 2u : 0u) | uint32_t(now << 3);
        out.insert(out.end(), {u8(head), u8(head >> 8), u8(head >> 16)});
        out.insert(out.end(), in + at, in + at + (same ? 1 : now));
        at += now;
    } while (at < bytes);
    return out;
}

struct Job {
    bool zstd;
    const void* const* inputs;
    const size_t* bytes;
    size_t largest, count;
    u8* scratch;
    size_t scratch_bytes;
    void* const* outputs;
    size_t* sizes;
    int* statuses;
};

size_t compressed = 0;

void run(void* data) {
    Job* job = static_cast<Job*>(data);
    if (job->scratch_bytes < scratch_of(job->count, job->count * job->largest)) die("too little scratch");
    inside(job->scratch, job->scratch_bytes, "scratch outside of memory");
    memset(job->scratch, 0xee, job->scratch_bytes);
    inside(job->sizes, 8 * job->count, "sizes outside of memory");
    inside(job->statuses, 4 * job->count, "statuses outside of memory");
    for (size_t i = 0; i < job->count; ++i) {
        const u8* in = static_cast<const u8*>(job->inputs[i]);
        u8* out = static_cast<u8*>(job->outputs[i]);
        const size_t bytes = job->bytes[i];
        if (bytes > job->largest || (uintptr_t)in % 4 || (uintptr_t)out % 8) die("a chunk against the rules");
        inside(in, bytes, "a chunk outside of memory");
        inside(out, most(job->largest), "room outside of memory");
        std::vector<u8> packed = job->zstd ? zstd(in, bytes) : deflated(in, bytes);
        memset(out, 0xcc, most(job->largest));
        memcpy(out, packed.data(), packed.size());
        job->sizes[i] = packed.size();
        job->statuses[i] = ++compressed == number("FAKENVCOMP_BAD", 0) ? 12 : 0;
    }
    delete job;
}

int compress(Job job, Handle stream, const Options& options) {
    if (getenv("FAKENVCOMP_REFUSE")) return 10;
    for (char byte : options.reserved) if (byte) die("reserved bytes must be zero");
    if (!job.statuses || !job.count) return 10;
    using Submit = void (*)(Handle, void (*)(void*), void*);
    reinterpret_cast<Submit>(driver("fakecuda_submit"))(stream, run, new Job(job));
    return 0;
}

}  // namespace

API nvcompGetProperties(Properties* out) { *out = {FAKE_MAJOR * 1000 + 300, 12080}; return 0; }

#define METHOD(NAME, ZSTD)                                                                                             \
    API nvcompBatched##NAME##CompressGetRequiredAlignments(Options, Alignments* out) {                                 \
        *out = {4, 8, 8};                                                                                              \
        return 0;                                                                                                      \
    }                                                                                                                  \
    API nvcompBatched##NAME##CompressGetMaxOutputChunkSize(size_t bytes, Options, size_t* out) {                       \
        *out = most(bytes);                                                                                            \
        return 0;                                                                                                      \
    }                                                                                                                  \
    API nvcompBatched##NAME##CompressAsync(const void* const* inputs, const size_t* bytes, size_t largest,             \
                                           size_t count, void* scratch, size_t scratch_bytes, void* const* outputs,    \
                                           size_t* sizes, Options options, int* statuses, Handle stream) {             \
        return compress({ZSTD, inputs, bytes, largest, count, (u8*)scratch, scratch_bytes, outputs, sizes, statuses},  \
                        stream, options);                                                                              \
    }

METHOD(Zstd, true)
METHOD(Deflate, false)

#if FAKE_MAJOR == 5
API nvcompBatchedZstdCompressGetTempSizeAsync(size_t n, size_t, Options, size_t* out, size_t total) {
    *out = scratch_of(n, total);
    return 0;
}
API nvcompBatchedDeflateCompressGetTempSizeAsync(size_t n, size_t, Options, size_t* out, size_t total) {
    *out = scratch_of(n, total);
    return 0;
}
#else
API nvcompBatchedZstdCompressGetTempSize(size_t n, size_t, Options, size_t* out, size_t total, Handle stream) {
    if (!stream) die("no stream");
    *out = scratch_of(n, total);
    return 0;
}
API nvcompBatchedDeflateCompressGetTempSize(size_t n, size_t, Options, size_t* out, size_t total, Handle stream) {
    if (!stream) die("no stream");
    *out = scratch_of(n, total);
    return 0;
}
#endif
