//! Whether less effort does for a tile: ways to compress it are tried on pieces of it.

/// Bytes of a tile from which on that pays.
pub(super) const WORTH_TRYING: usize = 256 << 10;
/// The part of a tile that is tried, and no less than so many bytes, in as many pieces.
const SHARE: usize = 64;
const LEAST: usize = 8 << 10;
const PIECES: usize = 8;
/// A way does where it gives no more bytes than another, but for one of so many.
const TOLERANCE: usize = 256;
/// Bytes in which there is all that a match of Deflate can reach, and half as much again.
const STRETCH: usize = 48 << 10;

/// Pieces from all over a tile, at even distances, one behind the other.
pub(super) fn pick(bytes: &[u8], pieces: &mut Vec<u8>) {
    let length = (bytes.len() / SHARE).max(LEAST).min(bytes.len()) / PIECES;
    pieces.clear();
    for part in bytes.chunks_exact((bytes.len() / PIECES).max(1)).take(PIECES) {
        let start = (part.len() - length) / 2;
        pieces.extend_from_slice(&part[start..start + length]);
    }
}

/// A stretch of a tile, from its middle. Pieces know nothing of what stands further before them.
pub(super) fn stretch(bytes: &[u8]) -> &[u8] {
    let length = STRETCH.min(bytes.len());
    let start = (bytes.len() - length) / 2;
    &bytes[start..start + length]
}

/// Whether a way that gives `bytes` does as well as one that gives `other`.
pub(super) fn does(bytes: usize, other: usize) -> bool {
    bytes <= other + other / TOLERANCE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_from_all_over_a_tile() {
        for length in [WORTH_TRYING, WORTH_TRYING + 1, 300_007, 5 << 20] {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 256 / length) as u8).collect();
            let mut pieces = Vec::new();
            pick(&bytes, &mut pieces);
            assert!(pieces.len() >= LEAST - PIECES && pieces.len() <= length / 32);
            for (i, piece) in pieces.chunks(pieces.len() / PIECES).enumerate() {
                assert!(piece.iter().all(|&b| usize::from(b) * PIECES / 256 == i), "{length}");
            }
        }
    }

    #[test]
    fn tiles_of_any_size_have_pieces_or_none() {
        for length in [0, 1, 7, 8, 9, 8191, 9000, STRETCH + 1] {
            let mut pieces = vec![1];
            let bytes = vec![2; length];
            pick(&bytes, &mut pieces);
            assert!(pieces.len() <= length && pieces.iter().all(|&b| b == 2));
            assert_eq!(stretch(&bytes).len(), length.min(STRETCH));
        }
    }
}
