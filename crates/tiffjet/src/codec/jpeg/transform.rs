//! The cosine transform both ways, in the integer arithmetic that the reference implementations agree on (13-bit
//! constants, Loeffler, Ligtenberg and Moschytz), so that the pixels are theirs to the last bit.

use super::vectors::Vectors;

const BITS: u32 = 13;
const F_0_298: i32 = 2446;
const F_0_390: i32 = 3196;
const F_0_541: i32 = 4433;
const F_0_765: i32 = 6270;
const F_0_899: i32 = 7373;
const F_1_175: i32 = 9633;
const F_1_501: i32 = 12299;
const F_1_847: i32 = 15137;
const F_1_961: i32 = 16069;
const F_2_053: i32 = 16819;
const F_2_562: i32 = 20995;
const F_3_072: i32 = 25172;

/// Coefficients of a block in row order.
pub(super) type Block = [i16; 64];

/// A sample in memory.
pub(super) trait Sample: Copy + Default + Into<i32> + 'static {
    /// Bits of precision in the stream: 8 or 12.
    const BITS: u32;
    /// Bits kept between the passes.
    const PASS: u32;
    /// From a value that is in range.
    fn from_i32(value: i32) -> Self;
    /// [`inverse`] with the vectors of the machine.
    #[inline(always)]
    fn inverse<V: Vectors>(block: &Block, out: &mut [Self], stride: usize) {
        inverse(block, out, stride);
    }
    /// The first pixels of a row, as many as vectors do: see [`super::colour::to_rgb`].
    #[inline(always)]
    fn to_rgb<V: Vectors>(_y: &[Self], _cb: &[Self], _cr: &[Self], _out: &mut [Self]) -> usize {
        0
    }
    /// The first inner pairs of a row, as many as vectors do: see [`super::colour`].
    #[inline(always)]
    fn stretch_sums<V: Vectors>(_sums: &[u16], _out: &mut [Self]) -> usize {
        0
    }
}

impl Sample for u8 {
    const BITS: u32 = 8;
    const PASS: u32 = 2;
    #[inline(always)]
    fn from_i32(value: i32) -> Self {
        value as u8
    }
    #[inline(always)]
    fn inverse<V: Vectors>(block: &Block, out: &mut [Self], stride: usize) {
        V::inverse(block, out, stride);
    }
    #[inline(always)]
    fn to_rgb<V: Vectors>(y: &[u8], cb: &[u8], cr: &[u8], out: &mut [u8]) -> usize {
        V::to_rgb(y, cb, cr, out)
    }
    #[inline(always)]
    fn stretch_sums<V: Vectors>(sums: &[u16], out: &mut [u8]) -> usize {
        V::stretch_sums(sums, out)
    }
}

impl Sample for u16 {
    const BITS: u32 = 12;
    const PASS: u32 = 1;
    #[inline(always)]
    fn from_i32(value: i32) -> Self {
        value as u16
    }
}

/// Into the range of the stream's precision.
#[inline(always)]
pub(super) fn clamp<S: Sample>(value: i32) -> S {
    S::from_i32(value.clamp(0, (1 << S::BITS) - 1))
}

/// One dimension, eight lines at once: a lane is a line. Ends with a rounding shift.
#[inline(always)]
fn inverse_pass(m: &[[i32; 8]; 8], shift: u32) -> [[i32; 8]; 8] {
    let mut out = [[0; 8]; 8];
    for i in 0..8 {
        let mul = i32::wrapping_mul;
        let (z2, z3) = (m[2][i], m[6][i]);
        let z1 = mul(z2.wrapping_add(z3), F_0_541);
        let t2 = z1.wrapping_sub(mul(z3, F_1_847));
        let t3 = z1.wrapping_add(mul(z2, F_0_765));
        let round = 1 << (shift - 1);
        let t0 = (m[0][i].wrapping_add(m[4][i]) << BITS).wrapping_add(round);
        let t1 = (m[0][i].wrapping_sub(m[4][i]) << BITS).wrapping_add(round);
        let even = [t0.wrapping_add(t3), t1.wrapping_add(t2), t1.wrapping_sub(t2), t0.wrapping_sub(t3)];

        let (a7, a5, a3, a1) = (m[7][i], m[5][i], m[3][i], m[1][i]);
        let (z1, z2) = (a7.wrapping_add(a1), a5.wrapping_add(a3));
        let (z3, z4) = (a7.wrapping_add(a3), a5.wrapping_add(a1));
        let z5 = mul(z3.wrapping_add(z4), F_1_175);
        let (z1, z2) = (mul(z1, -F_0_899), mul(z2, -F_2_562));
        let z3 = mul(z3, -F_1_961).wrapping_add(z5);
        let z4 = mul(z4, -F_0_390).wrapping_add(z5);
        let odd = [
            mul(a1, F_1_501).wrapping_add(z1).wrapping_add(z4),
            mul(a3, F_3_072).wrapping_add(z2).wrapping_add(z3),
            mul(a5, F_2_053).wrapping_add(z2).wrapping_add(z4),
            mul(a7, F_0_298).wrapping_add(z1).wrapping_add(z3),
        ];
        for k in 0..4 {
            out[k][i] = even[k].wrapping_add(odd[k]) >> shift;
            out[7 - k][i] = even[k].wrapping_sub(odd[k]) >> shift;
        }
    }
    out
}

#[inline(always)]
fn transpose(m: &[[i32; 8]; 8]) -> [[i32; 8]; 8] {
    std::array::from_fn(|i| std::array::from_fn(|j| m[j][i]))
}

/// Dequantised coefficients to samples, written to `out`, whose rows are `stride` apart and hold the block.
#[inline(always)]
pub(super) fn inverse<S: Sample>(block: &Block, out: &mut [S], stride: usize) {
    let m = std::array::from_fn(|i| std::array::from_fn(|j| block[i * 8 + j] as i32));
    let mut columns = inverse_pass(&m, BITS - S::PASS);
    if S::BITS == 8 {
        // Nothing but damage goes beyond 16 bits here; the vectors saturate, and so must this.
        columns = columns.map(|row| row.map(|v| v.clamp(i16::MIN as i32, i16::MAX as i32)));
    }
    let rows = transpose(&inverse_pass(&transpose(&columns), BITS + S::PASS + 3));
    for (row, out) in rows.iter().zip(out.chunks_mut(stride)) {
        for (value, out) in row.iter().zip(out) {
            *out = clamp(value + (1 << (S::BITS - 1)));
        }
    }
}

/// [`inverse`] of a block that has but its first coefficient.
#[inline(always)]
pub(super) fn inverse_flat<S: Sample>(dc: i16, out: &mut [S], stride: usize) {
    let value = clamp::<S>(((dc as i32 + 4) >> 3) + (1 << (S::BITS - 1)));
    for out in out.chunks_mut(stride).take(8) {
        out[..8].fill(value);
    }
}

#[inline(always)]
fn forward_pass(m: &[[i32; 8]; 8], first: bool) -> [[i32; 8]; 8] {
    const PASS: u32 = <u8 as Sample>::PASS;
    let mut out = [[0; 8]; 8];
    let shift = if first { BITS - PASS } else { BITS + PASS };
    let round = 1 << (shift - 1);
    for i in 0..8 {
        let s: [i32; 4] = std::array::from_fn(|k| m[k][i] + m[7 - k][i]);
        let d: [i32; 4] = std::array::from_fn(|k| m[k][i] - m[7 - k][i]);
        let (t10, t13, t11, t12) = (s[0] + s[3], s[0] - s[3], s[1] + s[2], s[1] - s[2]);
        if first {
            out[0][i] = (t10 + t11) << PASS;
            out[4][i] = (t10 - t11) << PASS;
        } else {
            out[0][i] = (t10 + t11 + (1 << (PASS - 1))) >> PASS;
            out[4][i] = (t10 - t11 + (1 << (PASS - 1))) >> PASS;
        }
        let z1 = (t12 + t13) * F_0_541 + round;
        out[2][i] = (z1 + t13 * F_0_765) >> shift;
        out[6][i] = (z1 - t12 * F_1_847) >> shift;

        let (t4, t5, t6, t7) = (d[3], d[2], d[1], d[0]);
        let (z1, z2, z3, z4) = (t4 + t7, t5 + t6, t4 + t6, t5 + t7);
        let z5 = (z3 + z4) * F_1_175 + round;
        let (z1, z2) = (z1 * -F_0_899, z2 * -F_2_562);
        let (z3, z4) = (z3 * -F_1_961 + z5, z4 * -F_0_390 + z5);
        out[7][i] = (t4 * F_0_298 + z1 + z3) >> shift;
        out[5][i] = (t5 * F_2_053 + z2 + z4) >> shift;
        out[3][i] = (t6 * F_3_072 + z2 + z3) >> shift;
        out[1][i] = (t7 * F_1_501 + z1 + z4) >> shift;
    }
    out
}

/// Samples less 128 to coefficients, eight times too large.
#[inline(always)]
pub(super) fn forward(samples: &[[i32; 8]; 8]) -> [[i32; 8]; 8] {
    let rows = transpose(&forward_pass(&transpose(samples), true));
    forward_pass(&rows, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The transform by its definition.
    fn slow(block: &Block) -> Vec<f64> {
        let scale = |k: usize| if k == 0 { 0.5f64.sqrt() } else { 1.0 };
        let cosine = |x: usize, k: usize| ((2 * x + 1) as f64 * k as f64 * std::f64::consts::PI / 16.0).cos();
        let mut out = Vec::new();
        for y in 0..8 {
            for x in 0..8 {
                let mut sum = 0.0;
                for v in 0..8 {
                    for u in 0..8 {
                        sum += scale(u) * scale(v) / 4.0 * block[v * 8 + u] as f64 * cosine(x, u) * cosine(y, v);
                    }
                }
                out.push(sum);
            }
        }
        out
    }

    fn noise() -> impl FnMut() -> u32 {
        let mut state = 1u64;
        move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as u32
        }
    }

    #[test]
    fn inverse_is_the_definition_within_one() {
        let mut next = noise();
        for round in 0..50 {
            let mut block = [0i16; 64];
            for (k, c) in block.iter_mut().enumerate() {
                if round < 25 || k < 10 {
                    *c = (next() % 101) as i16 - 50;
                }
            }
            let mut out = [0u8; 64];
            inverse(&block, &mut out, 8);
            for (a, b) in out.iter().zip(slow(&block)) {
                assert!((*a as f64 - (b + 128.0).clamp(0.0, 255.0)).abs() <= 1.0);
            }
        }
    }

    #[test]
    fn vectors_give_the_same() {
        struct Both;
        impl super::super::vectors::Work for Both {
            type Output = ();
            #[inline(always)]
            fn run<V: Vectors>(self) {
                let mut next = noise();
                for round in 0..2000 {
                    let range = [20, 300, 2000, 65536][round % 4];
                    let block: Block = std::array::from_fn(|_| (next() % range) as u16 as i16);
                    let block = block.map(|c| if range < 65536 { c - range as i16 / 2 } else { c });
                    let (mut a, mut b) = ([0u8; 80], [0u8; 80]);
                    inverse(&block, &mut a, 10);
                    u8::inverse::<V>(&block, &mut b, 10);
                    assert_eq!(a, b);
                }
            }
        }
        super::super::vectors::run(Both);
    }

    #[test]
    fn flat_equals_the_whole_transform() {
        for dc in -2100..2100 {
            let mut block = [0i16; 64];
            block[0] = dc;
            let (mut a, mut b) = ([0u8; 64], [0u8; 64]);
            inverse(&block, &mut a, 8);
            inverse_flat(dc, &mut b, 8);
            assert_eq!(a, b);
        }
    }

    #[test]
    fn forward_then_inverse_gives_the_samples() {
        let mut next = noise();
        for _ in 0..50 {
            let samples: [[i32; 8]; 8] = std::array::from_fn(|_| std::array::from_fn(|_| (next() & 255) as i32 - 128));
            let coefficients = forward(&samples);
            let block: Block = std::array::from_fn(|i| ((coefficients[i / 8][i % 8] + 4) >> 3) as i16);
            let mut out = [0u8; 64];
            inverse(&block, &mut out, 8);
            for (i, &v) in out.iter().enumerate() {
                assert!((v as i32 - 128 - samples[i / 8][i % 8]).abs() <= 2);
            }
        }
    }
}
