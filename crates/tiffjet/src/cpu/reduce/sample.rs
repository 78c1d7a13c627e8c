//! Numbers of pixels, and how results become numbers again.

/// What GDAL computes means of a type in, which decides how results are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// The type itself: rounded before anything is compared with nodata.
    Own,
    /// `f32`.
    Single,
    /// `f64`.
    Double,
}

/// One real number of a pixel.
pub trait Sample: Copy + PartialEq + PartialOrd + Send + Sync + 'static {
    /// Its bytes, native order.
    type Raw: Copy + Send + Sync;
    /// Floating point.
    const FLOAT: bool;
    /// What means are computed in.
    const WORK: Work;
    /// Nothing is smaller.
    const LOWEST: Self;
    /// Nothing is larger.
    const HIGHEST: Self;
    /// Zero.
    const ZERO: Self;

    /// A row as numbers.
    fn raws(bytes: &[u8]) -> &[Self::Raw];
    /// A row as numbers.
    fn raws_mut(bytes: &mut [u8]) -> &mut [Self::Raw];
    /// The number of some bytes.
    fn get(raw: Self::Raw) -> Self;
    /// The bytes of the number.
    fn raw(self) -> Self::Raw;
    /// As `f64`; integers of 64 bits are rounded.
    fn real(self) -> f64;
    /// The nearest number, halves away from zero for integers.
    fn from_single(value: f32) -> Self;
    /// The nearest number, halves away from zero for integers.
    fn from_double(value: f64) -> Self;
    /// Not a number.
    fn is_nan(self) -> bool;
    /// Equal for equal numbers alone.
    fn key(self) -> u64;
    /// Whether it is a nodata value. Files and their texts are often a last digit off, so floats need not be quite equal.
    fn is(self, nodata: Self) -> bool;
    /// The nearest other number: above, or below where there is none.
    fn beside(self, highest: Self) -> Self;
    /// Means of two by two numbers that all count. `plain`: of an image where all do, in which GDAL adds floats in
    /// another order. `false` where the type has no quick way.
    fn quarter(_top: &[Self::Raw], _bottom: &[Self::Raw], _out: &mut [Self::Raw], _plain: bool) -> bool {
        false
    }
}

/// Sums of two by two numbers, each through `mean`.
fn quarters<const N: usize>(
    top: &[[u8; N]],
    bottom: &[[u8; N]],
    out: &mut [[u8; N]],
    mean: impl Fn([[u8; N]; 4]) -> [u8; N],
) {
    let (top, _) = top.as_chunks::<2>();
    let (bottom, _) = bottom.as_chunks::<2>();
    for ((out, a), b) in out.iter_mut().zip(top).zip(bottom) {
        *out = mean([a[0], a[1], b[0], b[1]]);
    }
}

macro_rules! raw {
    ($n:literal) => {
        type Raw = [u8; $n];
        fn raws(bytes: &[u8]) -> &[Self::Raw] {
            bytes.as_chunks().0
        }
        fn raws_mut(bytes: &mut [u8]) -> &mut [Self::Raw] {
            bytes.as_chunks_mut().0
        }
    };
}

macro_rules! integer {
    ($t:ty, $n:literal, $work:ident $(, $wide:ty)?) => {
        impl Sample for $t {
            raw!($n);
            const FLOAT: bool = false;
            const WORK: Work = Work::$work;
            const LOWEST: Self = <$t>::MIN;
            const HIGHEST: Self = <$t>::MAX;
            const ZERO: Self = 0;
            fn get(raw: Self::Raw) -> Self {
                <$t>::from_ne_bytes(raw)
            }
            fn raw(self) -> Self::Raw {
                self.to_ne_bytes()
            }
            fn real(self) -> f64 {
                self as f64
            }
            fn from_single(value: f32) -> Self {
                (value + 0.5f32.copysign(value)) as $t
            }
            fn from_double(value: f64) -> Self {
                (value + 0.5f64.copysign(value)) as $t
            }
            fn is_nan(self) -> bool {
                false
            }
            fn key(self) -> u64 {
                self as u64
            }
            fn is(self, nodata: Self) -> bool {
                self == nodata
            }
            fn beside(self, highest: Self) -> Self {
                if self < highest { self + 1 } else { self.saturating_sub(1) }
            }
            $(fn quarter(top: &[Self::Raw], bottom: &[Self::Raw], out: &mut [Self::Raw], _: bool) -> bool {
                quarters(top, bottom, out, |four| {
                    let sum: $wide = four.map(|v| <$wide>::from(<$t>::from_ne_bytes(v))).iter().sum();
                    // The shift rounds down: half of four less one for numbers below zero rounds halves away from it.
                    let below = if sum < 0 as $wide { 1 } else { 0 };
                    (((sum + 2 - below) >> 2) as $t).to_ne_bytes()
                });
                true
            })?
        }
    };
}

integer!(u8, 1, Own, i16);
integer!(u16, 2, Own, i32);
integer!(i8, 1, Single, i16);
integer!(i16, 2, Single, i32);
integer!(u32, 4, Double, i64);
integer!(i32, 4, Double, i64);
integer!(u64, 8, Double);
integer!(i64, 8, Double);

macro_rules! float {
    ($t:ty, $n:literal, $work:ident, $bits:ty, $plain:expr) => {
        impl Sample for $t {
            raw!($n);
            const FLOAT: bool = true;
            const WORK: Work = Work::$work;
            const LOWEST: Self = <$t>::NEG_INFINITY;
            const HIGHEST: Self = <$t>::INFINITY;
            const ZERO: Self = 0.0;
            fn get(raw: Self::Raw) -> Self {
                <$t>::from_ne_bytes(raw)
            }
            fn raw(self) -> Self::Raw {
                self.to_ne_bytes()
            }
            fn real(self) -> f64 {
                self.into()
            }
            fn from_single(value: f32) -> Self {
                value.into()
            }
            fn from_double(value: f64) -> Self {
                value as $t
            }
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            fn key(self) -> u64 {
                // Both zeros are one.
                <$bits>::into((self + 0.0).to_bits())
            }
            fn is(self, nodata: Self) -> bool {
                // Halves, so that large numbers do not overflow.
                let (a, b) = (self * 0.5, nodata * 0.5);
                self == nodata || (a - b).abs() < (a + b).abs() * (2.0 * <$t>::EPSILON)
            }
            fn beside(self, _: Self) -> Self {
                if self < <$t>::MAX { self.next_up() } else { self.next_down() }
            }
            fn quarter(top: &[Self::Raw], bottom: &[Self::Raw], out: &mut [Self::Raw], plain: bool) -> bool {
                if plain {
                    // Each is made smaller first, so that the sum of large numbers is no infinity.
                    let plain: fn([$t; 4]) -> $t = $plain;
                    quarters(top, bottom, out, |four| plain(four.map(|v| <$t>::from_ne_bytes(v) * 0.25)).to_ne_bytes());
                } else {
                    quarters(top, bottom, out, |four| {
                        let [a, b, c, d] = four.map(|v| f64::from(<$t>::from_ne_bytes(v)));
                        ((((a + b) + (c + d)) / 4.0) as $t).to_ne_bytes()
                    });
                }
                true
            }
        }
    };
}

float!(f32, 4, Single, u32, |[a, b, c, d]| (a + c) + (b + d));
float!(f64, 8, Double, u64, |[a, b, c, d]| (a + c) + (b + d));

/// Half precision.
#[derive(Debug, Clone, Copy)]
pub struct Half(pub u16);

impl PartialEq for Half {
    fn eq(&self, other: &Self) -> bool {
        self.real() == other.real()
    }
}

impl PartialOrd for Half {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.real().partial_cmp(&other.real())
    }
}

impl Sample for Half {
    raw!(2);
    const FLOAT: bool = true;
    const WORK: Work = Work::Double;
    const LOWEST: Self = Self(0xfc00);
    const HIGHEST: Self = Self(0x7c00);
    const ZERO: Self = Self(0);

    fn get(raw: Self::Raw) -> Self {
        Self(u16::from_ne_bytes(raw))
    }

    fn raw(self) -> Self::Raw {
        self.0.to_ne_bytes()
    }

    fn real(self) -> f64 {
        let (exponent, fraction) = (self.0 >> 10 & 0x1f, f64::from(self.0 & 0x3ff));
        let magnitude = match exponent {
            0 => fraction * f64::from_bits((1023 - 24) << 52),
            0x1f if fraction == 0.0 => f64::INFINITY,
            0x1f => f64::NAN,
            _ => (1024.0 + fraction) * f64::from_bits((1023 - 25 + u64::from(exponent)) << 52),
        };
        if self.0 >> 15 == 1 { -magnitude } else { magnitude }
    }

    fn from_single(value: f32) -> Self {
        Self::from_double(value.into())
    }

    fn from_double(value: f64) -> Self {
        let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
        let magnitude = value.abs();
        if magnitude.is_nan() {
            return Self(sign | 0x7e00);
        }
        if magnitude >= 65520.0 {
            return Self(sign | 0x7c00);
        }
        // Bits grow with the number: whole steps at its exponent, and those of all exponents below.
        let exponent = (magnitude.to_bits() >> 52).max(1023 - 14);
        let step = f64::from_bits((exponent - 10) << 52);
        let steps = (magnitude / step).round_ties_even() as u16;
        Self(sign | (((exponent - (1023 - 14)) as u16) << 10).wrapping_add(steps))
    }

    fn is_nan(self) -> bool {
        self.0 & 0x7fff > 0x7c00
    }

    fn key(self) -> u64 {
        if self.0 & 0x7fff == 0 { 0 } else { self.0.into() }
    }

    fn is(self, nodata: Self) -> bool {
        self == nodata
    }

    fn beside(self, _: Self) -> Self {
        match self.0 {
            0x7bff.. if self.0 < 0x8000 => Self(0x7bfe),
            0x8000 => Self(1),
            0x8001.. => Self(self.0 - 1),
            bits => Self(bits + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_comes_back() {
        for bits in 0..=u16::MAX {
            let half = Half(bits);
            let back = Half::from_double(half.real());
            assert!(back.0 == bits || half.is_nan() && back.is_nan(), "{bits:#x}");
        }
        let halves = [1.0 + 2f64.powi(-11), 1.0 + 3.0 * 2f64.powi(-11), 65519.9, 65520.0, 2f64.powi(-25), -1e9];
        let bits = halves.map(|v| Half::from_double(v).0);
        assert_eq!(bits, [0x3c00, 0x3c02, 0x7bff, 0x7c00, 0, 0xfc00]);
    }

    #[test]
    fn integers_round_halves_away_from_zero() {
        assert_eq!([-1.5, -0.5, 0.5, 1.5, 2.4, 1e9].map(i8::from_double), [-2, -1, 1, 2, 2, 127]);
        assert_eq!([-1.5f32, -0.5, 0.5, 1.5, 254.6, 1e9].map(u8::from_single), [0, 0, 1, 2, 255, 255]);
        let mut out = [[0]; 2];
        assert!(i8::quarter(&[[255], [255], [1], [1]], &[[0], [0], [0], [0]], &mut out, true));
        assert_eq!(out, [[255], [1]]); // -2 / 4 and 2 / 4
    }
}
