//! Pixels as numbers.

use tiffjet::DType;

/// Half precision, as IEEE 754 has it.
pub fn half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

/// Calls `take` with the index and the number of each native-order pixel; complex ones give their magnitude.
pub fn for_each(bytes: &[u8], dtype: DType, mut take: impl FnMut(usize, f64)) {
    macro_rules! numbers {
        ($type:ty) => {
            for (i, b) in bytes.as_chunks().0.iter().enumerate() {
                take(i, <$type>::from_ne_bytes(*b) as f64);
            }
        };
    }
    macro_rules! pairs {
        ($type:ty) => {
            for (i, b) in bytes.as_chunks::<{ 2 * size_of::<$type>() }>().0.iter().enumerate() {
                let mut words = b.as_chunks().0.iter().map(|b| <$type>::from_ne_bytes(*b) as f64);
                let (real, imaginary) = (words.next().unwrap_or(0.0), words.next().unwrap_or(0.0));
                take(i, real.hypot(imaginary));
            }
        };
    }
    match dtype {
        DType::UInt8 => numbers!(u8),
        DType::Int8 => numbers!(i8),
        DType::UInt16 => numbers!(u16),
        DType::Int16 => numbers!(i16),
        DType::UInt32 => numbers!(u32),
        DType::Int32 => numbers!(i32),
        DType::UInt64 => numbers!(u64),
        DType::Int64 => numbers!(i64),
        DType::Float32 => numbers!(f32),
        DType::Float64 => numbers!(f64),
        DType::Float16 => {
            for (i, b) in bytes.as_chunks().0.iter().enumerate() {
                take(i, half(u16::from_ne_bytes(*b)));
            }
        }
        DType::ComplexInt16 => pairs!(i16),
        DType::ComplexInt32 => pairs!(i32),
        DType::Complex64 => pairs!(f32),
        DType::Complex128 => pairs!(f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8], dtype: DType) -> Vec<f64> {
        let mut out = Vec::new();
        for_each(bytes, dtype, |_, v| out.push(v));
        out
    }

    #[test]
    fn every_type_has_its_numbers() {
        assert_eq!(all(&[255, 1], DType::Int8), [-1.0, 1.0]);
        assert_eq!(all(&(-7i32).to_ne_bytes(), DType::Int32), [-7.0]);
        assert_eq!(all(&0x3c00u16.to_ne_bytes(), DType::Float16), [1.0]);
        assert_eq!(all(&0xc000u16.to_ne_bytes(), DType::Float16), [-2.0]);
        assert_eq!(all(&1u16.to_ne_bytes(), DType::Float16), [2f64.powi(-24)]);
        let pair: Vec<u8> = [3f32, 4.0].iter().flat_map(|v| v.to_ne_bytes()).collect();
        assert_eq!(all(&pair, DType::Complex64), [5.0]);
    }
}
