//! The header of a Lerc2 blob and its checksum.

use super::Cause;
use super::value::{Input, Value, truncated};

const MAGIC: &[u8; 6] = b"Lerc2 ";
const OLD_MAGIC: &[u8; 10] = b"CntZImage ";
/// Where the bytes under the checksum begin: magic, version, checksum.
const CHECKED: usize = 14;
/// The version that is written: what libtiff writes, and any reader of LERC in TIFF knows.
pub(super) const WRITTEN: i32 = 4;
/// The largest side of a block.
pub(super) const MAX_BLOCK: usize = 32;

/// What a blob says of itself.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Header {
    pub version: i32,
    pub rows: usize,
    pub width: usize,
    /// Values of a pixel.
    pub depth: usize,
    /// Pixels that the mask does not hide.
    pub valid: usize,
    /// Side of a block, in pixels.
    pub block: usize,
    /// Bytes of the whole blob.
    pub size: usize,
    /// Number of the data type.
    pub code: i32,
    /// Largest error: values are multiples of its double above a block's offset.
    pub error: f64,
    pub min: f64,
    pub max: f64,
    /// A value that stands for another one (version 6): stored, meant.
    pub stand_in: Option<(f64, f64)>,
}

impl Header {
    /// Whether `bytes` begin as a blob does.
    pub(super) fn starts(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// Reads and checks a header; the input then stands behind it, and ends with the blob.
    pub(super) fn read<'a>(bytes: &'a [u8]) -> Result<(Self, Input<'a>), Cause> {
        if bytes.starts_with(OLD_MAGIC) {
            return Err(Cause::unsupported("blobs of LERC version 1"));
        }
        let mut input = Input::new(bytes);
        if input.take(MAGIC.len())? != MAGIC {
            return Err(Cause::damaged("not a LERC blob"));
        }
        let version = input.value::<i32>()?;
        if !(1..=6).contains(&version) {
            return Err(Cause::unsupported(format!("LERC blobs of version 2.{version}")));
        }
        let checksum = if version >= 3 { Some(input.value::<u32>()?) } else { None };
        let rows = count(&mut input, "rows", 1)?;
        let width = count(&mut input, "columns", 1)?;
        let depth = if version >= 4 { count(&mut input, "values of a pixel", 1)? } else { 1 };
        let valid = count(&mut input, "valid pixels", 0)?;
        let block = count(&mut input, "block size", 1)?;
        let size = count(&mut input, "size", 1)?;
        let code = input.value::<i32>()?;
        let passes_stand_in = if version >= 6 { input.take(8)?[4] != 0 } else { false };
        let [error, min, max] = [input.value::<f64>()?, input.value::<f64>()?, input.value::<f64>()?];
        let stand_in = if version >= 6 { Some((input.value::<f64>()?, input.value::<f64>()?)) } else { None };
        if valid > rows.saturating_mul(width) || block > MAX_BLOCK || !(0..=7).contains(&code) {
            return Err(Cause::damaged("LERC header makes no sense"));
        }
        if !error.is_finite() || error < 0.0 {
            return Err(Cause::damaged("LERC header has an impossible error"));
        }
        let used = bytes.len() - input.rest().len();
        let blob = bytes.get(..size).ok_or_else(truncated)?;
        let body = blob.get(used..).ok_or_else(truncated)?;
        if checksum.is_some_and(|sum| sum != fletcher32(&blob[CHECKED..])) {
            return Err(Cause::damaged("LERC checksum differs"));
        }
        let stand_in = stand_in.filter(|_| passes_stand_in);
        let header = Self { version, rows, width, depth, valid, block, size, code, error, min, max, stand_in };
        Ok((header, Input::new(body)))
    }

    /// Writes a header of version [`WRITTEN`], whose size and checksum [`seal`] fills in.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC);
        WRITTEN.push_le(out);
        0u32.push_le(out);
        for n in [self.rows, self.width, self.depth, self.valid, self.block, 0] {
            (n as i32).push_le(out);
        }
        self.code.push_le(out);
        for v in [self.error, self.min, self.max] {
            v.push_le(out);
        }
    }
}

/// A count that `minimum` bounds from below.
fn count(input: &mut Input<'_>, what: &str, minimum: i32) -> Result<usize, Cause> {
    match input.value::<i32>()? {
        n if n >= minimum => Ok(n as usize),
        n => Err(Cause::damaged(format!("LERC header: {what} is {n}"))),
    }
}

/// Puts size and checksum into the header of the finished blob that begins at `start`.
pub(super) fn seal(out: &mut [u8], start: usize) -> Result<(), Cause> {
    const SIZE: usize = CHECKED + 5 * 4;
    let blob = &mut out[start..];
    let size = i32::try_from(blob.len()).map_err(|_| Cause::unsupported("LERC tiles over 2 GiB"))?;
    blob[SIZE..SIZE + 4].copy_from_slice(&size.to_le_bytes());
    let sum = fletcher32(&blob[CHECKED..]);
    blob[CHECKED - 4..CHECKED].copy_from_slice(&sum.to_le_bytes());
    Ok(())
}

/// Fletcher's checksum over big-endian words, an odd last byte being a high one.
///
/// The second sum weighs each word by its distance from the end. Sixteen lanes keep both sums apart so that the
/// compiler can use vectors, and are weighed at the end of each run that cannot overflow them.
pub(super) fn fletcher32(bytes: &[u8]) -> u32 {
    const LANES: usize = 16;
    // With 256 rows the second sum of a lane is at most 65535 * 256 * 257 / 2, which 32 bits hold.
    const RUN: usize = 256 * LANES * 2;
    let (mut low, mut high) = (0xffff_u64, 0xffff_u64);
    let (whole, tail) = bytes.split_at(bytes.len() - bytes.len() % (LANES * 2));
    for run in whole.chunks(RUN) {
        let (mut sum, mut weighed) = ([0u32; LANES], [0u32; LANES]);
        for row in run.chunks_exact(LANES * 2) {
            for (k, word) in row.chunks_exact(2).enumerate() {
                sum[k] += u32::from(u16::from_be_bytes([word[0], word[1]]));
                weighed[k] += sum[k];
            }
        }
        let words = (run.len() / 2) as u64;
        high += low * words;
        for k in 0..LANES {
            // A word in row r of n, lane k, weighs (n - r) * LANES - k.
            high += u64::from(weighed[k]) * LANES as u64 - u64::from(sum[k]) * k as u64;
            low += u64::from(sum[k]);
        }
        low %= 0xffff;
        high %= 0xffff;
    }
    for word in tail.chunks(2) {
        low += u64::from(word[0]) << 8 | word.get(1).map_or(0, |&b| u64::from(b));
        high += low;
    }
    fold(high) << 16 | fold(low)
}

/// The remainder, with 65535 in the place of 0.
fn fold(sum: u64) -> u32 {
    match (sum % 0xffff) as u32 {
        0 => 0xffff,
        rest => rest,
    }
}
