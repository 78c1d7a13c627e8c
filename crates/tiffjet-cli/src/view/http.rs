//! As much of HTTP as a page for one browser needs, and no more.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Bytes of the head of a request.
const HEAD: usize = 8 << 10;
/// How long a head may take to come, and an answer to go.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    BadRequest,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    ContentTooLarge,
    HeadTooLarge,
    Failed,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Self::BadRequest => "400 Bad Request",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::RequestTimeout => "408 Request Timeout",
            Self::ContentTooLarge => "413 Content Too Large",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::Failed => "500 Internal Server Error",
        }
    }
}

/// What is asked.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// Of the target, without its query.
    pub path: String,
    query: String,
    host: String,
    /// Another page's script or picture asks.
    foreign: bool,
    /// The body of the answer is not wanted.
    pub head_only: bool,
}

impl Request {
    /// Reads the head of a request, all of it.
    pub fn parse(head: &[u8]) -> Result<Self, Status> {
        let text = std::str::from_utf8(head).map_err(|_| Status::BadRequest)?;
        let mut lines = text.split("\r\n");
        let line = lines.next().unwrap_or_default();
        let [method, target, version] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Err(Status::BadRequest);
        };
        if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
            return Err(Status::BadRequest);
        }
        let head_only = match method {
            "GET" => false,
            "HEAD" => true,
            _ => return Err(Status::MethodNotAllowed),
        };
        if !target.starts_with('/') || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Status::BadRequest);
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (mut hosts, mut foreign) = (Vec::new(), false);
        for line in lines.take_while(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').ok_or(Status::BadRequest)?;
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "host" => hosts.push(value.to_ascii_lowercase()),
                "sec-fetch-site" => foreign |= !matches!(value, "same-origin" | "none"),
                "content-length" if value != "0" => return Err(Status::ContentTooLarge),
                "transfer-encoding" => return Err(Status::ContentTooLarge),
                _ => {}
            }
        }
        let [host] = &hosts[..] else { return Err(Status::BadRequest) };
        Ok(Self { path: path.to_owned(), query: query.to_owned(), host: host.clone(), foreign, head_only })
    }

    /// Refuses what a page of elsewhere asks: by a name that it made lead here (DNS rebinding), or openly.
    pub fn comes_from_here(&self, port: u16) -> Result<(), Status> {
        let here = ["127.0.0.1", "localhost"].iter().any(|name| self.host == format!("{name}:{port}"));
        if here && !self.foreign { Ok(()) } else { Err(Status::Forbidden) }
    }

    /// A whole number of the query.
    pub fn number(&self, name: &str) -> Result<u32, Status> {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        let value = pairs.find(|(key, _)| *key == name).map(|(_, value)| value);
        value.and_then(|value| value.parse().ok()).ok_or(Status::BadRequest)
    }
}

/// Reads the head of a request from a connection.
pub fn receive(connection: &mut TcpStream) -> io::Result<Result<Request, Status>> {
    let until = Instant::now() + PATIENCE;
    connection.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Err(Status::RequestTimeout));
        }
        connection.set_read_timeout(Some(left))?;
        let count = match connection.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Ok(Err(Status::RequestTimeout));
            }
            Err(error) => return Err(error),
        };
        head.extend_from_slice(&buffer[..count]);
        match head.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            Some(end) if end <= HEAD => return Ok(Request::parse(&head[..end])),
            None if head.len() <= HEAD => {}
            _ => return Ok(Err(Status::HeadTooLarge)),
        }
    }
}

/// An answer.
pub struct Reply {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
}

impl Reply {
    pub fn text(kind: &'static str, text: &str) -> Self {
        Self { status: "200 OK", kind, body: text.as_bytes().to_vec() }
    }

    pub fn json(value: &Value) -> Self {
        Self::text("application/json", &value.to_string())
    }

    pub fn png(body: Vec<u8>) -> Self {
        Self { status: "200 OK", kind: "image/png", body }
    }

    pub fn status(status: Status) -> Self {
        let body = json!({"error": status.line()}).to_string().into_bytes();
        Self { status: status.line(), kind: "application/json", body }
    }

    /// Sends it, and ends the connection.
    pub fn send(&self, connection: &mut TcpStream, head_only: bool) -> io::Result<()> {
        let charset = if self.kind.starts_with("image/") { "" } else { "; charset=utf-8" };
        let head = format!(
            "HTTP/1.1 {}\r\n\
             Content-Type: {}{charset}\r\n\
             Content-Length: {}\r\n\
             Connection: close\r\n\
             Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\n\
             X-Frame-Options: DENY\r\n\
             Referrer-Policy: no-referrer\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\n\
             Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
             connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\r\n",
            self.status,
            self.kind,
            self.body.len()
        );
        connection.write_all(head.as_bytes())?;
        if !head_only {
            connection.write_all(&self.body)?;
        }
        connection.flush()
    }
}

/// A word that nobody guesses.
pub fn secret() -> io::Result<Arc<str>> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Request, Status> {
        Request::parse(text.replace('\n', "\r\n").as_bytes())
    }

    #[test]
    fn a_browser_is_understood() {
        let request = parse("GET /a/value.json?x=3&y=4 HTTP/1.1\nHost: 127.0.0.1:80\nSec-Fetch-Site: same-origin");
        let request = request.expect("a request");
        assert_eq!(request.path, "/a/value.json");
        assert_eq!((request.number("x"), request.number("y")), (Ok(3), Ok(4)));
        assert_eq!(request.number("z"), Err(Status::BadRequest));
        assert_eq!(request.comes_from_here(80), Ok(()));
        assert_eq!(request.comes_from_here(81), Err(Status::Forbidden));
    }

    #[test]
    fn everything_else_is_refused() {
        for (text, status) in [
            ("POST / HTTP/1.1\nHost: a", Status::MethodNotAllowed),
            ("GET / HTTP/1.1\nHost: a\nContent-Length: 9", Status::ContentTooLarge),
            ("GET / HTTP/1.1\nHost: a\nTransfer-Encoding: chunked", Status::ContentTooLarge),
            ("GET / HTTP/1.1", Status::BadRequest),
            ("GET / HTTP/1.1\nHost: a\nHost: b", Status::BadRequest),
            ("GET http://a/ HTTP/1.1\nHost: a", Status::BadRequest),
            ("GET / HTTP/2\nHost: a", Status::BadRequest),
            ("GET /", Status::BadRequest),
            ("", Status::BadRequest),
            ("GET / HTTP/1.1\nHost", Status::BadRequest),
        ] {
            assert_eq!(parse(text), Err(status), "{text}");
        }
        for foreign in ["Host: evil.example:80", "Host: 127.0.0.1:80\nSec-Fetch-Site: cross-site"] {
            let request = parse(&format!("GET / HTTP/1.1\n{foreign}")).expect("a request");
            assert_eq!(request.comes_from_here(80), Err(Status::Forbidden), "{foreign}");
        }
    }
}
