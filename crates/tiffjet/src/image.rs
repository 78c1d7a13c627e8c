//! An open file: its levels, masks and pages, and reading from them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::backend::{Backend, ReadJob};
use crate::cpu::Cpu;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::limits::Limits;
use crate::plan::{ReadPlan, Window};
use crate::source::{FileSource, Source};
use crate::tensor::{Report, Tensor};
use crate::tiff::{Array, Directory, Head, Header, tag};

/// How to open a file.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Which image of a file with several.
    pub page: usize,
    /// What the file may ask for.
    pub limits: Limits,
    /// Look for `.ovr`, `.msk`, `.aux.xml` and world files beside it.
    pub sidecars: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { page: 0, limits: Limits::default(), sidecars: true }
    }
}

/// Opens a local file; reads its header only.
pub fn open(path: impl AsRef<Path>) -> Result<Image> {
    Image::open(path, &OpenOptions::default())
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

/// The mask of a level.
#[derive(Debug)]
pub struct Mask {
    /// Its pixels.
    pub layout: Arc<Layout>,
    file: Arc<File>,
}

/// A TIFF file with its directories, nothing of it interpreted yet.
struct File {
    head: Head,
    header: Header,
    /// All directories of the chain, in order.
    chain: Vec<Directory>,
    /// What was passed over.
    warnings: Vec<String>,
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("name", self.head.name()).finish_non_exhaustive()
    }
}

/// What a directory is for (NewSubfileType, or the older SubfileType).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Role {
    reduced: bool,
    mask: bool,
}

impl File {
    fn open(source: Arc<dyn Source>, limits: &Limits) -> Result<Self> {
        let head = Head::new(source, limits.clone())?;
        let header = Header::read(&head)?;
        let mut file = Self { head, header, chain: Vec::new(), warnings: Vec::new() };
        file.follow()?;
        Ok(file)
    }

    /// Reads the chain of directories. Only the first must be there: a broken tail is a warning, not the loss of the
    /// image.
    fn follow(&mut self) -> Result<()> {
        let mut seen = HashSet::new();
        let mut offset = self.header.first;
        while offset != 0 || self.chain.is_empty() {
            if !seen.insert(offset) {
                self.warnings.push(format!("the chain of directories returns to byte {offset}"));
                break;
            }
            if seen.len() > self.head.limits().directories {
                let (asked, allowed) = (seen.len() as u64, self.head.limits().directories as u64);
                return Err(Error::limit(self.head.name(), "directories", asked, allowed));
            }
            match Directory::read(&self.head, &self.header, offset) {
                Ok(directory) => {
                    offset = directory.next;
                    self.chain.push(directory);
                }
                Err(error) if self.chain.is_empty() => return Err(error),
                Err(error) => {
                    self.warnings.push(format!("directory {}: {error}", self.chain.len()));
                    break;
                }
            }
        }
        Ok(())
    }

    fn layout(&self, directory: &Directory) -> Result<Layout> {
        Layout::new(&self.head, &self.header, directory)
    }

    fn role(&self, directory: &Directory) -> Role {
        let number = |tag| directory.number(&self.head, tag).ok().flatten();
        match (number(tag::NEW_SUBFILE_TYPE), number(tag::SUBFILE_TYPE)) {
            (Some(bits), _) => Role { reduced: bits & 1 != 0, mask: bits & 4 != 0 },
            (None, kind) => Role { reduced: kind == Some(2), mask: false },
        }
    }

    /// Directories that SubIFDs names. They may begin chains, but readers agree to take the first of each.
    fn children(&mut self, directory: &Directory) -> Vec<Directory> {
        let offsets = match directory.numbers(&self.head, tag::SUB_IFDS) {
            Ok(offsets) => offsets.unwrap_or_default(),
            Err(error) => {
                self.warnings.push(format!("SubIFDs: {error}"));
                return Vec::new();
            }
        };
        let mut seen: HashSet<u64> = self.chain.iter().map(|d| d.offset).collect();
        let mut children = Vec::new();
        for offset in offsets.into_iter().filter(|&o| o != 0) {
            if !seen.insert(offset) || children.len() >= self.head.limits().directories {
                self.warnings.push(format!("SubIFDs names the directory at byte {offset} again"));
                continue;
            }
            match Directory::read(&self.head, &self.header, offset) {
                Ok(child) => children.push(child),
                Err(error) => self.warnings.push(format!("SubIFDs: {error}")),
            }
        }
        children
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
    path: Option<PathBuf>,
}

impl Image {
    /// Opens a local file; reads its header only.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let path = path.as_ref();
        let source = Arc::new(FileSource::open(path)?);
        Self::from_parts(source, Some(path.to_owned()), options)
    }

    /// Opens any source; sidecars are not looked for.
    pub fn from_source(source: Arc<dyn Source>, options: &OpenOptions) -> Result<Self> {
        Self::from_parts(source, None, options)
    }

    fn from_parts(source: Arc<dyn Source>, path: Option<PathBuf>, options: &OpenOptions) -> Result<Self> {
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
        parts.extend(file.children(&directory));
        let main = file.layout(&directory)?;
        let file = Arc::new(file);
        let mut image = Self {
            levels: vec![Level { layout: Arc::new(main), mask: None, file: file.clone() }],
            directory,
            pages: pages.len(),
            page: options.page,
            warnings: file.warnings.clone(),
            file,
            path,
        };
        image.adopt(&image.file.clone(), &parts, false);
        Ok(image)
    }

    /// Takes overviews and masks from a list of directories. What does not fit is passed over with a warning.
    fn adopt(&mut self, file: &Arc<File>, parts: &[Directory], external: bool) {
        for directory in parts {
            let role = file.role(directory);
            if !(role.reduced || role.mask || external) {
                continue;
            }
            match file.layout(directory) {
                Ok(layout) if role.mask => self.adopt_mask(file, layout),
                Ok(layout) => self.adopt_overview(file, layout),
                Err(error) => self.warnings.push(format!("overview at byte {}: {error}", directory.offset)),
            }
        }
    }

    fn adopt_overview(&mut self, file: &Arc<File>, layout: Layout) {
        let main = &self.levels[0].layout;
        if layout.bands == main.bands {
            self.levels.push(Level { layout: Arc::new(layout), mask: None, file: file.clone() });
        } else {
            self.warnings.push(format!("an overview with {} bands is passed over", layout.bands));
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

    /// Bands, rows and columns that a window gives, without looking for its tiles.
    pub fn plan_shape(&self, window: &Window) -> Result<[usize; 3]> {
        window.shape(self.name(), &self.level(window.level)?.layout)
    }

    /// What must happen to read a window.
    pub fn plan(&self, window: &Window) -> Result<ReadPlan> {
        let level = self.level(window.level)?;
        self.plan_of(&level.file, &level.layout, window)
    }

    fn plan_of(&self, file: &File, layout: &Arc<Layout>, window: &Window) -> Result<ReadPlan> {
        if layout.codec.compression().is_empty() {
            let feature = format!("compression {}", layout.format.compression);
            return Err(Error::unsupported(self.name(), feature, "convert the file with the program that wrote it"));
        }
        let fill = vec![0; layout.dtype().size()];
        let plan = ReadPlan::new(file.head.name(), layout, window, fill, |tile| {
            layout.index.locate(&file.head, layout, tile)
        })?;
        let asked = plan.output_bytes().map_or(u64::MAX, |n| n as u64);
        let allowed = file.head.limits().output_bytes;
        if asked > allowed {
            return Err(Error::limit(self.name(), "bytes of pixels in one read", asked, allowed));
        }
        Ok(plan)
    }

    /// Reads a window on the CPU.
    pub fn read(&self, window: &Window) -> Result<Tensor> {
        self.read_on(&Cpu::shared()?, window)
    }

    /// Reads a window on some backend.
    pub fn read_on(&self, backend: &dyn Backend, window: &Window) -> Result<Tensor> {
        let plan = self.plan(window)?;
        let source = &**self.levels[window.level].file.head.source();
        backend.read(&ReadJob { source, plan: &plan })
    }

    /// Reads a window into memory of the caller, which has just its size, on the CPU.
    pub fn read_into(&self, window: &Window, out: &mut [u8]) -> Result<Report> {
        let plan = self.plan(window)?;
        let source = &**self.levels[window.level].file.head.source();
        Cpu::shared()?.read_into(&ReadJob { source, plan: &plan }, out)
    }
}
