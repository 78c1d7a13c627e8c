//! The output buffer, shared by the threads that fill it.

#![allow(unsafe_code)] // threads write disjoint rectangles of one buffer

use std::marker::PhantomData;

use rustix::mm::{Advice, madvise};

/// Pages of this size, or of a multiple that advice is then refused for.
const PAGE: usize = 4096;

/// A (band, y, x) buffer that several threads write at once, each its own tiles.
pub(super) struct Canvas<'a> {
    address: *mut u8,
    bands: usize,
    height: usize,
    width: usize,
    size: usize,
    buffer: PhantomData<&'a mut [u8]>,
}

// SAFETY: `span` is the only access to the buffer, and its contract keeps all slices that live at once apart.
unsafe impl Sync for Canvas<'_> {}

impl<'a> Canvas<'a> {
    /// A canvas over a buffer of exactly the size of the shape.
    pub(super) fn new(buffer: &'a mut [u8], shape: [usize; 3], size: usize) -> Self {
        let [bands, height, width] = shape;
        assert_eq!(buffer.len(), bands * height * width * size, "the buffer must have the size of the window");
        Self { address: buffer.as_mut_ptr(), bands, height, width, size, buffer: PhantomData }
    }

    /// Bytes of the buffer.
    pub(super) fn length(&self) -> usize {
        self.bands * self.height * self.width * self.size
    }

    /// Has the system find the memory now that it otherwise finds page by page as pixels come. What is in it stays.
    pub(super) fn populate(&self) {
        let before = self.address.addr().next_multiple_of(PAGE) - self.address.addr();
        let Some(length) = self.length().checked_sub(before).map(|length| length / PAGE * PAGE) else { return };
        // SAFETY: whole pages of the buffer, which outlives `self`. They are made writable, which they are, and no byte of
        // them is changed, so it does not matter who writes them meanwhile; a refusal only costs speed.
        let _ = unsafe { madvise(self.address.wrapping_add(before).cast(), length, Advice::LinuxPopulateWrite) };
    }

    /// Columns of the canvas.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// `n` values from (y, x) of a band, running on into the next rows.
    ///
    /// # Safety
    /// No two slices that live at once may overlap, be they of one thread or of several.
    #[allow(clippy::mut_from_ref)] // that is the point: see the contract
    pub(super) unsafe fn span(&self, band: usize, y: usize, x: usize, n: usize) -> &mut [u8] {
        let start = (band * self.height + y) * self.width + x;
        assert!(
            band < self.bands
                && y < self.height
                && x < self.width
                && start + n <= self.bands * self.height * self.width,
            "a tile must stay inside the window"
        );
        // SAFETY: the assertion keeps it inside the buffer, which outlives `self`; the caller keeps slices apart.
        unsafe { std::slice::from_raw_parts_mut(self.address.add(start * self.size), n * self.size) }
    }
}
