//! How one image of a file that is written is cut and stored.

use crate::codec::{Codec, Settings, TileFormat, Unit};
use crate::layout::Predictor;

/// One image of the file: a level, or the mask of one.
#[derive(Clone)]
pub struct LevelPlan {
    /// 0 is full size.
    pub level: usize,
    /// The mask of that level.
    pub mask: bool,
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Samples of a pixel.
    pub bands: u16,
    /// Tiles rather than strips.
    pub tiled: bool,
    /// Tiles in a row of tiles.
    pub across: u32,
    /// Rows of tiles.
    pub down: u32,
    /// Each band in tiles of its own.
    pub planar: bool,
    /// How the pixels of a tile are stored; `width` and `height` in it are the tile's.
    pub format: TileFormat,
    /// Encodes the tiles.
    pub codec: &'static dyn Codec,
    /// What it was told.
    pub settings: Settings,
    /// Applied before encoding.
    pub predictor: Predictor,
    /// A tile with this value alone is left out.
    pub absent: Option<Vec<u8>>,
}

impl std::fmt::Debug for LevelPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LevelPlan")
            .field("level", &self.level)
            .field("mask", &self.mask)
            .field("size", &(self.width, self.height, self.bands))
            .field("format", &self.format)
            .field("codec", &self.codec.name())
            .finish_non_exhaustive()
    }
}

impl LevelPlan {
    /// Planes of tiles: one for each band, or one for all.
    pub fn planes(&self) -> u16 {
        if self.planar { self.bands } else { 1 }
    }

    /// Number of tiles in all planes.
    pub fn tiles(&self) -> u64 {
        u64::from(self.across) * u64::from(self.down) * u64::from(self.planes())
    }

    /// Place of a tile in the tile arrays.
    pub fn tile(&self, plane: u16, row: u32, col: u32) -> u64 {
        (u64::from(plane) * u64::from(self.down) + u64::from(row)) * u64::from(self.across) + u64::from(col)
    }

    /// Rows that the tiles of a tile row hold: the last strip ends with the image, tiles are always full.
    pub fn rows_in_tile(&self, row: u32) -> u32 {
        if self.tiled { self.format.height } else { self.format.height.min(self.height - row * self.format.height) }
    }

    /// Bytes of a tile of `rows` rows as the codec takes it.
    pub fn plain_bytes(&self, rows: u32) -> u64 {
        let row = match self.codec.unit() {
            Unit::Bytes => self.format.row_bytes(),
            Unit::Samples => self.format.row_samples_bytes(),
        };
        row as u64 * u64::from(rows)
    }

    /// Bytes of one row of the image in memory, all bands.
    pub fn image_row_bytes(&self) -> u64 {
        u64::from(self.width) * u64::from(self.bands) * self.format.dtype.size() as u64
    }

    /// No encoded tile is longer: LZW makes three bytes of two at worst, and all others have a header at most.
    pub(super) fn largest_encoded(&self) -> u64 {
        let plain = self.plain_bytes(self.format.height);
        if self.format.compression == 1 { plain } else { plain + plain / 2 + 1024 }
    }

    /// No file holds more of it.
    pub(super) fn largest(&self) -> u64 {
        self.largest_encoded().saturating_mul(self.tiles())
    }
}
