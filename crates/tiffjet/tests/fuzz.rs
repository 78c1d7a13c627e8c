//! Every target of fuzzing for a moment: its seeds as they are, then spoilt. `make fuzz` takes its time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use tiffjet_testkit::fuzz::{Mutator, Target, seeds, targets};

/// Spoilt inputs of a target, and the time after which no more are tried.
const ROUNDS: usize = 1500;
const PATIENCE: Duration = Duration::from_secs(3);
/// For one input.
const LONGEST: Duration = Duration::from_secs(10);

/// Tries an input; one that fails or takes too long is kept, to be looked at.
fn feed(target: &Target, bytes: &[u8], what: &str) {
    let begun = Instant::now();
    let failed = catch_unwind(AssertUnwindSafe(|| target.run(bytes))).is_err();
    let taken = begun.elapsed();
    if failed || taken > LONGEST {
        let folder = std::env::temp_dir().join("tiffjet-fuzz");
        let path = folder.join(format!("{}-{what}", target.name).replace(' ', "-"));
        let kept = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, bytes));
        panic!("{}: {what} failed: {failed}, took {taken:?}; kept at {}: {kept:?}", target.name, path.display());
    }
}

#[test]
fn every_target_for_a_moment() {
    for target in targets() {
        let seeds = seeds(target);
        assert!(target.name.ends_with("_none") || !seeds.is_empty(), "{} has no seed", target.name);
        for (number, seed) in seeds.iter().enumerate() {
            feed(target, seed, &format!("seed {number}"));
        }
        let mut mutator = Mutator::new(0x7e57);
        let begun = Instant::now();
        let mut tried = 0;
        while tried < ROUNDS && begun.elapsed() < PATIENCE {
            let (mut bytes, other) = match seeds.len() {
                0 => (vec![0; 64], &[][..]),
                count => (seeds[mutator.below(count)].clone(), &seeds[mutator.below(count)][..]),
            };
            mutator.spoil(&mut bytes, other);
            feed(target, &bytes, &format!("round {tried}"));
            tried += 1;
        }
        assert!(tried > 20, "{}: only {tried} inputs in {PATIENCE:?}", target.name);
    }
}
