//! Threads that sleep, each on a core of its own.
//!
//! A thread wakes on the core where it slept, or where who wakes it runs. Systems that run on others (KVM) do not trust
//! cores that have slept long, so there threads that decode side by side often begin on one core, one behind the other, and
//! are set apart only milliseconds later.

use rayon::ThreadPool;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// With more threads there are always some on cores of their own, and to wake them all takes longer than it gains.
const MOST: usize = 16;

/// Sends each thread of the pool to a core of its own and leaves it free to go elsewhere. For when they have nothing to do,
/// and soon will.
pub(super) fn spread(pool: &ThreadPool) {
    if (2..=MOST).contains(&pool.current_num_threads()) {
        pool.spawn_broadcast(|thread| _ = move_to(thread.index()));
    }
}

/// Moves this thread to one of the cores that it may use, by its number; `None` where there are fewer.
fn move_to(number: usize) -> Option<()> {
    let allowed = sched_getaffinity(None).ok()?;
    let core = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).nth(number)?;
    if sched_getcpu() != core {
        let mut only = CpuSet::new();
        only.set(core);
        sched_setaffinity(None, &only).ok()?;
        sched_setaffinity(None, &allowed).ok()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_moves_and_stays_free() {
        let moved = std::thread::spawn(|| {
            let before = sched_getaffinity(None).unwrap();
            for number in (0..before.count() as usize).rev() {
                assert_eq!(move_to(number), Some(()));
                assert_eq!(sched_getaffinity(None).unwrap(), before);
            }
            assert_eq!(move_to(before.count() as usize), None);
        });
        moved.join().unwrap();
    }
}
