//! Horizontal and floating-point predictors, both ways.
#![allow(missing_docs)]
pub fn undo_horizontal(row: &mut [u8], samples: usize, word: usize) {
    macro_rules! go { ($t:ty) => {{ const N: usize = size_of::<$t>(); let c = row.as_chunks_mut::<N>().0; for i in samples..c.len() { c[i] = <$t>::from_ne_bytes(c[i]).wrapping_add(<$t>::from_ne_bytes(c[i - samples])).to_ne_bytes(); } }} }
    match word { 1 => go!(u8), 2 => go!(u16), 4 => go!(u32), _ => go!(u64) }
}
pub fn undo_float(row: &mut [u8], out: &mut [u8], samples: usize, word: usize) {
    for i in samples..row.len() { row[i] = row[i].wrapping_add(row[i - samples]); }
    let n = row.len() / word;
    for i in 0..n { for k in 0..word { out[i * word + word - 1 - k] = row[k * n + i]; } }
}
pub fn split(row: &[u8], out: &mut [&mut [u8]], word: usize, predicted: bool) {
    let mut row = row.to_vec();
    let samples = out.len();
    if predicted { undo_horizontal(&mut row, samples, word); }
    for (s, out) in out.iter_mut().enumerate() { for (o, p) in out.chunks_exact_mut(word).zip(row.chunks_exact(word * samples)) { o.copy_from_slice(&p[s * word..(s + 1) * word]); } }
}
