//! The LZW kernels, emulated, against the codec of the host.

mod emulated;

use std::sync::LazyLock;

use emulated::streams::{Random, compare, damaged, encode, samples};
use emulated::{Case, Emulated};
use weezl::BitOrder;

const LZW: u16 = 5;
const CLEAR: usize = 256;
const END: usize = 257;
const FIRST: usize = 258;
const CODES: usize = 4096;

static KERNELS: LazyLock<Emulated> = LazyLock::new(|| Emulated::build("lzw"));

fn weezl(plain: &[u8], order: BitOrder) -> Vec<u8> {
    let mut encoder = match order {
        BitOrder::Msb => weezl::encode::Encoder::with_tiff_size_switch(order, 8),
        BitOrder::Lsb => weezl::encode::Encoder::new(order, 8),
    };
    encoder.encode(plain).unwrap()
}

/// Packs codes of the widths that a reader expects, highest bit first.
fn pack(codes: &[usize]) -> Vec<u8> {
    let (mut out, mut bits, mut held) = (Vec::new(), 0u64, 0);
    let (mut next, mut width, mut fresh) = (FIRST, 9, true);
    for &code in codes {
        bits = bits << width | code as u64;
        held += width;
        while held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
        if code == CLEAR {
            (next, width, fresh) = (FIRST, 9, true);
            continue;
        }
        next += usize::from(!fresh);
        fresh = false;
        if next + 1 >= 1 << width {
            width = (width + 1).min(12);
        }
    }
    out.push((bits << (8 - held)) as u8);
    out
}

/// Codes with a meaning, and how many bytes they give. The table is cleared with a chance of 1 in `clears` at each code,
/// 0 for never; it may run full and stay so.
fn codes(random: &mut Random, count: usize, clears: usize, first: &[usize]) -> (Vec<usize>, usize) {
    let mut codes = first.to_vec();
    let (mut lengths, mut last, mut size) = (Vec::new(), 0, 0);
    for _ in 0..count {
        if clears > 0 && random.below(clears) == 0 {
            codes.push(CLEAR);
            lengths.clear();
            last = 0;
            continue;
        }
        let newest = FIRST + lengths.len();
        let code = match random.below(4) {
            // The string that is made by its own code.
            0 if last > 0 && newest < CODES => newest,
            1 | 2 if !lengths.is_empty() => FIRST + random.below(lengths.len()),
            _ => random.below(256),
        };
        if last > 0 && newest < CODES {
            lengths.push(last + 1);
        }
        last = if code < CLEAR { 1 } else { lengths[code - FIRST] };
        size += last;
        codes.push(code);
    }
    (codes, size)
}

/// Streams as writers make them; all of them must be decoded.
fn good() -> Vec<Case> {
    let mut cases = Vec::new();
    for (seed, len) in [(1, 1), (2, 2), (3, 300), (4, 5000), (5, 30_000), (6, 70_000)] {
        for plain in samples(len, seed) {
            cases.push(Case { encoded: encode(LZW, &plain, len), size: len });
            cases.push(Case { encoded: weezl(&plain, BitOrder::Msb), size: len });
        }
    }
    cases
}

/// Streams that a reader must take, though few writers make them.
fn odd() -> Vec<Case> {
    let mut random = Random(9);
    let mut cases = Vec::new();
    for clears in [0, 700, 3000, 20_000] {
        for count in [30, 3835, 3838, 3839, 3840, 3841, 9000] {
            for first in [&[][..], &[CLEAR], &[CLEAR, CLEAR, CLEAR]] {
                let (mut codes, size) = codes(&mut random, count, clears, first);
                if size == 0 {
                    continue;
                }
                cases.push(Case { encoded: pack(&codes), size });
                codes.push(END);
                cases.push(Case { encoded: pack(&codes), size: size - random.below(size.min(500)) });
                let mut more = pack(&codes);
                more.extend(random.bytes(7000));
                cases.push(Case { encoded: more, size });
            }
        }
    }
    cases
}

#[test]
fn what_writers_make_is_decoded() {
    for seed in [0, 3] {
        compare(&KERNELS, LZW, &good(), seed, true);
    }
}

#[test]
fn clears_early_late_and_never() {
    compare(&KERNELS, LZW, &odd(), 5, true);
}

#[test]
fn clears_at_every_code_around_the_full_table() {
    // One byte again and again, cleared after so many codes, several times.
    let mut cases = Vec::new();
    for codes in 3800..3845 {
        let mut random = Random(codes as u64 + 1);
        let mut all = vec![CLEAR];
        for _ in 0..3 {
            all.extend((0..codes).map(|_| random.below(256)));
            all.push(CLEAR);
        }
        all.push(END);
        cases.push(Case { encoded: pack(&all), size: 3 * codes });
    }
    compare(&KERNELS, LZW, &cases, 0, true);
}

#[test]
fn a_tile_of_many_segments() {
    let mut cases = Vec::new();
    for plain in samples(400_000, 8) {
        cases.push(Case { encoded: encode(LZW, &plain, plain.len()), size: plain.len() });
    }
    compare(&KERNELS, LZW, &cases, 0, true);
}

/// Streams as they were before TIFF 6.0.
fn old() -> Vec<Case> {
    let lengths = [(1, 1), (2, 300), (3, 3000), (4, 70_000)];
    let plains = lengths.into_iter().flat_map(|(seed, len)| samples(len, seed));
    plains.map(|plain| Case { encoded: weezl(&plain, BitOrder::Lsb), size: plain.len() }).collect()
}

#[test]
fn the_old_order_is_decoded() {
    compare(&KERNELS, LZW, &old(), 0, true);
    compare(&KERNELS, LZW, &damaged(&old(), 100, 3), 2, false);
}

#[test]
fn endless_clears_are_left_to_the_host() {
    let alternating: Vec<usize> = (0..4000).map(|i| if i % 2 == 0 { CLEAR } else { i % 256 }).collect();
    let outcomes = KERNELS.run(&[Case { encoded: pack(&alternating), size: 2000 }], 0);
    assert_eq!(outcomes[0].0, 5);
}

#[test]
fn damage_never_goes_unseen() {
    let streams: Vec<Case> = good().into_iter().chain(odd()).filter(|case| case.encoded.len() < 20_000).collect();
    compare(&KERNELS, LZW, &damaged(&streams, 400, 1), 0, false);
    compare(&KERNELS, LZW, &damaged(&streams, 100, 2), 11, false);
}
