//! Runs inner loops with the vector instructions of the machine.
#![allow(unsafe_code)] // a function with target features can be called only so

#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::encode::{self, Divisors};
use super::transform::{self, Block};

/// A loop that is compiled once for every machine and once for those with AVX2.
pub(super) trait Work {
    type Output;
    /// Must be `#[inline(always)]`, all the way down: what is inlined takes the instructions of its caller.
    fn run<V: Vectors>(self) -> Self::Output;
}

/// Loops over 8-bit samples that a machine may have its own way for.
pub(super) trait Vectors {
    /// [`transform::inverse`].
    #[inline(always)]
    fn inverse(block: &Block, out: &mut [u8], stride: usize) {
        transform::inverse(block, out, stride);
    }
    /// [`encode::quantise`].
    #[inline(always)]
    fn quantise(plane: &[u8], stride: usize, quant: &Divisors) -> Block {
        encode::quantise(plane, stride, quant)
    }
    /// A bit for each coefficient that is not 0.
    #[inline(always)]
    fn nonzero(block: &Block) -> u64 {
        block.iter().enumerate().fold(0, |set, (i, &c)| set | u64::from(c != 0) << i)
    }
    /// The first pixels of [`super::colour::to_rgb`]; gives how many.
    #[inline(always)]
    fn to_rgb(_y: &[u8], _cb: &[u8], _cr: &[u8], _out: &mut [u8]) -> usize {
        0
    }
    /// The first inner pairs of a stretched row; gives how many.
    #[inline(always)]
    fn stretch_sums(_sums: &[u16], _out: &mut [u8]) -> usize {
        0
    }
}

/// What every machine has.
struct Portable;

impl Vectors for Portable {}

/// Runs `work` with what the machine has.
pub(super) fn run<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("bmi2")
    {
        // SAFETY: the machine has the features of the function, as asked just above.
        return unsafe { run_avx2(work) };
    }
    work.run::<Portable>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn run_avx2<W: Work>(work: W) -> W::Output {
    work.run::<Avx2>()
}

/// Named by [`run_avx2`] alone, so the machine has the instructions wherever its functions are called.
#[cfg(target_arch = "x86_64")]
struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Vectors for Avx2 {
    #[inline(always)]
    fn inverse(block: &Block, out: &mut [u8], stride: usize) {
        // SAFETY: the type is named only where AVX2 is.
        unsafe { avx2::inverse(block, out, stride) }
    }
    #[inline(always)]
    fn quantise(plane: &[u8], stride: usize, quant: &Divisors) -> Block {
        // SAFETY: the type is named only where AVX2 is.
        unsafe { avx2::quantise(plane, stride, quant) }
    }
    #[inline(always)]
    fn nonzero(block: &Block) -> u64 {
        // SAFETY: the type is named only where AVX2 is.
        unsafe { avx2::nonzero(block) }
    }
    #[inline(always)]
    fn to_rgb(y: &[u8], cb: &[u8], cr: &[u8], out: &mut [u8]) -> usize {
        // SAFETY: the type is named only where AVX2 is.
        unsafe { avx2::to_rgb(y, cb, cr, out) }
    }
    #[inline(always)]
    fn stretch_sums(sums: &[u16], out: &mut [u8]) -> usize {
        // SAFETY: the type is named only where AVX2 is.
        unsafe { avx2::stretch_sums(sums, out) }
    }
}
