//! The inner loops in AVX2: 8-bit samples alone, the same results as the portable loops to the last bit.
#![allow(unsafe_code)] // loads and stores of vectors

use std::arch::x86_64::*;

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
