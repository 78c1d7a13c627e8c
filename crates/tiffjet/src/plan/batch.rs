//! Runs of tiles that are fetched and decoded together.

use std::ops::Range;

use super::TileRead;

/// Bytes between two tiles that are cheaper to read than to skip.
const GAP: u64 = 4 << 10;

/// Groups neighbours in the list into runs: one read each, of at most `bytes`, unless a single tile is larger. Tiles
/// that are not in the file join any run. One-row strips thus cost one read for hundreds of them, while large tiles
/// stay alone and spread over the cores.
pub fn runs(tiles: &[TileRead], bytes: u64) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut span = 0..0;
    for (i, tile) in tiles.iter().enumerate() {
        let range = &tile.range;
        let joined = match runs.last_mut() {
            Some(run) if range.is_empty() => {
                // A sparse tile is work all the same: filling it is bounded as reading is.
                run.len() < 64 && {
                    run.end = i + 1;
                    true
                }
            }
            Some(run) if span.is_empty() || joins(&span, range, bytes) => {
                run.end = i + 1;
                span = if span.is_empty() { range.clone() } else { span.start..range.end };
                true
            }
            _ => false,
        };
        if !joined {
            runs.push(i..i + 1);
            span = range.clone();
        }
    }
    runs
}

/// Whether a range goes on where another ends, or nearly so, and both together have at most `bytes`.
pub fn joins(span: &Range<u64>, next: &Range<u64>, bytes: u64) -> bool {
    next.start >= span.end && next.start - span.end <= GAP && next.end - span.start <= bytes
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // a list of one range is meant
mod tests {
    use super::*;
    use crate::plan::Part;

    fn tile(range: Range<u64>) -> TileRead {
        let part = Part { y: 0, x: 0, height: 1, width: 1 };
        TileRead { tile: 0, row: 0, col: 0, plane: 0, range, first_row: 0, rows: 1, part, at: (0, 0) }
    }

    #[test]
    fn neighbours_share_a_read() {
        let tiles = [tile(100..200), tile(200..300), tile(310..400)];
        assert_eq!(runs(&tiles, 1000), [0..3]);
    }

    #[test]
    fn large_or_distant_or_backward_tiles_stay_alone() {
        let tiles = [tile(0..600), tile(600..1200), tile(9_000_000..9_000_100), tile(100..200)];
        assert_eq!(runs(&tiles, 1000), [0..1, 1..2, 2..3, 3..4]);
    }

    #[test]
    fn sparse_tiles_join_any_run() {
        let tiles = [tile(0..0), tile(50..60), tile(0..0), tile(60..70)];
        assert_eq!(runs(&tiles, 1000), [0..4]);
    }
}
