// Overviews: rows of a level from those of the level above, bit for bit as `cpu/reduce` makes them.
//
// A thread makes a pixel. Windows and weights along both axes come in tables from the host, so that both use the same
// numbers; sums run in the same order, and every operation is rounded for itself (`Real`), whatever the compiler is told.
#pragma once
#include "abi.h"
#include "lanes.h"

// Loops over windows, of any size, are not unrolled: there are many kernels, and most windows are small.
enum { REDUCE_THREADS = 256 };

// A double whose operations are never fused.
struct Real {
    double value;
};
DEVICE Real real_of(double value) { return Real{value}; }
DEVICE Real operator+(Real a, Real b) { return Real{__dadd_rn(a.value, b.value)}; }
DEVICE Real operator-(Real a, Real b) { return Real{__dsub_rn(a.value, b.value)}; }
DEVICE Real operator*(Real a, Real b) { return Real{__dmul_rn(a.value, b.value)}; }
DEVICE Real operator/(Real a, Real b) { return Real{__ddiv_rn(a.value, b.value)}; }
DEVICE bool operator>(Real a, Real b) { return a.value > b.value; }
DEVICE bool operator==(Real a, Real b) { return a.value == b.value; }

DEVICE u64 bits_of(double value) { return (u64)__double_as_longlong(value); }
DEVICE double of_bits(u64 bits) { return __longlong_as_double((long long)bits); }

// -- numbers of pixels

// What a function does for one type. (Those may not be `static`.)
#define FOR_TYPE template <> __device__ __forceinline__

// What means of a type are computed in, which decides how results are rounded.
enum Work { WORK_OWN, WORK_SINGLE, WORK_DOUBLE };

struct Half {
    u16 bits;
};

template <class T> struct Kind;
#define INTEGER_KIND(T, WORK_, LOWEST_, HIGHEST_)                                           \
    template <> struct Kind<T> {                                                            \
        static constexpr bool FLOAT = false;                                                \
        static constexpr Work WORK = WORK_;                                                 \
        static DEVICE_MEMBER T lowest() { return (T)(LOWEST_); }                            \
        static DEVICE_MEMBER T highest() { return (T)(HIGHEST_); }                          \
    };
INTEGER_KIND(u8, WORK_OWN, 0, 255)
INTEGER_KIND(u16, WORK_OWN, 0, 65535)
INTEGER_KIND(int8_t, WORK_SINGLE, -128, 127)
INTEGER_KIND(int16_t, WORK_SINGLE, -32768, 32767)
INTEGER_KIND(u32, WORK_DOUBLE, 0, 0xffffffffu)
INTEGER_KIND(int32_t, WORK_DOUBLE, -2147483647 - 1, 2147483647)
INTEGER_KIND(u64, WORK_DOUBLE, 0, ~0ull)
INTEGER_KIND(int64_t, WORK_DOUBLE, -9223372036854775807ll - 1, 9223372036854775807ll)

DEVICE float infinity() { return __int_as_float(0x7f800000); }
template <> struct Kind<Half> {
    static constexpr bool FLOAT = true;
    static constexpr Work WORK = WORK_DOUBLE;
    static DEVICE_MEMBER Half lowest() { return Half{0xfc00}; }
    static DEVICE_MEMBER Half highest() { return Half{0x7c00}; }
};
template <> struct Kind<float> {
    static constexpr bool FLOAT = true;
    static constexpr Work WORK = WORK_SINGLE;
    static DEVICE_MEMBER float lowest() { return -infinity(); }
    static DEVICE_MEMBER float highest() { return infinity(); }
};
template <> struct Kind<double> {
    static constexpr bool FLOAT = true;
    static constexpr Work WORK = WORK_DOUBLE;
    static DEVICE_MEMBER double lowest() { return -(double)infinity(); }
    static DEVICE_MEMBER double highest() { return (double)infinity(); }
};

template <class T> DEVICE Real real(T value) { return Real{(double)value}; }
FOR_TYPE Real real<Half>(Half half) {
    const u32 exponent = half.bits >> 10 & 0x1f, fraction = half.bits & 0x3ff;
    double magnitude;
    if (exponent == 0) magnitude = (double)fraction * of_bits((u64)(1023 - 24) << 52);
    else if (exponent == 0x1f) magnitude = fraction == 0 ? (double)infinity() : of_bits(0x7ff8ull << 48);
    else magnitude = (double)(1024 + fraction) * of_bits((u64)(1023 - 25 + exponent) << 52);
    return Real{half.bits >> 15 ? -magnitude : magnitude};
}

template <class T> DEVICE bool is_nan(T) { return false; }
FOR_TYPE bool is_nan<float>(float value) { return value != value; }
FOR_TYPE bool is_nan<double>(double value) { return value != value; }
FOR_TYPE bool is_nan<Half>(Half value) { return (value.bits & 0x7fff) > 0x7c00; }

template <class T> DEVICE bool same(T a, T b) { return a == b; }
FOR_TYPE bool same<Half>(Half a, Half b) { return real(a) == real(b); }
template <class T> DEVICE bool less(T a, T b) { return a < b; }
FOR_TYPE bool less<Half>(Half a, Half b) { return real(b) > real(a); }

// Whether a value is nodata. Files and their texts are often a last digit off, so floats need not be quite equal.
template <class T> DEVICE bool is_nodata(T value, T nodata) { return same(value, nodata); }
FOR_TYPE bool is_nodata<float>(float value, float nodata) {
    const float a = __fmul_rn(value, 0.5f), b = __fmul_rn(nodata, 0.5f);
    const float apart = __fsub_rn(a, b), sum = __fadd_rn(a, b);
    return value == nodata || (apart < 0 ? -apart : apart) < __fmul_rn(sum < 0 ? -sum : sum, 0x1p-22f);
}
FOR_TYPE bool is_nodata<double>(double value, double nodata) {
    const double a = __dmul_rn(value, 0.5), b = __dmul_rn(nodata, 0.5);
    const double apart = __dsub_rn(a, b), sum = __dadd_rn(a, b);
    return value == nodata || (apart < 0 ? -apart : apart) < __dmul_rn(sum < 0 ? -sum : sum, 0x1p-51);
}

// The number without its fraction, as near as the type has it; 0 for NaN.
template <class T> DEVICE T whole_number(double value) {
    if (value != value) return 0;
    if (value <= (double)Kind<T>::lowest()) return Kind<T>::lowest();
    // The largest 64-bit numbers are rounded up here, and none so large must be converted.
    if (value >= (double)Kind<T>::highest()) return Kind<T>::highest();
    return (T)value;
}

// The nearest number, halves away from zero for integers.
template <class T> DEVICE T from_double(Real value) {
    return whole_number<T>(__dadd_rn(value.value, copysign(0.5, value.value)));
}
FOR_TYPE double from_double<double>(Real value) { return value.value; }
FOR_TYPE float from_double<float>(Real value) { return __double2float_rn(value.value); }
FOR_TYPE Half from_double<Half>(Real value) {
    const u64 bits = bits_of(value.value);
    const u16 sign = bits >> 63 ? 0x8000 : 0;
    const double magnitude = of_bits(bits & ~(1ull << 63));
    if (magnitude != magnitude) return Half{(u16)(sign | 0x7e00)};
    if (magnitude >= 65520.0) return Half{(u16)(sign | 0x7c00)};
    // Bits grow with the number: whole steps at its exponent, and those of all exponents below.
    const u64 own = bits_of(magnitude) >> 52, least = 1023 - 14, exponent = own > least ? own : least;
    const u16 steps = (u16)rint(__ddiv_rn(magnitude, of_bits((exponent - 10) << 52)));
    return Half{(u16)(sign | (u16)(((exponent - least) << 10) + steps))};
}
template <class T> DEVICE T from_single(float value) {
    return whole_number<T>((double)__fadd_rn(value, copysignf(0.5f, value)));
}
FOR_TYPE float from_single<float>(float value) { return value; }
FOR_TYPE double from_single<double>(float value) { return (double)value; }
FOR_TYPE Half from_single<Half>(float value) { return from_double<Half>(Real{(double)value}); }

// What a computation that has no result gives here is what it gives on the host.
template <class T> DEVICE T settle(T value, bool) { return value; }
FOR_TYPE float settle<float>(float value, bool negative) {
    return value != value ? __int_as_float(negative ? (int)0xffc00000u : 0x7fc00000) : value;
}
FOR_TYPE double settle<double>(double value, bool negative) {
    return value != value ? of_bits(negative ? 0xfff8ull << 48 : 0x7ff8ull << 48) : value;
}
FOR_TYPE Half settle<Half>(Half value, bool negative) {
    return is_nan(value) ? Half{(u16)(negative ? 0xfe00 : 0x7e00)} : value;
}

template <class T> DEVICE T number_of(const u8* bytes) {
    const u64 bits = little(bytes, sizeof(T));
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// -- rows above

// Rows of one band of the level above, and which of their pixels count.
template <class T> struct Above {
    const Reduction& plan;
    const u8* pixels;
    bool has_nodata;
    T nodata;

    __device__ Above(const Reduction& plan, u32 band)
        : plan(plan), pixels(plan.in + band * plan.in_band), has_nodata(plan.has_nodata != 0),
          nodata(number_of<T>(plan.nodata)) {}

    __device__ __forceinline__ T value(u32 y, u32 x) const {
        return ((const T*)(pixels + (u64)(y - plan.in_first) * plan.in_row))[x];
    }

    __device__ __forceinline__ bool masked(u32 y, u32 x) const {
        return plan.in_mask && plan.in_mask[(u64)(y - plan.in_first) * plan.from_width + x] == 0;
    }

    __device__ __forceinline__ bool counts(T value) const {
        return !is_nan(value) && !(has_nodata && is_nodata(value, nodata));
    }

    __device__ __forceinline__ bool counts(T value, u32 y, u32 x) const { return counts(value) && !masked(y, x); }
};

// The pixel that a thread makes.
struct Pixel {
    u32 band, y, x;
    ReduceWindow rows, columns;
    const double* row_weights;
    const double* column_weights;
    bool in_data;  // its mask, once it is made

    __device__ Pixel(const Reduction& plan, u32 band, u32 y, u32 x)
        : band(band), y(y), x(x), rows(plan.rows[y]), columns(plan.columns[x]), row_weights(plan.weights + rows.weights),
          column_weights(plan.weights + columns.weights),
          in_data(!plan.out_mask || plan.out_mask[(u64)(y - plan.out_first) * plan.width + x] != 0) {}

    __device__ __forceinline__ Real down(u32 i) const { return Real{row_weights[i]}; }
    __device__ __forceinline__ Real across(u32 i) const { return Real{column_weights[i]}; }
};

// What stands where no pixel counts: nodata, or else NaN for what was NaN and 0 for what was masked.
template <class T> DEVICE T fill(const Above<T>& above, const Pixel& pixel) {
    if (above.has_nodata) return above.nodata;
    return Kind<T>::FLOAT && pixel.in_data ? from_double<T>(Real{of_bits(0x7ff8ull << 48)}) : T{};
}

template <class T> DEVICE T clamp(const Reduction& plan, T value) {
    const T low = number_of<T>(plan.low), high = number_of<T>(plan.high);
    if (Kind<T>::FLOAT) return value;
    return less(value, low) ? low : less(high, value) ? high : value;
}

// Whether all pixels of all rows of a window count, by the marks of `reduce_whole`.
DEVICE bool all_whole(const Reduction& plan, u32 band, const ReduceWindow& rows) {
    if (!plan.whole) return true;
    const u8* marks = plan.whole + (u64)band * plan.in_rows + (rows.start - plan.in_first);
    bool all = true;
#pragma unroll 1
    for (u32 i = 0; i < rows.count; ++i) all = all && marks[i] != 0;
    return all;
}

// -- means

// Average, or root mean square.
template <class T> struct Mean {
    const Reduction& plan;
    const Above<T> above;
    const Pixel& pixel;
    bool square;

    __device__ Mean(const Reduction& plan, const Pixel& pixel)
        : plan(plan), above(plan, pixel.band), pixel(pixel), square(plan.method == REDUCE_RMS) {}

    __device__ __forceinline__ Real term(T value) const {
        const Real number = real(value);
        return square ? number * number : number;
    }

    // The integer whose square is nearest to the mean.
    __device__ T whole_root(Real mean, Real root) const {
        const Real below = Real{floor(root.value)};
        const Real rest = mean - (below * below + below);
        return from_double<T>(rest.value > 0.5 ? below + Real{1.0} : below);
    }

    // The result for a mean, rounded where the host rounds it.
    __device__ T result(Real mean) const {
        const Real value = square ? Real{__dsqrt_rn(mean.value)} : mean;
        T rounded;
        bool hit = false;
        if (Kind<T>::WORK == WORK_OWN) {
            rounded = square ? whole_root(mean, value) : from_double<T>(value);
            hit = above.has_nodata && same(rounded, above.nodata);
        } else if (Kind<T>::WORK == WORK_SINGLE) {
            const float single = __double2float_rn(value.value);
            rounded = from_single<T>(single);
            hit = above.has_nodata && __double2float_rn(real(above.nodata).value) == single;
        } else {
            rounded = from_double<T>(value);
            hit = above.has_nodata && real(above.nodata) == value;
        }
        return hit ? number_of<T>(plan.beside) : settle(rounded, plan.negative_nan);
    }

    // Nothing says that a pixel might not count.
    __device__ __forceinline__ bool plain() const { return !above.has_nodata && !plan.masked; }

    // Means of four numbers that all count, where the type has a quick way.
    static __device__ __forceinline__ bool quarter(const float (&v)[4], bool plain, float& out) {
        if (plain) {
            float part[4];
            for (int i = 0; i < 4; ++i) part[i] = __fmul_rn(v[i], 0.25f);
            out = __fadd_rn(__fadd_rn(part[0], part[2]), __fadd_rn(part[1], part[3]));
        } else {
            const Real sum = (real(v[0]) + real(v[1])) + (real(v[2]) + real(v[3]));
            out = __double2float_rn((sum / Real{4.0}).value);
        }
        return true;
    }
    static __device__ __forceinline__ bool quarter(const double (&v)[4], bool plain, double& out) {
        const Real part = Real{0.25};
        const Real sum = plain ? (real(v[0]) * part + real(v[2]) * part) + (real(v[1]) * part + real(v[3]) * part)
                               : ((real(v[0]) + real(v[1])) + (real(v[2]) + real(v[3]))) / Real{4.0};
        out = sum.value;
        return true;
    }
    static __device__ __forceinline__ bool quarter(const Half (&)[4], bool, Half&) { return false; }
    template <class I> static __device__ __forceinline__ bool quarter(const I (&v)[4], bool, I& out) {
        if (sizeof(I) == 8) return false;
        const int64_t sum = (int64_t)v[0] + (int64_t)v[1] + (int64_t)v[2] + (int64_t)v[3];
        // The shift rounds down: half of four less one for numbers below zero rounds halves away from it.
        out = (I)((sum + 2 - (sum < 0 ? 1 : 0)) >> 2);
        return true;
    }

    __device__ bool quick(T& out) const {
        const bool exact = Kind<T>::FLOAT || Kind<T>::WORK == WORK_OWN || !above.has_nodata;
        const u32 y = pixel.rows.start, x = 2 * pixel.x;
        const T four[4] = {above.value(y, x), above.value(y, x + 1), above.value(y + 1, x), above.value(y + 1, x + 1)};
        if (square || !exact || !quarter(four, plain(), out)) return false;
        out = settle(out, plan.negative_nan);
        if (above.has_nodata && same(out, above.nodata)) out = number_of<T>(plan.beside);
        return true;
    }

    __device__ __forceinline__ bool in_pairs() const { return plan.pairs && pixel.rows.pair; }

    // Two by two pixels of which some count.
    __device__ T quarter_some() const {
        const Real zero = Real{0.0};
        Real sums[2];
        u32 count = 0;
        for (u32 i = 0; i < 2; ++i) {
            Real terms[2];
            for (u32 j = 0; j < 2; ++j) {
                const u32 y = pixel.rows.start + i, x = 2 * pixel.x + j;
                const T value = above.value(y, x);
                const bool counts = above.counts(value, y, x);
                terms[j] = counts ? term(value) : zero;
                count += counts;
            }
            sums[i] = terms[0] + terms[1];
        }
        return count ? result((sums[0] + sums[1]) / Real{(double)count}) : fill(above, pixel);
    }

    // The first of three columns, and the weight of each: 0 for one that does not belong here.
    __device__ __forceinline__ u32 trio() const { return smaller(pixel.columns.start, plan.from_width - 3); }
    __device__ __forceinline__ Real trio_weight(u32 x) const {
        const u32 i = x - pixel.columns.start;
        return i < pixel.columns.count ? pixel.across(i) : Real{0.0};
    }

    // One row of which all pixels count, each multiplied with its part.
    __device__ Real line_all(u32 y, Real part) const {
        if (plan.trios) {
            Real terms[3];
            for (u32 i = 0; i < 3; ++i) {
                const u32 x = trio() + i;
                const Real weight = trio_weight(x), own = term(above.value(y, x)) * part;
                // An infinity must not meet a weight of 0.
                terms[i] = Kind<T>::FLOAT && weight.value == 0.0 ? Real{0.0} : own * weight;
            }
            return terms[0] + terms[1] + terms[2];
        }
        Real sum = term(above.value(y, pixel.columns.start)) * part * pixel.across(0);
#pragma unroll 1
        for (u32 i = 1; i < pixel.columns.count; ++i) {
            const Real own = term(above.value(y, pixel.columns.start + i)) * part;
            sum = sum + (i + 1 < pixel.columns.count ? own : own * pixel.across(i));
        }
        return sum;
    }

    __device__ T from_all() const {
        // Floats are made smaller before they are added, which decides some halves of integers.
        const bool as_they_are = Kind<T>::WORK == WORK_OWN || !plain() || square;
        const Real times = as_they_are ? Real{1.0} : Real{(double)pixel.rows.count} * Real{(double)pixel.columns.count};
        const Real part = Real{1.0} / times;
        Real total = Real{0.0};
#pragma unroll 1
        for (u32 i = 0; i < pixel.rows.count; ++i) {
            total = total + line_all(pixel.rows.start + i, part) * pixel.down(i);
        }
        const Real whole = Real{pixel.columns.whole} * Real{pixel.rows.whole};
        return result(times * (total / whole));
    }

    // Sums of those pixels of a row that count, and of their weights.
    __device__ void line_some(u32 y, Real& line, Real& weights) const {
        const bool trios = plan.trios;
        const u32 first = trios ? trio() : pixel.columns.start, count = trios ? 3 : pixel.columns.count;
#pragma unroll 1
        for (u32 i = 0; i < count; ++i) {
            const u32 x = first + i;
            const T value = above.value(y, x);
            const bool counts = above.counts(value, y, x);
            const Real weight = counts ? (trios ? trio_weight(x) : pixel.across(i)) : Real{0.0};
            if (!trios && !counts) continue;
            // Of three columns, one that does not belong here must not count, be it an infinity.
            const Real own = trios && weight.value == 0.0 ? Real{0.0} : term(value) * weight;
            line = trios && i == 0 ? own : line + own;
            weights = trios && i == 0 ? weight : weights + weight;
        }
    }

    __device__ T from_some() const {
        Real total = Real{0.0}, whole = Real{0.0};
#pragma unroll 1
        for (u32 i = 0; i < pixel.rows.count; ++i) {
            Real line = Real{0.0}, weights = Real{0.0};
            line_some(pixel.rows.start + i, line, weights);
            total = total + line * pixel.down(i);
            whole = whole + weights * pixel.down(i);
        }
        return whole.value > 0.0 ? result(total / whole) : fill(above, pixel);
    }

    __device__ T make() const {
        if (!all_whole(plan, pixel.band, pixel.rows)) return in_pairs() ? quarter_some() : from_some();
        T out;
        return in_pairs() && quick(out) ? out : from_all();
    }
};

// -- one of the values

// The most frequent value; of several the one that was first to be so often, row by row.
template <class T> DEVICE T mode(const Above<T>& above, const Pixel& pixel) {
    const u32 wide = pixel.columns.count, all = pixel.rows.count * wide;
    T best = fill(above, pixel);
    u32 most = 0;
#pragma unroll 1
    for (u32 i = 0; i < all; ++i) {
        const u32 y = pixel.rows.start + i / wide, x = pixel.columns.start + i % wide;
        const T value = above.value(y, x);
        if (!above.counts(value, y, x)) continue;
        u32 count = 0;
#pragma unroll 1
        for (u32 j = 0; j <= i; ++j) {
            const u32 row = pixel.rows.start + j / wide, column = pixel.columns.start + j % wide;
            const T other = above.value(row, column);
            count += same(other, value) && above.counts(other, row, column);
        }
        if (count > most) {
            most = count;
            best = value;
        }
    }
    return best;
}

// The smallest or the largest value: down the columns first, so that of equal ones the host's is taken.
template <class T> DEVICE T extreme(const Above<T>& above, const Pixel& pixel, bool largest) {
    const T worst = largest ? Kind<T>::lowest() : Kind<T>::highest();
    const auto better = [&](T a, T b) { return (largest ? less(a, b) : less(b, a)) ? b : a; };
    T best = worst;
    bool any = false;
#pragma unroll 1
    for (u32 j = 0; j < pixel.columns.count; ++j) {
        T of_column = worst;
#pragma unroll 1
        for (u32 i = 0; i < pixel.rows.count; ++i) {
            const u32 y = pixel.rows.start + i, x = pixel.columns.start + j;
            const T value = above.value(y, x);
            const bool counts = above.counts(value, y, x);
            of_column = better(of_column, counts ? value : worst);
            any = any || counts;
        }
        best = better(best, of_column);
    }
    return any ? best : fill(above, pixel);
}

// -- bilinear, cubic

// The weighted mean of those values that count, one after the other.
struct Blend {
    bool negative;  // weights below zero: half of the reach must be data, or too few of them could weigh too much
    u32 run = 0, longest = 0;
    Real sum = {0.0}, weights = {0.0};

    __device__ explicit Blend(bool negative) : negative(negative) {}

    __device__ __forceinline__ void add(bool counts, Real value, Real weight) {
        run = counts ? run + 1 : 0;
        longest = run > longest ? run : longest;
        if (!counts) return;
        sum = sum + value * weight;
        weights = weights + weight;
    }

    __device__ __forceinline__ bool found(u32 count) const {
        return (!negative || longest >= count / 2) && weights.value > 0.0;
    }
};

template <class T> struct Convolve {
    const Reduction& plan;
    const Above<T> above;
    const Pixel& pixel;

    __device__ Convolve(const Reduction& plan, const Pixel& pixel) : plan(plan), above(plan, pixel.band), pixel(pixel) {}

    __device__ T result(Real value) const {
        const T rounded =
            Kind<T>::WORK == WORK_DOUBLE ? from_double<T>(value) : from_single<T>(__double2float_rn(value.value));
        const T inside = clamp(plan, rounded);
        const bool hit = above.has_nodata && same(inside, above.nodata);
        return hit ? number_of<T>(plan.beside) : settle(inside, plan.negative_nan);
    }

    // Rows that hold data alone: down first.
    __device__ T from_all() const {
        Real sum = Real{-0.0};
#pragma unroll 1
        for (u32 j = 0; j < pixel.columns.count; ++j) {
            Real line = Real{0.0};
#pragma unroll 1
            for (u32 i = 0; i < pixel.rows.count; ++i) {
                line = line + real(above.value(pixel.rows.start + i, pixel.columns.start + j)) * pixel.down(i);
            }
            sum = sum + line * pixel.across(j);
        }
        return result(sum);
    }

    __device__ T make() const {
        if (all_whole(plan, pixel.band, pixel.rows)) return from_all();
        const bool negative = plan.method == REDUCE_CUBIC;
        Blend down(negative);
#pragma unroll 1
        for (u32 i = 0; i < pixel.rows.count; ++i) {
            Blend across(negative);
#pragma unroll 1
            for (u32 j = 0; j < pixel.columns.count; ++j) {
                const u32 y = pixel.rows.start + i, x = pixel.columns.start + j;
                const T value = above.value(y, x);
                across.add(above.counts(value, y, x), real(value), pixel.across(j));
            }
            const bool found = across.found(pixel.columns.count);
            down.add(found, found ? across.sum / across.weights : Real{0.0}, pixel.down(i));
        }
        return down.found(pixel.rows.count) ? result(down.sum / down.weights) : fill(above, pixel);
    }
};

// -- gauss

template <class T> DEVICE T gauss(const Reduction& plan, const Above<T>& above, const Pixel& pixel) {
    const Real zero = Real{0.0};
    Real total = Real{-0.0}, whole = Real{-0.0};
#pragma unroll 1
    for (u32 j = 0; j < pixel.columns.count; ++j) {
        Real sum = zero, weights = zero;
#pragma unroll 1
        for (u32 i = 0; i < pixel.rows.count; ++i) {
            const u32 y = pixel.rows.start + i, x = pixel.columns.start + j;
            const T value = above.value(y, x);
            const bool counts = above.counts(value, y, x);
            const Real weight = counts ? pixel.down(i) : zero;
            sum = sum + (counts ? real(value) : zero) * weight;
            weights = weights + weight;
        }
        total = total + sum * pixel.across(j);
        whole = whole + weights * pixel.across(j);
    }
    if (!(whole.value > 0.0)) return fill(above, pixel);
    return settle(clamp(plan, from_double<T>(total / whole)), plan.negative_nan);
}

// -- complex numbers, and pixels as they are

// Means of both halves on their own.
template <class T> DEVICE void complex_mean(const Reduction& plan, const Pixel& pixel, T* out) {
    const u8* pixels = plan.in + pixel.band * plan.in_band;
    const T nodata[2] = {number_of<T>(plan.nodata), number_of<T>(plan.nodata + sizeof(T))};
    const Above<T> rows(plan, pixel.band);
    Real sums[2] = {{0.0}, {0.0}};
    u64 count = 0;
#pragma unroll 1
    for (u32 i = 0; i < pixel.rows.count; ++i) {
        const u32 y = pixel.rows.start + i;
        const T* row = (const T*)(pixels + (u64)(y - plan.in_first) * plan.in_row);
#pragma unroll 1
        for (u32 j = 0; j < pixel.columns.count; ++j) {
            const u32 x = pixel.columns.start + j;
            const T re = row[2 * (u64)x], im = row[2 * (u64)x + 1];
            const bool absent = plan.has_nodata && same(re, nodata[0]) && same(im, nodata[1]);
            if (absent || is_nan(re) || is_nan(im) || rows.masked(y, x)) continue;
            sums[0] = sums[0] + real(re);
            sums[1] = sums[1] + real(im);
            ++count;
        }
    }
    for (u32 half = 0; half < 2; ++half) {
        if (count) out[half] = settle(from_double<T>(sums[half] / Real{(double)count}), plan.negative_nan);
        else if (plan.has_nodata) out[half] = nodata[half];
        else out[half] = Kind<T>::FLOAT && pixel.in_data ? from_double<T>(Real{of_bits(0x7ff8ull << 48)}) : T{};
    }
}

// The pixel of a thread of the grid, or none: y is the band, x counts blocks of columns row by row.
struct ReducePlace {
    u32 y, x;
    bool inside;

    __device__ explicit ReducePlace(const Reduction& plan) {
        const u32 across = (plan.width + REDUCE_THREADS - 1) / REDUCE_THREADS;
        y = plan.out_first + blockIdx.x / across;
        x = blockIdx.x % across * REDUCE_THREADS + threadIdx.x;
        inside = x < plan.width && y - plan.out_first < plan.out_rows;
    }
};

template <class T> DEVICE T* pixel_out(const Reduction& plan, u32 band, u32 y) {
    return (T*)(plan.out + band * plan.out_band + (u64)(y - plan.out_first) * plan.out_row);
}

template <class T> DEVICE void reduce_mean_to(const Reduction& plan) {
    const ReducePlace at(plan);
    if (!at.inside) return;
    const Pixel pixel(plan, blockIdx.y, at.y, at.x);
    pixel_out<T>(plan, blockIdx.y, at.y)[at.x] = Mean<T>(plan, pixel).make();
}

template <class T> DEVICE T reduced(const Reduction& plan, const Pixel& pixel) {
    const Above<T> above(plan, pixel.band);
    if (plan.method == REDUCE_MODE) return mode(above, pixel);
    if (plan.method == REDUCE_MIN || plan.method == REDUCE_MAX) return extreme(above, pixel, plan.method == REDUCE_MAX);
    if (plan.method == REDUCE_GAUSS) return gauss(plan, above, pixel);
    return Convolve<T>(plan, pixel).make();
}

template <class T> DEVICE void reduce_to(const Reduction& plan) {
    const ReducePlace at(plan);
    if (!at.inside) return;
    const Pixel pixel(plan, blockIdx.y, at.y, at.x);
    pixel_out<T>(plan, blockIdx.y, at.y)[at.x] = reduced<T>(plan, pixel);
}

template <class T> DEVICE void reduce_complex_to(const Reduction& plan) {
    const ReducePlace at(plan);
    if (!at.inside) return;
    const Pixel pixel(plan, blockIdx.y, at.y, at.x);
    complex_mean<T>(plan, pixel, pixel_out<T>(plan, blockIdx.y, at.y) + 2 * (u64)at.x);
}

template <class T> DEVICE void pick(const Reduction& plan, u32 y, u32 x) {
    const u32 row = plan.rows[y].start - plan.in_first, column = plan.columns[x].start;
    // Values of 16 bytes are aligned to their halves.
    const u32 units = plan.size > sizeof(T) ? plan.size / (u32)sizeof(T) : 1;
    const T* in = (const T*)(plan.in + blockIdx.y * plan.in_band + row * plan.in_row) + (u64)column * units;
    T* out = pixel_out<T>(plan, blockIdx.y, y) + (u64)x * units;
    for (u32 i = 0; i < units; ++i) out[i] = in[i];
}

DEVICE void reduce_nearest_to(const Reduction& plan) {
    const ReducePlace at(plan);
    if (!at.inside) return;
    if (plan.size == 1) pick<u8>(plan, at.y, at.x);
    else if (plan.size == 2) pick<u16>(plan, at.y, at.x);
    else if (plan.size == 4) pick<u32>(plan, at.y, at.x);
    else pick<u64>(plan, at.y, at.x);
}

// -- masks

// Whether a byte of a mask stands for data.
DEVICE bool has_data(const Reduction& plan, u32 y, u32 x) {
    return plan.in_mask[(u64)(y - plan.in_first) * plan.from_width + x] != 0;
}

DEVICE bool any_data(const Reduction& plan, const Pixel& pixel) {
#pragma unroll 1
    for (u32 i = 0; i < pixel.rows.count; ++i) {
#pragma unroll 1
        for (u32 j = 0; j < pixel.columns.count; ++j) {
            if (has_data(plan, pixel.rows.start + i, pixel.columns.start + j)) return true;
        }
    }
    return false;
}

// Which of both was first to be as often as the more frequent one is in the end.
DEVICE bool mode_of_data(const Reduction& plan, const Pixel& pixel) {
    u32 counts[2] = {}, most = 0;
    bool best = true;
#pragma unroll 1
    for (u32 i = 0; i < pixel.rows.count; ++i) {
#pragma unroll 1
        for (u32 j = 0; j < pixel.columns.count; ++j) {
            const bool data = has_data(plan, pixel.rows.start + i, pixel.columns.start + j);
            const u32 count = data ? ++counts[1] : ++counts[0];
            if (count > most) {
                most = count;
                best = data;
            }
        }
    }
    return best;
}

DEVICE bool blend_of_data(const Reduction& plan, const Pixel& pixel) {
    const bool negative = plan.method == REDUCE_CUBIC;
    Blend down(negative);
#pragma unroll 1
    for (u32 i = 0; i < pixel.rows.count; ++i) {
        Blend across(negative);
#pragma unroll 1
        for (u32 j = 0; j < pixel.columns.count; ++j) {
            across.add(has_data(plan, pixel.rows.start + i, pixel.columns.start + j), Real{1.0}, pixel.across(j));
        }
        down.add(across.found(pixel.columns.count), Real{1.0}, pixel.down(i));
    }
    return down.found(pixel.rows.count);
}

DEVICE void reduce_mask_to(Reduction plan) {
    const ReducePlace at(plan);
    if (!at.inside) return;
    u8* out = plan.out_mask + (u64)(at.y - plan.out_first) * plan.width + at.x;
    plan.out_mask = nullptr;
    const Pixel pixel(plan, 0, at.y, at.x);
    if (!plan.in_mask) {
        *out = 1;
    } else if (plan.method == REDUCE_NEAREST) {
        *out = plan.in_mask[(u64)(pixel.rows.start - plan.in_first) * plan.from_width + pixel.columns.start];
    } else if (plan.method == REDUCE_MODE) {
        *out = mode_of_data(plan, pixel);
    } else if (plan.method == REDUCE_BILINEAR || plan.method == REDUCE_CUBIC) {
        *out = blend_of_data(plan, pixel);
    } else {
        *out = any_data(plan, pixel);
    }
}

// Marks rows above of which all pixels count: a block for each row, y is the band.
template <class T> DEVICE void mark_whole(const Reduction& plan) {
    const Above<T> above(plan, blockIdx.y);
    const u32 y = plan.in_first + blockIdx.x;
    bool missing = false;
    for (u32 x = threadIdx.x; x < plan.from_width; x += REDUCE_THREADS) {
        missing = missing || !above.counts(above.value(y, x), y, x);
    }
    const bool any = __syncthreads_or(missing);
    if (threadIdx.x == 0) plan.whole[(u64)blockIdx.y * plan.in_rows + blockIdx.x] = !any;
}
