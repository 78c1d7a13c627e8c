//! The threads that wait for the network: one set for the process, so that all reads share one bound.

use std::sync::{Arc, Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, Result};

/// Requests under way at once in this process.
pub(crate) const LANES: usize = 32;

/// The lanes of this process, made when they are first needed. They sleep while they wait, so they take no core from those
/// who decode.
pub(crate) fn lanes() -> Result<Arc<ThreadPool>> {
    static SHARED: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);
    let process = std::process::id();
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((made_by, lanes)) = &*shared
        && *made_by == process
    {
        return Ok(lanes.clone());
    }
    let lanes = ThreadPoolBuilder::new()
        .num_threads(LANES)
        .thread_name(|i| format!("tiffjet-lane-{i}"))
        .build()
        .map_err(|e| Error::Device { name: "lanes".into(), device: "threads".into(), source: e.to_string() })?;
    let lanes = Arc::new(lanes);
    // A fork has none of the threads it inherits: ending them would wait for them.
    std::mem::forget(shared.replace((process, lanes.clone())));
    Ok(lanes)
}
