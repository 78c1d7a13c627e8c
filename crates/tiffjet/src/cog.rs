//! Cloud-optimised GeoTIFF: file order, ghost header, validation.

mod ghost;
mod validate;

pub use ghost::Ghost;
pub use validate::{check, validate};
