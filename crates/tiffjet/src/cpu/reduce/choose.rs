//! One value of those that a pixel touches: the most frequent, the smallest, the largest.

use std::collections::HashMap;
use std::ops::Range;

use super::sample::Sample;
use super::{Above, Kernel, Validity, any_in, mask_part};
use crate::plan::OverviewPlan;
use crate::plan::axis::{Span, spans};

/// Values that are compared one by one; more of them are counted in a table.
const FEW: usize = 32;

/// The most frequent value; of several the one that was first to be so often, row by row.
pub struct Mode<T> {
    columns: Vec<Span>,
    rows: Vec<Span>,
    validity: Validity<T>,
}

impl<T: Sample> Mode<T> {
    pub fn new(plan: &OverviewPlan) -> Self {
        let (columns, rows) = (spans(plan.from.0, plan.to.0), spans(plan.from.1, plan.to.1));
        Self { columns, rows, validity: Validity::new(plan) }
    }
}

/// The value that is first to be as often among `values` as the most frequent is in the end.
pub(super) fn mode<T: Sample>(values: &[T]) -> Option<T> {
    if values.len() > FEW {
        return mode_of_many(values);
    }
    let (mut best, mut most) = (None, 0);
    for (i, value) in values.iter().enumerate() {
        let count = values[..=i].iter().filter(|v| *v == value).count();
        if count > most {
            (best, most) = (Some(*value), count);
        }
    }
    best
}

fn mode_of_many<T: Sample>(values: &[T]) -> Option<T> {
    let mut counts = HashMap::new();
    let (mut best, mut most) = (None, 0);
    for &value in values {
        let count = counts.entry(value.key()).or_insert(0usize);
        *count += 1;
        if *count > most {
            (best, most) = (Some(value), *count);
        }
    }
    best
}

impl<T: Sample> Kernel for Mode<T> {
    fn needs(&self, y: usize) -> Range<usize> {
        self.rows[y].range()
    }

    fn mask(&self, above: &Above<'_>, y: usize, out: &mut [u8]) {
        let mut values = Vec::new();
        for (out, columns) in out.iter_mut().zip(&self.columns) {
            values.clear();
            for y in self.needs(y) {
                let row = above.mask_row(y).map_or(&[][..], |row| &row[columns.range()]);
                values.extend(row.iter().map(|&m| u8::from(m != 0)));
            }
            *out = mode(&values).unwrap_or(1);
        }
    }

    fn rows(&self, above: &Above<'_>, band: usize, ys: Range<usize>, mask: Option<&[u8]>, out: &mut [u8]) {
        let width = self.columns.len();
        let mut values = Vec::new();
        for (i, (y, out)) in ys.zip(T::raws_mut(out).chunks_exact_mut(width)).enumerate() {
            let mask = mask_part(mask, i, width);
            let rows: Vec<_> = self.needs(y).map(|y| (T::raws(above.row(band, y)), above.mask_row(y))).collect();
            for (x, (out, columns)) in out.iter_mut().zip(&self.columns).enumerate() {
                values.clear();
                for (row, valid) in &rows {
                    for x in columns.range() {
                        let value = T::get(row[x]);
                        if valid.is_none_or(|valid| valid[x] != 0) && self.validity.counts(value) {
                            values.push(value);
                        }
                    }
                }
                *out = mode(&values).unwrap_or_else(|| self.validity.fill(mask, x)).raw();
            }
        }
    }
}

/// The smallest or the largest value.
pub struct Extreme<T> {
    columns: Vec<Span>,
    rows: Vec<Span>,
    largest: bool,
    validity: Validity<T>,
}

impl<T: Sample> Extreme<T> {
    pub fn new(plan: &OverviewPlan, largest: bool) -> Self {
        let (columns, rows) = (spans(plan.from.0, plan.to.0), spans(plan.from.1, plan.to.1));
        Self { columns, rows, largest, validity: Validity::new(plan) }
    }

    fn better(&self, a: T, b: T) -> T {
        let takes = if self.largest { b > a } else { b < a };
        if takes { b } else { a }
    }
}

impl<T: Sample> Kernel for Extreme<T> {
    fn needs(&self, y: usize) -> Range<usize> {
        self.rows[y].range()
    }

    fn mask(&self, above: &Above<'_>, y: usize, out: &mut [u8]) {
        any_in(above, self.needs(y), self.columns.iter().map(Span::range), out);
    }

    fn rows(&self, above: &Above<'_>, band: usize, ys: Range<usize>, mask: Option<&[u8]>, out: &mut [u8]) {
        let (width, from) = (self.columns.len(), above.fresh.width());
        let worst = if self.largest { T::LOWEST } else { T::HIGHEST };
        let (mut best, mut any, mut counts) = (vec![worst; from], vec![0; from], vec![0; from]);
        for (i, (y, out)) in ys.zip(T::raws_mut(out).chunks_exact_mut(width)).enumerate() {
            let mask = mask_part(mask, i, width);
            best.fill(worst);
            any.fill(0);
            for y in self.needs(y) {
                let row = T::raws(above.row(band, y));
                self.validity.mark(row, above.mask_row(y), &mut counts);
                for (((best, any), &raw), &counts) in best.iter_mut().zip(&mut any).zip(row).zip(&counts) {
                    let value = if counts != 0 { T::get(raw) } else { worst };
                    *best = self.better(*best, value);
                    *any |= counts;
                }
            }
            for (x, (out, columns)) in out.iter_mut().zip(&self.columns).enumerate() {
                let found = any[columns.range()].contains(&1);
                let value = best[columns.range()].iter().fold(worst, |a, &b| self.better(a, b));
                *out = if found { value } else { self.validity.fill(mask, x) }.raw();
            }
        }
    }
}
