//! Runs the program and measures it.

#![allow(dead_code)] // each test looks at some of the figures
#![allow(unsafe_code)] // wait4 is the one call that tells what a single child used

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How a run of the program ended and what it took.
#[derive(Debug)]
pub struct Run {
    /// Exit code; `None` after a signal.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// It had to be stopped.
    pub late: bool,
    /// Bytes of memory at the most. The system counts the peak of this process too, from which it was started: an
    /// upper bound.
    pub peak: u64,
    /// From start to end.
    pub time: Duration,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

/// Runs `tiffjet` and stops it when it takes longer than `patience`.
#[expect(clippy::zombie_processes)] // `ended` waits for it
pub fn tiffjet<A: AsRef<OsStr>>(arguments: &[A], patience: Duration) -> Run {
    // Files rather than pipes: a full pipe would stop the program.
    let (mut stdout, mut stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    let begun = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tiffjet"))
        .args(arguments)
        .stdout(stdout.try_clone().unwrap())
        .stderr(stderr.try_clone().unwrap())
        .spawn()
        .unwrap();
    let mut late = false;
    let (status, peak) = loop {
        if let Some(ended) = ended(&child) {
            break ended;
        }
        if begun.elapsed() > patience && !late {
            late = true;
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_micros(500));
    };
    Run {
        code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
        late,
        peak,
        time: begun.elapsed(),
        stdout: text(&mut stdout),
        stderr: text(&mut stderr),
    }
}

/// Status and peak memory in bytes of a child that has ended.
fn ended(child: &Child) -> Option<(i32, u64)> {
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    let mut status = 0;
    // SAFETY: a `rusage` is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to locals that outlive the call, and the child is ours and not waited for elsewhere.
    match unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage) } {
        0 => None,
        waited if waited == pid => Some((status, usage.ru_maxrss as u64 * 1024)),
        _ => panic!("wait4: {}", std::io::Error::last_os_error()),
    }
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}
