//! `tiffjet validate`: whether a file keeps the rules.

use std::fmt::Write;
use std::process::ExitCode;

use serde_json::{Value, json};
use tiffjet::validate::{Finding, Verdict};

use crate::Outcome;
use crate::args::Input;
use crate::output::print;
use crate::terminal::{Tint, Waiting, tinted};

/// Say whether a file is a valid TIFF, GeoTIFF and COG, and what breaks the rules where
///
/// Looks at the header, the georeference and the place of every tile; pixels are not decoded (`tiffjet checksum` does that).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tiffjet validate cog.tif
  tiffjet validate cog.tif --json")]
pub struct Validate {
    /// The file to read: a path, an address (http://, https://, s3://, gs://, az://), or - for standard input
    file: Input,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

impl Validate {
    pub fn run(&self) -> Outcome {
        let verdict = match self.file.open() {
            Ok(image) => {
                let _waiting = Waiting::on(format!("looking at every tile of {}", self.file.name()));
                Verdict::of(&image)?
            }
            Err(error) => Verdict::unreadable(error)?,
        };
        let name = self.file.name();
        print(&if self.json { format!("{}\n", json(&name, &verdict)) } else { text(&name, &verdict) })?;
        Ok(if verdict.is_valid() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// All findings with the rules they are about.
fn findings(verdict: &Verdict) -> impl Iterator<Item = (&'static str, &Finding)> {
    let geotiff = verdict.geotiff.iter().flatten();
    let of = |rules: &'static str| move |finding| (rules, finding);
    verdict.tiff.iter().map(of("tiff")).chain(geotiff.map(of("geotiff"))).chain(verdict.cog.iter().map(of("cog")))
}

fn json(name: &str, verdict: &Verdict) -> Value {
    let list = |severity: &str| -> Vec<Value> {
        findings(verdict)
            .filter(|(_, finding)| finding.severity.name() == severity)
            .map(|(rules, finding)| json!({"rules": rules, "offset": finding.offset, "what": finding.what}))
            .collect()
    };
    json!({
        "file": name,
        "valid": verdict.is_valid(),
        "tiff": verdict.is_tiff(),
        "geotiff": verdict.is_geotiff(),
        "cog": verdict.is_cog(),
        "claims_cog": verdict.claims_cog,
        "errors": list("error"),
        "warnings": list("warning"),
    })
}

fn text(name: &str, verdict: &Verdict) -> String {
    let mut out = String::new();
    let yes = |flag: bool| if flag { "yes" } else { "no" };
    // Writing to a string can't fail.
    let valid = if verdict.is_valid() { tinted("valid", Tint::Good) } else { tinted("not valid", Tint::Bad) };
    let _ = writeln!(out, "{name}: {valid}");
    let _ = writeln!(out, "  TIFF     {}", yes(verdict.is_tiff()));
    let _ = writeln!(out, "  GeoTIFF  {}", yes(verdict.is_geotiff()));
    let claim = if verdict.claims_cog { " (the file declares itself one)" } else { "" };
    let _ = writeln!(out, "  COG      {}{claim}", yes(verdict.is_cog()));
    for (rules, finding) in findings(verdict) {
        let _ = writeln!(out, "{}: {rules}: byte {}: {}", finding.severity.name(), finding.offset, finding.what);
    }
    out
}
