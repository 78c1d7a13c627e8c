// A libcufile.so.0 without a GPU: a read happens when its stream comes to it, and not before. FAKELIB_SHORT names the read,
// from 1, that gives half of what it was asked for.
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
struct Read {
    File* file;
    u8* buffer;
    size_t* length;
    int64_t *start, *at;
    ssize_t* read;
    bool half;
    static void run(void* self) {
        Read* own = static_cast<Read*>(self);
        if (!own->file->open) abort();
        const size_t length = own->half ? *own->length / 2 : *own->length;
        std::vector<u8> bytes(length);
        const ssize_t got = pread(own->file->descriptor, bytes.data(), length, *own->start);
        if (got > 0) fakecuda_write((Address)own->buffer + *own->at, bytes.data(), got);
        *own->read = got;
        delete own;
    }
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
API Status cuFileStreamRegister(Handle, unsigned) { return status(0); }
API Status cuFileReadAsync(Handle handle, void* buffer, size_t* length, int64_t* start, int64_t* at, ssize_t* read,
                           Handle stream) {
    if (int code = fake::failure("cuFileReadAsync")) return status(code);
    // What storage can write by itself.
    if (*start % 4096 || ((Address)buffer + *at) % 4096) return status(5022);
    static std::atomic<int> number{0};
    const char* half = getenv("FAKELIB_SHORT");
    fakecuda_note("cuFileReadAsync");
    fakecuda_put(stream, Read::run, new Read{static_cast<File*>(handle), static_cast<u8*>(buffer), length, start, at, read,
                                             ++number == (half ? atoi(half) : 0)});
    return status(0);
}
