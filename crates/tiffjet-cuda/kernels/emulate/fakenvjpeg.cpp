// A libnvjpeg.so.13 without a GPU. It parses real heads; a scan must hold plain pixels behind the word FAKE, other data
// are refused as bad, and with them their whole batch.
#include "fakelib.h"

namespace {
enum { OK = 0, INVALID = 2, BAD = 3, NO_MEMORY = 5 };
enum { PLANES = 0, PIXELS = 5 };
struct Library {
    fake::Allocator device, pinned;
};
struct State {
    int batch = 0, format = 0;
    void* memory = nullptr;
};
struct Image {
    u8* planes[4];
    size_t pitches[4];
};
struct Head {
    unsigned width = 0, height = 0, components = 0;
    const u8* scan = nullptr;
};
constexpr size_t MEMORY = 23456;

bool parse(const u8* data, size_t length, Head& head) {
    bool quant = false, codes = false;
    for (size_t at = 2; at + 4 <= length; at += 2 + fake::big(data + at + 2, 2)) {
        if (data[at] != 0xff) return false;
        if (data[at + 1] == 0xdb) quant = true;
        if (data[at + 1] == 0xc4) codes = true;
        // Which colours these are is not for markers to say.
        if ((data[at + 1] & 0xf0) == 0xe0) return false;
        if (data[at + 1] == 0xc0 || data[at + 1] == 0xc1) {
            head.height = fake::big(data + at + 5, 2);
            head.width = fake::big(data + at + 7, 2);
            head.components = data[at + 9];
        }
        if (data[at + 1] == 0xda) {
            head.scan = data + at + 2 + fake::big(data + at + 2, 2);
            return quant && codes && head.components > 0;
        }
    }
    return false;
}
}  // namespace

API int nvjpegGetProperty(int which, int* value) { *value = which == 0 ? 13 : 0; return OK; }
API int nvjpegCreateExV2(int, fake::Allocator* device, fake::Allocator* pinned, unsigned, Handle* handle) {
    FAIL(nvjpegCreateExV2);
    *handle = new Library{*device, *pinned};
    return OK;
}
API int nvjpegJpegStateCreate(Handle, Handle* state) { FAIL(nvjpegJpegStateCreate); *state = new State; return OK; }
API int nvjpegJpegStateDestroy(Handle) { return OK; }
API int nvjpegGetImageInfo(Handle, const u8* data, size_t length, int* components, int* sampling, int* widths, int* heights) {
    FAIL(nvjpegGetImageInfo);
    Head head;
    if (!parse(data, length, head)) return BAD;
    *components = int(head.components);
    *sampling = 0;
    for (unsigned c = 0; c < 4; ++c) {
        widths[c] = c < head.components ? int(head.width) : 0;
        heights[c] = c < head.components ? int(head.height) : 0;
    }
    return OK;
}
API int nvjpegDecodeBatchedInitialize(Handle, Handle state, int batch, int, int format) {
    FAIL(nvjpegDecodeBatchedInitialize);
    static_cast<State*>(state)->batch = batch;
    static_cast<State*>(state)->format = format;
    return OK;
}
API int nvjpegDecodeBatched(Handle handle, Handle state_handle, const u8* const* data, const size_t* lengths, Image* images,
                            Handle stream) {
    Library* library = static_cast<Library*>(handle);
    State* state = static_cast<State*>(state_handle);
    if (!state->memory && library->device.take(library->device.context, &state->memory, MEMORY, stream)) return NO_MEMORY;
    FAIL(nvjpegDecodeBatched);
    fakecuda_note(("nvjpegDecodeBatched " + std::to_string(state->batch)).c_str());
    for (int i = 0; i < state->batch; ++i) {
        Head head;
        if (!parse(data[i], lengths[i], head)) return BAD;
        const size_t pixels = size_t(head.width) * head.height;
        const u8* from = fake::plain(head.scan, data[i] + lengths[i], pixels * head.components);
        if (!from) return BAD;
        const size_t planes = state->format == PLANES ? head.components : 1;
        const size_t row = size_t(head.width) * head.components / planes;
        for (size_t c = 0; c < planes; ++c) {
            auto* copy = new fake::Copy{from + c * pixels, (Address)images[i].planes[c], row, head.height, images[i].pitches[c]};
            fakecuda_put(stream, fake::Copy::run, copy);
        }
    }
    return OK;
}
