//! Memory that is kept.

/// Copies into memory that begins amid a page are less than half as fast on some processors.
pub const PAGE: usize = 4096;

/// One page-aligned allocation that grows and is never given back: pixels land in warm memory.
#[derive(Default)]
pub struct Buffer(Vec<u8>);

impl Buffer {
    /// `size` bytes from the start of a page, with what was left in them.
    pub fn bytes(&mut self, size: usize) -> &mut [u8] {
        if self.0.len() < size + PAGE {
            self.0 = vec![0; size + PAGE];
        }
        let skip = self.0.as_ptr().align_offset(PAGE);
        &mut self.0[skip..skip + size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_with_a_page_and_keeps_its_memory() {
        let mut buffer = Buffer::default();
        let first = buffer.bytes(100_000).as_ptr();
        assert_eq!(first.addr() % PAGE, 0);
        assert_eq!(buffer.bytes(50_000).as_ptr(), first);
        assert_eq!(buffer.bytes(50_000).len(), 50_000);
    }
}
