//! JPEG in TIFF: streams that may leave their tables to tag JPEGTables.
//!
//! The colours are those of PhotometricInterpretation, whatever the markers of the stream say, as in every TIFF reader.
//! Pixels come as GDAL gives them: YCbCr as RGB, four inks as RGBA.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod colour;
mod decode;
mod encode;
mod huffman;
mod lossless;
mod transform;
mod vectors;

use std::cell::RefCell;
use std::sync::Arc;

use super::{Cause, Codec, Encoded, Plain, Settings, TileFormat, Unit};
pub(super) use decode::{Decoder, Expected};

/// JPEG in TIFF.
#[derive(Debug)]
pub struct Jpeg;

/// PhotometricInterpretation YCbCr.
const YCBCR: u16 = 6;
/// PhotometricInterpretation of inks: cyan, magenta, yellow, black.
const SEPARATED: u16 = 5;

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// A decoder and the JPEGTables it holds: the tiles of a file share them, so they are read once.
#[derive(Default)]
struct State {
    decoder: Decoder,
    tables: Option<Arc<[u8]>>,
}

impl State {
    fn load(&mut self, tables: Option<&Arc<[u8]>>) -> Result<(), Cause> {
        let same = match (&self.tables, tables) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        if !same || self.decoder.dirty() {
            self.tables = None;
            self.decoder.load(tables.map(|t| &t[..]))?;
            self.tables = tables.cloned();
        }
        Ok(())
    }
}

impl Codec for Jpeg {
    fn name(&self) -> &'static str {
        "jpeg"
    }

    fn compression(&self) -> &'static [u16] {
        &[7]
    }

    fn unit(&self) -> Unit {
        Unit::Samples
    }

    fn decode(&self, tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
        let format = tile.format;
        let expected = Expected {
            width: format.width,
            rows: tile.rows,
            components: format.samples as usize,
            to_rgb: format.photometric == YCBCR && format.samples == 3,
            smooth: true,
        };
        check_out(tile, out)?;
        STATE.with_borrow_mut(|state| {
            state.load(format.jpeg_tables.as_ref())?;
            state.decoder.decode(tile.bytes, expected, format.dtype.size(), out)
        })?;
        if format.photometric == SEPARATED && format.samples == 4 && format.dtype.size() == 1 {
            out.as_chunks_mut::<4>().0.iter_mut().for_each(|pixel| *pixel = to_rgba(*pixel));
        }
        Ok(())
    }

    fn encode(&self, tile: &Plain<'_>, out: &mut Vec<u8>) -> Result<(), Cause> {
        encode::encode(tile, out)
    }
}

/// Inks to light, as GDAL gives JPEG pixels of four inks.
fn to_rgba([c, m, y, k]: [u8; 4]) -> [u8; 4] {
    let light = |ink: u8| (u16::from(255 - k) * u16::from(255 - ink) / 255) as u8;
    [light(c), light(m), light(y), 255]
}

/// The value of tag JPEGTables (347) for tiles that are encoded with these settings. Where `TileFormat::jpeg_tables`
/// holds it, the tiles come without tables of their own.
pub fn tables(settings: &Settings, format: &TileFormat) -> Vec<u8> {
    encode::tables(settings, format)
}

/// Refuses a buffer that is not the tile's.
pub(super) fn check_out(tile: &Encoded<'_>, out: &[u8]) -> Result<(), Cause> {
    let size = tile.format.row_samples_bytes().checked_mul(tile.rows as usize);
    if size != Some(out.len()) || out.is_empty() {
        return Err(Cause::damaged("the buffer has not the size of the tile"));
    }
    Ok(())
}
