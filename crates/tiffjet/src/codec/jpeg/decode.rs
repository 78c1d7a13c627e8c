//! The decoder: baseline, extended and progressive with Huffman codes, 8 and 12 bits, any number of components.

use super::super::Cause;
use super::colour::{self, Plane};
use super::huffman::{Bits, Huffman};
use super::lossless;
use super::transform::{self, Block, Sample};
use super::vectors::{self, Vectors, Work};

/// Place in row order of the coefficients as they come. Runs past the end of a block land on its last place.
pub(super) const ZIGZAG: [u8; 128] = {
    let order = [
        0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14,
        21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60,
        61, 54, 47, 55, 62, 63,
    ];
    let mut padded = [63; 128];
    let mut i = 0;
    while i < 64 {
        padded[i] = order[i];
        i += 1;
    }
    padded
};

/// More scans than any encoder makes: each costs a walk over the image, however few bytes it has.
const MOST_SCANS: usize = 256;
/// Buffers larger than this are given back after a tile.
const KEEP: usize = 16 << 20;

/// What the caller knows of the image before it is decoded.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Expected {
    /// Pixels that are wanted, from the left and from the top.
    pub(in super::super) width: u32,
    pub(in super::super) rows: u32,
    pub(in super::super) components: usize,
    /// Turns YCbCr to RGB.
    pub(in super::super) to_rgb: bool,
    /// Upsamples with a triangle filter where the reference implementation does; else repeats samples.
    pub(in super::super) smooth: bool,
}

/// How the coefficients come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Process {
    Sequential,
    Progressive,
    Lossless,
}

/// SOF.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) process: Process,
    pub(super) precision: u8,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) components: Vec<Component>,
    /// Largest sampling factors.
    most: (usize, usize),
    /// MCUs of a scan with all components, across and down.
    mcus: (usize, usize),
}

#[derive(Debug)]
pub(super) struct Component {
    id: u8,
    sampling: (usize, usize),
    q_table: usize,
    /// As it was when the first scan of the component began.
    quant: Option<[u16; 64]>,
    /// Samples that stand for pixels.
    pub(super) width: usize,
    pub(super) height: usize,
    /// Blocks across and down, padding included.
    blocks: (usize, usize),
    /// Where its blocks begin among those of all components.
    first_block: usize,
}

impl Component {
    fn stride(&self) -> usize {
        self.blocks.0 * 8
    }
}

/// SOS.
pub(super) struct Scan {
    /// Component, DC table, AC table.
    pub(super) parts: Vec<(usize, usize, usize)>,
    pub(super) start: u8,
    end: u8,
    high: u8,
    pub(super) low: u8,
}

/// Tables and buffers; both live on from tile to tile.
#[derive(Default)]
pub(in super::super) struct Decoder {
    quant: [Option<[u16; 64]>; 4],
    pub(super) dc: [Option<Box<Huffman>>; 4],
    ac: [Option<Box<Huffman>>; 4],
    pub(super) restart: usize,
    /// Whether the tables are no longer those of the last tables-only stream.
    dirty: bool,
    bytes: Vec<u8>,
    words: Vec<u16>,
    coefficients: Vec<i16>,
}

/// A kind of sample, and where the decoder keeps planes of it.
trait Stored: Sample {
    fn buffer(decoder: &mut Decoder) -> &mut Vec<Self>;
    /// Lets `fill` make a row of samples, in `out` itself where that can be, else in `row`.
    fn store(row: &mut [Self], out: &mut [u8], fill: impl FnOnce(&mut [Self]));
}

impl Stored for u8 {
    fn buffer(decoder: &mut Decoder) -> &mut Vec<u8> {
        &mut decoder.bytes
    }
    #[inline(always)]
    fn store(_: &mut [u8], out: &mut [u8], fill: impl FnOnce(&mut [u8])) {
        fill(out);
    }
}

impl Stored for u16 {
    fn buffer(decoder: &mut Decoder) -> &mut Vec<u16> {
        &mut decoder.words
    }
    #[inline(always)]
    fn store(row: &mut [u16], out: &mut [u8], fill: impl FnOnce(&mut [u16])) {
        fill(row);
        for (out, v) in out.chunks_exact_mut(2).zip(row) {
            out.copy_from_slice(&v.to_ne_bytes());
        }
    }
}

impl Decoder {
    /// Forgets all tables, then reads those of a tables-only stream.
    pub(in super::super) fn load(&mut self, tables: Option<&[u8]>) -> Result<(), Cause> {
        *self = Self {
            bytes: std::mem::take(&mut self.bytes),
            words: std::mem::take(&mut self.words),
            coefficients: std::mem::take(&mut self.coefficients),
            ..Self::default()
        };
        let Some(tables) = tables else { return Ok(()) };
        let mut markers = Markers { data: tables, pos: 0 };
        while let Some((marker, body)) = markers.next()? {
            self.read_table(marker, body)?;
        }
        self.dirty = false;
        Ok(())
    }

    /// Whether an image brought tables of its own, so that those of [`Self::load`] must be read again.
    pub(in super::super) fn dirty(&self) -> bool {
        self.dirty
    }

    /// Decodes an image into samples of `size` bytes: 8 bits into bytes, 12 bits into native 16-bit words.
    pub(in super::super) fn decode(
        &mut self,
        data: &[u8],
        expected: Expected,
        size: usize,
        out: &mut [u8],
    ) -> Result<(), Cause> {
        let result = self.decode_markers(data, expected, size, out);
        shed(&mut self.bytes);
        shed(&mut self.words);
        shed(&mut self.coefficients);
        result
    }

    fn decode_markers(&mut self, data: &[u8], expected: Expected, size: usize, out: &mut [u8]) -> Result<(), Cause> {
        if data.first_chunk::<2>() != Some(&[0xFF, 0xD8]) {
            return Err(Cause::damaged("no JPEG stream begins here"));
        }
        let mut markers = Markers { data, pos: 2 };
        // Restart intervals hold for the image they stand in.
        self.restart = 0;
        let frame = loop {
            match markers.next()? {
                Some((marker @ (0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF), body)) => {
                    break Frame::read(marker, body, expected)?;
                }
                Some((0xDA, _)) => return Err(Cause::damaged("JPEG scan before the frame header")),
                Some((marker, body)) => self.read_table(marker, body)?,
                None => return Err(Cause::damaged("JPEG stream without an image")),
            }
        };
        match (frame.process, frame.precision) {
            (Process::Lossless, _) => lossless::decode(self, frame, markers, expected, out),
            (_, 8) if size == 1 => self.decode_frame::<u8>(frame, markers, expected, out),
            (_, 12) if size == 2 => self.decode_frame::<u16>(frame, markers, expected, out),
            (_, precision) => Err(Cause::damaged(format!("JPEG of {precision} bits in samples of {size} bytes"))),
        }
    }

    /// DQT, DHT, DRI; passes over all else.
    pub(super) fn read_table(&mut self, marker: u8, body: &[u8]) -> Result<(), Cause> {
        match marker {
            0xDB => self.read_quant(body)?,
            0xC4 => self.read_huffman(body)?,
            0xDD => {
                let interval = body.first_chunk::<2>().ok_or_else(short)?;
                self.restart = u16::from_be_bytes(*interval) as usize;
                return Ok(());
            }
            _ => return Ok(()),
        }
        self.dirty = true;
        Ok(())
    }

    fn read_quant(&mut self, mut body: &[u8]) -> Result<(), Cause> {
        while let [kind, rest @ ..] = body {
            let wide = kind >> 4 != 0;
            let size = if wide { 128 } else { 64 };
            let slot = self.quant.get_mut(*kind as usize & 15).ok_or_else(|| Cause::damaged("JPEG table number"))?;
            let (values, rest) = rest.split_at_checked(size).ok_or_else(short)?;
            let table = slot.insert([0; 64]);
            for (i, &place) in ZIGZAG[..64].iter().enumerate() {
                table[place as usize] =
                    if wide { u16::from_be_bytes([values[i * 2], values[i * 2 + 1]]) } else { values[i] as u16 };
            }
            body = rest;
        }
        Ok(())
    }

    fn read_huffman(&mut self, mut body: &[u8]) -> Result<(), Cause> {
        while let [kind, rest @ ..] = body {
            let (counts, rest) = rest.split_first_chunk::<16>().ok_or_else(short)?;
            let total: usize = counts.iter().map(|&n| n as usize).sum();
            let (symbols, rest) = rest.split_at_checked(total).ok_or_else(short)?;
            let tables = if kind >> 4 == 0 { &mut self.dc } else { &mut self.ac };
            let slot = tables.get_mut(*kind as usize & 15).ok_or_else(|| Cause::damaged("JPEG table number"))?;
            *slot = Some(Huffman::new(counts, symbols)?);
            body = rest;
        }
        Ok(())
    }

    fn decode_frame<S: Stored>(
        &mut self,
        mut frame: Frame,
        mut markers: Markers<'_>,
        expected: Expected,
        out: &mut [u8],
    ) -> Result<(), Cause> {
        let blocks: usize = frame.components.iter().map(|c| c.blocks.0 * c.blocks.1).sum();
        let progressive = frame.process == Process::Progressive;
        if progressive {
            self.coefficients.clear();
            self.coefficients.resize(blocks * 64, 0);
        }
        let mut planes = std::mem::take(S::buffer(self));
        planes.resize(blocks * 64, S::default());
        let mut scans = 0;
        while let Some((marker, body)) = markers.next()? {
            if marker != 0xDA {
                self.read_table(marker, body)?;
                continue;
            }
            scans += 1;
            if scans > MOST_SCANS {
                return Err(Cause::damaged("JPEG of too many scans"));
            }
            let scan = Scan::read(body, &frame)?;
            for &(c, ..) in &scan.parts {
                let component = &mut frame.components[c];
                if component.quant.is_none() {
                    component.quant = self.quant[component.q_table];
                }
            }
            let bits = Bits::new(markers.data, markers.pos);
            markers.pos = if progressive {
                self.refine(&frame, &scan, bits)?
            } else {
                vectors::run(ReadScan { decoder: self, frame: &frame, scan: &scan, bits, planes: &mut planes })?
            };
            if !progressive && frame.components.iter().all(|c| c.quant.is_some()) {
                break;
            }
        }
        if frame.components.iter().any(|c| c.quant.is_none()) {
            return Err(Cause::damaged("JPEG without the data of a component"));
        }
        if progressive {
            vectors::run(Finish { decoder: self, frame: &frame, planes: &mut planes });
        }
        vectors::run(Compose { frame: &frame, planes: &planes, expected, out });
        *S::buffer(self) = planes;
        Ok(())
    }

    /// One sequential scan, straight to samples.
    #[inline(always)]
    fn read_scan<S: Sample, V: Vectors>(
        &self,
        frame: &Frame,
        scan: &Scan,
        mut bits: Bits<'_>,
        planes: &mut [S],
    ) -> Result<usize, Cause> {
        if (scan.start, scan.end, scan.high, scan.low) != (0, 63, 0, 0) {
            return Err(Cause::damaged("JPEG scan of a part of the coefficients in a sequential image"));
        }
        let mut tables = Vec::with_capacity(scan.parts.len());
        for &(c, dc, ac) in &scan.parts {
            let component = &frame.components[c];
            let quant = component.quant.as_ref().ok_or_else(|| Cause::damaged("JPEG quantisation table is missing"))?;
            tables.push((component, quant, table(&self.dc, dc)?, table(&self.ac, ac)?));
        }
        let mut before = vec![0i32; tables.len()];
        let walk = Walk::new(frame, scan);
        let mut left = self.restart;
        for row in 0..walk.mcus.1 {
            for col in 0..walk.mcus.0 {
                if self.restart != 0 {
                    if left == 0 {
                        bits.restart()?;
                        before.fill(0);
                        left = self.restart;
                    }
                    left -= 1;
                }
                for (i, &(component, quant, dc, ac)) in tables.iter().enumerate() {
                    let (across, down) = walk.blocks(component);
                    let stride = component.stride();
                    for v in 0..down {
                        for h in 0..across {
                            let (x, y) = (col * across + h, row * down + v);
                            let out = &mut planes[component.first_block * 64 + y * 8 * stride + x * 8..];
                            let mut block = [0i16; 64];
                            let last = read_block(&mut bits, dc, ac, quant, &mut before[i], &mut block)?;
                            if last == 0 {
                                transform::inverse_flat(block[0], out, stride);
                            } else {
                                S::inverse::<V>(&block, out, stride);
                            }
                        }
                    }
                }
            }
            if bits.overrun() {
                return Err(Cause::damaged("JPEG data ends too soon"));
            }
        }
        Ok(bits.end())
    }

    /// One progressive scan.
    fn refine(&mut self, frame: &Frame, scan: &Scan, mut bits: Bits<'_>) -> Result<usize, Cause> {
        let dc_scan = scan.start == 0;
        let ordered = scan.start <= scan.end && scan.end <= 63 && scan.low <= 13 && scan.high <= 14;
        if !ordered || (dc_scan && scan.end != 0) || (!dc_scan && scan.parts.len() != 1) {
            return Err(Cause::damaged("JPEG scan with impossible parameters"));
        }
        let walk = Walk::new(frame, scan);
        let mut before = vec![0i32; scan.parts.len()];
        let mut run = 0u32;
        let mut left = self.restart;
        for row in 0..walk.mcus.1 {
            for col in 0..walk.mcus.0 {
                if self.restart != 0 {
                    if left == 0 {
                        bits.restart()?;
                        before.fill(0);
                        run = 0;
                        left = self.restart;
                    }
                    left -= 1;
                }
                for (i, &(c, dc, ac)) in scan.parts.iter().enumerate() {
                    let component = &frame.components[c];
                    let (across, down) = walk.blocks(component);
                    for v in 0..down {
                        for h in 0..across {
                            let (x, y) = (col * across + h, row * down + v);
                            let place = (component.first_block + y * component.blocks.0 + x) * 64;
                            let block = self.coefficients[place..].first_chunk_mut::<64>().ok_or_else(short)?;
                            match (dc_scan, scan.high) {
                                (true, 0) => {
                                    let (symbol, difference) = bits.symbol_and_value(table(&self.dc, dc)?)?;
                                    check_dc(symbol)?;
                                    before[i] = before[i].wrapping_add(difference);
                                    block[0] = (before[i] << scan.low) as i16;
                                }
                                (true, _) => block[0] |= (bits.bit() as i16) << scan.low,
                                (false, 0) => read_band(&mut bits, table(&self.ac, ac)?, scan, &mut run, block)?,
                                (false, _) => refine_band(&mut bits, table(&self.ac, ac)?, scan, &mut run, block)?,
                            }
                        }
                    }
                }
            }
            if bits.overrun() {
                return Err(Cause::damaged("JPEG data ends too soon"));
            }
        }
        Ok(bits.end())
    }

    /// Coefficients of a progressive image to samples.
    #[inline(always)]
    fn finish<S: Sample, V: Vectors>(&self, frame: &Frame, planes: &mut [S]) {
        for component in &frame.components {
            let Some(quant) = &component.quant else { continue };
            let stride = component.stride();
            for y in 0..component.blocks.1 {
                for x in 0..component.blocks.0 {
                    let place = (component.first_block + y * component.blocks.0 + x) * 64;
                    let stored = &self.coefficients[place..place + 64];
                    let block: Block = std::array::from_fn(|i| stored[i].wrapping_mul(quant[i] as i16));
                    let out = &mut planes[component.first_block * 64 + y * 8 * stride + x * 8..];
                    S::inverse::<V>(&block, out, stride);
                }
            }
        }
    }
}

/// [`Decoder::read_scan`], to be run with vectors.
struct ReadScan<'a, S> {
    decoder: &'a Decoder,
    frame: &'a Frame,
    scan: &'a Scan,
    bits: Bits<'a>,
    planes: &'a mut [S],
}

impl<S: Sample> Work for ReadScan<'_, S> {
    type Output = Result<usize, Cause>;
    #[inline(always)]
    fn run<V: Vectors>(self) -> Self::Output {
        self.decoder.read_scan::<S, V>(self.frame, self.scan, self.bits, self.planes)
    }
}

/// [`Decoder::finish`], to be run with vectors.
struct Finish<'a, S> {
    decoder: &'a Decoder,
    frame: &'a Frame,
    planes: &'a mut [S],
}

impl<S: Sample> Work for Finish<'_, S> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vectors>(self) {
        self.decoder.finish::<S, V>(self.frame, self.planes);
    }
}

/// [`compose`], to be run with vectors.
struct Compose<'a, S> {
    frame: &'a Frame,
    planes: &'a [S],
    expected: Expected,
    out: &'a mut [u8],
}

impl<S: Stored> Work for Compose<'_, S> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vectors>(self) {
        compose::<S, V>(self.frame, self.planes, self.expected, self.out);
    }
}

fn shed<T>(buffer: &mut Vec<T>) {
    if buffer.capacity() * size_of::<T>() > KEEP {
        *buffer = Vec::new();
    }
}

fn short() -> Cause {
    Cause::damaged("JPEG header ends too soon")
}

pub(super) fn table(tables: &[Option<Box<Huffman>>; 4], number: usize) -> Result<&Huffman, Cause> {
    let found = tables.get(number).and_then(|t| t.as_deref());
    found.ok_or_else(|| Cause::damaged("JPEG Huffman table is missing"))
}

#[inline(always)]
fn check_dc(symbol: u8) -> Result<(), Cause> {
    if symbol > 15 { Err(Cause::damaged("JPEG data with an impossible DC size")) } else { Ok(()) }
}

/// One block, dequantised. Gives the number of the last coefficient that came.
#[inline(always)]
fn read_block(
    bits: &mut Bits<'_>,
    dc: &Huffman,
    ac: &Huffman,
    quant: &[u16; 64],
    before: &mut i32,
    block: &mut Block,
) -> Result<usize, Cause> {
    let (symbol, difference) = bits.symbol_and_value(dc)?;
    check_dc(symbol)?;
    *before = before.wrapping_add(difference);
    block[0] = before.wrapping_mul(quant[0] as i32) as i16;
    let (mut k, mut last) = (1, 0);
    while k < 64 {
        let (symbol, value) = bits.symbol_and_value(ac)?;
        let run = symbol as usize >> 4;
        if symbol & 15 == 0 {
            if run != 15 {
                break;
            }
            k += 16;
            continue;
        }
        k += run;
        let place = place(k);
        block[place] = value.wrapping_mul(quant[place] as i32) as i16;
        last = k;
        k += 1;
    }
    Ok(last)
}

/// The coefficients of a band, first scan.
fn read_band(bits: &mut Bits<'_>, ac: &Huffman, scan: &Scan, run: &mut u32, block: &mut Block) -> Result<(), Cause> {
    if *run > 0 {
        *run -= 1;
        return Ok(());
    }
    let mut k = scan.start as usize;
    while k <= scan.end as usize {
        let symbol = bits.symbol(ac)?;
        let (zeros, size) = (symbol as u32 >> 4, symbol as u32 & 15);
        if size != 0 {
            k += zeros as usize;
            let value = super::huffman::extend(bits.take(size), size);
            block[place(k)] = (value << scan.low) as i16;
        } else if zeros == 15 {
            k += 15;
        } else {
            *run = (1 << zeros) - 1 + bits.take(zeros);
            break;
        }
        k += 1;
    }
    Ok(())
}

/// One more bit of the coefficients of a band.
fn refine_band(bits: &mut Bits<'_>, ac: &Huffman, scan: &Scan, run: &mut u32, block: &mut Block) -> Result<(), Cause> {
    let one = 1i16 << scan.low;
    let end = scan.end as usize;
    let mut k = scan.start as usize;
    if *run == 0 {
        while k <= end {
            let symbol = bits.symbol(ac)?;
            let (mut zeros, size) = (symbol as u32 >> 4, symbol & 15);
            let mut value = 0;
            if size == 0 {
                if zeros != 15 {
                    *run = (1 << zeros) + bits.take(zeros);
                    break;
                }
            } else {
                // The size is 1 whatever the data says: only the sign comes.
                value = if bits.bit() { one } else { -one };
            }
            while k <= end {
                let c = &mut block[place(k)];
                if *c != 0 {
                    correct(bits, c, one);
                } else if zeros == 0 {
                    break;
                } else {
                    zeros -= 1;
                }
                k += 1;
            }
            if value != 0 && k <= end {
                block[place(k)] = value;
            }
            k += 1;
        }
    }
    if *run > 0 {
        while k <= end {
            let c = &mut block[place(k)];
            if *c != 0 {
                correct(bits, c, one);
            }
            k += 1;
        }
        *run -= 1;
    }
    Ok(())
}

#[inline(always)]
fn correct(bits: &mut Bits<'_>, c: &mut i16, one: i16) {
    if bits.bit() && *c & one == 0 {
        *c = c.wrapping_add(if *c > 0 { one } else { -one });
    }
}

#[inline(always)]
fn place(k: usize) -> usize {
    ZIGZAG[k & 127] as usize & 63
}

/// Planes to pixels.
#[inline(always)]
fn compose<S: Stored, V: Vectors>(frame: &Frame, planes: &[S], expected: Expected, out: &mut [u8]) {
    let planes: Vec<Plane<'_, S>> = frame
        .components
        .iter()
        .map(|c| Plane {
            samples: &planes[c.first_block * 64..],
            stride: c.stride(),
            width: c.width,
            height: c.height,
            smooth: expected.smooth,
            scale: (frame.most.0 / c.sampling.0, frame.most.1 / c.sampling.1),
        })
        .collect();
    let (width, n) = (expected.width as usize, planes.len());
    let mut sums = Vec::new();
    let mut buffers: Vec<Vec<S>> = planes.iter().map(|_| Vec::new()).collect();
    let mut row = vec![S::default(); width * n];
    let bytes = width * n * size_of::<S>();
    for (y, out) in out.chunks_exact_mut(bytes).enumerate() {
        let mut rows: Vec<&[S]> = Vec::with_capacity(n);
        for (plane, buffer) in planes.iter().zip(&mut buffers) {
            rows.push(plane.pixels::<V>(y, &mut sums, buffer));
        }
        S::store(&mut row, out, |row| match rows[..] {
            [a, b, c] if expected.to_rgb => colour::to_rgb::<S, V>(a, b, c, row),
            _ => colour::interleave(&rows, row),
        });
    }
}

/// Which blocks a scan walks over: a scan of one component has no padding blocks and no MCUs of many blocks.
struct Walk {
    mcus: (usize, usize),
    alone: bool,
}

impl Walk {
    fn new(frame: &Frame, scan: &Scan) -> Self {
        match scan.parts[..] {
            [(c, ..)] => {
                let component = &frame.components[c];
                Self { mcus: (component.width.div_ceil(8), component.height.div_ceil(8)), alone: true }
            }
            _ => Self { mcus: frame.mcus, alone: false },
        }
    }

    #[inline(always)]
    fn blocks(&self, component: &Component) -> (usize, usize) {
        if self.alone { (1, 1) } else { component.sampling }
    }
}

impl Frame {
    fn read(marker: u8, body: &[u8], expected: Expected) -> Result<Self, Cause> {
        let process = match marker {
            0xC0 | 0xC1 => Process::Sequential,
            0xC2 => Process::Progressive,
            0xC3 => Process::Lossless,
            0xC9..=0xCB | 0xCD..=0xCF => return Err(Cause::unsupported("JPEG with arithmetic coding")),
            _ => return Err(Cause::unsupported("hierarchical JPEG")),
        };
        let (head, parts) = body.split_first_chunk::<6>().ok_or_else(short)?;
        let precision = head[0];
        let height = u16::from_be_bytes([head[1], head[2]]) as usize;
        let width = u16::from_be_bytes([head[3], head[4]]) as usize;
        check_size(width, height, expected)?;
        let count = head[5] as usize;
        if count != expected.components {
            let message = format!("JPEG of {count} components in a tile of {}", expected.components);
            return Err(Cause::damaged(message));
        }
        let parts = parts.get(..count * 3).ok_or_else(short)?;
        let mut components = Vec::with_capacity(count);
        for part in parts.chunks_exact(3) {
            let sampling = (part[1] as usize >> 4, part[1] as usize & 15);
            if !(1..=4).contains(&sampling.0) || !(1..=4).contains(&sampling.1) || part[2] > 3 {
                return Err(Cause::damaged("JPEG component with impossible parameters"));
            }
            components.push(Component {
                id: part[0],
                // Sampling means nothing where there is one component alone.
                sampling: if count == 1 { (1, 1) } else { sampling },
                q_table: part[2] as usize,
                quant: None,
                width: 0,
                height: 0,
                blocks: (0, 0),
                first_block: 0,
            });
        }
        let mut frame = Self { process, precision, width, height, components, most: (1, 1), mcus: (0, 0) };
        frame.lay_out()?;
        Ok(frame)
    }

    fn lay_out(&mut self) -> Result<(), Cause> {
        for c in &self.components {
            self.most = (self.most.0.max(c.sampling.0), self.most.1.max(c.sampling.1));
        }
        let most = self.most;
        self.mcus = (self.width.div_ceil(8 * most.0), self.height.div_ceil(8 * most.1));
        let mut first = 0;
        for c in &mut self.components {
            if !most.0.is_multiple_of(c.sampling.0) || !most.1.is_multiple_of(c.sampling.1) {
                return Err(Cause::unsupported("JPEG with fractional subsampling"));
            }
            c.width = (self.width * c.sampling.0).div_ceil(most.0);
            c.height = (self.height * c.sampling.1).div_ceil(most.1);
            c.blocks = (self.mcus.0 * c.sampling.0, self.mcus.1 * c.sampling.1);
            c.first_block = first;
            first += c.blocks.0 * c.blocks.1;
        }
        Ok(())
    }

    pub(super) fn is_subsampled(&self) -> bool {
        self.most != (1, 1)
    }
}

/// Refuses an image that does not cover the tile, and one so much larger that its header must be a lie.
fn check_size(width: usize, height: usize, expected: Expected) -> Result<(), Cause> {
    let (least_width, least_height) = (expected.width as usize, expected.rows as usize);
    let largest = (least_width * least_height).saturating_mul(4).max(1 << 16);
    if width < least_width || height < least_height || width * height > largest || width > 65500 || height > 65500 {
        let message = format!("JPEG of {width} x {height} pixels in a tile of {least_width} x {least_height}");
        return Err(Cause::damaged(message));
    }
    Ok(())
}

impl Scan {
    pub(super) fn read(body: &[u8], frame: &Frame) -> Result<Self, Cause> {
        let (&count, rest) = body.split_first().ok_or_else(short)?;
        let count = count as usize;
        let (parts, rest) = rest.split_at_checked(count * 2).ok_or_else(short)?;
        let rest = rest.first_chunk::<3>().ok_or_else(short)?;
        let mut scan = Self { parts: Vec::new(), start: rest[0], end: rest[1], high: rest[2] >> 4, low: rest[2] & 15 };
        for part in parts.chunks_exact(2) {
            let found = frame.components.iter().position(|c| c.id == part[0]);
            let c = found.ok_or_else(|| Cause::damaged("JPEG scan of a component that is not there"))?;
            if scan.parts.iter().any(|&(other, ..)| other == c) {
                return Err(Cause::damaged("JPEG scan that names a component twice"));
            }
            scan.parts.push((c, part[1] as usize >> 4, part[1] as usize & 15));
        }
        if scan.parts.is_empty() {
            return Err(Cause::damaged("JPEG scan of nothing"));
        }
        Ok(scan)
    }
}

/// Segments of a stream.
pub(super) struct Markers<'a> {
    pub(super) data: &'a [u8],
    pub(super) pos: usize,
}

impl<'a> Markers<'a> {
    /// The next segment and its body; `None` at EOI or where the data ends between segments.
    pub(super) fn next(&mut self) -> Result<Option<(u8, &'a [u8])>, Cause> {
        loop {
            let Some(rest) = self.data.get(self.pos..) else { return Ok(None) };
            // Bytes between segments mean nothing.
            let Some(skip) = rest.iter().position(|&b| b == 0xFF) else { return Ok(None) };
            let Some(&marker) = rest.get(skip + 1) else { return Ok(None) };
            self.pos += skip + 1;
            match marker {
                0xFF => continue,
                0x00 | 0x01 | 0xD0..=0xD8 => self.pos += 1,
                0xD9 => return Ok(None),
                _ => {
                    let rest = &rest[skip + 2..];
                    let length = u16::from_be_bytes(*rest.first_chunk::<2>().ok_or_else(short)?) as usize;
                    let body = rest.get(2..length).ok_or_else(short)?;
                    self.pos += 1 + length;
                    return Ok(Some((marker, body)));
                }
            }
        }
    }
}
