//! One pixel of those above.

use std::ops::Range;

use super::{Above, Kernel};
use crate::plan::OverviewPlan;
use crate::plan::axis::places;

/// Takes one pixel of those above.
pub struct Nearest {
    size: usize,
    /// Column above of each column.
    columns: Vec<usize>,
    /// Row above of each row.
    rows: Vec<usize>,
}

impl Nearest {
    pub fn new(plan: &OverviewPlan) -> Self {
        let ((width, height), to) = (plan.from, plan.to);
        Self { size: plan.dtype.size(), columns: places(width, to.0), rows: places(height, to.1) }
    }
}

/// Values of `size` bytes at some columns of a row.
fn pick(row: &[u8], columns: &[usize], size: usize, out: &mut [u8]) {
    fn fixed<const N: usize>(row: &[u8], columns: &[usize], out: &mut [u8]) {
        let (row, _) = row.as_chunks::<N>();
        for (out, &x) in out.as_chunks_mut::<N>().0.iter_mut().zip(columns) {
            *out = row[x];
        }
    }
    match size {
        1 => fixed::<1>(row, columns, out),
        2 => fixed::<2>(row, columns, out),
        4 => fixed::<4>(row, columns, out),
        8 => fixed::<8>(row, columns, out),
        _ => fixed::<16>(row, columns, out),
    }
}

impl Kernel for Nearest {
    fn needs(&self, y: usize) -> Range<usize> {
        self.rows[y]..self.rows[y] + 1
    }

    fn mask(&self, above: &Above<'_>, y: usize, out: &mut [u8]) {
        match above.mask_row(self.rows[y]) {
            Some(mask) => pick(mask, &self.columns, 1, out),
            None => out.fill(1),
        }
    }

    fn rows(&self, above: &Above<'_>, band: usize, ys: Range<usize>, _mask: Option<&[u8]>, out: &mut [u8]) {
        let row_bytes = self.columns.len() * self.size;
        for (y, out) in ys.zip(out.chunks_exact_mut(row_bytes)) {
            pick(above.row(band, self.rows[y]), &self.columns, self.size, out);
        }
    }
}
