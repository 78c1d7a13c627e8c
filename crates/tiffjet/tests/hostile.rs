//! Files that try to hurt: the reader answers each in time, refuses what must be refused and reads what is valid.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tiffjet::source::MemorySource;
use tiffjet::{Error, Image, Limits, OpenOptions, Result, Window};
use tiffjet_testkit::hostile::{Case, Expect, cases};
use tiffjet_testkit::{matrix, naive};

/// For one file; most take less than a millisecond. That ten seconds are enough is judged on the program by its own test:
/// here other tests run beside it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads all levels of the first and of the last page.
fn read(case: &Case) -> Result<()> {
    let source = Arc::new(MemorySource::named(&case.name, case.bytes.clone()));
    let first = Image::from_source(source.clone(), &OpenOptions::default())?;
    read_levels(&first)?;
    if first.pages() > 1 {
        let options = OpenOptions { page: first.pages() - 1, ..OpenOptions::default() };
        read_levels(&Image::from_source(source, &options)?)?;
    }
    Ok(())
}

fn read_levels(image: &Image) -> Result<()> {
    for level in 0..image.levels().len() {
        image.read(&Window { level, ..Window::default() })?;
    }
    Ok(())
}

/// Where a file must be read and the naive decoder knows its codec, the pixels are the same.
fn same_pixels(case: &Case) -> bool {
    let Ok(levels) = naive::decode(&case.bytes) else { return true };
    let source = Arc::new(MemorySource::named(&case.name, case.bytes.clone()));
    let image = Image::from_source(source, &OpenOptions::default()).expect("it was opened before");
    let tensor = image.read(&Window::default()).expect("it was read before");
    tensor.bytes() == Some(&levels[0].bytes[..])
}

/// What is wrong with the answer.
fn judge(case: &Case) -> Option<String> {
    match (case.expect, catch_unwind(AssertUnwindSafe(|| read(case)))) {
        (_, Err(_)) => Some("panicked".into()),
        (Expect::Refused | Expect::RefusedTile, Ok(Ok(()))) => Some("was read".into()),
        (Expect::RefusedTile, Ok(Err(error))) if !matches!(error, Error::Tile { .. }) => {
            Some(format!("an error that names no tile: {error}"))
        }
        (Expect::Reads, Ok(Err(error))) => Some(format!("was refused: {error}")),
        (Expect::Reads, Ok(Ok(()))) if !same_pixels(case) => Some("other pixels than the naive decoder gives".into()),
        (_, Ok(Err(error))) if error.name() != case.name => Some(format!("an error without its file: {error}")),
        _ => None,
    }
}

#[test]
fn every_file_is_answered_as_it_should_be() {
    let (sender, verdicts) = mpsc::channel();
    let (names, worker) = mpsc::channel();
    std::thread::spawn(move || {
        for case in cases() {
            let _ = names.send(case.name.clone());
            let _ = sender.send(judge(&case));
        }
    });
    let mut wrong = Vec::new();
    for name in worker {
        match verdicts.recv_timeout(PATIENCE) {
            Ok(None) => {}
            Ok(Some(what)) => wrong.push(format!("{name}: {what}")),
            Err(_) => panic!("{name} took more than {PATIENCE:?}; before it: {wrong:#?}"),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Numbers without any order, the same in every run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    /// Spoils a few bytes, most of them in the directories, with values that mean something somewhere.
    fn spoil(&mut self, file: &mut [u8]) {
        for _ in 0..1 + self.below(4) {
            let end = if self.below(4) > 0 { file.len().min(400) } else { file.len() };
            let at = self.below(end);
            file[at] = match self.below(4) {
                0 => [0, 1, 2, 3, 4, 8, 16, 0x7f, 0x80, 0xff][self.below(10)],
                1 => file[at] ^ 1 << self.below(8),
                2 => file[self.below(file.len())],
                _ => self.below(256) as u8,
            };
        }
    }
}

/// Files with a few wrong bytes are read or refused, whatever the bytes are.
#[test]
fn spoilt_files_do_not_panic() {
    const ROUNDS: usize = 40;
    let limits = Limits { tile_bytes: 1 << 22, output_bytes: 1 << 22, ..Limits::default() };
    let options = OpenOptions { limits, ..OpenOptions::default() };
    let mut random = Random(0x5eed);
    let mut answers = [0; 2];
    for case in matrix::oddities().chain(matrix::grid().step_by(97)) {
        for round in 0..ROUNDS {
            let mut file = case.file.clone();
            random.spoil(&mut file);
            let read = || -> Result<()> {
                let image = Image::from_source(Arc::new(MemorySource::new(file.clone())), &options)?;
                image.geo();
                read_levels(&image)?;
                image.read_mask(&Window::default())?;
                Ok(())
            };
            match catch_unwind(AssertUnwindSafe(read)) {
                Ok(answer) => answers[usize::from(answer.is_ok())] += 1,
                Err(_) => panic!("{}, round {round}: panicked", case.name),
            }
        }
    }
    // Neither all refused nor all read: the bytes that were spoilt matter, and not too much.
    assert!(answers.iter().all(|n| *n > 1000), "{answers:?}");
}
