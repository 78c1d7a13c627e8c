//! The CPU backend reads what was written, with one thread and with several.

use tiffjet::Cpu;
use tiffjet_testkit::conformance;

#[test]
fn one_thread() {
    conformance(&Cpu::new(1).unwrap());
}

#[test]
fn several_threads() {
    conformance(&Cpu::new(5).unwrap());
}
