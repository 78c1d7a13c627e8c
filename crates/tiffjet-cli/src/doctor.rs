//! `tiffjet doctor`: what this machine has for the GPU, and what it lacks.

use std::process::ExitCode;

use serde_json::{Value, json};
use tiffjet_cuda::{DeviceInfo, LibraryInfo};

use crate::Outcome;
use crate::output::print;

/// Print the GPUs, the driver and every CUDA library: where it is, what it enables, what to install
#[derive(clap::Args)]
pub struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub fn run(&self) -> Outcome {
        let libraries = tiffjet_cuda::libraries();
        let devices = tiffjet_cuda::devices();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (devices, problem) = match devices {
            Ok(devices) => (devices, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let usable = devices.iter().any(|device| device.unusable.is_none());
        print(&if self.json {
            let value = json!({
                "version": env!("CARGO_PKG_VERSION"),
                "cores": cores,
                "device": if usable { "cuda" } else { "cpu" },
                "devices": devices.iter().map(device_json).collect::<Vec<_>>(),
                "problem": problem,
                "libraries": libraries.iter().map(library_json).collect::<Vec<_>>(),
            });
            format!("{value}\n")
        } else {
            let mut text = format!("tiffjet {}, {cores} cores\n", env!("CARGO_PKG_VERSION"));
            devices.iter().for_each(|device| text += &device_text(device));
            text += &problem.map_or(String::new(), |problem| format!("no GPU: {problem}\n"));
            libraries.iter().for_each(|library| text += &library_text(library));
            text + if usable { "--device auto is cuda:0\n" } else { "--device auto is the CPU\n" }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn device_json(device: &DeviceInfo) -> Value {
    json!({
        "device": format!("cuda:{}", device.ordinal),
        "name": device.name,
        "compute_capability": format!("{}.{}", device.capability.0, device.capability.1),
        "multiprocessors": device.multiprocessors,
        "memory": device.memory,
        "usable": device.unusable.is_none(),
        "problem": device.unusable,
    })
}

fn device_text(device: &DeviceInfo) -> String {
    let (major, minor) = device.capability;
    let gib = device.memory as f64 / f64::from(1 << 30);
    let state = device.unusable.as_ref().map_or("usable".to_owned(), |why| format!("can't be used: {why}"));
    let name = format!("cuda:{}: {}", device.ordinal, device.name);
    format!("{name}, compute capability {major}.{minor}, {gib:.0} GiB, {state}\n")
}

fn library_json(library: &LibraryInfo) -> Value {
    json!({
        "name": library.name,
        "found": library.path.is_some(),
        "path": library.path,
        "version": library.version,
        "enables": library.enables,
        "problem": library.problem,
        "install": library.problem.is_some().then_some(library.hint),
    })
}

fn library_text(library: &LibraryInfo) -> String {
    let LibraryInfo { name, enables, hint, .. } = library;
    match (&library.path, &library.problem) {
        (Some(path), None) => {
            let version = library.version.as_deref().unwrap_or("of unknown version");
            format!("{name} {version}, {}\n    enables {enables}\n", path.display())
        }
        (_, problem) => {
            let why = problem.as_deref().unwrap_or("not found");
            format!("{name}: {why}\n    would enable {enables}; {hint}\n")
        }
    }
}
