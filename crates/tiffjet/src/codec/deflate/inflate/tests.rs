use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use libdeflater::{CompressionLvl, Compressor, adler32};

use super::super::super::testing::{Random, samples};
use super::*;

/// What it makes of a stream, however little it gains.
fn inflate(bytes: &[u8], due: usize) -> Option<Vec<u8>> {
    // Not zero, so that a byte left unwritten shows.
    let mut out = vec![0xa5; due];
    Inflater::new().stream(bytes, &mut out, false).is_ok().then_some(out)
}

/// What another one makes of it, if it is a whole and sound one.
fn oracle(bytes: &[u8], due: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; due + 1];
    let mut stream = Decompress::new(true);
    let ended = matches!(stream.decompress(bytes, &mut out, FlushDecompress::Finish), Ok(Status::StreamEnd));
    out.truncate(due);
    (ended && stream.total_out() == due as u64).then_some(out)
}

fn by_libdeflate(plain: &[u8], level: i32) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::new(level).unwrap());
    let mut out = vec![0; compressor.zlib_compress_bound(plain.len())];
    let packed = compressor.zlib_compress(plain, &mut out).unwrap();
    out.truncate(packed);
    out
}

fn by_zlib(plain: &[u8], level: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let mut stream = Compress::new(Compression::new(level), true);
    loop {
        out.reserve(plain.len() + 1000);
        let rest = &plain[stream.total_in() as usize..];
        if stream.compress_vec(rest, &mut out, FlushCompress::Finish).unwrap() == Status::StreamEnd {
            break;
        }
    }
    out
}

/// Images as predictors leave them, and what else there is.
fn plains() -> Vec<Vec<u8>> {
    let mut random = Random::new(5);
    let mut all = samples();
    for (most, length) in [(2, 9000), (6, 40_000), (24, 150_000), (60, 30_000)] {
        let mut noise = |_| (0..4).map(|_| random.below(most) as u8).sum::<u8>().wrapping_sub(2 * most as u8);
        let bytes: Vec<u8> = (0..length).map(&mut noise).collect();
        all.push(bytes.iter().flat_map(|&v| i16::from(v as i8).to_le_bytes()).collect());
        all.push(bytes);
    }
    // Matches of all lengths and many distances.
    let mut text = random.bytes(300);
    while text.len() < 200_000 {
        let length = [3, 4, 10, 258, 259, 700][random.below(6)].min(text.len());
        let distance =
            [1, 2, 3, 5, 7, 8, 15, 16, 17, 40, 64, 300, 32_000, 32_768][random.below(14)].clamp(1, text.len());
        for _ in 0..length {
            text.push(text[text.len() - distance]);
        }
        text.extend((0..random.below(4)).map(|_| random.next() as u8).collect::<Vec<_>>());
    }
    all.push(text);
    all
}

#[test]
fn there_and_back() {
    for plain in plains() {
        for level in 0..=12 {
            assert!(inflate(&by_libdeflate(&plain, level), plain.len()).as_ref() == Some(&plain), "libdeflate {level}");
        }
        for level in 0..=9 {
            assert!(inflate(&by_zlib(&plain, level), plain.len()).as_ref() == Some(&plain), "zlib {level}");
        }
    }
}

#[test]
fn what_follows_the_end_is_nobodys() {
    for plain in plains() {
        let mut packed = by_zlib(&plain, 6);
        packed.extend([0xff; 40]);
        assert!(inflate(&packed, plain.len()).as_ref() == Some(&plain));
    }
}

#[test]
fn no_other_length_is_taken() {
    for plain in plains() {
        let packed = by_libdeflate(&plain, 6);
        assert_eq!(inflate(&packed, plain.len() + 1), None);
        if !plain.is_empty() {
            assert_eq!(inflate(&packed, plain.len() - 1), None);
            assert_eq!(inflate(&packed, 0), None);
        }
    }
}

#[test]
fn no_cut_stream_is_taken() {
    let plains = plains();
    for plain in plains.iter().filter(|plain| plain.len() < 600) {
        for packed in [by_libdeflate(plain, 1), by_zlib(plain, 9), by_zlib(plain, 0)] {
            for end in 0..packed.len() {
                assert_eq!(inflate(&packed[..end], plain.len()), None);
            }
        }
    }
}

#[test]
fn flipped_bits_never_come_to_something_else() {
    let mut random = Random::new(9);
    for plain in plains() {
        let packed = by_zlib(&plain, 6);
        for _ in 0..if plain.len() < 5000 { 200 } else { 10 } {
            let mut bad = packed.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(bad.len());
                bad[at] ^= 1 << random.below(8);
            }
            let got = inflate(&bad, plain.len());
            assert!(got.is_none() || got == oracle(&bad, plain.len()));
        }
    }
}

#[test]
fn noise_is_no_stream() {
    let mut random = Random::new(13);
    for length in 0..2000 {
        let mut noise = random.bytes(length % 400);
        assert_eq!(inflate(&noise, 3 * noise.len()), None);
        // With a header.
        noise.splice(..0, [0x78, 0x9c]);
        assert_eq!(inflate(&noise, 3 * noise.len()), None);
    }
}

/// Writes streams that no compressor would.
struct Writer {
    out: Vec<u8>,
    plain: Vec<u8>,
    held: u64,
    bits: u32,
}

/// Lengths of codes and, from them, the codes, the first bit lowest.
struct Table(Vec<u8>);

impl Table {
    fn code(&self, symbol: usize) -> (u64, u32) {
        let length = self.0[symbol];
        let before: u64 = self
            .0
            .iter()
            .enumerate()
            .map(|(s, &l)| match l {
                0 => 0,
                _ if l < length || (l == length && s < symbol) => 1u64 << (15 - l),
                _ => 0,
            })
            .sum();
        let code = before >> (15 - length);
        (code.reverse_bits() >> (64 - u32::from(length)), u32::from(length))
    }
}

impl Writer {
    fn new() -> Self {
        Self { out: vec![0x78, 0x9c], plain: Vec::new(), held: 0, bits: 0 }
    }

    fn put(&mut self, value: u64, bits: u32) {
        self.held |= value << self.bits;
        self.bits += bits;
        while self.bits >= 8 {
            self.out.push(self.held as u8);
            self.held >>= 8;
            self.bits -= 8;
        }
    }

    fn align(&mut self) {
        self.put(0, (8 - self.bits) % 8);
    }

    fn symbol(&mut self, table: &Table, symbol: usize) {
        let (code, bits) = table.code(symbol);
        self.put(code, bits);
    }

    fn literal(&mut self, table: &Table, byte: u8) {
        self.symbol(table, usize::from(byte));
        self.plain.push(byte);
    }

    /// A match whose length is a symbol without more bits.
    fn repeat(&mut self, symbols: &Table, distances: &Table, length: usize, distance: usize) {
        self.symbol(symbols, if length == 258 { 285 } else { 254 + length });
        let (symbol, extra) = (0..30)
            .map(|s| (s, if s < 4 { 0 } else { s / 2 - 1 }))
            .take_while(|&(s, _)| first(s) <= distance)
            .last()
            .unwrap();
        self.symbol(distances, symbol);
        self.put((distance - first(symbol)) as u64, extra as u32);
        for _ in 0..length {
            // Farther than the start is written, but stands for nothing.
            let byte = self.plain.len().checked_sub(distance).map_or(0, |at| self.plain[at]);
            self.plain.push(byte);
        }
    }

    fn stored(&mut self, last: bool, bytes: &[u8]) {
        self.put(u64::from(last), 3);
        self.align();
        self.put(bytes.len() as u64 | (!bytes.len() as u64 & 0xffff) << 16, 32);
        self.out.extend(bytes);
        self.plain.extend(bytes);
    }

    fn fixed(&mut self, last: bool) -> (Table, Table) {
        self.put(u64::from(last) | 1 << 1, 3);
        let lengths = (0..288).map(|s| match s {
            144..256 => 9,
            256..280 => 7,
            _ => 8,
        });
        (Table(lengths.collect()), Table(vec![5; 32]))
    }

    /// Codes of its own, the lengths of which are written one by one.
    fn dynamic(&mut self, last: bool, symbols: &[u8], distances: &[u8]) -> (Table, Table) {
        let lengths = Table((0..19).map(|s| if s < 13 { 4 } else { 5 }).collect());
        self.put(u64::from(last) | 2 << 1, 3);
        self.put(symbols.len() as u64 - 257, 5);
        self.put(distances.len() as u64 - 1, 5);
        self.put(15, 4);
        for &of in &LENGTHS_ORDER {
            self.put(u64::from(lengths.0[of]), 3);
        }
        for &length in symbols.iter().chain(distances) {
            self.symbol(&lengths, usize::from(length));
        }
        (Table(symbols.to_vec()), Table(distances.to_vec()))
    }

    fn finish(mut self) -> (Vec<u8>, Vec<u8>) {
        self.align();
        self.out.extend(adler32(&self.plain).to_be_bytes());
        (self.out, self.plain)
    }

    /// Whether the stream is taken: either with the right bytes, which the oracle gives too, or not at all.
    fn taken(self) -> bool {
        let (bytes, plain) = self.finish();
        let (got, expected) = (inflate(&bytes, plain.len()), oracle(&bytes, plain.len()));
        assert!(got.is_none() || got == expected);
        assert!(got.as_ref().is_none_or(|got| *got == plain));
        got.is_some()
    }
}

/// The first distance of a symbol.
fn first(symbol: usize) -> usize {
    if symbol < 4 { symbol + 1 } else { ((2 + symbol % 2) << (symbol / 2 - 1)) + 1 }
}

/// Codes with every literal, the end, and the lengths that need no more bits; complete.
fn ordinary() -> Vec<u8> {
    let mut lengths = vec![9; 286];
    // 256 of nine bits, and half of all for the others.
    lengths[256..].fill(0);
    lengths[256] = 2;
    lengths[257..264].fill(5);
    lengths[264] = 6;
    lengths[285] = 6;
    lengths
}

#[test]
fn blocks_of_every_kind_follow_each_other() {
    let mut writer = Writer::new();
    writer.stored(false, &[]);
    writer.stored(false, &[1, 2, 3, 4, 5]);
    let (symbols, _) = writer.fixed(false);
    writer.symbol(&symbols, 256);
    let (symbols, distances) = writer.fixed(false);
    for byte in 0..=255 {
        writer.literal(&symbols, byte);
    }
    writer.repeat(&symbols, &distances, 258, 256);
    writer.symbol(&symbols, 256);
    writer.stored(false, &[9; 65_535]);
    let (symbols, distances) = writer.dynamic(false, &ordinary(), &[1, 1]);
    writer.literal(&symbols, 17);
    writer.repeat(&symbols, &distances, 3, 2);
    writer.symbol(&symbols, 256);
    writer.stored(true, &[7]);
    assert!(writer.taken());
}

#[test]
fn matches_of_any_distance() {
    let mut lengths = [5; 30];
    lengths[..2].fill(4);
    for distance in (1..=70).chain([255, 256, 257, 4097, 24_577, 32_767, 32_768]) {
        let mut writer = Writer::new();
        let mut random = Random::new(distance as u64);
        writer.stored(false, &random.bytes(distance));
        let (symbols, distances) = writer.dynamic(true, &ordinary(), &lengths);
        for length in [3, 4, 5, 9, 10, 258] {
            writer.repeat(&symbols, &distances, length, distance);
            writer.literal(&symbols, 200);
        }
        // The last one ends with the buffer.
        writer.repeat(&symbols, &distances, 258, distance);
        writer.symbol(&symbols, 256);
        assert!(writer.taken(), "{distance}");
    }
}

#[test]
fn nothing_stands_before_the_start() {
    for before in [0, 1, 5, 1000] {
        for far in [1, 2, 30, 700, 4000] {
            let mut writer = Writer::new();
            writer.stored(false, &vec![3; before]);
            let (symbols, distances) = writer.fixed(false);
            writer.repeat(&symbols, &distances, 10, before + far);
            writer.symbol(&symbols, 256);
            // Far from the end and near to it.
            writer.stored(true, &vec![4; far]);
            assert!(!writer.taken());
        }
    }
}

#[test]
fn codes_of_distances_may_be_one_or_none() {
    for (distances, taken) in
        [(&[1][..], true), (&[0, 1], true), (&[0], true), (&[2], false), (&[1, 2], false), (&[1, 1, 1], false)]
    {
        let mut writer = Writer::new();
        let (symbols, _) = writer.dynamic(true, &ordinary(), distances);
        for byte in 0..100 {
            writer.literal(&symbols, byte);
        }
        writer.symbol(&symbols, 256);
        assert_eq!(writer.taken(), taken, "{distances:?}");
    }
    // One distance can be used, none can't, and of one the other bit can't.
    for (distances, bit, taken) in [([1], 0, true), ([1], 1, false), ([0], 0, false)] {
        for literals in [1, 1000] {
            let mut writer = Writer::new();
            let (symbols, _) = writer.dynamic(true, &ordinary(), &distances);
            writer.literal(&symbols, 8);
            writer.symbol(&symbols, 257);
            writer.put(bit, 1);
            writer.plain.extend([8; 3]);
            for _ in 0..literals {
                writer.literal(&symbols, 9);
            }
            writer.symbol(&symbols, 256);
            assert_eq!(writer.taken(), taken, "{distances:?} {bit}");
        }
    }
}

#[test]
fn symbols_that_stand_for_nothing() {
    for literals in [1, 1000] {
        for (symbol, distance) in [(286, 0), (287, 0), (257, 30), (257, 31)] {
            let mut writer = Writer::new();
            let (symbols, distances) = writer.fixed(true);
            writer.literal(&symbols, 1);
            writer.symbol(&symbols, symbol);
            writer.symbol(&distances, distance);
            writer.plain.extend([1; 3]);
            for _ in 0..literals {
                writer.literal(&symbols, 2);
            }
            writer.symbol(&symbols, 256);
            assert!(!writer.taken());
        }
    }
}

#[test]
fn codes_that_are_too_full_or_not_full() {
    let mut lengths = ordinary();
    lengths[200] = 8;
    let mut writer = Writer::new();
    writer.dynamic(true, &lengths, &[1, 1]);
    writer.put(0, 60);
    assert!(!writer.taken());
    let mut lengths = ordinary();
    lengths[200] = 10;
    let mut writer = Writer::new();
    let (symbols, _) = writer.dynamic(true, &lengths, &[1, 1]);
    writer.literal(&symbols, 4);
    writer.symbol(&symbols, 256);
    assert!(!writer.taken());
    // Two more symbols than there may be.
    let mut lengths = ordinary();
    lengths.extend([0, 0]);
    let mut writer = Writer::new();
    let (symbols, _) = writer.dynamic(true, &lengths, &[1, 1]);
    writer.literal(&symbols, 4);
    writer.symbol(&symbols, 256);
    assert!(!writer.taken());
}

#[test]
fn the_longest_codes() {
    // One code of each length, and the rest of fifteen bits.
    let mut lengths = vec![0; 286];
    let mut used = 0;
    for (length, symbol) in (1..=13).zip([0, 257, 255, 256, 9, 285, 77, 1, 2, 3, 4, 5, 6]) {
        lengths[symbol] = length;
        used += 1 << (15 - length);
    }
    for symbol in [100, 101, 102, 264] {
        lengths[symbol] = 15;
        used += 1;
    }
    assert_eq!(used, 1 << 15);
    let mut far = vec![0; 30];
    for (length, symbol) in (1..=14).zip([0, 29, 1, 28, 2, 27, 3, 26, 4, 25, 5, 24, 6, 23]) {
        far[symbol] = length;
    }
    far[7] = 15;
    far[22] = 15;
    let mut writer = Writer::new();
    writer.stored(false, &Random::new(1).bytes(32_768));
    let (symbols, distances) = writer.dynamic(true, &lengths, &far);
    let mut random = Random::new(2);
    for _ in 0..3000 {
        match random.below(3) {
            0 => {
                let distance = (0..30).map(|_| random.below(30)).find(|&s| far[s] > 0).map_or(1, first);
                writer.repeat(&symbols, &distances, [3, 10, 258][random.below(3)], distance);
            }
            _ => writer.literal(&symbols, [0, 255, 9, 77, 1, 2, 3, 4, 5, 6, 100, 101, 102][random.below(13)]),
        }
    }
    writer.symbol(&symbols, 256);
    assert!(writer.taken());
}

#[test]
fn any_code_gives_what_others_give() {
    let mut random = Random::new(21);
    let mut taken = 0;
    for _ in 0..400 {
        // Halves split at random: complete.
        let mut leaves = vec![0u8];
        let wanted = 2 + random.below(284);
        while leaves.len() < wanted {
            let at = random.below(leaves.len());
            if leaves[at] < 15 {
                leaves[at] += 1;
                leaves.push(leaves[at]);
            }
        }
        let mut lengths = vec![0; 286];
        for leaf in leaves {
            let free: Vec<usize> = (0..286).filter(|&s| lengths[s] == 0).collect();
            let symbol = if lengths[256] == 0 { 256 } else { free[random.below(free.len())] };
            lengths[symbol] = leaf;
        }
        if random.below(8) == 0 {
            lengths[random.below(286)] = random.below(16) as u8;
        }
        let mut writer = Writer::new();
        let (symbols, distances) = writer.dynamic(true, &lengths, &[2; 4]);
        let usable: Vec<usize> = (0..265).chain([285]).filter(|&s| lengths[s] > 0 && s != 256).collect();
        for _ in 0..if usable.is_empty() { 0 } else { 600 } {
            match usable[random.below(usable.len())] {
                literal @ 0..256 => writer.literal(&symbols, literal as u8),
                length => writer.repeat(
                    &symbols,
                    &distances,
                    if length == 285 { 258 } else { length - 254 },
                    1 + random.below(4),
                ),
            }
        }
        if lengths[256] > 0 {
            writer.symbol(&symbols, 256);
        }
        taken += usize::from(writer.taken());
    }
    assert!(taken > 200, "{taken}");
}

#[test]
fn frames_that_are_odd() {
    let plain = [5; 100];
    let packed = by_zlib(&plain, 6);
    assert!(inflate(&packed, 100).is_some());
    for [method, flags] in [[0x78, 0x9d], [0x79, 0x9c], [0x77, 0x85], [0x88, 0x1c], [0x78, 0xbb]] {
        let mut odd = packed.clone();
        odd[..2].copy_from_slice(&[method, flags]);
        assert_eq!(inflate(&odd, 100), None);
    }
    for at in 1..=4 {
        let mut odd = packed.clone();
        let end = odd.len();
        odd[end - at] ^= 1;
        assert_eq!(inflate(&odd, 100), None);
    }
}

#[test]
fn only_what_gains_is_done_here() {
    let mut random = Random::new(4);
    let noisy: Vec<u8> =
        (0..65_536).map(|_| (0..4).map(|_| random.below(8) as u8).sum::<u8>().wrapping_sub(14)).collect();
    let random = random.bytes(65_536);
    let zeros = vec![0; 65_536];
    let does = |inflater: &mut Inflater, plain: &[u8], level| {
        let mut out = vec![1; plain.len()];
        let outcome = inflater.inflate(&by_libdeflate(plain, level), &mut out);
        assert!(outcome.is_err() || out == plain);
        outcome.is_ok()
    };
    let mut inflater = Inflater::new();
    assert!(does(&mut inflater, &noisy, 6));
    assert!(!does(&mut inflater, &noisy[..SMALLEST - 1], 6));
    assert!(!does(&mut inflater, &zeros, 6));
    assert!(!does(&mut inflater, &random, 6));
    // Neither of them tells anything of others.
    assert!(does(&mut inflater, &noisy, 6));
    // What is odd tells that what comes next is odd too, for a while.
    let mut out = vec![0; noisy.len() - 1];
    assert!(inflater.inflate(&by_libdeflate(&noisy, 6), &mut out).is_err());
    assert!(!does(&mut inflater, &noisy, 6));
    assert!((0..ALIKE).any(|_| does(&mut inflater, &noisy, 6)));
}
