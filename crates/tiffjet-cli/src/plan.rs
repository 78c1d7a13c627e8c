//! `tiffjet plan`: what a read would do.

use std::io::Write;

use crate::Outcome;
use crate::args::Pixels;

/// Print what a read would do: byte ranges, tiles, routes
#[derive(clap::Args)]
pub struct Plan {
    #[command(flatten)]
    pixels: Pixels,
}

impl Plan {
    pub fn run(&self) -> Outcome {
        let image = tiffjet::open(&self.pixels.file)?;
        let plan = image.plan(&self.pixels.window())?;
        write!(std::io::stdout().lock(), "{plan}")?;
        Ok(())
    }
}
