//! Lossless floats of version 6: predicted, split into planes of bytes, each plane coded by itself.

use super::Cause;
use super::bits::HighBits;
use super::huffman;
use super::value::Input;

/// How often a plane may be differenced.
const MAX_LEVEL: u8 = 5;

/// What a value is predicted from.
const FROM_NOTHING: u8 = 0;
const FROM_LEFT: u8 = 1;
const FROM_LEFT_AND_ABOVE: u8 = 2;

/// How the bytes of a plane are coded.
const HUFFMAN: u8 = 0;
const ONE_RUN: u8 = 1;
const PLAIN: u8 = 2;
const RUNS: u8 = 3;

/// Decodes values of `N` bytes, little-endian, into `units`, which holds rows of `width` values.
pub(super) fn decode<const N: usize>(input: &mut Input<'_>, width: usize, units: &mut [u8]) -> Result<(), Cause> {
    let predictor = input.u8()?;
    let mut seen = [false; N];
    for _ in 0..N {
        let (byte, level) = (usize::from(input.u8()?), input.u8()?);
        let size = input.value::<u32>()? as usize;
        let known = seen.get_mut(byte).filter(|seen| !**seen && level <= MAX_LEVEL);
        *known.ok_or_else(|| Cause::damaged("LERC byte plane makes no sense"))? = true;
        read_plane::<N>(input.take(size)?, &mut units[byte..])?;
        for first in (1..=usize::from(level)).rev() {
            sum_bytes::<N>(first, &mut units[byte..]);
        }
    }
    match predictor {
        FROM_NOTHING => {}
        FROM_LEFT => sum_rows::<N>(width, units),
        FROM_LEFT_AND_ABOVE => {
            sum_columns::<N>(width, units);
            sum_rows::<N>(width, units);
        }
        _ => return Err(Cause::damaged("LERC predictor is unknown")),
    }
    if N == 4 {
        units.chunks_exact_mut(4).for_each(restore_sign);
    }
    Ok(())
}

/// Fills every `N`th byte of `out`, from the first on.
fn read_plane<const N: usize>(source: &[u8], out: &mut [u8]) -> Result<(), Cause> {
    let mut input = Input::new(source);
    let mode = input.u8()?;
    let mut cells = out.iter_mut().step_by(N);
    match mode {
        HUFFMAN => {
            let decoder = huffman::Decoder::read(&mut input, 6)?;
            let mut bits = HighBits::new(input.rest());
            for cell in cells {
                *cell = decoder.next(&mut bits).ok_or_else(|| Cause::damaged("LERC byte plane has no such code"))?;
            }
            bits.check()
        }
        ONE_RUN => {
            let byte = input.u8()?;
            cells.for_each(|cell| *cell = byte);
            Ok(())
        }
        PLAIN => {
            let bytes = input.take(cells.len())?;
            cells.zip(bytes).for_each(|(cell, &byte)| *cell = byte);
            Ok(())
        }
        RUNS => {
            while cells.len() > 0 {
                match usize::from(input.u8()?) {
                    n @ ..128 => cells.by_ref().zip(input.take(n + 1)?).for_each(|(cell, &byte)| *cell = byte),
                    n => {
                        let byte = input.u8()?;
                        cells.by_ref().take(n - 126).for_each(|cell| *cell = byte);
                    }
                }
            }
            Ok(())
        }
        _ => Err(Cause::damaged("LERC byte plane is coded in an unknown way")),
    }
}

/// Adds to each byte of a plane, from number `first` on, the one before it.
fn sum_bytes<const N: usize>(first: usize, plane: &mut [u8]) {
    let mut cells = plane.iter_mut().step_by(N).skip(first - 1);
    let Some(mut last) = cells.next().map(|cell| *cell) else { return };
    for cell in cells {
        last = last.wrapping_add(*cell);
        *cell = last;
    }
}

fn load<const N: usize>(unit: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..N].copy_from_slice(unit);
    u64::from_le_bytes(word)
}

fn store<const N: usize>(v: u64, unit: &mut [u8]) {
    unit.copy_from_slice(&v.to_le_bytes()[..N]);
}

/// Adds mantissas and the bits above them, each for themselves.
fn add<const N: usize>(a: u64, b: u64) -> u64 {
    let mantissa: u64 = if N == 4 { (1 << 23) - 1 } else { (1 << 52) - 1 };
    a.wrapping_add(b) & mantissa | (a & !mantissa).wrapping_add(b & !mantissa) & !mantissa
}

fn sum_rows<const N: usize>(width: usize, units: &mut [u8]) {
    for row in units.chunks_exact_mut(width * N) {
        let mut last = 0;
        for unit in row.chunks_exact_mut(N) {
            last = add::<N>(load::<N>(unit), last);
            store::<N>(last, unit);
        }
    }
}

fn sum_columns<const N: usize>(width: usize, units: &mut [u8]) {
    for start in (width * N..units.len()).step_by(width * N) {
        let (above, below) = units.split_at_mut(start);
        let above = &above[start - width * N..];
        for (unit, above) in below.chunks_exact_mut(N).zip(above.chunks_exact(N)) {
            store::<N>(add::<N>(load::<N>(unit), load::<N>(above)), unit);
        }
    }
}

/// The sign of a 4-byte float stands below its exponent.
fn restore_sign(unit: &mut [u8]) {
    let v = load::<4>(unit);
    let (mantissa, sign, exponent) = (v & 0x7f_ffff, v >> 23 & 1, v >> 24);
    store::<4>(sign << 31 | exponent << 23 | mantissa, unit);
}
