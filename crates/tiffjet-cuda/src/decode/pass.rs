//! A pass of tiles through the device: memory for all groups, groups on lanes, launches.

use tiffjet::Result;

use super::Reading;
use crate::batch::{Bounds, Cutter, Group, Item, Rect, Span};
use crate::codec::{Batch, ROUTES};
use crate::fetch::{Fetch, Lane, Opened, Outcome};
use crate::ffi::cufile::{PAGE, Request, Transfer};
use crate::ffi::driver::{Event, Failure, Stream};
use crate::kernels::Format;
use crate::memory::Streams;

/// Some tiles and fills on their way through the device.
pub struct Pass<'a> {
    pub reading: &'a Reading<'a>,
    pub outputs: &'a [u64],
    pub statuses: u64,
    pub bounds: (Bounds, usize),
    /// Slots are filled, and nothing else happens.
    pub dry: bool,
    /// What is recorded around the work of the last group, which then waits for its loads.
    pub timing: Option<&'a (Event, Event)>,
}

impl Pass<'_> {
    pub fn run(&self, streams: &Streams, items: &[Item], rects: &[Rect]) -> Result<Outcome> {
        self.run_with(streams, items, rects, &self.reading.formats)
    }

    /// Puts everything into the streams. When it returns, the first stream has all of it before it.
    pub fn run_with(&self, streams: &Streams, items: &[Item], rects: &[Rect], formats: &[Format]) -> Result<Outcome> {
        let reading = self.reading;
        let mut cutter = Cutter::new(reading.jobs, formats, &reading.formats_of, self.bounds.0);
        items.iter().for_each(|item| cutter.add(item));
        rects.iter().for_each(|rect| cutter.fill(*rect));
        let groups = cutter.finish();
        let keep_going = reading.options.fill_failed.is_some();
        let lanes = self.bounds.1.min(groups.len()).max(1);
        // All groups of a lane have the same memory one after the other: in its stream nothing overtakes anything.
        let share = groups.iter().map(|group| group.bytes).max().unwrap_or(0);
        let share = if lanes == 1 { share } else { share.next_multiple_of(PAGE) };
        let asked = share * lanes as u64;
        if asked == 0 {
            return Ok(Outcome::default());
        }
        let arena = reading.refused_with(asked, self.arena(streams, &groups, (share, lanes)))?;
        let at = (self.statuses, arena.transfer());
        let of = (reading.presence.number, keep_going);
        let fetch = Fetch::new((reading.gpu, reading.jobs), &groups, at, of, self.dry);
        let memory = (arena.address(), share);
        let transfer = arena.transfer().filter(|transfer| transfer.has_batches() && !self.dry);
        let conductor =
            Conductor { pass: self, streams, lanes, formats, groups: &groups, fetch: &fetch, transfer, memory };
        let outcome = conductor.run();
        let mut result = fetch.outcome();
        let mut outcome = outcome.and(result.refused.clone().map_or(Ok(()), Err));
        if outcome.is_err() {
            // Nothing may still write to the memory when somebody else gets it.
            streams.settle();
        }
        match arena {
            Arena::Pool(base) => outcome = outcome.and(streams.lanes[0].give_back(base)),
            Arena::Storage(transfer) if outcome.is_err() => {
                transfer.settle().1.into_iter().for_each(|buffer| reading.gpu.give_buffer(buffer));
            }
            Arena::Storage(transfer) => result.transfer = Some(*transfer),
        }
        reading.refused_with(asked, outcome)?;
        Ok(result)
    }

    /// Memory of all lanes, a share for each: of the pool, or one that storage writes to where there is something for it.
    fn arena(&self, streams: &Streams, groups: &[Group], (share, lanes): (u64, usize)) -> Result<Arena, Failure> {
        let (gpu, bytes) = (self.reading.gpu, share * lanes as u64);
        let direct = self.reading.direct.as_ref().filter(|_| groups.iter().any(|group| !group.spans.is_empty()));
        let Some(direct) = direct else { return Ok(Arena::Pool(streams.lanes[0].take(gpu.pool(), bytes)?)) };
        let place = |(g, group): (usize, &Group), span: &Span| Request {
            file: direct.file_of(span.job).unwrap_or_default(),
            start: span.start,
            length: span.length,
            at: group.image_at((g % lanes) as u64 * share, span.at),
        };
        let requests =
            groups.iter().enumerate().flat_map(|(g, group)| group.spans.iter().map(move |s| place((g, group), s)));
        let requests = requests.collect();
        let buffer = gpu.take_buffer(direct.library, bytes)?;
        let transfer = Transfer::new(direct.library, direct.files(), buffer, requests, direct.batches);
        Ok(Arena::Storage(Box::new(transfer)))
    }
}

/// Where the groups of a pass have their memory.
enum Arena {
    Pool(u64),
    Storage(Box<Transfer>),
}

impl Arena {
    fn address(&self) -> u64 {
        match self {
            Self::Pool(address) => *address,
            Self::Storage(transfer) => transfer.address(),
        }
    }

    fn transfer(&self) -> Option<&Transfer> {
        match self {
            Self::Pool(_) => None,
            Self::Storage(transfer) => Some(transfer),
        }
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
    /// What storage writes in batches.
    transfer: Option<&'a Transfer>,
    /// Where the memory of all lanes begins, and the share of each.
    memory: (u64, u64),
}

impl Conductor<'_> {
    fn run(&self) -> Result<(), Failure> {
        self.fork()?;
        let fetchers = self.pass.reading.fetchers();
        let allowed = match self.pass.reading.settings.threads {
            0 => usize::MAX,
            threads => threads,
        };
        let workers = fetchers.current_num_threads().min(allowed).min(self.fetch.tasks());
        let outcome = if workers <= 1 && self.transfer.is_none() {
            self.alone()
        } else {
            fetchers.in_place_scope(|scope| {
                for _ in 0..workers {
                    scope.spawn(|_| self.fetch.work(&|group| self.place(group)));
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
        self.place(group).stream
    }

    fn place(&self, group: usize) -> Lane<'_> {
        let lane = group % self.lanes;
        Lane { stream: &self.streams.lanes[lane], begin: &self.streams.begins[lane] }
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
        (0..self.groups.len()).try_for_each(|group| {
            self.open(group)?;
            self.fetch.work_alone(&|group| self.place(group), group)?;
            match self.fetch.conduct(group, &|group| self.place(group))? {
                true => self.launch(group),
                false => Ok(()),
            }
        })
    }

    fn conduct(&self) -> Result<(), Failure> {
        let (mut opened, mut launched, mut submitted) = (0, 0, 0);
        let mut outcome = Ok(());
        while launched < self.groups.len() && outcome.is_ok() {
            while opened < self.groups.len().min(launched + self.lanes) && outcome.is_ok() {
                outcome = self.open(opened);
                opened += usize::from(outcome.is_ok());
            }
            outcome = outcome.and_then(|()| self.submit(&mut submitted, opened, launched));
            let loaded = outcome.and_then(|()| self.fetch.conduct(launched, &|group| self.place(group)));
            let is_loaded = loaded == Ok(true);
            outcome = loaded.map(drop);
            if !is_loaded {
                break;
            }
            outcome = outcome.and_then(|()| self.landed(launched)).and_then(|()| self.launch(launched));
            launched += 1;
        }
        // After a stop loads may still be put into the streams: memory is given back behind them.
        if launched < opened {
            self.fetch.stop(outcome.clone().err());
            self.fetch.settle();
        }
        outcome
    }

    fn open(&self, group: usize) -> Result<(), Failure> {
        let Lane { stream, begin, .. } = self.place(group);
        let base = self.memory.0 + (group % self.lanes) as u64 * self.memory.1;
        // A damaged tile is placed before the host decides over it: nobody else's pixels may stand where its own are missing.
        if let (at, bytes @ 1..) = self.groups[group].decoded(base) {
            stream.fill(at, 0, bytes)?;
        }
        if !self.groups[group].gifts.is_empty() || !self.groups[group].spans.is_empty() {
            begin.record(stream)?;
        }
        let tables = self.groups[group].tables(base, self.pass.outputs, self.formats);
        self.fetch.open(group, Opened { base, tables });
        Ok(())
    }

    /// Has storage write all open groups whose memory is free: those of the first round from the beginning, later ones when
    /// the group before them in their lane is done. The one that is due is waited for.
    fn submit(&self, submitted: &mut usize, opened: usize, due: usize) -> Result<(), Failure> {
        let Some(transfer) = self.transfer else { return Ok(()) };
        while *submitted < opened {
            let begin = self.place(*submitted).begin;
            if *submitted >= self.lanes && !self.groups[*submitted].spans.is_empty() {
                if *submitted > due && !begin.is_done()? {
                    break;
                }
                begin.wait()?;
            }
            transfer.submit(self.fetch.spans_before(*submitted + 1));
            *submitted += 1;
        }
        Ok(())
    }

    /// Waits for what storage writes of a group.
    fn landed(&self, group: usize) -> Result<(), Failure> {
        match self.transfer {
            Some(transfer) if !self.groups[group].spans.is_empty() => transfer.wait(self.fetch.spans_before(group + 1)),
            _ => Ok(()),
        }
    }

    /// All loads of a group are in its lane: decodes and places its tiles.
    fn launch(&self, group: usize) -> Result<(), Failure> {
        let Some(opened) = self.fetch.opened(group) else { return Ok(()) };
        let (gpu, lane, base) = (self.pass.reading.gpu, self.lane(group), opened.base);
        if self.pass.dry {
            return Ok(());
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
        match self.pass.timing {
            Some((_, end)) => end.record(lane),
            None => Ok(()),
        }
    }

    /// Tiles of a route that are on the device at about the same time.
    fn at_once(&self, group: usize, route: usize) -> u32 {
        let first = group / self.lanes * self.lanes;
        let neighbours = self.groups[first..].iter().take(self.lanes);
        let launches = neighbours.flat_map(|group| group.coded(0)).filter(|launch| launch.route == route);
        launches.map(|launch| launch.size.tiles).sum()
    }
}
