//! `tiffjet VERB`: one file per verb.

mod args;
mod checksum;
mod plan;

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
    Checksum(checksum::Checksum),
    Plan(plan::Plan),
}

/// Why a verb fails: one line for the user.
type Outcome = Result<(), Box<dyn std::error::Error>>;

#[allow(clippy::print_stderr)] // the one line that says why
fn main() -> ExitCode {
    let outcome = match Cli::parse().verb {
        Verb::Checksum(verb) => verb.run(),
        Verb::Plan(verb) => verb.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tiffjet: {error}");
            ExitCode::FAILURE
        }
    }
}
