//! Files of web servers.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use url::Url;

use super::connection::Host;
use super::http::{Request, Response, exchange};
use super::origin::{Answer, Condition, Failure, Origin};
use super::watch::Watch;
use crate::error::{Error, Result};
use crate::source::Remote;

/// Redirects followed for one request.
const REDIRECTS: usize = 5;
/// How this program calls itself.
pub(super) const AGENT: &str = concat!("tiffjet/", env!("CARGO_PKG_VERSION"));

/// A file of a web server.
pub(super) struct Web {
    name: Arc<str>,
    url: Url,
    /// For the server of the URL alone: credentials may be among them.
    headers: Vec<(String, String)>,
    public: bool,
    connect: Duration,
    /// Where redirects led to, so that they are followed once and not for every part.
    moved: Mutex<Option<Url>>,
}

impl Web {
    pub(super) fn new(name: &Arc<str>, url: &str, remote: &Remote, private_hosts: bool) -> Result<Self> {
        let wrong = |what: String| Error::invalid(name, what);
        let mut url = Url::parse(url).map_err(|e| wrong(format!("that is no URL: {e}")))?;
        let mut headers = Vec::new();
        if !url.username().is_empty() || url.password().is_some() {
            let decoded = |text: &str| {
                url::form_urlencoded::parse(format!("={}", text.replace('+', "%2B")).as_bytes())
                    .next()
                    .map(|(_, value)| value.into_owned())
                    .unwrap_or_default()
            };
            let pair = format!("{}:{}", decoded(url.username()), decoded(url.password().unwrap_or_default()));
            let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
            headers.push(("authorization".to_owned(), format!("Basic {encoded}")));
            // Both fail only for URLs without a host, which have no user either.
            let _ = url.set_username("");
            let _ = url.set_password(None);
        }
        url.set_fragment(None);
        for (key, value) in remote.settings() {
            match key.strip_prefix("header.") {
                Some(header) if is_token(header) => headers.push((header.to_owned(), value.clone())),
                None if key == "bearer_token" => headers.push(("authorization".into(), format!("Bearer {value}"))),
                _ => return Err(wrong(format!("{key} is no option for files of web servers"))),
            }
        }
        let connect = remote.connect_timeout;
        Ok(Self { name: name.clone(), url, headers, public: !private_hosts, connect, moved: Mutex::default() })
    }

    fn moved(&self) -> std::sync::MutexGuard<'_, Option<Url>> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One request to one server.
    fn ask(&self, url: &Url, range: &str, condition: Condition<'_>, watch: &Watch) -> Result<Response, Failure> {
        let host = host(url, self.public).ok_or_else(|| self.refuse("the URL has no host"))?;
        let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let mut headers: Vec<(&str, &[u8])> = vec![
            ("user-agent", AGENT.as_bytes()),
            ("accept", b"*/*"),
            // Ranges of compressed bytes would be of no use.
            ("accept-encoding", b"identity"),
            ("range", range.as_bytes()),
        ];
        match condition {
            // A weak ETag matches nothing, not even itself: the one in the response is compared.
            Condition::Same(etag) if !etag.starts_with("W/") => headers.push(("if-match", etag.as_bytes())),
            Condition::Other(etag) => headers.push(("if-none-match", etag.as_bytes())),
            Condition::Any | Condition::Same(_) => {}
        }
        if url.origin() == self.url.origin() {
            headers.extend(self.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
        }
        let request = Request { method: "GET", target, headers, body: &[] };
        exchange(&host, &request, self.connect, watch).map_err(|e| Failure::of(&self.name, e))
    }

    fn refuse(&self, what: impl Into<String>) -> Failure {
        Failure::Final(Error::io(&self.name, io::Error::new(ErrorKind::InvalidData, what.into())))
    }

    /// Follows redirects. What they lead to is not what the user named, so nothing secret goes along.
    fn follow(&self, range: &str, condition: Condition<'_>, watch: &Watch) -> Result<Response, Failure> {
        let known = self.moved().clone();
        let mut url = known.clone().unwrap_or_else(|| self.url.clone());
        for _ in 0..=REDIRECTS {
            let response = self.ask(&url, range, condition, watch)?;
            match response.status {
                301 | 302 | 303 | 307 | 308 => {
                    let location =
                        response.header("location").ok_or_else(|| self.refuse("a redirect leads nowhere"))?;
                    let next = url.join(location).map_err(|_| self.refuse("a redirect leads nowhere"))?;
                    if !matches!(next.scheme(), "http" | "https")
                        || (url.scheme() == "https" && next.scheme() == "http")
                    {
                        return Err(self.refuse(format!(
                            "a redirect leads from {} to {}",
                            url.scheme(),
                            next.scheme()
                        )));
                    }
                    url = next;
                }
                // Where a redirect led once there may be nothing any more: back to the beginning.
                401 | 403 | 404 | 410 if known.is_some() => {
                    *self.moved() = None;
                    let gone =
                        Error::io(&self.name, io::Error::new(ErrorKind::NotFound, "a redirect leads elsewhere now"));
                    return Err(Failure::Passing(gone, None));
                }
                _ => {
                    if url != self.url {
                        *self.moved() = Some(url);
                    }
                    return Ok(response);
                }
            }
        }
        Err(self.refuse(format!("more than {REDIRECTS} redirects")))
    }

    fn answer(&self, asked: Range<u64>, response: Response) -> Result<Answer, Failure> {
        if let Some(coding) = response.header("content-encoding").filter(|c| !c.eq_ignore_ascii_case("identity")) {
            return Err(self.refuse(format!("the server sends the file compressed ({coding})")));
        }
        let etag = response.header("etag").map(str::to_owned);
        let modified = response.header("last-modified").map(str::to_owned);
        match response.status {
            206 => {
                let (range, total) = response
                    .header("content-range")
                    .and_then(content_range)
                    .ok_or_else(|| self.refuse("the server does not say which part it sends"))?;
                Ok(Answer { range, total, etag, modified, body: response.body })
            }
            // A whole file will do where it is no more than what was asked.
            200 => match response.body.length() {
                Some(total) if asked.start == 0 && total <= asked.end => {
                    Ok(Answer { range: 0..total, total, etag, modified, body: response.body })
                }
                _ => Err(Failure::Final(Error::unsupported(
                    &self.name,
                    "a server that sends whole files where a part is asked for",
                    "download the file, or ask for range requests to be switched on",
                ))),
            },
            304 => Err(Failure::Unmodified),
            412 => Err(Failure::Changed),
            416 if asked.start == 0 => Err(Failure::Final(Error::malformed(&self.name, 0, "the file is empty"))),
            // It was inside the file when that was opened.
            416 => Err(Failure::Changed),
            status => {
                let after = response.header("retry-after").and_then(|s| s.parse().ok()).map(Duration::from_secs);
                Err(Failure::status(&self.name, status, "", after))
            }
        }
    }
}

impl Origin for Web {
    fn get(&self, range: Range<u64>, condition: Condition<'_>, watch: &Watch) -> Result<Answer, Failure> {
        let header = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
        let response = self.follow(&header, condition, watch)?;
        self.answer(range, response)
    }
}

/// Whom a URL speaks of.
pub(super) fn host(url: &Url, public: bool) -> Option<Host> {
    let name = url.host_str()?.to_owned();
    Some(Host { tls: url.scheme() == "https", name, port: url.port_or_known_default()?, public })
}

/// The name of a header.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&b))
}

/// Which part of how many bytes: `bytes 0-99/1000`.
fn content_range(text: &str) -> Option<(Range<u64>, u64)> {
    let (range, total) = text.strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, total): (u64, u64, u64) =
        (first.trim().parse().ok()?, last.trim().parse().ok()?, total.trim().parse().ok()?);
    (first <= last && last < total).then(|| (first..last + 1, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_by_first_and_last_byte() {
        assert_eq!(content_range("bytes 0-99/1000"), Some((0..100, 1000)));
        for bad in ["bytes */1000", "bytes 0-99/*", "bytes 5-4/10", "bytes 0-10/10", "items 0-1/2", ""] {
            assert_eq!(content_range(bad), None, "{bad}");
        }
        assert_eq!(content_range(&format!("bytes 0-{}/{}", u64::MAX, u64::MAX)), None);
    }

    #[test]
    fn users_become_a_header_and_leave_the_url() {
        let name: Arc<str> = "x".into();
        let web = Web::new(&name, "http://a%40b:c+d@h/x.tif#f", &Remote::default(), true).unwrap();
        assert_eq!(web.url.as_str(), "http://h/x.tif");
        assert_eq!(web.headers, [("authorization".to_owned(), "Basic YUBiOmMrZA==".to_owned())]);
        let remote = Remote::new([("aws_region", "x")]).unwrap();
        assert!(Web::new(&name, "http://h/x.tif", &remote, true).is_err());
    }
}
