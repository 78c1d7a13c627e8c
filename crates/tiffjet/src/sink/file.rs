//! A local file that is the old one or the whole new one, whatever happens.
//!
//! Bytes go to a file beside the destination whose name tells what it is, and take its name when they are all on the
//! disk. The writer holds a lock on it: one without a lock was left by a process that was killed, and the next write
//! to the same destination removes it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::mapped::Mapped;
use super::{Patches, Sink};
use crate::error::{Error, Result};

/// How the name of a file ends that is not yet whole.
const SUFFIX: &str = ".tiffjet-part";
/// Tiles that are smaller share a system call.
const BUFFER: usize = 64 << 10;

/// A local file that appears when it is whole.
#[derive(Debug)]
pub struct FileSink {
    name: Arc<str>,
    target: PathBuf,
    directory: PathBuf,
    part: PathBuf,
    file: Arc<File>,
    /// The last bytes of it, which are still here.
    buffer: Vec<u8>,
    /// Where the next byte goes, behind all that were written.
    end: u64,
    mapped: Option<Mapped>,
    committed: bool,
}

impl FileSink {
    /// Begins a file that will stand at `path`. What stands there now stays until the new one is whole.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let name: Arc<str> = path.to_string_lossy().into();
        Self::begin(&name, path).map_err(|e| Error::io(&name, e))
    }

    fn begin(name: &Arc<str>, path: &Path) -> std::io::Result<Self> {
        // A link stays one: the file it points to is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let old = fs::metadata(&target).ok();
        if let Some(old) = &old
            && !old.is_file()
        {
            let kind = if old.is_dir() { std::io::ErrorKind::IsADirectory } else { std::io::ErrorKind::InvalidInput };
            return Err(kind.into());
        }
        let base = target.file_name().ok_or(std::io::ErrorKind::InvalidInput)?.to_owned();
        let directory = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        remove_stale(&directory, &base);
        let (part, file) = create_locked(&directory, &base)?;
        let file = Arc::new(file);
        let sink = Self {
            name: name.clone(),
            target,
            directory,
            part,
            mapped: Mapped::new(&file),
            file,
            buffer: Vec::new(),
            end: 0,
            committed: false,
        };
        if let Some(old) = old {
            sink.file.set_permissions(old.permissions())?;
        }
        Ok(sink)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.write_all_at(&self.buffer, self.end - self.buffer.len() as u64)?;
        self.buffer.clear();
        Ok(())
    }

    fn add(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.flush()?;
        }
        if bytes.len() >= BUFFER {
            self.file.write_all_at(bytes, self.end)?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn put(&mut self, at: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.flush()?;
        self.file.write_all_at(bytes, at)?;
        self.end = self.end.max(at + bytes.len() as u64);
        Ok(())
    }

    /// By many threads, where they can; or not at all.
    fn fill(&mut self, pieces: &[(u64, &[u8])]) -> std::io::Result<bool> {
        let Some(mapped) = &mut self.mapped else { return Ok(false) };
        if !mapped.fill(pieces)? {
            return Ok(false);
        }
        let ends = pieces.iter().map(|(at, bytes)| at + bytes.len() as u64);
        let end = ends.max().unwrap_or(0);
        // What waits in the buffer stands before the end.
        if end > self.end {
            self.flush()?;
            self.end = end;
        }
        Ok(true)
    }

    fn add_all(&mut self, parts: &[&[u8]]) -> std::io::Result<()> {
        let mut at = self.end;
        let pieces: Vec<(u64, &[u8])> = parts
            .iter()
            .map(|part| {
                at += part.len() as u64;
                (at - part.len() as u64, *part)
            })
            .collect();
        if self.fill(&pieces)? { Ok(()) } else { parts.iter().try_for_each(|part| self.add(part)) }
    }

    fn put_all(&mut self, pieces: &[(u64, &[u8])]) -> std::io::Result<()> {
        if self.fill(pieces)? { Ok(()) } else { pieces.iter().try_for_each(|(at, bytes)| self.put(*at, bytes)) }
    }

    fn copy_from(&mut self, from: &mut File, range: Range<u64>) -> std::io::Result<()> {
        self.flush()?;
        from.seek(SeekFrom::Start(range.start))?;
        (&*self.file).seek(SeekFrom::Start(self.end))?;
        // From file to file the kernel copies by itself.
        let length = range.end - range.start;
        let copied = std::io::copy(&mut Read::by_ref(from).take(length), &mut &*self.file)?;
        self.end += copied;
        if copied == length { Ok(()) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
    }

    fn publish(&mut self) -> std::io::Result<()> {
        use std::io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
        self.flush()?;
        if self.mapped.take().is_some() {
            self.file.set_len(self.end)?;
        }
        self.file.sync_all()?;
        fs::rename(&self.part, &self.target)?;
        self.committed = true;
        // The name is on the disk when its directory is. Not every directory can be opened or synced: then the file
        // is there all the same.
        match File::open(&self.directory).and_then(|directory| directory.sync_all()) {
            Err(e) if matches!(e.kind(), PermissionDenied | InvalidInput | Unsupported) => Ok(()),
            result => result,
        }
    }
}

impl Sink for FileSink {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all(&[bytes])
    }

    fn write_all(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.add_all(parts).map_err(|e| Error::io(&self.name, e))
    }

    fn copy(&mut self, file: &mut File, range: Range<u64>) -> Result<()> {
        self.copy_from(file, range).map_err(|e| Error::io(&self.name, e))
    }

    fn patches(&self) -> Patches {
        Patches::Anywhere
    }

    fn patch(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.patch_all(&[(at, bytes)])
    }

    fn patch_all(&mut self, pieces: &[(u64, &[u8])]) -> Result<()> {
        self.put_all(pieces).map_err(|e| Error::io(&self.name, e))
    }

    fn is_mapped(&self) -> bool {
        self.mapped.is_some()
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.directory)
    }

    fn commit(mut self: Box<Self>) -> Result<()> {
        let name = self.name.clone();
        self.publish().map_err(|e| Error::io(&name, e))
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        if !self.committed {
            let _ = fs::remove_file(&self.part);
        }
    }
}

/// The part of a target's name that stands in that of its part: there is room for the rest.
fn stem(base: &OsStr) -> &[u8] {
    let bytes = base.as_bytes();
    &bytes[..bytes.len().min(180)]
}

/// `.NAME.PID-RANDOM.tiffjet-part`: hidden, and next to its target in every listing.
fn part_name(base: &OsStr, number: u64) -> OsString {
    let mut name = OsString::from(".");
    name.push(OsStr::from_bytes(stem(base)));
    name.push(format!(".{}-{number:016x}{SUFFIX}", std::process::id()));
    name
}

/// Whether a name is [`part_name`] of a target.
fn is_part_of(name: &OsStr, base: &OsStr) -> bool {
    let middle = name
        .as_bytes()
        .strip_prefix(b".")
        .and_then(|n| n.strip_prefix(stem(base)))
        .and_then(|n| n.strip_prefix(b"."))
        .and_then(|n| n.strip_suffix(SUFFIX.as_bytes()));
    let Some((pid, random)) = middle.and_then(|m| std::str::from_utf8(m).ok()).and_then(|m| m.split_once('-')) else {
        return false;
    };
    pid.parse::<u32>().is_ok() && random.len() == 16 && random.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Creates a file that no other process takes for a stale one.
fn create_locked(directory: &Path, base: &OsStr) -> std::io::Result<(PathBuf, File)> {
    loop {
        let part = directory.join(part_name(base, RandomState::new().hash_one(base)));
        let file = match OpenOptions::new().read(true).write(true).create_new(true).open(&part) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(e),
        };
        // Between the two lines another process may have taken it for stale: then it is gone, or held.
        match file.try_lock() {
            Ok(()) if file.metadata()?.nlink() > 0 => return Ok((part, file)),
            Ok(()) | Err(TryLockError::WouldBlock) => continue,
            // Where there are no locks nobody can tell a stale file, and nobody removes one.
            Err(TryLockError::Error(_)) => return Ok((part, file)),
        }
    }
}

/// Removes what killed processes left of the same target. Failing to is no reason not to write.
fn remove_stale(directory: &Path, base: &OsStr) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten().filter(|entry| is_part_of(&entry.file_name(), base)) {
        let path = entry.path();
        if let Ok(file) = File::open(&path)
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_old_file_stays_until_the_new_one_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tif");
        fs::write(&path, "old").unwrap();
        let mut sink = FileSink::create(&path).unwrap();
        sink.write(b"n.w").unwrap();
        sink.patch(1, b"e").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        Box::new(sink).commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["a.tif"]);
    }

    #[test]
    fn many_threads_write_what_one_does() {
        let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
        let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap());
        let pixels: Vec<u8> = (0..3_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let files = [false, true].map(|mapped| {
            let path = dir.path().join(format!("{mapped}.tif"));
            let mut sink = FileSink::create(&path).unwrap();
            sink.mapped = Mapped::with(&sink.file, &pool).filter(|_| mapped);
            sink.write(b"head").unwrap();
            sink.write_all(&[&pixels[..700_000], b"", &pixels[..9]]).unwrap();
            sink.write(&pixels[5..70_000]).unwrap();
            sink.write_all(&[&pixels[1..1_000_000], &pixels[2..1_000_000]]).unwrap();
            sink.patch_all(&[(100, &pixels[3..600_000]), (9_000_000, &pixels)]).unwrap();
            sink.write(b"tail").unwrap();
            sink.patch(1, b"a").unwrap();
            Box::new(sink).commit().unwrap();
            fs::read(path).unwrap()
        });
        assert!(files[0] == files[1] && files[0].ends_with(b"tail"));
        assert_eq!(files[1].len(), 12_000_004);
    }

    #[test]
    fn the_longest_names_have_parts_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x".repeat(255));
        let sink = FileSink::create(&path).unwrap();
        assert!(is_part_of(sink.part.file_name().unwrap(), path.file_name().unwrap()));
        Box::new(sink).commit().unwrap();
        assert!(path.exists());
    }

    #[test]
    fn dropped_it_leaves_no_trace() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tif");
        drop(FileSink::create(&path).unwrap());
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn stale_parts_go_and_held_ones_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tif");
        let held = FileSink::create(&path).unwrap();
        let stale = ".a.tif.4294967294-0123456789abcdef.tiffjet-part";
        let others = [".b.tif.1-0123456789abcdef.tiffjet-part", ".a.tif.x-0123456789abcdef.tiffjet-part", ".a.tif"];
        for name in others.iter().chain([&stale]) {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let second = FileSink::create(&path).unwrap();
        let left = names(dir.path());
        assert!(held.part.exists() && second.part.exists());
        assert!(!left.iter().any(|n| n == stale));
        assert!(others.iter().all(|o| left.iter().any(|n| n == o)));
    }

    #[test]
    fn a_link_stays_a_link_and_permissions_stay() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("a.tif"), dir.path().join("link.tif"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut sink = FileSink::create(&link).unwrap();
        sink.write(b"new").unwrap();
        Box::new(sink).commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(FileSink::create(dir.path()).is_err());
        assert!(FileSink::create("/dev/null").is_err());
    }
}
