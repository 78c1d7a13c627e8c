//! The nodata value: read from text with GDAL's rules, written as GDAL writes it.

use crate::DType;

/// The value that stands for "no data".
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Nodata {
    /// For every type but the 64-bit integers. May be fractional for an integer image, and then equals no pixel.
    Float(f64),
    /// For `int64`, exact.
    Int(i64),
    /// For `uint64`, exact.
    UInt(u64),
}

impl Nodata {
    /// As a float, rounded where it must be.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Float(value) => value,
            Self::Int(value) => value as f64,
            Self::UInt(value) => value as f64,
        }
    }
}

impl Nodata {
    /// A pixel of this value, native byte order, rounded to the type. `None` where the type can't hold it.
    pub fn to_bytes(self, dtype: DType) -> Option<Vec<u8>> {
        macro_rules! integer {
            ($t:ty) => {{
                let value = match self {
                    Self::Float(v) if v.is_nan() => return None,
                    Self::Float(v) if v.round() < <$t>::MIN as f64 || v.round() > <$t>::MAX as f64 => return None,
                    Self::Float(v) => v.round() as $t,
                    Self::Int(v) => <$t>::try_from(v).ok()?,
                    Self::UInt(v) => <$t>::try_from(v).ok()?,
                };
                value.to_ne_bytes().to_vec()
            }};
        }
        let value = self.as_f64();
        Some(match dtype {
            DType::UInt8 => integer!(u8),
            DType::Int8 => integer!(i8),
            DType::UInt16 => integer!(u16),
            DType::Int16 => integer!(i16),
            DType::UInt32 => integer!(u32),
            DType::Int32 => integer!(i32),
            DType::UInt64 => integer!(u64),
            DType::Int64 => integer!(i64),
            DType::Float16 => half_bits(value).to_ne_bytes().to_vec(),
            DType::Float32 => (value as f32).to_ne_bytes().to_vec(),
            DType::Float64 => value.to_ne_bytes().to_vec(),
            DType::ComplexInt16 => [integer!(i16), vec![0; 2]].concat(),
            DType::ComplexInt32 => [integer!(i32), vec![0; 4]].concat(),
            DType::Complex64 => [(value as f32).to_ne_bytes(), [0; 4]].concat(),
            DType::Complex128 => [value.to_ne_bytes(), [0; 8]].concat(),
        })
    }
}

/// The half-precision number nearest to a value, ties to even.
fn half_bits(value: f64) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let magnitude = value.abs();
    if magnitude.is_nan() {
        return sign | 0x7e00;
    }
    if magnitude >= 65520.0 {
        return sign | 0x7c00;
    }
    // The bits of half-precision numbers grow with their value, so the spacing below the value tells the rest.
    let exponent = if magnitude < 2f64.powi(-14) { -14 } else { magnitude.log2().floor() as i32 };
    let steps = (magnitude * 2f64.powi(10 - exponent)).round_ties_even() as u16;
    sign | (((exponent + 14) as u16) << 10).wrapping_add(steps)
}

/// Reads a GDAL_NODATA text. `None` where it is empty or no pixel of `dtype` can hold it.
///
/// A prefix that is a number counts, the rest is ignored (`"0x10"` is 0), a comma may stand for the decimal point, and
/// text that is no number at all is 0: files in the wild rely on what GDAL makes of them.
pub fn parse_nodata(text: &str, dtype: DType) -> Option<Nodata> {
    let text = text.split('\0').next().unwrap_or_default();
    if text.is_empty() {
        return None;
    }
    match dtype {
        DType::Int64 => Some(Nodata::Int(parse_integer(text).clamp(i64::MIN.into(), i64::MAX.into()) as i64)),
        DType::UInt64 => {
            let value = parse_integer(text);
            (value >= 0).then(|| Nodata::UInt(value.min(u64::MAX.into()) as u64))
        }
        _ => fit(parse_number(text), dtype).map(Nodata::Float),
    }
}

/// The text of GDAL_NODATA for `value`.
pub fn format_nodata(value: Nodata) -> String {
    match value {
        Nodata::Int(value) => value.to_string(),
        Nodata::UInt(value) => value.to_string(),
        Nodata::Float(value) => format_number(value),
    }
}

/// Seventeen digits as C's `%.17g` prints them: what GDAL writes, and enough to read back the same value.
pub(crate) fn format_number(value: f64) -> String {
    const DIGITS: i32 = 17;
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let scientific = format!("{value:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..DIGITS).contains(&exponent) {
        let decimals = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
        trim(&format!("{value:.decimals$}"))
    } else {
        format!("{}e{}{:02}", trim(mantissa), if exponent < 0 { '-' } else { '+' }, exponent.abs())
    }
}

/// A number's longest prefix; 0 when there is none. `,` may be the decimal point.
pub(crate) fn parse_number(text: &str) -> f64 {
    let text = text.trim_start();
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let sign = if negative { -1.0 } else { 1.0 };
    let lower: String = digits.chars().take(8).collect::<String>().to_ascii_lowercase();
    if lower.starts_with("nan") || lower.starts_with("1.#qnan") || lower.starts_with("1.#ind") {
        return f64::NAN;
    }
    if lower.starts_with("inf") || lower.starts_with("1.#inf") {
        return sign * f64::INFINITY;
    }
    let number: String = numeric_prefix(digits.as_bytes());
    sign * number.parse::<f64>().unwrap_or(0.0)
}

fn numeric_prefix(bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut rest = bytes;
    let digits = |out: &mut String, rest: &mut &[u8]| {
        while let [digit @ b'0'..=b'9', tail @ ..] = *rest {
            out.push(char::from(*digit));
            *rest = tail;
        }
    };
    digits(&mut out, &mut rest);
    if let [b'.' | b',', tail @ ..] = rest {
        out.push('.');
        rest = tail;
        digits(&mut out, &mut rest);
    }
    if !out.bytes().any(|byte| byte.is_ascii_digit()) {
        return String::new();
    }
    if let [b'e' | b'E', tail @ ..] = rest {
        let (sign, tail) = match tail {
            [sign @ (b'+' | b'-'), tail @ ..] => (Some(*sign), tail),
            _ => (None, tail),
        };
        if tail.first().is_some_and(u8::is_ascii_digit) {
            out.push('e');
            out.extend(sign.map(char::from));
            rest = tail;
            digits(&mut out, &mut rest);
        }
    }
    out
}

/// An integer's longest prefix, far beyond 64 bits without overflow.
fn parse_integer(text: &str) -> i128 {
    let text = text.trim_start();
    let negative = text.starts_with('-');
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let value = digits
        .bytes()
        .take_while(u8::is_ascii_digit)
        .fold(0i128, |value, digit| (value * 10 + i128::from(digit - b'0')).min(1 << 80));
    if negative { -value } else { value }
}

/// The value as a pixel of `dtype` holds it; `None` outside its range.
fn fit(value: f64, dtype: DType) -> Option<f64> {
    let (low, high) = match dtype {
        DType::UInt8 => (0.0, 255.0),
        DType::Int8 => (-128.0, 127.0),
        DType::UInt16 => (0.0, 65_535.0),
        DType::Int16 | DType::ComplexInt16 => (-32_768.0, 32_767.0),
        DType::UInt32 => (0.0, 4_294_967_295.0),
        DType::Int32 => (-2_147_483_648.0, 2_147_483_647.0),
        // GDAL's bindings show pairs of 32-bit integers as single precision, which may be NaN.
        DType::Float32 | DType::Complex64 | DType::ComplexInt32 => return Some(fit_f32(value)),
        DType::Float16 | DType::Float64 | DType::Complex128 => return Some(value),
        // Exact paths of their own; see `parse_nodata`.
        DType::Int64 => (i64::MIN as f64, i64::MAX as f64),
        DType::UInt64 => (0.0, u64::MAX as f64),
    };
    (low..=high).contains(&value).then_some(value)
}

/// Rounded to `f32`. Writers print the largest float with too few digits, so values a hair beyond it mean it.
fn fit_f32(value: f64) -> f64 {
    let max = f64::from(f32::MAX);
    if value.is_finite() && (value.abs() - max).abs() <= 1e-10 * max {
        return max.copysign(value);
    }
    f64::from(value as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(text: &str, dtype: DType) -> Option<f64> {
        match parse_nodata(text, dtype) {
            Some(Nodata::Float(value)) => Some(value),
            None => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers_as_gdal_reads_them() {
        assert_eq!(float("0x10", DType::UInt8), Some(0.0));
        assert_eq!(float("1,5", DType::UInt8), Some(1.5));
        assert_eq!(float(" 7 ", DType::UInt8), Some(7.0));
        assert_eq!(float("7", DType::UInt8), Some(7.0));
        assert_eq!(float("abc", DType::UInt8), Some(0.0));
        assert_eq!(float("-30000.0\0", DType::Int16), Some(-30000.0));
        assert_eq!(float("1e300", DType::Float64), Some(1e300));
        assert_eq!(float("1e", DType::Float64), Some(1.0));
        assert_eq!(float("1d5", DType::Float64), Some(1.0));
        assert_eq!(float("", DType::UInt8), None);
        assert_eq!(float("\0", DType::UInt8), None);
    }

    #[test]
    fn a_value_no_pixel_can_hold_is_none() {
        assert_eq!(float("256", DType::UInt8), None);
        assert_eq!(float("-1", DType::UInt16), None);
        assert_eq!(float("nan", DType::Int16), None);
    }

    #[test]
    fn not_a_number_and_infinities() {
        assert!(float("nan", DType::Float32).unwrap().is_nan());
        assert!(float("-NaN", DType::Float64).unwrap().is_nan());
        assert_eq!(float("-inf", DType::Float32), Some(f64::NEG_INFINITY));
        assert_eq!(float("1.#INF", DType::Float32), Some(f64::INFINITY));
    }

    #[test]
    fn single_precision_is_rounded_and_its_limit_kept() {
        assert_eq!(float("-3.40282299999999995e+38", DType::Float32), Some(-3.4028230607370965e+38));
        assert_eq!(float("-3.4028234663852886e+38", DType::Float32), Some(f64::from(f32::MIN)));
        assert_eq!(float("3.40282346639e+38", DType::Float32), Some(f64::from(f32::MAX)));
        assert_eq!(float("0.1", DType::Float32), Some(f64::from(0.1f32)));
    }

    #[test]
    fn wide_integers_are_exact() {
        assert_eq!(parse_nodata("9223372036854775807", DType::Int64), Some(Nodata::Int(i64::MAX)));
        assert_eq!(parse_nodata("-9223372036854775808", DType::Int64), Some(Nodata::Int(i64::MIN)));
        assert_eq!(parse_nodata("18446744073709551615", DType::UInt64), Some(Nodata::UInt(u64::MAX)));
        assert_eq!(parse_nodata(&"9".repeat(500), DType::Int64), Some(Nodata::Int(i64::MAX)));
        assert_eq!(parse_nodata("-1", DType::UInt64), None);
    }

    #[test]
    fn written_text_reads_back() {
        for value in [0.0, -9999.0, 0.1, 1e300, -1.7e308, 2.2250738585072014e-308, 1e16, 1e17, f64::INFINITY] {
            let text = format_nodata(Nodata::Float(value));
            assert_eq!(float(&text, DType::Float64), Some(value), "{text}");
        }
        assert_eq!(format_nodata(Nodata::Float(f64::NAN)), "nan");
        assert_eq!(format_nodata(Nodata::Float(-9999.0)), "-9999");
        assert_eq!(format_nodata(Nodata::Float(1e300)), "1.0000000000000001e+300");
        assert_eq!(format_nodata(Nodata::Float(0.1)), "0.10000000000000001");
        assert_eq!(format_nodata(Nodata::Float(1e16)), "10000000000000000");
        assert_eq!(format_nodata(Nodata::Float(1e17)), "1e+17");
        assert_eq!(format_nodata(Nodata::Float(1e-10)), "1e-10");
        assert_eq!(format_nodata(Nodata::UInt(u64::MAX)), "18446744073709551615");
    }

    #[test]
    fn pixels_of_nodata() {
        assert_eq!(Nodata::Float(-9999.0).to_bytes(DType::Int16), Some((-9999i16).to_ne_bytes().to_vec()));
        assert_eq!(Nodata::Float(256.0).to_bytes(DType::UInt8), None);
        assert_eq!(Nodata::UInt(u64::MAX).to_bytes(DType::UInt64), Some(u64::MAX.to_ne_bytes().to_vec()));
        let half = |v| half_bits(v);
        assert_eq!([half(1.0), half(-2.0), half(65504.0), half(1e9)], [0x3c00, 0xc000, 0x7bff, 0x7c00]);
        assert_eq!(
            [half(2f64.powi(-24)), half(2f64.powi(-14)), half(0.0), half(1.0 + 2f64.powi(-11))],
            [1, 0x400, 0, 0x3c00]
        );
    }
}
