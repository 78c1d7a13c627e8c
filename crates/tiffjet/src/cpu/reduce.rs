//! Overviews: each level from the rows of the one above, as they pass.

use crate::backend::Reducer;
use crate::error::{Error, Result};
use crate::plan::{OverviewPlan, Resampling};
use crate::rows::{RowsBuf, RowsView};

/// The reducer of a plan.
pub(super) fn reducer(plan: &OverviewPlan) -> Result<Box<dyn Reducer>> {
    match plan.resampling {
        Resampling::Nearest => Ok(Box::new(Nearest::new(plan))),
        other => {
            let feature = format!("{} resampling", other.name());
            Err(Error::unsupported(&"overviews".into(), feature, "nearest is built"))
        }
    }
}

/// Takes one pixel of those above.
struct Nearest {
    plan: OverviewPlan,
    /// Column above of each column.
    columns: Vec<usize>,
    /// First row of the next push.
    above: u32,
    /// Next row to give.
    next: u32,
}

/// The pixel above that stands for pixel `at`, as GDAL chooses it.
fn nearest(at: u32, from: u32, to: u32) -> u32 {
    let ratio = f64::from(from) / f64::from(to);
    ((0.5 + f64::from(at) * ratio) as u32).min(from - 1)
}

impl Nearest {
    fn new(plan: &OverviewPlan) -> Self {
        let columns = (0..plan.to.0).map(|x| nearest(x, plan.from.0, plan.to.0) as usize).collect();
        Self { plan: plan.clone(), columns, above: 0, next: 0 }
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

impl Reducer for Nearest {
    fn push(&mut self, rows: &RowsView<'_>, out: &mut RowsBuf) -> Result<()> {
        let end = self.above + rows.rows() as u32;
        let (from, to) = (self.plan.from.1, self.plan.to.1);
        let size = self.plan.dtype.size();
        while self.next < to {
            let y = nearest(self.next, from, to);
            if y >= end {
                break;
            }
            let y = (y - self.above) as usize;
            let mut new = out.grow(1);
            for band in 0..rows.bands() {
                pick(rows.row(band, y), &self.columns, size, new.row(band, 0));
            }
            if let Some(mask) = new.mask_row(0) {
                match rows.mask_row(y) {
                    Some(above) => pick(above, &self.columns, 1, mask),
                    None => mask.fill(1),
                }
            }
            self.next += 1;
        }
        self.above = end;
        Ok(())
    }

    fn finish(&mut self, _out: &mut RowsBuf) -> Result<()> {
        Ok(()) // no row needs one below it
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    fn plan(from: (u32, u32), to: (u32, u32)) -> OverviewPlan {
        OverviewPlan {
            from,
            to,
            bands: 1,
            dtype: DType::UInt8,
            bits: 8,
            resampling: Resampling::Nearest,
            nodata: None,
            mask: false,
            palette: false,
        }
    }

    #[test]
    fn nearest_takes_the_same_pixels_however_the_rows_are_cut() {
        let pixels: Vec<u8> = (0..7 * 9).collect();
        let view = RowsView::new(&pixels, [1, 9, 7], DType::UInt8).unwrap();
        let mut results = Vec::new();
        for cut in [1, 2, 4, 9] {
            let mut reducer = reducer(&plan((7, 9), (4, 5))).unwrap();
            let mut out = RowsBuf::new(1, 4, DType::UInt8, false);
            for first in (0..9).step_by(cut) {
                reducer.push(&view.part(first, cut.min(9 - first)), &mut out).unwrap();
            }
            reducer.finish(&mut out).unwrap();
            results.push(out.view().band(0).to_vec());
        }
        let row = |y: u8| [y * 7, y * 7 + 2, y * 7 + 4, y * 7 + 5];
        assert_eq!(results[0], [row(0), row(2), row(4), row(5), row(7)].concat());
        assert!(results.iter().all(|r| *r == results[0]));
    }
}
