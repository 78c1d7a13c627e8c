//! Nothing that is read or written depends on what memory held before: the same under another `MALLOC_PERTURB_`, by which
//! glibc fills memory that it gives out and takes back.

#![cfg(target_env = "gnu")]
#![allow(clippy::print_stdout)] // how a process tells the one that started it

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;
use std::sync::Arc;

use tiffjet::source::MemorySource;
use tiffjet::{Backend, Cpu, Image, Limits, OpenOptions, Result, Window};
use tiffjet_testkit::{Trips, hostile, matrix};

/// Pixels and masks of all levels.
fn pixels(name: &str, file: &[u8]) -> Result<Vec<Vec<u8>>> {
    let limits = Limits { output_bytes: 1 << 19, tile_bytes: 1 << 19, ..Limits::default() };
    let options = OpenOptions { limits, ..OpenOptions::default() };
    let image = Image::from_source(Arc::new(MemorySource::named(name, file.to_vec())), &options)?;
    let mut all = Vec::new();
    for level in 0..image.levels().len() {
        let window = Window { level, ..Window::default() };
        for tensor in [image.read(&window)?, image.read_mask(&window)?] {
            all.push(tensor.bytes().unwrap_or_default().to_vec());
        }
    }
    Ok(all)
}

/// Prints one line for each file that is read or written.
#[test]
#[ignore = "in a process with other memory"]
fn child_of_other_memory() {
    let digest = |of: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        of(&mut hasher);
        hasher.finish()
    };
    for case in matrix::grid().step_by(397).chain(matrix::oddities()) {
        let pixels = pixels(&case.name, &case.file).map_err(|error| error.to_string());
        println!("outcome {} {:016x}", case.name, digest(&|hasher| pixels.hash(hasher)));
    }
    for case in hostile::cases() {
        let pixels = pixels(&case.name, &case.bytes).map_err(|error| error.to_string());
        println!("outcome {} {:016x}", case.name, digest(&|hasher| pixels.hash(hasher)));
    }
    let cpu: Arc<dyn Backend> = Arc::new(Cpu::shared().unwrap());
    for (number, file) in (Trips { count: 60, first: 1, side: 120 }).files(&cpu).enumerate() {
        println!("outcome written-{number} {:016x}", digest(&|hasher| file.hash(hasher)));
    }
}

fn outcomes(perturb: &str) -> Vec<String> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_of_other_memory", "--ignored", "--nocapture"])
        .env("MALLOC_PERTURB_", perturb)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "MALLOC_PERTURB_={perturb}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().filter(|line| line.contains("outcome ")).map(str::to_owned).collect()
}

#[test]
fn outcomes_do_not_depend_on_what_memory_held() {
    let plain = outcomes("0");
    assert!(plain.len() > 600, "{}", plain.len());
    let other = outcomes("165");
    let differ: Vec<_> = plain.iter().zip(&other).filter(|(a, b)| a != b).map(|(a, _)| a).take(10).collect();
    assert!(plain.len() == other.len() && differ.is_empty(), "{differ:#?}");
}
