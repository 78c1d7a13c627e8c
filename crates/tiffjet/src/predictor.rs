//! Horizontal and floating-point predictors, both ways, and the parting and joining of interleaved rows.
//!
//! All of it works on one row at a time. Where the processor has AVX2 the wide paths of `wide` do the bulk and say how
//! far they came; the plain loops here do the rest, or everything.

#[cfg(target_arch = "x86_64")]
mod wide;

#[cfg(not(target_arch = "x86_64"))]
mod wide {
    //! Stands in where there are no wide paths: none of the work is done.

    pub fn sum(_row: &mut [u8], _distance: usize, _word: usize) -> usize {
        0
    }
    pub fn differ(row: &mut [u8], _distance: usize, _word: usize) -> usize {
        row.len()
    }
    pub fn zip(_planes: &[u8], _out: &mut [u8], _word: usize) -> usize {
        0
    }
    pub fn zip_sums(_planes: &[u8], _out: &mut [u8], _word: usize, _past: bool) -> usize {
        0
    }
    pub fn unzip(_row: &[u8], _planes: &mut [u8], _word: usize) -> usize {
        0
    }
    pub fn part(_row: &[u8], _out: &mut [&mut [u8]], _start: usize, _word: usize, _sums: bool, _past: bool) -> usize {
        0
    }
    pub fn join(_bands: &[&[u8]], _out: &mut [u8], _word: usize) -> usize {
        0
    }
}

/// Bytes of a row that [`split`] handles at once: what stays in the nearest cache.
const BLOCK: usize = 4096;

/// Undoes the horizontal predictor in place: each sample becomes the sum of itself and the same sample of the pixel
/// before. `word` is the bytes of a sample in native order, `samples` how many stand interleaved in a pixel.
///
/// # Panics
/// When `word` is not 1, 2, 4 or 8, or `samples` is 0.
pub fn undo_horizontal(row: &mut [u8], samples: usize, word: usize) {
    let distance = distance(samples, word);
    let from = wide::sum(row, distance, word);
    match word {
        1 => sum::<u8>(row, distance, from),
        2 => sum::<u16>(row, distance, from),
        4 => sum::<u32>(row, distance, from),
        _ => sum::<u64>(row, distance, from),
    }
}

/// Applies the horizontal predictor in place: the way back of [`undo_horizontal`].
///
/// # Panics
/// When `word` is not 1, 2, 4 or 8, or `samples` is 0.
pub fn apply_horizontal(row: &mut [u8], samples: usize, word: usize) {
    let distance = distance(samples, word);
    // A part of a word at the end belongs to nothing.
    let whole = row.len() / word * word;
    let to = wide::differ(&mut row[..whole], distance, word);
    let row = &mut row[..to];
    match word {
        1 => differ::<u8>(row, distance),
        2 => differ::<u16>(row, distance),
        4 => differ::<u32>(row, distance),
        _ => differ::<u64>(row, distance),
    }
}

/// Undoes the floating-point predictor. `row` holds the bytes of its floats by significance, the most significant of
/// all first, as differences at a distance of `samples` bytes; it is used up. `out` gets the floats in native order.
/// `word` is 2, 3, 4 or 8.
///
/// # Panics
/// When the lengths differ, or `word` or `samples` is 0.
pub fn undo_float(row: &mut [u8], out: &mut [u8], samples: usize, word: usize) {
    assert_eq!(row.len(), out.len(), "a row keeps its length");
    if samples == 1 {
        return undo_float_single(row, out, word, false);
    }
    undo_horizontal(row, samples, 1);
    zip_floats(row, out, word);
}

/// Makes floats of planes of their bytes, the most significant first: the second half of [`undo_float`].
///
/// # Panics
/// When the lengths differ, or `word` is 0.
pub fn zip_floats(row: &[u8], out: &mut [u8], word: usize) {
    assert_eq!(row.len(), out.len(), "a row keeps its length");
    let count = row.len() / word;
    let from = wide::zip(row, out, word);
    for (value, i) in out.chunks_exact_mut(word).zip(0..count).skip(from) {
        for (k, byte) in value.iter_mut().enumerate() {
            *byte = row[significance(k, word) * count + i];
        }
    }
}

/// [`undo_float`] of one sample a pixel: the row stays as it is. With `past`, what is large enough is stored past the
/// caches; a fence must follow.
///
/// # Panics
/// When the lengths differ, or `word` is not 1 to 8.
pub fn undo_float_single(row: &[u8], out: &mut [u8], word: usize, past: bool) {
    assert_eq!(row.len(), out.len(), "a row keeps its length");
    let count = row.len() / word;
    let from = wide::zip_sums(row, out, word, past);
    if from == count {
        return;
    }
    let mut last = [0; 8];
    let last = &mut last[..word];
    if from > 0 {
        last.copy_from_slice(&out[(from - 1) * word..from * word]);
    } else {
        // A plane goes on where the one before ends.
        let mut total = 0u8;
        for (k, plane) in row.chunks_exact(count.max(1)).take(word).enumerate() {
            last[significance(k, word)] = total;
            total = plane.iter().fold(total, |sum, &byte| sum.wrapping_add(byte));
        }
    }
    for (value, i) in out.chunks_exact_mut(word).zip(0..count).skip(from) {
        for (k, byte) in last.iter_mut().enumerate() {
            *byte = byte.wrapping_add(row[significance(k, word) * count + i]);
        }
        value.copy_from_slice(last);
    }
}

/// Applies the floating-point predictor: the way back of [`undo_float`].
///
/// # Panics
/// When the lengths differ, or `word` or `samples` is 0.
pub fn apply_float(row: &[u8], out: &mut [u8], samples: usize, word: usize) {
    assert_eq!(row.len(), out.len(), "a row keeps its length");
    let count = row.len() / word;
    let from = wide::unzip(row, out, word);
    for (value, i) in row.chunks_exact(word).zip(0..count).skip(from) {
        for (k, byte) in value.iter().enumerate() {
            out[significance(k, word) * count + i] = *byte;
        }
    }
    apply_horizontal(out, samples, 1);
}

/// Undoes the horizontal predictor (when `predicted`) on an interleaved row and writes sample `s` of each pixel to
/// `out[s]`, in one pass over the row. With `past`, what is large enough is stored past the caches; a fence must follow.
///
/// # Panics
/// When `word` is not 1, 2, 4 or 8, `out` is empty, or not every part of it has the bytes of the row's whole pixels.
pub fn split(row: &[u8], out: &mut [&mut [u8]], word: usize, predicted: bool, past: bool) {
    let pixel = distance(out.len(), word);
    let count = row.len() / pixel;
    assert!(out.iter().all(|band| band.len() == count * word), "every band has all pixels of the row");
    let row = &row[..count * pixel];
    if !predicted {
        return part(row, out, 0, word, past);
    }
    let done = wide::part(row, out, 0, word, true, past);
    if done > 0 || pixel > BLOCK {
        return sum_apart(row, out, word, done);
    }
    let mut buffer = [0; BLOCK];
    let pixels = BLOCK / pixel;
    for (start, pixels) in (0..count).step_by(pixels).zip(row.chunks(pixels * pixel)) {
        let block = &mut buffer[..pixels.len()];
        block.copy_from_slice(pixels);
        // The sums go on from the pixel that the block before ended with.
        if start > 0 {
            for (value, band) in block.chunks_exact_mut(word).zip(&*out) {
                add(value, &band[(start - 1) * word..start * word]);
            }
        }
        undo_horizontal(block, out.len(), word);
        part(block, out, start, word, false);
    }
}

/// Writes the samples of all bands to the pixels of `out`: the way back of [`split`] without a predictor.
///
/// # Panics
/// When `word` is not 1, 2, 4, 8 or 16, `bands` is empty, or not every band has the samples of `out`'s pixels.
pub fn join(bands: &[&[u8]], out: &mut [u8], word: usize) {
    assert!(matches!(word, 1 | 2 | 4 | 8 | 16), "a word has 1, 2, 4, 8 or 16 bytes");
    let count = out.len() / (bands.len() * word);
    assert!(bands.iter().all(|band| band.len() == count * word), "every band has all samples of the pixels");
    match word {
        1 => join_words::<1>(bands, out),
        2 => join_words::<2>(bands, out),
        4 => join_words::<4>(bands, out),
        8 => join_words::<8>(bands, out),
        _ => join_rest::<16>(bands, out, 0),
    }
}

/// [`join`] of words of a size that there are shuffles for.
fn join_words<const W: usize>(bands: &[&[u8]], out: &mut [u8]) {
    match bands.len() {
        // By twos, unless they are bytes, compilers do it better.
        2 if W > 1 => join_few::<W, 2>(bands, out),
        4 if W > 1 => join_few::<W, 4>(bands, out),
        _ => {
            let from = wide::join(bands, out, W);
            join_rest::<W>(bands, out, from);
        }
    }
}

/// [`join`] of `S` bands.
fn join_few<const W: usize, const S: usize>(bands: &[&[u8]], out: &mut [u8]) {
    let (pixels, _) = out.as_chunks_mut::<W>().0.as_chunks_mut::<S>();
    let bands: [&[[u8; W]]; S] = std::array::from_fn(|s| &bands[s].as_chunks().0[..pixels.len()]);
    for (x, pixel) in pixels.iter_mut().enumerate() {
        for (value, band) in pixel.iter_mut().zip(&bands) {
            *value = band[x];
        }
    }
}

/// [`join`] without the first `from` pixels, few at a time: the part of the row that is written stays in the nearest cache.
fn join_rest<const W: usize>(bands: &[&[u8]], out: &mut [u8], from: usize) {
    let samples = bands.len();
    let step = (BLOCK / (samples * W)).max(1);
    let (words, _) = out.as_chunks_mut::<W>();
    for (at, pixels) in (from..).step_by(step).zip(words[from * samples..].chunks_mut(step * samples)) {
        for (s, band) in bands.iter().enumerate() {
            let (band, _) = band.as_chunks::<W>();
            for (pixel, value) in pixels.chunks_exact_mut(samples).zip(&band[at..]) {
                pixel[s] = *value;
            }
        }
    }
}

/// Writes each sample of the pixels in `row` to its band, from pixel `start` on.
fn part(row: &[u8], out: &mut [&mut [u8]], start: usize, word: usize, past: bool) {
    let from = wide::part(row, out, start, word, false, past);
    match word {
        1 => part_rest::<1>(row, out, start, from),
        2 => part_rest::<2>(row, out, start, from),
        4 => part_rest::<4>(row, out, start, from),
        _ => part_rest::<8>(row, out, start, from),
    }
}

/// [`part`] without the first `from` pixels.
fn part_rest<const W: usize>(row: &[u8], out: &mut [&mut [u8]], start: usize, from: usize) {
    let samples = out.len();
    let (words, _) = row.as_chunks::<W>();
    // Few pixels at a time, so that a row of many bands is fetched once and not once for each of them.
    let step = (BLOCK / (samples * W)).max(1);
    let words = &words[from * samples..];
    for (at, pixels) in (start + from..).step_by(step).zip(words.chunks(step * samples)) {
        for (s, band) in out.iter_mut().enumerate() {
            let (band, _) = band[at * W..].as_chunks_mut::<W>();
            for (value, pixel) in band.iter_mut().zip(pixels.chunks_exact(samples)) {
                *value = pixel[s];
            }
        }
    }
}

/// Sums the pixels of a row without the first `from`, each sample on the one before it in its band.
fn sum_apart(row: &[u8], out: &mut [&mut [u8]], word: usize, from: usize) {
    for (at, pixel) in row.chunks_exact(out.len() * word).enumerate().skip(from) {
        for (band, value) in out.iter_mut().zip(pixel.chunks_exact(word)) {
            let (before, here) = band.split_at_mut(at * word);
            here[..word].copy_from_slice(value);
            if at > 0 {
                add(&mut here[..word], &before[(at - 1) * word..]);
            }
        }
    }
}

/// Bytes from a sample to the same one of the next pixel.
fn distance(samples: usize, word: usize) -> usize {
    assert!(matches!(word, 1 | 2 | 4 | 8), "a word has 1, 2, 4 or 8 bytes");
    assert!(samples > 0, "a pixel has a sample");
    samples * word
}

/// Which plane of the floating-point predictor holds byte `k` of a native float.
fn significance(k: usize, word: usize) -> usize {
    if cfg!(target_endian = "little") { word - 1 - k } else { k }
}

/// A sample as an unsigned integer: sums wrap, whatever the samples mean.
trait Word: Copy {
    const SIZE: usize;
    fn load(bytes: &[u8]) -> Self;
    fn store(self, bytes: &mut [u8]);
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
}

macro_rules! word {
    ($($t:ty)*) => {$(
        impl Word for $t {
            const SIZE: usize = size_of::<$t>();
            #[inline(always)]
            fn load(bytes: &[u8]) -> Self {
                let mut own = [0; Self::SIZE];
                own.copy_from_slice(bytes);
                Self::from_ne_bytes(own)
            }
            #[inline(always)]
            fn store(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
        }
    )*};
}

word!(u8 u16 u32 u64);

/// `value += other`, both one word.
fn add(value: &mut [u8], other: &[u8]) {
    match value.len() {
        1 => u8::load(value).plus(u8::load(other)).store(value),
        2 => u16::load(value).plus(u16::load(other)).store(value),
        4 => u32::load(value).plus(u32::load(other)).store(value),
        _ => u64::load(value).plus(u64::load(other)).store(value),
    }
}

/// Adds to each word the one `distance` bytes before it, where the bytes before `from` are done.
fn sum<T: Word>(row: &mut [u8], distance: usize, from: usize) {
    if distance == T::SIZE {
        return sum_single::<T>(row, from);
    }
    // Pixel on pixel, which the compiler widens when they are large.
    let mut at = from.max(distance);
    while at < row.len() {
        let (before, here) = row.split_at_mut(at);
        let before = &before[at - distance..];
        for (value, other) in here.chunks_exact_mut(T::SIZE).zip(before.chunks_exact(T::SIZE)) {
            T::load(value).plus(T::load(other)).store(value);
        }
        at += distance;
    }
}

/// [`sum`] of rows with one sample in a pixel: the sum stays in a register.
fn sum_single<T: Word>(row: &mut [u8], from: usize) {
    let from = from.max(T::SIZE);
    if row.len() <= from {
        return;
    }
    let (before, rest) = row.split_at_mut(from);
    let mut last = T::load(&before[from - T::SIZE..]);
    for value in rest.chunks_exact_mut(T::SIZE) {
        last = T::load(value).plus(last);
        last.store(value);
    }
}

/// Takes from each word the one `distance` bytes before it.
fn differ<T: Word>(row: &mut [u8], distance: usize) {
    // From the end, since what is taken must not have been changed yet.
    for at in (distance..row.len()).step_by(T::SIZE).rev() {
        let before = T::load(&row[at - distance..at - distance + T::SIZE]);
        let value = &mut row[at..at + T::SIZE];
        T::load(value).minus(before).store(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [usize; 4] = [1, 2, 4, 8];

    /// xorshift64.
    fn noise(len: usize, seed: u64) -> Vec<u8> {
        let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 32) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    fn value(word: &[u8]) -> u64 {
        word.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b))
    }

    /// The plain twin: numbers of any size as u64, one after the other.
    fn naive_undo(row: &[u8], samples: usize, word: usize) -> Vec<u8> {
        let little = cfg!(target_endian = "little");
        let turn = |bytes: &mut [u8]| {
            if !little {
                bytes.chunks_exact_mut(word).for_each(<[u8]>::reverse)
            }
        };
        let mut bytes = row.to_vec();
        turn(&mut bytes);
        let mut values: Vec<u64> = bytes.chunks_exact(word).map(value).collect();
        for i in samples..values.len() {
            values[i] = values[i].wrapping_add(values[i - samples]);
        }
        let mut out: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()[..word].to_vec()).collect();
        turn(&mut out);
        out
    }

    fn naive_undo_float(row: &[u8], samples: usize, word: usize) -> Vec<u8> {
        let bytes = naive_undo(row, samples, 1);
        let count = bytes.len() / word;
        let mut out = Vec::new();
        for i in 0..count {
            let mut big: Vec<u8> = (0..word).map(|k| bytes[k * count + i]).collect();
            if cfg!(target_endian = "little") {
                big.reverse();
            }
            out.extend(big);
        }
        out
    }

    /// Widths that meet every head and tail of the wide paths, and some that go beyond the block.
    fn widths() -> impl Iterator<Item = usize> {
        (0..70).chain([255, 256, 511, 1000, 2049])
    }

    #[test]
    fn horizontal_both_ways() {
        for samples in (1..=9).chain([16, 17, 40]) {
            for word in WORDS {
                for width in widths() {
                    let row = noise(width * samples * word, width as u64);
                    let mut done = row.clone();
                    undo_horizontal(&mut done, samples, word);
                    assert!(done == naive_undo(&row, samples, word), "{width} pixels of {samples} of {word} bytes");
                    apply_horizontal(&mut done, samples, word);
                    assert!(done == row, "{width} pixels of {samples} of {word} bytes");
                }
            }
        }
    }

    /// The plain loops alone, as on a processor with no wide paths.
    fn check_plain<T: Word>() {
        for samples in 1..=9 {
            for width in 0..70 {
                let row = noise(width * samples * T::SIZE, 3);
                let mut done = row.clone();
                sum::<T>(&mut done, samples * T::SIZE, 0);
                assert!(done == naive_undo(&row, samples, T::SIZE));
                let mut bands = vec![vec![0; width * T::SIZE]; samples];
                let mut out: Vec<&mut [u8]> = bands.iter_mut().map(|band| &mut band[..]).collect();
                sum_apart(&row, &mut out, T::SIZE, 0);
                for (s, band) in bands.iter().enumerate() {
                    assert!(band.iter().eq(done.chunks_exact(T::SIZE).skip(s).step_by(samples).flatten()));
                }
                differ::<T>(&mut done, samples * T::SIZE);
                assert!(done == row);
            }
        }
    }

    #[test]
    fn plain_loops_do_the_whole_row_too() {
        check_plain::<u8>();
        check_plain::<u16>();
        check_plain::<u32>();
        check_plain::<u64>();
    }

    #[test]
    fn ragged_rows_leave_the_odd_bytes_alone() {
        for len in 0..200 {
            let row = noise(len, 9);
            let mut done = row.clone();
            undo_horizontal(&mut done, 3, 4);
            assert!(done[..len / 4 * 4] == naive_undo(&row, 3, 4));
            assert!(done[len / 4 * 4..] == row[len / 4 * 4..]);
            apply_horizontal(&mut done, 3, 4);
            assert!(done == row);
        }
    }

    #[test]
    fn float_both_ways() {
        for samples in 1..=9 {
            for word in [2, 3, 4, 8] {
                for width in widths() {
                    let row = noise(width * samples * word, width as u64);
                    let mut out = vec![0; row.len()];
                    undo_float(&mut row.clone(), &mut out, samples, word);
                    assert!(out == naive_undo_float(&row, samples, word), "{width} of {samples} of {word} bytes");
                    let mut back = vec![0; row.len()];
                    apply_float(&out, &mut back, samples, word);
                    assert!(back == row, "{width} pixels of {samples} of {word} bytes");
                }
            }
        }
    }

    #[test]
    fn floats_of_one_sample_leave_the_row_alone() {
        for word in [2, 3, 4, 8] {
            for width in widths() {
                let row = noise(width * word, 5);
                let due = naive_undo_float(&row, 1, word);
                for (shift, past) in [(0, false), (0, true), (1, true), (32, true)] {
                    let mut memory = vec![0; row.len() + 128];
                    let start = memory.as_ptr().align_offset(64) + shift;
                    undo_float_single(&row, &mut memory[start..start + row.len()], word, past);
                    assert!(memory[start..start + row.len()] == due, "{width} of {word} bytes");
                }
            }
        }
    }

    #[test]
    fn split_with_and_without_predictor() {
        for samples in (1..=9).chain([16, 33, 700]) {
            for word in WORDS {
                for width in widths().filter(|width| width * samples < 50_000) {
                    let row = noise(width * samples * word, width as u64);
                    for predicted in [false, true] {
                        let whole = if predicted { naive_undo(&row, samples, word) } else { row.clone() };
                        let mut bands = vec![vec![0; width * word]; samples];
                        let mut out: Vec<&mut [u8]> = bands.iter_mut().map(|band| &mut band[..]).collect();
                        split(&row, &mut out, word, predicted, width.is_multiple_of(2));
                        for (s, band) in bands.iter().enumerate() {
                            let due = whole.chunks_exact(word).skip(s).step_by(samples).flatten();
                            assert!(band.iter().eq(due), "{width} of {samples} of {word} bytes, band {s}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn joined_pixels_are_those_that_were_split() {
        for samples in (1..=9).chain([16, 33, 700]) {
            for word in [1, 2, 4, 8, 16] {
                for width in widths().filter(|width| width * samples < 50_000) {
                    let bands: Vec<Vec<u8>> = (0..samples).map(|s| noise(width * word, s as u64)).collect();
                    let bands: Vec<&[u8]> = bands.iter().map(|band| &band[..]).collect();
                    let mut out = vec![0; width * samples * word];
                    join(&bands, &mut out, word);
                    for (i, value) in out.chunks_exact(word).enumerate() {
                        let due = &bands[i % samples][i / samples * word..][..word];
                        assert!(value == due, "{width} of {samples} of {word} bytes, sample {i}");
                    }
                }
            }
        }
    }
}
