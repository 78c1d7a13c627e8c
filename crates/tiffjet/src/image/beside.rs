//! Files beside an image that belong to it: `.ovr`, `.msk`, `.aux.xml`, world files.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::error::Error;
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

    pub(super) fn overviews(&self, warnings: &mut Vec<String>) -> Option<FileSource> {
        self.source(".ovr", warnings)
    }

    pub(super) fn masks(&self, warnings: &mut Vec<String>) -> Option<FileSource> {
        self.source(".msk", warnings)
    }

    fn source(&self, suffix: &str, warnings: &mut Vec<String>) -> Option<FileSource> {
        let path = self.appended(suffix);
        match FileSource::open(&path) {
            Ok(source) => return Some(source),
            Err(Error::Io { source, .. }) if is_absent(&source) => {}
            Err(error) => warnings.push(format!("{}: {error}", path.display())),
        }
        None
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
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(limits.sidecar_bytes + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) if bytes.len() as u64 > limits.sidecar_bytes => {
            warnings.push(format!("{}: longer than {} bytes, passed over", path.display(), limits.sidecar_bytes));
            None
        }
        Ok(_) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if is_absent(&error) => None,
        Err(error) => {
            warnings.push(format!("{}: {error}", path.display()));
            None
        }
    }
}

/// Whether there is no such file. All else that keeps one from being opened the user should know.
fn is_absent(error: &io::Error) -> bool {
    // With the suffix behind it a name may be longer than any file's.
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of the files beside an image.
    fn said_of(image: &Path) -> Vec<String> {
        let (beside, mut warnings) = (Beside::new(image), Vec::new());
        assert!(beside.overviews(&mut warnings).is_none() && beside.masks(&mut warnings).is_none());
        assert!(beside.texts(&Limits::default(), &mut warnings).aux_xml.is_none());
        warnings
    }

    #[test]
    fn files_that_are_not_there_are_no_news() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), b"").unwrap();
        for absent in ["image.tif", "no/image.tif", "file/image.tif", &"x".repeat(255)] {
            assert_eq!(said_of(&folder.path().join(absent)), [""; 0], "{absent}");
        }
    }

    #[test]
    fn files_that_can_not_be_opened_are() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image.tif");
        for suffix in [".ovr", ".msk", ".aux.xml"] {
            // A link to itself can't be opened by anybody, whatever they may do.
            let link = Beside::new(&image).appended(suffix);
            std::os::unix::fs::symlink(&link, &link).unwrap();
        }
        let said = said_of(&image);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(
            [".ovr: ", ".msk: ", ".aux.xml: "].iter().zip(&said).all(|(name, said)| said.contains(name)),
            "{said:?}"
        );
    }
}
