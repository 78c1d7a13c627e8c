//! What the tests of several codecs share: made-up tiles, and every way to damage a stream.

use std::ops::ControlFlow;

use super::{Cause, Codec, Encoded, Plain, Settings, TileFormat};
use crate::dtype::DType;

/// xorshift64: the tests need no better chance than this.
pub struct Random(pub u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() >> 16) as usize % end
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 32) as u8).collect()
    }
}

/// A plain unsigned format.
pub fn format(compression: u16, width: u32, height: u32, samples: u16, bits: u16) -> TileFormat {
    TileFormat { bits, ..TileFormat::new(compression, (width, height), samples, DType::UInt8) }
}

/// A full tile of that format.
pub fn tile<'a>(format: &'a TileFormat, bytes: &'a [u8]) -> Encoded<'a> {
    Encoded { bytes, rows: format.height, index: 0, format }
}

/// One row of bytes.
fn row(width: usize) -> TileFormat {
    format(0, width as u32, 1, 1, 8)
}

pub fn encode(codec: &dyn Codec, bytes: &[u8], width: usize, level: Option<i32>) -> Result<Vec<u8>, Cause> {
    let settings = Settings { level, ..Settings::default() };
    let rows = (bytes.len() / width.max(1)) as u32;
    let mut out = Vec::new();
    codec.encode(&Plain { bytes, rows, format: &row(width), settings: &settings }, &mut out)?;
    Ok(out)
}

pub fn decode(codec: &dyn Codec, bytes: &[u8], len: usize) -> Result<Vec<u8>, Cause> {
    // Not zero, so that a byte left unwritten shows.
    let mut out = vec![0xa5; len];
    let format = row(len);
    let tile = Encoded { bytes, rows: 1, index: 0, format: &format };
    let outcome = codec.decode(&tile, &mut out);
    // Step by step it must come to the same.
    let mut along = vec![0x5a; len];
    let stepped = codec.decode_along(&tile, &mut along, &mut |_| ControlFlow::Continue(()));
    assert_eq!(outcome.is_ok(), stepped.is_ok());
    assert!(outcome.is_err() || out == along);
    outcome.map(|()| out)
}

/// Noise, runs, slopes, and what lies between, of many lengths.
pub fn samples() -> Vec<Vec<u8>> {
    let mut random = Random::new(7);
    let mut all = Vec::new();
    for len in [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 127, 128, 129, 130, 255, 511, 513, 4096, 4099, 70_001] {
        all.push(vec![0; len]);
        all.push(random.bytes(len));
        all.push((0..len).map(|i| (i / 3) as u8).collect());
        all.push((0..len).map(|i| b"tiffjet tiff"[i % 12]).collect());
        all.push((0..len).map(|_| (random.next() >> 40).trailing_zeros() as u8).collect());
        let mut value = 0;
        all.push(
            (0..len)
                .map(|_| {
                    if random.below(9) == 0 {
                        value = random.next() as u8;
                    }
                    value
                })
                .collect(),
        );
    }
    all
}

/// Everything that must hold for any codec of bytes that loses nothing.
pub fn check(codec: &dyn Codec, level: Option<i32>) {
    for plain in samples() {
        let mut packed = encode(codec, &plain, plain.len(), level).unwrap();
        assert_eq!(decode(codec, &packed, plain.len()).unwrap(), plain);
        // A tile that wants less takes the start.
        let half = plain.len() / 2;
        assert_eq!(decode(codec, &packed, half).unwrap(), plain[..half]);
        // A tile that wants more is told so.
        assert!(matches!(decode(codec, &packed, plain.len() + 1), Err(Cause::Damaged(_))));
        // What comes after the end is nobody's.
        packed.extend([0xff, 0x80, 0, 1, 2, 3]);
        assert_eq!(decode(codec, &packed, plain.len()).unwrap(), plain);
    }
}

/// Cut, flipped, overwritten and made-up streams: any answer but a panic, and no more than the due bytes.
pub fn torture(codec: &dyn Codec, level: Option<i32>) {
    let mut random = Random::new(11);
    let _ = decode(codec, &[], 10).unwrap_err();
    for plain in samples().iter().filter(|s| s.len() < 5000) {
        let packed = encode(codec, plain, plain.len(), level).unwrap();
        for _ in 0..40 {
            let mut bad = packed.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(bad.len().max(1));
                match random.below(4) {
                    0 => bad.truncate(at),
                    1 if !bad.is_empty() => bad[at] ^= 1 << random.below(8),
                    2 if !bad.is_empty() => bad[at] = random.next() as u8,
                    _ => bad.insert(at.min(bad.len()), random.next() as u8),
                }
            }
            let len = [plain.len(), plain.len() * 2 + 1, plain.len() / 2][random.below(3)];
            let _ = decode(codec, &bad, len);
        }
    }
    for len in 0..300 {
        let noise = random.bytes(len);
        let _ = decode(codec, &noise, len * 3);
    }
}
