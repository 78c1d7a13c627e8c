//! Pixels of one type as pixels of another: rounded, and the nearest where they do not fit.

use std::borrow::Cow;

use tiffjet::{DType, WriteOptions};

/// From one type to another.
pub struct Cast {
    from: DType,
    to: DType,
    /// What an integer gets for a value that is not a number: nodata, or 0.
    absent: i128,
}

/// A value on its way.
#[derive(Debug, Clone, Copy)]
enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    fn float(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    /// The nearest integer; halves go away from zero.
    fn int(self, absent: i128) -> i128 {
        match self {
            Self::Int(value) => value,
            Self::Float(value) if value.is_nan() => absent,
            // Conversion from floating point keeps to the range of the integer.
            Self::Float(value) => value.round() as i128,
        }
    }
}

impl Cast {
    pub fn new(from: DType, options: &WriteOptions) -> Self {
        let absent = match options.nodata {
            Some(tiffjet::Nodata::Float(value)) if value.is_finite() => value as i128,
            Some(tiffjet::Nodata::Int(value)) => value.into(),
            Some(tiffjet::Nodata::UInt(value)) => value.into(),
            _ => 0,
        };
        Self { from, to: options.dtype, absent }
    }

    /// Whether pixels stay as they are.
    pub fn is_none(&self) -> bool {
        self.from == self.to
    }

    pub fn apply<'a>(&self, pixels: &'a [u8]) -> Cow<'a, [u8]> {
        if self.is_none() {
            return pixels.into();
        }
        let mut out = Vec::with_capacity(pixels.len() / self.from.size() * self.to.size());
        for pixel in pixels.chunks_exact(self.from.size()) {
            let (real, imaginary) = pixel.split_at(self.from.word());
            self.store(load(real, self.from), &mut out);
            if self.to.is_complex() {
                let imaginary = if self.from.is_complex() { load(imaginary, self.from) } else { Number::Int(0) };
                self.store(imaginary, &mut out);
            }
        }
        out.into()
    }

    /// Appends a value, or half of a complex one.
    fn store(&self, value: Number, out: &mut Vec<u8>) {
        macro_rules! integer {
            ($type:ty) => {{
                let value = value.int(self.absent).clamp(<$type>::MIN.into(), <$type>::MAX.into());
                out.extend((value as $type).to_ne_bytes());
            }};
        }
        match self.to {
            DType::UInt8 => integer!(u8),
            DType::Int8 => integer!(i8),
            DType::UInt16 => integer!(u16),
            DType::Int16 | DType::ComplexInt16 => integer!(i16),
            DType::UInt32 => integer!(u32),
            DType::Int32 | DType::ComplexInt32 => integer!(i32),
            DType::UInt64 => integer!(u64),
            DType::Int64 => integer!(i64),
            DType::Float16 => out.extend(to_half(value.float()).to_ne_bytes()),
            DType::Float32 | DType::Complex64 => out.extend((value.float() as f32).to_ne_bytes()),
            DType::Float64 | DType::Complex128 => out.extend(value.float().to_ne_bytes()),
        }
    }
}

/// A value, or half of a complex one.
fn load(bytes: &[u8], dtype: DType) -> Number {
    macro_rules! number {
        ($kind:ident, $type:ty) => {
            Number::$kind(bytes.first_chunk().map_or_else(Default::default, |b| <$type>::from_ne_bytes(*b).into()))
        };
    }
    match dtype {
        DType::UInt8 => number!(Int, u8),
        DType::Int8 => number!(Int, i8),
        DType::UInt16 => number!(Int, u16),
        DType::Int16 | DType::ComplexInt16 => number!(Int, i16),
        DType::UInt32 => number!(Int, u32),
        DType::Int32 | DType::ComplexInt32 => number!(Int, i32),
        DType::UInt64 => number!(Int, u64),
        DType::Int64 => number!(Int, i64),
        DType::Float16 => {
            Number::Float(bytes.first_chunk().map_or(0.0, |b| crate::values::half(u16::from_ne_bytes(*b))))
        }
        DType::Float32 | DType::Complex64 => number!(Float, f32),
        DType::Float64 | DType::Complex128 => number!(Float, f64),
    }
}

/// The nearest number of half precision, even ones where two are as near; infinite where it is too large.
fn to_half(value: f64) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let magnitude = value.abs();
    if value.is_nan() {
        return 0x7e00;
    }
    if magnitude >= 65520.0 {
        return sign | 0x7c00;
    }
    // Below 2^-14 the steps are 2^-24; above they double with each power of two.
    let exponent = if magnitude < 2f64.powi(-14) { -14 } else { (magnitude.to_bits() >> 52) as i32 - 1023 };
    let steps = (magnitude / 2f64.powi(exponent - 10)).round_ties_even() as u16;
    // A step up to the next power of two carries into the exponent by itself.
    sign | ((((exponent + 14) as u16) << 10) + steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cast(values: &[u8], from: DType, to: DType) -> Vec<u8> {
        Cast { from, to, absent: 7 }.apply(values).into_owned()
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_ne_bytes()).collect()
    }

    #[test]
    fn floats_are_rounded_and_kept_in_range() {
        let values = floats(&[0.5, 1.49, -0.5, 300.0, -300.0, f32::NAN, f32::INFINITY, 2.5]);
        assert_eq!(cast(&values, DType::Float32, DType::UInt8), [1, 1, 0, 255, 0, 7, 255, 3]);
        let signed: Vec<i8> =
            cast(&values, DType::Float32, DType::Int8).into_iter().map(|b| i8::from_ne_bytes([b])).collect();
        assert_eq!(signed, [1, 1, -1, 127, -128, 7, 127, 3]);
    }

    #[test]
    fn large_integers_stay_exact() {
        let value = (1i64 << 53) + 1;
        assert_eq!(cast(&value.to_ne_bytes(), DType::Int64, DType::UInt64), value.to_ne_bytes());
        assert_eq!(cast(&(-1i64).to_ne_bytes(), DType::Int64, DType::UInt64), [0; 8]);
        assert_eq!(cast(&u64::MAX.to_ne_bytes(), DType::UInt64, DType::Int64), i64::MAX.to_ne_bytes());
    }

    #[test]
    fn complex_numbers_have_two_halves() {
        let pair = floats(&[1.5, -2.5]);
        assert_eq!(cast(&pair, DType::Complex64, DType::Float32), floats(&[1.5]));
        let ints: Vec<u8> = [2i16, -3].iter().flat_map(|v| v.to_ne_bytes()).collect();
        assert_eq!(cast(&pair, DType::Complex64, DType::ComplexInt16), ints);
        assert_eq!(cast(&[9], DType::UInt8, DType::Complex64), floats(&[9.0, 0.0]));
    }

    #[test]
    fn every_half_comes_back() {
        for bits in 0..=u16::MAX {
            let value = crate::values::half(bits);
            if !value.is_nan() {
                assert_eq!(to_half(value), bits, "{value}");
            }
        }
        assert_eq!(to_half(2049.0), to_half(2048.0));
        assert_eq!(to_half(2051.0), to_half(2052.0));
        assert_eq!(to_half(65519.0), 0x7bff);
        assert_eq!(to_half(-1e9), 0xfc00);
    }
}
