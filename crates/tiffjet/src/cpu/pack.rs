//! From pixels to the bytes a codec takes: bands, bit depth, predictor.

use std::cell::RefCell;

use crate::codec::Unit;
use crate::dtype::SampleKind;
use crate::layout::Predictor;
use crate::plan::LevelPlan;
use crate::predictor;
use crate::rows::RowsView;

/// How the tiles of a level are packed.
pub(super) struct Pack<'a> {
    plan: &'a LevelPlan,
    /// Bytes of a sample in memory.
    size: usize,
    samples: usize,
}

/// The pixels of one tile inside the image.
pub(super) struct Part<'a> {
    rows: &'a RowsView<'a>,
    first_band: usize,
    bands: usize,
    top: usize,
    left: usize,
    height: usize,
    width: usize,
}

impl<'a> Part<'a> {
    /// Row `y` of band `band` of the tile.
    fn row(&self, band: usize, y: usize) -> &'a [u8] {
        let size = self.rows.dtype().size();
        &self.rows.row(self.first_band + band, self.top + y)[self.left * size..(self.left + self.width) * size]
    }

    /// Every value has just these bytes.
    pub(super) fn is_all(&self, value: &[u8]) -> bool {
        let zero = value.iter().all(|&b| b == 0);
        (0..self.bands).all(|band| {
            (0..self.height).all(|y| {
                let row = self.row(band, y);
                if zero { row.iter().all(|&b| b == 0) } else { row.chunks_exact(value.len()).all(|v| v == value) }
            })
        })
    }
}

thread_local! {
    /// One row of samples.
    static LINE: RefCell<Vec<u8>> = RefCell::default();
}

impl<'a> Pack<'a> {
    pub(super) fn new(plan: &'a LevelPlan) -> Self {
        Self { plan, size: plan.format.dtype.size(), samples: usize::from(plan.format.samples) }
    }

    /// The pixels of a plane at (top, left) of some rows.
    pub(super) fn part<'r>(
        &self,
        rows: &'r RowsView<'r>,
        plane: u16,
        (top, left): (usize, usize),
        (height, width): (usize, usize),
    ) -> Part<'r> {
        Part { rows, first_band: usize::from(plane), bands: self.samples, top, left, height, width }
    }

    /// Packs a tile of `tile_rows` rows.
    pub(super) fn pack(&self, part: &Part<'_>, tile_rows: u32, out: &mut Vec<u8>) {
        let length = self.plan.plain_bytes(tile_rows) as usize;
        if self.is_copy() {
            return copy(part, self.plan.format.row_bytes(), length, out);
        }
        out.resize(length, 0);
        match self.plan.codec.unit() {
            Unit::Bytes => self.bytes(part, out),
            Unit::Samples => self.samples(part, out),
        }
    }

    /// Rows of the image are rows of the tile as they are.
    fn is_copy(&self) -> bool {
        let LevelPlan { codec, predictor, format, .. } = self.plan;
        let whole = usize::from(format.bits) == self.size * 8;
        codec.unit() == Unit::Bytes && *predictor == Predictor::None && self.samples == 1 && whole
    }

    /// Outside the image stand zeros: they cost next to nothing.
    fn bytes(&self, part: &Part<'_>, out: &mut [u8]) {
        let format = &self.plan.format;
        let row_bytes = format.row_bytes();
        let (inside, below) = out.split_at_mut(part.height * row_bytes);
        below.fill(0);
        let whole = usize::from(format.bits) == self.size * 8;
        for (y, row) in inside.chunks_exact_mut(row_bytes).enumerate() {
            match self.plan.predictor {
                _ if !whole => self.with_line(part, y, |line| {
                    let signed = format.kind == SampleKind::Signed;
                    pack_bits(line, self.size, u32::from(format.bits), signed, row);
                }),
                Predictor::None => self.line(part, y, row),
                Predictor::Horizontal => {
                    self.line(part, y, row);
                    predictor::apply_horizontal(row, self.samples, usize::from(format.bits / 8));
                }
                Predictor::Float if self.samples == 1 && part.width == format.width as usize => {
                    predictor::apply_float(part.row(0, y), row, 1, self.size);
                }
                Predictor::Float => {
                    self.with_line(part, y, |line| predictor::apply_float(line, row, self.samples, self.size));
                }
            }
        }
    }

    /// Pictures are carried on at the right and below: a hard edge would spoil the pixels beside it.
    fn samples(&self, part: &Part<'_>, out: &mut [u8]) {
        let row_bytes = self.plan.format.row_samples_bytes();
        let pixel = self.samples * self.size;
        let inside = part.width * pixel;
        for (y, row) in out.chunks_exact_mut(row_bytes).take(part.height).enumerate() {
            self.line(part, y, row);
            for x in (inside..row_bytes).step_by(pixel) {
                row.copy_within(inside - pixel..inside, x);
            }
        }
        for start in (part.height * row_bytes..out.len()).step_by(row_bytes) {
            out.copy_within(start - row_bytes..start, start);
        }
    }

    fn with_line(&self, part: &Part<'_>, y: usize, then: impl FnOnce(&[u8])) {
        LINE.with_borrow_mut(|line| {
            line.resize(self.plan.format.row_samples_bytes(), 0);
            self.line(part, y, line);
            then(line);
        });
    }

    /// One row of pixels, the samples of each together, with zeros behind the edge of the image.
    fn line(&self, part: &Part<'_>, y: usize, out: &mut [u8]) {
        let (inside, outside) = out.split_at_mut(part.width * self.samples * self.size);
        outside.fill(0);
        const FEW: usize = 8;
        match self.samples {
            1 => inside.copy_from_slice(part.row(0, y)),
            samples if samples <= FEW => {
                let bands: [&[u8]; FEW] = std::array::from_fn(|band| part.row(band.min(samples - 1), y));
                predictor::join(&bands[..samples], inside, self.size);
            }
            samples => {
                let bands: Vec<&[u8]> = (0..samples).map(|band| part.row(band, y)).collect();
                predictor::join(&bands, inside, self.size);
            }
        }
    }
}

/// One band as it is, into memory that nobody has to clear first.
fn copy(part: &Part<'_>, row_bytes: usize, length: usize, out: &mut Vec<u8>) {
    out.clear();
    out.reserve_exact(length);
    for y in 0..part.height {
        out.extend_from_slice(part.row(0, y));
        out.resize((y + 1) * row_bytes, 0);
    }
    out.resize(length, 0);
}

/// Samples of `size` bytes to some number of bits, the first in the high ones. Values that need more bits become the
/// nearest that fits.
fn pack_bits(line: &[u8], size: usize, bits: u32, signed: bool, out: &mut [u8]) {
    if bits == 1 && size == 1 {
        for (byte, pixels) in out.iter_mut().zip(line.chunks(8)) {
            *byte = pixels.iter().enumerate().fold(0, |byte, (i, &v)| byte | u8::from(v != 0) << (7 - i));
        }
        return;
    }
    let mask = u64::MAX >> (64 - bits);
    let (mut held, mut count) = (0u128, 0u32);
    let mut bytes = out.iter_mut();
    for value in line.chunks_exact(size) {
        let value = if signed { clamp_signed(value, bits) } else { unsigned(value).min(mask) };
        held = held << bits | u128::from(value & mask);
        count += bits;
        while count >= 8 {
            count -= 8;
            if let Some(byte) = bytes.next() {
                *byte = (held >> count) as u8;
            }
        }
    }
    if count > 0
        && let Some(byte) = bytes.next()
    {
        *byte = (held << (8 - count)) as u8;
    }
}

fn unsigned(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    if cfg!(target_endian = "big") {
        wide[8 - bytes.len()..].copy_from_slice(bytes);
    } else {
        wide[..bytes.len()].copy_from_slice(bytes);
    }
    u64::from_ne_bytes(wide)
}

fn clamp_signed(bytes: &[u8], bits: u32) -> u64 {
    let unused = 64 - 8 * bytes.len() as u32;
    let value = (unsigned(bytes) << unused) as i64 >> unused;
    let most = i64::MAX >> (64 - bits);
    value.clamp(-most - 1, most) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_packed_from_the_high_end() {
        let mut out = [0; 3];
        pack_bits(&[0xabcu16.to_ne_bytes(), 0xdefu16.to_ne_bytes()].concat(), 2, 12, false, &mut out);
        assert_eq!(out, [0xab, 0xcd, 0xef]);
        let mut out = [0; 2];
        pack_bits(&[1, 0, 1, 1, 0, 0, 0, 1, 200], 1, 1, false, &mut out);
        assert_eq!(out, [0b1011_0001, 0b1000_0000]);
        pack_bits(&[-4i8 as u8, 12, 0], 1, 5, true, &mut out);
        assert_eq!(out, [0b1110_0011, 0b0000_0000]);
    }

    #[test]
    fn values_that_do_not_fit_become_the_nearest() {
        let mut out = [0; 1];
        pack_bits(&[200, 9], 1, 4, false, &mut out);
        assert_eq!(out, [0xf9]);
        pack_bits(&[100, -100i8 as u8], 1, 4, true, &mut out);
        assert_eq!(out, [0x78]);
    }
}
