//! Whole rows of an image on their way through the writer.

use std::marker::PhantomData;

use crate::dtype::DType;
use crate::tensor::{DeviceMemory, Tensor};

/// Whole rows of an image, wherever they live.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
    /// In memory of the host.
    Host(RowsView<'a>),
    /// In memory of a device.
    Device(DeviceRows<'a>),
}

impl<'a> From<&RowsView<'a>> for Rows<'a> {
    fn from(rows: &RowsView<'a>) -> Self {
        Self::Host(*rows)
    }
}

impl<'a> From<&DeviceRows<'a>> for Rows<'a> {
    fn from(rows: &DeviceRows<'a>) -> Self {
        Self::Device(*rows)
    }
}

impl Rows<'_> {
    /// Bands, rows and columns.
    pub fn shape(&self) -> [usize; 3] {
        match self {
            Self::Host(rows) => [rows.bands, rows.rows, rows.width],
            Self::Device(rows) => rows.shape,
        }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.shape()[1]
    }

    /// Type of a value.
    pub fn dtype(&self) -> DType {
        match self {
            Self::Host(rows) => rows.dtype,
            Self::Device(rows) => rows.dtype,
        }
    }

    /// Whether they come with a mask.
    pub fn is_masked(&self) -> bool {
        match self {
            Self::Host(rows) => rows.mask.is_some(),
            Self::Device(rows) => rows.mask.is_some(),
        }
    }

    /// `count` rows from row `first` on.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn part(&self, first: usize, count: usize) -> Self {
        match self {
            Self::Host(rows) => Self::Host(rows.part(first, count)),
            Self::Device(rows) => Self::Device(rows.part(first, count)),
        }
    }
}

/// Some whole rows in memory of a device: axes (band, y, x), native byte order, any strides.
#[derive(Debug, Clone, Copy)]
pub struct DeviceRows<'a> {
    memory: DeviceMemory,
    /// First value.
    address: usize,
    shape: [usize; 3],
    /// Bytes from one to the next along each axis.
    strides: [isize; 3],
    dtype: DType,
    mask: Option<DeviceMask>,
    /// Whose memory it is.
    owner: PhantomData<&'a Tensor>,
}

/// The mask of some rows: one byte a pixel, 0 where there are no data.
#[derive(Debug, Clone, Copy)]
pub struct DeviceMask {
    /// First value.
    pub address: usize,
    /// Bytes from a row to the next and from a column to the next.
    pub strides: [isize; 2],
}

impl<'a> DeviceRows<'a> {
    /// Rows of `shape` (bands, rows, columns) whose first value stands `offset` bytes into the memory, with so many
    /// bytes from one to the next along each axis. `None` when some of them stand outside of it.
    pub fn new(
        memory: DeviceMemory,
        offset: usize,
        shape: [usize; 3],
        dtype: DType,
        strides: [isize; 3],
    ) -> Option<Self> {
        let address = inside(&memory, offset, &shape, &strides, dtype.size())?;
        Some(Self { memory, address, shape, strides, dtype, mask: None, owner: PhantomData })
    }

    /// All rows of a tensor; `None` when its pixels are in memory of the host.
    pub fn of(tensor: &'a Tensor) -> Option<Self> {
        let [_, rows, width] = tensor.shape;
        let size = tensor.dtype.size();
        let (band, row) = (rows.checked_mul(width)?.checked_mul(size)?, width.checked_mul(size)?);
        let strides = [band as isize, row as isize, size as isize];
        Self::new(tensor.device_memory()?, 0, tensor.shape, tensor.dtype, strides)
    }

    /// Adds a mask of axes (y, x) in memory of the same device. `None` when it stands on another one, or some of it
    /// outside of its memory.
    pub fn with_mask(self, memory: DeviceMemory, offset: usize, strides: [isize; 2]) -> Option<Self> {
        let address = inside(&memory, offset, &self.shape[1..], &strides, 1)?;
        let same = (memory.device(), memory.stream()) == (self.memory.device(), self.memory.stream());
        same.then_some(Self { mask: Some(DeviceMask { address, strides }), ..self })
    }

    /// The memory that they are in.
    pub fn memory(&self) -> &DeviceMemory {
        &self.memory
    }

    /// The first value.
    pub fn address(&self) -> usize {
        self.address
    }

    /// Bands, rows and columns.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Bytes from one to the next along each axis.
    pub fn strides(&self) -> [isize; 3] {
        self.strides
    }

    /// Type of a value.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The mask.
    pub fn mask(&self) -> Option<&DeviceMask> {
        self.mask.as_ref()
    }

    /// `count` rows from row `first` on.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn part(&self, first: usize, count: usize) -> Self {
        let [bands, rows, width] = self.shape;
        assert!(count <= rows && first <= rows - count, "rows {first}+{count} of {rows}");
        // An address behind the last row is never used: it need not be one.
        let below = |address: usize, stride: isize| address.wrapping_add_signed(stride.wrapping_mul(first as isize));
        Self {
            address: below(self.address, self.strides[1]),
            shape: [bands, count, width],
            mask: self.mask.map(|mask| DeviceMask { address: below(mask.address, mask.strides[0]), ..mask }),
            ..*self
        }
    }
}

/// The address of the first value, when all of them stand in the memory.
fn inside(memory: &DeviceMemory, offset: usize, shape: &[usize], strides: &[isize], size: usize) -> Option<usize> {
    let address = memory.address().checked_add(offset)?;
    if shape.contains(&0) {
        return Some(address);
    }
    let (mut first, mut end) = (offset as i128, offset as i128 + size as i128);
    for (&n, &stride) in shape.iter().zip(strides) {
        let reach = (n as i128 - 1).checked_mul(stride as i128)?;
        first = first.checked_add(reach.min(0))?;
        end = end.checked_add(reach.max(0))?;
    }
    (first >= 0 && end <= memory.length() as i128).then_some(address)
}

/// Some whole rows in host memory: axes (band, y, x), native byte order, the rows of a band without gaps.
#[derive(Debug, Clone, Copy)]
pub struct RowsView<'a> {
    bands: usize,
    rows: usize,
    width: usize,
    dtype: DType,
    bytes: &'a [u8],
    /// Bytes from a band to the next.
    stride: usize,
    mask: Option<&'a [u8]>,
}

impl<'a> RowsView<'a> {
    /// Rows of `shape` (bands, rows, columns), one band right behind the other. `None` when `bytes` has another size.
    pub fn new(bytes: &'a [u8], shape: [usize; 3], dtype: DType) -> Option<Self> {
        let [_, rows, width] = shape;
        let stride = rows.checked_mul(width)?.checked_mul(dtype.size())?;
        let whole = stride.checked_mul(shape[0])?;
        (whole == bytes.len()).then_some(())?;
        Self::strided(bytes, shape, dtype, stride)
    }

    /// The same with `stride` bytes from a band to the next, as in rows of a larger image. `None` when bands overlap
    /// or reach past the end of `bytes`.
    pub fn strided(bytes: &'a [u8], shape: [usize; 3], dtype: DType, stride: usize) -> Option<Self> {
        let [bands, rows, width] = shape;
        let band = rows.checked_mul(width)?.checked_mul(dtype.size())?;
        let end = stride.checked_mul(bands.checked_sub(1)?)?.checked_add(band)?;
        (band <= stride && end <= bytes.len()).then_some(Self { bands, rows, width, dtype, bytes, stride, mask: None })
    }

    /// All rows of a tensor; `None` when its pixels are on a device.
    pub fn of(tensor: &'a Tensor) -> Option<Self> {
        Self::new(tensor.bytes()?, tensor.shape, tensor.dtype)
    }

    /// Adds a mask: one byte a pixel, axes (y, x), 0 where there are no data. `None` when it has another size.
    pub fn with_mask(self, mask: &'a [u8]) -> Option<Self> {
        (mask.len() == self.rows * self.width).then_some(Self { mask: Some(mask), ..self })
    }

    /// Bands.
    pub fn bands(&self) -> usize {
        self.bands
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Type of a value.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Bytes of a row of one band.
    pub fn row_bytes(&self) -> usize {
        self.width * self.dtype.size()
    }

    /// All rows of a band.
    ///
    /// # Panics
    /// When there is no such band.
    pub fn band(&self, band: usize) -> &'a [u8] {
        assert!(band < self.bands, "band {band} of {}", self.bands);
        &self.bytes[band * self.stride..][..self.rows * self.row_bytes()]
    }

    /// One row of a band.
    ///
    /// # Panics
    /// When there is no such band or row.
    pub fn row(&self, band: usize, y: usize) -> &'a [u8] {
        &self.band(band)[y * self.row_bytes()..][..self.row_bytes()]
    }

    /// One byte a pixel, axes (y, x), 0 where there are no data.
    pub fn mask(&self) -> Option<&'a [u8]> {
        self.mask
    }

    /// One row of the mask.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn mask_row(&self, y: usize) -> Option<&'a [u8]> {
        self.mask.map(|mask| &mask[y * self.width..][..self.width])
    }

    /// `count` rows from row `first` on.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn part(&self, first: usize, count: usize) -> Self {
        assert!(count <= self.rows && first <= self.rows - count, "rows {first}+{count} of {}", self.rows);
        Self {
            rows: count,
            bytes: &self.bytes[first * self.row_bytes()..],
            mask: self.mask.map(|mask| &mask[first * self.width..][..count * self.width]),
            ..*self
        }
    }
}

/// Rows that wait for more: the newest at the end, taken from the front.
#[derive(Debug)]
pub struct RowsBuf {
    bands: usize,
    width: usize,
    dtype: DType,
    rows: usize,
    /// Rows that `bytes` has room for.
    room: usize,
    /// Rows that are made room for at once.
    expected: usize,
    bytes: Vec<u8>,
    mask: Option<Vec<u8>>,
}

impl RowsBuf {
    /// No rows yet.
    pub fn new(bands: usize, width: usize, dtype: DType, mask: bool) -> Self {
        Self { bands, width, dtype, rows: 0, room: 0, expected: 0, bytes: Vec::new(), mask: mask.then(Vec::new) }
    }

    /// Tells how many rows will wait at most, so that there is just the room they need.
    pub(crate) fn expecting(mut self, rows: usize) -> Self {
        self.expected = rows;
        self
    }

    /// Rows that wait.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Memory that it has.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.capacity() + self.mask.as_ref().map_or(0, Vec::capacity)
    }

    /// All of them.
    pub fn view(&self) -> RowsView<'_> {
        let row_bytes = self.width * self.dtype.size();
        RowsView {
            bands: self.bands,
            rows: self.rows,
            width: self.width,
            dtype: self.dtype,
            bytes: &self.bytes,
            stride: self.room * row_bytes,
            mask: self.mask.as_ref().map(|mask| &mask[..self.rows * self.width]),
        }
    }

    /// Adds `count` rows of any content and gives them to be filled: first all bands, then the mask (1 where the
    /// caller has nothing better), which is empty where there is none.
    pub fn grow(&mut self, count: usize) -> NewRows<'_> {
        self.make_room(count);
        let first = self.rows;
        self.rows += count;
        let row_bytes = self.width * self.dtype.size();
        NewRows {
            row_bytes,
            first,
            stride: self.room * row_bytes,
            bytes: &mut self.bytes,
            mask: match &mut self.mask {
                Some(mask) => &mut mask[first * self.width..][..count * self.width],
                None => &mut [],
            },
            width: self.width,
            count,
        }
    }

    /// Adds a copy of rows.
    ///
    /// # Panics
    /// When they have another shape or type.
    pub fn extend(&mut self, rows: &RowsView<'_>) {
        assert_eq!((rows.bands, rows.width, rows.dtype), (self.bands, self.width, self.dtype), "rows of one image");
        let bands = self.bands;
        let mut new = self.grow(rows.rows);
        for band in 0..bands {
            new.band(band).copy_from_slice(rows.band(band));
        }
        match rows.mask {
            Some(mask) if !new.mask.is_empty() => new.mask.copy_from_slice(mask),
            _ => new.mask.fill(1),
        }
    }

    /// Takes `count` rows away from the front.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn drop_front(&mut self, count: usize) {
        assert!(count <= self.rows, "{count} of {} rows", self.rows);
        let row_bytes = self.width * self.dtype.size();
        let left = self.rows - count;
        if left > 0 {
            for band in 0..self.bands {
                let start = band * self.room * row_bytes;
                self.bytes.copy_within(start + count * row_bytes..start + self.rows * row_bytes, start);
            }
            if let Some(mask) = &mut self.mask {
                mask.copy_within(count * self.width..self.rows * self.width, 0);
            }
        }
        self.rows = left;
    }

    /// Room for `count` rows more. Bands move apart when it grows beyond what was expected, so it grows by halves at
    /// least.
    fn make_room(&mut self, count: usize) {
        let need = self.rows + count;
        if need <= self.room {
            return;
        }
        let room = match self.room {
            0 => need.max(self.expected),
            room => need.max(room + room / 2),
        };
        let row_bytes = self.width * self.dtype.size();
        self.bytes.resize(self.bands * room * row_bytes, 0);
        for band in (1..self.bands).rev() {
            let from = band * self.room * row_bytes;
            self.bytes.copy_within(from..from + self.rows * row_bytes, band * room * row_bytes);
        }
        if let Some(mask) = &mut self.mask {
            mask.resize(room * self.width, 0);
        }
        self.room = room;
    }

    /// Changes the values of all rows of a band.
    pub(crate) fn band_mut(&mut self, band: usize) -> &mut [u8] {
        let row_bytes = self.width * self.dtype.size();
        &mut self.bytes[band * self.room * row_bytes..][..self.rows * row_bytes]
    }
}

/// Rows just added to a [`RowsBuf`], to be filled.
#[derive(Debug)]
pub struct NewRows<'a> {
    row_bytes: usize,
    first: usize,
    stride: usize,
    bytes: &'a mut [u8],
    /// One byte a pixel, axes (y, x); empty where there is no mask.
    pub mask: &'a mut [u8],
    width: usize,
    count: usize,
}

impl NewRows<'_> {
    /// The new rows of a band, (y, x).
    pub fn band(&mut self, band: usize) -> &mut [u8] {
        &mut self.bytes[band * self.stride + self.first * self.row_bytes..][..self.count * self.row_bytes]
    }

    /// One new row of a band.
    pub fn row(&mut self, band: usize, y: usize) -> &mut [u8] {
        let row_bytes = self.row_bytes;
        &mut self.band(band)[y * row_bytes..][..row_bytes]
    }

    /// One new row of the mask, where there is one.
    pub fn mask_row(&mut self, y: usize) -> Option<&mut [u8]> {
        let width = self.width;
        self.mask.get_mut(y * width..(y + 1) * width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Device;

    fn column(view: &RowsView<'_>, band: usize) -> Vec<u8> {
        view.band(band).iter().step_by(view.row_bytes()).copied().collect()
    }

    #[test]
    fn rows_wait_in_order_and_leave_from_the_front() {
        let mut waiting = RowsBuf::new(2, 3, DType::UInt8, true);
        let mut next = 0u8;
        let mut front = 0u8;
        for (add, take) in [(1, 0), (4, 2), (3, 6), (7, 1), (2, 8)] {
            let rows: Vec<u8> = (0..2).flat_map(|b| (0..add).flat_map(move |y| [next + y + b * 100; 3])).collect();
            let mask: Vec<u8> = (0..add).flat_map(|y| [(next + y) % 2; 3]).collect();
            let view = RowsView::new(&rows, [2, usize::from(add), 3], DType::UInt8).unwrap();
            waiting.extend(&view.with_mask(&mask).unwrap());
            next += add;
            waiting.drop_front(take);
            front += take as u8;
            let expected: Vec<u8> = (front..next).collect();
            assert_eq!(column(&waiting.view(), 0), expected);
            assert_eq!(column(&waiting.view(), 1), expected.iter().map(|v| v + 100).collect::<Vec<u8>>());
            let mask: Vec<u8> = expected.iter().flat_map(|v| [v % 2; 3]).collect();
            assert_eq!(waiting.view().mask().unwrap(), mask);
        }
    }

    #[test]
    fn a_view_checks_its_size() {
        let bytes = [0; 24];
        assert!(RowsView::new(&bytes, [2, 3, 2], DType::UInt16).is_some());
        assert!(RowsView::new(&bytes, [2, 3, 2], DType::UInt8).is_none());
        assert!(RowsView::new(&bytes, [usize::MAX, usize::MAX, 2], DType::UInt8).is_none());
        assert!(RowsView::strided(&bytes, [2, 2, 3], DType::UInt8, 18).is_some());
        assert!(RowsView::strided(&bytes, [2, 2, 3], DType::UInt8, 19).is_none());
        assert!(RowsView::strided(&bytes, [2, 2, 3], DType::UInt8, 5).is_none());
        assert!(RowsView::strided(&bytes, [0, 2, 3], DType::UInt8, 6).is_none());
        let part = RowsView::strided(&bytes, [2, 2, 3], DType::UInt8, 18).unwrap().part(1, 1);
        assert_eq!((part.rows(), part.band(1).len()), (1, 3));
    }

    #[test]
    fn rows_on_a_device_stay_inside_their_memory() {
        let memory = DeviceMemory::made_up(Device { kind: 2, id: 0 }, 1000, 96);
        let rows = |offset, strides| DeviceRows::new(memory, offset, [2, 3, 4], DType::Float32, strides);
        assert!(rows(0, [48, 16, 4]).is_some());
        assert!(rows(4, [48, 16, 4]).is_none());
        assert!(rows(0, [4, 32, 8]).is_some(), "bands last");
        assert!(rows(92, [-48, -16, -4]).is_some(), "turned round");
        assert!(rows(88, [-48, -16, -4]).is_none());
        assert!(rows(0, [0, 0, 0]).is_some(), "one value for all");
        assert!(rows(0, [isize::MAX, isize::MAX, isize::MAX]).is_none());
        assert!(rows(usize::MAX, [0, 0, 0]).is_none());
        let part = rows(92, [-48, -16, -4]).unwrap().part(1, 2);
        assert_eq!((part.address(), part.shape()), (1076, [2, 2, 4]));
        let masked = rows(0, [48, 16, 4]).unwrap();
        assert!(
            masked.with_mask(memory, 0, [4, 1]).is_some_and(|rows| rows.part(2, 1).mask().unwrap().address == 1008)
        );
        assert!(masked.with_mask(memory, 90, [4, 1]).is_none());
    }
}
