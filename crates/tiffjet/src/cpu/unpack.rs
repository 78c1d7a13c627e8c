//! From the bytes a codec gives to pixels in their place: byte order, predictor, bit depth, bands.

use std::cell::RefCell;
use std::ops::Range;

use super::stream::{Copy, Rows};
use crate::codec::Unit;
use crate::dtype::{ByteOrder, DType, SampleKind, turn_round};
use crate::layout::Predictor;
use crate::plan::{ReadPlan, TileRead};
use crate::predictor;

/// How the rows of a level are unpacked, decided once for a plan.
pub(super) struct Unpack {
    depth: Depth,
    /// Bytes of a unit that must be turned round, 0 for none.
    swap: usize,
    predictor: Predictor,
    /// Samples of a pixel in a tile.
    samples: usize,
    dtype: DType,
    /// Bytes of a unit of the horizontal predictor.
    word: usize,
    planar: bool,
    /// Output band and band of the file.
    bands: Vec<(usize, usize)>,
    /// The output bands are the bands of the file, in order.
    all: bool,
    copy: Copy,
}

/// How samples stand in a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// As they are in memory.
    Whole,
    /// Some number of bits, the first in the high ones.
    Bits { bits: u32, signed: bool },
    /// Floating point of 24 bits in this order.
    Float24(ByteOrder),
}

thread_local! {
    /// One row of samples.
    static ROW: RefCell<(Vec<u8>, Vec<u8>)> = RefCell::default();
    /// A row that must be changed while the tile it stands in must not.
    static CHANGED: RefCell<Vec<u8>> = RefCell::default();
    /// The bands of one row.
    static PARTED: RefCell<Vec<u8>> = RefCell::default();
}

/// Lets go of this thread's buffers where they have become huge.
pub(super) fn shed() {
    ROW.with_borrow_mut(|(row, wide)| super::shed([row, wide]));
    CHANGED.with_borrow_mut(|changed| super::shed([changed]));
    PARTED.with_borrow_mut(|parted| super::shed([parted]));
}

impl Unpack {
    /// For a plan, as part of a result of so many bytes.
    pub(super) fn new(plan: &ReadPlan, whole: usize) -> Self {
        let layout = &plan.layout;
        let format = &layout.format;
        let dtype = layout.dtype();
        let depth = match (format.kind, format.bits) {
            _ if layout.codec.unit() == Unit::Samples => Depth::Whole,
            (SampleKind::Float, 24) => Depth::Float24(format.order),
            (_, bits) if usize::from(bits) == dtype.size() * 8 => Depth::Whole,
            (kind, bits) => Depth::Bits { bits: u32::from(bits), signed: kind == SampleKind::Signed },
        };
        let bands: Vec<(usize, usize)> = plan.bands.iter().map(|&b| usize::from(b)).enumerate().collect();
        Self {
            depth,
            swap: layout.swapped_word(),
            predictor: layout.predictor,
            samples: usize::from(format.samples),
            dtype,
            word: usize::from(format.bits / 8),
            planar: layout.planar,
            all: bands.len() == usize::from(layout.bands) && bands.iter().all(|(out, band)| out == band),
            bands,
            copy: Copy::for_output(whole),
        }
    }

    /// To be called when all rows of a tile are in their place.
    pub(super) fn settle(&self) {
        self.copy.settle();
    }

    /// Copies rows of pixels to their places.
    pub(super) fn copy_rows<'c>(&self, from: Rows<'_>, place: impl FnMut(usize) -> &'c mut [u8]) {
        self.copy.rows(from, place);
    }

    /// Output bands of a tile, each with its place in the tile's pixels.
    pub(super) fn bands(&self, tile: &TileRead) -> impl Iterator<Item = (usize, usize)> + '_ {
        let plane = usize::from(tile.plane);
        let planar = self.planar;
        self.bands
            .iter()
            .filter(move |(_, band)| !planar || *band == plane)
            .map(move |&(out, band)| (out, if planar { 0 } else { band }))
    }

    /// The one output band of a tile that holds one band.
    pub(super) fn only_band(&self, tile: &TileRead) -> Option<usize> {
        let mut bands = self.bands(tile);
        match (self.samples, bands.next(), bands.next()) {
            (1, Some((out, _)), None) => Some(out),
            _ => None,
        }
    }

    /// Bytes of the file are pixels but for their byte order.
    pub(super) fn is_plain(&self) -> bool {
        self.depth == Depth::Whole && self.predictor == Predictor::None
    }

    /// Rows can be unpacked where they stand, and that is the best place: what is large and predicted is rather decoded
    /// in a cache and goes past it once.
    pub(super) fn is_in_place(&self) -> bool {
        self.depth == Depth::Whole && (self.predictor == Predictor::None || !self.copy.is_past())
    }

    /// Whether the byte order must be turned round.
    pub(super) fn swaps(&self) -> bool {
        self.swap > 0
    }

    /// Turns the byte order round.
    pub(super) fn swap(&self, row: &mut [u8]) {
        turn_round(row, self.swap);
    }

    /// Unpacks rows of a tile where they stand: one band, whole samples.
    pub(super) fn in_place(&self, block: &mut [u8], row_bytes: usize) {
        for row in block.chunks_exact_mut(row_bytes) {
            self.swap(row);
            match self.predictor {
                Predictor::None => {}
                Predictor::Horizontal => predictor::undo_horizontal(row, 1, self.word),
                Predictor::Float => ROW.with_borrow_mut(|(planes, _)| {
                    planes.clear();
                    planes.extend_from_slice(row);
                    predictor::undo_float(planes, row, 1, self.word);
                }),
            }
        }
    }

    /// Unpacks one row of a tile and hands its pixels to the rows of the output bands. The row stays as it is.
    pub(super) fn row<'c>(&self, row: &[u8], tile: &TileRead, place: impl Fn(usize) -> &'c mut [u8]) {
        if !self.changes(row, tile) {
            return self.prepared(row, tile, place);
        }
        CHANGED.with_borrow_mut(|changed| {
            changed.clear();
            changed.extend_from_slice(row);
            self.used_row(changed, tile, place);
        });
    }

    /// [`Self::row`] of a row that is not needed any more.
    pub(super) fn used_row<'c>(&self, row: &mut [u8], tile: &TileRead, place: impl Fn(usize) -> &'c mut [u8]) {
        if self.changes(row, tile) {
            self.swap(row);
            match self.predictor {
                Predictor::Horizontal if !self.sums_apart(row, tile) => {
                    predictor::undo_horizontal(row, self.samples, self.word);
                }
                Predictor::Float if self.samples > 1 => predictor::undo_horizontal(row, self.samples, 1),
                _ => {}
            }
        }
        self.prepared(row, tile, place);
    }

    /// Whether a row must be changed where it stands before its pixels can be handed out.
    fn changes(&self, row: &[u8], tile: &TileRead) -> bool {
        let predicted = match self.predictor {
            Predictor::None => false,
            Predictor::Horizontal => !self.sums_apart(row, tile),
            Predictor::Float => self.samples > 1,
        };
        predicted || self.swap > 1
    }

    /// Whether the horizontal predictor is undone while bands are told apart: that needs all of them, and whole rows.
    fn sums_apart(&self, row: &[u8], tile: &TileRead) -> bool {
        let complete = if self.samples == 1 { self.only_band(tile).is_some() } else { self.all };
        complete && self.is_whole(row, tile)
    }

    /// All samples of a row are wanted, and they stand in it as they do in memory.
    fn is_whole(&self, row: &[u8], tile: &TileRead) -> bool {
        let bytes = tile.part.width as usize * self.samples * self.dtype.size();
        self.depth == Depth::Whole && tile.part.x == 0 && row.len() == bytes
    }

    /// Hands out the pixels of a row that is as `changes` wants it.
    fn prepared<'c>(&self, row: &[u8], tile: &TileRead, place: impl Fn(usize) -> &'c mut [u8]) {
        match (self.predictor, self.depth) {
            (Predictor::Float, depth) => self.floats(row, tile, place, depth),
            (predictor, Depth::Whole) => {
                let sums = predictor == Predictor::Horizontal && self.sums_apart(row, tile);
                self.distribute(self.wanted(row, tile, self.dtype.size()), tile, place, sums);
            }
            (_, Depth::Bits { bits, signed }) => ROW.with_borrow_mut(|(_, wide)| {
                let (first, count) = self.samples_of(tile);
                expand_bits(row, first..first + count, bits, signed, self.dtype.size(), wide);
                self.distribute(wide, tile, place, false);
            }),
            (_, Depth::Float24(order)) => ROW.with_borrow_mut(|(_, wide)| {
                widen_float24(self.wanted(row, tile, FLOAT24), order, wide);
                self.distribute(wide, tile, place, false);
            }),
        }
    }

    /// Floats whose bytes stand in planes, as differences where a pixel is one sample.
    fn floats<'c>(&self, row: &[u8], tile: &TileRead, place: impl Fn(usize) -> &'c mut [u8], depth: Depth) {
        if self.is_whole(row, tile)
            && let Some(band) = self.only_band(tile)
            && let out = place(band)
            && self.copy.suits(out)
        {
            return predictor::undo_float_single(row, out, self.word, self.copy.is_past());
        }
        ROW.with_borrow_mut(|(floats, wide)| {
            floats.resize(row.len(), 0);
            match self.samples {
                1 => predictor::undo_float_single(row, floats, self.word, false),
                _ => predictor::zip_floats(row, floats, self.word),
            }
            match depth {
                Depth::Float24(_) => {
                    widen_float24(self.wanted(floats, tile, FLOAT24), ByteOrder::NATIVE, wide);
                    self.distribute(wide, tile, place, false);
                }
                _ => self.distribute(self.wanted(floats, tile, self.dtype.size()), tile, place, false),
            }
        });
    }

    /// The first sample of the wanted part of a row, and how many there are.
    fn samples_of(&self, tile: &TileRead) -> (usize, usize) {
        (tile.part.x as usize * self.samples, tile.part.width as usize * self.samples)
    }

    /// The wanted part of a row of samples of `size` bytes.
    fn wanted<'r>(&self, row: &'r [u8], tile: &TileRead, size: usize) -> &'r [u8] {
        let (first, count) = self.samples_of(tile);
        &row[first * size..][..count * size]
    }

    /// Gives each band its samples of the wanted part of a row of interleaved pixels.
    fn distribute<'c>(&self, row: &[u8], tile: &TileRead, place: impl Fn(usize) -> &'c mut [u8], predicted: bool) {
        let size = self.dtype.size();
        let pixel = self.samples * size;
        if let Some(band) = self.only_band(tile)
            && predicted
        {
            self.split(row, |_| place(band), true);
        } else if self.samples == 1 {
            for (out, _) in self.bands(tile) {
                self.copy.row(row, place(out));
            }
        } else if self.all && size <= 8 {
            self.split(row, place, predicted);
        } else {
            for (out, band) in self.bands(tile) {
                pick(row, place(out), band * size, pixel, size);
            }
        }
    }
}

impl Unpack {
    /// Parts interleaved pixels of all bands; where they can't go past the caches to their place at once, by way of a
    /// buffer that stays in the cache.
    fn split<'c>(&self, row: &[u8], place: impl Fn(usize) -> &'c mut [u8], predicted: bool) {
        let size = self.dtype.size();
        collected((0..self.samples).map(place), |places| {
            if places.iter().all(|place| self.copy.suits(place)) {
                return predictor::split(row, places, size, predicted, self.copy.is_past());
            }
            PARTED.with_borrow_mut(|parted| {
                parted.resize(row.len(), 0);
                let length = row.len() / self.samples;
                collected(parted.chunks_exact_mut(length), |rows| {
                    predictor::split(row, rows, size, predicted, false);
                    for (row, place) in rows.iter().zip(places) {
                        self.copy.row(row, place);
                    }
                });
            });
        });
    }
}

/// Calls with all slices at once. The usual few need no allocation, which a row of pixels would feel.
fn collected<'c>(mut slices: impl ExactSizeIterator<Item = &'c mut [u8]>, call: impl FnOnce(&mut [&'c mut [u8]])) {
    const FEW: usize = 8;
    let count = slices.len();
    if count <= FEW {
        let mut few: [&mut [u8]; FEW] = std::array::from_fn(|_| slices.next().unwrap_or_default());
        call(&mut few[..count]);
    } else {
        call(&mut slices.collect::<Vec<_>>());
    }
}

/// One band of interleaved pixels.
fn pick(row: &[u8], out: &mut [u8], at: usize, pixel: usize, size: usize) {
    fn fixed<const N: usize>(row: &[u8], out: &mut [u8], at: usize, pixel: usize) {
        for (out, pixel) in out.as_chunks_mut::<N>().0.iter_mut().zip(row.chunks_exact(pixel)) {
            if let Some(value) = pixel[at..].first_chunk::<N>() {
                *out = *value;
            }
        }
    }
    match size {
        1 => fixed::<1>(row, out, at, pixel),
        2 => fixed::<2>(row, out, at, pixel),
        4 => fixed::<4>(row, out, at, pixel),
        8 => fixed::<8>(row, out, at, pixel),
        _ => fixed::<16>(row, out, at, pixel),
    }
}

/// Some samples of a row, of some number of bits, the first in the high ones, to whole numbers of `size` bytes.
fn expand_bits(row: &[u8], samples: Range<usize>, bits: u32, signed: bool, size: usize, out: &mut Vec<u8>) {
    let (from, to) = (samples.start * bits as usize, samples.end * bits as usize);
    let row = &row[from / 8..to.div_ceil(8)];
    // Bits of the first byte that belong to samples before.
    let before = (from % 8) as u32;
    out.clear();
    out.reserve(samples.len() * size);
    if size == 1 && !signed && matches!(bits, 1 | 2 | 4) {
        let mask = (1u8 << bits) - 1;
        for &byte in row {
            out.extend((0..8 / bits).rev().map(|i| byte >> (i * bits) & mask));
        }
        out.drain(..(before / bits) as usize);
        out.truncate(samples.len());
        return;
    }
    // At most 63 bits are left over from the bytes before, so 128 hold any sample.
    let (mut held, mut count) = (0u128, 0u32);
    let mut bytes = row.iter();
    if before > 0 {
        held = u128::from(*bytes.next().unwrap_or(&0));
        count = 8 - before;
    }
    for _ in samples {
        while count < bits {
            held = held << 8 | u128::from(*bytes.next().unwrap_or(&0));
            count += 8;
        }
        count -= bits;
        let mut value = (held >> count) as u64 & (u64::MAX >> (64 - bits));
        if signed && value >> (bits - 1) & 1 == 1 {
            value |= !(u64::MAX >> (64 - bits));
        }
        let native = value.to_ne_bytes();
        out.extend_from_slice(if cfg!(target_endian = "big") { &native[8 - size..] } else { &native[..size] });
    }
}

/// Bytes of a floating point number of 24 bits.
const FLOAT24: usize = 3;

/// 1 sign, 7 exponent and 16 fraction bits to single precision.
fn widen_float24(row: &[u8], order: ByteOrder, out: &mut Vec<u8>) {
    out.clear();
    for b in row.as_chunks::<FLOAT24>().0 {
        let v = match order {
            ByteOrder::Little => u32::from_le_bytes([b[0], b[1], b[2], 0]),
            ByteOrder::Big => u32::from_be_bytes([0, b[0], b[1], b[2]]),
        };
        out.extend_from_slice(&float24(v).to_ne_bytes());
    }
}

fn float24(v: u32) -> f32 {
    let sign = v >> 23 << 31;
    let exponent = v >> 16 & 0x7f;
    let fraction = v & 0xffff;
    match exponent {
        0x7f => f32::from_bits(sign | 0x7f80_0000 | fraction << 7),
        0 => f32::from_bits(sign | (fraction as f32 * 2f32.powi(-62 - 16)).to_bits()),
        _ => f32::from_bits(sign | (exponent + 127 - 63) << 23 | fraction << 7),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_bits_are_unpacked_from_the_high_end() {
        let mut out = Vec::new();
        expand_bits(&[0xab, 0xcd, 0xef], 0..2, 12, false, 2, &mut out);
        assert_eq!(out, [0xabcu16.to_ne_bytes(), 0xdefu16.to_ne_bytes()].concat());
        expand_bits(&[0b1011_0001], 0..8, 1, false, 1, &mut out);
        assert_eq!(out, [1, 0, 1, 1, 0, 0, 0, 1]);
        expand_bits(&[0b1110_0011, 0b0000_0000], 0..3, 5, true, 1, &mut out);
        assert_eq!(out, [-4i8 as u8, 0b01100, 0]);
    }

    #[test]
    fn a_part_of_a_row_is_what_the_whole_row_has_there() {
        let row: Vec<u8> = (0..64u8).map(|i| i.wrapping_mul(151) ^ 0x5a).collect();
        for (bits, size) in [(1, 1), (2, 1), (3, 1), (4, 1), (7, 1), (12, 2), (17, 4), (33, 8), (63, 8)] {
            for signed in [false, true] {
                let n = row.len() * 8 / bits as usize;
                let (mut whole, mut part) = (Vec::new(), Vec::new());
                expand_bits(&row, 0..n, bits, signed, size, &mut whole);
                assert_eq!(whole.len(), n * size);
                for (start, end) in [(0, n), (1, n), (3, 4), (n - 1, n), (n / 2, n / 2), (1, n - 1)] {
                    expand_bits(&row, start..end, bits, signed, size, &mut part);
                    assert_eq!(part, whole[start * size..end * size], "{bits} bits, {start}..{end}");
                }
            }
        }
    }

    #[test]
    fn huge_buffers_do_not_stay() {
        let huge = super::super::KEPT + 1;
        ROW.with_borrow_mut(|(_, wide)| wide.resize(huge, 0));
        PARTED.with_borrow_mut(|parted| parted.resize(1, 0));
        shed();
        assert_eq!(ROW.with_borrow(|(_, wide)| wide.capacity()), 0);
        assert_eq!(PARTED.with_borrow(Vec::len), 1);
    }

    #[test]
    fn small_floats_keep_their_value() {
        assert_eq!(float24(0x3f_0000), 1.0);
        assert_eq!(float24(0xc0_8000), -3.0);
        assert_eq!(float24(1), 2f32.powi(-78));
        assert!(float24(0x7f_0000).is_infinite());
        assert!(float24(0x7f_8000).is_nan());
        assert_eq!(float24(0), 0.0);
    }
}
