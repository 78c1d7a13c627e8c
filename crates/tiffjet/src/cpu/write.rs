//! Tiles packed and encoded, each by one core while it is in its cache.

use std::cell::RefCell;

use rayon::ThreadPool;
use rayon::prelude::*;

use super::pack::Pack;
use crate::backend::{EncodeJob, EncodedRows};
use crate::codec::Plain;
use crate::error::{Error, Result};
use crate::plan::LevelPlan;
use crate::rows::RowsView;

/// A tile of a push: tile row counted from the first one of the push, plane, column.
#[derive(Clone, Copy)]
struct Place {
    row: u32,
    plane: u16,
    col: u32,
}

/// Encodes tile rows and gives them in the order of the image.
pub(super) fn encode(
    pool: &ThreadPool,
    job: &EncodeJob<'_>,
    emit: &mut (dyn FnMut(EncodedRows) -> Result<()> + Send),
) -> Result<()> {
    let EncodeJob { name, rows, plan, first } = *job;
    let down = (rows.rows() as u64).div_ceil(u64::from(plan.format.height)) as u32;
    let (across, planes) = (plan.across as usize, usize::from(plan.planes()));
    let count = down as usize * planes * across;
    let place = |i: usize| Place {
        row: (i / across / planes) as u32,
        plane: (i / across % planes) as u16,
        col: (i % across) as u32,
    };
    let encoder = Encoder { rows, plan, pack: Pack::new(plan), first };
    let tile = |i: usize| {
        let at = place(i);
        encoder.tile(at).map_err(|source| Error::Tile {
            name: name.clone(),
            level: plan.level,
            row: first + at.row,
            col: at.col,
            codec: plan.codec.name(),
            source,
        })
    };
    let mut tiles: Vec<Result<Vec<u8>>> = match count {
        1 => vec![tile(0)],
        _ => pool.install(|| (0..count).into_par_iter().map(tile).collect()),
    };
    // Of several failures the first in the image is reported.
    for (i, tiles) in tiles.chunks_mut(across).enumerate() {
        let Place { row, plane, .. } = place(i * across);
        let tiles = tiles.iter_mut().map(|tile| std::mem::replace(tile, Ok(Vec::new()))).collect::<Result<_>>()?;
        emit(EncodedRows { level: plan.level, mask: plan.mask, plane, row: first + row, tiles })?;
    }
    Ok(())
}

thread_local! {
    /// A packed tile, and an encoded one with all the room that the codec wants.
    static SCRATCH: RefCell<(Vec<u8>, Vec<u8>)> = RefCell::default();
}

/// Buffers that are larger do not stay behind the user's back.
const KEPT: usize = 16 << 20;

struct Encoder<'a> {
    rows: &'a RowsView<'a>,
    plan: &'a LevelPlan,
    pack: Pack<'a>,
    first: u32,
}

impl Encoder<'_> {
    fn tile(&self, at: Place) -> Result<Vec<u8>, crate::Cause> {
        let plan = self.plan;
        let top = at.row as usize * plan.format.height as usize;
        let left = at.col as usize * plan.format.width as usize;
        let height = (self.rows.rows() - top).min(plan.format.height as usize);
        let width = (plan.width as usize - left).min(plan.format.width as usize);
        let part = self.pack.part(self.rows, at.plane, (top, left), (height, width));
        if plan.absent.as_ref().is_some_and(|value| part.is_all(value)) {
            return Ok(Vec::new());
        }
        let tile_rows = plan.rows_in_tile(self.first + at.row);
        // Bytes that are not compressed need no second place.
        if plan.format.compression == 1 {
            let mut packed = Vec::new();
            self.pack.pack(&part, tile_rows, &mut packed);
            return Ok(packed);
        }
        SCRATCH.with_borrow_mut(|(packed, encoded)| {
            self.pack.pack(&part, tile_rows, packed);
            encoded.clear();
            let plain = Plain { bytes: packed, rows: tile_rows, format: &plan.format, settings: &plan.settings };
            plan.codec.encode(&plain, encoded)?;
            let tile = encoded.to_vec();
            if packed.capacity() + encoded.capacity() > KEPT {
                (*packed, *encoded) = Default::default();
            }
            Ok(tile)
        })
    }
}
