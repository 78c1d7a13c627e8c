//! The ZSTD encoder, emulated, against the codec of the host.

mod emulated;

use std::sync::LazyLock;

use emulated::Emulated;
use emulated::encoders::{self, Plain, encode, tile};
use emulated::streams;

const ZSTD: u16 = 50000;
/// Bytes of a block.
const BLOCK: usize = 32768;

static KERNELS: LazyLock<Emulated> = LazyLock::new(|| Emulated::build("zstd_encode"));

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
    let mut host = vec![0; 200_000];
    let due = zstd_safe::compress(&mut host[..], &tiles[0].bytes, 9).unwrap();
    assert!(given[0].len() < due + due * 15 / 100, "{} bytes, {due} by the host", given[0].len());
    assert_eq!(given[1].len(), 9 + 4 * 300_000usize.div_ceil(BLOCK));
}
