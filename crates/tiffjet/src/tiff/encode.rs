//! The grammar the other way: fields, directories and the header as bytes.

use crate::dtype::ByteOrder;

use super::value::FieldType;
use super::{Header, tag};

/// A field to write: its values in native byte order, which is that of every file written here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Which field.
    pub tag: u16,
    /// Type of its values.
    pub kind: FieldType,
    /// The values, one after the other.
    pub bytes: Vec<u8>,
}

impl Field {
    /// Any values, native byte order.
    pub fn new(tag: u16, kind: FieldType, bytes: Vec<u8>) -> Self {
        Self { tag, kind, bytes }
    }

    /// 16-bit numbers.
    pub fn shorts(tag: u16, values: &[u16]) -> Self {
        Self::new(tag, FieldType::Short, values.iter().flat_map(|v| v.to_ne_bytes()).collect())
    }

    /// 32-bit numbers.
    pub fn longs(tag: u16, values: &[u32]) -> Self {
        Self::new(tag, FieldType::Long, values.iter().flat_map(|v| v.to_ne_bytes()).collect())
    }

    /// One number in the smallest type that holds it.
    pub fn number(tag: u16, value: u32) -> Self {
        match u16::try_from(value) {
            Ok(value) => Self::shorts(tag, &[value]),
            Err(_) => Self::longs(tag, &[value]),
        }
    }

    /// Floating point numbers.
    pub fn doubles(tag: u16, values: &[f64]) -> Self {
        Self::new(tag, FieldType::Double, values.iter().flat_map(|v| v.to_ne_bytes()).collect())
    }

    /// Numbers as fractions of whole ones.
    pub fn rationals(tag: u16, values: &[(u32, u32)]) -> Self {
        let bytes = values.iter().flat_map(|(n, d)| [n.to_ne_bytes(), d.to_ne_bytes()]).flatten().collect();
        Self::new(tag, FieldType::Rational, bytes)
    }

    /// Text, with the NUL that ends it.
    pub fn text(tag: u16, text: &str) -> Self {
        Self::new(tag, FieldType::Ascii, text.bytes().chain([0]).collect())
    }

    /// Offsets in the file: 32 bits, or 64 in a BigTIFF. `None` when one does not fit.
    pub fn offsets(tag: u16, values: &[u64], big: bool) -> Option<Self> {
        if big {
            return Some(Self::new(tag, FieldType::Long8, values.iter().flat_map(|v| v.to_ne_bytes()).collect()));
        }
        let values: Option<Vec<u32>> = values.iter().map(|&v| u32::try_from(v).ok()).collect();
        Some(Self::longs(tag, &values?))
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        (self.bytes.len() / self.kind.size()) as u64
    }

    /// Whether it tells where tiles stand: GDAL keeps these behind all directories, so that the rest of the
    /// directories comes with the first bytes of the file.
    fn is_tile_array(&self) -> bool {
        matches!(self.tag, tag::STRIP_OFFSETS | tag::STRIP_BYTE_COUNTS | tag::TILE_OFFSETS | tag::TILE_BYTE_COUNTS)
    }
}

/// A directory that a field of the first one points to: it has facts about the image, and no image of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nested {
    /// The field that points to it.
    pub tag: u16,
    /// What it holds, by tag.
    pub fields: Vec<Field>,
}

impl Header {
    /// The header of a file written here.
    pub fn native(big: bool, first: u64) -> Self {
        Self { order: ByteOrder::NATIVE, big, first }
    }

    /// The bytes of a native header. `None` when the offset does not fit.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let mut out = if cfg!(target_endian = "big") { b"MM".to_vec() } else { b"II".to_vec() };
        if self.big {
            for half in [43u16, 8, 0] {
                out.extend(half.to_ne_bytes());
            }
            out.extend(self.first.to_ne_bytes());
        } else {
            out.extend(42u16.to_ne_bytes());
            out.extend(u32::try_from(self.first).ok()?.to_ne_bytes());
        }
        Some(out)
    }
}

/// A chain of directories with all their values as it stands from the even offset `at` on, and those that the first of
/// them points to. Its length depends on the number of values alone, never on what they are. `None` when an offset does
/// not fit: the file must be a BigTIFF.
///
/// # Panics
/// When `at` is odd, or the fields of a directory are not in the order of their tags.
pub fn chain(mut directories: Vec<Vec<Field>>, nested: &[Nested], big: bool, at: u64) -> Option<Vec<u8>> {
    assert!(at.is_multiple_of(2), "a directory begins at an even offset");
    let chained = directories.len();
    if let Some(first) = directories.first_mut() {
        first.extend(nested.iter().filter_map(|n| Field::offsets(n.tag, &[0], big)));
        first.sort_by_key(|f| f.tag);
    }
    directories.extend(nested.iter().map(|n| n.fields.clone()));
    for fields in &directories {
        assert!(fields.is_sorted_by(|a, b| a.tag < b.tag), "fields ascend and none stands twice");
    }
    let mut placer = Placer { big, at, end: at };
    let mut starts = Vec::with_capacity(directories.len());
    let mut places: Vec<Vec<u64>> = Vec::with_capacity(directories.len());
    for fields in &directories {
        starts.push(placer.directory(fields));
        places.push(fields.iter().map(|f| if f.is_tile_array() { 0 } else { placer.value(f) }).collect());
    }
    for (fields, places) in directories.iter().zip(&mut places) {
        for (field, place) in fields.iter().zip(places).filter(|(f, _)| f.is_tile_array()) {
            *place = placer.value(field);
        }
    }
    let length = usize::try_from(placer.end - at).ok()?;
    if !big && u32::try_from(placer.end).is_err() {
        return None;
    }
    for (n, &start) in nested.iter().zip(&starts[chained..]) {
        if let Some(field) = directories[0].iter_mut().find(|f| f.tag == n.tag) {
            *field = Field::offsets(n.tag, &[start], big)?;
        }
    }
    let mut out = Block { big, at, bytes: vec![0; length] };
    for (i, fields) in directories.iter().enumerate() {
        let next = if i + 1 < chained { starts[i + 1] } else { 0 };
        out.directory(starts[i], fields, &places[i], next);
    }
    Some(out.bytes)
}

/// Gives places one after the other, all at even offsets.
struct Placer {
    big: bool,
    at: u64,
    end: u64,
}

impl Placer {
    fn take(&mut self, length: usize) -> u64 {
        let place = self.end;
        self.end += (length as u64).next_multiple_of(2);
        debug_assert!(place >= self.at);
        place
    }

    fn directory(&mut self, fields: &[Field]) -> u64 {
        let (count, entry, word) = sizes(self.big);
        self.take(count + fields.len() * entry + word)
    }

    /// 0 when the value stands in the entry.
    fn value(&mut self, field: &Field) -> u64 {
        let (_, _, word) = sizes(self.big);
        if field.bytes.len() <= word { 0 } else { self.take(field.bytes.len()) }
    }
}

/// Bytes of the number of entries, of an entry and of an offset.
fn sizes(big: bool) -> (usize, usize, usize) {
    if big { (8, 20, 8) } else { (2, 12, 4) }
}

/// Part of a file that is being filled.
struct Block {
    big: bool,
    at: u64,
    bytes: Vec<u8>,
}

impl Block {
    fn put(&mut self, place: u64, bytes: &[u8]) {
        let start = (place - self.at) as usize;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// A number of the width of offsets; the caller has seen that it fits.
    fn word(&self, value: u64) -> Vec<u8> {
        if self.big { value.to_ne_bytes().to_vec() } else { (value as u32).to_ne_bytes().to_vec() }
    }

    fn directory(&mut self, start: u64, fields: &[Field], places: &[u64], next: u64) {
        let (count, _, word) = sizes(self.big);
        let number = fields.len() as u64;
        let mut bytes = if self.big { number.to_ne_bytes().to_vec() } else { (number as u16).to_ne_bytes().to_vec() };
        debug_assert_eq!(bytes.len(), count);
        for (field, &place) in fields.iter().zip(places) {
            bytes.extend(field.tag.to_ne_bytes());
            bytes.extend((field.kind as u16).to_ne_bytes());
            bytes.extend(self.word(field.count()));
            if place == 0 {
                bytes.extend(&field.bytes);
                bytes.resize(bytes.len() + word - field.bytes.len(), 0);
            } else {
                bytes.extend(self.word(place));
                self.put(place, &field.bytes);
            }
        }
        bytes.extend(self.word(next));
        self.put(start, &bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::limits::Limits;
    use crate::source::MemorySource;
    use crate::tiff::{Directory, Head};

    fn fields(width: u32, offsets: &[u64], big: bool) -> Vec<Field> {
        vec![
            Field::number(tag::IMAGE_WIDTH, width),
            Field::text(tag::IMAGE_DESCRIPTION, "odd"),
            Field::text(tag::SOFTWARE, "a longer text"),
            Field::offsets(tag::TILE_OFFSETS, offsets, big).unwrap(),
            Field::doubles(tag::MODEL_PIXEL_SCALE, &[1.5, -2.0, 0.0]),
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        for big in [false, true] {
            let at = if big { 16 } else { 8 };
            let all = vec![fields(70_000, &[1, 2, 3], big), fields(35, &[9], big)];
            let nested =
                Nested { tag: tag::EXIF, fields: vec![Field::text(36864, "0230"), Field::shorts(40961, &[7])] };
            let mut file = Header::native(big, at).bytes().unwrap();
            file.extend(chain(all, &[nested], big, at).unwrap());
            let head = Head::new(Arc::new(MemorySource::new(file.clone())), Limits::default()).unwrap();
            let header = Header::read(&head).unwrap();
            assert_eq!(header, Header::native(big, at));
            let first = Directory::read(&head, &header, header.first).unwrap();
            assert_eq!(first.numbers(&head, tag::IMAGE_WIDTH).unwrap().unwrap(), [70_000]);
            assert_eq!(first.text(&head, tag::SOFTWARE).unwrap().unwrap(), "a longer text");
            assert_eq!(first.text(&head, tag::IMAGE_DESCRIPTION).unwrap().unwrap(), "odd");
            assert_eq!(first.numbers(&head, tag::TILE_OFFSETS).unwrap().unwrap(), [1, 2, 3]);
            assert_eq!(first.floats(&head, tag::MODEL_PIXEL_SCALE).unwrap().unwrap(), [1.5, -2.0, 0.0]);
            let second = Directory::read(&head, &header, first.next).unwrap();
            assert_eq!(second.numbers(&head, tag::TILE_OFFSETS).unwrap().unwrap(), [9]);
            assert_eq!(second.next, 0);
            let nested = first.numbers(&head, tag::EXIF).unwrap().unwrap()[0];
            let nested = Directory::read(&head, &header, nested).unwrap();
            assert_eq!(nested.text(&head, 36864).unwrap().unwrap(), "0230");
            assert_eq!(nested.numbers(&head, 40961).unwrap().unwrap(), [7]);
            assert_eq!(nested.next, 0);
            // The tile arrays come last.
            let array = first.get(tag::TILE_OFFSETS).unwrap().offset();
            assert_eq!(array + if big { 24 } else { 12 }, file.len() as u64);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Field::offsets(tag::TILE_OFFSETS, &[1 << 32], false).is_none());
        assert!(Header::native(false, 1 << 32).bytes().is_none());
        let all = vec![fields(1, &[1, 2], false)];
        assert!(chain(all, &[], false, u64::from(u32::MAX) - 9).is_none());
    }
}
