//! `tiffjet preview`: a small picture of an image.

mod colour;
mod shrink;

use std::io::BufWriter;
use std::path::PathBuf;
use std::process::ExitCode;

use tiffjet::{Image, Result, Wanted};

use crate::Outcome;
use crate::args::Input;
use crate::output::NewFile;
use colour::{Picture, Scheme};
use shrink::Shrink;

/// Write a small PNG picture: from the best overview, stretched, invalid pixels transparent
#[derive(clap::Args)]
pub struct Preview {
    /// The file to read: a path, an address (http://, https://, s3://, gs://, az://), or - for standard input
    file: Input,
    /// The PNG to write
    out: PathBuf,
    /// Pixels of the longer side, at most
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    size: u32,
    /// One band for grey, three for red, green and blue; counted from 1
    #[arg(long, value_name = "1,2,3", value_parser = parse_bands)]
    bands: Option<Bands>,
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

impl Preview {
    pub fn run(&self) -> Outcome {
        let image = self.file.open()?;
        let picture = self.picture(&image)?;
        let out = NewFile::create(&self.out)?;
        encode(&picture, &out).map_err(|error| out.failed(error))?;
        out.finish()?;
        Ok(ExitCode::SUCCESS)
    }

    fn picture(&self, image: &Image) -> Result<Picture> {
        let scheme = Scheme::choose(image, self.bands.as_ref().map(|bands| &bands.0[..]))?;
        let shrink = Shrink::plan(
            image,
            image.level_for(Wanted::Size(self.size)),
            self.size,
            scheme.bands(),
            scheme.is_palette(),
        );
        Ok(scheme.paint(shrink.run(image)?))
    }
}

fn encode(picture: &Picture, out: &NewFile) -> std::io::Result<()> {
    let mut encoder = png::Encoder::new(BufWriter::new(out.file()), picture.width, picture.height);
    encoder.set_color(match picture.samples {
        1 => png::ColorType::Grayscale,
        2 => png::ColorType::GrayscaleAlpha,
        3 => png::ColorType::Rgb,
        _ => png::ColorType::Rgba,
    });
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(std::io::Error::other)?;
    writer.write_image_data(&picture.bytes).map_err(std::io::Error::other)?;
    writer.finish().map_err(std::io::Error::other)
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
}
