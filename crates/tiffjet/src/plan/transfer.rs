//! Which requests fetch which ranges: sorted, merged across small gaps, cut where they are large.

use std::ops::Range;

/// A part of a range, or all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Which range of the list.
    pub part: usize,
    /// Bytes in the file.
    pub range: Range<u64>,
}

/// One request and what it brings, in the order of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes in the file.
    pub range: Range<u64>,
    /// Whose bytes they are; what lies between them nobody wants.
    pub pieces: Vec<Piece>,
}

/// Neighbours of a list of ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gathered {
    /// Bytes in the file, from the first to the last.
    pub range: Range<u64>,
    /// Which ranges of the list, in the order of their bytes.
    pub parts: Vec<usize>,
}

/// Sorts ranges and joins neighbours, as long as at most `gap` bytes between them are fetched in vain and they have at most
/// `most` bytes together; a larger one stays alone. Those that overlap are never joined: a byte that arrives has one place to
/// go. Empty ranges are left out.
pub fn gather(ranges: &[Range<u64>], gap: u64, most: u64) -> Vec<Gathered> {
    let mut order: Vec<usize> = (0..ranges.len()).filter(|&i| !ranges[i].is_empty()).collect();
    order.sort_by_key(|&i| (ranges[i].start, ranges[i].end));
    let mut gathered: Vec<Gathered> = Vec::new();
    for part in order {
        let range = &ranges[part];
        match gathered.last_mut() {
            Some(last) if joins(&last.range, range, gap, most) => {
                last.range.end = range.end;
                last.parts.push(part);
            }
            _ => gathered.push(Gathered { range: range.clone(), parts: vec![part] }),
        }
    }
    gathered
}

/// The requests for a list of ranges: gathered, and what is larger than `request` is cut, so that its pieces arrive side by
/// side.
pub fn transfers(ranges: &[Range<u64>], gap: u64, request: u64) -> Vec<Transfer> {
    let request = request.max(1);
    let mut pieces: Vec<Piece> = Vec::new();
    for (part, range) in ranges.iter().enumerate() {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at.saturating_add(request));
            pieces.push(Piece { part, range: at..end });
            at = end;
        }
    }
    // All pieces of a range but its last are as large as a request, so they stay apart.
    let spans: Vec<Range<u64>> = pieces.iter().map(|piece| piece.range.clone()).collect();
    let of = |parts: Vec<usize>| parts.into_iter().map(|i| pieces[i].clone()).collect();
    gather(&spans, gap, request).into_iter().map(|g| Transfer { range: g.range, pieces: of(g.parts) }).collect()
}

/// Whether a range goes on where another ends, or nearly so, and both together are no more than a request.
fn joins(span: &Range<u64>, next: &Range<u64>, gap: u64, request: u64) -> bool {
    next.start >= span.end && next.start - span.end <= gap && next.end - span.start <= request
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // a list of one range is meant
mod tests {
    use super::*;

    fn spans(ranges: &[Range<u64>], gap: u64, request: u64) -> Vec<Range<u64>> {
        transfers(ranges, gap, request).into_iter().map(|t| t.range).collect()
    }

    #[test]
    fn neighbours_share_a_request_in_any_order() {
        assert_eq!(spans(&[30..40, 0..10, 12..20], 2, 100), [0..20, 30..40]);
        assert_eq!(spans(&[30..40, 0..10, 12..20], 10, 100), [0..40]);
        let merged = transfers(&[30..40, 0..10], 20, 100);
        assert_eq!(merged[0].pieces, [Piece { part: 1, range: 0..10 }, Piece { part: 0, range: 30..40 }]);
    }

    #[test]
    fn what_is_large_is_cut_and_what_would_be_is_not_joined() {
        assert_eq!(spans(&[0..25], 0, 10), [0..10, 10..20, 20..25]);
        assert_eq!(spans(&[0..6, 6..12], 0, 10), [0..6, 6..12]);
        // The end of a large range has room for its neighbour.
        assert_eq!(spans(&[0..25, 25..28], 0, 10), [0..10, 10..20, 20..28]);
    }

    #[test]
    fn overlapping_and_equal_ranges_are_fetched_apart_and_empty_ones_never() {
        assert_eq!(spans(&[0..10, 5..15, 5..15, 7..7], 100, 100), [0..10, 5..15, 5..15]);
        assert_eq!(spans(&[], 1, 1), [0..0; 0]);
    }

    #[test]
    fn every_byte_has_one_piece_whatever_is_asked() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for _ in 0..500 {
            let ranges: Vec<Range<u64>> = (0..random(20))
                .map(|_| {
                    let start = random(1000);
                    start..start + random(80)
                })
                .collect();
            let (gap, request) = (random(40), 1 + random(60));
            let mut have: Vec<u64> = vec![0; ranges.len()];
            for transfer in transfers(&ranges, gap, request) {
                assert!(transfer.range.end - transfer.range.start <= request);
                let mut at = transfer.range.start;
                for piece in &transfer.pieces {
                    let whole = &ranges[piece.part];
                    assert!(at <= piece.range.start && piece.range.start - at <= gap);
                    assert!(whole.start <= piece.range.start && piece.range.end <= whole.end);
                    have[piece.part] += piece.range.end - piece.range.start;
                    at = piece.range.end;
                }
                assert_eq!(at, transfer.range.end);
            }
            assert!(ranges.iter().zip(&have).all(|(range, &n)| range.end - range.start == n));
        }
    }

    #[test]
    fn ranges_at_the_end_of_all_numbers_are_fine() {
        assert_eq!(spans(&[u64::MAX - 5..u64::MAX], 10, 3), [u64::MAX - 5..u64::MAX - 2, u64::MAX - 2..u64::MAX]);
    }
}
