//! `tiffjet completions`: what a shell must know to complete words.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::output::print;
use crate::{Cli, Outcome};

/// Print completions for a shell
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tiffjet completions bash > tiffjet.bash
  tiffjet completions zsh > _tiffjet
  tiffjet completions fish > tiffjet.fish")]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub fn run(&self) -> Outcome {
        let mut script = Vec::new();
        generate(self.shell, &mut Cli::command(), "tiffjet", &mut script);
        print(&String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}
