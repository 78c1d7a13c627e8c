//! Any target of the testkit: the environment variable `TIFFJET_FUZZ` names it. One program serves them all, so that a
//! sanitized build is made once.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tiffjet_testkit::fuzz::{self, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("TIFFJET_FUZZ").unwrap_or_default();
    fuzz::find(&name).unwrap_or_else(|| panic!("TIFFJET_FUZZ must name one of {:?}", fuzz::targets()))
});

fuzz_target!(|bytes: &[u8]| TARGET.run(bytes));
