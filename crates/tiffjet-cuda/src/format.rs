//! What a plan means for the kernels. Pure.

use tiffjet::codec::Unit;
use tiffjet::layout::Predictor as Prediction;
use tiffjet::plan::TileRead;
use tiffjet::{ByteOrder, ReadPlan, SampleKind};

use crate::batch::Way;
use crate::codec::{self, LIBRARY_ROUTES, Output};
use crate::kernels::{Depth, Format, Predictor};
use crate::memory::Gpu;

/// The library and its output for the tiles of a plan, where they go that way.
pub fn library(gpu: &Gpu, plan: &ReadPlan) -> Option<(usize, Output)> {
    let layout = plan.layout();
    let route = codec::find_library(layout.codec.name())?;
    let output = LIBRARY_ROUTES[route].output(layout)?;
    LIBRARY_ROUTES[route].absence(gpu).is_none().then_some((route, output))
}

/// The way of a tile where the device does all it can, with what [`library`] says of its plan.
pub fn way(plan: &ReadPlan, tile: &TileRead, library: Option<(usize, Output)>) -> Way {
    let layout = plan.layout();
    let small = |bytes: u64| u32::try_from(bytes).is_ok();
    if tile.range.is_empty() {
        return Way::Fill;
    }
    if layout.rows_are_bytes() {
        return Way::Direct;
    }
    if !small(tile.range.end - tile.range.start) || !small(layout.decoded_bytes(tile.rows)) {
        return Way::Host;
    }
    match (codec::find(layout.codec.name()), library) {
        (Some(route), _) if layout.packed_chroma().is_none() => Way::Device(route),
        (_, Some((route, output))) => Way::Library(route, output),
        _ => Way::Host,
    }
}

/// The format of tiles whose samples stand in planes, one behind the other.
pub fn in_planes(format: &Format) -> Format {
    let row_bytes = u64::from(format.tile_width) * u64::from(format.size);
    Format { row_bytes, samples: 1, planar: true, ..format.clone() }
}

/// One value as a format holds it.
pub fn value(bytes: &[u8]) -> [u8; 16] {
    std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))
}

/// How the tiles of a plan are unpacked: as `cpu/unpack.rs` of the core does it.
pub fn format(plan: &ReadPlan) -> Format {
    let layout = plan.layout();
    let tile = &layout.format;
    let size = layout.dtype().size();
    let depth = match (tile.kind, tile.bits) {
        _ if layout.codec.unit() == Unit::Samples => Depth::Whole,
        (SampleKind::Float, 24) => Depth::Float24,
        (_, bits) if usize::from(bits) == size * 8 => Depth::Whole,
        _ => Depth::Bits,
    };
    let predictor = match layout.predictor {
        Prediction::None => Predictor::None,
        Prediction::Horizontal => Predictor::Horizontal,
        Prediction::Float => Predictor::Float,
    };
    let [_, height, width] = plan.shape();
    let out_row = (width * size) as u64;
    Format {
        row_bytes: layout.plain_bytes(1),
        out_row,
        out_band: out_row * height as u64,
        tile_width: tile.width,
        samples: tile.samples.into(),
        depth,
        bits: tile.bits.into(),
        is_signed: tile.kind == SampleKind::Signed,
        size: size as u32,
        word: u32::from(tile.bits / 8),
        swap: layout.swapped_word() as u32,
        // Its byte planes stand in one order in all files.
        big: tile.order == ByteOrder::Big && predictor != Predictor::Float,
        predictor,
        planar: layout.planar,
        band_of: plan.bands().to_vec(),
        all: plan.bands().iter().copied().eq(0..layout.bands),
        reversed: layout.reversed && layout.rows_are_bytes(),
        fill: value(plan.fill()),
        nodata: None,
    }
}
