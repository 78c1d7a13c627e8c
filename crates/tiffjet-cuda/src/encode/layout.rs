//! Where everything of a write stands in device memory, and how much of it there is. Pure.

use tiffjet::LevelPlan;

use super::route::Needs;
use crate::kernels::Tile;
use crate::kernels::write::PackTile;

/// Tiles of a wave at most: their tables must fit into the notes of a lane.
pub const MOST_TILES: u32 = 8192;
/// Waves on their way at once where memory allows: while one is copied another is compressed and a third is packed.
pub const MOST_LANES: u32 = 3;
/// Everything begins at a multiple of this.
const ALIGNED: u64 = 256;

/// Parts of memory one behind the other.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cursor(u64);

impl Cursor {
    /// The place of the next part.
    pub fn take(&mut self, bytes: u64) -> u64 {
        let at = self.0;
        self.0 = at.saturating_add(bytes).saturating_add(ALIGNED - 1) / ALIGNED * ALIGNED;
        at
    }

    /// Bytes so far.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

/// The memory of one wave of one image, in bytes from the beginning of its lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaveLayout {
    pub needs: Needs,
    pub pack: u64,
    pub tables: Tables,
    pub differs: u64,
    pub statuses: u64,
    pub sizes: u64,
    pub sums: u64,
    pub results: u64,
    pub plain: u64,
    pub slots: u64,
    pub scratch: u64,
    pub blob: u64,
    /// Bytes of the blob.
    pub room: u64,
    pub bytes: u64,
}

/// The tables of a wave that are uploaded when it is full, one behind the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tables {
    pub tiles: u64,
    pub inputs: u64,
    pub bytes: u64,
    pub outputs: u64,
    pub end: u64,
}

impl Tables {
    /// For so many tiles from some place on.
    pub fn new(at: u64, count: u64) -> Self {
        let inputs = at + count * Tile::SIZE;
        let (bytes, outputs) = (inputs + 8 * count, inputs + 16 * count);
        Self { tiles: at, inputs, bytes, outputs, end: inputs + 24 * count }
    }
}

impl WaveLayout {
    /// Of `count` tiles. The blob has a place of its own unless the plain tiles are done with when it is made.
    pub fn new(needs: Needs, count: u32, encodes: bool, blob_apart: bool) -> Self {
        let n = u64::from(count);
        let mut cursor = Cursor::default();
        let pack = cursor.take(n * PackTile::SIZE);
        let tables = Tables::new(cursor.0, n);
        cursor.take(tables.end - tables.tiles);
        let differs = cursor.take(4 * n);
        let statuses = cursor.take(4 * n);
        let sizes = cursor.take(8 * n);
        let sums = cursor.take(4 * n);
        let results = cursor.take(16 * n + 8);
        let plain = cursor.take(n * needs.plain);
        let slots = cursor.take(n.saturating_mul(needs.slot));
        let scratch = cursor.take(needs.scratch);
        // Most tiles shrink: those that do not fit wait for a second blob.
        let room = needs.longest.max(n * needs.plain / if blob_apart { 2 } else { 1 });
        let (blob, room) = match (encodes, blob_apart || needs.longest > n * needs.plain) {
            (false, _) => (plain, n * needs.plain),
            (true, false) => (plain, n * needs.plain),
            (true, true) => (cursor.take(room), room),
        };
        let bytes = cursor.bytes();
        Self { needs, pack, tables, differs, statuses, sizes, sums, results, plain, slots, scratch, blob, room, bytes }
    }
}

/// Rows of one level in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageLayout {
    /// First byte of its pixels, from the beginning of the write's memory.
    pub pixels: u64,
    /// First byte of its mask.
    pub mask: u64,
    /// Rows there is room for.
    pub room: u32,
}

/// What a level needs to be laid out.
#[derive(Clone, Copy)]
pub struct Level<'a> {
    pub plan: &'a LevelPlan,
    pub masked: bool,
    /// Rows of this one that a row of the next is made from, at most.
    pub window: u32,
    /// Table and scratch of that, for so many rows.
    pub table: u64,
    pub scratch: &'a dyn Fn(u32) -> u64,
}

/// All memory of a write.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    pub stages: Vec<StageLayout>,
    /// Tables of the reductions, one for each level but the last.
    pub tables: Vec<u64>,
    /// Scratch of any of them.
    pub scratch: u64,
    /// First bytes of lanes.
    pub lanes: Vec<u64>,
    /// By kind of image: tiles of a wave and their places.
    pub waves: Vec<(u32, WaveLayout)>,
    pub bytes: u64,
}

/// Tiles of a wave and waves at once, as a write would have them with all the memory there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Best {
    pub tiles: u32,
    pub lanes: u32,
}

impl Best {
    /// What to try, the best first: waves that overlap are worth more than larger ones.
    fn sizes(self) -> impl Iterator<Item = (u32, u32)> {
        let halves = std::iter::successors(Some(self.tiles.clamp(1, MOST_TILES)), |&n| (n > 1).then_some(n / 2));
        let most = self.lanes.max(1);
        let least = move |tiles: u32| if tiles <= 4 { 1 } else { most.min(2) };
        halves.flat_map(move |tiles| (least(tiles)..=most).rev().map(move |lanes| (tiles, lanes)))
    }
}

/// The best layout that fits into so many bytes, or the smallest there is. `wave` lays out a wave of so many tiles for
/// each kind of image.
pub fn lay_out<E>(
    levels: &[Level<'_>],
    best: Best,
    budget: u64,
    wave: &dyn Fn(u32) -> Result<Vec<WaveLayout>, E>,
) -> Result<Layout, E> {
    let mut smallest = None;
    for (tiles, lanes) in best.sizes() {
        let layout = with(levels, tiles, lanes, wave(tiles)?);
        if layout.bytes <= budget {
            return Ok(layout);
        }
        if smallest.as_ref().is_none_or(|least: &Layout| layout.bytes < least.bytes) {
            smallest = Some(layout);
        }
    }
    Ok(smallest.unwrap_or_default())
}

fn with(levels: &[Level<'_>], tiles: u32, lanes: u32, waves: Vec<WaveLayout>) -> Layout {
    let mut cursor = Cursor::default();
    let mut layout = Layout::default();
    let mut scratch = 0;
    for (i, level) in levels.iter().enumerate() {
        let plan = level.plan;
        let in_row = u64::from(plan.across) * u64::from(plan.planes());
        // Levels below have fewer rows in the same time.
        let worth = (u64::from(tiles) >> i.min(31)).div_ceil(in_row).max(1);
        let rows = (worth * u64::from(plan.format.height)).min(u64::from(plan.height).next_multiple_of(16));
        let room = (rows + u64::from(level.window)).min(u64::from(u32::MAX)) as u32;
        let pixels = cursor.take(u64::from(room).saturating_mul(plan.image_row_bytes()));
        let mask = if level.masked { cursor.take(u64::from(room) * u64::from(plan.width)) } else { 0 };
        layout.stages.push(StageLayout { pixels, mask, room });
        if level.window > 0 {
            layout.tables.push(cursor.take(level.table));
            scratch = (level.scratch)(room).max(scratch);
        }
    }
    layout.scratch = cursor.take(scratch);
    let lane = waves.iter().map(|wave| wave.bytes).max().unwrap_or(0);
    layout.lanes = (0..lanes).map(|_| cursor.take(lane)).collect();
    layout.waves = waves.into_iter().map(|wave| (tiles, wave)).collect();
    layout.bytes = cursor.bytes();
    layout
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tiffjet::{DType, WriteOptions, WritePlan};

    use super::*;

    fn plan(size: usize, cog: bool) -> WritePlan {
        let mut options = WriteOptions::new([1, size, size], DType::Float32);
        options.cog = cog;
        WritePlan::new(&"a.tif".into(), &options).unwrap()
    }

    /// What a write of this size has on the device, where compression needs four times the tiles.
    fn laid_out(size: usize, budget: u64) -> Layout {
        let plan = plan(size, true);
        let bytes = plan.levels[0].plain_bytes(512);
        let needs =
            |n: u32| Needs { plain: bytes + 16, slot: bytes, scratch: u64::from(n) * 2 * bytes, longest: bytes + 70 };
        let wave = |n: u32| Ok::<_, Infallible>(vec![WaveLayout::new(needs(n), n, true, false)]);
        let last = plan.levels.len() - 1;
        let levels: Vec<Level<'_>> = plan
            .levels
            .iter()
            .enumerate()
            .map(|(i, plan)| Level {
                plan,
                masked: false,
                window: if i < last { 2 } else { 0 },
                table: 64,
                scratch: &|_| 0,
            })
            .collect();
        lay_out(&levels, Best { tiles: 128, lanes: MOST_LANES }, budget, &wave).unwrap()
    }

    #[test]
    fn a_budget_is_kept_down_to_one_tile_row_of_each_level() {
        const MIB: u64 = 1 << 20;
        for budget in [48 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB] {
            let layout = laid_out(8192, budget);
            assert!(layout.bytes <= budget, "{} of {}", layout.bytes / MIB, budget / MIB);
        }
        let rich = laid_out(8192, u64::MAX);
        assert_eq!((rich.lanes.len(), rich.waves[0].0), (3, 128));
        let poor = laid_out(8192, 0);
        assert_eq!((poor.lanes.len(), poor.waves[0].0), (1, 1));
        assert!(poor.stages.iter().all(|stage| stage.room >= 512) && poor.bytes < 40 * MIB, "{}", poor.bytes);
    }

    #[test]
    fn parts_do_not_overlap() {
        for budget in [0, 100 << 20, u64::MAX] {
            let layout = laid_out(3000, budget);
            let mut parts: Vec<(u64, u64)> = layout
                .stages
                .iter()
                .zip(&plan(3000, true).levels)
                .map(|(stage, plan)| (stage.pixels, u64::from(stage.room) * plan.image_row_bytes()))
                .chain(layout.lanes.iter().map(|&lane| (lane, layout.waves[0].1.bytes)))
                .collect();
            parts.sort_unstable();
            assert!(parts.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
            assert!(parts.last().is_some_and(|last| last.0 + last.1 <= layout.bytes));
        }
    }
}
