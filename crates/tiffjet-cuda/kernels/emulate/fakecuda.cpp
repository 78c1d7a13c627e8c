// A libcuda.so.1 without a GPU: memory is the host's, kernels run on the emulation.
//
// Work is put off as long as it may be: a stream does nothing before somebody waits for it, and then only what the wait
// asks for. So a wait that is missing shows as old bytes. Memory that is given back is overwritten, and what is written
// past the end of memory is noticed.
//
// FAKECUDA_DEVICES is the number of devices, one by default. Streams, events and memory belong to the device that was
// current when they were made: work that mixes them up is noticed.
//
// FAKECUDA_FAIL, a list of `call=code` or `call=code@n` separated by commas, makes the n-th call (or all of them) fail;
// `lost@n` makes every call from the n-th launch on fail as those of a device that is gone. `:d` behind a rule makes it one
// for device d alone, where calls and launches are those of that device. FAKECUDA_MEMORY is the memory of a device in bytes. FAKECUDA_TIMELINE names a file that gets a line for everything that a test may ask the order
// of: memory taken, work given to libraries, waits of the host.
#include "fakecuda.h"

#include <deque>
#include <mutex>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) int
typedef void* Handle;
typedef unsigned long long Address;

namespace {

enum { OK = 0, INVALID = 1, OUT_OF_MEMORY = 2, NO_BINARY = 209, FOREIGN = 400, NOT_FOUND = 500, NOT_READY = 600, LOST = 719 };

std::recursive_mutex lock;

struct Event;
struct Operation {
    std::function<void()> run;
    Event* event = nullptr;  // waits for this one
    uint64_t due = 0;
};
struct Stream {
    std::deque<Operation> work;
    bool running = false;
    int device = -1;  // those of the standard stream are of any
};
struct Event {
    int device = 0;
    uint64_t recorded = 0, done = 0;
    std::map<uint64_t, Stream*> where;
    bool dead = false;
};

void run_until(Stream* stream, const std::function<bool()>& enough) {
    if (stream->running) simt::die("streams wait for each other");
    stream->running = true;
    while (!enough()) {
        if (stream->work.empty()) simt::die("a wait for what is never recorded");
        Operation operation = std::move(stream->work.front());
        stream->work.pop_front();
        if (operation.event && operation.event->done < operation.due) {
            Event* event = operation.event;
            uint64_t due = operation.due;
            run_until(event->where[due], [=] { return event->done >= due; });
        }
        if (operation.run) operation.run();
    }
    stream->running = false;
}
void run_all(Stream* stream) {
    run_until(stream, [=] { return stream->work.empty(); });
}

Stream standard;
std::vector<Stream*> streams{&standard};
Stream* stream_of(Handle handle) {
    // 0, 1 and 2 are names of the standard stream.
    return reinterpret_cast<uintptr_t>(handle) < 3 ? &standard : static_cast<Stream*>(handle);
}
void put(Handle stream, std::function<void()> run) {
    stream_of(stream)->work.push_back(Operation{std::move(run)});
}

// The devices that a thread works with, the last one now.
constexpr int MOST_DEVICES = 8;
thread_local std::vector<int> contexts;
int current() { return contexts.empty() ? 0 : contexts.back(); }
int device_count() {
    const char* text = getenv("FAKECUDA_DEVICES");
    int count = text ? atoi(text) : 1;
    return count < 1 ? 1 : count > MOST_DEVICES ? MOST_DEVICES : count;
}
bool is_here(int device) { return device < 0 || device == current(); }

// Device memory, with what must not be written behind it.
constexpr size_t GUARD = 256;
struct Block {
    size_t length;
    int device;
};
std::map<Address, Block> memory;
size_t used[MOST_DEVICES] = {}, most[MOST_DEVICES] = {};

size_t total_memory() {
    const char* text = getenv("FAKECUDA_MEMORY");
    return text ? strtoull(text, nullptr, 10) : size_t(1) << 30;
}

void release(Address address) {
    auto found = memory.find(address);
    if (found == memory.end()) simt::die("memory given back that is not there");
    u8* bytes = reinterpret_cast<u8*>(address);
    size_t length = found->second.length;
    for (size_t i = 0; i < GUARD; ++i)
        if (bytes[length + i] != 0xfd) simt::die("a write behind the end of memory");
    memset(bytes, 0xdd, length);
    used[found->second.device] -= length;
    free(bytes);
    memory.erase(found);
}

void inside(Address address, size_t length, const char* what, int device = -1) {
    auto found = memory.upper_bound(address);
    if (found == memory.begin()) simt::die(what);
    --found;
    if (address + length > found->first + found->second.length) simt::die(what);
    if (device >= 0 && found->second.device != device) simt::die("memory of another device");
}

bool lost[MOST_DEVICES] = {};
std::map<std::string, uint64_t> calls[MOST_DEVICES + 1];  // those of each device, and of all

int failure(const char* call) {
    int device = current();
    if (lost[device]) return LOST;
    const char* text = getenv("FAKECUDA_FAIL");
    if (!text) return OK;
    uint64_t everywhere = ++calls[MOST_DEVICES][call], here = ++calls[device][call];
    std::string list = text;
    for (size_t at = 0; at < list.size();) {
        size_t end = list.find(',', at);
        if (end == std::string::npos) end = list.size();
        std::string rule = list.substr(at, end - at);
        at = end + 1;
        size_t only = rule.find(':');
        if (only != std::string::npos && (contexts.empty() || atoi(rule.c_str() + only + 1) != device)) continue;
        uint64_t number = only == std::string::npos ? everywhere : here;
        size_t nth = rule.find('@');
        uint64_t when = nth == std::string::npos ? 0 : strtoull(rule.c_str() + nth + 1, nullptr, 10);
        if (rule.compare(0, 5, "lost@") == 0) {
            if (!strcmp(call, "cuLaunchKernel") && number >= when) {
                lost[device] = true;
                return LOST;
            }
            continue;
        }
        size_t equals = rule.find('=');
        if (equals == std::string::npos || rule.substr(0, equals) != call) continue;
        if (when == 0 || when == number) return atoi(rule.c_str() + equals + 1);
    }
    return OK;
}

void note(const std::string& line) {
    const char* path = getenv("FAKECUDA_TIMELINE");
    if (!path) return;
    static FILE* file = fopen(path, "a");
    if (!file) simt::die("no timeline");
    fprintf(file, "%s\n", line.c_str());
    fflush(file);
}

}  // namespace

// What the fake libraries do is in the order of streams too.
extern "C" __attribute__((visibility("default"))) void fakecuda_note(const char* line) {
    std::lock_guard<std::recursive_mutex> locked(lock);
    note(line);
}
extern "C" __attribute__((visibility("default"))) void fakecuda_put(Handle stream, void (*run)(void*), void* argument) {
    std::lock_guard<std::recursive_mutex> locked(lock);
    put(stream, [=] { run(argument); });
}
// A library that waits by itself.
extern "C" __attribute__((visibility("default"))) void fakecuda_run(Handle stream) {
    std::lock_guard<std::recursive_mutex> locked(lock);
    run_all(stream_of(stream));
}
extern "C" __attribute__((visibility("default"))) void fakecuda_read(void* to, Address from, size_t length) {
    inside(from, length, "a library reads outside of device memory");
    memcpy(to, reinterpret_cast<void*>(from), length);
}
extern "C" __attribute__((visibility("default"))) void fakecuda_write(Address to, const void* from, size_t length) {
    inside(to, length, "a library writes outside of device memory");
    memcpy(reinterpret_cast<void*>(to), from, length);
}

#define BEGIN(call)                                       \
    std::lock_guard<std::recursive_mutex> locked_(lock);  \
    if (int code = failure(#call)) return code

API cuInit(unsigned) { BEGIN(cuInit); return OK; }
API cuDriverGetVersion(int* version) { *version = 12080; return OK; }
API cuDeviceGetCount(int* count) { BEGIN(cuDeviceGetCount); *count = device_count(); return OK; }
API cuDeviceGet(int* device, int ordinal) { *device = ordinal; return OK; }
API cuDeviceGetName(char* name, int length, int) { snprintf(name, length, "Emulated GPU"); return OK; }
API cuDeviceGetAttribute(int* value, int attribute, int) {
    BEGIN(cuDeviceGetAttribute);
    switch (attribute) {
        case 16: *value = 4; return OK;
        case 75: *value = 9; return OK;
        case 76: *value = 0; return OK;
        case 97: *value = 227 << 10; return OK;
        case 115: *value = 1; return OK;
        default: return INVALID;
    }
}
API cuDeviceTotalMem_v2(size_t* bytes, int) { *bytes = total_memory(); return OK; }
API cuDevicePrimaryCtxRetain(Handle* context, int device) {
    BEGIN(cuDevicePrimaryCtxRetain);
    *context = (Handle)(uintptr_t)(device + 1);
    return OK;
}

API cuCtxPushCurrent_v2(Handle context) {
    BEGIN(cuCtxPushCurrent_v2);
    contexts.push_back((int)(uintptr_t)context - 1);
    return OK;
}
API cuCtxGetDevice(int* device) { *device = current(); return contexts.empty() ? 201 : OK; }
API cuCtxPopCurrent_v2(Handle* context) {
    if (contexts.empty()) return 201;
    *context = (Handle)(uintptr_t)(current() + 1);
    contexts.pop_back();
    return OK;
}

// What a thread without a context is told.
#define CURRENT(call) \
    BEGIN(call);      \
    if (contexts.empty()) return 201

// What work in a stream of another device is told.
#define OWN(call, stream) \
    CURRENT(call);        \
    if (!is_here(stream_of(stream)->device)) return FOREIGN

API cuMemGetInfo_v2(size_t* free, size_t* total) {
    CURRENT(cuMemGetInfo_v2);
    *total = total_memory();
    *free = *total - used[current()];
    return OK;
}
API cuModuleLoadData(Handle* module, const void* image) {
    CURRENT(cuModuleLoadData);
    if (memcmp(image, "\177ELF", 4) != 0 && !strstr((const char*)image, ".version")) return 200;
    if (memcmp(image, "\177ELF", 4) == 0 && getenv("FAKECUDA_NO_CUBIN")) return NO_BINARY;
    *module = (Handle)2;
    return OK;
}
API cuModuleGetFunction(Handle* function, Handle, const char* name) {
    CURRENT(cuModuleGetFunction);
    auto found = fake::kernels().find(name);
    if (found == fake::kernels().end()) return NOT_FOUND;
    *function = &found->second;
    return OK;
}
API cuFuncSetAttribute(Handle, int, int) { CURRENT(cuFuncSetAttribute); return OK; }
API cuStreamCreate(Handle* stream, unsigned) {
    CURRENT(cuStreamCreate);
    streams.push_back(new Stream);
    streams.back()->device = current();
    *stream = streams.back();
    return OK;
}
API cuStreamDestroy_v2(Handle stream) { OWN(cuStreamDestroy_v2, stream); run_all(stream_of(stream)); return OK; }
API cuStreamSynchronize(Handle stream) {
    OWN(cuStreamSynchronize, stream);
    note("wait for stream");
    run_all(stream_of(stream));
    return OK;
}
API cuStreamWaitEvent(Handle stream, Handle handle, unsigned) {
    OWN(cuStreamWaitEvent, stream);
    Event* event = static_cast<Event*>(handle);
    if (event->recorded) stream_of(stream)->work.push_back(Operation{nullptr, event, event->recorded});
    return OK;
}
API cuEventCreate(Handle* event, unsigned) {
    CURRENT(cuEventCreate);
    Event* made = new Event;
    made->device = current();
    *event = made;
    return OK;
}
// Streams may still wait for it, so it stays.
API cuEventDestroy_v2(Handle) { return OK; }
API cuEventRecord(Handle handle, Handle stream) {
    OWN(cuEventRecord, stream);
    Event* event = static_cast<Event*>(handle);
    if (!is_here(event->device)) return FOREIGN;
    uint64_t number = ++event->recorded;
    event->where[number] = stream_of(stream);
    put(stream, [=] { event->done = number; });
    return OK;
}
API cuEventQuery(Handle handle) {
    CURRENT(cuEventQuery);
    Event* event = static_cast<Event*>(handle);
    return event->done >= event->recorded ? OK : NOT_READY;
}
API cuEventSynchronize(Handle handle) {
    CURRENT(cuEventSynchronize);
    Event* event = static_cast<Event*>(handle);
    uint64_t due = event->recorded;
    if (event->done < due) note("wait for event");
    if (event->done < due) run_until(event->where[due], [=] { return event->done >= due; });
    return OK;
}
API cuEventElapsedTime(float* milliseconds, Handle, Handle) { *milliseconds = 0; return OK; }
API cuMemPoolCreate(Handle* pool, const void*) {
    CURRENT(cuMemPoolCreate);
    *pool = (Handle)(uintptr_t)(current() + 1);
    return OK;
}
API cuMemPoolSetAttribute(Handle, int, void*) { return OK; }
API cuMemPoolGetAttribute(Handle pool, int attribute, void* value) {
    std::lock_guard<std::recursive_mutex> locked(lock);
    int device = (int)(uintptr_t)pool - 1;
    *static_cast<uint64_t*>(value) = attribute == 6 || attribute == 8 ? most[device] : used[device];
    return OK;
}
API cuMemPoolTrimTo(Handle, size_t) { return OK; }
API cuMemAllocFromPoolAsync(Address* address, size_t length, Handle pool, Handle stream) {
    OWN(cuMemAllocFromPoolAsync, stream);
    int device = current();
    if (!length || (pool && (int)(uintptr_t)pool - 1 != device)) return INVALID;
    // What is given back counts once it is: a full device does the work it has.
    if (used[device] + length > total_memory())
        for (Stream* other : streams) if (!other->running) run_all(other);
    if (used[device] + length > total_memory()) return OUT_OF_MEMORY;
    u8* bytes = static_cast<u8*>(aligned_alloc(4096, (length + GUARD + 4095) & ~size_t(4095)));
    if (!bytes) return OUT_OF_MEMORY;
    memset(bytes, 0xa5, length);
    memset(bytes + length, 0xfd, GUARD);
    *address = reinterpret_cast<Address>(bytes);
    memory[*address] = Block{length, device};
    used[device] += length;
    most[device] = std::max(most[device], used[device]);
    note("take " + std::to_string(length));
    return OK;
}
API cuMemAlloc_v2(Address* address, size_t length) {
    CURRENT(cuMemAlloc_v2);
    return cuMemAllocFromPoolAsync(address, length, nullptr, nullptr);  // aligned to pages, as all memory here
}
API cuMemFree_v2(Address address) {
    CURRENT(cuMemFree_v2);
    for (Stream* stream : streams) if (!stream->running) run_all(stream);
    release(address);
    return OK;
}
API cuMemFreeAsync(Address address, Handle stream) {
    OWN(cuMemFreeAsync, stream);
    put(stream, [=] { release(address); });
    return OK;
}
API cuMemHostAlloc(Handle* address, size_t length, unsigned) {
    CURRENT(cuMemHostAlloc);
    *address = calloc(1, length);
    return *address ? OK : OUT_OF_MEMORY;
}
API cuMemFreeHost(Handle address) { CURRENT(cuMemFreeHost); free(address); return OK; }
API cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t length, Handle stream) {
    OWN(cuMemcpyHtoDAsync_v2, stream);
    int device = current();
    put(stream, [=] {
        inside(to, length, "a copy outside of device memory", device);
        memcpy(reinterpret_cast<void*>(to), from, length);
    });
    return OK;
}
API cuMemcpyDtoHAsync_v2(void* to, Address from, size_t length, Handle stream) {
    OWN(cuMemcpyDtoHAsync_v2, stream);
    int device = current();
    put(stream, [=] {
        inside(from, length, "a copy outside of device memory", device);
        memcpy(to, reinterpret_cast<void*>(from), length);
    });
    return OK;
}
API cuMemsetD8Async(Address to, unsigned char value, size_t length, Handle stream) {
    OWN(cuMemsetD8Async, stream);
    int device = current();
    put(stream, [=] {
        inside(to, length, "a fill outside of device memory", device);
        memset(reinterpret_cast<void*>(to), value, length);
    });
    return OK;
}
#ifndef FAKECUDA_WITHOUT_LAUNCH
API cuLaunchKernel(Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, Handle stream, void** arguments, void**) {
    OWN(cuLaunchKernel, stream);
    if (!gx || !gy || !gz || !bx || bx * by * bz > 1024 || gy > 65535 || gz > 65535) return INVALID;
    fake::Run run = (*static_cast<fake::Bind*>(function))(arguments);
    static uint64_t seed = 0;
    uint64_t order = ++seed;
    put(stream, [=] { run(dim3(gx, gy, gz), dim3(bx, by, bz), shared, order); });
    return OK;
}
#endif
// Work of other libraries in a stream.
extern "C" __attribute__((visibility("default"))) void fakecuda_submit(Handle stream, void (*run)(void*), void* data) {
    std::lock_guard<std::recursive_mutex> locked(lock);
    put(stream, [=] { run(data); });
}
// Whether bytes are memory of the device.
extern "C" __attribute__((visibility("default"))) void fakecuda_inside(Address address, size_t length, const char* what) {
    std::lock_guard<std::recursive_mutex> locked(lock);
    inside(address, length, what);
}
API cuGetErrorName(int code, const char** name) {
    *name = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : code == LOST ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR";
    return OK;
}
API cuGetErrorString(int, const char** text) { *text = "as the fake driver was told"; return OK; }
