//! Tiles on their way through the device, a wave at a time.
//!
//! A wave is filled with packed tiles of any levels, in the stream of the rows; full, it is compressed and put together in
//! the stream of its lane while the next one is filled. Its lengths come to the host first, then its bytes, each copied
//! once.

use std::collections::VecDeque;
use std::sync::Arc;

use rayon::prelude::*;
use tiffjet::{Error, Fallback, LevelPlan, Result};

use super::land::{Bytes, Landing, Lent, Place, host_encode};
use super::layout::{Tables, WaveLayout};
use super::picture::Picture;
use super::route::{Route, found};
use crate::ffi::driver::{Event, Failure, Stream};
use crate::ffi::nvcomp::Chunks;
use crate::ffi::turn::Pixels;
use crate::kernels::Tile;
use crate::kernels::write::{Blob, Lengths, PackFormat, PackTile};
use crate::memory::{Gpu, Lane, SLOT};
use crate::storage::download;

/// Takes what has come back to the host. An error ends the write.
pub type Land<'a> = dyn FnMut(Landing) -> Result<()> + 'a;

/// Images that share a route and the size of their tiles.
pub struct Kind {
    /// Its largest level.
    pub plan: LevelPlan,
    pub route: Route,
    /// Tiles of a wave.
    pub tiles: u32,
    pub layout: WaveLayout,
    /// Tiles that went this way.
    done: usize,
    /// Those of them that the library refused, and why it refused the first.
    refused: Option<(usize, Failure)>,
}

impl Kind {
    /// Nothing has gone this way yet.
    pub fn new(plan: &LevelPlan, route: Route, tiles: u32, layout: WaveLayout) -> Self {
        Self { plan: plan.clone(), route, tiles, layout, done: 0, refused: None }
    }

    /// Where tiles go to, and how many of them went there.
    fn places(&self, device: &str) -> Vec<(String, usize)> {
        let refused = self.refused.as_ref().map_or(0, |(count, _)| *count);
        let host = |count: usize| ("the host".to_owned(), count);
        match self.route {
            Route::Host => vec![host(self.done)],
            Route::Picture(picture) => {
                let own = (format!("{device} by {}", picture.library()), self.done - refused);
                [own, host(refused)].into_iter().filter(|(_, count)| *count > 0).collect()
            }
            _ => vec![(device.to_owned(), self.done)],
        }
    }
}

/// A wave that is filled or on its way.
struct Wave {
    lane: Lane,
    /// Where its memory begins.
    base: u64,
    kind: usize,
    tiles: Vec<(Place, u64)>,
}

/// All waves of a write.
pub struct Waves {
    gpu: Arc<Gpu>,
    name: Arc<str>,
    /// All images, by their place in the write.
    images: Arc<[LevelPlan]>,
    kinds: Vec<Kind>,
    fallback: Fallback,
    idle: Vec<(Lane, u64)>,
    /// By kind.
    filling: Vec<Option<Wave>>,
    running: VecDeque<Wave>,
}

impl Waves {
    /// Waves of some kinds, without lanes yet.
    pub fn new(
        gpu: &Arc<Gpu>,
        name: &Arc<str>,
        (images, kinds): (&Arc<[LevelPlan]>, Vec<Kind>),
        fallback: Fallback,
    ) -> Self {
        let filling = kinds.iter().map(|_| None).collect();
        Self {
            gpu: gpu.clone(),
            name: name.clone(),
            images: images.clone(),
            kinds,
            fallback,
            idle: Vec::new(),
            filling,
            running: VecDeque::new(),
        }
    }

    /// Adds a lane, whose memory begins at an address.
    pub fn add_lane(&mut self, base: u64) -> Result<(), Failure> {
        self.idle.push((self.gpu.take_lane()?, base));
        Ok(())
    }

    /// Which way how many tiles went.
    pub fn routes(&self) -> Vec<(String, usize)> {
        let route = |kind: &Kind| {
            let what = format!("{}{}", kind.plan.codec.name(), if kind.plan.mask { " masks" } else { "" });
            let places = kind.places(&self.gpu.device).into_iter();
            places.map(|(place, count)| (format!("{what} on {place}"), count)).collect::<Vec<_>>()
        };
        self.kinds.iter().flat_map(route).collect()
    }

    /// What went another way than it was sent.
    pub fn fallbacks(&self) -> Vec<String> {
        let told = |kind: &Kind| {
            let (count, why) = kind.refused.as_ref()?;
            Some(format!("{count} tiles of {} are encoded by the host's codec: {why}", kind.plan.codec.name()))
        };
        self.kinds.iter().filter_map(told).collect()
    }

    fn refused<T>(&self, outcome: Result<T, Failure>) -> Result<T> {
        outcome.map_err(|failure| self.gpu.refused(&self.name, &failure))
    }

    /// Packs tiles of an image behind what the stream of rows has, and sends waves on their way as they are full.
    pub fn pack(
        &mut self,
        rows: &Stream,
        kind: usize,
        format: &PackFormat,
        tiles: &[(Place, u64, PackTile)],
        land: &mut Land<'_>,
    ) -> Result<()> {
        let mut left = tiles;
        while !left.is_empty() {
            let mut wave = self.fill(rows, kind, land)?;
            let now = left.len().min(self.kinds[kind].tiles as usize - wave.tiles.len());
            let (part, rest) = left.split_at(now);
            let packed = wave.pack(&self.gpu, rows, &self.kinds[kind], format, part);
            let full = wave.tiles.len() == self.kinds[kind].tiles as usize;
            self.filling[kind] = Some(wave);
            self.refused(packed)?;
            if full {
                self.launch(rows, kind)?;
            }
            left = rest;
        }
        Ok(())
    }

    /// The wave of a kind that has room for tiles.
    fn fill(&mut self, rows: &Stream, kind: usize, land: &mut Land<'_>) -> Result<Wave> {
        if let Some(wave) = self.filling[kind].take() {
            return Ok(wave);
        }
        let (lane, base) = loop {
            if let Some(idle) = self.idle.pop() {
                break idle;
            }
            if !self.running.is_empty() {
                self.land_oldest(land)?;
                continue;
            }
            // Every lane waits for tiles of another kind.
            for other in 0..self.kinds.len() {
                self.launch(rows, other)?;
            }
        };
        let differs = base + self.kinds[kind].layout.differs;
        let room = 4 * u64::from(self.kinds[kind].tiles);
        // What is copied from the memory must be, before it is filled again.
        let cleared = rows.wait_for(&lane.free).and_then(|()| rows.fill(differs, 0, room));
        let wave = Wave { lane, base, kind, tiles: Vec::new() };
        if cleared.is_err() {
            self.running.push_back(wave);
            return Err(self.refused(cleared).err().unwrap_or_else(|| self.lost()));
        }
        Ok(wave)
    }

    fn lost(&self) -> Error {
        Error::invalid(&self.name, "a wave of tiles was lost")
    }

    /// Sends the wave of a kind on its way, where there is one.
    fn launch(&mut self, rows: &Stream, kind: usize) -> Result<()> {
        let Some(mut wave) = self.filling[kind].take() else { return Ok(()) };
        let launched = wave.launch(&self.gpu, rows, &self.kinds[kind]);
        self.running.push_back(wave);
        self.refused(launched)
    }

    /// Sends all on their way and waits for them.
    pub fn finish(&mut self, rows: &Stream, land: &mut Land<'_>) -> Result<()> {
        for kind in 0..self.kinds.len() {
            self.launch(rows, kind)?;
        }
        while !self.running.is_empty() {
            self.land_oldest(land)?;
        }
        Ok(())
    }

    /// Waits until the lengths of the oldest wave are known and copies its bytes to the host.
    fn land_oldest(&mut self, land: &mut Land<'_>) -> Result<()> {
        let Some(mut wave) = self.running.pop_front() else { return Ok(()) };
        let landed = self.land(&mut wave, land);
        match landed {
            Ok(refused) => {
                let kind = &mut self.kinds[wave.kind];
                kind.done += wave.tiles.len();
                if let Some((more, why)) = refused {
                    kind.refused.get_or_insert((0, why)).0 += more;
                }
                self.idle.push((wave.lane, wave.base));
                Ok(())
            }
            Err(error) => {
                self.running.push_front(wave);
                Err(error)
            }
        }
    }

    /// Tells how many tiles the library of their route refused, and why.
    fn land(&self, wave: &mut Wave, land: &mut Land<'_>) -> Result<Option<(usize, Failure)>> {
        let kind = &self.kinds[wave.kind];
        self.refused(wave.lane.known.wait())?;
        let mut refused = None;
        match kind.route {
            Route::Picture(picture) => refused = self.land_pictures(wave, kind, picture, land)?,
            route if route.encodes() => self.land_encoded(wave, kind, land)?,
            _ => self.land_plain(wave, kind, land)?,
        }
        self.refused(wave.lane.free.record(&wave.lane.stream))?;
        Ok(refused)
    }

    /// Tiles that a library encodes, and by the host's codec those that it refuses.
    fn land_pictures(
        &self,
        wave: &Wave,
        kind: &Kind,
        picture: Picture,
        land: &mut Land<'_>,
    ) -> Result<Option<(usize, Failure)>> {
        let flags = wave.flags(kind, wave.tiles.len());
        let kept: Vec<usize> = (0..wave.tiles.len()).filter(|&i| flags.get(i).is_none_or(|&flag| flag != 0)).collect();
        let pixels: Vec<Pixels> = kept.iter().map(|&i| self.pixels(wave, kind, i)).collect();
        let encoded = self.refused(picture.encode(&self.gpu, &kind.plan, &pixels))?;
        let bad: Vec<usize> = kept.iter().zip(&encoded).filter(|(_, tile)| tile.is_err()).map(|(&i, _)| i).collect();
        let mut by_host = self.by_host(wave, kind, &bad)?.into_iter();
        let mut refused: Option<(usize, Failure)> = None;
        let mut bytes = Vec::new();
        let mut tiles: Vec<_> = wave.tiles.iter().map(|(place, _)| (*place, 0..0)).collect();
        for (&i, tile) in kept.iter().zip(encoded) {
            let place = wave.tiles[i].0;
            let tile = match tile {
                Ok(tile) => tile,
                Err(why) if self.fallback == Fallback::Forbid => {
                    let codec = kind.plan.codec.name();
                    let feature =
                        format!("encoding {codec} on the GPU (row {}, column {}: {why})", place.row, place.col);
                    return Err(Error::unsupported(&self.name, feature, "fallback is forbidden"));
                }
                Err(why) => {
                    refused.get_or_insert((0, why)).0 += 1;
                    by_host.next().ok_or_else(|| self.lost())?
                }
            };
            tiles[i].1 = bytes.len()..bytes.len() + tile.len();
            bytes.extend(tile);
        }
        land(Landing { bytes: Bytes::Owned(bytes), tiles, plain: false })?;
        Ok(refused)
    }

    /// The pixels of a packed tile.
    fn pixels(&self, wave: &Wave, kind: &Kind, i: usize) -> Pixels {
        let plan = &self.images[wave.tiles[i].0.image];
        let height = plan.rows_in_tile(wave.tiles[i].0.row);
        let address = wave.base + kind.layout.plain + i as u64 * kind.layout.needs.plain;
        Pixels { address, width: plan.format.width, height, samples: plan.format.samples }
    }

    /// Packed tiles by the host's codec, unless that is forbidden.
    fn by_host(&self, wave: &Wave, kind: &Kind, tiles: &[usize]) -> Result<Vec<Vec<u8>>> {
        if self.fallback == Fallback::Forbid {
            return Ok(Vec::new());
        }
        let plain = |&i: &usize| {
            let mut bytes = vec![0; wave.tiles[i].1 as usize];
            let address = wave.base + kind.layout.plain + i as u64 * kind.layout.needs.plain;
            self.refused(download(&self.gpu, &wave.lane.stream, address, &mut bytes))?;
            Ok((wave.tiles[i].0, bytes))
        };
        let plain = tiles.iter().map(plain).collect::<Result<Vec<_>>>()?;
        let encode = |(place, bytes): &(Place, Vec<u8>)| host_encode(&self.name, &self.images, *place, bytes);
        self.gpu.threads.install(|| plain.par_iter().map(encode).collect())
    }

    /// Tiles of the blob, which is made anew for those that did not fit.
    fn land_encoded(&self, wave: &Wave, kind: &Kind, land: &mut Land<'_>) -> Result<()> {
        let count = wave.tiles.len();
        let numbers = wave.results(kind, 2 * count + 1);
        let (lengths, offsets) = numbers.split_at(count);
        if let Some(bad) = lengths.iter().position(|&length| length > kind.layout.needs.longest) {
            let Place { row, col, .. } = wave.tiles[bad].0;
            let source = format!("{} did not compress tile {row}, {col}", kind.plan.codec.name());
            return Err(Error::Device { name: self.name.clone(), device: self.gpu.device.clone(), source });
        }
        let mut first = 0;
        while first < count {
            if first > 0 {
                self.refused(wave.blob(&self.gpu, kind, first))?;
            }
            let begin = offsets[first];
            let fits = (first..count).take_while(|&i| offsets[i] + lengths[i] - begin <= kind.layout.room).count();
            let blob = wave.base + kind.layout.blob;
            let part = (first..first + fits).map(|i| (wave.tiles[i].0, blob + offsets[i] - begin, lengths[i]));
            self.copy(wave, part.collect(), land)?;
            if fits == 0 {
                return Err(self.lost());
            }
            first += fits;
        }
        Ok(())
    }

    /// Tiles as they were packed.
    fn land_plain(&self, wave: &Wave, kind: &Kind, land: &mut Land<'_>) -> Result<()> {
        let count = wave.tiles.len();
        let differs = wave.flags(kind, count);
        let length = |i: usize| if differs.get(i).is_none_or(|&flag| flag != 0) { wave.tiles[i].1 } else { 0 };
        let plain = wave.base + kind.layout.plain;
        let at = |i: usize| plain + i as u64 * kind.layout.needs.plain;
        let tiles: Vec<_> = (0..count).map(|i| (wave.tiles[i].0, at(i), length(i))).collect();
        if kind.route == Route::Plain {
            return self.copy(wave, tiles, land);
        }
        let end = tiles.iter().map(|(_, at, length)| at + length).max().unwrap_or(plain);
        let mut bytes = vec![0; (end - plain) as usize];
        self.refused(download(&self.gpu, &wave.lane.stream, plain, &mut bytes))?;
        let place = |at: u64, length: u64| (at - plain) as usize..(at - plain + length) as usize;
        let tiles = tiles.into_iter().map(|(name, at, length)| (name, place(at, length))).collect();
        land(Landing { bytes: Bytes::Owned(bytes), tiles, plain: true })
    }

    /// Copies tiles, which stand in order, to the host: as many as a slot holds at a time.
    fn copy(&self, wave: &Wave, tiles: Vec<(Place, u64, u64)>, land: &mut Land<'_>) -> Result<()> {
        let mut left = &tiles[..];
        while let Some(&(_, begin, length)) = left.first() {
            if length > SLOT as u64 {
                let mut bytes = vec![0; length as usize];
                self.refused(download(&self.gpu, &wave.lane.stream, begin, &mut bytes))?;
                land(Landing { tiles: vec![(left[0].0, 0..bytes.len())], bytes: Bytes::Owned(bytes), plain: false })?;
                left = &left[1..];
                continue;
            }
            let fits = left.iter().take_while(|(_, at, length)| at + length - begin <= SLOT as u64).count();
            let (part, rest) = left.split_at(fits);
            let end = part.iter().map(|(_, at, length)| at + length).max().unwrap_or(begin);
            let mut lent = self.refused(Lent::take(&self.gpu))?;
            let copied = lent.with(|slot| {
                let length = (end - begin) as usize;
                if length > 0 {
                    wave.lane.stream.download(begin, &mut slot.memory, length)?;
                }
                slot.copied(&wave.lane.stream, false)
            });
            self.refused(copied)?;
            let place = |at: u64, length: u64| (at - begin) as usize..(at - begin + length) as usize;
            let tiles = part.iter().map(|&(name, at, length)| (name, place(at, length))).collect();
            land(Landing { bytes: Bytes::Lent(lent), tiles, plain: false })?;
            left = rest;
        }
        Ok(())
    }

    /// Waits until nothing of it runs any more, well or not, and gives its lanes back.
    pub fn end(self) {
        let lanes = self.filling.into_iter().flatten().chain(self.running).map(|wave| wave.lane);
        for lane in lanes.chain(self.idle.into_iter().map(|(lane, _)| lane)) {
            let _ = lane.stream.wait();
            self.gpu.give_lane(lane);
        }
    }
}

/// Where parts of the notes stand, for waves of so many tiles.
fn notes(tiles: u32) -> (Tables, usize) {
    let tables = Tables::new(u64::from(tiles) * PackTile::SIZE, tiles.into());
    (tables, tables.end.next_multiple_of(16) as usize)
}

impl Wave {
    /// Packs tiles into its memory.
    fn pack(
        &mut self,
        gpu: &Gpu,
        rows: &Stream,
        kind: &Kind,
        format: &PackFormat,
        tiles: &[(Place, u64, PackTile)],
    ) -> Result<(), Failure> {
        let first = self.tiles.len();
        let plain = self.base + kind.layout.plain;
        let output = |i: usize| plain + (first + i) as u64 * kind.layout.needs.plain;
        let packed: Vec<PackTile> =
            tiles.iter().enumerate().map(|(i, (_, _, tile))| PackTile { output: output(i), ..*tile }).collect();
        self.tiles.extend(tiles.iter().map(|(place, bytes, _)| (*place, *bytes)));
        let mut table = Vec::with_capacity(packed.len() * PackTile::SIZE as usize);
        packed.iter().for_each(|tile| tile.write(&mut table));
        let at = first * PackTile::SIZE as usize;
        self.lane.notes.bytes_mut()[at..at + table.len()].copy_from_slice(&table);
        let to = self.base + kind.layout.pack + at as u64;
        rows.upload(&self.lane.notes, at, table.len(), to)?;
        gpu.kernels.pack(rows, (to, &packed), format, self.base + kind.layout.differs + 4 * first as u64)
    }

    /// Puts all that becomes of its tiles into its stream.
    fn launch(&mut self, gpu: &Gpu, rows: &Stream, kind: &Kind) -> Result<(), Failure> {
        self.lane.ready.record(rows)?;
        self.lane.stream.wait_for(&self.lane.ready)?;
        let count = self.tiles.len();
        let (_, results) = notes(kind.tiles);
        if kind.route.encodes() {
            self.tables(kind)?;
            self.encode(gpu, kind)?;
            self.blob(gpu, kind, 0)?;
            let length = 16 * count + 8;
            let from = self.base + kind.layout.results;
            self.lane.stream.download_at(from, &mut self.lane.notes, results, length)?;
        } else if kind.plan.absent.is_some() {
            let from = self.base + kind.layout.differs;
            self.lane.stream.download_at(from, &mut self.lane.notes, results, 4 * count)?;
        }
        self.lane.known.record(&self.lane.stream)
    }

    /// Uploads addresses and sizes of its tiles.
    fn tables(&mut self, kind: &Kind) -> Result<(), Failure> {
        let layout = &kind.layout;
        let (places, _) = notes(kind.tiles);
        let device = &layout.tables;
        let plain = |i: usize| self.base + layout.plain + i as u64 * layout.needs.plain;
        let slot = |i: usize| self.base + layout.slots + i as u64 * layout.needs.slot;
        let row = kind.plan.plain_bytes(1) as u32;
        let (mut tiles, mut inputs, mut bytes, mut outputs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (i, &(_, length)) in self.tiles.iter().enumerate() {
            let (input, output, in_bytes) = (plain(i), slot(i), length as u32);
            Tile { input, output, in_bytes, out_bytes: row, id: i as u32 }.write(&mut tiles);
            inputs.extend(input.to_le_bytes());
            bytes.extend(length.to_le_bytes());
            outputs.extend(output.to_le_bytes());
        }
        let all = [
            (places.tiles, device.tiles, tiles),
            (places.inputs, device.inputs, inputs),
            (places.bytes, device.bytes, bytes),
            (places.outputs, device.outputs, outputs),
        ];
        for (at, _, table) in &all {
            self.lane.notes.bytes_mut()[*at as usize..*at as usize + table.len()].copy_from_slice(table);
        }
        for (at, to, table) in &all {
            self.lane.stream.upload(&self.lane.notes, *at as usize, table.len(), self.base + to)?;
        }
        Ok(())
    }

    /// Compresses its tiles and sums their lengths up.
    fn encode(&self, gpu: &Gpu, kind: &Kind) -> Result<(), Failure> {
        let (layout, stream, count) = (&kind.layout, &self.lane.stream, self.tiles.len() as u32);
        let at = |offset: u64| self.base + offset;
        let largest = self.tiles.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        let (tiles, sizes) = (at(layout.tables.tiles), at(layout.sizes));
        let mut lengths = Lengths { sizes, extra: kind.route.frame() as u32, ..Lengths::default() };
        match kind.route {
            Route::PackBits => gpu.kernels.packbits_sizes(stream, tiles, count, self.most_rows(kind), sizes)?,
            Route::Lzw => gpu.kernels.lzw_encode(stream, tiles, count, largest, sizes)?,
            Route::Zstd => gpu.kernels.zstd_encode(stream, tiles, count, largest, sizes)?,
            Route::Deflate => gpu.kernels.deflate_encode(stream, tiles, count, largest, sizes)?,
            Route::Nvcomp(method) => {
                lengths.statuses = at(layout.statuses);
                let chunks = Chunks {
                    count,
                    inputs: at(layout.tables.inputs),
                    bytes: at(layout.tables.bytes),
                    largest,
                    outputs: at(layout.tables.outputs),
                    sizes,
                    statuses: lengths.statuses,
                    scratch: (at(layout.scratch), layout.needs.scratch),
                };
                found()?.compress(method, &chunks, stream)?;
            }
            Route::Plain | Route::Picture(_) | Route::Host => {}
        }
        if kind.route.frame() > 0 {
            let (inputs, bytes) = (at(layout.tables.inputs), at(layout.tables.bytes));
            gpu.kernels.adler(stream, inputs, bytes, count, at(layout.sums))?;
        }
        if kind.plan.absent.is_some() {
            lengths.differs = at(layout.differs);
        }
        let results = at(layout.results);
        gpu.kernels.offsets(stream, &lengths, count, results, results + 8 * u64::from(count))
    }

    fn most_rows(&self, kind: &Kind) -> u32 {
        let row = kind.plan.plain_bytes(1).max(1);
        self.tiles.iter().map(|(_, bytes)| bytes / row).max().unwrap_or(0) as u32
    }

    /// Puts compressed tiles together, from one of them on.
    fn blob(&self, gpu: &Gpu, kind: &Kind, first: usize) -> Result<(), Failure> {
        let (layout, stream) = (&kind.layout, &self.lane.stream);
        let at = |offset: u64| self.base + offset;
        let results = at(layout.results);
        let blob = Blob {
            lengths: results,
            offsets: results + 8 * self.tiles.len() as u64,
            out: at(layout.blob),
            room: layout.room,
            first: first as u32,
            count: (self.tiles.len() - first) as u32,
        };
        let tiles = at(layout.tables.tiles);
        let largest = self.tiles.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        match kind.route {
            Route::PackBits => gpu.kernels.packbits_write(stream, tiles, self.most_rows(kind), &blob),
            Route::Lzw => gpu.kernels.lzw_write(stream, tiles, largest, &blob),
            Route::Zstd => gpu.kernels.zstd_write(stream, tiles, largest, &blob),
            Route::Deflate => gpu.kernels.deflate_write(stream, tiles, largest, at(layout.sums), &blob),
            Route::Nvcomp(_) => {
                let sums = if kind.route.frame() > 0 { at(layout.sums) } else { 0 };
                gpu.kernels.gather(stream, at(layout.tables.outputs), layout.needs.longest, sums, &blob)
            }
            Route::Plain | Route::Picture(_) | Route::Host => Ok(()),
        }
    }

    /// Numbers that have come back.
    fn results(&self, kind: &Kind, count: usize) -> Vec<u64> {
        let (_, at) = notes(kind.tiles);
        let bytes = &self.lane.notes.bytes()[at..at + 8 * count];
        bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }

    /// For each tile whether it has pixels that count; none where all have.
    fn flags(&self, kind: &Kind, count: usize) -> Vec<u32> {
        if kind.plan.absent.is_none() {
            return Vec::new();
        }
        let (_, at) = notes(kind.tiles);
        let bytes = &self.lane.notes.bytes()[at..at + 4 * count];
        bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
    }
}

/// Makes a stream wait for what is in another.
pub fn after(stream: &Stream, event: &Event, other: usize) -> Result<(), Failure> {
    event.record_foreign(other)?;
    stream.wait_for(event)
}
