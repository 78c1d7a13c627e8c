// From decoded tiles to pixels in their place: predictor, byte order, bit depth, bands, crop and nodata in one pass.
//
// A warp takes a row. It goes along the row in steps, and in each step every lane takes a group of neighbouring pixels:
// groups are cut so that they begin at aligned places of the *output*, which is then stored in wide pieces whatever the
// window; the input is loaded in aligned words and shifted into place where the two do not agree. Sums of a predictor
// run inside the group, then over the lanes, then from step to step.
//
// Rows of tiles have fewer than 2^31 - 1024 pixels.
//
// Memory: the aligned units of 16 bytes that hold the first and the last byte of a tile's rows must be readable.
// Nothing is written but the wanted pixels.
#pragma once
#include "abi.h"
#include "lanes.h"

// Rows that a warp takes, one after the other.
enum { PLACE_ROWS = 4 };

// Turns round the bytes of every unit of `swap` bytes.
template <int WORDS> DEVICE void swap_words(u32 (&words)[WORDS], u32 swap) {
    if (swap == 0) return;
    const u32 order = swap == 2 ? 0x2301 : 0x0123;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) words[i] = __byte_perm(words[i], 0, order);
    if (swap != 8) return;
#pragma unroll
    for (int i = 0; i + 1 < WORDS; i += 2) {
        const u32 low = words[i];
        words[i] = words[i + 1];
        words[i + 1] = low;
    }
}

// Sums of a sample of SIZE bytes run in a number at least as wide.
template <int SIZE> struct Number {
    typedef u32 Type;
};
template <> struct Number<8> {
    typedef u64 Type;
};

// The bits of a float become NaN where it equals nodata: the same bits, or zero with the other sign.
template <int SIZE, class T> DEVICE T mask_nodata(T bits, T nodata) {
    const T sign = (T)1 << (8 * SIZE - 1);
    const bool both_zero = ((bits | nodata) & ~sign) == 0;
    if (bits != nodata && !both_zero) return bits;
    return SIZE == 2 ? (T)0x7e00 : SIZE == 4 ? (T)0x7fc00000u : (T)0x7ff8000000000000ull;
}

// The value of a format's nodata, kept for all rows of a warp.
template <int SIZE> struct Nodata {
    typedef typename Number<SIZE>::Type T;
    bool wanted;
    T value;

    __device__ explicit Nodata(const Format& format)
        : wanted(SIZE > 1 && format.nodata), value((T)little(format.nodata_value, SIZE)) {}

    // Sums of 16 bits may have more in the bits above, which are not stored.
    __device__ T operator()(T bits) const {
        return SIZE > 1 && wanted ? mask_nodata<SIZE, T>(SIZE == 2 ? bits & 0xffff : bits, value) : bits;
    }
};

// Stores the pixels first..first + COUNT of one band that are in begin..end. `out` is where pixel `begin` goes.
template <int SIZE, int COUNT, class T>
DEVICE void store_group(u8* out, int begin, int end, int first, const T (&values)[COUNT]) {
    enum { BYTES = SIZE * COUNT };
    u8* at = out + (int64_t)(first - begin) * SIZE;
    const bool whole = first >= begin && first + COUNT <= end;
    if (BYTES >= 4 && whole && (address_of(at) & (smaller(BYTES, 16) - 1)) == 0) {
        u32 words[BYTES / 4 + (BYTES < 4)] = {};
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            if (SIZE == 8) {
                words[2 * i] = (u32)values[i];
                words[2 * i + (BYTES > 4)] = (u32)((u64)values[i] >> 32);
            } else if (SIZE == 4) {
                words[i] = (u32)values[i];
            } else {
                const u32 mask = SIZE == 1 ? 0xff : 0xffff;
                words[i * SIZE / 4] |= ((u32)values[i] & mask) << (8 * (i * SIZE % 4));
            }
        }
        if (BYTES == 4) {
            *(u32*)at = words[0];
        } else if (BYTES == 8) {
            *(u64*)at = (u64)words[BYTES > 4] << 32 | words[0];
        } else {
#pragma unroll
            for (int i = 0; i + 3 < BYTES / 4; i += 4) {
                *(Quad*)(at + 4 * i) = Quad{words[i], words[i + 1], words[i + 2], words[i + 3]};
            }
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        if (first + i < begin || first + i >= end) continue;
        u8* to = at + i * SIZE;
        if (SIZE == 1) *to = (u8)values[i];
        if (SIZE == 2) *(u16*)to = (u16)values[i];
        if (SIZE == 4) *(u32*)to = (u32)values[i];
        if (SIZE == 8) *(u64*)to = (u64)values[i];
    }
}

// One row of one tile on its way.
struct Row {
    const u8* in;   // the row of the tile
    u8* out;        // where the first wanted pixel of band 0 of the array goes
    int x;          // first wanted pixel
    int end;        // behind the last one
    u32 plane;
};

// Where row `y` of those that are wanted of a tile goes in band 0.
DEVICE u8* out_of(const Format& format, const Place& place, u32 y) {
    return place.out + (u64)(place.at_y + y) * format.out_row + (u64)place.at_x * format.size;
}

// Row `y` of those that are wanted of a tile that has bytes.
DEVICE Row row_of(const Format& format, const Place& place, u32 y) {
    const u8* in = place.in + (u64)y * format.row_bytes;
    return Row{in, out_of(format, place, y), (int)place.x, (int)(place.x + place.width), place.plane};
}

// The first pixel from which groups of GROUP pixels of SIZE bytes begin at aligned places of the output: `from` or
// up to GROUP - 1 before it. `out` is where pixel `x` goes.
template <int SIZE, int GROUP> DEVICE int aligned_first(const u8* out, int x, int from) {
    const u64 place = address_of(out) - (u64)(u32)(x - from) * SIZE;
    return from - (int)((u32)place % (SIZE * GROUP) / SIZE);
}

// Where band `band` of the array gets its samples from: a place in the tile's pixels, or NO_SAMPLE.
enum { NO_SAMPLE = 0xffffffffu };
DEVICE u32 sample_of(const Format& format, u32 plane, u32 band) {
    const u32 stored = format.all ? band : format.band_of[band];
    if (!format.planar) return stored;
    return stored == plane ? 0u : (u32)NO_SAMPLE;
}

// The next band of the array from `band` on that a tile gives pixels to, the same in all lanes; `format.bands` or more for
// none.
DEVICE u32 next_band(const Format& format, u32 plane, u32 band, u32 lane) {
    if (!format.planar) return band;
    if (format.all) return band <= plane ? plane : format.bands;
    for (; band < format.bands; band += 32) {
        const u32 mine = band + lane;
        const bool wanted = mine < format.bands && sample_of(format, plane, mine) != NO_SAMPLE;
        const u32 found = __ballot_sync(FULL_WARP, wanted);
        if (found) return band + (u32)__ffs((int)found) - 1;
    }
    return format.bands;
}

// Whole samples without a predictor or with the horizontal one. Pixels have SAMPLES samples; with MANY they have more,
// and SAMPLES of them are taken at a time.
template <int SIZE, int SAMPLES, bool PREDICTED, bool MANY> struct Samples {
    typedef typename Number<SIZE>::Type T;
    enum {
        // Bytes of a band that a lane stores at once: what a lane loads stays near 16 bytes, and is less where single
        // bytes are summed, so that all lanes have something of a row of 256.
        STORE = SAMPLES == 1 ? (SIZE == 1 && PREDICTED ? 8 : 16) : SAMPLES == 2 ? 8 : 4,
        GROUP = STORE > SIZE ? STORE / SIZE : 1,
        VALUES = GROUP * SAMPLES,
        WORDS = VALUES * SIZE / 4,
    };

    // The group of each lane from `pixel` of lane 0 on, and from sample `sample` on. With MANY, samples behind the last
    // of a pixel are those of the next, or zeros.
    MEMBER void load(const Format& format, const Row& row, int pixel, u32 sample, u32 lane, u32 (&words)[WORDS]) {
        const int64_t end = (int64_t)format.row_bytes;
        if constexpr (!MANY) {
            const int64_t first = (int64_t)pixel * (SIZE * SAMPLES);
            const bool inside = step_is_inside<WORDS>(row.in, first, end);
            load_words<WORDS>(row.in, first + (int64_t)lane * (WORDS * 4), end, inside, words);
        } else {
            const int64_t stride = (int64_t)format.samples * SIZE;
            const int64_t first = pixel * stride + (int64_t)sample * SIZE;
            const bool inside = first >= 4 && first + (32 * GROUP + 1) * stride <= end;
#pragma unroll
            for (int g = 0; g < GROUP; ++g) {
                u32 some[WORDS / GROUP];
                load_words<WORDS / GROUP>(row.in, first + ((int64_t)lane * GROUP + g) * stride, end, inside, some);
#pragma unroll
                for (int i = 0; i < WORDS / GROUP; ++i) words[g * (WORDS / GROUP) + i] = some[i];
            }
        }
    }

    // Values of the words, 0 before the first pixel of the row.
    MEMBER void part(const u32 (&words)[WORDS], int pixel, T (&values)[VALUES]) {
#pragma unroll
        for (int i = 0; i < VALUES; ++i) {
            if (SIZE == 8) {
                values[i] = (T)((u64)words[(2 * i + 1) % WORDS] << 32 | words[2 * i % WORDS]);
            } else {
                const u32 shifted = words[i * SIZE / 4] >> (8 * (i * SIZE % 4));
                values[i] = (T)(SIZE == 1 ? shifted & 0xff : SIZE == 2 ? shifted & 0xffff : shifted);
            }
            if (PREDICTED && GROUP > 1 && pixel + i / SAMPLES < 0) values[i] = 0;
        }
    }

    // Undoes the predictor on a group of every lane; `before` has the sums of all steps before, and gets this one's.
    MEMBER void sum(T (&values)[VALUES], T (&before)[SAMPLES], u32 lane) {
#pragma unroll
        for (int i = SAMPLES; i < VALUES; ++i) values[i] += values[i - SAMPLES];
#pragma unroll
        for (int s = 0; s < SAMPLES; s += SIZE == 1 ? 2 : 1) {
            T own = values[VALUES - SAMPLES + s];
            // Two sums of bytes fit one word: 32 of them need 13 bits.
            const bool pair = SIZE == 1 && s + 1 < SAMPLES;
            if (SIZE == 1) own &= 0xff;
            if (pair) own |= (values[VALUES - SAMPLES + (s + 1) % SAMPLES] & 0xff) << 16;
            const T up_to = warp_sum_up_to(own, lane);
            const T all = __shfl_sync(FULL_WARP, up_to, 31);
            const T lower = up_to - own;
            const T base = before[s] + (pair ? lower & 0xffff : lower);
            before[s] += pair ? all & 0xffff : all;
#pragma unroll
            for (int i = s; i < VALUES; i += SAMPLES) values[i] += base;
            if (pair) {
                const int t = (s + 1) % SAMPLES;
                const T second = before[t] + (lower >> 16);
                before[t] += all >> 16;
#pragma unroll
                for (int i = t; i < VALUES; i += SAMPLES) values[i] += second;
            }
        }
    }

    MEMBER void store(const Row& row, int pixel, const Nodata<SIZE>& nodata, u32 sample, const T (&values)[VALUES],
                      u8* out) {
        T band[GROUP];
#pragma unroll
        for (int g = 0; g < GROUP; ++g) {
            T value = values[g * SAMPLES];
            // A choice among registers, for an index would move them to memory.
#pragma unroll
            for (int s = 1; s < SAMPLES; ++s)
                if (sample == (u32)s) value = values[g * SAMPLES + s];
            band[g] = nodata(value);
        }
        store_group<SIZE, GROUP, T>(out, row.x, row.end, pixel, band);
    }

    // Gives samples first..first + SAMPLES of a group to the bands that want them.
    MEMBER void distribute(const Format& format, const Row& row, int pixel, const Nodata<SIZE>& nodata, u32 first,
                           const T (&values)[VALUES]) {
        if (format.all) {
#pragma unroll
            for (u32 s = 0; s < SAMPLES; ++s) {
                if (!MANY || first + s < format.samples) {
                    store(row, pixel, nodata, s, values, row.out + (first + s) * format.out_band);
                }
            }
            return;
        }
        for (u32 band = 0; band < format.bands; ++band) {
            const u32 sample = format.band_of[band] - first;
            if (!MANY || sample < SAMPLES) store(row, pixel, nodata, sample, values, row.out + band * format.out_band);
        }
    }

    // Single bytes with a predictor: sums run in both halves of a word, which holds every other byte.
    MEMBER void place_bytes(const Row& row, u8* out, int pixel, u32 lane, u32 (&words)[WORDS], T& before) {
        u32 odd[WORDS], pairs[WORDS], own = 0, lower[WORDS];
        if (pixel < 0) {
#pragma unroll
            for (int w = 0; w < WORDS; ++w) {
                const int outside = -pixel - 4 * w;
                if (outside > 0) words[w] &= outside >= 4 ? 0 : 0xffffffffu << 8 * outside;
            }
        }
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            odd[w] = __byte_perm(words[w], 0, 0x4341);
            pairs[w] = (__byte_perm(words[w], 0, 0x4240) + odd[w]) * 0x10001u;
            lower[w] = own;
            own += pairs[w] >> 16;
        }
        const u32 up_to = warp_sum_up_to(own, lane);
        const u32 base = before + up_to - own;
        before += __shfl_sync(FULL_WARP, up_to, 31);
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            const u32 sums = pairs[w] + ((base + lower[w]) & 0xff) * 0x10001u;
            words[w] = __byte_perm(sums - odd[w], sums, 0x6240);
        }
        T values[VALUES];
        part(words, 0, values);
        store_group<SIZE, GROUP, T>(out, row.x, row.end, pixel, values);
    }

    // Places a step of a row: `words` has the group of each lane from pixel `step` on. `before` has the sums of the steps
    // before, and gets this one's.
    MEMBER void place_step(const Format& format, const Row& row, u8* out, const Nodata<SIZE>& nodata, int step, u32 first,
                           u32 lane, u32 (&words)[WORDS], T (&before)[SAMPLES]) {
        swap_words<WORDS>(words, format.swap);
        const int pixel = step + (int)lane * GROUP;
        if constexpr (SIZE == 1 && SAMPLES == 1 && PREDICTED && !MANY) {
            place_bytes(row, out, pixel, lane, words, before[0]);
            return;
        }
        T values[VALUES];
        part(words, pixel, values);
        if (PREDICTED) sum(values, before, lane);
        if (SAMPLES == 1) store(row, pixel, nodata, 0, values, out);
        else distribute(format, row, pixel, nodata, first, values);
    }

    // Where the steps of a row begin, which goes to `out`.
    MEMBER int first_step(const Row& row, const u8* out) {
        return aligned_first<SIZE, GROUP>(out, row.x, PREDICTED ? 0 : row.x);
    }

    // Places rows y..last of a tile: into band `band` where tiles have one sample, else samples from `first` on into their
    // bands. The words of the next step, of this row or the next, are on their way while this one's are summed.
    MEMBER void place(const Format& format, const Place& place, u32 y, u32 last, u32 band, u32 first, u32 lane) {
        const Nodata<SIZE> nodata(format);
        const u64 to_band = (u64)band * format.out_band;
        Row row = row_of(format, place, y);
        int step = first_step(row, row.out + to_band);
        T before[SAMPLES] = {};
        u32 words[WORDS], next[WORDS] = {};
        load(format, row, step, first, lane, next);
        for (;;) {
#pragma unroll
            for (int i = 0; i < WORDS; ++i) words[i] = next[i];
            const Row here = row;
            const int at = step;
            step += 32 * GROUP;
            const bool ends = step >= row.end;
            if (ends) {
                row = row_of(format, place, ++y);
                step = first_step(row, row.out + to_band);
            }
            if (y < last) load(format, row, step, first, lane, next);
            place_step(format, here, here.out + to_band, nodata, at, first, lane, words, before);
            if (y >= last) return;
            if (ends) {
#pragma unroll
                for (int s = 0; s < SAMPLES; ++s) before[s] = 0;
            }
        }
    }

    MEMBER void place(const Format& format, const Place& tile, u32 y, u32 last, u32 band, u32 lane) {
        if constexpr (MANY) {
            for (u32 first = 0; first < format.samples; first += SAMPLES) place(format, tile, y, last, 0, first, lane);
        } else {
            place(format, tile, y, last, band, 0, lane);
        }
    }
};

// Floating point predictor: byte planes, the most significant first, summed from the first byte of the first plane to the
// last of the last, each sample of a pixel for itself.
template <int SIZE, int SAMPLES> struct Floats {
    typedef typename Number<SIZE>::Type T;
    enum { GROUP = 4, PAIRS = SIZE / 2 };

    // The bytes of a row, plane by plane.
    struct Planes {
        const u8* in;
        int64_t bytes, plane;  // of the row and of a plane
        u32 width;             // pixels
        bool aligned;          // all groups from pixel 0 on are whole words
        bool whole;            // and all lanes have one in every step

        __device__ Planes(const Format& format, const Row& row)
            : in(row.in), bytes((int64_t)format.row_bytes), plane((int64_t)format.tile_width * SAMPLES),
              width(format.tile_width), aligned(((u32)address_of(row.in) | format.tile_width) % 4 == 0),
              whole(aligned && format.tile_width % (32 * GROUP) == 0 && format.row_bytes >> 32 == 0) {}

        // The bytes of plane `k` that belong to a lane's group, from `pixel` of lane 0 on: SAMPLES words for 4 pixels.
        __device__ __forceinline__ void load(int k, int pixel, u32 lane, u32 (&words)[SAMPLES]) const {
            if (aligned && pixel % 4 == 0) {
                const bool inside = (u32)pixel + 4 * lane < width;
                const u32* from = (const u32*)(in + k * plane + (int64_t)pixel * SAMPLES) + SAMPLES * lane;
#pragma unroll
                for (int w = 0; w < SAMPLES; ++w) words[w] = inside ? from[w] : 0;
                return;
            }
            const int64_t first = k * plane + (int64_t)pixel * SAMPLES;
            const bool inside = step_is_inside<SAMPLES>(in, first, bytes);
            load_words<SAMPLES>(in, first + 4 * SAMPLES * lane, bytes, inside, words);
        }
    };

    // Which bytes of word `w` of a group belong to sample `s`, up to byte `last`.
    static constexpr __device__ u32 which(int w, int s, int last) {
        u32 ones = 0;
        for (int b = 0; b <= last; ++b) {
            if ((4 * w + b) % SAMPLES == s) ones |= 1u << 8 * b;
        }
        return ones;
    }

    // Clears bytes of pixels before the first and behind the last one of the row, which are another plane's or no one's.
    MEMBER void clear_outside(u32 (&words)[SAMPLES], int pixel, u32 width) {
        if (pixel >= 0 && (u32)pixel + GROUP <= width) return;
#pragma unroll
        for (int i = 0; i < 4 * SAMPLES; ++i) {
            const int own = pixel + i / SAMPLES;
            if (own < 0 || own >= (int)width) words[i / 4] &= ~(0xffu << 8 * (i % 4));
        }
    }

    // The bytes of plane `k` that belong to a lane's group, zeros outside of the row. WHOLE rows begin with a step.
    template <bool WHOLE>
    MEMBER void load(const Planes& planes, int k, int step, u32 lane, u32 (&words)[SAMPLES]) {
        if constexpr (WHOLE) {
            const u32* from = (const u32*)planes.in + ((u32)k * planes.width + (u32)step) / 4 * SAMPLES + lane * SAMPLES;
#pragma unroll
            for (int w = 0; w < SAMPLES; ++w) words[w] = from[w];
        } else {
            planes.load(k, step, lane, words);
            clear_outside(words, step + (int)lane * GROUP, planes.width);
        }
    }

    template <bool WHOLE>
    MEMBER void load_all(const Planes& planes, int step, u32 lane, u32 (&words)[SIZE][SAMPLES]) {
#pragma unroll
        for (int k = 0; k < SIZE; ++k) load<WHOLE>(planes, k, step, lane, words[k]);
    }

    // Sums of all planes before each one, two in a word.
    template <bool WHOLE> MEMBER void planes_before(const Planes& planes, u32 lane, u32 (&before)[SAMPLES][PAIRS]) {
        u32 sums[SIZE][SAMPLES] = {};
#pragma unroll 2
        for (u32 step = 0; step < planes.width; step += 32 * GROUP) {
#pragma unroll
            for (int k = 0; k + 1 < SIZE; ++k) {
                u32 words[SAMPLES];
                load<WHOLE>(planes, k, (int)step, lane, words);
#pragma unroll
                for (int s = 0; s < SAMPLES; ++s) {
#pragma unroll
                    for (int w = 0; w < SAMPLES; ++w) sums[k][s] = add_bytes(words[w], which(w, s, 3), sums[k][s]);
                }
            }
        }
#pragma unroll
        for (int s = 0; s < SAMPLES; ++s) {
            u32 sum = 0;
#pragma unroll
            for (int p = 0; p < PAIRS; ++p) {
                // Two sums of bytes fit one word. That of the last plane is 0, and nobody's.
                const u32 all = warp_sum((sums[2 * p][s] & 0xff) | (sums[2 * p + 1][s] & 0xff) << 16);
                before[s][p] = (sum & 0xff) | ((sum + all) & 0xff) << 16;
                sum += all + (all >> 16);
            }
        }
    }

    // Floats of sample `s` of a lane's group; `before` has the sums of all before this step, and gets those of the next.
    MEMBER void sum(const u32 (&words)[SIZE][SAMPLES], int s, u32 (&before)[PAIRS], u32 lane, T (&values)[GROUP]) {
        u32 pairs[PAIRS][GROUP];
#pragma unroll
        for (int p = 0; p < PAIRS; ++p) {
            u32 high = 0, low = 0;
#pragma unroll
            for (int w = 0; w < SAMPLES; ++w) {
                high = add_bytes(words[2 * p][w], which(w, s, 3), high);
                low = add_bytes(words[2 * p + 1][w], which(w, s, 3), low);
            }
            // Two sums of four bytes fit one word: 32 of them and the one before need 16 bits.
            const u32 own = high + (low << 16);
            const u32 up_to = warp_sum_up_to(own, lane);
            const u32 base = before[p] + up_to - own;
            before[p] = (before[p] + __shfl_sync(FULL_WARP, up_to, 31)) & 0xff00ff;
            high = base;
            low = base >> 16;
#pragma unroll
            for (int i = s; i < 4 * SAMPLES; i += SAMPLES) {
                // The bytes of this sample in this word up to this one, and those of the words before.
                const int w = i / 4, g = i / SAMPLES;
                pairs[p][g] = __byte_perm(add_bytes(words[2 * p + 1][w], which(w, s, i % 4), low),
                                          add_bytes(words[2 * p][w], which(w, s, i % 4), high), 0x0040);
                if ((i + SAMPLES) / 4 > w) {
                    high = add_bytes(words[2 * p][w], which(w, s, 3), high);
                    low = add_bytes(words[2 * p + 1][w], which(w, s, 3), low);
                }
            }
        }
#pragma unroll
        for (int g = 0; g < GROUP; ++g) {
            if constexpr (SIZE == 2) values[g] = pairs[0][g];
            if constexpr (SIZE == 4) values[g] = __byte_perm(pairs[1][g], pairs[0][g], 0x5410);
            if constexpr (SIZE == 8) {
                values[g] = (u64)__byte_perm(pairs[1][g], pairs[0][g], 0x5410) << 32 |
                            __byte_perm(pairs[3][g], pairs[2][g], 0x5410);
            }
        }
    }

    // Places a row from `step` on: into band `band` where tiles have one sample, else into all bands of the array.
    template <bool WHOLE>
    MEMBER void place_from(const Format& format, const Row& row, const Planes& planes, int step, u8* out, u32 lane) {
        const Nodata<SIZE> nodata(format);
        u32 before[SAMPLES][PAIRS], words[SIZE][SAMPLES], next[SIZE][SAMPLES] = {};
        planes_before<WHOLE>(planes, lane, before);
        // The next step's words are on their way while this one's are summed, where there are not too many.
        constexpr bool AHEAD = SAMPLES == 1;
        if (AHEAD) load_all<WHOLE>(planes, step, lane, next);
        for (; step < row.end; step += 32 * GROUP) {
            const int pixel = step + (int)lane * GROUP;
            if (AHEAD) {
#pragma unroll
                for (int k = 0; k < SIZE; ++k) words[k][0] = next[k][0];
                if (step + 32 * GROUP < row.end) load_all<WHOLE>(planes, step + 32 * GROUP, lane, next);
            } else {
                load_all<WHOLE>(planes, step, lane, words);
            }
#pragma unroll
            for (u32 s = 0; s < SAMPLES; ++s) {
                T values[GROUP];
                sum(words, (int)s, before[s], lane, values);
#pragma unroll
                for (int g = 0; g < GROUP; ++g) values[g] = nodata(values[g]);
                if constexpr (SAMPLES == 1) {
                    store_group<SIZE, GROUP, T>(out, row.x, row.end, pixel, values);
                } else {
                    for (u32 b = format.all ? s : 0; b < (format.all ? s + 1 : format.bands); ++b) {
                        u8* to = row.out + b * format.out_band;
                        const bool wanted = format.all || format.band_of[b] == s;
                        if (wanted) store_group<SIZE, GROUP, T>(to, row.x, row.end, pixel, values);
                    }
                }
            }
        }
    }

    MEMBER void place(const Format& format, const Place& tile, u32 y, u32 last, u32 band, u32 lane) {
        for (; y < last; ++y) place_row(format, row_of(format, tile, y), band, lane);
    }

    MEMBER void place_row(const Format& format, const Row& row, u32 band, u32 lane) {
        const Planes planes(format, row);
        u8* out = row.out + (u64)band * format.out_band;
        // Reading whole words is worth more than storing whole groups.
        if (planes.whole) place_from<true>(format, row, planes, 0, out, lane);
        else place_from<false>(format, row, planes, aligned_first<SIZE, GROUP>(out, row.x, 0), out, lane);
    }
};

// Every format there is, a pixel of one band for each lane in a step.
struct Any {
    // Up to 16 bytes of a sample.
    struct Value {
        u64 low, high;
    };

    MEMBER u32 byte(const Format& format, const Row& row, u64 place) {
        const u32 byte = row.in[place];
        return format.reversed ? __brev(byte) >> 24 : byte;
    }

    // `size` bytes, at most 8, the first the lowest, or the other way round.
    MEMBER u64 number(const Format& format, const Row& row, u64 place, u32 size, bool turned) {
        u64 value = 0;
        for (u32 i = 0; i < size; ++i) value |= (u64)byte(format, row, place + i) << 8 * (turned ? size - 1 - i : i);
        return value;
    }

    MEMBER Value whole(const Format& format, const Row& row, u64 sample) {
        const u32 unit = format.swap ? format.swap : smaller(format.size, 8);
        Value value = {0, 0};
        for (u32 i = 0; i < format.size; i += unit) {
            const u64 part = number(format, row, sample * format.size + i, unit, format.swap != 0);
            if (i < 8) value.low |= part << 8 * i;
            else value.high |= part << 8 * (i - 8);
        }
        return value;
    }

    MEMBER u64 some_bits(const Format& format, const Row& row, u64 sample) {
        const u64 first = sample * format.bits;
        u64 value = 0;
        u32 have = 0;
        for (u64 place = first / 8; have < format.bits; ++place) {
            const u32 skip = place == first / 8 ? (u32)(first % 8) : 0;
            const u32 here = smaller(8 - skip, format.bits - have);
            const u32 bits = byte(format, row, place) >> (8 - skip - here) & ((1u << here) - 1);
            value = value << here | bits;
            have += here;
        }
        const bool negative = format.is_signed && value >> (format.bits - 1) & 1;
        return negative && format.bits < 64 ? value | ~0ull << format.bits : value;
    }

    // 1 sign, 7 exponent and 16 fraction bits to single precision.
    MEMBER u64 float24(u32 bits) {
        const u32 sign = bits >> 23 << 31, exponent = bits >> 16 & 0x7f, fraction = bits & 0xffff;
        if (exponent == 0x7f) return sign | 0x7f800000u | fraction << 7;
        if (exponent != 0) return sign | (exponent + 127 - 63) << 23 | fraction << 7;
        if (fraction == 0) return sign;
        // The first one of the fraction becomes the hidden bit: every such number is normal in single precision.
        const u32 high = 31 - (u32)__clz((int)fraction);
        return sign | (high + 127 - 62 - 16) << 23 | (fraction << (23 - high) & 0x7fffffu);
    }

    MEMBER Value sample(const Format& format, const Row& row, u64 index) {
        if (format.depth == DEPTH_WHOLE) return whole(format, row, index);
        if (format.depth == DEPTH_BITS) return Value{some_bits(format, row, index), 0};
        return Value{float24((u32)number(format, row, index * 3, 3, format.big != 0)), 0};
    }

    MEMBER u64 mask(const Format& format, u64 bits) {
        if (!format.nodata) return bits;
        const u64 nodata = little(format.nodata_value, smaller(format.size, 8));
        if (format.size == 2) return mask_nodata<2, u64>(bits & 0xffff, nodata);
        if (format.size == 4) return mask_nodata<4, u64>(bits & 0xffffffffu, nodata);
        return format.size == 8 ? mask_nodata<8, u64>(bits, nodata) : bits;
    }

    MEMBER void store(const Format& format, u8* out, Value value) {
        value.low = mask(format, value.low);
        if (format.size == 1) *out = (u8)value.low;
        if (format.size == 2) *(u16*)out = (u16)value.low;
        if (format.size == 4) *(u32*)out = (u32)value.low;
        if (format.size >= 8) *(u64*)out = value.low;
        if (format.size == 16) *(u64*)(out + 8) = value.high;
    }

    MEMBER void plain(const Format& format, const Row& row, u32 wanted, u8* out, u32 lane) {
        for (u32 step = (u32)row.x; step < (u32)row.end; step += 32) {
            const u32 pixel = step + lane;
            if (pixel >= (u32)row.end) continue;
            const Value value = sample(format, row, (u64)pixel * format.samples + wanted);
            store(format, out + (u64)(pixel - (u32)row.x) * format.size, value);
        }
    }

    MEMBER void horizontal(const Format& format, const Row& row, u32 wanted, u8* out,
                                                      u32 lane) {
        u64 before = 0;
        for (u32 step = 0; step < (u32)row.end; step += 32) {
            const u32 pixel = step + lane;
            const bool here = pixel < (u32)row.end;
            const u64 own = here ? whole(format, row, (u64)pixel * format.samples + wanted).low : 0;
            const u64 sum = before + warp_sum_up_to(own, lane);
            before = __shfl_sync(FULL_WARP, sum, 31);
            if (here && pixel >= (u32)row.x) store(format, out + (u64)(pixel - (u32)row.x) * format.size, Value{sum, 0});
        }
    }

    // The bytes of four planes from `first` on, in fields of 16 bits.
    MEMBER u64 four_planes(const Format& format, const Row& row, u32 first, u64 index) {
        const u64 count = (u64)format.tile_width * format.samples;
        u64 fields = 0;
        for (u32 k = 0; k < 4 && first + k < format.word; ++k) {
            fields |= (u64)byte(format, row, (first + k) * count + index) << 16 * k;
        }
        return fields;
    }

    // Sums of all planes before each of four, which have at most `format.word` planes: `sum` is of those before.
    MEMBER u64 four_before(const Format& format, const Row& row, u32 first, u32 wanted,
                                                      u32 lane, u32& sum) {
        const u64 low_bytes = 0x00ff00ff00ff00ffull;
        u64 sums = 0;
        for (u32 pixel = lane; pixel < format.tile_width; pixel += 32) {
            sums = (sums + four_planes(format, row, first, (u64)pixel * format.samples + wanted)) & low_bytes;
        }
        for (u32 d = 16; d > 0; d /= 2) sums += __shfl_xor_sync(FULL_WARP, sums, (int)d);
        u64 before = 0;
        for (u32 k = 0; k < 4; ++k) {
            before |= (u64)(sum & 0xff) << 16 * k;
            sum += (u32)(sums >> 16 * k) & 0xffff;
        }
        return before;
    }

    MEMBER void floats(const Format& format, const Row& row, u32 wanted, u8* out, u32 lane) {
        const u64 low_bytes = 0x00ff00ff00ff00ffull;
        u32 sum = 0;
        u64 before[2];
        before[0] = four_before(format, row, 0, wanted, lane, sum);
        before[1] = format.word > 4 ? four_before(format, row, 4, wanted, lane, sum) : 0;
        for (u32 step = 0; step < (u32)row.end; step += 32) {
            const u32 pixel = step + lane;
            const bool here = pixel < (u32)row.end;
            u64 value = 0;
            for (u32 half = 0; half < 2 && 4 * half < format.word; ++half) {
                const u64 own = here ? four_planes(format, row, 4 * half, (u64)pixel * format.samples + wanted) : 0;
                const u64 up_to = (half ? before[1] : before[0]) + warp_sum_up_to(own, lane);
                const u64 all = __shfl_sync(FULL_WARP, up_to, 31) & low_bytes;
                if (half) before[1] = all;
                else before[0] = all;
                for (u32 k = 0; k < 4 && 4 * half + k < format.word; ++k) value = value << 8 | (up_to >> 16 * k & 0xff);
            }
            if (!here || pixel < (u32)row.x) continue;
            if (format.depth == DEPTH_FLOAT24) value = float24((u32)value);
            store(format, out + (u64)(pixel - (u32)row.x) * format.size, Value{value, 0});
        }
    }

    MEMBER void place(const Format& format, const Place& tile, u32 y, u32 last, u32 band, u32 lane) {
        for (; y < last; ++y) place_row(format, row_of(format, tile, y), band, lane);
    }

    MEMBER void place_row(const Format& format, const Row& row, u32 band, u32 lane) {
        u8* out = row.out + (u64)band * format.out_band;
        const u32 wanted = sample_of(format, row.plane, band);
        if (format.predictor == PREDICTOR_HORIZONTAL) return horizontal(format, row, wanted, out, lane);
        if (format.predictor == PREDICTOR_FLOAT) return floats(format, row, wanted, out, lane);
        plain(format, row, wanted, out, lane);
    }
};

// Sixteen bytes of values that are not in the file. Indices are known to the compiler, so that the format stays where
// the parameters of a kernel are.
DEVICE Quad fill_quad(const Format& format) {
    u32 words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) words[w] = (u32)little(format.fill + 4 * w, 4);
    if (format.size == 1) words[0] = (words[0] & 0xff) * 0x01010101u;
    if (format.size == 2) words[0] = (words[0] & 0xffff) * 0x00010001u;
    if (format.size <= 4) words[1] = words[0];
    if (format.size <= 8) {
        words[2] = words[0];
        words[3] = words[1];
    }
    return Quad{words[0], words[1], words[2], words[3]};
}

// Fills a row of a band, `bytes` long. Values never cross an aligned 16, so all of those look alike.
DEVICE void fill_row(const Quad& quad, u8* out, u64 bytes, u32 lane) {
    const u64 begin = address_of(out), end = begin + bytes;
    for (u64 unit = (begin & ~15ull) + 16 * lane; unit < end; unit += 16 * 32) {
        u8* at = out + (int64_t)(unit - begin);
        if (unit >= begin && unit + 16 <= end) {
            *(Quad*)at = quad;
            continue;
        }
        const u32 words[4] = {quad.x, quad.y, quad.z, quad.w};
#pragma unroll
        for (u32 i = 0; i < 16; ++i) {
            if (unit + i >= begin && unit + i < end) at[i] = (u8)(words[i / 4] >> 8 * (i % 4));
        }
    }
}

// Rows of one tile for this warp: calls `Path::place` for every band, or once for all of them.
template <class Path, bool EACH_BAND>
DEVICE void place_rows(const Format& format, const Place& place, u32 first_row, u32 lane) {
    const u32 last = smaller(place.height, first_row + PLACE_ROWS);
    if (first_row >= last) return;
    const bool fills = place.in == nullptr, each = EACH_BAND || fills;
    for (u32 band = each ? next_band(format, place.plane, 0, lane) : 0; band < format.bands;
         band = next_band(format, place.plane, band + 1, lane)) {
        if (!fills) Path::place(format, place, first_row, last, band, lane);
        for (u32 y = first_row; fills && y < last; ++y) {
            u8* out = out_of(format, place, y) + (u64)band * format.out_band;
            fill_row(fill_quad(format), out, (u64)place.width * format.size, lane);
        }
        if (!each) break;
    }
}

// What a warp of the grid has to do.
struct PlaceWarp {
    u32 place, first_row, lane;

    __device__ explicit PlaceWarp(u32 per_place) {
        const u64 warp = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
        place = (u32)(warp / per_place);
        first_row = (u32)(warp % per_place) * PLACE_ROWS;
        lane = threadIdx.x & 31;
    }
};

// The rows of one warp, by one path for all formats of a kernel.
template <class Path, bool EACH_BAND>
DEVICE void place_by(const Place* places, u32 count, u32 per_place, const Format& format) {
    const PlaceWarp warp(per_place);
    if (warp.place < count) place_rows<Path, EACH_BAND>(format, places[warp.place], warp.first_row, warp.lane);
}

template <int SIZE, int SAMPLES, bool MANY>
DEVICE void place_whole(const Place* places, u32 count, u32 per_place, const Format& format) {
    if (format.predictor == PREDICTOR_NONE) {
        place_by<Samples<SIZE, SAMPLES, false, MANY>, SAMPLES == 1>(places, count, per_place, format);
    } else {
        place_by<Samples<SIZE, SAMPLES, true, MANY>, SAMPLES == 1>(places, count, per_place, format);
    }
}
