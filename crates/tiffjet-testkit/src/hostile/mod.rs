//! Files that try to hurt a reader: to make it panic, loop, run out of memory or invent pixels.
//!
//! A test opens each and reads every image in it whole, within a few seconds and a modest amount of memory.

mod pictures;

use crate::builder::{Next, Tiff};
use crate::compression::{self, Compression};
use crate::field::Value;
use crate::pixels::mix;
use crate::sample::Kind;
use crate::tag;

/// What a reader must answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// An error, on opening or on reading.
    Refused,
    /// An error that names the tile: the file around it is right.
    RefusedTile,
    /// Pixels: nasty, but valid.
    Reads,
    /// An error or pixels: readers differ with good reason. It must answer, though.
    Either,
}

/// A hostile file.
#[derive(Debug, Clone)]
pub struct Case {
    /// What is wrong with it; no two are alike.
    pub name: String,
    /// The file.
    pub bytes: Vec<u8>,
    /// What a reader must answer.
    pub expect: Expect,
}

use Expect::{Either, Reads, Refused};

/// All of them.
pub fn cases() -> Vec<Case> {
    [headers(), links(), entries(), sizes(), samples(), indexes(), truncated(), streams(), garbage(), texts(), geo()]
        .into_iter()
        .flatten()
        .chain(pictures::cases())
        .collect()
}

fn case(name: impl Into<String>, expect: Expect, bytes: Vec<u8>) -> Case {
    Case { name: name.into(), bytes, expect }
}

/// The file of an image whose pixels do not matter.
fn file(image: Tiff) -> Vec<u8> {
    image.build(&image.gradient())
}

/// A small image of four tiles to be spoiled.
fn small() -> Tiff {
    Tiff::new(32, 32).tile(16, 16)
}

/// A value that claims to lie at `offset`, of a classic file or a BigTIFF.
fn lie(field: u16, count: u64, offset: Offset) -> Value {
    let bytes = match offset {
        Offset::Classic(offset) => offset.to_le_bytes().to_vec(),
        Offset::Big(offset) => offset.to_le_bytes().to_vec(),
    };
    Value::Raw { field, count, bytes }
}

enum Offset {
    Classic(u32),
    Big(u64),
}
use Offset::{Big, Classic};

fn short(value: u16) -> Value {
    Value::Short(vec![value])
}

fn long(value: u32) -> Value {
    Value::Long(vec![value])
}

fn headers() -> Vec<Case> {
    let big = |patch: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = file(small().big_tiff());
        patch(&mut bytes);
        bytes
    };
    let classic = |patch: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = file(small());
        patch(&mut bytes);
        bytes
    };
    let set = |bytes: &mut Vec<u8>, at: usize, with: &[u8]| bytes[at..at + with.len()].copy_from_slice(with);
    vec![
        case("empty", Refused, Vec::new()),
        case("noise", Refused, noise(4096)),
        case("zeros", Refused, vec![0; 4096]),
        case("byte-order-mark-mixed", Refused, classic(&|b| set(b, 0, b"IM"))),
        case("byte-order-mark-of-the-other", Refused, classic(&|b| set(b, 0, b"MM"))),
        case("magic-44", Refused, classic(&|b| set(b, 2, &[44, 0]))),
        case("magic-0", Refused, classic(&|b| set(b, 2, &[0, 0]))),
        case("classic-that-says-big", Refused, classic(&|b| set(b, 2, &[43, 0]))),
        case("big-that-says-classic", Refused, big(&|b| set(b, 2, &[42, 0]))),
        case("bigtiff-offsets-of-4-bytes", Refused, big(&|b| set(b, 4, &[4, 0]))),
        case("bigtiff-offsets-of-0-bytes", Refused, big(&|b| set(b, 4, &[0, 0]))),
        case("bigtiff-reserved-not-0", Either, big(&|b| set(b, 6, &[1, 0]))),
        case("first-directory-at-0", Refused, classic(&|b| set(b, 4, &[0; 4]))),
        case("first-directory-past-the-end", Refused, classic(&|b| set(b, 4, &[0xff, 0xff, 0xff, 0x7f]))),
        case(
            "first-directory-at-the-end",
            Refused,
            classic(&|b| {
                let end = b.len() as u32;
                set(b, 4, &end.to_le_bytes());
            }),
        ),
        case("first-directory-in-the-header", Either, classic(&|b| set(b, 4, &[2, 0, 0, 0]))),
        case("first-directory-near-2^64", Refused, big(&|b| set(b, 8, &(u64::MAX - 7).to_le_bytes()))),
        case("first-directory-at-2^63", Refused, big(&|b| set(b, 8, &(1u64 << 63).to_le_bytes()))),
        case("directory-of-2^60-entries", Refused, big(&|b| set(b, 16, &(1u64 << 60).to_le_bytes()))),
        case("directory-of-2^64-1-entries", Refused, big(&|b| set(b, 16, &u64::MAX.to_le_bytes()))),
        case("directory-of-65535-entries", Refused, classic(&|b| set(b, 8, &[0xff, 0xff]))),
        case("directory-of-no-entries", Refused, classic(&|b| set(b, 8, &[0, 0]))),
    ]
}

/// Directories that lead nowhere, in circles, or on for ever.
fn links() -> Vec<Case> {
    let child = Tiff::new(8, 8);
    let pixels = child.gradient();
    let chain = |first: Next, second: Next| file(small().next(first).directory(child.clone().next(second), &pixels));
    let sub = |value: Value| file(small().tag(tag::SUB_IFDS, value));
    vec![
        case("loop-of-one", Either, file(small().next(Next::Directory(0)))),
        case("loop-of-one-bigtiff", Either, file(small().big_tiff().next(Next::Directory(0)))),
        case("loop-of-two", Either, chain(Next::Directory(1), Next::Directory(0))),
        case("loop-at-the-end", Either, chain(Next::Directory(1), Next::Directory(1))),
        case("next-past-the-end", Either, file(small().next(Next::Offset(0x7fff_ffff)))),
        case("next-near-2^64", Either, file(small().big_tiff().next(Next::Offset(u64::MAX - 1)))),
        case("next-in-the-header", Either, file(small().next(Next::Offset(4)))),
        case("next-at-odd-byte-of-this", Either, file(small().next(Next::Offset(9)))),
        // The first directory of these files starts at byte 8.
        case("sub-directory-is-its-parent", Either, sub(Value::Ifd(vec![8]))),
        case("sub-directory-is-its-parent-thousandfold", Either, sub(Value::Ifd(vec![8; 1000]))),
        case("sub-directory-past-the-end", Either, sub(Value::Ifd(vec![0x7fff_ffff]))),
        case("sub-directories-declared-not-there", Either, sub(lie(13, 1 << 28, Classic(100)))),
        case("sub-directory-as-text", Either, sub(Value::ascii("eight"))),
        case(
            "sub-directory-leads-back",
            Either,
            file(small().sub_directory(child.clone().tag(tag::SUB_IFDS, Value::Ifd(vec![8])), &pixels)),
        ),
        case(
            "sub-directory-chain-leads-back",
            Either,
            file(small().sub_directory(child.clone().next(Next::Directory(0)), &pixels)),
        ),
        case("sub-directories-10000-deep", Either, nested(10_000, 1)),
        case("sub-directories-2^40-paths", Either, nested(40, 2)),
        case("65000-directories", Reads, chained(65_000)),
    ]
}

/// A one-pixel directory of a classic file at `at`, its strip the byte at 2, with these SubIFDs right behind it.
fn tiny_directory(at: u32, subs: &[u32], next: u32) -> Vec<u8> {
    let mut entries: Vec<(u16, u16, u32, u32)> = vec![
        (tag::IMAGE_WIDTH, 3, 1, 1),
        (tag::IMAGE_LENGTH, 3, 1, 1),
        (tag::BITS_PER_SAMPLE, 3, 1, 8),
        (tag::COMPRESSION, 3, 1, 1),
        (tag::PHOTOMETRIC, 3, 1, 1),
        (tag::STRIP_OFFSETS, 4, 1, 2),
        (tag::STRIP_BYTE_COUNTS, 4, 1, 1),
    ];
    let length = |entries: usize| 2 + 12 * entries as u32 + 4;
    match subs {
        [] => {}
        [sub] => entries.push((tag::SUB_IFDS, 13, 1, *sub)),
        _ => entries.push((tag::SUB_IFDS, 13, subs.len() as u32, at + length(entries.len() + 1))),
    }
    let mut out = (entries.len() as u16).to_le_bytes().to_vec();
    for (tag, field, count, value) in entries {
        out.extend(tag.to_le_bytes());
        out.extend(field.to_le_bytes());
        out.extend(count.to_le_bytes());
        out.extend(value.to_le_bytes());
    }
    out.extend(next.to_le_bytes());
    if subs.len() > 1 {
        out.extend(subs.iter().flat_map(|sub| sub.to_le_bytes()));
    }
    out
}

/// `count` tiny directories, each made with its own place and that of the next (0 for the last).
fn tiny_file(count: u32, directory: impl Fn(u32, u32) -> Vec<u8>) -> Vec<u8> {
    let mut out = b"II\x2a\0\x08\0\0\0".to_vec();
    let size = directory(8, 8).len().next_multiple_of(2) as u32;
    for number in 0..count {
        let at = 8 + number * size;
        out.extend(directory(at, if number + 1 < count { at + size } else { 0 }));
        out.resize((at + size) as usize, 0);
    }
    out
}

fn chained(count: u32) -> Vec<u8> {
    tiny_file(count, |at, next| tiny_directory(at, &[], next))
}

/// SubIFDs `depth` deep, each directory naming the next `times` times.
fn nested(depth: u32, times: usize) -> Vec<u8> {
    tiny_file(depth, |at, next| tiny_directory(at, &vec![next; times], 0))
}

/// Entries that lie about their type, count or place.
fn entries() -> Vec<Case> {
    let with = |tag: u16, value: Value| file(small().tag(tag, value));
    let big = |tag: u16, value: Value| file(small().big_tiff().tag(tag, value));
    const UNKNOWN: u16 = 65000;
    let mut cases = vec![
        case("unknown-field-type-of-unknown-tag", Reads, with(UNKNOWN, lie(99, 1, Classic(0)))),
        case("unknown-field-type-0", Reads, with(UNKNOWN, lie(0, 1, Classic(0)))),
        case("unknown-field-type-huge-count", Reads, big(UNKNOWN, lie(65535, u64::MAX, Big(u64::MAX)))),
        case("unknown-field-type-of-width", Refused, with(tag::IMAGE_WIDTH, lie(99, 1, Classic(32)))),
        case("width-as-text", Refused, with(tag::IMAGE_WIDTH, Value::ascii("32"))),
        case("width-as-double", Either, with(tag::IMAGE_WIDTH, Value::Double(vec![32.0]))),
        case("width-as-rational", Either, with(tag::IMAGE_WIDTH, Value::Rational(vec![(32, 1)]))),
        case("width-as-byte", Either, with(tag::IMAGE_WIDTH, Value::Byte(vec![32]))),
        case("width-negative", Refused, with(tag::IMAGE_WIDTH, Value::SLong(vec![-32]))),
        case("width-without-value", Refused, with(tag::IMAGE_WIDTH, Value::Long(vec![]))),
        case("width-twice-as-many-values", Either, with(tag::IMAGE_WIDTH, Value::Long(vec![32, 64]))),
        case("compression-as-text", Either, with(tag::COMPRESSION, Value::ascii("1"))),
        case("tile-offsets-as-float", Refused, with(tag::TILE_OFFSETS, Value::Float(vec![300.0; 4]))),
        case("tile-offsets-as-text", Refused, with(tag::TILE_OFFSETS, Value::ascii("abc"))),
        case("tile-offsets-negative", Refused, with(tag::TILE_OFFSETS, Value::SLong(vec![-256; 4]))),
        case("count-2^61-of-unknown-tag", Either, big(UNKNOWN, lie(16, 1 << 61, Big(16)))),
        case("count-2^64-1-of-unknown-tag", Either, big(UNKNOWN, lie(12, u64::MAX, Big(16)))),
        case("count-2^32-1-of-unknown-tag", Either, with(UNKNOWN, lie(12, u32::MAX.into(), Classic(8)))),
        case("count-2^61-of-tile-offsets", Refused, big(tag::TILE_OFFSETS, lie(16, 1 << 61, Big(16)))),
        case("count-2^61+4-of-tile-offsets", Refused, big(tag::TILE_OFFSETS, lie(16, (1 << 61) + 4, Big(16)))),
        case("count-2^63-of-tile-byte-counts", Refused, big(tag::TILE_BYTE_COUNTS, lie(3, 1 << 63, Big(16)))),
        case("million-tile-offsets-not-there", Refused, with(tag::TILE_OFFSETS, lie(4, 1 << 20, Classic(300)))),
        case("value-past-the-end", Either, with(UNKNOWN, lie(12, 4, Classic(0x7fff_fff0)))),
        case("value-near-2^64", Either, big(UNKNOWN, lie(12, 4, Big(u64::MAX - 8)))),
        case("tile-offsets-past-the-end", Refused, with(tag::TILE_OFFSETS, lie(4, 4, Classic(0xffff_fff0)))),
        case("tile-offsets-near-2^64", Refused, big(tag::TILE_OFFSETS, lie(16, 4, Big(u64::MAX - 15)))),
        case("text-without-nul", Reads, with(tag::IMAGE_DESCRIPTION, Value::Ascii(b"no end of it".to_vec()))),
        case("text-of-nuls", Reads, with(tag::IMAGE_DESCRIPTION, Value::Ascii(vec![0; 100]))),
        case("text-not-utf8", Reads, with(tag::SOFTWARE, Value::Ascii(b"\xff\xfe\x80\xc0 \xf0\x28\0".to_vec()))),
        case("text-empty", Reads, with(tag::SOFTWARE, Value::Ascii(vec![]))),
        case("rational-by-zero", Reads, with(tag::X_RESOLUTION, Value::Rational(vec![(1, 0)]))),
        case("tags-unsorted", Reads, file(small().unsorted())),
        case("tag-twice", Either, width_twice()),
    ];
    for (name, tag) in [
        ("width", tag::IMAGE_WIDTH),
        ("height", tag::IMAGE_LENGTH),
        ("tile-length", tag::TILE_LENGTH),
        ("tile-offsets", tag::TILE_OFFSETS),
    ] {
        cases.push(case(format!("no-{name}"), Refused, file(small().without(tag))));
    }
    cases.push(case("no-tile-arrays", Refused, file(small().without(tag::TILE_OFFSETS).without_byte_counts())));
    cases.push(case("no-tile-byte-counts", Either, file(small().without_byte_counts())));
    let compressed = Tiff::new(32, 32).strips(8).compression(Compression::Lzw).without_byte_counts();
    cases.push(case("no-strip-byte-counts", Either, file(compressed)));
    let both = small().tag(tag::STRIP_OFFSETS, long(8)).tag(tag::STRIP_BYTE_COUNTS, long(1024));
    cases.push(case("strips-and-tiles", Either, file(both)));
    cases
}

/// The second entry of a directory is the height: it becomes another width.
fn width_twice() -> Vec<u8> {
    let mut bytes = file(small().without(tag::NEW_SUBFILE_TYPE).tag(255, short(1)));
    // Byte 8 holds the count, entry 0 is tag 255, entry 1 the width.
    bytes[10..12].copy_from_slice(&tag::IMAGE_WIDTH.to_le_bytes());
    bytes
}

/// Images and tiles of sizes that can't be.
fn sizes() -> Vec<Case> {
    const HUGE: u32 = 1 << 31;
    const MOST: u32 = i32::MAX as u32;
    let with = |tag: u16, value: u32| file(small().tag(tag, long(value)));
    let sized = |image: Tiff, width: u32, height: u32| {
        file(image.tag(tag::IMAGE_WIDTH, long(width)).tag(tag::IMAGE_LENGTH, long(height)))
    };
    let strip = || Tiff::new(32, 32);
    let tile = |width: u32, height: u32, compression: Compression| {
        let image = small().compression(compression);
        file(image.tag(tag::TILE_WIDTH, long(width)).tag(tag::TILE_LENGTH, long(height)))
    };
    vec![
        case("width-0", Refused, with(tag::IMAGE_WIDTH, 0)),
        case("height-0", Refused, with(tag::IMAGE_LENGTH, 0)),
        case("tile-width-0", Refused, with(tag::TILE_WIDTH, 0)),
        case("tile-length-0", Refused, with(tag::TILE_LENGTH, 0)),
        case("rows-per-strip-0", Either, file(strip().tag(tag::ROWS_PER_STRIP, long(0)))),
        case("tile-larger-than-image", Reads, file(Tiff::new(3, 2).tile(512, 512).compression(Compression::Deflate))),
        case("image-2^31-of-tiles", Refused, sized(small(), HUGE, HUGE)),
        case("image-2^32-1-of-tiles", Refused, sized(small(), u32::MAX, u32::MAX)),
        case("image-2^31-in-one-strip", Refused, sized(strip().tag(tag::ROWS_PER_STRIP, long(HUGE)), HUGE, HUGE)),
        case("image-2^31-in-rows", Refused, sized(strip().tag(tag::ROWS_PER_STRIP, long(1)), HUGE, HUGE)),
        case("image-2^31-wide", Refused, sized(small(), HUGE, 1)),
        case("image-2^31-high", Refused, sized(small(), 1, HUGE)),
        case("image-2^31-of-one-deflated-strip", Refused, {
            let image = strip().compression(Compression::Deflate).tag(tag::ROWS_PER_STRIP, long(HUGE));
            sized(image, HUGE, HUGE)
        }),
        case("image-2^63-bytes-overflow", Refused, {
            let wide = strip().bits(64).tag(tag::SAMPLES_PER_PIXEL, short(65535)).planar();
            sized(wide.tag(tag::ROWS_PER_STRIP, long(u32::MAX)), u32::MAX, u32::MAX)
        }),
        case("image-2^20-of-one-sparse-tile", Either, {
            let image = Tiff::new(16, 16).tile(16, 16).sparse([0]);
            let image = image.tag(tag::TILE_WIDTH, long(1 << 20)).tag(tag::TILE_LENGTH, long(1 << 20));
            sized(image, 1 << 20, 1 << 20)
        }),
        case("image-2^31-1-of-one-sparse-tile", Either, {
            let image = Tiff::new(16, 16).tile(16, 16).sparse([0]);
            sized(image.tag(tag::TILE_WIDTH, long(MOST)).tag(tag::TILE_LENGTH, long(MOST)), MOST, MOST)
        }),
        case("image-2^31-1-of-one-sparse-strip", Either, {
            sized(Tiff::new(16, 16).sparse([0]).tag(tag::ROWS_PER_STRIP, long(MOST)), MOST, MOST)
        }),
        case("image-2^31-1-in-rows", Refused, sized(strip().tag(tag::ROWS_PER_STRIP, long(1)), MOST, MOST)),
        case("image-2^31-1-in-rows-of-one-pixel", Refused, sized(strip().tag(tag::ROWS_PER_STRIP, long(1)), 1, MOST)),
        case("image-2^31-1-high-in-one-sparse-strip", Either, {
            sized(Tiff::new(16, 16).sparse([0]).tag(tag::ROWS_PER_STRIP, long(MOST)), 1, MOST)
        }),
        case("image-2^31-1-of-one-sparse-row", Either, sized(Tiff::new(16, 1).strips(1).sparse([0]), MOST, 1)),
        case("image-2^31-1-in-tiles-of-rows", Refused, {
            sized(small().tag(tag::TILE_WIDTH, long(MOST)).tag(tag::TILE_LENGTH, long(1)), MOST, MOST)
        }),
        case("tile-2^31", Refused, tile(HUGE, HUGE, Compression::None)),
        case("tile-2^30-by-2^14", Refused, tile(1 << 30, 1 << 14, Compression::None)),
        case("tile-2^31-deflate", Refused, tile(HUGE, HUGE, Compression::Deflate)),
        case("tile-2^31-lzw", Refused, tile(HUGE, HUGE, Compression::Lzw)),
        case("tile-2^31-zstd", Refused, tile(HUGE, HUGE, Compression::Zstd)),
        case("tile-2^16-packbits", Refused, tile(1 << 16, 1 << 16, Compression::PackBits)),
        case("tile-2^32-1", Refused, tile(u32::MAX, u32::MAX, Compression::Deflate)),
    ]
}

/// Samples nobody has heard of.
fn samples() -> Vec<Case> {
    let with = |tag: u16, value: Value| file(small().compression(Compression::Deflate).tag(tag, value));
    let rgb = || small().samples(3);
    let float = || small().float(32).compression(Compression::Deflate);
    let bits = |bits: Vec<u16>| file(rgb().tag(tag::BITS_PER_SAMPLE, Value::Short(bits)));
    vec![
        case("bits-0", Refused, with(tag::BITS_PER_SAMPLE, short(0))),
        case("bits-65", Refused, with(tag::BITS_PER_SAMPLE, short(65))),
        case("bits-255", Refused, with(tag::BITS_PER_SAMPLE, short(255))),
        case("bits-65535", Refused, with(tag::BITS_PER_SAMPLE, short(65535))),
        case("bits-mixed", Either, bits(vec![8, 4, 12])),
        case("bits-mixed-with-0", Refused, bits(vec![8, 0, 8])),
        case("bits-of-one-sample-of-three", Either, bits(vec![8])),
        case("bits-of-two-samples-of-three", Either, bits(vec![8, 8])),
        case("samples-0", Refused, with(tag::SAMPLES_PER_PIXEL, short(0))),
        case("samples-65535", Refused, with(tag::SAMPLES_PER_PIXEL, short(65535))),
        case("samples-65535-planar", Refused, file(small().planar().tag(tag::SAMPLES_PER_PIXEL, short(65535)))),
        case("samples-2^31", Refused, with(tag::SAMPLES_PER_PIXEL, long(1 << 31))),
        case("sample-format-9", Refused, with(tag::SAMPLE_FORMAT, short(9))),
        case("sample-format-mixed", Either, file(rgb().tag(tag::SAMPLE_FORMAT, Value::Short(vec![1, 2, 3])))),
        case("sample-format-float-of-8-bits", Refused, with(tag::SAMPLE_FORMAT, short(3))),
        case("sample-format-complex-of-8-bits", Refused, with(tag::SAMPLE_FORMAT, short(6))),
        case("sample-format-float-of-40-bits", Refused, file(float().tag(tag::BITS_PER_SAMPLE, short(40)))),
        case("predictor-9", Refused, with(tag::PREDICTOR, short(9))),
        case("predictor-0", Either, with(tag::PREDICTOR, short(0))),
        case("predictor-3-of-whole-numbers", Refused, with(tag::PREDICTOR, short(3))),
        case("predictor-2-of-12-bits", Either, {
            file(small().bits(12).compression(Compression::Deflate).tag(tag::PREDICTOR, short(2)))
        }),
        case("predictor-2-of-complex", Either, {
            let image = small().bits(64).kind(Kind::ComplexFloat).compression(Compression::Deflate);
            file(image.tag(tag::PREDICTOR, short(2)))
        }),
        case("planar-7", Refused, file(rgb().tag(tag::PLANAR_CONFIGURATION, short(7)))),
        case("planar-0", Either, file(rgb().tag(tag::PLANAR_CONFIGURATION, short(0)))),
        case("planar-with-the-tiles-of-chunky", Refused, file(rgb().tag(tag::PLANAR_CONFIGURATION, short(2)))),
        case("fill-order-3", Either, with(tag::FILL_ORDER, short(3))),
        case("photometric-999", Either, with(tag::PHOTOMETRIC, short(999))),
        case("photometric-ycbcr-of-one-sample", Either, with(tag::PHOTOMETRIC, short(6))),
        case("palette-without-color-map", Either, with(tag::PHOTOMETRIC, short(3))),
        case("color-map-too-short", Either, file(small().color_map(vec![1, 2, 3]))),
        case("extra-samples-more-than-samples", Either, file(rgb().extra_samples(&[0; 20]))),
        case("compression-12345", Refused, with(tag::COMPRESSION, short(12345))),
        case("compression-0", Either, with(tag::COMPRESSION, short(0))),
        case("subsampling-of-0", Either, file(rgb().photometric(6).tag(530, Value::Short(vec![0, 0])))),
        case("subsampling-of-65535", Refused, {
            let image = rgb().photometric(6).tag(530, Value::Short(vec![65535, 65535]));
            file(image.tag(tag::COMPRESSION, short(7)))
        }),
    ]
}

/// Arrays of offsets and byte counts that do not fit the tiles.
fn indexes() -> Vec<Case> {
    let offsets = |offsets: Vec<u32>| file(small().tag(tag::TILE_OFFSETS, Value::Long(offsets)));
    let counts = |compression: Compression, counts: Vec<u32>| {
        file(small().compression(compression).tag(tag::TILE_BYTE_COUNTS, Value::Long(counts)))
    };
    let big = |tag: u16, numbers: Vec<u64>| file(small().big_tiff().tag(tag, Value::Long8(numbers)));
    let many = |count: usize| {
        // One tile, and arrays for many more.
        let image = Tiff::new(16, 16).tile(16, 16);
        let (at, size) = (Value::Long(vec![8; count]), Value::Long(vec![256; count]));
        file(image.tag(tag::TILE_OFFSETS, at).tag(tag::TILE_BYTE_COUNTS, size))
    };
    vec![
        case("tile-offsets-short", Refused, offsets(vec![8, 8])),
        case("tile-offsets-empty", Refused, offsets(vec![])),
        case("tile-byte-counts-short", Refused, counts(Compression::None, vec![256])),
        case("tile-arrays-too-long", Reads, many(3)),
        case("tile-arrays-a-million-too-long", Reads, many(1_000_000)),
        case("tile-past-the-end", Refused, offsets(vec![8, 8, 8, 0x7fff_ffff])),
        case("tile-reaches-past-the-end", Refused, {
            let end = file(small()).len() as u32;
            offsets(vec![8, 8, 8, end - 255])
        }),
        case("tile-at-2^64-16", Refused, big(tag::TILE_OFFSETS, vec![16, 16, 16, u64::MAX - 15])),
        case("tile-at-2^63", Refused, big(tag::TILE_OFFSETS, vec![1 << 63; 4])),
        // Readers may take no more than the tile needs or the file has: the pixels are there.
        case("tile-of-2^64-1-bytes", Either, big(tag::TILE_BYTE_COUNTS, vec![u64::MAX; 4])),
        case("tile-of-2^63-bytes", Either, big(tag::TILE_BYTE_COUNTS, vec![1 << 63; 4])),
        case("tile-of-2^32-1-bytes-deflate", Either, counts(Compression::Deflate, vec![u32::MAX; 4])),
        case("tile-of-2^32-1-bytes-none", Either, counts(Compression::None, vec![u32::MAX; 4])),
        case("tile-of-too-few-bytes-none", Refused, counts(Compression::None, vec![255; 4])),
        case("tile-of-too-few-bytes-deflate", Refused, counts(Compression::Deflate, vec![5; 4])),
        case("tile-of-one-byte-lzw", Refused, counts(Compression::Lzw, vec![1; 4])),
        case("tile-of-one-byte-zstd", Refused, counts(Compression::Zstd, vec![1; 4])),
        case("tile-of-one-byte-packbits", Refused, counts(Compression::PackBits, vec![1; 4])),
        case("tile-of-no-bytes-at-an-offset", Either, counts(Compression::Deflate, vec![0; 4])),
        case("tile-at-0-with-bytes", Either, offsets(vec![0; 4])),
        case("tiles-over-the-header-and-directory", Reads, offsets(vec![2, 4, 8, 10])),
        case("tiles-overlap", Reads, {
            let last = file(small()).len() as u32 - 256;
            offsets(vec![last - 3, last - 2, last - 1, last])
        }),
        case("tiles-all-the-same", Reads, file(small().shared(1, 0).shared(2, 0).shared(3, 0))),
        case("tile-offsets-are-tile-byte-counts", Either, {
            // Both arrays at one place: every tile claims as many bytes as its offset says.
            let image = small().tag(tag::TILE_OFFSETS, lie(4, 4, Classic(8)));
            file(image.tag(tag::TILE_BYTE_COUNTS, lie(4, 4, Classic(8))))
        }),
    ]
}

/// Cut off where one thing ends and another begins, and in the middle of each.
fn truncated() -> Vec<Case> {
    let mut cases = Vec::new();
    for (kind, image, header, entry, word) in
        [("classic", small(), 8, 12, 4), ("bigtiff", small().big_tiff(), 16, 20, 8)]
    {
        let whole = file(image.clone());
        let count_size = if word == 4 { 2 } else { 8 };
        let entries = usize::from(whole[header]);
        let table = header + count_size;
        let links = table + entries * entry;
        let tiles = whole.len() - 4 * image.tile_bytes();
        for (place, length) in [
            ("in-the-mark", 1),
            ("after-the-mark", 2),
            ("in-the-header", header - 1),
            ("after-the-header", header),
            ("in-the-entry-count", header + 1),
            ("after-the-entry-count", table),
            ("in-an-entry", table + entry / 2),
            ("between-entries", table + 3 * entry),
            ("after-the-entries", links),
            ("after-the-next-link", links + word),
            ("in-the-values", links + word + 5),
            ("before-the-tiles", tiles),
            ("in-the-first-tile", tiles + 100),
            ("between-tiles", tiles + image.tile_bytes()),
            ("in-the-last-byte", whole.len() - 1),
        ] {
            cases.push(case(format!("cut-{place}-{kind}"), Refused, whole[..length].to_vec()));
        }
        let last = file(image.directories_last());
        cases.push(case(format!("cut-before-directories-{kind}"), Refused, last[..header + 4 * 256].to_vec()));
        cases.push(case(format!("cut-in-last-directory-{kind}"), Refused, last[..header + 4 * 256 + 40].to_vec()));
    }
    for compression in [Compression::PackBits, Compression::Lzw, Compression::Deflate, Compression::Zstd] {
        let inner = compression.clone();
        let half = move |rows: &[u8]| {
            let bytes = inner.compress(&[rows.to_vec()]);
            bytes[..bytes.len() / 2].to_vec()
        };
        let image = small().compress_with(compression.number(), half);
        cases.push(case(format!("half-a-stream-{compression:?}"), Refused, image.build(&image.noise(1))));
    }
    cases
}

/// The file of an image of one tile of 16 x 16 bytes that is this stream.
fn stream(compression: u16, bytes: Vec<u8>) -> Vec<u8> {
    file(Tiff::new(16, 16).tile(16, 16).compress_with(compression, move |_| bytes.clone()))
}

/// Compressed streams that are wrong, or far longer than the tile.
fn streams() -> Vec<Case> {
    const LZW: u16 = 5;
    const DEFLATE: u16 = 8;
    const PACKBITS: u16 = 32773;
    const ZSTD: u16 = 50000;
    let zeros = |mebibytes: usize| vec![0; mebibytes << 20];
    let deflate_bomb = compression::deflate(&zeros(64));
    let many_bombs = {
        let bomb = deflate_bomb.clone();
        let image = Tiff::new(512, 512).tile(16, 16).compress_with(DEFLATE, move |_| bomb.clone());
        let image = (1..image.tile_count()).fold(image, |image, tile| image.shared(tile, 0));
        file(image)
    };
    let zstd = |head: &[u8], rest: &[u8]| [&[0x28, 0xb5, 0x2f, 0xfd], head, rest].concat();
    // A last block of 256 times the same byte.
    let zstd_block = [0b011 | (256u32 << 3) as u8, (256u32 >> 5) as u8, 0, 7];
    let flipped = |mut bytes: Vec<u8>, at: usize| {
        bytes[at] ^= 0x55;
        bytes
    };
    vec![
        case("bomb-deflate", Either, stream(DEFLATE, deflate_bomb)),
        case("bomb-deflate-thousandfold", Either, many_bombs),
        case("bomb-zstd", Either, stream(ZSTD, compression::zstd(&zeros(64)))),
        case("bomb-lzw", Either, stream(LZW, compression::lzw(&zeros(16)))),
        case("bomb-packbits", Either, stream(PACKBITS, compression::packbits(&zeros(16)))),
        case("deflate-empty-blocks", Refused, {
            // A million stored blocks of no bytes.
            stream(DEFLATE, [vec![0x78, 0x01], [0, 0, 0, 0xff, 0xff].repeat(1 << 20)].concat())
        }),
        case("deflate-bad-block-type", Refused, stream(DEFLATE, vec![0x78, 0x01, 0x07, 0, 0, 0, 0])),
        case("deflate-bad-header", Refused, stream(DEFLATE, vec![0xff; 64])),
        case("deflate-wants-a-dictionary", Refused, stream(DEFLATE, vec![0x78, 0x20, 1, 2, 3, 4, 0x03, 0])),
        // Fixed codes: length 3 at distance 1 before any byte.
        case("deflate-reaches-before-the-start", Refused, stream(DEFLATE, vec![0x78, 0x01, 0x03, 0x02, 0, 0, 0])),
        case("deflate-stored-length-lies", Refused, stream(DEFLATE, vec![0x78, 0x01, 1, 0, 1, 0, 1, 9, 9])),
        case("deflate-too-short", Refused, stream(DEFLATE, compression::deflate(&[1; 255]))),
        case("deflate-wrong-checksum", Either, {
            let bytes = compression::deflate(&[7; 256]);
            let last = bytes.len() - 1;
            stream(DEFLATE, flipped(bytes, last))
        }),
        case("deflate-with-bytes-after", Reads, stream(DEFLATE, [compression::deflate(&[7; 256]), noise(99)].concat())),
        case("lzw-code-not-there", Refused, stream(LZW, vec![0x80, 0x4b, 0, 0, 0])),
        case("lzw-ends-at-once", Refused, stream(LZW, vec![0x80, 0x40, 0x40])),
        case("lzw-only-clears", Refused, stream(LZW, clears(100_000))),
        case("lzw-noise", Either, stream(LZW, noise(4096))),
        case("lzw-too-short", Refused, stream(LZW, compression::lzw(&[1; 255]))),
        case("lzw-with-bytes-after", Reads, stream(LZW, [compression::lzw(&[7; 256]), noise(99)].concat())),
        case("packbits-only-no-ops", Refused, stream(PACKBITS, vec![128; 1 << 20])),
        case("packbits-literal-cut", Refused, stream(PACKBITS, vec![127, 1, 2, 3])),
        case("packbits-run-cut", Refused, stream(PACKBITS, vec![129])),
        case("packbits-no-ops-between", Reads, stream(PACKBITS, [128, 129, 7, 128].repeat(3))),
        case("zstd-bad-magic", Refused, stream(ZSTD, vec![0x28, 0xb5, 0x2f, 0xfe, 0, 0, 0, 0])),
        case("zstd-size-2^62", Either, {
            stream(ZSTD, zstd(&[&[0xe0][..], &(1u64 << 62).to_le_bytes()].concat(), &zstd_block))
        }),
        case("zstd-size-0", Either, stream(ZSTD, zstd(&[0x20, 0], &zstd_block))),
        case("zstd-window-of-terabytes", Either, stream(ZSTD, zstd(&[0x00, 0xff], &zstd_block))),
        case("zstd-wants-a-dictionary", Refused, stream(ZSTD, zstd(&[0x21, 42, 0xff], &zstd_block))),
        case("zstd-reserved-block", Refused, stream(ZSTD, zstd(&[0x20, 0xff], &[7, 8, 0, 1]))),
        case("zstd-too-short", Refused, stream(ZSTD, compression::zstd(&[1; 255]))),
        case("zstd-with-bytes-after", Reads, stream(ZSTD, [compression::zstd(&[7; 256]), vec![0; 99]].concat())),
        case("zstd-skippable-frames", Either, stream(ZSTD, [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0].repeat(100_000))),
    ]
}

/// LZW codes of 9 bits, all of them Clear.
fn clears(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; (count * 9).div_ceil(8)];
    for bit in (0..count).map(|code| code * 9) {
        bytes[bit / 8] |= 0x80 >> (bit % 8);
    }
    bytes
}

/// Bytes without meaning as the tiles of every compression there is.
fn garbage() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, number, samples) in [
        ("ccitt-rle", 2, 1),
        ("ccitt-g3", 3, 1),
        ("ccitt-g4", 4, 1),
        ("old-jpeg", 6, 3),
        ("jpeg", 7, 3),
        ("next", 32766, 1),
        ("ccitt-rle-words", 32771, 1),
        ("thunderscan", 32809, 1),
        ("pixarlog", 32909, 3),
        ("jbig", 34661, 1),
        ("sgilog", 34676, 3),
        ("sgilog24", 34677, 3),
        ("jpeg2000", 34712, 3),
        ("lerc", 34887, 1),
        ("lzma", 34925, 1),
        ("webp", 50001, 3),
        ("jpeg-xl", 50002, 3),
        ("jpeg-xl-of-dng", 52546, 3),
    ] {
        let bits = match name {
            "next" => 2,
            "thunderscan" => 4,
            "ccitt-rle" | "ccitt-g3" | "ccitt-g4" | "ccitt-rle-words" | "jbig" => 1,
            _ => 8,
        };
        let image = || Tiff::new(64, 64).bits(bits).samples(samples);
        let of = |bytes: Vec<u8>| file(image().compress_with(number, move |_| bytes.clone()));
        cases.push(case(format!("garbage-{name}"), Either, of(noise(3000))));
        cases.push(case(format!("nothing-{name}"), Either, of(vec![0])));
        cases.push(case(format!("ones-{name}"), Either, of(vec![0xff; 3000])));
    }
    let jpeg = || Tiff::new(16, 16).samples(3).photometric(6);
    let tables = |bytes: Vec<u8>| jpeg().tag(tag::JPEG_TABLES, Value::Undefined(bytes));
    // A frame of 65535 x 65535 in a tile of 16 x 16.
    let large = [
        &[0xff, 0xd8, 0xff, 0xc0, 0, 17, 8, 0xff, 0xff, 0xff, 0xff, 3][..],
        &[1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0, 0xff, 0xd9],
    ]
    .concat();
    let frame = move |_: &[u8]| large.clone();
    cases.extend([
        case("jpeg-tables-garbage", Refused, file(tables(noise(500)).compress_with(7, |_| noise(200)))),
        case("jpeg-tables-empty", Refused, file(tables(vec![]).compress_with(7, |_| noise(200)))),
        case("jpeg-tables-without-jpeg", Reads, file(small().tag(tag::JPEG_TABLES, Value::Undefined(noise(500))))),
        case("jpeg-frame-of-65535", Refused, file(jpeg().compress_with(7, frame))),
        case("old-jpeg-tables-past-the-end", Refused, {
            let far = Value::Long(vec![0x7fff_ffff; 3]);
            let image = jpeg().tag(513, long(0x7fff_ff00)).tag(514, long(u32::MAX)).tag(519, far.clone());
            file(image.tag(520, far.clone()).tag(521, far).compress_with(6, |_| noise(200)))
        }),
    ]);
    cases
}

/// Text and XML that explode.
fn texts() -> Vec<Case> {
    let metadata = |xml: Vec<u8>| file(small().tag(tag::GDAL_METADATA, Value::Ascii(xml)));
    let laughs = {
        let mut xml = String::from("<?xml version=\"1.0\"?><!DOCTYPE GDALMetadata [<!ENTITY e0 \"ha\">");
        for i in 1..30 {
            let reference = format!("&e{};", i - 1);
            xml += &format!("<!ENTITY e{i} \"{}\">", reference.repeat(10));
        }
        xml + "]><GDALMetadata><Item name=\"x\">&e29;</Item></GDALMetadata>\0"
    };
    let deep = |depth: usize, close: bool| {
        let end = if close { "</Item>".repeat(depth) } else { String::new() };
        format!("<GDALMetadata>{}{end}</GDALMetadata>\0", "<Item name=\"x\">".repeat(depth)).into_bytes()
    };
    let attributes: String = (0..50_000).map(|i| format!(" a{i}=\"1\"")).collect();
    let item = |inner: &str| format!("<GDALMetadata><Item {inner}</Item></GDALMetadata>\0").into_bytes();
    let outside = "<!DOCTYPE a [<!ENTITY f SYSTEM \"file:///etc/hostname\">]><GDALMetadata>&f;</GDALMetadata>\0";
    let nodata = |text: &str| file(small().nodata(text));
    vec![
        case("xml-billion-laughs", Either, metadata(laughs.into_bytes())),
        case("xml-outside-entity", Either, metadata(outside.as_bytes().to_vec())),
        case("xml-100000-deep", Either, metadata(deep(100_000, true))),
        case("xml-100000-deep-not-closed", Either, metadata(deep(100_000, false))),
        case("xml-only-openings", Either, metadata(vec![b'<'; 1 << 20])),
        case("xml-50000-attributes", Either, metadata(item(&format!("{attributes}>1")))),
        case("xml-not-utf8", Either, metadata(b"<GDALMetadata>\xff\xfe\x80</GDALMetadata>\0".to_vec())),
        case("xml-nul-inside", Either, metadata(b"<GDALMetadata>\0</GDALMetadata>\0".to_vec())),
        case("xml-without-nul", Either, metadata(b"<GDALMetadata></GDALMetadata>".to_vec())),
        case("xml-empty", Either, metadata(vec![])),
        case("xml-sample-of-a-band-not-there", Either, {
            metadata(item("name=\"SCALE\" sample=\"4294967295\" role=\"scale\">2"))
        }),
        case("xml-sample-negative", Either, metadata(item("name=\"SCALE\" sample=\"-1\" role=\"scale\">2"))),
        case("xml-scale-not-a-number", Either, metadata(item("name=\"SCALE\" sample=\"0\" role=\"scale\">pear"))),
        case("nodata-not-a-number", Either, nodata("pear")),
        case("nodata-empty", Either, nodata("")),
        case("nodata-1e400", Either, nodata("1e400")),
        case("nodata-of-a-megabyte", Either, nodata(&"9".repeat(1 << 20))),
        case("nodata-as-double", Either, file(small().tag(tag::GDAL_NODATA, Value::Double(vec![0.0])))),
        case("description-of-8-mebibytes", Reads, {
            file(small().tag(tag::IMAGE_DESCRIPTION, Value::Ascii(vec![b'a'; 8 << 20])))
        }),
    ]
}

/// Georeferences that lie.
fn geo() -> Vec<Case> {
    let keys = |keys: &[u16]| file(small().tag(tag::GEO_KEY_DIRECTORY, Value::Short(keys.to_vec())));
    let doubles = |tag: u16, values: &[f64]| file(small().tag(tag, Value::Double(values.to_vec())));
    let far = |place: u16| {
        let image = small()
            .tag(tag::GEO_ASCII_PARAMS, Value::ascii("a|"))
            .tag(tag::GEO_DOUBLE_PARAMS, Value::Double(vec![1.0]));
        file(image.tag(tag::GEO_KEY_DIRECTORY, Value::Short(vec![1, 1, 0, 1, 1026, place, 60000, 60000])))
    };
    vec![
        case("geo-keys-65535-declared", Either, keys(&[1, 1, 0, 65535, 1024, 0, 1, 1])),
        case("geo-keys-header-cut", Either, keys(&[1, 1])),
        case("geo-keys-empty", Either, keys(&[])),
        case("geo-keys-key-cut", Either, keys(&[1, 1, 0, 1, 1024, 0])),
        case("geo-keys-version-99", Either, keys(&[99, 1, 0, 1, 1024, 0, 1, 1])),
        case("geo-keys-twice", Either, keys(&[1, 1, 0, 2, 3072, 0, 1, 32633, 3072, 0, 1, 4326])),
        case("geo-keys-code-not-there", Either, file(small().epsg(1))),
        case("geo-keys-in-themselves", Either, keys(&[1, 1, 0, 1, 1024, tag::GEO_KEY_DIRECTORY, 1, 7])),
        case("geo-keys-in-an-unknown-tag", Either, keys(&[1, 1, 0, 1, 1024, 12345, 1, 0])),
        case("geo-keys-text-out-of-range", Either, far(tag::GEO_ASCII_PARAMS)),
        case("geo-keys-doubles-out-of-range", Either, far(tag::GEO_DOUBLE_PARAMS)),
        case("geo-keys-as-text", Either, file(small().tag(tag::GEO_KEY_DIRECTORY, Value::ascii("keys")))),
        case("transformation-nan", Either, doubles(tag::MODEL_TRANSFORMATION, &[f64::NAN; 16])),
        case("transformation-of-zeros", Either, doubles(tag::MODEL_TRANSFORMATION, &[0.0; 16])),
        case("transformation-of-3-values", Either, doubles(tag::MODEL_TRANSFORMATION, &[1.0; 3])),
        case("pixel-scale-of-zero", Either, file(small().geo((0.0, 0.0), (0.0, 0.0)))),
        case("pixel-scale-infinite", Either, file(small().geo((f64::INFINITY, 1.0), (f64::NAN, 0.0)))),
        case("pixel-scale-of-1-value", Either, doubles(tag::MODEL_PIXEL_SCALE, &[1.0])),
        case("tiepoint-of-5-values", Either, doubles(tag::MODEL_TIEPOINT, &[1.0; 5])),
        case("tiepoints-100000", Either, doubles(tag::MODEL_TIEPOINT, &[1.0; 600_000])),
    ]
}

/// Bytes without any order, the same every time.
fn noise(count: u64) -> Vec<u8> {
    (0..count).map(|i| mix(i) as u8).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::naive;

    #[test]
    fn names_are_unique_and_many() {
        let cases = cases();
        let names: BTreeSet<&str> = cases.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names.len(), cases.len());
        assert!(cases.len() >= 250, "{}", cases.len());
        for expect in [Refused, Reads, Either] {
            assert!(cases.iter().filter(|c| c.expect == expect).count() >= 20, "{expect:?}");
        }
    }

    /// The naive decoder survives them all and answers as a reader should.
    #[test]
    fn the_naive_decoder_answers_as_expected() {
        let mut wrong = Vec::new();
        for case in cases() {
            let answer = naive::decode(&case.bytes);
            match (case.expect, answer) {
                // It knows no codecs of pictures.
                (Reads, Err(e)) if e.rsplit(": ").next().is_some_and(|last| last.starts_with("compression ")) => {}
                (Reads, Err(e)) => wrong.push(format!("{}: {e}", case.name)),
                (Refused | Expect::RefusedTile, Ok(_)) => wrong.push(format!("{}: was read", case.name)),
                _ => {}
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// Bombs are read up to the end of the tile and no further.
    #[test]
    fn bombs_hold_the_tile_they_claim() {
        let cases = cases();
        for name in ["bomb-deflate", "bomb-deflate-thousandfold", "bomb-zstd", "bomb-lzw", "bomb-packbits"] {
            let bomb = cases.iter().find(|c| c.name == name).unwrap();
            let levels = naive::decode(&bomb.bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(levels[0].bytes.iter().all(|b| *b == 0), "{name}");
        }
    }

    #[test]
    fn deep_files_are_what_they_claim() {
        let levels = naive::decode(&chained(100)).unwrap();
        assert_eq!(levels.len(), 100);
        let levels = naive::decode(&nested(5, 1)).unwrap();
        assert_eq!(levels.iter().map(|l| l.parent).collect::<Vec<_>>(), [None, Some(0), Some(1), Some(2), Some(3)]);
        assert!(naive::decode(&nested(5, 2)).is_err());
    }
}
