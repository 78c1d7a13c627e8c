//! From planes of components to pixels and back: upsampling and the YCbCr transform, rounded as the reference
//! implementations round.

use super::transform::{Sample, clamp};
use super::vectors::Vectors;

/// Samples of one component.
pub(super) struct Plane<'a, S> {
    pub(super) samples: &'a [S],
    pub(super) stride: usize,
    /// Samples that stand for pixels; beyond is padding.
    pub(super) width: usize,
    pub(super) height: usize,
    /// Whether a triangle filter stretches it.
    pub(super) smooth: bool,
    /// How many pixels a sample stands for, across and down.
    pub(super) scale: (usize, usize),
}

impl<'a, S: Sample> Plane<'a, S> {
    #[inline(always)]
    fn row(&self, y: usize) -> &'a [S] {
        &self.samples[y * self.stride..][..self.width]
    }

    /// The samples for row `y` of the image, one a pixel: a row of the plane itself, or `buffer`, filled.
    #[inline(always)]
    pub(super) fn pixels<'b, V: Vectors>(&self, y: usize, sums: &mut Vec<u16>, buffer: &'b mut Vec<S>) -> &'b [S]
    where
        'a: 'b,
    {
        let down = y / self.scale.1;
        // The triangle filter leans on the sample row that is nearer to this pixel row.
        let near = if y.is_multiple_of(2) { down.saturating_sub(1) } else { (down + 1).min(self.height - 1) };
        match self.scale {
            (1, 1) => return self.row(y),
            (2, 1) if self.smooth && self.width > 2 => stretch_two(self.row(down), buffer),
            (2, 2) if self.smooth && self.width > 2 => {
                sums.resize(self.width, 0);
                for (sum, v) in sums.iter_mut().zip(weigh(self.row(down), self.row(near))) {
                    *sum = v as u16;
                }
                stretch_sums::<S, V>(sums, buffer);
            }
            (1, 2) if self.smooth => {
                let bias = if y.is_multiple_of(2) { 1 } else { 2 };
                buffer.clear();
                buffer.extend(weigh(self.row(down), self.row(near)).map(|v| S::from_i32((v + bias) >> 2)));
            }
            (across, _) => {
                buffer.clear();
                for &v in self.row(down) {
                    buffer.extend(std::iter::repeat_n(v, across));
                }
            }
        }
        buffer
    }
}

/// Three parts of one row, one of the other.
#[inline(always)]
fn weigh<'r, S: Sample>(this: &'r [S], near: &'r [S]) -> impl Iterator<Item = i32> + 'r {
    this.iter().zip(near).map(|(&a, &b)| a.into() * 3 + b.into())
}

/// Twice as wide: three parts of the sample, one of its neighbour.
#[inline(always)]
fn stretch_two<S: Sample>(row: &[S], out: &mut Vec<S>) {
    let n = row.len();
    out.resize(n * 2, S::default());
    out[0] = row[0];
    for (pair, out) in row.windows(2).zip(out[1..].chunks_exact_mut(2)) {
        let (a, b): (i32, i32) = (pair[0].into(), pair[1].into());
        out[0] = S::from_i32((3 * a + b + 2) >> 2);
        out[1] = S::from_i32((3 * b + a + 1) >> 2);
    }
    out[n * 2 - 1] = row[n - 1];
}

/// Twice as wide, from rows that were weighed already.
#[inline(always)]
fn stretch_sums<S: Sample, V: Vectors>(sums: &[u16], out: &mut Vec<S>) {
    let n = sums.len();
    out.resize(n * 2, S::default());
    out[0] = S::from_i32((sums[0] as i32 * 4 + 8) >> 4);
    let done = S::stretch_sums::<V>(sums, out);
    for (pair, out) in sums[done..].windows(2).zip(out[1 + done * 2..].chunks_exact_mut(2)) {
        let (a, b) = (pair[0] as u32, pair[1] as u32);
        out[0] = S::from_i32(((3 * a + b + 7) >> 4) as i32);
        out[1] = S::from_i32(((3 * b + a + 8) >> 4) as i32);
    }
    out[n * 2 - 1] = S::from_i32((sums[n - 1] as i32 * 4 + 7) >> 4);
}

/// One row of YCbCr to RGB.
#[inline(always)]
pub(super) fn to_rgb<S: Sample, V: Vectors>(y: &[S], cb: &[S], cr: &[S], out: &mut [S]) {
    const HALF: i32 = 1 << 15;
    let centre = 1 << (S::BITS - 1);
    let done = S::to_rgb::<V>(y, cb, cr, out);
    let rest = out[done * 3..].chunks_exact_mut(3).zip(&y[done..]).zip(&cb[done..]).zip(&cr[done..]);
    for (((rgb, &y), &cb), &cr) in rest {
        let (y, cb, cr): (i32, i32, i32) = (y.into(), cb.into() - centre, cr.into() - centre);
        rgb[0] = clamp(y + ((91881 * cr + HALF) >> 16));
        rgb[1] = clamp(y + ((-22554 * cb - 46802 * cr + HALF) >> 16));
        rgb[2] = clamp(y + ((116130 * cb + HALF) >> 16));
    }
}

/// One row of components to pixels.
#[inline(always)]
pub(super) fn interleave<S: Sample>(components: &[&[S]], out: &mut [S]) {
    match components {
        [a] => out.copy_from_slice(&a[..out.len()]),
        [a, b, c] => {
            for (((out, a), b), c) in out.chunks_exact_mut(3).zip(*a).zip(*b).zip(*c) {
                out.copy_from_slice(&[*a, *b, *c]);
            }
        }
        [a, b, c, d] => {
            for ((((out, a), b), c), d) in out.chunks_exact_mut(4).zip(*a).zip(*b).zip(*c).zip(*d) {
                out.copy_from_slice(&[*a, *b, *c, *d]);
            }
        }
        all => {
            for (i, row) in all.iter().enumerate() {
                for (out, v) in out.iter_mut().skip(i).step_by(all.len()).zip(*row) {
                    *out = *v;
                }
            }
        }
    }
}

/// A pixel of RGB to YCbCr.
#[inline(always)]
pub(super) fn to_ycbcr(r: u8, g: u8, b: u8) -> [u8; 3] {
    const HALF: i32 = 1 << 15;
    const CENTRE: i32 = (128 << 16) + HALF - 1;
    let (r, g, b) = (r as i32, g as i32, b as i32);
    [
        ((19595 * r + 38470 * g + 7471 * b + HALF) >> 16) as u8,
        ((-11059 * r - 21709 * g + 32768 * b + CENTRE) >> 16) as u8,
        ((32768 * r - 27439 * g - 5329 * b + CENTRE) >> 16) as u8,
    ]
}
