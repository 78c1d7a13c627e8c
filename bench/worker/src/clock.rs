//! Wall time and CPU time of a call.

use std::error::Error;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// Seconds.
#[derive(Debug, Clone, Copy)]
pub struct Clocks {
    wall: f64,
    cpu: f64,
}

impl Clocks {
    /// As an answer.
    pub fn json(self) -> Value {
        json!({ "wall": self.wall, "cpu": self.cpu })
    }

    /// Of one call among `count`.
    pub fn per(self, count: u32) -> Self {
        let count = f64::from(count.max(1));
        Self { wall: self.wall / count, cpu: self.cpu / count }
    }
}

/// Runs a call between the clocks.
pub fn clocked<T>(call: impl FnOnce() -> Result<T, Box<dyn Error>>) -> Result<(Clocks, T), Box<dyn Error>> {
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    let result = call()?;
    let wall = wall.elapsed().as_secs_f64();
    Ok((Clocks { wall, cpu: cpu_seconds() - cpu }, result))
}

/// Of all threads of the process, since it began.
fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}
