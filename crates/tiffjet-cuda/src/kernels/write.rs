//! What the kernels of writing are called with: pure, so that their tests take it as it is.
//!
//! The structs mirror `kernels/abi.h`, field by field; a test lets C++ read what they write.

use tiffjet::codec::Unit;
use tiffjet::layout::Predictor;
use tiffjet::{LevelPlan, SampleKind};

/// The kernel that packs every format and all strides, and is the slowest.
pub const PACK_ANY: &str = "pack_any";

/// Appends numbers as the device has them.
fn words<const N: usize>(out: &mut Vec<u8>, words: [u32; N]) {
    words.iter().for_each(|word| out.extend(word.to_le_bytes()));
}

/// The same for wide ones.
fn longs<const N: usize>(out: &mut Vec<u8>, longs: [u64; N]) {
    longs.iter().for_each(|long| out.extend(long.to_le_bytes()));
}

/// A struct as an argument.
fn exactly<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(bytes);
    out
}

/// A value in the first of 16 bytes, or again and again in all of them.
fn sixteen(value: &[u8], repeated: bool) -> [u8; 16] {
    let mut out = [0; 16];
    let times = if repeated { 16 / value.len().max(1) } else { 1 };
    for (out, byte) in out.iter_mut().zip(value.iter().cycle().take(value.len() * times)) {
        *out = *byte;
    }
    out
}

/// Pixels on the device, wherever they stand: bytes from one band, row and column to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strided {
    /// The first one.
    pub address: u64,
    /// Band, row, column.
    pub strides: [i64; 3],
}

/// Rows on their way from strides to strides, as `struct CollectCopy` has them.
pub fn collect_copy(
    from: &Strided,
    to: &Strided,
    [bands, rows, columns]: [u32; 3],
    size: u32,
    nan: Option<&[u8]>,
) -> [u8; 104] {
    let mut out = Vec::new();
    longs(&mut out, [from.address, to.address]);
    longs(&mut out, from.strides.map(i64::cast_unsigned));
    longs(&mut out, to.strides.map(i64::cast_unsigned));
    words(&mut out, [bands, rows, columns, size, nan.is_some().into(), 0]);
    out.extend(sixteen(nan.unwrap_or_default(), false));
    exactly(&out)
}

/// A tile that is packed from pixels on the device.
#[derive(Debug, Clone, Copy, Default)]
pub struct PackTile {
    /// Its first pixel; of a planar tile in its band.
    pub input: u64,
    /// Where it goes, aligned to 16 bytes.
    pub output: u64,
    /// Bytes from one band, row and column of the pixels to the next.
    pub strides: [i64; 3],
    /// Rows inside the image.
    pub height: u32,
    /// Columns inside the image.
    pub width: u32,
    /// Rows of the tile.
    pub rows: u32,
}

impl PackTile {
    /// Bytes on the device.
    pub const SIZE: u64 = 56;

    /// As the device has it.
    pub fn write(&self, out: &mut Vec<u8>) {
        longs(out, [self.input, self.output]);
        longs(out, self.strides.map(i64::cast_unsigned));
        words(out, [self.height, self.width, self.rows, 0]);
    }
}

/// How the tiles of a batch are packed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // as in abi.h
pub struct PackFormat {
    pub row_bytes: u64,
    pub tile_width: u32,
    pub samples: u32,
    pub size: u32,
    pub bits: u32,
    pub is_signed: bool,
    pub predictor: Predictor,
    pub carried: bool,
    pub nan: Option<Vec<u8>>,
    pub absent: Option<Vec<u8>>,
}

impl PackFormat {
    /// Bytes on the device.
    pub const SIZE: usize = 80;

    /// For the tiles of a level; `nan` is written where a float is NaN.
    pub fn new(plan: &LevelPlan, nan: Option<&[u8]>) -> Self {
        let format = &plan.format;
        let carried = plan.codec.unit() == Unit::Samples;
        let size = format.dtype.size();
        Self {
            row_bytes: if carried { format.row_samples_bytes() } else { format.row_bytes() } as u64,
            tile_width: format.width,
            samples: format.samples.into(),
            size: size as u32,
            bits: if carried { 8 * size as u32 } else { format.bits.into() },
            is_signed: format.kind == SampleKind::Signed,
            predictor: if carried { Predictor::None } else { plan.predictor },
            carried,
            nan: nan.map(<[u8]>::to_vec),
            absent: plan.absent.clone(),
        }
    }

    /// As a kernel gets it.
    pub fn bytes(&self) -> [u8; Self::SIZE] {
        let predictor = match self.predictor {
            Predictor::None => 0,
            Predictor::Horizontal => 1,
            Predictor::Float => 2,
        };
        let mut out = Vec::with_capacity(Self::SIZE);
        longs(&mut out, [self.row_bytes]);
        words(&mut out, [self.tile_width, self.samples, self.size, self.bits, self.is_signed.into(), predictor]);
        words(&mut out, [self.carried.into(), self.nan.is_some().into(), self.absent.is_some().into(), 0]);
        out.extend(sixteen(self.nan.as_deref().unwrap_or_default(), false));
        out.extend(sixteen(self.absent.as_deref().unwrap_or_default(), true));
        exactly(&out)
    }

    /// Which kernel takes tiles, as the head of `pack.cu` says.
    pub fn kernel(&self, tiles: &[PackTile]) -> &'static str {
        if self.carried || self.bits != 8 * self.size {
            return PACK_ANY;
        }
        let (size, samples) = (i64::from(self.size), i64::from(self.samples));
        let float = self.predictor == Predictor::Float;
        let line = |tile: &PackTile| {
            let [band, _, column] = tile.strides;
            column == samples * size && (samples == 1 || band == size)
        };
        if tiles.iter().all(line) {
            return match (self.size, float) {
                (1, false) => "pack_line_1",
                (2, false) => "pack_line_2",
                (4, false) => "pack_line_4",
                (8, false) => "pack_line_8",
                (16, false) if self.predictor == Predictor::None => "pack_line_8",
                (2, true) => "pack_line_floats_2",
                (4, true) => "pack_line_floats_4",
                (8, true) => "pack_line_floats_8",
                _ => PACK_ANY,
            };
        }
        if !tiles.iter().all(|tile| tile.strides[2] == size) {
            return PACK_ANY;
        }
        let names = match (self.size, float) {
            (1, false) => ["pack_bands_1_2", "pack_bands_1_3", "pack_bands_1_4"],
            (2, false) => ["pack_bands_2_2", "pack_bands_2_3", "pack_bands_2_4"],
            (4, false) => ["pack_bands_4_2", "pack_bands_4_3", "pack_bands_4_4"],
            (8, false) => ["pack_bands_8_2", "pack_bands_8_3", "pack_bands_8_4"],
            (4, true) => ["pack_bands_floats_4_2", "pack_bands_floats_4_3", "pack_bands_floats_4_4"],
            _ => [PACK_ANY; 3],
        };
        self.samples.checked_sub(2).and_then(|n| names.get(n as usize)).copied().unwrap_or(PACK_ANY)
    }
}

/// What decides how long tiles are in the file: an array of each.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lengths {
    /// `u64`, of compressed tiles.
    pub sizes: u64,
    /// `i32`, anything but 0 for a tile that was not compressed; 0 for no array.
    pub statuses: u64,
    /// `u32`, 0 for a tile that is left out; 0 for no array.
    pub differs: u64,
    /// Bytes that the frame of a tile adds.
    pub extra: u32,
}

impl Lengths {
    /// As a kernel gets it.
    pub fn bytes(&self) -> [u8; 32] {
        let mut out = Vec::new();
        longs(&mut out, [self.sizes, self.statuses, self.differs]);
        words(&mut out, [self.extra, 0]);
        exactly(&out)
    }
}

/// Where compressed tiles go, one right behind the other.
#[derive(Debug, Clone, Copy, Default)]
pub struct Blob {
    /// `u64`, made by `Kernels::offsets`.
    pub lengths: u64,
    /// `u64`, likewise, one more than there are tiles.
    pub offsets: u64,
    /// Tile i goes to this address + `offsets[i]` - `offsets[first]`.
    pub out: u64,
    /// A tile that would end behind so many bytes is not written.
    pub room: u64,
    /// First of the tiles that are written.
    pub first: u32,
    /// How many.
    pub count: u32,
}

impl Blob {
    /// As a kernel gets it.
    pub fn bytes(&self) -> [u8; 40] {
        let mut out = Vec::new();
        longs(&mut out, [self.lengths, self.offsets, self.out, self.room]);
        words(&mut out, [self.first, self.count]);
        exactly(&out)
    }
}
