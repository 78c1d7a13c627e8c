//! How long a request may take, and whether anybody still wants it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::interrupt::wanted;

/// Waiting threads look up so often.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// Bytes a second below which a transfer is as good as stalled.
const SLOWEST: u64 = 16 << 10;

/// The patience for one request. It has an end even where the other side sends a byte now and then.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    name: Arc<str>,
    /// Set by who waits for it: the request is wanted no more.
    stop: Arc<AtomicBool>,
    stall: Duration,
    end: Instant,
}

impl Watch {
    /// For a request of so many bytes that may stand still for so long.
    pub(crate) fn new(name: &Arc<str>, stop: &Arc<AtomicBool>, stall: Duration, bytes: u64) -> Self {
        let most = Duration::from_secs(bytes / SLOWEST).saturating_add(stall.saturating_mul(4));
        // A day is longer than anything here takes.
        let end = Instant::now() + most.min(Duration::from_secs(86400));
        Self { name: name.clone(), stop: stop.clone(), stall, end }
    }

    /// Called while nothing moves: an error when that has been so for too long, or nobody waits any more.
    pub(super) fn waited(&self, since: Instant) -> io::Result<()> {
        if self.stop.load(Ordering::Relaxed) || wanted(&self.name).is_err() {
            return Err(io::Error::other(Cancelled));
        }
        if since.elapsed() >= self.stall {
            let what = format!("no byte came for {} s", self.stall.as_secs_f64());
            return Err(io::Error::new(io::ErrorKind::TimedOut, what));
        }
        self.check()
    }

    /// An error when the whole request has taken too long.
    pub(super) fn check(&self) -> io::Result<()> {
        if Instant::now() >= self.end {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the transfer is too slow"));
        }
        Ok(())
    }

    /// Waits, unless nobody wants it to.
    pub(crate) fn sleep(&self, time: Duration) -> io::Result<()> {
        let end = Instant::now() + time.min(Duration::from_secs(3600));
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            if self.stop.load(Ordering::Relaxed) || wanted(&self.name).is_err() {
                return Err(io::Error::other(Cancelled));
            }
            std::thread::sleep(left.min(TICK));
        }
    }
}

/// Why a request ended that nobody wanted any more.
#[derive(Debug)]
struct Cancelled;

impl std::fmt::Display for Cancelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cancelled")
    }
}

impl std::error::Error for Cancelled {}

/// Whether an error only says that nobody wanted the answer any more.
pub(super) fn is_cancelled(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Cancelled>())
}
