//! Long calls: without the interpreter, and ended by Ctrl-C.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::{PyErr, PyResult};
use tiffjet::Result;

use crate::error::raise;

/// How often signals are looked for. Shorter calls never do.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs `work` while other threads of Python run. A signal whose handler raises ends it.
pub fn run<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    py.detach(|| {
        let raised: Rc<RefCell<Option<PyErr>>> = Rc::default();
        let stop = {
            let raised = raised.clone();
            let next = Cell::new(Instant::now() + PAUSE);
            move || {
                let now = Instant::now();
                if now < next.get() || raised.borrow().is_some() {
                    return raised.borrow().is_some();
                }
                next.set(now + PAUSE);
                // In any thread but the main one there are no signals.
                let outcome = Python::attach(|py| py.check_signals());
                *raised.borrow_mut() = outcome.err();
                raised.borrow().is_some()
            }
        };
        let outcome = tiffjet::interruptible(stop, work);
        // Whatever the work made of it: the signal is what happened.
        match raised.take() {
            Some(signal) if outcome.is_err() => Err(signal),
            _ => outcome.map_err(raise),
        }
    })
}
