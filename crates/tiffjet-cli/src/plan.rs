//! `tiffjet plan`: what a read would do.

use std::process::ExitCode;

use serde_json::{Value, json};
use tiffjet::ReadPlan;
use tiffjet::plan::TileRead;

use crate::Outcome;
use crate::args::Pixels;
use crate::output::print;

/// Print what a read would do: byte ranges, tiles, routes
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tiffjet plan cog.tif --window 0:512,0:512
  tiffjet plan cog.tif --level 1 --json")]
pub struct Plan {
    #[command(flatten)]
    pixels: Pixels,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

impl Plan {
    pub fn run(&self) -> Outcome {
        let image = self.pixels.file.open()?;
        let plan = image.plan(&self.pixels.window())?;
        print(&if self.json { format!("{}\n", json(&plan)) } else { plan.to_string() })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn json(plan: &ReadPlan) -> Value {
    let part = plan.part();
    let codec = plan.layout().codec.name();
    let tile = |tile: &TileRead| {
        json!({
            "tile": tile.tile,
            "row": tile.row,
            "column": tile.col,
            "plane": tile.plane,
            "bytes": (!tile.range.is_empty()).then_some([tile.range.start, tile.range.end]),
            "from": [tile.part.y, tile.part.x],
            "size": [tile.part.height, tile.part.width],
            "to": [tile.at.0, tile.at.1],
        })
    };
    json!({
        "level": plan.level(),
        "rows": [part.y, part.y + part.height],
        "columns": [part.x, part.x + part.width],
        "bands": plan.bands().iter().map(|band| band + 1).collect::<Vec<_>>(),
        "dtype": plan.layout().dtype().name(),
        "compression": codec,
        "bytes_in": plan.input_bytes(),
        "bytes_out": plan.output_bytes(),
        "reads": plan.tiles().iter().map(tile).collect::<Vec<_>>(),
    })
}
