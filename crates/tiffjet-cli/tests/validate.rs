//! `tiffjet validate`.

mod common;

use common::{Bench, assert_fails};
use serde_json::Value;
use tiffjet_testkit::{Next, Tiff, hostile};

fn verdict(bench: &Bench, bytes: &[u8]) -> (i32, Value) {
    bench.write("v.tif", bytes);
    let output = bench.run("validate v.tif --json");
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap())
}

fn cog() -> (Tiff, Vec<u8>) {
    let small = Tiff::new(300, 300).tile(128, 128).overview();
    let image = Tiff::new(600, 600).tile(128, 128).cog();
    let image = image.directory(small.clone(), &small.noise(2));
    let bytes = image.build(&image.noise(1));
    (image, bytes)
}

#[test]
fn good_files_are_valid() {
    let bench = Bench::new();
    let (_, bytes) = cog();
    let (code, found) = verdict(&bench, &bytes);
    assert_eq!(code, 0, "{found}");
    assert_eq!((&found["tiff"], &found["cog"], &found["claims_cog"]), (&true.into(), &true.into(), &true.into()));

    let plain = Tiff::new(600, 600).strips(7).directories_last();
    let (code, found) = verdict(&bench, &plain.build(&plain.gradient()));
    assert_eq!(code, 0, "a TIFF need not be a COG: {found}");
    assert_eq!((&found["tiff"], &found["cog"]), (&true.into(), &false.into()));
    assert!(bench.text("validate v.tif").starts_with("v.tif: valid\n"));
}

#[test]
fn a_broken_leader_and_trailer_are_found_where_they_are() {
    let bench = Bench::new();
    let (_, bytes) = cog();
    // The last tile ends the file with its trailer.
    let mut broken = bytes.clone();
    let at = broken.len() - 4;
    broken[at] ^= 1;
    let (code, found) = verdict(&bench, &broken);
    assert_eq!(code, 1);
    assert_eq!(found["errors"][0]["offset"], at as u64);
    assert_eq!(found["errors"].as_array().unwrap().len(), 1, "{found}");

    let mut broken = bytes.clone();
    let at = bytes.len() - 4 - 128 * 128 - 4;
    broken[at] ^= 1;
    let (code, found) = verdict(&bench, &broken);
    assert_eq!(code, 1);
    assert_eq!(found["errors"][0]["offset"], at as u64);
    assert_eq!(found["errors"][0]["rules"], "cog");
    assert_eq!(found["tiff"], true);
}

#[test]
fn a_cog_that_was_changed_says_so() {
    let bench = Bench::new();
    let (_, mut bytes) = cog();
    let key = b"KNOWN_INCOMPATIBLE_EDITION=NO\n ";
    let at = bytes.windows(key.len()).position(|w| w == key).unwrap();
    bytes[at..at + key.len()].copy_from_slice(b"KNOWN_INCOMPATIBLE_EDITION=YES\n");
    let (code, found) = verdict(&bench, &bytes);
    assert_eq!((code, &found["cog"]), (1, &false.into()));
}

#[test]
fn tiles_past_the_end_and_chains_that_return() {
    let bench = Bench::new();
    let image = Tiff::new(64, 64).strips(8);
    let bytes = image.build(&image.gradient());
    let (code, found) = verdict(&bench, &bytes[..bytes.len() - 1]);
    assert_eq!(code, 1);
    assert!(found["errors"][0]["what"].as_str().unwrap().contains("past the end"));
    assert_eq!(found["errors"][0]["offset"], bytes.len() as u64 - 8 * 64);

    let endless = image.next(Next::Directory(0));
    let (code, found) = verdict(&bench, &endless.build(&endless.gradient()));
    assert_eq!(code, 1, "{found}");
    assert!(found["errors"][0]["what"].as_str().unwrap().contains("returns to byte"));

    let (code, found) = verdict(&bench, b"GIF89a..");
    assert_eq!((code, &found["tiff"]), (1, &false.into()));
}

#[test]
fn a_file_that_is_not_there_is_an_error_of_its_own() {
    assert_fails(&Bench::new().run("validate missing.tif"), "missing.tif: ");
}

/// Whatever a file holds, every verb ends with a word and an exit status.
#[test]
fn hostile_files_end_quietly() {
    let bench = Bench::new();
    for case in hostile::cases() {
        bench.write("h.tif", &case.bytes);
        for line in ["validate h.tif", "info h.tif", "info h.tif --json", "plan h.tif --window 0:1,0:1"] {
            let output = bench.run(line);
            let code = output.status.code();
            assert!(matches!(code, Some(0 | 1)), "{}: {line}: {code:?} {}", case.name, common::stderr(&output));
        }
    }
}
