//! What emulated encoders make of plain tiles.

use super::Emulated;

/// A plain tile and the bytes of its rows.
pub struct Plain {
    pub bytes: Vec<u8>,
    pub row: usize,
}

/// What each tile becomes; `at_once` of them are written by one launch, `seed` is the order in which lanes run.
pub fn encode(kernels: &Emulated, tiles: &[Plain], at_once: u32, seed: u64) -> Vec<Vec<u8>> {
    let mut input = seed.to_le_bytes().to_vec();
    input.extend((tiles.len() as u32).to_le_bytes());
    input.extend(at_once.to_le_bytes());
    for tile in tiles {
        input.extend((tile.bytes.len() as u32).to_le_bytes());
        input.extend((tile.row as u32).to_le_bytes());
        input.extend(&tile.bytes);
    }
    let output = kernels.exchange(input);
    let (sizes, mut rest) = output.split_at(8 * tiles.len());
    let encoded = sizes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|size| {
            let (bytes, after) = rest.split_at(u64::from_le_bytes(*size) as usize);
            rest = after;
            bytes.to_vec()
        })
        .collect();
    assert!(rest.is_empty());
    encoded
}
