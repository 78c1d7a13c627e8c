//! What must happen, as plain data: no I/O, no pixels, no backend.

pub mod axis;
mod batch;
mod budget;
mod cut;
mod level;
mod overview;
mod read;
mod route;
mod transfer;
mod write;

pub use batch::{joins, runs};
pub use cut::LevelPlan;
pub use level::{Wanted, level_for};
pub use overview::{OverviewPlan, Resampling};
pub use read::{Frame, Part, ReadPlan, TileRead, Window};
pub use route::{Costs, Fallback, route};
pub use transfer::{Gathered, Piece, Transfer, gather, transfers};
pub use write::WritePlan;
