//! Which tiles, which bytes of them, and where their pixels go.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Cause, Error, Result};
use crate::layout::Layout;

/// What is asked of an image. The default is all of it at full size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Window {
    /// Overview level, 0 is full size.
    pub level: usize,
    /// Rows of that level.
    pub rows: Option<Range<u32>>,
    /// Columns of that level.
    pub cols: Option<Range<u32>>,
    /// Bands, counted from 1 as GDAL does, in the order they are wanted.
    pub bands: Option<Vec<u16>>,
}

impl Window {
    /// Bands, rows and columns of the result, when it is inside the image.
    pub fn shape(&self, name: &Arc<str>, layout: &Layout) -> Result<[usize; 3]> {
        let part = part(name, layout, self)?;
        Ok([bands(name, layout, self)?.len(), part.height as usize, part.width as usize])
    }
}

/// A window that may hang over the edges of the image, or lie beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Overview level, 0 is full size.
    pub level: usize,
    /// First row, counted from that of the image.
    pub y: i64,
    /// First column.
    pub x: i64,
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
    /// As those of a [`Window`].
    pub bands: Option<Vec<u16>>,
}

/// The part of a frame's rows or columns that is in the image.
fn inside(first: i64, count: u32, size: u32) -> Range<u32> {
    let clip = |v: i64| v.clamp(0, i64::from(size)) as u32;
    clip(first)..clip(first.saturating_add(i64::from(count)))
}

/// A rectangle of pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// First row.
    pub y: u32,
    /// First column.
    pub x: u32,
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
}

/// One tile, or some rows of an uncompressed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TileRead {
    /// Place in the tile arrays.
    pub tile: u64,
    /// Tile row.
    pub row: u32,
    /// Tile column.
    pub col: u32,
    /// Plane, 0 when all bands stand in one tile.
    pub plane: u16,
    /// Bytes in the file; empty for a tile that is not there.
    pub range: Range<u64>,
    /// Row of the tile where `range` begins: 0 unless the tile is uncompressed.
    pub first_row: u32,
    /// Rows of the tile in `range`.
    pub rows: u32,
    /// Which pixels of the tile are wanted.
    pub part: Part,
    /// Row and column in the window where they go.
    pub at: (u32, u32),
}

/// All that must happen to fill a window. Only [`ReadPlan::new`] makes one: backends rely on tiles that do not overlap.
#[derive(Debug, Clone)]
pub struct ReadPlan {
    /// Overview level.
    pub(crate) level: usize,
    /// Of that level.
    pub(crate) layout: Arc<Layout>,
    /// Which pixels.
    pub(crate) part: Part,
    /// Bands, counted from 0.
    pub(crate) bands: Vec<u16>,
    /// The tiles, in order of the image.
    pub(crate) tiles: Vec<TileRead>,
    /// One value of the dtype, for tiles that are not in the file.
    pub(crate) fill: Vec<u8>,
    /// Rows and columns of the result.
    pub(crate) size: (u32, u32),
    /// One value of the dtype, for pixels of the result that no tile covers.
    pub(crate) pad: Option<Vec<u8>>,
}

/// Uncompressed tiles are read in pieces of about this size, so that they stay in the cache of a core.
const PIECE: u64 = 256 << 10;

impl ReadPlan {
    /// Plans a window of a level. `locate` tells where a tile stands in the file.
    pub fn new(
        name: &Arc<str>,
        layout: &Arc<Layout>,
        window: &Window,
        fill: Vec<u8>,
        mut locate: impl FnMut(u64) -> Result<Range<u64>>,
    ) -> Result<Self> {
        let part = part(name, layout, window)?;
        let bands = bands(name, layout, window)?;
        let mut plan = Self::empty(layout, window.level, part, bands, fill);
        let planes: Vec<u16> = if layout.planar { plan.bands.clone() } else { vec![0] };
        let mut seen = vec![false; usize::from(layout.planes())];
        for plane in planes {
            // A band that is wanted twice is read once and placed twice.
            if std::mem::replace(&mut seen[usize::from(plane)], true) {
                continue;
            }
            plan.add_plane(name, plane, &mut locate)?;
        }
        Ok(plan)
    }

    fn empty(layout: &Arc<Layout>, level: usize, part: Part, bands: Vec<u16>, fill: Vec<u8>) -> Self {
        let size = (part.height, part.width);
        Self { level, layout: layout.clone(), part, bands, tiles: Vec::new(), fill, size, pad: None }
    }

    /// Plans a window that may hang over the edges of the image; `pad`, one value, stands where it does.
    pub fn framed(
        name: &Arc<str>,
        layout: &Arc<Layout>,
        frame: &Frame,
        fill: Vec<u8>,
        pad: Vec<u8>,
        locate: impl FnMut(u64) -> Result<Range<u64>>,
    ) -> Result<Self> {
        let size = (frame.height, frame.width);
        if size.0 == 0 || size.1 == 0 {
            return Err(Error::invalid(name, format!("the window of {} rows, {} columns is empty", size.0, size.1)));
        }
        let (rows, cols) = (inside(frame.y, size.0, layout.height), inside(frame.x, size.1, layout.width));
        let window = Window { level: frame.level, rows: None, cols: None, bands: frame.bands.clone() };
        let mut plan = if rows.is_empty() || cols.is_empty() {
            let part = Part { y: 0, x: 0, height: 0, width: 0 };
            Self::empty(layout, frame.level, part, bands(name, layout, &window)?, fill)
        } else {
            let window = Window { rows: Some(rows.clone()), cols: Some(cols.clone()), ..window };
            Self::new(name, layout, &window, fill, locate)?
        };
        if (plan.part.height, plan.part.width) != size {
            for tile in &mut plan.tiles {
                // What is inside begins no further from the frame's corner than the frame is wide.
                tile.at.0 += (i64::from(rows.start) - frame.y) as u32;
                tile.at.1 += (i64::from(cols.start) - frame.x) as u32;
            }
            plan.size = size;
            plan.pad = Some(pad);
        }
        Ok(plan)
    }

    /// Overview level.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Of that level.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Which pixels.
    pub fn part(&self) -> Part {
        self.part
    }

    /// Bands, counted from 0.
    pub fn bands(&self) -> &[u16] {
        &self.bands
    }

    /// The tiles, in order of the image.
    pub fn tiles(&self) -> &[TileRead] {
        &self.tiles
    }

    /// One value of the dtype, for tiles that are not in the file.
    pub fn fill(&self) -> &[u8] {
        &self.fill
    }

    /// One value of the dtype, for pixels of the result that no tile covers; `None` where tiles cover all.
    pub fn pad(&self) -> Option<&[u8]> {
        self.pad.as_deref()
    }

    /// Shape of the result.
    pub fn shape(&self) -> [usize; 3] {
        [self.bands.len(), self.size.0 as usize, self.size.1 as usize]
    }

    /// Bytes of the result; `None` when no machine could hold it.
    pub fn output_bytes(&self) -> Option<usize> {
        self.shape().iter().try_fold(self.layout.dtype().size(), |a, &n| a.checked_mul(n))
    }

    /// Bytes read from the file.
    pub fn input_bytes(&self) -> u64 {
        self.tiles.iter().map(|t| t.range.end - t.range.start).sum()
    }

    /// What a codec's refusal of one of the tiles means for the file of this name.
    pub fn failure(&self, name: &Arc<str>, tile: &TileRead, cause: Cause) -> Error {
        let name = name.clone();
        match cause {
            Cause::Unsupported(feature) => Error::Unsupported { name, feature, hint: String::new() },
            source => Error::Tile {
                name,
                level: self.level,
                row: tile.row,
                col: tile.col,
                codec: self.layout.codec.name(),
                source,
            },
        }
    }

    /// Plans all pixels and bands of a tile of this plan, whatever it wants of it.
    pub(crate) fn whole_tile(&self, tile: &TileRead) -> Self {
        let layout = &self.layout;
        let (height, width) = layout.size_inside(tile.row, tile.col);
        let part = Part { y: tile.row * layout.format.height, x: tile.col * layout.format.width, height, width };
        let bands = if layout.planar { vec![tile.plane] } else { (0..layout.bands).collect() };
        let mut plan = Self::empty(layout, self.level, part, bands, self.fill.clone());
        plan.tiles.push(TileRead { part: Part { y: 0, x: 0, height, width }, at: (0, 0), ..tile.clone() });
        plan
    }

    /// Bytes that [`Self::whole_tile`] gives. Saturates.
    pub(crate) fn whole_tile_bytes(&self, tile: &TileRead) -> usize {
        let (height, width) = self.layout.size_inside(tile.row, tile.col);
        [height as usize, width as usize, usize::from(self.layout.format.samples)]
            .into_iter()
            .fold(self.layout.dtype().size(), usize::saturating_mul)
    }

    fn add_plane(
        &mut self,
        name: &Arc<str>,
        plane: u16,
        locate: &mut impl FnMut(u64) -> Result<Range<u64>>,
    ) -> Result<()> {
        let layout = self.layout.clone();
        let (tile_w, tile_h) = (layout.format.width, layout.format.height);
        let Part { y, x, height, width } = self.part;
        for row in y / tile_h..(y + height).div_ceil(tile_h) {
            for col in x / tile_w..(x + width).div_ceil(tile_w) {
                let tile = (u64::from(plane) * u64::from(layout.down) + u64::from(row)) * u64::from(layout.across)
                    + u64::from(col);
                let (top, left) = (row * tile_h, col * tile_w);
                // The part of this tile inside the window, seen from the tile; no tile reaches 2^32 within the image.
                let first_y = y.saturating_sub(top);
                let first_x = x.saturating_sub(left);
                let part = Part {
                    y: first_y,
                    x: first_x,
                    height: (y + height - top).min(layout.rows_in_tile(row)) - first_y,
                    width: (x + width - left).min(tile_w) - first_x,
                };
                let at = (top + first_y - y, left + first_x - x);
                let range = locate(tile)?;
                let read =
                    TileRead { tile, row, col, plane, range, first_row: 0, rows: layout.rows_in_tile(row), part, at };
                self.add_tile(name, &layout, read)?;
            }
        }
        Ok(())
    }

    /// Adds a tile; an uncompressed one in pieces of whole rows, and only the rows that are wanted.
    fn add_tile(&mut self, name: &Arc<str>, layout: &Layout, read: TileRead) -> Result<()> {
        if !layout.rows_are_bytes() || read.range.is_empty() {
            self.tiles.push(read);
            return Ok(());
        }
        let row_bytes = layout.decoded_bytes(1);
        let step = u32::try_from((PIECE / row_bytes).max(1)).unwrap_or(u32::MAX);
        let end = read.part.y + read.part.height;
        // Said here, not by the codec: it would need memory for the whole of a tile that may have any size.
        let (stored, needed) = (read.range.end - read.range.start, row_bytes.saturating_mul(u64::from(end)));
        if stored < needed {
            let (level, row, col, codec) = (self.level, read.row, read.col, layout.codec.name());
            let source = Cause::damaged(format!("{stored} bytes where {end} rows take {needed}"));
            return Err(Error::Tile { name: name.clone(), level, row, col, codec, source });
        }
        let mut y = read.part.y;
        while y < end {
            let rows = step.min(end - y);
            let start = read.range.start + u64::from(y) * row_bytes;
            self.tiles.push(TileRead {
                range: start..start + u64::from(rows) * row_bytes,
                first_row: y,
                rows,
                part: Part { y, height: rows, ..read.part },
                at: (read.at.0 + (y - read.part.y), read.at.1),
                ..read
            });
            y += rows;
        }
        Ok(())
    }
}

fn part(name: &Arc<str>, layout: &Layout, window: &Window) -> Result<Part> {
    let rows = window.rows.clone().unwrap_or(0..layout.height);
    let cols = window.cols.clone().unwrap_or(0..layout.width);
    if rows.is_empty() || cols.is_empty() {
        return Err(Error::invalid(name, format!("the window rows {rows:?}, columns {cols:?} is empty")));
    }
    if rows.end > layout.height || cols.end > layout.width {
        let asked = format!("the window rows {rows:?}, columns {cols:?}");
        return Err(Error::out_of_bounds(name, asked, format!("{} rows, {} columns", layout.height, layout.width)));
    }
    Ok(Part { y: rows.start, x: cols.start, height: rows.end - rows.start, width: cols.end - cols.start })
}

fn bands(name: &Arc<str>, layout: &Layout, window: &Window) -> Result<Vec<u16>> {
    let Some(bands) = &window.bands else { return Ok((0..layout.bands).collect()) };
    if bands.is_empty() {
        return Err(Error::invalid(name, "no band is asked for"));
    }
    bands
        .iter()
        .map(|&band| match band.checked_sub(1) {
            Some(index) if index < layout.bands => Ok(index),
            _ => Err(Error::out_of_bounds(name, format!("band {band}"), format!("bands 1 to {}", layout.bands))),
        })
        .collect()
}

impl fmt::Display for ReadPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Part { y, x, height, width } = self.part;
        let layout = &self.layout;
        writeln!(f, "level {}: rows {y}..{}, columns {x}..{}", self.level, y + height, x + width)?;
        let bands: Vec<String> = self.bands.iter().map(|b| (b + 1).to_string()).collect();
        writeln!(
            f,
            "bands {} as {}, {} tiles of {} x {}",
            bands.join(","),
            layout.dtype(),
            layout.tiles(),
            layout.format.width,
            layout.format.height
        )?;
        writeln!(
            f,
            "{} reads, {} bytes in, {} bytes out",
            self.tiles.len(),
            self.input_bytes(),
            self.output_bytes().unwrap_or(0)
        )?;
        for t in &self.tiles {
            write!(f, "  tile {} (row {}, column {}, plane {}): ", t.tile, t.row, t.col, t.plane)?;
            if t.range.is_empty() {
                write!(f, "absent")?;
            } else {
                write!(f, "bytes {}..{}", t.range.start, t.range.end)?;
            }
            let p = t.part;
            writeln!(
                f,
                ", {} x {} pixels from ({}, {}) to ({}, {}), cpu {}",
                p.width,
                p.height,
                p.y,
                p.x,
                t.at.0,
                t.at.1,
                layout.codec.name()
            )?;
        }
        Ok(())
    }
}
