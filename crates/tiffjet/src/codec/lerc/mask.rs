//! Which pixels have a value: one bit each, the highest of a byte first, run-length coded in a blob.

use super::Cause;
use super::value::{Input, Value, truncated};

/// Ends the run-length code.
const END: i16 = i16::MIN;
/// Runs shorter than this are cheaper as literals.
const SHORTEST_RUN: usize = 5;

/// One bit for each pixel, row after row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mask {
    /// With eight bytes of padding, so that any 32 bits can be loaded at once.
    bits: Vec<u8>,
    pixels: usize,
}

impl Mask {
    /// All hidden.
    pub(super) fn hidden(pixels: usize) -> Self {
        Self { bits: vec![0; pixels.div_ceil(8) + 8], pixels }
    }

    pub(super) fn show(&mut self, k: usize) {
        self.bits[k / 8] |= 0x80 >> (k % 8);
    }

    #[inline(always)]
    pub(super) fn get(&self, k: usize) -> bool {
        self.bits[k / 8] & (0x80 >> (k % 8)) != 0
    }

    /// The bits of up to 32 pixels from pixel `k` on, the first one highest.
    #[inline]
    pub(super) fn bits(&self, k: usize, count: usize) -> u32 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.bits[k / 8..k / 8 + 8]);
        let shifted = (u64::from_be_bytes(word) << (k % 8) >> 32) as u32;
        if count < 32 { shifted & !(u32::MAX >> count) } else { shifted }
    }

    /// Pixels that are not hidden.
    pub(super) fn count(&self) -> usize {
        let (whole, rest) = (self.pixels / 8, self.pixels % 8);
        let ones: usize = self.bits[..whole].iter().map(|b| b.count_ones() as usize).sum();
        ones + self.bits(whole * 8, rest).count_ones() as usize
    }

    /// Reads the run-length code; `size` bytes of it stand in the blob.
    pub(super) fn read(input: &mut Input<'_>, size: usize, pixels: usize, valid: usize) -> Result<Self, Cause> {
        let mut code = Input::new(input.take(size)?);
        let mut mask = Self::hidden(pixels);
        let mut rest = &mut mask.bits[..pixels.div_ceil(8)];
        while !rest.is_empty() {
            let n = code.value::<i16>()?;
            if n == END {
                return Err(truncated());
            }
            let run = n.unsigned_abs() as usize;
            let (head, tail) = rest.split_at_mut_checked(run).ok_or_else(|| Cause::damaged("LERC mask is too long"))?;
            if n > 0 {
                head.copy_from_slice(code.take(run)?);
            } else {
                head.fill(code.u8()?);
            }
            rest = tail;
        }
        if mask.count() != valid {
            return Err(Cause::damaged("LERC mask and header differ in the number of pixels"));
        }
        Ok(mask)
    }

    /// Appends the run-length code.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let bytes = &self.bits[..self.pixels.div_ceil(8)];
        let (mut at, mut literal) = (0, 0);
        while at < bytes.len() {
            let run = bytes[at..].iter().take(i16::MAX as usize).take_while(|&&b| b == bytes[at]).count();
            if run >= SHORTEST_RUN {
                push_literals(&bytes[literal..at], out);
                (-(run as i16)).push_le(out);
                out.push(bytes[at]);
                literal = at + run;
            }
            at += run;
        }
        push_literals(&bytes[literal..], out);
        END.push_le(out);
    }
}

fn push_literals(bytes: &[u8], out: &mut Vec<u8>) {
    for part in bytes.chunks(i16::MAX as usize) {
        (part.len() as i16).push_le(out);
        out.extend_from_slice(part);
    }
}
