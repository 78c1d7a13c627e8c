//! The order of a cloud-optimised file as GDAL's COG driver has it.
//!
//! Right behind the header stands a text that promises the order of all that follows, then all directories, then the
//! tiles: the smallest overview first, row by row. Around each tile stand its size and its last bytes once more, so
//! that a reader that has seen the promise needs no tile arrays to walk from tile to tile.

mod ghost;
mod validate;

pub use ghost::Ghost;
pub use validate::{check, validate};

/// Bytes before each tile: its size.
pub const LEADER: u64 = 4;
/// Bytes behind each tile: its last four once more.
pub const TRAILER: u64 = 4;

/// The text behind the header. `planar` tells that each band has tiles of its own; with `mask_follows` the tile of the
/// mask stands right behind each tile of the image.
pub fn ghost(planar: bool, mask_follows: bool) -> Vec<u8> {
    let interleave = if planar { "INTERLEAVE=BAND\n" } else { "" };
    let mask = if mask_follows { "MASK_INTERLEAVED_WITH_IMAGERY=YES\n" } else { "" };
    let promises = format!(
        "LAYOUT=IFDS_BEFORE_DATA\n\
         BLOCK_ORDER=ROW_MAJOR\n\
         BLOCK_LEADER=SIZE_AS_UINT4\n\
         BLOCK_TRAILER=LAST_4_BYTES_REPEATED\n\
         {interleave}\
         KNOWN_INCOMPATIBLE_EDITION=NO\n {mask}"
    );
    format!("GDAL_STRUCTURAL_METADATA_SIZE={:06} bytes\n{promises}", promises.len()).into_bytes()
}

/// The size before a tile, little-endian whatever the file is, as the promise has it.
pub fn leader(tile: &[u8]) -> [u8; LEADER as usize] {
    (tile.len() as u32).to_le_bytes()
}

/// What stands behind a tile.
pub fn trailer(tile: &[u8]) -> [u8; TRAILER as usize] {
    let mut out = [0; TRAILER as usize];
    let last = &tile[tile.len().saturating_sub(4)..];
    out[..last.len()].copy_from_slice(last);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promise_tells_its_size() {
        for (planar, mask, size) in [(false, false, 140), (false, true, 174), (true, false, 156)] {
            let text = String::from_utf8(ghost(planar, mask)).unwrap();
            let (first, rest) = text.split_once('\n').unwrap();
            assert_eq!(first, format!("GDAL_STRUCTURAL_METADATA_SIZE=000{size} bytes"));
            assert_eq!(rest.len(), size);
        }
    }

    #[test]
    fn short_tiles_have_trailers_too() {
        assert_eq!(trailer(b"abcdef"), *b"cdef");
        assert_eq!(trailer(b"ab"), *b"ab\0\0");
        assert_eq!(leader(b"abc"), [3, 0, 0, 0]);
    }
}
