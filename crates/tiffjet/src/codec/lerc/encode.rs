//! Pixels to blob.

use super::Cause;
use super::bits::{HighBitsWriter, Stuffer};
use super::header::{Header, WRITTEN, seal};
use super::huffman;
use super::mask::Mask;
use super::value::{Value, push_number, shortest_offset};

/// Sides of blocks: the second pays where the first leaves fewer bits than this to a value.
const BLOCK: usize = 8;
const LARGE_BLOCK: usize = 16;
const FEW_BITS: usize = 2;
/// Values of the largest block.
const BLOCK_VALUES: usize = LARGE_BLOCK * LARGE_BLOCK;
/// The largest quantised value.
const MAX_QUANTUM: f64 = ((1 << 30) - 1) as f64;
/// Steps to the unit, at most, of floats that are to be kept exactly.
const FINEST_SCALE: f64 = 65536.0;

/// Where the values of a blob come from: pixels of `stride` samples, of which the blob holds `depth` from `first` on.
#[derive(Clone, Copy)]
pub(super) struct Samples<'a> {
    pub bytes: &'a [u8],
    pub width: usize,
    pub rows: usize,
    pub stride: usize,
    pub first: usize,
    pub depth: usize,
}

impl Samples<'_> {
    #[inline(always)]
    fn value<T: Value>(&self, pixel: usize, sample: usize) -> T {
        let at = (pixel * self.stride + self.first + sample) * T::SIZE;
        T::get(&self.bytes[at..at + T::SIZE])
    }

    /// One sample of `count` pixels in a row.
    #[inline(always)]
    fn values<T: Value>(&self, pixel: usize, count: usize, sample: usize) -> impl Iterator<Item = T> {
        let start = (pixel * self.stride + self.first + sample) * T::SIZE;
        let end = start + ((count - 1) * self.stride + 1) * T::SIZE;
        self.bytes[start..end].chunks(self.stride * T::SIZE).map(|cell| T::get(&cell[..T::SIZE]))
    }

    /// Whether some pixel has NaN in some of its samples and not in others: one mask cannot tell.
    pub(super) fn has_mixed_nan<T: Value>(&self) -> bool {
        T::FLOAT
            && self.depth > 1
            && self.bytes.chunks_exact(self.stride * T::SIZE).any(|pixel| {
                let nans = pixel.chunks_exact(T::SIZE).filter(|v| T::get(v).is_nan()).count();
                nans != 0 && nans != self.stride
            })
    }
}

/// Appends one blob; `error` is the largest one allowed.
pub(super) fn image<T: Value>(samples: &Samples<'_>, error: f64, out: &mut Vec<u8>) -> Result<(), Cause> {
    let start = out.len();
    let survey = Survey::<T>::new(samples);
    let step = survey.step(samples, error);
    let mut header = Header {
        version: WRITTEN,
        rows: samples.rows,
        width: samples.width,
        depth: samples.depth,
        valid: survey.valid,
        block: BLOCK,
        size: 0,
        code: T::CODE,
        error: step.error,
        min: survey.min(),
        max: survey.max(),
        stand_in: None,
    };
    let constant = survey.ranges.iter().all(|range| range.is_constant());
    let mut body = Vec::new();
    if survey.valid > 0 && !constant {
        let image = Image { samples, survey: &survey, step };
        header.block = image.body(&mut body);
    }
    if survey.valid > 0 && !constant && header.min == header.max {
        // Zeros of both signs: equal limits would make the reader fill in one of them.
        header.max = f64::from(f32::MIN_POSITIVE);
    }
    header.write(out);
    match &survey.mask {
        Some(mask) => {
            let at = out.len();
            0i32.push_le(out);
            mask.write(out);
            let size = (out.len() - at - 4) as i32;
            out[at..at + 4].copy_from_slice(&size.to_le_bytes());
        }
        None => 0i32.push_le(out),
    }
    if survey.valid > 0 && header.min != header.max {
        survey.ranges.iter().for_each(|range| range.min.push_le(out));
        survey.ranges.iter().for_each(|range| range.written_max().push_le(out));
    }
    out.extend_from_slice(&body);
    seal(out, start)
}

/// Limits of one sample.
#[derive(Clone, Copy)]
struct Range<T> {
    min: T,
    max: T,
    /// All values are the same bit by bit.
    same: bool,
}

impl<T: Value> Range<T> {
    fn new(first: T) -> Self {
        Self { min: first, max: first, same: true }
    }

    #[inline(always)]
    fn add(&mut self, v: T, first: T) {
        if v < self.min {
            self.min = v;
        }
        if v > self.max {
            self.max = v;
        }
        self.same &= v.same(first);
    }

    fn is_constant(&self) -> bool {
        self.same
    }

    /// The upper limit, apart from the lower one where the values are not all the same.
    fn written_max(&self) -> T {
        if self.min == self.max && !self.same { T::from_f64(f64::from(f32::MIN_POSITIVE)) } else { self.max }
    }
}

/// What must be known of the whole image before its first block is written.
struct Survey<T> {
    /// None where all pixels are valid, or none is.
    mask: Option<Mask>,
    valid: usize,
    /// One for each sample; empty where no pixel is valid.
    ranges: Vec<Range<T>>,
}

impl<T: Value> Survey<T> {
    fn new(samples: &Samples<'_>) -> Self {
        let pixels = samples.width * samples.rows;
        let shown = |k: usize| !T::FLOAT || !samples.value::<T>(k, 0).is_nan();
        let valid = (0..pixels).filter(|&k| shown(k)).count();
        let mask = (valid > 0 && valid < pixels).then(|| {
            let mut mask = Mask::hidden(pixels);
            (0..pixels).filter(|&k| shown(k)).for_each(|k| mask.show(k));
            mask
        });
        let first = (0..pixels).find(|&k| shown(k));
        let ranges = first.map_or(Vec::new(), |first| {
            let range = |sample| {
                let first = samples.value::<T>(first, sample);
                let mut range = Range::new(first);
                (0..pixels)
                    .filter(|&k| mask.as_ref().is_none_or(|mask| mask.get(k)))
                    .for_each(|k| range.add(samples.value::<T>(k, sample), first));
                range
            };
            (0..samples.depth).map(range).collect()
        });
        Self { mask, valid, ranges }
    }

    fn min(&self) -> f64 {
        self.ranges.iter().map(|range| range.min.to_f64()).reduce(f64::min).unwrap_or(0.0)
    }

    fn max(&self) -> f64 {
        self.ranges.iter().map(|range| range.max.to_f64()).reduce(f64::max).unwrap_or(0.0)
    }

    fn shown(&self, k: usize) -> bool {
        self.mask.as_ref().is_none_or(|mask| mask.get(k))
    }

    /// How values are quantised where the error asked for allows it.
    ///
    /// Readers round the sum of offset and steps to the type of the image; for floats that rounding is taken off the
    /// error, so that the one asked for is kept strictly. A coarser step that loses nothing is better than any.
    fn step(&self, samples: &Samples<'_>, asked: f64) -> Step {
        if !T::FLOAT {
            return Step { error: asked.floor().clamp(0.5, MAX_QUANTUM), limit: f64::INFINITY };
        }
        // Beyond the limit, rounding would take more than half: a mark such as -3.4e38 must not spoil its tile.
        let limit = asked / (2.0 * T::EPSILON);
        let largest = self.max().abs().max(self.min().abs());
        let largest = if largest <= limit { largest } else { self.largest_within(samples, limit) };
        let error = asked - largest * T::EPSILON;
        match self.exact_step(samples, 2.0 * error) {
            Some(step) => Step { error: step / 2.0, limit: MAX_QUANTUM },
            None => Step { error, limit },
        }
    }

    fn largest_within(&self, samples: &Samples<'_>, limit: f64) -> f64 {
        self.values(samples).map(|v| v.to_f64().abs()).filter(|v| *v <= limit).fold(0.0, f64::max)
    }

    /// The coarsest power of two, from 1 down to above `floor`, of which all values but huge ones are multiples.
    ///
    /// Heights in metres or quarters of them are such floats. Quantising by it loses nothing.
    fn exact_step(&self, samples: &Samples<'_>, floor: f64) -> Option<f64> {
        // The sums of offset and steps are exact, too; -0.0 is no multiple.
        let exact = |v: f64, scale: f64| f64::from((v * scale) as i32).to_bits() == (v * scale).to_bits();
        let mut scale = 1.0;
        for v in self.values(samples).map(T::to_f64) {
            while !exact(v, scale) && v.abs() <= MAX_QUANTUM {
                scale *= 2.0;
                if scale > FINEST_SCALE || scale * floor >= 1.0 {
                    return None;
                }
            }
        }
        Some(1.0 / scale)
    }

    /// All valid values, pixel after pixel.
    fn values(&self, samples: &Samples<'_>) -> impl Iterator<Item = T> {
        let pixels = (0..samples.width * samples.rows).filter(|&k| self.shown(k));
        pixels.flat_map(move |k| (0..samples.depth).map(move |sample| samples.value(k, sample)))
    }
}

/// How values are quantised.
#[derive(Clone, Copy)]
struct Step {
    /// Half the step; 0 for not at all.
    error: f64,
    /// Blocks with values beyond it are kept as they are.
    limit: f64,
}

/// An image being encoded.
struct Image<'a, T> {
    samples: &'a Samples<'a>,
    survey: &'a Survey<T>,
    step: Step,
}

impl<T: Value> Image<'_, T> {
    /// Writes the body in the shortest way and gives the side of its blocks.
    fn body(&self, out: &mut Vec<u8>) -> usize {
        let values = self.survey.valid * self.samples.depth;
        let mut block = BLOCK;
        out.push(0);
        let coded = T::SIZE == 1 && self.step.error == 0.5;
        if coded {
            out.push(0);
        }
        self.blocks(BLOCK, out);
        if out.len() * 8 < values * FEW_BITS {
            let mut large = out[..1 + usize::from(coded)].to_vec();
            self.blocks(LARGE_BLOCK, &mut large);
            if large.len() < out.len() {
                *out = large;
                block = LARGE_BLOCK;
            }
        }
        if coded {
            self.huffman(out);
        }
        if out.len() > values * T::SIZE {
            out.clear();
            out.push(1);
            self.survey.values(self.samples).for_each(|v| v.push_le(out));
        }
        block
    }

    fn blocks(&self, side: usize, out: &mut Vec<u8>) {
        let samples = self.samples;
        let mut writer = BlockWriter { step: self.step, stuffer: Stuffer::default(), quanta: [0; BLOCK_VALUES] };
        let mut values = [T::from_i64(0); BLOCK_VALUES];
        for row in (0..samples.rows).step_by(side) {
            for col in (0..samples.width).step_by(side) {
                for sample in 0..samples.depth {
                    let cols = side.min(samples.width - col);
                    let mut n = 0;
                    for r in row..(row + side).min(samples.rows) {
                        n += self.gather(r * samples.width + col, cols, sample, &mut values[n..]);
                    }
                    writer.write(col, &values[..n], out);
                }
            }
        }
    }

    /// Copies the valid values of one sample of `count` pixels; gives their number.
    #[inline]
    fn gather(&self, pixel: usize, count: usize, sample: usize, out: &mut [T]) -> usize {
        if self.survey.mask.is_none() {
            let values = self.samples.values(pixel, count, sample);
            out.iter_mut().zip(values).for_each(|(cell, v)| *cell = v);
            return count;
        }
        let shown = (pixel..pixel + count).filter(|&k| self.survey.shown(k));
        let mut n = 0;
        for (cell, k) in out.iter_mut().zip(shown) {
            *cell = self.samples.value(k, sample);
            n += 1;
        }
        n
    }

    /// Replaces the body by Huffman codes of values or of differences, if those are shorter.
    fn huffman(&self, out: &mut Vec<u8>) {
        let (mut plain, mut delta) = ([0u32; 256], [0u32; 256]);
        self.survey.values(self.samples).for_each(|v| plain[usize::from(symbol(v))] += 1);
        self.deltas(|symbol| delta[usize::from(symbol)] += 1);
        let (plain_code, delta_code) = (huffman::Encoder::new(&plain), huffman::Encoder::new(&delta));
        let (plain_size, delta_size) = (plain_code.size(&plain), delta_code.size(&delta));
        if plain_size.min(delta_size) + 2 >= out.len() {
            return;
        }
        out.clear();
        let mut bits = HighBitsWriter::default();
        if plain_size < delta_size {
            out.extend_from_slice(&[0, 2]);
            plain_code.write_table(out);
            self.survey.values(self.samples).for_each(|v| plain_code.push(symbol(v), &mut bits, out));
        } else {
            out.extend_from_slice(&[0, 1]);
            delta_code.write_table(out);
            self.deltas(|symbol| delta_code.push(symbol, &mut bits, out));
        }
        bits.finish(out);
        // Readers look one word ahead.
        out.extend_from_slice(&[0; 4]);
    }

    /// Differences from the value to the left, or above where that one is hidden; a sample at a time.
    fn deltas(&self, mut f: impl FnMut(u8)) {
        let (width, survey) = (self.samples.width, self.survey);
        for sample in 0..self.samples.depth {
            let value = |k| symbol(self.samples.value::<T>(k, sample));
            let mut last = symbol(T::from_i64(0));
            for k in (0..width * self.samples.rows).filter(|&k| survey.shown(k)) {
                let left = k % width > 0 && survey.shown(k - 1);
                if !left && k >= width && survey.shown(k - width) {
                    last = value(k - width);
                }
                let v = value(k);
                f(v.wrapping_sub(last).wrapping_add(symbol(T::from_i64(0))));
                last = v;
            }
        }
    }
}

/// The symbol of a byte: signed ones are shifted.
#[inline(always)]
fn symbol<T: Value>(v: T) -> u8 {
    let mut byte = [0];
    v.put(&mut byte);
    if T::CODE == i8::CODE { byte[0].wrapping_add(128) } else { byte[0] }
}

/// Writes blocks; keeps what they share.
struct BlockWriter {
    step: Step,
    stuffer: Stuffer,
    quanta: [u32; BLOCK_VALUES],
}

impl BlockWriter {
    /// Writes the valid values of one sample of the block that begins in column `col`.
    fn write<T: Value>(&mut self, col: usize, values: &[T], out: &mut Vec<u8>) {
        let flag = ((col >> 3) as u8 & 15) << 2;
        let Some(&first) = values.first() else {
            return out.push(flag | 2);
        };
        let mut range = Range::new(first);
        values.iter().for_each(|&v| range.add(v, first));
        let (min, max) = (range.min.to_f64(), range.max.to_f64());
        let within = min.abs() <= self.step.limit && max.abs() <= self.step.limit;
        let top = (max - min) / (2.0 * self.step.error);
        if range.same || (within && top + 0.5 < 1.0) {
            return write_constant::<T>(flag, min, out);
        }
        let plain = 1 + values.len() * T::SIZE;
        if within && top <= MAX_QUANTUM {
            let (reduction, kind) = shortest_offset(T::CODE, min);
            let before = out.len();
            out.push(flag | 1 | reduction << 6);
            push_number(kind, min, out);
            let max = self.quantise(values, min);
            let size = self.stuffer.plan(&self.quanta[..values.len()], max);
            if out.len() - before + size < plain {
                return self.stuffer.write(&self.quanta[..values.len()], out);
            }
            out.truncate(before);
        }
        out.push(flag);
        values.iter().for_each(|v| v.push_le(out));
    }

    /// Numbers of steps above the offset; gives the largest.
    fn quantise<T: Value>(&mut self, values: &[T], min: f64) -> u32 {
        let scale = 1.0 / (2.0 * self.step.error);
        let mut max = 0;
        for (q, v) in self.quanta.iter_mut().zip(values) {
            // Below 2^30, so that the signed conversion is exact, and quicker.
            *q = ((v.to_f64() - min) * scale + 0.5) as i32 as u32;
            max = max.max(*q);
        }
        max
    }
}

fn write_constant<T: Value>(flag: u8, v: f64, out: &mut Vec<u8>) {
    if v.to_bits() == 0 {
        return out.push(flag | 2);
    }
    let (reduction, kind) = shortest_offset(T::CODE, v);
    out.push(flag | 3 | reduction << 6);
    push_number(kind, v, out);
}
