//! The PackBits kernel, emulated, against the codec of the host; and the word that names the first bad tile.

mod emulated;

use std::sync::LazyLock;

use emulated::streams::{Random, compare, damaged, encode, samples};
use emulated::{Case, Emulated};

const PACKBITS: u16 = 32773;

static KERNELS: LazyLock<Emulated> = LazyLock::new(|| Emulated::build("packbits"));

/// Packets of random kinds and lengths, empty ones too, whatever a good writer would choose; and the bytes they give.
fn packets(random: &mut Random, count: usize, runs: usize) -> Case {
    let (mut encoded, mut size) = (Vec::new(), 0);
    for _ in 0..count {
        let length = 1 + [1, 3, 128][random.below(3)];
        match random.below(runs + 2) {
            0 => encoded.push(128),
            1 => {
                let length = 1 + random.below(length);
                let length = length.min(128);
                encoded.push((length - 1) as u8);
                encoded.extend(random.bytes(length));
                size += length;
            }
            _ => {
                let length = (2 + random.below(length)).min(128);
                encoded.extend([(257 - length) as u8, random.below(256) as u8]);
                size += length;
            }
        }
    }
    Case { encoded, size }
}

fn good() -> Vec<Case> {
    let mut random = Random(4);
    let mut cases = Vec::new();
    for (seed, len) in [(1, 1), (2, 2), (3, 300), (4, 5000), (5, 40_000)] {
        for plain in samples(len, seed) {
            // Rows of many lengths: packets end with them.
            let row = [1, 7, 256, len][random.below(4)].min(len);
            cases.push(Case { encoded: encode(PACKBITS, &plain, row), size: len });
        }
    }
    for count in [1, 5, 100, 3000] {
        for runs in [0, 1, 20] {
            cases.push(packets(&mut random, count, runs));
        }
    }
    cases
}

#[test]
fn what_writers_make_is_decoded() {
    for seed in [0, 3] {
        compare(&KERNELS, PACKBITS, &good(), seed, true);
    }
}

#[test]
fn a_piece_may_begin_and_end_anywhere() {
    // Packets of all lengths around the end of a piece of 4096 bytes.
    let mut random = Random(1);
    let mut cases = Vec::new();
    for before in 3900..4100 {
        let mut encoded = vec![128; before];
        encoded.push(127);
        encoded.extend(random.bytes(128));
        encoded.extend([129, 7, 128, 0, 9]);
        let size = 128 + 128 + 1;
        cases.push(Case { encoded, size: size - before % 3 });
    }
    compare(&KERNELS, PACKBITS, &cases, 0, true);
}

#[test]
fn the_host_and_the_kernel_refuse_the_same() {
    let good = good();
    compare(&KERNELS, PACKBITS, &damaged(&good, 400, 1), 0, true);
    compare(&KERNELS, PACKBITS, &damaged(&good, 100, 2), 11, true);
}
