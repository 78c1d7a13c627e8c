//! All that the benchmark asks of tiffjet.

use std::error::Error;
use std::ops::Range;
use std::sync::Arc;

use tiffjet::codec::Encoded;
use tiffjet::sink::FileSink;
use tiffjet::{
    Blocks, Cpu, DType, Image, Layout, Overviews, Prediction, Resampling, RowsView, Tensor, Window, WriteOptions,
    Writer,
};

/// Bytes of a cache of tiles, instead of the one that the library has by itself.
const CACHE: &str = "TIFFJET_BENCH_CACHE";

/// An open file; its level 0 is what is measured.
pub struct Picture(Image, Cpu);

impl Picture {
    pub fn open(path: &str) -> Result<Self, Box<dyn Error>> {
        let cpu = Cpu::shared()?;
        let cpu = match std::env::var(CACHE) {
            Ok(bytes) => cpu.with_cache(bytes.parse()?),
            Err(_) => cpu,
        };
        Ok(Self(tiffjet::open(path)?, cpu))
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
    pub fn describe(&self) -> ([usize; 3], &'static str, Option<[f64; 6]>) {
        (self.shape(), self.dtype(), self.0.geo().transform)
    }

    /// All its pixels, in memory of the library, which it uses again once they are dropped.
    pub fn read(&self) -> Result<Tensor, Box<dyn Error>> {
        Ok(self.0.read_on(&self.1, &Window::default())?)
    }

    /// A square window, all bands.
    pub fn window(&self, row: u32, col: u32, side: u32) -> Result<Tensor, Box<dyn Error>> {
        let window = Window { rows: Some(row..row + side), cols: Some(col..col + side), ..Window::default() };
        Ok(self.0.read_on(&self.1, &window)?)
    }

    /// Its tiles, for the floor.
    pub fn tiles(&self) -> Result<Tiles, Box<dyn Error>> {
        let plan = self.0.plan(&Window::default())?;
        let layout = plan.layout().clone();
        let across = u64::from(layout.across);
        let present = plan.tiles().iter().filter(|t| !t.range.is_empty());
        let number = |row: u32, col: u32| u64::from(row) * across + u64::from(col);
        let tiles = present.map(|t| Tile { range: t.range.clone(), rows: t.rows, index: number(t.row, t.col) });
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
    index: u64,
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

/// How a file is written.
pub struct Way<'a> {
    pub codec: &'a str,
    pub level: Option<i32>,
    pub predictor: &'a str,
    pub tile: u32,
    pub cog: bool,
}

/// Pixels to write: one band after the other, native byte order.
pub struct Pixels {
    pub bytes: Vec<u8>,
    pub shape: [usize; 3],
    pub dtype: DType,
}

impl Pixels {
    pub fn write(&self, path: &str, way: &Way<'_>) -> Result<u64, Box<dyn Error>> {
        let mut options = WriteOptions::new(self.shape, self.dtype);
        options.compression = way.codec.into();
        options.settings.level = way.level;
        options.predictor = match way.predictor {
            "2" => Prediction::Horizontal,
            "3" => Prediction::Float,
            _ => Prediction::None,
        };
        options.blocks = Blocks::Tiles { width: way.tile, height: way.tile };
        options.cog = way.cog;
        options.overviews = Overviews::Auto;
        options.resampling = Some(Resampling::Average);
        let rows = RowsView::new(&self.bytes, self.shape, self.dtype).ok_or("pixels of another size")?;
        let mut writer = Writer::create(FileSink::create(path)?, &options)?;
        writer.push(&rows)?;
        Ok(writer.finish()?.bytes)
    }
}
