//! Tiles that have come back to the host, on their way into the file.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use tiffjet::codec::Plain;
use tiffjet::{Emit, EncodedRows, Error, LevelPlan, Report, Result};

use crate::ffi::driver::Failure;
use crate::memory::{Gpu, Slot};

/// Which tile of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Place of its image in the list.
    pub image: usize,
    pub plane: u16,
    pub row: u32,
    pub col: u32,
}

/// A slot of the ring that goes back to it.
pub struct Lent {
    gpu: Arc<Gpu>,
    slot: Option<Slot>,
}

impl Lent {
    /// One that can be filled.
    pub fn take(gpu: &Arc<Gpu>) -> Result<Self, Failure> {
        Ok(Self { gpu: gpu.clone(), slot: Some(gpu.ring.take()?) })
    }

    /// Uses it.
    pub fn with<T>(&mut self, act: impl FnOnce(&mut Slot) -> Result<T, Failure>) -> Result<T, Failure> {
        match &mut self.slot {
            Some(slot) => act(slot),
            None => Err(Failure { call: "using a slot", code: 0, reason: "it went back".into() }),
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.gpu.ring.give_back(slot);
        }
    }
}

/// Memory of the host that tiles are in.
pub enum Bytes {
    /// A slot, perhaps with a copy still on its way.
    Lent(Lent),
    /// Its own.
    Owned(Vec<u8>),
}

/// Some tiles in the order of the image, each with its bytes; none for a tile that is left out.
pub struct Landing {
    pub bytes: Bytes,
    pub tiles: Vec<(Place, Range<usize>)>,
    /// They are still plain: the host's codec encodes them.
    pub plain: bool,
}

/// Gives tiles away and counts them.
pub struct Giver<'a> {
    pub gpu: &'a Gpu,
    pub name: &'a Arc<str>,
    pub images: &'a [LevelPlan],
    pub report: &'a mut Report,
}

impl Giver<'_> {
    /// Waits for the tiles of a landing and gives them away.
    pub fn give(&mut self, mut landing: Landing, emit: &mut Emit<'_>) -> Result<()> {
        if let Bytes::Lent(lent) = &mut landing.bytes {
            lent.with(Slot::settle).map_err(|failure| self.gpu.refused(self.name, &failure))?;
        }
        let bytes = match &landing.bytes {
            Bytes::Owned(bytes) => bytes,
            Bytes::Lent(lent) => lent.slot.as_ref().map_or(&[][..], |slot| slot.memory.bytes()),
        };
        let tiles = landing.tiles.iter().map(|(place, range)| (*place, &bytes[range.clone()]));
        let tiles: Vec<(Place, Cow<'_, [u8]>)> = match landing.plain {
            false => tiles.map(|(place, tile)| (place, Cow::Borrowed(tile))).collect(),
            true => {
                let tiles: Vec<_> = tiles.collect();
                let encode = |(place, tile): (Place, &[u8])| {
                    Ok((place, Cow::Owned(host_encode(self.name, self.images, place, tile)?)))
                };
                self.gpu.threads.install(|| tiles.into_par_iter().map(encode).collect::<Result<_>>())?
            }
        };
        self.emit(tiles, emit)
    }

    /// Neighbours together.
    fn emit(&mut self, tiles: Vec<(Place, Cow<'_, [u8]>)>, emit: &mut Emit<'_>) -> Result<()> {
        let mut tiles = tiles.into_iter().peekable();
        while let Some((place, tile)) = tiles.next() {
            let Place { image, plane, row, col } = place;
            let plan = &self.images[image];
            let mut line = vec![tile];
            let follows = |next: &Place, n: usize| *next == Place { col: col + n as u32, ..place };
            while let Some((_, tile)) = tiles.next_if(|(next, _)| follows(next, line.len())) {
                line.push(tile);
            }
            self.report.tiles += line.len();
            self.report.sparse += line.iter().filter(|tile| tile.is_empty()).count();
            self.report.bytes_out += line.iter().map(|tile| tile.len() as u64).sum::<u64>();
            emit(EncodedRows { level: plan.level, mask: plan.mask, plane, row, col, tiles: line })?;
        }
        Ok(())
    }
}

/// Encodes a tile by the host's codec; what is left out stays out.
pub fn host_encode(name: &Arc<str>, images: &[LevelPlan], place: Place, tile: &[u8]) -> Result<Vec<u8>> {
    let Place { image, row, col, .. } = place;
    let plan = &images[image];
    let mut out = Vec::new();
    if !tile.is_empty() {
        let rows = plan.rows_in_tile(row);
        let plain = Plain { bytes: tile, rows, format: &plan.format, settings: &plan.settings };
        plan.codec.encode(&plain, &mut out).map_err(|source| {
            let (name, level, codec) = (name.clone(), plan.level, plan.codec.name());
            Error::Tile { name, level, row, col, codec, source }
        })?;
    }
    Ok(out)
}
