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
fn an_overview_of_another_type_is_no_level() {
    let overview = Tiff::new(16, 16).bits(16).overview();
    let pixels = overview.gradient();
    let image = Tiff::new(32, 32).directory(overview, &pixels);
    let file = image.build(&image.gradient());
    let run = checksum(&file, &[]);
    assert!(run.stdout.contains(r#""overviews":[]"#), "{run:?}");
    let run = checksum(&file, &["--level", "1"]);
    assert!(run.code == Some(1) && run.stderr.contains("level 1"), "{run:?}");
}

#[test]
fn pixels_out_of_proportion_are_refused_by_size() {
    let case = hostile::cases().into_iter().find(|case| case.name == "image-2^20-of-one-sparse-tile").unwrap();
    let run = checksum(&case.bytes, &[]);
    assert!(run.code.is_some_and(|code| code != 0), "{run:?}");
    let sizes = [case.bytes.len() as u64, 1 << 40, (64 << 30) + 1024 * case.bytes.len() as u64];
    assert!(sizes.iter().all(|size| run.stderr.contains(&size.to_string())), "{run:?}");
}
