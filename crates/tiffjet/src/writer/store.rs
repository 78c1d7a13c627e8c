//! Where encoded tiles wait, and how they become a file.
//!
//! A plain file has its directories first, then the full image row by row, then the rest. Where the sink can write
//! over its first bytes, the tiles of the full image go straight to their place and the directories follow last; the
//! bytes are the same as when all of it is put aside first. Where no tile is compressed, all have their place before the
//! first one comes, in a COG too, and nothing is put aside.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::spool::Spool;
use super::{BigTiff, Written};
use crate::backend::EncodedRows;
use crate::cog;
use crate::error::{Error, Result};
use crate::plan::{LevelPlan, WritePlan};
use crate::sink::{Patches, Sink};
use crate::tensor::Report;
use crate::tiff::{Field, Header, encode, tag};

/// The last offset of a file that is no BigTIFF.
const CLASSIC: u64 = u32::MAX as u64;
/// Small files need no file to wait in.
const SPOOLED_BESIDE_FILES: u64 = 8 << 20;

/// Tiles that come fast, for a file that is memory itself, need none before they are so many bytes.
const SPOOLED_FOR_MEMORY: u64 = 1 << 30;

/// Before the first tile has come, a file is expected to have this part of its pixels' bytes: no more than it will.
const AT_FIRST: u64 = 8;

/// Where a tile stands: in the spool, or in the file once it is there.
#[derive(Clone, Copy)]
struct Slot {
    at: u64,
    length: u32,
}

/// Bytes that wait in memory. Where there is a directory for them, a file costs little more; but not where that file would
/// be memory itself.
fn spooled_in_memory(sink: &dyn Sink, plan: &WritePlan, fast: bool) -> u64 {
    let share = plan.spool_memory();
    if fast && sink.is_memory() && plan.memory.is_none() {
        return SPOOLED_FOR_MEMORY;
    }
    if sink.directory().is_some() { share.min(SPOOLED_BESIDE_FILES) } else { share }
}

/// A tile that has not come yet.
const MISSING: Slot = Slot { at: u64::MAX, length: 0 };

/// Level, and whether it is the mask of it.
type Key = (usize, bool);

/// Collects encoded tiles in any order.
pub(super) struct Store {
    plan: Arc<WritePlan>,
    sink: Box<dyn Sink>,
    spool: Spool,
    levels: Vec<Vec<Slot>>,
    masks: Vec<Vec<Slot>>,
    direct: Option<Direct>,
    placed: Option<Placed>,
    /// Tiles that have come and tiles that there are, where they come fast and wait: the sink is told how much there will be.
    pace: Option<(u64, u64)>,
    /// Only lengths come of the tiles of the full image: their bytes go to the same place by other ways.
    elsewhere: bool,
}

/// What others have sent of the tiles of the full image, all of them in the order of the file.
#[derive(Debug, Clone, Default)]
pub struct Brought {
    /// Those that nobody has sent because they share a part with the head of the file.
    pub lead: Vec<u8>,
    /// What stands for the parts behind them.
    pub parts: Vec<String>,
    /// Those behind the parts that nobody has sent because they are too few for one.
    pub tail: Vec<u8>,
}

/// Where each tile stands, by its place in the tile arrays; 0 for one that is left out.
type Places = HashMap<Key, Vec<u64>>;

/// Head and tiles of a file whose tiles have known sizes.
struct FileLayout {
    big: bool,
    head: Vec<u8>,
    places: Places,
    end: u64,
}

/// Every tile goes straight to its place.
struct Placed {
    layout: FileLayout,
    /// Small neighbours on their way, and where they go.
    buffer: Vec<u8>,
    at: u64,
}

/// Small tiles that are neighbours share a system call.
const BUFFER: usize = 1 << 20;

impl Placed {
    fn write(&mut self, at: u64, bytes: &[u8], sink: &mut dyn Sink) -> Result<()> {
        let joins = self.at + self.buffer.len() as u64 == at;
        if !joins || self.buffer.len() + bytes.len() > BUFFER {
            self.flush(sink)?;
        }
        if bytes.len() >= BUFFER / 4 {
            return sink.patch(at, bytes);
        }
        if self.buffer.is_empty() {
            self.at = at;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self, sink: &mut dyn Sink) -> Result<()> {
        if !self.buffer.is_empty() {
            sink.patch(self.at, &self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}

/// The full image goes straight into the file.
struct Direct {
    big: bool,
    /// Where the next tile will stand.
    position: u64,
    /// The tile that is due.
    next: u64,
    /// First tile and number of those that came too early and wait in the spool.
    waiting: BTreeMap<u64, usize>,
}

/// Whether the size of every tile of an image is known before the first one comes.
fn is_known(image: &LevelPlan) -> bool {
    let largest = image.plain_bytes(image.format.height);
    image.format.compression == 1 && image.absent.is_none() && largest <= CLASSIC - cog::LEADER - cog::TRAILER
}

/// The place of the first tile in the file, counted in tiles: row by row, plane by plane, from left to right.
fn turn(image: &LevelPlan, rows: &EncodedRows<'_>) -> u64 {
    let line = u64::from(rows.row) * u64::from(image.planes()) + u64::from(rows.plane);
    line * u64::from(image.across) + u64::from(rows.col)
}

impl Store {
    pub(super) fn new(plan: Arc<WritePlan>, sink: Box<dyn Sink>, fast: bool) -> Result<Self> {
        let mut store = Self::empty(plan, sink, fast);
        if store.sink.patches() == Patches::Anywhere && store.plan.levels.iter().chain(&store.plan.masks).all(is_known)
        {
            store.know_sizes();
            let layout = store.layout()?;
            store.placed = Some(Placed { layout, buffer: Vec::new(), at: 0 });
            return Ok(store);
        }
        if !store.plan.cog && store.sink.patches() != Patches::Nowhere {
            let big = store.big();
            let head = store.empty_head(big)?;
            store.sink.write(&vec![0; head as usize])?;
            store.direct = Some(Direct { big, position: head, next: 0, waiting: BTreeMap::new() });
        }
        if fast {
            let tiles = store.plan.levels.iter().chain(&store.plan.masks).map(LevelPlan::tiles).sum();
            store.pace = Some((0, tiles));
            store.sink.hurry(store.plan.largest() / AT_FIRST);
        }
        Ok(store)
    }

    /// For a plain file whose full image is brought by others. Gives what they must name.
    pub(super) fn elsewhere(plan: Arc<WritePlan>, sink: Box<dyn Sink>) -> Result<(Self, String)> {
        if plan.cog {
            return Err(Error::unsupported(sink.name(), "parts of a COG by many", "collect its tiles"));
        }
        let mut store = Self { elsewhere: true, ..Self::empty(plan, sink, false) };
        let upload = store.sink.share()?;
        Ok((store, upload))
    }

    fn empty(plan: Arc<WritePlan>, sink: Box<dyn Sink>, fast: bool) -> Self {
        let slots = |images: &[LevelPlan]| images.iter().map(|l| vec![MISSING; l.tiles() as usize]).collect();
        Self {
            spool: Spool::new(&*sink, spooled_in_memory(&*sink, &plan, fast)),
            levels: slots(&plan.levels),
            masks: slots(&plan.masks),
            direct: None,
            placed: None,
            pace: None,
            elsewhere: false,
            sink,
            plan,
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        self.sink.name()
    }

    fn slots(&self, (level, mask): Key) -> &[Slot] {
        if mask { &self.masks[level] } else { &self.levels[level] }
    }

    fn slots_mut(&mut self, (level, mask): Key) -> &mut [Slot] {
        if mask { &mut self.masks[level] } else { &mut self.levels[level] }
    }

    fn too_large(&self, asked: u64) -> Error {
        Error::limit(self.name(), "bytes of a TIFF that is no BigTIFF", asked, CLASSIC)
    }

    /// Takes tiles of one tile row.
    pub(super) fn append(&mut self, rows: &EncodedRows<'_>) -> Result<()> {
        let plan = self.plan.clone();
        let key = (rows.level, rows.mask);
        if self.elsewhere && key == (0, false) {
            return Err(Error::invalid(self.name(), "tiles of an image that others bring"));
        }
        let lengths: Vec<u64> = rows.tiles.iter().map(|tile| tile.len() as u64).collect();
        let image = self.check(&plan, (key, rows.plane, rows.row, rows.col), &lengths)?;
        let first = image.tile(rows.plane, rows.row, rows.col) as usize;
        if self.placed.is_some() {
            let mut tiles = rows.tiles.iter().zip(first..);
            return tiles.try_for_each(|(tile, i)| self.place(key, i, tile));
        }
        match &mut self.direct {
            Some(direct) if key == (0, false) && direct.next == turn(image, rows) => {
                let tiles: Vec<&[u8]> = rows.tiles.iter().map(|tile| &**tile).collect();
                self.sink.write_all(&tiles)?;
                for (slot, tile) in self.levels[0][first..].iter_mut().zip(tiles) {
                    *slot = Slot { at: direct.position, length: tile.len() as u32 };
                    direct.position += tile.len() as u64;
                }
                direct.next += rows.tiles.len() as u64;
                self.catch_up(image)?;
            }
            direct => {
                if let Some(direct) = direct.as_mut().filter(|_| key == (0, false)) {
                    direct.waiting.insert(turn(image, rows), rows.tiles.len());
                }
                for (i, tile) in rows.tiles.iter().enumerate() {
                    let at = self.spool.length();
                    self.set_aside(tile)?;
                    self.slots_mut(key)[first + i] = Slot { at, length: tile.len() as u32 };
                }
            }
        }
        self.tell(rows.tiles.len() as u64);
        self.check_size()
    }

    /// Tells the sink how long the file will be if all tiles are like those that have come.
    fn tell(&mut self, tiles: u64) {
        let Some((done, all)) = &mut self.pace else { return };
        *done += tiles;
        let bytes = self.spool.length() + self.direct.as_ref().map_or(0, |direct| direct.position);
        let rest = (all.saturating_sub(*done)) as f64 / *done as f64;
        self.sink.hurry(bytes + (bytes as f64 * rest) as u64);
    }

    /// Takes the lengths of tiles of the full image, which others bring.
    pub(super) fn note(&mut self, (plane, row, col): (u16, u32, u32), lengths: &[u64]) -> Result<()> {
        let plan = self.plan.clone();
        if !self.elsewhere {
            return Err(Error::invalid(self.name(), "lengths of tiles that nobody else brings"));
        }
        let image = self.check(&plan, ((0, false), plane, row, col), lengths)?;
        let first = image.tile(plane, row, col) as usize;
        for (slot, &length) in self.levels[0][first..].iter_mut().zip(lengths) {
            *slot = Slot { at: 0, length: length as u32 };
        }
        Ok(())
    }

    /// Writes a tile to its place.
    fn place(&mut self, key: Key, i: usize, tile: &[u8]) -> Result<()> {
        let slot = self.slots(key)[i];
        let Some(placed) = &mut self.placed else { return Ok(()) };
        if tile.len() as u64 != u64::from(slot.length) {
            let what = format!("tile {i} of level {}: {} bytes instead of {}", key.0, tile.len(), slot.length);
            return Err(Error::invalid(self.sink.name(), what));
        }
        let at = placed.layout.places.get(&key).map_or(0, |places| places[i]);
        if self.plan.cog {
            placed.write(at - cog::LEADER, &cog::leader(tile), &mut *self.sink)?;
        }
        placed.write(at, tile, &mut *self.sink)?;
        if self.plan.cog {
            placed.write(at + tile.len() as u64, &cog::trailer(tile), &mut *self.sink)?;
        }
        self.slots_mut(key)[i].at = at;
        Ok(())
    }

    /// Notes the length of every tile of an image that is not compressed.
    fn know_sizes(&mut self) {
        let plan = self.plan.clone();
        for image in plan.levels.iter().chain(&plan.masks) {
            let (across, down) = (image.across as usize, image.down as usize);
            for (i, slot) in self.slots_mut((image.level, image.mask)).iter_mut().enumerate() {
                let row = (i / across % down) as u32;
                // `is_known` has seen that it fits.
                slot.length = image.plain_bytes(image.rows_in_tile(row)) as u32;
            }
        }
    }

    /// The image that the rows belong to, when they can.
    fn check<'p>(
        &self,
        plan: &'p WritePlan,
        ((level, mask), plane, row, col): (Key, u16, u32, u32),
        lengths: &[u64],
    ) -> Result<&'p LevelPlan> {
        let mark = if mask { " (mask)" } else { "" };
        let what = format!("level {level}{mark}, plane {plane}, tile row {row}, column {col}");
        let refuse = |why: String| Err(Error::invalid(self.name(), format!("{what}: {why}")));
        let Some(image) = plan.image(level, mask).filter(|i| plane < i.planes() && row < i.down) else {
            return refuse("is not in the image".into());
        };
        if lengths.is_empty() || col >= image.across || lengths.len() > (image.across - col) as usize {
            return refuse(format!("{} tiles in a row of {}", lengths.len(), image.across));
        }
        if lengths.contains(&0) && image.absent.is_none() {
            return refuse("an empty tile in a file that is not sparse".into());
        }
        if lengths.iter().any(|&length| length > CLASSIC - cog::LEADER - cog::TRAILER) {
            return refuse("a tile of 4 GiB".into());
        }
        let first = image.tile(plane, row, col) as usize;
        let slots = self.slots((level, mask));
        if slots[first..first + lengths.len()].iter().any(|slot| slot.at != MISSING.at) {
            return refuse("came twice".into());
        }
        Ok(image)
    }

    fn set_aside(&mut self, tile: &[u8]) -> Result<()> {
        if !self.plan.cog || tile.is_empty() {
            return self.spool.write(tile);
        }
        self.spool.write(&cog::leader(tile))?;
        self.spool.write(tile)?;
        self.spool.write(&cog::trailer(tile))
    }

    /// Tiles that came too early and are now due.
    fn catch_up(&mut self, image: &LevelPlan) -> Result<()> {
        let Some(direct) = &mut self.direct else { return Ok(()) };
        let (across, planes) = (u64::from(image.across), u64::from(image.planes()));
        while let Some(count) = direct.waiting.remove(&direct.next) {
            let (line, col) = (direct.next / across, (direct.next % across) as u32);
            let first = image.tile((line % planes) as u16, (line / planes) as u32, col) as usize;
            for slot in &mut self.levels[0][first..first + count] {
                let from = slot.at..slot.at + u64::from(slot.length);
                self.spool.copy_to(from, &mut *self.sink)?;
                slot.at = direct.position;
                direct.position += u64::from(slot.length);
            }
            direct.next += count as u64;
        }
        Ok(())
    }

    /// A file that can only become too large is given up at once.
    fn check_size(&self) -> Result<()> {
        let (big, size) = match &self.direct {
            Some(direct) => (direct.big, direct.position),
            None => (self.plan.big != BigTiff::No, self.spool.length()),
        };
        if !big && size > CLASSIC { Err(self.too_large(size)) } else { Ok(()) }
    }

    /// Whether a plain file must have 64-bit offsets: decided before the first tile.
    fn big(&self) -> bool {
        match self.plan.big {
            BigTiff::Yes => true,
            BigTiff::No => false,
            BigTiff::Auto => match self.empty_head(false) {
                Ok(head) => self.plan.largest().saturating_add(head) > CLASSIC,
                Err(_) => true,
            },
        }
    }

    /// All is there: writes what is left.
    pub(super) fn finish(mut self, report: Report) -> Result<Written> {
        self.check_complete()?;
        let (big, bytes) = match (self.placed.take(), self.direct.take()) {
            (Some(placed), _) => self.finish_placed(placed)?,
            (None, Some(direct)) => (direct.big, self.finish_direct(&direct)?),
            (None, None) => self.lay_out()?,
        };
        self.show(big, bytes, report)
    }

    /// All is there, here and elsewhere: puts it together.
    pub(super) fn finish_around(mut self, brought: Brought) -> Result<Written> {
        self.check_complete()?;
        let Brought { lead, parts, tail } = brought;
        let image: u64 = self.levels[0].iter().map(|slot| u64::from(slot.length)).sum();
        let sent = image.checked_sub(lead.len() as u64 + tail.len() as u64);
        let Some(sent) = sent.filter(|&sent| self.elsewhere && (sent > 0) != parts.is_empty()) else {
            return Err(Error::invalid(self.name(), "what others brought is not what the image has"));
        };
        let FileLayout { big, mut head, end, .. } = self.layout()?;
        head.extend(lead);
        match parts.is_empty() {
            true => self.sink.write(&head)?,
            false => self.sink.adopt(head, &parts, sent)?,
        }
        self.sink.write(&tail)?;
        let mut copier = Copier::default();
        for (key, tile) in order(&self.plan).filter(|(key, _)| *key != (0, false)) {
            let slot = self.slots(key)[tile as usize];
            copier.add(slot.at..slot.at + u64::from(slot.length), &mut self.spool, &mut *self.sink)?;
        }
        copier.flush(&mut self.spool, &mut *self.sink)?;
        self.show(big, end, Report::default())
    }

    fn show(self, big: bool, bytes: u64, report: Report) -> Result<Written> {
        let tiles = || self.levels.iter().chain(&self.masks).flatten();
        let written = Written {
            bytes,
            big,
            levels: self.levels.len(),
            tiles: tiles().count() as u64,
            absent: tiles().filter(|s| s.length == 0).count() as u64,
            report,
        };
        self.sink.commit()?;
        Ok(written)
    }

    fn check_complete(&self) -> Result<()> {
        for (level, mask) in self.plan.directories() {
            let slots = self.slots((level, mask));
            if let Some(tile) = slots.iter().position(|s| s.at == MISSING.at) {
                let what = if mask { "mask of level" } else { "level" };
                let what = format!("{what} {level}: tile {tile} of {} never came", slots.len());
                return Err(Error::invalid(self.name(), what));
            }
        }
        Ok(())
    }

    /// Behind the full image, which is in the file already.
    fn finish_direct(&mut self, direct: &Direct) -> Result<u64> {
        let mut position = direct.position;
        let mut copier = Copier::default();
        for (key, tile) in order(&self.plan).filter(|(key, _)| *key != (0, false)) {
            let slot = self.slots(key)[tile as usize];
            self.slots_mut(key)[tile as usize].at = position;
            position += u64::from(slot.length);
            copier.add(slot.at..slot.at + u64::from(slot.length), &mut self.spool, &mut *self.sink)?;
        }
        copier.flush(&mut self.spool, &mut *self.sink)?;
        if !direct.big && position > CLASSIC {
            return Err(self.too_large(position));
        }
        let offsets =
            |key: Key| -> Vec<u64> { self.slots(key).iter().map(|s| if s.length == 0 { 0 } else { s.at }).collect() };
        let head = self.head(direct.big, &offsets).ok_or_else(|| self.too_large(position))?;
        self.sink.patch(0, &head)?;
        Ok(position)
    }

    /// All tiles are in their place: what comes before them is left.
    fn finish_placed(&mut self, mut placed: Placed) -> Result<(bool, u64)> {
        placed.flush(&mut *self.sink)?;
        self.sink.patch(0, &placed.layout.head)?;
        Ok((placed.layout.big, placed.layout.end))
    }

    /// The whole file from the spool.
    fn lay_out(&mut self) -> Result<(bool, u64)> {
        let FileLayout { big, head, end, .. } = self.layout()?;
        if self.pace.is_some() {
            self.sink.hurry(end);
        }
        self.sink.write(&head)?;
        let mut copier = Copier::default();
        for (key, tile) in order(&self.plan) {
            let slot = self.slots(key)[tile as usize];
            copier.add(slot.at..slot.at + self.size(&slot), &mut self.spool, &mut *self.sink)?;
        }
        copier.flush(&mut self.spool, &mut *self.sink)?;
        Ok((big, end))
    }

    /// Bytes before and behind each tile.
    fn around(&self) -> (u64, u64) {
        if self.plan.cog { (cog::LEADER, cog::TRAILER) } else { (0, 0) }
    }

    /// Bytes that a tile takes in the file.
    fn size(&self, slot: &Slot) -> u64 {
        let (before, behind) = self.around();
        if slot.length == 0 { 0 } else { before + u64::from(slot.length) + behind }
    }

    /// Where everything stands, once the length of every tile is known.
    fn layout(&self) -> Result<FileLayout> {
        let tiles: u64 = self.levels.iter().chain(&self.masks).flatten().map(|slot| self.size(slot)).sum();
        let big = match self.plan.big {
            // Here the size is known.
            BigTiff::Auto if self.plan.cog => self.empty_head(false).map_or(true, |head| head + tiles > CLASSIC),
            _ => self.big(),
        };
        let start = self.empty_head(big)?;
        let end = start + tiles;
        if !big && end > CLASSIC {
            return Err(self.too_large(end));
        }
        let mut places = Places::new();
        let mut position = start;
        for (key, tile) in order(&self.plan) {
            let slots = self.slots(key);
            let slot = slots[tile as usize];
            let places = places.entry(key).or_insert_with(|| vec![0; slots.len()]);
            if slot.length > 0 {
                places[tile as usize] = position + self.around().0;
                position += self.size(&slot);
            }
        }
        let offsets = |key: Key| places.get(&key).cloned().unwrap_or_default();
        let head = self.head(big, &offsets).ok_or_else(|| self.too_large(end))?;
        Ok(FileLayout { big, head, places, end })
    }

    /// Bytes before the first tile.
    fn empty_head(&self, big: bool) -> Result<u64> {
        let zeros = |(level, mask): Key| {
            let tiles = self.plan.image(level, mask).map_or(0, LevelPlan::tiles);
            vec![0; tiles as usize]
        };
        self.head(big, &zeros).map(|head| head.len() as u64).ok_or_else(|| self.too_large(CLASSIC + 1))
    }

    /// Header, promise and directories. `None` when an offset does not fit.
    fn head(&self, big: bool, offsets: &dyn Fn(Key) -> Vec<u64>) -> Option<Vec<u8>> {
        let mut first = Header::native(big, 0).size();
        let ghost =
            if self.plan.cog { cog::ghost(self.plan.levels[0].planar, self.plan.mask_follows()) } else { Vec::new() };
        first = (first + ghost.len() as u64).next_multiple_of(2);
        let mut out = Header::native(big, first).bytes()?;
        out.extend(ghost);
        out.resize(first as usize, 0);
        let directories: Option<Vec<Vec<Field>>> =
            self.plan.directories().into_iter().map(|key| self.fields(key, big, &offsets(key))).collect();
        out.extend(encode::chain(directories?, self.plan.nested(), big, first)?);
        Some(out)
    }

    /// The fields of a directory with its tile arrays.
    fn fields(&self, (level, mask): Key, big: bool, offsets: &[u64]) -> Option<Vec<Field>> {
        let image = self.plan.image(level, mask)?;
        let slots = self.slots((level, mask));
        let counts: Vec<u32> = slots.iter().map(|s| s.length).collect();
        let (offsets_tag, counts_tag) = match image.tiled {
            true => (tag::TILE_OFFSETS, tag::TILE_BYTE_COUNTS),
            false => (tag::STRIP_OFFSETS, tag::STRIP_BYTE_COUNTS),
        };
        let mut fields = self.plan.fields(level, mask);
        fields.push(Field::offsets(offsets_tag, offsets, big)?);
        fields.push(Field::longs(counts_tag, &counts));
        fields.sort_by_key(|f| f.tag);
        Some(fields)
    }
}

/// All tiles in the order of the file.
fn order(plan: &WritePlan) -> impl Iterator<Item = (Key, u64)> + use<> {
    let follows = plan.mask_follows();
    let part = |image: &LevelPlan| Part {
        key: (image.level, image.mask),
        with_mask: follows && !image.mask,
        across: image.across.into(),
        down: image.down.into(),
        planes: image.planes().into(),
        by_row: !plan.cog,
    };
    let mut levels: Vec<Vec<Part>> = Vec::new();
    for (i, level) in plan.levels.iter().enumerate() {
        let mask = plan.masks.get(i).filter(|_| !follows);
        levels.push([Some(level), mask].into_iter().flatten().map(part).collect());
    }
    if plan.cog {
        levels.reverse();
    }
    levels.into_iter().flatten().flat_map(Part::tiles)
}

/// The tiles of a level, each followed by that of the mask or not.
#[derive(Clone, Copy)]
struct Part {
    key: Key,
    with_mask: bool,
    across: u64,
    down: u64,
    planes: u64,
    /// The planes of a tile row stand together.
    by_row: bool,
}

impl Part {
    fn tiles(self) -> impl Iterator<Item = (Key, u64)> {
        let count = self.across * self.down * self.planes;
        (0..count).map(move |i| self.tile(i)).flat_map(move |tile| {
            let mask = self.with_mask.then_some(((self.key.0, true), tile));
            [Some((self.key, tile)), mask].into_iter().flatten()
        })
    }

    /// Place in the tile arrays of the tile that stands at place `i` in the file.
    fn tile(self, i: u64) -> u64 {
        if !self.by_row {
            return i;
        }
        let (col, plane, row) = (i % self.across, i / self.across % self.planes, i / self.across / self.planes);
        (plane * self.down + row) * self.across + col
    }
}

/// Joins neighbours in the spool to one copy.
#[derive(Default)]
struct Copier {
    run: Range<u64>,
}

impl Copier {
    fn add(&mut self, range: Range<u64>, spool: &mut Spool, sink: &mut dyn Sink) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        if self.run.end == range.start && !self.run.is_empty() {
            self.run.end = range.end;
            return Ok(());
        }
        self.flush(spool, sink)?;
        self.run = range;
        Ok(())
    }

    fn flush(&mut self, spool: &mut Spool, sink: &mut dyn Sink) -> Result<()> {
        let run = std::mem::take(&mut self.run);
        if run.is_empty() { Ok(()) } else { spool.copy_to(run, sink) }
    }
}
