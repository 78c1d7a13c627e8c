//! What must happen, as plain data: no I/O, no pixels, no backend.

mod batch;
mod overview;
mod read;
mod write;

pub use batch::runs;
pub use overview::{OverviewPlan, Resampling};
pub use read::{Frame, Part, ReadPlan, TileRead, Window};
pub use write::{LevelPlan, WritePlan};
