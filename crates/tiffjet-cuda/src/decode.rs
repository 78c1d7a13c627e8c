//! A read on the device: ways, groups, launches, the one wait, and what becomes of tiles that the device refuses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use rayon::ThreadPool;
use tiffjet::backend::{changed, common_bytes};
use tiffjet::plan::{self, Costs};
use tiffjet::{Error, Fallback, ReadJob, ReadOptions, Report, Result, decode_tile};

use crate::batch::{self, Bounds, Cutter, Group, Item, Rect, Way};
use crate::codec::{Batch, ROUTES};
use crate::fetch::{Fetch, Opened, Outcome};
use crate::ffi::driver::{Event, Failure, Stream};
use crate::format::{format, value, way};
use crate::kernels::{Format, STATUS_LONGER};
use crate::memory::{Gpu, LANES, SLOT, Streams};
use crate::storage::{DeviceBuffer, download};

/// What a user can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Device memory of a read beside its result.
    pub budget: u64,
    /// Bytes that are loaded before their tiles are decoded, while more arrive.
    pub group: u64,
    /// Threads that fill slots; 0 for as many as there are.
    pub threads: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { budget: 1 << 30, group: 24 << 20, threads: 0 }
    }
}

/// Columns of a tile that the kernels can't count any more.
const WIDEST: u32 = (1 << 31) - 1024;
/// Seconds that sharing work with the cores must save.
const WORTH: f64 = 1e-3;
/// Bytes a second from the cores to the device.
const UPLOAD: f64 = 40e9;
/// The least that a load is worth a thread for.
const LEAST_LOAD: u64 = 256 << 10;

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
        let (bounds, _) = reading.bounds(bytes)?;
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
    /// For each status its item.
    coded: Vec<usize>,
    rects: Vec<Rect>,
    formats: Vec<Format>,
    format_of: Vec<usize>,
    begun: Instant,
}

impl<'a> Reading<'a> {
    fn new(gpu: &'a Gpu, settings: &'a Settings, jobs: &'a [ReadJob<'a>], options: &'a ReadOptions) -> Result<Self> {
        let begun = Instant::now();
        let bytes = common_bytes(jobs)?;
        let name = jobs[0].source.name().clone();
        let mut reading = Self {
            gpu,
            settings,
            jobs,
            options,
            name,
            items: Vec::new(),
            coded: Vec::new(),
            rects: Vec::new(),
            formats: Vec::new(),
            format_of: Vec::new(),
            begun,
        };
        debug_assert!(bytes > 0);
        for (job, ReadJob { source, plan }) in jobs.iter().enumerate() {
            let format = reading.format(format(plan));
            reading.format_of.push(format);
            if plan.layout().format.width >= WIDEST {
                let feature = format!("tiles of {} columns on the GPU", plan.layout().format.width);
                return Err(Error::unsupported(source.name(), feature, "read it on the CPU"));
            }
            for (tile, read) in plan.tiles().iter().enumerate() {
                let way = way(plan, read);
                if way == Way::Host && options.fallback == Fallback::Forbid {
                    let feature = format!("decoding {} on the GPU", plan.layout().codec.name());
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
            let costs = Costs { device_tile, device, core, cores: self.threads(), upload: UPLOAD, worth: WORTH };
            let shared = plan::route(tiles, bytes / tiles.max(1) as u64, &costs);
            // The last ones: the device can begin with the first while they are decoded.
            self.items.iter_mut().rev().filter(of_route).take(shared).for_each(|item| item.way = Way::Host);
        }
    }

    /// Gives each tile that the device decodes the place of its status.
    fn number(&mut self) {
        for (i, item) in self.items.iter_mut().enumerate().filter(|(_, item)| matches!(item.way, Way::Device(_))) {
            item.id = self.coded.len() as u32;
            self.coded.push(i);
        }
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
            streams.lanes.iter().for_each(|lane| drop(lane.wait()));
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
        let free = self.refused(self.gpu.free_memory())?;
        let statuses = 4 * self.coded.len() as u64 + 256;
        let left = free.checked_sub(output.saturating_add(statuses)).ok_or_else(|| {
            Error::limit(&self.name, format!("bytes of memory of {} for the pixels", self.gpu.device), output, free)
        })?;
        let budget = left.min(self.settings.budget);
        let largest = self.items.iter().map(|item| batch::cost(&self.jobs[item.job], item)).max().unwrap_or(1);
        if largest > budget {
            let what = format!("bytes of memory of {} for one tile beside the pixels", self.gpu.device);
            return Err(Error::limit(&self.name, what, largest, budget));
        }
        let lanes = (budget / largest.max(1)).clamp(1, LANES as u64);
        let threads = self.threads() as u64;
        let bytes: u64 = self.items.iter().map(|item| self.loaded(item)).sum();
        // Where a request costs time, loads are not made small to keep all threads busy.
        let least = if self.is_far() { SLOT as u64 } else { LEAST_LOAD };
        let load = (bytes / threads.max(1)).clamp(least, SLOT as u64).next_multiple_of(4096);
        Ok((Bounds { group: budget / lanes, image: self.settings.group.max(1), load }, lanes as usize))
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

    /// Threads that fill slots.
    fn fetchers(&self) -> &ThreadPool {
        if self.is_far() { self.gpu.far_threads() } else { &self.gpu.threads }
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
        let mut report = self.report();
        report.bytes_out = bytes;
        let statuses = Statuses::take(self, &streams.lanes[0])?;
        let pass =
            Pass { reading: self, outputs: &outputs, statuses: statuses.address(), bounds, dry: false, timing: None };
        let outcome = pass.run(streams, &self.items, &self.rects);
        let refused = statuses.read(streams);
        // First of all: where a file changed, damage is no news.
        let mut failed = changed(self.jobs);
        self.stop_at_first(&mut failed)?;
        let outcome = outcome?;
        for (job, error) in outcome.failed {
            failed.entry(job).or_insert(error);
        }
        self.stop_at_first(&mut failed)?;
        let refused = self.refused(refused)?;
        let refused: Vec<(Item, u32)> =
            refused.into_iter().map(|(id, status)| (self.items[self.coded[id]], status)).collect();
        self.fall_back(&pass, streams, &refused, &mut failed, &mut report)?;
        self.fill_failed(&pass, streams, &failed)?;
        report.failures = failed.into_iter().map(|(job, error)| (job, error.to_string())).collect();
        report.seconds = self.begun.elapsed().as_secs_f64();
        Ok(report)
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
        let mut left: u64 = self.items.iter().map(|item| self.loaded(item)).sum();
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
                formats.push(Format { fill: value(fill), ..self.formats[self.format_of[job]].clone() });
                let [_, height, width] = self.jobs[job].plan.shape().map(|n| n as u32);
                Rect { job, format: formats.len() - 1, at: (0, 0), size: (height, width) }
            })
            .collect();
        pass.run_with(streams, &[], &rects, &formats)?;
        self.refused(streams.lanes[0].wait())
    }

    /// What is known before it is done.
    fn report(&self) -> Report {
        let mut report = Report { tiles: self.items.len(), ..Report::default() };
        let (mut routes, mut without) = (BTreeMap::<(&str, bool), usize>::new(), BTreeMap::<&str, usize>::new());
        for item in &self.items {
            let plan = self.jobs[item.job].plan;
            let tile = &plan.tiles()[item.tile];
            let codec = plan.layout().codec.name();
            report.bytes_read += tile.range.end - tile.range.start;
            if item.way == Way::Fill {
                report.sparse += 1;
                continue;
            }
            *routes.entry((codec, item.way == Way::Host)).or_default() += 1;
            // What the cores took to be done sooner is no fallback.
            if item.way == Way::Host && way(plan, tile) == Way::Host {
                *without.entry(codec).or_default() += 1;
            }
        }
        for ((codec, host), count) in routes {
            let place = if host { "host" } else { self.gpu.device.as_str() };
            report.routes.push((format!("{codec} on {place}"), count));
        }
        for (codec, count) in without {
            report.fallbacks.push(format!("{count} tiles of {codec} decoded on the host: they have no GPU route"));
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
            main.wait()?;
            return Ok(Vec::new());
        }
        gpu.kernels.first_bad(main, self.address(), self.count, self.word)?;
        main.download(self.word, &mut streams.verdict, Self::WORD as usize)?;
        main.wait()?;
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

/// Some tiles and fills on their way through the device.
struct Pass<'a> {
    reading: &'a Reading<'a>,
    outputs: &'a [u64],
    statuses: u64,
    bounds: (Bounds, usize),
    /// Slots are filled, and nothing else happens.
    dry: bool,
    /// What is recorded around the work of the last group, which then waits for its loads.
    timing: Option<&'a (Event, Event)>,
}

impl Pass<'_> {
    fn run(&self, streams: &Streams, items: &[Item], rects: &[Rect]) -> Result<Outcome> {
        self.run_with(streams, items, rects, &self.reading.formats)
    }

    /// Puts everything into the streams. When it returns, the first stream has all of it before it.
    fn run_with(&self, streams: &Streams, items: &[Item], rects: &[Rect], formats: &[Format]) -> Result<Outcome> {
        let reading = self.reading;
        let mut cutter = Cutter::new(reading.jobs, formats, &reading.format_of, self.bounds.0);
        items.iter().for_each(|item| cutter.add(item));
        rects.iter().for_each(|rect| cutter.fill(*rect));
        let groups = cutter.finish();
        let keep_going = reading.options.fill_failed.is_some();
        let lanes = self.bounds.1.min(groups.len()).max(1);
        let fetch = Fetch::new(reading.gpu, reading.jobs, &groups, keep_going, self.dry);
        let conductor = Conductor { pass: self, streams, lanes, formats, groups: &groups, fetch: &fetch };
        let outcome = conductor.run();
        let result = fetch.outcome();
        let asked = groups.iter().map(|group| group.bytes).max().unwrap_or(0);
        reading.refused_with(asked, outcome.and(result.refused.clone().map_or(Ok(()), Err)))?;
        Ok(result)
    }
}

/// Takes memory for group after group, and launches each when its bytes are on their way.
struct Conductor<'a> {
    pass: &'a Pass<'a>,
    streams: &'a Streams,
    lanes: usize,
    formats: &'a [Format],
    groups: &'a [Group],
    fetch: &'a Fetch<'a>,
}

impl Conductor<'_> {
    fn run(&self) -> Result<(), Failure> {
        self.fork()?;
        let fetchers = self.pass.reading.fetchers();
        let allowed = match self.pass.reading.settings.threads {
            0 => usize::MAX,
            threads => threads,
        };
        let workers = fetchers.current_num_threads().min(allowed).min(self.fetch.loads());
        let outcome = if workers <= 1 {
            self.alone()
        } else {
            fetchers.in_place_scope(|scope| {
                for _ in 0..workers {
                    scope.spawn(|_| self.fetch.work(&|group| self.lane(group)));
                }
                let outcome = self.conduct();
                if let Err(failure) = &outcome {
                    self.fetch.stop(Some(failure.clone()));
                }
                outcome
            })
        };
        outcome.and(self.join())
    }

    fn lane(&self, group: usize) -> &Stream {
        &self.streams.lanes[group % self.lanes]
    }

    /// The other lanes begin where the first one is.
    fn fork(&self) -> Result<(), Failure> {
        if self.lanes > 1 {
            let event = &self.streams.joins[0];
            event.record(&self.streams.lanes[0])?;
            self.streams.lanes[1..self.lanes].iter().try_for_each(|lane| lane.wait_for(event))?;
        }
        Ok(())
    }

    /// The first lane goes on when all are done.
    fn join(&self) -> Result<(), Failure> {
        for (lane, event) in self.streams.lanes[..self.lanes].iter().zip(&self.streams.joins).skip(1) {
            event.record(lane)?;
            self.streams.lanes[0].wait_for(event)?;
        }
        Ok(())
    }

    /// A small read needs no other thread.
    fn alone(&self) -> Result<(), Failure> {
        let mut opened = 0;
        let outcome = (0..self.groups.len()).try_for_each(|group| {
            self.open(group)?;
            opened = group + 1;
            self.fetch.work_alone(&|group| self.lane(group), group)?;
            match self.fetch.wait(group) {
                true => self.launch(group).map(|()| opened = 0),
                false => Ok(()),
            }
        });
        if opened > 0 {
            self.close(opened - 1);
        }
        outcome
    }

    fn conduct(&self) -> Result<(), Failure> {
        let (mut opened, mut launched) = (0, 0);
        let mut outcome = Ok(());
        while launched < self.groups.len() && outcome.is_ok() {
            while opened < self.groups.len().min(launched + self.lanes) && outcome.is_ok() {
                outcome = self.open(opened);
                opened += usize::from(outcome.is_ok());
            }
            if outcome.is_err() || !self.fetch.wait(launched) {
                break;
            }
            outcome = self.launch(launched);
            launched += 1;
        }
        // After a stop loads may still be put into the streams: memory is given back behind them.
        if launched < opened {
            self.fetch.stop(outcome.clone().err());
            self.fetch.settle();
            (launched..opened).for_each(|group| self.close(group));
        }
        outcome
    }

    fn open(&self, group: usize) -> Result<(), Failure> {
        let pass = self.pass;
        let base = self.lane(group).take(pass.reading.gpu.pool(), self.groups[group].bytes)?;
        let tables = self.groups[group].tables(base, pass.outputs, self.formats);
        self.fetch.open(group, Opened { base, tables });
        Ok(())
    }

    fn close(&self, group: usize) {
        if let Some(opened) = self.fetch.opened(group) {
            // Where the driver does not take it back there is nothing left to do.
            let _ = self.lane(group).give_back(opened.base);
        }
    }

    /// All loads of a group are in its lane: decodes and places its tiles, and gives its memory back.
    fn launch(&self, group: usize) -> Result<(), Failure> {
        let Some(opened) = self.fetch.opened(group) else { return Ok(()) };
        let (gpu, lane, base) = (self.pass.reading.gpu, self.lane(group), opened.base);
        if self.pass.dry {
            return lane.give_back(base);
        }
        if let Some((start, _)) = self.pass.timing {
            lane.wait()?;
            start.record(lane)?;
        }
        for launch in self.groups[group].coded(base) {
            let batch = Batch {
                tiles: launch.table,
                count: launch.size.tiles,
                statuses: self.pass.statuses,
                scratch: launch.scratch,
                size: launch.size,
                at_once: self.at_once(group, launch.route),
            };
            ROUTES[launch.route].launch(gpu, lane, &batch)?;
        }
        for parts in self.groups[group].parts(base) {
            let places = (parts.table, parts.count, parts.tallest);
            gpu.kernels.place(lane, places, &self.formats[parts.format], parts.bands)?;
        }
        if let Some((_, end)) = self.pass.timing {
            end.record(lane)?;
        }
        lane.give_back(base)
    }

    /// Tiles of a route that are on the device at about the same time.
    fn at_once(&self, group: usize, route: usize) -> u32 {
        let first = group / self.lanes * self.lanes;
        let neighbours = self.groups[first..].iter().take(self.lanes);
        let launches = neighbours.flat_map(|group| group.coded(0)).filter(|launch| launch.route == route);
        launches.map(|launch| launch.size.tiles).sum()
    }
}
