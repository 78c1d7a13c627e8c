//! The suite that every backend passes, on a GPU.
//!
//!     conformance [DEVICE]

#![allow(clippy::print_stdout)] // its one job

use tiffjet_cuda::Cuda;

fn main() -> tiffjet::Result<()> {
    let ordinal = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(0);
    let cuda = Cuda::new(ordinal)?;
    tiffjet_testkit::conformance(&cuda);
    println!("{}: all is well", cuda.device().name);
    Ok(())
}
