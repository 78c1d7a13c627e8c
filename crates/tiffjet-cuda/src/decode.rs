//! A read on the device: ways, groups, launches, the one wait, and what becomes of tiles that the device refuses.

mod pass;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use rayon::ThreadPool;
use tiffjet::backend::{changed, common_bytes};
use tiffjet::plan::{self, Costs};
use tiffjet::{Error, Fallback, ReadJob, ReadOptions, Report, Result, decode_tile};

use crate::batch::{self, Bounds, Formats, Item, Loads, Rect, Way};
use crate::codec::{self, LIBRARY_ROUTES, Output, ROUTES};
use crate::direct::{self, Direct};
use crate::ffi::cufile::{PAGE, Transfer};
use crate::ffi::driver::{Event, Failure, Stream};
use crate::format::{format, in_planes, library, value, way};
use crate::kernels::{Format, STATUS_LONGER};
use crate::memory::{Gpu, LANES, Presence, SLOT, Streams};
use crate::storage::{DeviceBuffer, download};
use pass::Pass;

/// What a user can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Device memory of a read beside its result.
    pub budget: u64,
    /// The most bytes that are loaded before their tiles are decoded, while more arrive. Small reads take less, so that
    /// every lane has its share.
    pub group: u64,
    /// Groups that are on the device at once, 8 at most.
    pub lanes: usize,
    /// Threads that fill slots; 0 for as many as there are.
    pub threads: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { budget: 3 << 29, group: 32 << 20, lanes: LANES, threads: 0 }
    }
}

/// Columns of a tile that the kernels can't count any more.
const WIDEST: u32 = (1 << 31) - 1024;
/// Seconds that sharing work with the cores must save.
const WORTH: f64 = 1e-3;
/// Bytes a second from the cores to the device.
const UPLOAD: f64 = 40e9;
/// A group of a small read is smaller than that of a large one, but not by more than this.
const SMALLER: u64 = 4;
/// Loads that a thread makes in a read, where it is not too small for that: nothing is on its way before the first are full.
const ROUNDS: u64 = 4;
/// The least that a load is worth a thread for.
const LEAST_LOAD: u64 = 256 << 10;
/// So many threads keep a network busy that answers at once.
const ENOUGH_THREADS: usize = 8;
/// Bytes of a read from another machine that are worth a request for each thread.
const MANY: u64 = 8 * SLOT as u64;

/// Reads windows into new memory of the device.
pub fn read_new(
    gpu: &Arc<Gpu>,
    settings: &Settings,
    jobs: &[ReadJob<'_>],
    options: &ReadOptions,
) -> Result<(DeviceBuffer, Report)> {
    let bytes = common_bytes(jobs)? as u64;
    let reading = Reading::new(gpu, settings, jobs, options)?;
    reading.within(|streams| {
        let bounds = reading.bounds(bytes)?;
        let output = reading.refused_with(bytes, DeviceBuffer::take(gpu, &streams.lanes[0], bytes))?;
        let report = reading.read(streams, output.address(), bounds)?;
        Ok((output, report))
    })
}

/// Reads windows into memory of the device that is there already.
pub fn read_at(
    gpu: &Arc<Gpu>,
    settings: &Settings,
    jobs: &[ReadJob<'_>],
    options: &ReadOptions,
    (address, stream): (u64, usize),
) -> Result<Report> {
    let reading = Reading::new(gpu, settings, jobs, options)?;
    reading.within(|streams| {
        // What its owner still does with the memory comes first.
        let before = gpu.event().and_then(|event| {
            event.record_foreign(stream)?;
            streams.lanes[0].wait_for(&event)
        });
        reading.refused(before)?;
        reading.read(streams, address, reading.bounds(0)?)
    })
}

/// Reads windows into memory of the host, by way of the device.
pub fn read_to_host(
    gpu: &Arc<Gpu>,
    settings: &Settings,
    jobs: &[ReadJob<'_>],
    options: &ReadOptions,
    out: &mut [u8],
) -> Result<Report> {
    let begun = Instant::now();
    let (buffer, mut report) = read_new(gpu, settings, jobs, options)?;
    let reading = Reading::new(gpu, settings, jobs, options)?;
    reading.within(|streams| reading.refused(download(gpu, &streams.lanes[0], buffer.address(), out)))?;
    report.seconds = begun.elapsed().as_secs_f64();
    Ok(report)
}

/// Seconds of each phase of a read alone, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Phases {
    /// From the files to page-locked memory, by all threads; host codecs included.
    pub fetch: f64,
    /// From page-locked memory to the device.
    pub copy: f64,
    /// Decoding and placing, with everything on the device.
    pub kernels: f64,
}

/// Measures the phases of a read one by one: what it would take if all overlapped is the longest of them.
pub fn phases(gpu: &Arc<Gpu>, settings: &Settings, jobs: &[ReadJob<'_>]) -> Result<Phases> {
    let options = ReadOptions::default();
    let whole = Settings { group: u64::MAX, budget: u64::MAX, ..*settings };
    let reading = Reading::new(gpu, &whole, jobs, &options)?;
    let bytes = common_bytes(jobs)? as u64;
    let mut phases = Phases::default();
    reading.within(|streams| {
        let (bounds, lanes) = reading.bounds(bytes)?;
        // One lane with the memory of all: there is one group, whatever the pool has kept.
        let bounds = Bounds { group: bounds.group.saturating_mul(lanes as u64), ..bounds };
        let output = reading.refused_with(bytes, DeviceBuffer::take(gpu, &streams.lanes[0], bytes))?;
        let window = bytes / jobs.len() as u64;
        let outputs: Vec<u64> = (0..jobs.len() as u64).map(|i| output.address() + i * window).collect();
        let statuses = Statuses::take(&reading, &streams.lanes[0])?;
        let mut pass = Pass {
            reading: &reading,
            outputs: &outputs,
            statuses: statuses.address(),
            bounds: (bounds, 1),
            dry: true,
            timing: None,
        };
        let begun = Instant::now();
        pass.run(streams, &reading.items, &reading.rects)?;
        phases.fetch = begun.elapsed().as_secs_f64() * 1e3;
        let timing = reading.refused(gpu.timed_event().and_then(|start| Ok((start, gpu.timed_event()?))))?;
        pass.dry = false;
        pass.timing = Some(&timing);
        pass.run(streams, &reading.items, &reading.rects)?;
        let kernels = streams.lanes[0].wait().and_then(|()| timing.1.since(&timing.0));
        phases.kernels = reading.refused(kernels)?.into();
        phases.copy = reading.refused(reading.copy_alone(streams, &timing, output.address(), bytes))?;
        reading.refused(statuses.read(streams)).map(drop)
    })?;
    Ok(phases)
}

/// One read of some windows.
struct Reading<'a> {
    gpu: &'a Gpu,
    settings: &'a Settings,
    jobs: &'a [ReadJob<'a>],
    options: &'a ReadOptions,
    name: Arc<str>,
    items: Vec<Item>,
    /// For each item whether it is the same tile as the one before.
    shared: Vec<bool>,
    /// For each status its items: more than one where windows share a tile.
    coded: Vec<Range<usize>>,
    rects: Vec<Rect>,
    formats: Vec<Format>,
    formats_of: Vec<Formats>,
    direct: Option<Direct>,
    /// What goes another way than asked before it has begun.
    notes: Vec<String>,
    /// For each job the library that decodes its tiles, where one does.
    library_of: Vec<Option<(usize, Output)>>,
    begun: Instant,
    /// For the other reads: there is this one.
    presence: Presence<'a>,
}

impl<'a> Reading<'a> {
    fn new(gpu: &'a Gpu, settings: &'a Settings, jobs: &'a [ReadJob<'a>], options: &'a ReadOptions) -> Result<Self> {
        let begun = Instant::now();
        let bytes = common_bytes(jobs)?;
        let name = jobs[0].source.name().clone();
        let (direct, notes) = Direct::new(gpu, jobs, options)?;
        let mut reading = Self {
            gpu,
            settings,
            jobs,
            options,
            name,
            items: Vec::new(),
            shared: Vec::new(),
            coded: Vec::new(),
            rects: Vec::new(),
            formats: Vec::new(),
            formats_of: Vec::new(),
            direct,
            notes,
            library_of: Vec::new(),
            begun,
            presence: gpu.begin(),
        };
        debug_assert!(bytes > 0);
        for (job, ReadJob { source, plan }) in jobs.iter().enumerate() {
            let plain = format(plan);
            let library = library(gpu, plan);
            let planes = library.is_some_and(|(_, output)| output == Output::Planes).then(|| in_planes(&plain));
            let format = reading.format(plain);
            let planes = planes.map_or(format, |planes| reading.format(planes));
            let direct = reading.direct.as_ref().is_some_and(|direct| direct.file_of(job).is_some());
            reading.formats_of.push(Formats { plain: format, planes, direct });
            reading.library_of.push(library);
            if plan.layout().format.width >= WIDEST {
                let feature = format!("tiles of {} columns on the GPU", plan.layout().format.width);
                return Err(Error::unsupported(source.name(), feature, "read it on the CPU"));
            }
            for (tile, read) in plan.tiles().iter().enumerate() {
                let way = way(plan, read, library);
                if way == Way::Host && options.fallback == Fallback::Forbid {
                    let feature =
                        format!("decoding {} on the GPU ({})", plan.layout().codec.name(), reading.why_host(plan));
                    return Err(Error::unsupported(source.name(), feature, "fallback is forbidden"));
                }
                reading.items.push(Item { job, tile, way, id: 0, cut: false });
            }
            if let Some(pad) = plan.pad() {
                let format = reading.format(Format { fill: value(pad), ..reading.formats[format].clone() });
                let uncovered = batch::uncovered(plan).into_iter();
                reading.rects.extend(uncovered.map(|(at, size)| Rect { job, format, at, size }));
            }
        }
        reading.share();
        reading.gather();
        reading.number();
        Ok(reading)
    }

    /// Gives the cores some tiles where they are faster, or help.
    fn share(&mut self) {
        if self.options.fallback == Fallback::Forbid {
            return;
        }
        for (number, route) in ROUTES.iter().enumerate() {
            let of_route = |item: &&mut Item| item.way == Way::Device(number);
            let decoded = |item: &Item| {
                let plan = self.jobs[item.job].plan;
                plan.layout().decoded_bytes(plan.tiles()[item.tile].rows)
            };
            let (tiles, bytes) = self
                .items
                .iter()
                .filter(|item| item.way == Way::Device(number))
                .fold((0, 0u64), |(tiles, bytes), item| (tiles + 1, bytes.saturating_add(decoded(item))));
            let (device_tile, device, core) = route.rates();
            let costs = Costs { device_tile, device, core, cores: self.cores(), upload: UPLOAD, worth: WORTH };
            let shared = plan::route(tiles, bytes / tiles.max(1) as u64, &costs);
            // The last ones: the device can begin with the first while they are decoded.
            self.items.iter_mut().rev().filter(of_route).take(shared).for_each(|item| item.way = Way::Host);
        }
    }

    /// Why the tiles of a plan are decoded on the host.
    fn why_host(&self, plan: &tiffjet::ReadPlan) -> String {
        let layout = plan.layout();
        let Some(route) = codec::find_library(layout.codec.name()).map(|route| LIBRARY_ROUTES[route]) else {
            return "they have no GPU route".to_owned();
        };
        match route.output(layout).and_then(|_| route.absence(self.gpu)) {
            Some(absence) => absence,
            None => format!("{} does not take their pixels", route.library()),
        }
    }

    /// Puts windows of one file in the order of its bytes: what they share is decoded once, and what is near is read together.
    fn gather(&mut self) {
        self.shared = vec![false; self.items.len()];
        let jobs = self.jobs;
        if !self.is_shared() {
            return;
        }
        let file = |item: &Item| std::ptr::from_ref(jobs[item.job].source).cast::<u8>();
        // Files stay in the order in which they come.
        let mut order: BTreeMap<*const u8, usize> = BTreeMap::new();
        for item in &self.items {
            let next = order.len();
            order.entry(file(item)).or_insert(next);
        }
        let start = |item: &Item| jobs[item.job].plan.tiles()[item.tile].range.start;
        self.items.sort_by_key(|item| (order.get(&file(item)).copied(), start(item)));
        for (pair, shared) in self.items.windows(2).zip(self.shared.iter_mut().skip(1)) {
            *shared = batch::is_same(jobs, &pair[0], &pair[1]);
        }
    }

    /// Whether windows may share a tile. Not where those that fail are filled: what is in the way of a tile is told for the
    /// window that it was read for.
    fn is_shared(&self) -> bool {
        self.jobs.len() > 1 && self.options.fill_failed.is_none()
    }

    /// Gives each tile that the device decodes the place of its status.
    fn number(&mut self) {
        let decoded = |item: &Item| matches!(item.way, Way::Device(_) | Way::Library(..));
        for i in (0..self.items.len()).filter(|&i| decoded(&self.items[i])).collect::<Vec<_>>() {
            match self.coded.last_mut() {
                Some(last) if last.end == i && self.shared[i] => last.end = i + 1,
                _ => self.coded.push(i..i + 1),
            }
            self.items[i].id = self.coded.len() as u32 - 1;
        }
    }

    /// Items whose status is bad, in the order of windows, with it.
    fn with_status(&self, bad: Vec<(usize, u32)>) -> Vec<(Item, u32)> {
        let items = |(id, status): (usize, u32)| self.items[self.coded[id].clone()].iter().map(move |i| (*i, status));
        let mut all: Vec<(Item, u32)> = bad.into_iter().flat_map(items).collect();
        all.sort_by_key(|(item, _)| (item.job, item.tile));
        all
    }

    /// The first of each run of items that are one tile.
    fn distinct(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().zip(&self.shared).filter(|(_, shared)| !**shared).map(|(item, _)| item)
    }

    /// The place of a format in the list. Windows of one file, and of files that are alike, share one.
    fn format(&mut self, format: Format) -> usize {
        // Those that differ are few, and neighbours mostly agree.
        if let Some(found) = self.formats.iter().rposition(|known| *known == format) {
            return found;
        }
        self.formats.push(format);
        self.formats.len() - 1
    }

    /// Works with this device as the thread's own, on streams of its own.
    fn within<T>(&self, work: impl FnOnce(&mut Streams) -> Result<T>) -> Result<T> {
        let _current = self.refused(self.gpu.enter())?;
        let mut streams = self.refused(self.gpu.take_streams())?;
        let outcome = work(&mut streams);
        if outcome.is_err() {
            // Nothing of it may still run when its memory is given to somebody else.
            streams.settle();
        }
        self.gpu.give_streams(streams);
        outcome
    }

    fn refused<T>(&self, outcome: Result<T, Failure>) -> Result<T> {
        self.refused_with(0, outcome)
    }

    /// What a refusal of the driver means; memory that was asked for is named.
    fn refused_with<T>(&self, asked: u64, outcome: Result<T, Failure>) -> Result<T> {
        outcome.map_err(|failure| match failure.code {
            Failure::OUT_OF_MEMORY => {
                let free = self.gpu.free_memory().unwrap_or(0);
                Error::limit(&self.name, format!("bytes of memory of {} ({failure})", self.gpu.device), asked, free)
            }
            _ => self.gpu.refused(&self.name, &failure),
        })
    }

    /// The guard: what will be taken is known and there before anything is taken.
    fn bounds(&self, output: u64) -> Result<(Bounds, usize)> {
        let statuses = 4 * self.coded.len() as u64 + 256;
        let result = output.saturating_add(statuses);
        let cost = |item: &Item| batch::cost(&self.jobs[item.job], item, self.formats_of[item.job].direct);
        // Groups are as large as the largest: twice what all tiles need is enough for all of them at once.
        let all = self.distinct().map(cost).fold(0u64, u64::saturating_add).saturating_mul(2);
        let enough = result.saturating_add(self.settings.budget.min(all));
        let free = self.refused(self.gpu.room(enough))?;
        let left = free.checked_sub(result).ok_or_else(|| {
            Error::limit(&self.name, format!("bytes of memory of {} for the pixels", self.gpu.device), output, free)
        })?;
        let budget = left.min(self.settings.budget);
        let largest = self.items.iter().map(cost).max().unwrap_or(1);
        if largest > budget {
            let what = format!("bytes of memory of {} for one tile beside the pixels", self.gpu.device);
            return Err(Error::limit(&self.name, what, largest, budget));
        }
        // The shares of lanes are whole pages; one lane alone takes what it needs.
        let page = largest.next_multiple_of(PAGE);
        let bytes: u64 = self.distinct().map(|item| self.loaded(item)).sum();
        let lanes = (budget / page).clamp(1, self.lanes(bytes) as u64);
        let share = budget / lanes;
        let share = if lanes == 1 { share } else { share - share % PAGE };
        // One group more than there are lanes waits for the first of them: with few large tiles, twice as long.
        let most = self.settings.group.max(1);
        let image = bytes.div_ceil(lanes).clamp((most / SMALLER).max(1), most);
        let loads = self.loads(bytes);
        Ok((Bounds { group: share, image, loads, direct: false, shared: self.is_shared() }, lanes as usize))
    }

    /// How large the loads of so many bytes are.
    fn loads(&self, bytes: u64) -> Loads {
        let slot = SLOT as u64;
        if !self.is_far() {
            let threads = self.cores() as u64;
            let most = (bytes / (ROUNDS * threads)).clamp(LEAST_LOAD, slot).next_multiple_of(4096);
            return Loads { least: LEAST_LOAD, most, at_once: threads };
        }
        // From far away loads arrive side by side, and nothing is copied before one is whole. Where answers come at once,
        // rounds of them overlap; elsewhere each round takes a wait, and one must do: some loads are not full.
        let threads = self.fetchers().current_num_threads() as u64;
        let loads = if self.is_brisk() { 3 * threads } else { threads - threads / 4 };
        // A request costs time: loads are made small to keep all threads busy only where there are many of them.
        let least = if bytes <= MANY { slot } else { slot / 4 };
        let load = (bytes / loads.max(1)).clamp(least, slot).next_multiple_of(4096);
        Loads { least: load, most: load, at_once: threads }
    }

    /// Bytes that pass through the ring for a tile.
    fn loaded(&self, item: &Item) -> u64 {
        let plan = self.jobs[item.job].plan;
        let tile = &plan.tiles()[item.tile];
        match item.way {
            Way::Host => plan.layout().plain_bytes(tile.rows),
            _ => tile.range.end - tile.range.start,
        }
    }

    /// Whether files of other machines are read.
    fn is_far(&self) -> bool {
        self.jobs.iter().any(|job| job.source.distance().is_far())
    }

    /// Whether all of them answer at once.
    fn is_brisk(&self) -> bool {
        self.jobs.iter().all(|job| job.source.distance().is_brisk())
    }

    /// Lanes that a read of so many bytes may have. Where there are others, their tiles are decoded while those of this one
    /// arrive; a small one needs no more than one then.
    fn lanes(&self, bytes: u64) -> usize {
        let most = self.settings.lanes.clamp(1, LANES);
        let least = if bytes <= self.settings.group / 2 { 1 } else { most.min(2) };
        (most / self.gpu.company()).max(least)
    }

    /// Its share of the cores.
    fn cores(&self) -> usize {
        (self.threads() / self.gpu.company()).max(1)
    }

    /// Threads that fill slots.
    fn fetchers(&self) -> &ThreadPool {
        // Reads that are calls wait as requests do. Where answers come at once, more threads than cores are in each
        // other's way.
        let brisk = self.is_brisk() && self.gpu.threads.current_num_threads() >= ENOUGH_THREADS;
        let waits = self.is_far() && !brisk || self.direct.as_ref().is_some_and(|direct| direct.batches.is_none());
        if waits { self.gpu.far_threads() } else { &self.gpu.threads }
    }

    fn threads(&self) -> usize {
        let all = self.gpu.threads.current_num_threads();
        if self.settings.threads == 0 { all } else { self.settings.threads.min(all) }
    }

    /// Reads everything to `output` and waits for it.
    fn read(&self, streams: &mut Streams, output: u64, bounds: (Bounds, usize)) -> Result<Report> {
        let bytes = common_bytes(self.jobs)? as u64;
        let window = bytes / self.jobs.len() as u64;
        let outputs: Vec<u64> = (0..self.jobs.len() as u64).map(|i| output + i * window).collect();
        self.refused(self.gpu.widen(streams, bounds.1))?;
        let statuses = Statuses::take(self, &streams.lanes[0])?;
        let pass =
            Pass { reading: self, outputs: &outputs, statuses: statuses.address(), bounds, dry: false, timing: None };
        let first = Pass { bounds: (Bounds { direct: self.direct.is_some(), ..bounds.0 }, bounds.1), ..pass };
        let mut outcome = first.run(streams, &self.items, &self.rects);
        // While the device works.
        let mut report = Report { bytes_out: bytes, ..self.report() };
        let refused = statuses.read(streams);
        if outcome.is_ok() && refused.is_ok() {
            self.gpu.ring.settled(self.presence.number);
        }
        let short = match (&mut outcome, &refused) {
            (Ok(outcome), Ok(_)) => outcome.transfer.take().map(|transfer| self.short(transfer)),
            _ => None,
        };
        // First of all: where a file changed, damage is no news.
        let mut failed = changed(self.jobs);
        self.stop_at_first(&mut failed)?;
        let outcome = outcome?;
        for (job, error) in outcome.failed {
            failed.entry(job).or_insert(error);
        }
        self.stop_at_first(&mut failed)?;
        let mut refused = self.with_status(self.refused(refused)?);
        if let Some(short) = short.filter(|items| !items.is_empty()) {
            self.read_again(&pass, streams, &short, (&mut refused, &mut failed))?;
            let what = format!("{} tiles read again by the host: cuFile gave fewer bytes than asked for", short.len());
            report.fallbacks.push(what);
        }
        self.fall_back(&pass, streams, &refused, &mut failed, &mut report)?;
        self.fill_failed(&pass, streams, &failed)?;
        report.failures = failed.into_iter().map(|(job, error)| (job, error.to_string())).collect();
        report.seconds = self.begun.elapsed().as_secs_f64();
        Ok(report)
    }

    /// After the wait: the tiles of which storage gave less than was asked for.
    fn short(&self, transfer: Transfer) -> Vec<Item> {
        let requests = transfer.requests().to_vec();
        let (read, buffer) = transfer.settle();
        buffer.into_iter().for_each(|buffer| self.gpu.give_buffer(buffer));
        let missing = direct::missing(&requests, &read);
        let touched = |item: &&Item| {
            let range = &self.jobs[item.job].plan.tiles()[item.tile].range;
            let file = self.direct.as_ref().and_then(|direct| direct.file_of(item.job));
            matches!(item.way, Way::Direct | Way::Device(_))
                && missing.iter().any(|&(of, start, end)| file == Some(of) && start < range.end && range.start < end)
        };
        self.items.iter().filter(touched).copied().collect()
    }

    /// Reads tiles by way of the host; what is known of them becomes what it then is.
    fn read_again(
        &self,
        pass: &Pass<'_>,
        streams: &mut Streams,
        items: &[Item],
        (refused, failed): (&mut Vec<(Item, u32)>, &mut BTreeMap<usize, Error>),
    ) -> Result<()> {
        let statuses = Statuses::take(self, &streams.lanes[0])?;
        let pass = Pass { statuses: statuses.address(), ..*pass };
        let outcome = pass.run(streams, items, &[])?;
        let bad = self.refused(statuses.read(streams))?;
        let again = |item: &Item| items.iter().any(|other| (other.job, other.tile) == (item.job, item.tile));
        refused.retain(|(item, _)| !again(item));
        refused.extend(self.with_status(bad).into_iter().filter(|(item, _)| again(item)));
        for (job, error) in outcome.failed {
            failed.entry(job).or_insert(error);
        }
        self.stop_at_first(failed)
    }

    /// An error ends the read unless windows are to be filled.
    fn stop_at_first(&self, failed: &mut BTreeMap<usize, Error>) -> Result<()> {
        match failed.first_entry() {
            Some(first) if self.options.fill_failed.is_none() => Err(first.remove()),
            _ => Ok(()),
        }
    }

    /// The host decides over tiles that the device refused: it gives their pixels, or the error that users see.
    fn fall_back(
        &self,
        pass: &Pass<'_>,
        streams: &mut Streams,
        refused: &[(Item, u32)],
        failed: &mut BTreeMap<usize, Error>,
        report: &mut Report,
    ) -> Result<()> {
        let refused = refused.iter().filter(|(item, _)| !failed.contains_key(&item.job));
        if self.options.fallback == Fallback::Forbid {
            // Pixels that stand if the rest of their data is sound are the device's; the host only looks at the rest.
            let (longer, refused): (Vec<_>, Vec<_>) = refused.partition(|(_, status)| *status == STATUS_LONGER);
            let refused: Vec<Item> = refused.into_iter().map(|(item, _)| item).collect();
            let mut errors: Vec<(Item, Error)> =
                self.cut(pass, streams, &refused)?.into_iter().map(|item| (item, self.explain(&item))).collect();
            errors.extend(longer.into_iter().filter_map(|(item, _)| Some((item, self.on_host(&item).err()?))));
            errors.sort_by_key(|(item, _)| (item.job, item.tile));
            for (item, error) in errors {
                failed.entry(item.job).or_insert(error);
            }
            return self.stop_at_first(failed);
        }
        let refused: Vec<Item> = refused.map(|(item, _)| *item).collect();
        if refused.is_empty() {
            return Ok(());
        }
        let items: Vec<Item> = refused.iter().map(|item| Item { way: Way::Host, ..*item }).collect();
        let outcome = pass.run(streams, &items, &[])?;
        for (job, error) in outcome.failed {
            // Threads come upon damaged tiles in any order: the first in the image is the one to name.
            let first = items.iter().filter(|item| item.job == job).find_map(|item| self.on_host(item).err());
            failed.insert(job, first.unwrap_or(error));
        }
        self.stop_at_first(failed)?;
        let mut by_codec: BTreeMap<&str, usize> = BTreeMap::new();
        for item in &items {
            *by_codec.entry(self.jobs[item.job].plan.layout().codec.name()).or_default() += 1;
        }
        for (codec, count) in by_codec {
            report.fallbacks.push(format!("{count} tiles of {codec} decoded on the host: the GPU refused their data"));
        }
        self.refused(streams.lanes[0].wait())
    }

    /// Decodes tiles again without the rows that hang over the lower edge; gives those that it is no use for.
    fn cut(&self, pass: &Pass<'_>, streams: &mut Streams, refused: &[Item]) -> Result<Vec<Item>> {
        let hangs = |item: &Item| {
            let plan = self.jobs[item.job].plan;
            let tile = &plan.tiles()[item.tile];
            batch::rows_inside(plan.layout(), tile) < tile.rows
        };
        let (hanging, mut lost): (Vec<Item>, Vec<Item>) = refused.iter().partition(|item| hangs(item));
        if hanging.is_empty() {
            return Ok(lost);
        }
        let statuses = Statuses::take(self, &streams.lanes[0])?;
        let pass = Pass { statuses: statuses.address(), ..*pass };
        let items: Vec<Item> = hanging.iter().map(|item| Item { cut: true, ..*item }).collect();
        pass.run(streams, &items, &[])?;
        let bad = self.refused(statuses.read(streams))?;
        lost.extend(hanging.into_iter().filter(|item| bad.iter().any(|(id, _)| *id == item.id as usize)));
        lost.sort_unstable_by_key(|item| (item.job, item.tile));
        Ok(lost)
    }

    /// Milliseconds to copy as many bytes as the read loads, from slots of the ring to memory of `length` bytes.
    fn copy_alone(&self, streams: &Streams, timing: &(Event, Event), to: u64, length: u64) -> Result<f64, Failure> {
        let stream = &streams.lanes[0];
        let mut slots = (0..4).map(|_| self.gpu.ring.take()).collect::<Result<Vec<_>, _>>()?;
        let mut left: u64 = self.distinct().map(|item| self.loaded(item)).sum();
        timing.0.record(stream)?;
        for i in 0.. {
            let bytes = left.min(SLOT as u64).min(length);
            if bytes == 0 {
                break;
            }
            stream.upload(&slots[i % 4].memory, 0, bytes as usize, to)?;
            left -= bytes;
        }
        timing.1.record(stream)?;
        stream.wait()?;
        slots.drain(..).for_each(|slot| self.gpu.ring.give_back(slot));
        timing.1.since(&timing.0).map(f64::from)
    }

    /// What the host says of a tile.
    fn on_host(&self, item: &Item) -> Result<()> {
        let ReadJob { source, plan } = self.jobs[item.job];
        let tile = &plan.tiles()[item.tile];
        let mut bytes = vec![0; (tile.range.end - tile.range.start) as usize];
        let mut out = vec![0; plan.layout().plain_bytes(tile.rows) as usize];
        source.read_range(tile.range.clone(), &mut bytes)?;
        let decoded = decode_tile(plan.layout(), tile, &bytes, &mut out);
        decoded.map(drop).map_err(|cause| plan.failure(source.name(), tile, cause))
    }

    /// Why a tile can't be read without a fallback.
    fn explain(&self, item: &Item) -> Error {
        let ReadJob { source, plan } = self.jobs[item.job];
        let tile = &plan.tiles()[item.tile];
        self.on_host(item).err().unwrap_or_else(|| {
            let (level, row, col, codec) = (plan.level(), tile.row, tile.col, plan.layout().codec.name());
            let feature = format!("level {level}, tile row {row}, column {col}: {codec} data the GPU does not decode");
            Error::unsupported(source.name(), feature, "fallback is forbidden")
        })
    }

    /// Windows that could not be read get the value that was asked for.
    fn fill_failed(&self, pass: &Pass<'_>, streams: &mut Streams, failed: &BTreeMap<usize, Error>) -> Result<()> {
        let Some(fill) = self.options.fill_failed.as_deref().filter(|_| !failed.is_empty()) else { return Ok(()) };
        let mut formats = self.formats.clone();
        let rects: Vec<Rect> = failed
            .keys()
            .map(|&job| {
                formats.push(Format { fill: value(fill), ..self.formats[self.formats_of[job].plain].clone() });
                let [_, height, width] = self.jobs[job].plan.shape().map(|n| n as u32);
                Rect { job, format: formats.len() - 1, at: (0, 0), size: (height, width) }
            })
            .collect();
        pass.run_with(streams, &[], &rects, &formats)?;
        self.refused(streams.lanes[0].wait())
    }

    /// What is known before it is done.
    fn report(&self) -> Report {
        let mut report = Report { tiles: self.items.len(), fallbacks: self.notes.clone(), ..Report::default() };
        let mut routes: BTreeMap<(&str, String), usize> = BTreeMap::new();
        let mut without: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for item in &self.items {
            let plan = self.jobs[item.job].plan;
            let tile = &plan.tiles()[item.tile];
            let codec = plan.layout().codec.name();
            report.bytes_read += tile.range.end - tile.range.start;
            if item.way == Way::Fill {
                report.sparse += 1;
                continue;
            }
            let place = match item.way {
                Way::Host => "host".to_owned(),
                Way::Library(route, _) => format!("{} by {}", self.gpu.device, LIBRARY_ROUTES[route].library()),
                _ if self.formats_of[item.job].direct => format!("{}, read by cuFile", self.gpu.device),
                _ => self.gpu.device.clone(),
            };
            *routes.entry((codec, place)).or_default() += 1;
            // What the cores took to be done sooner is no fallback.
            if item.way == Way::Host && way(plan, tile, self.library_of[item.job]) == Way::Host {
                without.entry(codec).or_insert((item.job, 0)).1 += 1;
            }
        }
        for ((codec, place), count) in routes {
            report.routes.push((format!("{codec} on {place}"), count));
        }
        for (codec, (job, count)) in without {
            let why = self.why_host(self.jobs[job].plan);
            report.fallbacks.push(format!("{count} tiles of {codec} decoded on the host: {why}"));
        }
        report
    }
}

/// Statuses of all tiles that the device decodes, behind the one word that they become.
struct Statuses<'a> {
    reading: &'a Reading<'a>,
    word: u64,
    count: u32,
}

impl<'a> Statuses<'a> {
    /// Bytes of the word.
    const WORD: u64 = 8;

    /// Memory for them, all of them bad and the word as good as it gets.
    fn take(reading: &'a Reading<'a>, stream: &Stream) -> Result<Self> {
        let count = reading.coded.len() as u32;
        let mut statuses = Self { reading, word: 0, count };
        if count > 0 {
            let bytes = statuses.bytes();
            statuses.word = reading.refused_with(bytes, stream.take(reading.gpu.pool(), bytes))?;
            reading.refused(stream.fill(statuses.word, 0xff, bytes))?;
        }
        Ok(statuses)
    }

    fn bytes(&self) -> u64 {
        Self::WORD + 4 * u64::from(self.count)
    }

    /// Where they stand.
    fn address(&self) -> u64 {
        self.word + Self::WORD
    }

    /// Waits for all that the first stream has; gives the tiles whose status is bad, with it.
    fn read(self, streams: &mut Streams) -> Result<Vec<(usize, u32)>, Failure> {
        let (main, gpu) = (&streams.lanes[0], self.reading.gpu);
        if self.count == 0 {
            streams.wait(gpu)?;
            return Ok(Vec::new());
        }
        gpu.kernels.first_bad(main, self.address(), self.count, self.word)?;
        main.download(self.word, &mut streams.verdict, Self::WORD as usize)?;
        streams.wait(gpu)?;
        let mut bad = Vec::new();
        if streams.verdict.bytes()[..Self::WORD as usize] != [0xff; Self::WORD as usize] {
            let mut statuses = vec![0; 4 * self.count as usize];
            download(gpu, main, self.address(), &mut statuses)?;
            let statuses = statuses.as_chunks::<4>().0.iter().map(|status| u32::from_le_bytes(*status));
            bad.extend(statuses.enumerate().filter(|(_, status)| *status != 0));
        }
        main.give_back(self.word)?;
        Ok(bad)
    }
}
