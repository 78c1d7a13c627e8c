//! Writing from Python: options as keywords, rows as bytes.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use tiffjet::geo::{BandMetadata, Gcp, Geo, Items, Metadata};
use tiffjet::sink::{Sink, StreamSink};
use tiffjet::source::{Remote, redacted};
use tiffjet::{
    BigTiff, Blocks, Brought, DType, Error, Fallback, Nodata, Overviews, Prediction, Resampling, Rows, RowsView,
    WriteOptions,
};

use crate::buffer::Bytes;
use crate::capsule::{device_of, lend};
use crate::crs::Crs;
use crate::device;
use crate::encoder::from_bytes;
use crate::error::raise;
use crate::interrupt::run;
use crate::report::Report;
use crate::source::{object_name, path};

/// What was written.
#[pyclass(frozen, module = "tiffjet")]
#[derive(Debug, Clone)]
pub struct Written {
    /// Path or name of the destination.
    #[pyo3(get)]
    name: String,
    /// Bytes of the file.
    #[pyo3(get)]
    size: u64,
    /// It is a BigTIFF.
    #[pyo3(get)]
    bigtiff: bool,
    /// Levels, the full size among them.
    #[pyo3(get)]
    levels: usize,
    /// Tiles of all levels and masks.
    #[pyo3(get)]
    tiles: u64,
    /// Those of them that were left out.
    #[pyo3(get)]
    absent: u64,
    report: tiffjet::Report,
}

#[pymethods]
impl Written {
    /// What it took.
    #[getter]
    fn report(&self) -> Report {
        Report(self.report.clone())
    }

    fn __repr__(&self) -> String {
        let Self { name, size, bigtiff, levels, tiles, absent, .. } = self;
        let big = if *bigtiff { "True" } else { "False" };
        format!("Written({name:?}, size={size}, levels={levels}, tiles={tiles}, absent={absent}, bigtiff={big})")
    }
}

/// Takes the rows of an image in order and writes a file at the end. Dropped before `finish` it leaves no trace.
#[pyclass(frozen, module = "tiffjet")]
pub struct Writer {
    name: String,
    /// Bands, rows, columns.
    #[pyo3(get)]
    shape: (usize, usize, usize),
    /// Rows of a tile.
    #[pyo3(get)]
    tile_rows: u32,
    /// Bytes of one row of tiles of each level: the least the writer can do with.
    #[pyo3(get)]
    floor: u64,
    dtype: DType,
    /// The GPU that encodes.
    gpu: Option<i32>,
    /// What those must name who send parts of the file themselves.
    #[pyo3(get)]
    upload: Option<String>,
    /// Bytes that such a part has at least.
    #[pyo3(get)]
    part_bytes: usize,
    inner: Mutex<Option<tiffjet::Writer>>,
}

#[pymethods]
impl Writer {
    #[new]
    #[pyo3(signature = (dst, shape, dtype, **options))]
    fn new(
        dst: &Bound<'_, PyAny>,
        shape: (usize, usize, usize),
        dtype: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let py = dst.py();
        let (dtype, mut chosen) = self::options(shape, dtype, options)?;
        let name = destination(dst)?;
        let (encoded, shared) = (chosen.encoded, chosen.shared);
        let remote = Remote::new(std::mem::take(&mut chosen.storage_options)).map_err(raise)?;
        let (options, place) = chosen.finish(&name)?;
        // Who takes tiles alone needs no device for them.
        let (backend, gpu) = device::encoder(if encoded { "cpu" } else { &place }).map_err(raise)?;
        // What can't be written is refused before a file is begun.
        let plan = tiffjet::WritePlan::new(&name.as_str().into(), &options).map_err(raise)?;
        let floor = plan.levels.iter().fold(0u64, |sum, level| {
            sum.saturating_add(level.image_row_bytes().saturating_mul(level.format.height.into()))
        });
        let tile_rows = plan.levels[0].format.height;
        let sink = sink(dst, &name, &remote)?;
        let (inner, upload) = run(py, || match (encoded, shared) {
            (true, true) => tiffjet::Writer::share(sink, &options).map(|(writer, upload)| (writer, Some(upload))),
            (true, false) => tiffjet::Writer::collect(sink, &options).map(|writer| (writer, None)),
            (false, _) => tiffjet::Writer::create_on(backend, sink, &options).map(|writer| (writer, None)),
        })?;
        let (part_bytes, inner) = (remote.part_bytes, Mutex::new(Some(inner)));
        Ok(Self { name, shape, tile_rows, floor, dtype, gpu, upload, part_bytes, inner })
    }

    /// Takes the next rows: the bytes of a C-contiguous (band, rows, x) array, and one byte a pixel of a mask. Or, where a
    /// GPU encodes, an array (band, rows, x) on that GPU with any strides, and a mask (rows, x) of bytes there.
    #[pyo3(signature = (data, mask=None))]
    fn push(&self, py: Python<'_>, data: &Bound<'_, PyAny>, mask: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        if let Some(device) = device_of(data, self.gpu.unwrap_or(0))? {
            let lent = lend(data, device)?;
            let mask = mask.map(|mask| lend(mask, device)).transpose()?;
            let rows = lent.rows(mask.as_ref());
            let rows = rows.ok_or_else(|| PyValueError::new_err("rows: pixels or mask have another shape"))?;
            return self.take(py, (&rows).into());
        }
        let data = Bytes::of(data)?;
        let mask = mask.map(Bytes::of).transpose()?;
        let (data, mask) = (data.get(), mask.as_ref().map(Bytes::get));
        let (bands, _, width) = self.shape;
        let row = bands.saturating_mul(width).saturating_mul(self.dtype.size()).max(1);
        let view = RowsView::new(data, [bands, data.len() / row, width], self.dtype);
        let view = view.and_then(|view| match mask {
            Some(mask) => view.with_mask(mask),
            None => Some(view),
        });
        let view =
            view.ok_or_else(|| PyValueError::new_err("rows: pixels or mask have another size than whole rows"))?;
        self.take(py, (&view).into())
    }

    /// Takes tiles that an `Encoder` with the same options made, in any order, instead of rows.
    fn append(&self, py: Python<'_>, tiles: Vec<Appended<'_>>) -> PyResult<()> {
        for (level, mask, plane, row, col, lengths, data) in &tiles {
            let data = Bytes::of(data)?;
            let rows = from_bytes((*level, *mask, *plane, *row, *col), lengths, data.get());
            let rows = rows.ok_or_else(|| PyValueError::new_err("tiles: their lengths are not those of the bytes"))?;
            run(py, || {
                let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
                inner.as_mut().ok_or_else(|| self.closed())?.append(&rows)
            })?;
        }
        Ok(())
    }

    /// Takes plane, tile row, first column and lengths of tiles of the full image that others send.
    fn note(&self, tiles: Vec<(u16, u32, u32, Vec<u64>)>) -> PyResult<()> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = inner.as_mut().ok_or_else(|| raise(self.closed()))?;
        tiles.iter().try_for_each(|(plane, row, col, lengths)| inner.note((*plane, *row, *col), lengths)).map_err(raise)
    }

    /// All rows are there: lays the file out and shows it.
    fn finish(&self, py: Python<'_>) -> PyResult<Written> {
        self.end(py, tiffjet::Writer::finish)
    }

    /// All tiles are there, those of the full image in parts that others have sent, with what comes before and behind them.
    fn finish_around(&self, py: Python<'_>, lead: Vec<u8>, parts: Vec<String>, tail: Vec<u8>) -> PyResult<Written> {
        self.end(py, |writer| writer.finish_around(Brought { lead, parts, tail }))
    }

    /// Gives up: nothing is left of the file.
    fn abort(&self, py: Python<'_>) {
        py.detach(|| drop(self.inner.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}

impl Writer {
    fn end(
        &self,
        py: Python<'_>,
        act: impl FnOnce(tiffjet::Writer) -> tiffjet::Result<tiffjet::Written> + Send,
    ) -> PyResult<Written> {
        let written = run(py, || {
            let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
            act(inner.ok_or_else(|| self.closed())?)
        })?;
        let tiffjet::Written { bytes, big, levels, tiles, absent, report } = written;
        Ok(Written { name: self.name.clone(), size: bytes, bigtiff: big, levels, tiles, absent, report })
    }

    fn take(&self, py: Python<'_>, rows: Rows<'_>) -> PyResult<()> {
        run(py, || {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.as_mut().ok_or_else(|| self.closed())?.push(rows)
        })
    }

    fn closed(&self) -> Error {
        Error::invalid(&self.name.as_str().into(), "the writer is finished")
    }
}

/// Sends pieces of bytes as one part of an object that a writer elsewhere makes; gives what stands for it.
#[pyfunction]
#[pyo3(name = "_send_part")]
pub fn send_part(
    py: Python<'_>,
    url: &str,
    storage_options: Vec<(String, String)>,
    upload: &str,
    number: usize,
    pieces: Vec<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let remote = Remote::new(storage_options).map_err(raise)?;
    let mut bytes = Vec::new();
    for piece in &pieces {
        bytes.extend_from_slice(Bytes::of(piece)?.get());
    }
    run(py, || tiffjet::sink::send_part(url, &remote, upload, number, bytes))
}

fn destination(dst: &Bound<'_, PyAny>) -> PyResult<String> {
    match path(dst)? {
        Some(path) => Ok(redacted(&path.to_string_lossy())),
        None if dst.hasattr("write")? => Ok(object_name(dst)),
        None => Err(PyTypeError::new_err("dst: a path, a URL or a binary file object is meant")),
    }
}

fn sink(dst: &Bound<'_, PyAny>, name: &str, remote: &Remote) -> PyResult<Box<dyn Sink>> {
    match path(dst)? {
        Some(path) => run(dst.py(), || tiffjet::sink::create(&path, remote)),
        None => Ok(Box::new(StreamSink::new(name, FileObject(dst.clone().unbind())))),
    }
}

/// A binary file object with `write`.
struct FileObject(Py<PyAny>);

impl Write for FileObject {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Python::attach(|py| {
            let taken = self.0.call_method1(py, "write", (PyBytes::new(py, bytes),))?;
            // Some say nothing, and mean all.
            if taken.is_none(py) { Ok(bytes.len()) } else { taken.extract::<usize>(py).map(|n| n.min(bytes.len())) }
        })
        .map_err(std::io::Error::other::<PyErr>)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Python::attach(|py| match self.0.getattr(py, "flush") {
            Ok(flush) => flush.call0(py).map(drop),
            Err(_) => Ok(()),
        })
        .map_err(std::io::Error::other::<PyErr>)
    }
}

/// Tiles as an `Encoder` gives them, with their bytes in anything that has bytes.
type Appended<'py> = (usize, bool, u16, u32, u32, Vec<usize>, Bound<'py, PyAny>);

/// The keywords of an image.
pub fn options(
    shape: (usize, usize, usize),
    dtype: &str,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<(DType, Options)> {
    let known = DType::from_name(dtype);
    let dtype = known.ok_or_else(|| PyValueError::new_err(format!("dtype: {dtype} can't be written")))?;
    let mut chosen = Options::new([shape.0, shape.1, shape.2], dtype);
    for (name, value) in keywords.into_iter().flat_map(|keywords| keywords.iter()) {
        chosen.set(&name.extract::<String>()?, &value)?;
    }
    Ok((dtype, chosen))
}

/// Keywords on their way to `WriteOptions`.
pub struct Options {
    options: WriteOptions,
    geo: Geo,
    crs: Option<tiffjet::geo::Crs>,
    device: String,
    storage_options: Vec<(String, String)>,
    /// Tiles will come, and no rows.
    encoded: bool,
    /// Others send parts of the file themselves.
    shared: bool,
}

impl Options {
    fn new(shape: [usize; 3], dtype: DType) -> Self {
        Self {
            options: WriteOptions::new(shape, dtype),
            geo: Geo::default(),
            crs: None,
            device: "auto".into(),
            storage_options: Vec::new(),
            encoded: false,
            shared: false,
        }
    }

    fn set(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let options = &mut self.options;
        match name {
            _ if value.is_none() => {}
            "encoded" => self.encoded = value.extract()?,
            "shared" => self.shared = value.extract()?,
            "device" => self.device = value.extract()?,
            "storage_options" => self.storage_options = value.extract()?,
            "compression" => options.compression = value.extract::<String>()?.to_ascii_lowercase(),
            "compression_level" => options.settings.level = Some(value.extract()?),
            "quality" => options.settings.quality = Some(value.extract()?),
            "max_z_error" => options.settings.max_z_error = value.extract()?,
            "predictor" => options.predictor = predictor(value)?,
            "tile" => {
                let (height, width) = value.extract()?;
                options.blocks = Blocks::Tiles { width, height };
            }
            "strips" => {
                if value.is_truthy()? {
                    options.blocks = Blocks::Strips { rows: None };
                }
            }
            "planar" => options.planar = value.extract()?,
            "sparse" => options.sparse = value.extract()?,
            "cog" => options.cog = value.extract()?,
            "overviews" => options.overviews = overviews(value)?,
            "resampling" => options.resampling = Some(resampling(value)?),
            "bigtiff" => options.big = bigtiff(value)?,
            "nodata" => options.nodata = Some(nodata(value, options.dtype)?),
            "nan_to_nodata" => options.nan_to_nodata = value.extract()?,
            "mask" => options.mask = value.extract()?,
            "photometric" => options.photometric = Some(value.extract()?),
            "colormap" => options.colour_map = Some(value.extract()?),
            "fallback" => options.fallback = fallback(value)?,
            "memory" => options.memory = Some(value.extract()?),
            "transform" => self.geo.transform = Some(value.extract::<[f64; 6]>()?),
            "crs" => self.crs = Some(Crs::parse(value)?),
            "gcps" => self.geo.gcps = gcps(value)?,
            "area_or_point" => self.geo.pixel_is_point = Some(value.extract::<String>()? == "Point"),
            "metadata" => self.geo.metadata.domains = value.extract::<BTreeMap<String, Items>>()?,
            "bands" => bands(value, &mut self.geo.metadata)?,
            _ => return Err(PyTypeError::new_err(format!("there is no option {name}"))),
        }
        Ok(())
    }

    pub fn finish(self, name: &str) -> PyResult<(WriteOptions, String)> {
        let Self { mut options, mut geo, crs, device, .. } = self;
        if geo.gcps.is_empty() {
            geo.crs = crs
        } else {
            geo.gcp_crs = crs
        }
        options.geo = geo.to_tags().map_err(|what| raise(Error::unsupported(&name.into(), what, "")))?;
        Ok((options, device))
    }
}

fn predictor(value: &Bound<'_, PyAny>) -> PyResult<Prediction> {
    match value.str()?.to_string().as_str() {
        "auto" => Ok(Prediction::Auto),
        "none" | "1" => Ok(Prediction::None),
        "2" => Ok(Prediction::Horizontal),
        "3" => Ok(Prediction::Float),
        other => Err(PyValueError::new_err(format!("predictor: {other:?} is none of auto, none, 2 and 3"))),
    }
}

fn fallback(value: &Bound<'_, PyAny>) -> PyResult<Fallback> {
    match value.str()?.to_str()? {
        "allow" => Ok(Fallback::Allow),
        "forbid" => Ok(Fallback::Forbid),
        other => Err(PyValueError::new_err(format!("fallback: {other:?} is neither allow nor forbid"))),
    }
}

fn overviews(value: &Bound<'_, PyAny>) -> PyResult<Overviews> {
    let Ok(text) = value.cast::<PyString>() else {
        let factors: Vec<u32> =
            value.extract().map_err(|_| PyTypeError::new_err("overviews: auto, none or factors"))?;
        return Ok(if factors.is_empty() { Overviews::None } else { Overviews::Factors(factors) });
    };
    match text.to_str()? {
        "auto" => Ok(Overviews::Auto),
        "none" => Ok(Overviews::None),
        other => Err(PyValueError::new_err(format!("overviews: {other:?} is none of auto, none and factors"))),
    }
}

fn resampling(value: &Bound<'_, PyAny>) -> PyResult<Resampling> {
    let name: String = value.extract()?;
    Resampling::from_name(&name).ok_or_else(|| {
        let names: Vec<&str> = Resampling::ALL.iter().map(|r| r.name()).collect();
        PyValueError::new_err(format!("resampling: {name:?} is none of {}", names.join(", ")))
    })
}

fn bigtiff(value: &Bound<'_, PyAny>) -> PyResult<BigTiff> {
    match value.str()?.to_string().to_ascii_lowercase().as_str() {
        "auto" => Ok(BigTiff::Auto),
        "yes" | "true" => Ok(BigTiff::Yes),
        "no" | "false" => Ok(BigTiff::No),
        other => Err(PyValueError::new_err(format!("bigtiff: {other:?} is none of auto, yes and no"))),
    }
}

/// A nodata value that the type can hold.
fn nodata(value: &Bound<'_, PyAny>, dtype: DType) -> PyResult<Nodata> {
    let nodata = match dtype {
        DType::Int64 => value.extract().map(Nodata::Int),
        DType::UInt64 => value.extract().map(Nodata::UInt),
        _ => value.extract().map(Nodata::Float),
    };
    let refused = || PyValueError::new_err(format!("nodata: {dtype} can't hold {value}"));
    let nodata = nodata.map_err(|_| refused())?;
    nodata.bytes(dtype).is_some().then_some(nodata).ok_or_else(refused)
}

fn gcps(value: &Bound<'_, PyAny>) -> PyResult<Vec<Gcp>> {
    let points: Vec<(f64, f64, f64, f64, f64, String)> = value.extract()?;
    Ok(points.into_iter().map(|(column, row, x, y, z, id)| Gcp { id, column, row, x, y, z }).collect())
}

/// What is said of each band: a list of dictionaries.
fn bands(value: &Bound<'_, PyAny>, metadata: &mut Metadata) -> PyResult<()> {
    for (index, band) in value.try_iter()?.enumerate() {
        let mut said = BandMetadata::default();
        for (name, value) in band?.cast_into::<PyDict>()?.iter() {
            match name.extract::<String>()?.as_str() {
                "description" => said.description = value.extract()?,
                "scale" => said.scale = value.extract()?,
                "offset" => said.offset = value.extract()?,
                "unit" => said.unit = value.extract()?,
                other => return Err(PyTypeError::new_err(format!("bands: there is no {other:?}"))),
            }
        }
        if said != BandMetadata::default() {
            metadata.bands.insert(index, said);
        }
    }
    Ok(())
}
