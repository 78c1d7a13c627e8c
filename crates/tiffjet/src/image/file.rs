//! The directories of a file, nothing of them interpreted yet.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::limits::Limits;
use crate::source::Source;
use crate::tiff::{Directory, Head, Header, tag};

/// A TIFF file with its directories, nothing of it interpreted yet.
pub(super) struct File {
    pub(super) head: Head,
    pub(super) header: Header,
    /// All directories of the chain, in order.
    pub(super) chain: Vec<Directory>,
    /// What was passed over.
    pub(super) warnings: Vec<String>,
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("name", self.head.name()).finish_non_exhaustive()
    }
}

/// What a directory is for (NewSubfileType, or the older SubfileType).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) reduced: bool,
    pub(super) mask: bool,
}

impl File {
    pub(super) fn open(source: Arc<dyn Source>, limits: &Limits) -> Result<Self> {
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
        let mut length = 0u64;
        let mut offset = self.header.first;
        while offset != 0 || self.chain.is_empty() {
            if !seen.insert(offset) {
                self.warnings.push(format!("the chain of directories returns to byte {offset}"));
                break;
            }
            self.check_directories(seen.len())?;
            match Directory::read(&self.head, &self.header, offset) {
                Ok(directory) => {
                    // Directories that overlap could make a small file claim any amount of memory.
                    length = length.saturating_add(directory.length());
                    if length > self.head.length() {
                        self.warnings.push("the directories overlap: the rest of them is passed over".into());
                        break;
                    }
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

    fn check_directories(&self, asked: usize) -> Result<()> {
        let allowed = self.head.limits().directories;
        if asked > allowed {
            return Err(Error::limit(self.head.name(), "directories", asked as u64, allowed as u64));
        }
        Ok(())
    }

    pub(super) fn layout(&self, directory: &Directory) -> Result<Layout> {
        Layout::new(&self.head, &self.header, directory)
    }

    pub(super) fn role(&self, directory: &Directory) -> Role {
        let number = |tag| directory.number(&self.head, tag).ok().flatten();
        match (number(tag::NEW_SUBFILE_TYPE), number(tag::SUBFILE_TYPE)) {
            (Some(bits), _) => Role { reduced: bits & 1 != 0, mask: bits & 4 != 0 },
            (None, kind) => Role { reduced: kind == Some(2), mask: false },
        }
    }

    /// Directories that SubIFDs names. They may begin chains, but readers agree to take the first of each.
    pub(super) fn children(&mut self, directory: &Directory) -> Result<Vec<Directory>> {
        let most = self.head.limits().directories as u64 + 1;
        let offsets = match directory.first_numbers(&self.head, tag::SUB_IFDS, most) {
            Ok(offsets) => offsets.unwrap_or_default(),
            Err(error) => {
                self.warnings.push(format!("SubIFDs: {error}"));
                return Ok(Vec::new());
            }
        };
        let mut seen: HashSet<u64> = self.chain.iter().map(|d| d.offset).collect();
        let mut children = Vec::new();
        for offset in offsets.into_iter().filter(|&o| o != 0) {
            if !seen.insert(offset) {
                self.warnings.push(format!("SubIFDs names the directory at byte {offset} again"));
                continue;
            }
            self.check_directories(seen.len())?;
            match Directory::read(&self.head, &self.header, offset) {
                Ok(child) => children.push(child),
                Err(error) => self.warnings.push(format!("SubIFDs: {error}")),
            }
        }
        Ok(children)
    }
}
