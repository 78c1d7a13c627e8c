//! SGI's LogL and LogLuv: luminance on a logarithmic scale, colour as CIE (u', v').
//!
//! Samples are given in the 16-bit form that the directory of such a file declares: L as it is stored, u' and v' as
//! parts of 2^15.

use std::sync::LazyLock;

use super::{Cause, Codec, Encoded, Unit};

/// SGI LogLuv.
#[derive(Debug)]
pub struct SgiLog;

impl Codec for SgiLog {
    fn name(&self) -> &'static str {
        "sgilog"
    }

    fn compression(&self) -> &'static [u16] {
        &[34676, 34677]
    }

    fn unit(&self) -> Unit {
        Unit::Samples
    }

    fn bits_follow_fill_order(&self) -> bool {
        true
    }

    fn decode(&self, tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
        let format = tile.format;
        let packing = match (format.photometric, format.samples) {
            (LOG_L, 1) => Packing::L16,
            (LOG_LUV, 3) if format.compression == 34677 => Packing::Luv24,
            (LOG_LUV, 3) => Packing::Luv32,
            (photometric, samples) => {
                return Err(Cause::unsupported(format!("{samples} samples of photometric {photometric}")));
            }
        };
        if format.bits != 16 || format.dtype.size() != 2 {
            return Err(Cause::unsupported(format!("samples of {} bits: 16 are built", format.bits)));
        }
        let mut input = tile.bytes;
        let mut pixels = vec![0; format.width as usize];
        for (number, row) in out.chunks_exact_mut(format.row_samples_bytes().max(1)).enumerate() {
            packing
                .read(&mut input, &mut pixels)
                .ok_or_else(|| Cause::damaged(format!("row {number}: the data ends or passes the end of the row")))?;
            packing.write(&pixels, row);
        }
        Ok(())
    }
}

/// PhotometricInterpretation of luminance alone.
const LOG_L: u16 = 32844;
/// PhotometricInterpretation of luminance and colour.
const LOG_LUV: u16 = 32845;

/// How a pixel is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    /// L, in runs.
    L16,
    /// Ten bits of L, fourteen of colour, three bytes a pixel.
    Luv24,
    /// Sixteen bits of L, eight of u' and of v', in runs.
    Luv32,
}

impl Packing {
    /// Reads the pixels of one row.
    fn read(self, input: &mut &[u8], pixels: &mut [u32]) -> Option<()> {
        match self {
            Self::L16 => read_runs(input, pixels, 2),
            Self::Luv32 => read_runs(input, pixels, 4),
            Self::Luv24 => {
                for pixel in pixels {
                    let (bytes, rest) = input.split_first_chunk::<3>()?;
                    *pixel = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
                    *input = rest;
                }
                Some(())
            }
        }
    }

    /// Writes a row as samples.
    fn write(self, pixels: &[u32], row: &mut [u8]) {
        match self {
            Self::L16 => put(row, pixels.iter().map(|&pixel| [pixel as i16])),
            Self::Luv32 => {
                let part = |byte: u32| EIGHT_BITS[(byte & 0xff) as usize];
                put(row, pixels.iter().map(|&pixel| [(pixel >> 16) as i16, part(pixel >> 8), part(pixel)]));
            }
            Self::Luv24 => {
                let colours = &*COLOURS;
                put(
                    row,
                    pixels.iter().map(|&pixel| {
                        let [u, v] = colours[(pixel & 0x3fff) as usize];
                        [luminance(pixel), u, v]
                    }),
                );
            }
        }
    }
}

/// Reads a row that is stored as planes of bytes, the highest first, each in runs that never leave it.
fn read_runs(input: &mut &[u8], pixels: &mut [u32], planes: u32) -> Option<()> {
    pixels.fill(0);
    for shift in (0..planes).rev().map(|plane| plane * 8) {
        let mut filled = 0;
        while filled < pixels.len() {
            let (&code, rest) = input.split_first()?;
            let repeated = code >= 128;
            let count = if repeated { usize::from(code) - 126 } else { code.into() };
            let (bytes, rest) = rest.split_at_checked(if repeated { 1 } else { count })?;
            let run = pixels.get_mut(filled..filled + count)?;
            for (pixel, &byte) in run.iter_mut().zip(bytes.iter().cycle()) {
                *pixel |= u32::from(byte) << shift;
            }
            filled += count;
            *input = rest;
        }
    }
    Some(())
}

/// Writes samples in native byte order.
fn put<const N: usize>(row: &mut [u8], pixels: impl Iterator<Item = [i16; N]>) {
    for (bytes, sample) in row.chunks_exact_mut(2).zip(pixels.flatten()) {
        bytes.copy_from_slice(&sample.to_ne_bytes());
    }
}

/// Luminance of three bytes on the 16-bit scale, where the steps are a quarter as wide. The lowest bit comes from the
/// colour: libtiff's mask lets it through, so every reader gives it, and a step so small is no matter.
fn luminance(pixel: u32) -> i16 {
    ((pixel >> 12 & 0xffd) + 13314) as i16
}

/// u' or v' as a part of 2^15.
const fn part(value: f64) -> i16 {
    (value * 32768.0) as i16
}

/// u' or v' of eight bits.
static EIGHT_BITS: [i16; 256] = {
    let mut parts = [0; 256];
    let mut i = 0;
    while i < parts.len() {
        parts[i] = part(1.0 / 410.0 * (i as f64 + 0.5));
        i += 1;
    }
    parts
};

/// (u', v') of fourteen bits: the visible colours cut into squares and numbered row by row. Numbers beyond the last
/// mean white of equal energy.
static COLOURS: LazyLock<Vec<[i16; 2]>> = LazyLock::new(|| {
    let mut colours = Vec::with_capacity(1 << 14);
    for (row, &(start, squares)) in SQUARES.iter().enumerate() {
        let v = part(f64::from(FIRST_V) + (row as f64 + 0.5) * f64::from(SQUARE));
        for column in 0..squares {
            let u = part(f64::from(start) + (f64::from(column) + 0.5) * f64::from(SQUARE));
            colours.push([u, v]);
        }
    }
    colours.resize(1 << 14, [part(0.210526316), part(0.473684211)]);
    colours
});

/// Side of a square.
const SQUARE: f32 = 0.0035;
/// v' where the first row of squares begins.
const FIRST_V: f32 = 0.016940;
/// u' where a row of squares begins, and how many there are.
#[rustfmt::skip]
static SQUARES: [(f32, u8); 163] = [
    (0.247663, 4), (0.243779, 6), (0.241684, 7), (0.237874, 9), (0.235906, 10), (0.232153, 12), (0.228352, 14),
    (0.226259, 15), (0.222371, 17), (0.220410, 18), (0.214710, 21), (0.212714, 22), (0.210721, 23), (0.204976, 26),
    (0.202986, 27), (0.199245, 29), (0.195525, 31), (0.193560, 32), (0.189878, 34), (0.186216, 36), (0.186216, 36),
    (0.182592, 38), (0.179003, 40), (0.175466, 42), (0.172001, 44), (0.172001, 44), (0.168612, 46), (0.168612, 46),
    (0.163575, 49), (0.158642, 52), (0.158642, 52), (0.158642, 52), (0.153815, 55), (0.153815, 55), (0.149097, 58),
    (0.149097, 58), (0.142746, 62), (0.142746, 62), (0.142746, 62), (0.138270, 65), (0.138270, 65), (0.138270, 65),
    (0.132166, 69), (0.132166, 69), (0.126204, 73), (0.126204, 73), (0.126204, 73), (0.120381, 77), (0.120381, 77),
    (0.120381, 77), (0.120381, 77), (0.112962, 82), (0.112962, 82), (0.112962, 82), (0.107450, 86), (0.107450, 86),
    (0.107450, 86), (0.107450, 86), (0.100343, 91), (0.100343, 91), (0.100343, 91), (0.095126, 95), (0.095126, 95),
    (0.095126, 95), (0.095126, 95), (0.088276, 100), (0.088276, 100), (0.088276, 100), (0.088276, 100),
    (0.081523, 105), (0.081523, 105), (0.081523, 105), (0.081523, 105), (0.074861, 110), (0.074861, 110),
    (0.074861, 110), (0.074861, 110), (0.068290, 115), (0.068290, 115), (0.068290, 115), (0.068290, 115),
    (0.063573, 119), (0.063573, 119), (0.063573, 119), (0.063573, 119), (0.057219, 124), (0.057219, 124),
    (0.057219, 124), (0.057219, 124), (0.050985, 129), (0.050985, 129), (0.050985, 129), (0.050985, 129),
    (0.050985, 129), (0.044859, 134), (0.044859, 134), (0.044859, 134), (0.044859, 134), (0.040571, 138),
    (0.040571, 138), (0.040571, 138), (0.040571, 138), (0.036339, 142), (0.036339, 142), (0.036339, 142),
    (0.036339, 142), (0.032139, 146), (0.032139, 146), (0.032139, 146), (0.032139, 146), (0.027947, 150),
    (0.027947, 150), (0.027947, 150), (0.023739, 154), (0.023739, 154), (0.023739, 154), (0.023739, 154),
    (0.019504, 158), (0.019504, 158), (0.019504, 158), (0.016976, 161), (0.016976, 161), (0.016976, 161),
    (0.016976, 161), (0.012639, 165), (0.012639, 165), (0.012639, 165), (0.009991, 168), (0.009991, 168),
    (0.009991, 168), (0.009016, 170), (0.009016, 170), (0.009016, 170), (0.006217, 173), (0.006217, 173),
    (0.005097, 175), (0.005097, 175), (0.005097, 175), (0.003909, 177), (0.003909, 177), (0.002340, 177),
    (0.002389, 170), (0.001068, 164), (0.001653, 157), (0.000717, 150), (0.001614, 143), (0.000270, 136),
    (0.000484, 129), (0.001103, 123), (0.001242, 115), (0.001188, 109), (0.001011, 103), (0.000709, 97),
    (0.000301, 89), (0.002416, 82), (0.003251, 76), (0.003246, 69), (0.004141, 62), (0.005963, 55), (0.008839, 47),
    (0.010490, 40), (0.016994, 31), (0.023659, 21),
];

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, format, tile};
    use super::*;
    use crate::dtype::{DType, SampleKind};

    fn decode(compression: u16, samples: u16, width: u32, rows: u32, bytes: &[u8]) -> Result<Vec<i16>, Cause> {
        let mut format = format(compression, width, rows, samples, 16);
        format.photometric = if samples == 1 { LOG_L } else { LOG_LUV };
        (format.kind, format.dtype) = (SampleKind::Signed, DType::Int16);
        let mut out = vec![0xaa; format.row_samples_bytes() * rows as usize];
        SgiLog.decode(&tile(&format, bytes), &mut out)?;
        Ok(out.chunks_exact(2).map(|b| i16::from_ne_bytes([b[0], b[1]])).collect())
    }

    #[test]
    fn the_squares_are_all_there() {
        assert_eq!(SQUARES.iter().map(|&(_, squares)| u32::from(squares)).sum::<u32>(), 16289);
        assert_eq!(COLOURS.len(), 1 << 14);
    }

    #[test]
    fn luminance_in_runs() {
        // high bytes: five of 0x81; low bytes: three as they are, nothing, two of 7
        let bytes = [131, 0x81, 3, 1, 2, 3, 0, 128, 7];
        let expected = [0x8101u16, 0x8102, 0x8103, 0x8107, 0x8107].map(|v| v as i16);
        assert_eq!(decode(34676, 1, 5, 1, &bytes).unwrap(), expected);
    }

    #[test]
    fn colour_in_runs() {
        let bytes = [128, 0x40, 128, 0x12, 2, 0, 255, 2, 86, 193];
        let expected = [0x4012, 39, 6913, 0x4012, 20420, 15464];
        assert_eq!(decode(34676, 3, 2, 1, &bytes).unwrap(), expected);
    }

    #[test]
    fn colour_of_three_bytes() {
        // the first square, the first of the second row, one beyond the last; L 0, 1 and 1023
        let bytes = [0, 0, 0, 0, 0x40, 4, 0xff, 0xff, 0xff];
        let first = [13314, 8172, 612];
        let second = [13318, 8045, 727];
        let beyond = [13314 + 0xffd, 6898, 15521];
        assert_eq!(decode(34677, 3, 3, 1, &bytes).unwrap(), [first, second, beyond].concat());
    }

    #[test]
    fn damage_is_an_error() {
        let whole = [131, 0x81, 3, 1, 2, 3, 0, 128, 7];
        for end in 0..whole.len() {
            assert!(matches!(decode(34676, 1, 5, 1, &whole[..end]), Err(Cause::Damaged(_))), "{end}");
        }
        assert!(matches!(decode(34676, 1, 4, 1, &whole), Err(Cause::Damaged(_))), "runs are longer than the row");
        assert!(matches!(decode(34677, 3, 1, 1, &[0, 0]), Err(Cause::Damaged(_))));
        assert!(matches!(decode(34677, 4, 1, 1, &[0, 0]), Err(Cause::Unsupported(_))));
    }

    #[test]
    fn noise_is_no_panic() {
        let mut random = Random(7);
        for length in 0..400 {
            let bytes = random.bytes(length);
            let _ = decode(34676, 1, 17, 5, &bytes);
            let _ = decode(34676, 3, 17, 5, &bytes);
            let _ = decode(34677, 3, 17, 5, &bytes);
        }
    }
}
