//! Chrominance that several pixels share, as files without JPEG store it.
//!
//! Such pixels are no array of samples as they stand, so they become red, green and blue, as GDAL gives them.

use crate::codec::{Conversion, TileFormat};

/// Spreads blocks of luminance samples with one pair of chrominance samples to red, green and blue pixels.
pub(super) fn expand(packed: &[u8], format: &TileFormat, rows: u32, (h, v): (usize, usize), out: &mut [u8]) {
    let conversion = Conversion::new(&format.chroma);
    let width = format.width as usize;
    let rows = rows as usize;
    let across = width.div_ceil(h);
    for (i, block) in packed.chunks_exact(h * v + 2).enumerate() {
        let (top, left) = (i / across * v, i % across * h);
        let (luma, chroma) = block.split_at(h * v);
        for (k, &luma) in luma.iter().enumerate() {
            let (y, x) = (top + k / h, left + k % h);
            if y < rows && x < width {
                let at = (y * width + x) * 3;
                out[at..at + 3].copy_from_slice(&conversion.rgb([luma, chroma[0], chroma[1]]));
            }
        }
    }
}
