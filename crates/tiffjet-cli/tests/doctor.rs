//! `tiffjet doctor`.

use std::process::Command;

#[test]
fn doctor_says_what_there_is_and_what_is_missing() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tiffjet")).arg("doctor").args(arguments).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run(&[]);
    assert!(text.contains("--device auto is ") && text.contains("zstd"));
    // Standard output is a pipe: no colours.
    assert!(!text.contains('\x1b'), "{text}");
    let value: serde_json::Value = serde_json::from_str(&run(&["--json"])).unwrap();
    let driver = &value["libraries"][0];
    assert_eq!(driver["name"], "CUDA driver");
    // Found, or with the way to get it.
    assert!(driver["found"] == true || driver["install"].is_string(), "{driver}");
    for known in ["cpu", "cores", "memory", "cache", "io"] {
        assert!(!value[known].is_null(), "{known}");
    }
    let codec = |name: &str| value["codecs"].as_array().unwrap().iter().find(|c| c["name"] == name).unwrap().clone();
    assert_eq!(codec("zstd")["read"], serde_json::json!({"cpu": true, "gpu": "kernels"}));
    assert_eq!(codec("jxl")["write"], serde_json::json!({"cpu": false, "gpu": null}));
    assert!(value["limits"]["tile_bytes"].as_u64() > Some(0));
    assert!(value["device"] == "cpu" || value["devices"].as_array().is_some_and(|devices| !devices.is_empty()));
}
