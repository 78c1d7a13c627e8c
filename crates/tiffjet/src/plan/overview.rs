//! How one level is made from the one above it.

use crate::dtype::DType;
use crate::error::{Error, Result};

/// How pixels of a level become one of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are GDAL's
pub enum Resampling {
    Nearest,
    Average,
    Mode,
    Min,
    Max,
    Bilinear,
    Cubic,
    Rms,
    Gauss,
}

impl Resampling {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Nearest,
        Self::Average,
        Self::Mode,
        Self::Min,
        Self::Max,
        Self::Bilinear,
        Self::Cubic,
        Self::Rms,
        Self::Gauss,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nearest => "nearest",
            Self::Average => "average",
            Self::Mode => "mode",
            Self::Min => "min",
            Self::Max => "max",
            Self::Bilinear => "bilinear",
            Self::Cubic => "cubic",
            Self::Rms => "rms",
            Self::Gauss => "gauss",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.name() == name)
    }
}

/// A level and the one it is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct OverviewPlan {
    /// Columns and rows of the level above.
    pub from: (u32, u32),
    /// Columns and rows of this level: neither is larger.
    pub to: (u32, u32),
    /// Bands of both.
    pub bands: usize,
    /// Type of a value in both.
    pub dtype: DType,
    /// Bits of a sample in the file, where they are fewer than the dtype has: results must not exceed them.
    pub bits: u16,
    /// How.
    pub resampling: Resampling,
    /// One value of the dtype, native order, that stands for no data in every band. A NaN never counts, whatever
    /// this says.
    pub nodata: Option<Vec<u8>>,
    /// Rows come with a mask, and the rows made get one.
    pub mask: bool,
    /// The values are indices of a colour map: no arithmetic may be done with them.
    pub palette: bool,
}

impl OverviewPlan {
    /// An error where the values can't be resampled this way.
    pub fn check(&self) -> Result<()> {
        let refuse = |what: String, hint| Err(Error::unsupported(&"overviews".into(), what, hint));
        let name = self.resampling.name();
        if self.palette && !matches!(self.resampling, Resampling::Nearest | Resampling::Mode) {
            return refuse(format!("{name} resampling of a colour map's indices"), "use nearest or mode");
        }
        if self.dtype.is_complex() && !matches!(self.resampling, Resampling::Nearest | Resampling::Average) {
            return refuse(format!("{name} resampling of {}", self.dtype), "use nearest or average");
        }
        Ok(())
    }
}
