//! Many pixels to few, a block of the image at a time.

use tiffjet::geo::Nodata;
use tiffjet::{DType, Image, Layout, Result, Tensor, Window};

use crate::values;

/// Bytes of pixels in memory at once, as far as the file's tiles allow.
const BLOCK: u64 = 64 << 20;

/// Which pixels become which.
pub struct Shrink {
    level: usize,
    bands: Vec<u16>,
    /// Pixels are picked, not averaged: values are names of colours.
    pick: bool,
    width: u32,
    height: u32,
}

/// The pixels of a picture before they get colours.
pub struct Small {
    pub width: u32,
    pub height: u32,
    /// Mean of the valid values of each pixel by band; not a number where there is none.
    pub bands: Vec<Vec<f64>>,
    /// 255 where a pixel is valid, 0 where not, between them where part of it is.
    pub alpha: Vec<u8>,
}

impl Shrink {
    pub fn plan(image: &Image, level: usize, size: u32, bands: &[u16], pick: bool) -> Self {
        let layout = &image.levels()[level].layout;
        let (width, height) = fit(layout.width, layout.height, size);
        Self { level, bands: bands.to_vec(), pick, width, height }
    }

    /// Reads the level block by block.
    pub fn run(&self, image: &Image) -> Result<Small> {
        let layout = &image.level(self.level)?.layout;
        let mut sums = Sums::new(self, image);
        for block in blocks(layout, self.level, &self.bands) {
            if self.pick && !self.wants(layout, &block) {
                continue;
            }
            sums.add(&block, image)?;
        }
        Ok(sums.done())
    }

    /// Whether a picked pixel lies in a block.
    fn wants(&self, layout: &Layout, block: &Window) -> bool {
        let hit = |range: &Option<std::ops::Range<u32>>, length, small| {
            range.clone().is_some_and(|r| r.into_iter().any(|i| picked(i, length, small)))
        };
        hit(&block.rows, layout.height, self.height) && hit(&block.cols, layout.width, self.width)
    }
}

/// The size of a picture that keeps the shape of the image and fits into a square.
fn fit(width: u32, height: u32, size: u32) -> (u32, u32) {
    let longer = u64::from(width.max(height));
    if longer <= u64::from(size) {
        return (width, height);
    }
    let scaled = |side: u32| ((u64::from(side) * u64::from(size) + longer / 2) / longer).max(1) as u32;
    (scaled(width), scaled(height))
}

/// The pixel of the picture that pixel `i` of `length` goes to.
fn place(i: u32, length: u32, small: u32) -> u32 {
    (u64::from(i) * u64::from(small) / u64::from(length)) as u32
}

/// Whether pixel `i` is the one in the middle of its pixel of the picture.
fn picked(i: u32, length: u32, small: u32) -> bool {
    let (length, small) = (u64::from(length), u64::from(small));
    let target = u64::from(i) * small / length;
    // The first and the last source pixel of this pixel of the picture.
    let first = (target * length).div_ceil(small);
    let last = ((target + 1) * length).div_ceil(small) - 1;
    u64::from(i) == first + (last - first) / 2
}

/// Cuts a level into blocks of whole tiles that fit in memory.
fn blocks<'a>(layout: &'a Layout, level: usize, bands: &'a [u16]) -> impl Iterator<Item = Window> + 'a {
    let value_bytes = (bands.len() * layout.dtype().size()) as u64;
    let fit = u32::try_from(BLOCK / value_bytes).unwrap_or(u32::MAX).max(1);
    let (tile_width, tile_height) = match layout.rows_are_bytes() && !layout.tiled {
        true => (1, 1),
        false => (layout.format.width.min(layout.width), layout.format.height.min(layout.height)),
    };
    let whole = |pixels: u32, tile: u32, side: u32| (pixels / tile).max(1).saturating_mul(tile).min(side);
    let across = whole(fit / tile_height, tile_width, layout.width);
    let down = whole(fit / across, tile_height, layout.height);
    (0..layout.height).step_by(down as usize).flat_map(move |y| {
        (0..layout.width).step_by(across as usize).map(move |x| Window {
            level,
            rows: Some(y..y.saturating_add(down).min(layout.height)),
            cols: Some(x..x.saturating_add(across).min(layout.width)),
            bands: Some(bands.to_vec()),
        })
    })
}

/// What has been added up so far.
struct Sums {
    width: usize,
    height: usize,
    /// Pixels that are neither picked nor averaged have no place.
    columns: Vec<Option<u32>>,
    rows: Vec<Option<u32>>,
    sums: Vec<Vec<f64>>,
    counts: Vec<Vec<u64>>,
    /// Alpha of all pixels added up, and how many they are.
    opacity: Vec<u64>,
    pixels: Vec<u64>,
    nodata: Vec<Option<f64>>,
    /// The file has a mask or alpha.
    masked: bool,
}

impl Sums {
    fn new(shrink: &Shrink, image: &Image) -> Self {
        let level = &image.levels()[shrink.level];
        let layout = &level.layout;
        let places = |length: u32, small: u32| {
            let kept = |i: u32| !shrink.pick || picked(i, length, small);
            (0..length).map(|i| kept(i).then(|| place(i, length, small))).collect::<Vec<_>>()
        };
        let size = shrink.width as usize * shrink.height as usize;
        let alpha = layout.extra_samples.iter().any(|kind| matches!(kind, 1 | 2));
        let masked = level.mask.is_some() || alpha;
        // A mask is stronger than nodata.
        let nodata = |band: &u16| match masked {
            true => None,
            false => image.geo().nodata(usize::from(*band).saturating_sub(1)).map(|n| as_stored(n, layout.dtype())),
        };
        Self {
            width: shrink.width as usize,
            height: shrink.height as usize,
            columns: places(layout.width, shrink.width),
            rows: places(layout.height, shrink.height),
            sums: vec![vec![0.0; size]; shrink.bands.len()],
            counts: vec![vec![0; size]; shrink.bands.len()],
            opacity: vec![0; size],
            pixels: vec![0; size],
            nodata: shrink.bands.iter().map(nodata).collect(),
            masked,
        }
    }

    fn add(&mut self, block: &Window, image: &Image) -> Result<()> {
        if !self.masked {
            let plan = image.plan(block)?;
            if plan.tiles().iter().all(|tile| tile.range.is_empty()) {
                self.add_absent(block, plan.fill(), plan.layout().dtype());
                return Ok(());
            }
        }
        let tensor = image.read(block)?;
        let top = block.rows.as_ref().map_or(0, |r| r.start as usize);
        let left = block.cols.as_ref().map_or(0, |r| r.start as usize);
        let mask = if self.masked { Some(image.read_mask(block)?) } else { None };
        let mask = mask.as_ref().and_then(Tensor::bytes);
        let [bands, height, width] = tensor.shape;
        let row_bytes = width * tensor.dtype.size();
        // Whether some band of a pixel of the row is valid.
        let mut valid = vec![false; width];
        for y in 0..height {
            let Some(row) = self.rows[top + y] else { continue };
            let at = row as usize * self.width;
            let mask = mask.map(|mask| &mask[y * width..][..width]);
            valid.fill(false);
            for band in 0..bands {
                let pixels = &tensor.band(band).unwrap_or_default()[y * row_bytes..][..row_bytes];
                self.add_row(band, at, left, pixels, tensor.dtype, mask, &mut valid);
            }
            for (x, &valid) in valid.iter().enumerate() {
                let Some(column) = self.columns[left + x] else { continue };
                let to = at + column as usize;
                self.pixels[to] += 1;
                self.opacity[to] += u64::from(if valid { mask.map_or(255, |mask| mask[x]) } else { 0 });
            }
        }
        Ok(())
    }

    /// Adds a block that is not in the file: all its pixels are the same, so they are counted, not visited.
    fn add_absent(&mut self, block: &Window, fill: &[u8], dtype: DType) {
        let mut value = f64::NAN;
        values::for_each(fill, dtype, |_, number| value = number);
        let rows = tally(&self.rows, block.rows.clone());
        let columns = tally(&self.columns, block.cols.clone());
        let valid: Vec<bool> = self.nodata.iter().map(|&nodata| value.is_finite() && nodata != Some(value)).collect();
        let any = valid.contains(&true);
        for &(row, down) in &rows {
            for &(column, across) in &columns {
                let to = row as usize * self.width + column as usize;
                let count = u64::from(down) * u64::from(across);
                for band in (0..valid.len()).filter(|&band| valid[band]) {
                    self.sums[band][to] += value * count as f64;
                    self.counts[band][to] += count;
                }
                self.pixels[to] += count;
                self.opacity[to] += if any { 255 * count } else { 0 };
            }
        }
    }

    #[allow(clippy::too_many_arguments)] // one row of one band: all of it is needed
    fn add_row(
        &mut self,
        band: usize,
        at: usize,
        left: usize,
        pixels: &[u8],
        dtype: DType,
        mask: Option<&[u8]>,
        valid: &mut [bool],
    ) {
        let (sums, counts) = (&mut self.sums[band], &mut self.counts[band]);
        let nodata = self.nodata[band];
        values::for_each(pixels, dtype, |x, value| {
            let Some(column) = self.columns[left + x] else { return };
            if !value.is_finite() || nodata == Some(value) || mask.is_some_and(|mask| mask[x] == 0) {
                return;
            }
            let to = at + column as usize;
            sums[to] += value;
            counts[to] += 1;
            valid[x] = true;
        });
    }

    fn done(self) -> Small {
        let mean = |(sum, count): (f64, u64)| if count == 0 { f64::NAN } else { sum / count as f64 };
        let bands = self.sums.into_iter().zip(self.counts);
        let opacity = self.opacity.into_iter().zip(self.pixels);
        Small {
            width: self.width as u32,
            height: self.height as u32,
            bands: bands.map(|(sums, counts)| sums.into_iter().zip(counts).map(mean).collect()).collect(),
            alpha: opacity.map(|(sum, count)| (sum / count.max(1)) as u8).collect(),
        }
    }
}

/// How many of some pixels go to each place along a side.
fn tally(places: &[Option<u32>], range: Option<std::ops::Range<u32>>) -> Vec<(u32, u32)> {
    let range = range.map_or(0..places.len(), |r| r.start as usize..r.end as usize);
    let mut out: Vec<(u32, u32)> = Vec::new();
    for &place in places[range].iter().flatten() {
        match out.last_mut() {
            Some((last, count)) if *last == place => *count += 1,
            _ => out.push((place, 1)),
        }
    }
    out
}

/// Nodata as a pixel of the type holds it.
fn as_stored(nodata: Nodata, dtype: DType) -> f64 {
    let mut stored = nodata.as_f64();
    if let Some(bytes) = nodata.bytes(dtype) {
        values::for_each(&bytes, dtype, |_, value| stored = value);
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_keep_the_shape_of_the_image() {
        assert_eq!(fit(4000, 2000, 1000), (1000, 500));
        assert_eq!(fit(300, 200, 1000), (300, 200));
        assert_eq!(fit(100_000, 1, 1000), (1000, 1));
    }

    #[test]
    fn one_pixel_is_picked_for_each_of_the_picture() {
        for (length, small) in [(10, 10), (10, 3), (1000, 7), (257, 256)] {
            let mut hits = vec![0; small as usize];
            for i in (0..length).filter(|&i| picked(i, length, small)) {
                hits[place(i, length, small) as usize] += 1;
            }
            assert!(hits.iter().all(|&n| n == 1), "{length} to {small}: {hits:?}");
        }
    }
}
