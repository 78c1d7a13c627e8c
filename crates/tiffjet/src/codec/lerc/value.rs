//! The eight pixel types LERC knows, and the cursor that reads numbers from a blob.

use super::Cause;

/// A sample type of a blob.
pub(super) trait Value: Copy + PartialOrd + 'static {
    /// Bytes of one value.
    const SIZE: usize;
    /// Its number in a blob's header.
    const CODE: i32;
    /// Floating point, so that quantised values go through `f64`.
    const FLOAT: bool;
    /// What a pixel that the mask hides reads as.
    const HIDDEN: Self;
    /// Relative rounding error of a decoded value; 0 for integers.
    const EPSILON: f64;

    /// Nearest-towards-zero and saturating.
    fn from_f64(v: f64) -> Self;
    /// Exact.
    fn to_f64(self) -> f64;
    /// Wraps round for integers.
    fn from_i64(v: i64) -> Self;
    /// Reads the bytes of this machine.
    fn get(b: &[u8]) -> Self;
    /// Writes the bytes of this machine.
    fn put(self, b: &mut [u8]);
    /// Reads the bytes of a blob.
    fn get_le(b: &[u8]) -> Self;
    /// Writes the bytes of a blob.
    fn push_le(self, out: &mut Vec<u8>);
    /// Equal bit by bit: tells `-0.0` from `0.0`.
    fn same(self, other: Self) -> bool;
    /// Only floats have it.
    fn is_nan(self) -> bool;
}

macro_rules! value {
    ($type:ty, $code:literal, $float:literal, $hidden:expr, $epsilon:expr, $nan:expr) => {
        impl Value for $type {
            const SIZE: usize = size_of::<$type>();
            const CODE: i32 = $code;
            const FLOAT: bool = $float;
            const HIDDEN: Self = $hidden;
            const EPSILON: f64 = $epsilon;

            #[inline(always)]
            fn from_f64(v: f64) -> Self {
                v as $type
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn from_i64(v: i64) -> Self {
                v as $type
            }
            #[inline(always)]
            fn get(b: &[u8]) -> Self {
                let mut word = [0; size_of::<$type>()];
                word.copy_from_slice(b);
                <$type>::from_ne_bytes(word)
            }
            #[inline(always)]
            fn put(self, b: &mut [u8]) {
                b.copy_from_slice(&self.to_ne_bytes());
            }
            #[inline(always)]
            fn get_le(b: &[u8]) -> Self {
                let mut word = [0; size_of::<$type>()];
                word.copy_from_slice(b);
                <$type>::from_le_bytes(word)
            }
            #[inline(always)]
            fn push_le(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            #[inline(always)]
            fn same(self, other: Self) -> bool {
                self.to_ne_bytes() == other.to_ne_bytes()
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                let nan: fn($type) -> bool = $nan;
                nan(self)
            }
        }
    };
}

value!(i8, 0, false, 0, 0.0, |_| false);
value!(u8, 1, false, 0, 0.0, |_| false);
value!(i16, 2, false, 0, 0.0, |_| false);
value!(u16, 3, false, 0, 0.0, |_| false);
value!(i32, 4, false, 0, 0.0, |_| false);
value!(u32, 5, false, 0, 0.0, |_| false);
value!(f32, 6, true, f32::NAN, f32::EPSILON as f64, f32::is_nan);
value!(f64, 7, true, f64::NAN, 4.0 * f64::EPSILON, f64::is_nan);

/// Calls a function generic over [`Value`] with the type of a [`crate::DType`].
macro_rules! dispatch {
    ($dtype:expr, $function:ident ( $($argument:expr),* )) => {
        match $dtype {
            DType::Int8 => $function::<i8>($($argument),*),
            DType::UInt8 => $function::<u8>($($argument),*),
            DType::Int16 => $function::<i16>($($argument),*),
            DType::UInt16 => $function::<u16>($($argument),*),
            DType::Int32 => $function::<i32>($($argument),*),
            DType::UInt32 => $function::<u32>($($argument),*),
            DType::Float32 => $function::<f32>($($argument),*),
            DType::Float64 => $function::<f64>($($argument),*),
            other => Err(Cause::unsupported(format!("LERC of {other} samples"))),
        }
    };
}
pub(super) use dispatch;

/// The types in which the offset of a block may be written: its own, or smaller ones that hold it exactly.
///
/// Indexed by the data type and by two bits of the block's flag.
const OFFSET_TYPES: [[Option<i32>; 4]; 8] = [
    [Some(0), Some(0), Some(0), Some(0)],
    [Some(1), Some(1), Some(1), Some(1)],
    [Some(2), Some(1), Some(0), None],
    [Some(3), Some(1), None, None],
    [Some(4), Some(3), Some(2), Some(1)],
    [Some(5), Some(3), Some(1), None],
    [Some(6), Some(2), Some(1), None],
    [Some(7), Some(6), Some(4), Some(2)],
];

/// The type of an offset, from the data type and the flag's two bits.
pub(super) fn offset_type(code: i32, reduction: u8) -> Result<i32, Cause> {
    OFFSET_TYPES
        .get(code as usize)
        .and_then(|row| *row.get(reduction as usize)?)
        .ok_or_else(|| Cause::damaged("LERC block offset of an unknown type"))
}

/// The shortest of the types that hold `offset`, as the flag's two bits, and its number.
pub(super) fn shortest_offset(code: i32, offset: f64) -> (u8, i32) {
    let row = &OFFSET_TYPES[code as usize];
    (1..4u8)
        .rev()
        .filter_map(|reduction| Some((reduction, row[reduction as usize]?)))
        .find(|&(_, kind)| kind != code && holds(kind, offset))
        .unwrap_or((0, code))
}

/// Whether the type keeps the number exactly, its sign of zero too.
fn holds(code: i32, v: f64) -> bool {
    let back = match code {
        0 => v as i8 as f64,
        1 => v as u8 as f64,
        2 => v as i16 as f64,
        3 => v as u16 as f64,
        4 => v as i32 as f64,
        5 => v as u32 as f64,
        6 => v as f32 as f64,
        _ => v,
    };
    back.to_bits() == v.to_bits()
}

/// Writes an offset that its type [holds](shortest_offset).
pub(super) fn push_number(code: i32, v: f64, out: &mut Vec<u8>) {
    match code {
        0 => (v as i8).push_le(out),
        1 => (v as u8).push_le(out),
        2 => (v as i16).push_le(out),
        3 => (v as u16).push_le(out),
        4 => (v as i32).push_le(out),
        5 => (v as u32).push_le(out),
        6 => (v as f32).push_le(out),
        _ => v.push_le(out),
    }
}

/// What is left of a blob.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline(always)]
    pub(super) fn take(&mut self, n: usize) -> Result<&'a [u8], Cause> {
        match self.rest.split_at_checked(n) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(truncated()),
        }
    }

    #[inline(always)]
    pub(super) fn u8(&mut self) -> Result<u8, Cause> {
        let (&head, tail) = self.rest.split_first().ok_or_else(truncated)?;
        self.rest = tail;
        Ok(head)
    }

    /// One value of a type of the blob.
    #[inline(always)]
    pub(super) fn value<T: Value>(&mut self) -> Result<T, Cause> {
        self.take(T::SIZE).map(T::get_le)
    }

    /// One value of the type of that number.
    pub(super) fn number(&mut self, code: i32) -> Result<f64, Cause> {
        Ok(match code {
            0 => self.value::<i8>()?.to_f64(),
            1 => self.value::<u8>()?.to_f64(),
            2 => self.value::<i16>()?.to_f64(),
            3 => self.value::<u16>()?.to_f64(),
            4 => self.value::<i32>()?.to_f64(),
            5 => self.value::<u32>()?.to_f64(),
            6 => self.value::<f32>()?.to_f64(),
            _ => self.value::<f64>()?,
        })
    }
}

#[cold]
pub(super) fn truncated() -> Cause {
    Cause::damaged("LERC blob ends too early")
}
