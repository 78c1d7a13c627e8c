//! What a verb leaves behind: text on standard output, files that are whole or not there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffjet::Error;

/// Writes to standard output. A reader that has gone away wants no more: that is no error.
pub fn print(text: &str) -> tiffjet::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::io(&"<stdout>".into(), error)),
        _ => Ok(()),
    }
}

/// A file that appears under its name when it is complete, and never before.
pub struct NewFile {
    file: File,
    target: PathBuf,
    /// Where it is written; `None` where the target is a device or a pipe, which is written as it is.
    temporary: Option<PathBuf>,
}

impl NewFile {
    pub fn create(path: &Path) -> tiffjet::Result<Self> {
        Self::try_create(path).map_err(|error| failed(path, error))
    }

    fn try_create(path: &Path) -> io::Result<Self> {
        // What a link points to is replaced, not the link.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&target).is_ok_and(|meta| !meta.is_file()) {
            let file = OpenOptions::new().write(true).open(&target)?;
            return Ok(Self { file, target, temporary: None });
        }
        let name = target.file_name().ok_or(ErrorKind::InvalidFilename)?.to_string_lossy().into_owned();
        let id = std::process::id();
        for attempt in 0..1000 {
            let temporary = target.with_file_name(format!(".{name}.{id}-{attempt}.tiffjet-tmp"));
            match OpenOptions::new().read(true).write(true).create_new(true).open(&temporary) {
                Ok(file) => return Ok(Self { file, target, temporary: Some(temporary) }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// The file, to be written.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// An error of writing it, with its name.
    pub fn failed(&self, error: io::Error) -> Error {
        failed(&self.target, error)
    }

    /// Gives it its name.
    pub fn finish(mut self) -> tiffjet::Result<()> {
        let Some(temporary) = self.temporary.take() else { return Ok(()) };
        let done = self.file.sync_all().and_then(|()| fs::rename(&temporary, &self.target));
        done.map_err(|error| {
            // The rename did not happen; the error that stopped it is the one to tell.
            let _ = fs::remove_file(&temporary);
            self.failed(error)
        })
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // The verb has failed already; what is left of it is only in the way.
            let _ = fs::remove_file(temporary);
        }
    }
}

fn failed(path: &Path, error: io::Error) -> Error {
    Error::io(&Arc::from(path.to_string_lossy()), error)
}
