//! `tiffjet doctor`.

use std::process::Command;

#[test]
fn doctor_says_what_there_is_and_what_is_missing() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tiffjet")).arg("doctor").args(arguments).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(run(&[]).contains("--device auto is "));
    let value: serde_json::Value = serde_json::from_str(&run(&["--json"])).unwrap();
    let driver = &value["libraries"][0];
    assert_eq!(driver["name"], "CUDA driver");
    // Found, or with the way to get it.
    assert!(driver["found"] == true || driver["install"].is_string(), "{driver}");
    assert!(value["device"] == "cpu" || value["devices"].as_array().is_some_and(|devices| !devices.is_empty()));
}
