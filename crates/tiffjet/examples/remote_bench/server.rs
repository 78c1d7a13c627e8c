//! A server of the files of a folder, or of one: parts of them, from memory, a thread for each connection.

use std::collections::HashMap;
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
    files: Mutex<HashMap<PathBuf, Arc<Vec<u8>>>>,
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

    fn file(&self, target: &str) -> io::Result<Arc<Vec<u8>>> {
        let name = target.trim_start_matches('/').split('?').next().unwrap_or_default();
        if name.split('/').any(|part| part == "..") {
            return Err(io::ErrorKind::NotFound.into());
        }
        let path = self.folder.join(name);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = files.get(&path) {
            return Ok(bytes.clone());
        }
        let bytes = Arc::new(std::fs::read(&path)?);
        files.insert(path, bytes.clone());
        Ok(bytes)
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
            let mut range = None;
            loop {
                let mut line = String::new();
                if lines.read_line(&mut line)? == 0 || line.trim().is_empty() {
                    break;
                }
                if let Some((name, value)) = line.split_once(':')
                    && name.eq_ignore_ascii_case("range")
                {
                    range = parse_range(value.trim());
                }
            }
            if !self.delay.is_zero() {
                std::thread::sleep(self.delay);
            }
            let target = first.split(' ').nth(1).unwrap_or("/");
            match (self.file(target), range) {
                (Ok(bytes), Some((from, to))) if from < bytes.len() => {
                    let to = to.min(bytes.len() - 1);
                    let part = &bytes[from..=to];
                    let head = format!(
                        "HTTP/1.1 206 Partial Content\r\ncontent-length: {}\r\ncontent-range: bytes {from}-{to}/{}\r\netag: \"{:x}\"\r\n\r\n",
                        part.len(),
                        bytes.len(),
                        bytes.len()
                    );
                    out.write_all(head.as_bytes())?;
                    out.write_all(part)?;
                }
                (Ok(_), _) => out.write_all(b"HTTP/1.1 416 Range Not Satisfiable\r\ncontent-length: 0\r\n\r\n")?,
                (Err(_), _) => out.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?,
            }
        }
    }
}

/// First and last byte of `bytes=0-99`.
fn parse_range(text: &str) -> Option<(usize, usize)> {
    let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    (from <= to).then_some((from, to))
}
