//! The first bytes of a file.

use crate::dtype::ByteOrder;
use crate::error::{Error, Result};

use super::Head;

/// The first 8 (classic) or 16 (BigTIFF) bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// `II` or `MM`.
    pub order: ByteOrder,
    /// 64-bit offsets.
    pub big: bool,
    /// Offset of the first directory.
    pub first: u64,
}

impl Header {
    /// Bytes of the header itself.
    pub fn size(&self) -> u64 {
        if self.big { 16 } else { 8 }
    }

    /// Bytes of an offset.
    pub fn word(&self) -> usize {
        if self.big { 8 } else { 4 }
    }

    /// Bytes of one directory entry.
    pub fn entry(&self) -> usize {
        if self.big { 20 } else { 12 }
    }

    /// An offset or count of this file's width at the start of `bytes`.
    pub fn number(&self, bytes: &[u8]) -> Option<u64> {
        if self.big {
            Some(self.order.u64(bytes.get(..8)?.try_into().ok()?))
        } else {
            Some(u64::from(self.order.u32(bytes.get(..4)?.try_into().ok()?)))
        }
    }

    /// Reads and checks the header.
    pub fn read(head: &Head) -> Result<Self> {
        let bad = |at, what: &str| Error::malformed(head.name(), at, what);
        if head.length() < 8 {
            return Err(bad(0, "not a TIFF: shorter than 8 bytes"));
        }
        let b = head.bytes(0, 8, "header")?;
        let order = match &b[..2] {
            b"II" => ByteOrder::Little,
            b"MM" => ByteOrder::Big,
            _ => return Err(bad(0, "not a TIFF: it does not begin with II or MM")),
        };
        match order.u16([b[2], b[3]]) {
            42 => Ok(Self { order, big: false, first: u64::from(order.u32([b[4], b[5], b[6], b[7]])) }),
            43 => {
                if order.u16([b[4], b[5]]) != 8 || order.u16([b[6], b[7]]) != 0 {
                    return Err(bad(4, "a BigTIFF header must name 8-byte offsets"));
                }
                let b = head.bytes(8, 8, "BigTIFF header")?;
                let first = order.u64([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
                Ok(Self { order, big: true, first })
            }
            other => Err(bad(2, &format!("not a TIFF: version {other}, not 42 or 43"))),
        }
    }
}
