//! What the tests of tiffjet stand on: files made on purpose, and a second opinion on what is in them.
//!
//! Only [`conformance()`], [`Trips`], [`fuzz`] and the streams that [`hostile`] spoils use the crate `tiffjet`. The
//! [`naive`] decoder is the oracle of its CPU backend, so it shares no parser, layout, predictor or bit unpacking with it:
//! plain, slow and easy to check by eye.
//!
//! * [`Tiff`] writes any TIFF a test may want from plain numbers ([`Pixels`]).
//! * [`naive::decode`] reads it back.
//! * [`matrix::cases`] are valid files of every kind, each with the pixels that must come out of it.
//! * [`hostile::cases`] are files that try to hurt a reader.
//! * [`fuzz::targets`] are what bytes of any kind are thrown at.
//! * [`big::write`] makes a BigTIFF of a million tiles in a moment.
//! * [`conformance()`] reads the matrix on any backend and compares.
//! * [`Trips`] write any pixels with any options on any backend, read and compare.
//!
//! ```
//! use tiffjet_testkit::{Tiff, naive};
//!
//! let image = Tiff::new(100, 70).bits(12).samples(3).tile(64, 48).big_endian();
//! let pixels = image.noise(1);
//! let file = image.build(&pixels);
//! let level = &naive::decode(&file).unwrap()[0];
//! assert_eq!(level.dtype, "uint16");
//! assert_eq!(level.bytes, pixels.to_le_bytes());
//! ```
//!
//! All of it panics on arguments that make no sense: it is called by tests alone. Only [`naive`] takes bytes it does
//! not trust, and answers with an error.

pub mod big;
mod builder;
mod compression;
pub mod conformance;
mod field;
pub mod fuzz;
pub mod hostile;
pub mod matrix;
pub mod naive;
mod pixels;
mod round_trip;
mod sample;
pub mod tag;

pub use builder::{IndexField, Next, Tiff};
pub use compression::{Compress, Compression};
pub use conformance::{conformance, conformance_of};
pub use field::{Order, Value};
pub use pixels::Pixels;
pub use round_trip::Trips;
pub use sample::{Format, Kind};
