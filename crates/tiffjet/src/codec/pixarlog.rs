//! PixarLog: eleven-bit codes, linear near black and logarithmic above, as differences along the row, deflated.

use std::sync::LazyLock;

use flate2::{Decompress, FlushDecompress};

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
        if format.dtype.size() * 8 != format.bits.into() {
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

/// Fills `out` from the start of a zlib stream. Old writers flush without an end, so the stream need not have one.
fn inflate(bytes: &[u8], out: &mut [u8]) -> Result<(), Cause> {
    let mut stream = Decompress::new(true);
    loop {
        let (read, written) = (stream.total_in() as usize, stream.total_out() as usize);
        if written == out.len() {
            return Ok(());
        }
        stream
            .decompress(&bytes[read..], &mut out[written..], FlushDecompress::None)
            .map_err(|error| Cause::damaged(format!("zlib: {error}")))?;
        if (stream.total_in() as usize, stream.total_out() as usize) == (read, written) {
            return Err(Cause::damaged(format!("zlib: {written} bytes where {} are needed", out.len())));
        }
    }
}
