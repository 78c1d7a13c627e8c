//! What the program says of itself: examples that work, completions, JSON of every verb, pages of the reference.

mod common;

use std::path::Path;
use std::process::Command;

use common::Bench;
use tiffjet_testkit::{Pixels, Tiff};

const VERBS: [&str; 10] =
    ["info", "checksum", "convert", "plan", "validate", "preview", "view", "bench", "doctor", "completions"];

/// A folder with the files that examples are about.
fn bench() -> Bench {
    let bench = Bench::new();
    let scene = Tiff::new(1600, 1100).samples(4).tile(256, 256).geo((10.0, 10.0), (5e5, 6e6)).epsg(32633);
    bench.write("scene.tif", &scene.build(&scene.gradient()));
    let dem = Tiff::new(300, 200).float(32).geo((10.0, 10.0), (5e5, 6e6)).epsg(32633).nodata("-9999");
    bench.write(
        "dem.tif",
        &dem.build(&Pixels::from_numbers(dem.shape(), dem.format(), |_, y, x| f64::from(x * y % 97))),
    );
    bench.text("convert scene.tif cog.tif --cog");
    bench
}

fn help(verb: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tiffjet")).args([verb, "--help"]).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// The lines below `Examples:`.
fn examples(help: &str) -> Vec<&str> {
    let below = help.split_once("Examples:\n").expect("examples").1;
    below.lines().take_while(|line| line.starts_with("  tiffjet ")).map(str::trim).collect()
}

#[test]
fn examples_of_every_verb_work() {
    let bench = bench();
    let folder = bench.path("x");
    let path = format!(
        "{}:{}",
        Path::new(env!("CARGO_BIN_EXE_tiffjet")).parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    for verb in VERBS {
        let text = help(verb);
        let lines = examples(&text);
        assert!(!lines.is_empty(), "{verb}");
        for line in lines.iter().filter(|_| verb != "view") {
            let mut shell = Command::new("sh");
            let output =
                shell.args(["-ec", line]).current_dir(folder.parent().unwrap()).env("PATH", &path).output().unwrap();
            assert!(output.status.success(), "{line}: {}", common::stderr(&output));
        }
    }
    for made in ["part.tif", "small.tif", "dem.png", "grey.pgw", "pixels.raw", "tiffjet.fish"] {
        assert!(bench.path(made).exists(), "{made}");
    }
}

#[test]
fn every_verb_speaks_json() {
    let bench = bench();
    for line in [
        "info scene.tif --json",
        "checksum dem.tif --json",
        "plan cog.tif --window 0:10,0:10 --json",
        "validate cog.tif --json",
        "convert dem.tif out.tif --json",
        "preview dem.tif out.png --json",
        "bench dem.tif --device cpu --seconds 0.01 --json",
        "doctor --json",
    ] {
        let text = bench.text(line);
        assert_eq!(text.lines().count(), 1, "{line}");
        assert!(serde_json::from_str::<serde_json::Value>(&text).unwrap().is_object(), "{line}");
    }
    let plan = bench.json("plan cog.tif --window 0:10,0:10 --json");
    assert_eq!(plan["reads"].as_array().unwrap().len(), 1);
    assert_eq!((&plan["rows"], &plan["bands"]), (&serde_json::json!([0, 10]), &serde_json::json!([1, 2, 3, 4])));
    let speed = bench.json("bench dem.tif --device cpu --seconds 0.01 --json");
    assert!(speed["read_seconds"].as_f64() > Some(0.0) && speed["limits"].as_array().unwrap().len() == 3, "{speed}");
}

#[test]
fn nothing_but_results_goes_to_a_pipe() {
    let bench = bench();
    for line in ["convert scene.tif out.tif --compress deflate", "checksum scene.tif", "doctor", "--help"] {
        let output = bench.run(line);
        assert!(output.stderr.is_empty(), "{line}: {}", common::stderr(&output));
        assert!(!output.stdout.contains(&0x1b), "{line}");
    }
}

/// `script` (of util-linux) makes a terminal; where it is missing there is none to look at.
#[test]
fn a_terminal_gets_colours_unless_it_wants_none() {
    let run = |name: &str, value: &str| {
        let line = format!("{} doctor", env!("CARGO_BIN_EXE_tiffjet"));
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR").env(name, value);
        command.stdin(std::process::Stdio::null()).output()
    };
    let Ok(coloured) = run("TERM", "xterm") else { return };
    assert!(coloured.status.success() && coloured.stdout.contains(&0x1b));
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        assert!(!run(name, value).unwrap().stdout.contains(&0x1b), "{name}");
    }
}

#[test]
fn shells_complete_verbs_and_options() {
    for (shell, sign) in [("bash", "complete -F"), ("zsh", "#compdef tiffjet"), ("fish", "complete -c tiffjet")] {
        let output = Command::new(env!("CARGO_BIN_EXE_tiffjet")).args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains(sign) && script.contains("max-z-error"), "{shell}");
        VERBS.iter().for_each(|verb| assert!(script.contains(verb), "{shell}: {verb}"));
    }
}

/// docs/reference/cli.md is what `--help` says; TIFFJET_BLESS=1 writes it anew.
#[test]
fn the_reference_is_true() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let mut page =
        "# The command line\n\nWhat `tiffjet VERB --help` says, verb by verb. A test keeps this page true.\n"
            .to_owned();
    for verb in VERBS {
        let text: Vec<String> = help(verb).lines().map(|line| line.trim_end().to_owned()).collect();
        page += &format!("\n## `{verb}`\n\n```text\n{}\n```\n", text.join("\n").trim_end());
    }
    if std::env::var_os("TIFFJET_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/reference/cli.md is not what --help says: run this test with TIFFJET_BLESS=1");
}
