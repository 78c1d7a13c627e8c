//! Files beside an image that belong to it: `.ovr`, `.msk`, `.aux.xml`, world files.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::geo::Sidecars;
use crate::limits::Limits;
use crate::source::FileSource;

/// Where to look.
#[derive(Debug)]
pub(super) struct Beside {
    path: PathBuf,
}

impl Beside {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// `image.tif` with something behind it.
    fn appended(&self, suffix: &str) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(suffix);
        name.into()
    }

    pub(super) fn overviews(&self) -> Option<FileSource> {
        FileSource::open(self.appended(".ovr")).ok()
    }

    pub(super) fn masks(&self) -> Option<FileSource> {
        FileSource::open(self.appended(".msk")).ok()
    }

    /// The texts that say where the image lies.
    pub(super) fn texts(&self, limits: &Limits, warnings: &mut Vec<String>) -> Sidecars {
        let aux_xml = text(&self.appended(".aux.xml"), limits, warnings);
        let world_file = self.world_files().into_iter().find_map(|path| text(&path, limits, warnings));
        Sidecars { aux_xml, world_file }
    }

    /// Names of the texts that are there; world files where they can count.
    pub(super) fn text_names(&self, world: bool) -> Vec<String> {
        let aux = Some(self.appended(".aux.xml")).filter(|path| path.is_file());
        let world = self.world_files().into_iter().find(|path| world && path.is_file());
        [aux, world].into_iter().flatten().map(|path| path.to_string_lossy().into_owned()).collect()
    }

    /// `image.tfw` (first and last letter of the extension and a w), `image.tifw`, `image.wld`.
    fn world_files(&self) -> Vec<PathBuf> {
        let extension = self.path.extension().and_then(|e| e.to_str()).unwrap_or("tif");
        let ends: Option<String> =
            extension.chars().next().zip(extension.chars().last()).map(|(a, b)| format!("{a}{b}w"));
        [ends, Some(format!("{extension}w")), Some("wld".to_owned())]
            .into_iter()
            .flatten()
            .flat_map(|e| [e.clone(), e.to_uppercase()])
            .map(|e| self.path.with_extension(e))
            .collect()
    }
}

/// The text of a small file; `None` when there is none.
fn text(path: &Path, limits: &Limits, warnings: &mut Vec<String>) -> Option<String> {
    let file = fs::File::open(path).ok()?;
    let mut bytes = Vec::new();
    match file.take(limits.sidecar_bytes + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 > limits.sidecar_bytes => {
            warnings.push(format!("{}: longer than {} bytes, passed over", path.display(), limits.sidecar_bytes));
            None
        }
        Ok(_) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => {
            warnings.push(format!("{}: {error}", path.display()));
            None
        }
    }
}
