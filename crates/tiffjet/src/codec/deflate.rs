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

thread_local! {
    static DECOMPRESSOR: RefCell<Decompressor> = RefCell::new(Decompressor::new());
    /// The last level used: a writer never mixes levels on one thread for long.
    static COMPRESSOR: RefCell<Option<(i32, Compressor)>> = const { RefCell::new(None) };
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
        COMPRESSOR.with_borrow_mut(|slot| {
            if slot.as_ref().is_none_or(|(of, _)| *of != level) {
                *slot = Some((level, Compressor::new(valid)));
            }
            slot.as_mut().map_or(Ok(()), |(_, compressor)| compress(compressor, tile.bytes, out))
        })
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
    use super::super::testing::{check, decode, encode, torture};
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
    fn levels_out_of_range_are_refused() {
        for level in [0, 13, -1] {
            assert!(matches!(encode(&Deflate, &[1], 1, Some(level)), Err(Cause::Unsupported(_))));
        }
    }
}
