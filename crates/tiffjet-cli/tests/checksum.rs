//! `tiffjet checksum` says what it hashed, and refuses what nobody can wait for.

mod measured;

use std::time::Duration;

use measured::tiffjet;
use tiffjet_testkit::{Tiff, hostile};

const PATIENCE: Duration = Duration::from_secs(10);

fn checksum(file: &[u8], arguments: &[&str]) -> measured::Run {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image.tif");
    std::fs::write(&path, file).unwrap();
    tiffjet(&[&["checksum", "--json", path.to_str().unwrap()], arguments].concat(), PATIENCE)
}

#[test]
fn the_type_is_that_of_the_level() {
    let overview = Tiff::new(16, 16).bits(16).overview();
    let pixels = overview.gradient();
    let image = Tiff::new(32, 32).directory(overview, &pixels);
    let file = image.build(&image.gradient());
    for (level, dtype) in [("0", "uint8"), ("1", "uint16")] {
        let run = checksum(&file, &["--level", level]);
        assert!(run.stdout.contains(&format!(r#""dtype":"{dtype}""#)), "{run:?}");
    }
}

#[test]
fn pixels_out_of_proportion_are_refused_by_size() {
    let case = hostile::cases().into_iter().find(|case| case.name == "image-2^20-of-one-sparse-tile").unwrap();
    let run = checksum(&case.bytes, &[]);
    assert!(run.code.is_some_and(|code| code != 0), "{run:?}");
    let sizes = [case.bytes.len() as u64, 1 << 40, (64 << 30) + 1024 * case.bytes.len() as u64];
    assert!(sizes.iter().all(|size| run.stderr.contains(&size.to_string())), "{run:?}");
}
