//! Plain bytes of many kinds, damage, and the comparison with the codec of the host.

use tiffjet::DType;
use tiffjet::codec::{Encoded, Plain, Settings, TileFormat, find};

use super::{Case, Emulated};

/// Numbers that are the same everywhere; begun with any but 0.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// Noise, few symbols, runs, zeros, a gradient, text: `len` bytes of each.
pub fn samples(len: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random(seed | 1 << 32);
    let noise = random.bytes(len);
    let few = (0..len).map(|_| [0, 0, 1, 255, 3][random.below(5)]).collect();
    let mut runs = Vec::with_capacity(len + 300);
    while runs.len() < len {
        let byte = random.below(7) as u8;
        runs.resize(runs.len() + 1 + random.below(300), byte);
    }
    runs.truncate(len);
    let gradient = (0..len).map(|i| (i / 5 + random.below(3)) as u8).collect();
    let text = b"pixel after pixel, row after row, ".iter().copied().cycle().take(len).collect();
    vec![noise, few, runs, vec![0; len], gradient, text]
}

/// What a codec of the host makes of bytes; rows have `row` of them.
pub fn encode(compression: u16, plain: &[u8], row: usize) -> Vec<u8> {
    let rows = plain.len().div_ceil(row.max(1)) as u32;
    let format = TileFormat::new(compression, (row as u32, rows), 1, DType::UInt8);
    let mut out = Vec::new();
    let plain = Plain { bytes: plain, rows, format: &format, settings: &Settings::default() };
    find(compression).unwrap().encode(&plain, &mut out).unwrap();
    out
}

/// What the codec of the host gives, if it gives anything.
pub fn decode(compression: u16, encoded: &[u8], size: usize) -> Option<Vec<u8>> {
    let format = TileFormat::new(compression, (size as u32, 1), 1, DType::UInt8);
    let mut out = vec![0; size];
    let tile = Encoded { bytes: encoded, rows: 1, index: 0, format: &format };
    find(compression).unwrap().decode(&tile, &mut out).ok().map(|()| out)
}

/// Cuts, flips and overwrites streams, and makes some up.
pub fn damaged(good: &[Case], count: usize, seed: u64) -> Vec<Case> {
    let mut random = Random(seed | 1 << 32);
    (0..count)
        .map(|i| {
            let Case { encoded, size } = &good[random.below(good.len())];
            let (mut encoded, mut size) = (encoded.clone(), *size);
            match i % 6 {
                0 => encoded.truncate(random.below(encoded.len())),
                1 => {
                    for _ in 0..1 + random.below(3) {
                        let at = random.below(encoded.len());
                        if let Some(byte) = encoded.get_mut(at) {
                            *byte ^= 1 << random.below(8);
                        }
                    }
                }
                2 => {
                    let at = random.below(encoded.len());
                    encoded[at..].iter_mut().take(20).for_each(|b| *b = random.below(256) as u8);
                }
                3 => size += 1 + random.below(3000),
                4 => size = random.below(size),
                _ => {
                    let len = 1 + random.below(6000);
                    encoded = random.bytes(len);
                    size = random.below(9000);
                }
            }
            Case { encoded, size }
        })
        .collect()
}

/// Good status means the bytes of the host; and whatever `must_decode` says is decoded wherever the host does it.
pub fn compare(kernels: &Emulated, compression: u16, cases: &[Case], seed: u64, must_decode: bool) {
    for (i, (case, (status, bytes))) in cases.iter().zip(kernels.run(cases, seed)).enumerate() {
        let host = decode(compression, &case.encoded, case.size);
        let what = format!("case {i}: {} bytes to {}, seed {seed}", case.encoded.len(), case.size);
        match (status, host) {
            (0, Some(host)) => {
                let wrong = bytes.iter().zip(&host).position(|(a, b)| a != b);
                assert!(wrong.is_none(), "{what}: byte {wrong:?}");
            }
            (0, None) => panic!("{what}: the host refuses it"),
            (1..=3 | 5, Some(_)) => assert!(!must_decode, "{what}: status {status}"),
            (1..=3 | 5, None) => {}
            _ => panic!("{what}: status {status} is none that the host may see"),
        }
    }
}
