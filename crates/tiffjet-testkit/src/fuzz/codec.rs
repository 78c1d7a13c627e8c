//! One tile for one codec: how it claims to be stored, then its bytes.

use std::ops::ControlFlow;
use std::sync::Arc;

use tiffjet::codec::{Codec, Encoded, OldJpeg, Plain, Settings, TileFormat, Unit};
use tiffjet::{ByteOrder, DType, SampleKind};

use super::Input;

/// Decoded bytes of a tile: small, so that many are tried.
const LARGEST: usize = 1 << 20;

/// Samples that a file may have, as the reader lays them out.
#[rustfmt::skip]
const SAMPLES: [(u16, SampleKind, DType); 22] = [
    (8, SampleKind::Unsigned, DType::UInt8), (16, SampleKind::Unsigned, DType::UInt16),
    (1, SampleKind::Unsigned, DType::UInt8), (2, SampleKind::Unsigned, DType::UInt8),
    (4, SampleKind::Unsigned, DType::UInt8), (12, SampleKind::Unsigned, DType::UInt16),
    (24, SampleKind::Unsigned, DType::UInt32), (32, SampleKind::Unsigned, DType::UInt32),
    (64, SampleKind::Unsigned, DType::UInt64), (8, SampleKind::Signed, DType::Int8),
    (16, SampleKind::Signed, DType::Int16), (32, SampleKind::Signed, DType::Int32),
    (64, SampleKind::Signed, DType::Int64), (16, SampleKind::Float, DType::Float16),
    (24, SampleKind::Float, DType::Float32), (32, SampleKind::Float, DType::Float32),
    (64, SampleKind::Float, DType::Float64), (32, SampleKind::ComplexInt, DType::ComplexInt16),
    (64, SampleKind::ComplexInt, DType::ComplexInt32), (64, SampleKind::ComplexFloat, DType::Complex64),
    (128, SampleKind::ComplexFloat, DType::Complex128), (33, SampleKind::Unsigned, DType::UInt64),
];
const PHOTOMETRICS: [u16; 9] = [1, 0, 2, 3, 5, 6, 8, 32844, 32845];
const SUBSAMPLINGS: [(u8, u8); 8] = [(1, 1), (2, 1), (2, 2), (1, 2), (4, 1), (4, 2), (4, 4), (2, 4)];

/// A tile of a made-up format.
struct Tile<'a> {
    format: TileFormat,
    rows: u32,
    index: u64,
    bytes: &'a [u8],
}

/// Where the format says nothing of itself: its places in the tables above.
const BIG_ENDIAN: u8 = 0x80;
const CUT: u8 = 0x80;
const INTERCHANGE: u8 = 0x40;

fn parse<'a>(codec: &dyn Codec, bytes: &'a [u8]) -> Tile<'a> {
    let mut input = Input(bytes);
    let first = input.byte();
    let numbers = codec.compression();
    let number = numbers[usize::from(first & !BIG_ENDIAN) % numbers.len()];
    let (width, height) = (u32::from(input.short()) % 1024 + 1, u32::from(input.short()) % 1024 + 1);
    let samples = u16::from(input.byte()) % 8 + 1;
    let (bits, kind, dtype) = SAMPLES[usize::from(input.byte()) % SAMPLES.len()];
    let photometric = PHOTOMETRICS[usize::from(input.byte()) % PHOTOMETRICS.len()];
    let how = input.byte();
    let options = input.byte();
    let length = usize::from(input.short());
    let tables = input.take(length);
    let mut format = TileFormat {
        bits,
        kind,
        order: if first & BIG_ENDIAN == 0 { ByteOrder::Little } else { ByteOrder::Big },
        photometric,
        subsampling: SUBSAMPLINGS[usize::from(how) % SUBSAMPLINGS.len()],
        fax_options: u32::from(options & 7),
        lerc: [4, u32::from(how >> 4 & 3) % 3],
        ..TileFormat::new(number, (width, height), samples, dtype)
    };
    if !tables.is_empty() {
        format.jpeg_tables = Some(tables.into());
    }
    if codec.name() == "old-jpeg" {
        format.old_jpeg = Some(Arc::new(old_jpeg(tables, how & INTERCHANGE != 0, &format)));
    }
    let rows = if options & CUT == 0 { height } else { height.div_ceil(2) };
    Tile { format, rows, index: u64::from(options >> 3 & 3), bytes: input.rest() }
}

/// The tags of old-style JPEG: a whole stream, or tables one after the other.
fn old_jpeg(tables: &[u8], interchange: bool, format: &TileFormat) -> OldJpeg {
    let image = (format.width, format.height.saturating_mul(2));
    if interchange {
        return OldJpeg { interchange: Some(tables.to_vec()), image, ..OldJpeg::default() };
    }
    let mut input = Input(tables);
    let count = format.samples.min(4);
    let q_tables = (0..count).map(|_| input.take(64).to_vec()).collect();
    let mut huffman = || {
        let counts = input.take(16);
        let symbols = counts.iter().map(|&n| usize::from(n)).sum::<usize>();
        [counts, input.take(symbols.min(256))].concat()
    };
    let dc_tables = (0..count).map(|_| huffman()).collect();
    let ac_tables = (0..count).map(|_| huffman()).collect();
    OldJpeg { q_tables, dc_tables, ac_tables, image, ..OldJpeg::default() }
}

/// The bytes that [`parse`] understands as this tile; none where it could not say it.
pub fn describe(tile: &Encoded<'_>) -> Option<Vec<u8>> {
    let format = tile.format;
    let codec = tiffjet::codec::find(format.compression)?;
    let place = |found: Option<usize>| found.and_then(|n| u8::try_from(n).ok());
    let number = place(codec.compression().iter().position(|&n| n == format.compression))?;
    let order = if format.order == ByteOrder::Big { BIG_ENDIAN } else { 0 };
    let samples = place(SAMPLES.iter().position(|&s| s == (format.bits, format.kind, format.dtype)))?;
    let photometric = place(PHOTOMETRICS.iter().position(|&p| p == format.photometric)).unwrap_or(0);
    let subsampling = place(SUBSAMPLINGS.iter().position(|&s| s == format.subsampling)).unwrap_or(0);
    if format.width > 1024 || tile.rows > 1024 || !(1..=8).contains(&format.samples) {
        return None;
    }
    let (tables, whole) = match (&format.old_jpeg, &format.jpeg_tables) {
        (Some(tags), _) => match &tags.interchange {
            Some(stream) => (stream.clone(), true),
            None => ([tags.q_tables.concat(), tags.dc_tables.concat(), tags.ac_tables.concat()].concat(), false),
        },
        (None, Some(tables)) => (tables.to_vec(), false),
        (None, None) => (Vec::new(), false),
    };
    let how = subsampling | (format.lerc[1] as u8 & 3) << 4 | if whole { INTERCHANGE } else { 0 };
    let mut out = vec![number | order];
    out.extend((format.width as u16 - 1).to_le_bytes());
    out.extend((tile.rows as u16).checked_sub(1)?.to_le_bytes());
    out.extend([format.samples as u8 - 1, samples, photometric, how, format.fax_options as u8 & 7]);
    out.extend(u16::try_from(tables.len()).ok()?.to_le_bytes());
    out.extend(tables);
    out.extend(tile.bytes);
    Some(out)
}

/// The stream alone, behind four bytes with the size of the tile: what kernels are fuzzed with.
pub fn stream(codec: &dyn Codec, bytes: &[u8]) -> Vec<u8> {
    let Tile { format, rows, bytes, .. } = parse(codec, bytes);
    let size = (format.row_bytes() * rows as usize) as u32;
    [&size.to_le_bytes(), bytes].concat()
}

/// Whatever the bytes are, decoding gives an error or a tile that is filled whole, the same each time, at once or step by
/// step; and what was decoded can be encoded and decoded again.
pub fn run(codec: &dyn Codec, bytes: &[u8]) {
    let Tile { format, rows, index, bytes } = parse(codec, bytes);
    let row = if codec.unit() == Unit::Bytes { format.row_bytes() } else { format.row_samples_bytes() };
    let size = row * rows as usize;
    if size > LARGEST {
        return;
    }
    let tile = Encoded { bytes, rows, index, format: &format };
    // Two fillings: a byte that is left as it was shows.
    let mut out = vec![0xa5; size];
    let answer = codec.decode(&tile, &mut out);
    let mut again = vec![0x5a; size];
    let stepped = codec.decode_along(&tile, &mut again, &mut |_| ControlFlow::Continue(()));
    assert_eq!(answer.is_ok(), stepped.is_ok(), "whole {answer:?}, stepped {stepped:?}");
    if answer.is_ok() {
        assert!(out == again, "the same tile gave two pictures");
        encode_again(codec, &format, rows, &out);
    }
}

/// Codecs of bytes lose nothing, so what they encode must come back.
fn encode_again(codec: &dyn Codec, format: &TileFormat, rows: u32, plain: &[u8]) {
    if codec.unit() != Unit::Bytes || plain.len() > 1 << 12 {
        return;
    }
    let settings = Settings::default();
    let mut encoded = Vec::new();
    if codec.encode(&Plain { bytes: plain, rows, format, settings: &settings }, &mut encoded).is_err() {
        return;
    }
    let mut back = vec![0x33; plain.len()];
    let tile = Encoded { bytes: &encoded, rows, index: 0, format };
    codec.decode(&tile, &mut back).expect("what is encoded is decoded");
    assert!(back == plain, "encoding lost something");
}
