//! The program survives files that try to hurt it: an exit code of its own, in time, in bounded memory.
//!
//! With `TIFFJET_CORPUS` set to a folder, every file in it is tried as well.

mod measured;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use measured::{Run, tiffjet};
use tiffjet_testkit::hostile::{self, Expect};

/// For one file.
const PATIENCE: Duration = Duration::from_secs(10);
/// Memory that a file may take beside what the program takes to do nothing.
const MEMORY: u64 = 512 << 20;
/// Codes above it are those of a panic, a signal or a shell.
const LAST_CODE: i32 = 63;

/// A file and whether it may be read, where that is known.
struct Trial {
    path: PathBuf,
    expect: Expect,
}

/// Valid, and 2 GiB of pixels are no reason to refuse; but one column of them in tiles takes its time to write.
const TALL: &str = "image-2to31-1-high-in-one-sparse-strip.tif";

/// What the program is asked to do with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Checksum,
    Info,
    Validate,
    Preview,
    Convert,
}

impl Verb {
    fn run(self, file: &Path) -> Run {
        let made = tempfile::tempdir().unwrap();
        let out = |name: &str| made.path().join(name).into_os_string();
        let file = file.as_os_str().to_owned();
        let arguments = match self {
            Self::Checksum => vec!["checksum".into(), "--json".into(), file],
            Self::Info => vec!["info".into(), "--json".into(), file],
            Self::Validate => vec!["validate".into(), file],
            Self::Preview => vec!["preview".into(), file, out("small.png")],
            Self::Convert => vec!["convert".into(), file, out("new.tif")],
        };
        tiffjet(&arguments, PATIENCE)
    }

    /// What to expect of a file: only those that hash its pixels say whether they can all be read.
    fn expects(self, pixels: Expect) -> Expect {
        if self == Self::Checksum { pixels } else { Expect::Either }
    }
}

/// What is wrong with the answer.
fn judge(trial: &Trial, verb: Verb, idle: u64) -> Option<String> {
    let run = verb.run(&trial.path);
    let complaint = run.stderr.lines().last().unwrap_or_default();
    let wrong = match (run.code, verb.expects(trial.expect)) {
        _ if run.late => format!("took more than {PATIENCE:?}"),
        (None, _) => format!("ended by signal {:?}: {complaint}", run.signal),
        (Some(code), _) if code > LAST_CODE => format!("ended with {code}: {complaint}"),
        _ if run.peak > idle + MEMORY => format!("took {} MiB", run.peak >> 20),
        (Some(0), Expect::Refused | Expect::RefusedTile) => "was read".into(),
        (Some(1..), Expect::Reads) => format!("was refused: {complaint}"),
        (Some(1..), _) if complaint.is_empty() && run.stdout.is_empty() => "was refused without a word".into(),
        _ => return None,
    };
    Some(format!("{verb:?} {}: {wrong}", trial.path.display()))
}

/// Judges all, as many at once as there are cores.
fn judge_all(trials: &[Trial], verbs: &[Verb]) {
    let idle = tiffjet(&["--version"], PATIENCE).peak;
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(trial) = trials.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let tall = trial.path.to_string_lossy().ends_with(TALL);
                    let verbs = verbs.iter().filter(|&&verb| !(tall && verb == Verb::Convert));
                    let verdicts = verbs.filter_map(|&verb| judge(trial, verb, idle)).collect::<Vec<_>>();
                    wrong.lock().unwrap().extend(verdicts);
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
    let trials: Vec<Trial> = hostile::cases().into_iter().enumerate().map(write).collect();
    judge_all(&trials, &[Verb::Checksum, Verb::Info, Verb::Validate, Verb::Preview, Verb::Convert]);
}

#[test]
fn files_of_a_corpus() {
    let Some(corpus) = std::env::var_os("TIFFJET_CORPUS") else { return };
    let mut paths = Vec::new();
    collect(Path::new(&corpus), &mut paths);
    assert!(!paths.is_empty(), "no files in TIFFJET_CORPUS");
    let trials: Vec<Trial> = paths.into_iter().map(|path| Trial { path, expect: Expect::Either }).collect();
    judge_all(&trials, &[Verb::Checksum]);
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
