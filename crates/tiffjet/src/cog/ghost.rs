//! The ghost area: text between the header and the first directory in which a writer declares the order of the file.

use crate::error::Result;
use crate::tiff::{Head, Header};

const START: &str = "GDAL_STRUCTURAL_METADATA_SIZE=";
const END: &str = " bytes\n";
/// Digits of the size between `START` and `END`.
const DIGITS: usize = 6;

/// What a writer declares of the order of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ghost {
    /// Where the text starts in the file.
    pub offset: u64,
    /// Where it ends.
    pub end: u64,
    items: Vec<(String, String)>,
}

impl Ghost {
    /// Reads the ghost area; `None` where the file has none.
    pub fn read(head: &Head, header: &Header) -> Result<Option<Self>> {
        let offset = header.size();
        let lead = (START.len() + DIGITS + END.len()) as u64;
        if head.length() < offset + lead {
            return Ok(None);
        }
        let Some(size) = parse_lead(&head.bytes(offset, lead, "ghost area")?) else { return Ok(None) };
        let text = head.bytes(offset + lead, size, "ghost area")?;
        let items = String::from_utf8_lossy(&text)
            .lines()
            .filter_map(|line| line.trim_matches(['\0', ' ']).split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        Ok(Some(Self { offset, end: offset + lead + size, items }))
    }

    /// The value of an item.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.items.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// Keys and values in the order of the file.
    pub fn items(&self) -> &[(String, String)] {
        &self.items
    }

    fn says(&self, key: &str, value: &str) -> bool {
        self.get(key) == Some(value)
    }

    /// All directories stand before all pixels.
    pub fn directories_first(&self) -> bool {
        self.says("LAYOUT", "IFDS_BEFORE_DATA")
    }

    /// The tiles of a level stand in order of rows, then columns.
    pub fn row_major(&self) -> bool {
        self.says("BLOCK_ORDER", "ROW_MAJOR")
    }

    /// The size of a tile stands in the four bytes before it.
    pub fn leaders(&self) -> bool {
        self.says("BLOCK_LEADER", "SIZE_AS_UINT4")
    }

    /// The last four bytes of a tile are repeated behind it.
    pub fn trailers(&self) -> bool {
        self.says("BLOCK_TRAILER", "LAST_4_BYTES_REPEATED")
    }

    /// Each tile of the mask follows the tile it masks.
    pub fn interleaved_masks(&self) -> bool {
        self.says("MASK_INTERLEAVED_WITH_IMAGERY", "YES")
    }

    /// The file was changed later by a program that did not keep its order.
    pub fn broken(&self) -> bool {
        self.says("KNOWN_INCOMPATIBLE_EDITION", "YES")
    }
}

/// The size of the text that the first line names.
fn parse_lead(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let digits = text.strip_prefix(START)?.strip_suffix(END)?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_a_size_of_six_digits() {
        assert_eq!(parse_lead(b"GDAL_STRUCTURAL_METADATA_SIZE=000140 bytes\n"), Some(140));
        assert_eq!(parse_lead(b"GDAL_STRUCTURAL_METADATA_SIZE=+00140 bytes\n"), None);
        assert_eq!(parse_lead(b"GDAL_STRUCTURAL_METADATA_SIZE=000140 octets"), None);
    }
}
