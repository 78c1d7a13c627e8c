//! The whole path without a GPU: a fake driver that puts work off as long as it may, and kernels on the emulation.

mod fake;

use tiffjet_cuda::Cuda;
use tiffjet_testkit::{conformance_of, matrix};

#[test]
fn conformance() {
    fake::child("child_conformance", &[]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_conformance() {
    // All of them take an hour on the emulation, and a minute on a GPU: `examples/conformance.rs`.
    let step = std::env::var("TIFFJET_STEP").ok().and_then(|step| step.parse().ok()).unwrap_or(97);
    let backend = Cuda::new(0).unwrap();
    conformance_of(&backend, matrix::grid().step_by(step).chain(matrix::oddities()));
}
