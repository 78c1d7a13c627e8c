//! Checksums, places and the blob of compressed tiles, by the emulated kernels.

mod emulated;

use std::sync::LazyLock;

use emulated::Emulated;
use emulated::streams::{Random, samples};

static KERNELS: LazyLock<Emulated> = LazyLock::new(|| Emulated::build("frame"));

/// A plain tile and what compression made of it.
struct Tile {
    plain: Vec<u8>,
    payload: Vec<u8>,
    status: i32,
    differs: bool,
}

impl Tile {
    /// What stands in the file.
    fn framed(&self, zlib: bool) -> Vec<u8> {
        if !self.differs || self.status != 0 {
            return Vec::new();
        }
        if !zlib {
            return self.payload.clone();
        }
        [&[0x78, 0x9c], &self.payload[..], &adler(&self.plain).to_be_bytes()].concat()
    }
}

/// As the definition has it.
fn adler(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1u32, 0);
    for &byte in bytes {
        a = (a + u32::from(byte)) % 65521;
        b = (b + a) % 65521;
    }
    b << 16 | a
}

/// Runs the kernels, some tiles at a time into `room` bytes.
fn check(tiles: &[Tile], zlib: bool, at_once: u32, room: u64, seed: u64) {
    let mut input = seed.to_le_bytes().to_vec();
    for word in [tiles.len() as u32, zlib.into(), at_once] {
        input.extend(word.to_le_bytes());
    }
    input.extend(room.to_le_bytes());
    for tile in tiles {
        input.extend(tile.status.to_le_bytes());
        for word in [tile.differs.into(), tile.plain.len() as u32, tile.payload.len() as u32] {
            input.extend(word.to_le_bytes());
        }
        input.extend(&tile.plain);
        input.extend(&tile.payload);
    }
    let framed: Vec<Vec<u8>> = tiles.iter().map(|tile| tile.framed(zlib)).collect();
    let mut expected = Vec::new();
    for (tile, framed) in tiles.iter().zip(&framed) {
        let bad = tile.differs && tile.status != 0;
        expected.extend((if bad { u64::MAX } else { framed.len() as u64 }).to_le_bytes());
    }
    let mut total = 0;
    expected.extend(0u64.to_le_bytes());
    for tile in &framed {
        total += tile.len() as u64;
        expected.extend(total.to_le_bytes());
    }
    for some in framed.chunks(at_once as usize) {
        let mut blob = Vec::new();
        for tile in some {
            // What does not fit is not there, nor a part of it.
            let fits = (blob.len() + tile.len()) as u64 <= room;
            blob.extend(if fits { tile.clone() } else { vec![0x5a; tile.len()] });
        }
        blob.truncate(room as usize);
        expected.extend(blob);
    }
    let given = KERNELS.exchange(input);
    let wrong = given.iter().zip(&expected).position(|(a, b)| a != b);
    assert!(wrong.is_none() && given.len() == expected.len(), "byte {wrong:?} of {}, {}", given.len(), expected.len());
}

fn tiles(sizes: &[usize], seed: u64) -> Vec<Tile> {
    let mut random = Random(seed);
    let mut tiles = Vec::new();
    for &size in sizes {
        for plain in samples(size, seed) {
            let length = 1 + random.below(size + size / 2);
            let payload = random.bytes(length);
            tiles.push(Tile { plain, payload, status: 0, differs: true });
        }
    }
    tiles
}

#[test]
fn checksums_of_all_lengths() {
    let mut all = tiles(&[1, 2, 3, 15, 16, 17, 255, 4095, 4096, 4097, 16383, 16384, 16385, 65521, 100_000], 3);
    // The largest sums there are.
    for length in [65535, 65536, 70_001, 262_144] {
        all.push(Tile { plain: vec![0xff; length], payload: vec![7], status: 0, differs: true });
    }
    check(&all, true, 1000, u64::MAX, 0);
    check(&all[..40], true, 7, u64::MAX, 5);
}

#[test]
fn bytes_of_all_alignments_stand_one_behind_the_other() {
    let all = tiles(&[1, 5, 16, 33, 700, 5000, 40_000], 9);
    for zlib in [false, true] {
        check(&all, zlib, 1000, u64::MAX, 3);
        check(&all, zlib, 3, u64::MAX, 0);
    }
}

#[test]
fn more_tiles_than_a_block_has_threads() {
    let mut random = Random(2);
    let tile = |_| {
        let length = 1 + random.below(40);
        Tile { plain: vec![1; 3], payload: random.bytes(length), status: 0, differs: random.below(5) > 0 }
    };
    check(&(0..2500).map(tile).collect::<Vec<_>>(), false, 2500, u64::MAX, 0);
}

#[test]
fn what_is_absent_refused_or_too_long_is_not_written() {
    let mut all = tiles(&[10, 100, 20_000], 4);
    for (i, tile) in all.iter_mut().enumerate() {
        tile.differs = i % 3 != 1;
        tile.status = if i % 5 == 2 { 11 } else { 0 };
    }
    for room in [0, 5, 100, 300, 20_000, 45_000] {
        check(&all, true, 1000, room, 1);
        check(&all, false, 4, room, 1);
    }
}
