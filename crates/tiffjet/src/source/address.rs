//! Paths and addresses told apart, and names without secrets.

use std::path::{Path, PathBuf};

/// The schemes of other machines.
const SCHEMES: [&str; 10] = ["http", "https", "s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss"];

/// Where a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// On this machine.
    Path(PathBuf),
    /// On another one.
    Url(String),
}

/// Tells a path from an address; `file://` is a path.
pub(crate) fn address(path: &Path) -> Address {
    let Some(text) = path.to_str() else { return Address::Path(path.to_owned()) };
    match split(text) {
        Some((scheme, _)) if is_remote(scheme) => Address::Url(text.to_owned()),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("file") => {
            let rest = rest.strip_prefix("localhost").unwrap_or(rest);
            Address::Path(percent_decoded(rest).into())
        }
        _ => Address::Path(path.to_owned()),
    }
}

/// Whether a text is the address of a file on another machine.
pub fn is_url(text: &str) -> bool {
    split(text).is_some_and(|(scheme, _)| is_remote(scheme))
}

fn is_remote(scheme: &str) -> bool {
    SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// `s3` and `bucket/key` of `s3://bucket/key`.
fn split(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let letters = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    (scheme.len() > 1 && letters).then_some((scheme, rest))
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = |at: usize| bytes.get(at).and_then(|&b| (b as char).to_digit(16)).map(|d| d as u8);
        match (bytes[i], hex(i + 1), hex(i + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(high << 4 | low);
                i += 3;
            }
            (byte, ..) => {
                out.push(byte);
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// An address as it may be shown: without user, password, query and fragment, where keys and signatures stand.
pub fn redacted(text: &str) -> String {
    let Some((scheme, rest)) = split(text) else { return text.to_owned() };
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let (place, hidden) = rest.split_at(end);
    let (host, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    // In `abfss://container@account/…` what stands before the sign is no secret, and names the file.
    let host = match host.rsplit_once('@') {
        Some((user, host)) if !scheme.to_ascii_lowercase().starts_with("abfs") || user.contains(':') => host,
        _ => host,
    };
    format!("{scheme}://{host}{path}{}", if hidden.starts_with('?') { "?..." } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_known_scheme() {
        for url in ["s3://b/k.tif", "https://h/a.tif", "GS://b/k", "abfss://c@a.dfs.core.windows.net/k"] {
            assert!(is_url(url), "{url}");
        }
        for path in ["a.tif", "/a/b://c", "c:/a", "x://y", "file:///a", ""] {
            assert!(!is_url(path), "{path}");
        }
    }

    #[test]
    fn a_file_url_is_a_path() {
        assert_eq!(address(Path::new("file:///a%20b/c%zz.tif")), Address::Path("/a b/c%zz.tif".into()));
        assert_eq!(address(Path::new("file://localhost/a")), Address::Path("/a".into()));
        assert_eq!(address(Path::new("a/b")), Address::Path("a/b".into()));
    }

    #[test]
    fn names_have_no_secrets() {
        assert_eq!(redacted("https://me:word@h:1/a/b.tif?X-Amz-Signature=1#f"), "https://h:1/a/b.tif?...");
        assert_eq!(redacted("https://h/a@b.tif"), "https://h/a@b.tif");
        assert_eq!(redacted("abfss://c@a.net/k?sig=1"), "abfss://c@a.net/k?...");
        assert_eq!(redacted("https://a?b@c/d"), "https://a?...");
        assert_eq!(redacted("plain?.tif"), "plain?.tif");
    }
}
