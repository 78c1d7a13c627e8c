//! Many pixels to few, a block of the image at a time.

use std::ops::Range;

use tiffjet::geo::Nodata;
use tiffjet::{DType, Image, Layout, Result, Tensor, Window};

use crate::pieces::in_proportion;
use crate::values;

/// Bytes of pixels in memory at once, as far as the file's tiles allow.
const BLOCK: u64 = 64 << 20;

/// Which pixels become which.
pub struct Shrink {
    pub level: usize,
    /// The part of the level.
    pub rows: Range<u32>,
    pub columns: Range<u32>,
    pub bands: Vec<u16>,
    /// Pixels are picked, not averaged: values are names of colours.
    pub pick: bool,
    /// Of the picture; not more than the part has.
    pub width: u32,
    pub height: u32,
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
    /// A whole level, to a picture that fits into a square.
    pub fn plan(image: &Image, level: usize, size: u32, bands: &[u16], pick: bool) -> Self {
        let layout = &image.levels()[level].layout;
        let (width, height) = fit(layout.width, layout.height, size);
        let (rows, columns) = (0..layout.height, 0..layout.width);
        Self { level, rows, columns, bands: bands.to_vec(), pick, width, height }
    }

    /// Reads the part block by block, and tells how many rows of how many columns are done.
    pub fn run(&self, image: &Image, mut done: impl FnMut(u64)) -> Result<Small> {
        let layout = &image.level(self.level)?.layout;
        in_proportion(image, self.level, [self.bands.len(), self.rows.len(), self.columns.len()])?;
        let mut sums = Sums::new(self, image);
        for block in blocks(layout, &self.rows, &self.columns, self.bands.len()) {
            done(block.rows.len() as u64 * block.columns.len() as u64);
            if !sums.wants(&block) {
                continue;
            }
            let (rows, cols) = (Some(block.rows.clone()), Some(block.columns.clone()));
            sums.add(&block, image, &Window { level: self.level, rows, cols, bands: Some(self.bands.clone()) })?;
        }
        Ok(sums.done())
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

/// Where the pixels along one side of the image go in the picture. The image may be millions of times its size.
struct Side {
    /// The first pixel of each place, and the end.
    starts: Vec<u32>,
    /// Only the pixel in the middle of each place goes there.
    pick: bool,
}

impl Side {
    fn new(pixels: &Range<u32>, small: u32, pick: bool) -> Self {
        let length = u64::from(pixels.end - pixels.start);
        let start = |place: u32| pixels.start + (u64::from(place) * length).div_ceil(u64::from(small)) as u32;
        Self { starts: (0..=small).map(start).collect(), pick }
    }

    /// The place that a pixel belongs to.
    fn find(&self, pixel: u32) -> usize {
        self.starts.partition_point(|&start| start <= pixel).saturating_sub(1)
    }

    /// The place that a pixel goes to, where it goes anywhere; `near` is one at or before it and moves along.
    fn place(&self, pixel: u32, near: &mut usize) -> Option<usize> {
        while self.starts[*near + 1] <= pixel {
            *near += 1;
        }
        (!self.pick || pixel == self.middle(*near)).then_some(*near)
    }

    fn middle(&self, place: usize) -> u32 {
        let (first, end) = (self.starts[place], self.starts[place + 1]);
        first + (end - 1 - first) / 2
    }

    /// The places that some pixels go to, and how many go to each.
    fn tally(&self, pixels: &Range<u32>) -> Vec<(usize, u32)> {
        let places = self.find(pixels.start)..self.starts.len() - 1;
        let places = places.take_while(|&place| self.starts[place] < pixels.end);
        let count = |place: usize| match self.pick {
            true => u32::from(pixels.contains(&self.middle(place))),
            false => self.starts[place + 1].min(pixels.end) - self.starts[place].max(pixels.start),
        };
        places.map(|place| (place, count(place))).filter(|&(_, count)| count > 0).collect()
    }
}

/// A part of a level.
struct Block {
    rows: Range<u32>,
    columns: Range<u32>,
}

/// Cuts a part of a level into blocks of whole tiles that fit in memory.
fn blocks(
    layout: &Layout,
    rows: &Range<u32>,
    columns: &Range<u32>,
    bands: usize,
) -> impl Iterator<Item = Block> + use<> {
    let value_bytes = (bands * layout.dtype().size()) as u64;
    let fit = u32::try_from(BLOCK / value_bytes).unwrap_or(u32::MAX).max(1);
    let (tile_width, tile_height) = match layout.rows_are_bytes() && !layout.tiled {
        true => (1, 1),
        false => (layout.format.width.min(layout.width), layout.format.height.min(layout.height)),
    };
    let whole = |pixels: u32, tile: u32, side: u32| (pixels / tile).max(1).saturating_mul(tile).min(side);
    let across = whole(fit / tile_height, tile_width, layout.width);
    let down = whole(fit / across, tile_height, layout.height);
    let (rows, columns) = (rows.clone(), columns.clone());
    (rows.start / down * down..rows.end).step_by(down as usize).flat_map(move |y| {
        let (rows, columns) = (rows.clone(), columns.clone());
        (columns.start / across * across..columns.end).step_by(across as usize).map(move |x| Block {
            rows: y.max(rows.start)..y.saturating_add(down).min(rows.end),
            columns: x.max(columns.start)..x.saturating_add(across).min(columns.end),
        })
    })
}

/// What has been added up so far.
struct Sums {
    width: usize,
    height: usize,
    columns: Side,
    rows: Side,
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
        let size = shrink.width as usize * shrink.height as usize;
        let alpha = layout.alpha_band().is_some();
        let masked = level.mask.is_some() || alpha;
        // A mask is stronger than nodata.
        let nodata = |band: &u16| match masked {
            true => None,
            false => image.geo().nodata(usize::from(*band).saturating_sub(1)).map(|n| as_stored(n, layout.dtype())),
        };
        Self {
            width: shrink.width as usize,
            height: shrink.height as usize,
            columns: Side::new(&shrink.columns, shrink.width, shrink.pick),
            rows: Side::new(&shrink.rows, shrink.height, shrink.pick),
            sums: vec![vec![0.0; size]; shrink.bands.len()],
            counts: vec![vec![0; size]; shrink.bands.len()],
            opacity: vec![0; size],
            pixels: vec![0; size],
            nodata: shrink.bands.iter().map(nodata).collect(),
            masked,
        }
    }

    /// Whether some pixel of a block goes anywhere.
    fn wants(&self, block: &Block) -> bool {
        !self.rows.tally(&block.rows).is_empty() && !self.columns.tally(&block.columns).is_empty()
    }

    fn add(&mut self, block: &Block, image: &Image, window: &Window) -> Result<()> {
        if !self.masked {
            let plan = image.plan(window)?;
            if plan.tiles().iter().all(|tile| tile.range.is_empty()) {
                self.add_absent(block, plan.fill(), plan.layout().dtype());
                return Ok(());
            }
        }
        let tensor = image.read(window)?;
        let (top, left) = (block.rows.start, block.columns.start);
        let (mut near_row, first_column) = (self.rows.find(top), self.columns.find(left));
        let mask = if self.masked { Some(image.read_mask(window)?) } else { None };
        let mask = mask.as_ref().and_then(Tensor::bytes);
        let [bands, height, width] = tensor.shape;
        let row_bytes = width * tensor.dtype.size();
        // Whether some band of a pixel of the row is valid.
        let mut valid = vec![false; width];
        for y in 0..height {
            let Some(row) = self.rows.place(top + y as u32, &mut near_row) else { continue };
            let at = row * self.width;
            let mask = mask.map(|mask| &mask[y * width..][..width]);
            valid.fill(false);
            for band in 0..bands {
                let pixels = &tensor.band(band).unwrap_or_default()[y * row_bytes..][..row_bytes];
                self.add_row(band, at, left, pixels, tensor.dtype, mask, &mut valid);
            }
            let mut near = first_column;
            for (x, &valid) in valid.iter().enumerate() {
                let Some(column) = self.columns.place(left + x as u32, &mut near) else { continue };
                let to = at + column;
                self.pixels[to] += 1;
                self.opacity[to] += u64::from(if valid { mask.map_or(255, |mask| mask[x]) } else { 0 });
            }
        }
        Ok(())
    }

    /// Adds a block that is not in the file: all its pixels are the same, so they are counted, not visited.
    fn add_absent(&mut self, block: &Block, fill: &[u8], dtype: DType) {
        let mut value = f64::NAN;
        values::for_each(fill, dtype, |_, number| value = number);
        let rows = self.rows.tally(&block.rows);
        let columns = self.columns.tally(&block.columns);
        let valid: Vec<bool> = self.nodata.iter().map(|&nodata| value.is_finite() && nodata != Some(value)).collect();
        let any = valid.contains(&true);
        for &(row, down) in &rows {
            for &(column, across) in &columns {
                let to = row * self.width + column;
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
        left: u32,
        pixels: &[u8],
        dtype: DType,
        mask: Option<&[u8]>,
        valid: &mut [bool],
    ) {
        let (sums, counts) = (&mut self.sums[band], &mut self.counts[band]);
        let nodata = self.nodata[band];
        let mut near = self.columns.find(left);
        values::for_each(pixels, dtype, |x, value| {
            let Some(column) = self.columns.place(left + x as u32, &mut near) else { return };
            if !value.is_finite() || nodata == Some(value) || mask.is_some_and(|mask| mask[x] == 0) {
                return;
            }
            let to = at + column;
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
            let picked: Vec<(usize, u32)> = (0..small as usize).map(|place| (place, 1)).collect();
            assert_eq!(Side::new(&(0..length), small, true).tally(&(0..length)), picked, "{length} to {small}");
        }
    }

    #[test]
    fn a_part_has_places_of_its_own() {
        let side = Side::new(&(100..110), 5, false);
        assert_eq!(side.tally(&(100..110)), [(0, 2), (1, 2), (2, 2), (3, 2), (4, 2)]);
        assert_eq!(side.tally(&(103..105)), [(1, 1), (2, 1)]);
    }

    #[test]
    fn a_tally_counts_what_pixels_find_one_by_one() {
        for (length, small) in [(10, 10), (10, 3), (1000, 7), (257, 256)] {
            for pick in [false, true] {
                let side = Side::new(&(0..length), small, pick);
                let pixels = length / 5..length - 1;
                let mut counts = vec![0; small as usize];
                let mut near = side.find(pixels.start);
                for pixel in pixels.clone() {
                    side.place(pixel, &mut near).into_iter().for_each(|place| counts[place] += 1);
                }
                let counts: Vec<(usize, u32)> = counts.into_iter().enumerate().filter(|&(_, n)| n > 0).collect();
                assert_eq!(side.tally(&pixels), counts, "{length} to {small}, pick {pick}");
            }
        }
    }
}
