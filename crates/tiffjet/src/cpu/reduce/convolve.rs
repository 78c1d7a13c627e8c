//! Bilinear and cubic kernels, stretched to the size of a pixel.

use std::ops::Range;

use super::sample::{Sample, Work};
use super::{Above, Kernel, Validity, mask_part};
use crate::plan::OverviewPlan;
use crate::plan::axis::{Taps, cubics, triangles};

/// A kernel along both axes.
pub struct Convolve<T> {
    columns: Vec<Taps>,
    rows: Vec<Taps>,
    /// The kernel has weights below zero: half of its reach must be data, or too few of them could weigh too much.
    negative: bool,
    validity: Validity<T>,
}

/// The weighted mean of those values that count. `None` where there are too few.
fn blend(taps: &Taps, values: impl Iterator<Item = (f64, u8)> + Clone, negative: bool) -> Option<f64> {
    if negative {
        let (mut run, mut longest) = (0, 0);
        for (_, counts) in values.clone() {
            run = if counts != 0 { run + 1 } else { 0 };
            longest = run.max(longest);
        }
        if longest < taps.weights.len() / 2 {
            return None;
        }
    }
    let (mut sum, mut weights) = (0.0, 0.0);
    for ((value, counts), weight) in values.zip(&taps.weights) {
        if counts != 0 {
            sum += value * weight;
            weights += weight;
        }
    }
    (weights > 0.0).then(|| sum / weights)
}

impl<T: Sample> Convolve<T> {
    pub fn new(plan: &OverviewPlan, negative: bool) -> Self {
        let axis = if negative { cubics } else { triangles };
        let (columns, rows) = (axis(plan.from.0, plan.to.0), axis(plan.from.1, plan.to.1));
        Self { columns, rows, negative, validity: Validity::new(plan) }
    }

    fn result(&self, value: f64) -> T {
        let rounded = match T::WORK {
            Work::Own | Work::Single => T::from_single(value as f32),
            Work::Double => T::from_double(value),
        };
        let value = self.validity.clamp(rounded);
        match self.validity.beside {
            Some(beside) if self.validity.nodata == Some(value) => beside,
            _ => value,
        }
    }

    /// A row whose rows above hold data alone: down first, which is done in vectors.
    fn whole_row(&self, above: &Above<'_>, band: usize, y: usize, lines: &mut [f64], out: &mut [T::Raw]) {
        let taps = &self.rows[y];
        lines.fill(0.0);
        for (y, &weight) in taps.range().zip(&taps.weights) {
            for (line, &raw) in lines.iter_mut().zip(T::raws(above.row(band, y))) {
                *line += T::get(raw).real() * weight;
            }
        }
        for (out, taps) in out.iter_mut().zip(&self.columns) {
            let sum: f64 = lines[taps.range()].iter().zip(&taps.weights).map(|(v, w)| v * w).sum();
            *out = self.result(sum).raw();
        }
    }

    /// Blends each row above along itself: a value and whether it counts for each column.
    fn across(&self, row: impl Fn(usize) -> f64, counts: &[u8], out: &mut [(f64, u8)]) {
        for (out, taps) in out.iter_mut().zip(&self.columns) {
            let values = taps.range().map(|x| (row(x), counts[x]));
            *out = blend(taps, values, self.negative).map_or((0.0, 0), |value| (value, 1));
        }
    }

    /// Blends rows of [`Self::across`], the first of which is row `first` above, at one column.
    fn down(&self, y: usize, x: usize, first: usize, lines: &[(f64, u8)]) -> Option<f64> {
        let (taps, width) = (&self.rows[y], self.columns.len());
        blend(taps, taps.range().map(|y| lines[(y - first) * width + x]), self.negative)
    }
}

impl<T: Sample> Kernel for Convolve<T> {
    fn needs(&self, y: usize) -> Range<usize> {
        self.rows[y].range()
    }

    fn mask(&self, above: &Above<'_>, y: usize, out: &mut [u8]) {
        let (needs, width) = (self.needs(y), self.columns.len());
        let mut lines = vec![(0.0, 0); needs.len() * width];
        for (y, line) in needs.clone().zip(lines.chunks_exact_mut(width)) {
            match above.mask_row(y) {
                Some(mask) if mask.contains(&0) => self.across(|_| 1.0, mask, line),
                _ => line.fill((1.0, 1)),
            }
        }
        for (x, out) in out.iter_mut().enumerate() {
            *out = u8::from(self.down(y, x, needs.start, &lines).is_some());
        }
    }

    fn rows(&self, above: &Above<'_>, band: usize, ys: Range<usize>, mask: Option<&[u8]>, out: &mut [u8]) {
        let (width, from) = (self.columns.len(), above.fresh.width());
        let needs = self.needs(ys.start).start..self.needs(ys.end - 1).end;
        let row = |y| T::raws(above.row(band, y));
        let whole: Vec<bool> = needs.clone().map(|y| self.validity.all(row(y), above.mask_row(y))).collect();
        let mut sums = vec![0.0; from];
        // Rows above, blended along themselves: made once for all rows here, and only where some pixels do not count.
        let mut lines = Vec::new();
        for (i, (y, out)) in ys.zip(T::raws_mut(out).chunks_exact_mut(width)).enumerate() {
            if self.needs(y).all(|y| whole[y - needs.start]) {
                self.whole_row(above, band, y, &mut sums, out);
                continue;
            }
            if lines.is_empty() {
                lines.resize(needs.len() * width, (0.0, 0));
                let mut counts = vec![0; from];
                for (y, line) in needs.clone().zip(lines.chunks_exact_mut(width)) {
                    self.validity.mark(row(y), above.mask_row(y), &mut counts);
                    self.across(|x| T::get(row(y)[x]).real(), &counts, line);
                }
            }
            let mask = mask_part(mask, i, width);
            for (x, out) in out.iter_mut().enumerate() {
                let value = self.down(y, x, needs.start, &lines).map(|value| self.result(value));
                *out = value.unwrap_or_else(|| self.validity.fill(mask, x)).raw();
            }
        }
    }
}
