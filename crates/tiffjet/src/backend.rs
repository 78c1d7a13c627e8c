//! Where pixels are decoded and encoded.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::dtype::DType;
use crate::error::{Error, Result};
pub use crate::plan::Fallback;
use crate::plan::{LevelPlan, ReadPlan, WritePlan};
use crate::rows::Rows;
use crate::source::Source;
use crate::tensor::{DeviceMemory, Report, Tensor};

/// One window of one file.
#[derive(Clone, Copy)]
pub struct ReadJob<'a> {
    /// The bytes.
    pub source: &'a dyn Source,
    /// What must happen.
    pub plan: &'a ReadPlan,
}

/// How bytes get from storage to a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Io {
    /// The way that is faster on this machine.
    #[default]
    Auto,
    /// From storage to the device, past the memory of the host, where storage and device can do that.
    Direct,
    /// By way of the memory of the host.
    Staged,
}

/// What is asked of a read beside its windows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Whether another route will do.
    pub fallback: Fallback,
    /// How bytes get to the device; a backend without one reads as it does.
    pub io: Io,
    /// One value for all pixels of a window that cannot be read, which the [`Report`] then lists. Without it the first
    /// error ends the read.
    pub fill_failed: Option<Vec<u8>>,
}

/// Where the pixels of a read go. It has just the bytes of all windows, one after the other.
pub enum Destination<'a> {
    /// Memory of the host.
    Host(&'a mut [u8]),
    /// Memory of a device.
    Device(DeviceMemory),
}

impl Destination<'_> {
    /// Bytes.
    pub fn length(&self) -> usize {
        match self {
            Self::Host(bytes) => bytes.len(),
            Self::Device(memory) => memory.length(),
        }
    }
}

/// Bands, rows, columns and type that all windows of a read have in common.
pub fn common_shape(jobs: &[ReadJob<'_>]) -> Result<([usize; 3], DType)> {
    let of = |job: &ReadJob<'_>| (job.plan.shape(), job.plan.layout().dtype());
    let Some(first) = jobs.first() else { return Err(Error::invalid(&"".into(), "no window is asked for")) };
    let (shape, dtype) = of(first);
    match jobs.iter().find(|job| of(job) != (shape, dtype)) {
        None => Ok((shape, dtype)),
        Some(other) => {
            let what =
                format!("windows of {:?} as {} and of {shape:?} as {dtype} in one read", of(other).0, of(other).1);
            Err(Error::invalid(other.source.name(), what))
        }
    }
}

/// Bytes of all windows of a read; an error when no machine could hold them.
pub fn common_bytes(jobs: &[ReadJob<'_>]) -> Result<usize> {
    let (shape, dtype) = common_shape(jobs)?;
    let bytes = shape.iter().try_fold(dtype.size(), |a, &n| a.checked_mul(n)).and_then(|n| n.checked_mul(jobs.len()));
    bytes.ok_or_else(|| Error::limit(jobs[0].source.name(), "bytes of pixels in one read", u64::MAX, isize::MAX as u64))
}

/// The windows whose source is no longer what was opened, by their place in the list. Every source is asked once.
pub fn changed(jobs: &[ReadJob<'_>]) -> BTreeMap<usize, Error> {
    let mut asked: HashMap<*const u8, Option<Error>> = HashMap::new();
    let mut changed = BTreeMap::new();
    for (i, job) in jobs.iter().enumerate() {
        let address = std::ptr::from_ref(job.source).cast::<u8>();
        if let Some(error) = asked.entry(address).or_insert_with(|| job.source.unchanged().err()) {
            changed.insert(i, error.clone());
        }
    }
    changed
}

/// Rows of one level to encode.
#[derive(Clone, Copy)]
pub struct EncodeJob<'a> {
    /// Of the destination, for errors.
    pub name: &'a Arc<str>,
    /// Whole tile rows, or less at the end of the image. Rows of a mask are one band of bytes.
    pub rows: Rows<'a>,
    /// How they are stored.
    pub plan: &'a LevelPlan,
    /// The tile row they begin with.
    pub first: u32,
    /// Whether another route than the backend's own will do.
    pub fallback: Fallback,
}

/// Compressed tiles of one tile row of one plane: the waist of writing. However rows came and wherever they were
/// encoded, these are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedRows<'a> {
    /// 0 is full size.
    pub level: usize,
    /// Of the mask of that level.
    pub mask: bool,
    /// Plane, 0 when all bands stand in one tile.
    pub plane: u16,
    /// Tile row.
    pub row: u32,
    /// Column of the first tile.
    pub col: u32,
    /// Tiles from left to right; an empty one is left out of the file.
    pub tiles: Vec<Cow<'a, [u8]>>,
}

impl EncodedRows<'_> {
    /// The same with tiles of its own, to be kept or sent elsewhere.
    pub fn into_owned(self) -> EncodedRows<'static> {
        let tiles = self.tiles.into_iter().map(|tile| Cow::Owned(tile.into_owned())).collect();
        EncodedRows { tiles, ..self }
    }
}

/// Takes encoded tiles as they are ready. An error ends the work.
pub type Emit<'a> = dyn FnMut(EncodedRows<'_>) -> Result<()> + Send + 'a;

/// Executes plans. Few, deep methods: a backend may fuse, batch and overlap as it likes.
pub trait Backend: Send + Sync {
    /// Short name for reports.
    fn name(&self) -> &str;

    /// Reads windows of one shape and type, of any files, into new memory of this backend, one after the other.
    fn read(&self, jobs: &[ReadJob<'_>], options: &ReadOptions) -> Result<Tensor>;

    /// The same into memory of the caller. After an error its content is anyone's.
    fn read_into(&self, jobs: &[ReadJob<'_>], out: Destination<'_>, options: &ReadOptions) -> Result<Report>;

    /// Makes all tiles of a plan from rows as they come: those of the image, of its overviews and of masks. `name` is
    /// that of the destination, for errors. What the backend refuses is refused here, before there is a file.
    fn pipeline(&self, name: &Arc<str>, plan: &Arc<WritePlan>) -> Result<Box<dyn Pipeline>>;

    /// Packs and encodes rows of one level, and gives the tiles in the order of the image: row by row, plane by plane,
    /// from left to right, some at a time. For rows that are encoded apart from the rest of their image.
    fn encode(&self, job: &EncodeJob<'_>, emit: &mut Emit<'_>) -> Result<()>;
}

/// The rows of one image on their way to tiles. It keeps what it needs of them and no more.
///
/// The tiles of each level come in the order of the image; what is in them must not depend on how the rows were cut.
/// After an error it is only dropped.
pub trait Pipeline: Send {
    /// Takes the next rows, any number of them; they are the image's in shape and type, and not too many.
    fn push(&mut self, rows: &Rows<'_>, emit: &mut Emit<'_>) -> Result<()>;

    /// All rows were pushed: gives what is left, and tells what it took.
    fn finish(&mut self, emit: &mut Emit<'_>) -> Result<Report>;

    /// Whether it makes tiles faster than files take them: what must wait is best in memory then, where nobody says how
    /// much of it there is.
    fn is_fast(&self) -> bool {
        false
    }
}
