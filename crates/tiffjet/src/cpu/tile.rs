//! One tile on the host: from its bytes in the file to the rows that are unpacked.

use std::ops::ControlFlow;

use super::chroma;
use crate::codec::{Cause, Encoded, Unit, reverse_bits};
use crate::layout::Layout;
use crate::plan::TileRead;

/// Decodes the bytes of a tile as they stand in the file into `out`, which has [`Layout::plain_bytes`] of its rows: what
/// unpacking begins with. Other backends take it where they have no way of their own, and to learn what is wrong.
pub fn decode_tile(layout: &Layout, tile: &TileRead, bytes: &[u8], out: &mut [u8]) -> Result<(), Cause> {
    if !layout.reversed {
        return decode(layout, tile, bytes, out);
    }
    let mut turned = bytes.to_vec();
    reverse_bits(&mut turned);
    decode(layout, tile, &turned, out)
}

/// The same where the bits of the bytes stand in their usual order.
pub(super) fn decode(layout: &Layout, tile: &TileRead, bytes: &[u8], out: &mut [u8]) -> Result<(), Cause> {
    let index = u64::from(tile.row) * u64::from(layout.across) + u64::from(tile.col);
    let encoded = Encoded { bytes, rows: tile.rows, index, format: &layout.format };
    if let Some(subsampling) = layout.packed_chroma() {
        let mut packed = vec![0; layout.decoded_bytes(tile.rows) as usize];
        layout.codec.decode(&encoded, &mut packed)?;
        chroma::expand(&packed, &layout.format, tile.rows, subsampling, out);
        return Ok(());
    }
    if stops_early(layout, tile) {
        return decode_wanted(layout, tile, &encoded, out);
    }
    layout.codec.decode(&encoded, out).or_else(|cause| {
        // Some writers leave out the rows of a tile that hang over the lower edge of the image.
        let rows = layout.height - tile.row * layout.format.height;
        if rows >= tile.rows || layout.codec.unit() != Unit::Bytes {
            return Err(cause);
        }
        let inside = &mut out[..layout.decoded_bytes(rows) as usize];
        layout.codec.decode(&Encoded { rows, ..encoded }, inside)
    })
}

/// Whether a tile is decoded block by block, and no further than it is wanted. In one go all of it comes a little faster.
pub(super) fn stops_early(layout: &Layout, tile: &TileRead) -> bool {
    layout.codec.decodes_along()
        && layout.packed_chroma().is_none()
        && tile.part.y - tile.first_row + tile.part.height < tile.rows
}

/// Decodes as far as rows are wanted: what comes after them may be damaged or left out.
fn decode_wanted(layout: &Layout, tile: &TileRead, encoded: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
    let due = (tile.part.y - tile.first_row + tile.part.height) as usize * (out.len() / tile.rows as usize);
    let mut got = 0;
    let outcome = layout.codec.decode_along(encoded, out, &mut |done| {
        got = done.len();
        if got >= due { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if got >= due { Ok(()) } else { outcome }
}
