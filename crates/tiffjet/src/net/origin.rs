//! What all servers of files have in common: a part of a file is asked for, under a condition.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::http::Body;
use super::store::Bucket;
use super::watch::{Watch, is_cancelled};
use super::web::Web;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::source::Remote;

/// The longest wait before a retry, whatever a server asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Under which condition a part of a file is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Condition<'a> {
    /// In any case.
    Any,
    /// When the file still has this ETag.
    Same(&'a str),
    /// When it has another.
    Other(&'a str),
}

/// A part of a file that is on its way.
pub(crate) struct Answer {
    /// Which part: what was asked for, less what is past the end of the file.
    pub(crate) range: Range<u64>,
    /// Bytes of the whole file.
    pub(crate) total: u64,
    pub(crate) etag: Option<String>,
    /// When it changed last, as the server writes it.
    pub(crate) modified: Option<String>,
    pub(crate) body: Body,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The file has the ETag that was named.
    Unmodified,
    /// The file is no longer the one that was opened.
    Changed,
    /// Nobody wants it any more.
    Cancelled,
    /// To ask again would not help.
    Final(Error),
    /// To ask again may help, not before some time where the server says so.
    Passing(Error, Option<Duration>),
}

impl Failure {
    /// Of a connection.
    pub(crate) fn of(name: &Arc<str>, error: io::Error) -> Self {
        match error.kind() {
            _ if is_cancelled(&error) => Self::Cancelled,
            ErrorKind::InvalidInput | ErrorKind::PermissionDenied | ErrorKind::OutOfMemory => {
                Self::Final(Error::io(name, error))
            }
            // Certificates that nobody trusts, and what is no HTTP.
            ErrorKind::InvalidData => Self::Final(Error::io(name, error)),
            _ => Self::Passing(Error::io(name, error), None),
        }
    }

    /// Of a status.
    pub(crate) fn status(name: &Arc<str>, status: u16, said: &str, after: Option<Duration>) -> Self {
        let kind = match status {
            401 | 403 => ErrorKind::PermissionDenied,
            404 | 410 => ErrorKind::NotFound,
            _ => ErrorKind::Other,
        };
        let mut what = format!("the server says {status} {}", reason(status)).trim_end().to_owned();
        if !said.is_empty() {
            what = format!("{what}: {said}");
        }
        let error = Error::io(name, io::Error::new(kind, what));
        match status {
            408 | 425 | 429 | 500 | 502 | 503 | 504 => Self::Passing(error, after),
            _ => Self::Final(error),
        }
    }

    /// The same for those who wait.
    pub(crate) fn error(self, name: &Arc<str>) -> Error {
        match self {
            Self::Changed => Error::Changed { name: name.clone() },
            Self::Cancelled => Error::Cancelled { name: name.clone() },
            Self::Final(error) | Self::Passing(error, _) => error,
            Self::Unmodified => {
                Error::io(name, io::Error::other("the server says 304 Not Modified, which nobody asked"))
            }
        }
    }
}

fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|s| s.canonical_reason()).unwrap_or_default()
}

/// Serves parts of one file.
pub(crate) trait Origin: Send + Sync {
    /// Asks for a part, once.
    fn get(&self, range: Range<u64>, condition: Condition<'_>, watch: &Watch) -> Result<Answer, Failure>;
}

/// Who serves the file of an address.
pub(crate) fn origin(name: &Arc<str>, url: &str, remote: &Remote, limits: &Limits) -> Result<Box<dyn Origin>> {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
    match scheme.as_str() {
        "http" | "https" => Ok(Box::new(Web::new(name, url, remote, limits.private_hosts)?)),
        _ => Ok(Box::new(Bucket::new(name, url, remote)?)),
    }
}

/// Tries until it works, until it can't, or until it has been tried often enough.
pub(crate) fn persist<T>(
    remote: &Remote,
    watch: &Watch,
    mut attempt: impl FnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut tried = 0;
    loop {
        match attempt() {
            Err(Failure::Passing(_, after)) if tried < remote.retries => {
                let wait = after.unwrap_or_default().max(backoff(remote.backoff, tried)).min(LONGEST_WAIT);
                tried += 1;
                watch.sleep(wait).map_err(|_| Failure::Cancelled)?;
            }
            Err(Failure::Passing(error, after)) if tried > 0 => {
                return Err(Failure::Passing(tried_often(error, tried + 1), after));
            }
            outcome => return outcome,
        }
    }
}

fn tried_often(error: Error, tries: u32) -> Error {
    match error {
        Error::Io { name, source } => {
            Error::io(&name, io::Error::new(source.kind(), format!("{source} (tried {tries} times)")))
        }
        other => other,
    }
}

/// Twice as long each time, and never the same for two who failed together.
fn backoff(first: Duration, tried: u32) -> Duration {
    let most = first.saturating_mul(1 << tried.min(16)).min(LONGEST_WAIT);
    let chance = RandomState::new().hash_one(tried) as f64 / u64::MAX as f64;
    most.mul_f64(0.5 + 0.5 * chance)
}
