//! JPEG 2000: nvJPEG2000, a state and a stream for each tile in flight.
//!
//! The library says little of damaged data, so the head of every codestream and the chain of its parts are walked first:
//! what is cut off, larger than its tile or unusual is the host's matter.

use tiffjet::{DType, Layout};

use super::{Coded, LibraryRoute, Output, Submission, data_refused};
use crate::ffi::driver::Failure;
use crate::ffi::nvjpeg2k::{self, MOST_COMPONENTS, Plane, Sample};
use crate::kernels::{Spread, SpreadKind};
use crate::memory::Gpu;

/// JPEG 2000.
pub struct Jpeg2000;

/// Tiles that a thread gives to the library one after the other.
const AT_ONCE: usize = 2;

impl LibraryRoute for Jpeg2000 {
    fn codec(&self) -> &'static str {
        "jpeg2000"
    }

    fn library(&self) -> &'static str {
        nvjpeg2k::WANTED.name
    }

    fn absence(&self, gpu: &Gpu) -> Option<String> {
        gpu.jpeg2000().err().map(str::to_owned)
    }

    fn output(&self, layout: &Layout) -> Option<Output> {
        let format = &layout.format;
        (sample(format.dtype).is_some() && usize::from(format.samples) <= MOST_COMPONENTS).then_some(Output::Planes)
    }

    fn at_once(&self) -> usize {
        AT_ONCE
    }

    fn submit(&self, submission: &Submission<'_>) -> Result<(), Failure> {
        let Ok(states) = submission.gpu.jpeg2000() else { return Ok(()) };
        submission.tiles.iter().enumerate().try_for_each(|(i, tile)| {
            let Some(mut state) = data_refused(states.take(tile.length))? else { return Ok(()) };
            let outcome = decode(submission, i, tile, &mut state);
            if outcome.is_err() {
                // Nothing of it may write when its memory is given to somebody else.
                let _ = state.turn().stream().wait();
            }
            states.give_back(state);
            outcome
        })
    }
}

/// What the library makes of samples. It has no bytes with a sign.
fn sample(dtype: DType) -> Option<Sample> {
    match dtype {
        DType::UInt8 => Some(Sample::UInt8),
        DType::UInt16 => Some(Sample::UInt16),
        DType::Int8 | DType::Int16 => Some(Sample::Int16),
        _ => None,
    }
}

/// One tile: read, looked at, parsed and put into the state's stream.
fn decode(work: &Submission<'_>, i: usize, tile: &Coded<'_>, state: &mut nvjpeg2k::State) -> Result<(), Failure> {
    let format = &tile.plan.layout().format;
    let Some(sample) = sample(format.dtype) else { return Ok(()) };
    let input = state.turn().input(tile.length)?;
    if !(work.read)(i, input) || work.dry {
        return Ok(());
    }
    let Some(head) = Head::new(input).filter(|head| head.fits(tile)) else { return Ok(()) };
    let Some(components) = data_refused(state.parse(head.start, head.length))? else { return Ok(()) };
    // The library writes what it has read, not what was read here.
    let agreed = components.len() == head.components.len()
        && components.iter().zip(&head.components).all(|(seen, own)| {
            let size = (head.width.div_ceil(own.step.0), head.height.div_ceil(own.step.1));
            (seen.width, seen.height) == size
        });
    if !agreed {
        return Ok(());
    }
    let (planes, spreads) = targets(work, tile, &head, state)?;
    state.turn().stream().wait_for(work.after)?;
    if data_refused(state.decode(&planes, sample))?.is_some() {
        spreads.iter().try_for_each(|spread| work.gpu.kernels.spread(state.turn().stream(), spread))?;
        work.mark(state.turn().stream(), std::iter::once(tile.id))?;
    }
    // What the library began before it refused may still write.
    let done = state.turn().finish()?;
    work.lane.wait_for(done)
}

/// Where components go: to their planes, or first to memory of the state where they have to be spread or narrowed.
fn targets(
    work: &Submission<'_>,
    tile: &Coded<'_>,
    head: &Head,
    state: &mut nvjpeg2k::State,
) -> Result<(Vec<Plane>, Vec<Spread>), Failure> {
    let dtype = tile.plan.layout().format.dtype;
    let (width, height) = (head.width, head.height);
    let plane = u64::from(width) * u64::from(height) * dtype.size() as u64;
    let (size, kind) = match dtype {
        DType::UInt8 => (1, SpreadKind::Bytes),
        DType::Int8 => (2, SpreadKind::WordsToBytes),
        _ => (2, SpreadKind::Words),
    };
    // First the places in the spare memory, then where that is.
    let aside = |component: &Component| component.step != (1, 1) || kind == SpreadKind::WordsToBytes;
    let pitch = |component: &Component| width.div_ceil(component.step.0) * size;
    let bytes = |component: &Component| {
        (u64::from(pitch(component)) * u64::from(height.div_ceil(component.step.1))).next_multiple_of(256)
    };
    let needed: u64 = head.components.iter().filter(|component| aside(component)).map(bytes).sum();
    let mut spare = if needed > 0 { state.spare(work.gpu.pool(), needed as usize)? } else { 0 };
    let (mut planes, mut spreads) = (Vec::new(), Vec::new());
    for (output, component) in (0..).map(|c| tile.output + c * plane).zip(&head.components) {
        let (pitch, step) = (pitch(component), component.step);
        let address = if aside(component) { spare } else { output };
        planes.push(Plane { address, pitch: pitch as usize });
        if aside(component) {
            spreads.push(Spread { input: spare, output, pitch, width, height, step, kind });
            spare += bytes(component);
        }
    }
    Ok((planes, spreads))
}

/// What the head of a codestream says.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    /// Where the codestream begins in the data of the tile.
    start: usize,
    /// Its bytes.
    length: usize,
    width: u32,
    height: u32,
    components: Vec<Component>,
}

/// A component as the head has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Component {
    bits: u8,
    signed: bool,
    /// Columns and rows that share a sample.
    step: (u32, u32),
}

const SOC: u16 = 0xff4f;
const SIZ: u16 = 0xff51;
const COD: u16 = 0xff52;
const SOT: u16 = 0xff90;
const EOC: u16 = 0xffd9;
/// Markers of the main header that any decoder of the first part knows: CAP, COD, COC, TLM, PLM, QCD, QCC, RGN, POC, PPM,
/// CRG, COM.
const PLAIN: [u16; 12] = [0xff50, COD, 0xff53, 0xff55, 0xff57, 0xff5c, 0xff5d, 0xff5e, 0xff5f, 0xff60, 0xff63, 0xff64];

impl Head {
    /// Reads it; `None` for what the host shall decide.
    fn new(data: &[u8]) -> Option<Self> {
        let (start, length) = codestream(data)?;
        let stream = data.get(start..start.checked_add(length)?)?;
        if number(stream, 0, 2)? != u32::from(SOC) || number(stream, 2, 2)? != u32::from(SIZ) {
            return None;
        }
        let siz = Size::read(stream.get(6..4 + number(stream, 4, 2)? as usize)?)?;
        let end = chain(stream, 4 + number(stream, 4, 2)? as usize, siz.parts)?;
        Some(Self { start, length: end, width: siz.width, height: siz.height, components: siz.components })
    }

    /// Whether it is just the tile: nothing to cut off, nothing to clamp.
    fn fits(&self, tile: &Coded<'_>) -> bool {
        let format = &tile.plan.layout().format;
        let signed = matches!(format.dtype, DType::Int8 | DType::Int16);
        (self.width, self.height) == (format.width, tile.rows)
            && self.components.len() == usize::from(format.samples)
            && self.components.iter().all(|component| {
                component.signed == signed && (1..=format.dtype.size() * 8).contains(&usize::from(component.bits))
            })
    }
}

/// The marker segment SIZ.
struct Size {
    width: u32,
    height: u32,
    /// Tiles of the codestream.
    parts: u64,
    components: Vec<Component>,
}

impl Size {
    fn read(body: &[u8]) -> Option<Self> {
        let field = |i: usize| number(body, 2 + 4 * i, 4);
        let (width, height) = (field(0)?, field(1)?);
        let (across, down) = (field(4)?, field(5)?);
        // A grid that does not begin at its corner is legal, and nobody writes it into a tile.
        let origins = [field(2)?, field(3)?, field(6)?, field(7)?];
        if origins != [0; 4] || [width, height, across, down].contains(&0) {
            return None;
        }
        let count = number(body, 34, 2)? as usize;
        let components = body.get(36..)?.as_chunks::<3>().0;
        if components.len() != count || components.iter().any(|&[_, dx, dy]| dx == 0 || dy == 0) {
            return None;
        }
        Some(Self {
            width,
            height,
            parts: u64::from(width.div_ceil(across)) * u64::from(height.div_ceil(down)),
            components: components
                .iter()
                .map(|&[depth, dx, dy]| Component {
                    bits: (depth & 0x7f) + 1,
                    signed: depth & 0x80 != 0,
                    step: (dx.into(), dy.into()),
                })
                .collect(),
        })
    }
}

/// Where the codestream stands: the data themselves, or a box of a JP2 file that does nothing with its components.
fn codestream(data: &[u8]) -> Option<(usize, usize)> {
    if data.starts_with(&SOC.to_be_bytes()) {
        return Some((0, data.len()));
    }
    let mut boxes = Boxes { data, at: 0, end: data.len() };
    while let Some((kind, body)) = boxes.next()? {
        match &kind {
            b"jp2h" => {
                let mut inner = Boxes { data, at: body.0, end: body.1 };
                while let Some((kind, _)) = inner.next()? {
                    // A palette, or channels in another order.
                    if [*b"pclr", *b"cmap", *b"cdef"].contains(&kind) {
                        return None;
                    }
                }
            }
            b"jp2c" => return Some((body.0, body.1 - body.0)),
            _ => {}
        }
    }
    None
}

/// Boxes of a JP2 file, one after the other.
struct Boxes<'a> {
    data: &'a [u8],
    at: usize,
    end: usize,
}

impl Boxes<'_> {
    /// Kind, and first byte and end of the content of the next; `None` inside at the end, outside for what is no box.
    #[allow(clippy::type_complexity)] // one pair in another
    fn next(&mut self) -> Option<Option<([u8; 4], (usize, usize))>> {
        if self.at >= self.end {
            return Some(None);
        }
        let length = number(self.data, self.at, 4)? as usize;
        let kind: [u8; 4] = self.data.get(self.at + 4..self.at + 8)?.try_into().ok()?;
        let (head, length) = match length {
            0 => (8, self.end - self.at),
            1 => (16, usize::try_from(u64::from_be_bytes(self.data.get(self.at + 8..)?.first_chunk().copied()?)).ok()?),
            _ => (8, length),
        };
        let end = self.at.checked_add(length).filter(|&end| end <= self.end && length >= head)?;
        let body = (self.at + head, end);
        self.at = end;
        Some(Some((kind, body)))
    }
}

/// Walks from the main header over the chain of tile parts to the end of the codestream, which must be there; gives it.
fn chain(stream: &[u8], mut at: usize, parts: u64) -> Option<usize> {
    const SOT_BYTES: usize = 12;
    loop {
        let marker = number(stream, at, 2)? as u16;
        if marker == SOT {
            break;
        }
        if !PLAIN.contains(&marker) {
            return None;
        }
        let next = at.checked_add(2 + number(stream, at + 2, 2)?.max(2) as usize)?;
        if marker == COD && !is_coding_style(stream.get(at + 4..next)?) {
            return None;
        }
        at = next;
    }
    let mut seen = 0;
    loop {
        match number(stream, at, 2)? as u16 {
            SOT => {
                let length = number(stream, at + 6, 4)? as usize;
                // 0: up to the end of the codestream, in the last one.
                let next = if length == 0 { stream.len().checked_sub(2)? } else { at.checked_add(length)? };
                if next < at + SOT_BYTES || u64::from(number(stream, at + 4, 2)?) >= parts {
                    return None;
                }
                seen += 1;
                at = next;
            }
            EOC if seen >= parts => return Some(at + 2),
            _ => return None,
        }
    }
}

/// Whether the body of a COD segment is one that the standard knows. The library takes others for what they might have been.
fn is_coding_style(body: &[u8]) -> bool {
    const PRECINCTS: u8 = 1;
    let [style @ 0..=7, order, l0, l1, mixed, levels, across, down, _, transform, precincts @ ..] = body else {
        return false;
    };
    let sized = if style & PRECINCTS == 0 { 0 } else { usize::from(*levels) + 1 };
    let blocks = *across <= 8 && *down <= 8 && across + down <= 8;
    *order <= 4
        && [*l0, *l1] != [0, 0]
        && *mixed <= 1
        && *levels <= 32
        && blocks
        && *transform <= 1
        && precincts.len() == sized
}

/// A big-endian number of some bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    Some(bytes.get(at..at.checked_add(length)?)?.iter().fold(0, |n, &byte| n << 8 | u32::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiffjet::codec::{self, Plain, Settings, TileFormat};

    fn encoded(dtype: DType, samples: u16) -> Vec<u8> {
        let format = TileFormat::new(34712, (40, 24), samples, dtype);
        let bytes: Vec<u8> = (0..40 * 24 * usize::from(samples) * dtype.size()).map(|i| (i * 7) as u8).collect();
        let mut out = Vec::new();
        let plain = Plain { bytes: &bytes, rows: 24, format: &format, settings: &Settings::default() };
        codec::find(34712).unwrap().encode(&plain, &mut out).unwrap();
        out
    }

    fn boxed(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
        [&(body.len() as u32 + 8).to_be_bytes(), &kind[..], body].concat()
    }

    #[test]
    fn heads_are_read() {
        let data = encoded(DType::UInt8, 3);
        let head = Head::new(&data).unwrap();
        let plain = Component { bits: 8, signed: false, step: (1, 1) };
        assert_eq!((head.width, head.height, &head.components[..]), (40, 24, &[plain; 3][..]));
        assert_eq!((head.start, head.length), (0, data.len()));
        let head = Head::new(&encoded(DType::Int16, 1)).unwrap();
        assert_eq!(head.components, [Component { bits: 16, signed: true, step: (1, 1) }]);
    }

    #[test]
    fn bytes_behind_the_end_are_left_out_and_a_missing_end_is_seen() {
        let data = encoded(DType::UInt8, 1);
        let padded = [&data[..], &[0; 9]].concat();
        assert_eq!(Head::new(&padded).unwrap().length, data.len());
        for cut in 0..data.len() {
            assert_eq!(Head::new(&data[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn a_codestream_is_found_in_its_box_and_palettes_are_the_hosts_matter() {
        let data = encoded(DType::UInt8, 1);
        let plain =
            [boxed(b"jP  ", &[13, 10, 135, 10]), boxed(b"jp2h", &boxed(b"ihdr", &[0; 14])), boxed(b"jp2c", &data)];
        let head = Head::new(&plain.concat()).unwrap();
        assert_eq!((head.start, head.length), (plain.concat().len() - data.len(), data.len()));
        let palette = [boxed(b"jp2h", &boxed(b"pclr", &[0; 4])), boxed(b"jp2c", &data)];
        assert_eq!(Head::new(&palette.concat()), None);
    }

    #[test]
    fn coding_styles_that_the_standard_does_not_know_are_the_hosts_matter() {
        let data = encoded(DType::UInt8, 3);
        let at = data.windows(2).position(|pair| pair == COD.to_be_bytes()).unwrap() + 4;
        assert_eq!(data[at] & !7, 0);
        for (place, value) in [(0, 0x20), (1, 5), (4, 2), (5, 33), (6, 9), (7, 9), (9, 2)] {
            let mut other = data.clone();
            other[at + place] = value;
            assert_eq!(Head::new(&other), None, "{place}");
        }
        // With as many sizes of precincts as there are levels, and with one too few.
        let (short, long) = ([7, 0, 0, 1, 0, 2, 4, 4, 0, 0, 1, 2], [7, 0, 0, 1, 0, 2, 4, 4, 0, 0, 1, 2, 3]);
        assert!(!is_coding_style(&short) && is_coding_style(&long));
    }

    #[test]
    fn damaged_heads_are_no_panic() {
        let data = encoded(DType::UInt8, 3);
        let mut seed = 1u64;
        for _ in 0..20_000 {
            let mut bad = data.clone();
            for _ in 0..3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (seed >> 33) as usize % bad.len().min(120);
                bad[at] = (seed >> 20) as u8;
            }
            if let Some(head) = Head::new(&bad) {
                assert!(head.start + head.length <= bad.len());
            }
        }
    }
}
