//! All that the benchmark asks of tiffjet.

use std::error::Error;
use std::ops::Range;
use std::sync::Arc;

use tiffjet::codec::Encoded;
use tiffjet::{Image, Layout, Window};

/// An open file; its level 0 is what is measured.
pub struct Picture(Image);

impl Picture {
    pub fn open(path: &str) -> Result<Self, Box<dyn Error>> {
        Ok(Self(tiffjet::open(path)?))
    }

    /// Bands, rows, columns.
    pub fn shape(&self) -> [usize; 3] {
        self.0.shape()
    }

    /// As numpy names it.
    pub fn dtype(&self) -> &'static str {
        self.0.dtype().name()
    }

    /// What the other engines tell of a file they open.
    pub fn describe(&self) -> ([usize; 3], &'static str) {
        (self.shape(), self.dtype())
    }

    /// Size of all its pixels.
    pub fn bytes(&self) -> Result<usize, Box<dyn Error>> {
        let size = self.shape().iter().try_fold(self.0.dtype().size(), |a, &n| a.checked_mul(n));
        size.ok_or_else(|| "too large for this machine".into())
    }

    /// Size of the pixels of a square window, all bands.
    pub fn window_bytes(&self, side: u32) -> usize {
        self.shape()[0] * side as usize * side as usize * self.0.dtype().size()
    }

    /// All its pixels.
    pub fn read(&self, out: &mut [u8]) -> Result<(), Box<dyn Error>> {
        self.0.read_into(&Window::default(), out)?;
        Ok(())
    }

    /// A square window, all bands.
    pub fn window(&self, row: u32, col: u32, side: u32, out: &mut [u8]) -> Result<(), Box<dyn Error>> {
        let window = Window { rows: Some(row..row + side), cols: Some(col..col + side), ..Window::default() };
        self.0.read_into(&window, out)?;
        Ok(())
    }

    /// Its tiles, for the floor.
    pub fn tiles(&self) -> Result<Tiles, Box<dyn Error>> {
        let plan = self.0.plan(&Window::default())?;
        let layout = plan.layout;
        let present = plan.tiles.into_iter().filter(|t| !t.range.is_empty());
        let tiles = present.map(|t| Tile { range: t.range, rows: t.rows, index: t.row * layout.across + t.col });
        Ok(Tiles { tiles: tiles.collect(), layout })
    }
}

/// Where the tiles stand, and how to decode one.
pub struct Tiles {
    pub tiles: Vec<Tile>,
    layout: Arc<Layout>,
}

pub struct Tile {
    /// Bytes in the file.
    pub range: Range<u64>,
    rows: u32,
    index: u32,
}

impl Tiles {
    pub fn compressed(&self) -> bool {
        self.layout.format.compression != 1
    }

    /// Size of a full tile as its codec gives it.
    pub fn decoded_bytes(&self) -> Result<usize, Box<dyn Error>> {
        Ok(self.layout.decoded_bytes(self.layout.format.height).try_into()?)
    }

    /// The codec alone, into the first bytes of `out`, which has the size of a full tile.
    pub fn decode(&self, tile: &Tile, bytes: &[u8], out: &mut [u8]) -> Result<(), String> {
        let size = self.layout.decoded_bytes(tile.rows) as usize;
        let encoded = Encoded { bytes, rows: tile.rows, index: tile.index, format: &self.layout.format };
        self.layout.codec.decode(&encoded, &mut out[..size]).map_err(|cause| cause.to_string())
    }
}
