//! Connections: found by name, made with time-outs, secured, kept for the next request.

use std::collections::HashMap;
use std::io::{self, ErrorKind, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::hosts::is_public;
use super::watch::{TICK, Watch};

/// Servers close what is idle for longer, many of them sooner.
const IDLE: Duration = Duration::from_secs(20);
/// Idle connections to one host.
const KEPT: usize = 64;
/// Connections that are made beside the first one to a host. The first answer is that of a header; the requests for tiles
/// that follow, one for each row of tiles, find them ready and wait for no handshake. Browsers make as many.
const AHEAD: usize = 5;
/// Those that nobody wants by then are closed: a server that serves one after the other must not wait for them.
const SPARE: Duration = Duration::from_secs(2);
/// Bytes read ahead: the head of a response and what comes with it.
const BUFFER: usize = 16 << 10;

/// Whom a connection is to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Host {
    pub(super) tls: bool,
    pub(super) name: String,
    pub(super) port: u16,
    /// Private addresses are refused; such connections are never shared with those who may go anywhere.
    pub(super) public: bool,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A connection and the bytes that were read ahead.
pub(super) struct Connection {
    host: Host,
    stream: Stream,
    buffer: Vec<u8>,
    /// Where in the buffer the bytes are that nobody has taken.
    start: usize,
    since: Instant,
    /// It was made ahead, and has not been asked for.
    spare: bool,
    /// One of those to its host.
    _share: Arc<()>,
    /// It has waited for its request, so the other side may have closed it.
    pub(super) used: bool,
}

/// Connections that wait for the next request, and the process they belong to: a fork must not speak on those of its
/// parent.
static IDLE_CONNECTIONS: Mutex<Option<(u32, Idle)>> = Mutex::new(None);

type Idle = HashMap<Host, Waiting>;

/// Idle connections to one host.
#[derive(Default)]
struct Waiting {
    connections: Vec<Connection>,
    /// Every connection to the host has its share, idle or not.
    all: Arc<()>,
}

impl Waiting {
    /// One that is open still.
    fn take(&mut self) -> Option<Connection> {
        while let Some(connection) = self.connections.pop() {
            if connection.since.elapsed() < IDLE && connection.is_open() {
                return Some(connection);
            }
        }
        None
    }

    /// Lets go of those that the other side has closed.
    fn weed(&mut self) {
        self.connections.retain(Connection::is_open);
    }

    /// Whether there is no connection to the host.
    fn is_empty(&self) -> bool {
        Arc::strong_count(&self.all) == 1
    }
}

fn with_idle<T>(work: impl FnOnce(&mut Idle) -> T) -> T {
    let mut idle = IDLE_CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if idle.as_ref().is_none_or(|(owner, _)| *owner != process) {
        *idle = Some((process, HashMap::new()));
    }
    match &mut *idle {
        Some((_, idle)) => work(idle),
        None => work(&mut HashMap::new()), // it was set above
    }
}

impl Connection {
    /// One that is idle, or a new one.
    pub(super) fn to(host: &Host, connect: Duration, watch: &Watch) -> io::Result<Self> {
        let (idle, first, share) = with_idle(|idle| {
            let waiting = idle.entry(host.clone()).or_default();
            let found = waiting.take();
            (found, waiting.is_empty(), waiting.all.clone())
        });
        if first {
            dial_ahead(host, connect, watch, &share);
        }
        match idle {
            Some(connection) => Ok(Self { spare: false, ..connection }),
            None => Self::dial(host, connect, watch, share),
        }
    }

    /// Whether the other side has not closed it.
    fn is_open(&self) -> bool {
        let (tcp, secure) = match &self.stream {
            Stream::Plain(tcp) => (tcp, false),
            Stream::Tls(tls) => (&tls.sock, true),
        };
        let peeked = tcp.set_nonblocking(true).and_then(|()| tcp.peek(&mut [0]));
        let open = match peeked {
            // Under TLS a server has something to say by itself.
            Ok(bytes) => bytes > 0 && secure,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        tcp.set_nonblocking(false).is_ok() && open
    }

    /// A new one, where an idle one turned out to be closed: the others may be as well.
    pub(super) fn new(host: &Host, connect: Duration, watch: &Watch) -> io::Result<Self> {
        let (first, share) = with_idle(|idle| {
            let waiting = idle.entry(host.clone()).or_default();
            waiting.weed();
            (waiting.is_empty(), waiting.all.clone())
        });
        if first {
            dial_ahead(host, connect, watch, &share);
        }
        Self::dial(host, connect, watch, share)
    }

    fn dial(host: &Host, connect: Duration, watch: &Watch, share: Arc<()>) -> io::Result<Self> {
        let tcp = dial(host, connect)?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(TICK))?;
        tcp.set_write_timeout(Some(TICK))?;
        let stream = match host.tls {
            false => Stream::Plain(tcp),
            true => {
                let name = ServerName::try_from(host.name.trim_matches(['[', ']']).to_owned())
                    .map_err(|e| io::Error::new(ErrorKind::InvalidInput, e))?;
                let client = ClientConnection::new(config()?, name).map_err(tls_failed)?;
                Stream::Tls(Box::new(StreamOwned::new(client, tcp)))
            }
        };
        let (host, since) = (host.clone(), Instant::now());
        let (spare, used) = (false, false);
        let mut connection = Self { host, stream, buffer: Vec::new(), start: 0, since, spare, _share: share, used };
        connection.shake_hands(watch)?;
        Ok(connection)
    }

    fn shake_hands(&mut self, watch: &Watch) -> io::Result<()> {
        let Stream::Tls(tls) = &mut self.stream else { return Ok(()) };
        patiently(watch, || match tls.conn.is_handshaking() {
            true => tls.conn.complete_io(&mut tls.sock).map(drop),
            false => Ok(()),
        })
    }

    /// Puts it back for the next request.
    pub(super) fn keep(mut self) {
        // Bytes that nobody asked for can only confuse the next one.
        if self.start < self.buffer.len() {
            return;
        }
        self.buffer.clear();
        self.start = 0;
        (self.used, self.since) = (true, Instant::now());
        with_idle(|idle| {
            let waiting = idle.entry(self.host.clone()).or_default();
            if waiting.connections.len() < KEPT {
                waiting.connections.push(self);
            }
        });
    }

    /// Sends all of it.
    pub(super) fn send(&mut self, mut bytes: &[u8], watch: &Watch) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = patiently(watch, || match &mut self.stream {
                Stream::Plain(tcp) => tcp.write(bytes),
                Stream::Tls(tls) => tls.write(bytes),
            })?;
            if sent == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            bytes = &bytes[sent..];
            watch.check()?;
        }
        Ok(())
    }

    /// Nothing is left in buffers of this side.
    pub(super) fn flush(&mut self, watch: &Watch) -> io::Result<()> {
        patiently(watch, || match &mut self.stream {
            Stream::Plain(tcp) => tcp.flush(),
            Stream::Tls(tls) => tls.flush(),
        })
    }

    /// Takes bytes that are there, or waits for some; 0 at the end.
    pub(super) fn read(&mut self, out: &mut [u8], watch: &Watch) -> io::Result<usize> {
        let ahead = &self.buffer[self.start..];
        if !ahead.is_empty() {
            let n = ahead.len().min(out.len());
            out[..n].copy_from_slice(&ahead[..n]);
            self.start += n;
            return Ok(n);
        }
        watch.check()?;
        self.receive(out, watch)
    }

    /// The same into pieces of memory, one behind the other.
    pub(super) fn read_pieces(&mut self, out: &mut [IoSliceMut<'_>], watch: &Watch) -> io::Result<usize> {
        let first = out.iter_mut().find(|piece| !piece.is_empty());
        match (&mut self.stream, first) {
            (_, None) => Ok(0),
            // What came with the head, and what is deciphered: it is in memory already.
            (_, Some(first)) if self.start < self.buffer.len() => self.read(first, watch),
            (Stream::Tls(_), Some(first)) => self.read(first, watch),
            (Stream::Plain(tcp), Some(_)) => {
                watch.check()?;
                patiently(watch, || tcp.read_vectored(out))
            }
        }
    }

    fn receive(&mut self, out: &mut [u8], watch: &Watch) -> io::Result<usize> {
        patiently(watch, || match &mut self.stream {
            Stream::Plain(tcp) => tcp.read(out),
            Stream::Tls(tls) => match tls.read(out) {
                // Many servers end without saying so; whether all is there the head of the response tells.
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
        })
    }

    /// The bytes read ahead.
    pub(super) fn ahead(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Reads more of them; `false` at the end.
    pub(super) fn read_ahead(&mut self, watch: &Watch) -> io::Result<bool> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let filled = self.buffer.len();
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(filled + BUFFER, 0);
        let read = self.receive(&mut buffer[filled..], watch);
        buffer.truncate(filled + read.as_ref().copied().unwrap_or(0));
        self.buffer = buffer;
        read.map(|n| n > 0)
    }

    /// Takes bytes read ahead.
    pub(super) fn take(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.buffer.len());
    }
}

/// Does it again while it would block, as long as the watch allows.
fn patiently<T>(watch: &Watch, mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let since = Instant::now();
    loop {
        match work() {
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => watch.waited(since)?,
            Err(e) if e.kind() == ErrorKind::Interrupted => watch.waited(since)?,
            done => return done,
        }
    }
}

/// Makes connections that will be wanted soon, and closes them when they were not. What fails here, the request that
/// needs it tells. One thread starts the others: who asks for the first connection must not wait for that.
fn dial_ahead(host: &Host, connect: Duration, watch: &Watch, share: &Arc<()>) {
    let (host, watch, share) = (host.clone(), watch.clone(), share.clone());
    let dial = move || {
        let Ok(connection) = Connection::dial(&host, connect, &watch, share) else { return };
        Connection { spare: true, ..connection }.keep();
        std::thread::sleep(SPARE);
        with_idle(|idle| {
            if let Some(waiting) = idle.get_mut(&host) {
                waiting.connections.retain(|one| !one.spare || one.since.elapsed() < SPARE);
            }
        });
    };
    in_background(move || {
        (1..AHEAD).for_each(|_| in_background(dial.clone()));
        dial();
    });
}

fn in_background(work: impl FnOnce() + Send + 'static) {
    drop(std::thread::Builder::new().name("tiffjet-dial".to_owned()).spawn(work));
}

/// The first address of the host that answers.
fn dial(host: &Host, connect: Duration) -> io::Result<TcpStream> {
    let name = host.name.trim_matches(['[', ']']);
    let addresses: Vec<SocketAddr> = (name, host.port).to_socket_addrs()?.collect();
    // One that is private is enough: a name that has both kinds is made to get past the check.
    if host.public && addresses.iter().any(|address| !is_public(address.ip())) {
        let what = format!("{name} is a private or local address, which limits.private_hosts forbids");
        return Err(io::Error::new(ErrorKind::PermissionDenied, what));
    }
    let end = Instant::now() + connect;
    let mut failed = io::Error::new(ErrorKind::NotFound, format!("{name} has no address"));
    for address in &addresses {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn tls_failed(error: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

/// Whom to trust: those whom this machine trusts, or where it says nothing, those whom browsers do.
fn config() -> io::Result<Arc<ClientConfig>> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = builder.map_err(|e| e.to_string())?.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    });
    config.clone().map_err(io::Error::other)
}
