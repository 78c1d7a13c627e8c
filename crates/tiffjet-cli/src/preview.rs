//! `tiffjet preview`: a small picture of an image.

pub mod colour;
mod ramp;
mod relief;
pub mod shrink;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use tiffjet::{Error, Image, Result, Wanted};

use crate::Outcome;
use crate::args::Input;
use crate::output::{NewFile, print};
use crate::terminal::Progress;
use colour::{Look, Picture, Scheme};
use ramp::Ramp;
use relief::Sun;
use shrink::Shrink;

/// Write a small PNG picture: from the best overview, stretched, invalid pixels transparent
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tiffjet preview scene.tif scene.png --bands 4,3,2
  tiffjet preview dem.tif dem.png --size 800 --colours terrain --hillshade
  tiffjet preview dem.tif grey.png --range 0,3000 --world")]
pub struct Preview {
    /// The file to read: a path, an address (http://, https://, s3://, gs://, az://), or - for standard input
    file: Input,
    /// The PNG to write
    #[arg(value_parser = parse_picture)]
    out: PathBuf,
    /// Pixels of the longer side, at most
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    size: u32,
    #[command(flatten)]
    looks: Looks,
    /// Light and shadow, for one band of heights
    #[arg(long)]
    hillshade: bool,
    /// Where the light comes from: degrees from north and above the horizon
    #[arg(long, default_value = "315,45", value_name = "A,H", value_parser = parse_pair, requires = "hillshade")]
    sun: (f64, f64),
    /// How much higher heights are taken
    #[arg(long, default_value_t = 1.0, value_name = "F", requires = "hillshade")]
    exaggerate: f64,
    /// Also write a world file beside the PNG: OUT.pgw
    #[arg(long)]
    world: bool,
    /// Print one line of JSON of what was written
    #[arg(long)]
    json: bool,
}

/// How values become colours.
#[derive(clap::Args)]
pub struct Looks {
    /// One band for grey, three for red, green and blue; counted from 1
    #[arg(long, value_name = "1,2,3", value_parser = parse_bands)]
    bands: Option<Bands>,
    /// Values from black to white
    #[arg(long, value_name = "LOW,HIGH", value_parser = parse_pair, allow_hyphen_values = true)]
    range: Option<(f64, f64)>,
    /// The same by per cents of the valid pixels
    #[arg(long, default_value = "2,98", value_name = "LOW,HIGH", value_parser = parse_percentiles)]
    percentiles: (f64, f64),
    /// Colours of one band
    #[arg(long, default_value = "grey", value_name = "C")]
    colours: Ramp,
}

impl Looks {
    pub fn look(&self, sun: Option<Sun>) -> Look {
        Look {
            bands: self.bands.as_ref().map(|bands| bands.0.clone()),
            range: self.range,
            percentiles: self.percentiles,
            ramp: self.colours,
            sun,
        }
    }
}

/// Bands of a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bands(Vec<u16>);

fn parse_bands(text: &str) -> std::result::Result<Bands, String> {
    let bands: Option<Vec<u16>> = text.split(',').map(|band| band.trim().parse().ok()).collect();
    match bands {
        Some(bands) if matches!(bands.len(), 1 | 3) && !bands.contains(&0) => Ok(Bands(bands)),
        _ => Err("a picture takes one band or three, counted from 1".into()),
    }
}

/// A name that promises another kind of picture would be a lie.
fn parse_picture(text: &str) -> std::result::Result<PathBuf, String> {
    const OTHERS: [&str; 8] = ["jpg", "jpeg", "tif", "tiff", "webp", "gif", "bmp", "svg"];
    let path = PathBuf::from(text);
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    match ending.filter(|ending| OTHERS.contains(&ending.as_str())) {
        Some(ending) => Err(format!("the picture is a PNG, not .{ending}")),
        None => Ok(path),
    }
}

fn parse_pair(text: &str) -> std::result::Result<(f64, f64), String> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|v| v.is_finite());
    let pair = text.split_once(',').and_then(|(a, b)| Some((number(a)?, number(b)?)));
    pair.ok_or_else(|| "two numbers with a comma between them".into())
}

fn parse_percentiles(text: &str) -> std::result::Result<(f64, f64), String> {
    let pair = parse_pair(text).ok().filter(|(low, high)| *low >= 0.0 && low < high && *high <= 100.0);
    pair.ok_or_else(|| "two numbers from 0 to 100, the smaller one first, for example 2,98".into())
}

impl Preview {
    pub fn run(&self) -> Outcome {
        let image = self.file.open()?;
        let (picture, scheme, level) = self.picture(&image)?;
        let world = if self.world { Some(world(&image, &picture)?) } else { None };
        let out = NewFile::create(&self.out)?;
        encode(&picture, BufWriter::new(out.file())).map_err(|error| out.failed(error))?;
        out.finish()?;
        if let Some(text) = world {
            let out = NewFile::create(&self.out.with_extension("pgw"))?;
            out.file().write_all(text.as_bytes()).map_err(|error| out.failed(error))?;
            out.finish()?;
        }
        if self.json {
            let told = json!({
                "file": self.out,
                "width": picture.width,
                "height": picture.height,
                "level": level,
                "bands": scheme.bands(),
                "legend": scheme.legend(),
            });
            print(&format!("{told}\n"))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn picture(&self, image: &Image) -> Result<(Picture, Scheme, usize)> {
        let (azimuth, altitude) = self.sun;
        let sun = Sun { azimuth, altitude, exaggeration: self.exaggerate, pixel: (1.0, 1.0) };
        let mut look = self.looks.look(self.hillshade.then_some(sun));
        let level = image.level_for(Wanted::Size(self.size));
        let scheme = Scheme::choose(image, &look)?;
        let shrink = Shrink::plan(image, level, self.size, scheme.bands(), scheme.is_palette());
        look.sun = look.sun.map(|sun| sun.over(image, shrink.width, shrink.height));
        let mut scheme = Scheme::choose(image, &look)?;
        let progress = Progress::new(u64::from(shrink.rows.end) * u64::from(shrink.columns.end));
        let small = shrink.run(image, |pixels| progress.advance(pixels))?;
        scheme.fit(&small);
        Ok((scheme.paint(small), scheme, level))
    }
}

/// The lines of a world file: pixels to map, of pixel centres.
fn world(image: &Image, picture: &Picture) -> Result<String> {
    let Some([a, b, c, d, e, f]) = image.geo().transform else {
        return Err(Error::invalid(image.name(), "the image has no transform, so there is nothing for a world file"));
    };
    let [_, rows, columns] = image.shape().map(|n| n as f64);
    let (across, down) = (columns / f64::from(picture.width), rows / f64::from(picture.height));
    let (a, d, b, e) = (a * across, d * across, b * down, e * down);
    Ok(format!("{a}\n{d}\n{b}\n{e}\n{}\n{}\n", c + (a + b) / 2.0, f + (d + e) / 2.0))
}

/// Writes a picture as PNG.
pub fn encode(picture: &Picture, out: impl Write) -> io::Result<()> {
    let mut encoder = png::Encoder::new(out, picture.width, picture.height);
    encoder.set_color(match picture.samples {
        1 => png::ColorType::Grayscale,
        2 => png::ColorType::GrayscaleAlpha,
        3 => png::ColorType::Rgb,
        _ => png::ColorType::Rgba,
    });
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(io::Error::other)?;
    writer.write_image_data(&picture.bytes).map_err(io::Error::other)?;
    writer.finish().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_takes_one_band_or_three() {
        assert_eq!(parse_bands("3, 2,1"), Ok(Bands(vec![3, 2, 1])));
        assert_eq!(parse_bands("4"), Ok(Bands(vec![4])));
        for bad in ["", "1,2", "0", "1,2,3,4", "x"] {
            assert!(parse_bands(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn percentiles_are_two_and_in_order() {
        assert_eq!(parse_percentiles("2, 98"), Ok((2.0, 98.0)));
        for bad in ["", "2", "98,2", "-1,50", "0,101", "nan,2"] {
            assert!(parse_percentiles(bad).is_err(), "{bad}");
        }
    }
}
