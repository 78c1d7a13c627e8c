//! Deflate in a zlib frame.

mod inflate;
mod literals;

use std::cell::RefCell;

use flate2::{Decompress, FlushDecompress, Status};
use libdeflater::{CompressionLvl, Compressor, Decompressor};

use self::inflate::{Inflater, NotMine};
use super::trial::{WORTH_TRYING, does, pick, stretch};
use super::{Cause, Codec, Encoded, Plain, short};

/// Deflate in a zlib frame.
#[derive(Debug)]
pub struct Deflate;

/// What GDAL and libtiff write when nothing is said.
const DEFAULT_LEVEL: i32 = 6;

/// The quickest one takes fewer matches than all others, and no matches at all are quicker still. Where pixels are noisy
/// that gives fewer bytes, not more: short matches cost more than what they stand for (decision 12).
const QUICKEST: CompressionLvl = match CompressionLvl::new(1) {
    Ok(level) => level,
    Err(_) => panic!("level 1 is one"),
};

thread_local! {
    static INFLATER: RefCell<Box<Inflater>> = RefCell::new(Inflater::new());
    static DECOMPRESSOR: RefCell<Decompressor> = RefCell::new(Decompressor::new());
    static COMPRESSORS: RefCell<Compressors> = RefCell::default();
}

/// The quickest level and the last other one used: a writer never mixes levels on one thread for long.
#[derive(Default)]
struct Compressors {
    quickest: Option<Compressor>,
    other: Option<(CompressionLvl, Compressor)>,
    /// Pieces of a tile, and what becomes of them.
    pieces: Vec<u8>,
    tried: Vec<u8>,
}

impl Codec for Deflate {
    fn name(&self) -> &'static str {
        "deflate"
    }

    fn compression(&self) -> &'static [u16] {
        &[8, 32946]
    }

    fn takes_predictor(&self) -> bool {
        true
    }

    fn decode(&self, tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
        INFLATER.with_borrow_mut(|inflater| decode_by(inflater, tile.bytes, out))
    }

    fn encode(&self, tile: &Plain<'_>, out: &mut Vec<u8>) -> Result<(), Cause> {
        let level = tile.settings.level.unwrap_or(DEFAULT_LEVEL);
        let valid = (1..=12).contains(&level).then(|| CompressionLvl::new(level).ok()).flatten();
        let valid = valid.ok_or_else(|| Cause::unsupported(format!("deflate level {level}: it is 1 to 12")))?;
        COMPRESSORS.with_borrow_mut(|compressors| compressors.compress(valid, tile.bytes, out))
    }
}

impl Compressors {
    /// Compresses with a level, or in a quicker way where that gives no more bytes. Which one depends on the tile alone.
    fn compress(&mut self, level: CompressionLvl, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Cause> {
        let Self { quickest, other, pieces, tried } = self;
        let quickest = quickest.get_or_insert_with(|| Compressor::new(QUICKEST));
        let asked = match other.take().filter(|(of, _)| *of == level) {
            _ if level == QUICKEST => None,
            Some(kept) => Some(&mut other.insert(kept).1),
            None => Some(&mut other.insert((level, Compressor::new(level))).1),
        };
        if bytes.len() < WORTH_TRYING {
            return compress(asked.unwrap_or(quickest), bytes, out);
        }
        pick(bytes, pieces);
        let mut size = |compressor: &mut Compressor, bytes: &[u8]| {
            tried.clear();
            compress(compressor, bytes, tried).map(|()| tried.len())
        };
        let by_quickest = size(quickest, pieces)?;
        let by_asked = asked.map_or(Ok(None), |asked| size(asked, pieces).map(|due| Some((asked, due))))?;
        let due = by_asked.as_ref().map_or(by_quickest, |(_, due)| *due);
        let alone = |bytes: &[u8]| {
            let mut out = Vec::new();
            literals::compress(bytes, &mut out);
            out.len()
        };
        let hopeless = alone(pieces) <= by_quickest.min(due)
            && alone(stretch(bytes)) <= size(quickest, stretch(bytes))?
            && !literals::repeats(bytes);
        if hopeless {
            literals::compress(bytes, out);
            return Ok(());
        }
        let best = match by_asked {
            Some((asked, due)) if !does(by_quickest, due) => asked,
            _ => quickest,
        };
        compress(best, bytes, out)
    }
}

/// Decodes by our own inflate what is for it.
fn decode_by(inflater: &mut Inflater, bytes: &[u8], out: &mut [u8]) -> Result<(), Cause> {
    inflater.inflate(bytes, out).or_else(|NotMine| decode_any(bytes, out))
}

/// Decodes any stream, whatever is odd about it.
fn decode_any(bytes: &[u8], out: &mut [u8]) -> Result<(), Cause> {
    match DECOMPRESSOR.with_borrow_mut(|d| d.zlib_decompress(bytes, out)) {
        Ok(got) if got == out.len() => Ok(()),
        Ok(got) => Err(short(got, out.len())),
        // It wants the whole stream and no more: longer ones and those that lost their tail are still pixels.
        Err(_) => check_end(&mut inflate(bytes, out)?, bytes, out.len()),
    }
}

/// Inflates until `out` is full, whatever comes after; gives the stream as it stands there.
pub(super) fn inflate(bytes: &[u8], out: &mut [u8]) -> Result<Decompress, Cause> {
    let mut stream = Decompress::new(true);
    loop {
        let (read, written) = (stream.total_in() as usize, stream.total_out() as usize);
        let state = stream.decompress(&bytes[read..], &mut out[written..], FlushDecompress::None);
        let got = stream.total_out() as usize;
        if got >= out.len() {
            return Ok(stream);
        }
        let moved = got > written || stream.total_in() as usize > read;
        match state {
            Ok(Status::Ok | Status::BufError) if moved => {}
            Ok(_) => return Err(short(got, out.len())),
            Err(_) => return Err(Cause::damaged(format!("broken after {got} of {} bytes", out.len()))),
        }
    }
}

/// What follows the last byte that is due. A stream that lost its end is fine, and so is one that goes on, if it comes to
/// a sound end; a checksum that differs or a code that can't be is damage, and then who knows since where.
fn check_end(stream: &mut Decompress, bytes: &[u8], due: usize) -> Result<(), Cause> {
    let mut beyond = [0; 4096];
    // Rows that hang over the image at most double a tile; what goes on for much longer is no image, and a thousand such
    // tiles would take a minute.
    let most = 4 * (due as u64 + (1 << 20));
    loop {
        let (read, written) = (stream.total_in(), stream.total_out());
        let state = stream.decompress(&bytes[read as usize..], &mut beyond, FlushDecompress::None);
        let moved = stream.total_out() > written || stream.total_in() > read;
        match state {
            Ok(Status::StreamEnd) => return Ok(()),
            Ok(_) if !moved => return Ok(()),
            Ok(_) if stream.total_out() <= most => {}
            Ok(_) => return Err(Cause::damaged(format!("the data go on after {most} bytes where {due} are due"))),
            Err(_) => return Err(Cause::damaged("the data behind the pixels, or their checksum, are damaged")),
        }
    }
}

fn compress(compressor: &mut Compressor, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Cause> {
    let start = out.len();
    out.resize(start + compressor.zlib_compress_bound(bytes.len()), 0);
    let packed = compressor.zlib_compress(bytes, &mut out[start..]);
    // The bound above makes room for anything, so this can't be the data's fault.
    let packed = packed.map_err(|e| Cause::unsupported(format!("deflate: {e}")))?;
    out.truncate(start + packed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, check, decode, encode, torture};
    use super::*;

    #[test]
    fn there_and_back() {
        for level in [None, Some(1), Some(12)] {
            check(&Deflate, level);
        }
    }

    #[test]
    fn damage_is_an_error_or_pixels() {
        torture(&Deflate, None);
    }

    #[test]
    fn a_lost_checksum_is_forgiven_a_wrong_one_is_not() {
        let plain: Vec<u8> = (0..9000).map(|i| (i / 7) as u8).collect();
        let mut packed = encode(&Deflate, &plain, 9000, None).unwrap();
        let end = packed.len();
        packed[end - 1] ^= 1;
        assert!(matches!(decode(&Deflate, &packed, 9000), Err(Cause::Damaged(_))));
        packed.truncate(end - 4);
        assert_eq!(decode(&Deflate, &packed, 9000).unwrap(), plain);
    }

    #[test]
    fn a_stream_that_goes_on_must_come_to_a_sound_end() {
        let plain: Vec<u8> = (0..20_000u32).map(|i| (i * i / 77) as u8).collect();
        let packed = encode(&Deflate, &plain, plain.len(), None).unwrap();
        let start = decode(&Deflate, &packed, 10_000).unwrap();
        assert_eq!(start, plain[..10_000]);
        // Damage that makes the stream longer fills the tile all the same.
        for at in (10..packed.len() - 4).step_by(97) {
            let mut broken = packed.clone();
            broken[at] ^= 0x10;
            assert!(decode(&Deflate, &broken, 10_000).is_err(), "byte {at} of {}", packed.len());
        }
    }

    #[test]
    fn a_short_stream_says_how_short() {
        let packed = encode(&Deflate, &[5; 100], 100, None).unwrap();
        let cause = decode(&Deflate, &packed, 101).unwrap_err();
        assert_eq!(cause.to_string(), "the data give 100 bytes where 101 are due");
    }

    #[test]
    fn damage_comes_to_the_same_with_any_stream() {
        let mut random = Random::new(3);
        let mut forgiven = 0;
        for (most, level) in [(3, 1), (24, 6), (24, 12), (90, 9)] {
            let plain: Vec<u8> = noise(20_000, most, level as u64).map(|v| v as u8).collect();
            let packed = alone(level, &plain);
            for round in 0..400 {
                let mut bad = packed.clone();
                let at = random.below(bad.len());
                match round % 4 {
                    0 => bad.truncate(at),
                    1 => bad[at] ^= 1 << random.below(8),
                    2 => bad[at] = random.next() as u8,
                    _ => bad.extend(random.bytes(9)),
                }
                let due = [20_000, 20_001, 19_000, 10_000][random.below(4)];
                let (mut ours, mut any) = (vec![0; due], vec![1; due]);
                // Judged anew each time.
                let outcome = decode_by(&mut Inflater::new(), &bad, &mut ours);
                let expected = decode_any(&bad, &mut any);
                assert_eq!(
                    outcome.as_ref().err().map(ToString::to_string),
                    expected.as_ref().err().map(ToString::to_string)
                );
                assert!(expected.is_err() || ours == any);
                forgiven += usize::from(expected.is_ok());
            }
        }
        assert!((100..1500).contains(&forgiven), "{forgiven}");
    }

    /// What a predictor leaves of a noisy image: small numbers, which hardly repeat.
    fn noise(length: usize, most: usize, seed: u64) -> impl Iterator<Item = i16> {
        let mut random = Random::new(seed);
        (0..length).map(move |_| (0..4).map(|_| random.below(most) as i16).sum::<i16>() - 2 * most as i16)
    }

    /// What one level gives by itself.
    fn alone(level: i32, plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        compress(&mut Compressor::new(CompressionLvl::new(level).unwrap()), plain, &mut out).unwrap();
        out
    }

    /// What no matches give.
    fn unmatched(plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        literals::compress(plain, &mut out);
        out
    }

    #[test]
    fn of_all_ways_the_quickest_that_gives_no_more_bytes() {
        let bytes: Vec<u8> = noise(WORTH_TRYING, 24, 1).map(|v| v as u8).collect();
        let words: Vec<u8> = noise(WORTH_TRYING / 2, 48, 2).flat_map(i16::to_le_bytes).collect();
        // Terraces, wide and narrow.
        let mut widths = noise(usize::MAX, 8, 3);
        let mut rows: Vec<u8> = Vec::new();
        while rows.len() < WORTH_TRYING {
            let (Some(value), Some(width)) = (widths.next(), widths.next()) else { break };
            rows.extend(std::iter::repeat_n(value as u8, usize::from(width.unsigned_abs()) + 1));
        }
        // A tile of which a small part is noisy.
        let mixed = [&rows[..], &bytes[..WORTH_TRYING / 8]].concat();
        // What the test is about is true of them.
        let sizes = |plain: &[u8]| (unmatched(plain).len(), alone(1, plain).len(), alone(6, plain).len());
        assert!(matches!(sizes(&bytes), (none, first, sixth) if none < first && none < sixth));
        assert!(matches!(sizes(&words), (none, first, sixth) if first < none && first < sixth));
        assert!(matches!(sizes(&rows), (none, first, sixth) if sixth < none && sixth < first));
        for level in [1, 6, 9] {
            let packed = |plain: &[u8]| {
                let packed = encode(&Deflate, plain, plain.len(), Some(level)).unwrap();
                assert!(decode(&Deflate, &packed, plain.len()).unwrap() == plain);
                packed
            };
            assert!(packed(&bytes) == unmatched(&bytes), "{level}");
            assert!(packed(&words) == alone(1, &words), "{level}");
            assert!(packed(&rows) == alone(level, &rows), "{level}");
            assert!(packed(&mixed) == alone(level, &mixed), "{level}");
            // Small ones are not tried.
            let small = &bytes[..WORTH_TRYING - 1];
            assert!(packed(small) == alone(level, small), "{level}");
        }
    }

    #[test]
    fn pieces_tell_nothing_of_rows_that_repeat_farther_away() {
        let row: Vec<u8> = noise(9973, 24, 3).map(|v| v as u8).collect();
        let plain = row.repeat(21);
        let mut pieces = Vec::new();
        pick(&plain, &mut pieces);
        assert!(unmatched(&pieces).len() < alone(6, &pieces).len());
        assert!(encode(&Deflate, &plain, plain.len(), Some(6)).unwrap().len() < plain.len() / 10);
    }

    #[test]
    fn levels_out_of_range_are_refused() {
        for level in [0, 13, -1] {
            assert!(matches!(encode(&Deflate, &[1], 1, Some(level)), Err(Cause::Unsupported(_))));
        }
    }
}
