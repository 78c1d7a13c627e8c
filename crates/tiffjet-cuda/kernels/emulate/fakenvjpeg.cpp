// A libnvjpeg.so.13 without a GPU. It parses real images, whose pixels stand in quantisation tables of number 3, 64 bytes in
// each, behind one that begins with the word FAKE: what is looked at before it comes here is real, and a scan may say what it
// likes. Other data are refused as bad, and with them their whole batch. What it encodes is such an image, with the tables that
// FAKELIB_TABLES has in hexadecimal digits: the segments of a JPEGTables.
#include "fakelib.h"

#include <algorithm>

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
    std::vector<u8> pixels;
    bool marked = false;
};
constexpr size_t MEMORY = 23456;

bool parse(const u8* data, size_t length, Head& head) {
    bool quant = false, codes = false;
    for (size_t at = 2; at + 4 <= length; at += 2 + fake::big(data + at + 2, 2)) {
        if (data[at] != 0xff) return false;
        const size_t body = at + 4, end = at + 2 + fake::big(data + at + 2, 2);
        if (end > length) return false;
        if (data[at + 1] == 0xdb)
            for (size_t table = body; table + 65 <= end; table += 65) {
                if (data[table] < 3) quant = true;
                else if (!head.marked) head.marked = !memcmp(data + table + 1, "FAKE", 4);
                else head.pixels.insert(head.pixels.end(), data + table + 1, data + table + 65);
            }
        if (data[at + 1] == 0xc4) codes = true;
        // Which colours these are is not for markers to say.
        if ((data[at + 1] & 0xf0) == 0xe0) return false;
        if (data[at + 1] == 0xc0 || data[at + 1] == 0xc1) {
            head.height = fake::big(data + at + 5, 2);
            head.width = fake::big(data + at + 7, 2);
            head.components = data[at + 9];
        }
        if (data[at + 1] == 0xda) return quant && codes && head.components > 0;
    }
    return false;
}

// An image on its way to device memory, read when it is its turn: whoever changes its bytes before sees it.
struct Decode {
    const u8* data;
    size_t length;
    Image image;
    int format;
    static void run(void* self) {
        Decode* own = static_cast<Decode*>(self);
        Head head;
        if (!parse(own->data, own->length, head)) abort();
        const size_t planes = own->format == PLANES ? head.components : 1;
        const size_t row = size_t(head.width) * head.components / planes, plane = size_t(head.width) * head.height;
        for (size_t c = 0; c < planes; ++c)
            for (size_t y = 0; y < head.height; ++y)
                fakecuda_write((Address)own->image.planes[c] + y * own->image.pitches[c], head.pixels.data() + c * plane + y * row, row);
        delete own;
    }
};
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
        if (!parse(data[i], lengths[i], head) || !head.marked) return BAD;
        if (head.pixels.size() < size_t(head.width) * head.height * head.components) return BAD;
        fakecuda_put(stream, Decode::run, new Decode{data[i], lengths[i], images[i], state->format});
    }
    return OK;
}

namespace {
struct Parameters {
    int quality = 0, optimised = 1, sampling = -1;
};
struct EncodeState {
    std::vector<u8> pixels;
    unsigned width = 0, height = 0;
    int sampling = 0;
    void* memory = nullptr;
};
constexpr size_t ENCODE_MEMORY = 34567;

std::vector<u8> image(const EncodeState& state) {
    // Factors of the first component, by what the library calls them.
    const u8 factors[7] = {0x11, 0x21, 0x22, 0x12, 0x41, 0x42, 0x11};
    const u8 components = state.sampling == 6 ? 1 : 3;
    std::vector<u8> out = {0xff, 0xd8, 0xff, 0xe0, 0, 7, 'J', 'F', 'I', 'F', 0};
    const char* tables = getenv("FAKELIB_TABLES");
    for (const char* at = tables ? tables : ""; at[0] && at[1]; at += 2) {
        const char digits[3] = {at[0], at[1], 0};
        out.push_back(u8(strtoul(digits, nullptr, 16)));
    }
    std::vector<u8> tables_of_pixels(65, 3);
    memcpy(tables_of_pixels.data() + 1, "FAKE", 4);
    for (size_t at = 0; at < state.pixels.size(); at += 64) {
        tables_of_pixels.push_back(3);
        for (size_t i = at; i < at + 64; ++i) tables_of_pixels.push_back(i < state.pixels.size() ? state.pixels[i] : 0);
    }
    for (size_t at = 0; at < tables_of_pixels.size(); at += 65 * 1000) {
        const size_t end = std::min(at + 65 * 1000, tables_of_pixels.size());
        fake::put_big(out, 0xffdb, 2);
        fake::put_big(out, unsigned(end - at + 2), 2);
        out.insert(out.end(), tables_of_pixels.begin() + at, tables_of_pixels.begin() + end);
    }
    out.insert(out.end(), {0xff, 0xc0, 0, u8(8 + 3 * components), 8});
    fake::put_big(out, state.height, 2);
    fake::put_big(out, state.width, 2);
    out.push_back(components);
    for (u8 c = 0; c < components; ++c) out.insert(out.end(), {u8(c + 1), c ? u8(0x11) : factors[state.sampling], u8(c > 0)});
    out.insert(out.end(), {0xff, 0xda, 0, u8(6 + 2 * components), components});
    for (u8 c = 0; c < components; ++c) out.insert(out.end(), {u8(c + 1), u8(c ? 0x11 : 0)});
    out.insert(out.end(), {0, 63, 0});
    // A grey scan: blocks of nothing, in the codes of the standard.
    const unsigned h = factors[state.sampling] >> 4, v = factors[state.sampling] & 15;
    const size_t units = size_t((state.width + 8 * h - 1) / (8 * h)) * ((state.height + 8 * v - 1) / (8 * v));
    unsigned bits = 0, held = 0;
    auto put = [&](unsigned code, unsigned length) {
        for (unsigned i = length; i-- > 0;) {
            bits = bits << 1 | (code >> i & 1);
            if (++held == 8) {
                out.push_back(u8(bits));
                bits = held = 0;
            }
        }
    };
    for (size_t unit = 0; unit < units; ++unit) {
        for (unsigned block = 0; block < h * v; ++block) put(0b001010, 6);
        for (u8 c = 1; c < components; ++c) put(0b0000, 4);
    }
    while (held) put(1, 1);
    out.insert(out.end(), {0xff, 0xd9});
    return out;
}

int encode(Handle handle, Handle state_handle, Handle parameters_handle, const Image* source, unsigned width, unsigned height,
           Handle stream) {
    Library* library = static_cast<Library*>(handle);
    EncodeState* state = static_cast<EncodeState*>(state_handle);
    Parameters* parameters = static_cast<Parameters*>(parameters_handle);
    if (!state->memory && library->device.take(library->device.context, &state->memory, ENCODE_MEMORY, stream)) return NO_MEMORY;
    // Tables that differ from tile to tile can't be shared.
    if (parameters->optimised || parameters->quality < 1) return INVALID;
    state->sampling = parameters->sampling;
    state->width = width;
    state->height = height;
    const size_t row = size_t(width) * (state->sampling == 6 ? 1 : 3);
    fakecuda_put(stream, fake::Taken::run, new fake::Taken{(Address)source->planes[0], row, height, source->pitches[0], &state->pixels});
    return OK;
}
}  // namespace

API int nvjpegEncoderStateCreate(Handle, Handle* state, Handle) {
    FAIL(nvjpegEncoderStateCreate);
    *state = new EncodeState;
    return OK;
}
API int nvjpegEncoderStateDestroy(Handle) { return OK; }
API int nvjpegEncoderParamsCreate(Handle, Handle* parameters, Handle) { *parameters = new Parameters; return OK; }
API int nvjpegEncoderParamsDestroy(Handle) { return OK; }
API int nvjpegEncoderParamsSetQuality(Handle parameters, int quality, Handle) {
    static_cast<Parameters*>(parameters)->quality = quality;
    return OK;
}
API int nvjpegEncoderParamsSetOptimizedHuffman(Handle parameters, int optimised, Handle) {
    static_cast<Parameters*>(parameters)->optimised = optimised;
    return OK;
}
API int nvjpegEncoderParamsSetSamplingFactors(Handle parameters, int sampling, Handle) {
    static_cast<Parameters*>(parameters)->sampling = sampling;
    return OK;
}
API int nvjpegEncodeImage(Handle handle, Handle state, Handle parameters, const Image* source, int format, int width, int height,
                          Handle stream) {
    FAIL(nvjpegEncodeImage);
    fakecuda_note("nvjpegEncodeImage");
    if (format != PIXELS) return INVALID;
    return encode(handle, state, parameters, source, unsigned(width), unsigned(height), stream);
}
API int nvjpegEncodeYUV(Handle handle, Handle state, Handle parameters, const Image* source, int sampling, int width, int height,
                        Handle stream) {
    FAIL(nvjpegEncodeYUV);
    fakecuda_note("nvjpegEncodeYUV");
    if (sampling != 6) return INVALID;
    return encode(handle, state, parameters, source, unsigned(width), unsigned(height), stream);
}
API int nvjpegEncodeRetrieveBitstream(Handle, Handle state_handle, u8* data, size_t* length, Handle stream) {
    FAIL(nvjpegEncodeRetrieveBitstream);
    fakecuda_run(stream);
    std::vector<u8> bytes = image(*static_cast<EncodeState*>(state_handle));
    if (data && *length < bytes.size()) return INVALID;
    fakecuda_put(stream, fake::Given::run, new fake::Given{std::move(bytes), data, length});
    return OK;
}
