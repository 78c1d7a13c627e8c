//! Light and shadow on heights.

use tiffjet::Image;
use tiffjet::geo::CrsKind;

/// Metres of a degree of latitude.
const DEGREE: f64 = 111_320.0;
/// The darkest slope.
const DARKEST: f64 = 0.05;

/// Where the light comes from, and how large pixels are.
#[derive(Debug, Clone, Copy)]
pub struct Sun {
    /// Degrees from north, clockwise.
    pub azimuth: f64,
    /// Degrees above the horizon.
    pub altitude: f64,
    /// Heights are this much higher.
    pub exaggeration: f64,
    /// Width and height of a pixel of the picture, in units of the heights.
    pub pixel: (f64, f64),
}

impl Sun {
    /// With the pixels of a picture of an image.
    pub fn over(self, image: &Image, width: u32, height: u32) -> Self {
        let [_, rows, columns] = image.shape().map(|n| n as f64);
        let geo = image.geo();
        let (mut x, mut y) = (1.0, 1.0);
        if let Some([a, b, _, d, e, f]) = geo.transform {
            (x, y) = (a.hypot(d), b.hypot(e));
            let kind = geo.crs.as_ref().and_then(|crs| crs.kind);
            if matches!(kind, Some(CrsKind::Geographic2D | CrsKind::Geographic3D)) {
                let latitude = (f + e * rows / 2.0 + d * columns / 2.0).clamp(-89.0, 89.0);
                (x, y) = (x * DEGREE * latitude.to_radians().cos(), y * DEGREE);
            }
        }
        let pixel = (x * columns / f64::from(width.max(1)), y * rows / f64::from(height.max(1)));
        Self { pixel, ..self }
    }

    /// The light on each pixel, 0 to 1: of the slope through its eight neighbours.
    pub fn light(self, heights: &[f64], width: usize) -> Vec<f64> {
        let rows = heights.len() / width.max(1);
        let (azimuth, altitude) = (self.azimuth.to_radians(), self.altitude.to_radians());
        // Towards the sun: east, north, up.
        let sun = [azimuth.sin() * altitude.cos(), azimuth.cos() * altitude.cos(), altitude.sin()];
        let at = |y: usize, x: usize, here: f64| {
            let height = heights[y * width + x];
            if height.is_nan() { here } else { height }
        };
        let mut out = Vec::with_capacity(heights.len());
        for y in 0..rows {
            let (above, below) = (y.saturating_sub(1), (y + 1).min(rows - 1));
            for x in 0..width {
                let here = heights[y * width + x];
                let (left, right) = (x.saturating_sub(1), (x + 1).min(width - 1));
                let h = |y, x| at(y, x, here);
                let east = h(above, right) + 2.0 * h(y, right) + h(below, right)
                    - h(above, left)
                    - 2.0 * h(y, left)
                    - h(below, left);
                let north = h(above, left) + 2.0 * h(above, x) + h(above, right)
                    - h(below, left)
                    - 2.0 * h(below, x)
                    - h(below, right);
                let rise = |sum: f64, from: usize, to: usize, pixel: f64| {
                    let steps = to.saturating_sub(from).max(1) as f64;
                    self.exaggeration * sum / (4.0 * steps * pixel)
                };
                let (dx, dy) = (rise(east, left, right, self.pixel.0), rise(north, above, below, self.pixel.1));
                let light = (sun[2] - dx * sun[0] - dy * sun[1]) / (1.0 + dx * dx + dy * dy).sqrt();
                out.push(light.clamp(DARKEST, 1.0));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_that_face_the_sun_are_lighter() {
        let sun = Sun { azimuth: 270.0, altitude: 45.0, exaggeration: 1.0, pixel: (1.0, 1.0) };
        let plane = |rise: f64| -> Vec<f64> { (0..25).map(|i| f64::from(i % 5) * rise).collect() };
        let light = |rise: f64| sun.light(&plane(rise), 5)[12];
        assert!((light(0.0) - 0.5f64.sqrt()).abs() < 1e-12, "level ground");
        // A slope of 45 degrees that rises to the east faces the sun in the west.
        assert!((light(1.0) - 1.0).abs() < 1e-12);
        assert!((light(-1.0) - DARKEST).abs() < 1e-12);
        assert!(sun.light(&[f64::NAN; 9], 3).iter().all(|light| !light.is_finite() || (0.0..=1.0).contains(light)));
        assert!(sun.light(&[], 0).is_empty());
    }
}
