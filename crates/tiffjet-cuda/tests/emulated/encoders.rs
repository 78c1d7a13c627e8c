//! What emulated encoders make of plain tiles.

use super::Emulated;
use super::streams::{Random, samples};

/// A plain tile and the bytes of its rows.
pub struct Plain {
    pub bytes: Vec<u8>,
    pub row: usize,
}

/// What each tile becomes; `at_once` of them are written by one launch, `seed` is the order in which lanes run.
pub fn encode(kernels: &Emulated, tiles: &[Plain], at_once: u32, seed: u64) -> Vec<Vec<u8>> {
    let mut input = seed.to_le_bytes().to_vec();
    input.extend((tiles.len() as u32).to_le_bytes());
    input.extend(at_once.to_le_bytes());
    for tile in tiles {
        input.extend((tile.bytes.len() as u32).to_le_bytes());
        input.extend((tile.row as u32).to_le_bytes());
        input.extend(&tile.bytes);
    }
    let output = kernels.exchange(input);
    let (sizes, mut rest) = output.split_at(8 * tiles.len());
    let encoded = sizes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|size| {
            let (bytes, after) = rest.split_at(u64::from_le_bytes(*size) as usize);
            rest = after;
            bytes.to_vec()
        })
        .collect();
    assert!(rest.is_empty());
    encoded
}

/// A tile of one row.
pub fn tile(bytes: Vec<u8>) -> Plain {
    let row = bytes.len();
    Plain { bytes, row }
}

/// Bytes whose counts have every shape: few and many symbols, all alike or each much rarer than the one before.
pub fn counts_of_every_shape() -> Vec<Plain> {
    let mut random = Random(11);
    let mut tiles = Vec::new();
    for symbols in [2, 3, 4, 5, 6, 7, 20, 127, 128, 129, 130, 200, 255, 256] {
        for skew in 0..4 {
            // From all alike to each half as frequent as the one before, which is more than 11 bits can say.
            let bytes = (0..12_000)
                .map(|_| match skew {
                    0 => random.below(symbols),
                    1 => random.below(symbols).min(random.below(symbols)),
                    2 => (random.next().trailing_zeros() as usize).min(symbols - 1),
                    _ => symbols - 1 - (random.next().trailing_zeros() as usize * 3).min(symbols - 1),
                } as u8)
                .collect();
            tiles.push(tile(bytes));
        }
        // Every symbol once, one of them many times.
        let mut bytes: Vec<u8> = (0..symbols).map(|s| s as u8).collect();
        for i in 0..3000 {
            bytes.push(if i % 2 == 0 { 0 } else { (i / 2 % symbols) as u8 });
        }
        tiles.push(tile(bytes));
    }
    tiles
}

/// Runs and bytes between them of many lengths, over several blocks of 32 KiB.
pub fn runs_of_all_lengths() -> Vec<Plain> {
    let mut random = Random(4);
    let mut tiles = Vec::new();
    // Runs and literals of lengths around every change of a code.
    let lengths =
        [1, 2, 5, 6, 7, 8, 15, 16, 17, 23, 24, 31, 32, 33, 34, 35, 36, 37, 40, 47, 48, 63, 64, 65, 66, 67, 98, 99];
    let more = [127, 128, 130, 131, 132, 255, 256, 258, 259, 511, 515, 1023, 2000, 4096, 9000, 30_000];
    for &run in lengths.iter().chain(&more) {
        let mut bytes = Vec::new();
        for &literals in lengths.iter().chain(&more[..9]) {
            bytes.extend((0..literals).map(|i| (i * 7 + random.below(3)) as u8));
            bytes.extend(vec![[0, 255, 9][random.below(3)]; run]);
            if bytes.len() > 70_000 {
                break;
            }
        }
        tiles.push(tile(bytes));
    }
    // Many short ones.
    for most in [3, 8, 12, 40] {
        let mut bytes = Vec::new();
        while bytes.len() < 65_536 {
            bytes.extend(vec![random.below(4) as u8; 1 + random.below(most)]);
        }
        tiles.push(tile(bytes));
    }
    tiles
}

/// Bytes of all kinds and of lengths around those that matter, `block` among them.
pub fn bytes_of_every_kind(block: usize) -> Vec<Plain> {
    let lengths = [(1, 1), (2, 2), (3, 7), (4, 63), (5, 64), (6, 65), (7, 300), (8, 5000), (9, block), (10, 40_001)];
    lengths.into_iter().flat_map(|(seed, length)| samples(length, seed)).map(tile).collect()
}

/// Planes of a predictor: one of zeros with some ones, one of small numbers, two of noise.
pub fn planes() -> Plain {
    let mut random = Random(6);
    let mut bytes = Vec::new();
    for _ in 0..128 {
        bytes.extend((0..256).map(|_| u8::from(random.below(30) == 0)));
        bytes.extend((0..256).map(|_| (random.below(5) * random.below(5)) as u8));
        bytes.extend(random.bytes(512));
    }
    tile(bytes)
}
