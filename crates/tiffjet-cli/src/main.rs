//! `tiffjet VERB`: one file per verb.

mod args;
mod checksum;
mod convert;
mod doctor;
mod info;
mod output;
mod pieces;
mod plan;
mod preview;
mod validate;
mod values;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// GeoTIFF and COG, straight to and from the GPU.
#[derive(Parser)]
#[command(name = "tiffjet", version, about)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Info(info::Info),
    Checksum(checksum::Checksum),
    Convert(Box<convert::Convert>),
    Doctor(doctor::Doctor),
    Plan(plan::Plan),
    Preview(preview::Preview),
    Validate(validate::Validate),
}

/// How a verb ends; an error is one line for the user.
type Outcome = tiffjet::Result<ExitCode>;

#[allow(clippy::print_stderr)] // the one line that says why
fn main() -> ExitCode {
    let outcome = match Cli::parse().verb {
        Verb::Info(verb) => verb.run(),
        Verb::Checksum(verb) => verb.run(),
        Verb::Convert(verb) => verb.run(),
        Verb::Doctor(verb) => verb.run(),
        Verb::Plan(verb) => verb.run(),
        Verb::Preview(verb) => verb.run(),
        Verb::Validate(verb) => verb.run(),
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
