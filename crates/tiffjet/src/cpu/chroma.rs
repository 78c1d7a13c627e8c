//! Chrominance that several pixels share, as files without JPEG store it.

use crate::codec::TileFormat;

/// Spreads blocks of luminance samples with one pair of chrominance samples to (Y, Cb, Cr) pixels.
pub(super) fn expand(packed: &[u8], format: &TileFormat, rows: u32, (h, v): (usize, usize)) -> Vec<u8> {
    let width = format.width as usize;
    let rows = rows as usize;
    let across = width.div_ceil(h);
    let mut out = vec![0; width * rows * 3];
    for (i, block) in packed.chunks_exact(h * v + 2).enumerate() {
        let (top, left) = (i / across * v, i % across * h);
        let chroma = &block[h * v..];
        for (k, &luma) in block[..h * v].iter().enumerate() {
            let (y, x) = (top + k / h, left + k % h);
            if y < rows && x < width {
                let at = (y * width + x) * 3;
                out[at..at + 3].copy_from_slice(&[luma, chroma[0], chroma[1]]);
            }
        }
    }
    out
}
