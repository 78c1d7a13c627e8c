//! Chrominance that several pixels share, as files without JPEG store it.
//!
//! Such pixels are no array of samples as they stand, so they become red, green and blue, as GDAL gives them.

use crate::codec::{Chroma, TileFormat};

/// Fixed point with 16 fraction bits.
const ONE: f64 = 65536.0;
const HALF: i32 = 1 << 15;

/// What each value of Y, Cb and Cr adds to red, green and blue.
pub(super) struct Conversion {
    luma: [i32; 256],
    red: [i32; 256],
    green: [(i32, i32); 256],
    blue: [i32; 256],
}

impl Conversion {
    pub(super) fn new(chroma: &Chroma) -> Self {
        let [red, green, blue] = chroma.coefficients.map(f64::from);
        let reference = chroma.reference.map(f64::from);
        let fixed = |v: f64| (v.clamp(0.0, 2.0) * ONE + 0.5) as i32;
        let (to_red, to_blue) = (2.0 - 2.0 * red, 2.0 - 2.0 * blue);
        let factors = [to_red, red * to_red / green, to_blue, blue * to_blue / green].map(fixed);
        // A code between its black and white, scaled to the range of the value.
        let scale = |code: f64, black: f64, white: f64, range: f64| {
            let span = if white - black == 0.0 { 1.0 } else { white - black };
            ((code - black) * range / span).clamp(-4096.0, 4096.0) as i32
        };
        let mut tables = Self { luma: [0; 256], red: [0; 256], green: [(0, 0); 256], blue: [0; 256] };
        for i in 0..256 {
            let code = i as f64;
            let cb = scale(code - 128.0, reference[2] - 128.0, reference[3] - 128.0, 127.0);
            let cr = scale(code - 128.0, reference[4] - 128.0, reference[5] - 128.0, 127.0);
            tables.luma[i] = scale(code, reference[0], reference[1], 255.0);
            tables.red[i] = (factors[0] * cr + HALF) >> 16;
            tables.blue[i] = (factors[2] * cb + HALF) >> 16;
            tables.green[i] = (-factors[3] * cb + HALF, -factors[1] * cr);
        }
        tables
    }

    fn rgb(&self, y: u8, cb: u8, cr: u8) -> [u8; 3] {
        let y = self.luma[usize::from(y)];
        let (cb, cr) = (usize::from(cb), usize::from(cr));
        let green = (self.green[cb].0 + self.green[cr].1) >> 16;
        [y + self.red[cr], y + green, y + self.blue[cb]].map(|v| v.clamp(0, 255) as u8)
    }

    /// Spreads blocks of luminance samples with one pair of chrominance samples to red, green and blue pixels.
    pub(super) fn expand(&self, packed: &[u8], format: &TileFormat, rows: u32, (h, v): (usize, usize)) -> Vec<u8> {
        let width = format.width as usize;
        let rows = rows as usize;
        let across = width.div_ceil(h);
        let mut out = vec![0; width * rows * 3];
        for (i, block) in packed.chunks_exact(h * v + 2).enumerate() {
            let (top, left) = (i / across * v, i % across * h);
            let (luma, chroma) = block.split_at(h * v);
            for (k, &luma) in luma.iter().enumerate() {
                let (y, x) = (top + k / h, left + k % h);
                if y < rows && x < width {
                    let at = (y * width + x) * 3;
                    out[at..at + 3].copy_from_slice(&self.rgb(luma, chroma[0], chroma[1]));
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_stays_grey_and_colours_are_the_usual_ones() {
        let conversion = Conversion::new(&Chroma::default());
        assert_eq!(conversion.rgb(77, 128, 128), [77; 3]);
        assert_eq!(conversion.rgb(76, 85, 255), [254, 0, 0]);
        assert_eq!(conversion.rgb(150, 44, 21), [0, 255, 1]);
    }
}
