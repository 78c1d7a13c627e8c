//! The image of a group to loads.

use super::{Fill, Load, Segment, What};

/// How large loads are: small at first, so that the first copy begins soon, then larger and larger.
#[derive(Debug, Clone, Copy)]
pub struct Loads {
    /// Bytes of the first ones.
    pub least: u64,
    /// Bytes of the largest.
    pub most: u64,
    /// How many are filled at once.
    pub at_once: u64,
}

impl Loads {
    /// Bytes of the load that has so many before it.
    fn after(&self, before: u64) -> u64 {
        (before / self.at_once.max(1)).clamp(self.least, self.most.max(self.least)).next_multiple_of(4096)
    }
}

/// Cuts an image into loads, with so many bytes of other images before it. A tile that the host decodes is never cut.
pub(super) fn loads(segments: Vec<Segment>, sizes: Loads, before: u64) -> Vec<Load> {
    let mut loads: Vec<Load> = Vec::new();
    let mut most = 0;
    for segment in segments {
        let whole = matches!(segment.what, What::Tile { .. });
        let mut done = 0;
        while done < segment.length {
            let (at, left) = (segment.at + done, segment.length - done);
            let room = loads.last().map_or(0, |load| (load.at + most).saturating_sub(at));
            // A few bytes at the end of a load are not worth a read of their own.
            if room < left.min(if whole { u64::MAX } else { 4096 }) {
                most = sizes.after(before + at);
                loads.push(Load { at, ..Load::default() });
            }
            let Some(load) = loads.last_mut() else { break };
            let length = if whole { left } else { left.min(load.at + most - at) };
            load.fills.push(Fill { at: at - load.at, length, what: segment.what.after(done) });
            load.length = at + length - load.at;
            done += length;
        }
    }
    loads
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(at: u64, length: u64) -> Segment {
        Segment { at, length, what: What::File { job: 0, start: 1000 + at, reversed: false } }
    }

    fn tile(at: u64, length: u64) -> Segment {
        Segment { at, length, what: What::Tile { job: 0, tile: 0 } }
    }

    /// Every byte of every segment is in one load, from the right place.
    fn covers(segments: &[Segment], most: u64) -> Vec<Load> {
        covers_from(segments, Loads { least: most, most, at_once: 1 }, 0)
    }

    fn covers_from(segments: &[Segment], sizes: Loads, before: u64) -> Vec<Load> {
        let most = sizes.most;
        let loads = loads(segments.to_vec(), sizes, before);
        for segment in segments {
            let mut at = segment.at;
            while at < segment.at + segment.length {
                let found = loads.iter().find_map(|load| {
                    let fill = load.fills.iter().find(|fill| load.at + fill.at == at)?;
                    (fill.what == segment.what.after(at - segment.at)).then_some(fill.length)
                });
                at += found.expect("the byte is loaded");
            }
        }
        for load in &loads {
            assert!(load.length <= most || load.fills.len() == 1, "{load:?}");
            assert_eq!(load.fills[0].at, 0);
            for pair in load.fills.windows(2) {
                assert!(pair[0].at + pair[0].length <= pair[1].at);
            }
        }
        loads
    }

    #[test]
    fn runs_are_cut_anywhere_and_tiles_of_the_host_nowhere() {
        assert_eq!(covers(&[file(0, 100_000)], 1 << 14).len(), 7);
        assert_eq!(covers(&[tile(0, 10_000), tile(10_000, 10_000), file(20_000, 5)], 1 << 14).len(), 2);
        assert_eq!(covers(&[file(0, 5), tile(16, 1 << 20), file((1 << 20) + 16, 100)], 1 << 14).len(), 3);
        assert_eq!(covers(&[file(0, 16_000), file(16_000, 9_000)], 1 << 14).len(), 2);
    }

    #[test]
    fn loads_begin_small_and_grow_with_what_is_before_them() {
        let sizes = Loads { least: 4096, most: 1 << 16, at_once: 4 };
        let lengths = |before| {
            let loads = covers_from(&[file(0, 1 << 20)], sizes, before);
            loads.iter().map(|load| load.length).collect::<Vec<_>>()
        };
        let first = lengths(0);
        let [grown @ .., _rest] = &first[..] else { panic!("no loads") };
        assert!(grown[..4] == [4096; 4] && grown.is_sorted(), "{first:?}");
        assert!(grown.ends_with(&[1 << 16; 8]), "{first:?}");
        assert_eq!(lengths(1 << 20), [1 << 16; 16]);
    }
}
