//! Copies past the caches: pixels of a large read are not needed again soon, and a plain store first fetches the line
//! it overwrites.

#![allow(unsafe_code)] // stores that no safe code can ask for

/// Results below this size may still be in a cache when they are used.
const LARGE: usize = 8 << 20;

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

    /// Copies a row of pixels that have not been touched for long, while `soon`, which is to be copied a little later,
    /// is fetched: rows of a window lie too far apart for a processor to see where they go on.
    pub(super) fn row_ahead(self, from: &[u8], to: &mut [u8], soon: &[u8]) {
        if self != Self::Plain {
            return self.row(from, to);
        }
        let (lines, rest) = from.as_chunks::<LINE>();
        let (places, place) = to.as_chunks_mut::<LINE>();
        for (i, (line, place)) in lines.iter().zip(places).enumerate() {
            if let Some(line) = soon.get(i * LINE) {
                fetch(line);
            }
            *place = *line;
        }
        place.copy_from_slice(rest);
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

/// Asks for a line of memory, without waiting for it.
#[inline(always)]
fn fetch(line: &u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: every x86-64 processor has it; it reads nothing as far as a program can tell.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
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
                for soon in [0..0, 0..length, 990..1000] {
                    let mut other = vec![0; 1000];
                    Copy::Plain.row_ahead(&from[3..3 + length], &mut other[start..start + length], &from[soon]);
                    assert_eq!(other, to);
                }
            }
        }
    }
}
