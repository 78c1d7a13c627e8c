//! The PackBits encoder, emulated, against the codec of the host: the same bytes.

mod emulated;

use std::sync::LazyLock;

use emulated::Emulated;
use emulated::encoders::{Plain, encode};
use emulated::streams::{self, Random, samples};

const PACKBITS: u16 = 32773;

static KERNELS: LazyLock<Emulated> = LazyLock::new(|| Emulated::build("packbits_encode"));

fn check(tiles: &[Plain], at_once: u32, seed: u64) {
    for (i, (tile, given)) in tiles.iter().zip(encode(&KERNELS, tiles, at_once, seed)).enumerate() {
        let due = streams::encode(PACKBITS, &tile.bytes, tile.row);
        let wrong = given.iter().zip(&due).position(|(a, b)| a != b);
        let (len, row) = (tile.bytes.len(), tile.row);
        assert!(wrong.is_none() && given.len() == due.len(), "tile {i} of {len} bytes, rows of {row}: byte {wrong:?}");
    }
}

#[test]
fn bytes_of_every_kind() {
    let mut random = Random(4);
    let mut tiles = Vec::new();
    for (seed, len) in [(1, 1), (2, 2), (3, 3), (4, 31), (5, 300), (6, 5000), (7, 20_000)] {
        for bytes in samples(len, seed) {
            let row = [1, 2, 7, 33, 256, 1000, len][random.below(7)].min(len);
            tiles.push(Plain { bytes, row });
        }
    }
    check(&tiles, 1000, 0);
    check(&tiles, 5, 9);
}

/// Runs of these lengths, each of another byte.
fn runs(lengths: &[usize]) -> Plain {
    let bytes: Vec<u8> = lengths.iter().zip((0..=255).cycle()).flat_map(|(&n, byte)| vec![byte; n]).collect();
    let row = bytes.len();
    Plain { bytes, row }
}

#[test]
fn runs_and_literals_of_all_lengths_side_by_side() {
    let mut tiles = Vec::new();
    let some = [1, 2, 3, 30, 31, 32, 33, 126, 127, 128, 129, 130, 131, 255, 256, 257, 258, 259, 384, 385, 386];
    for a in some {
        for b in some {
            tiles.push(runs(&[a, b]));
            tiles.push(runs(&[1, a, 2, b, 2]));
        }
    }
    // Literals of pairs and single bytes around the lengths of a packet.
    for singles in (0..40).chain(120..136).chain(250..262) {
        for pairs in [0, 1, 2, 3, 60, 64, 65] {
            let mut lengths = vec![1; singles];
            lengths.extend(vec![2; pairs]);
            lengths.extend([5, 1, 2]);
            tiles.push(runs(&lengths));
            lengths.splice(0..0, [3, 2]);
            tiles.push(runs(&lengths));
        }
    }
    check(&tiles, 10_000, 0);
}

#[test]
fn rows_of_short_runs_in_any_order() {
    let mut random = Random(12);
    let mut tiles = Vec::new();
    for row in [16, 64, 100, 512, 777] {
        for kinds in [2, 3, 4, 8] {
            let mut bytes = Vec::new();
            while bytes.len() < 9 * row {
                let length = 1 + random.below(kinds);
                bytes.extend(vec![random.below(5) as u8; length]);
            }
            tiles.push(Plain { bytes, row });
        }
    }
    check(&tiles, 3, 2);
}
