//! The grammar of TIFF and BigTIFF: header, directories, tags, values. Knows no pixels.

mod directory;
mod head;
mod header;
pub mod tag;
mod value;

pub use directory::{Directory, Entry, Place};
pub use head::Head;
pub use header::Header;
pub use value::{Array, FieldType};
