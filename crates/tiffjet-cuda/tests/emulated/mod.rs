//! Kernels built for the host over the emulation of a GPU, under AddressSanitizer and UBSan, as programs that read
//! tiles from their input and give what became of them.
#![allow(dead_code)] // every test uses a part

pub mod encoders;
pub mod streams;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program `kernels/emulate/run_NAME.cpp`.
pub struct Emulated {
    program: PathBuf,
}

/// A compressed tile and the bytes it must give.
pub struct Case {
    pub encoded: Vec<u8>,
    pub size: usize,
}

/// What becomes of a tile, as in `kernels/abi.h`.
pub mod status {
    pub const OK: u32 = 0;
    pub const INPUT: u32 = 1;
    pub const DAMAGED: u32 = 2;
    pub const CHECKSUM: u32 = 3;
    pub const FOREIGN: u32 = 5;
    pub const LONGER: u32 = 6;
}

/// Status (0 is good) and the bytes of the tile.
pub type Outcome = (u32, Vec<u8>);

impl Emulated {
    /// Compiles the program; a C++ compiler is part of what building tiffjet needs.
    pub fn build(name: &str) -> Self {
        let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("emulated-{name}"));
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
        let built = Command::new(&compiler)
            .args(["-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"])
            // Every operation is rounded for itself, as on the device.
            .arg("-ffp-contract=off")
            .args(["-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
            .arg("-I")
            .arg(&kernels)
            .arg(kernels.join("emulate").join(format!("run_{name}.cpp")))
            .arg("-o")
            .arg(&program)
            .output()
            .expect("the C++ compiler runs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Self { program }
    }

    /// Runs the kernel over all cases; `seed` is the order in which lanes run, 0 for one after the other.
    pub fn run(&self, cases: &[Case], seed: u64) -> Vec<Outcome> {
        let mut input = Vec::new();
        input.extend(seed.to_le_bytes());
        input.extend((cases.len() as u32).to_le_bytes());
        for case in cases {
            input.extend((case.encoded.len() as u32).to_le_bytes());
            input.extend((case.size as u32).to_le_bytes());
            input.extend(&case.encoded);
        }
        let output = self.exchange(input);
        let mut rest = &output[..];
        let outcomes = cases
            .iter()
            .map(|case| {
                let (status, after) = rest.split_first_chunk::<4>().expect("a status for every case");
                let (bytes, after) = after.split_at(case.size);
                rest = after;
                (u32::from_le_bytes(*status), bytes.to_vec())
            })
            .collect();
        assert!(rest.is_empty());
        outcomes
    }

    /// Gives the program its input and takes its output.
    pub fn exchange(&self, input: Vec<u8>) -> Vec<u8> {
        let mut child = Command::new(&self.program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("its input is a pipe");
        let feeder = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().expect("its output can be read");
        feeder.join().expect("the feeder ends").expect("all cases are taken");
        assert!(output.status.success(), "the kernel failed: {}", output.status);
        output.stdout
    }
}
