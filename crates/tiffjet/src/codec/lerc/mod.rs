//! LERC: limited error raster compression, as blobs of the second format.
//!
//! A tile is one blob with all samples of a pixel, or one blob for each sample where their masks differ; the mask of
//! 8-bit images may stand for their last sample, alpha. Around it all may be a zlib or a ZSTD frame.
//!
//! Blobs have a byte order of their own. In a file of the other order libtiff turns samples round before they are encoded
//! and after they are decoded all the same, so that is what such files hold.

mod bits;
mod decode;
mod encode;
mod float;
mod header;
mod huffman;
mod mask;
#[cfg(test)]
mod tests;
mod value;

use std::borrow::Cow;

use super::{Cause, Codec, Encoded, Plain, Unit};
use crate::dtype::{ByteOrder, DType, turn_round};
use header::Header;
use value::{Value, dispatch};

/// LERC.
#[derive(Debug)]
pub struct Lerc;

impl Codec for Lerc {
    fn name(&self) -> &'static str {
        "lerc"
    }

    fn compression(&self) -> &'static [u16] {
        &[34887]
    }

    fn unit(&self) -> Unit {
        Unit::Samples
    }

    fn decode(&self, tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
        check_size(tile.rows, tile.format, out.len())?;
        if out.is_empty() {
            return Ok(());
        }
        let blobs = unwrap(tile.bytes, tile.format.lerc[1], out.len())?;
        dispatch!(tile.format.dtype, decode_tile(tile, &blobs, out))?;
        if tile.format.order != ByteOrder::NATIVE {
            turn_round(out, tile.format.dtype.word());
        }
        Ok(())
    }

    fn encode(&self, tile: &Plain<'_>, out: &mut Vec<u8>) -> Result<(), Cause> {
        check_size(tile.rows, tile.format, tile.bytes.len())?;
        if tile.bytes.is_empty() {
            return Err(Cause::unsupported("LERC tiles without pixels"));
        }
        let mut bytes = Cow::Borrowed(tile.bytes);
        if tile.format.order != ByteOrder::NATIVE {
            turn_round(bytes.to_mut(), tile.format.dtype.word());
        }
        let tile = &Plain { bytes: &bytes, ..*tile };
        let additional = tile.format.lerc[1];
        if additional == NOTHING {
            return dispatch!(tile.format.dtype, encode_tile(tile, out));
        }
        let mut blobs = Vec::new();
        dispatch!(tile.format.dtype, encode_tile(tile, &mut blobs))?;
        wrap(&blobs, additional, tile.settings.level, out)
    }
}

/// Fails unless a buffer has the size of the tile.
fn check_size(rows: u32, format: &super::TileFormat, len: usize) -> Result<(), Cause> {
    if format.row_samples_bytes().checked_mul(rows as usize) == Some(len) {
        Ok(())
    } else {
        Err(Cause::damaged("LERC tile and its buffer differ in size"))
    }
}

/// Decodes all blobs of a tile.
fn decode_tile<T: Value>(tile: &Encoded<'_>, bytes: &[u8], out: &mut [u8]) -> Result<(), Cause> {
    let (width, rows, samples) = (tile.format.width as usize, tile.rows as usize, usize::from(tile.format.samples));
    let mut place = decode::Place { out, width, rows, stride: samples, first: 0 };
    let mut mask = None;
    let mut rest = bytes;
    while place.first < samples {
        let (header, input) = Header::read(rest)?;
        if header.depth > samples - place.first {
            return Err(Cause::damaged("LERC blob has more samples than the file"));
        }
        decode::image::<T>(&header, input, &mut place, &mut mask)?;
        place.first += header.depth;
        rest = &rest[header.size..];
        // One blob with all samples but the last, and no other behind it: the mask is the last one.
        let masks_alpha = place.first == header.depth && header.depth + 1 == samples && T::CODE == u8::CODE;
        if masks_alpha && !Header::starts(rest) {
            write_alpha(place.out, samples, mask.as_ref());
            break;
        }
    }
    Ok(())
}

/// The last sample of each pixel from the mask.
fn write_alpha(out: &mut [u8], samples: usize, mask: Option<&mask::Mask>) {
    for (k, alpha) in out.iter_mut().skip(samples - 1).step_by(samples).enumerate() {
        *alpha = if mask.is_none_or(|mask| mask.get(k)) { 255 } else { 0 };
    }
}

/// Encodes a tile as one blob, or as one for each sample where NaN needs several masks.
fn encode_tile<T: Value>(tile: &Plain<'_>, out: &mut Vec<u8>) -> Result<(), Cause> {
    let samples = usize::from(tile.format.samples);
    let error = tile.settings.max_z_error;
    if !(error >= 0.0 && error.is_finite()) {
        return Err(Cause::unsupported(format!("a largest error of {error}")));
    }
    if u64::from(tile.format.width) * u64::from(tile.rows) > i32::MAX as u64 {
        return Err(Cause::unsupported("LERC tiles of more than 2^31 pixels"));
    }
    let whole = encode::Samples {
        bytes: tile.bytes,
        width: tile.format.width as usize,
        rows: tile.rows as usize,
        stride: samples,
        first: 0,
        depth: samples,
    };
    if !whole.has_mixed_nan::<T>() {
        return encode::image::<T>(&whole, error, out);
    }
    (0..samples).try_for_each(|first| encode::image::<T>(&encode::Samples { first, depth: 1, ..whole }, error, out))
}

/// LercParameters: what is around the blobs.
const NOTHING: u32 = 0;
const ZLIB: u32 = 1;
const ZSTD: u32 = 2;

/// What GDAL chooses by default.
const ZLIB_LEVEL: i32 = 6;
const ZSTD_LEVEL: i32 = 9;

/// The blobs without the frame around them. `size` is that of the pixels.
fn unwrap(bytes: &[u8], additional: u32, size: usize) -> Result<Cow<'_, [u8]>, Cause> {
    if additional == NOTHING {
        return Ok(Cow::Borrowed(bytes));
    }
    // Blobs that do not compress hold the pixels, their mask, and a header for each sample: far below this.
    let bound = size.saturating_mul(2).saturating_add(1 << 20);
    match additional {
        ZLIB => inflate(bytes, bound),
        ZSTD => unzstd(bytes, bound),
        other => Err(Cause::unsupported(format!("LERC with additional compression {other}"))),
    }
}

/// Undoes the zlib frame. Its size is not known: the first guess is small, so that small tiles stay cheap.
fn inflate(bytes: &[u8], bound: usize) -> Result<Cow<'_, [u8]>, Cause> {
    let mut decompressor = libdeflater::Decompressor::new();
    let mut guess = bytes.len().saturating_mul(4).saturating_add(1024).min(bound);
    loop {
        let mut blobs = vec![0; guess];
        match decompressor.zlib_decompress(bytes, &mut blobs) {
            Ok(len) => {
                blobs.truncate(len);
                return Ok(Cow::Owned(blobs));
            }
            Err(libdeflater::DecompressionError::InsufficientSpace) if guess < bound => {
                guess = guess.saturating_mul(4).min(bound);
            }
            Err(libdeflater::DecompressionError::InsufficientSpace) => return Err(too_large()),
            Err(_) => return Err(Cause::damaged("zlib frame around LERC is damaged")),
        }
    }
}

/// Undoes the ZSTD frame.
fn unzstd(bytes: &[u8], bound: usize) -> Result<Cow<'_, [u8]>, Cause> {
    let damaged = |code| Cause::damaged(format!("ZSTD frame around LERC: {}", zstd_safe::get_error_name(code)));
    // The decoder would take bytes behind the frame for another one.
    let frame = zstd_safe::find_frame_compressed_size(bytes).map_err(damaged)?;
    let frame = bytes.get(..frame).ok_or_else(value::truncated)?;
    let capacity = match zstd_safe::get_frame_content_size(frame) {
        Ok(Some(known)) if known > bound as u64 => return Err(too_large()),
        Ok(Some(known)) => known as usize,
        _ => bound,
    };
    let mut blobs = Vec::with_capacity(capacity);
    zstd_safe::decompress(&mut blobs, frame).map_err(damaged)?;
    Ok(Cow::Owned(blobs))
}

#[cold]
fn too_large() -> Cause {
    Cause::damaged("frame around LERC holds far more than the tile")
}

/// Puts the frame around the blobs.
fn wrap(blobs: &[u8], additional: u32, level: Option<i32>, out: &mut Vec<u8>) -> Result<(), Cause> {
    let start = out.len();
    match additional {
        ZLIB => {
            let level = libdeflater::CompressionLvl::new(level.unwrap_or(ZLIB_LEVEL))
                .map_err(|_| Cause::unsupported("this level of Deflate"))?;
            let mut compressor = libdeflater::Compressor::new(level);
            out.resize(start + compressor.zlib_compress_bound(blobs.len()), 0);
            let len = compressor
                .zlib_compress(blobs, &mut out[start..])
                .map_err(|_| Cause::damaged("zlib frame does not fit its bound"))?;
            out.truncate(start + len);
            Ok(())
        }
        ZSTD => {
            out.resize(start + zstd_safe::compress_bound(blobs.len()), 0);
            let len = zstd_safe::compress(&mut out[start..], blobs, level.unwrap_or(ZSTD_LEVEL))
                .map_err(|code| Cause::damaged(format!("ZSTD: {}", zstd_safe::get_error_name(code))))?;
            out.truncate(start + len);
            Ok(())
        }
        other => Err(Cause::unsupported(format!("LERC with additional compression {other}"))),
    }
}
