//! Blob to pixels.

use super::Cause;
use super::bits::{HighBits, Values};
use super::header::Header;
use super::mask::Mask;
use super::value::{Input, Value, offset_type};
use super::{float, huffman};

/// Where the values of a blob go: pixels of `stride` samples, of which the blob fills those from `first` on.
pub(super) struct Place<'a> {
    pub out: &'a mut [u8],
    pub width: usize,
    pub rows: usize,
    pub stride: usize,
    pub first: usize,
}

/// How an image is stored that Huffman codes may hold.
const BLOCKS: u8 = 0;
const DELTA_HUFFMAN: u8 = 1;
const HUFFMAN: u8 = 2;
const FLOAT_PLANES: u8 = 3;

/// Decodes the body of a blob. `mask` is that of the blob before, which this one may share; this one's is left in it.
pub(super) fn image<T: Value>(
    header: &Header,
    mut input: Input<'_>,
    place: &mut Place<'_>,
    mask: &mut Option<Mask>,
) -> Result<(), Cause> {
    if header.code != T::CODE {
        return Err(Cause::damaged("LERC blob holds another data type than the file says"));
    }
    if (header.width, header.rows) != (place.width, place.rows) {
        return Err(Cause::damaged("LERC blob has another size than the tile"));
    }
    read_mask(header, &mut input, mask)?;
    let mut image = Image::<T> {
        header,
        out: place.out,
        stride: place.stride,
        first: place.first,
        mask: mask.as_ref(),
        max: vec![header.max; header.depth],
        kind: std::marker::PhantomData,
    };
    image.hide();
    if header.valid == 0 {
        return Ok(());
    }
    if header.min == header.max {
        image.fill(&vec![T::from_f64(header.min); header.depth]);
        return Ok(());
    }
    if header.version >= 4 {
        let size = header.depth * T::SIZE;
        let low: Vec<T> = input.take(size)?.chunks_exact(T::SIZE).map(T::get_le).collect();
        let high: Vec<T> = input.take(size)?.chunks_exact(T::SIZE).map(T::get_le).collect();
        if low == high {
            image.fill(&low);
            return Ok(());
        }
        if header.depth > 1 {
            image.max = high.iter().map(|v| v.to_f64()).collect();
        }
    }
    image.body(&mut input)?;
    image.restore_stand_in();
    Ok(())
}

/// Reads the mask of a blob: none where all pixels are valid, an empty one where none is.
fn read_mask(header: &Header, input: &mut Input<'_>, mask: &mut Option<Mask>) -> Result<(), Cause> {
    let pixels = header.width * header.rows;
    let size = usize::try_from(input.value::<i32>()?).map_err(|_| Cause::damaged("LERC mask of negative size"))?;
    if header.valid == pixels || header.valid == 0 {
        input.take(size)?;
        *mask = (header.valid == 0).then(|| Mask::hidden(pixels));
    } else if size > 0 {
        *mask = Some(Mask::read(input, size, pixels, header.valid)?);
    } else if mask.as_ref().is_none_or(|m| m.count() != header.valid) {
        return Err(Cause::damaged("LERC mask is missing"));
    }
    Ok(())
}

/// One image being decoded.
struct Image<'a, T> {
    header: &'a Header,
    out: &'a mut [u8],
    stride: usize,
    first: usize,
    mask: Option<&'a Mask>,
    /// Largest value of each sample: quantisation may overshoot it.
    max: Vec<f64>,
    kind: std::marker::PhantomData<T>,
}

/// A block of pixels.
struct Block {
    row: usize,
    col: usize,
    rows: usize,
    cols: usize,
    /// Pixels that have a value.
    valid: usize,
    /// Which of each row, the first one highest; of no meaning where all are valid.
    bits: [u32; super::header::MAX_BLOCK],
}

impl Block {
    fn is_full(&self) -> bool {
        self.valid == self.rows * self.cols
    }
}

impl<T: Value> Image<'_, T> {
    /// Gives hidden pixels their value; the others get it too where that is quicker, for they will be written.
    fn hide(&mut self) {
        let Some(mask) = self.mask else { return };
        let (stride, first, depth) = (self.stride, self.first, self.header.depth);
        if depth == stride {
            return self.out.chunks_exact_mut(T::SIZE).for_each(|cell| T::HIDDEN.put(cell));
        }
        for (k, pixel) in self.out.chunks_exact_mut(stride * T::SIZE).enumerate() {
            if !mask.get(k) {
                let samples = &mut pixel[first * T::SIZE..(first + depth) * T::SIZE];
                samples.chunks_exact_mut(T::SIZE).for_each(|cell| T::HIDDEN.put(cell));
            }
        }
    }

    /// Gives every valid pixel the same value.
    fn fill(&mut self, values: &[T]) {
        self.pixels(|pixel| {
            for (cell, v) in pixel.chunks_exact_mut(T::SIZE).zip(values) {
                v.put(cell);
            }
        });
    }

    /// Every valid pixel in order: the samples of this blob.
    fn pixels(&mut self, mut f: impl FnMut(&mut [u8])) {
        let samples = self.first * T::SIZE..(self.first + self.header.depth) * T::SIZE;
        let pixels = self.out.chunks_exact_mut(self.stride * T::SIZE);
        match self.mask {
            None => pixels.for_each(|pixel| f(&mut pixel[samples.clone()])),
            Some(mask) => {
                pixels.enumerate().filter(|(k, _)| mask.get(*k)).for_each(|(_, pixel)| f(&mut pixel[samples.clone()]))
            }
        }
    }

    /// A value of the file that another one stood for.
    fn restore_stand_in(&mut self) {
        if let Some((stored, meant)) = self.header.stand_in.filter(|(stored, meant)| stored != meant) {
            let (stored, meant) = (T::from_f64(stored), T::from_f64(meant));
            self.pixels(|pixel| {
                for cell in pixel.chunks_exact_mut(T::SIZE).filter(|cell| T::get(cell) == stored) {
                    meant.put(cell);
                }
            });
        }
    }

    /// Everything behind the ranges.
    fn body(&mut self, input: &mut Input<'_>) -> Result<(), Cause> {
        if input.u8()? != 0 {
            return self.plain(input);
        }
        let header = self.header;
        let bytes = T::SIZE == 1 && header.version >= 2 && header.error == 0.5;
        let planes = T::FLOAT && header.version >= 6 && header.error == 0.0;
        let mode = if bytes || planes { input.u8()? } else { BLOCKS };
        match mode {
            BLOCKS => self.blocks(input),
            DELTA_HUFFMAN if bytes => self.delta_huffman(input),
            HUFFMAN if bytes && header.version >= 4 => self.huffman(input),
            FLOAT_PLANES if planes => self.float_planes(input),
            _ => Err(Cause::damaged("LERC image is stored in an unknown way")),
        }
    }

    /// All values as they are, pixel after pixel.
    fn plain(&mut self, input: &mut Input<'_>) -> Result<(), Cause> {
        let depth = self.header.depth;
        let source = input.take(self.header.valid * depth * T::SIZE)?;
        if self.mask.is_none() && depth == self.stride && cfg!(target_endian = "little") {
            self.out.copy_from_slice(source);
            return Ok(());
        }
        let mut values = source.chunks_exact(T::SIZE);
        self.pixels(|pixel| {
            for (cell, v) in pixel.chunks_exact_mut(T::SIZE).zip(&mut values) {
                T::get_le(v).put(cell);
            }
        });
        Ok(())
    }

    fn blocks(&mut self, input: &mut Input<'_>) -> Result<(), Cause> {
        let mut values = Values::new();
        let header = self.header;
        for row in (0..header.rows).step_by(header.block) {
            for col in (0..header.width).step_by(header.block) {
                let block = self.block_at(row, col);
                for sample in 0..header.depth {
                    self.block(&block, sample, input, &mut values)?;
                }
            }
        }
        Ok(())
    }

    fn block_at(&self, row: usize, col: usize) -> Block {
        let (rows, cols) =
            (self.header.block.min(self.header.rows - row), self.header.block.min(self.header.width - col));
        let mut block = Block { row, col, rows, cols, valid: rows * cols, bits: [0; super::header::MAX_BLOCK] };
        if let Some(mask) = self.mask {
            block.valid = 0;
            for (r, bits) in block.bits[..rows].iter_mut().enumerate() {
                *bits = mask.bits((row + r) * self.header.width + col, cols);
                block.valid += bits.count_ones() as usize;
            }
        }
        block
    }

    /// One sample of one block.
    #[inline]
    fn block(&mut self, block: &Block, sample: usize, input: &mut Input<'_>, values: &mut Values) -> Result<(), Cause> {
        let flag = input.u8()?;
        // The flag repeats some bits of the column, as a check; version 5 took one of them for differences.
        let (differs, check) = if self.header.version >= 5 { (flag & 4 != 0, 14) } else { (false, 15) };
        if flag >> 2 & check != (block.col >> 3) as u8 & check || (differs && sample == 0) {
            return Err(Cause::damaged("LERC block has a wrong flag"));
        }
        match flag & 3 {
            0 if differs => Err(Cause::damaged("LERC block has a wrong flag")),
            0 => {
                let source = input.take(block.valid * T::SIZE)?;
                self.store_plain(block, sample, source);
                Ok(())
            }
            1 => {
                let offset = self.offset(flag >> 6, differs, input)?;
                values.read(input, self.header.version, block.valid)?;
                self.store_quantised(block, sample, offset, differs, values.get());
                Ok(())
            }
            kind => {
                let offset = if kind == 2 { 0.0 } else { self.offset(flag >> 6, differs, input)? };
                self.store_constant(block, sample, offset, differs);
                Ok(())
            }
        }
    }

    fn offset(&self, reduction: u8, differs: bool, input: &mut Input<'_>) -> Result<f64, Cause> {
        const INT: i32 = 4;
        let code = if differs && !T::FLOAT { INT } else { T::CODE };
        input.number(offset_type(code, reduction)?)
    }

    fn store_plain(&mut self, block: &Block, sample: usize, source: &[u8]) {
        if block.is_full() && self.stride == 1 && cfg!(target_endian = "little") {
            for (r, source) in source.chunks_exact(block.cols * T::SIZE).enumerate() {
                self.row(block, r, sample).copy_from_slice(source);
            }
            return;
        }
        let mut values = source.chunks_exact(T::SIZE);
        self.cells(block, sample, |cell, _| {
            if let Some(v) = values.next() {
                T::get_le(v).put(cell);
            }
        });
    }

    fn store_constant(&mut self, block: &Block, sample: usize, offset: f64, differs: bool) {
        if differs {
            let max = self.max[sample];
            self.cells(block, sample, |cell, before| {
                T::from_f64(at_most(offset + before.to_f64(), max)).put(cell);
            });
        } else {
            let v = T::from_f64(offset);
            self.cells(block, sample, |cell, _| v.put(cell));
        }
    }

    fn store_quantised(&mut self, block: &Block, sample: usize, offset: f64, differs: bool, values: &[u32]) {
        let (step, max) = (2.0 * self.header.error, self.max[sample]);
        // Values have 31 bits: a signed conversion is exact, and quicker.
        let real = move |q: u32| offset + f64::from(q as i32) * step;
        if differs {
            let mut values = values.iter();
            self.cells(block, sample, |cell, before| {
                if let Some(&q) = values.next() {
                    T::from_f64(at_most(real(q) + before.to_f64(), max)).put(cell);
                }
            });
        } else if !T::FLOAT && step == 1.0 {
            let offset = offset as i64;
            self.store(block, sample, values, |q| T::from_i64(offset + i64::from(q)));
        } else {
            self.store(block, sample, values, |q| T::from_f64(at_most(real(q), max)));
        }
    }

    /// Stores one value for each valid pixel of the block.
    #[inline(always)]
    fn store(&mut self, block: &Block, sample: usize, values: &[u32], f: impl Fn(u32) -> T) {
        if !block.is_full() {
            let mut values = values.iter();
            return self.cells(block, sample, |cell, _| {
                if let Some(&q) = values.next() {
                    f(q).put(cell);
                }
            });
        }
        let stride = self.stride * T::SIZE;
        for (r, values) in values.chunks_exact(block.cols).enumerate() {
            let row = self.row(block, r, sample);
            if stride == T::SIZE {
                row.chunks_exact_mut(T::SIZE).zip(values).for_each(|(cell, &q)| f(q).put(cell));
            } else {
                row.chunks_mut(stride).zip(values).for_each(|(cell, &q)| f(q).put(&mut cell[..T::SIZE]));
            }
        }
    }

    /// The bytes of one row of a block from its first to its last value of the sample.
    #[inline(always)]
    fn row(&mut self, block: &Block, r: usize, sample: usize) -> &mut [u8] {
        let pixel = (block.row + r) * self.header.width + block.col;
        let start = (pixel * self.stride + self.first + sample) * T::SIZE;
        &mut self.out[start..start + ((block.cols - 1) * self.stride + 1) * T::SIZE]
    }

    /// Every valid value of the sample in the block, with the value of the sample before it (0 for the first).
    fn cells(&mut self, block: &Block, sample: usize, mut f: impl FnMut(&mut [u8], T)) {
        if block.valid == 0 {
            return;
        }
        let (stride, back) = (self.stride * T::SIZE, if sample > 0 { T::SIZE } else { 0 });
        for r in 0..block.rows {
            let pixel = (block.row + r) * self.header.width + block.col;
            let start = (pixel * self.stride + self.first + sample) * T::SIZE - back;
            let row = &mut self.out[start..];
            for (c, cell) in row.chunks_mut(stride).take(block.cols).enumerate() {
                if block.is_full() || block.bits[r] << c >> 31 != 0 {
                    let before = if back > 0 { T::get(&cell[..T::SIZE]) } else { T::from_i64(0) };
                    f(&mut cell[back..back + T::SIZE], before);
                }
            }
        }
    }

    /// Huffman codes of all values, pixel after pixel.
    fn huffman(&mut self, input: &mut Input<'_>) -> Result<(), Cause> {
        let decoder = huffman::Decoder::read(input, self.header.version)?;
        let mut bits = HighBits::new(input.rest());
        let bias = bias::<T>();
        if self.mask.is_none() && self.header.depth == self.stride {
            for cell in self.out.iter_mut() {
                *cell = decoder.next(&mut bits).ok_or_else(no_code)?.wrapping_sub(bias);
            }
            return bits.check();
        }
        let mut broken = false;
        self.pixels(|pixel| {
            for cell in pixel.iter_mut() {
                match decoder.next(&mut bits) {
                    Some(symbol) => *cell = symbol.wrapping_sub(bias),
                    None => broken = true,
                }
            }
        });
        if broken { Err(no_code()) } else { bits.check() }
    }

    /// Huffman codes of differences from the value to the left, or above where that one is hidden; a sample at a time.
    fn delta_huffman(&mut self, input: &mut Input<'_>) -> Result<(), Cause> {
        let decoder = huffman::Decoder::read(input, self.header.version)?;
        let mut bits = HighBits::new(input.rest());
        let (stride, width, bias) = (self.stride, self.header.width, bias::<T>());
        for sample in self.first..self.first + self.header.depth {
            let mut last = 0u8;
            for row in 0..self.header.rows {
                let start = row * width;
                let Some(mask) = self.mask else {
                    if row > 0 {
                        last = self.out[(start - width) * stride + sample];
                    }
                    let end = (start + width) * stride;
                    for cell in self.out[start * stride + sample..end].iter_mut().step_by(stride) {
                        let symbol = decoder.next(&mut bits).ok_or_else(no_code)?;
                        last = last.wrapping_add(symbol.wrapping_sub(bias));
                        *cell = last;
                    }
                    continue;
                };
                for k in (start..start + width).filter(|&k| mask.get(k)) {
                    let left = k > start && mask.get(k - 1);
                    if !left && row > 0 && mask.get(k - width) {
                        last = self.out[(k - width) * stride + sample];
                    }
                    let symbol = decoder.next(&mut bits).ok_or_else(no_code)?;
                    last = last.wrapping_add(symbol.wrapping_sub(bias));
                    self.out[k * stride + sample] = last;
                }
            }
        }
        bits.check()
    }

    /// Planes of bytes, which cover hidden pixels too.
    fn float_planes(&mut self, input: &mut Input<'_>) -> Result<(), Cause> {
        let (width, depth) = (self.header.width, self.header.depth);
        // Samples of a pixel are predicted from each other.
        let row = if depth == 1 { width } else { depth };
        let decode = if T::SIZE == 4 { float::decode::<4> } else { float::decode::<8> };
        if self.mask.is_none() && depth == self.stride && cfg!(target_endian = "little") {
            return decode(input, row, self.out);
        }
        let mut units = vec![0; width * self.header.rows * depth * T::SIZE];
        decode(input, row, &mut units)?;
        let (stride, first, mask) = (self.stride, self.first, self.mask);
        let pixels = self.out.chunks_exact_mut(stride * T::SIZE).zip(units.chunks_exact(depth * T::SIZE));
        for (k, (pixel, source)) in pixels.enumerate() {
            if mask.is_none_or(|mask| mask.get(k)) {
                let cells = pixel[first * T::SIZE..].chunks_exact_mut(T::SIZE);
                cells.zip(source.chunks_exact(T::SIZE)).for_each(|(cell, v)| T::get_le(v).put(cell));
            }
        }
        Ok(())
    }
}

/// Signed bytes are shifted into the range of symbols.
fn bias<T: Value>() -> u8 {
    if T::CODE == i8::CODE { 128 } else { 0 }
}

#[inline(always)]
fn at_most(v: f64, max: f64) -> f64 {
    if max < v { max } else { v }
}

#[cold]
fn no_code() -> Cause {
    Cause::damaged("LERC Huffman data has no such code")
}
