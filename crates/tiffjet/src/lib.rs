//! GeoTIFF and COG, straight to and from the GPU: the core library.

pub mod backend;
pub mod codec;
pub mod cog;
mod cpu;
pub mod dlpack;
mod dtype;
mod error;
pub mod geo;
mod image;
mod interrupt;
pub mod layout;
mod limits;
#[cfg(feature = "remote")]
mod net;
pub mod plan;
pub mod predictor;
mod rows;
pub mod sink;
pub mod source;
mod tensor;
pub mod tiff;
pub mod validate;
mod writer;

pub use backend::{Backend, Destination, Emit, EncodeJob, EncodedRows, Fallback, Io, Pipeline, ReadJob, ReadOptions};
pub use cpu::{Cpu, Reducer, decode_tile};
pub use dtype::{ByteOrder, DType, SampleKind};
pub use error::{Cause, Error, Result};
pub use geo::{GeoTags, Nodata};
pub use image::{Image, Level, Mask, OpenOptions, open};
pub use interrupt::{interruptible, wanted};
pub use layout::Layout;
pub use limits::Limits;
pub use plan::{Frame, LevelPlan, OverviewPlan, ReadPlan, Resampling, Wanted, Window, WritePlan};
pub use rows::{DeviceMask, DeviceRows, NewRows, Rows, RowsBuf, RowsView};
pub use tensor::{Device, DeviceMemory, HostBuffer, Report, Storage, Tensor};
pub use writer::{BigTiff, Blocks, Brought, Encoder, Overviews, Part, Prediction, WriteOptions, Writer, Written};

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
