//! The wide paths of the predictors: AVX2, found at run time.
//!
//! Each function does as much of the work as fills whole registers and tells how much that was; with no AVX2 it is none.
#![allow(unsafe_code)] // the intrinsics that load and store take pointers, and AVX2 is known at run time only

use std::arch::x86_64::*;

/// Bytes of half a register, which is what bytes can be moved about in.
const HALF: usize = 16;
/// Bytes of a register.
const FULL: usize = 32;

/// Places of bytes for a shuffle, half a register of them; this one stands for no byte.
const NONE: u8 = 0x80;

/// From `HALF - n` on: every byte moves up by `n` places.
const MOVE: [u8; 2 * HALF] = {
    let mut places = [NONE; 2 * HALF];
    let mut j = 0;
    while j < HALF {
        places[HALF + j] = j as u8;
        j += 1;
    }
    places
};

/// For each size of a pixel: the last one of half a register, again and again. The bytes need not end where a pixel
/// does: the last ones are a pixel turned round, and what follows goes on with the very same turn.
static AGAIN: [[u8; HALF]; HALF + 1] = {
    let mut places = [[0; HALF]; HALF + 1];
    let mut distance = 1;
    while distance <= HALF {
        let mut j = 0;
        while j < HALF {
            places[distance][j] = (HALF - distance + j % distance) as u8;
            j += 1;
        }
        distance += 1;
    }
    places
};

/// The shuffles that part pixels of `S` samples, and join them.
struct Pick<const S: usize>;

impl<const S: usize> Pick<S> {
    /// For words of 1, 2, 4 and 8 bytes, for each sample: where its bytes are in each of `S` half registers.
    const PART: &[[[[u8; HALF]; S]; S]; 4] = &{
        let mut places = [[[[NONE; HALF]; S]; S]; 4];
        let mut k = 0;
        while k < 4 * S * HALF {
            let (log, s, j) = (k / (S * HALF), k / HALF % S, k % HALF);
            let word = 1 << log;
            let from = (j / word * S + s) * word + j % word;
            places[log][s][from / HALF][j] = (from % HALF) as u8;
            k += 1;
        }
        places
    };

    /// The way back: for each of `S` half registers of pixels, which bytes of each sample go where.
    const JOIN: &[[[[u8; HALF]; S]; S]; 4] = &{
        let mut places = [[[[NONE; HALF]; S]; S]; 4];
        let mut k = 0;
        while k < 4 * S * HALF {
            let (log, to) = (k / (S * HALF), k % (S * HALF));
            let word = 1 << log;
            let (pixel, s) = (to / (S * word), to / word % S);
            places[log][to / HALF][s][to % HALF] = (pixel * word + to % word) as u8;
            k += 1;
        }
        places
    };
}

/// Adds to each word the one `distance` bytes before it; gives the bytes that are done.
pub fn sum(row: &mut [u8], distance: usize, word: usize) -> usize {
    if row.len() < FULL || distance > HALF || !is_x86_feature_detected!("avx2") {
        return 0;
    }
    // SAFETY: AVX2 is there.
    unsafe {
        match (word, steps(distance)) {
            (1, 4) => sum_rows::<1, 4>(row, distance),
            (1, 3) => sum_rows::<1, 3>(row, distance),
            (1, 2) => sum_rows::<1, 2>(row, distance),
            (1, 1) => sum_rows::<1, 1>(row, distance),
            (1, 0) => sum_rows::<1, 0>(row, distance),
            (2, 3) => sum_rows::<2, 3>(row, distance),
            (2, 2) => sum_rows::<2, 2>(row, distance),
            (2, 1) => sum_rows::<2, 1>(row, distance),
            (2, 0) => sum_rows::<2, 0>(row, distance),
            (4, 2) => sum_rows::<4, 2>(row, distance),
            (4, 1) => sum_rows::<4, 1>(row, distance),
            (4, 0) => sum_rows::<4, 0>(row, distance),
            (8, 1) => sum_rows::<8, 1>(row, distance),
            (8, 0) => sum_rows::<8, 0>(row, distance),
            _ => 0,
        }
    }
}

/// Takes from each word the one `distance` bytes before it, from the end on; gives the bytes that are left to do.
pub fn differ(row: &mut [u8], distance: usize, word: usize) -> usize {
    if !is_x86_feature_detected!("avx2") {
        return row.len();
    }
    // SAFETY: AVX2 is there.
    unsafe {
        match word {
            1 => differ_rows::<1>(row, distance),
            2 => differ_rows::<2>(row, distance),
            4 => differ_rows::<4>(row, distance),
            _ => differ_rows::<8>(row, distance),
        }
    }
}

/// Makes numbers of planes of their bytes, the most significant first; gives the numbers that are done.
pub fn zip(planes: &[u8], out: &mut [u8], word: usize) -> usize {
    if !is_x86_feature_detected!("avx2") {
        return 0;
    }
    // SAFETY: AVX2 is there.
    unsafe {
        match word {
            2 => zip_planes::<2>(planes, out),
            4 => zip_planes::<4>(planes, out),
            8 => zip_planes::<8>(planes, out),
            _ => 0,
        }
    }
}

/// [`zip`] of bytes that are first summed, each with all before it in the row, and stored `past` the caches where that
/// is asked and possible; gives the numbers that are done.
pub fn zip_sums(planes: &[u8], out: &mut [u8], word: usize, past: bool) -> usize {
    if !is_x86_feature_detected!("avx2") {
        return 0;
    }
    // SAFETY: AVX2 is there.
    unsafe {
        match word {
            2 => zip_sums_of_planes::<2>(planes, out, past),
            4 => zip_sums_of_planes::<4>(planes, out, past),
            8 => zip_sums_of_planes::<8>(planes, out, past),
            _ => 0,
        }
    }
}

/// Makes planes of bytes of numbers, the most significant first; gives the numbers that are done.
pub fn unzip(row: &[u8], planes: &mut [u8], word: usize) -> usize {
    if !is_x86_feature_detected!("avx2") {
        return 0;
    }
    // SAFETY: AVX2 is there.
    unsafe {
        match word {
            2 => unzip_planes::<2>(row, planes),
            4 => unzip_planes::<4>(row, planes),
            8 => unzip_planes::<8>(row, planes),
            _ => 0,
        }
    }
}

/// Writes each sample of the pixels in `row` to its band, from pixel `start` on, or its `sums` over the row so far;
/// `past` the caches where that is asked and possible. Gives the pixels that are done.
pub fn part(row: &[u8], out: &mut [&mut [u8]], start: usize, word: usize, sums: bool, past: bool) -> usize {
    if (sums && out.len() * word > HALF) || !is_x86_feature_detected!("avx2") {
        return 0;
    }
    let sums = if sums { word } else { 0 };
    // SAFETY: AVX2 is there.
    unsafe {
        match out.len() {
            1 => part_samples::<1>(row, out, start, word, sums, past),
            2 => part_samples::<2>(row, out, start, word, sums, past),
            3 => part_samples::<3>(row, out, start, word, sums, past),
            4 => part_samples::<4>(row, out, start, word, sums, past),
            5 => part_samples::<5>(row, out, start, word, sums, past),
            6 => part_samples::<6>(row, out, start, word, sums, past),
            7 => part_samples::<7>(row, out, start, word, sums, past),
            8 => part_samples::<8>(row, out, start, word, sums, past),
            _ => 0,
        }
    }
}

/// Writes the samples of all bands to the pixels of `out`; gives the pixels that are done.
pub fn join(bands: &[&[u8]], out: &mut [u8], word: usize) -> usize {
    if !is_x86_feature_detected!("avx2") {
        return 0;
    }
    // SAFETY: AVX2 is there.
    unsafe {
        match bands.len() {
            2 => join_rows::<2>(bands, out, word),
            3 => join_rows::<3>(bands, out, word),
            4 => join_rows::<4>(bands, out, word),
            5 => join_rows::<5>(bands, out, word),
            6 => join_rows::<6>(bands, out, word),
            7 => join_rows::<7>(bands, out, word),
            8 => join_rows::<8>(bands, out, word),
            _ => 0,
        }
    }
}

#[target_feature(enable = "avx2")]
fn sum_rows<const W: usize, const STEPS: usize>(row: &mut [u8], distance: usize) -> usize {
    let mut reach = [_mm256_setzero_si256(); STEPS];
    for (k, reach) in reach.iter_mut().enumerate() {
        *reach = _mm256_broadcastsi128_si256(load_half(&MOVE[HALF - (distance << k)..]));
    }
    let again = load_half(&AGAIN[distance]);
    let mut last = _mm_setzero_si128();
    let (registers, rest) = row.as_chunks_mut::<FULL>();
    for bytes in registers {
        let mut sums = load_full(bytes);
        for reach in reach {
            sums = add_full::<W>(sums, _mm256_shuffle_epi8(sums, reach));
        }
        let low = add_half::<W>(_mm256_castsi256_si128(sums), last);
        last = _mm_shuffle_epi8(low, again);
        let high = add_half::<W>(_mm256_extracti128_si256::<1>(sums), last);
        last = _mm_shuffle_epi8(high, again);
        store_full(_mm256_set_m128i(high, low), bytes);
    }
    let rest = rest.len();
    row.len() - rest
}

#[target_feature(enable = "avx2")]
fn differ_rows<const W: usize>(row: &mut [u8], distance: usize) -> usize {
    let mut end = row.len();
    while end >= distance + FULL {
        let at = end - FULL;
        // Both are loaded before the store, and what lies before `at` is not changed yet.
        let before = load_full(&row[at - distance..]);
        let here = load_full(&row[at..]);
        store_full(sub_full::<W>(here, before), &mut row[at..]);
        end = at;
    }
    end
}

#[target_feature(enable = "avx2")]
fn zip_planes<const W: usize>(planes: &[u8], out: &mut [u8]) -> usize {
    let count = planes.len() / W;
    for (i, out) in out.chunks_exact_mut(W * HALF).enumerate() {
        let mut v = [_mm_setzero_si128(); W];
        for (k, v) in v.iter_mut().enumerate() {
            *v = load_half(&planes[(W - 1 - k) * count + i * HALF..]);
        }
        for _ in 0..W.ilog2() {
            let mut wider = v;
            for k in 0..W / 2 {
                wider[2 * k] = _mm_unpacklo_epi8(v[k], v[k + W / 2]);
                wider[2 * k + 1] = _mm_unpackhi_epi8(v[k], v[k + W / 2]);
            }
            v = wider;
        }
        for (v, out) in v.into_iter().zip(out.chunks_exact_mut(HALF)) {
            store_half(v, out);
        }
    }
    count / HALF * HALF
}

/// Sums of bytes become sums of numbers whose bytes do not carry: once the planes are zipped, few steps reach over half
/// a register. All planes are summed side by side, so where each begins is found first.
#[target_feature(enable = "avx2")]
fn zip_sums_of_planes<const W: usize>(planes: &[u8], out: &mut [u8], past: bool) -> usize {
    let count = planes.len() / W;
    let mut first = [0u8; W];
    for k in (1..W).rev() {
        first[k - 1] = first[k].wrapping_add(total_of(&planes[(W - 1 - k) * count..][..count]));
    }
    let first: [u8; HALF] = std::array::from_fn(|j| first[j % W]);
    let mut carry = _mm256_broadcastsi128_si256(load_half(&first));
    let again = _mm256_broadcastsi128_si256(load_half(&AGAIN[W]));
    let groups = out.chunks_exact_mut(W * FULL);
    let done = groups.len() * FULL;
    for (i, out) in groups.enumerate() {
        // The low halves hold the first 16 numbers of the group, the high ones the others.
        let mut v = [_mm256_setzero_si256(); W];
        for (k, v) in v.iter_mut().enumerate() {
            *v = load_full(&planes[(W - 1 - k) * count + i * FULL..]);
        }
        for _ in 0..W.ilog2() {
            let mut wider = v;
            for k in 0..W / 2 {
                wider[2 * k] = _mm256_unpacklo_epi8(v[k], v[k + W / 2]);
                wider[2 * k + 1] = _mm256_unpackhi_epi8(v[k], v[k + W / 2]);
            }
            v = wider;
        }
        let mut last = _mm256_setzero_si256();
        for v in &mut v {
            for k in 0..steps(W) {
                let reach = _mm256_broadcastsi128_si256(load_half(&MOVE[HALF - (W << k)..]));
                *v = _mm256_add_epi8(*v, _mm256_shuffle_epi8(*v, reach));
            }
            *v = _mm256_add_epi8(*v, last);
            last = _mm256_shuffle_epi8(*v, again);
        }
        let (before, after) = carried::<1>(carry, last);
        carry = after;
        for (pair, k) in v.chunks_exact(2).zip(0..) {
            let (a, b) = (_mm256_add_epi8(pair[0], before), _mm256_add_epi8(pair[1], before));
            store_past(_mm256_permute2x128_si256::<0x20>(a, b), &mut out[k * FULL..], past);
            store_past(_mm256_permute2x128_si256::<0x31>(a, b), &mut out[W * HALF + k * FULL..], past);
        }
    }
    done
}

/// What stands before each half of a register that goes on from `carry`, when its halves sum up to `totals`; and what
/// stands after it.
#[inline]
#[target_feature(enable = "avx2")]
fn carried<const W: usize>(carry: __m256i, totals: __m256i) -> (__m256i, __m256i) {
    let swapped = _mm256_permute2x128_si256::<0x01>(totals, totals);
    let low_to_high = _mm256_permute2x128_si256::<0x08>(totals, totals);
    (add_full::<W>(carry, low_to_high), add_full::<W>(carry, add_full::<W>(totals, swapped)))
}

/// The sum of all bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn total_of(bytes: &[u8]) -> u8 {
    let (registers, rest) = bytes.as_chunks::<FULL>();
    let zero = _mm256_setzero_si256();
    let mut sums = zero;
    for register in registers {
        sums = _mm256_add_epi64(sums, _mm256_sad_epu8(load_full(register), zero));
    }
    let half = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
    let total = _mm_cvtsi128_si64(_mm_add_epi64(half, _mm_unpackhi_epi64(half, half))) as u8;
    rest.iter().fold(total, |sum, &byte| sum.wrapping_add(byte))
}

#[target_feature(enable = "avx2")]
fn unzip_planes<const W: usize>(row: &[u8], planes: &mut [u8]) -> usize {
    let count = row.len() / W;
    let low = _mm_set1_epi16(0xff);
    for (i, row) in row.chunks_exact(W * HALF).enumerate() {
        let mut v = [_mm_setzero_si128(); W];
        for (v, bytes) in v.iter_mut().zip(row.chunks_exact(HALF)) {
            *v = load_half(bytes);
        }
        for _ in 0..W.ilog2() {
            let mut apart = v;
            for k in 0..W / 2 {
                let (a, b) = (v[2 * k], v[2 * k + 1]);
                apart[k] = _mm_packus_epi16(_mm_and_si128(a, low), _mm_and_si128(b, low));
                apart[k + W / 2] = _mm_packus_epi16(_mm_srli_epi16::<8>(a), _mm_srli_epi16::<8>(b));
            }
            v = apart;
        }
        for (k, v) in v.into_iter().enumerate() {
            store_half(v, &mut planes[(W - 1 - k) * count + i * HALF..]);
        }
    }
    count / HALF * HALF
}

#[target_feature(enable = "avx2")]
fn part_samples<const S: usize>(
    row: &[u8],
    out: &mut [&mut [u8]],
    start: usize,
    word: usize,
    sums: usize,
    past: bool,
) -> usize {
    match sums {
        0 => part_rows::<S, 0>(row, out, start, word, past),
        1 => part_rows::<S, 1>(row, out, start, word, past),
        2 => part_rows::<S, 2>(row, out, start, word, past),
        4 => part_rows::<S, 4>(row, out, start, word, past),
        _ => part_rows::<S, 8>(row, out, start, word, past),
    }
}

/// `S` half registers hold as many samples of each band as one half register: every band picks its bytes from all.
/// Two such groups are done at once, one in the low halves and one in the high ones.
/// `SUMS` is the bytes of the words to sum before that, 0 for none.
#[target_feature(enable = "avx2")]
fn part_rows<const S: usize, const SUMS: usize>(
    row: &[u8],
    out: &mut [&mut [u8]],
    start: usize,
    word: usize,
    past: bool,
) -> usize {
    let distance = S * SUMS;
    if distance > HALF {
        return 0;
    }
    let pick = &Pick::<S>::PART[word.ilog2() as usize];
    let again = _mm256_broadcastsi128_si256(load_half(&AGAIN[distance]));
    let mut carry = _mm256_setzero_si256();
    let groups = row.chunks_exact(S * FULL);
    let done = groups.len() * FULL / word;
    let mut places: [&mut [[u8; FULL]]; S] = std::array::from_fn(|_| Default::default());
    for (place, band) in places.iter_mut().zip(out) {
        *place = band[start * word..][..done * word].as_chunks_mut().0;
    }
    let past = past && places.iter().all(|place| place.as_ptr().cast::<__m256i>().is_aligned());
    for (i, group) in groups.enumerate() {
        let (low, high) = group.split_at(S * HALF);
        let mut v = [_mm256_setzero_si256(); S];
        for ((v, low), high) in v.iter_mut().zip(low.chunks_exact(HALF)).zip(high.chunks_exact(HALF)) {
            *v = _mm256_set_m128i(load_half(high), load_half(low));
        }
        if SUMS > 0 {
            let mut last = _mm256_setzero_si256();
            for v in &mut v {
                for k in 0..steps(distance) {
                    let reach = _mm256_broadcastsi128_si256(load_half(&MOVE[HALF - (distance << k)..]));
                    *v = add_full::<SUMS>(*v, _mm256_shuffle_epi8(*v, reach));
                }
                *v = add_full::<SUMS>(*v, last);
                last = _mm256_shuffle_epi8(*v, again);
            }
            let (mut before, after) = carried::<SUMS>(carry, last);
            carry = after;
            for v in &mut v {
                *v = add_full::<SUMS>(*v, before);
                // Each half register goes on with the turn that the one before ended with.
                if !HALF.is_multiple_of(distance) {
                    before = _mm256_shuffle_epi8(before, again);
                }
            }
        }
        let mut bands = [_mm256_setzero_si256(); S];
        if let Ok(group) = <[__m256i; 3]>::try_from(&v[..])
            && word == 1
        {
            bands.copy_from_slice(&part_threes(group));
        } else {
            for (band, pick) in bands.iter_mut().zip(pick) {
                for (v, pick) in v.iter().zip(pick) {
                    let pick = _mm256_broadcastsi128_si256(load_half(pick));
                    *band = _mm256_or_si256(*band, _mm256_shuffle_epi8(*v, pick));
                }
            }
        }
        for (place, band) in places.iter_mut().zip(bands) {
            store_past(band, &mut place[i], past);
        }
    }
    done
}

/// [`part_rows`] the other way: a register of each band gives two groups of `S` half registers.
#[target_feature(enable = "avx2")]
fn join_rows<const S: usize>(bands: &[&[u8]], out: &mut [u8], word: usize) -> usize {
    let pick = &Pick::<S>::JOIN[word.ilog2() as usize];
    let groups = out.chunks_exact_mut(S * FULL);
    let count = groups.len();
    let mut from: [&[[u8; FULL]]; S] = [&[]; S];
    for (from, band) in from.iter_mut().zip(bands) {
        *from = band[..count * FULL].as_chunks().0;
    }
    for (i, group) in groups.enumerate() {
        let mut v = [_mm256_setzero_si256(); S];
        for (v, from) in v.iter_mut().zip(&from) {
            *v = load_full(&from[i]);
        }
        let (low, high) = group.split_at_mut(S * HALF);
        for ((low, high), pick) in low.chunks_exact_mut(HALF).zip(high.chunks_exact_mut(HALF)).zip(pick) {
            let mut own = _mm256_setzero_si256();
            for (v, pick) in v.iter().zip(pick) {
                let pick = _mm256_broadcastsi128_si256(load_half(pick));
                own = _mm256_or_si256(own, _mm256_shuffle_epi8(*v, pick));
            }
            store_half(_mm256_castsi256_si128(own), low);
            store_half(_mm256_extracti128_si256::<1>(own), high);
        }
    }
    count * FULL / word
}

/// Parts pixels of three bytes with little more than one shuffle for each half register. Turned like this, it holds those
/// bytes of three bands in its first six, middle five and last five places, and whichever band that is for one of the
/// three half registers, it is another one for the others.
#[inline]
#[target_feature(enable = "avx2")]
fn part_threes([a, b, c]: [__m256i; 3]) -> [__m256i; 3] {
    const TURN: [u8; HALF] = [0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14, 1, 4, 7, 10, 13];
    const FIRST: [u8; HALF] = [255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const MIDDLE: [u8; HALF] = [0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0];
    let [turn, first, middle] = [TURN, FIRST, MIDDLE].map(|half| _mm256_broadcastsi128_si256(load_half(&half)));
    let [a, b, c] = [_mm256_shuffle_epi8(a, turn), _mm256_shuffle_epi8(b, turn), _mm256_shuffle_epi8(c, turn)];
    let red = _mm256_blendv_epi8(_mm256_blendv_epi8(c, b, middle), a, first);
    // These two begin with their bytes of the second and the third half register.
    let green = _mm256_blendv_epi8(_mm256_blendv_epi8(a, c, middle), b, first);
    let blue = _mm256_blendv_epi8(_mm256_blendv_epi8(b, a, middle), c, first);
    [red, _mm256_alignr_epi8::<11>(green, green), _mm256_alignr_epi8::<6>(blue, blue)]
}

/// How often sums at `distance` must double their reach until it is half a register.
const fn steps(distance: usize) -> u32 {
    HALF.div_ceil(distance).next_power_of_two().ilog2()
}

#[inline(always)]
fn load_half(bytes: &[u8]) -> __m128i {
    let bytes = &bytes[..HALF];
    // SAFETY: 16 bytes are there to read, at any address.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline(always)]
fn store_half(value: __m128i, bytes: &mut [u8]) {
    let bytes = &mut bytes[..HALF];
    // SAFETY: 16 bytes are there to write, at any address.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_full(bytes: &[u8]) -> __m256i {
    let bytes = &bytes[..FULL];
    // SAFETY: 32 bytes are there to read, at any address.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_full(value: __m256i, bytes: &mut [u8]) {
    let bytes = &mut bytes[..FULL];
    // SAFETY: 32 bytes are there to write, at any address.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), value) }
}

/// [`store_full`], or past the caches, which only multiples of 32 can be.
#[inline]
#[target_feature(enable = "avx2")]
fn store_past(value: __m256i, bytes: &mut [u8], past: bool) {
    let bytes = &mut bytes[..FULL];
    let address: *mut __m256i = bytes.as_mut_ptr().cast();
    if past && address.is_aligned() {
        // SAFETY: 32 bytes are there to write, and the address is a multiple of 32.
        unsafe { _mm256_stream_si256(address, value) }
    } else {
        store_full(value, bytes);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn add_full<const W: usize>(a: __m256i, b: __m256i) -> __m256i {
    match W {
        1 => _mm256_add_epi8(a, b),
        2 => _mm256_add_epi16(a, b),
        4 => _mm256_add_epi32(a, b),
        _ => _mm256_add_epi64(a, b),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn sub_full<const W: usize>(a: __m256i, b: __m256i) -> __m256i {
    match W {
        1 => _mm256_sub_epi8(a, b),
        2 => _mm256_sub_epi16(a, b),
        4 => _mm256_sub_epi32(a, b),
        _ => _mm256_sub_epi64(a, b),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn add_half<const W: usize>(a: __m128i, b: __m128i) -> __m128i {
    match W {
        1 => _mm_add_epi8(a, b),
        2 => _mm_add_epi16(a, b),
        4 => _mm_add_epi32(a, b),
        _ => _mm_add_epi64(a, b),
    }
}
