//! What must happen, as plain data: no I/O, no pixels, no backend.

mod batch;
mod read;

pub use batch::runs;
pub use read::{Part, ReadPlan, TileRead, Window};
