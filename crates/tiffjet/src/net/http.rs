//! HTTP/1.1: one request, one response, its body straight into the caller's memory.

use std::io::{self, ErrorKind, IoSliceMut};
use std::time::Duration;

use super::connection::{Connection, Host};
use super::watch::Watch;

/// Bytes of the head of a response, at most.
const HEAD: usize = 64 << 10;
/// Header lines of a response, at most.
const LINES: usize = 128;

/// What is asked of a server.
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    /// Path and query.
    pub(super) target: &'a str,
    /// All header lines but those of the connection and the length.
    pub(super) headers: Vec<(&'a str, &'a [u8])>,
    /// In parts, one after the other.
    pub(super) body: &'a [&'a [u8]],
}

/// What a server says.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Body,
}

impl Response {
    /// The value of a header, where it is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| std::str::from_utf8(value).ok()).map(str::trim)
    }
}

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// So many bytes are left.
    Length(u64),
    /// So many are left of the chunk; `first` has none before it.
    Chunk { left: u64, first: bool },
    /// The connection ends.
    Close,
    /// It has ended.
    Done,
}

/// The body of a response. Read to its end, it leaves the connection for the next request.
pub(crate) struct Body {
    connection: Option<Connection>,
    framing: Framing,
    keep: bool,
    watch: Watch,
}

/// Sends a request and reads the head of the response. A connection that the other side had closed in the meantime is no
/// failure: the request goes out again on the next one.
pub(super) fn exchange(host: &Host, request: &Request<'_>, connect: Duration, watch: &Watch) -> io::Result<Response> {
    let mut connection = Connection::to(host, connect, watch)?;
    loop {
        let used = connection.used;
        match converse(connection, host, request, watch) {
            Err((error, false)) if used && is_closed(&error) => connection = Connection::new(host, connect, watch)?,
            outcome => return outcome.map_err(|(error, _)| error),
        }
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe
    )
}

/// An error comes with whether a byte of the response had come.
fn converse(
    mut connection: Connection,
    host: &Host,
    request: &Request<'_>,
    watch: &Watch,
) -> Result<Response, (io::Error, bool)> {
    let head = head_of(host, request).map_err(|e| (e, true))?;
    let mut sent = connection.send(&head, watch);
    for part in request.body {
        sent = sent.and_then(|()| connection.send(part, watch));
    }
    sent.and_then(|()| connection.flush(watch)).map_err(|e| (e, false))?;
    // A few responses may say that the real one is still to come.
    for _ in 0..8 {
        let (status, headers, keep) = read_head(&mut connection, watch)?;
        if (100..200).contains(&status) {
            continue;
        }
        let framing = framing(request.method, status, &headers).map_err(|e| (e, true))?;
        let mut body = Body { connection: Some(connection), framing, keep, watch: watch.clone() };
        body.settle();
        return Ok(Response { status, headers, body });
    }
    Err((broken("no end of preliminary responses"), true))
}

fn head_of(host: &Host, request: &Request<'_>) -> io::Result<Vec<u8>> {
    let Request { method, target, headers, body } = request;
    let mut head = format!("{method} {target} HTTP/1.1\r\nhost: {}", host.name).into_bytes();
    if host.port != if host.tls { 443 } else { 80 } {
        head.extend(format!(":{}", host.port).bytes());
    }
    head.extend(b"\r\n");
    for (name, value) in headers {
        // A line break in a value would begin a header of its own.
        if value.iter().chain(name.as_bytes()).any(|b| matches!(b, b'\r' | b'\n' | 0)) {
            return Err(io::Error::new(ErrorKind::InvalidInput, format!("the value of header {name:?} is no line")));
        }
        head.extend(name.bytes().chain(*b": ").chain(value.iter().copied()).chain(*b"\r\n"));
    }
    let length: usize = body.iter().map(|part| part.len()).sum();
    if length > 0 || matches!(*method, "PUT" | "POST") {
        head.extend(format!("content-length: {length}\r\n").bytes());
    }
    head.extend(b"\r\n");
    Ok(head)
}

type Head = (u16, Vec<(String, Vec<u8>)>, bool);

fn read_head(connection: &mut Connection, watch: &Watch) -> Result<Head, (io::Error, bool)> {
    loop {
        let ahead = connection.ahead();
        let begun = !ahead.is_empty();
        let mut lines = [httparse::EMPTY_HEADER; LINES];
        let mut response = httparse::Response::new(&mut lines);
        match response.parse(ahead) {
            Ok(httparse::Status::Complete(length)) => {
                let status = response.code.unwrap_or(0);
                let headers: Vec<(String, Vec<u8>)> =
                    response.headers.iter().map(|line| (line.name.to_owned(), line.value.to_vec())).collect();
                let says = |word: &str| {
                    headers.iter().any(|(name, value)| {
                        name.eq_ignore_ascii_case("connection") && value.to_ascii_lowercase() == word.as_bytes()
                    })
                };
                let keep = if response.version == Some(1) { !says("close") } else { says("keep-alive") };
                connection.take(length);
                return Ok((status, headers, keep));
            }
            Ok(httparse::Status::Partial) if ahead.len() >= HEAD => {
                return Err((broken("the head of the response has no end"), true));
            }
            Ok(httparse::Status::Partial) => match connection.read_ahead(watch) {
                Ok(true) => {}
                Ok(false) => {
                    return Err((io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection"), begun));
                }
                Err(error) => return Err((error, begun)),
            },
            Err(error) => return Err((broken(format!("that is no HTTP: {error}")), true)),
        }
    }
}

fn framing(method: &str, status: u16, headers: &[(String, Vec<u8>)]) -> io::Result<Framing> {
    if method == "HEAD" || matches!(status, 204 | 304) {
        return Ok(Framing::Length(0));
    }
    let values = |wanted: &'static str| headers.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted));
    if let Some((_, coding)) = values("transfer-encoding").next_back() {
        return match coding.to_ascii_lowercase().ends_with(b"chunked") {
            true => Ok(Framing::Chunk { left: 0, first: true }),
            false => Ok(Framing::Close),
        };
    }
    let mut lengths = values("content-length").map(|(_, value)| std::str::from_utf8(value).ok()?.trim().parse().ok());
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(Framing::Close),
        (Some(Some(length)), None) => Ok(Framing::Length(length)),
        _ => Err(broken("the length of the response makes no sense")),
    }
}

fn broken(what: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.into())
}

impl Body {
    /// Bytes that are left, where the server says so.
    pub(crate) fn length(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(left) => Some(left),
            Framing::Done => Some(0),
            Framing::Chunk { .. } | Framing::Close => None,
        }
    }

    /// Some bytes; 0 at the end of the body. Less than was promised is an error.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.read_pieces(&mut [IoSliceMut::new(out)])
    }

    /// The same into pieces of memory, one behind the other.
    pub(crate) fn read_pieces(&mut self, out: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let outcome = self.read_some(out);
        if outcome.is_err() {
            self.connection = None;
        }
        outcome
    }

    fn read_some(&mut self, out: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let length = out.iter().map(|piece| piece.len()).sum::<usize>();
        if length == 0 || self.framing == Framing::Done {
            return Ok(0);
        }
        if let Framing::Chunk { left: 0, first } = self.framing {
            self.next_chunk(first)?;
        }
        let watch = self.watch.clone();
        let Some(connection) = &mut self.connection else { return Ok(0) };
        let most = match self.framing {
            Framing::Done => return Ok(0),
            Framing::Length(left) | Framing::Chunk { left, .. } => usize::try_from(left).unwrap_or(usize::MAX),
            Framing::Close => usize::MAX,
        };
        let n = match out.iter_mut().find(|piece| !piece.is_empty()) {
            // What follows is of something else.
            Some(first) if length > most => {
                let room = first.len().min(most);
                connection.read(&mut first[..room], &watch)?
            }
            _ => connection.read_pieces(out, &watch)?,
        };
        match &mut self.framing {
            Framing::Length(left) | Framing::Chunk { left, .. } if n > 0 => *left -= n as u64,
            Framing::Close if n > 0 => {}
            Framing::Close => (self.framing, self.keep) = (Framing::Done, false),
            _ => return Err(io::Error::new(ErrorKind::UnexpectedEof, "the response ends too early")),
        }
        self.settle();
        Ok(n)
    }

    /// Where all is read, lets go of the connection.
    fn settle(&mut self) {
        if self.framing == Framing::Length(0) {
            self.framing = Framing::Done;
        }
        if self.framing == Framing::Done
            && let Some(connection) = self.connection.take()
            && self.keep
        {
            connection.keep();
        }
    }

    /// Reads the line that says how long the next chunk is; behind the last one, the lines that follow.
    fn next_chunk(&mut self, first: bool) -> io::Result<()> {
        if !first && !self.line()?.is_empty() {
            return Err(broken("a chunk of the response has another length than it says"));
        }
        let line = self.line()?;
        let digits = line.split(|&b| b == b';').next().and_then(|digits| std::str::from_utf8(digits).ok());
        let left = digits
            .map(str::trim)
            .filter(|digits| !digits.starts_with('+'))
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .ok_or_else(|| broken("a chunk of the response has no length"))?;
        self.framing = Framing::Chunk { left, first: false };
        if left == 0 {
            let mut lines = 0;
            while !self.line()?.is_empty() {
                lines += 1;
                if lines > LINES {
                    return Err(broken("no end of lines behind the response"));
                }
            }
            self.framing = Framing::Done;
            self.settle();
        }
        Ok(())
    }

    /// A line without its end.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        let watch = self.watch.clone();
        let Some(connection) = &mut self.connection else { return Err(ErrorKind::UnexpectedEof.into()) };
        loop {
            let ahead = connection.ahead();
            if let Some(end) = ahead.iter().position(|&b| b == b'\n') {
                let line = ahead[..end].strip_suffix(b"\r").unwrap_or(&ahead[..end]).to_vec();
                connection.take(end + 1);
                return Ok(line);
            }
            if ahead.len() > 4096 {
                return Err(broken("a line of the response has no end"));
            }
            if !connection.read_ahead(&watch)? {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "the response ends too early"));
            }
        }
    }

    /// All of it, when it has at most so many bytes.
    pub(super) fn all(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut piece = [0; 8 << 10];
        loop {
            let n = self.read(&mut piece)?;
            if n == 0 {
                return Ok(bytes);
            }
            bytes.extend_from_slice(&piece[..n]);
            if bytes.len() > most {
                return Err(broken(format!("the response has more than {most} bytes")));
            }
        }
    }
}
