//! Tiles of parts of an image, for a writer in another thread or on another machine.

use std::borrow::Cow;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tiffjet::{DType, EncodedRows, Part, Rows, RowsView};

use crate::buffer::Bytes;
use crate::capsule::{device_of, lend};
use crate::device;
use crate::error::raise;
use crate::interrupt::run;
use crate::writer::options;

/// Level, mask, plane, tile row, first column, lengths of the tiles, and their bytes one after the other.
pub type Tiles<'py> = (usize, bool, u16, u32, u32, Vec<usize>, Bound<'py, PyBytes>);

/// Encodes and reduces parts of the image that the options of a `Writer` describe.
#[pyclass(frozen, module = "tiffjet")]
pub struct Encoder {
    inner: tiffjet::Encoder,
    dtype: DType,
    /// The GPU that encodes.
    gpu: Option<i32>,
}

#[pymethods]
impl Encoder {
    #[new]
    #[pyo3(signature = (name, shape, dtype, **keywords))]
    fn new(
        py: Python<'_>,
        name: &str,
        shape: (usize, usize, usize),
        dtype: &str,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let (dtype, chosen) = options(shape, dtype, keywords)?;
        let (options, place) = chosen.finish(name)?;
        let (backend, gpu) = device::encoder(&place).map_err(raise)?;
        let inner = run(py, || tiffjet::Encoder::new(backend, name, &options))?;
        Ok(Self { inner, dtype, gpu })
    }

    /// Rows, columns, rows of a tile and columns of a tile of each level.
    #[getter]
    fn levels(&self) -> Vec<(u32, u32, u32, u32)> {
        let levels = self.inner.plan().levels.iter();
        levels.map(|level| (level.height, level.width, level.format.height, level.format.width)).collect()
    }

    /// Encodes rows (band, y, x) of some columns of tiles, from a tile row on: bytes of a C-contiguous array, or an array on
    /// the GPU that encodes. Rows of a mask are one band of bytes.
    #[pyo3(signature = (level, row, cols, data, mask=false))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        level: usize,
        row: u32,
        cols: (u32, u32),
        data: &Bound<'py, PyAny>,
        mask: bool,
    ) -> PyResult<Vec<Tiles<'py>>> {
        let part = Part { level, mask, row, cols: cols.0..cols.1 };
        let encoded = match device_of(data, self.gpu.unwrap_or(0))? {
            Some(device) => {
                let lent = lend(data, device)?;
                let rows = lent.rows(None);
                let rows = rows.ok_or_else(|| PyValueError::new_err("rows: axes (band, y, x) are meant"))?;
                run(py, || self.inner.encode(&part, (&rows).into()))?
            }
            None => {
                let data = Bytes::of(data)?;
                let rows = self.rows(&part, data.get())?;
                run(py, || self.inner.encode(&part, Rows::Host(rows)))?
            }
        };
        encoded.into_iter().map(|tiles| as_bytes(py, tiles)).collect()
    }

    /// First row and end of the rows of the level above that some rows of a level are made from.
    fn needs(&self, level: usize, first: usize, end: usize) -> PyResult<(usize, usize)> {
        let needed = self.inner.needs(level, first..end).map_err(raise)?;
        Ok((needed.start, needed.end))
    }

    /// Makes rows of a level from rows (band, y, x) of the level above, which begin with row `above`: the bytes of their
    /// pixels, and of their mask.
    #[pyo3(signature = (level, rows, above, data, mask=None))]
    fn reduce<'py>(
        &self,
        py: Python<'py>,
        level: usize,
        rows: (usize, usize),
        above: usize,
        data: &Bound<'py, PyAny>,
        mask: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>)> {
        let (data, mask) = (Bytes::of(data)?, mask.map(Bytes::of).transpose()?);
        let from = level.saturating_sub(1);
        let across = self.inner.plan().levels.get(from).map_or(0, |above| above.across);
        let view = self.rows(&Part { level: from, mask: false, row: 0, cols: 0..across }, data.get())?;
        let view = match &mask {
            Some(mask) => view.with_mask(mask.get()).ok_or_else(wrong_size)?,
            None => view,
        };
        let made = run(py, || self.inner.reduce(level, &view, above, rows.0..rows.1))?;
        let view = made.view();
        let row = view.rows() * view.row_bytes();
        let pixels = PyBytes::new_with(py, view.bands() * row, |out| {
            out.chunks_mut(row.max(1)).enumerate().for_each(|(band, out)| out.copy_from_slice(view.band(band)));
            Ok(())
        })?;
        Ok((pixels, view.mask().map(|mask| PyBytes::new(py, mask))))
    }
}

impl Encoder {
    /// Bytes as rows of a part.
    fn rows<'a>(&self, part: &Part, data: &'a [u8]) -> PyResult<RowsView<'a>> {
        let width = self.inner.width(part);
        let width = width.ok_or_else(|| PyValueError::new_err(format!("{part:?} is not in the image")))?;
        let bands = if part.mask { 1 } else { usize::from(self.inner.plan().levels[0].bands) };
        let dtype = if part.mask { DType::UInt8 } else { self.dtype };
        let row = bands.saturating_mul(width).saturating_mul(dtype.size()).max(1);
        RowsView::new(data, [bands, data.len() / row, width], dtype).ok_or_else(wrong_size)
    }
}

fn wrong_size() -> PyErr {
    PyValueError::new_err("rows: pixels or mask have another size than whole rows")
}

/// Encoded tiles as one run of bytes.
fn as_bytes<'py>(py: Python<'py>, rows: EncodedRows<'_>) -> PyResult<Tiles<'py>> {
    let lengths: Vec<usize> = rows.tiles.iter().map(|tile| tile.len()).collect();
    let bytes = PyBytes::new_with(py, lengths.iter().sum(), |mut out| {
        for tile in &rows.tiles {
            let (front, rest) = out.split_at_mut(tile.len());
            front.copy_from_slice(tile);
            out = rest;
        }
        Ok(())
    })?;
    Ok((rows.level, rows.mask, rows.plane, rows.row, rows.col, lengths, bytes))
}

/// The same the other way; `None` when lengths and bytes do not agree.
pub fn from_bytes<'a>(
    (level, mask, plane, row, col): (usize, bool, u16, u32, u32),
    lengths: &[usize],
    mut bytes: &'a [u8],
) -> Option<EncodedRows<'a>> {
    let mut tiles = Vec::with_capacity(lengths.len());
    for &length in lengths {
        let (tile, rest) = bytes.split_at_checked(length)?;
        tiles.push(Cow::Borrowed(tile));
        bytes = rest;
    }
    bytes.is_empty().then_some(EncodedRows { level, mask, plane, row, col, tiles })
}
