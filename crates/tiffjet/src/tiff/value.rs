//! Field types and arrays of numbers.

use crate::dtype::ByteOrder;

/// TIFF field types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
#[allow(missing_docs)]
pub enum FieldType {
    Byte = 1,
    Ascii = 2,
    Short = 3,
    Long = 4,
    Rational = 5,
    SByte = 6,
    Undefined = 7,
    SShort = 8,
    SLong = 9,
    SRational = 10,
    Float = 11,
    Double = 12,
    Ifd = 13,
    Long8 = 16,
    SLong8 = 17,
    Ifd8 = 18,
}

impl FieldType {
    /// The type of a code.
    pub fn from_code(code: u16) -> Option<Self> {
        Some(match code {
            1 => Self::Byte,
            2 => Self::Ascii,
            3 => Self::Short,
            4 => Self::Long,
            5 => Self::Rational,
            6 => Self::SByte,
            7 => Self::Undefined,
            8 => Self::SShort,
            9 => Self::SLong,
            10 => Self::SRational,
            11 => Self::Float,
            12 => Self::Double,
            13 => Self::Ifd,
            16 => Self::Long8,
            17 => Self::SLong8,
            18 => Self::Ifd8,
            _ => return None,
        })
    }

    /// Bytes of one value.
    pub fn size(self) -> usize {
        match self {
            Self::Byte | Self::Ascii | Self::SByte | Self::Undefined => 1,
            Self::Short | Self::SShort => 2,
            Self::Long | Self::SLong | Self::Float | Self::Ifd => 4,
            _ => 8,
        }
    }

    /// Whether its elements are whole numbers, so that [`Array::unsigned`] can give them.
    pub fn is_integer(self) -> bool {
        !matches!(self, Self::Ascii | Self::Rational | Self::SRational | Self::Float | Self::Double)
    }
}

/// The bytes of a value with what is needed to read them.
#[derive(Debug, Clone)]
pub struct Array {
    /// Type of every element.
    pub kind: FieldType,
    /// Of the file.
    pub order: ByteOrder,
    /// Elements, one after the other.
    pub bytes: Vec<u8>,
}

impl Array {
    /// Elements that are integers; negative ones are `None`.
    pub fn unsigned(&self) -> Option<Vec<u64>> {
        self.bytes.chunks_exact(self.kind.size()).map(|b| unsigned(self.kind, self.order, b)).collect()
    }

    /// Elements as floating point, rationals divided.
    pub fn floats(&self) -> Vec<f64> {
        self.bytes.chunks_exact(self.kind.size()).map(|b| float(self.kind, self.order, b)).collect()
    }

    /// Text up to the first NUL; bytes that are not UTF-8 are taken for Latin-1.
    pub fn text(&self) -> String {
        let end = self.bytes.iter().position(|&b| b == 0).unwrap_or(self.bytes.len());
        latin_or_utf8(&self.bytes[..end])
    }
}

/// UTF-8, or where it is not, Latin-1: what old writers meant.
pub(crate) fn latin_or_utf8(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&b| char::from(b)).collect(),
    }
}

fn fixed<const N: usize>(b: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&b[..N]);
    out
}

/// One integer; `None` when it is negative or not an integer.
pub fn unsigned(kind: FieldType, order: ByteOrder, b: &[u8]) -> Option<u64> {
    Some(match kind {
        FieldType::Byte | FieldType::Undefined => u64::from(b[0]),
        FieldType::Short => u64::from(order.u16(fixed(b))),
        FieldType::Long | FieldType::Ifd => u64::from(order.u32(fixed(b))),
        FieldType::Long8 | FieldType::Ifd8 => order.u64(fixed(b)),
        FieldType::SByte => u64::try_from(b[0] as i8).ok()?,
        FieldType::SShort => u64::try_from(order.u16(fixed(b)) as i16).ok()?,
        FieldType::SLong => u64::try_from(order.u32(fixed(b)) as i32).ok()?,
        FieldType::SLong8 => u64::try_from(order.u64(fixed(b)) as i64).ok()?,
        _ => return None,
    })
}

fn float(kind: FieldType, order: ByteOrder, b: &[u8]) -> f64 {
    match kind {
        FieldType::Float => f64::from(f32::from_bits(order.u32(fixed(b)))),
        FieldType::Double => f64::from_bits(order.u64(fixed(b))),
        FieldType::Rational => f64::from(order.u32(fixed(b))) / f64::from(order.u32(fixed(&b[4..]))),
        FieldType::SRational => f64::from(order.u32(fixed(b)) as i32) / f64::from(order.u32(fixed(&b[4..])) as i32),
        FieldType::SByte => f64::from(b[0] as i8),
        FieldType::SShort => f64::from(order.u16(fixed(b)) as i16),
        FieldType::SLong => f64::from(order.u32(fixed(b)) as i32),
        FieldType::SLong8 => order.u64(fixed(b)) as i64 as f64,
        _ => unsigned(kind, order, b).unwrap_or(0) as f64,
    }
}
