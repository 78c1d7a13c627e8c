// A libcufile.so.0 without a GPU: a read writes at once, whatever streams still have to do; those of a batch when somebody
// waits for it. FAKELIB_SHORT names the read, from 1, that gives half of what it was asked for; FAKELIB_BATCH how many reads a
// batch may have, 0 for no batches; FAKELIB_DEPTH how many may be under way, whatever it is told; the call "batch" of FAKELIB_FAIL is a read of a batch.
#include "fakelib.h"

#include <atomic>
#include <ctime>
#include <unistd.h>

struct Status {
    int code, driver;
};

namespace {
struct Descriptor {
    int kind;
    union {
        int descriptor;
        void* handle;
    };
    const void* operations;
};
struct File {
    int descriptor;
    bool open;
};
Status status(int code) { return {code, 0}; }
}  // namespace

API Status cuFileDriverOpen() { return status(fake::failure("cuFileDriverOpen")); }
API Status cuFileGetVersion(int* version) { *version = 1150; return status(0); }
API Status cuFileHandleRegister(Handle* handle, Descriptor* descriptor) {
    if (int code = fake::failure("cuFileHandleRegister")) return status(code);
    if (descriptor->kind != 1) return status(5022);
    *handle = new File{descriptor->descriptor, true};
    return status(0);
}
API void cuFileHandleDeregister(Handle handle) { static_cast<File*>(handle)->open = false; }
API Status cuFileBufRegister(const void*, size_t length, int) {
    fakecuda_note(("register " + std::to_string(length)).c_str());
    return status(fake::failure("cuFileBufRegister"));
}
API Status cuFileBufDeregister(const void*) { return status(0); }
namespace {
// A read as the library would do it: bytes, or a code below zero.
ssize_t read(const char* call, Handle handle, void* buffer, size_t length, int64_t start, int64_t at) {
    if (int code = fake::failure(call)) return -code;
    const File* file = static_cast<File*>(handle);
    if (!file->open) abort();
    // What storage can write by itself.
    if (start % 4096 || ((Address)buffer + at) % 4096) return -5022;
    static std::atomic<int> number{0};
    const char* half = getenv("FAKELIB_SHORT");
    if (++number == (half ? atoi(half) : 0)) length /= 2;
    std::vector<u8> bytes(length);
    const ssize_t got = pread(file->descriptor, bytes.data(), length, start);
    if (got > 0) fakecuda_write((Address)buffer + at, bytes.data(), got);
    return got;
}

struct Properties {
    unsigned driver[2];
    size_t sizes[2];
    unsigned flags[3], cache[3], batch, milliseconds;
};
struct Entry {
    int mode;
    void* buffer;
    int64_t start, at;
    size_t length;
    Handle file;
    int operation;
    void* cookie;
};
struct Event {
    void* cookie;
    int status;
    ssize_t read;
};
// Entries stay the caller's, and are looked at as late as can be: when somebody waits. The last comes first.
struct Batch {
    unsigned room;
    std::vector<const Entry*> left;
    bool cancelled;
};
std::atomic<size_t> under_way{0};
size_t depth = getenv("FAKELIB_DEPTH") ? atoi(getenv("FAKELIB_DEPTH")) : 128;
unsigned most() {
    const char* text = getenv("FAKELIB_BATCH");
    return text ? atoi(text) : 128;
}
}  // namespace

API ssize_t cuFileRead(Handle handle, void* buffer, size_t length, int64_t start, int64_t at) {
    fakecuda_note("cuFileRead");
    return read("cuFileRead", handle, buffer, length, start, at);
}

API Status cuFileSetParameterSizeT(int parameter, size_t value) {
    if (parameter == 1 && value <= 256 && !getenv("FAKELIB_DEPTH")) depth = value;
    return status(0);
}
API Status cuFileGetParameterSizeT(int parameter, size_t* value) {
    *value = depth;
    return status(parameter == 1 ? 0 : 5022);
}
API Status cuFileDriverGetProperties(Properties* properties) {
    *properties = Properties{};
    properties->batch = most();
    return status(0);
}
API Status cuFileBatchIOSetUp(Handle* handle, unsigned count) {
    if (int code = fake::failure("cuFileBatchIOSetUp")) return status(code);
    if (count == 0 || count > most()) return status(5022);
    fakecuda_note("set up");
    *handle = new Batch{count, {}, false};
    return status(0);
}
API Status cuFileBatchIOSubmit(Handle handle, unsigned count, Entry* entries, unsigned) {
    if (int code = fake::failure("cuFileBatchIOSubmit")) return status(code);
    Batch* batch = static_cast<Batch*>(handle);
    // More than the library can hold are never done.
    if (batch->left.size() + count > batch->room || under_way + count > depth) abort();
    for (unsigned i = 0; i < count; ++i) {
        if (entries[i].mode != 1 || entries[i].operation != 0) return status(5022);
        batch->left.push_back(&entries[i]);
    }
    fakecuda_note(("submit " + std::to_string(count) + ", under way " + std::to_string(under_way += count)).c_str());
    return status(0);
}
API Status cuFileBatchIOGetStatus(Handle handle, unsigned least, unsigned* count, Event* events, timespec* limit) {
    fakecuda_note("wait for batch");
    if (int code = fake::failure("cuFileBatchIOGetStatus")) return status(code);
    Batch* batch = static_cast<Batch*>(handle);
    if (least > *count || !limit) return status(5022);
    unsigned given = 0;
    for (; given < *count && given < 5 && !batch->left.empty(); ++given, --under_way) {
        const Entry* entry = batch->left.back();
        batch->left.pop_back();
        ssize_t got = batch->cancelled ? -5025 : read("batch", entry->file, entry->buffer, entry->length, entry->start, entry->at);
        events[given] = Event{entry->cookie, batch->cancelled ? 8 : got < 0 ? 64 : 16, got};
    }
    *count = given;
    return status(0);
}
API Status cuFileBatchIOCancel(Handle handle) {
    fakecuda_note("cancel");
    static_cast<Batch*>(handle)->cancelled = true;
    return status(0);
}
API void cuFileBatchIODestroy(Handle handle) {
    Batch* batch = static_cast<Batch*>(handle);
    if (!batch->left.empty()) abort();
    delete batch;
}
