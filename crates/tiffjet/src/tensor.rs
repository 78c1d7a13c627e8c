//! Pixels with their shape, type and place, and what it took to get them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::dtype::DType;
use crate::error::{Error, Result};

/// Where pixels live, in the numbers of DLPack: device type 1 is the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    /// DLPack's device type.
    pub kind: i32,
    /// Which one of that kind.
    pub id: i32,
}

impl Device {
    /// Host memory.
    pub const HOST: Self = Self { kind: 1, id: 0 };
}

/// Memory of a device that a caller lends, for the result of a read or with rows to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMemory {
    device: Device,
    address: usize,
    length: usize,
    stream: usize,
}

impl DeviceMemory {
    /// Names memory that a backend will use.
    ///
    /// # Safety
    /// `length` bytes from `address` must be memory of the device until the call that it is given to returns. Nobody else
    /// uses it meanwhile, where it is the place of pixels, or changes it, where it holds them; but for work already
    /// submitted to `stream` (a handle of the device's driver, 0 for the default one), which is waited for.
    #[allow(unsafe_code)] // a promise only the caller can keep
    pub unsafe fn new(device: Device, address: usize, length: usize, stream: usize) -> Self {
        Self { device, address, length, stream }
    }

    /// Numbers that nobody follows.
    #[cfg(test)]
    pub(crate) fn made_up(device: Device, address: usize, length: usize) -> Self {
        Self { device, address, length, stream: 0 }
    }

    /// Where it is.
    pub fn device(&self) -> Device {
        self.device
    }

    /// First byte.
    pub fn address(&self) -> usize {
        self.address
    }

    /// Length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// What must be done before it is used.
    pub fn stream(&self) -> usize {
        self.stream
    }
}

/// Memory that holds pixels.
pub trait Storage: Send + Sync {
    /// First byte.
    fn address(&self) -> usize;
    /// Length in bytes.
    fn length(&self) -> usize;
    /// Where it is.
    fn device(&self) -> Device;
    /// The bytes, where the host can see them.
    fn host(&self) -> Option<&[u8]>;

    /// Makes work that is submitted to a stream of the device (a handle of its driver) after this call wait until the
    /// pixels are there.
    fn ready_for(&self, stream: usize) -> Result<()> {
        let _ = stream;
        Ok(())
    }

    /// A copy of the bytes in memory of the host.
    fn to_host(&self, out: &mut [u8]) -> Result<()> {
        match self.host() {
            Some(bytes) if bytes.len() == out.len() => {
                out.copy_from_slice(bytes);
                Ok(())
            }
            _ => Err(Error::invalid(&"".into(), "this memory cannot be copied to the host as asked")),
        }
    }
}

/// Pixels: axes (band, y, x), or (n, band, y, x) for several windows; contiguous.
#[derive(Clone)]
pub struct Tensor {
    /// How many windows, when several were asked for at once.
    pub windows: Option<usize>,
    /// Bands, rows, columns of a window.
    pub shape: [usize; 3],
    /// Type of a value.
    pub dtype: DType,
    /// What it took to get them.
    pub report: Report,
    storage: Arc<dyn Storage>,
}

impl Tensor {
    /// Pixels in some memory, which has just the bytes the shape needs.
    pub fn new(shape: [usize; 3], dtype: DType, storage: Arc<dyn Storage>, report: Report) -> Self {
        debug_assert_eq!(shape.iter().product::<usize>() * dtype.size(), storage.length());
        Self { windows: None, shape, dtype, report, storage }
    }

    /// The pixels of `n` windows of one shape, one after the other.
    pub fn many(n: usize, shape: [usize; 3], dtype: DType, storage: Arc<dyn Storage>, report: Report) -> Self {
        debug_assert_eq!(n * shape.iter().product::<usize>() * dtype.size(), storage.length());
        Self { windows: Some(n), shape, dtype, report, storage }
    }

    /// The same pixels without the axis of windows, where there is one window.
    pub fn only(self) -> Self {
        Self { windows: self.windows.filter(|&n| n != 1), ..self }
    }

    /// Sizes of all axes.
    pub fn dims(&self) -> Vec<usize> {
        self.windows.into_iter().chain(self.shape).collect()
    }

    /// The memory.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Where it is.
    pub fn device(&self) -> Device {
        self.storage.device()
    }

    /// Native-order bytes of all pixels; `None` when they are on a device.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.storage.host()
    }

    /// Its memory, when that is on a device. Whoever made the pixels has waited for them.
    pub(crate) fn device_memory(&self) -> Option<DeviceMemory> {
        let (device, address, length) = (self.device(), self.storage.address(), self.storage.length());
        (device != Device::HOST).then_some(DeviceMemory { device, address, length, stream: 0 })
    }

    /// Native-order bytes of one band.
    pub fn band(&self, band: usize) -> Option<&[u8]> {
        let size = self.shape[1] * self.shape[2] * self.dtype.size();
        self.bytes()?.get(band * size..(band + 1) * size)
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("shape", &self.dims())
            .field("dtype", &self.dtype)
            .field("device", &self.device())
            .field("report", &self.report)
            .finish()
    }
}

/// What really happened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Tiles decoded or encoded, a part of an uncompressed tile counting as one.
    pub tiles: usize,
    /// Tiles of them that were decoded before, and copied from a cache.
    pub cached: usize,
    /// Tiles that are not in the file: filled by a read, left out by a write.
    pub sparse: usize,
    /// Bytes read from the source, or of the pixels that were written.
    pub bytes_read: u64,
    /// Bytes of pixels given, or of the tiles that they became.
    pub bytes_out: u64,
    /// Seconds from the plan to the last pixel.
    pub seconds: f64,
    /// How many tiles went which way, where there are several: codec and place.
    pub routes: Vec<(String, usize)>,
    /// What was decoded by another route than asked, and why.
    pub fallbacks: Vec<String>,
    /// Windows that could not be read and were filled, by their place in the list, and why.
    pub failures: Vec<(usize, String)>,
    /// The most memory of a device that a write had at once, in bytes.
    pub device_memory: u64,
    /// The most memory of the host that a write kept rows and tiles in at once, in bytes.
    pub host_memory: u64,
}

impl Report {
    /// Adds what another worker did.
    pub(crate) fn add(&mut self, other: &Self) {
        self.tiles += other.tiles;
        self.cached += other.cached;
        self.sparse += other.sparse;
        self.bytes_read += other.bytes_read;
        self.bytes_out += other.bytes_out;
    }
}

/// Pixels in host memory that returns to a pool when the last owner is gone.
pub struct HostBuffer {
    memory: Option<Memory>,
    length: usize,
}

impl HostBuffer {
    /// Takes `length` bytes, initialised but of any content. `None` when the system has no more.
    pub fn take(length: usize) -> Option<Self> {
        Some(Self { memory: Some(Memory::take(length)?), length })
    }

    /// The same memory for `length` bytes, where it has as many.
    pub(crate) fn fit(mut self, length: usize) -> Option<Self> {
        let fits = self.memory.as_ref().is_some_and(|memory| length <= memory.bytes().len());
        self.length = if fits { length } else { self.length };
        fits.then_some(self)
    }

    /// Takes memory that goes back to the system and to no pool.
    pub(crate) fn take_own(length: usize) -> Option<Self> {
        Some(Self { memory: Some(Memory::take_own(length)?), length })
    }

    /// Takes several at once, side by side in memory that returns to the pool when the last of them is gone.
    pub fn take_parts(lengths: &[usize]) -> Option<Vec<Self>> {
        let parts = Memory::take_parts(lengths)?;
        Some(std::iter::zip(parts, lengths).map(|(part, &length)| Self { memory: Some(part), length }).collect())
    }

    /// The bytes, to be filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Some(memory) => &mut memory.bytes_mut()[..self.length],
            None => &mut [],
        }
    }
}

impl AsMut<[u8]> for HostBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self.bytes_mut()
    }
}

impl Storage for HostBuffer {
    fn address(&self) -> usize {
        self.host().map_or(0, |b| b.as_ptr() as usize)
    }

    fn length(&self) -> usize {
        self.length
    }

    fn device(&self) -> Device {
        Device::HOST
    }

    fn host(&self) -> Option<&[u8]> {
        self.memory.as_ref().map(|m| &m.bytes()[..self.length])
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            memory.give_back();
        }
    }
}

use memory::Memory;

/// Page-aligned memory straight from the system, kept for the next read.
///
/// Copies into memory that is not page-aligned run at half the speed or less, and a fresh page costs as much as
/// decoding it: a program that reads in a loop pays for its pages once.
mod memory {
    #![allow(unsafe_code)] // maps anonymous memory and gives it back

    use super::{Arc, Mutex, PoisonError};
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    /// Smaller buffers are left to the allocator.
    const SMALL: usize = 1 << 20;
    /// Bytes of a huge page.
    const HUGE: usize = 2 << 20;
    /// Bytes kept for later reads, and in how many pieces: those of a program that reads in a loop are of few sizes, and
    /// of others there is no end.
    const KEPT: usize = 512 << 20;
    const PIECES: usize = 16;

    static POOL: Mutex<Vec<Mapping>> = Mutex::new(Vec::new());

    pub(super) enum Memory {
        Small(Vec<u8>),
        Large(Mapping),
        Own(Mapping),
        Part(Part),
    }

    /// A part of a mapping that nobody else has.
    pub(super) struct Part {
        whole: Arc<Shared>,
        at: usize,
        length: usize,
    }

    /// A mapping whose parts have owners.
    struct Shared(Option<Mapping>);

    impl Part {
        fn address(&self) -> *mut u8 {
            let start = self.whole.0.as_ref().map_or(std::ptr::NonNull::dangling().as_ptr(), |m| m.address);
            // `take_parts` laid it out inside the mapping.
            start.wrapping_add(self.at)
        }
    }

    impl Drop for Shared {
        fn drop(&mut self) {
            if let Some(mapping) = self.0.take() {
                Memory::Large(mapping).give_back();
            }
        }
    }

    impl Memory {
        pub(super) fn take(length: usize) -> Option<Self> {
            if length < SMALL {
                return Self::small(length);
            }
            Mapping::reuse(length).or_else(|| Mapping::new(length)).map(Self::Large)
        }

        /// The same without the pool.
        pub(super) fn take_own(length: usize) -> Option<Self> {
            if length < HUGE { Self::small(length) } else { Mapping::new(length).map(Self::Own) }
        }

        fn small(length: usize) -> Option<Self> {
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(length).ok()?;
            bytes.resize(length, 0);
            Some(Self::Small(bytes))
        }

        pub(super) fn take_parts(lengths: &[usize]) -> Option<Vec<Self>> {
            let total = lengths.iter().try_fold(0usize, |sum, &length| sum.checked_add(length))?;
            if total < SMALL {
                return lengths.iter().map(|&length| Self::take(length)).collect();
            }
            let mapping = Mapping::reuse(total).or_else(|| Mapping::new(total))?;
            let whole = Arc::new(Shared(Some(mapping)));
            let mut next = 0;
            let parts = lengths.iter().map(|&length| {
                let at = next;
                next += length;
                Self::Part(Part { whole: whole.clone(), at, length })
            });
            Some(parts.collect())
        }

        pub(super) fn bytes(&self) -> &[u8] {
            match self {
                Self::Small(bytes) => bytes,
                // SAFETY: the mapping is readable, initialised (zero pages or old pixels) and lives as long as `self`.
                Self::Large(m) | Self::Own(m) => unsafe { std::slice::from_raw_parts(m.address, m.length) },
                // SAFETY: the same; parts of a mapping do not overlap, and only the owner of a part can write to it.
                Self::Part(p) => unsafe { std::slice::from_raw_parts(p.address(), p.length) },
            }
        }

        pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
            match self {
                Self::Small(bytes) => bytes,
                // SAFETY: as in `bytes`; the mapping is private and `self` is borrowed for writing.
                Self::Large(m) | Self::Own(m) => unsafe { std::slice::from_raw_parts_mut(m.address, m.length) },
                // SAFETY: as in `bytes`; `self` is the part's only owner and is borrowed for writing.
                Self::Part(p) => unsafe { std::slice::from_raw_parts_mut(p.address(), p.length) },
            }
        }

        pub(super) fn give_back(self) {
            let Self::Large(mapping) = self else { return };
            let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
            pool.push(mapping);
            // The oldest go first: the next read is most like the last.
            let mut kept: usize = pool.iter().map(|m| m.length).sum();
            let mut old = 0;
            while kept > KEPT || pool.len() - old > PIECES {
                kept -= pool[old].length;
                old += 1;
            }
            pool.drain(..old);
        }
    }

    pub(super) struct Mapping {
        address: *mut u8,
        length: usize,
    }

    // SAFETY: a mapping is owned by one value at a time and can be used from any thread.
    unsafe impl Send for Mapping {}
    // SAFETY: shared use only reads, or writes to parts that have one owner each.
    unsafe impl Sync for Mapping {}

    impl Mapping {
        /// A kept mapping that fits and wastes at most a quarter.
        fn reuse(length: usize) -> Option<Self> {
            let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
            let fits = |m: &Self| m.length >= length && m.length - length <= length / 4;
            let best = (0..pool.len()).filter(|&i| fits(&pool[i])).min_by_key(|&i| pool[i].length)?;
            Some(pool.remove(best))
        }

        /// A new one. Where it is large, it begins at a huge page and asks for such: there is less to look up.
        fn new(length: usize) -> Option<Self> {
            let length = length.checked_next_multiple_of(4096)?;
            let more = if length >= HUGE { HUGE } else { 0 };
            let room = length.checked_add(more)?;
            // SAFETY: a new private mapping at an address of the system's choice touches no other memory.
            let address = unsafe {
                mmap_anonymous(
                    std::ptr::null_mut(),
                    room,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::PRIVATE | MapFlags::NORESERVE,
                )
            }
            .ok()?;
            let address: *mut u8 = address.cast();
            if more == 0 {
                return Some(Self { address, length });
            }
            let before = address.addr().next_multiple_of(HUGE) - address.addr();
            let start = address.wrapping_add(before);
            // SAFETY: what lies before and behind the part that is kept belongs to the mapping just made, and to nobody.
            unsafe { unmap(address, before) };
            // SAFETY: the same.
            unsafe { unmap(start.wrapping_add(length), more - before) };
            // SAFETY: advice on the mapping just made; a refusal only costs speed.
            let _ = unsafe { madvise(start.cast(), length, Advice::LinuxHugepage) };
            Some(Self { address: start, length })
        }
    }

    /// Gives back a part of a mapping, of whole pages; none is fine.
    ///
    /// # Safety
    /// It is mapped by `Mapping::new`, and nobody uses it any more.
    unsafe fn unmap(address: *mut u8, length: usize) {
        if length > 0 {
            // SAFETY: as the caller promises.
            let _ = unsafe { munmap(address.cast(), length) };
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: `new` mapped just this range, and its only owner is gone.
            unsafe { unmap(self.address, self.length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_memory_are_apart_and_live_alone() {
        for lengths in [&[][..], &[0, 5, 0], &[700_000, 3, 1 << 20, 4097], &[(4 << 20) + 1, 64]] {
            let mut parts = HostBuffer::take_parts(lengths).unwrap();
            for (part, byte) in parts.iter_mut().zip(1..) {
                part.bytes_mut().fill(byte);
            }
            // The first goes, the others stay as they are.
            let rest = parts.split_off(parts.len().min(1));
            drop(parts);
            for ((part, &length), byte) in rest.iter().zip(&lengths[lengths.len().min(1)..]).zip(2..) {
                assert_eq!((part.length(), part.host().map(<[u8]>::len)), (length, Some(length)));
                assert!(part.host().is_some_and(|bytes| bytes.iter().all(|&b| b == byte)), "{lengths:?}");
            }
        }
        assert!(HostBuffer::take_parts(&[usize::MAX, 2]).is_none());
    }

    #[test]
    fn large_memory_begins_at_a_huge_page() {
        for (length, page) in [(1 << 20, 4096), (2 << 20, 2 << 20), ((5 << 20) + 1, 2 << 20)] {
            let mut buffer = HostBuffer::take(length).unwrap();
            assert_eq!(buffer.address() % page, 0, "{length} bytes");
            buffer.bytes_mut().fill(7);
        }
        for length in [0, 100, (2 << 20) + 5] {
            let mut buffer = HostBuffer::take_own(length).unwrap();
            assert_eq!(buffer.bytes_mut().len(), length);
            buffer.bytes_mut().fill(9);
        }
    }
}
