// A libnvjpeg2k.so.0 without a GPU. It parses real heads; a tile part must hold plain planes behind the word FAKE, other
// data are refused as bad.
#include "fakelib.h"

namespace {
enum { OK = 0, BAD = 3, NO_MEMORY = 5 };
struct Library {
    fake::Allocator device, pinned;
};
struct Component {
    uint32_t width, height;
    uint8_t precision, sign;
};
struct Parsed {
    uint32_t width = 0, height = 0;
    std::vector<Component> components;
    const u8* samples = nullptr;
};
struct State {
    void* memory = nullptr;
};
struct Image {
    void** planes;
    size_t* pitches;
    int kind;
    uint32_t components;
};
constexpr size_t MEMORY = 12345;
}  // namespace

API int nvjpeg2kGetProperty(int which, int* value) {
    const char* text = getenv("FAKELIB_VERSION");
    *value = which == 0 ? (text ? atoi(text) : 0) : which == 1 ? 11 : 0;
    return OK;
}
API int nvjpeg2kCreateV2(int, fake::Allocator* device, fake::Allocator* pinned, Handle* handle) {
    FAIL(nvjpeg2kCreateV2);
    *handle = new Library{*device, *pinned};
    return OK;
}
API int nvjpeg2kDecodeStateCreate(Handle, Handle* state) {
    FAIL(nvjpeg2kDecodeStateCreate);
    *state = new State;
    return OK;
}
API int nvjpeg2kDecodeStateDestroy(Handle) { return OK; }
API int nvjpeg2kStreamCreate(Handle* stream) { *stream = new Parsed; return OK; }
API int nvjpeg2kStreamDestroy(Handle) { return OK; }
API int nvjpeg2kStreamParse(Handle, const u8* data, size_t length, int, int, Handle handle) {
    FAIL(nvjpeg2kStreamParse);
    Parsed* parsed = static_cast<Parsed*>(handle);
    *parsed = Parsed();
    if (length < 50 || fake::big(data, 4) != 0xff4fff51) return BAD;
    parsed->width = fake::big(data + 8, 4);
    parsed->height = fake::big(data + 12, 4);
    size_t bytes = 0;
    for (unsigned i = 0; i < fake::big(data + 40, 2); ++i) {
        const u8 depth = data[42 + 3 * i];
        parsed->components.push_back({parsed->width, parsed->height, u8((depth & 0x7f) + 1), u8(depth >> 7)});
        bytes += size_t(parsed->width) * parsed->height * ((depth & 0x7f) < 8 ? 1 : 2);
    }
    for (const u8* at = data; at + 2 < data + length; ++at)
        if (fake::big(at, 2) == 0xff93 && (parsed->samples = fake::plain(at + 2, data + length, bytes))) return OK;
    return BAD;
}
API int nvjpeg2kStreamGetImageInfo(Handle handle, uint32_t* info) {
    Parsed* parsed = static_cast<Parsed*>(handle);
    const uint32_t values[7] = {parsed->width, parsed->height, parsed->width, parsed->height, 1, 1,
                                uint32_t(parsed->components.size())};
    memcpy(info, values, sizeof values);
    return OK;
}
API int nvjpeg2kStreamGetImageComponentInfo(Handle handle, Component* info, uint32_t component) {
    *info = static_cast<Parsed*>(handle)->components[component];
    // A library that sees something else than the caller.
    if (getenv("FAKELIB_DISAGREES")) info->height += 1;
    return OK;
}
API int nvjpeg2kDecode(Handle handle, Handle state_handle, Handle parsed_handle, Image* image, Handle stream) {
    Library* library = static_cast<Library*>(handle);
    State* state = static_cast<State*>(state_handle);
    Parsed* parsed = static_cast<Parsed*>(parsed_handle);
    if (!state->memory && library->device.take(library->device.context, &state->memory, MEMORY, stream)) return NO_MEMORY;
    FAIL(nvjpeg2kDecode);
    fakecuda_note("nvjpeg2kDecode");
    const u8* from = parsed->samples;
    for (uint32_t c = 0; c < image->components; ++c) {
        const Component& component = parsed->components[c];
        const size_t row = size_t(component.width) * (image->kind == 0 ? 1 : 2);
        auto* copy = new fake::Copy{from, (Address)image->planes[c], row, component.height, image->pitches[c]};
        fakecuda_put(stream, fake::Copy::run, copy);
        from += row * component.height;
    }
    return OK;
}
