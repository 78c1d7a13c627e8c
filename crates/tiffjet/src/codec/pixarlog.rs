//! PixarLog: eleven-bit codes, linear near black and logarithmic above, as differences along the row, deflated.

use std::sync::LazyLock;

use super::deflate::inflate;
use super::{Cause, Codec, Encoded, Unit};
use crate::dtype::SampleKind;

/// Pixar log.
#[derive(Debug)]
pub struct PixarLog;

impl Codec for PixarLog {
    fn name(&self) -> &'static str {
        "pixarlog"
    }

    fn compression(&self) -> &'static [u16] {
        &[32909]
    }

    fn unit(&self) -> Unit {
        Unit::Samples
    }

    fn bits_follow_fill_order(&self) -> bool {
        true
    }

    fn decode(&self, tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
        let format = tile.format;
        if format.dtype.size() * 8 != usize::from(format.bits) {
            return Err(Cause::unsupported(format!("samples of {} bits", format.bits)));
        }
        let values = &*VALUES;
        match (format.bits, format.kind) {
            (8, SampleKind::Unsigned) => decode(tile, out, |code| [values.bytes[code]]),
            (16, SampleKind::Unsigned) => decode(tile, out, |code| values.words[code].to_ne_bytes()),
            (32, SampleKind::Float) => decode(tile, out, |code| values.floats[code].to_ne_bytes()),
            (bits, kind) => Err(Cause::unsupported(format!("samples of {bits} bits, {kind:?}"))),
        }
    }
}

/// Codes there are.
const CODES: usize = 1 << 11;

/// What a code means as each type. 1.0 is full scale of the integers; brighter values are cut.
struct Values {
    floats: [f32; CODES],
    words: [u16; CODES],
    bytes: [u8; CODES],
}

static VALUES: LazyLock<Values> = LazyLock::new(|| {
    // The logarithmic part rises by a factor of about 1.004 a code and passes 1.0 at code 1250. The linear part has as
    // many codes as make its last step equal to the first logarithmic one.
    let linear = (1.0 / 1.004_f64.ln()) as u32;
    let rate = 1.0 / f64::from(linear);
    let scale = (-rate * 1250.0).exp();
    let step = scale * rate * 1.0_f64.exp();
    let value = |code: usize| {
        let code = code as u32;
        let exact = if code < linear { f64::from(code) * step } else { scale * (rate * f64::from(code)).exp() };
        exact as f32
    };
    let rounded = |code: usize, full: f64| (f64::from(value(code)) * full + 0.5).min(full);
    Values {
        floats: std::array::from_fn(value),
        words: std::array::from_fn(|code| rounded(code, 65535.0) as u16),
        bytes: std::array::from_fn(|code| rounded(code, 255.0) as u8),
    }
});

/// Inflates the tile, sums the differences of each row and stores the value of each code.
fn decode<const N: usize>(tile: &Encoded<'_>, out: &mut [u8], value: impl Fn(usize) -> [u8; N]) -> Result<(), Cause> {
    let stride = usize::from(tile.format.samples).max(1);
    let row_samples = (tile.format.width as usize * stride).max(1);
    let mut codes = vec![0; out.len() / N * 2];
    inflate(tile.bytes, &mut codes)?;
    let mut sums = vec![0_u16; stride];
    for (row, codes) in out.chunks_mut(row_samples * N).zip(codes.chunks(row_samples * 2)) {
        sums.fill(0);
        for (pixel, codes) in row.chunks_mut(stride * N).zip(codes.chunks(stride * 2)) {
            for ((sample, code), sum) in pixel.chunks_exact_mut(N).zip(codes.chunks_exact(2)).zip(&mut sums) {
                *sum = sum.wrapping_add(tile.format.order.u16([code[0], code[1]]));
                sample.copy_from_slice(&value(usize::from(*sum) % CODES));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use flate2::{Compress, Compression, FlushCompress};

    use super::super::TileFormat;
    use super::super::testing::{Random, format, tile};
    use super::*;
    use crate::dtype::{ByteOrder, DType};

    /// Codes as the codec stores them.
    fn encode(format: &TileFormat, codes: &[u16], flush: FlushCompress) -> Vec<u8> {
        let stride = usize::from(format.samples);
        let mut bytes = Vec::new();
        for row in codes.chunks(format.width as usize * stride) {
            for (i, &code) in row.iter().enumerate() {
                let before = i.checked_sub(stride).map_or(0, |i| row[i]);
                let delta = code.wrapping_sub(before) & 0x7ff;
                bytes.extend(if format.order == ByteOrder::Little { delta.to_le_bytes() } else { delta.to_be_bytes() });
            }
        }
        let mut out = Vec::with_capacity(bytes.len() + 1000);
        Compress::new(Compression::default(), true).compress_vec(&bytes, &mut out, flush).unwrap();
        out
    }

    fn format_of(dtype: DType, samples: u16, order: ByteOrder) -> TileFormat {
        let mut format = format(32909, 64, 16, samples, dtype.size() as u16 * 8);
        (format.dtype, format.kind, format.order) = (dtype, dtype.kind(), order);
        format
    }

    fn decode(format: &TileFormat, bytes: &[u8]) -> Result<Vec<u8>, Cause> {
        let mut out = vec![0xaa; format.row_samples_bytes() * format.height as usize];
        PixarLog.decode(&tile(format, bytes), &mut out).map(|()| out)
    }

    #[test]
    fn the_scale() {
        let values = &VALUES.floats;
        assert_eq!(values[0], 0.0);
        assert_eq!(values[1250], 1.0);
        assert!(values.is_sorted_by(|a, b| a < b));
        assert!((values[2047] - 24.2).abs() < 0.1, "{}", values[2047]);
        // linear up to here, and no step at the seam
        assert!((values[250] - 0.018316).abs() < 1e-5);
        assert!(((values[251] - values[250]) / (values[250] - values[249]) - 1.0).abs() < 0.01);
        assert_eq!((VALUES.bytes[1250], VALUES.words[1250]), (255, 65535));
        assert_eq!((VALUES.bytes[2047], VALUES.words[2047]), (255, 65535));
    }

    #[test]
    fn every_byte_has_a_code() {
        for byte in 0..=255 {
            assert!(VALUES.bytes.contains(&byte), "{byte}");
        }
    }

    #[test]
    fn codes_come_back_as_their_values() {
        let mut random = Random(3);
        for dtype in [DType::UInt8, DType::UInt16, DType::Float32] {
            for samples in [1, 2, 3, 4] {
                for order in [ByteOrder::Little, ByteOrder::Big] {
                    let format = format_of(dtype, samples, order);
                    let codes: Vec<u16> = (0..64 * 16 * samples).map(|_| random.below(CODES) as u16).collect();
                    let expected: Vec<u8> = codes
                        .iter()
                        .flat_map(|&code| match dtype {
                            DType::UInt8 => vec![VALUES.bytes[usize::from(code)]],
                            DType::UInt16 => VALUES.words[usize::from(code)].to_ne_bytes().to_vec(),
                            _ => VALUES.floats[usize::from(code)].to_ne_bytes().to_vec(),
                        })
                        .collect();
                    for flush in [FlushCompress::Finish, FlushCompress::Full] {
                        let bytes = encode(&format, &codes, flush);
                        assert!(decode(&format, &bytes).unwrap() == expected, "{dtype} {samples} {order:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn damage_is_an_error() {
        let format = format_of(DType::UInt8, 1, ByteOrder::Big);
        let codes: Vec<u16> = (0..64 * 16).map(|i| i * 7 % 2048).collect();
        let bytes = encode(&format, &codes, FlushCompress::Finish);
        // the last bytes are a checksum, which is not needed for the pixels
        for end in 0..bytes.len() - 8 {
            assert!(matches!(decode(&format, &bytes[..end]), Err(Cause::Damaged(_))), "{end}");
        }
        let short = encode(&format, &codes[..64 * 15], FlushCompress::Finish);
        assert!(matches!(decode(&format, &short), Err(Cause::Damaged(_))));
        let format = format_of(DType::Int16, 1, ByteOrder::Big);
        assert!(matches!(decode(&format, &bytes), Err(Cause::Unsupported(_))));
    }

    #[test]
    fn noise_is_no_panic() {
        let format = format_of(DType::UInt16, 3, ByteOrder::Little);
        let codes: Vec<u16> = (0..64 * 16 * 3).map(|i| i % 2048).collect();
        let bytes = encode(&format, &codes, FlushCompress::Finish);
        let mut random = Random(5);
        for _ in 0..500 {
            let mut bytes = bytes.clone();
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
            let _ = decode(&format, &bytes);
        }
    }
}
