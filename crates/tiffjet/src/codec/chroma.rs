//! YCbCr to RGB by the file's own coefficients and reference levels, in the fixed point that TIFF readers share.

/// YCbCrCoefficients (529) and ReferenceBlackWhite (532).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chroma {
    /// Shares of red, green and blue in the luminance.
    pub coefficients: [f32; 3],
    /// Codes of black and white for Y, Cb and Cr.
    pub reference: [f32; 6],
}

impl Default for Chroma {
    fn default() -> Self {
        Self { coefficients: [0.299, 0.587, 0.114], reference: [0.0, 255.0, 128.0, 255.0, 128.0, 255.0] }
    }
}

/// Half of one, with 16 fraction bits.
const HALF: i32 = 1 << 15;

/// What each value of Y, Cb and Cr adds to red, green and blue.
pub(crate) struct Conversion {
    luma: [i32; 256],
    red: [i32; 256],
    green: [(i32, i32); 256],
    blue: [i32; 256],
}

impl Conversion {
    pub(crate) fn new(chroma: &Chroma) -> Self {
        let [red, green, blue] = chroma.coefficients;
        let green = if green == 0.0 { 1.0 } else { green };
        let fixed = |v: f32| (v.clamp(0.0, 2.0) * 65536.0 + 0.5) as i32;
        let (to_red, to_blue) = (2.0 - 2.0 * red, 2.0 - 2.0 * blue);
        let factors = [to_red, red * to_red / green, to_blue, blue * to_blue / green].map(fixed);
        // A code between its black and white, scaled to the range of the value. Casts from float saturate, and the
        // bound keeps the products in 32 bits.
        let level = |code: usize, black: f32, white: f32, range: f32| {
            let span = if white == black { 1.0 } else { white - black };
            ((code as f32 - black.trunc()) * range / span).clamp(-4096.0, 4096.0) as i32
        };
        let [y0, y1, cb0, cb1, cr0, cr1] = chroma.reference;
        let mut tables = Self { luma: [0; 256], red: [0; 256], green: [(0, 0); 256], blue: [0; 256] };
        for code in 0..256 {
            let cb = level(code, cb0, cb1, 127.0);
            let cr = level(code, cr0, cr1, 127.0);
            tables.luma[code] = level(code, y0, y1, 255.0);
            tables.red[code] = (factors[0] * cr + HALF) >> 16;
            tables.blue[code] = (factors[2] * cb + HALF) >> 16;
            tables.green[code] = (HALF - factors[3] * cb, -factors[1] * cr);
        }
        tables
    }

    /// One pixel.
    pub(crate) fn rgb(&self, [y, cb, cr]: [u8; 3]) -> [u8; 3] {
        let y = self.luma[usize::from(y)];
        let (cb, cr) = (usize::from(cb), usize::from(cr));
        let green = (self.green[cb].0 + self.green[cr].1) >> 16;
        [y + self.red[cr], y + green, y + self.blue[cb]].map(|v| v.clamp(0, 255) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_stays_grey_and_colours_are_the_usual_ones() {
        let conversion = Conversion::new(&Chroma::default());
        assert_eq!(conversion.rgb([77, 128, 128]), [77; 3]);
        assert_eq!(conversion.rgb([76, 85, 255]), [254, 0, 0]);
        assert_eq!(conversion.rgb([150, 44, 21]), [0, 255, 1]);
    }
}
