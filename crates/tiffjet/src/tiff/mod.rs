//! The grammar of TIFF and BigTIFF: header, directories, tags, values. Knows no pixels.

mod directory;
pub mod encode;
mod head;
mod header;
pub mod tag;
mod value;

pub use directory::{Directory, Entry, Place};
pub use encode::{Field, Nested};
pub use head::Head;
pub use header::Header;
pub use value::{Array, FieldType};
