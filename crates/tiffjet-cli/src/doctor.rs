//! `tiffjet doctor`: what this machine has, what it lacks, and what runs where.

use std::fmt::Write;
use std::process::ExitCode;

use serde_json::{Value, json};
use tiffjet::codec::{CODECS, Codec, writes};
use tiffjet::{Cpu, Error, Limits};
use tiffjet_cuda::{By, DeviceInfo, LibraryInfo};

use crate::Outcome;
use crate::output::print;
use crate::terminal::{Tint, Waiting, tinted};

/// Print what this machine has: cores, memory, GPUs, driver, CUDA libraries, which codec runs where, limits
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tiffjet doctor
  tiffjet doctor --json")]
pub struct Doctor {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub fn run(&self) -> Outcome {
        let waiting = Waiting::on("looking at this machine".to_owned());
        let facts = Facts::gather()?;
        drop(waiting);
        print(&if self.json { format!("{}\n", facts.json()) } else { facts.text() })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// All that is found.
struct Facts {
    cpu: String,
    cores: usize,
    cache: usize,
    limits: Limits,
    devices: Vec<DeviceInfo>,
    /// Why there are no devices.
    problem: Option<String>,
    driver: Option<String>,
    libraries: Vec<LibraryInfo>,
    direct: bool,
}

impl Facts {
    fn gather() -> tiffjet::Result<Self> {
        let libraries = tiffjet_cuda::libraries();
        let (devices, problem) = match tiffjet_cuda::devices() {
            Ok(devices) => (devices, None),
            Err(Error::Unavailable { library, hint, .. }) => {
                (Vec::new(), Some(format!("{library} is not available ({hint})")))
            }
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let cpu = Cpu::shared()?;
        Ok(Self {
            cpu: processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: cpu.threads(),
            cache: cpu.cache_limit(),
            limits: Limits::default(),
            devices,
            problem,
            driver: driver(),
            libraries,
            direct: tiffjet_cuda::has_direct_storage(),
        })
    }

    fn usable(&self) -> bool {
        self.devices.iter().any(|device| device.unusable.is_none())
    }

    /// What would make this machine do more.
    fn advice(&self) -> Vec<String> {
        if !self.usable() {
            // Without a device its libraries are of no use.
            let missing = self.libraries.first().filter(|driver| driver.problem.is_some());
            return missing.map(|driver| format!("to use a GPU: {}", driver.hint)).into_iter().collect();
        }
        let missing = self.libraries.iter().filter(|library| library.problem.is_some());
        missing.map(|library| format!("for {}: {}", library.enables, library.hint)).collect()
    }

    fn json(&self) -> Value {
        let limits = &self.limits;
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "cpu": self.cpu,
            "cores": self.cores,
            "memory": limits.output_bytes,
            "cache": self.cache,
            "device": if self.usable() { "cuda" } else { "cpu" },
            "io": if self.direct { "cufile" } else { "pread" },
            "driver": self.driver,
            "devices": self.devices.iter().map(device_json).collect::<Vec<_>>(),
            "problem": self.problem,
            "libraries": self.libraries.iter().map(library_json).collect::<Vec<_>>(),
            "codecs": CODECS.iter().map(|codec| codec_json(*codec)).collect::<Vec<_>>(),
            "limits": {
                "directories": limits.directories,
                "fields": limits.fields,
                "levels": limits.levels,
                "value_bytes": limits.value_bytes,
                "tile_bytes": limits.tile_bytes,
                "output_bytes": limits.output_bytes,
                "sidecar_bytes": limits.sidecar_bytes,
            },
            "advice": self.advice(),
        })
    }

    fn text(&self) -> String {
        let mut out = format!("tiffjet {}\n", env!("CARGO_PKG_VERSION"));
        let title = |text: &str| format!("\n{}\n", tinted(text, Tint::Bold));
        out += &title("This machine");
        let _ = writeln!(out, "  CPU      {}, {} cores", self.cpu, self.cores);
        let _ = writeln!(
            out,
            "  memory   {}, {} of it for the cache of tiles (TIFFJET_CACHE)",
            gib(self.limits.output_bytes),
            gib(self.cache as u64)
        );
        self.devices.iter().for_each(|device| out += &device_text(device));
        if let Some(problem) = &self.problem {
            let _ = writeln!(out, "  GPU      {}: {problem}", tinted("none", Tint::Bad));
        }
        if let Some(driver) = &self.driver {
            let _ = writeln!(out, "  driver   {driver}");
        }
        out += &title("Libraries, found at run time");
        self.libraries.iter().for_each(|library| out += &library_text(library));
        out +=
            &title(if self.usable() { "Codecs" } else { "Codecs; the columns of the GPU are for a machine with one" });
        out += "  name         read: CPU  GPU         write: CPU  GPU\n"; // as wide as the lines below
        CODECS.iter().for_each(|codec| out += &self.codec_text(*codec));
        out += &title("Choices");
        let auto = if self.usable() { "cuda:0 for reading, the CPU for convert" } else { "the CPU" };
        let _ = writeln!(out, "  --device auto is {auto}");
        let io = if self.direct { "cufile: GPUDirect Storage" } else { "pread: by way of the host's memory" };
        let _ = writeln!(out, "  --io auto is {io}");
        let tile = gib(self.limits.tile_bytes);
        let _ = writeln!(out, "  limits: a read of {}, a tile of {tile}", gib(self.limits.output_bytes));
        let advice = self.advice();
        if !advice.is_empty() {
            out += &title("To get more");
            advice.iter().for_each(|line| out += &format!("  {line}\n"));
        }
        out
    }
}

impl Facts {
    fn codec_text(&self, codec: &dyn Codec) -> String {
        let (decodes, encodes) = tiffjet_cuda::routes(codec.name());
        let (write, encodes) = match writes(codec) {
            true => ("yes", self.here(encodes)),
            false => ("no", "no"),
        };
        format!("  {:12} {:>9}  {:18} {write:>3}  {encodes}\n", codec.name(), "yes", self.here(decodes))
    }

    /// What does the work on the GPU of this machine: the cores, where a library is missing.
    fn here(&self, by: By) -> &'static str {
        match by {
            By::Library(name) if self.usable() && self.lacks(name) => "cores",
            By::Library(name) => name,
            By::Kernels => "kernels",
            By::Host => "cores",
        }
    }

    fn lacks(&self, name: &str) -> bool {
        self.libraries.iter().any(|library| library.name == name && library.problem.is_some())
    }
}

/// Name of the processor.
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The version of the NVIDIA driver, as the kernel has it.
fn driver() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    driver_version(text.lines().next()?)
}

/// `580.159.04` out of a line that also tells who built it.
fn driver_version(line: &str) -> Option<String> {
    let is_version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    line.split_whitespace().find(is_version).map(str::to_owned)
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

/// What does the work on a GPU: `none` for the host's codec.
fn by(by: By) -> Option<&'static str> {
    match by {
        By::Kernels => Some("kernels"),
        By::Library(library) => Some(library),
        By::Host => None,
    }
}

fn codec_json(codec: &dyn Codec) -> Value {
    let (decodes, encodes) = tiffjet_cuda::routes(codec.name());
    json!({
        "name": codec.name(),
        "tags": codec.compression(),
        "read": {"cpu": true, "gpu": by(decodes)},
        "write": {"cpu": writes(codec), "gpu": by(encodes)},
    })
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
    let state = match &device.unusable {
        None => tinted("usable", Tint::Good),
        Some(why) => format!("{}: {why}", tinted("can't be used", Tint::Bad)),
    };
    let what = format!("{}, compute capability {major}.{minor}, {}", device.name, gib(device.memory));
    format!("  cuda:{:<3} {what}, {state}\n", device.ordinal)
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
            // What is to be said of a version comes behind it.
            let (version, more) = version.split_once(", ").unwrap_or((version, ""));
            let more = if more.is_empty() { String::new() } else { format!("; {more}") };
            let found = tinted("found", Tint::Good);
            format!("  {name} {version}: {found}, {}{more}\n      enables {enables}\n", path.display())
        }
        (_, problem) => {
            // What is not there is told by its name; what is there and can't be used, by why.
            let why =
                problem.as_deref().filter(|why| !why.contains(hint)).map_or(String::new(), |why| format!(", {why}"));
            format!("  {name}: {}{why}\n      would enable {enables}\n      {hint}\n", tinted("missing", Tint::Bad))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_its_version() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder@)";
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023";
        assert_eq!(driver_version(open).as_deref(), Some("580.159.04"));
        assert_eq!(driver_version(closed).as_deref(), Some("535.129.03"));
        assert_eq!(driver_version("NVRM version:"), None);
    }
}
