//! Copies past the caches: pixels of a large read are not needed again soon, and a plain store first fetches the line
//! it overwrites.

#![allow(unsafe_code)] // stores that no safe code can ask for

/// Results below this size may still be in a cache when they are used.
const LARGE: usize = 8 << 20;

/// Rows between the one that is copied and the one that is fetched for later.
const AHEAD: usize = 8;

/// Bytes of a line of the caches.
const LINE: usize = 64;

/// How rows are copied to their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copy {
    /// Through the caches.
    Plain,
    /// Past them, with the widest stores there are.
    #[cfg(target_arch = "x86_64")]
    Past,
}

/// Rows of one length that lie apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows<'a> {
    bytes: &'a [u8],
    /// Bytes of a row.
    length: usize,
    /// Bytes from one row to the next.
    stride: usize,
}

impl<'a> Rows<'a> {
    /// `count` rows of `length` bytes, the first at the beginning of `bytes`.
    pub(super) fn new(bytes: &'a [u8], count: usize, length: usize, stride: usize) -> Self {
        assert!(length <= stride, "rows must not overlap");
        let end = count.saturating_sub(1) * stride + if count > 0 { length } else { 0 };
        Self { bytes: &bytes[..end], length, stride }
    }

    fn iter(self) -> impl ExactSizeIterator<Item = &'a [u8]> {
        self.bytes.chunks(self.stride.max(1)).map(move |row| &row[..self.length])
    }
}

impl Copy {
    /// The way for a result of that many bytes.
    pub(super) fn for_output(bytes: usize) -> Self {
        #[cfg(target_arch = "x86_64")]
        if bytes >= LARGE && std::arch::is_x86_feature_detected!("avx") {
            return Self::Past;
        }
        let _ = bytes;
        Self::Plain
    }

    /// Whether this is the way past the caches.
    pub(super) fn is_past(self) -> bool {
        self != Self::Plain
    }

    /// Whether pixels may be made right where they go. Past the caches these must be whole lines: one that is written
    /// in parts costs more than it saves.
    pub(super) fn suits(self, place: &[u8]) -> bool {
        self == Self::Plain || (place.as_ptr().addr().is_multiple_of(LINE) && place.len().is_multiple_of(LINE))
    }

    /// Copies a row; both have one length.
    pub(super) fn row(self, from: &[u8], to: &mut [u8]) {
        match self {
            Self::Plain => to.copy_from_slice(from),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `for_output` found AVX.
            Self::Past => unsafe { past_caches(from, to) },
        }
    }

    /// Copies rows of pixels that have not been touched for long. Rows of a window lie too far apart for a processor to
    /// see where they go on, so those that are due a little later are fetched on the way.
    pub(super) fn rows<'c>(self, from: Rows<'_>, place: impl FnMut(usize) -> &'c mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        if self == Self::Plain && std::arch::is_x86_feature_detected!("avx") {
            // SAFETY: AVX is there.
            return unsafe { rows_ahead(from, place) };
        }
        from.iter().zip((0..).map(place)).for_each(|(row, place)| self.row(row, place));
    }

    /// Makes what was copied visible to other threads before they are told of it.
    pub(super) fn settle(self) {
        #[cfg(target_arch = "x86_64")]
        if self == Self::Past {
            // SAFETY: every x86-64 processor has it.
            unsafe { std::arch::x86_64::_mm_sfence() };
        }
    }
}

/// Lines are copied one by one and each brings another one nearer, which a call of `memcpy` would not.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
fn rows_ahead<'c>(from: Rows<'_>, mut place: impl FnMut(usize) -> &'c mut [u8]) {
    use std::arch::x86_64::{__m256i, _MM_HINT_T1, _mm_prefetch, _mm256_lddqu_si256, _mm256_storeu_si256};
    let rows = from.iter().len();
    for (y, row) in from.iter().enumerate() {
        let ahead = if y + AHEAD < rows { AHEAD * from.stride } else { 0 };
        let to = place(y);
        assert_eq!(row.len(), to.len());
        let end = row.len() / LINE * LINE;
        for i in (0..end).step_by(LINE) {
            // SAFETY: `i + LINE <= end`, which is inside both slices. What is fetched ahead is not read as far as a
            // program can tell.
            unsafe {
                let line = row.as_ptr().add(i);
                _mm_prefetch::<_MM_HINT_T1>(line.wrapping_add(ahead).cast());
                // Plain loads and stores in a loop are what compilers make that call of.
                let low = _mm256_lddqu_si256(line.cast::<__m256i>());
                let high = _mm256_lddqu_si256(line.add(LINE / 2).cast::<__m256i>());
                _mm256_storeu_si256(to.as_mut_ptr().add(i).cast(), low);
                _mm256_storeu_si256(to.as_mut_ptr().add(i + LINE / 2).cast(), high);
            }
        }
        to[end..].copy_from_slice(&row[end..]);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
fn past_caches(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_stream_si256};
    assert_eq!(from.len(), to.len());
    // Whole lines only: a line that is written in parts costs more than it saves.
    let head = to.as_ptr().align_offset(LINE).min(to.len());
    let lines = (to.len() - head) / LINE;
    let end = head + lines * LINE;
    to[..head].copy_from_slice(&from[..head]);
    for i in 0..lines * 2 {
        // SAFETY: `head + i * 32 + 32 <= end`, which is inside both slices, and `to` is aligned to 32 bytes there.
        unsafe {
            let value = _mm256_loadu_si256(from.as_ptr().add(head + i * 32).cast::<__m256i>());
            _mm256_stream_si256(to.as_mut_ptr().add(head + i * 32).cast::<__m256i>(), value);
        }
    }
    to[end..].copy_from_slice(&from[end..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_alignment_is_copied_whole() {
        let from: Vec<u8> = (0..1000u32).map(|i| (i * 7 % 251) as u8).collect();
        for start in 0..70 {
            for length in [0, 1, 31, 64, 65, 127, 128, 200, 700] {
                let mut to = vec![0; 1000];
                let copy = Copy::for_output(LARGE);
                copy.row(&from[3..3 + length], &mut to[start..start + length]);
                copy.settle();
                assert_eq!(&to[start..start + length], &from[3..3 + length]);
                assert!(to[..start].iter().chain(&to[start + length..]).all(|&b| b == 0));
            }
        }
    }

    #[test]
    fn rows_come_to_their_places_whatever_lies_between() {
        let from: Vec<u8> = (0..5000u32).map(|i| (i * 7 % 251) as u8).collect();
        for (count, length, stride) in [(0, 5, 5), (1, 0, 0), (1, 64, 64), (7, 200, 333), (3, 1, 64), (12, 384, 400)] {
            for copy in [Copy::Plain, Copy::for_output(LARGE)] {
                let mut to = vec![0; count * length];
                let mut places = to.chunks_exact_mut(length.max(1));
                copy.rows(Rows::new(&from[3..], count, length, stride), |_| places.next().unwrap_or_default());
                copy.settle();
                let rows = (0..count).flat_map(|y| &from[3 + y * stride..][..length]).copied();
                assert!(rows.eq(to), "{count} rows of {length} bytes, {stride} apart");
            }
        }
    }
}
