//! What must happen, as plain data: no I/O, no pixels, no backend.

pub mod axis;
mod batch;
mod budget;
mod overview;
mod read;
mod route;
mod write;

pub use batch::{joins, runs};
pub use overview::{OverviewPlan, Resampling};
pub use read::{Frame, Part, ReadPlan, TileRead, Window};
pub use route::{Costs, Fallback, route};
pub use write::{LevelPlan, WritePlan};
