//! Means of complex numbers: both halves on their own, over blocks that share no pixel, as GDAL takes them.

use std::ops::Range;

use super::sample::Sample;
use super::{Above, Kernel, any_in, mask_part};
use crate::plan::OverviewPlan;
use crate::plan::axis::{Span, blocks};

/// Average of pairs of `T`.
pub struct Mean<T> {
    columns: Vec<Span>,
    rows: Vec<Span>,
    nodata: Option<[T; 2]>,
}

impl<T: Sample> Mean<T> {
    pub fn new(plan: &OverviewPlan) -> Self {
        let nodata = plan.nodata.as_deref().and_then(|bytes| match T::raws(bytes) {
            &[re, im] => Some([T::get(re), T::get(im)]),
            _ => None,
        });
        Self { columns: blocks(plan.from.0, plan.to.0), rows: blocks(plan.from.1, plan.to.1), nodata }
    }

    fn counts(&self, value: [T; 2]) -> bool {
        self.nodata != Some(value) && !value[0].is_nan() && !value[1].is_nan()
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
        let (out, _) = T::raws_mut(out).as_chunks_mut::<2>();
        for (i, (y, out)) in ys.zip(out.chunks_exact_mut(width)).enumerate() {
            let mask = mask_part(mask, i, width);
            for (x, (out, columns)) in out.iter_mut().zip(&self.columns).enumerate() {
                let (mut sums, mut count) = ([0.0; 2], 0u64);
                for y in self.needs(y) {
                    let (row, _) = T::raws(above.row(band, y)).as_chunks::<2>();
                    let valid = above.mask_row(y);
                    for x in columns.range() {
                        let value = row[x].map(T::get);
                        if valid.is_none_or(|valid| valid[x] != 0) && self.counts(value) {
                            sums = [sums[0] + value[0].real(), sums[1] + value[1].real()];
                            count += 1;
                        }
                    }
                }
                let mean = match self.nodata {
                    _ if count > 0 => sums.map(|sum| T::from_double(sum / count as f64)),
                    Some(nodata) => nodata,
                    None if T::FLOAT && mask.is_none_or(|mask| mask[x] != 0) => [T::from_double(f64::NAN); 2],
                    None => [T::ZERO; 2],
                };
                *out = mean.map(T::raw);
            }
        }
    }
}
