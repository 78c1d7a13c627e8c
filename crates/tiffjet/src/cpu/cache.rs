//! Tiles that windows come back to, decoded and unpacked, ready to be copied.
//!
//! A tile is kept when it is wanted for the second time: the first time it is decoded as far as it is wanted and no more,
//! and what is read once leaves nothing behind. Nothing is decoded while the cache is locked.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::backend::ReadJob;
use crate::layout::Layout;
use crate::limits::usable_memory;
use crate::plan::{ReadPlan, TileRead};
use crate::source::Source;
use crate::tensor::{HostBuffer, Storage};

/// Bytes that all backends of the process share at most, unless one is given a cache of its own.
const MOST: u64 = 512 << 20;
/// Of the memory that the process may use, the share of that cache.
const SHARE: u64 = 32;
/// Names another number of bytes for it.
const SETTING: &str = "TIFFJET_CACHE";
/// What a kept tile costs beside its pixels, roughly: tiny ones must not go uncounted.
const ENTRY: usize = 256;
/// Of the budget, the share that one tile may take.
const TILE_SHARE: usize = 8;
/// Of the budget, the share that the tiles of one window may take: a larger one would throw out all others.
const PLAN_SHARE: usize = 2;
/// Tiles that are remembered as seen once.
const SEEN: usize = 8 << 10;
/// Tiles that are looked up before others get their turn.
const AT_ONCE: usize = 1 << 10;

/// The pixels of one tile that are inside the image, as (band, y, x), and their share of the budget while they live.
pub(super) struct Pixels {
    /// As much memory as the tile has, of its own: where the cache lets go of it, it is gone.
    memory: HostBuffer,
    held: Arc<AtomicUsize>,
}

impl Pixels {
    pub(super) fn bytes(&self) -> &[u8] {
        self.memory.host().unwrap_or_default()
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.bytes_mut()
    }
}

impl Drop for Pixels {
    fn drop(&mut self) {
        self.held.fetch_sub(self.memory.length() + ENTRY, Ordering::Relaxed);
    }
}

/// What the cache knows of a tile that is wanted.
pub(super) enum Touch {
    /// Nothing: it is decoded as far as it is wanted.
    First,
    /// It was wanted before: it is worth keeping.
    Again,
    /// Its pixels.
    Kept(Arc<Pixels>),
}

impl Touch {
    pub(super) fn kept(&self) -> Option<&Pixels> {
        match self {
            Self::Kept(pixels) => Some(pixels),
            _ => None,
        }
    }
}

/// Addresses of a source and a layout. No other layout can have that address while its shelf holds it weakly.
type Place = (usize, usize);

fn address(source: &dyn Source) -> usize {
    std::ptr::from_ref(source).addr()
}

fn place(job: &ReadJob<'_>) -> Place {
    (address(job.source), Arc::as_ptr(&job.plan.layout).addr())
}

enum Slot {
    Seen,
    Kept {
        pixels: Arc<Pixels>,
        /// Wanted since the hand of the clock came by.
        used: bool,
    },
}

/// The tiles of one level.
struct Shelf {
    owner: Weak<Layout>,
    tiles: HashMap<u64, Slot>,
}

#[derive(Default)]
struct State {
    shelves: HashMap<Place, Shelf>,
    /// Each kept tile once, in the order in which the hand of the clock comes by.
    clock: VecDeque<(Place, u64)>,
    /// Tiles seen once, the oldest first; some are something else by now.
    seen: VecDeque<(Place, u64)>,
}

/// By the process that made it.
static SHARED: Mutex<Option<(u32, Arc<Cache>)>> = Mutex::new(None);

/// What the user says, or a small share of the memory.
fn default_budget() -> usize {
    let said = std::env::var(SETTING).ok().and_then(|bytes| bytes.trim().parse().ok());
    said.unwrap_or_else(|| (usable_memory() / SHARE).min(MOST) as usize)
}

/// Dropped behind the last use of some layouts, it takes their tiles out of the cache of the process.
#[derive(Debug, Default)]
pub(crate) struct Closing;

impl Drop for Closing {
    fn drop(&mut self) {
        let shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((made_by, cache)) = shared
            && made_by == std::process::id()
        {
            cache.state().sweep();
        }
    }
}

/// Kept tiles within a budget of bytes.
pub(super) struct Cache {
    budget: usize,
    /// Bytes of all [`Pixels`], also of those on their way in and those on their way out that someone still copies.
    held: Arc<AtomicUsize>,
    state: Mutex<State>,
}

impl Cache {
    /// A cache of at most that many bytes; 0 is none.
    pub(super) fn new(budget: usize) -> Self {
        Self { budget, held: Arc::default(), state: Mutex::default() }
    }

    /// The one of the process.
    pub(super) fn shared() -> Arc<Self> {
        let process = std::process::id();
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        match &*shared {
            Some((made_by, cache)) if *made_by == process => cache.clone(),
            _ => {
                let cache = Arc::new(Self::new(default_budget()));
                // A fork may inherit one that a thread which it has not was about to change.
                std::mem::forget(shared.replace((process, cache.clone())));
                cache
            }
        }
    }

    /// Bytes that it may take.
    pub(super) fn budget(&self) -> usize {
        self.budget
    }

    /// Bytes that it takes now.
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the tiles of a plan, in their order. Empty where the cache has nothing to say about any.
    pub(super) fn touch(&self, job: &ReadJob<'_>) -> Vec<Touch> {
        let plan = job.plan;
        if !self.suits(&plan.layout) {
            return Vec::new();
        }
        let place = place(job);
        let remember = self.is_worth_remembering(plan);
        if !remember && !self.state().shelves.contains_key(&place) {
            return Vec::new();
        }
        let mut touched = Vec::with_capacity(plan.tiles.len());
        for tiles in plan.tiles.chunks(AT_ONCE) {
            let mut state = self.state();
            if remember {
                state.open_shelf(place, &plan.layout);
            }
            touched.extend(tiles.iter().map(|tile| state.touch(place, tile, remember)));
        }
        touched
    }

    /// Whether tiles of a level may be kept at all.
    fn suits(&self, layout: &Layout) -> bool {
        let format = &layout.format;
        let pixel = u64::from(format.samples) * layout.dtype().size() as u64;
        let tile = (u64::from(format.width) * u64::from(format.height)).saturating_mul(pixel);
        format.compression != 1 && tile <= (self.budget / TILE_SHARE) as u64
    }

    /// Whether a plan wants parts of tiles, so that others may want the rest, and not so many that it is a scan. A plan
    /// of whole tiles, an image or one block of it after the other, leaves no trace.
    fn is_worth_remembering(&self, plan: &ReadPlan) -> bool {
        let whole = |tile: &TileRead| {
            (tile.part.height, tile.part.width) == plan.layout.size_inside(tile.row, tile.col) || tile.range.is_empty()
        };
        // Cheapest first: tiles of a plan that is too large are not looked at.
        let most = self.budget / PLAN_SHARE;
        let few = plan.tiles.len() <= most / ENTRY;
        few && plan.tiles.iter().map(|tile| plan.whole_tile_bytes(tile)).fold(0, usize::saturating_add) <= most
            && !plan.tiles.iter().all(whole)
    }

    /// Memory for a tile of that many bytes, of any content, as part of the budget: tiles that were not wanted for long
    /// go. `None` where it does not fit.
    pub(super) fn room(&self, bytes: usize) -> Option<Pixels> {
        let charge = bytes.checked_add(ENTRY)?;
        let mut state = self.state();
        state.sweep();
        // Only here does it grow, and under the lock.
        while self.held().checked_add(charge)? > self.budget {
            match Arc::into_inner(state.evict()?) {
                // Memory that is warm, and counted already.
                Some(pixels) if pixels.memory.length() == bytes => return Some(pixels),
                _ => {}
            }
        }
        self.held.fetch_add(charge, Ordering::Relaxed);
        drop(state);
        let memory = HostBuffer::take_own(bytes);
        if memory.is_none() {
            self.held.fetch_sub(charge, Ordering::Relaxed);
        }
        Some(Pixels { memory: memory?, held: self.held.clone() })
    }

    /// Keeps a tile. Where another thread was faster, the other's stays.
    pub(super) fn keep(&self, job: &ReadJob<'_>, tile: &TileRead, pixels: Pixels) -> Arc<Pixels> {
        let pixels = Arc::new(pixels);
        let place = place(job);
        let mut state = self.state();
        state.open_shelf(place, &job.plan.layout);
        let State { shelves, clock, .. } = &mut *state;
        if let Some(shelf) = shelves.get_mut(&place)
            && !matches!(shelf.tiles.get(&tile.tile), Some(Slot::Kept { .. }))
        {
            shelf.tiles.insert(tile.tile, Slot::Kept { pixels: pixels.clone(), used: false });
            clock.push_back((place, tile.tile));
        }
        pixels
    }

    /// Drops all tiles of a source that is no longer what it was.
    pub(super) fn forget(&self, source: &dyn Source) {
        let address = address(source);
        self.state().retain(|place, _| place.0 != address);
    }
}

impl State {
    fn open_shelf(&mut self, place: Place, layout: &Arc<Layout>) {
        if !self.shelves.contains_key(&place) {
            self.sweep();
            self.shelves.insert(place, Shelf { owner: Arc::downgrade(layout), tiles: HashMap::new() });
        }
    }

    fn touch(&mut self, place: Place, tile: &TileRead, remember: bool) -> Touch {
        let Some(shelf) = self.shelves.get_mut(&place) else { return Touch::First };
        match shelf.tiles.get_mut(&tile.tile) {
            Some(Slot::Kept { pixels, used }) => {
                *used |= remember;
                Touch::Kept(pixels.clone())
            }
            _ if !remember || tile.range.is_empty() => Touch::First,
            Some(Slot::Seen) => {
                // Who is told so keeps it; should it turn out to be damaged, it begins anew.
                shelf.tiles.remove(&tile.tile);
                Touch::Again
            }
            None => {
                shelf.tiles.insert(tile.tile, Slot::Seen);
                self.seen.push_back((place, tile.tile));
                self.forget_oldest();
                Touch::First
            }
        }
    }

    /// Forgets what was seen long ago.
    fn forget_oldest(&mut self) {
        if self.seen.len() <= SEEN {
            return;
        }
        let Some((place, tile)) = self.seen.pop_front() else { return };
        if let Some(shelf) = self.shelves.get_mut(&place)
            && matches!(shelf.tiles.get(&tile), Some(Slot::Seen))
        {
            shelf.tiles.remove(&tile);
        }
    }

    /// Drops what belongs to images that are closed.
    fn sweep(&mut self) {
        self.retain(|_, shelf| shelf.owner.strong_count() > 0);
    }

    fn retain(&mut self, stays: impl Fn(&Place, &Shelf) -> bool) {
        let before = self.shelves.len();
        self.shelves.retain(|place, shelf| stays(place, shelf));
        if self.shelves.len() < before {
            let Self { shelves, clock, seen } = self;
            clock.retain(|(place, _)| shelves.contains_key(place));
            seen.retain(|(place, _)| shelves.contains_key(place));
        }
    }

    /// Takes out a tile that nobody copies and that was not wanted since the hand of the clock came by.
    fn evict(&mut self) -> Option<Arc<Pixels>> {
        // The first round takes back marks: in the second one is found, unless all are being copied.
        for _ in 0..2 * self.clock.len() {
            let (place, tile) = self.clock.pop_front()?;
            let Some(shelf) = self.shelves.get_mut(&place) else { continue };
            match shelf.tiles.remove(&tile) {
                Some(Slot::Kept { pixels, used: false }) if Arc::strong_count(&pixels) == 1 => return Some(pixels),
                Some(Slot::Kept { pixels, .. }) => {
                    shelf.tiles.insert(tile, Slot::Kept { pixels, used: false });
                    self.clock.push_back((place, tile));
                }
                _ => {}
            }
        }
        None
    }
}
