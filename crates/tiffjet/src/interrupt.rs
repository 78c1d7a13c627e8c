//! Ending long work early, when whoever asked for it wants it no more.
//!
//! A thread says how it learns that it should stop; what runs long in that thread asks now and then. Work that is
//! spread over other threads asks in the one that waits for it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::error::{Error, Result};

/// Tells whether the work should stop.
type Stop = Rc<dyn Fn() -> bool>;

thread_local! {
    static STOP: RefCell<Option<Stop>> = const { RefCell::new(None) };
}

/// Runs `work`. While it runs, long operations in this thread ask `stop` between two tiles or batches, and end with
/// [`Error::Cancelled`] once it says yes. It is asked often, so it must be quick.
pub fn interruptible<T>(stop: impl Fn() -> bool + 'static, work: impl FnOnce() -> T) -> T {
    /// Puts the one before back, also when `work` panics.
    struct Restore(Option<Stop>);
    impl Drop for Restore {
        fn drop(&mut self) {
            let before = self.0.take();
            STOP.with_borrow_mut(|now| *now = before);
        }
    }
    let _restore = Restore(STOP.with_borrow_mut(|now| now.replace(Rc::new(stop))));
    work()
}

/// An error when the work of this thread should stop; the name is for the error.
pub fn wanted(name: &Arc<str>) -> Result<()> {
    // Asked outside of the borrow: the question may run anything.
    let stop = STOP.with_borrow(|stop| stop.clone());
    match stop {
        Some(stop) if stop() => Err(Error::Cancelled { name: name.clone() }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_wanted_until_the_innermost_says_no() {
        let name: Arc<str> = "a.tif".into();
        assert!(wanted(&name).is_ok());
        interruptible(
            || true,
            || {
                assert!(matches!(wanted(&name), Err(Error::Cancelled { .. })));
                interruptible(|| false, || assert!(wanted(&name).is_ok()));
                assert!(wanted(&name).is_err());
                std::thread::scope(|scope| scope.spawn(|| assert!(wanted(&name).is_ok())).join().unwrap());
            },
        );
        assert!(wanted(&name).is_ok());
    }
}
