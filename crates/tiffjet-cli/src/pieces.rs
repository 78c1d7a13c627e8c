//! Images in pieces that fit in memory.

use std::ops::Range;

use tiffjet::{Error, Image, Layout, Result};

/// Rows of whole tiles, so that none is decoded twice.
pub struct Pieces {
    /// Rows of a tile.
    step: u32,
    /// Rows of a piece, of whole tiles.
    down: u32,
}

impl Pieces {
    /// Pieces of rows of so many bytes that have so many bytes together, as far as the file's tiles allow.
    pub fn new(layout: &Layout, row_bytes: u64, bytes: u64) -> Self {
        let step = if layout.rows_are_bytes() { 1 } else { layout.format.height.max(1) };
        let fit = u32::try_from(bytes / row_bytes.max(1)).unwrap_or(u32::MAX);
        Self { step, down: (fit / step).max(1).saturating_mul(step) }
    }

    /// The rows of a piece, at most.
    pub fn rows(&self) -> u32 {
        self.down
    }

    /// Some rows, piece by piece: there may be billions.
    pub fn cut(self, rows: Range<u32>) -> impl Iterator<Item = Range<u32>> + Send {
        let mut y = rows.start;
        std::iter::from_fn(move || {
            let end = (y / self.step * self.step).saturating_add(self.down).min(rows.end);
            let piece = y..end;
            y = end.max(y);
            (!piece.is_empty()).then_some(piece)
        })
    }
}

/// Refuses to go through pixels that are out of all proportion to the file they come from: a few bytes can declare
/// more of them than anybody can wait for.
pub fn in_proportion(image: &Image, level: usize, shape: [usize; 3]) -> Result<()> {
    const RATIO: u64 = 1024;
    const FREE: u64 = 64 << 30;
    let level = image.level(level)?;
    let asked = shape.iter().fold(level.layout.dtype().size() as u64, |bytes, &n| bytes.saturating_mul(n as u64));
    let length = level.source().version().length;
    let allowed = length.saturating_mul(RATIO).saturating_add(FREE);
    if asked > allowed {
        let what = format!("bytes of pixels to go through for a file of {length} bytes");
        return Err(Error::limit(image.name(), what, asked, allowed));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_with_tiles() {
        let cut = |step, down, rows| Pieces { step, down }.cut(rows).collect::<Vec<_>>();
        assert_eq!(cut(16, 32, 10..70), [10..32, 32..64, 64..70]);
        assert_eq!(cut(1, 50, 5..70), [5..55, 55..70]);
        assert_eq!(cut(16, 16, 5..5), [0..0; 0]);
        assert_eq!(cut(1 << 31, 1 << 31, 1..u32::MAX), [1..1 << 31, 1 << 31..u32::MAX]);
    }
}
