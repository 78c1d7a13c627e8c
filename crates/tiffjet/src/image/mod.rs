//! An open file: its levels, masks and pages, and reading from them.

mod beside;
mod file;
mod mask;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::backend::{Backend, Destination, ReadJob, ReadOptions};
use crate::cpu::{Closing, Cpu};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::geo::{self, Geo, GeoTags};
use crate::layout::Layout;
use crate::limits::Limits;
use crate::plan::{Frame, ReadPlan, Wanted, Window, level_for};
use crate::source::{Address, FileSource, Remote, Source, address};
use crate::tensor::{Report, Tensor};
use crate::tiff::{Array, Directory, Entry, FieldType, Head, Header, tag};
use beside::Beside;
use file::{File, Role};

/// How to open a file.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Which image of a file with several.
    pub page: usize,
    /// What the file may ask for.
    pub limits: Limits,
    /// Look for `.ovr`, `.msk`, `.aux.xml` and world files beside it. Over the network they are never looked for: each would
    /// cost a request.
    pub sidecars: bool,
    /// How to reach a file on another machine.
    pub remote: Remote,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { page: 0, limits: Limits::default(), sidecars: true, remote: Remote::default() }
    }
}

/// Opens a file by its path or address; reads its header only.
pub fn open(path: impl AsRef<Path>) -> Result<Image> {
    Image::open(path, &OpenOptions::default())
}

#[cfg(feature = "remote")]
fn remote_source(url: &str, options: &OpenOptions) -> Result<Arc<dyn Source>> {
    Ok(Arc::new(crate::source::RemoteSource::open(url, &options.remote, &options.limits)?))
}

#[cfg(not(feature = "remote"))]
fn remote_source(url: &str, _options: &OpenOptions) -> Result<Arc<dyn Source>> {
    let name = crate::source::redacted(url).into();
    Err(Error::unsupported(&name, "files on other machines", "build with the feature `remote`"))
}

/// One level of an image: full size or an overview.
#[derive(Debug)]
pub struct Level {
    /// Its pixels.
    pub layout: Arc<Layout>,
    /// Its mask, where the file has one.
    pub mask: Option<Mask>,
    /// The file it stands in: the image itself or a sidecar.
    file: Arc<File>,
}

impl Level {
    /// Where its bytes are: the image itself or a sidecar.
    pub fn source(&self) -> &Arc<dyn Source> {
        self.file.head.source()
    }

    pub(crate) fn head(&self) -> &Head {
        &self.file.head
    }

    /// Offsets and byte counts of some tiles, as the file states them.
    pub fn stated_tiles(&self, tiles: std::ops::Range<u64>) -> Result<Vec<(u64, Option<u64>)>> {
        self.layout.index.stated(&self.file.head, tiles)
    }
}

/// The mask of a level.
#[derive(Debug)]
pub struct Mask {
    /// Its pixels.
    pub layout: Arc<Layout>,
    file: Arc<File>,
}

impl Mask {
    /// Where its bytes are: the image itself or a sidecar.
    pub fn source(&self) -> &Arc<dyn Source> {
        self.file.head.source()
    }

    pub(crate) fn head(&self) -> &Head {
        &self.file.head
    }
}

/// An open TIFF.
#[derive(Debug)]
pub struct Image {
    file: Arc<File>,
    directory: Directory,
    levels: Vec<Level>,
    pages: usize,
    page: usize,
    warnings: Vec<String>,
    /// The path, where files beside it count.
    beside: Option<Beside>,
    geo: OnceLock<Geo>,
    fill: OnceLock<Vec<u8>>,
    /// Behind all others: fields are dropped in their order.
    _closing: Closing,
}

impl Image {
    /// Opens a file by its path or address (`http(s)://`, `s3://`, `gs://`, `az://`); reads its header only.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        match address(path.as_ref()) {
            Address::Url(url) => Self::from_parts(remote_source(&url, options)?, None, options),
            Address::Path(path) => {
                let source = Arc::new(FileSource::open(&path)?);
                let beside = (options.sidecars && options.page == 0).then(|| Beside::new(&path));
                Self::from_parts(source, beside, options)
            }
        }
    }

    /// Opens any source; sidecars are not looked for.
    pub fn from_source(source: Arc<dyn Source>, options: &OpenOptions) -> Result<Self> {
        Self::from_parts(source, None, options)
    }

    fn from_parts(source: Arc<dyn Source>, beside: Option<Beside>, options: &OpenOptions) -> Result<Self> {
        let mut file = File::open(source, &options.limits)?;
        let roles: Vec<Role> = file.chain.iter().map(|d| file.role(d)).collect();
        // The first directory is an image whatever it says of itself.
        let pages: Vec<usize> = (0..roles.len()).filter(|&i| i == 0 || !(roles[i].reduced || roles[i].mask)).collect();
        let Some(&first) = pages.get(options.page) else {
            let have = format!("{} pages", pages.len());
            return Err(Error::out_of_bounds(file.head.name(), format!("page {}", options.page), have));
        };
        let end = pages.get(options.page + 1).copied().unwrap_or(file.chain.len());
        let directory = file.chain[first].clone();
        let mut parts: Vec<Directory> = file.chain[first + 1..end].to_vec();
        parts.extend(file.children(&directory)?);
        let main = file.layout(&directory)?;
        let file = Arc::new(file);
        let mut image = Self {
            levels: vec![Level { layout: Arc::new(main), mask: None, file: file.clone() }],
            directory,
            pages: pages.len(),
            page: options.page,
            warnings: file.warnings.clone(),
            file,
            beside,
            geo: OnceLock::new(),
            fill: OnceLock::new(),
            _closing: Closing,
        };
        image.adopt(&image.file.clone(), &parts, false, false);
        image.adopt_beside(&options.limits);
        Ok(image)
    }

    /// Takes overviews and masks from files beside the image, where it has none itself.
    fn adopt_beside(&mut self, limits: &Limits) {
        let Some(beside) = &self.beside else { return };
        let overviews = beside.overviews(&mut self.warnings);
        let masks = beside.masks(&mut self.warnings);
        if self.levels.len() == 1 {
            self.adopt_file(overviews, limits, false);
        }
        if self.levels[0].mask.is_none() {
            self.adopt_file(masks, limits, true);
        }
    }

    fn adopt_file(&mut self, source: Option<FileSource>, limits: &Limits, masks: bool) {
        let Some(source) = source else { return };
        let name = source.name().clone();
        match File::open(Arc::new(source), limits) {
            Ok(file) => {
                self.warnings.extend(file.warnings.iter().map(|w| format!("{name}: {w}")));
                let file = Arc::new(file);
                self.adopt(&file, &file.chain, !masks, masks);
            }
            Err(error) => self.warnings.push(error.to_string()),
        }
    }

    /// Takes overviews and masks from a list of directories. What does not fit is passed over with a warning.
    fn adopt(&mut self, file: &Arc<File>, parts: &[Directory], all_overviews: bool, all_masks: bool) {
        for directory in parts {
            let role = file.role(directory);
            let (mask, overview) = (role.mask || all_masks, role.reduced || all_overviews);
            if !(mask || overview) {
                continue;
            }
            // Each keeps its own tables in memory.
            let held = self.levels.iter().map(|level| 1 + usize::from(level.mask.is_some())).sum::<usize>();
            if held > file.head.limits().levels {
                self.warnings.push(format!("more than {held} overviews and masks: the rest is passed over"));
                break;
            }
            match file.layout(directory) {
                Ok(layout) if mask => self.adopt_mask(file, layout),
                Ok(layout) => self.adopt_overview(file, layout),
                Err(error) => self.warnings.push(format!("overview at byte {}: {error}", directory.offset)),
            }
        }
    }

    fn adopt_overview(&mut self, file: &Arc<File>, layout: Layout) {
        let main = &self.levels[0].layout;
        if (layout.bands, layout.dtype()) == (main.bands, main.dtype()) {
            self.levels.push(Level { layout: Arc::new(layout), mask: None, file: file.clone() });
        } else {
            let what = format!("an overview with {} bands of {} is passed over", layout.bands, layout.dtype());
            self.warnings.push(what);
        }
    }

    fn adopt_mask(&mut self, file: &Arc<File>, layout: Layout) {
        let size = (layout.width, layout.height);
        let mask = Mask { layout: Arc::new(layout), file: file.clone() };
        let fits = |level: &&mut Level| (level.layout.width, level.layout.height) == size && level.mask.is_none();
        match self.levels.iter_mut().find(fits) {
            Some(level) => level.mask = Some(mask),
            None => self.warnings.push(format!("a mask of {size:?} fits no level")),
        }
    }

    /// Path, URL or `<memory>`.
    pub fn name(&self) -> &Arc<str> {
        self.file.head.name()
    }

    /// The bytes of the file itself.
    pub fn source(&self) -> &Arc<dyn Source> {
        self.file.head.source()
    }

    pub(crate) fn head(&self) -> &Head {
        &self.file.head
    }

    /// All directories of the chain, in order.
    pub(crate) fn directories(&self) -> &[Directory] {
        &self.file.chain
    }

    /// Names of the files beside the image that belong to it.
    pub fn sidecars(&self) -> Vec<String> {
        let parts = self.levels.iter().flat_map(|level| {
            let mask = level.mask.as_ref().map(Mask::source);
            [Some(level.source()), mask].into_iter().flatten()
        });
        let mut names: Vec<String> =
            parts.map(|source| source.name().to_string()).filter(|name| **name != **self.name()).collect();
        names.dedup();
        if let Some(beside) = &self.beside {
            let placed =
                [tag::MODEL_TIEPOINT, tag::MODEL_TRANSFORMATION].iter().any(|&t| self.directory.get(t).is_some());
            names.extend(beside.text_names(!placed));
        }
        names
    }

    /// Byte order, BigTIFF, first directory.
    pub fn header(&self) -> &Header {
        &self.file.header
    }

    /// Full size first, then the overviews as the file orders them.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// A level.
    pub fn level(&self, level: usize) -> Result<&Level> {
        self.levels.get(level).ok_or_else(|| {
            let have = format!("levels 0 to {}", self.levels.len() - 1);
            Error::out_of_bounds(self.name(), format!("level {level}"), have)
        })
    }

    /// The smallest level that is as large or as fine as is wanted; the full size where none is.
    pub fn level_for(&self, wanted: Wanted) -> usize {
        let sizes: Vec<(u32, u32)> = self.levels.iter().map(|l| (l.layout.width, l.layout.height)).collect();
        let pixel = match wanted {
            Wanted::Size(_) => None,
            // Along rows and columns, however they lie.
            Wanted::Resolution(_) => self.geo().transform.map(|[a, b, _, d, e, _]| (a.hypot(d), b.hypot(e))),
        };
        level_for(&sizes, pixel, wanted)
    }

    /// Images in the file.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Which of them this is.
    pub fn page(&self) -> usize {
        self.page
    }

    /// Bands, rows and columns at full size.
    pub fn shape(&self) -> [usize; 3] {
        let layout = &self.levels[0].layout;
        [usize::from(layout.bands), layout.height as usize, layout.width as usize]
    }

    /// Type of a pixel value.
    pub fn dtype(&self) -> DType {
        self.levels[0].layout.dtype()
    }

    /// What was wrong with the file and passed over.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The directory of this page, as written.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The value of a tag of this page.
    pub fn tag(&self, tag: u16) -> Result<Option<Array>> {
        self.directory.array(&self.file.head, tag)
    }

    /// The directory that a tag of this page points to (EXIF, GPS), with its values. Values that can't be read are left
    /// out.
    pub fn nested(&self, tag: u16) -> Result<Vec<(u16, Array)>> {
        let head = &self.file.head;
        let Some(offset) = self.directory.number(head, tag)? else { return Ok(Vec::new()) };
        let directory = Directory::read(head, &self.file.header, offset)?;
        let value = |entry: &Entry| Some((entry.tag, directory.values(head, entry, 0..entry.count).ok()?));
        Ok(directory.entries.iter().filter_map(value).collect())
    }

    /// Where the image lies and what its values mean; read when it is asked for the first time.
    pub fn geo(&self) -> &Geo {
        self.geo.get_or_init(|| {
            let mut warnings = Vec::new();
            let tags = self.readable_geo_tags(&mut warnings);
            let sidecars = match &self.beside {
                Some(beside) => beside.texts(self.file.head.limits(), &mut warnings),
                None => geo::Sidecars::default(),
            };
            let mut geo = Geo::new(&tags, &sidecars, self.shape()[0], self.dtype());
            geo.warnings.splice(0..0, warnings);
            geo
        })
    }

    /// The georeferencing tags as written; those that can't be read are left out.
    pub fn geo_tags(&self) -> GeoTags {
        self.readable_geo_tags(&mut Vec::new())
    }

    /// The georeferencing tags as written. One that can't be read is a warning: the pixels still can.
    fn readable_geo_tags(&self, warnings: &mut Vec<String>) -> GeoTags {
        let mut array = |tag: u16| match self.tag(tag) {
            Ok(array) => array,
            Err(error) => {
                warnings.push(error.to_string());
                None
            }
        };
        let mut floats = |tag| array(tag).map(|a| a.floats()).unwrap_or_default();
        let pixel_scale = floats(tag::MODEL_PIXEL_SCALE);
        let tiepoints = floats(tag::MODEL_TIEPOINT);
        let transformation = floats(tag::MODEL_TRANSFORMATION);
        let double_params = floats(tag::GEO_DOUBLE_PARAMS);
        let rpc = floats(tag::RPC_COEFFICIENTS);
        let keys = array(tag::GEO_KEY_DIRECTORY).filter(|a| a.kind == FieldType::Short);
        GeoTags {
            pixel_scale,
            tiepoints,
            transformation,
            key_directory: keys
                .and_then(|a| a.unsigned())
                .map(|keys| keys.into_iter().map(|k| k as u16).collect())
                .unwrap_or_default(),
            double_params,
            ascii_params: array(tag::GEO_ASCII_PARAMS).map(|a| a.bytes).unwrap_or_default(),
            gdal_metadata: array(tag::GDAL_METADATA).map(|a| a.text()),
            gdal_nodata: array(tag::GDAL_NODATA).map(|a| a.text()),
            rpc,
        }
    }

    /// Red, green and blue of each value of a palette image.
    pub fn colour_map(&self) -> Result<Option<Vec<[u16; 3]>>> {
        let Some(map) = self.directory.numbers(&self.file.head, tag::COLOR_MAP)? else { return Ok(None) };
        let n = map.len() / 3;
        let value = |i: usize| map[i].min(u64::from(u16::MAX)) as u16;
        Ok(Some((0..n).map(|i| [value(i), value(n + i), value(2 * n + i)]).collect()))
    }

    /// Bands, rows and columns that a window gives, without looking for its tiles.
    pub fn plan_shape(&self, window: &Window) -> Result<[usize; 3]> {
        window.shape(self.name(), &self.level(window.level)?.layout)
    }

    /// What must happen to read a window.
    pub fn plan(&self, window: &Window) -> Result<ReadPlan> {
        let level = self.level(window.level)?;
        self.plan_of(&level.file, &level.layout, window, self.fill().to_vec()).or_else(|error| {
            // Where the file changed, what its tile arrays say is no news.
            level.file.head.source().unchanged()?;
            Err(error)
        })
    }

    /// The same for a window that may hang over the edges of the image; `pad`, one value, stands where it does.
    pub fn plan_framed(&self, frame: &Frame, pad: &[u8]) -> Result<ReadPlan> {
        let level = self.level(frame.level)?;
        let (head, layout) = (&level.file.head, &level.layout);
        if pad.len() != layout.dtype().size() {
            let what = format!("a pad of {} bytes for values of type {}", pad.len(), layout.dtype());
            return Err(Error::invalid(head.name(), what));
        }
        let bands = frame.bands.as_ref().map_or(usize::from(layout.bands), Vec::len);
        self.check_output(&level.file, layout, [bands, frame.height as usize, frame.width as usize])?;
        let (fill, pad) = (self.fill().to_vec(), pad.to_vec());
        let locate = layout.index.locator(head, layout, frame.level);
        ReadPlan::framed(head.name(), layout, frame, fill, pad, locate)
    }

    /// Refuses what no codec reads and what is more than limits allow, before a plan is made: that of an image no memory
    /// can hold may itself be more than memory holds.
    fn check_output(&self, file: &File, layout: &Layout, shape: [usize; 3]) -> Result<()> {
        if layout.codec.compression().is_empty() {
            let feature = format!("compression {}", layout.format.compression);
            let hint = "convert the file with the program that wrote it";
            return Err(Error::unsupported(file.head.name(), feature, hint));
        }
        let asked = shape.iter().fold(layout.dtype().size() as u64, |bytes, &n| bytes.saturating_mul(n as u64));
        let allowed = file.head.limits().output_bytes;
        if asked > allowed {
            return Err(Error::limit(file.head.name(), "bytes of pixels in one read", asked, allowed));
        }
        Ok(())
    }

    fn plan_of(&self, file: &File, layout: &Arc<Layout>, window: &Window, fill: Vec<u8>) -> Result<ReadPlan> {
        self.check_output(file, layout, window.shape(file.head.name(), layout)?)?;
        let locate = layout.index.locator(&file.head, layout, window.level);
        ReadPlan::new(file.head.name(), layout, window, fill, locate)
    }

    /// What stands in tiles that are not in the file: nodata where the tag says so, else 0.
    /// All levels have one type, so it is worked out once and not for every window.
    fn fill(&self) -> &[u8] {
        self.fill.get_or_init(|| {
            let dtype = self.dtype();
            let text = self.directory.text(&self.file.head, tag::GDAL_NODATA).ok().flatten();
            text.and_then(|text| geo::parse_nodata(&text, dtype))
                .and_then(|nodata| nodata.bytes(dtype))
                .unwrap_or_else(|| vec![0; dtype.size()])
        })
    }

    /// Reads a window on the CPU.
    pub fn read(&self, window: &Window) -> Result<Tensor> {
        self.read_on(&Cpu::shared()?, window)
    }

    /// Reads a window on some backend.
    pub fn read_on(&self, backend: &dyn Backend, window: &Window) -> Result<Tensor> {
        self.read_with(backend, window, &ReadOptions::default())
    }

    /// The same with options.
    pub fn read_with(&self, backend: &dyn Backend, window: &Window, options: &ReadOptions) -> Result<Tensor> {
        let plan = self.plan(window)?;
        let source = &**self.levels[window.level].file.head.source();
        Ok(backend.read(&[ReadJob { source, plan: &plan }], options)?.only())
    }

    /// Reads a window into memory of the caller, which has just its size, on the CPU.
    pub fn read_into(&self, window: &Window, out: &mut [u8]) -> Result<Report> {
        let plan = self.plan(window)?;
        let source = &**self.levels[window.level].file.head.source();
        Cpu::shared()?.read_into(&[ReadJob { source, plan: &plan }], Destination::Host(out), &ReadOptions::default())
    }
}
