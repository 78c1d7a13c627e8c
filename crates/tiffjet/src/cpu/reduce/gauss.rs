//! A bell of whole numbers over three by three pixels, or more where a level is less than half the one above.

use std::ops::Range;

use super::sample::Sample;
use super::{Above, Kernel, Validity, any_in, mask_part};
use crate::plan::OverviewPlan;
use crate::plan::axis::{Taps, bells};

/// The bell along both axes.
pub struct Gauss<T> {
    columns: Vec<Taps>,
    rows: Vec<Taps>,
    validity: Validity<T>,
}

impl<T: Sample> Gauss<T> {
    pub fn new(plan: &OverviewPlan) -> Self {
        let factor = f64::from(plan.from.1) / f64::from(plan.to.1);
        let axis = |from, to| bells(from, to, factor);
        let (columns, rows) = (axis(plan.from.0, plan.to.0), axis(plan.from.1, plan.to.1));
        Self { columns, rows, validity: Validity::new(plan) }
    }
}

impl<T: Sample> Kernel for Gauss<T> {
    fn needs(&self, y: usize) -> Range<usize> {
        self.rows[y].range()
    }

    fn mask(&self, above: &Above<'_>, y: usize, out: &mut [u8]) {
        any_in(above, self.needs(y), self.columns.iter().map(Taps::range), out);
    }

    fn rows(&self, above: &Above<'_>, band: usize, ys: Range<usize>, mask: Option<&[u8]>, out: &mut [u8]) {
        let (width, from) = (self.columns.len(), above.fresh.width());
        // Sums down the columns, of values and of weights, and what counts of a row.
        let (mut totals, mut weights, mut counts) = (vec![0.0; from], vec![0.0; from], vec![0; from]);
        for (i, (y, out)) in ys.zip(T::raws_mut(out).chunks_exact_mut(width)).enumerate() {
            let mask = mask_part(mask, i, width);
            totals.fill(0.0);
            weights.fill(0.0);
            for (y, &weight) in self.needs(y).zip(&self.rows[y].weights) {
                let row = T::raws(above.row(band, y));
                self.validity.mark(row, above.mask_row(y), &mut counts);
                for (((total, whole), &raw), &counts) in totals.iter_mut().zip(&mut weights).zip(row).zip(&counts) {
                    let (value, weight) = if counts != 0 { (T::get(raw).real(), weight) } else { (0.0, 0.0) };
                    *total += value * weight;
                    *whole += weight;
                }
            }
            for (x, (out, taps)) in out.iter_mut().zip(&self.columns).enumerate() {
                let along =
                    |sums: &[f64]| -> f64 { sums[taps.range()].iter().zip(&taps.weights).map(|(v, w)| v * w).sum() };
                let weight = along(&weights);
                let value = match weight > 0.0 {
                    true => self.validity.clamp(T::from_double(along(&totals) / weight)),
                    false => self.validity.fill(mask, x),
                };
                *out = value.raw();
            }
        }
    }
}
