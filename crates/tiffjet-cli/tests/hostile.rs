//! The program survives files that try to hurt it: an exit code of its own, in time, in bounded memory.
//!
//! With `TIFFJET_CORPUS` set to a folder, every file in it is tried as well.

mod measured;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use measured::tiffjet;
use tiffjet_testkit::hostile::{self, Expect};

/// For one file.
const PATIENCE: Duration = Duration::from_secs(10);
/// Memory that a file may take beside what the program takes to do nothing.
const MEMORY: u64 = 512 << 20;
/// Codes above it are those of a panic, a signal or a shell.
const LAST_CODE: i32 = 63;

/// A valid image of 2^40 pixels, none of them stored: to hash them takes its time, in little memory.
const TEBIBYTE: &str = "image-2^20-of-one-sparse-tile";

/// A file and whether it may be read, where that is known.
struct Trial {
    path: PathBuf,
    expect: Expect,
}

/// What is wrong with the answer.
fn judge(trial: &Trial, idle: u64) -> Option<String> {
    let run = tiffjet(&[Path::new("checksum"), Path::new("--json"), &trial.path], PATIENCE);
    let complaint = run.stderr.lines().last().unwrap_or_default();
    let wrong = match (run.code, trial.expect) {
        _ if run.late => format!("took more than {PATIENCE:?}"),
        (None, _) => format!("ended by signal {:?}: {complaint}", run.signal),
        (Some(code), _) if code > LAST_CODE => format!("ended with {code}: {complaint}"),
        _ if run.peak > idle + MEMORY => format!("took {} MiB", run.peak >> 20),
        (Some(0), Expect::Refused) => "was read".into(),
        (Some(1..), Expect::Reads) => format!("was refused: {complaint}"),
        (Some(1..), _) if complaint.is_empty() => "was refused without a word".into(),
        _ => return None,
    };
    Some(format!("{}: {wrong}", trial.path.display()))
}

/// Judges all, as many at once as there are cores.
fn judge_all(trials: &[Trial]) {
    let idle = tiffjet(&["--version"], PATIENCE).peak;
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(trial) = trials.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(verdict) = judge(trial, idle) {
                        wrong.lock().unwrap().push(verdict);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {} files:\n{}", wrong.len(), trials.len(), wrong.join("\n"));
}

#[test]
fn made_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |(number, case): (usize, hostile::Case)| {
        let path = folder.path().join(format!("{number}-{}.tif", case.name.replace('^', "to")));
        std::fs::write(&path, &case.bytes).unwrap();
        Trial { path, expect: case.expect }
    };
    let cases = hostile::cases().into_iter().filter(|case| case.name != TEBIBYTE);
    let trials: Vec<Trial> = cases.enumerate().map(write).collect();
    judge_all(&trials);
}

#[test]
fn files_of_a_corpus() {
    let Some(corpus) = std::env::var_os("TIFFJET_CORPUS") else { return };
    let mut paths = Vec::new();
    collect(Path::new(&corpus), &mut paths);
    assert!(!paths.is_empty(), "no files in TIFFJET_CORPUS");
    let trials: Vec<Trial> = paths.into_iter().map(|path| Trial { path, expect: Expect::Either }).collect();
    judge_all(&trials);
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, paths);
        } else {
            paths.push(path);
        }
    }
}
