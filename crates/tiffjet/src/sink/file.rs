//! A local file that is the old one or the whole new one, whatever happens.
//!
//! Bytes go to a file beside the destination whose name tells what it is, and take its name when they are all on the
//! disk. The writer holds a lock on it: one without a lock was left by a process that was killed, and the next write
//! to the same destination removes it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{BufWriter, ErrorKind, IoSlice, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::mapped::{self, Mapped, Room};
use super::{Patches, Sink};
use crate::error::{Error, Result};

/// How the name of a file ends that is not yet whole.
const SUFFIX: &str = ".tiffjet-part";
/// Tiles that are smaller share a system call.
const BUFFER: usize = 64 << 10;
/// How `statfs` names a file system in memory.
const TMPFS: u64 = 0x0102_1994;
/// Bytes of a file that takes longer to free, or to find pages for, than a thread to start.
const LARGE: u64 = 4 << 20;

/// A local file that appears when it is whole.
#[derive(Debug)]
pub struct FileSink {
    name: Arc<str>,
    target: PathBuf,
    directory: PathBuf,
    part: PathBuf,
    file: BufWriter<File>,
    /// Bytes so far, those of the buffer among them.
    length: u64,
    /// Whether it is memory itself.
    in_memory: bool,
    /// Whether room can be had in it, as far as is known.
    gives_room: bool,
    /// Room ahead of what is written, where somebody has said how much will come.
    room: Option<Room>,
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
        let in_memory = rustix::fs::fstatfs(&file).is_ok_and(|system| system.f_type as u64 == TMPFS);
        let mut sink = Self {
            name: name.clone(),
            target,
            directory,
            part,
            file: BufWriter::with_capacity(BUFFER, file),
            length: 0,
            in_memory,
            gives_room: in_memory,
            room: None,
            committed: false,
        };
        if let Some(old) = old {
            sink.file.get_mut().set_permissions(old.permissions())?;
        }
        Ok(sink)
    }

    /// Goes on without room: the file is as long as what was written to it.
    fn leave_room(&mut self) -> std::io::Result<Option<Mapped>> {
        let Some(room) = self.room.take() else { return Ok(None) };
        let mapped = room.end();
        self.file.get_ref().set_len(self.length)?;
        Ok(mapped)
    }

    fn publish(&mut self) -> std::io::Result<()> {
        use std::io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
        self.file.flush()?;
        let mapped = self.leave_room()?;
        self.file.get_ref().sync_all()?;
        let old = File::open(&self.target).ok();
        fs::rename(&self.part, &self.target)?;
        self.committed = true;
        let_go(old, mapped);
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
        if self.room.is_some() && bytes.len() >= mapped::LEAST {
            return self.write_all(&[bytes]);
        }
        self.file.write_all(bytes).map_err(|e| Error::io(&self.name, e))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn write_all(&mut self, parts: &[&[u8]]) -> Result<()> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        if total < BUFFER {
            return parts.iter().try_for_each(|part| self.write(part));
        }
        let mut write = || {
            self.file.flush()?;
            if let Some(room) = self.room.as_mut().filter(|_| total >= mapped::LEAST) {
                if room.write(self.file.get_ref(), self.length, parts) {
                    return self.file.get_mut().seek(SeekFrom::Start(self.length + total as u64)).map(drop);
                }
                // What is in the way, a plain write says; it begins where the last one ended.
                drop(self.leave_room()?);
                self.gives_room = false;
            }
            write_parts(self.file.get_mut(), parts)
        };
        write().map_err(|e| Error::io(&self.name, e))?;
        self.length += total as u64;
        Ok(())
    }

    fn is_memory(&self) -> bool {
        self.in_memory
    }

    fn hurry(&mut self, bytes: u64) {
        if self.gives_room && self.room.is_none() {
            self.room = Room::new();
            self.gives_room = self.room.is_some();
        }
        if let Some(room) = self.room.as_mut().filter(|_| bytes >= LARGE) {
            room.expect(self.file.get_ref(), bytes);
        }
    }

    fn copy(&mut self, file: &mut File, range: Range<u64>) -> Result<()> {
        let length = range.end - range.start;
        let mut run = || -> std::io::Result<u64> {
            self.file.flush()?;
            file.seek(SeekFrom::Start(range.start))?;
            // From file to file the kernel copies by itself.
            std::io::copy(&mut Read::by_ref(file).take(length), self.file.get_mut())
        };
        match run() {
            Ok(copied) if copied == length => {
                self.length += length;
                Ok(())
            }
            Ok(_) => Err(Error::io(&self.name, std::io::ErrorKind::UnexpectedEof.into())),
            Err(e) => Err(Error::io(&self.name, e)),
        }
    }

    fn patches(&self) -> Patches {
        Patches::Anywhere
    }

    fn patch(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let write = |file: &mut BufWriter<File>| {
            file.flush()?;
            file.get_ref().write_all_at(bytes, at)
        };
        write(&mut self.file).map_err(|e| Error::io(&self.name, e))
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

/// Writes parts one after the other, many with one call.
fn write_parts(file: &mut File, parts: &[&[u8]]) -> std::io::Result<()> {
    let mut all: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut left = &mut all[..];
    // Those without bytes, so that a write of nothing means what it says.
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        match file.write_vectored(left) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut left, written),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// The last who holds a file that has no name any more frees its pages, which takes a while for a large one, and so does
/// taking a mapping away: nobody waits for that.
fn let_go(old: Option<File>, mapped: Option<Mapped>) {
    if mapped.is_some() || old.as_ref().is_some_and(|old| old.metadata().is_ok_and(|old| old.len() >= LARGE)) {
        // Without a thread it is done here.
        let _ = std::thread::Builder::new().name("tiffjet-free".into()).spawn(move || drop((old, mapped)));
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
    fn parts_come_one_after_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tif");
        let pixels: Vec<u8> = (0..300_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let mut sink = FileSink::create(&path).unwrap();
        sink.write(b"head").unwrap();
        // More parts than one call takes, and some without bytes.
        let mut parts: Vec<&[u8]> = pixels.chunks(100).flat_map(|part| [part, b""]).collect();
        parts.insert(0, b"");
        sink.write_all(&parts).unwrap();
        sink.write_all(&[b"ta", b"il"]).unwrap();
        sink.write_all(&[]).unwrap();
        Box::new(sink).commit().unwrap();
        assert!(fs::read(&path).unwrap() == [b"head", &pixels[..], b"tail"].concat());
    }

    #[test]
    fn a_file_in_memory_has_room_ahead_and_none_at_the_end() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("a.tif");
        let pixels: Vec<u8> = (0..30_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for expected in [1, 5 << 20, 20 << 20, 300 << 20] {
            let mut sink = FileSink::create(&path).unwrap();
            assert!(sink.is_memory());
            sink.write(b"head").unwrap();
            sink.hurry(expected);
            assert!(sink.room.is_some());
            // Small ones, large ones, and many together.
            for (i, part) in pixels.chunks(3_000_000).enumerate() {
                match i % 3 {
                    0 => part.chunks(50_000).for_each(|small| sink.write(small).unwrap()),
                    1 => sink.write(part).unwrap(),
                    _ => sink.write_all(&part.chunks(70_001).collect::<Vec<_>>()).unwrap(),
                }
                sink.hurry(expected.min(25 << 20));
            }
            sink.patch(0, b"HEAD").unwrap();
            Box::new(sink).commit().unwrap();
            assert!(fs::read(&path).unwrap() == [b"HEAD", &pixels[..]].concat(), "{expected}");
        }
        let mut given_up = FileSink::create(&path).unwrap();
        given_up.hurry(100 << 20);
        given_up.write(&pixels).unwrap();
        drop(given_up);
        assert_eq!(names(dir.path()), ["a.tif"]);
    }

    #[test]
    fn where_no_room_is_left_a_plain_write_goes_on() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("a.tif");
        let pixels = vec![7; 9 << 20];
        let mut sink = FileSink::create(&path).unwrap();
        sink.hurry(LARGE);
        sink.room.as_ref().unwrap().give_up();
        sink.write(&pixels).unwrap();
        assert!(sink.room.is_none() && !sink.gives_room);
        sink.hurry(100 << 20);
        sink.write(&pixels).unwrap();
        Box::new(sink).commit().unwrap();
        assert!(fs::read(&path).unwrap() == vec![7; 18 << 20]);
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
