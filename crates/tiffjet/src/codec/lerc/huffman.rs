//! Huffman codes of bytes: how 8-bit images are stored, as values or as differences.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Cause;
use super::bits::{HighBits, HighBitsWriter, Stuffer, Values};
use super::value::{Input, Value};

/// Symbols there are.
const SYMBOLS: usize = 256;
/// The longest code.
const MAX_LEN: u32 = 32;
/// Codes up to this length are found by one look.
const FAST: u32 = 12;
/// Version of the code table.
const TABLE_VERSION: i32 = 4;

/// Turns bits into symbols.
pub(super) struct Decoder {
    /// By the next `FAST` bits: length in the high byte, 0 for none, and symbol.
    fast: Box<[u16; 1 << FAST]>,
    /// Longer codes, shortest first: length, code, symbol.
    long: Vec<(u32, u32, u8)>,
}

impl Decoder {
    /// Reads the code table.
    pub(super) fn read(input: &mut Input<'_>, blob_version: i32) -> Result<Self, Cause> {
        let [version, size, first, end] =
            [input.value::<i32>()?, input.value::<i32>()?, input.value::<i32>()?, input.value::<i32>()?];
        let count = i64::from(end) - i64::from(first);
        if version < 2 || !(0..SYMBOLS as i32).contains(&first) || size != SYMBOLS as i32 || !(1..=256).contains(&count)
        {
            return Err(Cause::damaged("LERC Huffman table makes no sense"));
        }
        let mut lengths = Values::new();
        lengths.read(input, blob_version, count as usize)?;
        let lengths = lengths.get();
        if lengths.iter().any(|&len| len > MAX_LEN) {
            return Err(Cause::damaged("LERC Huffman code is too long"));
        }
        let bits: usize = lengths.iter().map(|&len| len as usize).sum();
        let mut codes = HighBits::new(input.take(bits.div_ceil(32) * 4)?);
        let mut decoder = Self { fast: Box::new([0; 1 << FAST]), long: Vec::new() };
        for (k, &len) in lengths.iter().enumerate().filter(|&(_, &len)| len > 0) {
            // Symbols run round the end, so that small differences of both signs stand side by side.
            let symbol = ((first as usize + k) % SYMBOLS) as u8;
            let code = codes.peek() >> (32 - len);
            codes.skip(len);
            decoder.add(len, code, symbol);
        }
        decoder.long.sort_unstable();
        Ok(decoder)
    }

    fn add(&mut self, len: u32, code: u32, symbol: u8) {
        if len > FAST {
            self.long.push((len, code, symbol));
            return;
        }
        let first = (code << (FAST - len)) as usize;
        self.fast[first..first + (1 << (FAST - len))].fill((len as u16) << 8 | u16::from(symbol));
    }

    /// The next symbol; none where no code fits.
    #[inline(always)]
    pub(super) fn next(&self, bits: &mut HighBits<'_>) -> Option<u8> {
        let ahead = bits.peek();
        let entry = self.fast[(ahead >> (32 - FAST)) as usize];
        let (len, symbol) = if entry != 0 { (u32::from(entry >> 8), entry as u8) } else { self.long_code(ahead)? };
        bits.skip(len);
        Some(symbol)
    }

    /// Length and symbol. It does not see the bits themselves, so that a loop over them may keep them in registers.
    #[cold]
    fn long_code(&self, ahead: u32) -> Option<(u32, u8)> {
        let &(len, _, symbol) = self.long.iter().find(|&&(len, code, _)| ahead >> (32 - len) == code)?;
        Some((len, symbol))
    }
}

/// A code for the symbols of a histogram.
pub(super) struct Encoder {
    /// Length and code of each symbol.
    codes: [(u32, u32); SYMBOLS],
    /// Where the table begins, and how many symbols it holds.
    first: usize,
    count: usize,
}

impl Encoder {
    /// The best code for the histogram, which has at least one symbol.
    pub(super) fn new(histogram: &[u32; SYMBOLS]) -> Self {
        let lengths = lengths(histogram);
        let mut order: Vec<u8> = (0..=255).filter(|&s| lengths[usize::from(s)] > 0).collect();
        order.sort_by_key(|&s| lengths[usize::from(s)]);
        let mut codes = [(0, 0); SYMBOLS];
        let (mut code, mut last) = (0u64, 0);
        for &symbol in &order {
            let len = lengths[usize::from(symbol)];
            code <<= len - last;
            codes[usize::from(symbol)] = (len, code as u32);
            code += 1;
            last = len;
        }
        let (first, count) = range(&lengths);
        Self { codes, first, count }
    }

    /// Bytes of the table and of all the symbols of the histogram.
    pub(super) fn size(&self, histogram: &[u32; SYMBOLS]) -> usize {
        let lengths = self.table_lengths();
        let table_bits: usize = lengths.iter().map(|&len| len as usize).sum();
        let data_bits: u64 =
            histogram.iter().zip(&self.codes).map(|(&n, &(len, _))| u64::from(n) * u64::from(len)).sum();
        let stuffed = Stuffer::default().plan(&lengths, max(&lengths));
        16 + stuffed + table_bits.div_ceil(32) * 4 + data_bits.div_ceil(32) as usize * 4 + 4
    }

    /// Writes the code table.
    pub(super) fn write_table(&self, out: &mut Vec<u8>) {
        for v in [TABLE_VERSION, SYMBOLS as i32, self.first as i32, (self.first + self.count) as i32] {
            v.push_le(out);
        }
        let lengths = self.table_lengths();
        let mut stuffer = Stuffer::default();
        stuffer.plan(&lengths, max(&lengths));
        stuffer.write(&lengths, out);
        let mut bits = HighBitsWriter::default();
        for &(len, code) in self.table() {
            bits.push(code, len, out);
        }
        bits.finish(out);
    }

    /// Writes one symbol.
    #[inline(always)]
    pub(super) fn push(&self, symbol: u8, bits: &mut HighBitsWriter, out: &mut Vec<u8>) {
        let (len, code) = self.codes[usize::from(symbol)];
        bits.push(code, len, out);
    }

    /// The codes from the first symbol on, round the end.
    fn table(&self) -> impl Iterator<Item = &(u32, u32)> {
        self.codes.iter().cycle().skip(self.first).take(self.count)
    }

    fn table_lengths(&self) -> Vec<u32> {
        self.table().map(|&(len, _)| len).collect()
    }
}

fn max(values: &[u32]) -> u32 {
    values.iter().copied().max().unwrap_or(0)
}

/// Code lengths by Huffman's rule; the counts are flattened until none is too long.
fn lengths(histogram: &[u32; SYMBOLS]) -> [u32; SYMBOLS] {
    let mut counts = histogram.map(u64::from);
    loop {
        let lengths = tree_lengths(&counts);
        if max(&lengths) <= MAX_LEN {
            return lengths;
        }
        counts = counts.map(|n| if n == 0 { 0 } else { n / 2 + 1 });
    }
}

fn tree_lengths(counts: &[u64; SYMBOLS]) -> [u32; SYMBOLS] {
    let mut heap: BinaryHeap<Reverse<(u64, usize)>> =
        (0..SYMBOLS).filter(|&s| counts[s] > 0).map(|s| Reverse((counts[s], s))).collect();
    let mut lengths = [0; SYMBOLS];
    if let (1, Some(&Reverse((_, symbol)))) = (heap.len(), heap.peek()) {
        lengths[symbol] = 1;
        return lengths;
    }
    // Inner nodes are numbered behind the symbols, in the order of their making: a parent comes after its children.
    let mut parents = vec![0; SYMBOLS];
    while let (Some(Reverse((a, left))), Some(Reverse((b, right)))) = (heap.pop(), heap.pop()) {
        let node = parents.len();
        parents.push(0);
        parents[left] = node;
        parents[right] = node;
        if heap.is_empty() {
            break;
        }
        heap.push(Reverse((a + b, node)));
    }
    let mut depth = vec![0; parents.len()];
    for node in (0..parents.len()).rev() {
        if parents[node] > 0 {
            depth[node] = depth[parents[node]] + 1;
        }
    }
    lengths.copy_from_slice(&depth[..SYMBOLS]);
    lengths
}

/// First symbol and length of the shortest range, round the end, that holds every symbol in use.
fn range(lengths: &[u32; SYMBOLS]) -> (usize, usize) {
    let used: Vec<usize> = (0..SYMBOLS).filter(|&s| lengths[s] > 0).collect();
    let next = |k: usize| if k + 1 < used.len() { used[k + 1] } else { used[0] + SYMBOLS };
    let gap = |k: usize| next(k) - used[k];
    match (0..used.len()).max_by_key(|&k| gap(k)) {
        Some(k) => (next(k) % SYMBOLS, SYMBOLS + 1 - gap(k)),
        None => (0, SYMBOLS),
    }
}
