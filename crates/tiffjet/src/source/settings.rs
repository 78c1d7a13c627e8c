//! How to reach files on other machines.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::error::{Error, Result};

/// How to reach files on other machines: time-outs, retries, and what stores are told (region, endpoint, credentials).
/// What is not said here comes from the environment when a file is opened, and is never kept.
#[derive(Clone, PartialEq, Eq)]
pub struct Remote {
    /// A request without a byte for so long has failed.
    pub timeout: Duration,
    /// A connection must stand within this time.
    pub connect_timeout: Duration,
    /// How often a request that failed is made again.
    pub retries: u32,
    /// The wait before the first retry; each one after waits twice as long.
    pub backoff: Duration,
    /// A header that was read so recently is taken without asking whether the file has changed.
    pub header_age: Duration,
    /// Bytes of a part of an upload.
    pub part_bytes: usize,
    /// All other settings, by their names in lower case.
    settings: BTreeMap<String, String>,
}

/// Stores refuse smaller parts but the last.
const SMALLEST_PART: usize = 5 << 20;
/// No store takes more in one part.
const LARGEST_PART: usize = 1 << 30;

impl Default for Remote {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            retries: 4,
            backoff: Duration::from_millis(100),
            header_age: Duration::ZERO,
            part_bytes: 8 << 20,
            settings: BTreeMap::new(),
        }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Any of the values may be a secret.
        let names: Vec<&String> = self.settings.keys().collect();
        f.debug_struct("Remote")
            .field("timeout", &self.timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("retries", &self.retries)
            .field("backoff", &self.backoff)
            .field("header_age", &self.header_age)
            .field("part_bytes", &self.part_bytes)
            .field("settings", &names)
            .finish()
    }
}

impl Remote {
    /// From names and values as users write them. Names of a store's settings are checked when the store is known.
    pub fn new<K: AsRef<str>, V: AsRef<str>>(pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self> {
        let mut remote = Self::default();
        for (name, value) in pairs {
            remote.set(name.as_ref(), value.as_ref())?;
        }
        Ok(remote)
    }

    /// Sets one of them.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let lower = name.trim().to_ascii_lowercase();
        let wrong = |what: &str| Error::invalid(&"storage options".into(), format!("{lower}: {what} is meant"));
        let seconds = || {
            let number = value.trim().parse::<f64>().ok().filter(|n| (0.0..=86400.0).contains(n));
            number.map(Duration::from_secs_f64).ok_or_else(|| wrong("a number of seconds, at most 86400,"))
        };
        let whole = |most: usize| {
            let number = value.trim().parse::<usize>().ok().filter(|&n| n <= most);
            number.ok_or_else(|| wrong(&format!("a whole number up to {most}")))
        };
        match lower.as_str() {
            // Zero would wait for ever, as sockets have it.
            "timeout" => self.timeout = seconds()?.max(Duration::from_millis(1)),
            "connect_timeout" => self.connect_timeout = seconds()?.max(Duration::from_millis(1)),
            "retries" => self.retries = whole(100)? as u32,
            "backoff" => self.backoff = seconds()?,
            "header_age" => self.header_age = seconds()?,
            "part_bytes" => self.part_bytes = whole(LARGEST_PART)?.max(SMALLEST_PART),
            _ => drop(self.settings.insert(lower, value.to_owned())),
        }
        Ok(())
    }

    /// All settings but those with fields of their own.
    #[cfg_attr(not(feature = "remote"), allow(dead_code))] // nobody else looks at them
    pub(crate) fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_and_hidden() {
        let remote = Remote::new([("Timeout", "0.5"), ("retries", "2"), ("AWS_SECRET_ACCESS_KEY", "hush")]).unwrap();
        assert_eq!((remote.timeout, remote.retries), (Duration::from_millis(500), 2));
        assert_eq!(remote.settings()["aws_secret_access_key"], "hush");
        let shown = format!("{remote:?}");
        assert!(shown.contains("aws_secret_access_key") && !shown.contains("hush"), "{shown}");
        for (name, bad) in [("timeout", "-1"), ("timeout", "x"), ("retries", "1e9"), ("part_bytes", "-1")] {
            assert!(Remote::new([(name, bad)]).is_err(), "{name}={bad}");
        }
    }
}
