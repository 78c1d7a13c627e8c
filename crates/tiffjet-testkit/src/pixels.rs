//! Pixels as plain numbers, and generators of images that look like the real ones.

use crate::sample::{Format, Kind, float_bits};

/// The pixels of one image, as bit patterns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pixels {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bands.
    pub samples: u16,
    /// Bits and kind of a sample.
    pub format: Format,
    /// Band after band, row after row; each the low `format.bits` bits of a number, the real part of complex numbers
    /// in the low half.
    pub values: Vec<u128>,
}

impl Pixels {
    /// Every value from its band, row and column.
    pub fn from_fn(
        (width, height, samples): (u32, u32, u16),
        format: Format,
        mut value: impl FnMut(u32, u32, u32) -> u128,
    ) -> Self {
        let mut values = Vec::with_capacity(width as usize * height as usize * usize::from(samples));
        for band in 0..u32::from(samples) {
            for y in 0..height {
                for x in 0..width {
                    values.push(value(band, y, x) & format.mask());
                }
            }
        }
        Self { width, height, samples, format, values }
    }

    /// Every value from its band, row and column, as a number rather than a pattern. What does not fit is cut to the
    /// nearest value that does; complex numbers get the negative as their imaginary part.
    pub fn from_numbers(shape: (u32, u32, u16), format: Format, mut number: impl FnMut(u32, u32, u32) -> f64) -> Self {
        Self::from_fn(shape, format, |band, y, x| pattern(number(band, y, x), format))
    }

    /// Smooth in both directions, another slope in every band: what predictors are made for.
    pub fn gradient(shape: (u32, u32, u16), format: Format) -> Self {
        Self::from_numbers(shape, format, |band, y, x| {
            f64::from(x * (band + 1) + y * 3 + band * 17).rem_euclid(whole_range(format))
        })
    }

    /// Bits without any order, every pattern possible: not-a-number and infinity too.
    pub fn noise(shape: (u32, u32, u16), format: Format, seed: u64) -> Self {
        Self::from_fn(shape, format, |band, y, x| {
            let place = u64::from(band) << 50 ^ u64::from(y) << 25 ^ u64::from(x);
            let low = mix(seed ^ mix(place));
            u128::from(mix(low)) << 64 | u128::from(low)
        })
    }

    /// Hills of several sizes, heights in metres between 0 and 3,000, scaled down where the type can't hold them.
    pub fn terrain(shape: (u32, u32, u16), format: Format, seed: u64) -> Self {
        let scale = (whole_range(format) / 3000.0).min(1.0);
        Self::from_numbers(shape, format, |band, y, x| {
            let seed = seed ^ u64::from(band) << 32;
            let height: f64 = [(96.0, 1600.0), (31.0, 900.0), (11.0, 400.0), (3.0, 100.0)]
                .iter()
                .zip(0u64..)
                .map(|((size, amplitude), octave)| {
                    amplitude * lattice(seed ^ octave, f64::from(x) / size, f64::from(y) / size)
                })
                .sum();
            height * scale
        })
    }

    /// Patches of a few classes with straight and ragged edges, and large areas of one class.
    pub fn land_cover(shape: (u32, u32, u16), format: Format, seed: u64) -> Self {
        let classes = whole_range(format).min(11.0) as u64;
        Self::from_numbers(shape, format, |band, y, x| {
            let ragged = (mix(seed ^ u64::from(x) << 20 ^ u64::from(y)) % 3) as u32;
            let (row, column) = (u64::from(y + ragged) / 12, u64::from(x + ragged) / 20);
            let patch = mix(seed ^ u64::from(band) << 40 ^ row << 20 ^ column);
            // Every other patch is of the common class, as in a real map.
            if patch & 1 == 0 { 1.0f64.min((classes - 1) as f64) } else { ((patch >> 1) % classes) as f64 }
        })
    }

    /// One value.
    pub fn get(&self, band: u32, y: u32, x: u32) -> u128 {
        let row = band as usize * self.height as usize + y as usize;
        self.values[row * self.width as usize + x as usize]
    }

    /// Name of their type in memory.
    pub fn dtype(&self) -> &'static str {
        self.format.dtype().expect("a format with a type in memory")
    }

    /// As they must come out of a reader: band after band, little-endian, in the type of [`Pixels::dtype`].
    pub fn to_le_bytes(&self) -> Vec<u8> {
        let size = self.format.size();
        self.values.iter().flat_map(|v| self.format.widen(*v).to_le_bytes().into_iter().take(size)).collect()
    }
}

/// How many whole numbers from 0 up the format holds exactly, 10,000 at most.
fn whole_range(format: Format) -> f64 {
    let bits = match (format.kind, format.bits) {
        (Kind::Unsigned, bits) => bits,
        (Kind::Signed, bits) => bits - 1,
        (Kind::ComplexInt, bits) => bits / 2 - 1,
        (Kind::Float, 16) => 11,
        _ => 16,
    };
    2f64.powi(i32::from(bits)).min(10_000.0)
}

/// The pattern of a number, cut to what the format holds.
fn pattern(number: f64, format: Format) -> u128 {
    let signed = |number: f64, bits: u16| {
        let limit = 2f64.powi(i32::from(bits) - 1);
        (number.clamp(-limit, limit - 1.0) as i64) as u128 & (u128::MAX >> (128 - bits))
    };
    let halves = |half: &dyn Fn(f64) -> u128| half(number) | half(-number) << (format.bits / 2);
    match format.kind {
        Kind::Unsigned => (number.max(0.0) as u128).min(format.mask()),
        Kind::Signed => signed(number, format.bits),
        Kind::Float => float_bits(number, format.bits),
        Kind::ComplexInt => halves(&|n| signed(n, format.bits / 2)),
        Kind::ComplexFloat => halves(&|n| float_bits(n, format.bits / 2)),
    }
}

/// A value between 0 and 1 that changes smoothly between the points of a grid.
fn lattice(seed: u64, x: f64, y: f64) -> f64 {
    let corner = |dx: f64, dy: f64| {
        let key = ((x.floor() + dx) as u64) << 32 ^ (y.floor() + dy) as u64;
        mix(seed ^ mix(key)) as f64 / u64::MAX as f64
    };
    let smooth = |t: f64| t * t * (3.0 - 2.0 * t);
    let (u, v) = (smooth(x.fract()), smooth(y.fract()));
    let top = corner(0.0, 0.0) * (1.0 - u) + corner(1.0, 0.0) * u;
    let bottom = corner(0.0, 1.0) * (1.0 - u) + corner(1.0, 1.0) * u;
    top * (1.0 - v) + bottom * v
}

/// Scatters the bits of a number (the finaliser of SplitMix64).
pub(crate) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_repeat_and_differ_by_seed() {
        let format = Format { bits: 32, kind: Kind::Float };
        let shape = (40, 30, 2);
        assert_eq!(Pixels::terrain(shape, format, 1), Pixels::terrain(shape, format, 1));
        assert_ne!(Pixels::terrain(shape, format, 1), Pixels::terrain(shape, format, 2));
        assert_ne!(Pixels::noise(shape, format, 1), Pixels::noise(shape, format, 2));
        assert_ne!(Pixels::land_cover(shape, format, 1), Pixels::land_cover(shape, format, 2));
    }

    #[test]
    fn terrain_is_smooth_and_in_range() {
        let terrain = Pixels::terrain((200, 100, 1), Format { bits: 32, kind: Kind::Float }, 5);
        let heights: Vec<f32> = terrain.values.iter().map(|v| f32::from_bits(*v as u32)).collect();
        assert!(heights.iter().all(|h| (0.0..=3000.0).contains(h)));
        let steepest = heights.chunks(200).flat_map(|row| row.windows(2).map(|p| (p[0] - p[1]).abs()));
        assert!(steepest.fold(0f32, f32::max) < 250.0);
    }

    #[test]
    fn generators_fit_every_format() {
        for (kind, depths) in [
            (Kind::Unsigned, &[1, 2, 3, 7, 8, 12, 16, 24, 33, 64][..]),
            (Kind::Signed, &[2, 5, 8, 12, 16, 32, 64]),
            (Kind::Float, &[16, 24, 32, 64]),
            (Kind::ComplexInt, &[32, 64]),
            (Kind::ComplexFloat, &[64, 128]),
        ] {
            for bits in depths {
                let format = Format { bits: *bits, kind };
                let shape = (33, 9, 2);
                for pixels in [
                    Pixels::gradient(shape, format),
                    Pixels::noise(shape, format, 3),
                    Pixels::terrain(shape, format, 3),
                    Pixels::land_cover(shape, format, 3),
                ] {
                    assert_eq!(pixels.values.len(), 33 * 9 * 2);
                    assert!(pixels.values.iter().all(|v| *v <= format.mask()));
                    assert!(pixels.values.iter().any(|v| *v != pixels.values[0]), "{format:?} all alike");
                    assert_eq!(pixels.to_le_bytes().len(), 33 * 9 * 2 * format.size());
                }
            }
        }
    }
}
