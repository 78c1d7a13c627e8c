//! The CPU backend: every tile is read, decoded, unpacked and placed by one core while it is in its cache.

mod cache;
mod canvas;
mod chroma;
mod far;
mod pack;
mod pipeline;
mod read;
mod reduce;
mod stream;
mod team;
mod tile;
mod unpack;
mod write;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::backend::{
    Backend, Destination, Emit, EncodeJob, Pipeline, ReadJob, ReadOptions, common_bytes, common_shape,
};
use crate::error::{Error, Result};
use crate::plan::{OverviewPlan, WritePlan};
use crate::rows::{Rows, RowsBuf, RowsView};
use crate::tensor::{HostBuffer, Report, Tensor};
use cache::Cache;
pub(crate) use cache::Closing;
pub use reduce::Reducer;
pub use tile::decode_tile;

/// Bytes of buffers that a thread may keep from one read to the next.
const KEPT: usize = 16 << 20;

/// Lets go of buffers that have become huge: a huge tile must not stay in memory behind the user's back.
fn shed<const N: usize>(buffers: [&mut Vec<u8>; N]) {
    if buffers.iter().map(|buffer| buffer.capacity()).sum::<usize>() > KEPT {
        buffers.into_iter().for_each(|buffer| *buffer = Vec::new());
    }
}

/// Decodes on the cores of this machine.
#[derive(Clone)]
pub struct Cpu {
    pool: Arc<ThreadPool>,
    cache: Arc<Cache>,
}

impl Cpu {
    /// The backend that all cores share, made once in a process.
    pub fn shared() -> Result<Self> {
        static SHARED: Mutex<Option<(u32, Cpu)>> = Mutex::new(None);
        let process = std::process::id();
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made_by, cpu)) = &*shared
            && *made_by == process
        {
            return Ok(cpu.clone());
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let cpu = Self::new(cores)?;
        // A fork has none of the threads of the pool it inherits: ending that one would wait for them.
        std::mem::forget(shared.replace((process, cpu.clone())));
        Ok(cpu)
    }

    /// A backend with its own threads.
    pub fn new(threads: usize) -> Result<Self> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads.max(1))
            .thread_name(|i| format!("tiffjet-{i}"))
            .build()
            .map_err(|e| Error::Device { name: "cpu".into(), device: "cpu".into(), source: e.to_string() })?;
        Ok(Self { pool: Arc::new(pool), cache: Cache::shared() })
    }

    /// The same with a cache of its own, of at most that many bytes, for tiles that windows come back to; 0 is none.
    /// Otherwise all backends of a process share one: of a 32nd of the memory, 512 MiB at most, or of as many bytes as
    /// the environment variable `TIFFJET_CACHE` says.
    #[must_use]
    pub fn with_cache(self, bytes: usize) -> Self {
        Self { cache: Arc::new(Cache::new(bytes)), ..self }
    }

    /// Bytes that its cache of tiles takes now. The shared one gives back those of an image when it is closed, one of
    /// its own when the next tile, or a tile of another image, comes in.
    pub fn cache_bytes(&self) -> usize {
        self.cache.held()
    }

    /// Bytes that its cache of tiles may take.
    pub fn cache_limit(&self) -> usize {
        self.cache.budget()
    }

    /// Makes the rows of one level from those of the level above, as the pipeline does.
    pub fn reducer(&self, plan: &OverviewPlan) -> Result<Box<dyn Reducer>> {
        reduce::reducer(plan, self.pool.clone())
    }

    /// The rows of the level above that some rows of a level are made from; `None` when there are no such rows.
    pub fn needs(&self, plan: &OverviewPlan, ys: Range<usize>) -> Result<Option<Range<usize>>> {
        reduce::needs(plan, ys)
    }

    /// Makes some rows of a level apart from the rest of it. `above` are rows of the level above from row `first` on, those
    /// that they need among them; the result is what a reducer gives that has seen all rows.
    pub fn reduce(&self, plan: &OverviewPlan, above: &RowsView<'_>, first: usize, ys: Range<usize>) -> Result<RowsBuf> {
        reduce::part(plan, self.pool.clone(), above, first, ys)
    }

    /// How many cores work at once.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }
}

impl std::fmt::Debug for Cpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cpu").field("threads", &self.threads()).finish()
    }
}

impl Backend for Cpu {
    fn name(&self) -> &str {
        "cpu"
    }

    fn read(&self, jobs: &[ReadJob<'_>], options: &ReadOptions) -> Result<Tensor> {
        let (shape, dtype) = common_shape(jobs)?;
        let length = common_bytes(jobs)?;
        let mut buffer = HostBuffer::take(length)
            .ok_or_else(|| Error::limit(jobs[0].source.name(), "bytes of pixels in memory", length as u64, 0))?;
        let report = read::read(&self.pool, &self.cache, jobs, buffer.bytes_mut(), options)?;
        Ok(Tensor::many(jobs.len(), shape, dtype, Arc::new(buffer), report))
    }

    fn read_into(&self, jobs: &[ReadJob<'_>], out: Destination<'_>, options: &ReadOptions) -> Result<Report> {
        match out {
            Destination::Host(out) => read::read(&self.pool, &self.cache, jobs, out, options),
            Destination::Device(memory) => {
                let name = jobs.first().map_or_else(|| "".into(), |job| job.source.name().clone());
                let what = format!("the CPU cannot write memory of device {:?}", memory.device());
                Err(Error::invalid(&name, what))
            }
        }
    }

    fn pipeline(&self, name: &Arc<str>, plan: &Arc<WritePlan>) -> Result<Box<dyn Pipeline>> {
        Ok(Box::new(pipeline::Stages::new(&self.pool, name, plan)?))
    }

    fn encode(&self, job: &EncodeJob<'_>, emit: &mut Emit<'_>) -> Result<()> {
        write::encode(&self.pool, job, host(job.name, &job.rows)?, emit)
    }
}

/// Rows that the cores can see.
fn host<'a>(name: &Arc<str>, rows: &Rows<'a>) -> Result<RowsView<'a>> {
    match rows {
        Rows::Host(rows) => Ok(*rows),
        Rows::Device(rows) => {
            let what = format!("the CPU cannot read memory of device {:?}", rows.memory().device());
            Err(Error::invalid(name, what))
        }
    }
}
