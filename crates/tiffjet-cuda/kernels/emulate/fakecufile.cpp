// A libcufile.so.0 without a GPU: a read writes at once, whatever streams still have to do. FAKELIB_SHORT names the read, from
// 1, that gives half of what it was asked for.
#include "fakelib.h"

#include <atomic>
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
API ssize_t cuFileRead(Handle handle, void* buffer, size_t length, int64_t start, int64_t at) {
    if (int code = fake::failure("cuFileRead")) return -code;
    const File* file = static_cast<File*>(handle);
    if (!file->open) abort();
    // What storage can write by itself.
    if (start % 4096 || ((Address)buffer + at) % 4096) return -5022;
    static std::atomic<int> number{0};
    const char* half = getenv("FAKELIB_SHORT");
    if (++number == (half ? atoi(half) : 0)) length /= 2;
    fakecuda_note("cuFileRead");
    std::vector<u8> bytes(length);
    const ssize_t got = pread(file->descriptor, bytes.data(), length, start);
    if (got > 0) fakecuda_write((Address)buffer + at, bytes.data(), got);
    return got;
}
