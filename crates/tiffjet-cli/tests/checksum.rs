//! `tiffjet checksum` says what it hashed, and refuses what nobody can wait for.

mod measured;

use std::time::Duration;

use measured::tiffjet;
use tiffjet_testkit::hostile;

const PATIENCE: Duration = Duration::from_secs(10);

fn checksum(file: &[u8], arguments: &[&str]) -> measured::Run {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image.tif");
    std::fs::write(&path, file).unwrap();
    tiffjet(&[&["checksum", "--json", path.to_str().unwrap()], arguments].concat(), PATIENCE)
}

#[test]
fn pixels_out_of_proportion_are_refused_by_size() {
    let case = hostile::cases().into_iter().find(|case| case.name == "image-2^20-of-one-sparse-tile").unwrap();
    let run = checksum(&case.bytes, &[]);
    assert!(run.code.is_some_and(|code| code != 0), "{run:?}");
    let sizes = [case.bytes.len() as u64, 1 << 40, (64 << 30) + 1024 * case.bytes.len() as u64];
    assert!(sizes.iter().all(|size| run.stderr.contains(&size.to_string())), "{run:?}");
}
