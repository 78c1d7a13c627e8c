//! The README names the verbs that there are.

use std::collections::BTreeSet;
use std::process::Command;

const README: &str = include_str!("../../../README.md");

#[test]
fn the_table_of_verbs_is_true() {
    let table = README.split_once("| verb | does |").expect("the table of verbs").1;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let documented: BTreeSet<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();

    let output = Command::new(env!("CARGO_BIN_EXE_tiffjet")).arg("--help").output().expect("tiffjet runs");
    let help = String::from_utf8(output.stdout).expect("text");
    let commands = help.split_once("Commands:\n").expect("a list of verbs").1;
    let lines = commands.lines().take_while(|line| !line.is_empty());
    let built: BTreeSet<&str> =
        lines.filter_map(|line| line.split_whitespace().next()).filter(|v| *v != "help").collect();

    assert_eq!(documented, built);
}
