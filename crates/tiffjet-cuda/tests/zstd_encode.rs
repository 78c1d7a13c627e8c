//! The ZSTD encoder, emulated, against the codec of the host.

mod emulated;

use std::sync::LazyLock;

use emulated::Emulated;
use emulated::encoders::{Plain, encode};
use emulated::streams::{self, Random, samples};

const ZSTD: u16 = 50000;
/// Bytes of a block.
const BLOCK: usize = 32768;

static KERNELS: LazyLock<Emulated> = LazyLock::new(|| Emulated::build("zstd_encode"));

fn tile(bytes: Vec<u8>) -> Plain {
    let row = bytes.len();
    Plain { bytes, row }
}

/// The reference decoder gives back what went in, and knows how long it is. Gives the frames.
fn check(tiles: &[Plain], at_once: u32, seed: u64) -> Vec<Vec<u8>> {
    let encoded = encode(&KERNELS, tiles, at_once, seed);
    for (i, (tile, given)) in tiles.iter().zip(&encoded).enumerate() {
        let length = tile.bytes.len();
        let what = format!("tile {i} of {length} bytes, {} packed, seed {seed}", given.len());
        assert_eq!(zstd_safe::get_frame_content_size(given).ok().flatten(), Some(length as u64), "{what}");
        let mut plain = Vec::with_capacity(length + 1);
        let outcome = zstd_safe::decompress(&mut plain, given).map_err(zstd_safe::get_error_name);
        assert_eq!(outcome, Ok(length), "{what}");
        let wrong = plain.iter().zip(&tile.bytes).position(|(a, b)| a != b);
        assert!(wrong.is_none(), "{what}: byte {wrong:?}");
        assert!(streams::decode(ZSTD, given, length).is_some(), "{what}: the codec");
        // No more than the frame, and three bytes for each block.
        assert!(given.len() <= length + 9 + 3 * length.div_ceil(BLOCK), "{what}");
    }
    encoded
}

#[test]
fn bytes_of_every_kind() {
    let mut tiles = Vec::new();
    for (seed, len) in
        [(1, 1), (2, 2), (3, 7), (4, 63), (5, 64), (6, 65), (7, 300), (8, 5000), (9, BLOCK), (10, 40_001)]
    {
        tiles.extend(samples(len, seed).into_iter().map(tile));
    }
    let first = check(&tiles, 1000, 0);
    // Neither the order of lanes nor what else is encoded changes a tile.
    assert!(first == check(&tiles, 7, 5));
}

#[test]
fn counts_of_every_shape() {
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
    check(&tiles, 1000, 0);
}

#[test]
fn runs_of_all_lengths_anywhere() {
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
        while bytes.len() < 2 * BLOCK {
            bytes.extend(vec![random.below(4) as u8; 1 + random.below(most)]);
        }
        tiles.push(tile(bytes));
    }
    check(&tiles, 10, 0);
}

#[test]
fn rasters_become_short() {
    // Planes of a predictor: one of zeros with some ones, one of small numbers, two of noise.
    let mut random = Random(6);
    let mut bytes = Vec::new();
    for _ in 0..128 {
        bytes.extend((0..256).map(|_| u8::from(random.below(30) == 0)));
        bytes.extend((0..256).map(|_| (random.below(5) * random.below(5)) as u8));
        bytes.extend(random.bytes(512));
    }
    let tiles = [tile(bytes), tile(vec![0; 300_000])];
    let given = check(&tiles, 10, 0);
    let mut host = vec![0; 200_000];
    let due = zstd_safe::compress(&mut host[..], &tiles[0].bytes, 9).unwrap();
    assert!(given[0].len() < due + due * 15 / 100, "{} bytes, {due} by the host", given[0].len());
    assert_eq!(given[1].len(), 9 + 4 * 300_000usize.div_ceil(BLOCK));
}
