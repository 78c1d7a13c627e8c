//! Runs the program on files that the tests make.

#![allow(dead_code)] // each test file uses its part

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A directory that goes away with the test.
pub struct Bench {
    directory: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Names of all files, hidden ones too.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Runs a command line; words are split at spaces.
    pub fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    pub fn run_with_input(&self, line: &str, input: &[u8]) -> Output {
        let mut child =
            self.command(line).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiffjet"));
        command.args(line.split(' ')).current_dir(self.directory.path());
        command
    }

    /// The output of a command that works.
    pub fn text(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.text(line)).unwrap()
    }
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A command that fails as all do: one line, exit 1.
#[track_caller]
pub fn assert_fails(output: &Output, with: &str) {
    let line = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.starts_with("tiffjet: ") && line.contains(with), "{line}");
}
