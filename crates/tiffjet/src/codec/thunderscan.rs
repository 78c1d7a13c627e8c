//! ThunderScan: four-bit grey, each byte a run, a few differences or a value.

use super::{Cause, Codec, Encoded};

/// ThunderScan.
#[derive(Debug)]
pub struct ThunderScan;

impl Codec for ThunderScan {
    fn name(&self) -> &'static str {
        "thunderscan"
    }

    fn compression(&self) -> &'static [u16] {
        &[32809]
    }

    fn decode(&self, tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
        let format = tile.format;
        if format.bits != 4 || format.samples != 1 {
            return Err(Cause::unsupported(format!(
                "{} samples of {} bits a pixel: ThunderScan is for four bits",
                format.samples, format.bits
            )));
        }
        out.fill(0);
        let mut codes = tile.bytes.iter();
        for (number, bytes) in out.chunks_exact_mut(format.row_bytes().max(1)).enumerate() {
            let mut row = Row { bytes, width: format.width as usize, filled: 0, last: 0 };
            while row.filled < row.width {
                let code = *codes.next().ok_or_else(|| Cause::damaged(format!("row {number}: the data ends")))?;
                row.expand(code).ok_or_else(|| Cause::damaged(format!("row {number}: a run passes its end")))?;
            }
        }
        Ok(())
    }
}

/// A row of zeros that is being filled.
struct Row<'a> {
    bytes: &'a mut [u8],
    width: usize,
    filled: usize,
    last: u8,
}

impl Row<'_> {
    /// Adds what a code stands for: the top two bits say how the other six are meant.
    fn expand(&mut self, code: u8) -> Option<()> {
        match code >> 6 {
            0 => self.repeat((code & 63).into())?,
            1 => [code >> 4 & 3, code >> 2 & 3, code & 3].into_iter().for_each(|delta| self.add(delta, 2)),
            2 => [code >> 3 & 7, code & 7].into_iter().for_each(|delta| self.add(delta, 3)),
            _ => self.put(code & 15),
        }
        Some(())
    }

    fn repeat(&mut self, count: usize) -> Option<()> {
        if count > self.width - self.filled {
            return None;
        }
        for _ in 0..count {
            self.put(self.last);
        }
        Some(())
    }

    /// Adds a difference of so many bits, two's complement; the lowest value of all says that there is none.
    fn add(&mut self, delta: u8, bits: u32) {
        let sign = 1 << (bits - 1);
        if delta != sign {
            let delta = (delta ^ sign).wrapping_sub(sign);
            self.put(self.last.wrapping_add(delta) & 15);
        }
    }

    /// Adds a value. Those after the end of the row fill up its last code and are dropped.
    fn put(&mut self, value: u8) {
        self.last = value;
        if self.filled < self.width {
            self.bytes[self.filled / 2] |= if self.filled.is_multiple_of(2) { value << 4 } else { value };
            self.filled += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, format, tile};
    use super::*;

    fn decode(width: u32, rows: u32, bytes: &[u8]) -> Result<Vec<u8>, Cause> {
        let format = format(32809, width, rows, 1, 4);
        let mut out = vec![0xaa; format.row_bytes() * rows as usize];
        ThunderScan.decode(&tile(&format, bytes), &mut out).map(|()| out)
    }

    #[test]
    fn every_code() {
        // 9, 9 twice more, +1 -1 and nothing, +3 -3: 9 9 9 a 9 c 9
        let bytes = [0xc9, 0x02, 0x40 | 1 << 4 | 3 << 2 | 2, 0x80 | 3 << 3 | 5];
        assert_eq!(decode(7, 1, &bytes).unwrap(), [0x99, 0x9a, 0x9c, 0x90]);
    }

    #[test]
    fn values_wrap_and_rows_start_at_zero() {
        assert_eq!(decode(2, 2, &[0x80 | 7 << 3 | 1, 0x4b]).unwrap(), [0xf0, 0x0f]);
    }

    #[test]
    fn differences_after_the_end_are_dropped() {
        assert_eq!(decode(2, 1, &[0x00, 0x55]).unwrap(), [0x12]);
    }

    #[test]
    fn damage_is_an_error() {
        assert!(matches!(decode(4, 1, &[0x05]), Err(Cause::Damaged(_))));
        assert!(matches!(decode(4, 1, &[0x03]), Err(Cause::Damaged(_))));
        assert!(matches!(decode(4, 1, &[]), Err(Cause::Damaged(_))));
        let format = format(32809, 4, 1, 1, 8);
        assert!(matches!(ThunderScan.decode(&tile(&format, &[]), &mut [0; 4]), Err(Cause::Unsupported(_))));
    }

    #[test]
    fn noise_is_no_panic() {
        let mut random = Random(7);
        for length in 0..300 {
            let bytes = random.bytes(length);
            let _ = decode(37, 9, &bytes);
        }
    }
}
