//! ZSTD.

use std::cell::RefCell;
use std::ops::ControlFlow;

use zstd_safe::{
    CCtx, CParameter, DCtx, DParameter, ErrorCode, InBuffer, OutBuffer, ResetDirective, compress_bound, get_error_name,
};

use super::trial::{WORTH_TRYING, does, pick};
use super::{Cause, Codec, Encoded, Plain, short};

/// ZSTD.
#[derive(Debug)]
pub struct Zstd;

/// The first bytes of a frame, which tell how long its header is.
const FRAME_HEADER: usize = 5;
/// More than the header of a frame and its last, empty block can have.
const FRAME_ENDS: usize = 64;

/// How far back matches reach in what is written, as a power of two: 256 KiB, and tables to match, stay in the cache of a
/// core. Of tiles of a megabyte that makes up to half of the time and a few thousandths of the size (decision 10).
const WINDOW: u32 = 18;
/// From this level on nothing is spared for the last byte.
const THOROUGH: i32 = 16;
/// The level that often does as well as higher ones: where pixels are noisy there are no better matches to be found
/// (decision 12).
const QUICK: i32 = 5;

/// What GDAL writes when nothing is said.
const DEFAULT_LEVEL: i32 = 9;

thread_local! {
    static DECOMPRESSOR: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
    /// Writes straight into the output, block by block: it keeps no window of its own, so it may be kept.
    static STEPPER: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
    static COMPRESSOR: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static TRIAL: RefCell<Trial> = RefCell::new(Trial { context: CCtx::create(), pieces: Vec::new(), out: Vec::new() });
}

/// Levels tried on pieces of a tile.
struct Trial {
    context: CCtx<'static>,
    pieces: Vec<u8>,
    out: Vec<u8>,
}

impl Trial {
    /// The level for a tile: the asked one, or a quicker one that does as well. It depends on the tile alone.
    fn level(&mut self, asked: i32, bytes: &[u8]) -> Result<i32, ErrorCode> {
        if !(QUICK + 1..THOROUGH).contains(&asked) || bytes.len() < WORTH_TRYING {
            return Ok(asked);
        }
        pick(bytes, &mut self.pieces);
        Ok(if does(self.size(QUICK)?, self.size(asked)?) { QUICK } else { asked })
    }

    /// Bytes that a level makes of the pieces.
    ///
    /// What a level does depends on how much there is to come. It is not told how little that is here, so that it does what
    /// it does to a tile; small tables are said to be enough, and cleared at once.
    fn size(&mut self, level: i32) -> Result<usize, ErrorCode> {
        let Self { context, pieces, out } = self;
        context.reset(ResetDirective::SessionOnly)?;
        context.set_parameter(CParameter::CompressionLevel(level))?;
        let window = pieces.len().next_power_of_two().ilog2().clamp(10, WINDOW);
        context.set_parameter(CParameter::WindowLog(window))?;
        context.set_parameter(CParameter::HashLog(window + 1))?;
        context.set_parameter(CParameter::ChainLog(window))?;
        out.resize(compress_bound(pieces.len()) + FRAME_ENDS, 0);
        let mut input = InBuffer::around(pieces);
        let mut output = OutBuffer::around(&mut out[..]);
        // There is room for all of it: one call takes it, and another ends it.
        context.compress_stream(&mut output, &mut input)?;
        context.end_stream(&mut output)?;
        Ok(output.pos())
    }
}

impl Codec for Zstd {
    fn name(&self) -> &'static str {
        "zstd"
    }

    fn compression(&self) -> &'static [u16] {
        &[50000]
    }

    fn takes_predictor(&self) -> bool {
        true
    }

    fn decode(&self, tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
        match DECOMPRESSOR.with_borrow_mut(|d| d.decompress(out, tile.bytes)) {
            Ok(got) if got == out.len() => Ok(()),
            Ok(got) => Err(short(got, out.len())),
            // In one go it wants the whole of the data right, and room for all of it. What decodes block by block until the
            // tile is full must decode here too.
            Err(_) => match STEPPER.with_borrow_mut(|d| step(d, tile.bytes, out, &mut |_| ControlFlow::Continue(()))) {
                Ok(()) => Ok(()),
                Err(_) => stream(tile.bytes, out),
            },
        }
    }

    fn decodes_along(&self) -> bool {
        true
    }

    fn decode_along(
        &self,
        tile: &Encoded<'_>,
        out: &mut [u8],
        landed: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), Cause> {
        if STEPPER.with_borrow_mut(|d| step(d, tile.bytes, out, landed)).is_err() {
            self.decode(tile, out)?;
            let _ = landed(out);
        }
        Ok(())
    }

    fn encode(&self, tile: &Plain<'_>, out: &mut Vec<u8>) -> Result<(), Cause> {
        let level = tile.settings.level.unwrap_or(DEFAULT_LEVEL);
        if !(1..=22).contains(&level) {
            return Err(Cause::unsupported(format!("zstd level {level}: it is 1 to 22")));
        }
        let start = out.len();
        out.resize(start + compress_bound(tile.bytes.len()), 0);
        let level = TRIAL.with_borrow_mut(|trial| trial.level(level, tile.bytes));
        let packed = COMPRESSOR.with_borrow_mut(|c| {
            let level = level?;
            c.set_parameter(CParameter::CompressionLevel(level))?;
            // 0 is the level's own.
            c.set_parameter(CParameter::WindowLog(if level < THOROUGH { WINDOW } else { 0 }))?;
            c.compress2(&mut out[start..], tile.bytes)
        });
        let packed = packed.map_err(|e| Cause::unsupported(format!("zstd: {}", get_error_name(e))))?;
        out.truncate(start + packed);
        Ok(())
    }
}

/// Decodes block after block until `out` is full or enough. An error is no verdict: in one go it takes any window.
fn step(
    context: &mut DCtx<'_>,
    bytes: &[u8],
    out: &mut [u8],
    landed: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<(), ErrorCode> {
    context.reset(ResetDirective::SessionOnly)?;
    context.set_parameter(DParameter::StableOutBuffer(true))?;
    let (mut read, mut done) = (0, 0);
    // Frame header first; then it asks for just one block at a time, which is decoded from where it stands.
    let mut hint = FRAME_HEADER;
    loop {
        let mut input = InBuffer { src: &bytes[..bytes.len().min(read + hint)], pos: read };
        let mut output = OutBuffer::around_pos(out, done);
        let asked = context.decompress_stream(&mut output, &mut input)?;
        let before = (read, done);
        (read, done) = (input.pos, output.pos());
        if done > before.1 && landed(&out[..done]).is_break() || done == out.len() {
            return Ok(());
        }
        if before == (read, done) {
            return Err(0);
        }
        // After the end of a frame comes another one.
        hint = if asked == 0 { FRAME_HEADER } else { asked };
    }
}

/// Decodes frame after frame until `out` is full, whatever comes after.
///
/// The context is not kept: a hostile frame may make it take a window of 128 MiB, the most that zstd streams by itself.
fn stream(bytes: &[u8], out: &mut [u8]) -> Result<(), Cause> {
    let due = out.len();
    let mut context = DCtx::create();
    let mut input = InBuffer::around(bytes);
    let mut output = OutBuffer::around(out);
    loop {
        let before = (input.pos, output.pos());
        let state = context.decompress_stream(&mut output, &mut input);
        let got = output.pos();
        if got == due {
            return Ok(());
        }
        state.map_err(|e| Cause::damaged(format!("{}, after {got} of {due} bytes", get_error_name(e))))?;
        if before == (input.pos, got) {
            return Err(short(got, due));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, check, decode, encode, format, tile, torture};
    use super::*;

    #[test]
    fn there_and_back() {
        for level in [None, Some(1), Some(19)] {
            check(&Zstd, level);
        }
    }

    #[test]
    fn damage_is_an_error_or_pixels() {
        torture(&Zstd, Some(3));
    }

    #[test]
    fn frames_follow_each_other() {
        let mut packed = encode(&Zstd, &[1; 500], 500, None).unwrap();
        packed.extend(encode(&Zstd, &[2; 300], 300, None).unwrap());
        let plain = [vec![1; 500], vec![2; 300]].concat();
        assert_eq!(decode(&Zstd, &packed, 800).unwrap(), plain);
        assert_eq!(decode(&Zstd, &packed, 600).unwrap(), plain[..600]);
        assert!(decode(&Zstd, &packed, 801).is_err());
    }

    /// Decodes until `enough` bytes are there; gives how many there were each time.
    fn along(packed: &[u8], out: &mut [u8], enough: usize) -> Result<Vec<usize>, Cause> {
        let format = format(50000, out.len() as u32, 1, 1, 8);
        let mut steps = Vec::new();
        Zstd.decode_along(&tile(&format, packed), out, &mut |done| {
            steps.push(done.len());
            if done.len() >= enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(steps)
    }

    #[test]
    fn blocks_are_handed_over_as_they_come() {
        let mut random = Random::new(5);
        let plain: Vec<u8> = (0..1_000_000).map(|_| (random.next() >> 40).trailing_zeros() as u8).collect();
        let packed = encode(&Zstd, &plain, plain.len(), None).unwrap();
        let mut out = vec![0; plain.len()];
        let steps = along(&packed, &mut out, usize::MAX).unwrap();
        assert!(out == plain);
        assert!(steps.len() > 4 && steps.is_sorted() && steps.last() == Some(&plain.len()), "{steps:?}");
        out.fill(0);
        let steps = along(&packed, &mut out, 300_000).unwrap();
        let done = *steps.last().unwrap();
        assert!((300_000..600_000).contains(&done));
        assert!(out[..done] == plain[..done]);
        // What comes after is not looked at.
        out.fill(0);
        along(&packed[..packed.len() / 2], &mut out, 300_000).unwrap();
        assert!(out[..300_000] == plain[..300_000]);
        assert!(along(&packed[..packed.len() / 2], &mut out, usize::MAX).is_err());
    }

    #[test]
    fn frames_that_are_longer_or_several_are_handed_over_too() {
        let mut packed = encode(&Zstd, &[1; 500], 500, None).unwrap();
        packed.extend(encode(&Zstd, &[2; 300], 300, None).unwrap());
        let plain = [vec![1; 500], vec![2; 300]].concat();
        for due in [800, 600, 500, 100] {
            let mut out = vec![0; due];
            let steps = along(&packed, &mut out, usize::MAX).unwrap();
            assert_eq!(steps.last(), Some(&due));
            assert!(out == plain[..due]);
        }
        assert!(along(&packed, &mut [0; 801], usize::MAX).is_err());
        assert!(along(&[], &mut [0; 1], usize::MAX).is_err());
        assert!(along(&[1, 2, 3, 4, 5, 6, 7, 8, 9], &mut [0; 1], usize::MAX).is_err());
    }

    /// What one level gives by itself.
    fn alone(level: i32, plain: &[u8]) -> Vec<u8> {
        let mut out = vec![0; compress_bound(plain.len())];
        let mut context = CCtx::create();
        context.set_parameter(CParameter::CompressionLevel(level)).unwrap();
        context.set_parameter(CParameter::WindowLog(if level < THOROUGH { WINDOW } else { 0 })).unwrap();
        let length = context.compress2(&mut out[..], plain).unwrap();
        out.truncate(length);
        out
    }

    #[test]
    fn a_quicker_level_that_does_as_well() {
        let mut random = Random::new(8);
        let mut noise = |most| (0..4).map(|_| random.below(most) as i16).sum::<i16>() - 2 * most as i16;
        let words: Vec<u8> = (0..200_000).flat_map(|_| noise(48).to_le_bytes()).collect();
        // Steps of a terrace: what looks further finds more.
        let mut steps = Vec::new();
        while steps.len() < 400_000 {
            let (value, length) = (noise(8) as u8, usize::from(noise(8).unsigned_abs()) + 1);
            steps.extend(std::iter::repeat_n(value, length));
        }
        // What the test is about is true of them.
        let does_as_well = |level, plain: &[u8]| does(alone(QUICK, plain).len(), alone(level, plain).len());
        assert!(does_as_well(9, &words) && !does_as_well(9, &steps));
        for (plain, asked, due) in [
            (&words, 9, QUICK),
            (&words, 15, QUICK),
            (&words, THOROUGH, THOROUGH),
            (&words, 4, 4),
            (&steps, 9, 9),
            (&steps, 12, 12),
        ] {
            let packed = encode(&Zstd, plain, plain.len(), Some(asked)).unwrap();
            assert!(packed == alone(due, plain), "{asked}");
            assert!(decode(&Zstd, &packed, plain.len()).unwrap() == *plain);
        }
        // Small ones are not tried.
        let small = &words[..WORTH_TRYING - 1];
        assert!(encode(&Zstd, small, small.len(), Some(9)).unwrap() == alone(9, small));
    }

    #[test]
    fn levels_out_of_range_are_refused() {
        for level in [0, 23, -5] {
            assert!(matches!(encode(&Zstd, &[1], 1, Some(level)), Err(Cause::Unsupported(_))));
        }
    }
}
