//! Writing an image: rows in order, a file at the end.
//!
//! Rows go to the pipeline of a backend, which makes tiles of them, those of overviews among them. Compressed tiles wait
//! in a spool until their place is known.

mod encoder;
mod options;
mod spool;
mod store;

use std::sync::Arc;

pub use encoder::{Encoder, Part};
pub use options::{BigTiff, Blocks, Overviews, Prediction, WriteOptions};
pub use store::Brought;

use crate::backend::{Backend, EncodedRows, Pipeline};
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::plan::WritePlan;
use crate::rows::Rows;
use crate::sink::Sink;
use crate::tensor::Report;
use store::Store;

/// What was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// Bytes of the file.
    pub bytes: u64,
    /// It is a BigTIFF.
    pub big: bool,
    /// Levels, the full size among them.
    pub levels: usize,
    /// Tiles of all levels and masks.
    pub tiles: u64,
    /// Those of them that were left out.
    pub absent: u64,
    /// What it took to make them; nothing is known of tiles that were encoded elsewhere.
    pub report: Report,
}

/// Writes one image. Nothing is seen of it before [`Writer::finish`]; dropped before that it leaves no trace.
///
/// ```
/// use tiffjet::{DType, RowsView, WriteOptions, Writer, sink::MemorySink};
///
/// let sink = MemorySink::new();
/// let mut options = WriteOptions::new([1, 64, 100], DType::UInt8);
/// options.cog = true;
/// let mut writer = Writer::create(sink.clone(), &options)?;
/// for y in 0..64 {
///     let row = [y; 100];
///     writer.push(&RowsView::new(&row, [1, 1, 100], DType::UInt8).unwrap())?;
/// }
/// writer.finish()?;
/// assert!(sink.take().unwrap().starts_with(b"II*\0"));
/// # Ok::<(), tiffjet::Error>(())
/// ```
pub struct Writer {
    plan: Arc<WritePlan>,
    /// Makes tiles of rows; none where only tiles come.
    pipeline: Option<Box<dyn Pipeline>>,
    store: Store,
    /// Rows of the full image that were pushed.
    rows: u64,
    /// An error leaves rows half way: nothing more can come of it.
    failed: bool,
}

impl Writer {
    /// Begins a file, to be encoded on the CPU.
    pub fn create(sink: impl Sink + 'static, options: &WriteOptions) -> Result<Self> {
        Self::create_on(Arc::new(Cpu::shared()?), Box::new(sink), options)
    }

    /// Begins a file, to be encoded on some backend.
    pub fn create_on(backend: Arc<dyn Backend>, sink: Box<dyn Sink>, options: &WriteOptions) -> Result<Self> {
        let plan = Arc::new(WritePlan::new(sink.name(), options)?);
        let pipeline = backend.pipeline(sink.name(), &plan)?;
        let store = Store::new(plan.clone(), sink, pipeline.is_fast())?;
        Ok(Self { plan, pipeline: Some(pipeline), store, rows: 0, failed: false })
    }

    /// Begins a file of tiles that are all encoded elsewhere: it takes no rows, and needs no memory for any.
    pub fn collect(sink: Box<dyn Sink>, options: &WriteOptions) -> Result<Self> {
        let plan = Arc::new(WritePlan::new(sink.name(), options)?);
        let store = Store::new(plan.clone(), sink, false)?;
        Ok(Self { plan, pipeline: None, store, rows: 0, failed: false })
    }

    /// Begins a plain file of which others bring the full image, part by part, to the same place ([`crate::sink::send_part`]).
    /// Gives what they must name. It takes the lengths of their tiles ([`Writer::note`]), and all other tiles.
    pub fn share(sink: Box<dyn Sink>, options: &WriteOptions) -> Result<(Self, String)> {
        let plan = Arc::new(WritePlan::new(sink.name(), options)?);
        let (store, upload) = Store::elsewhere(plan.clone(), sink)?;
        Ok((Self { plan, pipeline: None, store, rows: 0, failed: false }, upload))
    }

    /// Takes the lengths of neighbouring tiles of the full image, from a plane, tile row and column on, which others bring.
    pub fn note(&mut self, at: (u16, u32, u32), lengths: &[u64]) -> Result<()> {
        self.guard(|writer| writer.store.note(at, lengths))
    }

    /// Everything is there: puts what others have brought and what this has together, and shows the file.
    pub fn finish_around(self, brought: Brought) -> Result<Written> {
        if self.failed {
            return Err(self.incomplete(0, 0));
        }
        self.store.finish_around(brought)
    }

    /// What will be written.
    pub fn plan(&self) -> &WritePlan {
        &self.plan
    }

    /// Rows of the full image that were pushed.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Takes the next rows of the image, any number of them. The bytes of the file do not depend on how the rows are
    /// cut.
    pub fn push<'a>(&mut self, rows: impl Into<Rows<'a>>) -> Result<()> {
        let rows = rows.into();
        self.check(&rows)?;
        self.guard(|writer| {
            let Self { pipeline, store, .. } = writer;
            let Some(pipeline) = pipeline else {
                return Err(Error::invalid(store.name(), "rows for a file of tiles that are encoded elsewhere"));
            };
            pipeline.push(&rows, &mut |rows| store.append(&rows))
        })?;
        self.rows += rows.rows() as u64;
        Ok(())
    }

    /// Takes tiles that were encoded elsewhere, in any order, instead of rows.
    pub fn append(&mut self, rows: &EncodedRows<'_>) -> Result<()> {
        self.guard(|writer| writer.store.append(rows))
    }

    /// All rows are there: lays the file out and shows it.
    pub fn finish(self) -> Result<Written> {
        let (rows, height) = (self.rows(), self.height());
        if self.failed || (rows > 0 && rows < height) {
            return Err(self.incomplete(rows, height));
        }
        let Self { mut pipeline, mut store, .. } = self;
        let report = match &mut pipeline {
            Some(pipeline) if rows > 0 => pipeline.finish(&mut |rows| store.append(&rows))?,
            _ => Report::default(),
        };
        // What it holds is free before the file is laid out.
        drop(pipeline);
        store.finish(report)
    }

    fn height(&self) -> u64 {
        self.plan.levels[0].height.into()
    }

    fn incomplete(&self, rows: u64, height: u64) -> Error {
        let what = match self.failed {
            true => "writing failed before".into(),
            false => format!("{rows} of {height} rows were pushed"),
        };
        Error::invalid(self.store.name(), what)
    }

    fn guard(&mut self, act: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.failed {
            return Err(self.incomplete(0, 0));
        }
        let result = act(self);
        self.failed = result.is_err();
        result
    }

    fn check(&self, rows: &Rows<'_>) -> Result<()> {
        let level = &self.plan.levels[0];
        let refuse = |what: String| Err(Error::invalid(self.store.name(), what));
        let (bands, width, dtype) = (usize::from(level.bands), level.width as usize, level.format.dtype);
        let [have_bands, _, have_width] = rows.shape();
        if (have_bands, have_width, rows.dtype()) != (bands, width, dtype) {
            let have = format!("{have_bands} bands, {have_width} columns, {}", rows.dtype());
            return refuse(format!("rows of {have} for an image of {bands} bands, {width} columns, {dtype}"));
        }
        if rows.is_masked() == self.plan.masks.is_empty() {
            let (have, due) = if self.plan.masks.is_empty() { ("with", "without") } else { ("without", "with") };
            return refuse(format!("rows {have} a mask for an image {due} one"));
        }
        let total = self.rows() + rows.rows() as u64;
        if total > self.height() {
            return refuse(format!("{total} rows for an image of {}", self.height()));
        }
        Ok(())
    }
}
