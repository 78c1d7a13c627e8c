//! Files that try to hurt: the reader answers each in time, refuses what must be refused and reads what is valid.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tiffjet::source::MemorySource;
use tiffjet::{Image, OpenOptions, Result, Window};
use tiffjet_testkit::hostile::{Case, Expect, cases};

/// For one file; most take less than a millisecond.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// What is wrong with the answer.
fn judge(case: &Case) -> Option<String> {
    match (case.expect, catch_unwind(AssertUnwindSafe(|| read(case)))) {
        (_, Err(_)) => Some("panicked".into()),
        (Expect::Refused, Ok(Ok(()))) => Some("was read".into()),
        (Expect::Reads, Ok(Err(error))) => Some(format!("was refused: {error}")),
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
