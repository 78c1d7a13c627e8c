//! Numbers to colours.

use std::fmt::Write;

use serde_json::{Value, json};
use tiffjet::geo::BandMetadata;
use tiffjet::{DType, Error, Image, Layout, Result};

use super::ramp::Ramp;
use super::relief::Sun;
use super::shrink::Small;

/// What the user wants to see.
#[derive(Debug, Clone)]
pub struct Look {
    /// One band or three; those that the file suggests where none are named.
    pub bands: Option<Vec<u16>>,
    /// Values from black to white; those between the percentiles where none are named.
    pub range: Option<(f64, f64)>,
    /// Per cent of the valid pixels that are no darker than black and no lighter than white.
    pub percentiles: (f64, f64),
    /// Colours of one band.
    pub ramp: Ramp,
    /// Light and shadow on one band of heights.
    pub sun: Option<Sun>,
}

impl Default for Look {
    fn default() -> Self {
        Self { bands: None, range: None, percentiles: (2.0, 98.0), ramp: Ramp::Grey, sun: None }
    }
}

/// Colours of a palette that a legend shows.
const LEGEND: usize = 64;

/// A finished picture.
pub struct Picture {
    pub width: u32,
    pub height: u32,
    /// 1 grey, 2 grey and alpha, 3 colour, 4 colour and alpha.
    pub samples: usize,
    pub bytes: Vec<u8>,
}

/// How bands become colours.
pub struct Scheme {
    bands: Vec<u16>,
    kind: Kind,
    look: Look,
    /// Values of each band from black to white, where they are stretched.
    ranges: Vec<(f64, f64)>,
}

enum Kind {
    /// Colours of each value, alpha last.
    Palette(Vec<[u8; 4]>),
    /// Cyan, magenta, yellow and black, up to this value.
    Inks(f64),
    /// Values are colours: 0 is black and this is full.
    Colours(f64),
    /// The middle of the values is stretched over all colours.
    Stretched { inverted: bool },
    /// One band up to this value.
    Grey { full: f64, inverted: bool },
}

impl Scheme {
    pub fn choose(image: &Image, look: &Look) -> Result<Self> {
        let asked = look.bands.as_deref();
        let layout = &image.levels()[0].layout;
        let palette = palette(image, layout)?;
        let bands = match asked {
            Some(bands) => checked(image, bands)?,
            None if palette.is_some() => vec![1],
            None => default_bands(image, layout),
        };
        let inverted = layout.format.photometric == 0;
        let is_byte = layout.dtype() == DType::UInt8;
        let full = f64::from((1u32 << layout.format.bits.min(8)) - 1);
        // Colours and heights that are asked for are stronger than those of the file.
        let plain = look.ramp == Ramp::Grey && look.range.is_none() && look.sun.is_none();
        let kind = match (palette, bands.len()) {
            (_, 1) if !plain => Kind::Stretched { inverted: false },
            (Some(palette), 1) if bands == [1] => Kind::Palette(palette),
            (_, 4) => Kind::Inks(full),
            (_, 3) if is_byte && asked.is_none() && look.range.is_none() && is_colour(layout) => Kind::Colours(full),
            (_, 1) if is_byte && layout.format.bits < 8 => Kind::Grey { full, inverted },
            _ => Kind::Stretched { inverted: inverted && bands.len() == 1 },
        };
        if bands.len() != 1 && (look.sun.is_some() || look.ramp != Ramp::Grey) {
            let what = "light and colours are for one band: name it with --bands";
            return Err(Error::invalid(image.name(), what));
        }
        Ok(Self { bands, kind, look: look.clone(), ranges: Vec::new() })
    }

    /// Chooses the values from black to white by pixels of the whole image.
    pub fn fit(&mut self, small: &Small) {
        if matches!(self.kind, Kind::Stretched { .. }) {
            let (low, high) = self.look.percentiles;
            let found = |band: &Vec<f64>| self.look.range.unwrap_or_else(|| range(band, low / 100.0, high / 100.0));
            self.ranges = small.bands.iter().map(found).collect();
        }
    }

    /// What values look like.
    pub fn legend(&self) -> Value {
        match &self.kind {
            Kind::Palette(palette) => {
                let entry = |(value, [r, g, b, _]): (usize, &[u8; 4])| json!([value, hex([*r, *g, *b])]);
                let shown = palette.iter().enumerate().filter(|(_, colour)| **colour != [0, 0, 0, 255]);
                json!({"kind": "palette", "entries": shown.take(LEGEND).map(entry).collect::<Vec<_>>()})
            }
            Kind::Inks(_) => json!({"kind": "inks"}),
            Kind::Colours(full) => json!({"kind": "colours", "full": full}),
            Kind::Grey { full, inverted } => {
                let range = if *inverted { (*full, 0.0) } else { (0.0, *full) };
                self.bar(&[range])
            }
            Kind::Stretched { inverted: true } => {
                self.bar(&self.ranges.iter().map(|&(low, high)| (high, low)).collect::<Vec<_>>())
            }
            Kind::Stretched { inverted: false } => self.bar(&self.ranges),
        }
    }

    fn bar(&self, ranges: &[(f64, f64)]) -> Value {
        let bands: Vec<Value> = (self.bands.iter().zip(ranges))
            .map(|(band, (low, high))| json!({"band": band, "low": low, "high": high}))
            .collect();
        let colours: Vec<String> = (0..=16).map(|i| hex(self.look.ramp.colour(f64::from(i) / 16.0))).collect();
        json!({"kind": "ramp", "bands": bands, "colours": colours})
    }

    pub fn bands(&self) -> &[u16] {
        &self.bands
    }

    pub fn is_palette(&self) -> bool {
        matches!(self.kind, Kind::Palette(_))
    }

    /// The colours of a shrunk image.
    pub fn paint(&self, small: Small) -> Picture {
        let (planes, alpha) = match &self.kind {
            Kind::Palette(palette) => expand(palette, &small),
            Kind::Inks(full) => (inks(*full, &small.bands), small.alpha),
            Kind::Colours(full) => {
                (small.bands.iter().map(|band| scaled(band, (0.0, *full), false)).collect(), small.alpha)
            }
            Kind::Grey { full, inverted } => (vec![scaled(&small.bands[0], (0.0, *full), *inverted)], small.alpha),
            Kind::Stretched { inverted } => (self.stretched(&small, *inverted), small.alpha),
        };
        interleave(small.width, small.height, planes, alpha)
    }
}

impl Scheme {
    fn stretched(&self, small: &Small, inverted: bool) -> Vec<Vec<u8>> {
        let scaled = (small.bands.iter().zip(&self.ranges)).map(|(band, range)| scaled(band, *range, inverted));
        let planes: Vec<Vec<u8>> = scaled.collect();
        let [plane] = &planes[..] else { return planes };
        let light = self.look.sun.map(|sun| sun.light(&small.bands[0], small.width as usize));
        match (self.look.ramp, light) {
            (Ramp::Grey, None) => planes,
            (Ramp::Grey, Some(light)) => vec![light.into_iter().map(byte).collect()],
            (ramp, light) => {
                let light = |i: usize| light.as_ref().map_or(1.0, |light| light[i]);
                let colours: Vec<[u8; 3]> = (plane.iter().enumerate())
                    .map(|(i, &v)| ramp.colour(f64::from(v) / 255.0).map(|c| byte(f64::from(c) / 255.0 * light(i))))
                    .collect();
                (0..3).map(|plane| colours.iter().map(|colour| colour[plane]).collect()).collect()
            }
        }
    }
}

fn hex(colour: [u8; 3]) -> String {
    colour.iter().fold("#".to_owned(), |mut text, part| {
        // Writing to a string can't fail.
        let _ = write!(text, "{part:02x}");
        text
    })
}

fn checked(image: &Image, bands: &[u16]) -> Result<Vec<u16>> {
    let have = image.levels()[0].layout.bands;
    match bands.iter().find(|&&band| band == 0 || band > have) {
        Some(band) => Err(Error::out_of_bounds(image.name(), format!("band {band}"), format!("bands 1 to {have}"))),
        None => Ok(bands.to_vec()),
    }
}

/// Red, green, blue, or CIELab and the like, which at least look like it.
fn is_colour(layout: &Layout) -> bool {
    matches!(layout.format.photometric, 2 | 6 | 8..=10)
}

/// Bands that the file names red, green and blue, or the first three, or the first.
fn default_bands(image: &Image, layout: &Layout) -> Vec<u16> {
    if layout.format.photometric == 5 && layout.bands >= 4 {
        return vec![1, 2, 3, 4];
    }
    let metadata = &image.geo().metadata;
    let named = |colour: &str| {
        let is = |band: &&BandMetadata| band.color_interp.as_deref() == Some(colour);
        (0..layout.bands).find(|&band| is(&metadata.band(usize::from(band)))).map(|band| band + 1)
    };
    if let (Some(red), Some(green), Some(blue)) = (named("Red"), named("Green"), named("Blue")) {
        return vec![red, green, blue];
    }
    let alpha = layout.extra_samples.iter().filter(|kind| matches!(kind, 1 | 2)).count();
    if usize::from(layout.bands).saturating_sub(alpha) >= 3 { vec![1, 2, 3] } else { vec![1] }
}

/// The colours of an image whose values are names of colours.
fn palette(image: &Image, layout: &Layout) -> Result<Option<Vec<[u8; 4]>>> {
    if !matches!(layout.dtype(), DType::UInt8 | DType::UInt16) {
        return Ok(None);
    }
    let table = &image.geo().metadata.band(0).color_table;
    if !table.is_empty() {
        return Ok(Some(table.iter().map(|colour| colour.map(|v| v.min(255) as u8)).collect()));
    }
    if layout.format.photometric != 3 {
        return Ok(None);
    }
    let Some(map) = image.colour_map()? else { return Ok(None) };
    // Some writers put values of 8 bits where 16 belong.
    let shift = if map.iter().flatten().all(|&v| v < 256) { 0 } else { 8 };
    Ok(Some(map.iter().map(|&[r, g, b]| [(r >> shift) as u8, (g >> shift) as u8, (b >> shift) as u8, 255]).collect()))
}

fn expand(palette: &[[u8; 4]], small: &Small) -> (Vec<Vec<u8>>, Vec<u8>) {
    let colour = |value: f64| match value.is_nan() {
        true => [0; 4],
        false => palette.get(value as usize).copied().unwrap_or([0, 0, 0, 255]),
    };
    let colours: Vec<[u8; 4]> = small.bands[0].iter().map(|&value| colour(value)).collect();
    let planes = (0..3).map(|i| colours.iter().map(|colour| colour[i]).collect()).collect();
    (planes, colours.iter().zip(&small.alpha).map(|(colour, &alpha)| colour[3].min(alpha)).collect())
}

/// Light that is left when the inks have taken theirs.
fn inks(full: f64, bands: &[Vec<f64>]) -> Vec<Vec<u8>> {
    let left = |ink: f64| 1.0 - (ink / full).clamp(0.0, 1.0);
    let black = &bands[3];
    bands[..3].iter().map(|band| band.iter().zip(black).map(|(&ink, &k)| byte(left(ink) * left(k))).collect()).collect()
}

/// 0 to 1 as a byte; what is not a number is 0.
fn byte(share: f64) -> u8 {
    (share * 255.0).round().clamp(0.0, 255.0) as u8
}

fn scaled(band: &[f64], (low, high): (f64, f64), inverted: bool) -> Vec<u8> {
    let share = |value: f64| match high > low {
        true => (value - low) / (high - low),
        // All valid pixels are the same.
        false => 0.5,
    };
    band.iter().map(|&value| byte(if inverted { 1.0 - share(value) } else { share(value) })).collect()
}

/// Most of the values of a band: between its percentiles, or all of them where those are the same.
fn range(band: &[f64], low: f64, high: f64) -> (f64, f64) {
    let mut values: Vec<f64> = band.iter().copied().filter(|value| !value.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return (0.0, 0.0) };
    let at = |share: f64| values[((last as f64 * share).round() as usize).min(last)];
    let cut = (at(low), at(high));
    if cut.0 < cut.1 { cut } else { (values[0], values[last]) }
}

/// Planes side by side, with alpha where a pixel is not opaque.
fn interleave(width: u32, height: u32, mut planes: Vec<Vec<u8>>, alpha: Vec<u8>) -> Picture {
    if alpha.iter().any(|&a| a != 255) {
        for plane in &mut planes {
            // Nothing shines through from pixels that are not there.
            plane.iter_mut().zip(&alpha).filter(|(_, a)| **a == 0).for_each(|(value, _)| *value = 0);
        }
        planes.push(alpha);
    }
    let size = width as usize * height as usize;
    let bytes = (0..size).flat_map(|i| planes.iter().map(move |plane| plane[i])).collect();
    Picture { width, height, samples: planes.len(), bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_leaves_out_the_ends() {
        let band: Vec<f64> = (0..101).map(f64::from).chain([f64::NAN]).collect();
        assert_eq!(range(&band, 0.02, 0.98), (2.0, 98.0));
        assert_eq!(range(&band, 0.0, 0.5), (0.0, 50.0));
        assert_eq!(scaled(&band, (2.0, 98.0), false)[..3], [0, 0, 0]);
        assert_eq!(scaled(&band, (2.0, 98.0), false)[50], 128);
        // Nearly all the same: the ends count.
        let mut flat = vec![5.0; 100];
        flat.push(9.0);
        assert_eq!(range(&flat, 0.02, 0.98), (5.0, 9.0));
        assert_eq!(range(&[f64::NAN], 0.02, 0.98), (0.0, 0.0));
    }

    #[test]
    fn opaque_pictures_have_no_alpha() {
        assert_eq!(interleave(2, 1, vec![vec![1, 2]], vec![255, 255]).bytes, [1, 2]);
        assert_eq!(interleave(2, 1, vec![vec![1, 2]], vec![255, 0]).bytes, [1, 255, 0, 0]);
    }
}
