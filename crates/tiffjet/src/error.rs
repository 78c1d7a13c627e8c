//! The one error of the crate: every variant names the source and what was being decided.

use std::fmt;
use std::sync::Arc;

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, where, and what can be done about it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// The operating system or a server refused.
    Io {
        /// File, URL or `<memory>`.
        name: Arc<str>,
        /// The reason as the system gave it.
        source: Arc<std::io::Error>,
    },
    /// The bytes break the rules of the format.
    Malformed {
        /// File, URL or `<memory>`.
        name: Arc<str>,
        /// Where in the file, in bytes.
        offset: u64,
        /// Which rule.
        what: String,
    },
    /// The file is right, but uses something that is not built.
    Unsupported {
        /// File, URL or `<memory>`.
        name: Arc<str>,
        /// The feature in words.
        feature: String,
        /// What the user can do.
        hint: String,
    },
    /// The window, band or level is not in the image.
    OutOfBounds {
        /// File, URL or `<memory>`.
        name: Arc<str>,
        /// What was asked.
        asked: String,
        /// What there is.
        image: String,
    },
    /// An argument makes no sense whatever the file holds.
    InvalidArgument {
        /// File, URL or `<memory>`.
        name: Arc<str>,
        /// Which argument and why.
        what: String,
    },
    /// The file asks for more than [`crate::Limits`] allow.
    Limit {
        /// File, URL or `<memory>`.
        name: Arc<str>,
        /// Which size.
        what: String,
        /// What the file asks for.
        asked: u64,
        /// What is allowed.
        allowed: u64,
    },
    /// One tile can't be decoded or encoded.
    Tile {
        /// File, URL or `<memory>`.
        name: Arc<str>,
        /// Overview level, 0 is full size.
        level: usize,
        /// Tile row.
        row: u32,
        /// Tile column.
        col: u32,
        /// Name of the codec.
        codec: &'static str,
        /// What the codec found.
        source: Cause,
    },
    /// The file changed while it was read.
    Changed {
        /// File or URL.
        name: Arc<str>,
    },
    /// A library that is found at run time is not there.
    Unavailable {
        /// What was asked to run.
        name: Arc<str>,
        /// The library.
        library: String,
        /// What to install.
        hint: String,
    },
    /// A device refused.
    Device {
        /// What was running.
        name: Arc<str>,
        /// Which device.
        device: String,
        /// The reason as the driver gave it.
        source: String,
    },
    /// The caller asked to stop.
    Cancelled {
        /// What was running.
        name: Arc<str>,
    },
}

/// Why a codec refuses a tile. It knows no file: [`Error::Tile`] adds the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The bytes are damaged, truncated or do not fit the tile.
    Damaged(String),
    /// The bytes are right, but use a feature that is not built.
    Unsupported(String),
}

impl Cause {
    /// Damaged data.
    pub fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged(what.into())
    }
    /// A feature that is not built.
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported(what.into())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(what) => f.write_str(what),
            Self::Unsupported(what) => write!(f, "unsupported: {what}"),
        }
    }
}

impl std::error::Error for Cause {}

impl Error {
    /// [`Error::Io`] with the name of its source.
    pub fn io(name: &Arc<str>, source: std::io::Error) -> Self {
        Self::Io { name: name.clone(), source: Arc::new(source) }
    }
    /// [`Error::Malformed`] with the name of its source.
    pub fn malformed(name: &Arc<str>, offset: u64, what: impl Into<String>) -> Self {
        Self::Malformed { name: name.clone(), offset, what: what.into() }
    }
    /// [`Error::Unsupported`] with the name of its source.
    pub fn unsupported(name: &Arc<str>, feature: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unsupported { name: name.clone(), feature: feature.into(), hint: hint.into() }
    }
    /// [`Error::InvalidArgument`] with the name of its source.
    pub fn invalid(name: &Arc<str>, what: impl Into<String>) -> Self {
        Self::InvalidArgument { name: name.clone(), what: what.into() }
    }
    /// [`Error::OutOfBounds`] with the name of its source.
    pub fn out_of_bounds(name: &Arc<str>, asked: impl Into<String>, image: impl Into<String>) -> Self {
        Self::OutOfBounds { name: name.clone(), asked: asked.into(), image: image.into() }
    }
    /// [`Error::Limit`] with the name of its source.
    pub fn limit(name: &Arc<str>, what: impl Into<String>, asked: u64, allowed: u64) -> Self {
        Self::Limit { name: name.clone(), what: what.into(), asked, allowed }
    }
    /// The file, URL or destination the error speaks of.
    pub fn name(&self) -> &str {
        match self {
            Self::Io { name, .. }
            | Self::Malformed { name, .. }
            | Self::Unsupported { name, .. }
            | Self::OutOfBounds { name, .. }
            | Self::InvalidArgument { name, .. }
            | Self::Limit { name, .. }
            | Self::Tile { name, .. }
            | Self::Changed { name }
            | Self::Unavailable { name, .. }
            | Self::Device { name, .. }
            | Self::Cancelled { name } => name,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name())?;
        match self {
            Self::Io { source, .. } => write!(f, "{source}"),
            Self::Malformed { offset, what, .. } => write!(f, "malformed TIFF at byte {offset}: {what}"),
            Self::Unsupported { feature, hint, .. } if hint.is_empty() => write!(f, "unsupported: {feature}"),
            Self::Unsupported { feature, hint, .. } => write!(f, "unsupported: {feature} ({hint})"),
            Self::OutOfBounds { asked, image, .. } => write!(f, "{asked} is outside the image ({image})"),
            Self::InvalidArgument { what, .. } => f.write_str(what),
            Self::Limit { what, asked, allowed, .. } => {
                write!(f, "{what}: the file asks for {asked}, the limit is {allowed}")
            }
            Self::Tile { level, row, col, codec, source, .. } => {
                write!(f, "level {level}, tile row {row}, column {col}, {codec}: {source}")
            }
            Self::Changed { .. } => f.write_str("the file changed while it was read; open it again"),
            Self::Unavailable { library, hint, .. } => write!(f, "{library} is not available ({hint})"),
            Self::Device { device, source, .. } => write!(f, "{device}: {source}"),
            Self::Cancelled { .. } => f.write_str("cancelled"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(&**source),
            Self::Tile { source, .. } => Some(source),
            _ => None,
        }
    }
}
