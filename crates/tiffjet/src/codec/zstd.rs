//! ZSTD.

use std::cell::RefCell;

use zstd_safe::{CCtx, DCtx, InBuffer, OutBuffer, compress_bound, get_error_name};

use super::{Cause, Codec, Encoded, Plain, short};

/// ZSTD.
#[derive(Debug)]
pub struct Zstd;

/// What GDAL writes when nothing is said.
const DEFAULT_LEVEL: i32 = 9;

thread_local! {
    static DECOMPRESSOR: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
    static COMPRESSOR: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
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
            // In one go it wants the whole of the data right, and room for all of it.
            Err(_) => stream(tile.bytes, out),
        }
    }

    fn encode(&self, tile: &Plain<'_>, out: &mut Vec<u8>) -> Result<(), Cause> {
        let level = tile.settings.level.unwrap_or(DEFAULT_LEVEL);
        if !(1..=22).contains(&level) {
            return Err(Cause::unsupported(format!("zstd level {level}: it is 1 to 22")));
        }
        let start = out.len();
        out.resize(start + compress_bound(tile.bytes.len()), 0);
        let packed = COMPRESSOR.with_borrow_mut(|c| c.compress(&mut out[start..], tile.bytes, level));
        let packed = packed.map_err(|e| Cause::unsupported(format!("zstd: {}", get_error_name(e))))?;
        out.truncate(start + packed);
        Ok(())
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
    use super::super::testing::{check, decode, encode, torture};
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

    #[test]
    fn levels_out_of_range_are_refused() {
        for level in [0, 23, -5] {
            assert!(matches!(encode(&Zstd, &[1], 1, Some(level)), Err(Cause::Unsupported(_))));
        }
    }
}
