//! Reading over HTTP beside a plain download of the same bytes, from a server in this process.
//!
//!     remote_bench [--runs N] [--delay MS] FILE...
//!
//! `download` fetches all bytes of all tiles in requests of 8 MiB over 32 connections into memory, and does nothing with
//! them. `fetch` asks the source for the same ranges. `read` also decodes; `near` reads and decodes the file from the disk.
//! Each is the median of N (5), run in turns; ratios are of times, download to the other.

#![allow(clippy::print_stdout)] // its one job

mod server;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tiffjet::plan::transfers;
use tiffjet::{Image, OpenOptions, Window};

const REQUEST: u64 = 8 << 20;
const CONNECTIONS: usize = 32;

fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let begun = Instant::now();
    let done = work();
    (begun.elapsed().as_secs_f64(), done)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// One request on an open connection.
fn get(stream: &mut TcpStream, path: &str, range: &Range<u64>, out: &mut [u8]) -> io::Result<()> {
    let head =
        format!("GET /{path} HTTP/1.1\r\nhost: localhost\r\nrange: bytes={}-{}\r\n\r\n", range.start, range.end - 1);
    stream.write_all(head.as_bytes())?;
    let mut buffer = vec![0; 4096];
    let mut filled = 0;
    let end = loop {
        filled += stream.read(&mut buffer[filled..])?;
        if let Some(at) = buffer[..filled].windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
    };
    let ahead = &buffer[end..filled];
    out[..ahead.len()].copy_from_slice(ahead);
    stream.read_exact(&mut out[ahead.len()..])
}

/// Connections that stay open from one run to the next.
fn connect(port: u16, count: usize) -> io::Result<Vec<TcpStream>> {
    let one = |_| {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    (0..count).map(one).collect()
}

/// All ranges over many connections, each thread the next one.
fn download(
    connections: &mut [TcpStream],
    path: &str,
    ranges: &[Range<u64>],
    buffers: &mut [Vec<u8>],
) -> io::Result<()> {
    let next = AtomicUsize::new(0);
    let slots: Vec<std::sync::Mutex<&mut Vec<u8>>> = buffers.iter_mut().map(std::sync::Mutex::new).collect();
    std::thread::scope(|scope| {
        let (next, slots) = (&next, &slots);
        let threads: Vec<_> = connections
            .iter_mut()
            .map(|stream| {
                scope.spawn(move || -> io::Result<()> {
                    while let Some(i) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < ranges.len()) {
                        let mut out = slots[i].lock().map_err(|_| io::Error::other("a thread has failed"))?;
                        get(stream, path, &ranges[i], &mut out)?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|t| t.join().unwrap_or_else(|_| Err(io::Error::other("a thread has failed"))))
    })
}

fn bench(path: &str, runs: usize, delay: Duration) -> Result<String, Box<dyn std::error::Error>> {
    let file = Path::new(path);
    let folder = file.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = file.file_name().and_then(|n| n.to_str()).ok_or("a file is meant")?;
    let port = server::Server::start(folder, 0, delay)?;
    let url = format!("http://127.0.0.1:{port}/{name}");
    let options = OpenOptions::default();
    let image = Image::open(&url, &options)?;
    let plan = image.plan(&Window::default())?;
    let tiles: Vec<Range<u64>> = plan.tiles().iter().map(|tile| tile.range.clone()).collect();
    let ranges: Vec<Range<u64>> = transfers(&tiles, 1 << 20, REQUEST).into_iter().map(|t| t.range).collect();
    let bytes: u64 = ranges.iter().map(|r| r.end - r.start).sum();
    let mut buffers: Vec<Vec<u8>> = ranges.iter().map(|r| vec![1; (r.end - r.start) as usize]).collect();
    let mut out = vec![0; plan.output_bytes().ok_or("too large")?];
    let mut connections = connect(port, CONNECTIONS.min(ranges.len()))?;
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..runs + 1 {
        let (download_s, done) = timed(|| download(&mut connections, name, &ranges, &mut buffers));
        done?;
        let (fetch_s, done) = timed(|| {
            let mut slices: Vec<&mut [u8]> = buffers.iter_mut().map(|b| &mut b[..]).collect();
            image.source().read(&ranges, &mut slices, &mut |_| ())
        });
        done?;
        let (read_s, done) = timed(|| Image::open(&url, &options)?.read_into(&Window::default(), &mut out));
        done?;
        let (near_s, done) = timed(|| Image::open(path, &options)?.read_into(&Window::default(), &mut out));
        done?;
        for (list, time) in times.iter_mut().zip([download_s, fetch_s, read_s, near_s]) {
            list.push(time);
        }
    }
    // The first round warms everything up.
    let [download, fetch, read, near] = times.map(|mut list| median(&mut list[1..]));
    Ok(format!(
        "{{\"file\":{name:?},\"bytes\":{bytes},\"requests\":{},\"pixels\":{},\"download_ms\":{:.2},\"fetch_ms\":{:.2},\"read_ms\":{:.2},\"near_ms\":{:.2},\"download_gb_s\":{:.2},\"fetch_ratio\":{:.2},\"read_ratio\":{:.2}}}",
        ranges.len(),
        out.len(),
        download * 1e3,
        fetch * 1e3,
        read * 1e3,
        near * 1e3,
        bytes as f64 / download / 1e9,
        download / fetch,
        download / read,
    ))
}

fn main() -> ExitCode {
    let (mut runs, mut delay, mut failed) = (5, 0, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|a| a.parse().ok()).unwrap_or(1);
        match argument.as_str() {
            "--runs" => runs = number(),
            "--delay" => delay = number() as u64,
            path => match bench(path, runs, Duration::from_millis(delay)) {
                Ok(line) => println!("{line}"),
                Err(error) => {
                    failed = true;
                    println!("{{\"file\":{path:?},\"error\":{:?}}}", error.to_string());
                }
            },
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
