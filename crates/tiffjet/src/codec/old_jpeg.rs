//! Old-style JPEG (TIFF 6.0): the tables are in tags or in a header that the tiles share, and each tile is an
//! entropy-coded segment of its own.

use std::sync::OnceLock;

use super::jpeg::{Decoder, Expected, check_out};
use super::{Cause, Codec, Conversion, Encoded, TileFormat, Unit};

/// Old-style JPEG (TIFF 6.0).
#[derive(Debug)]
pub struct OldJpegCodec;

/// Tags of old-style JPEG.
#[derive(Debug, Clone)]
pub struct OldJpeg {
    /// Bytes of the JPEG interchange stream (513, 514), where the file has one, cut at the end of the file.
    pub interchange: Option<Vec<u8>>,
    /// Quantisation tables (519), one of 64 bytes a component.
    pub q_tables: Vec<Vec<u8>>,
    /// DC Huffman tables (520): 16 counts, then the symbols.
    pub dc_tables: Vec<Vec<u8>>,
    /// AC Huffman tables (521): 16 counts, then the symbols.
    pub ac_tables: Vec<Vec<u8>>,
    /// JPEGProc (512): 1 baseline, 14 lossless.
    pub process: u16,
    /// JPEGRestartInterval (515), in MCUs.
    pub restart_interval: u16,
    /// Width and height of the whole image, for streams that are cut into strips.
    pub image: (u32, u32),
    /// What is worked out once, when the first strip is asked for.
    pub once: Once,
}

/// What all strips share.
#[derive(Debug, Clone, Default)]
pub struct Once {
    header: OnceLock<Result<Header, Cause>>,
    /// The whole image, where the interchange stream has it in one piece.
    whole: OnceLock<Result<Vec<u8>, Cause>>,
}

impl Default for OldJpeg {
    fn default() -> Self {
        Self {
            interchange: None,
            q_tables: Vec::new(),
            dc_tables: Vec::new(),
            ac_tables: Vec::new(),
            process: 1,
            restart_interval: 0,
            image: (0, 0),
            once: Once::default(),
        }
    }
}

impl Codec for OldJpegCodec {
    fn name(&self) -> &'static str {
        "old-jpeg"
    }

    fn compression(&self) -> &'static [u16] {
        &[6]
    }

    fn unit(&self) -> Unit {
        Unit::Samples
    }

    fn decode(&self, tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
        let format = tile.format;
        check_out(tile, out)?;
        let tags = format.old_jpeg.as_deref().ok_or_else(|| Cause::damaged("old-style JPEG without its tags"))?;
        if tags.process != 1 && tags.interchange.is_none() {
            return Err(Cause::unsupported(format!("old-style JPEG of process {}", tags.process)));
        }
        component_count(format)?;
        let header = tags.once.header.get_or_init(|| match &tags.interchange {
            Some(stream) => Header::read(stream),
            None => Ok(Header::default()),
        });
        let header = header.as_ref().map_err(Clone::clone)?;
        if header.holds_all(tile, tags) {
            let whole = tags.once.whole.get_or_init(|| decode_whole(tile, tags, header));
            let whole = whole.as_ref().map_err(Clone::clone)?;
            let start = tile.index as usize * format.height as usize * format.row_samples_bytes();
            let strip = whole.get(start..).and_then(|rest| rest.get(..out.len()));
            out.copy_from_slice(strip.ok_or_else(|| Cause::damaged("old-style JPEG ends before the strip"))?);
        } else {
            decode_stream(&assemble(tile, tags, header)?, format, tile.rows, out)?;
        }
        if format.photometric == 6 && format.samples == 3 && format.dtype.size() == 1 {
            let conversion = Conversion::new(&format.chroma);
            for pixel in out.as_chunks_mut::<3>().0 {
                *pixel = conversion.rgb(*pixel);
            }
        }
        Ok(())
    }
}

fn decode_stream(stream: &[u8], format: &TileFormat, rows: u32, out: &mut [u8]) -> Result<(), Cause> {
    let components = format.samples as usize;
    let expected = Expected { width: format.width, rows, components, to_rgb: false, smooth: false };
    Decoder::default().decode(stream, expected, format.dtype.size(), out)
}

/// The image of the interchange stream, whose size is that of the tags.
fn decode_whole(tile: &Encoded<'_>, tags: &OldJpeg, header: &Header) -> Result<Vec<u8>, Cause> {
    let whole = Encoded { bytes: &header.data, rows: tags.image.1, ..*tile };
    let length = tile.format.row_samples_bytes().saturating_mul(tags.image.1 as usize);
    let mut out = Vec::new();
    out.try_reserve_exact(length)
        .map_err(|_| Cause::damaged(format!("old-style JPEG of {length} bytes in one piece")))?;
    out.resize(length, 0);
    decode_stream(&assemble(&whole, tags, header)?, tile.format, tags.image.1, &mut out)?;
    Ok(out)
}

/// A whole JPEG stream for one tile.
fn assemble(tile: &Encoded<'_>, tags: &OldJpeg, header: &Header) -> Result<Vec<u8>, Cause> {
    const SOI: [u8; 2] = [0xFF, 0xD8];
    let mut out = SOI.to_vec();
    out.extend_from_slice(&header.tables);
    if header.tables.is_empty() {
        write_tables(tags, &mut out)?;
    }
    // The tile may be a whole stream, which says the rest itself.
    if let Some(rest) = tile.bytes.strip_prefix(&SOI) {
        out.extend_from_slice(rest);
        return Ok(out);
    }
    write_frame(tile, tags, header, &mut out)?;
    // It may begin with the scan header, in the first strip alone.
    let (scan, data) = match *tile.bytes {
        [0xFF, 0xDA, a, b, ..] => {
            let end = 2 + u16::from_be_bytes([a, b]) as usize;
            let split = tile.bytes.split_at_checked(end);
            let (head, data) = split.ok_or_else(|| Cause::damaged("old-style JPEG scan header ends too soon"))?;
            (head.get(4..), data)
        }
        _ => (header.scan.as_deref(), tile.bytes),
    };
    match scan.and_then(|scan| scan.split_last_chunk::<3>()) {
        // Some writers leave the band of coefficients empty: baseline has but one.
        Some((parts, _)) => segment(&mut out, 0xDA, &[parts, &[0, 63, 0]].concat())?,
        None => write_scan(tile.format, tags, header, &mut out)?,
    }
    out.extend_from_slice(data);
    out.extend([0xFF, 0xD9]);
    Ok(out)
}

/// What the interchange stream says before its data.
#[derive(Debug, Clone, Default)]
struct Header {
    /// DQT, DHT and DRI, markers included.
    tables: Vec<u8>,
    frame: Option<Vec<u8>>,
    scan: Option<Vec<u8>>,
    /// What follows the scan header.
    data: Vec<u8>,
}

impl Header {
    /// Whether the stream is an image of the size of the tags in one piece, so that the strips are but cuts of it.
    fn holds_all(&self, tile: &Encoded<'_>, tags: &OldJpeg) -> bool {
        let size = |frame: &[u8]| match *frame {
            [_, a, b, c, d, ..] => Some((u16::from_be_bytes([c, d]) as u32, u16::from_be_bytes([a, b]) as u32)),
            _ => None,
        };
        let same = self.frame.as_deref().and_then(size) == Some(tags.image);
        same && !self.data.is_empty() && tile.format.width == tags.image.0 && tags.image.1 > 0
    }

    fn read(stream: &[u8]) -> Result<Self, Cause> {
        let mut header = Self::default();
        let mut rest = stream.strip_prefix(&[0xFF, 0xD8]).unwrap_or(stream);
        while let [0xFF, marker, a, b, ..] = *rest {
            let length = u16::from_be_bytes([a, b]) as usize;
            // A header that breaks off has said what it has to say: the tags may have the rest.
            let Some(body) = rest.get(4..2 + length) else { break };
            match marker {
                0xDB | 0xC4 | 0xDD => segment(&mut header.tables, marker, body)?,
                0xC0 | 0xC1 => header.frame = Some(body.to_vec()),
                0xC2..=0xCF => return Err(Cause::unsupported("old-style JPEG that is not baseline")),
                0xDA => {
                    header.scan = Some(body.to_vec());
                    header.data = rest[2 + length..].to_vec();
                    break;
                }
                _ => {}
            }
            rest = &rest[2 + length..];
        }
        Ok(header)
    }
}

fn segment(out: &mut Vec<u8>, marker: u8, body: &[u8]) -> Result<(), Cause> {
    let length = u16::try_from(body.len() + 2).map_err(|_| Cause::damaged("old-style JPEG table is too long"))?;
    out.extend([0xFF, marker]);
    out.extend(length.to_be_bytes());
    out.extend_from_slice(body);
    Ok(())
}

/// The tables of the tags, each under the number of its component; the last serves for those that follow.
fn write_tables(tags: &OldJpeg, out: &mut Vec<u8>) -> Result<(), Cause> {
    let kinds = [(0xDB, 0, &tags.q_tables), (0xC4, 0, &tags.dc_tables), (0xC4, 0x10, &tags.ac_tables)];
    for (marker, class, tables) in kinds {
        for (i, table) in (0u8..4).zip(tables) {
            let mut body = vec![class | i];
            body.extend_from_slice(table);
            segment(out, marker, &body)?;
        }
    }
    if tags.restart_interval != 0 {
        segment(out, 0xDD, &tags.restart_interval.to_be_bytes())?;
    }
    Ok(())
}

/// SOF0 of the tile's size.
fn write_frame(tile: &Encoded<'_>, tags: &OldJpeg, header: &Header, out: &mut Vec<u8>) -> Result<(), Cause> {
    let format = tile.format;
    let large = || Cause::damaged("old-style JPEG of a tile that is too large");
    let height = u16::try_from(tile.rows).map_err(|_| large())?.to_be_bytes();
    let width = u16::try_from(format.width).map_err(|_| large())?.to_be_bytes();
    let mut body = vec![8, height[0], height[1], width[0], width[1]];
    match &header.frame {
        Some(frame) => body.extend_from_slice(frame.get(5..).unwrap_or_default()),
        None => {
            let count = component_count(format)?;
            body.push(count);
            for i in 0..count {
                let (h, v) = if i == 0 && count == 3 { format.subsampling } else { (1, 1) };
                let last = (tags.q_tables.len().clamp(1, 4) - 1) as u8;
                body.extend([i + 1, h << 4 | (v & 15), i.min(last)]);
            }
        }
    }
    segment(out, 0xC0, &body)
}

/// SOS where none is given.
fn write_scan(format: &TileFormat, tags: &OldJpeg, header: &Header, out: &mut Vec<u8>) -> Result<(), Cause> {
    let count = component_count(format)?;
    // A stream's own tables are two, for brightness and colour; tags have one a component.
    let of_stream = !header.tables.is_empty();
    let last = |tables: &[Vec<u8>]| if of_stream { 1 } else { (tables.len().clamp(1, 4) - 1) as u8 };
    let mut body = vec![count];
    for i in 0..count {
        let (dc, ac) = (i.min(last(&tags.dc_tables)), i.min(last(&tags.ac_tables)));
        body.extend([i + 1, dc << 4 | ac]);
    }
    body.extend([0, 63, 0]);
    segment(out, 0xDA, &body)
}

fn component_count(format: &TileFormat) -> Result<u8, Cause> {
    match format.samples {
        n @ 1..=4 => Ok(n as u8),
        n => Err(Cause::unsupported(format!("old-style JPEG of {n} samples"))),
    }
}
