//! A BigTIFF of very many tiles, to see that opening one takes milliseconds.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::compression;
use crate::field::{Order, Value};
use crate::pixels::mix;
use crate::tag;

/// Columns and rows of a tile.
pub const TILE: u32 = 256;

/// Writes an image of `across` x `down` tiles of unsigned bytes, Deflate, little-endian. The tiles of the numbers
/// `stored` (rising) hold [`tile`], all others are sparse. The arrays of offsets and byte counts are written in full,
/// and nothing of their size is ever in memory.
pub fn write(path: &Path, across: u32, down: u32, stored: &[u64]) -> io::Result<()> {
    let count = u64::from(across) * u64::from(down);
    assert!(stored.windows(2).all(|pair| pair[0] < pair[1]), "tile numbers must rise");
    assert!(stored.last().is_none_or(|last| *last < count), "a tile outside the image");
    let tiles: Vec<(u64, Vec<u8>)> = stored.iter().map(|n| (*n, compression::deflate(&tile(*n)))).collect();

    let small = |value| Value::Short(vec![value]);
    let size = |tiles: u32| Value::Long(vec![tiles.checked_mul(TILE).expect("at most 2^24 tiles in a row")]);
    let array = |field, start: u64| Value::Raw { field, count, bytes: start.to_le_bytes().to_vec() };
    const ENTRIES: u64 = 11;
    let offsets_at = 16 + 8 + ENTRIES * 20 + 8;
    let counts_at = offsets_at + 8 * count;
    let tiles_at = counts_at + 4 * count;
    let entries: [(u16, Value); ENTRIES as usize] = [
        (tag::IMAGE_WIDTH, size(across)),
        (tag::IMAGE_LENGTH, size(down)),
        (tag::BITS_PER_SAMPLE, small(8)),
        (tag::COMPRESSION, small(8)),
        (tag::PHOTOMETRIC, small(1)),
        (tag::SAMPLES_PER_PIXEL, small(1)),
        (tag::TILE_WIDTH, small(TILE as u16)),
        (tag::TILE_LENGTH, small(TILE as u16)),
        (tag::TILE_OFFSETS, array(16, offsets_at)),
        (tag::TILE_BYTE_COUNTS, array(4, counts_at)),
        (tag::SAMPLE_FORMAT, small(1)),
    ];

    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    out.write_all(b"II\x2b\0\x08\0\0\0")?;
    out.write_all(&16u64.to_le_bytes())?;
    out.write_all(&ENTRIES.to_le_bytes())?;
    for (tag, value) in entries {
        let mut bytes = value.bytes(Order::Little);
        bytes.resize(8, 0);
        out.write_all(&tag.to_le_bytes())?;
        out.write_all(&value.field().to_le_bytes())?;
        out.write_all(&value.count().to_le_bytes())?;
        out.write_all(&bytes)?;
    }
    out.write_all(&0u64.to_le_bytes())?;

    let mut next = tiles_at;
    let offsets = tiles.iter().map(|(number, bytes)| {
        let offset = next;
        next += bytes.len() as u64;
        (*number, offset.to_le_bytes())
    });
    write_array(&mut out, count, offsets)?;
    write_array(&mut out, count, tiles.iter().map(|(number, bytes)| (*number, (bytes.len() as u32).to_le_bytes())))?;
    for (_, bytes) in &tiles {
        out.write_all(bytes)?;
    }
    out.flush()
}

/// `count` words, zero but for those given.
fn write_array<const N: usize>(
    out: &mut impl Write,
    count: u64,
    words: impl Iterator<Item = (u64, [u8; N])>,
) -> io::Result<()> {
    let mut done = 0;
    for (number, word) in words {
        write_zeros(out, (number - done) * N as u64)?;
        out.write_all(&word)?;
        done = number + 1;
    }
    write_zeros(out, (count - done) * N as u64)
}

fn write_zeros(out: &mut impl Write, count: u64) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), count), out).map(|_| ())
}

/// The pixels of the stored tile of this number, row after row: no two tiles are alike.
pub fn tile(number: u64) -> Vec<u8> {
    let base = mix(number) as u32;
    (0..TILE * TILE).map(|i| (base.wrapping_add(i % TILE * 3 + i / TILE) >> 2) as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;

    #[test]
    fn a_small_one_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("big.tif");
        write(&path, 3, 2, &[1, 5]).unwrap();
        let level = &naive::decode(&std::fs::read(&path).unwrap()).unwrap()[0];
        assert_eq!((level.width, level.height), (768, 512));
        let row = |y: usize, x: usize| &level.bytes[y * 768 + x..][..256];
        for y in 0..256 {
            assert_eq!(row(y, 0), [0; 256]);
            assert_eq!(row(y, 256), &tile(1)[y * 256..][..256]);
            assert_eq!(row(y + 256, 512), &tile(5)[y * 256..][..256]);
        }
    }

    #[test]
    fn a_million_tiles_have_full_arrays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("big.tif");
        write(&path, 1000, 1000, &[0, 500_500, 999_999]).unwrap();
        let file = std::fs::read(&path).unwrap();
        let (_, directories) = naive::directories(&file).unwrap();
        let numbers = |tag| directories[0].tags[&tag].numbers().unwrap();
        let (offsets, counts) = (numbers(tag::TILE_OFFSETS), numbers(tag::TILE_BYTE_COUNTS));
        assert_eq!((offsets.len(), counts.len()), (1_000_000, 1_000_000));
        let stored: Vec<usize> = (0..offsets.len()).filter(|n| offsets[*n] != 0).collect();
        assert_eq!(stored, [0, 500_500, 999_999]);
        assert_eq!(stored, (0..counts.len()).filter(|n| counts[*n] != 0).collect::<Vec<_>>());
        assert_eq!(offsets[999_999] + counts[999_999], file.len() as u64);
    }
}
