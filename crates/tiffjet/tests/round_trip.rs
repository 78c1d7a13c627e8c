//! Any options and any pixels: what is written is what is read. `TIFFJET_TRIPS=100000` takes its time, `TIFFJET_SEED` tells
//! where it begins.

use std::sync::Arc;

use tiffjet::{Backend, Cpu};
use tiffjet_testkit::Trips;

#[test]
fn what_is_written_is_read() {
    let cpu: Arc<dyn Backend> = Arc::new(Cpu::shared().unwrap());
    Trips::of(600, 180).run(&cpu);
}

#[test]
fn one_thread_writes_and_reads_the_same() {
    let cpu: Arc<dyn Backend> = Arc::new(Cpu::new(1).unwrap().with_cache(0));
    Trips::of(150, 120).run(&cpu);
}
