//! Windows of many files in one read.

use std::ops::Range;
use std::sync::Arc;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use tiffjet::{
    Backend, DType, Destination, Error, Frame, HostBuffer, Image, Nodata, ReadJob, ReadOptions, ReadPlan, Report,
    Result, Storage, Tensor, Window,
};
use tiffjet_cuda::Cuda;

use crate::device;
use crate::error::raise;
use crate::image;
use crate::interrupt::run;
use crate::tensor;

/// Row, column, height and width; the first two may be outside the image.
type Rectangle = (i64, i64, u32, u32);

/// One window, or why there is none.
struct Wanted {
    image: Option<Arc<Image>>,
    rectangle: Rectangle,
    trouble: Option<String>,
}

/// Reads windows of one size: a `Tensor` with axes (n, band, y, x). An item is an open image with a rectangle, or None
/// with the reason why it could not be opened.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // keywords of Python
#[pyo3(name = "_read_many", signature = (items, bands, level, device, pad, fill, memory=None))]
pub fn read_many(
    py: Python<'_>,
    items: Vec<(Bound<'_, PyAny>, Rectangle)>,
    bands: Option<Vec<u16>>,
    level: usize,
    device: &Bound<'_, PyAny>,
    pad: Option<&Bound<'_, PyAny>>,
    fill: bool,
    memory: Option<u64>,
) -> PyResult<tensor::Tensor> {
    let backend = device::for_many(device, memory)?;
    let (batch, items) = Batch::new(&items, bands, level, pad, fill)?;
    run(py, || batch.read(&*backend, &items)).map(tensor::Tensor::new)
}

/// Milliseconds of each phase of such a read alone: from the files to page-locked memory, from there to the GPU, decoding.
/// What the read takes when all of them overlap is the longest.
#[pyfunction]
#[pyo3(name = "_read_phases", signature = (items, bands, level, device, pad))]
pub fn read_phases(
    py: Python<'_>,
    items: Vec<(Bound<'_, PyAny>, Rectangle)>,
    bands: Option<Vec<u16>>,
    level: usize,
    device: u16,
    pad: Option<&Bound<'_, PyAny>>,
) -> PyResult<(f64, f64, f64)> {
    let cuda = Cuda::new(device.into()).map_err(raise)?;
    let (batch, items) = Batch::new(&items, bands, level, pad, false)?;
    let phases = run(py, || {
        let plans = items.iter().map(|item| batch.plan(item)).collect::<Result<Vec<_>>>()?;
        cuda.phases(&batch.jobs(&items, plans.iter().map(Some))?)
    })?;
    Ok((phases.fetch, phases.copy, phases.kernels))
}

fn wanted((object, rectangle): &(Bound<'_, PyAny>, Rectangle)) -> PyResult<Wanted> {
    let rectangle = *rectangle;
    if let Ok(image) = object.cast::<image::Image>() {
        return Ok(Wanted { image: Some(image.get().image.clone()), rectangle, trouble: None });
    }
    let trouble = object.extract().map_err(|_| PyTypeError::new_err("an open image is meant"))?;
    Ok(Wanted { image: None, rectangle, trouble: Some(trouble) })
}

/// One pixel of a value that the type can hold.
fn pad_bytes(pad: &Bound<'_, PyAny>, dtype: DType) -> PyResult<Vec<u8>> {
    let value = match dtype {
        DType::Int64 => pad.extract().map(Nodata::Int),
        DType::UInt64 => pad.extract().map(Nodata::UInt),
        _ => pad.extract().map(Nodata::Float),
    };
    let refuse = || PyValueError::new_err(format!("pad: {dtype} can't hold {pad}"));
    match value {
        Ok(value) => value.bytes(dtype).ok_or_else(refuse),
        Err(error) if error.is_instance_of::<PyOverflowError>(pad.py()) => Err(refuse()),
        Err(error) => Err(error),
    }
}

struct Batch {
    bands: Option<Vec<u16>>,
    level: usize,
    dtype: DType,
    pad: Option<Vec<u8>>,
    /// Windows that can't be read get the pad.
    fill: bool,
}

impl Batch {
    fn new(
        items: &[(Bound<'_, PyAny>, Rectangle)],
        bands: Option<Vec<u16>>,
        level: usize,
        pad: Option<&Bound<'_, PyAny>>,
        fill: bool,
    ) -> PyResult<(Self, Vec<Wanted>)> {
        let items = items.iter().map(wanted).collect::<PyResult<Vec<Wanted>>>()?;
        let Some(first) = items.iter().find_map(|item| item.image.as_ref()) else {
            return Err(PyValueError::new_err("read_many: none of the files can be opened"));
        };
        let dtype = first.dtype();
        let pad = pad.map(|pad| pad_bytes(pad, dtype)).transpose()?;
        Ok((Self { bands, level, dtype, pad, fill }, items))
    }

    /// What is to be read, of windows that could be planned.
    fn jobs<'a>(
        &self,
        items: &'a [Wanted],
        plans: impl Iterator<Item = Option<&'a ReadPlan>>,
    ) -> Result<Vec<ReadJob<'a>>> {
        let mut jobs = Vec::new();
        for (item, plan) in items.iter().zip(plans) {
            if let (Some(image), Some(plan)) = (&item.image, plan) {
                jobs.push(ReadJob { source: &**image.level(self.level)?.source(), plan });
            }
        }
        Ok(jobs)
    }

    fn read(&self, backend: &dyn Backend, items: &[Wanted]) -> Result<Tensor> {
        let plans: Vec<Result<ReadPlan>> = items.iter().map(|item| self.plan(item)).collect();
        let blank = self.pad.clone().unwrap_or_else(|| vec![0; self.dtype.size()]);
        let options = ReadOptions { fill_failed: self.fill.then(|| blank.clone()), ..ReadOptions::default() };
        let troubles: Vec<Option<Error>> = plans.iter().map(|plan| plan.as_ref().err().cloned()).collect();
        if let (false, Some(error)) = (self.fill, troubles.iter().flatten().next()) {
            return Err(error.clone());
        }
        let jobs = self.jobs(items, plans.iter().map(|plan| plan.as_ref().ok()))?;
        if let (true, Some(error)) = (jobs.is_empty(), troubles.iter().flatten().next()) {
            return Err(error.clone()); // nothing says how large a window is
        }
        if jobs.len() == items.len() {
            return backend.read(&jobs, &options);
        }
        Self::read_around(backend, &jobs, &troubles, &blank, &options)
    }

    fn plan(&self, item: &Wanted) -> Result<ReadPlan> {
        let Some(image) = &item.image else {
            let why = item.trouble.clone().unwrap_or_default();
            return Err(Error::invalid(&"read_many".into(), why));
        };
        if image.dtype() != self.dtype {
            let what = format!("values of type {} among others of {}", image.dtype(), self.dtype);
            return Err(Error::invalid(image.name(), what));
        }
        let (y, x, height, width) = item.rectangle;
        if let Some(pad) = &self.pad {
            let frame = Frame { level: self.level, y, x, height, width, bands: self.bands.clone() };
            return image.plan_framed(&frame, pad);
        }
        let outside = || Error::out_of_bounds(image.name(), "the window", "give pad= to fill what hangs over");
        let side = |first: i64, count: u32| -> Result<Range<u32>> {
            let first = u32::try_from(first).map_err(|_| outside())?;
            Ok(first..first.checked_add(count).ok_or_else(outside)?)
        };
        let (rows, cols) = (Some(side(y, height)?), Some(side(x, width)?));
        image.plan(&Window { level: self.level, rows, cols, bands: self.bands.clone() })
    }

    /// Where some windows can't even be planned, the rest is read in stretches between them, into memory of the host.
    fn read_around(
        backend: &dyn Backend,
        jobs: &[ReadJob<'_>],
        troubles: &[Option<Error>],
        blank: &[u8],
        options: &ReadOptions,
    ) -> Result<Tensor> {
        let (shape, dtype) = tiffjet::backend::common_shape(jobs)?;
        let one = tiffjet::backend::common_bytes(&jobs[..1])?;
        let name = jobs[0].source.name();
        let length = one.saturating_mul(troubles.len());
        let mut buffer = HostBuffer::take(length)
            .ok_or_else(|| Error::limit(name, "bytes of pixels in memory", length as u64, 0))?;
        let mut report = Report::default();
        let (mut at, mut next) = (0, 0);
        while at < troubles.len() {
            if let Some(error) = &troubles[at] {
                let window = &mut buffer.bytes_mut()[at * one..][..one];
                window.chunks_exact_mut(blank.len()).for_each(|value| value.copy_from_slice(blank));
                report.failures.push((at, error.to_string()));
                at += 1;
                continue;
            }
            let count = troubles[at..].iter().take_while(|trouble| trouble.is_none()).count();
            let out = Destination::Host(&mut buffer.bytes_mut()[at * one..][..count * one]);
            let part = backend.read_into(&jobs[next..next + count], out, options)?;
            add(&mut report, part, at);
            (at, next) = (at + count, next + count);
        }
        Ok(Tensor::many(troubles.len(), shape, dtype, Arc::new(buffer) as Arc<dyn Storage>, report))
    }
}

/// Adds what a stretch that begins at window `first` took.
fn add(report: &mut Report, part: Report, first: usize) {
    report.tiles += part.tiles;
    report.sparse += part.sparse;
    report.bytes_read += part.bytes_read;
    report.bytes_out += part.bytes_out;
    report.seconds += part.seconds;
    report.fallbacks.extend(part.fallbacks);
    report.failures.extend(part.failures.into_iter().map(|(window, why)| (first + window, why)));
}
