//! Lies inside tiles: streams of picture codecs that are right but for one field, and streams that grow without end.
//!
//! The streams come from the encoders of `tiffjet`; what is wrong with them is put in here.

use tiffjet::DType;
use tiffjet::codec::{self, Plain, Settings, TileFormat};

use super::{Case, Expect, case, noise};
use crate::builder::Tiff;
use crate::field::Value;

use Expect::{Either, Reads, Refused, RefusedTile};

const JPEG: u16 = 7;
const JPEG_2000: u16 = 34712;
const LERC: u16 = 34887;
const LZMA: u16 = 34925;
const WEBP: u16 = 50001;
const LERC_PARAMETERS: u16 = 50674;
const SIZE: u32 = 32;

pub(super) fn cases() -> Vec<Case> {
    [jpeg(), jpeg_2000(), lerc(), webp(), lzma(), fax()].concat()
}

/// A smooth picture of one tile, as a codec encodes it.
fn encoded(compression: u16, samples: u16, dtype: DType) -> Vec<u8> {
    let mut format = TileFormat::new(compression, (SIZE, SIZE), samples, dtype);
    format.photometric = if samples == 3 { 2 } else { 1 };
    let bytes: Vec<u8> = match dtype {
        DType::Float32 => (0..SIZE * SIZE).flat_map(|i| (i as f32 / 7.0).sin().to_ne_bytes()).collect(),
        _ => (0..SIZE * SIZE * u32::from(samples)).map(|i| (i / 37 + i % 5) as u8).collect(),
    };
    let settings = Settings::default();
    let plain = Plain { bytes: &bytes, rows: SIZE, format: &format, settings: &settings };
    let mut out = Vec::new();
    codec::find(compression).expect("a codec").encode(&plain, &mut out).expect("it encodes");
    out
}

/// The file of an image of one tile with these bytes.
fn file(compression: u16, samples: u16, dtype: DType, bytes: Vec<u8>) -> Vec<u8> {
    let image = Tiff::new(SIZE, SIZE).tile(SIZE, SIZE).samples(samples);
    let image = if dtype == DType::Float32 { image.float(32) } else { image };
    let image = image.photometric(if samples == 3 { 2 } else { 1 });
    let image = image.compress_with(compression, move |_| bytes.clone());
    image.build(&image.gradient())
}

/// Where these bytes stand for the first time.
fn find(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).position(|window| window == what).expect("the stream has it")
}

fn with(mut bytes: Vec<u8>, at: usize, new: &[u8]) -> Vec<u8> {
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

fn without(mut bytes: Vec<u8>, at: usize, count: usize) -> Vec<u8> {
    bytes.drain(at..at + count);
    bytes
}

fn inserted(mut bytes: Vec<u8>, at: usize, new: &[u8]) -> Vec<u8> {
    bytes.splice(at..at, new.iter().copied());
    bytes
}

fn jpeg() -> Vec<Case> {
    let good = encoded(JPEG, 3, DType::UInt8);
    let frame = find(&good, &[0xff, 0xc0]);
    let scan = find(&good, &[0xff, 0xda]);
    let (quantisation, huffman) = (find(&good, &[0xff, 0xdb]), find(&good, &[0xff, 0xc4]));
    let length = |at: usize| usize::from(good[at + 2]) << 8 | usize::from(good[at + 3]);
    let made = |name: &str, expect: Expect, bytes: Vec<u8>| {
        case(format!("jpeg-{name}"), expect, file(JPEG, 3, DType::UInt8, bytes))
    };
    let patched = |at: usize, new: &[u8]| with(good.clone(), at, new);
    let segment =
        |marker: u8, body: &[u8]| [&[0xff, marker][..], &(body.len() as u16 + 2).to_be_bytes(), body].concat();
    let after_start = |new: &[u8]| inserted(good.clone(), 2, new);
    vec![
        made("as-it-should-be", Reads, good.clone()),
        made("height-0", RefusedTile, patched(frame + 5, &[0, 0])),
        made("width-0", RefusedTile, patched(frame + 7, &[0, 0])),
        made("height-1", RefusedTile, patched(frame + 5, &[0, 1])),
        made("width-65535", RefusedTile, patched(frame + 7, &[0xff, 0xff])),
        made("65535-squared", RefusedTile, patched(frame + 5, &[0xff; 4])),
        made("precision-0", RefusedTile, patched(frame + 4, &[0])),
        made("precision-12", RefusedTile, patched(frame + 4, &[12])),
        made("precision-255", RefusedTile, patched(frame + 4, &[255])),
        made("no-components", RefusedTile, patched(frame + 9, &[0])),
        made("255-components", RefusedTile, patched(frame + 9, &[255])),
        made("sampling-0", RefusedTile, patched(frame + 11, &[0x00])),
        made("sampling-15", RefusedTile, patched(frame + 11, &[0xff])),
        made("sampling-3-by-3", Either, patched(frame + 11, &[0x33])),
        made("quantisation-table-not-there", RefusedTile, patched(frame + 12, &[3])),
        made("quantisation-table-255", RefusedTile, patched(frame + 12, &[255])),
        made("quantisation-of-zeros", Either, patched(quantisation + 5, &[0; 64])),
        made("progressive-by-name", Either, patched(frame + 1, &[0xc2])),
        made("lossless-by-name", RefusedTile, patched(frame + 1, &[0xc3])),
        made("arithmetic-by-name", Refused, patched(frame + 1, &[0xc9])),
        made("hierarchical-by-name", Refused, patched(frame + 1, &[0xc5])),
        made("huffman-counts-too-many", RefusedTile, patched(huffman + 5, &[0xff; 16])),
        made("huffman-codes-overfull", RefusedTile, patched(huffman + 5, &[3])),
        made("huffman-table-9", RefusedTile, patched(huffman + 4, &[0x09])),
        made("huffman-length-2", RefusedTile, patched(huffman + 2, &[0, 2])),
        made("segment-length-0", RefusedTile, patched(quantisation + 2, &[0, 0])),
        made("segment-length-65535", RefusedTile, patched(quantisation + 2, &[0xff, 0xff])),
        made("scan-of-no-components", RefusedTile, patched(scan + 4, &[0])),
        made("scan-of-255-components", RefusedTile, patched(scan + 4, &[255])),
        made("scan-of-an-unknown-component", RefusedTile, patched(scan + 5, &[99])),
        made("scan-of-tables-not-there", RefusedTile, patched(scan + 6, &[0x33])),
        made("scan-of-one-component-twice", Either, patched(scan + 7, &good[scan + 5..scan + 6])),
        made("no-frame", RefusedTile, without(good.clone(), frame, 2 + length(frame))),
        made("no-quantisation", RefusedTile, without(good.clone(), quantisation, 2 + length(quantisation))),
        made("no-huffman", RefusedTile, without(good.clone(), huffman, 2 + length(huffman))),
        made("no-scan", RefusedTile, [&good[..scan], &[0xff, 0xd9]].concat()),
        made("no-start", Either, good[2..].to_vec()),
        made("ends-in-the-scan", RefusedTile, good[..scan + 20].to_vec()),
        made("two-frames", Either, inserted(good.clone(), frame, &good[frame..frame + 2 + length(frame)])),
        made("two-scans", Either, [&good[..good.len() - 2], &good[scan..]].concat()),
        made(
            "a-thousand-scans",
            Either,
            [&good[..good.len() - 2], &good[scan..good.len() - 2].repeat(1000), &[0xff, 0xd9]].concat(),
        ),
        made("restart-every-unit-without-marks", RefusedTile, after_start(&segment(0xdd, &[0, 1]))),
        made("restart-never", Reads, after_start(&segment(0xdd, &[0, 0]))),
        made("restart-marks-alone", RefusedTile, [&good[..scan + 14], &[0xff, 0xd0].repeat(10_000)[..]].concat()),
        made("a-million-fill-bytes", Reads, after_start(&vec![0xff; 1 << 20])),
        made("ten-thousand-comments", Reads, after_start(&segment(0xfe, b"hello").repeat(10_000))),
        made("comment-of-64-kib", Reads, after_start(&segment(0xfe, &vec![7; 65_533]))),
        made("exif-thumbnail-of-itself", Reads, after_start(&segment(0xe1, &good))),
        made("adobe-transform-255", Either, after_start(&segment(0xee, b"Adobe\0\x64\0\0\0\0\xff"))),
        made("number-of-lines-later", Either, {
            let late = segment(0xdc, &[0, SIZE as u8]);
            inserted(with(good.clone(), frame + 5, &[0, 0]), good.len() - 2, &late)
        }),
    ]
}

fn jpeg_2000() -> Vec<Case> {
    let good = encoded(JPEG_2000, 1, DType::UInt8);
    let code = find(&good, &[0xff, 0x4f, 0xff, 0x51]);
    // SIZ: marker, length, profile, then Xsiz, Ysiz, offsets, tile size and offsets of four bytes each, components.
    let size = code + 8;
    let style = find(&good, &[0xff, 0x52]);
    let quantum = find(&good, &[0xff, 0x5c]);
    let tile = find(&good, &[0xff, 0x90]);
    let made = |name: &str, expect: Expect, bytes: Vec<u8>| {
        case(format!("jpeg2000-{name}"), expect, file(JPEG_2000, 1, DType::UInt8, bytes))
    };
    let patched = |at: usize, new: &[u8]| with(good.clone(), at, new);
    let most = [0xff; 4];
    let length = |at: usize| usize::from(good[at + 2]) << 8 | usize::from(good[at + 3]);
    vec![
        made("as-it-should-be", Reads, good.clone()),
        made("width-2^32-1", RefusedTile, patched(size, &most)),
        made("height-2^32-1", RefusedTile, patched(size + 4, &most)),
        made("2^32-1-squared", RefusedTile, patched(size, &[0xff; 8])),
        made("size-0", RefusedTile, patched(size, &[0; 8])),
        made("width-of-one-more", Either, patched(size, &(SIZE + 1).to_be_bytes())),
        made("width-of-one-less", RefusedTile, patched(size, &(SIZE - 1).to_be_bytes())),
        made("offset-past-the-size", RefusedTile, patched(size + 8, &most)),
        made("tiles-of-0", RefusedTile, patched(size + 16, &[0; 8])),
        made("tiles-of-1", RefusedTile, patched(size + 16, &[0, 0, 0, 1, 0, 0, 0, 1])),
        made("tiles-of-2^32-1", Either, patched(size + 16, &[0xff; 8])),
        made("tile-offset-past-the-tile", RefusedTile, patched(size + 24, &most)),
        made("no-components", RefusedTile, patched(size + 32, &[0, 0])),
        made("16384-components", RefusedTile, patched(size + 32, &[0x40, 0])),
        made("65535-components", RefusedTile, patched(size + 32, &[0xff, 0xff])),
        made("precision-39", RefusedTile, patched(size + 34, &[38])),
        made("precision-128", RefusedTile, patched(size + 34, &[127])),
        made("subsampling-0", RefusedTile, patched(size + 35, &[0, 0])),
        made("subsampling-255", Either, patched(size + 35, &[255, 255])),
        made("progression-9", Either, patched(style + 5, &[9])),
        made("no-layers", RefusedTile, patched(style + 6, &[0, 0])),
        made("65535-layers", Either, patched(style + 6, &[0xff, 0xff])),
        made("33-resolutions", RefusedTile, patched(style + 9, &[33])),
        made("255-resolutions", RefusedTile, patched(style + 9, &[255])),
        made("blocks-of-2^17", RefusedTile, patched(style + 10, &[15, 15])),
        made("wavelet-9", RefusedTile, patched(style + 13, &[9])),
        made("no-coding-style", RefusedTile, without(good.clone(), style, 2 + length(style))),
        made("no-quantisation", RefusedTile, without(good.clone(), quantum, 2 + length(quantum))),
        made("quantisation-style-31", Either, patched(quantum + 4, &[0x1f])),
        made("tile-number-65535", RefusedTile, patched(tile + 4, &[0xff, 0xff])),
        made("tile-part-of-2^32-1-bytes", Either, patched(tile + 6, &most)),
        made("tile-part-of-1-byte", Either, patched(tile + 6, &[0, 0, 0, 1])),
        made("tile-part-255-of-1", Either, patched(tile + 10, &[255, 1])),
        made("no-tile", RefusedTile, [&good[..tile], &[0xff, 0xd9]].concat()),
        made("cut-in-the-head", RefusedTile, good[..style + 3].to_vec()),
        made("cut-in-the-tile", RefusedTile, good[..tile + 16].to_vec()),
        made("segment-length-0", RefusedTile, patched(style + 2, &[0, 0])),
        made("a-hundred-thousand-comments", Reads, {
            inserted(good.clone(), tile, &[0xff, 0x64, 0, 5, 0, 1, 65].repeat(100_000))
        }),
        made("box-of-2^64-1", RefusedTile, {
            let mut boxed = vec![0, 0, 0, 12, 0x6a, 0x50, 0x20, 0x20, 0x0d, 0x0a, 0x87, 0x0a];
            boxed.extend([0, 0, 0, 1, 0x6a, 0x70, 0x32, 0x63]);
            boxed.extend([0xff; 8]);
            [boxed, good.clone()].concat()
        }),
    ]
}

fn lerc() -> Vec<Case> {
    let good = encoded(LERC, 1, DType::Float32);
    // "Lerc2 ", version, checksum, rows, columns, then depending on the version; the size of the blob is behind them.
    let made = |name: &str, expect: Expect, bytes: Vec<u8>| {
        let image = Tiff::new(SIZE, SIZE).tile(SIZE, SIZE).float(32).compress_with(LERC, move |_| bytes.clone());
        let image = image.tag(LERC_PARAMETERS, Value::Long(vec![4, 0]));
        case(format!("lerc-{name}"), expect, image.build(&image.gradient()))
    };
    let sealed = |mut bytes: Vec<u8>| {
        let sum = fletcher(&bytes[14..]);
        bytes[10..14].copy_from_slice(&sum.to_le_bytes());
        bytes
    };
    let patched = |at: usize, new: &[u8]| with(good.clone(), at, new);
    let lied = |at: usize, new: &[u8]| sealed(with(good.clone(), at, new));
    let most = [0xff; 4];
    vec![
        made("as-it-should-be", Reads, good.clone()),
        made("wrong-checksum", RefusedTile, patched(10, &[1, 2, 3, 4])),
        made("version-0", Refused, patched(6, &[0; 4])),
        made("version-99", Refused, patched(6, &[99, 0, 0, 0])),
        made("version-negative", Refused, patched(6, &most)),
        made("another-name", RefusedTile, patched(0, b"Lerc9 ")),
        made("rows-0", RefusedTile, lied(14, &[0; 4])),
        made("rows-2^31-1", RefusedTile, lied(14, &[0xff, 0xff, 0xff, 0x7f])),
        made("rows-negative", RefusedTile, lied(14, &most)),
        made("columns-2^31-1", RefusedTile, lied(18, &[0xff, 0xff, 0xff, 0x7f])),
        made("bands-0", RefusedTile, lied(22, &[0; 4])),
        made("bands-2^31-1", RefusedTile, lied(22, &[0xff, 0xff, 0xff, 0x7f])),
        made("valid-pixels-more-than-there-are", RefusedTile, lied(26, &most)),
        made("valid-pixels-none", Either, lied(26, &[0; 4])),
        made("valid-pixels-some-without-a-mask", RefusedTile, lied(26, &[5, 0, 0, 0])),
        made("blocks-of-0", RefusedTile, lied(30, &[0; 4])),
        made("blocks-of-2^31-1", RefusedTile, lied(30, &[0xff, 0xff, 0xff, 0x7f])),
        made("blob-of-2^31-1-bytes", RefusedTile, lied(34, &[0xff, 0xff, 0xff, 0x7f])),
        made("blob-of-0-bytes", RefusedTile, lied(34, &[0; 4])),
        made("type-9", RefusedTile, lied(38, &[9, 0, 0, 0])),
        made("type-of-bytes", RefusedTile, lied(38, &[1, 0, 0, 0])),
        made("error-nan", RefusedTile, lied(42, &f64::NAN.to_le_bytes())),
        made("error-negative", RefusedTile, lied(42, &(-1.0f64).to_le_bytes())),
        made("error-infinite", Either, lied(42, &f64::INFINITY.to_le_bytes())),
        made("smallest-nan", Either, lied(50, &f64::NAN.to_le_bytes())),
        made("largest-nan", Either, lied(58, &f64::NAN.to_le_bytes())),
        made("mask-of-2^31-1-bytes", RefusedTile, lied(66, &[0xff, 0xff, 0xff, 0x7f])),
        made("mask-of-negative-bytes", RefusedTile, lied(66, &most)),
        made("cut-in-the-head", RefusedTile, good[..40].to_vec()),
        made("cut-in-the-middle", RefusedTile, good[..good.len() / 2].to_vec()),
        made("bytes-after", Reads, [good.clone(), noise(99)].concat()),
    ]
}

/// The checksum of LERC 2: Fletcher's, of 32 bits.
fn fletcher(bytes: &[u8]) -> u32 {
    let (mut low, mut high) = (0xffff_u64, 0xffff_u64);
    for pair in bytes.chunks(2) {
        let word = u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&b| u64::from(b));
        low += word;
        high += low;
        (low, high) = ((low - 1) % 0xffff + 1, (high - 1) % 0xffff + 1);
    }
    (high << 16 | low) as u32
}

fn webp() -> Vec<Case> {
    let good = encoded(WEBP, 3, DType::UInt8);
    let made = |name: &str, expect: Expect, bytes: Vec<u8>| {
        case(format!("webp-{name}"), expect, file(WEBP, 3, DType::UInt8, bytes))
    };
    let patched = |at: usize, new: &[u8]| with(good.clone(), at, new);
    // RIFF, size, WEBP, VP8L, size, 0x2f, then 14 bits of width and of height less one.
    vec![
        made("as-it-should-be", Reads, good.clone()),
        made("riff-of-2^32-1", Either, patched(4, &[0xff; 4])),
        made("riff-of-0", Either, patched(4, &[0; 4])),
        made("chunk-of-2^32-1", RefusedTile, patched(16, &[0xff; 4])),
        made("chunk-of-0", Either, patched(16, &[0; 4])),
        made("size-16384", RefusedTile, patched(21, &[0xff; 4])),
        made("size-1", RefusedTile, patched(21, &[0, 0, 0, 0x10])),
        made("another-signature", RefusedTile, patched(20, &[0x2e])),
        made("another-chunk", RefusedTile, patched(12, b"ANIM")),
        made("cut", RefusedTile, good[..good.len() / 2].to_vec()),
        made("head-alone", RefusedTile, good[..20].to_vec()),
        made("extended-of-2^24", RefusedTile, {
            let wide = [b"VP8X".as_slice(), &10u32.to_le_bytes(), &[0, 0, 0, 0], &[0xff; 6]].concat();
            [&good[..12], &wide, &good[12..]].concat()
        }),
        made("bytes-after", Reads, [good.clone(), noise(99)].concat()),
    ]
}

fn lzma() -> Vec<Case> {
    let good = encoded(LZMA, 1, DType::UInt8);
    let made = |name: &str, expect: Expect, bytes: Vec<u8>| {
        case(format!("lzma-{name}"), expect, file(LZMA, 1, DType::UInt8, bytes))
    };
    let bomb = {
        let zeros = vec![0; 16 << 20];
        let format = TileFormat::new(LZMA, (1 << 12, 1 << 12), 1, DType::UInt8);
        let settings = Settings { level: Some(1), ..Settings::default() };
        let mut out = Vec::new();
        let plain = Plain { bytes: &zeros, rows: 1 << 12, format: &format, settings: &settings };
        codec::find(LZMA).expect("a codec").encode(&plain, &mut out).expect("it encodes");
        out
    };
    vec![
        made("as-it-should-be", Reads, good.clone()),
        made("bomb", Either, bomb),
        made("wrong-magic", RefusedTile, with(good.clone(), 0, &[0; 6])),
        made("wrong-head-sum", RefusedTile, with(good.clone(), 8, &[0; 4])),
        // Block head: size, flags, filter id, size of its properties, dictionary: 40 is 4 GiB less one byte.
        made("dictionary-of-4-gib", Either, with(good.clone(), 16, &[40])),
        made("filter-not-there", RefusedTile, with(good.clone(), 14, &[0x7f])),
        made("cut", RefusedTile, good[..good.len() / 3].to_vec()),
        made("head-alone", RefusedTile, good[..12].to_vec()),
    ]
}

/// Codes of fax that never fill a row.
fn fax() -> Vec<Case> {
    let made = |name: &str, compression: u16, expect: Expect, bytes: Vec<u8>| {
        let image = Tiff::new(SIZE, SIZE).bits(1).compress_with(compression, move |_| bytes.clone());
        case(format!("fax-{name}"), expect, image.build(&image.gradient()))
    };
    // End of line is eleven zeros and a one.
    let lines = |count: usize| [0x00, 0x10, 0x01].repeat(count);
    vec![
        made("ends-of-lines-alone-g3", 3, Either, lines(100_000)),
        made("ends-of-lines-alone-g4", 4, Either, lines(100_000)),
        made("zeros-g3", 3, Either, vec![0; 1 << 20]),
        made("zeros-g4", 4, RefusedTile, vec![0; 1 << 20]),
        // Make-up codes of 2560 white pixels without an end, in rows of 32.
        made("runs-without-end-rle", 2, Either, [0x01, 0xf0, 0x1f].repeat(50_000)),
        made("extensions-g4", 4, Either, [0x01, 0x02, 0x04].repeat(1000)),
    ]
}
