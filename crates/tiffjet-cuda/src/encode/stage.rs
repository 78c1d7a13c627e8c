//! The rows of one level in device memory, and how they become those of the next.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use tiffjet::{DeviceRows, Error, LevelPlan, OverviewPlan, Result, Rows, RowsView, WritePlan};

use super::land::Place;
use crate::ffi::driver::{Failure, Stream};
use crate::kernels::reduce::{self, Reduction};
use crate::kernels::write::{PackTile, Strided};
use crate::memory::{Gpu, Lane, NOTES, SLOT};

/// Bytes that are worth several threads.
const SHARED: usize = 1 << 20;
/// Rows that are asked one by one how much they need.
const ASKED: u32 = 1 << 20;

/// How a level is made from the one above.
#[derive(Clone)]
pub struct Step {
    reduction: Arc<Reduction>,
    /// Rows that are made.
    rows: u32,
    window: u32,
}

/// Those of all levels but the first.
pub fn steps(name: &Arc<str>, plan: &WritePlan) -> Result<Vec<Step>> {
    let step = |plan: &OverviewPlan| {
        plan.check()?;
        let reduction = Reduction::new(plan).ok_or_else(|| {
            let feature = format!("{} resampling of {} on the GPU", plan.resampling.name(), plan.dtype);
            Error::unsupported(name, feature, "write it on the CPU")
        })?;
        let needs = |y: u32| reduction.needs(y).len() as u32;
        // Rows of a huge level need as many as any: a few more make up for those that were not asked.
        let (asked, more) = if plan.to.1 <= ASKED { (plan.to.1, 0) } else { (ASKED, 4) };
        let window = (0..asked).map(needs).max().unwrap_or(1).max(1) + more;
        Ok(Step { reduction: Arc::new(reduction), rows: plan.to.1, window })
    };
    plan.overviews.iter().map(step).collect()
}

impl Step {
    /// Rows above that a row is made from, at most.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// Bytes of its table.
    pub fn table_bytes(&self) -> u64 {
        self.reduction.table().len() as u64
    }

    /// Bytes of scratch for so many rows above.
    pub fn scratch(&self, rows: u32) -> u64 {
        self.reduction.scratch(rows)
    }

    /// Copies its table to the device, by way of the notes from some place on; gives the place behind it.
    pub fn upload(&self, lane: &mut Lane, mut at: usize, mut to: u64) -> Result<usize, Failure> {
        for part in self.reduction.table().chunks(NOTES / 2) {
            if at + part.len() > NOTES {
                lane.stream.wait()?;
                at = 0;
            }
            lane.notes.bytes_mut()[at..at + part.len()].copy_from_slice(part);
            lane.stream.upload(&lane.notes, at, part.len(), to)?;
            at += part.len().next_multiple_of(16);
            to += part.len() as u64;
        }
        Ok(at)
    }
}

/// Rows of a level, from those that something still needs to the newest.
pub struct Stage {
    pixels: u64,
    mask: Option<u64>,
    bands: u32,
    width: u32,
    /// Bytes of a value.
    size: u32,
    room: u32,
    /// The first row that is here, and how many there are.
    first: u32,
    count: u32,
    /// Rows before this one are packed.
    packed: u32,
    /// The first row and the end of the level.
    height: (u32, u32),
    /// How the next level is made, its table and its scratch.
    step: Option<(Step, u64, u64)>,
}

impl Stage {
    pub fn new(
        plan: &LevelPlan,
        pixels: u64,
        mask: Option<u64>,
        room: u32,
        height: (u32, u32),
        step: Option<(Step, u64, u64)>,
    ) -> Self {
        Self {
            pixels,
            mask,
            bands: plan.bands.into(),
            width: plan.width,
            size: plan.format.dtype.size() as u32,
            room,
            first: height.0,
            count: 0,
            packed: height.0,
            height,
            step,
        }
    }

    /// Rows that there is still room for.
    pub fn left(&self) -> u32 {
        self.room - self.count
    }

    /// The row behind the newest.
    pub fn end(&self) -> u32 {
        self.first + self.count
    }

    fn is_complete(&self) -> bool {
        self.end() == self.height.1
    }

    /// Whether its rows must be used before more can come.
    pub fn is_due(&self) -> bool {
        self.left() == 0 || self.is_complete()
    }

    fn row_bytes(&self) -> u64 {
        u64::from(self.width) * u64::from(self.size)
    }

    fn band_bytes(&self) -> u64 {
        self.row_bytes() * u64::from(self.room)
    }

    /// The pixels from a row on.
    fn at(&self, row: u32) -> Strided {
        let address = self.pixels + u64::from(row - self.first) * self.row_bytes();
        let strides = [self.band_bytes() as i64, self.row_bytes() as i64, i64::from(self.size)];
        Strided { address, strides }
    }

    /// The mask from a row on.
    fn mask_at(&self, row: u32) -> Option<Strided> {
        let offset = u64::from(row - self.first) * u64::from(self.width);
        self.mask.map(|mask| Strided { address: mask + offset, strides: [0, i64::from(self.width), 1] })
    }

    /// Takes rows behind those that are here.
    pub fn take(&mut self, gpu: &Gpu, stream: &Stream, rows: &Rows<'_>, nan: Option<&[u8]>) -> Result<(), Failure> {
        match rows {
            Rows::Host(rows) => self.upload(gpu, stream, rows, nan)?,
            Rows::Device(rows) => self.collect(gpu, stream, rows, nan)?,
        }
        self.count += rows.rows() as u32;
        Ok(())
    }

    fn collect(&self, gpu: &Gpu, stream: &Stream, rows: &DeviceRows<'_>, nan: Option<&[u8]>) -> Result<(), Failure> {
        let count = rows.shape()[1] as u32;
        let from = Strided { address: rows.address() as u64, strides: rows.strides().map(|n| n as i64) };
        let shape = [self.bands, count, self.width];
        gpu.kernels.collect(stream, &from, &self.at(self.end()), shape, self.size, nan)?;
        let (Some(mask), Some(to)) = (rows.mask(), self.mask_at(self.end())) else { return Ok(()) };
        let [row, column] = mask.strides.map(|n| n as i64);
        let from = Strided { address: mask.address as u64, strides: [0, row, column] };
        gpu.kernels.collect(stream, &from, &to, [1, count, self.width], 1, None)
    }

    /// Copies rows of the host by way of the ring.
    fn upload(&self, gpu: &Gpu, stream: &Stream, rows: &RowsView<'_>, nan: Option<&[u8]>) -> Result<(), Failure> {
        let to = self.at(self.end());
        let band = |band: usize| (rows.band(band), to.address + band as u64 * self.band_bytes());
        let mask = rows.mask().zip(self.mask_at(self.end()).map(|mask| mask.address));
        let pieces: Vec<(&[u8], u64)> = (0..rows.bands())
            .map(band)
            .chain(mask)
            .flat_map(|(bytes, to)| bytes.chunks(SLOT).zip((to..).step_by(SLOT)))
            .collect();
        let copy = |&(bytes, to): &(&[u8], u64)| {
            let _current = gpu.enter()?;
            let mut slot = gpu.ring.take()?;
            slot.memory.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
            let copied = stream.upload(&slot.memory, 0, bytes.len(), to).and_then(|()| slot.copied(stream, false));
            gpu.ring.give_back(slot);
            copied
        };
        if pieces.iter().map(|(bytes, _)| bytes.len()).sum::<usize>() < SHARED {
            pieces.iter().try_for_each(copy)?;
        } else {
            gpu.threads.install(|| pieces.par_iter().try_for_each(copy))?;
        }
        match nan {
            Some(_) => {
                let shape = [self.bands, rows.rows() as u32, self.width];
                gpu.kernels.collect(stream, &to, &to, shape, self.size, nan)
            }
            None => Ok(()),
        }
    }

    /// Tile rows that are whole and not yet packed.
    pub fn whole(&self, plan: &LevelPlan) -> Range<u32> {
        let height = plan.format.height;
        let first = self.packed.div_ceil(height);
        let end = if self.is_complete() { self.end().div_ceil(height) } else { self.end() / height };
        first..end.max(first)
    }

    /// Tile rows before this one are packed.
    pub fn packed(&mut self, plan: &LevelPlan, tile_row: u32) {
        let done = u64::from(tile_row) * u64::from(plan.format.height);
        self.packed = self.packed.max(done.min(u64::from(self.height.1)) as u32);
    }

    /// The tiles of some tile rows of an image: row by row, plane by plane, from left to right.
    pub fn tiles(&self, plan: &LevelPlan, image: usize, tile_rows: Range<u32>) -> Vec<(Place, u64, PackTile)> {
        let mut tiles = Vec::new();
        let (across, down) = (plan.format.width, plan.format.height);
        for row in tile_rows {
            let top = row * down;
            // A mask that is encoded apart comes as pixels.
            let (Strided { address, strides }, size) = match self.mask_at(top).filter(|_| plan.mask) {
                Some(mask) => (mask, 1),
                None => (self.at(top), u64::from(self.size)),
            };
            let rows = plan.rows_in_tile(row);
            let bytes = plan.plain_bytes(rows);
            for plane in 0..plan.planes() {
                for col in 0..plan.across {
                    let left = col * across;
                    let input = address + u64::from(plane) * strides[0] as u64 + u64::from(left) * size;
                    let (height, width) = (down.min(self.height.1 - top), across.min(plan.width - left));
                    let tile = PackTile { input, output: 0, strides, height, width, rows };
                    tiles.push((Place { image, plane, row, col }, bytes, tile));
                }
            }
        }
        tiles
    }

    fn level(&self) -> reduce::Level {
        let (pixels, band, row) = (self.pixels, self.band_bytes(), self.row_bytes());
        reduce::Level { pixels, band, row, mask: self.mask.unwrap_or(0), first: self.first, rows: self.count }
    }

    /// Makes rows of the next level, as many as there are rows for here and room there; tells how many.
    pub fn reduce(&self, gpu: &Gpu, stream: &Stream, below: &mut Self) -> Result<u32, Failure> {
        let Some((step, table, scratch)) = &self.step else { return Ok(0) };
        let first = below.end();
        let most = below.left().min(below.height.1 - first);
        let count = (first..first + most).take_while(|&y| step.reduction.needs(y).end <= self.end()).count() as u32;
        if count == 0 {
            return Ok(0);
        }
        let mut made = below.level();
        made.pixels += u64::from(below.count) * below.row_bytes();
        if made.mask != 0 {
            made.mask += u64::from(below.count) * u64::from(below.width);
        }
        (made.first, made.rows) = (first, count);
        gpu.kernels.reduce(stream, &step.reduction, *table, &self.level(), &made, *scratch)?;
        below.count += count;
        Ok(count)
    }

    /// Lets go of rows that nothing needs any more; `next` is the row of the next level that is due. Tells whether there
    /// is room again.
    pub fn slide(&mut self, gpu: &Gpu, stream: &Stream, next: Option<u32>) -> Result<bool, Failure> {
        let needed = match (&self.step, next) {
            (Some((step, _, _)), Some(y)) if y < step.rows => step.reduction.needs(y).start,
            _ => self.end(),
        };
        let keep = needed.min(self.packed).clamp(self.first, self.end());
        let shift = keep - self.first;
        if shift == 0 {
            return Ok(self.left() > 0 || self.is_complete());
        }
        // Rows move up in steps that do not reach into themselves.
        let left = self.end() - keep;
        for done in (0..left).step_by(shift as usize) {
            let count = shift.min(left - done);
            let (from, to) = (keep + done, self.first + done);
            gpu.kernels.collect(
                stream,
                &self.at(from),
                &self.at(to),
                [self.bands, count, self.width],
                self.size,
                None,
            )?;
            if let (Some(from), Some(to)) = (self.mask_at(from), self.mask_at(to)) {
                gpu.kernels.collect(stream, &from, &to, [1, count, self.width], 1, None)?;
            }
        }
        self.first = keep;
        self.count = left;
        Ok(true)
    }
}
