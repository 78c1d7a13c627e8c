//! Overviews: each level from the rows of the one above, as they pass.
//!
//! A [`Kernel`] says which rows above a row needs and makes it from these alone, so results can't depend on how rows
//! are cut. What is needed again is kept; all else is read where the caller has it.

mod choose;
mod complex;
mod convolve;
mod gauss;
mod mean;
mod nearest;
mod sample;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use rayon::ThreadPool;
use rayon::prelude::*;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::plan::{OverviewPlan, Resampling};
use crate::rows::{RowsBuf, RowsView};
use sample::{Half, Sample};

/// Rows that one task makes.
const BLOCK: usize = 16;
/// Bytes made by a push below which sharing the work costs more than it brings.
const SMALL: usize = 128 << 10;

/// Makes the rows of a level from those of the level above, as they pass. It keeps only the rows it still needs.
pub trait Reducer: Send {
    /// Takes the next rows of the level above, any number of them, and appends the rows of this level that are
    /// complete to `out`. What it gives in all must not depend on how the rows were cut.
    fn push(&mut self, rows: &RowsView<'_>, out: &mut RowsBuf) -> Result<()>;

    /// There are no more rows above: appends what is left. In all it has given as many rows as the plan says.
    fn finish(&mut self, out: &mut RowsBuf) -> Result<()>;
}

/// The reducer of a plan, which shares its work among the threads of a pool.
pub(super) fn reducer(plan: &OverviewPlan, pool: Arc<ThreadPool>) -> Result<Box<dyn Reducer>> {
    let kernel = kernel(plan)?;
    let kept = RowsBuf::new(plan.bands, plan.from.0 as usize, plan.dtype, plan.mask);
    Ok(Box::new(Stream { kernel, pool, to: plan.to, kept, first: 0, next: 0 }))
}

/// The rows of the level above that some rows of a level are made from; `None` when there are no such rows.
pub(super) fn needs(plan: &OverviewPlan, ys: Range<usize>) -> Result<Option<Range<usize>>> {
    if ys.is_empty() || ys.end > plan.to.1 as usize {
        return Ok(None);
    }
    let kernel = kernel(plan)?;
    Ok(Some(kernel.needs(ys.start).start..kernel.needs(ys.end - 1).end))
}

/// Makes some rows of a level apart from the rest of it: `above` are rows of the level above from row `first` on, all that
/// they need among them. The same rows as those of a reducer that has seen all that came before.
pub(super) fn part(
    plan: &OverviewPlan,
    pool: Arc<ThreadPool>,
    above: &RowsView<'_>,
    first: usize,
    ys: Range<usize>,
) -> Result<RowsBuf> {
    let refuse = |what: String| Err(Error::invalid(&"overviews".into(), what));
    let Some(needed) = needs(plan, ys.clone())? else {
        return refuse(format!("rows {ys:?} of a level of {}", plan.to.1));
    };
    if first > needed.start || first.saturating_add(above.rows()) < needed.end {
        return refuse(format!("rows {ys:?} are made from rows {needed:?}, not from {} from {first} on", above.rows()));
    }
    let (bands, dtype, masked) = (above.bands(), above.dtype(), above.mask().is_some());
    if (bands, above.width(), dtype, masked) != (plan.bands, plan.from.0 as usize, plan.dtype, plan.mask) {
        return refuse("the rows above are of another image".into());
    }
    let kept = RowsBuf::new(plan.bands, plan.from.0 as usize, plan.dtype, plan.mask);
    let stream = Stream { kernel: kernel(plan)?, pool, to: plan.to, kept, first, next: ys.start };
    let mut out = RowsBuf::new(plan.bands, plan.to.0 as usize, plan.dtype, plan.mask);
    let seen = Above { first, kept: stream.kept.view(), fresh: *above };
    stream.make(&seen, ys, &mut out);
    Ok(out)
}

fn kernel(plan: &OverviewPlan) -> Result<Box<dyn Kernel>> {
    plan.check()?;
    if plan.resampling == Resampling::Nearest {
        return Ok(Box::new(nearest::Nearest::new(plan)));
    }
    Ok(match plan.dtype {
        DType::UInt8 => real::<u8>(plan),
        DType::Int8 => real::<i8>(plan),
        DType::UInt16 => real::<u16>(plan),
        DType::Int16 => real::<i16>(plan),
        DType::UInt32 => real::<u32>(plan),
        DType::Int32 => real::<i32>(plan),
        DType::UInt64 => real::<u64>(plan),
        DType::Int64 => real::<i64>(plan),
        DType::Float16 => real::<Half>(plan),
        DType::Float32 => real::<f32>(plan),
        DType::Float64 => real::<f64>(plan),
        DType::ComplexInt16 => Box::new(complex::Mean::<i16>::new(plan)),
        DType::ComplexInt32 => Box::new(complex::Mean::<i32>::new(plan)),
        DType::Complex64 => Box::new(complex::Mean::<f32>::new(plan)),
        DType::Complex128 => Box::new(complex::Mean::<f64>::new(plan)),
    })
}

/// The kernel for real numbers.
fn real<T: Sample>(plan: &OverviewPlan) -> Box<dyn Kernel> {
    match plan.resampling {
        Resampling::Nearest => Box::new(nearest::Nearest::new(plan)),
        Resampling::Average => Box::new(mean::Mean::<T>::new(plan, false)),
        Resampling::Rms => Box::new(mean::Mean::<T>::new(plan, true)),
        Resampling::Mode => Box::new(choose::Mode::<T>::new(plan)),
        Resampling::Min => Box::new(choose::Extreme::<T>::new(plan, false)),
        Resampling::Max => Box::new(choose::Extreme::<T>::new(plan, true)),
        Resampling::Bilinear => Box::new(convolve::Convolve::<T>::new(plan, false)),
        Resampling::Cubic => Box::new(convolve::Convolve::<T>::new(plan, true)),
        Resampling::Gauss => Box::new(gauss::Gauss::<T>::new(plan)),
    }
}

/// Makes rows from rows above.
trait Kernel: Send + Sync {
    /// Rows above that row `y` is made from. Neither end goes back as `y` grows.
    fn needs(&self, y: usize) -> Range<usize>;

    /// Makes the mask of row `y`: 1 where there are data.
    fn mask(&self, above: &Above<'_>, y: usize, out: &mut [u8]);

    /// Makes some rows of a band. `mask` is theirs.
    fn rows(&self, above: &Above<'_>, band: usize, ys: Range<usize>, mask: Option<&[u8]>, out: &mut [u8]);
}

/// Rows above that are at hand.
struct Above<'a> {
    /// Index of the first kept row.
    first: usize,
    kept: RowsView<'a>,
    fresh: RowsView<'a>,
}

impl Above<'_> {
    fn end(&self) -> usize {
        self.first + self.kept.rows() + self.fresh.rows()
    }

    /// The rows that hold row `y`, and its place among them.
    fn place(&self, y: usize) -> (&RowsView<'_>, usize) {
        let y = y - self.first;
        match y.checked_sub(self.kept.rows()) {
            Some(y) => (&self.fresh, y),
            None => (&self.kept, y),
        }
    }

    fn row(&self, band: usize, y: usize) -> &[u8] {
        let (rows, y) = self.place(y);
        rows.row(band, y)
    }

    fn mask_row(&self, y: usize) -> Option<&[u8]> {
        let (rows, y) = self.place(y);
        rows.mask_row(y)
    }
}

/// Feeds a kernel with rows as they come.
struct Stream {
    kernel: Box<dyn Kernel>,
    pool: Arc<ThreadPool>,
    /// Columns and rows to be made.
    to: (u32, u32),
    /// Rows above that are needed again.
    kept: RowsBuf,
    /// Index of the first of them.
    first: usize,
    /// The next row to make.
    next: usize,
}

impl Reducer for Stream {
    fn push(&mut self, rows: &RowsView<'_>, out: &mut RowsBuf) -> Result<()> {
        let above = Above { first: self.first, kept: self.kept.view(), fresh: *rows };
        let height = self.to.1 as usize;
        let end = (self.next..height).find(|&y| self.kernel.needs(y).end > above.end()).unwrap_or(height);
        self.make(&above, self.next..end, out);
        let seen = above.end();
        self.next = end;
        let needed = if end < height { self.kernel.needs(end).start } else { seen };
        self.keep(needed, rows);
        Ok(())
    }

    fn finish(&mut self, _out: &mut RowsBuf) -> Result<()> {
        if self.next < self.to.1 as usize {
            let what = format!("an overview ended after {} of {} rows", self.next, self.to.1);
            return Err(Error::invalid(&"overviews".into(), what));
        }
        Ok(()) // windows end with the image, so no row waits for more
    }
}

impl Stream {
    /// Appends some rows.
    fn make(&self, above: &Above<'_>, ys: Range<usize>, out: &mut RowsBuf) {
        let (width, count) = (self.to.0 as usize, ys.len());
        if count == 0 {
            return;
        }
        let mut new = out.grow(count);
        let kernel = &*self.kernel;
        let mut mask = vec![1; new.mask.len()];
        if above.fresh.mask().is_some() {
            for (y, row) in ys.clone().zip(mask.chunks_exact_mut(width)) {
                kernel.mask(above, y, row);
            }
        }
        new.mask.copy_from_slice(&mask);
        let mask = (!mask.is_empty()).then_some(&mask[..]);
        for band in 0..above.fresh.bands() {
            let bytes = new.band(band);
            let row = bytes.len() / count;
            let block = |(i, out): (usize, &mut [u8])| {
                let rows = i * BLOCK..i * BLOCK + out.len() / row;
                let mask = mask.map(|mask| &mask[rows.start * width..rows.end * width]);
                kernel.rows(above, band, ys.start + rows.start..ys.start + rows.end, mask, out);
            };
            if bytes.len() < SMALL {
                bytes.chunks_mut(row * BLOCK).enumerate().for_each(block);
            } else {
                self.pool.install(|| bytes.par_chunks_mut(row * BLOCK).enumerate().for_each(block));
            }
        }
    }

    /// Lets go of rows above row `needed`, and keeps a copy of those of `rows` that are left.
    fn keep(&mut self, needed: usize, rows: &RowsView<'_>) {
        let fresh = self.first + self.kept.rows();
        let gone = needed.saturating_sub(self.first).min(self.kept.rows());
        self.kept.drop_front(gone);
        let skipped = needed.saturating_sub(fresh).min(rows.rows());
        self.first = if self.kept.rows() > 0 { self.first + gone } else { fresh + skipped };
        let left = rows.rows() - skipped;
        if left > 0 {
            self.kept.extend(&rows.part(skipped, left));
        }
    }
}

/// Which pixels count, and what stands where none does.
struct Validity<T> {
    nodata: Option<T>,
    masked: bool,
    /// Written where a result happens to be nodata.
    beside: Option<T>,
    /// The range of values that the file can hold.
    limits: (T, T),
}

impl<T: Sample> Validity<T> {
    fn new(plan: &OverviewPlan) -> Self {
        let nodata = plan.nodata.as_deref().and_then(|bytes| T::raws(bytes).first().map(|&raw| T::get(raw)));
        let limits = limits(plan.bits);
        Self { nodata, masked: plan.mask, beside: nodata.map(|nodata| nodata.beside(limits.1)), limits }
    }

    /// Every pixel counts, whatever it holds.
    fn always(&self) -> bool {
        self.nodata.is_none() && !self.masked && !T::FLOAT
    }

    fn counts(&self, value: T) -> bool {
        !value.is_nan() & !self.nodata.is_some_and(|nodata| value.is(nodata))
    }

    /// Whether all pixels of a row count.
    fn all(&self, row: &[T::Raw], mask: Option<&[u8]>) -> bool {
        // No short cut within a piece, so that it is done in vectors.
        let counts = |piece: &[T::Raw]| piece.iter().fold(true, |all, &raw| all & self.counts(T::get(raw)));
        mask.is_none_or(|mask| mask.iter().all(|&m| m != 0)) && (self.always() || row.chunks(1024).all(counts))
    }

    /// Sets 1 where a pixel of a row counts.
    fn mark(&self, row: &[T::Raw], mask: Option<&[u8]>, out: &mut [u8]) {
        match mask {
            Some(mask) => {
                for ((out, &raw), &mask) in out.iter_mut().zip(row).zip(mask) {
                    *out = u8::from(self.counts(T::get(raw)) & (mask != 0));
                }
            }
            None => {
                for (out, &raw) in out.iter_mut().zip(row) {
                    *out = u8::from(self.counts(T::get(raw)));
                }
            }
        }
    }

    /// What stands at column `x` where no pixel counts: nodata, or else NaN for what was NaN and 0 for what was masked.
    fn fill(&self, mask: Option<&[u8]>, x: usize) -> T {
        self.nodata.unwrap_or_else(|| match T::FLOAT && mask.is_none_or(|mask| mask[x] != 0) {
            true => T::from_double(f64::NAN),
            false => T::ZERO,
        })
    }

    fn clamp(&self, value: T) -> T {
        let (low, high) = self.limits;
        if value < low {
            low
        } else if value > high {
            high
        } else {
            value
        }
    }
}

/// The range of a sample of `bits` bits.
fn limits<T: Sample>(bits: u16) -> (T, T) {
    let whole = 8 * size_of::<T>() as u16;
    if T::FLOAT || bits >= whole || bits == 0 {
        return (T::LOWEST, T::HIGHEST);
    }
    // Fewer than 64 bits, of which `f64` holds those that files have: none lies between 53 and 63.
    let signed = T::LOWEST < T::ZERO;
    let high = 2f64.powi(i32::from(bits) - i32::from(signed));
    (T::from_double(if signed { -high } else { 0.0 }), T::from_double(high - 1.0))
}

/// One row of the part of a mask that some rows have.
fn mask_part(mask: Option<&[u8]>, row: usize, width: usize) -> Option<&[u8]> {
    mask.map(|mask| &mask[row * width..][..width])
}

/// 1 where a pixel of a window counts.
fn any_in(above: &Above<'_>, rows: Range<usize>, columns: impl Iterator<Item = Range<usize>>, out: &mut [u8]) {
    let mut any = Vec::new();
    for y in rows {
        let Some(mask) = above.mask_row(y) else { return out.fill(1) };
        any.resize(mask.len(), 0);
        any.iter_mut().zip(mask).for_each(|(any, mask)| *any |= mask);
    }
    for (out, columns) in out.iter_mut().zip(columns) {
        *out = u8::from(any[columns].iter().any(|&m| m != 0));
    }
}
