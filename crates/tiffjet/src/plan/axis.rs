//! Which pixels above a pixel is made from, along one axis: the windows of GDAL.

use std::ops::Range;

/// A hair: what rounding may leave of a boundary between pixels.
const HAIR: f64 = 1e-8;

/// Pixels above that a pixel covers, the first and the last of them in part.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// All pixels that are touched.
    pub start: usize,
    /// One behind them.
    pub end: usize,
    /// Part of the first that is covered.
    pub first: f64,
    /// Part of the last, where it is another one.
    pub last: f64,
}

impl Span {
    /// The pixels.
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    /// Weight of a pixel of the range.
    pub fn weight(&self, at: usize) -> f64 {
        if at == self.start {
            self.first
        } else if at + 1 == self.end {
            self.last
        } else {
            1.0
        }
    }

    /// Weight of all pixels.
    pub fn whole(&self) -> f64 {
        if self.end - self.start < 2 { self.first } else { self.first + (self.end - self.start - 2) as f64 + self.last }
    }

    /// Just two whole pixels.
    pub fn is_pair(&self) -> bool {
        self.end == self.start + 2 && self.first == 1.0 && self.last == 1.0
    }
}

/// The spans of all pixels of an axis.
pub fn spans(from: u32, to: u32) -> Vec<Span> {
    let ratio = f64::from(from) / f64::from(to);
    let from = from as usize;
    let span = |at| {
        let (low, high) = (f64::from(at) * ratio, f64::from(at + 1) * ratio);
        let start = ((low + HAIR) as usize).min(from - 1);
        let end = ((high - HAIR).ceil() as usize).max(start + 1).min(from);
        let first = if end == start + 1 { 1.0 } else { 1.0 - (low - start as f64) };
        Span { start, end, first, last: 1.0 - (end as f64 - high) }
    };
    (0..to).map(span).collect()
}

/// The one pixel that stands for each pixel, as GDAL chooses it.
pub fn places(from: u32, to: u32) -> Vec<usize> {
    let ratio = f64::from(from) / f64::from(to);
    (0..to).map(|at| ((0.5 + f64::from(at) * ratio) as usize).min(from as usize - 1)).collect()
}

/// Spans without parts: every pixel above belongs to one pixel alone.
pub fn blocks(from: u32, to: u32) -> Vec<Span> {
    let ratio = f64::from(from) / f64::from(to);
    let edge = |at: u32| ((0.5 + f64::from(at) * ratio) as usize).min(from as usize);
    let block = |at| {
        let start = edge(at).min(from as usize - 1);
        let end = if at + 1 == to { from as usize } else { edge(at + 1).max(start + 1) };
        Span { start, end, first: 1.0, last: 1.0 }
    };
    (0..to).map(block).collect()
}

/// Pixels above with a weight each.
#[derive(Debug, Clone, PartialEq)]
pub struct Taps {
    /// The first pixel.
    pub start: usize,
    /// Of this one and those behind it; their sum is 1 but for [`bells`].
    pub weights: Vec<f64>,
}

impl Taps {
    /// The pixels.
    pub fn range(&self) -> Range<usize> {
        self.start..self.start + self.weights.len()
    }
}

/// Bilinear taps of all pixels of an axis.
pub fn triangles(from: u32, to: u32) -> Vec<Taps> {
    taps(from, to, 1.0, triangle)
}

/// Cubic taps of all pixels of an axis.
pub fn cubics(from: u32, to: u32) -> Vec<Taps> {
    taps(from, to, 2.0, cubic)
}

fn triangle(x: f64) -> f64 {
    (1.0 - x.abs()).max(0.0)
}

/// The cubic of Catmull and Rom.
fn cubic(x: f64) -> f64 {
    let x = x.abs();
    if x <= 1.0 {
        x * x * (1.5 * x - 2.5) + 1.0
    } else if x <= 2.0 {
        x * (x * (-0.5 * x + 2.5) - 4.0) + 2.0
    } else {
        0.0
    }
}

/// A kernel stretched to the size of a pixel, at all pixels of an axis.
fn taps(from: u32, to: u32, radius: f64, kernel: fn(f64) -> f64) -> Vec<Taps> {
    let ratio = f64::from(from) / f64::from(to);
    let scale = (1.0 / ratio).min(1.0);
    let reach = radius / scale;
    let tap = |at: u32| {
        let centre = (f64::from(at) + 0.5) * ratio;
        let start = ((centre - reach + 0.5).floor().max(0.0) as usize).min(from as usize - 1);
        let end = ((centre + reach + 0.5) as usize).min(from as usize).max(start + 1);
        let mut weights: Vec<f64> = (start..end).map(|x| kernel(scale * (x as f64 - centre + 0.5))).collect();
        let sum: f64 = weights.iter().sum();
        if sum != 0.0 {
            weights.iter_mut().for_each(|weight| *weight /= sum);
        }
        Taps { start, weights }
    };
    (0..to).map(tap).collect()
}

/// Rows of Pascal's triangle as GDAL lays them over the pixels of an axis. `factor` decides how many.
pub fn bells(from: u32, to: u32, factor: f64) -> Vec<Taps> {
    let bell: &[f64] = match (0.5 + factor) as u32 {
        ..=2 => &[1.0, 2.0, 1.0],
        3..=4 => &[1.0, 4.0, 6.0, 4.0, 1.0],
        _ => &[1.0, 6.0, 15.0, 20.0, 15.0, 6.0, 1.0],
    };
    let ratio = f64::from(from) / f64::from(to);
    let from = from as usize;
    let tap = |at: u32| {
        let low = (0.5 + f64::from(at) * ratio) as usize;
        let high = (0.5 + f64::from(at + 1) * ratio) as usize + 1;
        let middle = low + (high - low) / 2;
        // What hangs over the edges falls off.
        let start = middle.saturating_sub(bell.len() / 2).min(from - 1);
        let cut = (start + bell.len() / 2).saturating_sub(middle).min(bell.len() - 1);
        let count = (bell.len() - cut).min(from - start);
        Taps { start, weights: bell[cut..cut + count].to_vec() }
    };
    (0..to).map(tap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_pairs_and_odd_sizes_overlap() {
        assert!(spans(8, 4).iter().all(Span::is_pair));
        let odd = spans(3, 2);
        assert_eq!(odd[0], Span { start: 0, end: 2, first: 1.0, last: 0.5 });
        assert_eq!(odd[1], Span { start: 1, end: 3, first: 0.5, last: 1.0 });
        assert_eq!(odd[1].whole(), 1.5);
        assert_eq!(spans(1, 1), [Span { start: 0, end: 1, first: 1.0, last: 1.0 }]);
        let ranges: Vec<_> = blocks(5, 3).iter().map(Span::range).collect();
        assert_eq!(ranges, [0..2, 2..3, 3..5]);
    }

    #[test]
    fn windows_stay_inside() {
        for from in 1..70u32 {
            for to in 1..=from {
                for span in spans(from, to).into_iter().chain(blocks(from, to)) {
                    assert!(span.start < span.end && span.end <= from as usize, "{from} {to} {span:?}");
                }
                let all = taps(from, to, 2.0, |x| 1.0 - x.abs() / 2.0);
                for taps in all.into_iter().chain(bells(from, to, f64::from(from) / f64::from(to))) {
                    assert!(!taps.weights.is_empty() && taps.range().end <= from as usize, "{from} {to} {taps:?}");
                }
            }
        }
    }

    #[test]
    fn bells_stand_behind_the_middle_of_a_pair() {
        let bells = bells(5, 3, 5.0 / 3.0);
        assert_eq!(bells[0], Taps { start: 0, weights: vec![1.0, 2.0, 1.0] });
        assert_eq!(bells[2], Taps { start: 3, weights: vec![1.0, 2.0] });
    }
}
