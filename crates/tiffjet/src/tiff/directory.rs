//! One image file directory as written: its entries, values read on request.

use crate::error::{Error, Result};

use super::value::{Array, FieldType, unsigned};
use super::{Head, Header, tag};

/// Where the bytes of a value stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the entry itself, at this offset in the file.
    Inline(u64, [u8; 8]),
    /// Elsewhere in the file.
    At(u64),
}

/// One field of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Which field.
    pub tag: u16,
    /// Type of its values.
    pub kind: FieldType,
    /// How many values.
    pub count: u64,
    /// Where they stand.
    pub place: Place,
}

impl Entry {
    /// Bytes of all values; saturates, so that every check against a real length fails.
    pub fn length(&self) -> u64 {
        self.count.saturating_mul(self.kind.size() as u64)
    }

    /// Offset of the first value in the file.
    pub fn offset(&self) -> u64 {
        match self.place {
            Place::Inline(at, _) | Place::At(at) => at,
        }
    }
}

/// One IFD as written.
#[derive(Debug, Clone)]
pub struct Directory {
    /// Where it stands in the file.
    pub offset: u64,
    /// Offset of the next one in the chain, 0 at the end.
    pub next: u64,
    /// What it holds, by tag; of a tag that stands twice the first.
    pub entries: Vec<Entry>,
    length: u64,
    header: Header,
}

impl Directory {
    /// Reads the directory at an offset, not the values outside it.
    pub fn read(head: &Head, header: &Header, offset: u64) -> Result<Self> {
        let width = if header.big { 8 } else { 2 };
        let count = head.bytes(offset, width, "directory")?;
        let count = if header.big {
            header.number(&count).unwrap_or(0)
        } else {
            u64::from(header.order.u16([count[0], count[1]]))
        };
        if count == 0 {
            return Err(Error::malformed(head.name(), offset, "a directory without entries"));
        }
        if count > head.limits().fields {
            return Err(Error::limit(head.name(), "fields of a directory", count, head.limits().fields));
        }
        let body = count
            .checked_mul(header.entry() as u64)
            .ok_or_else(|| Error::malformed(head.name(), offset, format!("a directory of {count} entries")))?;
        let start = offset + width;
        let bytes = head.bytes(start, body, "directory")?;
        // Some writers cut the file right behind the last entry: then there is no next directory.
        let end = start + body;
        let next = match head.bytes(end, header.word() as u64, "next directory") {
            Ok(bytes) => header.number(&bytes).unwrap_or(0),
            Err(_) => 0,
        };
        let mut entries: Vec<Entry> = bytes
            .chunks_exact(header.entry())
            .enumerate()
            .filter_map(|(i, b)| entry(header, b, start + (i * header.entry()) as u64))
            .collect();
        entries.sort_by_key(|e| e.tag);
        entries.dedup_by_key(|e| e.tag);
        entries.shrink_to_fit();
        Ok(Self { offset, next, entries, length: end - offset, header: *header })
    }

    /// The header of its file.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Bytes it takes in the file, without the values outside it.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The entry of a tag.
    pub fn get(&self, tag: u16) -> Option<&Entry> {
        self.entries.binary_search_by_key(&tag, |e| e.tag).ok().map(|i| &self.entries[i])
    }

    /// The values of an entry, or part of them.
    pub fn values(&self, head: &Head, entry: &Entry, elements: std::ops::Range<u64>) -> Result<Array> {
        let what = || format!("value of tag {} ({})", entry.tag, tag::name(entry.tag));
        let size = entry.kind.size() as u64;
        let bytes = match entry.place {
            Place::Inline(_, bytes) => bytes[..(entry.length() as usize).min(8)]
                [(elements.start * size) as usize..(elements.end * size) as usize]
                .to_vec(),
            Place::At(at) => {
                let overflow = || Error::malformed(head.name(), at, format!("{} is too long", what()));
                let offset = elements.start.checked_mul(size).and_then(|o| at.checked_add(o)).ok_or_else(overflow)?;
                let length = (elements.end - elements.start).checked_mul(size).ok_or_else(overflow)?;
                head.bytes(offset, length, &what())?
            }
        };
        Ok(Array { kind: entry.kind, order: self.header.order, bytes })
    }

    /// All values of a tag, `None` when it is absent.
    pub fn array(&self, head: &Head, tag: u16) -> Result<Option<Array>> {
        self.get(tag).map(|e| self.values(head, e, 0..e.count)).transpose()
    }

    /// All values of a tag as unsigned integers.
    pub fn numbers(&self, head: &Head, tag: u16) -> Result<Option<Vec<u64>>> {
        self.first_numbers(head, tag, u64::MAX)
    }

    /// The same, but no more than the first `most`: all that counts, whatever the file claims to have.
    pub fn first_numbers(&self, head: &Head, tag: u16, most: u64) -> Result<Option<Vec<u64>>> {
        let Some(entry) = self.get(tag) else { return Ok(None) };
        let array = self.values(head, entry, 0..entry.count.min(most))?;
        match array.unsigned() {
            Some(numbers) => Ok(Some(numbers)),
            None => Err(self.wrong_type(head, tag)),
        }
    }

    /// The first value of a tag as an unsigned integer, without reading the others.
    pub fn number(&self, head: &Head, tag: u16) -> Result<Option<u64>> {
        let Some(entry) = self.get(tag).filter(|e| e.count > 0) else { return Ok(None) };
        let array = self.values(head, entry, 0..1)?;
        match unsigned(array.kind, array.order, &array.bytes) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong_type(head, tag)),
        }
    }

    /// All values of a tag as floating point.
    pub fn floats(&self, head: &Head, tag: u16) -> Result<Option<Vec<f64>>> {
        Ok(self.array(head, tag)?.map(|a| a.floats()))
    }

    /// The value of a tag as text.
    pub fn text(&self, head: &Head, tag: u16) -> Result<Option<String>> {
        Ok(self.array(head, tag)?.map(|a| a.text()))
    }

    fn wrong_type(&self, head: &Head, tag: u16) -> Error {
        let offset = self.get(tag).map_or(self.offset, Entry::offset);
        Error::malformed(head.name(), offset, format!("tag {tag} ({}) must hold unsigned integers", tag::name(tag)))
    }
}

/// Entries of a type nobody knows are passed over, as the specification asks.
fn entry(header: &Header, b: &[u8], at: u64) -> Option<Entry> {
    let tag = header.order.u16([b[0], b[1]]);
    let kind = FieldType::from_code(header.order.u16([b[2], b[3]]))?;
    let count = header.number(&b[4..])?;
    let word = header.word();
    let value = &b[4 + word..];
    let place = if count <= (word / kind.size()) as u64 {
        let mut inline = [0; 8];
        inline[..word].copy_from_slice(&value[..word]);
        Place::Inline(at + 4 + word as u64, inline)
    } else {
        Place::At(header.number(value)?)
    };
    Some(Entry { tag, kind, count, place })
}
