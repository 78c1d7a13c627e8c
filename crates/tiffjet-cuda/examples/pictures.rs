//! How far pixels of the GPU are from those of the CPU, where a library decodes them.
//!
//!     pictures LIST [DEVICE] [auto|cufile|pread]          LIST: a file with a path on each line, or - for standard input
//!
//! One line of JSON for each file: routes, fallbacks, the largest and the mean difference, the share of samples that
//! differ by more than 1 and by more than 3, and what was asked of the driver in the first and in the second read
//! (pieces of memory, those of libraries, waits). An error on one side alone is a failure; so are differences in a file
//! whose name has `lossless` in it.

#![allow(clippy::print_stdout)] // its one job

mod listed;

use std::process::ExitCode;

use tiffjet::{Cpu, DType, Image, Io, ReadOptions, Tensor, Window};
use tiffjet_cuda::{Counts, Cuda};

fn bytes(tensor: &Tensor) -> tiffjet::Result<Vec<u8>> {
    let mut bytes = vec![0; tensor.storage().length()];
    tensor.storage().to_host(&mut bytes)?;
    Ok(bytes)
}

fn samples(bytes: &[u8], dtype: DType) -> Option<Vec<i32>> {
    let words = || bytes.as_chunks::<2>().0.iter();
    match dtype {
        DType::UInt8 => Some(bytes.iter().map(|&v| v.into()).collect()),
        DType::Int8 => Some(bytes.iter().map(|&v| (v as i8).into()).collect()),
        DType::UInt16 => Some(words().map(|v| u16::from_ne_bytes(*v).into()).collect()),
        DType::Int16 => Some(words().map(|v| i16::from_ne_bytes(*v).into()).collect()),
        _ => None,
    }
}

fn since(before: Counts, after: Counts) -> String {
    format!("[{},{},{}]", after.takes - before.takes, after.lent - before.lent, after.waits - before.waits)
}

fn compare(image: &Image, cuda: &Cuda, options: &ReadOptions, lossless: bool) -> Result<String, String> {
    let window = Window::default();
    let host = image.read_on(&Cpu::shared().map_err(|e| e.to_string())?, &window);
    let start = cuda.counts();
    let device = image.read_with(cuda, &window, options);
    let (host, device) = match (host, device) {
        (Ok(host), Ok(device)) => (host, device),
        (Err(host), Err(device)) if host.to_string() == device.to_string() => {
            return Ok(format!("\"error\":{:?}", host.to_string()));
        }
        (host, device) => {
            let say = |o: Result<Tensor, tiffjet::Error>| o.map_or_else(|e| e.to_string(), |_| "pixels".to_owned());
            return Err(format!("host {} / device {}", say(host), say(device)));
        }
    };
    let first = cuda.counts();
    image.read_with(cuda, &window, options).map_err(|e| e.to_string())?;
    let second = cuda.counts();
    let dtype = image.levels()[0].layout.dtype();
    let pixels = |tensor: &Tensor| bytes(tensor).map_err(|e| e.to_string());
    let (host_bytes, device_bytes) = (pixels(&host)?, pixels(&device)?);
    let (Some(a), Some(b)) = (samples(&host_bytes, dtype), samples(&device_bytes, dtype)) else {
        return Err(format!("samples of {dtype}"));
    };
    let differences: Vec<u32> = a.iter().zip(&b).map(|(a, b)| a.abs_diff(*b)).collect();
    let largest = differences.iter().copied().max().unwrap_or(0);
    let mean = differences.iter().map(|&d| f64::from(d)).sum::<f64>() / differences.len().max(1) as f64;
    let share = |over: u32| differences.iter().filter(|&&d| d > over).count() as f64 / differences.len().max(1) as f64;
    if lossless && largest > 0 {
        return Err(format!("lossless, and differs by {largest} in {:.6} of samples", share(0)));
    }
    let report = &device.report;
    Ok(format!(
        "\"dtype\":\"{dtype}\",\"shape\":{:?},\"largest\":{largest},\"mean\":{mean:.4},\"over_1\":{:.6},\"over_3\":{:.6},\"routes\":{:?},\"fallbacks\":{:?},\"first\":{},\"second\":{}",
        image.shape(),
        share(1),
        share(3),
        report.routes.iter().map(|(route, n)| format!("{route}: {n}")).collect::<Vec<_>>(),
        report.fallbacks,
        since(start, first),
        since(first, second),
    ))
}

fn main() -> ExitCode {
    let (list, cuda) = match listed::list_and_device() {
        Ok(both) => both,
        Err(what) => {
            println!("{what}");
            return ExitCode::FAILURE;
        }
    };
    let io = match std::env::args().nth(3).as_deref() {
        Some("cufile") => Io::Direct,
        Some("pread") => Io::Staged,
        _ => Io::Auto,
    };
    let options = ReadOptions { io, ..ReadOptions::default() };
    let (mut good, mut failed) = (0, 0);
    for path in list.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let outcome = tiffjet::open(path)
            .map_err(|e| e.to_string())
            .and_then(|image| compare(&image, &cuda, &options, path.contains("lossless")));
        match outcome {
            Ok(line) => {
                good += 1;
                println!("{{\"file\":{path:?},{line}}}");
            }
            Err(error) => {
                failed += 1;
                println!("{{\"file\":{path:?},\"FAILED\":{error:?}}}");
            }
        }
    }
    println!("{good} as they should be, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
