//! Work that several threads share, without waiting for those that come too late.

#![allow(unsafe_code)] // helpers run a closure that borrows from the caller, who waits for them

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;

use rayon::ThreadPool;

/// Nobody may begin any more.
const CLOSED: usize = 1 << (usize::BITS - 1);
/// Looks at those still at work before the caller goes to sleep: the last pieces of small work take microseconds, to be
/// woken takes tens of them.
const LOOKS: u32 = 2_000;

/// Runs `work` in this thread and in up to `helpers` threads of the pool at once. Each call must end when nothing is
/// left to do, so one that begins late does no harm, and one that did not begin at all is not waited for: on a busy
/// machine that may be long.
pub(super) fn together(pool: &ThreadPool, helpers: usize, work: &(dyn Fn() + Sync)) {
    if helpers == 0 {
        return work();
    }
    let door = Arc::new(Door {
        // SAFETY: only the lifetime changes. Who calls it has entered, and `Caller` keeps `work` alive until all who
        // did have left and no one can enter again.
        work: unsafe { std::mem::transmute::<&(dyn Fn() + Sync), &'static (dyn Fn() + Sync)>(work) },
        inside: AtomicUsize::new(0),
        caller: std::thread::current(),
        panic: Mutex::new(None),
    });
    for _ in 0..helpers {
        let door = door.clone();
        pool.spawn(move || door.help());
    }
    let caller = Caller(&door);
    work();
    drop(caller);
    let panic = door.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

struct Door {
    work: &'static (dyn Fn() + Sync),
    /// Helpers at work, and [`CLOSED`].
    inside: AtomicUsize,
    caller: Thread,
    /// Of a helper.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Door {
    fn help(&self) {
        let enter = |inside: usize| (inside & CLOSED == 0).then(|| inside + 1);
        if self.inside.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_err() {
            return;
        }
        if let Err(panic) = catch_unwind(AssertUnwindSafe(self.work)) {
            *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
        }
        if self.inside.fetch_sub(1, Ordering::Release) == CLOSED + 1 {
            self.caller.unpark();
        }
    }
}

/// Dropped, also when the work panics, it closes the door and waits for all who are inside.
struct Caller<'a>(&'a Door);

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        let mut inside = self.0.inside.fetch_or(CLOSED, Ordering::Acquire) | CLOSED;
        let mut looks = 0;
        while inside != CLOSED {
            if looks < LOOKS {
                looks += 1;
                std::hint::spin_loop();
            } else {
                std::thread::park();
            }
            inside = self.0.inside.load(Ordering::Acquire);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rayon::ThreadPoolBuilder;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn pool(threads: usize) -> ThreadPool {
        ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
    }

    #[test]
    fn all_pieces_are_done_once() {
        let pool = pool(3);
        for count in [0, 1, 2, 100, 5000] {
            let done: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            let next = AtomicUsize::new(0);
            together(&pool, 3, &|| {
                while let Some(piece) = done.get(next.fetch_add(1, Ordering::Relaxed)) {
                    piece.fetch_add(1, Ordering::Relaxed);
                }
            });
            assert!(done.iter().all(|n| n.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn helpers_come_while_there_is_work() {
        let pool = pool(1);
        let (calls, met) = (AtomicUsize::new(0), AtomicBool::new(false));
        together(&pool, 1, &|| {
            calls.fetch_add(1, Ordering::SeqCst);
            while calls.load(Ordering::SeqCst) < 2 {
                std::thread::sleep(Duration::from_millis(1));
            }
            met.store(true, Ordering::SeqCst);
        });
        assert!(met.into_inner());
    }

    #[test]
    fn a_pool_that_is_busy_is_not_waited_for() {
        let pool = pool(1);
        let (free, busy) = channel::<()>();
        pool.spawn(move || _ = busy.recv());
        let calls = Arc::new(AtomicUsize::new(0));
        together(&pool, 1, &|| _ = calls.fetch_add(1, Ordering::SeqCst));
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        // The helper that comes now finds the door closed.
        drop(free);
        pool.install(|| {});
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_panic_anywhere_reaches_the_caller_after_all_have_left() {
        let pool = pool(1);
        for in_helper in [false, true] {
            let calls = AtomicUsize::new(0);
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let here = std::thread::current().id();
                together(&pool, 1, &|| {
                    calls.fetch_add(1, Ordering::SeqCst);
                    while calls.load(Ordering::SeqCst) < 2 {
                        std::thread::yield_now();
                    }
                    assert!((std::thread::current().id() == here) == in_helper, "as it should");
                });
            }));
            assert!(outcome.is_err());
        }
    }
}
