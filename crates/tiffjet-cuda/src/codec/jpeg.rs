//! JPEG: nvJPEG, a batch of tiles at a time.
//!
//! What tiles leave to JPEGTables is put into each, so that the library sees whole images; colours are those that the
//! file names, whatever the markers say, so markers that speak of colours are left out. Baseline images in one scan go
//! this way; others are the host's. The library does not say where codes are damaged: they are gone through on the host while
//! the device decodes, and what it makes of damage is the host's to decide as well.

mod scan;

use tiffjet::codec::TileFormat;
use tiffjet::{DType, Layout};

use self::scan::{Codes, Scan};
use super::{Coded, LibraryRoute, Output, Submission, data_refused};
use crate::ffi::driver::Failure;
use crate::ffi::nvjpeg::{self, Picture, Shape};
use crate::memory::Gpu;

/// JPEG.
pub struct Jpeg;

/// Tiles of a batch: the library decodes many at once on the device, and few on the host.
const AT_ONCE: usize = 384;
/// What images in the input begin at a multiple of.
const ALIGNED: usize = 64;
/// PhotometricInterpretation YCbCr.
const YCBCR: u16 = 6;

impl LibraryRoute for Jpeg {
    fn codec(&self) -> &'static str {
        "jpeg"
    }

    fn library(&self) -> &'static str {
        nvjpeg::WANTED.name
    }

    fn absence(&self, gpu: &Gpu) -> Option<String> {
        gpu.jpeg().err().map(str::to_owned)
    }

    fn output(&self, layout: &Layout) -> Option<Output> {
        let format = &layout.format;
        match (format.dtype, format.samples) {
            (DType::UInt8, 3) if to_rgb(format) => Some(Output::Pixels),
            (DType::UInt8, 1 | 3) => Some(Output::Planes),
            _ => None,
        }
    }

    fn at_once(&self) -> usize {
        AT_ONCE
    }

    fn submit(&self, submission: &Submission<'_>) -> Result<(), Failure> {
        let Ok(states) = submission.gpu.jpeg() else { return Ok(()) };
        let Some(mut state) = data_refused(states.take(submission.tiles.iter().map(room).sum()))? else {
            return Ok(());
        };
        let outcome = decode(submission, &mut state);
        if outcome.is_err() {
            // Nothing of it may write when its memory is given to somebody else.
            let _ = state.turn().stream().wait();
        }
        states.give_back(state);
        outcome
    }
}

fn to_rgb(format: &TileFormat) -> bool {
    format.photometric == YCBCR && format.samples == 3
}

/// Room for a tile and what it may get from JPEGTables.
fn room(tile: &Coded<'_>) -> usize {
    let tables = tile.plan.layout().format.jpeg_tables.as_ref().map_or(0, |tables| tables.len());
    (tile.length + tables + 2).next_multiple_of(ALIGNED)
}

/// A batch: read, made whole, looked at, and put into the state's stream.
fn decode(work: &Submission<'_>, state: &mut nvjpeg::State) -> Result<(), Failure> {
    let shape = match work.output {
        Output::Pixels => Shape::Pixels,
        Output::Planes => Shape::Planes,
    };
    let mut found = read(work, state.turn().input(work.tiles.iter().map(room).sum())?);
    found.retain(|(_, picture)| state.agrees(picture, shape));
    let (ids, pictures): (Vec<u32>, Vec<Picture>) = found.into_iter().unzip();
    if pictures.is_empty() {
        return Ok(());
    }
    state.turn().stream().wait_for(work.after)?;
    if data_refused(state.decode(&pictures, shape))?.is_some() {
        // While the device is at it: pixels of damaged codes are nobody's.
        let sound = sound(state, &pictures, shape);
        work.mark(state.turn().stream(), ids.into_iter().zip(sound).filter(|(_, sound)| *sound).map(|(id, _)| id))?;
    }
    // What the library began before it refused may still write.
    let done = state.turn().finish()?;
    work.lane.wait_for(done)
}

/// Tiles that are worth a thread.
const SHARE: usize = 48;

/// For each image of a batch whether its codes are sound from the first to the last.
fn sound(state: &nvjpeg::State, pictures: &[Picture], shape: Shape) -> Vec<bool> {
    let image = |picture: &Picture| {
        let (width, height) = (picture.width as u32, picture.height as u32);
        let expected = Expected { width, height, components: picture.components, to_rgb: shape == Shape::Pixels };
        (state.bytes(picture), expected)
    };
    let images: Vec<(&[u8], Expected)> = pictures.iter().map(image).collect();
    let mut sound = vec![false; images.len()];
    let work = |images: &[(&[u8], Expected)], sound: &mut [bool]| {
        sound.iter_mut().zip(images).for_each(|(sound, (image, expected))| *sound = is_sound(image, expected));
    };
    if images.len() <= SHARE {
        work(&images, &mut sound);
        return sound;
    }
    std::thread::scope(|scope| {
        for (images, sound) in images.chunks(SHARE).zip(sound.chunks_mut(SHARE)) {
            // Without a thread for them these tiles keep their bad status, and are the host's.
            let _ = std::thread::Builder::new().spawn_scoped(scope, move || work(images, sound));
        }
    });
    sound
}

/// A tile, and its place in the input.
struct Piece<'a> {
    tile: usize,
    at: usize,
    out: &'a mut [u8],
}

/// Reads all tiles of a batch into the input; gives those that go on, each with the place of its status.
fn read(work: &Submission<'_>, mut input: &mut [u8]) -> Vec<(u32, Picture)> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    for (tile, coded) in work.tiles.iter().enumerate() {
        let (out, rest) = input.split_at_mut(room(coded));
        input = rest;
        pieces.push(Piece { tile, at, out });
        at += room(coded);
    }
    if pieces.len() <= SHARE {
        return pieces.into_iter().filter_map(|piece| read_one(work, piece)).collect();
    }
    // Threads of their own: one of the pool that waited for others of the pool would do their work meanwhile, and might
    // come upon what waits for this batch.
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        while !pieces.is_empty() {
            let share = pieces.split_off(pieces.len().saturating_sub(SHARE));
            let read = || share.into_iter().filter_map(|piece| read_one(work, piece)).collect::<Vec<_>>();
            // Without a thread for them these tiles keep their bad status, and are the host's.
            threads.extend(std::thread::Builder::new().spawn_scoped(scope, read));
        }
        let joined = threads.into_iter().rev().map(|thread| thread.join());
        joined.flat_map(|found| found.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

fn read_one(work: &Submission<'_>, Piece { tile, at, out }: Piece<'_>) -> Option<(u32, Picture)> {
    let coded = &work.tiles[tile];
    let mut raw = vec![0; coded.length];
    if !(work.read)(tile, &mut raw) || work.dry {
        return None;
    }
    let length = whole(&raw, coded, out)?;
    let format = &coded.plan.layout().format;
    let picture = Picture {
        bytes: at..at + length,
        output: coded.output,
        width: format.width as usize,
        height: coded.rows as usize,
        components: format.samples.into(),
    };
    Some((coded.id, picture))
}

/// Makes a tile's stream an image on its own in `out`; gives its bytes, or `None` for what the host shall decode.
fn whole(stream: &[u8], tile: &Coded<'_>, out: &mut [u8]) -> Option<usize> {
    let format = &tile.plan.layout().format;
    let expected =
        Expected { width: format.width, height: tile.rows, components: format.samples.into(), to_rgb: to_rgb(format) };
    complete(stream, format.jpeg_tables.as_deref(), &expected, out)
}

/// What an image must be.
struct Expected {
    width: u32,
    height: u32,
    components: usize,
    /// Chrominance may be shared by pixels.
    to_rgb: bool,
}

/// Bytes written one behind the other.
struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.out.get_mut(self.at..self.at + bytes.len())?.copy_from_slice(bytes);
        self.at += bytes.len();
        Some(())
    }

    fn segment(&mut self, marker: u8, body: &[u8]) -> Option<()> {
        self.put(&[0xff, marker])?;
        self.put(&u16::try_from(body.len() + 2).ok()?.to_be_bytes())?;
        self.put(body)
    }
}

/// Marker segments of a stream.
struct Segments<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Segments<'a> {
    const SOI: [u8; 2] = [0xff, 0xd8];

    fn new(data: &'a [u8]) -> Option<Self> {
        data.starts_with(&Self::SOI).then_some(Self { data, at: 2 })
    }

    /// The next one and its body, `None` outside for what is no segment. The end of an image has no body.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        while self.data.get(self.at) == Some(&0xff) && self.data.get(self.at + 1) == Some(&0xff) {
            self.at += 1; // fill bytes
        }
        let [0xff, marker, rest @ ..] = self.data.get(self.at..)? else { return None };
        if *marker == EOI {
            return Some((EOI, &[]));
        }
        let length = usize::from(u16::from_be_bytes(*rest.first_chunk()?));
        let body = rest.get(2..length)?;
        self.at += 2 + length;
        Some((*marker, body))
    }
}

const SOF0: u8 = 0xc0;
const SOF1: u8 = 0xc1;
const DHT: u8 = 0xc4;
const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;
const DQT: u8 = 0xdb;
const DRI: u8 = 0xdd;

/// The tables there are, the last of each number.
#[derive(Default)]
struct Tables<'a> {
    /// A bit for each.
    quant: u8,
    dc: [Option<&'a [u8]>; 4],
    ac: [Option<&'a [u8]>; 4],
}

impl<'a> Tables<'a> {
    /// Notes the tables of a segment; `None` when it is none that a decoder takes.
    fn note(&mut self, marker: u8, mut body: &'a [u8]) -> Option<()> {
        while let [kind, rest @ ..] = body {
            let number = usize::from(kind & 15);
            let length = match (marker, kind >> 4) {
                (DQT, 0) => 64,
                (DHT, 0 | 1) => 16 + rest.get(..16)?.iter().map(|&n| usize::from(n)).sum::<usize>(),
                _ => return None,
            };
            let table = rest.get(..length)?;
            match (marker, kind >> 4) {
                (DQT, _) => self.quant |= 1u8.checked_shl(number as u32).filter(|_| number < 4)?,
                (_, 0) => *self.dc.get_mut(number)? = Some(table),
                _ => *self.ac.get_mut(number)? = Some(table),
            }
            body = &rest[length..];
        }
        Some(())
    }
}

/// Puts an image together: tables of the file, its own, frame, scan.
fn complete(stream: &[u8], tables: Option<&[u8]>, expected: &Expected, out: &mut [u8]) -> Option<usize> {
    let mut out = Writer { out, at: 0 };
    let mut known = Tables::default();
    out.put(&Segments::SOI)?;
    if let Some(tables) = tables {
        let mut segments = Segments::new(tables)?;
        loop {
            match segments.next()? {
                (marker @ (DQT | DHT), body) => {
                    known.note(marker, body)?;
                    out.segment(marker, body)?;
                }
                (EOI, _) => break,
                // An interval of restarts holds for the image it stands in.
                _ => {}
            }
        }
    }
    let mut segments = Segments::new(stream)?;
    let mut frame: Option<Frame> = None;
    loop {
        match segments.next()? {
            (marker @ (DQT | DHT), body) => {
                known.note(marker, body)?;
                out.segment(marker, body)?;
            }
            (DRI, body) if body.len() == 2 => out.segment(DRI, body)?,
            (marker @ (SOF0 | SOF1), body) if frame.is_none() => {
                let (read, body) = Frame::read(body, expected)?;
                out.segment(marker, &body)?;
                frame = Some(read);
            }
            (SOS, body) => {
                out.segment(SOS, &read_scan(body, frame.as_ref()?, &known)?.1)?;
                break;
            }
            // Colours are named by the file, and a comment is a comment.
            (0xe0..=0xef | 0xfe, _) => {}
            _ => return None,
        }
    }
    let scan = stream.get(segments.at..)?;
    let end = scan_end(scan)?;
    out.put(&scan[..end])?;
    Some(out.at)
}

/// Whether the codes of an image that was put together are sound.
fn is_sound(image: &[u8], expected: &Expected) -> bool {
    walk(image, expected).is_some()
}

fn walk(image: &[u8], expected: &Expected) -> Option<()> {
    let mut known = Tables::default();
    let mut segments = Segments::new(image)?;
    let mut frame: Option<Frame> = None;
    let mut restart = 0;
    loop {
        match segments.next()? {
            (marker @ (DQT | DHT), body) => known.note(marker, body)?,
            (DRI, &[high, low]) => restart = usize::from(u16::from_be_bytes([high, low])),
            (SOF0 | SOF1, body) => frame = Some(Frame::read(body, expected)?.0),
            (SOS, body) => {
                let Frame { units, blocks, .. } = frame.as_ref()?;
                let tables = read_scan(body, frame.as_ref()?, &known)?.0;
                let data = image.get(segments.at..image.len().checked_sub(2)?)?;
                let mut codes: Vec<(Box<Codes>, Box<Codes>)> = Vec::new();
                let mut kinds: Vec<usize> = Vec::new();
                for (i, &(first, others)) in tables.iter().enumerate() {
                    // Colours share their tables mostly.
                    let same = tables[..i].iter().position(|&(a, b)| std::ptr::eq(a, first) && std::ptr::eq(b, others));
                    kinds.push(match same {
                        Some(before) => kinds[before],
                        None => {
                            codes.push((Codes::new(first, true)?, Codes::new(others, false)?));
                            codes.len() - 1
                        }
                    });
                }
                let blocks: Vec<(usize, usize)> = blocks.iter().map(|&c| (c, kinds[c])).collect();
                return Scan { data, units: *units, restart, blocks: &blocks, codes: &codes }.walk();
            }
            _ => return None,
        }
    }
}

/// Makes an image that stands on its own part of a file: tables that JPEGTables has already are left out, and so is what
/// markers say of colours. `None` for what is not such an image.
pub fn abbreviate(image: &[u8], tables: &[u8]) -> Option<Vec<u8>> {
    let mut shared = Vec::new();
    let mut segments = Segments::new(tables)?;
    loop {
        match segments.next()? {
            (marker @ (DQT | DHT), body) => each_table(marker, body, |table| shared.push((marker, table.to_vec())))?,
            (EOI, _) => break,
            _ => {}
        }
    }
    let mut out = vec![0; image.len() + 2];
    let mut writer = Writer { out: &mut out, at: 0 };
    writer.put(&Segments::SOI)?;
    let mut segments = Segments::new(image)?;
    let mut frames = 0;
    loop {
        match segments.next()? {
            (marker @ (DQT | DHT), body) => {
                let mut own = Vec::new();
                let known = |table: &[u8]| shared.iter().any(|(of, known)| *of == marker && known == table);
                each_table(marker, body, |table| {
                    if !known(table) {
                        own.extend_from_slice(table)
                    }
                })?;
                if !own.is_empty() {
                    writer.segment(marker, &own)?;
                }
            }
            (DRI, body) => writer.segment(DRI, body)?,
            (SOF0, body) => {
                frames += 1;
                writer.segment(SOF0, body)?;
            }
            (SOS, body) if frames == 1 => {
                writer.segment(SOS, body)?;
                break;
            }
            (0xe0..=0xef | 0xfe, _) => {}
            _ => return None,
        }
    }
    let scan = image.get(segments.at..)?;
    writer.put(&scan[..scan_end(scan)?])?;
    let length = writer.at;
    out.truncate(length);
    Some(out)
}

/// Hands over the tables of a segment one by one, each with its number; `None` where they do not fill it.
fn each_table(marker: u8, mut body: &[u8], mut take: impl FnMut(&[u8])) -> Option<()> {
    while let [kind, rest @ ..] = body {
        let length = match (marker, kind >> 4) {
            (DQT, 0) => 65,
            (DQT, 1) => 129,
            (DHT, 0 | 1) => 17 + rest.get(..16)?.iter().map(|&n| usize::from(n)).sum::<usize>(),
            _ => return None,
        };
        take(body.get(..length)?);
        body = &body[length..];
    }
    Some(())
}

struct Component {
    id: u8,
    quant: u8,
}

/// What a frame says.
struct Frame {
    components: Vec<Component>,
    /// Units of a scan of all components, and for each block of one its component.
    units: usize,
    blocks: Vec<usize>,
}

impl Frame {
    /// Of 8 bits in the expected size, with its components numbered from 1: a number can mean a colour.
    fn read(body: &[u8], expected: &Expected) -> Option<(Self, Vec<u8>)> {
        let [8, h0, h1, w0, w1, count, rest @ ..] = body else { return None };
        let size = (u32::from(u16::from_be_bytes([*w0, *w1])), u32::from(u16::from_be_bytes([*h0, *h1])));
        let parts = rest.as_chunks::<3>().0;
        let counted = usize::from(*count) == expected.components && parts.len() == expected.components;
        if size != (expected.width, expected.height) || !counted || rest.len() != 3 * parts.len() {
            return None;
        }
        let sampling: Vec<u8> = parts.iter().map(|part| part[1]).collect();
        let usual = match sampling[..] {
            // Alone it has one block after the other, but the host's decoder looks at them.
            [factors] => (1..=4).contains(&(factors >> 4)) && (1..=4).contains(&(factors & 15)),
            [0x11 | 0x12 | 0x21 | 0x22 | 0x41, 0x11, 0x11] if expected.to_rgb => true,
            [0x11, 0x11, 0x11] => true,
            _ => false,
        };
        if !usual {
            return None;
        }
        let mut new = body[..6].to_vec();
        for (i, &[_, sampling, quant]) in parts.iter().enumerate() {
            // One component alone has one block after the other, whatever its factors are.
            new.extend([i as u8 + 1, if parts.len() == 1 { 0x11 } else { sampling }, quant]);
        }
        let factors = if parts.len() == 1 { 0x11 } else { sampling[0] };
        let (h, v) = (u32::from(factors >> 4), u32::from(factors & 15));
        let units = expected.width.div_ceil(8 * h) as usize * expected.height.div_ceil(8 * v) as usize;
        // Colours have one block each.
        let blocks = (0..h * v).map(|_| 0).chain(1..parts.len()).collect();
        let components = parts.iter().map(|&[id, _, quant]| Component { id, quant }).collect();
        Some((Self { components, units, blocks }, new))
    }
}

/// Tables of the components, the first coefficient's and the others'.
type ScanTables<'a> = Vec<(&'a [u8], &'a [u8])>;

/// One scan of all components in order, with tables that are there; and its header with new numbers.
fn read_scan<'a>(body: &[u8], frame: &Frame, known: &Tables<'a>) -> Option<(ScanTables<'a>, Vec<u8>)> {
    let (&count, rest) = body.split_first()?;
    let components = &frame.components;
    let (parts, end) = rest.as_chunks::<2>();
    let (parts, last) = (parts.get(..components.len())?, rest.get(2 * components.len()..)?);
    if usize::from(count) != components.len() || last != [0, 63, 0] || end.len() != 1 {
        return None;
    }
    let mut new = vec![count];
    let mut found = Vec::new();
    for (i, (&[id, tables], component)) in parts.iter().zip(components).enumerate() {
        let quantised = component.quant < 4 && known.quant >> component.quant & 1 == 1;
        if id != component.id || !quantised {
            return None;
        }
        let table = |of: &[Option<&'a [u8]>; 4], number: u8| *of.get(usize::from(number))?;
        found.push((table(&known.dc, tables >> 4)?, table(&known.ac, tables & 15)?));
        new.extend([i as u8 + 1, tables]);
    }
    new.extend(last);
    Some((found, new))
}

/// Where the data of a scan end, their last marker included: the end of the image must be the only one but for restarts.
fn scan_end(scan: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += scan.get(at..)?.iter().position(|&byte| byte == 0xff)?;
        match scan.get(at + 1)? {
            0 | 0xd0..=0xd7 => at += 2,
            0xff => at += 1,
            &EOI => return Some(at + 2),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tiffjet::codec::{self, Encoded, Plain, Settings};

    fn format(samples: u16, photometric: u16, subsampling: (u8, u8)) -> TileFormat {
        let mut format = TileFormat::new(7, (48, 32), samples, DType::UInt8);
        (format.photometric, format.subsampling) = (photometric, subsampling);
        codec::find(7).unwrap().prepare(&mut format, &Settings::default()).unwrap();
        format
    }

    fn encoded(format: &TileFormat) -> Vec<u8> {
        let bytes: Vec<u8> = (0..48 * 32 * usize::from(format.samples)).map(|i| (i * i / 300) as u8).collect();
        let mut out = Vec::new();
        let plain = Plain { bytes: &bytes, rows: 32, format, settings: &Settings::default() };
        codec::find(7).unwrap().encode(&plain, &mut out).unwrap();
        out
    }

    fn expected(format: &TileFormat) -> Expected {
        Expected { width: 48, height: 32, components: format.samples.into(), to_rgb: to_rgb(format) }
    }

    fn completed(stream: &[u8], format: &TileFormat) -> Option<Vec<u8>> {
        let mut out = vec![0; stream.len() + 2000];
        let length = complete(stream, format.jpeg_tables.as_deref(), &expected(format), &mut out)?;
        out.truncate(length);
        Some(out)
    }

    fn decoded(stream: &[u8], format: &TileFormat) -> Vec<u8> {
        let mut out = vec![0; 48 * 32 * usize::from(format.samples)];
        codec::find(7).unwrap().decode(&Encoded { bytes: stream, rows: 32, index: 0, format }, &mut out).unwrap();
        out
    }

    #[test]
    fn an_abbreviated_stream_becomes_an_image_of_its_own() {
        for (samples, photometric, subsampling) in
            [(3, 6, (2, 2)), (3, 6, (1, 1)), (3, 6, (2, 1)), (3, 2, (1, 1)), (1, 1, (1, 1))]
        {
            let format = format(samples, photometric, subsampling);
            let stream = encoded(&format);
            let image = completed(&stream, &format).unwrap();
            assert!(is_sound(&image, &expected(&format)));
            let alone = TileFormat { jpeg_tables: None, ..format.clone() };
            assert_eq!(decoded(&image, &alone), decoded(&stream, &format), "{samples} {photometric}");
            // What is whole already stays as it is.
            assert_eq!(completed(&image, &alone).as_deref(), Some(&image[..]));
        }
    }

    #[test]
    fn markers_about_colours_are_left_out_and_components_numbered() {
        let format = format(3, 2, (1, 1));
        let image = completed(&encoded(&format), &format).unwrap();
        let mut named = [&image[..2], b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x01", &image[2..]].concat();
        let at = named.windows(2).position(|pair| pair == [0xff, SOF0]).unwrap();
        let scan = named.windows(2).position(|pair| pair == [0xff, SOS]).unwrap();
        for (i, id) in b"RGB".iter().enumerate() {
            named[at + 10 + 3 * i] = *id;
            named[scan + 5 + 2 * i] = *id;
        }
        let alone = TileFormat { jpeg_tables: None, ..format };
        assert_eq!(completed(&named, &alone), Some(image));
    }

    #[test]
    fn what_is_cut_off_or_unusual_is_the_hosts_matter() {
        let format = format(3, 6, (2, 2));
        let stream = encoded(&format);
        for cut in 0..stream.len() {
            assert_eq!(completed(&stream[..cut], &format), None, "{cut}");
        }
        let without = TileFormat { jpeg_tables: None, ..format.clone() };
        assert_eq!(completed(&stream, &without), None);
        let tables: Arc<[u8]> = Arc::from(&b"\xff\xd8"[..]);
        assert_eq!(completed(&stream, &TileFormat { jpeg_tables: Some(tables), ..format.clone() }), None);
        let at = stream.windows(2).position(|pair| pair == [0xff, SOF0]).unwrap();
        for (place, value) in [(1, 0xc2), (1, 0xc3), (4, 12), (6, 31), (8, 47), (11, 0x14)] {
            let mut other = stream.clone();
            other[at + place] = value;
            assert_eq!(completed(&other, &format), None, "{place}");
        }
    }

    #[test]
    fn damaged_streams_are_no_panic() {
        let format = format(3, 6, (2, 2));
        let stream = encoded(&format);
        let mut seed = 1u64;
        for _ in 0..20_000 {
            let mut bad = stream.clone();
            for _ in 0..3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (seed >> 33) as usize % bad.len();
                bad[at] = (seed >> 20) as u8;
            }
            let _ = completed(&bad, &format);
        }
    }

    #[test]
    fn what_goes_to_the_library_is_what_the_host_takes() {
        let mut random = 7u64;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % below
        };
        let mut taken = 0;
        for (samples, photometric, subsampling) in [(3, 6, (2, 2)), (3, 6, (1, 1)), (1, 1, (1, 1))] {
            let format = format(samples, photometric, subsampling);
            let good = encoded(&format);
            for _ in 0..4000 {
                let mut bad = good.clone();
                match next(4) {
                    0 => drop(bad.drain(40..40 + next(60))),
                    _ => (0..1 + next(2)).for_each(|_| {
                        let at = next(bad.len());
                        bad[at] ^= 1 << next(8);
                    }),
                }
                if completed(&bad, &format).is_some_and(|image| is_sound(&image, &expected(&format))) {
                    taken += 1;
                    let mut out = vec![0; 48 * 32 * usize::from(format.samples)];
                    let tile = Encoded { bytes: &bad, rows: 32, index: 0, format: &format };
                    codec::find(7).unwrap().decode(&tile, &mut out).unwrap();
                }
            }
        }
        assert!(taken > 100, "some damage cannot be seen: {taken}");
    }

    #[test]
    fn restarts_stand_where_they_must() {
        let mut narrow = format(1, 1, (1, 1));
        (narrow.width, narrow.height) = (8, 8);
        let scan = |seed: u8| {
            let bytes: Vec<u8> = (0..64).map(|i| i * seed).collect();
            let mut out = Vec::new();
            let plain = Plain { bytes: &bytes, rows: 8, format: &narrow, settings: &Settings::default() };
            codec::find(7).unwrap().encode(&plain, &mut out).unwrap();
            let start = out.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap();
            let head = usize::from(u16::from_be_bytes([out[start + 2], out[start + 3]]));
            (
                out[..start].to_vec(),
                out[start..start + 2 + head].to_vec(),
                out[start + 2 + head..out.len() - 2].to_vec(),
            )
        };
        let (mut head, sos, first) = scan(1);
        let second = scan(3).2;
        let width = head.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap() + 8;
        head[width] = 16;
        let image = |interval: u8, marker: &[u8]| {
            [&head[..], &[0xff, DRI, 0, 4, 0, interval], &sos, &first, marker, &second, &[0xff, EOI]].concat()
        };
        let expected = Expected { width: 16, height: 8, components: 1, to_rgb: false };
        let complete = |stream: &[u8]| {
            let mut out = vec![0; stream.len() + 2000];
            let length = complete(stream, narrow.jpeg_tables.as_deref(), &expected, &mut out);
            length.is_some_and(|length| is_sound(&out[..length], &expected))
        };
        assert!(complete(&image(1, &[0xff, 0xd0])));
        for (interval, marker) in [(1, &[0xff, 0xd1][..]), (0, &[0xff, 0xd0]), (2, &[0xff, 0xd0]), (1, &[])] {
            assert!(!complete(&image(interval, marker)), "{interval} {marker:?}");
        }
    }

    #[test]
    fn tables_that_a_file_has_are_left_out_and_others_stay() {
        let whole = format(3, 6, (2, 2));
        let alone = TileFormat { jpeg_tables: None, ..whole.clone() };
        let (part, image) = (encoded(&whole), encoded(&alone));
        let tables = whole.jpeg_tables.clone().unwrap();
        assert_eq!(abbreviate(&image, &tables).unwrap(), part);
        // Of a grey file only the tables of grey are known.
        let grey = format(1, 1, (1, 1)).jpeg_tables.unwrap();
        let kept = abbreviate(&image, &grey).unwrap();
        assert!(part.len() < kept.len() && kept.len() < image.len());
        let format = TileFormat { jpeg_tables: Some(grey), ..whole.clone() };
        assert_eq!(decoded(&kept, &format), decoded(&part, &whole));
        for cut in [0, 1, 2, 20, image.len() / 2, image.len() - 1] {
            assert_eq!(abbreviate(&image[..cut], &tables), None);
        }
    }
}
