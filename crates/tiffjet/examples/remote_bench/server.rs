//! A server of the files of a folder: parts of them, from the system's cache of pages straight to the network as web
//! servers do it, a thread for each connection.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Serves below a folder.
pub struct Server {
    folder: PathBuf,
    /// Added to every answer.
    delay: Duration,
    files: Mutex<HashMap<PathBuf, Arc<(File, u64)>>>,
}

impl Server {
    /// Begins to serve on a port, 0 for any; gives the one it has.
    pub fn start(folder: &Path, port: u16, delay: Duration) -> io::Result<u16> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let port = listener.local_addr()?.port();
        let server = Arc::new(Self { folder: folder.to_owned(), delay, files: Mutex::default() });
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                // A client that goes away ends its thread alone.
                std::thread::spawn(move || drop(server.serve(stream)));
            }
        });
        Ok(port)
    }

    fn file(&self, target: &str) -> io::Result<Arc<(File, u64)>> {
        let name = target.trim_start_matches('/').split('?').next().unwrap_or_default();
        if name.split('/').any(|part| part == "..") {
            return Err(io::ErrorKind::NotFound.into());
        }
        let path = self.folder.join(name);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files.get(&path) {
            return Ok(file.clone());
        }
        let file = File::open(&path)?;
        let length = file.metadata()?.len();
        let file = Arc::new((file, length));
        files.insert(path, file.clone());
        Ok(file)
    }

    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut lines = BufReader::new(stream.try_clone()?);
        let mut out = stream;
        loop {
            let mut first = String::new();
            if lines.read_line(&mut first)? == 0 {
                return Ok(());
            }
            let (mut range, mut known) = (None, None);
            loop {
                let mut line = String::new();
                if lines.read_line(&mut line)? == 0 || line.trim().is_empty() {
                    break;
                }
                match line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim())) {
                    Some((name, value)) if name == "range" => range = parse_range(value),
                    Some((name, value)) if name == "if-none-match" => known = Some(value.to_owned()),
                    _ => {}
                }
            }
            if !self.delay.is_zero() {
                std::thread::sleep(self.delay);
            }
            let target = first.split(' ').nth(1).unwrap_or("/");
            match (self.file(target), range) {
                (Ok(file), _) if known == Some(etag(file.1)) => out.write_all(b"HTTP/1.1 304 Not Modified\r\n\r\n")?,
                (Ok(file), Some((from, to))) if from < file.1 => {
                    let (file, length) = &*file;
                    let to = to.min(length - 1);
                    let bytes = to - from + 1;
                    let head = format!(
                        "HTTP/1.1 206 Partial Content\r\ncontent-length: {bytes}\r\ncontent-range: bytes {from}-{to}/{length}\r\netag: {}\r\n\r\n",
                        etag(*length),
                    );
                    out.write_all(head.as_bytes())?;
                    send(&out, file, from, bytes)?;
                }
                (Ok(_), _) => out.write_all(b"HTTP/1.1 416 Range Not Satisfiable\r\ncontent-length: 0\r\n\r\n")?,
                (Err(_), _) => out.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?,
            }
        }
    }
}

/// Files are told apart by their lengths: nobody changes them here.
fn etag(length: u64) -> String {
    format!("\"{length:x}\"")
}

/// Sends a part of a file without a look at it.
fn send(out: &TcpStream, file: &File, mut at: u64, mut left: u64) -> io::Result<()> {
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        match rustix::fs::sendfile(out, file, Some(&mut at), most)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            sent => left -= sent as u64,
        }
    }
    Ok(())
}

/// First and last byte of `bytes=0-99`.
fn parse_range(text: &str) -> Option<(u64, u64)> {
    let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    (from <= to).then_some((from, to))
}
