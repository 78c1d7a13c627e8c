//! Everything that is found at run time, and all that is unsafe about it.
//!
//! A library or a symbol that is not there is a value with a hint, never a panic. Status codes stay numbers: a code that
//! this build does not know is still a value.

pub mod cufile;
pub mod driver;
pub mod lend;
pub mod load;
pub mod nvcomp;
pub mod nvjpeg;
pub mod nvjpeg2k;
pub mod turn;
