//! The inner loops in AVX2: 8-bit samples alone, the same results as the portable loops to the last bit.
#![allow(unsafe_code)] // loads and stores of vectors

use std::arch::x86_64::*;

use super::encode::{Divisors, LARGEST};
use super::transform::Block;

/// Two coefficients of 16 bits, as [`_mm256_madd_epi16`] multiplies them with the first and the second of a pair.
#[inline]
#[target_feature(enable = "avx2")]
fn factors(first: i16, second: i16) -> __m256i {
    _mm256_set1_epi32((second as i32) << 16 | (first as u16 as i32))
}

/// Eight pairs of two rows.
#[inline]
#[target_feature(enable = "avx2")]
fn pairs(a: __m128i, b: __m128i) -> __m256i {
    _mm256_set_m128i(_mm_unpackhi_epi16(a, b), _mm_unpacklo_epi16(a, b))
}

/// One dimension of the transform: rows in pairs (0, 4), (2, 6), (1, 3), (5, 7) to eight rows. The factors are sums of
/// the constants of the portable loop, so that each term of the result is one product.
#[inline]
#[target_feature(enable = "avx2")]
fn pass<const SHIFT: i32>(p04: __m256i, p26: __m256i, p13: __m256i, p57: __m256i) -> [__m256i; 8] {
    let round = _mm256_set1_epi32(1 << (SHIFT - 1));
    let t0 = _mm256_add_epi32(_mm256_madd_epi16(p04, factors(8192, 8192)), round);
    let t1 = _mm256_add_epi32(_mm256_madd_epi16(p04, factors(8192, -8192)), round);
    let t2 = _mm256_madd_epi16(p26, factors(4433, -10704));
    let t3 = _mm256_madd_epi16(p26, factors(10703, 4433));
    let even = [_mm256_add_epi32(t0, t3), _mm256_add_epi32(t1, t2), _mm256_sub_epi32(t1, t2), _mm256_sub_epi32(t0, t3)];
    let odd = [
        [factors(11363, 9633), factors(6437, 2260)],
        [factors(9633, -2259), factors(-11362, -6436)],
        [factors(6437, -11362), factors(2261, 9633)],
        [factors(2260, -6436), factors(9633, -11363)],
    ]
    .map(|[f13, f57]| _mm256_add_epi32(_mm256_madd_epi16(p13, f13), _mm256_madd_epi16(p57, f57)));
    let mut out = [round; 8];
    for k in 0..4 {
        out[k] = _mm256_srai_epi32::<SHIFT>(_mm256_add_epi32(even[k], odd[k]));
        out[7 - k] = _mm256_srai_epi32::<SHIFT>(_mm256_sub_epi32(even[k], odd[k]));
    }
    out
}

/// Rows of 32 bits to columns of 16: columns 0 and 4, 1 and 5, 2 and 6, 3 and 7 in the halves of the vectors.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose(rows: [__m256i; 8]) -> [__m256i; 4] {
    let mix = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
    let two = |a, b| _mm256_shuffle_epi8(_mm256_packs_epi32(a, b), mix);
    let (r01, r23) = (two(rows[0], rows[1]), two(rows[2], rows[3]));
    let (r45, r67) = (two(rows[4], rows[5]), two(rows[6], rows[7]));
    let (a, b) = (_mm256_unpacklo_epi32(r01, r23), _mm256_unpacklo_epi32(r45, r67));
    let (c, d) = (_mm256_unpackhi_epi32(r01, r23), _mm256_unpackhi_epi32(r45, r67));
    [_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b), _mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d)]
}

#[inline]
#[target_feature(enable = "avx2")]
fn low(v: __m256i) -> __m128i {
    _mm256_castsi256_si128(v)
}

#[inline]
#[target_feature(enable = "avx2")]
fn high(v: __m256i) -> __m128i {
    _mm256_extracti128_si256::<1>(v)
}

/// [`super::transform::inverse`].
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn inverse(block: &Block, out: &mut [u8], stride: usize) {
    let row = |i: usize| {
        let row: &[i16; 8] = block[i * 8..].first_chunk().unwrap_or(&[0; 8]);
        // SAFETY: the row is 16 bytes; the load asks for no alignment.
        unsafe { _mm_loadu_si128(row.as_ptr().cast()) }
    };
    let columns =
        pass::<11>(pairs(row(0), row(4)), pairs(row(2), row(6)), pairs(row(1), row(3)), pairs(row(5), row(7)));
    let [c04, c15, c26, c37] = transpose(columns);
    let rows = pass::<18>(
        pairs(low(c04), high(c04)),
        pairs(low(c26), high(c26)),
        pairs(low(c15), low(c37)),
        pairs(high(c15), high(c37)),
    );
    let [r04, r15, r26, r37] = transpose(rows);
    // Saturate around 0, then move to around 128.
    let centre = _mm256_set1_epi8(-128);
    let r0145 = _mm256_xor_si256(_mm256_packs_epi16(r04, r15), centre);
    let r2367 = _mm256_xor_si256(_mm256_packs_epi16(r26, r37), centre);
    let all = [low(r0145), low(r2367), high(r0145), high(r2367)];
    let out = &mut out[..stride * 7 + 8];
    for (i, two) in all.into_iter().enumerate() {
        // SAFETY: rows 2i and 2i + 1 are in `out`, eight bytes each: their ends are at most at `stride * 7 + 8`.
        unsafe {
            _mm_storel_epi64(out.as_mut_ptr().add(stride * 2 * i).cast(), two);
            _mm_storeh_pd(out.as_mut_ptr().add(stride * (2 * i + 1)).cast(), _mm_castsi128_pd(two));
        }
    }
}

/// [`super::colour::to_rgb`] for as many pixels as go into whole vectors; gives their number.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn to_rgb(y: &[u8], cb: &[u8], cr: &[u8], out: &mut [u8]) -> usize {
    let n = (out.len() / 3).min(y.len()).min(cb.len()).min(cr.len());
    let centre = _mm256_set1_epi16(128);
    let two = _mm256_set1_epi16(2);
    // The factors of the portable loop, less a multiple of 2^16 where they are too large; 2 * 16384 is the half.
    let (fr, fg, fb) = (factors(26345, 16384), factors(-22554, 18734), factors(-14942, 16384));
    let half = _mm256_set1_epi32(1 << 15);
    let mut i = 0;
    // A vector of 16 pixels is written as 16 bytes three times, so nothing goes beyond its 48 bytes.
    while i + 16 <= n {
        // SAFETY: `i + 16` is within all three rows.
        let (y, cb, cr) = unsafe {
            let load = |row: &[u8]| _mm256_cvtepu8_epi16(_mm_loadu_si128(row.as_ptr().add(i).cast()));
            (load(y), _mm256_sub_epi16(load(cb), centre), _mm256_sub_epi16(load(cr), centre))
        };
        let part = |a: __m256i, b: __m256i, f: __m256i, add: __m256i| {
            let lo = _mm256_add_epi32(_mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), f), add);
            let hi = _mm256_add_epi32(_mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), f), add);
            _mm256_packs_epi32(_mm256_srai_epi32::<16>(lo), _mm256_srai_epi32::<16>(hi))
        };
        let zero = _mm256_setzero_si256();
        let r = _mm256_add_epi16(part(cr, two, fr, zero), cr);
        let g = _mm256_sub_epi16(part(cb, cr, fg, half), cr);
        let b = _mm256_add_epi16(part(cb, two, fb, zero), _mm256_add_epi16(cb, cb));
        let narrow = |v: __m256i| {
            let v = _mm256_add_epi16(v, y);
            _mm_packus_epi16(low(v), high(v))
        };
        let rgb = interleave(narrow(r), narrow(g), narrow(b));
        for (k, part) in rgb.into_iter().enumerate() {
            // SAFETY: the 48 bytes from `3 * i` on are in `out`, since `i + 16 <= n <= out.len() / 3`.
            unsafe { _mm_storeu_si128(out.as_mut_ptr().add(3 * i + 16 * k).cast(), part) };
        }
        i += 16;
    }
    i
}

/// Three rows of 16 bytes to 16 pixels of three.
#[inline]
#[target_feature(enable = "avx2")]
fn interleave(r: __m128i, g: __m128i, b: __m128i) -> [__m128i; 3] {
    const X: i8 = -1;
    let (r0, g0, b0) = (
        _mm_setr_epi8(0, X, X, 1, X, X, 2, X, X, 3, X, X, 4, X, X, 5),
        _mm_setr_epi8(X, 0, X, X, 1, X, X, 2, X, X, 3, X, X, 4, X, X),
        _mm_setr_epi8(X, X, 0, X, X, 1, X, X, 2, X, X, 3, X, X, 4, X),
    );
    let (r1, g1, b1) = (
        _mm_setr_epi8(X, X, 6, X, X, 7, X, X, 8, X, X, 9, X, X, 10, X),
        _mm_setr_epi8(5, X, X, 6, X, X, 7, X, X, 8, X, X, 9, X, X, 10),
        _mm_setr_epi8(X, 5, X, X, 6, X, X, 7, X, X, 8, X, X, 9, X, X),
    );
    let (r2, g2, b2) = (
        _mm_setr_epi8(X, 11, X, X, 12, X, X, 13, X, X, 14, X, X, 15, X, X),
        _mm_setr_epi8(X, X, 11, X, X, 12, X, X, 13, X, X, 14, X, X, 15, X),
        _mm_setr_epi8(10, X, X, 11, X, X, 12, X, X, 13, X, X, 14, X, X, 15),
    );
    let mix = |mr, mg, mb| {
        _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(r, mr), _mm_shuffle_epi8(g, mg)), _mm_shuffle_epi8(b, mb))
    };
    [mix(r0, g0, b0), mix(r1, g1, b1), mix(r2, g2, b2)]
}

/// The inner samples of [`super::colour`]'s stretch of weighed rows; gives how many pairs are done.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn stretch_sums(sums: &[u16], out: &mut [u8]) -> usize {
    let pairs = sums.len().saturating_sub(1).min(out.len().saturating_sub(1) / 2);
    let (seven, eight) = (_mm256_set1_epi16(7), _mm256_set1_epi16(8));
    let mut i = 0;
    while i + 16 <= pairs {
        // SAFETY: `i + 17` sums are there, since there is one more than pairs.
        let (a, b) = unsafe {
            let at = sums.as_ptr().add(i);
            (_mm256_loadu_si256(at.cast()), _mm256_loadu_si256(at.add(1).cast()))
        };
        let three = |v: __m256i| _mm256_add_epi16(_mm256_add_epi16(v, v), v);
        let first = _mm256_srli_epi16::<4>(_mm256_add_epi16(_mm256_add_epi16(three(a), b), seven));
        let second = _mm256_srli_epi16::<4>(_mm256_add_epi16(_mm256_add_epi16(three(b), a), eight));
        let both = _mm256_or_si256(first, _mm256_slli_epi16::<8>(second));
        // SAFETY: the 32 bytes from `1 + 2 * i` on are in `out`, since `1 + 2 * pairs <= out.len()`.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().add(1 + 2 * i).cast(), both) };
        i += 16;
    }
    i
}

/// One dimension of the forward transform, for eight columns at once: see [`super::transform::forward`].
#[inline]
#[target_feature(enable = "avx2")]
fn forward_pass<const FIRST: bool>(m: [__m256i; 8]) -> [__m256i; 8] {
    let add = |a, b| _mm256_add_epi32(a, b);
    let sub = |a, b| _mm256_sub_epi32(a, b);
    let times = |a, factor: i32| _mm256_mullo_epi32(a, _mm256_set1_epi32(factor));
    let round = _mm256_set1_epi32(if FIRST { 1 << 10 } else { 1 << 14 });
    let shifted = |a| if FIRST { _mm256_srai_epi32::<11>(a) } else { _mm256_srai_epi32::<15>(a) };
    let whole = |a| match FIRST {
        true => _mm256_slli_epi32::<2>(a),
        false => _mm256_srai_epi32::<2>(add(a, _mm256_set1_epi32(2))),
    };
    let s = [add(m[0], m[7]), add(m[1], m[6]), add(m[2], m[5]), add(m[3], m[4])];
    let [t7, t6, t5, t4] = [sub(m[0], m[7]), sub(m[1], m[6]), sub(m[2], m[5]), sub(m[3], m[4])];
    let (t10, t13, t11, t12) = (add(s[0], s[3]), sub(s[0], s[3]), add(s[1], s[2]), sub(s[1], s[2]));
    let z1 = add(times(add(t12, t13), 4433), round);
    let even = [
        whole(add(t10, t11)),
        shifted(add(z1, times(t13, 6270))),
        whole(sub(t10, t11)),
        shifted(sub(z1, times(t12, 15137))),
    ];
    let (z1, z2, z3, z4) = (add(t4, t7), add(t5, t6), add(t4, t6), add(t5, t7));
    let z5 = add(times(add(z3, z4), 9633), round);
    let (z1, z2) = (times(z1, -7373), times(z2, -20995));
    let (z3, z4) = (add(times(z3, -16069), z5), add(times(z4, -3196), z5));
    let odd = [
        shifted(add(times(t7, 12299), add(z1, z4))),
        shifted(add(times(t6, 25172), add(z2, z3))),
        shifted(add(times(t5, 16819), add(z2, z4))),
        shifted(add(times(t4, 2446), add(z1, z3))),
    ];
    [even[0], odd[0], even[1], odd[1], even[2], odd[2], even[3], odd[3]]
}

/// Rows of 32 bits to columns.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_wide(r: [__m256i; 8]) -> [__m256i; 8] {
    let two = |a, b| [_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)];
    let [a0, a1] = two(r[0], r[1]);
    let [b0, b1] = two(r[2], r[3]);
    let [c0, c1] = two(r[4], r[5]);
    let [d0, d1] = two(r[6], r[7]);
    let four = |a, b| [_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)];
    // Columns 0 and 4, 1 and 5, and so on, of the upper rows and of the lower ones.
    let [[u0, u1], [u2, u3]] = [four(a0, b0), four(a1, b1)];
    let [[l0, l1], [l2, l3]] = [four(c0, d0), four(c1, d1)];
    let low = |u, l| _mm256_permute2x128_si256::<0x20>(u, l);
    let high = |u, l| _mm256_permute2x128_si256::<0x31>(u, l);
    [low(u0, l0), low(u1, l1), low(u2, l2), low(u3, l3), high(u0, l0), high(u1, l1), high(u2, l2), high(u3, l3)]
}

/// [`super::encode::quantise`].
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn quantise(plane: &[u8], stride: usize, quant: &Divisors) -> Block {
    let plane = &plane[..stride * 7 + 8];
    let centre = _mm256_set1_epi32(128);
    let row = |y: usize| {
        // SAFETY: the eight bytes of row `y` end at most at `stride * 7 + 8`.
        let samples = unsafe { _mm_loadl_epi64(plane.as_ptr().add(stride * y).cast()) };
        _mm256_sub_epi32(_mm256_cvtepu8_epi32(samples), centre)
    };
    let samples = [row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)];
    let rows = transpose_wide(forward_pass::<true>(transpose_wide(samples)));
    let mut coefficients = forward_pass::<false>(rows);
    for (i, c) in coefficients.iter_mut().enumerate() {
        let load = |table: &[u32; 64]| {
            // SAFETY: `i` is below 8, so that eight numbers stand from `8 * i` on.
            unsafe { _mm256_loadu_si256(table.as_ptr().add(8 * i).cast()) }
        };
        let size = _mm256_add_epi32(_mm256_abs_epi32(*c), load(&quant.half));
        let quotient = _mm256_srlv_epi32(_mm256_mullo_epi32(size, load(&quant.factor)), load(&quant.shift));
        *c = _mm256_sign_epi32(quotient, *c);
    }
    let first = _mm256_extract_epi32::<0>(coefficients[0]) as i16;
    let mut block = [0; 64];
    let most = _mm256_set1_epi16(LARGEST);
    let least = _mm256_set1_epi16(-LARGEST);
    for i in 0..4 {
        // Packing goes by halves of the vectors: this puts the rows one after the other again.
        let two = _mm256_packs_epi32(coefficients[2 * i], coefficients[2 * i + 1]);
        let two = _mm256_permute4x64_epi64::<0b11_01_10_00>(two);
        let two = _mm256_max_epi16(_mm256_min_epi16(two, most), least);
        // SAFETY: `i` is below 4, so that 16 numbers stand from `16 * i` on.
        unsafe { _mm256_storeu_si256(block.as_mut_ptr().add(16 * i).cast(), two) };
    }
    block[0] = first;
    block
}

/// A bit for each coefficient that is not 0.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn nonzero(block: &Block) -> u64 {
    let zero = |i: usize| {
        // SAFETY: `i` is below 4, so that 16 numbers stand from `16 * i` on.
        let values = unsafe { _mm256_loadu_si256(block.as_ptr().add(16 * i).cast()) };
        _mm256_cmpeq_epi16(values, _mm256_setzero_si256())
    };
    let half = |i: usize| {
        let bytes = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(zero(i), zero(i + 1)));
        _mm256_movemask_epi8(bytes) as u32
    };
    !(u64::from(half(0)) | u64::from(half(2)) << 32)
}
