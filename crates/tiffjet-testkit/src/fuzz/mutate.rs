//! Damage that is the same in every run, for machines without libFuzzer.

use crate::pixels::mix;

/// Bytes that mean something somewhere: sizes, signs, markers, tags.
const WORDS: [&[u8]; 24] = [
    b"\0",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\0\0",
    b"\xff\xff",
    b"\0\x01",
    b"\x01\0",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\0\0\0\x80",
    b"\xff\xd8\xff\xc0",
    b"\xff\xda",
    b"\xff\xd9",
    b"\xff\x4f\xff\x51",
    b"\x28\xb5\x2f\xfd",
    b"Lerc2 ",
    b"RIFF",
    b"<Item name=\"",
    b"&#0;",
    b"nan",
    b"1e999",
    b"\x00\x00\xf0\x7f",
];

/// Spoils bytes by a sequence of numbers that depends on its seed alone.
#[derive(Debug, Clone)]
pub struct Mutator {
    state: u64,
}

impl Mutator {
    /// The one of that seed.
    pub fn new(seed: u64) -> Self {
        Self { state: mix(seed) }
    }

    /// A number below `end`; 0 where there is none.
    pub fn below(&mut self, end: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mix(self.state) >> 16) as usize % end.max(1)
    }

    /// One to four changes, and at times a part of another input.
    pub fn spoil(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        for _ in 0..=self.below(4) {
            // Headers are where the meaning is.
            let end = if self.below(2) == 0 { bytes.len().min(400) } else { bytes.len() };
            let at = self.below(end);
            match self.below(10) {
                0 => bytes.truncate(at),
                1 | 2 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                3 if !bytes.is_empty() => bytes[at] = self.below(256) as u8,
                4 if !bytes.is_empty() => bytes[at] = bytes[at].wrapping_add(1 + self.below(8) as u8),
                5 | 6 => self.overwrite(bytes, at),
                7 => {
                    let from = self.below(other.len());
                    let length = self.below(64).min(other.len() - from);
                    bytes.splice(at..at, other[from..from + length].iter().copied());
                }
                8 => {
                    let length = self.below(64).min(bytes.len() - at);
                    bytes.drain(at..at + length);
                }
                _ => {
                    let (length, to) = (self.below(64).min(bytes.len() - at), self.below(bytes.len()));
                    let piece = bytes[at..at + length].to_vec();
                    bytes.iter_mut().skip(to).zip(piece).for_each(|(byte, new)| *byte = new);
                }
            }
        }
    }

    fn overwrite(&mut self, bytes: &mut [u8], at: usize) {
        let word = WORDS[self.below(WORDS.len())];
        bytes.iter_mut().skip(at).zip(word).for_each(|(byte, new)| *byte = *new);
    }
}
