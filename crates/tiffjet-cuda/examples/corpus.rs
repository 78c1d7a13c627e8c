//! Every file of a list on the CPU and on the GPU: bit for bit, and JPEG of 8 bits, which a library decodes, within 3.
//!
//!     corpus LIST [DEVICE]          LIST: a file with a path on each line, or - for standard input
//!
//! Files without compression and of PackBits, LZW, Deflate and ZSTD are read with fallback forbidden. A file that the
//! CPU can't read must give the same error on the GPU.

#![allow(clippy::print_stdout)] // its one job

mod listed;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use tiffjet::{Backend, Cpu, DType, Fallback, Image, ReadOptions, Window};

const FORBIDDEN: [&str; 5] = ["none", "packbits", "lzw", "deflate", "zstd"];

/// How far a library may be from our own decoder of JPEG: both round, and one of them more often.
const NEAR: u8 = 3;

#[derive(Default)]
struct Count {
    same: usize,
    near: usize,
    same_error: usize,
    differ: usize,
    routes: BTreeMap<String, usize>,
}

fn outcome(image: &Image, backend: &dyn Backend, window: &Window, options: &ReadOptions) -> Result<Pixels, String> {
    let tensor = image.read_with(backend, window, options).map_err(|e| e.to_string())?;
    let mut bytes = vec![0; tensor.storage().length()];
    tensor.storage().to_host(&mut bytes).map_err(|e| format!("copying: {e}"))?;
    let routes = tensor.report.routes.iter().chain(&[]).cloned().collect();
    Ok(Pixels { bytes, routes })
}

/// Whether pixels are the same, or as near as they must be.
fn is_near(codec: &str, image: &Image, level: usize, [host, device]: [&[u8]; 2]) -> bool {
    let lossy = codec == "jpeg" && image.levels()[level].layout.format.dtype == DType::UInt8;
    let near = |(a, b): (&u8, &u8)| a.abs_diff(*b) <= NEAR;
    host == device || lossy && host.len() == device.len() && host.iter().zip(device).all(near)
}

struct Pixels {
    bytes: Vec<u8>,
    routes: Vec<(String, usize)>,
}

fn main() -> ExitCode {
    let (list, cuda) = match listed::list_and_device() {
        Ok(both) => both,
        Err(what) => {
            println!("{what}");
            return ExitCode::FAILURE;
        }
    };
    let cpu = Cpu::shared().expect("a CPU");
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    let (mut unopened, begun) = (0, Instant::now());
    for path in list.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let image = match tiffjet::open(path) {
            Ok(image) => image,
            Err(_) => {
                unopened += 1;
                continue;
            }
        };
        for level in 0..image.levels().len() {
            let codec = image.levels()[level].layout.codec.name();
            let forbid = FORBIDDEN.contains(&codec) && image.levels()[level].layout.packed_chroma().is_none();
            let fallback = if forbid { Fallback::Forbid } else { Fallback::Allow };
            let options = ReadOptions { fallback, ..ReadOptions::default() };
            let window = Window { level, ..Window::default() };
            let host = outcome(&image, &cpu, &window, &ReadOptions::default());
            let device = outcome(&image, &cuda, &window, &options);
            let count = counts.entry(codec.to_owned()).or_default();
            match (host, device) {
                (Ok(host), Ok(device)) if is_near(codec, &image, level, [&host.bytes, &device.bytes]) => {
                    *(if host.bytes == device.bytes { &mut count.same } else { &mut count.near }) += 1;
                    for (route, tiles) in device.routes {
                        *count.routes.entry(route).or_default() += tiles;
                    }
                }
                (Err(host), Err(device)) if host == device => count.same_error += 1,
                (host, device) => {
                    count.differ += 1;
                    let pairs = || host.iter().zip(&device).flat_map(|(a, b)| a.bytes.iter().zip(&b.bytes));
                    let at = pairs().position(|(a, b)| a != b);
                    let most = pairs().map(|(a, b)| a.abs_diff(*b)).max();
                    let say = |o: Result<Pixels, String>| o.map_or_else(|e| e, |p| format!("{} bytes", p.bytes.len()));
                    println!(
                        "DIFFERS {path} level {level} {codec} at {at:?}, bytes by up to {most:?}: cpu {} / cuda {}",
                        say(host),
                        say(device)
                    );
                }
            }
        }
    }
    let mut differ = 0;
    for (codec, count) in &counts {
        differ += count.differ;
        println!(
            "{codec}: {} levels the same, {} within {NEAR}, {} with the same error, {} differ; tiles {:?}",
            count.same, count.near, count.same_error, count.differ, count.routes
        );
    }
    println!("{unopened} files can't be opened; {differ} differ; {:.1} s", begun.elapsed().as_secs_f64());
    if differ == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
