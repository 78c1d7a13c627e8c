//! The plainest decoder that is right: one value at a time, no shortcut, no care for speed.
//!
//! It reads what [`Tiff`](crate::Tiff) can write, apart from compressions a caller brings along.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use crate::field::Order;
use crate::sample::{Format, Kind};
use crate::tag;

/// What a file may ask for: this is a decoder of small files.
const MAX_SAMPLES: u64 = 1 << 24;
const MAX_DEPTH: usize = 64;

/// One image of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bands.
    pub samples: u16,
    /// Type of a value in memory, as [`Format::dtype`] names it.
    pub dtype: &'static str,
    /// NewSubfileType.
    pub subfile_type: u32,
    /// For a SubIFD, the number of the level it hangs on.
    pub parent: Option<usize>,
    /// Band after band, row after row, little-endian.
    pub bytes: Vec<u8>,
}

/// One tag as the file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Field type.
    pub field: u16,
    /// The values, byte order of the file.
    pub bytes: Vec<u8>,
    order: Order,
}

/// One directory as the file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Directory {
    /// Where it starts.
    pub offset: u64,
    /// For a SubIFD, the number of the directory it hangs on.
    pub parent: Option<usize>,
    /// Its tags.
    pub tags: BTreeMap<u16, Field>,
}

/// Every image of a file: each directory of the chain in order, its SubIFDs right after it.
pub fn decode(file: &[u8]) -> Result<Vec<Level>, String> {
    let (order, directories) = directories(file)?;
    directories.iter().map(|directory| decode_directory(file, order, directory)).collect()
}

/// Every directory of a file, in the order of [`decode`].
pub fn directories(file: &[u8]) -> Result<(Order, Vec<Directory>), String> {
    let order = match file.get(..2) {
        Some(b"II") => Order::Little,
        Some(b"MM") => Order::Big,
        _ => return Err("no byte order mark".into()),
    };
    let mut parser = Parser { file, order, big: false, seen: BTreeSet::new(), found: Vec::new() };
    match parser.number(2, 2)? {
        42 => {}
        43 => {
            parser.big = true;
            if parser.number(4, 2)? != 8 || parser.number(6, 2)? != 0 {
                return Err("a BigTIFF whose offsets have not 8 bytes".into());
            }
        }
        magic => return Err(format!("magic number {magic}")),
    }
    let first = if parser.big { parser.number(8, 8)? } else { parser.number(4, 4)? };
    parser.chain(first, None, 0)?;
    if parser.found.is_empty() {
        return Err("no directory".into());
    }
    Ok((order, parser.found))
}

struct Parser<'a> {
    file: &'a [u8],
    order: Order,
    big: bool,
    seen: BTreeSet<u64>,
    found: Vec<Directory>,
}

impl Parser<'_> {
    fn number(&self, offset: u64, size: u64) -> Result<u64, String> {
        Ok(self.order.number(slice(self.file, offset, size)?) as u64)
    }

    fn chain(&mut self, mut offset: u64, parent: Option<usize>, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err("SubIFDs too deep".into());
        }
        while offset != 0 {
            if !self.seen.insert(offset) {
                return Err(format!("directory at {offset} is met twice"));
            }
            let (tags, next) = self.directory(offset)?;
            let number = self.found.len();
            let subs = tags.get(&tag::SUB_IFDS).map_or(Ok(Vec::new()), Field::numbers)?;
            self.found.push(Directory { offset, parent, tags });
            for sub in subs {
                self.chain(sub, Some(number), depth + 1)?;
            }
            offset = next;
        }
        Ok(())
    }

    fn directory(&self, offset: u64) -> Result<(BTreeMap<u16, Field>, u64), String> {
        let (count_size, word) = if self.big { (8, 8) } else { (2, 4) };
        let count = self.number(offset, count_size)?;
        if count > self.file.len() as u64 {
            return Err(format!("{count} tags"));
        }
        let entry_size = 4 + 2 * word;
        let mut tags = BTreeMap::new();
        for entry in 0..count {
            let at = offset + count_size + entry * entry_size;
            let tag = self.number(at, 2)? as u16;
            let field = self.number(at + 2, 2)? as u16;
            let count = self.number(at + 4, word)?;
            // A reader passes over field types it does not know.
            let Some(size) = field_size(field) else { continue };
            let length = count.checked_mul(size).ok_or("a tag larger than the world")?;
            let place = if length <= word { at + 4 + word } else { self.number(at + 4 + word, word)? };
            let bytes = slice(self.file, place, length).map_err(|e| format!("tag {tag}: {e}"))?.to_vec();
            // The first of two counts.
            tags.entry(tag).or_insert(Field { field, bytes, order: self.order });
        }
        let next = self.number(offset + count_size + count * entry_size, word)?;
        Ok((tags, next))
    }
}

fn slice(file: &[u8], offset: u64, length: u64) -> Result<&[u8], String> {
    let past = || format!("{length} bytes at {offset} are past the end");
    let start = usize::try_from(offset).map_err(|_| past())?;
    let length = usize::try_from(length).map_err(|_| past())?;
    file.get(start..start.checked_add(length).ok_or_else(past)?).ok_or_else(past)
}

fn field_size(field: u16) -> Option<u64> {
    Some(match field {
        1 | 2 | 6 | 7 => 1,
        3 | 8 => 2,
        4 | 9 | 11 | 13 => 4,
        5 | 10 | 12 | 16 | 17 | 18 => 8,
        _ => return None,
    })
}

impl Field {
    /// Whole numbers without sign.
    pub fn numbers(&self) -> Result<Vec<u64>, String> {
        let size = match self.field {
            1 => 1,
            3 => 2,
            4 | 13 => 4,
            16 | 18 => 8,
            _ => return Err(format!("field type {} where numbers were expected", self.field)),
        };
        Ok(self.bytes.chunks(size).map(|b| self.order.number(b) as u64).collect())
    }

    /// Doubles.
    pub fn doubles(&self) -> Result<Vec<f64>, String> {
        if self.field != 12 {
            return Err(format!("field type {} where doubles were expected", self.field));
        }
        Ok(self.bytes.chunks(8).map(|b| f64::from_bits(self.order.number(b) as u64)).collect())
    }

    /// Text up to its NUL.
    pub fn text(&self) -> String {
        let bytes = self.bytes.split(|b| *b == 0).next().unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }
}

impl Directory {
    fn number(&self, tag: u16, default: Option<u64>) -> Result<u64, String> {
        match self.tags.get(&tag) {
            Some(field) => field.numbers()?.first().copied().ok_or_else(|| format!("tag {tag} is empty")),
            None => default.ok_or_else(|| format!("tag {tag} is missing")),
        }
    }

    fn numbers(&self, tag: u16) -> Result<Vec<u64>, String> {
        self.tags.get(&tag).ok_or_else(|| format!("tag {tag} is missing"))?.numbers()
    }

    /// The one value that all samples share.
    fn same(&self, tag: u16, default: u64) -> Result<u64, String> {
        let value = self.number(tag, Some(default))?;
        let all = if self.tags.contains_key(&tag) { self.numbers(tag)? } else { Vec::new() };
        if all.iter().all(|v| *v == value) { Ok(value) } else { Err(format!("tag {tag} differs between samples")) }
    }
}

/// How the pixels of one directory are stored.
struct Image {
    order: Order,
    width: u64,
    height: u64,
    samples: u64,
    format: Format,
    compression: u64,
    predictor: u64,
    reversed_bits: bool,
    planar: bool,
    tiled: bool,
    tile_width: u64,
    tile_height: u64,
    offsets: Vec<u64>,
    counts: Option<Vec<u64>>,
    nodata: u128,
}

impl Image {
    fn new(order: Order, directory: &Directory) -> Result<Self, String> {
        let width = directory.number(tag::IMAGE_WIDTH, None)?;
        let height = directory.number(tag::IMAGE_LENGTH, None)?;
        let samples = directory.number(tag::SAMPLES_PER_PIXEL, Some(1))?;
        let bits = directory.same(tag::BITS_PER_SAMPLE, 1)?;
        let kind = directory.same(tag::SAMPLE_FORMAT, 1)?;
        let kind = Kind::of(kind as u16).ok_or_else(|| format!("sample format {kind}"))?;
        let format = Format { bits: u16::try_from(bits).map_err(|_| "too many bits")?, kind };
        format.dtype().ok_or_else(|| format!("no type for {format:?}"))?;
        let pixels = width.checked_mul(height).and_then(|n| n.checked_mul(samples));
        let pixels = pixels.filter(|n| (1..=MAX_SAMPLES).contains(n) && samples <= 65535);
        pixels.ok_or_else(|| format!("{width} x {height} x {samples} pixels"))?;
        let planar = match directory.number(tag::PLANAR_CONFIGURATION, Some(1))? {
            1 => false,
            2 => true,
            other => return Err(format!("planar configuration {other}")),
        };
        let reversed_bits = match directory.number(tag::FILL_ORDER, Some(1))? {
            1 => false,
            2 => true,
            other => return Err(format!("fill order {other}")),
        };
        let tiled = directory.tags.contains_key(&tag::TILE_WIDTH);
        let (tile_width, tile_height, offsets, counts) = if tiled {
            let size = (directory.number(tag::TILE_WIDTH, None)?, directory.number(tag::TILE_LENGTH, None)?);
            (size.0, size.1, tag::TILE_OFFSETS, tag::TILE_BYTE_COUNTS)
        } else {
            let rows = directory.number(tag::ROWS_PER_STRIP, Some(height))?.min(height);
            (width, rows, tag::STRIP_OFFSETS, tag::STRIP_BYTE_COUNTS)
        };
        let tile = tile_width.checked_mul(tile_height).and_then(|n| n.checked_mul(samples));
        tile.filter(|n| (1..=MAX_SAMPLES).contains(n))
            .ok_or_else(|| format!("tiles of {tile_width} x {tile_height}"))?;
        let nodata = directory.tags.get(&tag::GDAL_NODATA).and_then(|f| nodata_pattern(&f.text(), format));
        let compression = directory.number(tag::COMPRESSION, Some(1))?;
        // The tag says nothing where nothing, or PackBits, compresses.
        let predictor = match compression {
            1 | 32773 => 1,
            _ => directory.number(tag::PREDICTOR, Some(1))?,
        };
        Ok(Self {
            order,
            width,
            height,
            samples,
            format,
            compression,
            predictor,
            reversed_bits,
            planar,
            tiled,
            tile_width,
            tile_height,
            offsets: directory.numbers(offsets)?,
            counts: if directory.tags.contains_key(&counts) { Some(directory.numbers(counts)?) } else { None },
            nodata: nodata.unwrap_or(0),
        })
    }

    fn samples_in_tile(&self) -> u64 {
        if self.planar { 1 } else { self.samples }
    }

    fn row_bytes(&self) -> u64 {
        (self.tile_width * self.samples_in_tile() * u64::from(self.format.bits)).div_ceil(8)
    }

    fn tile_bytes(&self, rows: u64) -> u64 {
        self.row_bytes() * rows
    }

    /// The compressed bytes of a tile; `None` where the file stores none.
    fn compressed<'a>(&self, file: &'a [u8], tile: u64, rows: u64) -> Result<Option<&'a [u8]>, String> {
        let tile = tile as usize;
        let offset = *self.offsets.get(tile).ok_or("an offset is missing")?;
        let count = match &self.counts {
            Some(counts) => *counts.get(tile).ok_or("a byte count is missing")?,
            None if offset == 0 => 0,
            None if self.compression == 1 => self.tile_bytes(rows),
            // Up to what comes next in the file.
            None => {
                let next = self.offsets.iter().filter(|o| **o > offset).min();
                next.copied().unwrap_or(file.len() as u64).saturating_sub(offset)
            }
        };
        if count == 0 { Ok(None) } else { slice(file, offset, count).map(Some) }
    }
}

fn decode_directory(file: &[u8], order: Order, directory: &Directory) -> Result<Level, String> {
    let image = Image::new(order, directory)?;
    let mut values = vec![0u128; (image.width * image.height * image.samples) as usize];
    let across = image.width.div_ceil(image.tile_width);
    let down = image.height.div_ceil(image.tile_height);
    let in_tile = image.samples_in_tile();
    for plane in 0..image.samples / in_tile {
        for tile_row in 0..down {
            for tile_column in 0..across {
                let number = (plane * down + tile_row) * across + tile_column;
                let (top, left) = (tile_row * image.tile_height, tile_column * image.tile_width);
                // The last strip has only the rows that are left; tiles are always whole.
                let rows = if image.tiled { image.tile_height } else { image.tile_height.min(image.height - top) };
                let tile = decode_tile(file, &image, number, rows).map_err(|e| format!("tile {number}: {e}"))?;
                for y in top..(top + rows).min(image.height) {
                    for x in left..(left + image.tile_width).min(image.width) {
                        for sample in 0..in_tile {
                            let band = plane + sample;
                            let from = ((y - top) * image.tile_width + x - left) * in_tile + sample;
                            let to = (band * image.height + y) * image.width + x;
                            values[to as usize] = match &tile {
                                Some(tile) => tile[from as usize],
                                None => image.nodata,
                            };
                        }
                    }
                }
            }
        }
    }
    let size = image.format.size();
    Ok(Level {
        width: image.width as u32,
        height: image.height as u32,
        samples: image.samples as u16,
        dtype: image.format.dtype().ok_or("no type")?,
        subfile_type: directory.number(tag::NEW_SUBFILE_TYPE, Some(0))? as u32,
        parent: directory.parent,
        bytes: values.iter().flat_map(|v| image.format.widen(*v).to_le_bytes().into_iter().take(size)).collect(),
    })
}

/// The samples of a tile, pixel after pixel, or `None` where the file stores none.
fn decode_tile(file: &[u8], image: &Image, number: u64, rows: u64) -> Result<Option<Vec<u128>>, String> {
    let Some(compressed) = image.compressed(file, number, rows)? else { return Ok(None) };
    let mut compressed = compressed.to_vec();
    if image.reversed_bits {
        for byte in &mut compressed {
            *byte = byte.reverse_bits();
        }
    }
    let bytes = decompress(image.compression, &compressed, image.tile_bytes(rows) as usize)?;
    let mut samples = Vec::new();
    for row in bytes.chunks(image.row_bytes() as usize) {
        samples.extend(unpack_row(row, image)?);
    }
    Ok(Some(samples))
}

/// Exactly `size` bytes; what the stream has beyond them is left alone.
fn decompress(compression: u64, bytes: &[u8], size: usize) -> Result<Vec<u8>, String> {
    let limit = size as u64;
    let mut out = Vec::new();
    match compression {
        1 => out.extend_from_slice(&bytes[..size.min(bytes.len())]),
        5 => {
            let mut decoder = weezl::decode::Decoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8);
            out.resize(size, 0);
            let mut done = 0;
            let mut rest = bytes;
            while done < size {
                let result = decoder.decode_bytes(rest, &mut out[done..]);
                let status = result.status.map_err(|e| format!("LZW: {e}"))?;
                done += result.consumed_out;
                rest = &rest[result.consumed_in..];
                let stuck = result.consumed_in == 0 && result.consumed_out == 0;
                if stuck || !matches!(status, weezl::LzwStatus::Ok) {
                    break;
                }
            }
            out.truncate(done);
        }
        8 | 32946 => {
            let stream = flate2::read::ZlibDecoder::new(bytes);
            stream.take(limit).read_to_end(&mut out).map_err(|e| format!("Deflate: {e}"))?;
        }
        32773 => out = unpackbits(bytes, size),
        50000 => out = unzstd(bytes, size)?,
        other => return Err(format!("compression {other}")),
    }
    if out.len() < size { Err(format!("{} bytes where {size} were expected", out.len())) } else { Ok(out) }
}

fn unpackbits(bytes: &[u8], size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = bytes.iter().copied();
    while out.len() < size {
        let Some(head) = bytes.next() else { break };
        match head {
            0..=127 => out.extend(bytes.by_ref().take(usize::from(head) + 1)),
            128 => {}
            129..=255 => {
                let Some(byte) = bytes.next() else { break };
                out.extend(std::iter::repeat_n(byte, 257 - usize::from(head)));
            }
        }
    }
    out.truncate(size);
    out
}

fn unzstd(bytes: &[u8], size: usize) -> Result<Vec<u8>, String> {
    let mut out = vec![0; size];
    let mut context = zstd_safe::DCtx::create();
    let mut input = zstd_safe::InBuffer::around(bytes);
    let mut output = zstd_safe::OutBuffer::around(&mut out[..]);
    loop {
        let before = (input.pos(), output.pos());
        let left = context
            .decompress_stream(&mut output, &mut input)
            .map_err(|code| format!("ZSTD: {}", zstd_safe::get_error_name(code)))?;
        if left == 0 || output.pos() == size || before == (input.pos(), output.pos()) {
            break;
        }
    }
    let done = output.pos();
    out.truncate(done);
    Ok(out)
}

/// The samples of one row of a tile, predictor undone.
fn unpack_row(row: &[u8], image: &Image) -> Result<Vec<u128>, String> {
    let stride = image.samples_in_tile() as usize;
    let count = image.tile_width as usize * stride;
    match image.predictor {
        1 => Ok(unpack_bits(row, count, image)),
        2 => {
            if !matches!(image.format.bits, 8 | 16 | 32 | 64) {
                return Err(format!("predictor 2 with {} bits", image.format.bits));
            }
            let mut samples = unpack_bits(row, count, image);
            for i in stride..count {
                samples[i] = (samples[i] + samples[i - stride]) & image.format.mask();
            }
            Ok(samples)
        }
        3 => {
            if image.format.kind != Kind::Float {
                return Err("predictor 3 is for floats".into());
            }
            let mut bytes = row.to_vec();
            for i in stride..bytes.len() {
                bytes[i] = bytes[i].wrapping_add(bytes[i - stride]);
            }
            let planes = usize::from(image.format.bits) / 8;
            let sample = |i| (0..planes).fold(0, |v, plane| v << 8 | u128::from(bytes[plane * count + i]));
            Ok((0..count).map(sample).collect())
        }
        other => Err(format!("predictor {other}")),
    }
}

fn unpack_bits(row: &[u8], count: usize, image: &Image) -> Vec<u128> {
    let bits = usize::from(image.format.bits);
    if let Some(word) = image.format.word() {
        let words = |sample: &[u8]| {
            sample.chunks(word).rev().fold(0, |v: u128, w| v.unbounded_shl(8 * word as u32) | image.order.number(w))
        };
        return row.chunks(bits / 8).map(words).collect();
    }
    let bit = |i: usize| u128::from(row[i / 8] >> (7 - i % 8) & 1);
    (0..count).map(|sample| (0..bits).fold(0, |v, i| v << 1 | bit(sample * bits + i))).collect()
}

/// The bit pattern of GDAL's nodata text, where the type holds that value.
fn nodata_pattern(text: &str, format: Format) -> Option<u128> {
    let text = text.trim();
    match format.kind {
        Kind::Unsigned => text.parse::<u128>().ok().filter(|v| *v <= format.mask()),
        Kind::Signed => {
            let value = text.parse::<i128>().ok()?;
            let limit = 1i128 << (format.bits - 1);
            (-limit..limit).contains(&value).then_some(value as u128 & format.mask())
        }
        Kind::Float => match format.bits {
            32 => text.parse::<f32>().ok().map(|v| u128::from(v.to_bits())),
            64 => text.parse::<f64>().ok().map(|v| u128::from(v.to_bits())),
            _ => None,
        },
        Kind::ComplexInt | Kind::ComplexFloat => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix;
    use crate::pixels::mix;

    #[test]
    fn packbits_of_the_specification() {
        let packed = [0xfe, 0xaa, 0x02, 0x80, 0x00, 0x2a, 0xfd, 0xaa, 0x03, 0x80, 0x00, 0x2a, 0x22, 0xf7, 0xaa];
        let plain = [
            0xaa, 0xaa, 0xaa, 0x80, 0x00, 0x2a, 0xaa, 0xaa, 0xaa, 0xaa, 0x80, 0x00, 0x2a, 0x22, 0xaa, 0xaa, 0xaa, 0xaa,
            0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa,
        ];
        assert_eq!(unpackbits(&packed, plain.len()), plain);
        assert_eq!(unpackbits(&crate::compression::packbits(&plain), plain.len()), plain);
    }

    #[test]
    fn nodata_fits_its_type_or_is_none() {
        let of = |text, bits, kind| nodata_pattern(text, Format { bits, kind });
        assert_eq!(of("255", 8, Kind::Unsigned), Some(255));
        assert_eq!(of("256", 8, Kind::Unsigned), None);
        assert_eq!(of("-1", 8, Kind::Unsigned), None);
        assert_eq!(of("-128", 8, Kind::Signed), Some(0x80));
        assert_eq!(of("128", 8, Kind::Signed), None);
        assert_eq!(of(" 1.5 ", 32, Kind::Float), Some(0x3fc0_0000));
        assert!(of("nan", 64, Kind::Float).is_some_and(|v| f64::from_bits(v as u64).is_nan()));
    }

    /// Any answer will do, as long as there is one.
    #[test]
    fn damage_never_panics() {
        let mut damaged = 0;
        for (number, case) in matrix::oddities().chain(matrix::grid().step_by(101)).enumerate() {
            for round in 0..20 {
                let mut bytes = case.file.clone();
                let random = |i: u64| mix(number as u64 * 1000 + round * 10 + i);
                for i in 0..3 {
                    // Most of the damage to the directory, which is where it hurts.
                    let reach = if i == 0 { bytes.len() as u64 } else { 300.min(bytes.len() as u64 - 8) };
                    let at = (8 * u64::from(i != 0) + random(i) % reach) as usize;
                    bytes[at.min(case.file.len() - 1)] = random(i + 5) as u8;
                }
                damaged += usize::from(decode(&bytes).is_err());
            }
        }
        assert!(damaged > 500, "{damaged}");
    }
}
