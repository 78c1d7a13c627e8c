//! GeoTIFF and COG, straight to and from the GPU: the core library.

pub mod codec;
mod dtype;
mod error;
pub mod geo;
pub mod predictor;

pub use dtype::{ByteOrder, DType, SampleKind};
pub use error::{Cause, Error, Result};
