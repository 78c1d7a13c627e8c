//! A server that keeps a log, and breaks the rules when it is told to.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a client asked.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// How many came before it.
    pub number: usize,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// First byte and the one behind the last.
    pub fn range(&self) -> Option<(usize, usize)> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse::<usize>().ok()? + 1))
    }
}

/// What becomes of the body on its way.
#[derive(Debug, Clone, Copy, Default)]
pub enum Fate {
    #[default]
    Whole,
    /// So many bytes, then the connection is closed.
    Closed(usize),
    /// The same, with a reset.
    Reset(usize),
    /// So many bytes, then silence for so long.
    Stalled(usize, Duration),
    /// A byte now and then.
    Dripping(Duration),
}

/// What the server says.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub fate: Fate,
    /// In chunks, without a length.
    pub chunked: bool,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub fn fate(mut self, fate: Fate) -> Self {
        self.fate = fate;
        self
    }

    /// The part of a file that was asked for, as a good server gives it.
    pub fn part(request: &Request, file: &[u8], etag: &str) -> Self {
        if request.header("if-match").is_some_and(|wanted| wanted != etag) {
            return Self::status(412);
        }
        if request.header("if-none-match") == Some(etag) {
            return Self::status(304).header("etag", etag);
        }
        let Some((first, end)) = request.range() else { return Self::status(200).header("etag", etag).body(file) };
        if first >= file.len() {
            return Self::status(416).header("content-range", format!("bytes */{}", file.len()));
        }
        let end = end.min(file.len());
        Self::status(206)
            .header("etag", etag)
            .header("last-modified", "Sun, 15 Nov 2026 10:00:00 GMT")
            .header("content-range", format!("bytes {first}-{}/{}", end - 1, file.len()))
            .body(&file[first..end])
    }
}

type Handler = Box<dyn Fn(&Request) -> Reply + Send + Sync>;

struct Inner {
    handler: Handler,
    log: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    closed: AtomicUsize,
}

/// A server on a port of this machine, for as long as the process lives.
pub struct Server {
    inner: Arc<Inner>,
    pub port: u16,
}

impl Server {
    pub fn start(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let inner = Arc::new(Inner {
            handler: Box::new(handler),
            log: Mutex::default(),
            connections: AtomicUsize::new(0),
            closed: AtomicUsize::new(0),
        });
        let shared = inner.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let inner = shared.clone();
                inner.connections.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || {
                    drop(serve(&inner, stream));
                    inner.closed.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        Self { inner, port }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// All requests so far.
    pub fn log(&self) -> Vec<Request> {
        self.inner.log.lock().unwrap().clone()
    }

    /// Requests since the last call.
    pub fn take_log(&self) -> Vec<Request> {
        std::mem::take(&mut *self.inner.log.lock().unwrap())
    }

    pub fn connections(&self) -> usize {
        self.inner.connections.load(Ordering::Relaxed)
    }

    /// Connections that have come to their end.
    pub fn closed(&self) -> usize {
        self.inner.closed.load(Ordering::Relaxed)
    }
}

fn serve(inner: &Inner, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut out = stream;
    while let Some(mut request) = read_request(&mut lines)? {
        {
            let mut log = inner.log.lock().unwrap();
            request.number = log.len();
            log.push(Request { body: Vec::new(), ..request.clone() });
        }
        let reply = (inner.handler)(&request);
        if !send(&mut out, &reply, request.method == "HEAD")? {
            return Ok(());
        }
    }
    Ok(())
}

fn read_request(lines: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
    let mut first = String::new();
    if lines.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let mut words = first.split(' ').map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
    let mut request = Request { method, target, headers, body: Vec::new(), number: 0 };
    let length = request.header("content-length").and_then(|l| l.parse().ok()).unwrap_or(0);
    request.body = vec![0; length];
    lines.read_exact(&mut request.body)?;
    Ok(Some(request))
}

/// Whether the connection goes on.
fn send(out: &mut TcpStream, reply: &Reply, head_only: bool) -> io::Result<bool> {
    let mut head = format!("HTTP/1.1 {} X\r\n", reply.status);
    let given = reply.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    if reply.chunked {
        head += "transfer-encoding: chunked\r\n";
    } else if !given && reply.status != 304 {
        head += &format!("content-length: {}\r\n", reply.body.len());
    }
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    out.write_all((head + "\r\n").as_bytes())?;
    if head_only {
        return Ok(true);
    }
    if reply.chunked {
        for piece in reply.body.chunks(1000) {
            write!(out, "{:x};note=1\r\n", piece.len())?;
            out.write_all(piece)?;
            out.write_all(b"\r\n")?;
        }
        out.write_all(b"0\r\ntrailer: 1\r\n\r\n")?;
        return Ok(true);
    }
    match reply.fate {
        Fate::Whole => out.write_all(&reply.body)?,
        Fate::Closed(n) => {
            out.write_all(&reply.body[..n.min(reply.body.len())])?;
            return Ok(false);
        }
        Fate::Reset(n) => {
            out.write_all(&reply.body[..n.min(reply.body.len())])?;
            rustix::net::sockopt::set_socket_linger(&*out, Some(Duration::ZERO))?;
            return Ok(false);
        }
        Fate::Stalled(n, time) => {
            out.write_all(&reply.body[..n.min(reply.body.len())])?;
            std::thread::sleep(time);
            return Ok(false);
        }
        Fate::Dripping(time) => {
            for byte in &reply.body {
                out.write_all(&[*byte])?;
                std::thread::sleep(time);
            }
        }
    }
    Ok(true)
}
