//! The LZW encoder, emulated, against the codec of the host and another decoder.

mod emulated;

use std::sync::LazyLock;

use emulated::Emulated;
use emulated::encoders::{Plain, encode};
use emulated::streams::{self, Random, samples};
use weezl::BitOrder;

const LZW: u16 = 5;
/// Bytes of a segment.
const PIECE: usize = 32768;

static KERNELS: LazyLock<Emulated> = LazyLock::new(|| Emulated::build("lzw_encode"));

fn tile(bytes: Vec<u8>) -> Plain {
    let row = bytes.len();
    Plain { bytes, row }
}

/// Everybody reads what the kernels make, and up to a segment it is what the host makes. Gives the streams.
fn check(tiles: &[Plain], at_once: u32, seed: u64) -> Vec<Vec<u8>> {
    let encoded = encode(&KERNELS, tiles, at_once, seed);
    for (i, (tile, given)) in tiles.iter().zip(&encoded).enumerate() {
        let (plain, length) = (&tile.bytes, tile.bytes.len());
        let what = format!("tile {i} of {length} bytes, seed {seed}");
        assert!(streams::decode(LZW, given, length).is_some_and(|bytes| bytes == *plain), "{what}");
        let other = weezl::decode::Decoder::with_tiff_size_switch(BitOrder::Msb, 8).decode(given);
        assert!(other.is_ok_and(|bytes| bytes == *plain), "{what}: the other decoder");
        let host = streams::encode(LZW, plain, length);
        if length <= PIECE {
            assert!(*given == host, "{what}: not the bytes of the host");
        }
    }
    encoded
}

#[test]
fn up_to_a_segment_the_bytes_are_those_of_the_host() {
    let mut tiles = Vec::new();
    for (seed, len) in [(1, 1), (2, 2), (3, 3), (4, 16), (5, 17), (6, 300), (7, 4999), (8, 20_000), (9, PIECE)] {
        tiles.extend(samples(len, seed).into_iter().map(tile));
    }
    check(&tiles, 1000, 0);
    check(&tiles, 4, 7);
}

#[test]
fn every_length_ends_right() {
    // The end falls on every width, on the codes around each change of it, and around the clearing of the table.
    let noise = Random(3).bytes(4400);
    let lengths = [250..260, 505..520, 1015..1030, 2040..2060, 3830..3850, 4095..4105];
    check(&lengths.into_iter().flatten().map(|len| tile(noise[..len].to_vec())).collect::<Vec<_>>(), 1000, 0);
}

#[test]
fn segments_end_on_every_width() {
    // The end of a first segment is moved over the changes of the width and the clearing by a run before the noise.
    let mut random = Random(5);
    let mut tiles = Vec::new();
    let noise = random.bytes(PIECE);
    for count in [240, 250, 252, 253, 254, 255, 256, 258, 508, 509, 510, 511, 1020, 1022, 1023, 2046, 2047]
        .into_iter()
        .chain(3828..3840)
    {
        let mut bytes = vec![7; PIECE - count];
        bytes.extend(&noise[..count]);
        bytes.extend(&noise[..1 + count % 100]);
        tiles.push(tile(bytes));
    }
    check(&tiles, 1000, 0);
}

#[test]
fn tiles_of_several_segments() {
    let mut tiles = Vec::new();
    for (seed, len) in [(1, PIECE + 1), (2, 2 * PIECE), (3, 3 * PIECE + 77), (4, 5 * PIECE + 1)] {
        tiles.extend(samples(len, seed).into_iter().map(tile));
    }
    let first = check(&tiles, 1000, 0);
    // Neither the order of lanes nor what else is encoded changes a tile.
    assert!(first == check(&tiles, 2, 9));
    assert!(first[7] == check(&tiles[7..8], 1, 3)[0]);
}

#[test]
fn cuts_cost_little() {
    let mut random = Random(8);
    // Differences of a smooth surface with some noise; few classes in large areas; a gradient.
    let surface: Vec<u8> = (0..256 * 1024).map(|_| (random.below(7) * random.below(3)) as u8).collect();
    let mut classes: Vec<u8> = Vec::new();
    for y in 0..512u32 {
        classes.extend((0..512u32).map(|x| {
            let wave = (f64::from(x) / 41.0).sin() + (f64::from(y) / 57.0).cos() + f64::from(x * y) / 90_000.0;
            (wave * 3.0) as u8
        }));
    }
    let noise = random.bytes(256 * 1024);
    let tiles = [surface, classes, noise, vec![0; 256 * 1024]].map(tile);
    for (tile, given) in tiles.iter().zip(check(&tiles, 10, 0)) {
        let host = streams::encode(LZW, &tile.bytes, tile.row).len();
        // Where next to nothing is left, some bytes more are no matter.
        assert!(given.len() <= host + host * 3 / 100 + 600, "{} bytes, {host} by the host", given.len());
    }
}
