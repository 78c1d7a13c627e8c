//! The ZSTD kernels, emulated, against the host codec: whatever they call good are the bytes the host gives.

mod emulated;

use emulated::status::{CHECKSUM, DAMAGED, FOREIGN, INPUT, OK};
use emulated::streams::Random;
use emulated::{Case, Emulated, Outcome};
use tiffjet::codec::{self, Encoded, TileFormat};
use tiffjet::{Cause, DType};
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, compress_bound, zstd_sys};

impl Random {
    /// About a bell curve, as differences of neighbouring pixels are.
    fn bell(&mut self, width: usize) -> u8 {
        (0..4).fold(0u8, |sum, _| sum.wrapping_add(self.below(width) as u8)).wrapping_sub(2 * (width - 1) as u8)
    }

    /// Rows of four planes of bytes, from calm to noise, as predictor 3 leaves floats.
    fn floats(&mut self, n: usize) -> Vec<u8> {
        (0..n)
            .map(|i| match i / 256 % 4 {
                0 => 0,
                1 => (self.below(20) == 0) as u8,
                2 => self.bell(9),
                _ => self.next() as u8,
            })
            .collect()
    }

    /// Differences of 16 bits, as predictor 2 leaves pixels.
    fn pixels(&mut self, n: usize) -> Vec<u8> {
        (0..n.div_ceil(2)).flat_map(|_| i16::from(self.bell(14) as i8).to_le_bytes()).take(n).collect()
    }

    fn text(&mut self, n: usize) -> Vec<u8> {
        let words = ["raster ", "tile ", "of ", "the ", "band ", "pixel ", "row\n", "0.25 ", "north ", "overview "];
        let mut bytes = Vec::new();
        while bytes.len() < n {
            bytes.extend(words[self.below(words.len()).min(self.below(words.len()))].bytes());
        }
        bytes.truncate(n);
        bytes
    }

    /// Noise, runs, near and far repeats in turn; the same few distances come again and again.
    fn mixture(&mut self, n: usize) -> Vec<u8> {
        let mut bytes = self.bytes(10);
        let mut distances = [1, 4, 8];
        while bytes.len() < n {
            let most = if self.below(50) == 0 { 20000 } else { 60 };
            let length = 1 + self.below(most);
            match self.below(8) {
                0 => bytes.extend(self.bytes(length)),
                1 => bytes.extend(std::iter::repeat_n(self.next() as u8, length)),
                kind => {
                    let pick = self.below(3);
                    let distance = match kind {
                        2 => 1 + self.below(bytes.len().min(20)),
                        3 => 1 + self.below(bytes.len()),
                        4 => (distances[0] - 1).max(1),
                        _ => distances[pick],
                    };
                    let distance = distance.min(bytes.len());
                    distances = [distance, distances[0], distances[1]];
                    for _ in 0..length {
                        bytes.push(bytes[bytes.len() - distance]);
                    }
                    let literals = self.below(4);
                    bytes.extend(self.bytes(literals));
                }
            }
        }
        bytes.truncate(n);
        bytes
    }
}

/// What the host codec makes of a tile.
fn host(stream: &[u8], size: usize) -> Result<Vec<u8>, Cause> {
    let format = TileFormat::new(50000, (size as u32, 1), 1, DType::UInt8);
    let mut out = vec![0; size];
    let tile = Encoded { bytes: stream, rows: 1, index: 0, format: &format };
    codec::find(50000).expect("the host has ZSTD").decode(&tile, &mut out)?;
    Ok(out)
}

fn packed(bytes: &[u8], parameters: &[CParameter]) -> Vec<u8> {
    let mut context = CCtx::create();
    for &parameter in parameters {
        context.set_parameter(parameter).expect("zstd knows it");
    }
    let mut out = Vec::with_capacity(compress_bound(bytes.len()));
    context.compress2(&mut out, bytes).expect("zstd packs it");
    out
}

/// As a stream without content size, with the end of a block forced after every `step` bytes.
fn flushed(bytes: &[u8], step: usize, parameters: &[CParameter]) -> Vec<u8> {
    let mut context = CCtx::create();
    for &parameter in parameters {
        context.set_parameter(parameter).expect("zstd knows it");
    }
    let mut room = vec![0; compress_bound(bytes.len()) + bytes.len() / step * 64 + 1024];
    let mut out = OutBuffer::around(&mut room[..]);
    let mut pieces = bytes.chunks(step).peekable();
    while let Some(piece) = pieces.next() {
        let end = match pieces.peek() {
            Some(_) => zstd_sys::ZSTD_EndDirective::ZSTD_e_flush,
            None => zstd_sys::ZSTD_EndDirective::ZSTD_e_end,
        };
        let left = context.compress_stream2(&mut out, &mut InBuffer::around(piece), end).expect("zstd packs it");
        assert_eq!(left, 0);
    }
    let written = out.pos();
    room.truncate(written);
    room
}

/// A frame written by hand, block by block.
struct Frame(Vec<u8>);

impl Frame {
    /// Without content size, for a window of 8 MiB.
    fn new() -> Self {
        Self([0x28, 0xb5, 0x2f, 0xfd, 0x00, 13 << 3].to_vec())
    }

    fn block(&mut self, kind: u32, size: usize, content: &[u8], last: bool) {
        let header = u32::from(last) | kind << 1 | (size as u32) << 3;
        self.0.extend(&header.to_le_bytes()[..3]);
        self.0.extend(content);
    }

    fn raw(&mut self, bytes: &[u8], last: bool) {
        self.block(0, bytes.len(), bytes, last);
    }

    fn same(&mut self, byte: u8, n: usize, last: bool) {
        self.block(1, n, &[byte], last);
    }

    /// Sequences that all have the same three codes, so that no state takes a bit; extra bits as they come.
    fn alike(&mut self, literals: &Literals, codes: [u8; 3], count: usize, random: &mut Random, last: bool) {
        let mut content = literals.section();
        if count < 128 {
            content.push(count as u8);
        } else if count < 0x7f00 {
            content.extend([(count >> 8) as u8 + 128, count as u8]);
        } else {
            content.push(255);
            content.extend(((count - 0x7f00) as u16).to_le_bytes());
        }
        content.push(0b0101_0100);
        let [lengths, offsets, matches] = codes;
        content.extend([lengths, offsets, matches]);
        assert!(lengths < 20 && matches < 36, "one extra bit at most");
        let extra = [u32::from(offsets), u32::from(matches >= 32), u32::from(lengths >= 16)];
        let read: Vec<(u64, u32)> =
            (0..count * 3).map(|k| (random.next() & ((1 << extra[k % 3]) - 1), extra[k % 3])).collect();
        content.extend(backwards(&read));
        self.block(2, content.len(), &content, last);
    }
}

/// Bits in the order they are read, as bytes that are read from their end.
fn backwards(read: &[(u64, u32)]) -> Vec<u8> {
    let (mut bytes, mut bits, mut have) = (Vec::new(), 0u64, 0);
    for &(value, width) in read.iter().rev().chain(&[(1, 1)]) {
        bits |= value << have;
        have += width;
        while have >= 8 {
            bytes.push(bits as u8);
            bits >>= 8;
            have -= 8;
        }
    }
    if have > 0 {
        bytes.push(bits as u8);
    }
    bytes
}

enum Literals<'a> {
    Raw(&'a [u8]),
    Same(u8, usize),
}

impl Literals<'_> {
    fn section(&self) -> Vec<u8> {
        let (kind, size, content) = match self {
            Self::Raw(bytes) => (0, bytes.len(), *bytes),
            Self::Same(byte, size) => (1, *size, std::slice::from_ref(byte)),
        };
        let size = size as u32;
        let header = match size {
            ..32 => vec![(kind | size << 3) as u8],
            32..4096 => ((kind | 1 << 2 | size << 4) as u16).to_le_bytes().to_vec(),
            _ => (kind | 3 << 2 | size << 4).to_le_bytes()[..3].to_vec(),
        };
        [&header[..], content].concat()
    }
}

/// What blocks a stream has: `literals KIND STREAMS`, `TABLE MODE`, `block KIND`.
fn features(stream: &[u8]) -> Vec<String> {
    let number = |at: usize, n: usize| (0..n).fold(0u64, |sum, k| sum | u64::from(stream[at + k]) << (8 * k));
    let mut found = Vec::new();
    let descriptor = stream[4];
    let single = descriptor >> 5 & 1;
    let mut at = 6 - usize::from(single) + [usize::from(single), 2, 4, 8][usize::from(descriptor >> 6)];
    loop {
        let header = number(at, 3);
        let (kind, size) = (header >> 1 & 3, (header >> 3) as usize);
        found.push(format!("block {kind}"));
        at += 3;
        if kind == 2 {
            let first = number(at, 5);
            let (kind, format) = (first & 3, (first >> 2 & 3) as usize);
            let (streams, length) = if kind < 2 {
                let bytes = [1, 2, 1, 3][format];
                let size = (first & ((1 << (8 * bytes)) - 1)) >> if bytes == 1 { 3 } else { 4 };
                (0, bytes + if kind == 1 { 1 } else { size as usize })
            } else {
                let bits = [10, 10, 14, 18][format];
                (
                    if format == 0 { 1 } else { 4 },
                    [3, 3, 4, 5][format] + (first >> (4 + bits) & ((1 << bits) - 1)) as usize,
                )
            };
            found.push(format!("literals {kind} {streams}"));
            let count = stream[at + length];
            if count > 0 {
                let modes = stream[at + length + if count == 255 { 3 } else { 1 + usize::from(count > 127) }];
                found.extend(
                    (0..3).map(|k| format!("{} {}", ["lengths", "offsets", "matches"][k], modes >> (6 - 2 * k) & 3)),
                );
            }
        }
        at += if kind == 1 { 1 } else { size };
        if header & 1 == 1 {
            return found;
        }
    }
}

fn check(program: &Emulated, cases: &[Case], plain: &[Vec<u8>], seed: u64) {
    for (i, (status, bytes)) in program.run(cases, seed).into_iter().enumerate() {
        assert_eq!(status, OK, "case {i}, seed {seed}");
        assert!(bytes == plain[i], "case {i}, seed {seed}: other bytes");
    }
}

/// Cases and what they must give, which the host must say too.
#[derive(Default)]
struct Sound {
    cases: Vec<Case>,
    plain: Vec<Vec<u8>>,
}

impl Sound {
    fn add(&mut self, encoded: Vec<u8>, plain: &[u8]) {
        assert!(host(&encoded, plain.len()).expect("the host takes it") == plain);
        self.cases.push(Case { encoded, size: plain.len() });
        self.plain.push(plain.to_vec());
    }

    fn check(&self, program: &Emulated, seeds: &[u64]) {
        for &seed in seeds {
            check(program, &self.cases, &self.plain, seed);
        }
    }
}

fn kinds(random: &mut Random, n: usize) -> Vec<Vec<u8>> {
    vec![random.floats(n), random.pixels(n), random.text(n), vec![0; n], random.bytes(n), random.mixture(n)]
}

/// One after the other, so that the machine's cores are the tests' to share and the program is built once.
#[test]
fn zstd_kernels() {
    let program = Emulated::build("zstd");
    let mut found = Vec::new();
    every_level(&program, &mut found);
    every_size(&program);
    every_form_of_frame(&program);
    blocks_by_hand(&program, &mut found);
    everything_was_there(&found);
    more_or_less_than_the_tile(&program);
    damage(&program);
    nonsense(&program);
}

/// All levels and kinds of data.
fn every_level(program: &Emulated, found: &mut Vec<String>) {
    let mut random = Random(1);
    for (k, level) in (-5..=22).enumerate() {
        let n = [30_000, 5_000, 140_000, 10_000, 40_000, 7_000][k % 6];
        let mut sound = Sound::default();
        for plain in kinds(&mut random, n) {
            let stream = packed(&plain, &[CParameter::CompressionLevel(level)]);
            found.extend(features(&stream));
            sound.add(stream, &plain);
            let small = flushed(&plain[..n / 4], 2000 + 100 * k, &[CParameter::CompressionLevel(level)]);
            found.extend(features(&small));
            sound.add(small, &plain[..n / 4]);
        }
        sound.check(program, &[k as u64]);
    }
}

/// Every kind of block, of literals and of tables was in some case.
fn everything_was_there(found: &[String]) {
    let blocks = (0..3).map(|k| format!("block {k}"));
    let literals = ["0 0", "1 0", "2 1", "2 4", "3 1", "3 4"].iter().map(|k| format!("literals {k}"));
    let tables = ["lengths", "offsets", "matches"].iter().flat_map(|t| (0..4).map(move |m| format!("{t} {m}")));
    for name in blocks.chain(literals).chain(tables) {
        assert!(found.contains(&name), "no case has {name}");
    }
}

fn every_size(program: &Emulated) {
    let mut random = Random(2);
    let mut sound = Sound::default();
    for n in (0..70).chain([127, 255, 256, 257, 1000, 4095, 4097, 131_071, 131_073]) {
        let plain = random.mixture(n);
        sound.add(packed(&plain, &[CParameter::CompressionLevel(3)]), &plain);
        let plain = random.pixels(n);
        sound.add(packed(&plain, &[CParameter::CompressionLevel(12)]), &plain);
    }
    sound.check(program, &[0, 5]);
    let mut large = Sound::default();
    for plain in kinds(&mut random, 600_000) {
        large.add(packed(&plain, &[CParameter::CompressionLevel(9)]), &plain);
    }
    large.check(program, &[8, 3]);
}

fn every_form_of_frame(program: &Emulated) {
    let mut random = Random(3);
    let mut sound = Sound::default();
    for (i, plain) in kinds(&mut random, 140_000).into_iter().enumerate() {
        for content in [false, true] {
            for sum in [false, true] {
                let n = plain.len() - i;
                let stream =
                    packed(&plain[..n], &[CParameter::ContentSizeFlag(content), CParameter::ChecksumFlag(sum)]);
                sound.add(stream, &plain[..n]);
            }
        }
        let long =
            [CParameter::EnableLongDistanceMatching(true), CParameter::WindowLog(27), CParameter::CompressionLevel(19)];
        sound.add(packed(&plain, &long), &plain);
        sound.add(flushed(&plain, 100_000, &long), &plain);
        let narrow = [CParameter::WindowLog(10), CParameter::CompressionLevel(5), CParameter::ContentSizeFlag(false)];
        sound.add(flushed(&plain[..40_000], 40_000, &narrow), &plain[..40_000]);
        // Frames one after the other, some to be skipped, some empty, anything after the last.
        let (a, b) = plain.split_at(70_001);
        let sums = [CParameter::ChecksumFlag(true)];
        let skipped = [&0x184d_2a53u32.to_le_bytes()[..], &5u32.to_le_bytes(), b"hello"].concat();
        let pieces =
            [skipped.clone(), packed(a, &sums), packed(&[], &[]), skipped.clone(), flushed(b, 50_000, &sums), skipped];
        sound.add(pieces.concat(), &plain);
        sound.add([&pieces.concat()[..], b"and more"].concat(), &plain);
        sound.add([pieces.concat(), packed(b, &[])].concat(), &plain);
    }
    sound.check(program, &[4, 3]);
}

/// What zstd's own encoder seldom writes: repeated offsets in every pattern, literals and codes all the same.
fn blocks_by_hand(program: &Emulated, found: &mut Vec<String>) {
    let mut random = Random(4);
    let mut sound = Sound::default();
    for round in 0..60 {
        let mut frame = Frame::new();
        // Small tiles may have few blocks.
        frame.raw(&random.bytes(12_000), false);
        frame.same(7, 30, false);
        for _ in 0..1 + random.below(12) {
            // Codes 0 to 3 of offsets: the last three, one of them less one, and small new ones.
            let lengths = [0, 0, 1, 2, 5, 16][random.below(6)];
            let codes = [lengths, random.below(4) as u8, [0, 1, 5, 30, 33][random.below(5)]];
            let count = 1 + random.below([5, 70, 300, 5000][round % 4]).min(20_000);
            let bytes = random.bytes(count * usize::from(lengths).min(17) + count);
            let literals = match random.below(2) {
                0 => Literals::Raw(&bytes),
                _ => Literals::Same(9, bytes.len()),
            };
            let count = count.min((128 * 1024 - bytes.len()) / 70);
            if count > 0 {
                frame.alike(&literals, codes, count, &mut random, false);
            }
        }
        frame.raw(&[], true);
        // The size is not known before; and a pattern may take one from an offset of one, which is damage.
        let mut room = Vec::with_capacity(4_000_000);
        if zstd_safe::decompress(&mut room, &frame.0).is_ok() {
            found.extend(features(&frame.0));
            sound.add(frame.0, &room);
        }
    }
    assert!(sound.cases.len() > 25, "{} of 60 frames are sound", sound.cases.len());
    // As many sequences as a block can have.
    let mut frame = Frame::new();
    frame.alike(&Literals::Raw(b"abc"), [0, 0, 0], 43_600, &mut random, true);
    let mut room = Vec::with_capacity(131_072);
    if zstd_safe::decompress(&mut room, &frame.0).is_ok() {
        sound.add(frame.0, &room);
    }
    sound.check(program, &[5, 6]);
}

fn more_or_less_than_the_tile(program: &Emulated) {
    let mut random = Random(5);
    let plain = random.mixture(50_000);
    let sums = packed(&plain, &[CParameter::ChecksumFlag(true)]);
    let bare = flushed(&plain, 9_000, &[CParameter::CompressionLevel(6)]);
    let mut wrong = sums.clone();
    *wrong.last_mut().expect("a frame has bytes") ^= 1;
    let case = |encoded: &[u8], size| Case { encoded: encoded.to_vec(), size };
    let dictionary = [&[0x28, 0xb5, 0x2f, 0xfd, 0x01, 0x58, 0x07][..], &bare[6..]].concat();
    let cases = [
        case(&bare, 50_001),
        case(&sums, 60_000),
        case(&bare, 49_999),
        case(&sums, 10),
        case(&bare, 0),
        case(&wrong, 50_000),
        case(&[], 10),
        case(&[], 0),
        case(b"not zstd at all", 10),
        case(&sums[..sums.len() - 2], 50_000),
        case(&dictionary, 50_000),
        case(&[[0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0].repeat(64), bare.clone()].concat(), 50_000),
        case(&[[0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0].repeat(65), bare.clone()].concat(), 50_000),
    ];
    let status: Vec<u32> = program.run(&cases, 9).into_iter().map(|(status, _)| status).collect();
    // Of the first two that are good nothing is wanted; then frames to be skipped, as many as may be and one more.
    let due = [INPUT, INPUT, FOREIGN, FOREIGN, OK, CHECKSUM, INPUT, OK, FOREIGN, INPUT, FOREIGN, OK, FOREIGN];
    assert_eq!(status, due);
}

/// What passes must be what the host gives, byte for byte.
fn honest(cases: &[Case], outcomes: Vec<Outcome>) -> (usize, usize, usize) {
    let (mut passed, mut refused, mut stricter) = (0, 0, 0);
    for (i, (case, (status, bytes))) in cases.iter().zip(outcomes).enumerate() {
        let due = host(&case.encoded, case.size);
        if status == OK {
            assert!(due.is_ok_and(|due| due == bytes), "case {i} passed, and the host says otherwise");
            passed += 1;
        } else {
            assert!([INPUT, DAMAGED, CHECKSUM, FOREIGN].contains(&status), "case {i}: status {status}");
            refused += 1;
            stricter += usize::from(due.is_ok());
        }
    }
    (passed, refused, stricter)
}

fn damage(program: &Emulated) {
    let mut random = Random(6);
    let mut streams: Vec<(Vec<u8>, usize)> = Vec::new();
    for (i, plain) in kinds(&mut random, 20_000).into_iter().enumerate() {
        let level = CParameter::CompressionLevel([1, 3, 9, 19][i % 4]);
        streams.push((packed(&plain, &[level, CParameter::ContentSizeFlag(i % 2 == 0)]), plain.len()));
        streams.push((flushed(&plain, 3_000, &[level, CParameter::ChecksumFlag(i % 3 == 0)]), plain.len()));
        streams.push((packed(&plain[..700], &[level]), 700));
    }
    let mut cases = Vec::new();
    for round in 0..900 {
        let (stream, size) = &streams[round % streams.len()];
        let (mut encoded, mut size) = (stream.clone(), *size);
        match round / streams.len() % 6 {
            0 => encoded.truncate(random.below(encoded.len())),
            1 => size = [size - 1 - random.below(500), size + 1 + random.below(500)][random.below(2)],
            2 => {
                let at = random.below(encoded.len());
                let n = (1 + random.below(20)).min(encoded.len() - at);
                let noise = random.bytes(n);
                encoded[at..at + n].copy_from_slice(&noise);
            }
            3 => {
                // The first bytes have all the headers and tables.
                let at = random.below(encoded.len().min(120));
                encoded[at] = random.next() as u8;
            }
            _ => {
                for _ in 0..1 + random.below(4) {
                    let at = random.below(encoded.len());
                    encoded[at] ^= 1 << random.below(8);
                }
            }
        }
        cases.push(Case { encoded, size });
    }
    for (k, part) in cases.chunks(300).enumerate() {
        let (passed, refused, stricter) = honest(part, program.run(part, k as u64));
        assert!(passed > 20 && refused > 100, "{passed} passed, {refused} refused, {stricter} that the host takes");
        // Tiles that want less than there is; and the host does not ask whether the bits of literals are used up.
        assert!(stricter * 3 < refused, "{stricter} of {refused} refused are good enough for the host");
    }
}

/// Blocks whose content is noise behind headers that are not.
fn nonsense(program: &Emulated) {
    let mut random = Random(7);
    let mut cases = Vec::new();
    for round in 0..250 {
        let mut frame = Frame::new();
        for k in 0..3 {
            let n = 10 + random.below(400);
            let mut content = random.bytes(n);
            // Compressed literals of small sizes, four streams or one, more or less.
            content[0] = content[0] & 0xf0 | (2 + u8::from(k > 0 && round % 5 == 0)) | (random.below(2) as u8) << 2;
            content[2] &= 0x0f;
            if round % 2 == 0 {
                content = [
                    Literals::Raw(&content[..5]).section(),
                    vec![1 + random.below(100) as u8, content[3] & 0xfc],
                    random.bytes(n),
                ]
                .concat();
            }
            frame.block(2, content.len(), &content, k == 2);
        }
        cases.push(Case { encoded: frame.0, size: 1 + random.below(3000) });
    }
    honest(&cases, program.run(&cases, 4));
}
