//! `tiffjet VERB`: one file per verb.

mod args;
mod bench;
mod checksum;
mod completions;
mod convert;
mod doctor;
mod info;
mod output;
mod pieces;
mod plan;
mod preview;
mod terminal;
mod validate;
mod values;
mod view;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// GeoTIFF and COG, straight to and from the GPU.
#[derive(Parser)]
#[command(
    name = "tiffjet",
    version,
    after_help = "Examples:
  tiffjet info scene.tif
  tiffjet convert scene.tif cog.tif --cog
  tiffjet doctor

`tiffjet VERB --help` has examples of each verb."
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Info(info::Info),
    Checksum(checksum::Checksum),
    Convert(Box<convert::Convert>),
    Plan(plan::Plan),
    Validate(validate::Validate),
    Preview(preview::Preview),
    View(view::View),
    Bench(bench::Bench),
    Doctor(doctor::Doctor),
    Completions(completions::Completions),
}

/// How a verb ends; an error is one line for the user.
type Outcome = tiffjet::Result<ExitCode>;

#[allow(clippy::print_stderr)] // the one line that says why
fn main() -> ExitCode {
    let outcome = match Cli::parse().verb {
        Verb::Info(verb) => verb.run(),
        Verb::Checksum(verb) => verb.run(),
        Verb::Convert(verb) => verb.run(),
        Verb::Plan(verb) => verb.run(),
        Verb::Validate(verb) => verb.run(),
        Verb::Preview(verb) => verb.run(),
        Verb::View(verb) => verb.run(),
        Verb::Bench(verb) => verb.run(),
        Verb::Doctor(verb) => verb.run(),
        Verb::Completions(verb) => verb.run(),
    };
    outcome.unwrap_or_else(|error| {
        // An error whose line nobody can read has its exit status left.
        let _ = writeln!(std::io::stderr(), "tiffjet: {}", one_line(&error.to_string()));
        ExitCode::FAILURE
    })
}

/// Names and texts of a file may hold line breaks.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
