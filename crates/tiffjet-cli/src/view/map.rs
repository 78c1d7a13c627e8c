//! An image as map tiles: at zoom 0 a pixel of a tile is one of the image, at each next one twice as wide.

use std::ops::Range;

use serde_json::{Value, json};
use tiffjet::{DType, Image, Result, Wanted, Window};

use super::http::Status;
use crate::checksum::nodata_json;
use crate::preview::colour::{Look, Scheme};
use crate::preview::encode;
use crate::preview::shrink::Shrink;
use crate::values;

/// Pixels of a side of a tile.
const TILE: u32 = 256;
/// Pixels of the longer side of what a stretch is chosen by.
const SAMPLE: u32 = 1024;
/// Bands whose values are told.
const BANDS: u16 = 64;

/// What the page shows.
pub struct Map {
    image: Image,
    scheme: Scheme,
}

impl Map {
    pub fn new(image: Image, look: &Look) -> Result<Self> {
        let mut scheme = Scheme::choose(&image, look)?;
        let level = image.level_for(Wanted::Size(SAMPLE));
        let shrink = Shrink::plan(&image, level, SAMPLE, scheme.bands(), scheme.is_palette());
        let progress = crate::terminal::Progress::new(u64::from(shrink.rows.end) * u64::from(shrink.columns.end));
        scheme.fit(&shrink.run(&image, |pixels| progress.advance(pixels))?);
        Ok(Self { image, scheme })
    }

    fn size(&self) -> (u32, u32) {
        let layout = &self.image.levels()[0].layout;
        (layout.width, layout.height)
    }

    /// The zoom at which the image is one tile.
    fn last_zoom(&self) -> u32 {
        let (width, height) = self.size();
        width.max(height).div_ceil(TILE).next_power_of_two().trailing_zeros()
    }

    pub fn info(&self) -> Value {
        let (width, height) = self.size();
        let image = &self.image;
        let geo = image.geo();
        let layout = &image.levels()[0].layout;
        json!({
            "name": **image.name(),
            "width": width,
            "height": height,
            "bands": layout.bands,
            "dtype": image.dtype().name(),
            "compression": layout.codec.name(),
            "levels": image.levels().iter().map(|l| [l.layout.width, l.layout.height]).collect::<Vec<_>>(),
            "crs": geo.crs.as_ref().map(|crs| &crs.name),
            "epsg": geo.crs.as_ref().and_then(|crs| crs.epsg),
            "transform": geo.transform,
            "nodata": geo.nodata(0).map(nodata_json),
            "tile": TILE,
            "last_zoom": self.last_zoom(),
            "shown": self.scheme.bands(),
            "legend": self.scheme.legend(),
        })
    }

    /// One tile as PNG.
    pub fn tile(&self, zoom: u32, x: u32, y: u32) -> std::result::Result<Vec<u8>, Status> {
        let shrink = self.shrink(zoom, x, y).ok_or(Status::NotFound)?;
        let small = shrink.run(&self.image, |_| ()).map_err(|_| Status::Failed)?;
        let mut png = Vec::new();
        encode(&self.scheme.paint(small), &mut png).map_err(|_| Status::Failed)?;
        Ok(png)
    }

    /// Which pixels of which level become a tile.
    fn shrink(&self, zoom: u32, x: u32, y: u32) -> Option<Shrink> {
        if zoom > self.last_zoom() {
            return None;
        }
        let (width, height) = self.size();
        let wanted = u64::from(width.max(height)).div_ceil(1 << zoom);
        let level = self.image.level_for(Wanted::Size(u32::try_from(wanted).ok()?));
        let layout = &self.image.levels()[level].layout;
        let (columns, across) = part(zoom, x, width, layout.width)?;
        let (rows, down) = part(zoom, y, height, layout.height)?;
        let (bands, pick) = (self.scheme.bands().to_vec(), self.scheme.is_palette());
        Some(Shrink { level, rows, columns, bands, pick, width: across, height: down })
    }

    /// The values of one pixel, as they are in the file.
    pub fn value(&self, x: u32, y: u32) -> std::result::Result<Value, Status> {
        let (width, height) = self.size();
        if x >= width || y >= height {
            return Err(Status::NotFound);
        }
        let bands = (1..=self.image.levels()[0].layout.bands.min(BANDS)).collect();
        let window = Window { level: 0, rows: Some(y..y + 1), cols: Some(x..x + 1), bands: Some(bands) };
        let failed = |_| Status::Failed;
        let pixels = self.image.read(&window).map_err(failed)?;
        let mask = self.image.read_mask(&window).map_err(failed)?;
        let bytes = pixels.bytes().unwrap_or_default().chunks_exact(pixels.dtype.size().max(1));
        let valid = mask.bytes().and_then(|mask| mask.first()).is_none_or(|&mask| mask != 0);
        let values: Vec<String> = bytes.map(|bytes| shown(bytes, pixels.dtype)).collect();
        Ok(json!({"x": x, "y": y, "values": values, "valid": valid}))
    }
}

/// Pixels of a level that a tile covers along one side, and how many pixels it has there; `None` where it is outside.
fn part(zoom: u32, index: u32, full: u32, level: u32) -> Option<(Range<u32>, u32)> {
    let (full, side) = (u64::from(full), u64::from(TILE) << zoom);
    let start = u64::from(index).checked_mul(side).filter(|start| *start < full)?;
    let end = (start + side).min(full);
    let on_level = |at: u64| (at * u64::from(level) / full) as u32;
    let first = on_level(start).min(level - 1);
    let pixels = first..on_level(end).max(first + 1);
    let count = ((end - start).div_ceil(1 << zoom) as u32).min(pixels.end - pixels.start);
    Some((pixels, count))
}

/// A number as people write it, all of it.
fn shown(bytes: &[u8], dtype: DType) -> String {
    let mut text = String::new();
    match (dtype, bytes.first_chunk()) {
        (DType::Int64, Some(bytes)) => return i64::from_ne_bytes(*bytes).to_string(),
        (DType::UInt64, Some(bytes)) => return u64::from_ne_bytes(*bytes).to_string(),
        _ => {}
    }
    values::for_each(bytes, dtype, |_, value| {
        text = if dtype == DType::Float32 { (value as f32).to_string() } else { value.to_string() };
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_a_side_once() {
        for (full, level, zoom) in [(1000, 1000, 0), (1000, 500, 1), (1001, 251, 2), (5000, 5000, 3), (1, 1, 0)] {
            let mut next = 0;
            for index in 0.. {
                let Some((pixels, count)) = part(zoom, index, full, level) else { break };
                assert_eq!(pixels.start, next);
                assert!((1..=TILE.min(pixels.end - pixels.start)).contains(&count));
                next = pixels.end;
            }
            assert_eq!(next, level, "{full} {level} {zoom}");
        }
        assert_eq!(part(31, u32::MAX, 5, 5), None);
    }

    #[test]
    fn numbers_are_whole() {
        assert_eq!(shown(&u64::MAX.to_ne_bytes(), DType::UInt64), "18446744073709551615");
        assert_eq!(shown(&0.1f32.to_ne_bytes(), DType::Float32), "0.1");
        assert_eq!(shown(&[7], DType::UInt8), "7");
    }
}
