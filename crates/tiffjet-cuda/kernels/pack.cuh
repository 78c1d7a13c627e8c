// From pixels on the device to the bytes that codecs take: edges, bands, NaN, bit depth and predictor in one pass; the
// other way round of `place.cuh`, and bit for bit what `cpu/pack.rs` makes.
//
// A warp takes a row of a tile. Every lane makes neighbouring bytes of the packed row, in aligned units where it can, from
// words of the source that are loaded from wherever they stand. What a predictor subtracts is loaded a second time, from
// the nearest cache, rather than handed from lane to lane: no step waits for another.
#pragma once
#include "abi.h"
#include "lanes.h"

// Rows that a warp takes, one after the other.
enum { PACK_ROWS = 4 };

// Differences of the samples of SIZE bytes that stand in a word; of 8 bytes, in two.
template <int SIZE, int WORDS> DEVICE void subtract(u32 (&words)[WORDS], const u32 (&others)[WORDS]) {
    const u32 high = SIZE == 1 ? 0x80808080u : 0x80008000u;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
        const u32 a = words[i], b = others[i];
        if (SIZE <= 2) {
            // The borrow of a sample stops at its highest bit, which is made right after.
            words[i] = ((a | high) - (b & ~high)) ^ ((a ^ ~b) & high);
        } else if (SIZE == 4) {
            words[i] = a - b;
        } else if (i % 2 == 0) {
            const u64 difference = ((u64)words[(i + 1) % WORDS] << 32 | a) - ((u64)others[(i + 1) % WORDS] << 32 | b);
            words[i] = (u32)difference;
            words[(i + 1) % WORDS] = (u32)(difference >> 32);
        }
    }
}

// One value where floats are NaN.
template <int SIZE> struct NanValue {
    bool wanted;
    u64 value;

    __device__ NanValue(bool wanted, const u8* bytes) : wanted(SIZE > 1 && wanted), value(little(bytes, SIZE)) {}

    __device__ __forceinline__ u64 operator()(u64 bits) const {
        const u64 most = SIZE == 2 ? 0x7c00 : SIZE == 4 ? 0x7f800000u : 0x7ff0000000000000ull;
        const u64 magnitude = bits & (SIZE == 2 ? 0x7fff : SIZE == 4 ? 0x7fffffffu : 0x7fffffffffffffffull);
        return wanted && magnitude > most ? value : bits;
    }

    // In words of whole floats.
    template <int WORDS> __device__ __forceinline__ void replace(u32 (&words)[WORDS]) const {
        if (SIZE == 1 || !wanted) return;
#pragma unroll
        for (int i = 0; i < WORDS; i += SIZE == 8 ? 2 : 1) {
            if (SIZE == 8) {
                const u64 bits = (*this)((u64)words[(i + 1) % WORDS] << 32 | words[i]);
                words[i] = (u32)bits;
                words[(i + 1) % WORDS] = (u32)(bits >> 32);
            } else if (SIZE == 4) {
                words[i] = (u32)(*this)(words[i]);
            } else {
                words[i] = (u32)(*this)(words[i] & 0xffff) | (u32)(*this)(words[i] >> 16) << 16;
            }
        }
    }
};

// Four words at an end of a row, zeros outside. A call, for copies of it in every kernel would be most of their code.
DEVICE_CALL Quad load_edge(const u8* row, int64_t from, int64_t end) {
    u32 words[4];
    load_words<4>(row, from, end, false, words);
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] &= bytes_inside(from + 4 * i, end);
    return Quad{words[0], words[1], words[2], words[3]};
}

// What all rows of a warp share.
template <int SIZE> struct Packing {
    const PackFormat& format;
    NanValue<SIZE> nan;
    u32 lane;
    u32 differs;  // some value of this lane is not the absent one

    __device__ Packing(const PackFormat& format, u32 lane)
        : format(format), nan(format.nan != 0, format.nan_value), lane(lane), differs(0) {}

    // The words of a lane from `from` on of a row of `end` bytes, zeros outside. In the first step of the lanes they begin
    // at `first`.
    template <int WORDS>
    __device__ __forceinline__ void load(const u8* row, int64_t first, int64_t from, int64_t end, u32 (&words)[WORDS]) const {
        if (step_is_inside<WORDS>(row, first, end)) {
            load_words<WORDS>(row, from, end, true, words);
        } else {
#pragma unroll
            for (int i = 0; i < WORDS; i += 4) {
                const Quad quad = load_edge(row, from + 4 * i, end);
                words[i] = quad.x;
                words[i + 1] = quad.y;
                if (WORDS - i > 2) {
                    words[(i + 2) % WORDS] = quad.z;
                    words[(i + 3) % WORDS] = quad.w;
                }
            }
        }
        nan.template replace<WORDS>(words);
    }

    // Compares with the absent value, which stands at whole multiples of its size.
    template <int WORDS>
    __device__ __forceinline__ void compare(const u32 (&words)[WORDS], int64_t from, int64_t end) {
        if (!format.absent) return;
#pragma unroll
        for (int i = 0; i < WORDS; ++i) {
            const u32 phase = (u32)(from + 4 * i) & 15;
            const u32 value = phase < 8 ? (phase < 4 ? word(0) : word(1)) : (phase < 12 ? word(2) : word(3));
            differs |= (words[i] ^ value) & bytes_inside(from + 4 * i, end);
        }
    }

    // Four bytes of the absent value, repeated.
    __device__ __forceinline__ u32 word(int which) const { return (u32)little(format.absent_value + 4 * which, 4); }
};

// Zeros, for rows below the image.
DEVICE void store_zeros(u8* row, u64 bytes, u32 lane) {
    const u32 zeros[4] = {};
    const int64_t skew = (int64_t)(address_of(row) & 15);
    for (int64_t from = 16 * (int64_t)lane - skew; from < (int64_t)bytes; from += 16 * 32) {
        store_words<4>(row, from, (int64_t)bytes, zeros);
    }
}

// One row of a tile on its way.
struct PackRow {
    const u8* in;       // its first pixel
    int64_t band, col;  // bytes from one band and one column to the next
    u8* out;
    u32 width;  // pixels inside the image
};

// Rows whose samples lie together as they do in the tile: one dense band, or bands that follow each other in a pixel.
template <int SIZE> struct Line {
    typedef Packing<SIZE> State;

    MEMBER void pack(State& state, const PackRow& row) {
        const PackFormat& format = state.format;
        const int64_t pixel = (int64_t)format.samples * format.size, end = row.width * pixel;
        const int64_t bytes = (int64_t)format.row_bytes;
        // Units begin at aligned places of the output.
        int64_t step = -(int64_t)(address_of(row.out) & 15);
#pragma unroll 2
        for (; step < bytes; step += 16 * 32) {
            const int64_t from = step + 16 * state.lane;
            u32 words[4];
            state.template load<4>(row.in, step, from, end, words);
            state.template compare<4>(words, from, end);
            if (format.predictor == PREDICTOR_HORIZONTAL) {
                u32 before[4];
                state.template load<4>(row.in, step - pixel, from - pixel, end, before);
                subtract<SIZE, 4>(words, before);
            }
            if (from < bytes) store_words<4>(row.out, from, bytes, words);
        }
    }
};

// Bytes 0 of all four, bytes 1, bytes 2, bytes 3: the last first.
DEVICE void turn(u32 a, u32 b, u32 c, u32 d, u32* planes) {
    const u32 low_ab = __byte_perm(a, b, 0x5140), low_cd = __byte_perm(c, d, 0x5140);
    const u32 high_ab = __byte_perm(a, b, 0x7362), high_cd = __byte_perm(c, d, 0x7362);
    planes[0] = __byte_perm(high_ab, high_cd, 0x7632);
    planes[1] = __byte_perm(high_ab, high_cd, 0x5410);
    planes[2] = __byte_perm(low_ab, low_cd, 0x7632);
    planes[3] = __byte_perm(low_ab, low_cd, 0x5410);
}

// Four floats to their bytes by significance, the most significant first.
template <int SIZE> DEVICE void unzip(const u32 (&words)[SIZE], u32 (&planes)[SIZE]) {
    if constexpr (SIZE == 2) {
        planes[0] = __byte_perm(words[0], words[1], 0x7531);
        planes[1] = __byte_perm(words[0], words[1], 0x6420);
    } else if constexpr (SIZE == 4) {
        turn(words[0], words[1], words[2], words[3], planes);
    } else {
        turn(words[1], words[3], words[5], words[7], planes);
        turn(words[0], words[2], words[4], words[6], planes + 4);
    }
}

// The float at `place` of a row of `end` bytes, wherever it stands; 0 outside.
template <int SIZE> DEVICE u64 float_at(const Packing<SIZE>& state, const u8* row, int64_t place, int64_t end) {
    return place < end ? state.nan(little(row + place, SIZE)) : 0;
}

// Byte `k` by significance.
template <int SIZE> DEVICE u32 significant(u64 value, int k) { return (u32)(value >> 8 * (SIZE - 1 - k)) & 0xff; }

// Puts into `before` what is subtracted from the first float of a row: in the first plane nothing, in others the last
// byte of the plane before, whose float is `last`.
template <int SIZE> DEVICE void put_first(u32 (&before)[SIZE], int byte, u64 last) {
#pragma unroll
    for (int k = 0; k < SIZE; ++k) {
        const u32 value = k ? significant<SIZE>(last, k - (k > 0)) : 0;
        before[k] = (before[k] & ~(0xffu << 8 * byte)) | value << 8 * byte;
    }
}

// The same rows with the floating point predictor: bytes by significance, each less the one of the pixel before, which
// for the first pixel is the last of the plane before.
template <int SIZE> struct LineFloats {
    typedef Packing<SIZE> State;
    enum { GROUP = 4 };

    MEMBER void pack(State& state, const PackRow& row) {
        const PackFormat& format = state.format;
        const int64_t distance = format.samples, count = (int64_t)format.tile_width * distance;
        const int64_t end = row.width * distance * SIZE;
#pragma unroll 2
        for (int64_t step = 0; step < count; step += 32 * GROUP) {
            const int64_t sample = step + GROUP * state.lane;
            u32 words[SIZE], before[SIZE], planes[SIZE];
            state.template load<SIZE>(row.in, step * SIZE, sample * SIZE, end, words);
            state.template compare<SIZE>(words, sample * SIZE, end);
            unzip<SIZE>(words, planes);
            state.template load<SIZE>(row.in, (step - distance) * SIZE, (sample - distance) * SIZE, end, words);
            unzip<SIZE>(words, before);
            if (sample < distance) {
#pragma unroll
                for (int i = 0; i < GROUP; ++i) {
                    if (sample + i >= distance) continue;
                    const int64_t last = (count - distance + sample + i) * SIZE;
                    put_first<SIZE>(before, i, float_at<SIZE>(state, row.in, last, end));
                }
            }
            subtract<1, SIZE>(planes, before);
            if (sample >= count) continue;
#pragma unroll
            for (int k = 0; k < SIZE; ++k) {
                const u32 plane[1] = {planes[k]};
                store_words<1>(row.out + k * count, sample, count, plane);
            }
        }
    }
};

// Samples of SIZE bytes, WORDS words of each band, put together.
template <int SIZE, int SAMPLES, int WORDS>
DEVICE void interleave(const u32 (&bands)[SAMPLES][WORDS], u32 (&words)[SAMPLES * WORDS]) {
#pragma unroll
    for (int i = 0; i < SAMPLES * WORDS; ++i) {
        u32 word = 0;
#pragma unroll
        for (int b = 0; b < 4; b += SIZE < 4 ? SIZE : 4) {
            const int byte = 4 * i + b, sample = byte / SIZE;
            const int place = sample / SAMPLES * SIZE + byte % SIZE;
            const u32 from = bands[sample % SAMPLES][place / 4] >> 8 * (place % 4);
            word |= (SIZE == 1 ? from & 0xff : SIZE == 2 ? from & 0xffff : from) << 8 * b;
        }
        words[i] = word;
    }
}

// Two to four bands in dense rows of their own.
template <int SIZE, int SAMPLES> struct Bands {
    typedef Packing<SIZE> State;
    enum { GROUP = 16 / SIZE };

    MEMBER void pack(State& state, const PackRow& row) {
        const PackFormat& format = state.format;
        const int64_t end = (int64_t)row.width * SIZE, width = format.tile_width;
        for (int64_t step = 0; step < width; step += 32 * GROUP) {
            const int64_t pixel = step + GROUP * state.lane;
            u32 bands[SAMPLES][4], words[4 * SAMPLES];
#pragma unroll
            for (int s = 0; s < SAMPLES; ++s) {
                const u8* in = row.in + s * row.band;
                state.template load<4>(in, step * SIZE, pixel * SIZE, end, bands[s]);
                state.template compare<4>(bands[s], pixel * SIZE, end);
                if (format.predictor == PREDICTOR_HORIZONTAL) {
                    u32 before[4];
                    state.template load<4>(in, (step - 1) * SIZE, (pixel - 1) * SIZE, end, before);
                    subtract<SIZE, 4>(bands[s], before);
                }
            }
            interleave<SIZE, SAMPLES, 4>(bands, words);
            if (pixel < width) store_words<4 * SAMPLES>(row.out, pixel * SAMPLES * SIZE, (int64_t)format.row_bytes, words);
        }
    }
};

// The same with the floating point predictor.
template <int SIZE, int SAMPLES> struct BandsFloats {
    typedef Packing<SIZE> State;
    enum { GROUP = 4 };

    MEMBER void load(State& state, const PackRow& row, int s, int64_t step, int64_t pixel, u32 (&planes)[SIZE]) {
        const u8* in = row.in + s * row.band;
        const int64_t end = (int64_t)row.width * SIZE;
        u32 words[SIZE], before[SIZE];
        state.template load<SIZE>(in, step * SIZE, pixel * SIZE, end, words);
        state.template compare<SIZE>(words, pixel * SIZE, end);
        unzip<SIZE>(words, planes);
        state.template load<SIZE>(in, (step - 1) * SIZE, (pixel - 1) * SIZE, end, words);
        unzip<SIZE>(words, before);
        if (pixel == 0) {
            const int64_t last = ((int64_t)state.format.tile_width - 1) * SIZE;
            put_first<SIZE>(before, 0, float_at<SIZE>(state, in, last, end));
        }
        subtract<1, SIZE>(planes, before);
    }

    MEMBER void pack(State& state, const PackRow& row) {
        const int64_t width = state.format.tile_width, plane_bytes = width * SAMPLES;
        for (int64_t step = 0; step < width; step += 32 * GROUP) {
            const int64_t pixel = step + GROUP * state.lane;
            u32 planes[SAMPLES][SIZE];
#pragma unroll
            for (int s = 0; s < SAMPLES; ++s) load(state, row, s, step, pixel, planes[s]);
            if (pixel >= width) continue;
#pragma unroll
            for (int k = 0; k < SIZE; ++k) {
                u32 plane[SAMPLES][1], words[SAMPLES];
#pragma unroll
                for (int s = 0; s < SAMPLES; ++s) plane[s][0] = planes[s][k];
                interleave<1, SAMPLES, 1>(plane, words);
                store_words<SAMPLES>(row.out + k * plane_bytes, pixel * SAMPLES, plane_bytes, words);
            }
        }
    }
};

// Every format and all strides, a sample or a byte of the output for each lane in a step.
struct PackAny {
    typedef Packing<8> State;

    // Up to 16 bytes of a sample.
    struct Value {
        u64 low, high;
    };

    // A number of `size` bytes, at most 8, that is aligned to half of them.
    MEMBER u64 number(const u8* at, u32 size) {
        if (size == 1) return *at;
        if (address_of(at) % size == 0) return size == 2 ? *(const u16*)at : size == 4 ? *(const u32*)at : *(const u64*)at;
        return number_of_halves(at, size);
    }

    MEMBER u64 number_of_halves(const u8* at, u32 size) {
        if (size == 2) return at[0] | (u32)at[1] << 8;
        if (size == 4) return *(const u16*)at | (u32)*(const u16*)(at + 2) << 16;
        return *(const u32*)at | (u64)*(const u32*)(at + 4) << 32;
    }

    MEMBER u64 without_nan(const PackFormat& format, u64 bits) {
        if (!format.nan) return bits;
        if (format.size == 2) return NanValue<2>(true, format.nan_value)(bits);
        return format.size == 4 ? NanValue<4>(true, format.nan_value)(bits) : NanValue<8>(true, format.nan_value)(bits);
    }

    // Sample `index` of a row of the tile.
    MEMBER Value value(State& state, const PackRow& row, u64 index) {
        const PackFormat& format = state.format;
        const u64 place = index / format.samples;
        const u32 band = (u32)(index % format.samples);
        const u64 x = place < row.width ? place : row.width - 1;
        if (place != x && !format.carried) return Value{0, 0};
        const u8* at = row.in + band * row.band + (int64_t)x * row.col;
        Value value = {number(at, smaller(format.size, 8)), 0};
        if (format.size == 16) value.high = number(at + 8, 8);
        value.low = without_nan(format, value.low);
        if (format.absent) {
            const u64 mask = format.size < 8 ? (1ull << 8 * format.size) - 1 : ~0ull;
            state.differs |= (value.low ^ little(format.absent_value, 8)) & mask ? 1u : 0u;
            if (format.size == 16) state.differs |= value.high != little(format.absent_value + 8, 8);
        }
        return value;
    }

    MEMBER void whole(State& state, const PackRow& row) {
        const PackFormat& format = state.format;
        const u64 count = (u64)format.tile_width * format.samples;
        for (u64 i = state.lane; i < count; i += 32) {
            Value own = value(state, row, i);
            if (format.predictor == PREDICTOR_HORIZONTAL && i >= format.samples) {
                own.low -= value(state, row, i - format.samples).low;
            }
            u8* out = row.out + i * format.size;
            if (format.size == 1) *out = (u8)own.low;
            if (format.size == 2) *(u16*)out = (u16)own.low;
            if (format.size == 4) *(u32*)out = (u32)own.low;
            if (format.size >= 8) *(u64*)out = own.low;
            if (format.size == 16) *(u64*)(out + 8) = own.high;
        }
    }

    MEMBER void floats(State& state, const PackRow& row) {
        const PackFormat& format = state.format;
        const u64 count = (u64)format.tile_width * format.samples;
        for (u64 i = state.lane; i < count; i += 32) {
            const u64 own = value(state, row, i).low;
            const bool first = i < format.samples;
            // What the first pixel of a plane follows stands at the end of the one before.
            const u64 before = value(state, row, first ? count - format.samples + i : i - format.samples).low;
            for (u32 k = 0; k < format.size; ++k) {
                const u32 shift = 8 * (format.size - 1 - k);
                const u64 other = !first ? before >> shift : k ? before >> shift >> 8 : 0;
                row.out[k * count + i] = (u8)((own >> shift) - other);
            }
        }
    }

    // A sample as the bits that are written: the nearest value that fits.
    MEMBER u64 some_bits(State& state, const PackRow& row, u64 index) {
        const PackFormat& format = state.format;
        const u64 own = value(state, row, index).low;
        const u64 mask = ~0ull >> (64 - format.bits);
        if (format.bits == 1 && format.size == 1) return own != 0;
        if (!format.is_signed) return own < mask ? own : mask;
        const u32 unused = 64 - 8 * format.size;
        const int64_t number = (int64_t)(own << unused) >> unused;
        const int64_t most = (int64_t)(mask >> 1);
        return (u64)(number < -most - 1 ? -most - 1 : number > most ? most : number) & mask;
    }

    MEMBER void bits(State& state, const PackRow& row) {
        const PackFormat& format = state.format;
        const u64 count = (u64)format.tile_width * format.samples;
        for (u64 byte = state.lane; byte < format.row_bytes; byte += 32) {
            u32 out = 0;
            for (u64 bit = 8 * byte; bit < 8 * byte + 8;) {
                const u64 sample = bit / format.bits;
                const u32 skip = (u32)(bit % format.bits);
                const u32 here = smaller(format.bits - skip, (u32)(8 * byte + 8 - bit));
                const u64 own = sample < count ? some_bits(state, row, sample) : 0;
                const u32 part = (u32)(own >> (format.bits - skip - here)) & ((1u << here) - 1);
                out |= part << (u32)(8 * byte + 8 - bit - here);
                bit += here;
            }
            row.out[byte] = (u8)out;
        }
    }

    MEMBER void pack(State& state, const PackRow& row) {
        const PackFormat& format = state.format;
        if (format.bits != 8 * format.size) bits(state, row);
        else if (format.predictor == PREDICTOR_FLOAT) floats(state, row);
        else whole(state, row);
    }
};

// The rows of one warp.
template <class Path>
DEVICE void pack_by(const PackTile* tiles, u32 count, u32 per_tile, const PackFormat& format, u32* differs) {
    const u64 warp = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const u32 number = (u32)(warp / per_tile), first = (u32)(warp % per_tile) * PACK_ROWS;
    if (number >= count) return;
    const PackTile tile = tiles[number];
    typename Path::State state(format, threadIdx.x & 31);
    const u32 last = smaller(tile.rows, first + PACK_ROWS);
    for (u32 y = first; y < last; ++y) {
        u8* out = tile.out + (u64)y * format.row_bytes;
        if (y >= tile.height && !format.carried) {
            store_zeros(out, format.row_bytes, state.lane);
            continue;
        }
        const u32 from = smaller(y, tile.height - 1);
        const PackRow row = {tile.in + (int64_t)from * tile.row, tile.band, tile.col, out, tile.width};
        Path::pack(state, row);
    }
    if (format.absent && __any_sync(FULL_WARP, state.differs != 0) && state.lane == 0) differs[number] = 1;
}

// Rows with any strides to rows with any strides: for each lane 16 bytes where both are dense, else values.
struct Collect {
    const u8* in;
    u8* out;
    int64_t in_col, out_col;
    u32 columns, size, lane;
    bool nan;
    const u8* nan_value;

    template <int SIZE> DEVICE_MEMBER void dense() const {
        const NanValue<SIZE> replace(nan, nan_value);
        const int64_t end = (int64_t)columns * size;
        for (int64_t step = -(int64_t)(address_of(out) & 15); step < end; step += 16 * 32) {
            const int64_t from = step + 16 * lane;
            u32 words[4];
            load_words<4>(in, from, end, step_is_inside<4>(in, step, end), words);
            replace.template replace<4>(words);
            if (from < end) store_words<4>(out, from, end, words);
        }
    }

    // UNIT bytes at a time: a value, or half of a complex one.
    template <class Unit, int SIZE> DEVICE_MEMBER void values(u32 units) const {
        const NanValue<SIZE> replace(nan, nan_value);
        for (u32 x = lane; x < columns; x += 32) {
            for (u32 i = 0; i < units; ++i) {
                const u64 value = replace(((const Unit*)(in + x * in_col))[i]);
                ((Unit*)(out + x * out_col))[i] = (Unit)value;
            }
        }
    }

    DEVICE_MEMBER void row() const {
        const u32 unit = nan || size == 1 ? size : size / 2;
        if (in_col == size && out_col == size && (!nan || address_of(out) % size == 0)) {
            if (nan && size == 2) dense<2>();
            else if (nan && size == 4) dense<4>();
            else if (nan) dense<8>();
            else dense<1>();
        } else if (unit == 1) values<u8, 1>(size);
        else if (unit == 2) values<u16, 2>(size / 2);
        else if (unit == 4) values<u32, 4>(size / 4);
        else values<u64, 8>(size / 8);
    }
};
