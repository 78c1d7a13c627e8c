//! Bit-stuffed arrays: small integers of equal width side by side, straight or through a table of the distinct ones.

use super::Cause;
use super::header::MAX_BLOCK;
use super::value::{Input, Value, truncated};

/// The most values of one array: a block of the largest side (a table of code lengths has fewer).
pub(super) const MAX_VALUES: usize = MAX_BLOCK * MAX_BLOCK;
/// The widest values.
const MAX_WIDTH: usize = 31;
/// A flag of the first byte: values are numbers in a table.
const TABLE: u8 = 1 << 5;
/// The most entries of a table, the implied 0 not counted.
const MAX_TABLE: usize = 254;

/// Room for a decoded array; groups of eight are written whole.
pub(super) struct Values {
    room: Box<[u32; MAX_VALUES + 8]>,
    len: usize,
}

impl Values {
    pub(super) fn new() -> Self {
        Self { room: Box::new([0; MAX_VALUES + 8]), len: 0 }
    }

    pub(super) fn get(&self) -> &[u32] {
        &self.room[..self.len]
    }

    /// Reads an array of exactly `expected` values. Versions before 3 stuff from the high bits of words.
    pub(super) fn read(&mut self, input: &mut Input<'_>, version: i32, expected: usize) -> Result<(), Cause> {
        let first = input.u8()?;
        let len = match first >> 6 {
            0 => input.value::<u32>()? as usize,
            1 => usize::from(input.value::<u16>()?),
            2 => usize::from(input.u8()?),
            _ => return Err(Cause::damaged("LERC array of an unknown length")),
        };
        if len != expected || len > MAX_VALUES {
            return Err(Cause::damaged("LERC array of a wrong length"));
        }
        self.len = len;
        let width = usize::from(first & 31);
        if first & TABLE == 0 {
            return unstuff(input, version, width, len, &mut self.room[..]);
        }
        let entries = usize::from(input.u8()?);
        if width == 0 || entries < 2 {
            return Err(Cause::damaged("LERC table is empty"));
        }
        // The first entry is 0 and not stored.
        let mut table = [0u32; 256 + 8];
        unstuff(input, version, width, entries - 1, &mut table[1..])?;
        unstuff(input, version, bit_width(entries as u32 - 1), len, &mut self.room[..])?;
        for v in &mut self.room[..len] {
            if *v as usize >= entries {
                return Err(Cause::damaged("LERC table has no such entry"));
            }
            *v = table[*v as usize];
        }
        Ok(())
    }
}

/// Bits of a number without its leading zeros.
fn bit_width(v: u32) -> usize {
    (32 - v.leading_zeros()) as usize
}

/// Reads `len` values of `width` bits; `out` has room for the last group of eight.
fn unstuff(input: &mut Input<'_>, version: i32, width: usize, len: usize, out: &mut [u32]) -> Result<(), Cause> {
    let bytes = (len * width).div_ceil(8);
    if version < 3 {
        unstuff_high_first(input.take(bytes)?, width, &mut out[..len]);
        return Ok(());
    }
    // Groups load eight bytes more than they use: where the blob has them, straight from it.
    let needed = len.div_ceil(8) * width + 8;
    let groups = &mut out[..len.div_ceil(8) * 8];
    if let Some(source) = input.rest().get(..needed) {
        UNSTUFF[width](source, groups);
        input.take(bytes)?;
    } else {
        let mut padded = [0u8; MAX_VALUES / 8 * MAX_WIDTH + 8];
        let source = input.take(bytes)?;
        padded[..bytes].copy_from_slice(source);
        UNSTUFF[width](&padded[..needed], groups);
    }
    Ok(())
}

/// Unpacks whole groups of eight values; the source goes on eight bytes beyond them.
type Unstuff = fn(source: &[u8], out: &mut [u32]);

/// One function for each width: shifts and offsets are constants in them.
static UNSTUFF: [Unstuff; MAX_WIDTH + 1] = {
    macro_rules! widths { ($($w:literal)*) => { [$(unstuff_groups::<$w>),*] }; }
    widths!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
};

/// Eight values of `W` bits are `W` bytes, low bits first.
fn unstuff_groups<const W: usize>(source: &[u8], out: &mut [u32]) {
    for (n, group) in out.chunks_exact_mut(8).enumerate() {
        let window = &source[n * W..n * W + W + 8];
        for (k, v) in group.iter_mut().enumerate() {
            let at = k * W / 8;
            let mut word = [0; 8];
            word.copy_from_slice(&window[at..at + 8]);
            *v = (u64::from_le_bytes(word) >> (k * W % 8)) as u32 & ((1 << W) - 1);
        }
    }
}

/// Little-endian words filled from the high bits; of the last word only the high bytes are stored.
fn unstuff_high_first(source: &[u8], width: usize, out: &mut [u32]) {
    let byte = |bit: usize| {
        let word = bit / 32 * 4;
        let stored = (source.len() - word).min(4);
        let from_top = bit % 32 / 8;
        source[word + stored - 1 - from_top]
    };
    for (n, v) in out.iter_mut().enumerate() {
        *v = (n * width..(n + 1) * width).fold(0, |v, bit| v << 1 | u32::from(byte(bit) >> (7 - bit % 8) & 1));
    }
}

/// Bytes of the plain and of the tabled form of the array, and the table if it pays. `max` is the largest value.
fn plan(values: &[u32], max: u32, table: &mut Vec<u32>) -> (usize, bool) {
    let width = bit_width(max);
    let plain = (values.len() * width).div_ceil(8);
    let tabled =
        |entries: usize| 1 + (entries * width).div_ceil(8) + (values.len() * bit_width(entries as u32)).div_ceil(8);
    if width < 2 || tabled(distinct_at_least(values).saturating_sub(1)) >= plain {
        return (plain, false);
    }
    table.clear();
    table.extend(values.iter().copied().filter(|&v| v != 0));
    table.sort_unstable();
    table.dedup();
    let pays = !table.is_empty() && table.len() <= MAX_TABLE && tabled(table.len()) < plain;
    (if pays { tabled(table.len()) } else { plain }, pays)
}

/// A quick lower bound of the number of distinct values: how many of 256 places a hash of them hits.
fn distinct_at_least(values: &[u32]) -> usize {
    let mut hit = [0u64; 4];
    for &v in values {
        let place = (v.wrapping_mul(0x9e37_79b1) >> 24) as usize;
        hit[place / 64] |= 1 << (place % 64);
    }
    hit.iter().map(|h| h.count_ones() as usize).sum()
}

/// Writes arrays; keeps the room for tables between them.
#[derive(Default)]
pub(super) struct Stuffer {
    table: Vec<u32>,
    tabled: bool,
    width: usize,
    size: usize,
}

impl Stuffer {
    /// Decides on the form of the array and gives its size in bytes.
    pub(super) fn plan(&mut self, values: &[u32], max: u32) -> usize {
        let (data, tabled) = plan(values, max, &mut self.table);
        let length = if values.len() < 256 { 1 } else { 2 };
        self.tabled = tabled;
        self.width = bit_width(max);
        self.size = 1 + length + data;
        self.size
    }

    /// Writes the array that was planned last.
    pub(super) fn write(&self, values: &[u32], out: &mut Vec<u8>) {
        let first = self.width as u8 | if self.tabled { TABLE } else { 0 };
        if values.len() < 256 {
            out.extend_from_slice(&[first | 2 << 6, values.len() as u8]);
        } else {
            out.push(first | 1 << 6);
            (values.len() as u16).push_le(out);
        }
        if !self.tabled {
            return stuff(values.iter().copied(), self.width, out);
        }
        out.push(self.table.len() as u8 + 1);
        stuff(self.table.iter().copied(), self.width, out);
        let number = |v: u32| self.table.partition_point(|&t| t < v) as u32 + u32::from(v != 0);
        stuff(values.iter().map(|&v| number(v)), bit_width(self.table.len() as u32), out);
    }
}

fn stuff(values: impl Iterator<Item = u32>, width: usize, out: &mut Vec<u8>) {
    let (mut held, mut bits) = (0u64, 0);
    for v in values {
        held |= u64::from(v) << bits;
        bits += width;
        if bits >= 32 {
            out.extend_from_slice(&(held as u32).to_le_bytes());
            held >>= 32;
            bits -= 32;
        }
    }
    out.extend_from_slice(&held.to_le_bytes()[..bits.div_ceil(8)]);
}

/// Bits from the high end of little-endian words, as Huffman codes are packed.
#[derive(Clone)]
pub(super) struct HighBits<'a> {
    words: std::slice::ChunksExact<'a, u8>,
    /// The next bits, highest first.
    held: u64,
    bits: u32,
    /// Bits that were handed out beyond the end, as zeros.
    missing: u32,
}

impl<'a> HighBits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { words: bytes.chunks_exact(4), held: 0, bits: 0, missing: 0 }
    }

    /// Makes sure that 32 bits are held.
    #[inline(always)]
    fn refill(&mut self) {
        if self.bits < 32 {
            let word = match self.words.next() {
                Some(w) => u32::from_le_bytes([w[0], w[1], w[2], w[3]]),
                None => {
                    self.missing = self.missing.saturating_add(32);
                    0
                }
            };
            self.held |= u64::from(word) << (32 - self.bits);
            self.bits += 32;
        }
    }

    /// The next 32 bits, not yet used up.
    #[inline(always)]
    pub(super) fn peek(&mut self) -> u32 {
        self.refill();
        (self.held >> 32) as u32
    }

    /// Uses up at most 32 peeked bits.
    #[inline(always)]
    pub(super) fn skip(&mut self, n: u32) {
        self.held <<= n;
        self.bits -= n;
    }

    /// Fails if more bits were used up than there are.
    pub(super) fn check(&self) -> Result<(), Cause> {
        if self.missing > self.bits { Err(truncated()) } else { Ok(()) }
    }
}

/// Packs Huffman codes as [`HighBits`] reads them.
#[derive(Default)]
pub(super) struct HighBitsWriter {
    held: u64,
    bits: u32,
}

impl HighBitsWriter {
    #[inline(always)]
    pub(super) fn push(&mut self, code: u32, len: u32, out: &mut Vec<u8>) {
        self.held = self.held << len | u64::from(code);
        self.bits += len;
        if self.bits >= 32 {
            self.bits -= 32;
            out.extend_from_slice(&((self.held >> self.bits) as u32).to_le_bytes());
        }
    }

    /// Pads the last word with zeros.
    pub(super) fn finish(self, out: &mut Vec<u8>) {
        if self.bits > 0 {
            out.extend_from_slice(&((self.held << (32 - self.bits)) as u32).to_le_bytes());
        }
    }
}
