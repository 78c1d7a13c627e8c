//! What the user may choose of the new file.

use tiffjet::codec::{CODECS, writes};
use tiffjet::{BigTiff, Blocks, DType, Overviews, Prediction, Resampling, WriteOptions};

#[derive(clap::Args)]
pub struct Choices {
    /// Cloud-optimised, with overviews
    #[arg(long)]
    pub cog: bool,
    /// Codec: none, deflate, zstd, lzw, lerc, lerc_zstd, jpeg, webp, …
    #[arg(long, default_value = "zstd", value_name = "C", value_parser = parse_codec)]
    pub compress: String,
    /// How hard the codec tries: 1 to 12 for deflate, 1 to 22 for zstd
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    compression_level: Option<i32>,
    /// Quality of jpeg, webp and jpeg2000, 1 to 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    quality: Option<u8>,
    /// How far LERC may be off
    #[arg(long, default_value_t = 0.0, value_name = "E", value_parser = parse_error)]
    max_z_error: f64,
    /// auto, none, 2 (differences) or 3 (byte planes of floats)
    #[arg(long, default_value = "auto", value_name = "P", value_parser = parse_predictor)]
    predictor: Prediction,
    /// Columns and rows of a tile, a multiple of 16
    #[arg(long, default_value_t = 512, value_name = "N", value_parser = parse_tile)]
    tile: u32,
    /// Strips instead of tiles
    #[arg(long, conflicts_with_all = ["tile", "cog"])]
    strips: bool,
    /// auto, none, or parts of the full size
    #[arg(long, default_value = "auto", value_name = "2,4,8", value_parser = parse_overviews)]
    overviews: Overviews,
    /// How overviews are made: average (nearest for a colour map or single bits), nearest, mode, min, max, bilinear, cubic, rms, gauss
    #[arg(long, value_name = "R", value_parser = parse_resampling)]
    pub resampling: Option<Resampling>,
    /// 64-bit offsets: auto, yes or no
    #[arg(long, default_value = "auto", value_name = "B", value_parser = parse_big)]
    bigtiff: BigTiff,
    /// Value that stands for no data, or none
    #[arg(long, value_name = "V", allow_negative_numbers = true)]
    pub nodata: Option<String>,
    /// Type of the values: uint8, int16, float32, …
    #[arg(long, value_name = "T", value_parser = parse_dtype)]
    pub dtype: Option<DType>,
}

impl Choices {
    /// All that does not depend on the file.
    pub fn apply(&self, options: &mut WriteOptions) {
        options.cog = self.cog;
        options.compression.clone_from(&self.compress);
        options.settings.level = self.compression_level;
        options.settings.quality = self.quality;
        options.settings.max_z_error = self.max_z_error;
        options.predictor = self.predictor;
        options.blocks = match self.strips {
            true => Blocks::Strips { rows: None },
            false => Blocks::Tiles { width: self.tile, height: self.tile },
        };
        options.overviews.clone_from(&self.overviews);
        options.big = self.bigtiff;
    }
}

/// The name of a codec that writes.
pub fn parse_codec(text: &str) -> Result<String, String> {
    let wrapped = ["lerc_deflate", "lerc_zstd"];
    let name = text.to_ascii_lowercase();
    if wrapped.contains(&name.as_str()) || CODECS.iter().any(|codec| codec.name() == name && writes(*codec)) {
        return Ok(name);
    }
    let names = CODECS.iter().filter(|codec| writes(**codec)).map(|codec| codec.name()).chain(wrapped);
    Err(format!("codecs that write are {}", names.collect::<Vec<_>>().join(", ")))
}

fn parse_error(text: &str) -> Result<f64, String> {
    let error = text.parse::<f64>().ok().filter(|e| e.is_finite() && *e >= 0.0);
    error.ok_or_else(|| "a number from 0 on".into())
}

fn parse_predictor(text: &str) -> Result<Prediction, String> {
    match text {
        "auto" => Ok(Prediction::Auto),
        "none" | "1" => Ok(Prediction::None),
        "2" => Ok(Prediction::Horizontal),
        "3" => Ok(Prediction::Float),
        _ => Err("a predictor is auto, none, 2 or 3".into()),
    }
}

fn parse_tile(text: &str) -> Result<u32, String> {
    let size = text.parse::<u32>().ok().filter(|size| *size > 0 && *size <= 1 << 16 && size.is_multiple_of(16));
    size.ok_or_else(|| "a multiple of 16 up to 65536".into())
}

fn parse_overviews(text: &str) -> Result<Overviews, String> {
    match text {
        "auto" => return Ok(Overviews::Auto),
        "none" => return Ok(Overviews::None),
        _ => {}
    }
    let factors: Option<Vec<u32>> = text.split(',').map(|factor| factor.trim().parse().ok()).collect();
    match factors {
        Some(factors) if factors[0] >= 2 && factors.is_sorted_by(|a, b| a < b) => Ok(Overviews::Factors(factors)),
        _ => Err("auto, none, or numbers from 2 on that grow, for example 2,4,8".into()),
    }
}

fn parse_resampling(text: &str) -> Result<Resampling, String> {
    let names: Vec<&str> = Resampling::ALL.iter().map(|r| r.name()).collect();
    Resampling::from_name(text).ok_or_else(|| format!("one of {}", names.join(", ")))
}

fn parse_big(text: &str) -> Result<BigTiff, String> {
    match text {
        "auto" => Ok(BigTiff::Auto),
        "yes" => Ok(BigTiff::Yes),
        "no" => Ok(BigTiff::No),
        _ => Err("auto, yes or no".into()),
    }
}

fn parse_dtype(text: &str) -> Result<DType, String> {
    let names: Vec<&str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
    DType::from_name(text).ok_or_else(|| format!("one of {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_that_make_no_sense_are_refused() {
        for bad in ["", "1,2", "4,2", "2,,4", "2,2"] {
            assert!(parse_overviews(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_overviews("2,4"), Ok(Overviews::Factors(vec![2, 4])));
        for bad in ["0", "17", "-16", "100000"] {
            assert!(parse_tile(bad).is_err(), "{bad}");
        }
        assert!(parse_codec("DEFLATE").is_ok() && parse_codec("zip").is_err() && parse_codec("jxl").is_err());
        assert!(parse_error("nan").is_err() && parse_error("-1").is_err());
    }
}
