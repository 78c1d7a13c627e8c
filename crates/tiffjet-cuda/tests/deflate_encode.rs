//! The Deflate encoder, emulated, against the codec of the host and two other decoders.

mod emulated;

use std::sync::LazyLock;

use emulated::Emulated;
use emulated::encoders::{self, Plain, encode, tile};
use emulated::streams;

const DEFLATE: u16 = 8;
/// Bytes of a block.
const BLOCK: usize = 32768;

static KERNELS: LazyLock<Emulated> = LazyLock::new(|| Emulated::build("deflate_encode"));

/// Three decoders give back what went in. Gives the streams.
fn check(tiles: &[Plain], at_once: u32, seed: u64) -> Vec<Vec<u8>> {
    let encoded = encode(&KERNELS, tiles, at_once, seed);
    for (i, (tile, given)) in tiles.iter().zip(&encoded).enumerate() {
        let length = tile.bytes.len();
        let what = format!("tile {i} of {length} bytes, {} packed, seed {seed}", given.len());
        let mut plain = vec![0; length];
        let outcome = libdeflater::Decompressor::new().zlib_decompress(given, &mut plain);
        assert_eq!(outcome, Ok(length), "{what}");
        let wrong = plain.iter().zip(&tile.bytes).position(|(a, b)| a != b);
        assert!(wrong.is_none(), "{what}: byte {wrong:?}");
        let mut other = vec![0; length + 1];
        let config = zlib_rs::InflateConfig::default();
        let (bytes, outcome) = zlib_rs::decompress_slice(&mut other, given, config);
        assert!(outcome == zlib_rs::ReturnCode::Ok && *bytes == *tile.bytes, "{what}: {outcome:?} by the other");
        assert!(streams::decode(DEFLATE, given, length).is_some(), "{what}: the codec");
        // No more than the frame, and five bytes for each block.
        assert!(given.len() <= length + 6 + 5 * length.div_ceil(BLOCK), "{what}");
    }
    encoded
}

#[test]
fn bytes_of_every_kind() {
    let tiles = encoders::bytes_of_every_kind(BLOCK);
    let first = check(&tiles, 1000, 0);
    // Neither the order of lanes nor what else is encoded changes a tile.
    assert!(first == check(&tiles, 7, 5));
}

#[test]
fn counts_of_every_shape() {
    check(&encoders::counts_of_every_shape(), 1000, 0);
}

#[test]
fn runs_of_all_lengths() {
    check(&encoders::runs_of_all_lengths(), 10, 0);
}

#[test]
fn rasters_become_short() {
    let tiles = [encoders::planes(), tile(vec![0; 300_000])];
    let given = check(&tiles, 10, 0);
    let due = streams::encode(DEFLATE, &tiles[0].bytes, 1024).len();
    assert!(given[0].len() < due + due * 15 / 100, "{} bytes, {due} by the host", given[0].len());
    assert!(given[1].len() < 1500, "{} bytes for zeros", given[1].len());
}
