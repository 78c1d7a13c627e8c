//! What a sample is: how many bits of which kind, and the type it has in memory.
//!
//! A sample travels as its bit pattern in a `u128`, real part in the low half for complex numbers.

/// TIFF's SampleFormat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Kind {
    Unsigned,
    Signed,
    Float,
    ComplexInt,
    ComplexFloat,
}

impl Kind {
    /// Value of tag 339.
    pub fn number(self) -> u16 {
        match self {
            Self::Unsigned => 1,
            Self::Signed => 2,
            Self::Float => 3,
            Self::ComplexInt => 5,
            Self::ComplexFloat => 6,
        }
    }

    /// The kind of a value of tag 339; 4 (undefined) is read as unsigned.
    pub fn of(number: u16) -> Option<Self> {
        Some(match number {
            1 | 4 => Self::Unsigned,
            2 => Self::Signed,
            3 => Self::Float,
            5 => Self::ComplexInt,
            6 => Self::ComplexFloat,
            _ => return None,
        })
    }
}

/// Bits and kind of a sample in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Format {
    /// 1 to 64 for whole numbers; 16, 24, 32, 64 for floats; both halves together for complex numbers.
    pub bits: u16,
    /// SampleFormat.
    pub kind: Kind,
}

impl Format {
    /// Name of the type in memory, as numpy spells it where numpy has it; `None` where there is none.
    pub fn dtype(self) -> Option<&'static str> {
        Some(match (self.kind, self.bits) {
            (Kind::Unsigned, 1..=8) => "uint8",
            (Kind::Unsigned, 9..=16) => "uint16",
            (Kind::Unsigned, 17..=32) => "uint32",
            (Kind::Unsigned, 33..=64) => "uint64",
            (Kind::Signed, 1..=8) => "int8",
            (Kind::Signed, 9..=16) => "int16",
            (Kind::Signed, 17..=32) => "int32",
            (Kind::Signed, 33..=64) => "int64",
            (Kind::Float, 16) => "float16",
            (Kind::Float, 24 | 32) => "float32",
            (Kind::Float, 64) => "float64",
            (Kind::ComplexInt, 32) => "complex_int16",
            (Kind::ComplexInt, 64) => "complex_int32",
            (Kind::ComplexFloat, 64) => "complex64",
            (Kind::ComplexFloat, 128) => "complex128",
            _ => return None,
        })
    }

    /// Bytes of a sample in memory.
    pub fn size(self) -> usize {
        usize::from(self.bits).div_ceil(8).next_power_of_two()
    }

    /// Bytes of the words that byte order turns round, where a sample is made of whole words: other depths are a
    /// stream of bits, the most significant first, whatever the byte order of the file (whole numbers of 24 bits too).
    pub fn word(self) -> Option<usize> {
        match (self.kind, self.bits) {
            (Kind::ComplexInt | Kind::ComplexFloat, bits) => Some(usize::from(bits) / 16),
            (Kind::Float, 24) | (_, 8 | 16 | 32 | 64) => Some(usize::from(self.bits) / 8),
            _ => None,
        }
    }

    /// All bits of a sample set.
    pub fn mask(self) -> u128 {
        u128::MAX >> (128 - u32::from(self.bits))
    }

    /// The pattern of the type in memory that has the value of a pattern in the file.
    pub fn widen(self, pattern: u128) -> u128 {
        match self.kind {
            Kind::Signed => {
                let sign = 1 << (self.bits - 1);
                let extended = if pattern & sign == 0 { pattern } else { pattern | !self.mask() };
                extended & (u128::MAX >> (128 - 8 * self.size()))
            }
            Kind::Float if self.bits == 24 => u128::from(widen_float24(pattern as u32)),
            _ => pattern,
        }
    }
}

/// 1 sign bit, 7 bits of exponent (bias 63), 16 of mantissa, as the bits of an `f32`.
fn widen_float24(bits: u32) -> u32 {
    let (sign, exponent, mantissa) = (bits >> 23 & 1, bits >> 16 & 0x7f, bits & 0xffff);
    let magnitude = match exponent {
        0 => (mantissa as f32 * 2f32.powi(-62 - 16)).to_bits(),
        0x7f => 0xff << 23 | mantissa << 7,
        _ => (exponent + 127 - 63) << 23 | mantissa << 7,
    };
    sign << 31 | magnitude
}

/// The bits of a float of this many bits nearest below `value` in magnitude; what is too small becomes zero.
pub(crate) fn float_bits(value: f64, bits: u16) -> u128 {
    let narrow = |exponent_bits: u32, mantissa_bits: u32| {
        let wide = value.to_bits();
        let sign = wide >> 63 << (exponent_bits + mantissa_bits);
        let bias = (1i64 << (exponent_bits - 1)) - 1;
        let exponent = (wide >> 52 & 0x7ff) as i64 - 1023 + bias;
        if exponent <= 0 {
            return u128::from(sign);
        }
        assert!(exponent < (1 << exponent_bits) - 1, "{value} does not fit a float of {bits} bits");
        let mantissa = (wide & ((1 << 52) - 1)) >> (52 - mantissa_bits);
        u128::from(sign | (exponent as u64) << mantissa_bits | mantissa)
    };
    match bits {
        16 => narrow(5, 10),
        24 => narrow(7, 16),
        32 => u128::from((value as f32).to_bits()),
        64 => u128::from(value.to_bits()),
        _ => panic!("there is no float of {bits} bits"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_floats_keep_simple_values() {
        let float24 = Format { bits: 24, kind: Kind::Float };
        for value in [0.0, 1.0, -1.0, 0.5, 1234.5, -65504.0] {
            let pattern = float24.widen(float_bits(value, 24));
            assert_eq!(f64::from(f32::from_bits(pattern as u32)), value);
        }
        assert_eq!(float_bits(1.0, 16), 0x3c00);
        assert_eq!(float_bits(-2.0, 16), 0xc000);
        assert_eq!(f32::from_bits(float24.widen(1) as u32), 2f32.powi(-78), "smallest subnormal");
        assert!(f32::from_bits(float24.widen(0x7f0000) as u32).is_infinite());
        assert!(f32::from_bits(float24.widen(0x7f0001) as u32).is_nan());
    }

    #[test]
    fn signed_depths_extend_their_sign() {
        let int12 = Format { bits: 12, kind: Kind::Signed };
        assert_eq!(int12.widen(0xfff), 0xffff);
        assert_eq!(int12.widen(0x7ff), 0x07ff);
        let int64 = Format { bits: 64, kind: Kind::Signed };
        assert_eq!(int64.widen(u128::from(u64::MAX)), u128::from(u64::MAX));
    }
}
