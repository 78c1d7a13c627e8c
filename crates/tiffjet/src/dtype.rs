//! Pixel types as data, and how samples are stored.

use std::fmt;

/// Type of one pixel value in memory, native byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names say it
pub enum DType {
    UInt8,
    Int8,
    UInt16,
    Int16,
    UInt32,
    Int32,
    UInt64,
    Int64,
    Float16,
    Float32,
    Float64,
    ComplexInt16,
    ComplexInt32,
    Complex64,
    Complex128,
}

impl DType {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::UInt8,
        Self::Int8,
        Self::UInt16,
        Self::Int16,
        Self::UInt32,
        Self::Int32,
        Self::UInt64,
        Self::Int64,
        Self::Float16,
        Self::Float32,
        Self::Float64,
        Self::ComplexInt16,
        Self::ComplexInt32,
        Self::Complex64,
        Self::Complex128,
    ];

    /// Bytes of one value.
    pub const fn size(self) -> usize {
        match self {
            Self::UInt8 | Self::Int8 => 1,
            Self::UInt16 | Self::Int16 | Self::Float16 => 2,
            Self::UInt32 | Self::Int32 | Self::Float32 | Self::ComplexInt16 => 4,
            Self::UInt64 | Self::Int64 | Self::Float64 | Self::ComplexInt32 | Self::Complex64 => 8,
            Self::Complex128 => 16,
        }
    }

    /// Bytes of the unit that byte order turns round: half a value for complex types.
    pub const fn word(self) -> usize {
        if self.is_complex() { self.size() / 2 } else { self.size() }
    }

    /// Two numbers a value.
    pub const fn is_complex(self) -> bool {
        matches!(self, Self::ComplexInt16 | Self::ComplexInt32 | Self::Complex64 | Self::Complex128)
    }

    /// Floating point, real or complex.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Float16 | Self::Float32 | Self::Float64 | Self::Complex64 | Self::Complex128)
    }

    /// How TIFF's SampleFormat names it.
    pub const fn kind(self) -> SampleKind {
        match self {
            Self::UInt8 | Self::UInt16 | Self::UInt32 | Self::UInt64 => SampleKind::Unsigned,
            Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64 => SampleKind::Signed,
            Self::Float16 | Self::Float32 | Self::Float64 => SampleKind::Float,
            Self::ComplexInt16 | Self::ComplexInt32 => SampleKind::ComplexInt,
            Self::Complex64 | Self::Complex128 => SampleKind::ComplexFloat,
        }
    }

    /// The name numpy and GDAL's Python bindings use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UInt8 => "uint8",
            Self::Int8 => "int8",
            Self::UInt16 => "uint16",
            Self::Int16 => "int16",
            Self::UInt32 => "uint32",
            Self::Int32 => "int32",
            Self::UInt64 => "uint64",
            Self::Int64 => "int64",
            Self::Float16 => "float16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::ComplexInt16 => "complex_int16",
            Self::ComplexInt32 => "complex_int32",
            Self::Complex64 => "complex64",
            Self::Complex128 => "complex128",
        }
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// TIFF's SampleFormat (tag 339).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum SampleKind {
    Unsigned,
    Signed,
    Float,
    ComplexInt,
    ComplexFloat,
}

/// Order of the bytes of a number in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// `II`
    Little,
    /// `MM`
    Big,
}

impl ByteOrder {
    /// The order of this machine.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };

    /// Reads a `u16`.
    pub fn u16(self, b: [u8; 2]) -> u16 {
        if self == Self::Little { u16::from_le_bytes(b) } else { u16::from_be_bytes(b) }
    }
    /// Reads a `u32`.
    pub fn u32(self, b: [u8; 4]) -> u32 {
        if self == Self::Little { u32::from_le_bytes(b) } else { u32::from_be_bytes(b) }
    }
    /// Reads a `u64`.
    pub fn u64(self, b: [u8; 8]) -> u64 {
        if self == Self::Little { u64::from_le_bytes(b) } else { u64::from_be_bytes(b) }
    }
}

/// Turns the bytes of every word round, from one byte order to the other. Words of other sizes than 2, 4 and 8 bytes have
/// no order, and bytes behind the last whole word stay as they are.
pub(crate) fn turn_round(bytes: &mut [u8], word: usize) {
    match word {
        2 => bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|b| b.reverse()),
        4 => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|b| b.reverse()),
        8 => bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|b| b.reverse()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_turned_round_and_what_is_left_stays() {
        let turned = |word| {
            let mut bytes: Vec<u8> = (0..19).collect();
            turn_round(&mut bytes, word);
            bytes
        };
        for word in [2, 4, 8] {
            let whole = 19 / word * word;
            let words = (0..whole).map(|i| (i / word * word + word - 1 - i % word) as u8);
            assert_eq!(turned(word), words.chain(whole as u8..19).collect::<Vec<u8>>());
        }
        assert_eq!(turned(0), turned(1));
    }
}
