//! NeXT: two-bit grey, each row as it is, a part of it on white, or runs.

use super::{Cause, Codec, Encoded};

/// NeXT 2-bit.
#[derive(Debug)]
pub struct Next;

impl Codec for Next {
    fn name(&self) -> &'static str {
        "next"
    }

    fn compression(&self) -> &'static [u16] {
        &[32766]
    }

    fn decode(&self, tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
        let format = tile.format;
        if format.bits != 2 || format.samples != 1 {
            return Err(Cause::unsupported(format!(
                "{} samples of {} bits a pixel: NeXT is for two bits",
                format.samples, format.bits
            )));
        }
        let mut input = Input(tile.bytes);
        for (number, row) in out.chunks_exact_mut(format.row_bytes().max(1)).enumerate() {
            expand(&mut input, row, format.width as usize)
                .ok_or_else(|| Cause::damaged(format!("row {number}: the data ends or passes the end of the row")))?;
        }
        Ok(())
    }
}

/// Fills a row of `width` pixels.
fn expand(input: &mut Input<'_>, row: &mut [u8], width: usize) -> Option<()> {
    match input.byte()? {
        0x00 => row.copy_from_slice(input.bytes(row.len())?),
        0x40 => {
            row.fill(0xff);
            let (start, length) = (input.number()?, input.number()?);
            row.get_mut(start..start + length)?.copy_from_slice(input.bytes(length)?);
        }
        first => runs(input, row, width, first)?,
    }
    Some(())
}

/// Fills a row with runs: two bits of grey and six of length. The last may be longer than the row has room for.
fn runs(input: &mut Input<'_>, row: &mut [u8], width: usize, mut code: u8) -> Option<()> {
    row.fill(0);
    let mut filled = 0;
    loop {
        let end = width.min(filled + usize::from(code & 63));
        for pixel in filled..end {
            row[pixel / 4] |= (code >> 6) << (6 - pixel % 4 * 2);
        }
        filled = end;
        if filled == width {
            return Some(());
        }
        code = input.byte()?;
    }
}

/// What is left of the data.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.bytes(1)?[0])
    }

    /// Two bytes, the high one first whatever the byte order of the file.
    fn number(&mut self) -> Option<usize> {
        Some(usize::from(self.byte()?) << 8 | usize::from(self.byte()?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, format, tile};
    use super::*;

    fn decode(width: u32, rows: u32, bytes: &[u8]) -> Result<Vec<u8>, Cause> {
        let format = format(32766, width, rows, 1, 2);
        let mut out = vec![0xaa; format.row_bytes() * rows as usize];
        Next.decode(&tile(&format, bytes), &mut out).map(|()| out)
    }

    #[test]
    fn a_row_as_it_is() {
        assert_eq!(decode(8, 1, &[0, 0x12, 0x34]).unwrap(), [0x12, 0x34]);
    }

    #[test]
    fn a_part_on_white() {
        assert_eq!(decode(16, 1, &[0x40, 0, 1, 0, 2, 0x12, 0x34]).unwrap(), [0xff, 0x12, 0x34, 0xff]);
    }

    #[test]
    fn runs_then_the_next_row() {
        // three of 1, none of 0, two of 2, the rest 3
        let bytes = [0x43, 0x00, 0x82, 0xff, 0x47];
        assert_eq!(decode(7, 2, &bytes).unwrap(), [0b0101_0110, 0b1011_1100, 0b0101_0101, 0b0101_0100]);
    }

    #[test]
    fn damage_is_an_error() {
        for bytes in [&[][..], &[0, 1], &[0x40, 0, 1, 0, 2, 0, 0], &[0x40, 0, 0, 0], &[0x41]] {
            assert!(matches!(decode(8, 1, bytes), Err(Cause::Damaged(_))), "{bytes:?}");
        }
        let format = format(32766, 4, 1, 1, 1);
        assert!(matches!(Next.decode(&tile(&format, &[]), &mut [0]), Err(Cause::Unsupported(_))));
    }

    #[test]
    fn noise_is_no_panic() {
        let mut random = Random(7);
        for length in 0..300 {
            let mut bytes = random.bytes(length);
            for first in [0, 0x40, 0x41] {
                if let Some(byte) = bytes.first_mut() {
                    *byte = first;
                }
                let _ = decode(37, 9, &bytes);
            }
        }
    }
}
