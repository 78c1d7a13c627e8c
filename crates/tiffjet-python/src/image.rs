//! An open file in Python.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use tiffjet::dlpack::Foreign;
use tiffjet::geo::{Affine, Domains, Gcp};
use tiffjet::layout::Predictor;
use tiffjet::source::Remote;
use tiffjet::tiff::{Array, FieldType, tag};
use tiffjet::{
    Backend, ByteOrder, Device, Error, Fallback, Io, Layout, Limits, Nodata, OpenOptions, ReadJob, ReadOptions,
    Storage, Window,
};

use crate::capsule;
use crate::crs::Crs;
use crate::device::{self, CUDA};
use crate::error::raise;
use crate::interrupt::run;
use crate::source::{self, Origin};
use crate::tensor::{Tensor, numpy_dtype, numpy_name};
use crate::window;

/// `storage_options` as Python has put them in line.
type Pairs = Vec<(String, String)>;

/// Opens a file; only its header is read.
#[pyfunction]
#[pyo3(signature = (src, *, page=0, limits=None, sidecars=true, storage_options=vec![]))]
pub fn open(
    src: &Bound<'_, PyAny>,
    page: usize,
    limits: Option<&Bound<'_, PyDict>>,
    sidecars: bool,
    storage_options: Pairs,
) -> PyResult<Image> {
    let remote = Remote::new(storage_options.iter().map(|(key, value)| (key, value))).map_err(raise)?;
    let options = OpenOptions { page, limits: read_limits(limits)?, sidecars, remote };
    let (image, origin) = source::open(src, &options)?;
    if matches!(origin, Origin::Object(_)) && !storage_options.is_empty() {
        return Err(PyValueError::new_err("storage_options: they are for URLs; this object has its own"));
    }
    Ok(Image { image: Arc::new(image), origin, options, storage_options })
}

/// Opens a file that was open elsewhere, as it was then.
#[pyfunction]
#[pyo3(name = "_reopen")]
pub fn reopen(
    src: &Bound<'_, PyAny>,
    page: usize,
    limits: &Bound<'_, PyDict>,
    sidecars: bool,
    version: &Bound<'_, PyAny>,
    storage_options: Pairs,
) -> PyResult<Image> {
    let image = open(src, page, Some(limits), sidecars, storage_options)?;
    if !version.eq(image.version(src.py())?)? {
        let name = image.image.name();
        return Err(PyOSError::new_err(format!("{name}: the file changed since it was opened; open it again")));
    }
    Ok(image)
}

/// `limits={"output_bytes": …}`; what is not named has its default.
fn read_limits(argument: Option<&Bound<'_, PyDict>>) -> PyResult<Limits> {
    let mut limits = Limits::default();
    let Some(argument) = argument else { return Ok(limits) };
    for (name, value) in argument.iter() {
        let name: String = name.extract()?;
        match name.as_str() {
            "directories" => limits.directories = value.extract()?,
            "fields" => limits.fields = value.extract()?,
            "levels" => limits.levels = value.extract()?,
            "value_bytes" => limits.value_bytes = value.extract()?,
            "tile_bytes" => limits.tile_bytes = value.extract()?,
            "output_bytes" => limits.output_bytes = value.extract()?,
            "sidecar_bytes" => limits.sidecar_bytes = value.extract()?,
            "private_hosts" => limits.private_hosts = value.extract()?,
            _ => return Err(PyValueError::new_err(format!("limits: there is none called {name:?}"))),
        }
    }
    Ok(limits)
}

fn write_limits<'py>(py: Python<'py>, limits: &Limits) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("directories", limits.directories)?;
    out.set_item("fields", limits.fields)?;
    out.set_item("levels", limits.levels)?;
    out.set_item("value_bytes", limits.value_bytes)?;
    out.set_item("tile_bytes", limits.tile_bytes)?;
    out.set_item("output_bytes", limits.output_bytes)?;
    out.set_item("sidecar_bytes", limits.sidecar_bytes)?;
    out.set_item("private_hosts", limits.private_hosts)?;
    Ok(out)
}

/// An open TIFF: what its header says, and `read`.
#[pyclass(frozen, module = "tiffjet")]
pub struct Image {
    pub image: Arc<tiffjet::Image>,
    origin: Origin,
    options: OpenOptions,
    /// As they were given: what the environment adds is found again where the image is opened again.
    storage_options: Pairs,
}

/// One level of an image: full size or an overview.
#[pyclass(frozen, module = "tiffjet")]
#[derive(Debug, Clone)]
pub struct Level {
    /// 0 is full size.
    #[pyo3(get)]
    level: usize,
    /// Bands, rows, columns.
    #[pyo3(get)]
    shape: (usize, usize, usize),
    /// Rows and columns of a tile; a strip is a tile as wide as the image.
    #[pyo3(get)]
    tile: (u32, u32),
    /// Tiles rather than strips.
    #[pyo3(get)]
    tiled: bool,
    /// Codec.
    #[pyo3(get)]
    compression: &'static str,
    /// It has a mask of its own.
    #[pyo3(get)]
    has_mask: bool,
    /// Pixel to map, of pixel corners: (a, b, c, d, e, f) as in `Affine`.
    #[pyo3(get)]
    transform: Option<(f64, f64, f64, f64, f64, f64)>,
}

#[pymethods]
impl Level {
    fn __repr__(&self) -> String {
        format!(
            "Level({}, shape={:?}, tile={:?}, compression={:?})",
            self.level, self.shape, self.tile, self.compression
        )
    }
}

type Six = (f64, f64, f64, f64, f64, f64);

fn six([a, b, c, d, e, f]: Affine) -> Six {
    (a, b, c, d, e, f)
}

fn nodata_object<'py>(py: Python<'py>, nodata: Option<Nodata>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match nodata {
        None => py.None().into_bound(py),
        Some(Nodata::Float(value)) => value.into_pyobject(py)?.into_any(),
        Some(Nodata::Int(value)) => value.into_pyobject(py)?.into_any(),
        Some(Nodata::UInt(value)) => value.into_pyobject(py)?.into_any(),
    })
}

/// The value of a tag: text, bytes, a number or a tuple of numbers.
fn tag_object<'py>(py: Python<'py>, array: &Array) -> PyResult<Bound<'py, PyAny>> {
    let numbers = match array.kind {
        FieldType::Ascii => return Ok(array.text().into_pyobject(py)?.into_any()),
        FieldType::Byte | FieldType::Undefined => return Ok(PyBytes::new(py, &array.bytes).into_any()),
        FieldType::Rational | FieldType::SRational | FieldType::Float | FieldType::Double => {
            PyTuple::new(py, array.floats())?
        }
        _ => match array.unsigned() {
            Some(numbers) => PyTuple::new(py, numbers)?,
            None => PyTuple::new(py, array.floats().into_iter().map(|v| v as i64))?,
        },
    };
    if numbers.len() == 1 { numbers.get_item(0) } else { Ok(numbers.into_any()) }
}

/// Tags that stand for the place of tiles in the file.
fn is_index(tag: u16) -> bool {
    matches!(tag, tag::STRIP_OFFSETS | tag::STRIP_BYTE_COUNTS | tag::TILE_OFFSETS | tag::TILE_BYTE_COUNTS)
}

impl Image {
    fn main(&self) -> &Layout {
        &self.image.levels()[0].layout
    }

    fn bands(&self) -> usize {
        self.image.shape()[0]
    }

    fn window(
        &self,
        window: Option<&Bound<'_, PyAny>>,
        bands: Option<&Bound<'_, PyAny>>,
        level: usize,
    ) -> PyResult<Window> {
        let layout = &self.image.level(level).map_err(raise)?.layout;
        window::window(window, bands, level, (layout.height, layout.width))
    }

    /// Memory of the caller, when the pixels of a window fit into it.
    fn fitting(&self, window: &Window, out: Foreign) -> PyResult<Foreign> {
        let shape = self.image.plan_shape(window).map_err(raise)?;
        let dtype = self.image.dtype();
        let fits = out.shape() == shape || (shape[0] == 1 && out.shape() == &shape[1..]);
        if !fits || out.dtype() != dtype {
            let have = format!("{:?} of {}", out.shape(), out.dtype());
            return Err(PyValueError::new_err(format!("out: it is {have}, the window {shape:?} of {dtype}")));
        }
        Ok(out)
    }

    /// Memory of another library's pool for the pixels of a window, and the stream after which it may be written.
    fn allocated(
        &self,
        allocator: &Bound<'_, PyAny>,
        backend: &dyn Backend,
        window: &Window,
        stream: usize,
    ) -> PyResult<(Foreign, usize)> {
        let shape = self.image.plan_shape(window).map_err(raise)?;
        let bytes = shape.iter().try_fold(self.image.dtype().size(), |bytes, &n| bytes.checked_mul(n));
        let bytes = bytes.ok_or_else(|| PyValueError::new_err("allocator: no machine could hold the window"))?;
        let device = backend.name().strip_prefix("cuda:").and_then(|id| id.parse::<i32>().ok()).unwrap_or(0);
        let helper = allocator.py().import("tiffjet._allocate")?;
        let (array, stream): (Bound<'_, PyAny>, usize) =
            helper.call_method1("memory", (allocator, bytes, device, stream))?.extract()?;
        let memory = capsule::import(&array)?;
        if memory.length() != bytes || memory.device() != (Device { kind: CUDA, id: device }) {
            let have = format!("{} bytes on {}", memory.length(), device::name(memory.device()));
            return Err(PyValueError::new_err(format!(
                "allocator: it gave {have} instead of {bytes} on cuda:{device}"
            )));
        }
        Ok((memory, stream))
    }

    /// Into memory of somebody else, which has just the bytes of the window.
    fn read_into(
        &self,
        py: Python<'_>,
        backend: &dyn Backend,
        window: &Window,
        mut out: Foreign,
        route: &Route,
    ) -> PyResult<Tensor> {
        let shape = self.image.plan_shape(window).map_err(raise)?;
        let dtype = self.image.dtype();
        let image = &self.image;
        let report = run(py, || {
            let plan = image.plan(window)?;
            let job = ReadJob { source: &**image.level(window.level)?.source(), plan: &plan };
            let place = out.destination(route.stream);
            let place = place.ok_or_else(|| Error::invalid(image.name(), "out: it is read-only"))?;
            backend.read_into(&[job], place, &route.options)
        })?;
        Ok(Tensor::new(tiffjet::Tensor::new(shape, dtype, Arc::new(out), report)))
    }
}

/// How pixels come, beside which.
struct Route {
    options: ReadOptions,
    /// Handle of the caller's stream; 0 for none.
    stream: usize,
}

impl Route {
    /// From the arguments; those that only devices know are refused on the host.
    fn new(
        backend: &dyn Backend,
        fallback: &str,
        io: &str,
        stream: Option<&Bound<'_, PyAny>>,
        allocator: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let fallback = match fallback {
            "allow" => Fallback::Allow,
            "forbid" => Fallback::Forbid,
            _ => return Err(PyValueError::new_err(format!("fallback: {fallback:?} is neither allow nor forbid"))),
        };
        let cuda = backend.name().starts_with("cuda");
        let io = match io {
            "auto" => Io::Auto,
            "pread" if cuda => Io::Staged,
            "cufile" if cuda => Io::Direct,
            _ => {
                let what = format!("io: {io:?} is no way to read on {}; there is auto", backend.name());
                return Err(PyValueError::new_err(what));
            }
        };
        if !cuda && (stream.is_some() || allocator.is_some()) {
            let what = format!("stream, allocator: there are none on {}", backend.name());
            return Err(PyValueError::new_err(what));
        }
        let stream = stream.map_or(Ok(0), device::stream_handle)?;
        Ok(Self { options: ReadOptions { fallback, io, fill_failed: None }, stream })
    }
}

#[pymethods]
impl Image {
    /// Reads a window: a `Tensor` with axes (band, y, x).
    ///
    /// Parameters
    /// ----------
    /// window
    ///     `((y0, y1), (x0, x1))` in pixels of the level, a pair of slices or a rasterio `Window`; all of it by default.
    /// bands
    ///     Bands, counted from 1, in the order they are wanted.
    /// level
    ///     Overview level, 0 is full size.
    /// device
    ///     `"auto"` (the default: a GPU where one can be used, else the CPU; where `out` is, if that is given), `"cpu"`,
    ///     `"cuda"`, `"cuda:N"` or N.
    /// out
    ///     An array or tensor of the window's shape and type that pixels are written into, wherever it is.
    /// fallback
    ///     `"forbid"` makes it an error when a GPU can't decode the file by itself; else the cores do, and `report` says so.
    /// io
    ///     How bytes get to a GPU: `"auto"`, `"pread"` (by way of the host) or `"cufile"` (GPUDirect Storage).
    /// stream
    ///     A CUDA stream (of CuPy, PyTorch, or its handle) behind whose work the pixels are written.
    /// allocator
    ///     Whose memory the pixels are in on a GPU: `"cupy"`, `"torch"`, `"rmm"`, or a function of bytes, stream and device.
    #[pyo3(signature = (window=None, bands=None, level=0, device=None, out=None, fallback="allow", io="auto",
        stream=None, allocator=None))]
    #[allow(clippy::too_many_arguments)] // they are keywords
    fn read(
        &self,
        py: Python<'_>,
        window: Option<&Bound<'_, PyAny>>,
        bands: Option<&Bound<'_, PyAny>>,
        level: usize,
        device: Option<&Bound<'_, PyAny>>,
        out: Option<&Bound<'_, PyAny>>,
        fallback: &str,
        io: &str,
        stream: Option<&Bound<'_, PyAny>>,
        allocator: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Tensor> {
        let out = out.map(capsule::import).transpose()?;
        let backend = device::for_read(device, out.as_ref().map(Storage::device))?;
        let mut route = Route::new(&*backend, fallback, io, stream, allocator)?;
        let window = self.window(window, bands, level)?;
        match (out, allocator) {
            (Some(_), Some(_)) => {
                return Err(PyValueError::new_err("out, allocator: one of them says where pixels go"));
            }
            (Some(out), None) => return self.read_into(py, &*backend, &window, self.fitting(&window, out)?, &route),
            (None, Some(allocator)) => {
                let (memory, stream) = self.allocated(allocator, &*backend, &window, route.stream)?;
                route.stream = stream;
                return self.read_into(py, &*backend, &window, memory, &route);
            }
            (None, None) => {}
        }
        run(py, || self.image.read_with(&*backend, &window, &route.options)).map(Tensor::new)
    }

    /// Which pixels are valid: a `Tensor` of uint8 with axes (1, y, x) on the host, 255 where they are and 0 where not.
    ///
    /// The mask of the file, else its alpha band, else what is not nodata, as GDAL's dataset mask. `window` and `level` as
    /// for `read`.
    #[pyo3(signature = (window=None, level=0, device=None))]
    fn read_mask(
        &self,
        py: Python<'_>,
        window: Option<&Bound<'_, PyAny>>,
        level: usize,
        device: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Tensor> {
        if let Some(device) = device {
            device::chosen(device)?;
        }
        let window = self.window(window, None, level)?;
        run(py, || self.image.read_mask(&window)).map(Tensor::new)
    }

    /// Path, URL without secrets, `<bytes>`, or the name of a file object.
    #[getter]
    fn name(&self) -> &str {
        self.image.name()
    }

    /// Bands, rows, columns at full size.
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        self.image.shape().into()
    }

    /// Type of a pixel value, a `numpy.dtype`.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        numpy_dtype(py, numpy_name(self.image.dtype()))
    }

    /// The type as GDAL calls it, with `complex_int16` and `complex_int32`.
    #[getter]
    fn sample_type(&self) -> &'static str {
        self.image.dtype().name()
    }

    /// Bits of a sample in the file.
    #[getter]
    fn bits(&self) -> u16 {
        self.main().format.bits
    }

    /// Full size first, then the overviews.
    #[getter]
    fn levels(&self) -> Vec<Level> {
        let transform = self.image.geo().transform;
        let main = self.main();
        let level = |(level, this): (usize, &tiffjet::Level)| {
            let layout = &this.layout;
            let (across, down) =
                (f64::from(main.width) / f64::from(layout.width), f64::from(main.height) / f64::from(layout.height));
            Level {
                level,
                shape: (layout.bands.into(), layout.height as usize, layout.width as usize),
                tile: (layout.format.height, layout.format.width),
                tiled: layout.tiled,
                compression: layout.codec.name(),
                has_mask: this.mask.is_some(),
                transform: transform.map(|[a, b, c, d, e, f]| (a * across, b * down, c, d * across, e * down, f)),
            }
        };
        self.image.levels().iter().enumerate().map(level).collect()
    }

    /// Images in the file.
    #[getter]
    fn pages(&self) -> usize {
        self.image.pages()
    }

    /// Which of them this is.
    #[getter]
    fn page(&self) -> usize {
        self.image.page()
    }

    /// Pixel to map, of pixel corners: (a, b, c, d, e, f) as in `Affine`; None where the file does not say.
    #[getter]
    fn transform(&self) -> Option<Six> {
        self.image.geo().transform.map(six)
    }

    /// Coordinate reference system.
    #[getter]
    fn crs(&self) -> Option<Crs> {
        self.image.geo().crs.clone().map(Crs)
    }

    /// Control points: (column, row, x, y, z, id).
    #[getter]
    fn gcps(&self) -> Vec<(f64, f64, f64, f64, f64, String)> {
        let point = |p: &Gcp| (p.column, p.row, p.x, p.y, p.z, p.id.clone());
        self.image.geo().gcps.iter().map(point).collect()
    }

    /// Coordinate reference system of the control points.
    #[getter]
    fn gcp_crs(&self) -> Option<Crs> {
        self.image.geo().gcp_crs.clone().map(Crs)
    }

    /// Left, bottom, right, top of the rectangle around the image; None without a transform.
    #[getter]
    fn bounds(&self) -> Option<(f64, f64, f64, f64)> {
        let [a, b, c, d, e, f] = self.image.geo().transform?;
        let (w, h) = (f64::from(self.main().width), f64::from(self.main().height));
        let corners = [(0.0, 0.0), (w, 0.0), (0.0, h), (w, h)];
        let low = |v: [f64; 4]| v.into_iter().fold(f64::INFINITY, f64::min);
        let high = |v: [f64; 4]| v.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let (xs, ys) = (corners.map(|(x, y)| a * x + b * y + c), corners.map(|(x, y)| d * x + e * y + f));
        Some((low(xs), low(ys), high(xs), high(ys)))
    }

    /// `"Area"` or `"Point"`; None where the file does not say.
    #[getter]
    fn area_or_point(&self) -> Option<&'static str> {
        self.image.geo().pixel_is_point.map(|point| if point { "Point" } else { "Area" })
    }

    /// Nodata of the first band.
    #[getter]
    fn nodata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        nodata_object(py, self.image.geo().nodata(0))
    }

    /// Nodata of each band.
    #[getter]
    fn nodata_values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let values: PyResult<Vec<_>> =
            (0..self.bands()).map(|band| nodata_object(py, self.image.geo().nodata(band))).collect();
        PyTuple::new(py, values?)
    }

    /// Scale of each band: true value = pixel × scale + offset.
    #[getter]
    fn scales(&self) -> Vec<f64> {
        (0..self.bands()).map(|band| self.image.geo().metadata.band(band).scale.unwrap_or(1.0)).collect()
    }

    /// Offset of each band.
    #[getter]
    fn offsets(&self) -> Vec<f64> {
        (0..self.bands()).map(|band| self.image.geo().metadata.band(band).offset.unwrap_or(0.0)).collect()
    }

    /// Unit of each band.
    #[getter]
    fn units(&self) -> Vec<Option<String>> {
        (0..self.bands()).map(|band| self.image.geo().metadata.band(band).unit.clone()).collect()
    }

    /// Name of each band.
    #[getter]
    fn descriptions(&self) -> Vec<Option<String>> {
        (0..self.bands()).map(|band| self.image.geo().metadata.band(band).description.clone()).collect()
    }

    /// GDAL's metadata by domain; the default domain is "".
    #[getter]
    fn metadata(&self) -> Domains {
        self.image.geo().metadata.domains.clone()
    }

    /// GDAL's metadata of each band by domain.
    #[getter]
    fn band_metadata(&self) -> Vec<Domains> {
        (0..self.bands()).map(|band| self.image.geo().metadata.band(band).domains.clone()).collect()
    }

    /// Codec at full size.
    #[getter]
    fn compression(&self) -> &'static str {
        self.main().codec.name()
    }

    /// 1 none, 2 differences, 3 byte planes.
    #[getter]
    fn predictor(&self) -> u16 {
        match self.main().predictor {
            Predictor::None => 1,
            Predictor::Horizontal => 2,
            Predictor::Float => 3,
        }
    }

    /// `"pixel"` or `"band"`.
    #[getter]
    fn interleave(&self) -> &'static str {
        if self.main().planar { "band" } else { "pixel" }
    }

    /// Rows and columns of a tile; a strip is a tile as wide as the image.
    #[getter]
    fn tile(&self) -> (u32, u32) {
        (self.main().format.height, self.main().format.width)
    }

    /// Tiles rather than strips.
    #[getter]
    fn tiled(&self) -> bool {
        self.main().tiled
    }

    /// PhotometricInterpretation as a number.
    #[getter]
    fn photometric(&self) -> u16 {
        self.main().format.photometric
    }

    /// `"little"` or `"big"`.
    #[getter]
    fn byte_order(&self) -> &'static str {
        if self.image.header().order == ByteOrder::Little { "little" } else { "big" }
    }

    /// It has 64-bit offsets.
    #[getter]
    fn bigtiff(&self) -> bool {
        self.image.header().big
    }

    /// Bytes of the file.
    #[getter]
    fn file_size(&self) -> u64 {
        self.image.source().length()
    }

    /// It has a mask of its own, in the file or beside it.
    #[getter]
    fn has_mask(&self) -> bool {
        self.image.levels()[0].mask.is_some()
    }

    /// The band that says how opaque a pixel is, counted from 1.
    #[getter]
    fn alpha_band(&self) -> Option<u16> {
        self.main().alpha_band()
    }

    /// Red, green and blue (16 bits) by pixel value, of a palette image.
    #[getter]
    fn colormap(&self) -> PyResult<Option<Vec<(u16, u16, u16)>>> {
        let map = self.image.colour_map().map_err(raise)?;
        Ok(map.map(|map| map.into_iter().map(|[r, g, b]| (r, g, b)).collect()))
    }

    /// Fields of the directory by name, private ones by number; tile offsets are left out.
    #[getter]
    fn tags<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        for entry in self.image.directory().entries.iter().filter(|entry| !is_index(entry.tag)) {
            // One that can't be read is left out: `validate` says why.
            let Ok(Some(array)) = self.image.tag(entry.tag) else { continue };
            let value = tag_object(py, &array)?;
            match tag::name(entry.tag) {
                "private" => out.set_item(entry.tag, value)?,
                name => out.set_item(name, value)?,
            }
        }
        Ok(out)
    }

    /// Files beside the image that belong to it.
    #[getter]
    fn sidecars(&self) -> Vec<String> {
        self.image.sidecars()
    }

    /// What was wrong with the file and passed over.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.image.warnings().iter().chain(&self.image.geo().warnings).cloned().collect()
    }

    /// What the file was when it was opened: length, time of the last change in nanoseconds, ETag.
    #[getter]
    fn version<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let version = self.image.source().version();
        let modified = version.modified.map(|time| match time.duration_since(UNIX_EPOCH) {
            Ok(after) => after.as_nanos() as i128,
            Err(before) => -(before.duration().as_nanos() as i128),
        });
        let modified = modified.and_then(|ns| i64::try_from(ns).ok());
        (version.length, modified, version.etag.clone()).into_pyobject(py)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let reopen = py.import("tiffjet._tiffjet")?.getattr("_reopen")?;
        let src = match &self.origin {
            Origin::Path(path) => path.as_os_str().into_pyobject(py)?.into_any(),
            Origin::Object(object) => object.bind(py).clone(),
        };
        let limits = write_limits(py, &self.options.limits)?;
        let arguments = PyList::new(
            py,
            [
                src,
                self.options.page.into_pyobject(py)?.into_any(),
                limits.into_any(),
                self.options.sidecars.into_pyobject(py)?.to_owned().into_any(),
                self.version(py)?.into_any(),
                self.storage_options.clone().into_pyobject(py)?.into_any(),
            ],
        )?;
        Ok((reopen, arguments.to_tuple()))
    }

    fn __repr__(&self) -> String {
        let [bands, rows, columns] = self.image.shape();
        let dtype = self.image.dtype();
        format!("Image({:?}, shape=({bands}, {rows}, {columns}), dtype={dtype}, {})", self.name(), self.compression())
    }
}
