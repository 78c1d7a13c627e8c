//! `tiffjet info`: everything known of a file without reading its pixels.

mod facts;
mod text;

use std::process::ExitCode;

use crate::Outcome;
use crate::args::Input;
use crate::output::print;

/// Print everything known without reading pixels
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tiffjet info scene.tif
  tiffjet info scene.tif --json")]
pub struct Info {
    /// The file to read: a path, an address (http://, https://, s3://, gs://, az://), or - for standard input
    file: Input,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

impl Info {
    pub fn run(&self) -> Outcome {
        let facts = facts::facts(&self.file.open()?)?;
        print(&if self.json { format!("{facts}\n") } else { text::text(&facts) })?;
        Ok(ExitCode::SUCCESS)
    }
}
