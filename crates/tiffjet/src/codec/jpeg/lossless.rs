//! Lossless JPEG (SOF3): predictors 1 to 7, any precision from 2 to 16 bits.

use super::super::Cause;
use super::decode::{Decoder, Expected, Frame, Markers, Scan, table};
use super::huffman::Bits;

/// Decodes the one scan of a lossless image into samples of 8 or 16 bits, whichever `out` has.
pub(super) fn decode(
    decoder: &mut Decoder,
    frame: Frame,
    mut markers: Markers<'_>,
    expected: Expected,
    out: &mut [u8],
) -> Result<(), Cause> {
    let n = frame.components.len();
    let bytes = out.len() / (expected.width as usize * expected.rows as usize * n).max(1);
    if expected.to_rgb || frame.is_subsampled() {
        return Err(Cause::unsupported("lossless JPEG in YCbCr"));
    }
    if !(2..=16).contains(&frame.precision) || frame.precision as usize > bytes * 8 {
        let message = format!("lossless JPEG of {} bits in samples of {}", frame.precision, bytes * 8);
        return Err(Cause::damaged(message));
    }
    let body = loop {
        match markers.next()? {
            Some((0xDA, body)) => break body,
            Some((marker, body)) => decoder.read_table(marker, body)?,
            None => return Err(Cause::damaged("JPEG stream without an image")),
        }
    };
    let scan = Scan::read(body, &frame)?;
    if scan.parts.len() != n || !scan.parts.iter().enumerate().all(|(i, part)| part.0 == i) {
        return Err(Cause::unsupported("lossless JPEG in many scans"));
    }
    if !(1..=7).contains(&scan.start) || scan.low >= frame.precision {
        return Err(Cause::damaged("JPEG scan with impossible parameters"));
    }
    let bits = Bits::new(markers.data, markers.pos);
    read_scan(decoder, &frame, &scan, bits, expected, bytes, out)
}

fn read_scan(
    decoder: &Decoder,
    frame: &Frame,
    scan: &Scan,
    mut bits: Bits<'_>,
    expected: Expected,
    bytes: usize,
    out: &mut [u8],
) -> Result<(), Cause> {
    let tables: Vec<_> = scan.parts.iter().map(|part| table(&decoder.dc, part.1)).collect::<Result<_, _>>()?;
    let n = tables.len();
    let row_bytes = expected.width as usize * n * bytes;
    let start = 1i32 << (frame.precision - scan.low - 1);
    let mut above = vec![0i32; frame.width * n];
    let mut row = above.clone();
    let mut left = decoder.restart;
    // A row that begins anew has nothing above it.
    let mut first = true;
    for out in out.chunks_exact_mut(row_bytes) {
        for x in 0..frame.width {
            let mut anew = x == 0 && first;
            if decoder.restart != 0 {
                if left == 0 {
                    bits.restart()?;
                    left = decoder.restart;
                    anew = true;
                    first = true;
                }
                left -= 1;
            }
            for (c, table) in tables.iter().enumerate() {
                let i = x * n + c;
                let (symbol, value) = bits.symbol_and_value(table)?;
                let difference = match symbol {
                    0..=15 => value,
                    16 => 32768,
                    _ => return Err(Cause::damaged("JPEG data with an impossible size")),
                };
                let guess = match (anew, first, x) {
                    (true, ..) => start,
                    (_, true, _) => row[i - n],
                    (_, _, 0) => above[i],
                    _ => predict(scan.start, row[i - n], above[i], above[i - n]),
                };
                row[i] = (guess + difference) & 0xFFFF;
            }
        }
        if bits.overrun() {
            return Err(Cause::damaged("JPEG data ends too soon"));
        }
        for (out, value) in out.chunks_exact_mut(bytes).zip(&row) {
            let value = (value << scan.low) as u16;
            match out {
                [byte] => *byte = value as u8,
                word => word.copy_from_slice(&value.to_ne_bytes()),
            }
        }
        first = false;
        std::mem::swap(&mut above, &mut row);
    }
    Ok(())
}

/// From the samples to the left, above, and above to the left.
fn predict(predictor: u8, a: i32, b: i32, c: i32) -> i32 {
    match predictor {
        1 => a,
        2 => b,
        3 => c,
        4 => a + b - c,
        5 => a + ((b - c) >> 1),
        6 => b + ((a - c) >> 1),
        _ => (a + b) >> 1,
    }
}
