//! `tiffjet plan`: what a read would do.

use std::process::ExitCode;

use crate::Outcome;
use crate::args::Pixels;
use crate::output::print;

/// Print what a read would do: byte ranges, tiles, routes
#[derive(clap::Args)]
pub struct Plan {
    #[command(flatten)]
    pixels: Pixels,
}

impl Plan {
    pub fn run(&self) -> Outcome {
        let image = self.pixels.file.open()?;
        let plan = image.plan(&self.pixels.window())?;
        print(&plan.to_string())?;
        Ok(ExitCode::SUCCESS)
    }
}
