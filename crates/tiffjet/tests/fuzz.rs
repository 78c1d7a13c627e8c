//! Every target of fuzzing for a moment: its seeds as they are, then spoilt. `make fuzz` takes its time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use tiffjet_testkit::fuzz::{Mutator, Target, find, seeds, targets};

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

/// A frame of a few bytes with a window of terabytes: in one go it was decoded, block by block it was refused.
#[rustfmt::skip]
const ZSTD_WINDOW_LARGER_THAN_ALLOWED: &[u8] = &[
    0x00, 0x20, 0x00, 0x02, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa5,
    0x0d, 0x02, 0x00, 0x32, 0x46, 0x0f, 0x15, 0xc0, 0xa5, 0xd0, 0x01, 0x46, 0xe0, 0x7f, 0x07, 0x1a, 0xff, 0xff,
    0xbf, 0xe9, 0xff, 0xff, 0xeb, 0xdd, 0x52, 0x26, 0x29, 0x65, 0x43, 0x57, 0x75, 0x9b, 0x5b, 0x6c, 0xb1, 0x13,
    0x88, 0xfa, 0x58, 0x54, 0x2f, 0x68, 0xee, 0xef, 0x4c, 0x84, 0xf3, 0x01, 0x65, 0x22, 0xdd, 0xe3, 0x93, 0xf0,
    0x9c, 0xba, 0x26, 0x52, 0xa6, 0x2b, 0x70, 0x5f, 0x7c, 0xae, 0x5a, 0x0c, 0x02, 0x00,
];

/// A frame that says it holds 256 bytes and holds one more: block by block it was decoded, in one go it was refused.
fn zstd_with_more_than_it_says() -> Vec<u8> {
    let tile = [0x00, 0x0f, 0x00, 0x0f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00];
    let header = [0x28, 0xb5, 0x2f, 0xfd, 0x60, 0x00, 0x00];
    let (whole, last) = ([&[0x00, 0x08, 0x00][..], &[0x5c; 256]].concat(), [0x09, 0x00, 0x00, 0x07]);
    [&tile[..], &header, &whole, &last].concat()
}

/// What fuzzing has found: the target, a name, the input.
fn found() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    vec![
        ("codec_zstd", "window larger than allowed", ZSTD_WINDOW_LARGER_THAN_ALLOWED.to_vec()),
        ("codec_zstd", "more than it says", zstd_with_more_than_it_says()),
    ]
}

#[test]
fn what_was_found_is_found_no_more() {
    for (target, name, bytes) in found() {
        feed(&find(target).unwrap(), &bytes, name);
    }
}
