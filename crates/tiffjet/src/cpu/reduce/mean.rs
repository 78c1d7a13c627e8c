//! Means of the pixels that a pixel covers, those at the edges in part, and roots of the means of their squares.

use std::ops::Range;

use super::sample::{Sample, Work};
use super::{Above, Kernel, Validity, any_in, mask_part};
use crate::plan::OverviewPlan;
use crate::plan::axis::{Span, spans};

/// Average, or root mean square.
pub struct Mean<T> {
    columns: Vec<Span>,
    /// The same where no column covers more than three, as it is for all factors of two.
    trios: Option<Vec<Trio>>,
    rows: Vec<Span>,
    /// All columns are just two columns above.
    pairs: bool,
    square: bool,
    validity: Validity<T>,
}

/// Three columns above with their weights: 0 for those that do not belong here.
struct Trio {
    start: usize,
    weights: [f64; 3],
}

impl Trio {
    /// `None` where a span is longer. `from`: columns above.
    fn new(span: &Span, from: usize) -> Option<Self> {
        let start = span.start.min(from.checked_sub(3)?);
        (span.end <= start + 3).then(|| {
            let weight = |x| if span.range().contains(&x) { span.weight(x) } else { 0.0 };
            Self { start, weights: [weight(start), weight(start + 1), weight(start + 2)] }
        })
    }

    /// The three of a row.
    fn of<'a, V>(&self, row: &'a [V]) -> Option<&'a [V; 3]> {
        row.get(self.start..)?.first_chunk()
    }
}

/// Sums of one row on their way.
struct Sums {
    /// Of values with their weights.
    total: Vec<f64>,
    /// Of the weights of those that count.
    weight: Vec<f64>,
    /// What each value is multiplied with before it is added.
    part: Vec<f64>,
    /// 1 where a pixel above counts, of two rows.
    counts: [Vec<u8>; 2],
}

impl<T: Sample> Mean<T> {
    pub fn new(plan: &OverviewPlan, square: bool) -> Self {
        let columns = spans(plan.from.0, plan.to.0);
        let pairs = columns.iter().all(Span::is_pair);
        let trios = columns.iter().map(|span| Trio::new(span, plan.from.0 as usize)).collect();
        Self { pairs, trios, columns, rows: spans(plan.from.1, plan.to.1), square, validity: Validity::new(plan) }
    }

    fn term(&self, raw: T::Raw) -> f64 {
        let value = T::get(raw).real();
        if self.square { value * value } else { value }
    }

    /// Every pixel of the image counts.
    fn plain(&self) -> bool {
        self.validity.nodata.is_none() && !self.validity.masked
    }

    /// The result for a mean, rounded where GDAL rounds it.
    fn result(&self, mean: f64) -> T {
        let Validity { nodata, beside, .. } = self.validity;
        let value = if self.square { mean.sqrt() } else { mean };
        let (value, hit) = match T::WORK {
            Work::Own if self.square => {
                // The integer whose square is nearest to the mean.
                let floor = value.floor();
                let root = if mean - (floor * floor + floor) > 0.5 { floor + 1.0 } else { floor };
                let root = T::from_double(root);
                (root, nodata == Some(root))
            }
            Work::Own => {
                let value = T::from_double(value);
                (value, nodata == Some(value))
            }
            Work::Single => {
                let value = value as f32;
                (T::from_single(value), nodata.is_some_and(|nodata| nodata.real() as f32 == value))
            }
            Work::Double => (T::from_double(value), nodata.is_some_and(|nodata| nodata.real() == value)),
        };
        if let (true, Some(beside)) = (hit, beside) { beside } else { value }
    }

    /// Two by two pixels that all count.
    fn quarter(&self, top: &[T::Raw], bottom: &[T::Raw], out: &mut [T::Raw]) -> bool {
        let exact = T::FLOAT || T::WORK == Work::Own || self.validity.nodata.is_none();
        if self.square || !exact || !T::quarter(top, bottom, out, self.plain()) {
            return false;
        }
        if let (Some(nodata), Some(beside)) = (self.validity.nodata, self.validity.beside) {
            for out in out.iter_mut() {
                *out = if T::get(*out) == nodata { beside.raw() } else { *out };
            }
        }
        true
    }

    /// Two by two pixels of which some count.
    fn quarter_some(&self, rows: [&[T::Raw]; 2], counts: &[Vec<u8>; 2], mask: Option<&[u8]>, out: &mut [T::Raw]) {
        let [(top, _), (bottom, _)] = rows.map(|row| row.as_chunks::<2>());
        let [(on_top, _), (on_bottom, _)] = [counts[0].as_chunks::<2>(), counts[1].as_chunks::<2>()];
        let line = |values: &[T::Raw; 2], on: &[u8; 2]| {
            let term = |i: usize| if on[i] != 0 { self.term(values[i]) } else { 0.0 };
            (term(0) + term(1), on[0] + on[1])
        };
        let fours = top.iter().zip(bottom).zip(on_top.iter().zip(on_bottom));
        for (x, (out, ((top, bottom), (on_top, on_bottom)))) in out.iter_mut().zip(fours).enumerate() {
            let ((a, m), (b, n)) = (line(top, on_top), line(bottom, on_bottom));
            let value = match m + n {
                0 => self.validity.fill(mask, x),
                count => self.result((a + b) / f64::from(count)),
            };
            *out = value.raw();
        }
    }

    /// Adds a row above of which all pixels count, each multiplied with its part.
    fn add_all(&self, row: &[T::Raw], weight: f64, sums: &mut Sums) {
        let sums = sums.total.iter_mut().zip(&sums.part);
        if let Some(trios) = &self.trios {
            for ((total, part), trio) in sums.zip(trios) {
                let Some(values) = trio.of(row) else { continue };
                let term = |i: usize| {
                    let (term, weight) = (self.term(values[i]) * part, trio.weights[i]);
                    // An infinity must not meet a weight of 0.
                    if T::FLOAT && weight == 0.0 { 0.0 } else { term * weight }
                };
                *total += (term(0) + term(1) + term(2)) * weight;
            }
            return;
        }
        for ((total, part), span) in sums.zip(&self.columns) {
            let line = match &row[span.range()] {
                [] => 0.0,
                [only] => self.term(*only) * part * span.first,
                [first, middle @ .., last] => {
                    let first = self.term(*first) * part * span.first;
                    let sum = middle.iter().fold(first, |sum, &v| sum + self.term(v) * part);
                    sum + self.term(*last) * part * span.last
                }
            };
            *total += line * weight;
        }
    }

    /// Adds those pixels of a row above that count.
    fn add(&self, row: &[T::Raw], weight: f64, sums: &mut Sums) {
        let counts = &sums.counts[0];
        let sums = sums.total.iter_mut().zip(&mut sums.weight);
        if let Some(trios) = &self.trios {
            for ((total, whole), trio) in sums.zip(trios) {
                let (Some(values), Some(counts)) = (trio.of(row), trio.of(counts)) else { continue };
                let term = |i: usize| {
                    let weight = if counts[i] != 0 { trio.weights[i] } else { 0.0 };
                    (if weight != 0.0 { self.term(values[i]) * weight } else { 0.0 }, weight)
                };
                let [a, b, c] = [term(0), term(1), term(2)];
                *total += (a.0 + b.0 + c.0) * weight;
                *whole += (a.1 + b.1 + c.1) * weight;
            }
            return;
        }
        for ((total, whole), span) in sums.zip(&self.columns) {
            let (mut line, mut line_weight) = (0.0, 0.0);
            for x in span.range() {
                if counts[x] != 0 {
                    let weight = span.weight(x);
                    line += self.term(row[x]) * weight;
                    line_weight += weight;
                }
            }
            *total += line * weight;
            *whole += line_weight * weight;
        }
    }

    fn row(&self, above: &Above<'_>, band: usize, y: usize, mask: Option<&[u8]>, sums: &mut Sums, out: &mut [u8]) {
        let span = &self.rows[y];
        let out = T::raws_mut(out);
        let row = |y| T::raws(above.row(band, y));
        let all = self.validity.always() || span.range().all(|y| self.validity.all(row(y), above.mask_row(y)));
        if all && self.pairs && span.is_pair() && self.quarter(row(span.start), row(span.start + 1), out) {
            return;
        }
        sums.total.fill(0.0);
        if all {
            let (height, count) = (span.whole(), span.range().len() as f64);
            // GDAL makes floats smaller before it adds them, which decides some halves of integers.
            let times = |span: &Span| match T::WORK == Work::Own || !self.plain() || self.square {
                true => 1.0,
                false => count * span.range().len() as f64,
            };
            sums.part.iter_mut().zip(&self.columns).for_each(|(part, span)| *part = 1.0 / times(span));
            for y in span.range() {
                self.add_all(row(y), span.weight(y), sums);
            }
            for ((out, total), span) in out.iter_mut().zip(&sums.total).zip(&self.columns) {
                *out = self.result(times(span) * (total / (span.whole() * height))).raw();
            }
            return;
        }
        let mark = |y, counts: &mut [u8]| self.validity.mark(row(y), above.mask_row(y), counts);
        if self.pairs && span.is_pair() {
            let rows = [span.start, span.start + 1];
            rows.iter().zip(&mut sums.counts).for_each(|(&y, counts)| mark(y, counts));
            return self.quarter_some(rows.map(row), &sums.counts, mask, out);
        }
        sums.weight.fill(0.0);
        for y in span.range() {
            mark(y, &mut sums.counts[0]);
            self.add(row(y), span.weight(y), sums);
        }
        for (x, ((out, total), &weight)) in out.iter_mut().zip(&sums.total).zip(&sums.weight).enumerate() {
            let value = if weight > 0.0 { self.result(total / weight) } else { self.validity.fill(mask, x) };
            *out = value.raw();
        }
    }
}

impl<T: Sample> Kernel for Mean<T> {
    fn needs(&self, y: usize) -> Range<usize> {
        self.rows[y].range()
    }

    fn mask(&self, above: &Above<'_>, y: usize, out: &mut [u8]) {
        any_in(above, self.needs(y), self.columns.iter().map(Span::range), out);
    }

    fn rows(&self, above: &Above<'_>, band: usize, ys: Range<usize>, mask: Option<&[u8]>, out: &mut [u8]) {
        let width = self.columns.len();
        let (zeros, counts) = (vec![0.0; width], vec![0; above.fresh.width()]);
        let mut sums =
            Sums { total: zeros.clone(), weight: zeros.clone(), part: zeros, counts: [counts.clone(), counts] };
        for (i, (y, out)) in ys.zip(out.chunks_exact_mut(width * size_of::<T>())).enumerate() {
            self.row(above, band, y, mask_part(mask, i, width), &mut sums, out);
        }
    }
}
