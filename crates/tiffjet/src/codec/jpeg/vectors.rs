//! Runs inner loops with the vector instructions of the machine.
#![allow(unsafe_code)] // a function with target features can be called only so

/// A loop that is compiled once for every machine and once for those with AVX2.
pub(super) trait Work {
    type Output;
    /// Must be `#[inline(always)]`, all the way down: what is inlined takes the instructions of its caller.
    fn run(self) -> Self::Output;
}

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
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn run_avx2<W: Work>(work: W) -> W::Output {
    work.run()
}
