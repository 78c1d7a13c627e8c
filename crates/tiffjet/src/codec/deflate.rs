//! Deflate in a zlib frame.

use std::cell::RefCell;

use flate2::{Decompress, FlushDecompress, Status};
use libdeflater::{CompressionLvl, Compressor, Decompressor};

use super::{Cause, Codec, Encoded, Plain, short};

/// Deflate in a zlib frame.
#[derive(Debug)]
pub struct Deflate;

/// What GDAL and libtiff write when nothing is said.
const DEFAULT_LEVEL: i32 = 6;

/// The quickest one takes fewer matches than all others. Where pixels are noisy that gives less bytes, not more: short
/// matches cost more than what they stand for (decision 12).
const QUICKEST: CompressionLvl = match CompressionLvl::new(1) {
    Ok(level) => level,
    Err(_) => panic!("level 1 is one"),
};
/// Bytes of a tile from which on it is worth trying both on a part of it.
const WORTH_TRYING: usize = 128 << 10;
/// That part of the tile, and no less than so many bytes, in as many pieces from all over it.
const TRIED_SHARE: usize = 64;
const TRIED_LEAST: usize = 4 << 10;
const PIECES: usize = 8;

thread_local! {
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
        match DECOMPRESSOR.with_borrow_mut(|d| d.zlib_decompress(tile.bytes, out)) {
            Ok(got) if got == out.len() => Ok(()),
            Ok(got) => Err(short(got, out.len())),
            // It wants the whole stream and no more: longer ones and those that lost their tail are still pixels.
            Err(_) => check_end(&mut inflate(tile.bytes, out)?, tile.bytes, out.len()),
        }
    }

    fn encode(&self, tile: &Plain<'_>, out: &mut Vec<u8>) -> Result<(), Cause> {
        let level = tile.settings.level.unwrap_or(DEFAULT_LEVEL);
        let valid = (1..=12).contains(&level).then(|| CompressionLvl::new(level).ok()).flatten();
        let valid = valid.ok_or_else(|| Cause::unsupported(format!("deflate level {level}: it is 1 to 12")))?;
        COMPRESSORS.with_borrow_mut(|compressors| compressors.compress(valid, tile.bytes, out))
    }
}

impl Compressors {
    /// Compresses with a level, or with the quickest where that gives no more bytes. Which one depends on the tile alone.
    fn compress(&mut self, level: CompressionLvl, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Cause> {
        let Self { quickest, other, pieces, tried } = self;
        let quickest = quickest.get_or_insert_with(|| Compressor::new(QUICKEST));
        if level == QUICKEST {
            return compress(quickest, bytes, out);
        }
        let (_, asked) = match other.take().filter(|(of, _)| *of == level) {
            Some(kept) => other.insert(kept),
            None => other.insert((level, Compressor::new(level))),
        };
        if bytes.len() < WORTH_TRYING {
            return compress(asked, bytes, out);
        }
        pick(bytes, pieces);
        let mut size = |compressor: &mut Compressor| {
            tried.clear();
            compress(compressor, pieces, tried).map(|()| tried.len())
        };
        let better = if size(quickest)? <= size(asked)? { quickest } else { asked };
        compress(better, bytes, out)
    }
}

/// Pieces from all over a tile, at even distances.
fn pick(bytes: &[u8], pieces: &mut Vec<u8>) {
    let length = (bytes.len() / TRIED_SHARE).max(TRIED_LEAST).min(bytes.len()) / PIECES;
    pieces.clear();
    for part in bytes.chunks_exact(bytes.len() / PIECES).take(PIECES) {
        let start = (part.len() - length) / 2;
        pieces.extend_from_slice(&part[start..start + length]);
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

    /// Bytes that hardly repeat, few values more often than others: what a predictor leaves of a noisy image.
    fn noise(length: usize, seed: u64) -> Vec<u8> {
        let mut random = Random::new(seed);
        (0..length).map(|_| (0..4).map(|_| random.below(24) as u8).sum()).collect()
    }

    /// What one level gives by itself.
    fn alone(level: i32, plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        compress(&mut Compressor::new(CompressionLvl::new(level).unwrap()), plain, &mut out).unwrap();
        out
    }

    #[test]
    fn of_two_levels_the_one_that_gives_fewer_bytes() {
        let (noisy, mut steps) = (noise(WORTH_TRYING, 1), noise(600, 2).repeat(WORTH_TRYING / 600 + 1));
        steps.iter_mut().step_by(97).for_each(|byte| *byte = byte.wrapping_add(1));
        // What the test is about is true of these bytes.
        assert!(alone(1, &noisy).len() < alone(6, &noisy).len());
        assert!(alone(1, &steps).len() > alone(6, &steps).len());
        for level in [2, 6, 9] {
            let packed = encode(&Deflate, &noisy, noisy.len(), Some(level)).unwrap();
            assert!(packed == alone(1, &noisy), "{level}");
            assert!(decode(&Deflate, &packed, noisy.len()).unwrap() == noisy);
        }
        assert!(encode(&Deflate, &steps, steps.len(), Some(6)).unwrap() == alone(6, &steps));
        // A tile of which only a part is noisy.
        let mixed = [&steps[..], &noisy[..WORTH_TRYING / 8]].concat();
        assert!(encode(&Deflate, &mixed, mixed.len(), Some(6)).unwrap() == alone(6, &mixed));
        // Small ones are not tried.
        let small = &noisy[..WORTH_TRYING - 1];
        assert!(encode(&Deflate, small, small.len(), Some(6)).unwrap() == alone(6, small));
    }

    #[test]
    fn pieces_come_from_all_over_a_tile() {
        for length in [WORTH_TRYING, WORTH_TRYING + 1, 300_007, 5 << 20] {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 256 / length) as u8).collect();
            let mut pieces = Vec::new();
            pick(&bytes, &mut pieces);
            assert!(pieces.len() >= TRIED_LEAST - PIECES && pieces.len() <= length / 32);
            for (i, piece) in pieces.chunks(pieces.len() / PIECES).enumerate() {
                assert!(piece.iter().all(|&b| usize::from(b) * PIECES / 256 == i), "{length}");
            }
        }
    }

    #[test]
    fn levels_out_of_range_are_refused() {
        for level in [0, 13, -1] {
            assert!(matches!(encode(&Deflate, &[1], 1, Some(level)), Err(Cause::Unsupported(_))));
        }
    }
}
