// Plain encoders and decoders of LZW and PackBits for the bench of kernels, compiled by it where it runs: Python would
// take hours. They share no code with what is measured.
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

enum { CLEAR = 256, END = 257, FIRST = 258, CODES = 4096 };

struct Bits {
    uint8_t* out;
    size_t room, size = 0;
    uint64_t held = 0;
    int count = 0;

    void put(uint32_t code, int width) {
        held = held << width | code;
        for (count += width; count >= 8; ++size) {
            count -= 8;
            if (size < room) out[size] = static_cast<uint8_t>(held >> count);
        }
    }
};

}  // namespace

// As libtiff writes it: a clear first, codes widen one early, a clear when 4094 codes are known, an end.
extern "C" size_t lzw_encode(const uint8_t* bytes, size_t n, uint8_t* out, size_t room) {
    thread_local std::vector<uint16_t> child(CODES * 256);
    Bits bits{out, room};
    int next = FIRST, width = 9;
    bits.put(CLEAR, width);
    memset(child.data(), 0, child.size() * 2);
    uint32_t prefix = n ? bytes[0] : 0;
    for (size_t i = 1; i < n; ++i) {
        uint16_t& entry = child[prefix << 8 | bytes[i]];
        if (entry) {
            prefix = entry;
            continue;
        }
        bits.put(prefix, width);
        entry = static_cast<uint16_t>(next++);
        prefix = bytes[i];
        if (next == CODES - 2) {
            bits.put(CLEAR, width);
            memset(child.data(), 0, child.size() * 2);
            next = FIRST;
            width = 9;
        } else if (next == 1 << width) {
            ++width;
        }
    }
    if (n) {
        bits.put(prefix, width);
        if (next + 1 == CODES - 2) {
            bits.put(CLEAR, width);
            width = 9;
        } else if (next + 1 == 1 << width) {
            ++width;
        }
    }
    bits.put(END, width);
    if (bits.count) bits.put(0, 8 - bits.count);
    return bits.size;
}

// Bytes given, `room` at most; fewer when the data end or are damaged.
extern "C" size_t lzw_decode(const uint8_t* bytes, size_t n, uint8_t* out, size_t room) {
    std::vector<uint32_t> start(CODES), length(CODES, 0);
    size_t bit = 0, made = 0;
    uint32_t next = FIRST, width = 9, last = 0;
    while (made < room && bit + width <= 8 * n) {
        uint32_t code = 0;
        for (uint32_t i = 0; i < width; ++i, ++bit) code = code << 1 | (bytes[bit / 8] >> (7 - bit % 8) & 1);
        if (code == END) break;
        if (code == CLEAR) {
            next = FIRST;
            width = 9;
            last = 0;
            continue;
        }
        const bool grows = last > 0 && next < CODES;
        if (grows) {
            start[next] = static_cast<uint32_t>(made - last);
            length[next] = last + 1;
            ++next;
        }
        if (code >= FIRST && code >= next) break;
        last = code < CLEAR ? 1 : length[code];
        for (uint32_t i = 0; i < last && made < room; ++i, ++made) {
            out[made] = code < CLEAR ? static_cast<uint8_t>(code) : out[start[code] + i];
        }
        if (next + 1 >= 1u << width && width < 12) ++width;
    }
    return made;
}

extern "C" size_t packbits_encode(const uint8_t* bytes, size_t n, uint8_t* out, size_t room) {
    size_t size = 0;
    const auto put = [&](uint8_t byte) {
        if (size < room) out[size] = byte;
        ++size;
    };
    for (size_t at = 0; at < n;) {
        size_t run = 1;
        while (at + run < n && run < 128 && bytes[at + run] == bytes[at]) ++run;
        if (run > 2) {
            put(static_cast<uint8_t>(257 - run));
            put(bytes[at]);
            at += run;
            continue;
        }
        size_t end = at + run;
        while (end < n && end - at < 128 && !(end + 2 < n && bytes[end] == bytes[end + 1] && bytes[end] == bytes[end + 2])) ++end;
        put(static_cast<uint8_t>(end - at - 1));
        while (at < end) put(bytes[at++]);
    }
    return size;
}

extern "C" size_t packbits_decode(const uint8_t* bytes, size_t n, uint8_t* out, size_t room) {
    size_t made = 0;
    for (size_t at = 0; at < n && made < room;) {
        const uint32_t header = bytes[at++];
        if (header < 128) {
            for (uint32_t i = 0; i <= header && at < n && made < room; ++i) out[made++] = bytes[at++];
        } else if (header > 128) {
            if (at == n) break;
            for (uint32_t i = header; i < 257 && made < room; ++i) out[made++] = bytes[at];
            ++at;
        }
    }
    return made;
}
