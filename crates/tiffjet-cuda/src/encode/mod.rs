//! A write on the device: rows as they come, levels made from them, tiles in waves.
//!
//! Everything that touches rows is in one stream, in order: rows are collected, the next level is made from them, tiles
//! are packed. What becomes of packed tiles is the matter of the waves, in streams of their own, and what has come back to
//! the host goes into the file in another thread meanwhile.

mod land;
mod layout;
mod picture;
mod route;
mod stage;
mod wave;

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Instant;

use tiffjet::{Emit, EncodeJob, Error, Fallback, LevelPlan, Limits, Pipeline, Report, Result, Rows, WritePlan, wanted};

use crate::ffi::driver::Failure;
use crate::kernels::write::PackFormat;
use crate::memory::{Gpu, Lane, SLOT};
use land::{Giver, Landing};
use layout::{Best, Layout, Level, MOST_LANES, WaveLayout, lay_out};
pub use picture::Picture;
pub use route::ENCODED;
use route::{Choice, Route};
use stage::{Stage, Step};
use wave::{Kind, Land, Waves};

/// Landings that may wait for the thread that gives them away.
const AHEAD: usize = 6;
/// Plain bytes of a wave that keep the device busy with kernels that share a tile among many threads.
const BUSY: u64 = 32 << 20;
/// Tiles that nvCOMP needs at once: it works on each of them as if it were alone.
const BUSY_TILES: u64 = 1024;
/// Tiles that keep all states of a library busy.
const BUSY_PICTURES: u64 = 96;
/// With fewer of them at once the host's codecs are faster.
const FEW_TILES: u64 = 64;
/// Plain bytes of a wave that the host's codecs get at once, with work for all cores.
const HOST_WAVE: u64 = 32 << 20;
/// Device memory where nobody says: for own kernels, and for nvCOMP, whose scratch alone can have a gigabyte.
const MEMORY: u64 = 384 << 20;
const NVCOMP_MEMORY: u64 = 4 << 30;
/// The part of free memory that is taken without being asked for.
const SHARE: u64 = 4;

/// One write.
pub struct Encoding {
    /// There as long as this is.
    work: Option<Work>,
    report: Report,
    begun: Instant,
    name: Arc<str>,
}

/// What is written, and what all of it stands in.
struct Work {
    gpu: Arc<Gpu>,
    name: Arc<str>,
    /// All levels, then their masks.
    images: Arc<[LevelPlan]>,
    formats: Vec<PackFormat>,
    masked: bool,
    nan: Option<Vec<u8>>,
    stages: Vec<Stage>,
    waves: Waves,
    /// Where everything that touches rows goes.
    rows: Lane,
    memory: u64,
    bytes: u64,
}

impl Encoding {
    /// For all rows of an image.
    pub fn new(gpu: &Arc<Gpu>, name: &Arc<str>, plan: &WritePlan) -> Result<Self> {
        let images: Arc<[LevelPlan]> = plan.levels.iter().chain(&plan.masks).cloned().collect();
        let steps = stage::steps(name, plan)?;
        let heights = plan.levels.iter().map(|level| (0, level.height)).collect();
        let wanted =
            Wanted { images, steps, heights, nan: plan.nan.clone(), memory: plan.memory, fallback: plan.fallback };
        Self::with(gpu, name, wanted)
    }

    fn with(gpu: &Arc<Gpu>, name: &Arc<str>, wanted: Wanted) -> Result<Self> {
        let begun = Instant::now();
        let refused = |failure: Failure| gpu.refused(name, &failure);
        let _current = gpu.enter().map_err(refused)?;
        let mut report = Report::default();
        let (work, choices) = Work::new(gpu, name, &wanted)?;
        report.device_memory = work.bytes;
        report.host_memory = (AHEAD * SLOT) as u64;
        report.fallbacks.extend(choices.into_iter().filter_map(|choice| choice.fallback));
        report.fallbacks.dedup();
        Ok(Self { work: Some(work), report, begun, name: name.clone() })
    }

    /// Works while what comes back is given away.
    fn run(&mut self, emit: &mut Emit<'_>, act: impl FnOnce(&mut Work, &mut Land<'_>) -> Result<()>) -> Result<()> {
        let Self { work, report, name, .. } = self;
        let Some(work) = work else { return Err(ended(name)) };
        let gpu = work.gpu.clone();
        let (name, images) = (work.name.clone(), work.images.clone());
        let _current = gpu.enter().map_err(|failure| gpu.refused(&name, &failure))?;
        std::thread::scope(|scope| {
            let giver = Giver { gpu: &gpu, name: &name, images: &images, report };
            let mut giving = Giving { scope, idle: Some((giver, emit)), thread: None };
            let done = act(work, &mut |landing| giving.give(landing, &name));
            // What the taker of tiles says is the reason of all else.
            giving.finish().and(done)
        })
    }
}

/// A thread that gives tiles away, begun with the first of them.
struct Giving<'scope, 'env, 'e> {
    scope: &'scope Scope<'scope, 'env>,
    idle: Option<(Giver<'env>, &'env mut Emit<'e>)>,
    thread: Option<(SyncSender<Landing>, ScopedJoinHandle<'scope, Result<()>>)>,
}

impl<'scope, 'env, 'e: 'scope> Giving<'scope, 'env, 'e> {
    fn give(&mut self, landing: Landing, name: &Arc<str>) -> Result<()> {
        if let Some((mut giver, emit)) = self.idle.take() {
            let (sender, receiver) = sync_channel::<Landing>(AHEAD);
            let thread = self.scope.spawn(move || {
                let _current = giver.gpu.enter().map_err(|failure| giver.gpu.refused(giver.name, &failure))?;
                receiver.into_iter().try_for_each(|landing| giver.give(landing, emit))
            });
            self.thread = Some((sender, thread));
        }
        // A taker that has failed takes no more; it says why when it is asked.
        let sent = self.thread.as_ref().is_some_and(|(sender, _)| sender.send(landing).is_ok());
        if sent { Ok(()) } else { Err(Error::invalid(name, "nobody takes the tiles any more")) }
    }

    fn finish(self) -> Result<()> {
        let Some((sender, thread)) = self.thread else { return Ok(()) };
        drop(sender);
        // A panic of the other thread goes on in this one.
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Pipeline for Encoding {
    fn push(&mut self, rows: &Rows<'_>, emit: &mut Emit<'_>) -> Result<()> {
        let [bands, count, width] = rows.shape();
        self.report.bytes_read += (bands * count * width * rows.dtype().size()) as u64;
        self.run(emit, |work, land| work.push(rows, land))
    }

    fn finish(&mut self, emit: &mut Emit<'_>) -> Result<Report> {
        self.run(emit, |work, land| work.waves.finish(&work.rows.stream, land))?;
        let mut report = std::mem::take(&mut self.report);
        report.seconds = self.begun.elapsed().as_secs_f64();
        report.routes = self.work.iter().flat_map(|work| work.waves.routes()).collect();
        report.fallbacks.extend(self.work.iter().flat_map(|work| work.waves.fallbacks()));
        Ok(report)
    }

    fn is_fast(&self) -> bool {
        true
    }
}

/// Encodes rows of one level apart from the rest of their image.
pub fn encode(gpu: &Arc<Gpu>, job: &EncodeJob<'_>, emit: &mut Emit<'_>) -> Result<()> {
    let first = job.first.saturating_mul(job.plan.format.height);
    let wanted = Wanted {
        images: Arc::new([job.plan.clone()]),
        steps: Vec::new(),
        heights: vec![(first, first.saturating_add(job.rows.rows() as u32))],
        nan: None,
        memory: None,
        fallback: job.fallback,
    };
    let mut encoding = Encoding::with(gpu, job.name, wanted)?;
    encoding.push(&job.rows, emit)?;
    encoding.finish(emit).map(drop)
}

/// What a write is made from.
struct Wanted {
    images: Arc<[LevelPlan]>,
    /// How each level is made from the one above.
    steps: Vec<Step>,
    /// First row and end of each level.
    heights: Vec<(u32, u32)>,
    nan: Option<Vec<u8>>,
    memory: Option<u64>,
    fallback: Fallback,
}

impl Wanted {
    fn is_masked(&self) -> bool {
        self.images.len() > self.heights.len()
    }

    /// The same with the route of each.
    fn with_routes(&self, choices: &[Choice]) -> Vec<(&LevelPlan, Route)> {
        self.kinds().zip(choices).map(|(plan, choice)| (plan, choice.route)).collect()
    }

    /// The full image, and its mask: tiles of other levels are no larger.
    fn kinds(&self) -> impl Iterator<Item = &LevelPlan> {
        self.images.iter().step_by(self.heights.len().max(1))
    }
}

impl Work {
    fn new(gpu: &Arc<Gpu>, name: &Arc<str>, wanted: &Wanted) -> Result<(Self, Vec<Choice>)> {
        let mut choices: Vec<Choice> =
            wanted.kinds().map(|plan| route::choose(name, plan, gpu, wanted.fallback)).collect::<Result<_>>()?;
        let rows = gpu.take_lane().map_err(|failure| gpu.refused(name, &failure))?;
        let laid_out = lay_out_for(gpu, name, wanted, &mut choices, &rows);
        let (layout, memory) = match laid_out {
            Ok(laid_out) => laid_out,
            Err(error) => {
                gpu.give_lane(rows);
                return Err(error);
            }
        };
        let kinds: Vec<(&LevelPlan, Route)> = wanted.with_routes(&choices);
        let mut work = Self {
            gpu: gpu.clone(),
            name: name.clone(),
            images: wanted.images.clone(),
            formats: wanted.images.iter().map(|plan| PackFormat::new(plan, None)).collect(),
            masked: wanted.is_masked(),
            nan: wanted.nan.clone(),
            stages: Vec::new(),
            waves: Waves::new(gpu, name, (&wanted.images, kinds_of(&kinds, &layout)), wanted.fallback),
            rows,
            memory,
            bytes: layout.bytes,
        };
        let lanes = layout.lanes.iter().try_for_each(|lane| work.waves.add_lane(memory + lane));
        match lanes.and_then(|()| work.make_stages(wanted, &layout)) {
            Ok(()) => Ok((work, choices)),
            Err(failure) => {
                let error = gpu.refused(name, &failure);
                work.end();
                Err(error)
            }
        }
    }

    /// Waits until nothing of it runs any more, well or not, and gives all it has back.
    fn end(self) {
        let Self { gpu, waves, rows, memory, .. } = self;
        // Memory that is in use must not be given to somebody else.
        waves.end();
        let _ = rows.stream.wait();
        let _ = rows.stream.give_back(memory);
        gpu.give_lane(rows);
    }

    fn make_stages(&mut self, wanted: &Wanted, layout: &Layout) -> Result<(), Failure> {
        let mut at = 0;
        for (i, (place, &(first, end))) in layout.stages.iter().zip(&wanted.heights).enumerate() {
            let step = match wanted.steps.get(i) {
                Some(step) => {
                    let table = self.memory + layout.tables[i];
                    at = step.upload(&mut self.rows, at, table)?;
                    Some((step.clone(), table, self.memory + layout.scratch))
                }
                None => None,
            };
            let plan = &self.images[i];
            let mask = self.masked.then_some(self.memory + place.mask);
            let pixels = self.memory + place.pixels;
            self.stages.push(Stage::new(plan, pixels, mask, place.room, (first, end), step));
        }
        Ok(())
    }

    fn refused<T>(&self, outcome: Result<T, Failure>) -> Result<T> {
        outcome.map_err(|failure| self.gpu.refused(&self.name, &failure))
    }

    fn push(&mut self, rows: &Rows<'_>, land: &mut Land<'_>) -> Result<()> {
        if let Rows::Device(rows) = rows {
            let own = crate::storage::device(&self.gpu);
            if rows.memory().device() != own {
                let what = format!("{} cannot read memory of device {:?}", self.gpu.device, rows.memory().device());
                return Err(Error::invalid(&self.name, what));
            }
            // What its owner still does with the memory comes first.
            self.refused(wave::after(&self.rows.stream, &self.rows.ready, rows.memory().stream()))?;
        }
        let mut first = 0;
        while first < rows.rows() {
            wanted(&self.name)?;
            let count = (rows.rows() - first).min(self.stages[0].left() as usize);
            let taken =
                self.stages[0].take(&self.gpu, &self.rows.stream, &rows.part(first, count), self.nan.as_deref());
            self.refused(taken)?;
            first += count;
            if self.stages[0].is_due() {
                self.advance(0, land)?;
            }
        }
        match rows {
            // The caller may do with its memory what it likes when this returns.
            Rows::Device(_) => self.refused(self.rows.stream.wait()),
            Rows::Host(_) => Ok(()),
        }
    }

    /// Makes what can be made from the rows of a level, tiles and rows of the next one, and lets go of the rows.
    fn advance(&mut self, level: usize, land: &mut Land<'_>) -> Result<()> {
        self.pack(level, land)?;
        while level + 1 < self.stages.len() {
            let (above, below) = self.stages.split_at_mut(level + 1);
            let (above, below) = (&above[level], &mut below[0]);
            let made = above.reduce(&self.gpu, &self.rows.stream, below);
            let due = below.is_due();
            let made = self.refused(made)?;
            if due {
                self.advance(level + 1, land)?;
            }
            if made == 0 {
                break;
            }
        }
        let next = self.stages.get(level + 1).map(Stage::end);
        let slid = self.stages[level].slide(&self.gpu, &self.rows.stream, next);
        if !self.refused(slid)? {
            return Err(Error::invalid(&self.name, format!("level {level} is stuck: its rows are never done with")));
        }
        Ok(())
    }

    /// Packs the whole tile rows of a level, and of its mask.
    fn pack(&mut self, level: usize, land: &mut Land<'_>) -> Result<()> {
        let levels = self.stages.len();
        let tile_rows = self.stages[level].whole(&self.images[level]);
        let masks = if self.masked { Some(level + levels) } else { None };
        for (kind, image) in [Some(level), masks].into_iter().flatten().enumerate() {
            let plan = &self.images[image];
            let tiles = self.stages[level].tiles(plan, image, tile_rows.clone());
            self.waves.pack(&self.rows.stream, kind, &self.formats[image], &tiles, land)?;
        }
        self.stages[level].packed(&self.images[level], tile_rows.end);
        Ok(())
    }
}

impl Drop for Encoding {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        if crate::memory::is_forked() {
            std::mem::forget(work); // all of it is the parent's
        } else if let Ok(_current) = work.gpu.clone().enter() {
            work.end();
        }
    }
}

fn ended(name: &Arc<str>) -> Error {
    Error::invalid(name, "the write has ended")
}

/// The best layout that the budget allows, and memory for it. What nvCOMP can't do with so little is left to the host.
fn lay_out_for(
    gpu: &Gpu,
    name: &Arc<str>,
    wanted: &Wanted,
    choices: &mut [Choice],
    rows: &Lane,
) -> Result<(Layout, u64)> {
    let refused = |failure: Failure| gpu.refused(name, &failure);
    let free = gpu.free_memory().map_err(refused)?;
    let mut kinds = wanted.with_routes(choices);
    let allowed = budget(wanted.memory, free, &kinds);
    let mut layout = lay_out_kinds(wanted, &kinds, allowed, rows).map_err(refused)?;
    let poor = layout.bytes > allowed || wanted.fallback == Fallback::Allow && is_short(&layout, &kinds);
    if poor && kinds.iter().any(|(_, route)| matches!(route, Route::Nvcomp(_))) {
        for (choice, (plan, route)) in choices.iter_mut().zip(kinds) {
            if matches!(route, Route::Nvcomp(_)) {
                let why = match layout.bytes > allowed {
                    true => format!("nvCOMP needs {} bytes of device memory, and {allowed} are allowed", layout.bytes),
                    false => format!("nvCOMP is slow with the few tiles that {allowed} bytes of device memory hold"),
                };
                *choice = route::on_host(name, plan, wanted.fallback, &why)?;
            }
        }
        kinds = wanted.with_routes(choices);
        layout = lay_out_kinds(wanted, &kinds, budget(wanted.memory, free, &kinds), rows).map_err(refused)?;
    }
    let allowed = Limits::default().output_bytes.min(free);
    if layout.bytes > allowed {
        let what = format!("bytes of memory of {} for one row of tiles of each level", gpu.device);
        return Err(Error::limit(name, what, layout.bytes, allowed));
    }
    let memory = rows.stream.take(gpu.pool(), layout.bytes.max(256)).map_err(|failure| match failure.code {
        Failure::OUT_OF_MEMORY => {
            Error::limit(name, format!("bytes of memory of {} ({failure})", gpu.device), layout.bytes, free)
        }
        _ => refused(failure),
    })?;
    Ok((layout, memory))
}

/// Whether waves are so small that nvCOMP leaves the device idle.
fn is_short(layout: &Layout, kinds: &[(&LevelPlan, Route)]) -> bool {
    let waves = layout.waves.iter().zip(kinds);
    waves.into_iter().any(|((tiles, _), (plan, _))| u64::from(*tiles) < plan.tiles().min(FEW_TILES))
}

/// The best layout that so many bytes allow.
fn lay_out_kinds(wanted: &Wanted, kinds: &[(&LevelPlan, Route)], allowed: u64, rows: &Lane) -> Result<Layout, Failure> {
    let wave = |tiles: u32| {
        let of = |&(plan, route): &(&LevelPlan, Route)| {
            let needs = route.needs(plan, tiles, &rows.stream)?;
            Ok(WaveLayout::new(needs, tiles, route.encodes(), !matches!(route, Route::Nvcomp(_))))
        };
        kinds.iter().map(of).collect::<Result<Vec<_>, Failure>>()
    };
    let scratch: Vec<_> = wanted.steps.iter().map(|step| |rows: u32| step.scratch(rows)).collect();
    let level = |i: usize| Level {
        plan: &wanted.images[i],
        masked: wanted.is_masked(),
        window: wanted.steps.get(i).map_or(0, Step::window),
        table: wanted.steps.get(i).map_or(0, Step::table_bytes),
        scratch: scratch.get(i).map_or(&|_| 0, |scratch| scratch),
    };
    let levels: Vec<Level<'_>> = (0..wanted.heights.len()).map(level).collect();
    lay_out(&levels, best(kinds), allowed, &wave)
}

fn kinds_of(kinds: &[(&LevelPlan, Route)], layout: &Layout) -> Vec<Kind> {
    let waves = kinds.iter().zip(&layout.waves);
    waves.map(|(&(plan, route), &(tiles, layout))| Kind::new(plan, route, tiles, layout)).collect()
}

/// Bytes of device memory for a write.
fn budget(memory: Option<u64>, free: u64, kinds: &[(&LevelPlan, Route)]) -> u64 {
    let nvcomp = kinds.iter().any(|(_, route)| matches!(route, Route::Nvcomp(_)));
    memory.unwrap_or_else(|| (free / SHARE).min(if nvcomp { NVCOMP_MEMORY } else { MEMORY }))
}

/// How large waves should be.
fn best(kinds: &[(&LevelPlan, Route)]) -> Best {
    let tiles = |&(plan, route): &(&LevelPlan, Route)| {
        let bytes = plan.plain_bytes(plan.format.height).max(1);
        let worth = match route {
            Route::Nvcomp(_) => BUSY_TILES,
            Route::Host => (HOST_WAVE / bytes).max(1),
            Route::Picture(_) => (BUSY / bytes).max(BUSY_PICTURES),
            _ => (BUSY / bytes).max(1),
        };
        worth.min(plan.tiles().saturating_mul(2)).min(u64::from(u32::MAX)) as u32
    };
    let apart = |&(_, route): &(&LevelPlan, Route)| matches!(route, Route::Nvcomp(_));
    Best {
        tiles: kinds.first().map_or(1, tiles),
        // nvCOMP's waves take as long when they share the device.
        lanes: if kinds.iter().any(apart) { 1 } else { MOST_LANES },
    }
}
