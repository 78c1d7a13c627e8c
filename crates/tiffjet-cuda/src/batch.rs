//! Tiles to groups, each with all its memory laid out before any is taken. Pure: no I/O, no device.
//!
//! A group is one piece of device memory: an image of what is loaded (compressed bytes, tiles that the host decoded, the
//! tables of the kernels), the decoded tiles, and scratch. Its image is cut into loads, one slot of the ring each.

mod loads;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use tiffjet::plan::{TileRead, joins};
use tiffjet::{Layout, ReadJob, ReadPlan};

use crate::codec::{LIBRARY_ROUTES, Output, ROUTES, Size};
use crate::ffi::cufile::PAGE;
use crate::kernels::{Format, Place, Tile};
pub use loads::Loads;
use loads::loads;

/// Bytes around the image and behind the decoded tiles that kernels may read.
const SLACK: u64 = 64;
/// What a decoded tile may be followed by.
const TAIL: u64 = 16;

/// How a tile gets its pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It is not in the file.
    Fill,
    /// Its bytes are rows of pixels.
    Direct,
    /// Decoded by a route of the table.
    Device(usize),
    /// Decoded on the device by a library of the other table.
    Library(usize, Output),
    /// Decoded by the host.
    Host,
}

/// A tile of a job and its way.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    /// Which job.
    pub job: usize,
    /// Which tile of its plan.
    pub tile: usize,
    /// How.
    pub way: Way,
    /// Place of its status.
    pub id: u32,
    /// Rows that hang over the lower edge of the image are not in its data: some writers leave them out.
    pub cut: bool,
}

/// Whether two items are one tile of one file, decoded the same way: then it is decoded once.
pub fn is_same(jobs: &[ReadJob<'_>], a: &Item, b: &Item) -> bool {
    let (one, other) = (&jobs[a.job], &jobs[b.job]);
    let (tile, twin) = (&one.plan.tiles()[a.tile], &other.plan.tiles()[b.tile]);
    matches!(a.way, Way::Device(_) | Way::Library(..) | Way::Host)
        && (a.way, a.cut) == (b.way, b.cut)
        && (&tile.range, tile.tile, tile.first_row, tile.rows) == (&twin.range, twin.tile, twin.first_row, twin.rows)
        && std::ptr::addr_eq(one.source, other.source)
        && Arc::ptr_eq(one.plan.layout(), other.plan.layout())
}

impl Item {
    /// Rows that its data must give.
    pub fn rows(&self, layout: &Layout, tile: &TileRead) -> u32 {
        if self.cut { rows_inside(layout, tile) } else { tile.rows }
    }
}

/// Rows of a tile that are in the image.
pub fn rows_inside(layout: &Layout, tile: &TileRead) -> u32 {
    tile.rows.min(layout.height - tile.row * layout.format.height)
}

/// A rectangle of one value.
#[derive(Debug, Clone, Copy)]
pub struct Rect {
    /// Which job.
    pub job: usize,
    /// Of the format that has the value.
    pub format: usize,
    /// First row and column.
    pub at: (u32, u32),
    /// Rows and columns.
    pub size: (u32, u32),
}

/// How large things may be.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Device memory of a group; one that a single tile needs may have more.
    pub group: u64,
    /// Bytes of an image that are enough for a group.
    pub image: u64,
    /// How large loads are.
    pub loads: Loads,
    /// Whether bytes that can go straight to the device do.
    pub direct: bool,
    /// Whether windows may share a tile.
    pub shared: bool,
}

/// Where a part of a tile comes from.
#[derive(Debug, Clone, Copy)]
enum From {
    Nothing,
    Image(u64),
    Decoded(u64),
}

/// Neighbouring bytes of an image.
#[derive(Debug, Clone)]
struct Segment {
    at: u64,
    length: u64,
    what: What,
}

/// What bytes of an image are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A part of a file, from here on.
    File {
        /// Which job.
        job: usize,
        /// First byte.
        start: u64,
        /// The bits of each byte are turned round.
        reversed: bool,
    },
    /// A tile that the host decodes.
    Tile {
        /// Which job.
        job: usize,
        /// Which tile of its plan.
        tile: usize,
    },
    /// The tables, from here on.
    Tables {
        /// First byte.
        start: u64,
    },
}

/// Bytes of a load.
#[derive(Debug, Clone)]
pub struct Fill {
    /// First byte of the load.
    pub at: u64,
    /// How many.
    pub length: u64,
    /// What.
    pub what: What,
}

/// What passes through one slot, unless it is a single tile that is larger.
#[derive(Debug, Clone, Default)]
pub struct Load {
    /// First byte of the image.
    pub at: u64,
    /// Bytes.
    pub length: u64,
    /// What they are, in order.
    pub fills: Vec<Fill>,
}

#[derive(Debug, Clone)]
struct Decoded {
    input: u64,
    output: u64,
    in_bytes: u32,
    out_bytes: u32,
    id: u32,
}

#[derive(Debug, Clone)]
struct Placed {
    from: From,
    job: usize,
    place: Place,
}

/// Tiles of one route in a group.
#[derive(Debug, Clone, Default)]
struct Coded {
    tiles: Vec<Decoded>,
    size: Size,
    /// Where the table stands in the image.
    table: u64,
    /// Where scratch stands in the group.
    scratch: u64,
}

/// A tile for a library.
#[derive(Debug, Clone, Copy)]
pub struct Given {
    /// Which job.
    pub job: usize,
    /// Which tile of its plan.
    pub tile: usize,
    /// Place of its status.
    pub id: u32,
    /// First byte among the decoded tiles.
    output: u64,
}

/// Tiles that are given to a library at once.
#[derive(Debug, Clone)]
pub struct Gift {
    /// Which library.
    pub route: usize,
    /// How they come out.
    pub output: Output,
    /// The tiles.
    pub tiles: Vec<Given>,
    /// Their bytes in the file.
    bytes: u64,
}

/// Bytes of a file on their way to an image past the host. They are whole pages on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// First byte of the image.
    pub at: u64,
    /// First byte in the file.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Which job.
    pub job: usize,
}

/// The formats of a job's tiles.
#[derive(Debug, Clone, Copy)]
pub struct Formats {
    /// As the codec of the host gives them.
    pub plain: usize,
    /// With a plane for each sample.
    pub planes: usize,
    /// Its bytes go straight to the device.
    pub direct: bool,
}

/// Parts of one format in a group.
#[derive(Debug, Clone, Default)]
struct Parts {
    placed: Vec<Placed>,
    tallest: u32,
    table: u64,
    /// Where the list of bands stands in the image.
    bands: u64,
}

/// Tiles that are loaded, decoded and placed together.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// Bytes of device memory, all in all.
    pub bytes: u64,
    /// What to load.
    pub loads: Vec<Load>,
    /// What libraries get. It passes by the group's image.
    pub gifts: Vec<Gift>,
    /// What storage writes to the image itself.
    pub spans: Vec<Span>,
    /// Bytes before the image.
    front: u64,
    segments: Vec<Segment>,
    /// Bytes of the image so far.
    image: u64,
    /// Bytes of decoded tiles so far.
    decoded: u64,
    /// Where decoded tiles begin.
    decoded_at: u64,
    tables_at: u64,
    coded: BTreeMap<usize, Coded>,
    /// By format, and fills apart: their heights have nothing to do with those of tiles.
    parts: BTreeMap<(usize, bool), Parts>,
}

/// One launch of a decoder.
#[derive(Debug, Clone, Copy)]
pub struct CodedLaunch {
    /// Which route.
    pub route: usize,
    /// Its table, from the start of the group's memory.
    pub table: u64,
    /// Its scratch.
    pub scratch: u64,
    /// How much it is.
    pub size: Size,
}

/// One launch of placing.
#[derive(Debug, Clone, Copy)]
pub struct PartsLaunch {
    /// Which format.
    pub format: usize,
    /// The table, from the start of the group's memory.
    pub table: u64,
    /// Entries.
    pub count: u32,
    /// The largest height.
    pub tallest: u32,
    /// The list of bands.
    pub bands: u64,
}

/// Device memory that a tile alone takes.
pub fn cost(job: &ReadJob<'_>, item: &Item, direct: bool) -> u64 {
    let (plan, tile) = (job.plan, &job.plan.tiles()[item.tile]);
    let input = tile.range.end - tile.range.start + if direct { 3 * PAGE } else { 0 };
    let tables = Tile::SIZE + Place::SIZE + 256;
    let bytes = match item.way {
        Way::Fill => 0,
        Way::Direct => input,
        Way::Host => plan.layout().plain_bytes(tile.rows),
        Way::Library(_, output) => {
            let places = if output == Output::Planes { u64::from(plan.layout().format.samples) } else { 1 };
            plan.layout().decoded_bytes(tile.rows).saturating_add(places * Place::SIZE)
        }
        Way::Device(route) => {
            let output = plan.layout().decoded_bytes(tile.rows);
            let size = Size::default().with(clip(input), clip(output));
            input.saturating_add(output).saturating_add(ROUTES[route].scratch(size))
        }
    };
    bytes.saturating_add(tables + 8 * SLACK + TAIL)
}

/// Device memory that the parts of a tile take beside it.
fn places(plan: &ReadPlan, way: Way) -> u64 {
    match way {
        Way::Library(_, Output::Planes) => u64::from(plan.layout().format.samples) * Place::SIZE,
        _ => Place::SIZE,
    }
}

fn clip(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Cuts items into groups, in order.
pub struct Cutter<'a> {
    jobs: &'a [ReadJob<'a>],
    formats: &'a [Format],
    /// The formats of each job's tiles.
    formats_of: &'a [Formats],
    bounds: Bounds,
    done: Vec<Group>,
    open: Group,
    /// The last tile of the open group, and where it comes from.
    last: Option<(Item, From)>,
    /// Bytes that the groups before the open one load.
    before: u64,
}

impl<'a> Cutter<'a> {
    /// For these jobs.
    pub fn new(jobs: &'a [ReadJob<'a>], formats: &'a [Format], formats_of: &'a [Formats], bounds: Bounds) -> Self {
        Self { jobs, formats, formats_of, bounds, done: Vec::new(), open: Group::default(), last: None, before: 0 }
    }

    /// Adds a tile.
    pub fn add(&mut self, item: &Item) {
        let job = &self.jobs[item.job];
        let direct = self.bounds.direct && self.formats_of[item.job].direct && !job.plan.layout().reversed;
        let is_known = self.bounds.shared && self.last.is_some_and(|(last, _)| is_same(self.jobs, &last, item));
        let more = if is_known { places(job.plan, item.way) } else { cost(job, item, direct) };
        // Scratch of a group may be more than that of its tiles one by one: it is asked for all of them.
        if self.open.size(self.formats).saturating_add(more) > self.bounds.group
            || !is_known && (self.open.image >= self.bounds.image || self.open.is_full(item.way))
        {
            self.close();
        }
        let tile = &job.plan.tiles()[item.tile];
        let from = match (self.last, item.way) {
            (Some((_, from)), _) if is_known => from,
            (_, way) => self.source_of(item, way, direct),
        };
        self.last = Some((*item, from));
        let planes = matches!(item.way, Way::Library(_, Output::Planes));
        let formats = self.formats_of[item.job];
        let format = if planes { formats.planes } else { formats.plain };
        let first = u64::from(tile.part.y - tile.first_row) * self.formats[format].row_bytes;
        let place = Place {
            x: tile.part.x,
            height: tile.part.height,
            width: tile.part.width,
            at_y: tile.at.0,
            at_x: tile.at.1,
            plane: tile.plane.into(),
            ..Place::default()
        };
        if !planes {
            return self.open.place(format, Placed { from: from.after(first), job: item.job, place });
        }
        let plane_bytes = self.formats[format].row_bytes * u64::from(tile.rows);
        for plane in 0..job.plan.layout().format.samples {
            let from = from.after(first + u64::from(plane) * plane_bytes);
            let place = Place { plane: u32::from(tile.plane) + u32::from(plane), ..place };
            self.open.place(format, Placed { from, job: item.job, place });
        }
    }

    /// Room for a tile in the open group: where its parts come from.
    fn source_of(&mut self, item: &Item, way: Way, direct: bool) -> From {
        let job = &self.jobs[item.job];
        let tile = &job.plan.tiles()[item.tile];
        match way {
            Way::Fill => From::Nothing,
            Way::Direct if direct => From::Image(self.open.span_of(item, tile, job.source.length())),
            Way::Direct => From::Image(self.open.bytes_of(item, tile, false)),
            Way::Host => {
                let what = What::Tile { job: item.job, tile: item.tile };
                From::Image(self.open.segment(job.plan.layout().plain_bytes(tile.rows), what))
            }
            Way::Device(route) => From::Decoded(self.open.decode(job, item, tile, (route, direct))),
            Way::Library(route, output) => From::Decoded(self.open.give(job.plan, item, tile, (route, output))),
        }
    }

    /// Adds a rectangle of one value.
    pub fn fill(&mut self, rect: Rect) {
        if self.open.size(self.formats).saturating_add(Place::SIZE + 256) > self.bounds.group {
            self.close();
        }
        let (height, width) = rect.size;
        // A planar file gives each band its own: a fill is one for each of its planes.
        let planes: Vec<u32> = match self.formats[rect.format].planar {
            true => {
                let mut planes: Vec<u32> = self.formats[rect.format].band_of.iter().map(|&b| b.into()).collect();
                planes.sort_unstable();
                planes.dedup();
                planes
            }
            false => vec![0],
        };
        for plane in planes {
            let place = Place { height, width, at_y: rect.at.0, at_x: rect.at.1, plane, ..Place::default() };
            self.open.place(rect.format, Placed { from: From::Nothing, job: rect.job, place });
        }
    }

    fn close(&mut self) {
        if self.open.parts.is_empty() {
            return;
        }
        self.last = None;
        let mut group = std::mem::take(&mut self.open);
        group.lay_out(self.formats, &self.bounds, self.before);
        self.before += group.loads.iter().map(|load| load.length).sum::<u64>();
        self.done.push(group);
    }

    /// All groups.
    pub fn finish(mut self) -> Vec<Group> {
        self.close();
        self.done
    }
}

impl Span {
    /// Pieces that are read side by side.
    fn cut(self) -> impl Iterator<Item = Self> {
        const PIECE: u64 = 1 << 20;
        (0..self.length).step_by(PIECE as usize).map(move |done| Self {
            at: self.at + done,
            start: self.start + done,
            length: PIECE.min(self.length - done),
            job: self.job,
        })
    }
}

impl From {
    fn after(self, bytes: u64) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::Image(at) => Self::Image(at + bytes),
            Self::Decoded(at) => Self::Decoded(at + bytes),
        }
    }
}

fn aligned(at: u64, to: u64) -> u64 {
    at.next_multiple_of(to)
}

impl Group {
    /// An upper bound of its bytes as it is now.
    fn size(&self, formats: &[Format]) -> u64 {
        let tiles: u64 = self.coded.values().map(|coded| coded.tiles.len() as u64 * Tile::SIZE).sum();
        let places: u64 = self.parts.values().map(|parts| parts.placed.len() as u64 * Place::SIZE).sum();
        let bands: u64 = self.parts.keys().map(|(format, _)| formats[*format].band_of.len() as u64 * 2 + 32).sum();
        let scratch: u64 = self.coded.iter().map(|(route, coded)| ROUTES[*route].scratch(coded.size) + 512).sum();
        self.image
            + self.decoded
            + tiles
            + places
            + bands
            + scratch
            + 4 * SLACK
            + if self.spans.is_empty() { 0 } else { PAGE }
    }

    /// Whether the kernels of a way, which count in 32 bits, could not take one more tile.
    fn is_full(&self, way: Way) -> bool {
        const PAGES: u64 = 1 << 29;
        const BYTES: u64 = 8 << 30;
        let Way::Device(route) = way else { return false };
        self.coded.get(&route).is_some_and(|coded| coded.size.pages > PAGES || coded.size.out_bytes > BYTES)
    }

    /// Room for bytes of the image; gives where they begin.
    fn segment(&mut self, length: u64, what: What) -> u64 {
        let at = aligned(self.image, 16);
        self.segments.push(Segment { at, length, what });
        self.image = at + length;
        at
    }

    /// Room for the bytes of a tile in its file, behind its neighbour's where they are neighbours.
    fn bytes_of(&mut self, item: &Item, tile: &TileRead, reversed: bool) -> u64 {
        let range = &tile.range;
        if let Some(Segment { at, length, what: What::File { job, start, reversed: turned } }) =
            self.segments.last_mut()
            && (*job, *turned) == (item.job, reversed)
            && joins(&(*start..*start + *length), range, u64::MAX)
        {
            *length = range.end - *start;
            self.image = *at + *length;
            return *at + (range.start - *start);
        }
        self.segment(range.end - range.start, What::File { job: item.job, start: range.start, reversed })
    }

    /// Room for the pages that hold the bytes of a tile, behind its neighbour's where they are neighbours.
    fn span_of(&mut self, item: &Item, tile: &TileRead, file: u64) -> u64 {
        let range = &tile.range;
        let start = range.start - range.start % PAGE;
        let end = range.end.next_multiple_of(PAGE).min(file).max(range.end);
        let end_of = |span: &Span| aligned(span.at + span.length, PAGE);
        if let Some(span) = self.spans.last_mut()
            && (span.job, end_of(span)) == (item.job, self.image)
            && (span.start..=span.start + aligned(span.length, PAGE)).contains(&start)
        {
            span.length = span.length.max(end - span.start);
            self.image = end_of(span);
            return span.at + (range.start - span.start);
        }
        let at = aligned(self.image, PAGE);
        self.spans.push(Span { at, start, length: end - start, job: item.job });
        self.image = aligned(at + (end - start), PAGE);
        at + (range.start - start)
    }

    fn decode(&mut self, job: &ReadJob<'_>, item: &Item, tile: &TileRead, (route, direct): (usize, bool)) -> u64 {
        let layout = job.plan.layout();
        let input = match direct {
            true => self.span_of(item, tile, job.source.length()),
            false => self.bytes_of(item, tile, layout.reversed),
        };
        let output = self.decoded;
        let (in_bytes, out_bytes) =
            (clip(tile.range.end - tile.range.start), clip(layout.decoded_bytes(item.rows(layout, tile))));
        self.decoded = aligned(output + u64::from(out_bytes) + TAIL, 16);
        let coded = self.coded.entry(route).or_default();
        coded.size = coded.size.with(in_bytes, out_bytes);
        coded.tiles.push(Decoded { input, output, in_bytes, out_bytes, id: item.id });
        output
    }

    /// Room for a tile that a library decodes, and the tile among those that it gets.
    fn give(&mut self, plan: &ReadPlan, item: &Item, tile: &TileRead, (route, output): (usize, Output)) -> u64 {
        /// Bytes that are enough for one gift.
        const ENOUGH: u64 = 16 << 20;
        let at = aligned(self.decoded, 256);
        self.decoded = aligned(at + plan.layout().decoded_bytes(tile.rows) + TAIL, 16);
        let open = |gift: &&mut Gift| {
            (gift.route, gift.output) == (route, output)
                && gift.tiles.len() < LIBRARY_ROUTES[route].at_once()
                && gift.bytes < ENOUGH
        };
        if self.gifts.last_mut().filter(open).is_none() {
            self.gifts.push(Gift { route, output, tiles: Vec::new(), bytes: 0 });
        }
        if let Some(gift) = self.gifts.last_mut() {
            gift.tiles.push(Given { job: item.job, tile: item.tile, id: item.id, output: at });
            gift.bytes += tile.range.end - tile.range.start;
        }
        at
    }

    /// The address of a decoded tile, in memory that begins at `base`.
    pub fn output_of(&self, base: u64, given: &Given) -> u64 {
        base + self.decoded_at + given.output
    }

    fn place(&mut self, format: usize, placed: Placed) {
        let parts = self.parts.entry((format, matches!(placed.from, From::Nothing))).or_default();
        parts.tallest = parts.tallest.max(placed.place.height);
        parts.placed.push(placed);
    }

    /// Gives everything its place. Groups before this one load so many bytes.
    fn lay_out(&mut self, formats: &[Format], bounds: &Bounds, before: u64) {
        self.front = if bounds.direct { PAGE } else { SLACK };
        self.spans = std::mem::take(&mut self.spans).into_iter().flat_map(Span::cut).collect();
        self.tables_at = aligned(self.image, 16);
        let mut at = self.tables_at;
        for coded in self.coded.values_mut() {
            coded.table = at;
            at += coded.tiles.len() as u64 * Tile::SIZE;
        }
        for parts in self.parts.values_mut() {
            parts.table = at;
            at += parts.placed.len() as u64 * Place::SIZE;
        }
        for ((format, _), parts) in &mut self.parts {
            parts.bands = at;
            at += formats[*format].band_of.len() as u64 * 2;
        }
        let tables = Segment { at: self.tables_at, length: at - self.tables_at, what: What::Tables { start: 0 } };
        self.segments.push(tables);
        self.decoded_at = aligned(self.front + at + SLACK, 256);
        let mut end = self.decoded_at + self.decoded + SLACK;
        for (route, coded) in &mut self.coded {
            coded.scratch = aligned(end, 256);
            end = coded.scratch + ROUTES[*route].scratch(coded.size);
        }
        self.bytes = end;
        self.loads = loads(std::mem::take(&mut self.segments), bounds.loads, before);
    }

    /// Where decoded tiles stand, and their bytes.
    pub fn decoded(&self, base: u64) -> (u64, u64) {
        (base + self.decoded_at, self.decoded)
    }

    /// The address of a byte of the image, in memory that begins at `base`.
    pub fn image_at(&self, base: u64, at: u64) -> u64 {
        base + self.front + at
    }

    /// Its tables, for memory that begins at `base` and windows that begin at `outputs`.
    pub fn tables(&self, base: u64, outputs: &[u64], formats: &[Format]) -> Vec<u8> {
        let mut out = Vec::new();
        for coded in self.coded.values() {
            for tile in &coded.tiles {
                let (input, output) = (self.image_at(base, tile.input), base + self.decoded_at + tile.output);
                let (in_bytes, out_bytes, id) = (tile.in_bytes, tile.out_bytes, tile.id);
                Tile { input, output, in_bytes, out_bytes, id }.write(&mut out);
            }
        }
        for Placed { from, job, place } in self.parts.values().flat_map(|parts| &parts.placed) {
            let input = match from {
                From::Nothing => 0,
                From::Image(at) => self.image_at(base, *at),
                From::Decoded(at) => base + self.decoded_at + at,
            };
            Place { input, output: outputs[*job], ..*place }.write(&mut out);
        }
        for (format, _) in self.parts.keys() {
            out.extend(formats[*format].band_of.iter().flat_map(|band| band.to_le_bytes()));
        }
        out
    }

    /// What decodes it, for memory that begins at `base`.
    pub fn coded(&self, base: u64) -> impl Iterator<Item = CodedLaunch> + '_ {
        self.coded.iter().map(move |(&route, coded)| CodedLaunch {
            route,
            table: self.image_at(base, coded.table),
            scratch: base + coded.scratch,
            size: coded.size,
        })
    }

    /// What places it, for memory that begins at `base`.
    pub fn parts(&self, base: u64) -> impl Iterator<Item = PartsLaunch> + '_ {
        self.parts.iter().map(move |(&(format, _), parts)| PartsLaunch {
            format,
            table: self.image_at(base, parts.table),
            count: parts.placed.len() as u32,
            tallest: parts.tallest,
            bands: self.image_at(base, parts.bands),
        })
    }
}

impl What {
    fn after(&self, bytes: u64) -> Self {
        match *self {
            Self::File { job, start, reversed } => Self::File { job, start: start + bytes, reversed },
            Self::Tile { job, tile } => Self::Tile { job, tile },
            Self::Tables { start } => Self::Tables { start: start + bytes },
        }
    }
}

/// The rectangles of a window that no tile covers.
pub fn uncovered(plan: &ReadPlan) -> Vec<((u32, u32), (u32, u32))> {
    let [_, height, width] = plan.shape().map(|n| n as u32);
    let rows: Option<Range<u32>> = span(plan.tiles().iter().map(|tile| (tile.at.0, tile.part.height)));
    let cols: Option<Range<u32>> = span(plan.tiles().iter().map(|tile| (tile.at.1, tile.part.width)));
    let (Some(rows), Some(cols)) = (rows, cols) else { return vec![((0, 0), (height, width))] };
    let parts = [
        ((0, 0), (rows.start, width)),
        ((rows.end, 0), (height - rows.end, width)),
        ((rows.start, 0), (rows.end - rows.start, cols.start)),
        ((rows.start, cols.end), (rows.end - rows.start, width - cols.end)),
    ];
    parts.into_iter().filter(|(_, (height, width))| *height > 0 && *width > 0).collect()
}

fn span(parts: impl Iterator<Item = (u32, u32)>) -> Option<Range<u32>> {
    parts.map(|(at, length)| at..at + length).reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))
}
