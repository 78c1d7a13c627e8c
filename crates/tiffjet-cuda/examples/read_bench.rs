//! From a path to pixels in device memory: medians, with the phases it is made of beside them.
//!
//!     read_bench [--runs N] [--budget BYTES] [--group BYTES] [--lanes N] [--threads N] [--windows N]
//!         [--io auto|cufile|pread] FILE...
//!
//! One line of JSON for each file. `read_ms` is open + plan + read, the median of N (7) after two to warm up; `pread_ms`,
//! `copy_ms` and `kernels_ms` are each phase alone. `--windows N` also reads N random windows of 512 x 512 in one call.
//! `peak_bytes` is the most device memory that this process had so far, and `budget` what a read may have beside its
//! result: measuring phases takes more than that, so the peak of a read is told by the first file alone. `takes`, `lent`
//! and `waits` are what one read asked of the driver: pieces of memory, those of libraries, and waits for a stream.

#![allow(clippy::print_stdout)] // its one job

use std::process::ExitCode;
use std::time::Instant;

use tiffjet::{Backend, Image, Io, ReadJob, ReadOptions, ReadPlan, Window};
use tiffjet_cuda::{Cuda, Settings};

struct Choices {
    runs: usize,
    windows: usize,
    io: Io,
    settings: Settings,
    files: Vec<String>,
}

fn choices() -> Choices {
    let mut choices = Choices { runs: 7, windows: 0, io: Io::Auto, settings: Settings::default(), files: Vec::new() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--io" {
            choices.io = match arguments.next().as_deref() {
                Some("cufile") => Io::Direct,
                Some("pread") => Io::Staged,
                _ => Io::Auto,
            };
            continue;
        }
        let mut number = || arguments.next().and_then(|a| a.parse().ok()).unwrap_or(0u64);
        match argument.as_str() {
            "--runs" => choices.runs = number().max(1) as usize,
            "--windows" => choices.windows = number() as usize,
            "--budget" => choices.settings.budget = number(),
            "--group" => choices.settings.group = number(),
            "--lanes" => choices.settings.lanes = number() as usize,
            "--threads" => choices.settings.threads = number() as usize,
            _ => choices.files.push(argument),
        }
    }
    choices
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The median of some runs in milliseconds, after two that do not count.
fn timed(runs: usize, mut work: impl FnMut() -> tiffjet::Result<()>) -> tiffjet::Result<f64> {
    (0..2).try_for_each(|_| work())?;
    let mut times = Vec::new();
    for _ in 0..runs {
        let begun = Instant::now();
        work()?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(times))
}

fn windows(image: &Image, count: usize) -> tiffjet::Result<Vec<ReadPlan>> {
    let [_, height, width] = image.shape();
    let (h, w) = (height.min(512) as u32, width.min(512) as u32);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % (below as u64 + 1)) as u32
    };
    (0..count)
        .map(|_| {
            let (y, x) = (random(height - h as usize), random(width - w as usize));
            image.plan(&Window { rows: Some(y..y + h), cols: Some(x..x + w), ..Window::default() })
        })
        .collect()
}

fn bench(cuda: &Cuda, choices: &Choices, path: &str) -> tiffjet::Result<String> {
    let options = ReadOptions { io: choices.io, ..ReadOptions::default() };
    let read = timed(choices.runs, || {
        let tensor = tiffjet::open(path)?.read_with(cuda, &Window::default(), &options)?;
        drop(tensor);
        Ok(())
    })?;
    let image = tiffjet::open(path)?;
    let before = cuda.counts();
    let tensor = image.read_with(cuda, &Window::default(), &options)?;
    let after = cuda.counts();
    let report = tensor.report.clone();
    drop(tensor);
    let peak = cuda.peak_memory()?;
    let plan = image.plan(&Window::default())?;
    let job = ReadJob { source: &**image.source(), plan: &plan };
    let mut phases = Vec::new();
    for _ in 0..choices.runs + 2 {
        phases.push(cuda.phases(&[job])?);
    }
    let of = |phase: fn(&tiffjet_cuda::Phases) -> f64| median(phases.iter().skip(2).map(phase).collect());
    let (pread, copy, kernels) = (of(|p| p.fetch), of(|p| p.copy), of(|p| p.kernels));
    let mut line = format!(
        "{{\"file\":{path:?},\"read_ms\":{read:.3},\"pread_ms\":{pread:.3},\"copy_ms\":{copy:.3},\"kernels_ms\":{kernels:.3},\"bytes_in\":{},\"bytes_out\":{},\"tiles\":{},\"routes\":{:?},\"fallbacks\":{},\"peak_bytes\":{peak},\"budget\":{},\"takes\":{},\"lent\":{},\"waits\":{},\"notes\":{:?}",
        report.bytes_read,
        report.bytes_out,
        report.tiles,
        report.routes.iter().map(|(route, n)| format!("{route}: {n}")).collect::<Vec<_>>(),
        report.fallbacks.len(),
        cuda.settings().budget,
        after.takes - before.takes,
        after.lent - before.lent,
        after.waits - before.waits,
        report.fallbacks,
    );
    if choices.windows > 0 {
        let many = timed(choices.runs, || {
            let plans = windows(&image, choices.windows)?;
            let jobs: Vec<ReadJob<'_>> = plans.iter().map(|plan| ReadJob { source: &**image.source(), plan }).collect();
            cuda.read(&jobs, &options).map(drop)
        })?;
        line += &format!(",\"windows\":{},\"windows_ms\":{many:.3}", choices.windows);
    }
    Ok(line + "}")
}

fn main() -> ExitCode {
    let choices = choices();
    let begun = Instant::now();
    let cuda = match Cuda::new(0) {
        Ok(cuda) => cuda.with(choices.settings),
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{{\"device\":{:?},\"start_ms\":{:.1}}}", cuda.device().name, begun.elapsed().as_secs_f64() * 1e3);
    let mut failed = false;
    for path in &choices.files {
        match bench(&cuda, &choices, path) {
            Ok(line) => println!("{line}"),
            Err(error) => {
                failed = true;
                println!("{{\"file\":{path:?},\"error\":{:?}}}", error.to_string());
            }
        }
    }
    println!("{{\"peak_device_bytes\":{}}}", cuda.peak_memory().unwrap_or(0));
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
