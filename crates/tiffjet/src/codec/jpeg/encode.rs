//! The encoder: baseline, 8 bits, the usual tables.

use std::sync::OnceLock;

use super::super::{Cause, Plain, Settings, TileFormat};
use super::colour;
use super::decode::ZIGZAG;
use super::transform::{self, Block};
use super::vectors::{self, Vectors, Work};

/// Quantisation at quality 50, luminance and chrominance, in row order (ISO 10918-1, tables K.1 and K.2).
const QUANT: [[u8; 64]; 2] = [
    [
        16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29,
        51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121,
        120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
    ],
    [
        17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99,
        99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
        99, 99, 99, 99, 99, 99, 99, 99,
    ],
];

/// Counts of the codes of 1 to 16 bits, then the symbols (K.3 to K.6): DC and AC, luminance and chrominance.
const CODES: [(&[u8; 16], &[u8]); 4] = [
    (&[0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
    (
        &[0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7D],
        &[
            0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07, 0x22, 0x71,
            0x14, 0x32, 0x81, 0x91, 0xA1, 0x08, 0x23, 0x42, 0xB1, 0xC1, 0x15, 0x52, 0xD1, 0xF0, 0x24, 0x33, 0x62, 0x72,
            0x82, 0x09, 0x0A, 0x16, 0x17, 0x18, 0x19, 0x1A, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2A, 0x34, 0x35, 0x36, 0x37,
            0x38, 0x39, 0x3A, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4A, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59,
            0x5A, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6A, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7A, 0x83,
            0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9A, 0xA2, 0xA3,
            0xA4, 0xA5, 0xA6, 0xA7, 0xA8, 0xA9, 0xAA, 0xB2, 0xB3, 0xB4, 0xB5, 0xB6, 0xB7, 0xB8, 0xB9, 0xBA, 0xC2, 0xC3,
            0xC4, 0xC5, 0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8, 0xD9, 0xDA, 0xE1, 0xE2,
            0xE3, 0xE4, 0xE5, 0xE6, 0xE7, 0xE8, 0xE9, 0xEA, 0xF1, 0xF2, 0xF3, 0xF4, 0xF5, 0xF6, 0xF7, 0xF8, 0xF9, 0xFA,
        ],
    ),
    (&[0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
    (
        &[0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 0x77],
        &[
            0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71, 0x13, 0x22,
            0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xA1, 0xB1, 0xC1, 0x09, 0x23, 0x33, 0x52, 0xF0, 0x15, 0x62, 0x72, 0xD1,
            0x0A, 0x16, 0x24, 0x34, 0xE1, 0x25, 0xF1, 0x17, 0x18, 0x19, 0x1A, 0x26, 0x27, 0x28, 0x29, 0x2A, 0x35, 0x36,
            0x37, 0x38, 0x39, 0x3A, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4A, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58,
            0x59, 0x5A, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6A, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7A,
            0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9A,
            0xA2, 0xA3, 0xA4, 0xA5, 0xA6, 0xA7, 0xA8, 0xA9, 0xAA, 0xB2, 0xB3, 0xB4, 0xB5, 0xB6, 0xB7, 0xB8, 0xB9, 0xBA,
            0xC2, 0xC3, 0xC4, 0xC5, 0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8, 0xD9, 0xDA,
            0xE2, 0xE3, 0xE4, 0xE5, 0xE6, 0xE7, 0xE8, 0xE9, 0xEA, 0xF2, 0xF3, 0xF4, 0xF5, 0xF6, 0xF7, 0xF8, 0xF9, 0xFA,
        ],
    ),
];

/// Code and bits by symbol.
struct Codes {
    by_symbol: [(u16, u8); 256],
}

impl Codes {
    fn new((counts, symbols): (&[u8; 16], &[u8])) -> Self {
        let mut by_symbol = [(0, 0); 256];
        let (mut code, mut symbols) = (0u16, symbols.iter());
        for (bits, &n) in (1u8..).zip(counts) {
            for &symbol in symbols.by_ref().take(n as usize) {
                by_symbol[symbol as usize] = (code, bits);
                code += 1;
            }
            code <<= 1;
        }
        Self { by_symbol }
    }

    /// In the order of [`CODES`].
    fn all() -> &'static [Self; 4] {
        static ALL: OnceLock<[Codes; 4]> = OnceLock::new();
        ALL.get_or_init(|| CODES.map(Self::new))
    }
}

/// What is encoded how.
struct Choice {
    quant: [[u16; 64]; 2],
    /// Colour is apart from brightness: other tables, fewer samples.
    ycbcr: bool,
    /// Pixels that a sample of colour stands for, across and down.
    sampling: (usize, usize),
}

impl Choice {
    fn new(settings: &Settings, format: &TileFormat) -> Self {
        let quality = settings.quality.unwrap_or(75).clamp(1, 100) as u32;
        let scale = if quality < 50 { 5000 / quality } else { 200 - quality * 2 };
        let ycbcr = format.photometric == 6 && format.samples == 3;
        let side = |n: u8| if matches!(n, 1 | 2 | 4) { n as usize } else { 1 };
        Self {
            quant: QUANT.map(|table| table.map(|q| ((q as u32 * scale + 50) / 100).clamp(1, 255) as u16)),
            ycbcr,
            sampling: if ycbcr { (side(format.subsampling.0), side(format.subsampling.1)) } else { (1, 1) },
        }
    }

    /// DQT and DHT.
    fn write_tables(&self, out: &mut Vec<u8>) {
        let kinds = if self.ycbcr { 2 } else { 1 };
        for (number, quant) in self.quant.iter().enumerate().take(kinds) {
            segment(out, 0xDB, |out| {
                out.push(number as u8);
                out.extend(ZIGZAG[..64].iter().map(|&place| quant[place as usize] as u8));
            });
        }
        for (i, (counts, symbols)) in CODES.iter().enumerate().take(kinds * 2) {
            segment(out, 0xC4, |out| {
                out.push(((i as u8 & 1) << 4) | (i as u8 >> 1));
                out.extend_from_slice(*counts);
                out.extend_from_slice(symbols);
            });
        }
    }
}

fn segment(out: &mut Vec<u8>, marker: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.extend([0xFF, marker, 0, 0]);
    let start = out.len();
    body(out);
    let length = (out.len() - start + 2) as u16;
    out[start - 2..start].copy_from_slice(&length.to_be_bytes());
}

/// The value of tag JPEGTables for tiles that are encoded with these settings.
pub(super) fn tables(settings: &Settings, format: &TileFormat) -> Vec<u8> {
    let mut out = vec![0xFF, 0xD8];
    Choice::new(settings, format).write_tables(&mut out);
    out.extend([0xFF, 0xD9]);
    out
}

/// Encodes a tile; leaves the tables out where `format.jpeg_tables` has them.
pub(super) fn encode(tile: &Plain<'_>, out: &mut Vec<u8>) -> Result<(), Cause> {
    let format = tile.format;
    let (width, height, n) = (format.width as usize, tile.rows as usize, format.samples as usize);
    if format.dtype.size() != 1 || format.bits != 8 {
        return Err(Cause::unsupported("writing JPEG of other than 8-bit samples"));
    }
    if !(1..=65500).contains(&width) || !(1..=65500).contains(&height) || !(1..=4).contains(&n) {
        return Err(Cause::unsupported(format!("writing JPEG of {width} x {height} pixels of {n} samples")));
    }
    if tile.bytes.len() != width * height * n {
        return Err(Cause::damaged("the tile has not the size of its pixels"));
    }
    let choice = Choice::new(tile.settings, format);
    out.extend([0xFF, 0xD8]);
    if format.jpeg_tables.as_deref() != Some(&tables(tile.settings, format)[..]) {
        choice.write_tables(out);
    }
    let (h, v) = choice.sampling;
    // Readers that do not ask TIFF go by the names: three that are not R, G and B are taken for luminance and colour.
    let name = |c: usize| if n == 3 && !choice.ycbcr { b"RGB"[c] } else { c as u8 + 1 };
    segment(out, 0xC0, |out| {
        out.push(8);
        out.extend((height as u16).to_be_bytes());
        out.extend((width as u16).to_be_bytes());
        out.push(n as u8);
        for c in 0..n {
            let sampling = if c == 0 { (h << 4 | v) as u8 } else { 0x11 };
            out.extend([name(c), sampling, (choice.ycbcr && c > 0) as u8]);
        }
    });
    segment(out, 0xDA, |out| {
        out.push(n as u8);
        for c in 0..n {
            out.extend([name(c), if choice.ycbcr && c > 0 { 0x11 } else { 0 }]);
        }
        out.extend([0, 63, 0]);
    });
    vectors::run(Encode { choice: &choice, pixels: tile.bytes, width, height, n, out });
    out.extend([0xFF, 0xD9]);
    Ok(())
}

/// The entropy-coded data.
struct Encode<'a> {
    choice: &'a Choice,
    pixels: &'a [u8],
    width: usize,
    height: usize,
    n: usize,
    out: &'a mut Vec<u8>,
}

impl Work for Encode<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let Self { choice, pixels, width, height, n, out } = self;
        let (h, v) = choice.sampling;
        let (mcu_width, mcu_height) = (8 * h, 8 * v);
        let stride = width.next_multiple_of(mcu_width);
        // One row of MCUs, every component at full size, edges repeated into the padding.
        let mut rows = vec![vec![0u8; stride * mcu_height]; n];
        let mut small = vec![0u8; stride / h * 8];
        let quant = choice.quant.map(|table| Divisors::new(&table));
        let mut before = vec![0; n];
        let mut bits = BitWriter { out, acc: 0, held: 0 };
        for top in (0..height).step_by(mcu_height) {
            for y in 0..mcu_height {
                let from = &pixels[(top + y).min(height - 1) * width * n..][..width * n];
                fill_row(choice, from, &mut rows, y * stride, stride, width, n);
            }
            let subsampled = h * v > 1;
            let mut shrunk = Vec::new();
            if subsampled {
                for plane in &rows[1..] {
                    shrink(plane, stride, (h, v), &mut small);
                    shrunk.push(small.clone());
                }
            }
            for col in 0..stride / mcu_width {
                for c in 0..n {
                    let kind = (choice.ycbcr && c > 0) as usize;
                    let codes = &Codes::all()[kind * 2..kind * 2 + 2];
                    let (plane, stride, across, down) =
                        if c > 0 && subsampled { (&shrunk[c - 1], stride / h, 1, 1) } else { (&rows[c], stride, h, v) };
                    for by in 0..down {
                        for bx in 0..across {
                            let at = by * 8 * stride + (col * across + bx) * 8;
                            let block = V::quantise(&plane[at..], stride, &quant[kind]);
                            bits.block(&block, V::nonzero(&block), &mut before[c], codes);
                        }
                    }
                }
            }
        }
        bits.finish();
    }
}

/// Splits a row of pixels into its components and repeats the last pixel into the padding.
#[inline(always)]
fn fill_row(choice: &Choice, from: &[u8], rows: &mut [Vec<u8>], at: usize, stride: usize, width: usize, n: usize) {
    if let ([y, cb, cr], true) = (&mut *rows, choice.ycbcr) {
        let (y, cb, cr) = (&mut y[at..at + width], &mut cb[at..at + width], &mut cr[at..at + width]);
        let pieces = y.chunks_mut(PIECE).zip(cb.chunks_mut(PIECE)).zip(cr.chunks_mut(PIECE));
        for (rgb, ((y, cb), cr)) in from.chunks(3 * PIECE).zip(pieces) {
            // Colours apart first, so that vectors can do the sums.
            let [mut r, mut g, mut b] = [[0u8; PIECE]; 3];
            for (((rgb, r), g), b) in rgb.chunks_exact(3).zip(&mut r).zip(&mut g).zip(&mut b) {
                (*r, *g, *b) = (rgb[0], rgb[1], rgb[2]);
            }
            for (i, ((y, cb), cr)) in y.iter_mut().zip(cb).zip(cr).enumerate() {
                [*y, *cb, *cr] = colour::to_ycbcr(r[i], g[i], b[i]);
            }
        }
    } else {
        for (c, row) in rows.iter_mut().enumerate() {
            for (to, from) in row[at..at + width].iter_mut().zip(from[c..].iter().step_by(n)) {
                *to = *from;
            }
        }
    }
    for row in rows {
        let last = row[at + width - 1];
        row[at + width..at + stride].fill(last);
    }
}

/// Pixels whose colours are told apart at once.
const PIECE: usize = 64;

/// The mean of the pixels that a sample of colour stands for.
#[inline(always)]
fn shrink(plane: &[u8], stride: usize, (h, v): (usize, usize), out: &mut [u8]) {
    let width = stride / h;
    for (y, out) in out.chunks_exact_mut(width).enumerate() {
        if (h, v) == (2, 2) {
            let (a, b) = plane[y * 2 * stride..].split_at(stride);
            for (x, ((out, a), b)) in out.iter_mut().zip(a.chunks_exact(2)).zip(b.chunks_exact(2)).enumerate() {
                // Rounding up and down in turn keeps the mean of the picture.
                let bias = 1 + (x as u16 & 1);
                *out = ((a[0] as u16 + a[1] as u16 + b[0] as u16 + b[1] as u16 + bias) >> 2) as u8;
            }
            continue;
        }
        let count = (h * v) as u32;
        for (x, out) in out.iter_mut().enumerate() {
            let mut sum = 0;
            for row in 0..v {
                for &p in &plane[(y * v + row) * stride + x * h..][..h] {
                    sum += p as u32;
                }
            }
            let bias = match (h, v) {
                (2, 1) => x as u32 & 1,
                _ => count / 2,
            };
            *out = ((sum + bias) / count) as u8;
        }
    }
}

/// Rounding division by a constant, as a product in 32 bits, which vectors do.
#[derive(Clone, Copy)]
struct Divisor {
    half: u32,
    factor: u32,
    shift: u32,
}

impl Divisor {
    /// Of coefficients that are eight times too large.
    fn new(q: u16) -> Self {
        let q = q as u32 * 8;
        // The factor is at most 2^17 and less than one part in 2^16 too large: exact for dividends below 2^15.
        let shift = 16 + q.next_power_of_two().ilog2();
        Self { half: q / 2, factor: (1u32 << shift).div_ceil(q), shift }
    }

    #[inline(always)]
    fn divide(self, value: i32) -> i16 {
        let size = value.unsigned_abs().wrapping_add(self.half);
        let quotient = (size.wrapping_mul(self.factor) >> self.shift) as i32;
        (if value < 0 { -quotient } else { quotient }) as i16
    }
}

/// The divisors of a block, the parts of each together, as vectors load them.
pub(super) struct Divisors {
    pub(super) half: [u32; 64],
    pub(super) factor: [u32; 64],
    pub(super) shift: [u32; 64],
}

impl Divisors {
    fn new(table: &[u16; 64]) -> Self {
        let all = table.map(Divisor::new);
        Self { half: all.map(|d| d.half), factor: all.map(|d| d.factor), shift: all.map(|d| d.shift) }
    }

    fn get(&self, i: usize) -> Divisor {
        Divisor { half: self.half[i], factor: self.factor[i], shift: self.shift[i] }
    }
}

/// The largest coefficient beside the first that the tables have a code for.
pub(super) const LARGEST: i16 = 1023;

/// The coefficients of a block of 8 × 8 samples, divided and rounded.
#[inline(always)]
pub(super) fn quantise(plane: &[u8], stride: usize, quant: &Divisors) -> Block {
    let samples: [[i32; 8]; 8] = std::array::from_fn(|y| std::array::from_fn(|x| plane[y * stride + x] as i32 - 128));
    let coefficients = transform::forward(&samples);
    let mut block: Block = std::array::from_fn(|i| quant.get(i).divide(coefficients[i / 8][i % 8]));
    block[1..].iter_mut().for_each(|c| *c = (*c).clamp(-LARGEST, LARGEST));
    block
}

/// Where a coefficient comes in the stream.
const TURN: [u8; 64] = {
    let mut turn = [0; 64];
    let mut k = 0;
    while k < 64 {
        turn[ZIGZAG[k] as usize] = k as u8;
        k += 1;
    }
    turn
};

struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Bits to write, right-aligned.
    acc: u64,
    held: u32,
}

impl BitWriter<'_> {
    /// At most 27 bits: a code and its value.
    #[inline(always)]
    fn put(&mut self, bits: u32, n: u32) {
        self.acc = self.acc << n | bits as u64;
        self.held += n;
        if self.held >= 32 {
            self.held -= 32;
            self.word((self.acc >> self.held) as u32);
        }
    }

    #[inline(always)]
    fn word(&mut self, word: u32) {
        let flip = !word;
        if flip.wrapping_sub(0x0101_0101) & !flip & 0x8080_8080 == 0 {
            self.out.extend_from_slice(&word.to_be_bytes());
        } else {
            for byte in word.to_be_bytes() {
                self.byte(byte);
            }
        }
    }

    fn byte(&mut self, byte: u8) {
        self.out.push(byte);
        if byte == 0xFF {
            self.out.push(0);
        }
    }

    /// A block; `nonzero` has a bit for each coefficient that is not 0.
    #[inline(always)]
    fn block(&mut self, block: &Block, nonzero: u64, before: &mut i32, codes: &[Codes]) {
        let dc = block[0] as i32;
        self.value(&codes[0], 0, dc - *before);
        *before = dc;
        let (mut set, mut left) = (0u64, nonzero & !1);
        while left != 0 {
            set |= 1 << TURN[left.trailing_zeros() as usize];
            left &= left - 1;
        }
        let mut last = 0;
        while set != 0 {
            let k = set.trailing_zeros();
            let mut run = k - last - 1;
            while run > 15 {
                self.symbol(&codes[1], 0xF0);
                run -= 16;
            }
            self.value(&codes[1], run << 4, block[ZIGZAG[k as usize] as usize] as i32);
            last = k;
            set &= set - 1;
        }
        if last != 63 {
            self.symbol(&codes[1], 0);
        }
    }

    #[inline(always)]
    fn symbol(&mut self, codes: &Codes, symbol: u32) {
        let (code, n) = codes.by_symbol[symbol as usize & 255];
        self.put(code as u32, n as u32);
    }

    /// A symbol with the size of the value in its low bits, then the value.
    #[inline(always)]
    fn value(&mut self, codes: &Codes, run: u32, value: i32) {
        let size = 32 - value.unsigned_abs().leading_zeros();
        let (code, n) = codes.by_symbol[(run | size) as usize & 255];
        let bits = (value + (value >> 31)) as u32 & ((1 << size) - 1);
        self.put((code as u32) << size | bits, n as u32 + size);
    }

    /// Fills the last byte with ones.
    fn finish(mut self) {
        let pad = (8 - self.held % 8) % 8;
        self.put((1 << pad) - 1, pad);
        while self.held >= 8 {
            self.held -= 8;
            self.byte((self.acc >> self.held) as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the machine has, beside what every machine has.
    struct Both<'a>(&'a [u8], usize, &'a Divisors);

    impl Work for Both<'_> {
        type Output = (Block, u64);
        #[inline(always)]
        fn run<V: Vectors>(self) -> Self::Output {
            let block = V::quantise(self.0, self.1, self.2);
            (block, V::nonzero(&block))
        }
    }

    #[test]
    fn vectors_give_the_same_coefficients() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        };
        for round in 0..3000 {
            let q = match round % 3 {
                0 => 1,
                1 => 1 + (round % 255) as u16,
                _ => 255,
            };
            let quant = Divisors::new(&std::array::from_fn(|i| (q + i as u16 % 7).min(255)));
            let stride = 8 + round % 5;
            let extreme = round % 4 == 0;
            let plane: Vec<u8> = (0..stride * 8)
                .map(|_| match extreme {
                    true => (next() & 1) * 255,
                    false => next(),
                })
                .collect();
            let want = quantise(&plane, stride, &quant);
            let bits = want.iter().enumerate().fold(0u64, |set, (i, &c)| set | u64::from(c != 0) << i);
            assert_eq!(vectors::run(Both(&plane, stride, &quant)), (want, bits), "round {round}");
        }
        for value in [0u8, 255] {
            let quant = Divisors::new(&[1; 64]);
            let want = quantise(&[value; 64], 8, &quant);
            assert_eq!(vectors::run(Both(&[value; 64], 8, &quant)).0, want);
        }
    }

    #[test]
    fn divisor_rounds_to_the_nearest() {
        for q in 1..=255u16 {
            let divisor = Divisor::new(q);
            for value in -17000..17000 {
                let exact = (value as f64 / (q as f64 * 8.0)).abs();
                let want = (exact + 0.5).floor() as i16 * if value < 0 { -1 } else { 1 };
                assert_eq!(divisor.divide(value), want, "{value} / {q}");
            }
        }
    }
}
