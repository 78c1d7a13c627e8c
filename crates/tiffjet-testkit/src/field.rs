//! Byte order and the field types of TIFF, as written.

/// Order of the bytes of a number in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// `II`
    Little,
    /// `MM`
    Big,
}

impl Order {
    /// The lowest `size` bytes of a number, in this order.
    pub fn bytes(self, number: u128, size: usize) -> Vec<u8> {
        let mut bytes = number.to_le_bytes()[..size].to_vec();
        if self == Self::Big {
            bytes.reverse();
        }
        bytes
    }

    /// The number that up to 16 bytes make in this order.
    pub fn number(self, bytes: &[u8]) -> u128 {
        let shift_in = |number: u128, byte: &u8| number << 8 | u128::from(*byte);
        match self {
            Self::Little => bytes.iter().rev().fold(0, shift_in),
            Self::Big => bytes.iter().fold(0, shift_in),
        }
    }
}

/// The value of a tag: its field type and its numbers.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // the names are those of the TIFF specification
pub enum Value {
    Byte(Vec<u8>),
    /// As it is: [`Value::ascii`] adds the NUL that the specification asks for.
    Ascii(Vec<u8>),
    Short(Vec<u16>),
    Long(Vec<u32>),
    Rational(Vec<(u32, u32)>),
    SByte(Vec<i8>),
    Undefined(Vec<u8>),
    SShort(Vec<i16>),
    SLong(Vec<i32>),
    SRational(Vec<(i32, i32)>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Ifd(Vec<u32>),
    Long8(Vec<u64>),
    SLong8(Vec<i64>),
    Ifd8(Vec<u64>),
    /// Whatever a hostile file wants to claim: field type, count and bytes need not fit each other.
    Raw {
        field: u16,
        count: u64,
        bytes: Vec<u8>,
    },
}

impl Value {
    /// Text with its NUL.
    pub fn ascii(text: &str) -> Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        Self::Ascii(bytes)
    }

    /// Number of the field type in the file.
    pub fn field(&self) -> u16 {
        match self {
            Self::Byte(_) => 1,
            Self::Ascii(_) => 2,
            Self::Short(_) => 3,
            Self::Long(_) => 4,
            Self::Rational(_) => 5,
            Self::SByte(_) => 6,
            Self::Undefined(_) => 7,
            Self::SShort(_) => 8,
            Self::SLong(_) => 9,
            Self::SRational(_) => 10,
            Self::Float(_) => 11,
            Self::Double(_) => 12,
            Self::Ifd(_) => 13,
            Self::Long8(_) => 16,
            Self::SLong8(_) => 17,
            Self::Ifd8(_) => 18,
            Self::Raw { field, .. } => *field,
        }
    }

    /// Count of values, as the directory entry says it.
    pub fn count(&self) -> u64 {
        let length = match self {
            Self::Byte(v) | Self::Ascii(v) | Self::Undefined(v) => v.len(),
            Self::Short(v) => v.len(),
            Self::Long(v) | Self::Ifd(v) => v.len(),
            Self::Rational(v) => v.len(),
            Self::SByte(v) => v.len(),
            Self::SShort(v) => v.len(),
            Self::SLong(v) => v.len(),
            Self::SRational(v) => v.len(),
            Self::Float(v) => v.len(),
            Self::Double(v) => v.len(),
            Self::Long8(v) | Self::Ifd8(v) => v.len(),
            Self::SLong8(v) => v.len(),
            Self::Raw { count, .. } => return *count,
        };
        length as u64
    }

    /// The bytes of all values.
    pub fn bytes(&self, order: Order) -> Vec<u8> {
        let words = |words: &mut dyn Iterator<Item = u64>, size: usize| -> Vec<u8> {
            words.flat_map(|word| order.bytes(u128::from(word), size)).collect()
        };
        match self {
            Self::Byte(v) | Self::Ascii(v) | Self::Undefined(v) => v.clone(),
            Self::SByte(v) => v.iter().map(|x| *x as u8).collect(),
            Self::Short(v) => words(&mut v.iter().map(|x| u64::from(*x)), 2),
            Self::SShort(v) => words(&mut v.iter().map(|x| u64::from(*x as u16)), 2),
            Self::Long(v) | Self::Ifd(v) => words(&mut v.iter().map(|x| u64::from(*x)), 4),
            Self::SLong(v) => words(&mut v.iter().map(|x| u64::from(*x as u32)), 4),
            Self::Rational(v) => words(&mut v.iter().flat_map(|(n, d)| [u64::from(*n), u64::from(*d)]), 4),
            Self::SRational(v) => words(&mut v.iter().flat_map(|(n, d)| [*n as u32, *d as u32].map(u64::from)), 4),
            Self::Float(v) => words(&mut v.iter().map(|x| u64::from(x.to_bits())), 4),
            Self::Double(v) => words(&mut v.iter().map(|x| x.to_bits()), 8),
            Self::Long8(v) | Self::Ifd8(v) => words(&mut v.iter().copied(), 8),
            Self::SLong8(v) => words(&mut v.iter().map(|x| *x as u64), 8),
            Self::Raw { bytes, .. } => bytes.clone(),
        }
    }
}
