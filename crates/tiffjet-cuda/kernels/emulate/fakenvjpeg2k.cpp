// A libnvjpeg2k.so.0 without a GPU. It parses real heads; a tile part must hold plain planes behind the word FAKE, other
// data are refused as bad. What it encodes without loss is such a codestream; with a step it is as long as a picture of five
// bits of detail would be, and nothing that could be decoded.
#include "fakelib.h"

#include <algorithm>
#include <cmath>

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
        const u8 depth = data[42 + 3 * i], dx = data[43 + 3 * i], dy = data[44 + 3 * i];
        const uint32_t width = (parsed->width + dx - 1) / dx, height = (parsed->height + dy - 1) / dy;
        parsed->components.push_back({width, height, u8((depth & 0x7f) + 1), u8(depth >> 7)});
        // Bytes with a sign come as words.
        bytes += size_t(width) * height * (depth < 8 ? 1 : 2);
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

namespace {
struct EncodeConfig {
    int kind, colours;
    uint16_t profile;
    uint32_t width, height, tiled, tile_width, tile_height, components;
    Component* component;
    uint32_t starts, ends;
    int order;
    uint32_t layers, transform, resolutions, block_width, block_height, modes, irreversible, precincts;
    uint32_t widths[33], heights[33];
};
struct Parameters {
    EncodeConfig config{};
    Component component{};
    double step = 0;
    int format = 0;
};
struct EncodeState {
    std::vector<u8> pixels;
    Parameters used;
};

std::vector<u8> codestream(const EncodeState& state) {
    const EncodeConfig& config = state.used.config;
    const Component& component = state.used.component;
    const size_t size = component.precision > 8 || component.sign ? 2 : 1, count = config.components;
    std::vector<u8> body = {0xff, 0x93, 'F', 'A', 'K', 'E'}, out;
    const size_t samples = size_t(config.width) * config.height * count;
    if (config.irreversible) {
        const double bits = std::log2(1 + std::exp2(5 - std::log2(state.used.step)));
        body.resize(body.size() + size_t(double(samples) * bits / 8));
    } else {
        for (size_t c = 0; c < count; ++c)
            for (size_t i = c; i < samples; i += count)
                body.insert(body.end(), state.pixels.begin() + i * size, state.pixels.begin() + (i + 1) * size);
    }
    fake::put_big(out, 0xff4fff51, 4);
    fake::put_big(out, 38 + 3 * unsigned(count), 2);
    fake::put_big(out, 0, 2);
    for (unsigned field : {config.width, config.height, 0u, 0u, config.width, config.height, 0u, 0u}) fake::put_big(out, field, 4);
    fake::put_big(out, unsigned(count), 2);
    for (size_t c = 0; c < count; ++c) out.insert(out.end(), {u8((component.precision - 1) | component.sign << 7), 1, 1});
    out.insert(out.end(), {0xff, 0x90, 0, 10, 0, 0});
    fake::put_big(out, unsigned(body.size()) + 12, 4);
    out.insert(out.end(), {0, 1});
    out.insert(out.end(), body.begin(), body.end());
    out.insert(out.end(), {0xff, 0xd9});
    return out;
}
}  // namespace

API int nvjpeg2kEncoderCreateSimple(Handle* handle) { FAIL(nvjpeg2kEncoderCreateSimple); *handle = new int; return OK; }
API int nvjpeg2kEncodeStateCreate(Handle, Handle* state) { FAIL(nvjpeg2kEncodeStateCreate); *state = new EncodeState; return OK; }
API int nvjpeg2kEncodeStateDestroy(Handle) { return OK; }
API int nvjpeg2kEncodeParamsCreate(Handle* parameters) { *parameters = new Parameters; return OK; }
API int nvjpeg2kEncodeParamsDestroy(Handle) { return OK; }
API int nvjpeg2kEncodeParamsSetEncodeConfig(Handle handle, EncodeConfig* config) {
    Parameters* parameters = static_cast<Parameters*>(handle);
    const uint32_t smaller = std::min(config->width, config->height);
    const bool known = config->kind == 0 && config->layers == 1 && config->block_width == 64 && config->components <= 4 &&
                       config->resolutions >= 1 && smaller >> (config->resolutions - 1) && !config->tiled;
    // What has been told of a step can't do without.
    if (!known || (parameters->step > 0 && !config->irreversible)) return 2;
    parameters->config = *config;
    parameters->component = config->component[0];
    return OK;
}
API int nvjpeg2kEncodeParamsSpecifyQuality(Handle handle, int kind, double value) {
    Parameters* parameters = static_cast<Parameters*>(handle);
    if (!parameters->config.irreversible || kind != 1 || value <= 0) return 2;
    parameters->step = value;
    return OK;
}
API int nvjpeg2kEncodeParamsSetInputFormat(Handle handle, int format) {
    static_cast<Parameters*>(handle)->format = format;
    return OK;
}
API int nvjpeg2kEncode(Handle, Handle state_handle, Handle parameters, const Image* image, Handle stream) {
    FAIL(nvjpeg2kEncode);
    fakecuda_note("nvjpeg2kEncode");
    EncodeState* state = static_cast<EncodeState*>(state_handle);
    state->used = *static_cast<Parameters*>(parameters);
    if (state->used.format != 1) return 2;
    const size_t size = image->kind == 0 ? 1 : 2;
    const size_t row = size_t(state->used.config.width) * state->used.config.components * size;
    fakecuda_put(stream, fake::Taken::run,
                 new fake::Taken{(Address)image->planes[0], row, state->used.config.height, image->pitches[0], &state->pixels});
    return OK;
}
API int nvjpeg2kEncodeRetrieveBitstream(Handle, Handle state, u8* data, size_t* length, Handle stream) {
    FAIL(nvjpeg2kEncodeRetrieveBitstream);
    fakecuda_run(stream);
    std::vector<u8> bytes = codestream(*static_cast<EncodeState*>(state));
    if (!data) {
        *length = bytes.size();
        return OK;
    }
    if (*length < bytes.size()) return 2;
    *length = bytes.size();
    // The bytes come later, the number is there.
    static size_t nobody;
    fakecuda_put(stream, fake::Given::run, new fake::Given{std::move(bytes), data, &nobody});
    return OK;
}
