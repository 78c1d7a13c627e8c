// What the fake libraries share: streams and memory of the fake driver, and rules that make calls fail.
//
// FAKELIB_FAIL is a list like FAKECUDA_FAIL.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

typedef unsigned char u8;
typedef unsigned long long Address;
typedef void* Handle;
#define API extern "C" __attribute__((visibility("default")))

extern "C" void fakecuda_note(const char* line);
extern "C" void fakecuda_put(Handle stream, void (*run)(void*), void* argument);
extern "C" void fakecuda_run(Handle stream);
extern "C" void fakecuda_read(void* to, Address from, size_t length);
extern "C" void fakecuda_write(Address to, const void* from, size_t length);

namespace fake {

// The code that a call shall fail with, 0 for none.
inline int failure(const char* call) {
    static std::mutex lock;
    static std::map<std::string, uint64_t> calls;
    std::lock_guard<std::mutex> locked(lock);
    uint64_t number = ++calls[call];
    const char* text = getenv("FAKELIB_FAIL");
    std::string list = text ? text : "";
    for (size_t at = 0; at < list.size();) {
        size_t end = std::min(list.find(',', at), list.size());
        std::string rule = list.substr(at, end - at);
        at = end + 1;
        size_t equals = rule.find('='), nth = rule.find('@');
        if (equals == std::string::npos || rule.substr(0, equals) != call) continue;
        uint64_t when = nth == std::string::npos ? 0 : strtoull(rule.c_str() + nth + 1, nullptr, 10);
        if (when == 0 || when == number) return atoi(rule.c_str() + equals + 1);
    }
    return 0;
}

// How a library takes memory.
struct Allocator {
    int (*take)(void* context, void** out, size_t length, Handle stream);
    int (*give_back)(void* context, void* address, size_t length, Handle stream);
    void* context;
};

// Rows on their way to device memory, read when it is their turn: whoever changes the bytes before sees it.
struct Copy {
    const u8* from;
    Address to;
    size_t row, rows, pitch;
    static void run(void* self) {
        Copy* copy = static_cast<Copy*>(self);
        for (size_t y = 0; y < copy->rows; ++y)
            fakecuda_write(copy->to + y * copy->pitch, copy->from + y * copy->row, copy->row);
        delete copy;
    }
};

// Rows on their way from device memory, taken when it is their turn.
struct Taken {
    Address from;
    size_t row, rows, pitch;
    std::vector<u8>* to;
    static void run(void* self) {
        Taken* taken = static_cast<Taken*>(self);
        taken->to->resize(taken->row * taken->rows);
        for (size_t y = 0; y < taken->rows; ++y)
            fakecuda_read(taken->to->data() + y * taken->row, taken->from + y * taken->pitch, taken->row);
        delete taken;
    }
};

// What was encoded on its way to the host: number and bytes are there when the stream has come to it.
struct Given {
    std::vector<u8> bytes;
    u8* to;
    size_t* length;
    static void run(void* self) {
        Given* given = static_cast<Given*>(self);
        if (given->to) memcpy(given->to, given->bytes.data(), given->bytes.size());
        *given->length = given->bytes.size();
        delete given;
    }
};

inline void put_big(std::vector<u8>& out, unsigned value, int length) {
    for (int i = length - 1; i >= 0; --i) out.push_back(u8(value >> 8 * i));
}

inline unsigned big(const u8* bytes, int length) {
    unsigned value = 0;
    for (int i = 0; i < length; ++i) value = value << 8 | bytes[i];
    return value;
}

// A scan or tile part that this library "decodes": plain samples behind a word.
inline const u8* plain(const u8* at, const u8* end, size_t length) {
    return size_t(end - at) >= length + 4 && !memcmp(at, "FAKE", 4) ? at + 4 : nullptr;
}

}  // namespace fake

#define FAIL(call) \
    if (int code = fake::failure(#call)) return code
