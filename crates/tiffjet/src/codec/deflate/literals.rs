//! Deflate without matches: a Huffman code for the bytes of each block and nothing else.
//!
//! Where an image is noisy there is nothing to be found that repeats, and looking for it is nearly all of the time.

use libdeflater::adler32;

/// Bytes that share a code: enough to pay for it, few enough that it fits them.
const BLOCK: usize = 64 << 10;
/// What ends a block, behind the 256 bytes.
const END: usize = 256;
/// Bits of the longest code. Four of them fit a register beside what is left of the byte before.
const LONGEST: usize = 14;
/// The same of the codes in which the lengths of codes are written.
const LONGEST_LENGTH: usize = 7;
/// How those name runs: the length before three to six times, no code three to ten and eleven to 138 times.
const AGAIN: u8 = 16;
const FEW_ABSENT: u8 = 17;
const MANY_ABSENT: u8 = 18;
/// The order in which their lengths are written.
const LENGTHS_ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Compresses bytes, in a zlib frame.
pub(super) fn compress(bytes: &[u8], out: &mut Vec<u8>) {
    // A window of 32 KiB, the quickest of all ways.
    out.extend([0x78, 0x01]);
    let mut writer = Writer { out, held: 0, bits: 0 };
    let mut blocks = bytes.chunks(BLOCK).peekable();
    if blocks.peek().is_none() {
        block(&[], true, &mut writer);
    }
    while let Some(bytes) = blocks.next() {
        block(bytes, blocks.peek().is_none(), &mut writer);
    }
    writer.finish();
    out.extend(adler32(bytes).to_be_bytes());
}

/// Whether much of some bytes has stood before, near enough for a match.
pub(super) fn repeats(bytes: &[u8]) -> bool {
    let ((near, nearby), (far, afar)) = (repeats_near(bytes), repeats_far(bytes));
    near + far > (nearby + afar) / 32
}

/// How often eight bytes begin again a pixel or so behind, and how often it was looked for.
fn repeats_near(bytes: &[u8]) -> (usize, usize) {
    const STEP: usize = 64;
    let (steps, _) = bytes.as_chunks::<STEP>();
    let again = |step: &&[u8; STEP]| (1..=16).any(|k| step[k..k + 8] == step[..8]);
    (steps.iter().filter(again).count(), steps.len())
}

/// The same for bytes anywhere before. Only places where the hash of what stands there ends with zeros are looked at: the
/// same ones wherever it stands again.
fn repeats_far(bytes: &[u8]) -> (usize, usize) {
    const WINDOW: usize = 32 << 10;
    const SELECTED: u32 = 31;
    let mut last = [0u32; 1 << 12];
    let (mut found, mut looked) = (0, 0);
    for (at, eight) in bytes.windows(8).enumerate() {
        let [a, b, c, d, ..] = *eight else { break };
        let hash = u32::from_le_bytes([a, b, c, d]).wrapping_mul(0x9e37_79b1);
        if (hash >> 15) & SELECTED != 0 {
            continue;
        }
        let slot = &mut last[(hash >> 20) as usize];
        let before = *slot as usize;
        *slot = at as u32;
        looked += 1;
        found += usize::from(before < at && at - before <= WINDOW && bytes[before..before + 8] == *eight);
    }
    (found, looked)
}

/// One block.
fn block(bytes: &[u8], last: bool, writer: &mut Writer<'_>) {
    let counts = count(bytes);
    let lengths = lengths::<LONGEST>(&counts);
    let codes = codes(&lengths);
    // Codes of its own.
    writer.put(u32::from(last) | 2 << 1, 3);
    header(&lengths, writer);
    let bits: u64 = counts.iter().zip(&lengths).map(|(&count, &length)| u64::from(count) * u64::from(length)).sum();
    let table: [Code; 256] = std::array::from_fn(|i| Code { bits: codes[i], length: lengths[i] });
    writer.literals(bytes, &table, bits.div_ceil(8) as usize);
    writer.put(codes[END].into(), lengths[END].into());
}

/// How often each byte stands there, and the end once.
fn count(bytes: &[u8]) -> [u32; 257] {
    // Neighbours are often the same: each of four has counters of its own, so that none waits for another.
    let mut apart = [[0u32; 256]; 4];
    let (fours, rest) = bytes.as_chunks::<4>();
    for four in fours {
        for (counters, &byte) in apart.iter_mut().zip(four) {
            counters[usize::from(byte)] += 1;
        }
    }
    for &byte in rest {
        apart[0][usize::from(byte)] += 1;
    }
    let mut counts: [u32; 257] = std::array::from_fn(|i| apart.iter().filter_map(|counters| counters.get(i)).sum());
    counts[END] = 1;
    counts
}

/// Writes the lengths of all codes: those of bytes, and two of distances that nobody uses, which every reader takes.
fn header(lengths: &[u8], writer: &mut Writer<'_>) {
    let all: Vec<u8> = lengths.iter().copied().chain([1, 1]).collect();
    let runs: Vec<(u8, u32, u32)> = all.chunk_by(|a, b| a == b).flat_map(runs).collect();
    let mut counts = [0; 19];
    runs.iter().for_each(|&(symbol, ..)| counts[usize::from(symbol)] += 1);
    let lengths = self::lengths::<LONGEST_LENGTH>(&counts);
    let codes = codes(&lengths);
    let written = LENGTHS_ORDER.iter().rposition(|&symbol| lengths[symbol] > 0).map_or(4, |last| last + 1).max(4);
    // 257 codes of bytes and their end, two of distances.
    writer.put(1 << 5, 10);
    writer.put(written as u32 - 4, 4);
    LENGTHS_ORDER[..written].iter().for_each(|&symbol| writer.put(lengths[symbol].into(), 3));
    for (symbol, more, bits) in runs {
        let symbol = usize::from(symbol);
        writer.put(codes[symbol].into(), lengths[symbol].into());
        writer.put(more, bits);
    }
}

/// Symbols that stand for a length some times: the symbol, what follows it, and in how many bits.
fn runs(same: &[u8]) -> Vec<(u8, u32, u32)> {
    let (length, mut left) = (same[0], same.len() as u32);
    let mut runs = Vec::new();
    if length > 0 {
        runs.push((length, 0, 0));
        left -= 1;
    }
    while left >= 3 {
        let (most, symbol, bits) = match length {
            1.. => (6, AGAIN, 2),
            0 if left <= 10 => (10, FEW_ABSENT, 3),
            0 => (138, MANY_ABSENT, 7),
        };
        let run = left.min(most);
        runs.push((symbol, run - if symbol == MANY_ABSENT { 11 } else { 3 }, bits));
        left -= run;
    }
    runs.extend((0..left).map(|_| (length, 0, 0)));
    runs
}

/// Lengths of a Huffman code of `MOST` bits at most; 0 for what never stands there.
fn lengths<const MOST: usize>(counts: &[u32]) -> Vec<u8> {
    let mut symbols: Vec<(u32, usize)> = counts.iter().copied().zip(0..).filter(|&(count, _)| count > 0).collect();
    symbols.sort_unstable();
    let of_length = limited::<MOST>(&depths(&symbols));
    let mut lengths = vec![0; counts.len()];
    let mut rarest = symbols.iter();
    for (length, &count) in of_length.iter().enumerate().rev() {
        for &(_, symbol) in rarest.by_ref().take(count as usize) {
            lengths[symbol] = length as u8;
        }
    }
    lengths
}

/// How deep each symbol stands in the tree that Huffman gives, from the rarest symbol on.
fn depths(symbols: &[(u32, usize)]) -> Vec<usize> {
    let leaves = symbols.len();
    let nodes = (2 * leaves).saturating_sub(1);
    let mut weights: Vec<u32> = symbols.iter().map(|&(count, _)| count).collect();
    let mut parents = vec![0; nodes];
    // Leaves are in order, and so are nodes as they are made: the two lightest are at the front.
    let (mut leaf, mut node) = (0, leaves);
    for made in leaves..nodes {
        let mut weight = 0;
        for _ in 0..2 {
            let front =
                if leaf < leaves && (node == made || weights[leaf] <= weights[node]) { &mut leaf } else { &mut node };
            parents[*front] = made;
            weight += weights[*front];
            *front += 1;
        }
        weights.push(weight);
    }
    let mut depths = vec![0; nodes];
    // One symbol alone has a bit of its own.
    if let [only] = &mut depths[..] {
        *only = 1;
    }
    for i in (0..nodes.saturating_sub(1)).rev() {
        depths[i] = depths[parents[i]] + 1;
    }
    depths.truncate(leaves);
    depths
}

/// How many codes there are of each length, none longer than `MOST`: what is too long is cut, and others make room for it.
fn limited<const MOST: usize>(depths: &[usize]) -> [u32; 16] {
    let mut of_length = [0u32; 16];
    depths.iter().for_each(|&depth| of_length[depth.min(MOST)] += 1);
    let room = 1u32 << MOST;
    let mut taken: u32 = (1..=MOST).map(|length| of_length[length] << (MOST - length)).sum();
    while taken > room {
        // A code becomes two that are a bit longer: one for itself, one for a cut one.
        let Some(length) = (1..MOST).rev().find(|&length| of_length[length] > 0) else { break };
        of_length[length] -= 1;
        of_length[length + 1] += 2;
        of_length[MOST] -= 1;
        taken -= 1;
    }
    of_length
}

/// The codes of given lengths, the first bit in the lowest place.
fn codes(lengths: &[u8]) -> Vec<u16> {
    let mut next = [0u16; 17];
    for &length in lengths.iter().filter(|&&length| length > 0) {
        next[usize::from(length) + 1] += 1;
    }
    for length in 1..next.len() {
        next[length] = (next[length] + next[length - 1]) << 1;
    }
    let code = |&length: &u8| {
        if length == 0 {
            return 0;
        }
        let next = &mut next[usize::from(length)];
        *next += 1;
        (*next - 1).reverse_bits() >> (16 - u32::from(length))
    };
    lengths.iter().map(code).collect()
}

#[derive(Clone, Copy)]
struct Code {
    bits: u16,
    length: u8,
}

/// Bits, from the lowest up.
struct Writer<'a> {
    out: &'a mut Vec<u8>,
    held: u64,
    bits: u32,
}

impl Writer<'_> {
    /// Writes up to 32 bits.
    fn put(&mut self, value: u32, bits: u32) {
        self.held |= u64::from(value) << self.bits;
        self.bits += bits;
        while self.bits >= 8 {
            self.out.push(self.held as u8);
            self.held >>= 8;
            self.bits -= 8;
        }
    }

    /// Writes the codes of bytes, which take no more than `room` bytes and one.
    fn literals(&mut self, bytes: &[u8], table: &[Code; 256], room: usize) {
        let start = self.out.len();
        self.out.resize(start + room + 1 + size_of::<u64>(), 0);
        let (out, mut at) = (&mut self.out[start..], 0);
        let (mut held, mut bits) = (self.held, self.bits);
        let mut write = |bytes: &[u8]| {
            for &byte in bytes {
                let code = table[usize::from(byte)];
                held |= u64::from(code.bits) << bits;
                bits += u32::from(code.length);
            }
            out[at..at + 8].copy_from_slice(&held.to_le_bytes());
            at += (bits / 8) as usize;
            held >>= bits & !7;
            bits %= 8;
        };
        let (fours, rest) = bytes.as_chunks::<4>();
        fours.iter().for_each(|four| write(four));
        write(rest);
        (self.held, self.bits) = (held, bits);
        self.out.truncate(start + at);
    }

    /// Fills the last byte.
    fn finish(mut self) {
        let missing = self.bits.next_multiple_of(8) - self.bits;
        self.put(0, missing);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::Random;
    use super::*;
    use flate2::{Decompress, FlushDecompress, Status};

    /// Two readers that share no code with each other must give the bytes back.
    fn check(plain: &[u8]) -> usize {
        let mut packed = Vec::new();
        compress(plain, &mut packed);
        let mut out = vec![0; plain.len()];
        let got = libdeflater::Decompressor::new().zlib_decompress(&packed, &mut out).unwrap();
        assert!(got == plain.len() && out == plain, "{} bytes", plain.len());
        let mut out = vec![0; plain.len() + 1];
        let mut stream = Decompress::new(true);
        assert_eq!(stream.decompress(&packed, &mut out, FlushDecompress::Finish).unwrap(), Status::StreamEnd);
        assert!(stream.total_out() as usize == plain.len() && out[..plain.len()] == *plain);
        assert_eq!(stream.total_in() as usize, packed.len());
        packed.len()
    }

    #[test]
    fn there_and_back() {
        let mut random = Random::new(4);
        for values in [1, 2, 3, 7, 100, 256] {
            for length in [0, 1, 2, 3, 4, 5, 300, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7] {
                check(&(0..length).map(|_| random.below(values) as u8).collect::<Vec<u8>>());
            }
        }
        // Every pair of bytes that are there and that are not makes other runs of lengths.
        for step in 1..256 {
            check(&(0..=255).step_by(step).collect::<Vec<u8>>());
            check(&(0..=255).skip(step).collect::<Vec<u8>>());
        }
    }

    #[test]
    fn codes_that_would_be_too_long_are_cut() {
        // Each byte as often as all before it together: every code a bit longer than the next.
        let plain: Vec<u8> = (0..16).flat_map(|byte| std::iter::repeat_n(byte, 1 << byte)).collect();
        assert_eq!(depths(&[(1, 0), (1, 1), (2, 2), (4, 3), (8, 4)]), [4, 4, 3, 2, 1]);
        let lengths = lengths::<LONGEST>(&count(&plain));
        assert_eq!(lengths.iter().max(), Some(&(LONGEST as u8)));
        let room: u32 = lengths.iter().filter(|&&l| l > 0).map(|&l| 1 << (LONGEST as u8 - l)).sum();
        assert_eq!(room, 1 << LONGEST, "a code with no gap");
        check(&plain);
    }

    #[test]
    fn as_small_as_the_bytes_allow() {
        let mut random = Random::new(9);
        let plain: Vec<u8> = (0..8 * BLOCK).map(|_| (random.next() >> 30).trailing_zeros() as u8).collect();
        // One bit for half of them, two for a quarter, and so on: two on average.
        let packed = check(&plain);
        assert!((plain.len() / 4..plain.len() / 4 + 1000).contains(&packed), "{packed}");
    }

    #[test]
    fn what_repeats_is_seen_anywhere() {
        let noise = Random::new(1).bytes(1 << 20);
        assert!(!repeats(&noise) && !repeats(&noise[..7]) && !repeats(&[]));
        // Rows of any length, as far away as a match can be.
        for row in [1, 2, 3, 50, 1536, 4099, 30_000] {
            let mut rows = noise.clone();
            (1 << 19..1 << 20).for_each(|i| rows[i] = rows[i - row]);
            assert!(repeats(&rows), "{row}");
        }
        assert!(repeats(&[&noise[..700_000], &[0; 100_000][..]].concat()));
    }
}
