//! Tensors as DLPack 1.x has them, to be shared with other libraries without a copy.
//!
//! The structs have the layout of `dlpack.h`. A [`Handle`] owns one of them and calls its deleter, which for a struct
//! made here is plain Rust: any thread may call it.

#![allow(unsafe_code)] // structs of C, and memory of others

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::backend::Destination;
use crate::dtype::{DType, SampleKind};
use crate::rows::DeviceRows;
use crate::tensor::{Device, DeviceMemory, Storage, Tensor};

/// The version that is written here.
pub const VERSION: Version = Version { major: 1, minor: 0 };
/// Flag: the consumer must not write.
pub const READ_ONLY: u64 = 1;
/// Flag: nobody else sees this memory.
pub const IS_COPIED: u64 = 2;

/// More axes than anybody has: what claims more is no tensor.
const MOST_AXES: i32 = 32;

/// `DLPackVersion`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Another one means another layout.
    pub major: u32,
    /// Another one means the same layout.
    pub minor: u32,
}

/// `DLDataType`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataType {
    /// 0 signed, 1 unsigned, 2 float, 5 complex.
    pub code: u8,
    /// Of one value.
    pub bits: u8,
    /// Values that are one element; 1 for all that is here.
    pub lanes: u16,
}

impl DataType {
    /// `None` for pairs of integers, which DLPack does not have.
    pub fn of(dtype: DType) -> Option<Self> {
        let code = match dtype.kind() {
            SampleKind::Signed => 0,
            SampleKind::Unsigned => 1,
            SampleKind::Float => 2,
            SampleKind::ComplexFloat => 5,
            SampleKind::ComplexInt => return None,
        };
        Some(Self { code, bits: 8 * dtype.size() as u8, lanes: 1 })
    }

    /// The same here.
    pub fn dtype(self) -> Option<DType> {
        DType::ALL.into_iter().find(|&dtype| Self::of(dtype) == Some(self))
    }
}

/// `DLTensor`.
#[repr(C)]
#[derive(Debug)]
pub struct RawTensor {
    /// First byte, before `byte_offset`.
    pub data: *mut c_void,
    /// Where it is.
    pub device: RawDevice,
    /// Axes.
    pub ndim: i32,
    /// Type of a value.
    pub dtype: DataType,
    /// Length of each axis.
    pub shape: *mut i64,
    /// Elements from one to the next along each axis; null for one block without gaps.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// `DLDevice`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawDevice {
    /// 1 is the host.
    pub kind: i32,
    /// Which one of that kind.
    pub id: i32,
}

/// `DLManagedTensor`: before version 1.
#[repr(C)]
#[derive(Debug)]
pub struct Legacy {
    /// The tensor.
    pub tensor: RawTensor,
    /// What the maker needs to let go of it.
    pub context: *mut c_void,
    /// Lets go of it.
    pub deleter: Option<unsafe extern "C" fn(*mut Legacy)>,
}

/// `DLManagedTensorVersioned`: version 1 and later.
#[repr(C)]
#[derive(Debug)]
pub struct Versioned {
    /// First, so that readers can look before they touch the rest.
    pub version: Version,
    /// What the maker needs to let go of it.
    pub context: *mut c_void,
    /// Lets go of it.
    pub deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    /// [`READ_ONLY`], [`IS_COPIED`].
    pub flags: u64,
    /// The tensor.
    pub tensor: RawTensor,
}

/// Either of the two structs.
pub trait Managed: Sized {
    /// What it holds.
    fn tensor(&self) -> &RawTensor;
    /// Whether it may be written.
    fn writable(&self) -> bool;
    /// Whether the layout is one that is known here.
    fn known(&self) -> bool;
    /// A struct around a tensor, which lives in `context`.
    fn new(tensor: RawTensor, context: *mut c_void, flags: u64) -> Self;
    /// Lets go of it.
    ///
    /// # Safety
    /// `this` came from whoever set its deleter, and is not used any more.
    unsafe fn delete(this: NonNull<Self>);
}

impl Managed for Legacy {
    fn tensor(&self) -> &RawTensor {
        &self.tensor
    }

    /// It has no way to say that it is not.
    fn writable(&self) -> bool {
        true
    }

    fn known(&self) -> bool {
        true
    }

    fn new(tensor: RawTensor, context: *mut c_void, _flags: u64) -> Self {
        Self { tensor, context, deleter: Some(drop_exported::<Self>) }
    }

    unsafe fn delete(this: NonNull<Self>) {
        // SAFETY: the caller vouches for `this`, and its maker for the deleter.
        unsafe {
            if let Some(deleter) = this.as_ref().deleter {
                deleter(this.as_ptr());
            }
        }
    }
}

impl Managed for Versioned {
    fn tensor(&self) -> &RawTensor {
        &self.tensor
    }

    fn writable(&self) -> bool {
        self.flags & READ_ONLY == 0
    }

    fn known(&self) -> bool {
        self.version.major == VERSION.major
    }

    fn new(tensor: RawTensor, context: *mut c_void, flags: u64) -> Self {
        Self { version: VERSION, context, deleter: Some(drop_exported::<Self>), flags, tensor }
    }

    unsafe fn delete(this: NonNull<Self>) {
        // SAFETY: as above; the deleter stands before all that another version may have changed.
        unsafe {
            if let Some(deleter) = this.as_ref().deleter {
                deleter(this.as_ptr());
            }
        }
    }
}

/// Owns one of the structs, ours or that of another library.
#[derive(Debug)]
pub struct Handle<M: Managed>(NonNull<M>);

// SAFETY: DLPack asks of every deleter that any thread may call it; ours drops an `Arc` of a `Storage`, which is `Send`
// and `Sync`. The struct itself is only read.
unsafe impl<M: Managed> Send for Handle<M> {}
// SAFETY: shared use only reads.
unsafe impl<M: Managed> Sync for Handle<M> {}

impl<M: Managed> Handle<M> {
    /// Takes a struct over.
    ///
    /// # Safety
    /// `raw` is a whole struct of a tensor that lives until its deleter is called, and nobody else calls that.
    pub unsafe fn from_raw(raw: NonNull<M>) -> Self {
        Self(raw)
    }

    /// Hands the struct to somebody who will call its deleter.
    pub fn into_raw(self) -> NonNull<M> {
        let raw = self.0;
        std::mem::forget(self);
        raw
    }

    fn get(&self) -> &M {
        // SAFETY: `from_raw` was promised a whole struct, which lives until `drop`.
        unsafe { self.0.as_ref() }
    }
}

impl<M: Managed> Drop for Handle<M> {
    fn drop(&mut self) {
        // SAFETY: it is ours, and used by nobody after this.
        unsafe { M::delete(self.0) }
    }
}

/// What an exported struct keeps alive: the struct itself is its first field's neighbour, so one box holds all.
struct Exported<M> {
    managed: Option<M>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    _storage: Arc<dyn Storage>,
}

unsafe extern "C" fn drop_exported<M: Context>(this: *mut M) {
    // SAFETY: `this` lies in the box that `context` points to, made by `export` and dropped here for the only time.
    drop(unsafe { Box::from_raw((*this).context().cast::<Exported<M>>()) });
}

/// Where a struct keeps its box.
trait Context {
    fn context(&self) -> *mut c_void;
}

impl Context for Legacy {
    fn context(&self) -> *mut c_void {
        self.context
    }
}

impl Context for Versioned {
    fn context(&self) -> *mut c_void {
        self.context
    }
}

impl Tensor {
    /// The tensor for another library, which shares its memory. `None` for types that DLPack does not have.
    ///
    /// What the other library writes there shows in all who share it.
    pub fn to_dlpack<M: Managed>(&self, flags: u64) -> Option<Handle<M>> {
        let dtype = DataType::of(self.dtype)?;
        let shape: Vec<i64> = self.dims().into_iter().map(|n| n as i64).collect();
        let mut strides = vec![1i64; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
        }
        let storage = self.storage().clone();
        let Device { kind, id } = storage.device();
        let data = storage.address() as *mut c_void;
        let exported = Box::into_raw(Box::new(Exported { managed: None, shape, strides, _storage: storage }));
        // SAFETY: the box was made above and nobody else knows of it; its vectors stay where they are.
        let exported_ref = unsafe { &mut *exported };
        let tensor = RawTensor {
            data,
            device: RawDevice { kind, id },
            ndim: exported_ref.shape.len() as i32,
            dtype,
            shape: exported_ref.shape.as_mut_ptr(),
            strides: exported_ref.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let managed = exported_ref.managed.insert(M::new(tensor, exported.cast(), flags));
        Some(Handle(NonNull::from(managed)))
    }
}

/// Memory that another library lends.
#[derive(Debug)]
pub struct Foreign {
    address: usize,
    length: usize,
    device: Device,
    shape: Vec<usize>,
    dtype: DType,
    writable: bool,
    _owner: Owner,
}

#[derive(Debug)]
enum Owner {
    Legacy(#[allow(dead_code)] Handle<Legacy>),       // kept for its deleter
    Versioned(#[allow(dead_code)] Handle<Versioned>), // kept for its deleter
}

impl From<Handle<Legacy>> for Owner {
    fn from(handle: Handle<Legacy>) -> Self {
        Self::Legacy(handle)
    }
}

impl From<Handle<Versioned>> for Owner {
    fn from(handle: Handle<Versioned>) -> Self {
        Self::Versioned(handle)
    }
}

/// What a tensor says of itself.
struct Described {
    /// First value.
    address: usize,
    shape: Vec<usize>,
    /// Values from one to the next along each axis; `None` for one block without gaps.
    strides: Option<Vec<i64>>,
    dtype: DType,
    device: Device,
    /// Bytes of all values.
    length: usize,
}

fn describe<M: Managed>(handle: &Handle<M>) -> Result<Described, String> {
    let managed = handle.get();
    if !managed.known() {
        return Err("DLPack of another major version".into());
    }
    let tensor = managed.tensor();
    let dtype = tensor.dtype.dtype().ok_or_else(|| format!("{:?} is no type of pixels", tensor.dtype))?;
    if !(0..=MOST_AXES).contains(&tensor.ndim) {
        return Err(format!("a tensor of {} axes", tensor.ndim));
    }
    let axes = tensor.ndim as usize;
    // SAFETY: `shape` has `ndim` numbers, and so has `strides` unless it is null; both live as long as the handle.
    let (shape, strides) = unsafe { (numbers(tensor.shape, axes), numbers(tensor.strides, axes)) };
    let shape = shape.ok_or("a tensor without a shape")?;
    let shape: Option<Vec<usize>> = shape.iter().map(|&n| usize::try_from(n).ok()).collect();
    let shape = shape.ok_or("a tensor with a negative length")?;
    let length = shape.iter().try_fold(dtype.size(), |bytes, &n| bytes.checked_mul(n));
    let length = length.filter(|&n| n <= isize::MAX as usize).ok_or("a tensor larger than memory")?;
    let offset = usize::try_from(tensor.byte_offset).map_err(|_| "an offset larger than memory")?;
    let address = (tensor.data as usize).checked_add(offset).ok_or("an offset larger than memory")?;
    if address == 0 && length > 0 {
        return Err("a tensor without memory".into());
    }
    let device = Device { kind: tensor.device.kind, id: tensor.device.id };
    Ok(Described { address, shape, strides: strides.map(<[i64]>::to_vec), dtype, device, length })
}

/// Pixels in memory of a device that another library lends, with any strides, to be read.
#[derive(Debug)]
pub struct Lent {
    memory: DeviceMemory,
    offset: usize,
    shape: Vec<usize>,
    strides: Vec<isize>,
    dtype: DType,
    _owner: Option<Owner>,
}

impl Lent {
    /// The values of a tensor, once what was submitted to a stream of the device is done; `Err` says why it can't be
    /// used.
    #[allow(private_bounds)] // only the two structs of DLPack are meant
    pub fn new<M: Managed>(handle: Handle<M>, stream: usize) -> Result<Self, String>
    where
        Owner: From<Handle<M>>,
    {
        let Described { address, shape, strides, dtype, device, .. } = describe(&handle)?;
        let size = dtype.size() as i64;
        let bytes = |stride: i64| stride.checked_mul(size).and_then(|n| isize::try_from(n).ok());
        let strides: Option<Vec<isize>> = strides.map_or_else(
            || Some(dense(&shape, dtype.size())),
            |strides| strides.iter().map(|&stride| bytes(stride)).collect(),
        );
        let strides = strides.ok_or("strides larger than memory")?;
        // SAFETY: the lender vouches for its values until the deleter is called, which is when `self` goes.
        let mut lent = unsafe { Self::of(device, address, shape, strides, dtype, stream) }?;
        lent._owner = Some(handle.into());
        Ok(lent)
    }

    /// The same of memory that the caller knows of.
    ///
    /// # Safety
    /// All values must be memory of the device that nobody changes as long as this lives, but for work already submitted
    /// to `stream`.
    pub unsafe fn of(
        device: Device,
        address: usize,
        shape: Vec<usize>,
        strides: Vec<isize>,
        dtype: DType,
        stream: usize,
    ) -> Result<Self, String> {
        let (mut before, mut behind) = (0usize, dtype.size());
        for (&n, &stride) in shape.iter().zip(&strides) {
            let reach = n.saturating_sub(1).checked_mul(stride.unsigned_abs()).ok_or("strides larger than memory")?;
            let side = if stride < 0 { &mut before } else { &mut behind };
            *side = side.checked_add(reach).ok_or("strides larger than memory")?;
        }
        let first = address.checked_sub(before).ok_or("strides larger than memory")?;
        let length = before.checked_add(behind).ok_or("strides larger than memory")?;
        // SAFETY: these are the bytes from the first value in memory to the last, for which the caller vouches.
        let memory = unsafe { DeviceMemory::new(device, first, length, stream) };
        Ok(Self { memory, offset: before, shape, strides, dtype, _owner: None })
    }

    /// Length of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Type of a value.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Where it is.
    pub fn device(&self) -> Device {
        self.memory.device()
    }

    /// Its values as rows, axes (band, y, x) or (y, x), with a mask of axes (y, x); `None` when the shapes don't fit.
    pub fn rows<'a>(&'a self, mask: Option<&'a Self>) -> Option<DeviceRows<'a>> {
        let (shape, strides) = match (&self.shape[..], &self.strides[..]) {
            (&[bands, rows, width], &[band, row, column]) => ([bands, rows, width], [band, row, column]),
            (&[rows, width], &[row, column]) => ([1, rows, width], [0, row, column]),
            _ => return None,
        };
        let rows = DeviceRows::new(self.memory, self.offset, shape, self.dtype, strides)?;
        let Some(mask) = mask else { return Some(rows) };
        match (&mask.shape[..], &mask.strides[..]) {
            (size, &[row, column]) if *size == shape[1..] && mask.dtype == DType::UInt8 => {
                rows.with_mask(mask.memory, mask.offset, [row, column])
            }
            _ => None,
        }
    }
}

/// Strides in bytes of values without gaps.
pub fn dense(shape: &[usize], size: usize) -> Vec<isize> {
    let mut strides = vec![size as isize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1) as isize);
    }
    strides
}

impl Foreign {
    /// Takes the memory of a tensor without gaps; `Err` says why it can't be used.
    #[allow(private_bounds)] // only the two structs of DLPack are meant
    pub fn new<M: Managed>(handle: Handle<M>) -> Result<Self, String>
    where
        Owner: From<Handle<M>>,
    {
        let Described { address, shape, strides, dtype, device, length } = describe(&handle)?;
        if length > 0 && strides.is_some_and(|strides| !is_dense(&shape, &strides)) {
            return Err("its values have gaps between them or stand in another order; it must be C-contiguous".into());
        }
        let writable = handle.get().writable();
        Ok(Self { address, length, device, shape, dtype, writable, _owner: handle.into() })
    }

    /// Length of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Type of a value.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Whether the lender allows it to be written.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Where a read puts its pixels, after what was submitted to a stream of the device; `None` when the lender does
    /// not allow it.
    pub fn destination(&mut self, stream: usize) -> Option<Destination<'_>> {
        if !self.writable {
            return None;
        }
        if self.device.kind != Device::HOST.kind {
            // SAFETY: the lender vouches for the memory until the deleter is called, which is when `self` goes; it is
            // borrowed for as long as the destination.
            let memory = unsafe { DeviceMemory::new(self.device, self.address, self.length, stream) };
            return Some(Destination::Device(memory));
        }
        self.host_mut().map(Destination::Host)
    }

    fn host_mut(&mut self) -> Option<&mut [u8]> {
        if self.length == 0 {
            return Some(&mut []);
        }
        // SAFETY: the lender of a DLPack tensor vouches for `length` bytes at `address` until the deleter is called,
        // which is when `self` goes; who lends memory to be written does not use it meanwhile.
        Some(unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.length) })
    }
}

impl Storage for Foreign {
    fn address(&self) -> usize {
        self.address
    }

    fn length(&self) -> usize {
        self.length
    }

    fn device(&self) -> Device {
        self.device
    }

    fn host(&self) -> Option<&[u8]> {
        if self.device.kind != Device::HOST.kind {
            return None;
        }
        if self.length == 0 {
            return Some(&[]);
        }
        // SAFETY: as in `host_mut`; shared use only reads.
        Some(unsafe { std::slice::from_raw_parts(self.address as *const u8, self.length) })
    }
}

/// `n` numbers of another library; `None` for null.
///
/// # Safety
/// There are as many, and they live as long as `'a`.
unsafe fn numbers<'a>(at: *const i64, n: usize) -> Option<&'a [i64]> {
    match n {
        0 => Some(&[]),
        // SAFETY: the caller vouches for them.
        _ => (!at.is_null()).then(|| unsafe { std::slice::from_raw_parts(at, n) }),
    }
}

/// Whether values follow each other as in C. An axis of one element may have any stride.
fn is_dense(shape: &[usize], strides: &[i64]) -> bool {
    let mut due = 1i64;
    for (&n, &stride) in shape.iter().zip(strides).rev() {
        if n != 1 && stride != due {
            return false;
        }
        due = due.saturating_mul(n as i64);
    }
    true
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::tensor::Report;

    /// Memory that tells when it is let go.
    struct Counted {
        bytes: Vec<u8>,
        gone: Arc<AtomicUsize>,
    }

    impl Storage for Counted {
        fn address(&self) -> usize {
            self.bytes.as_ptr() as usize
        }
        fn length(&self) -> usize {
            self.bytes.len()
        }
        fn device(&self) -> Device {
            Device::HOST
        }
        fn host(&self) -> Option<&[u8]> {
            Some(&self.bytes)
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.gone.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn tensor(dtype: DType) -> (Tensor, Arc<AtomicUsize>) {
        let gone = Arc::new(AtomicUsize::new(0));
        let bytes = (0..2 * 3 * 4 * dtype.size()).map(|i| i as u8).collect();
        let storage = Arc::new(Counted { bytes, gone: gone.clone() });
        (Tensor::new([2, 3, 4], dtype, storage, Report::default()), gone)
    }

    fn round_trip<M: Managed + Context>(dtype: DType)
    where
        Owner: From<Handle<M>>,
    {
        let (tensor, gone) = tensor(dtype);
        let handle = tensor.to_dlpack::<M>(0).unwrap();
        let raw = handle.get().tensor();
        // SAFETY: the struct was made three lines above.
        let strides = unsafe { numbers(raw.strides, 3) };
        assert_eq!((strides, raw.byte_offset), (Some(&[12i64, 4, 1][..]), 0));
        let address = tensor.storage().address();
        drop(tensor);
        assert_eq!(gone.load(Ordering::SeqCst), 0);
        let mut back = Foreign::new(handle).unwrap();
        assert_eq!((back.shape(), back.dtype(), back.address()), (&[2, 3, 4][..], dtype, address));
        assert_eq!(back.host().unwrap()[..3], [0, 1, 2]);
        back.host_mut().unwrap()[0] = 7;
        assert_eq!(back.host().unwrap()[0], 7);
        std::thread::spawn(move || drop(back)).join().unwrap();
        assert_eq!(gone.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn memory_goes_out_and_comes_back_and_is_let_go_once() {
        for dtype in DType::ALL.into_iter().filter(|dtype| DataType::of(*dtype).is_some()) {
            round_trip::<Legacy>(dtype);
            round_trip::<Versioned>(dtype);
        }
    }

    #[test]
    fn pairs_of_integers_are_not_in_dlpack() {
        assert!(tensor(DType::ComplexInt16).0.to_dlpack::<Versioned>(0).is_none());
    }

    #[test]
    fn what_may_not_be_written_is_not() {
        let handle = tensor(DType::UInt8).0.to_dlpack::<Versioned>(READ_ONLY).unwrap();
        let mut back = Foreign::new(handle).unwrap();
        assert!(!back.is_writable() && back.destination(0).is_none() && back.host().is_some());
    }

    /// A tensor with one thing changed.
    fn changed(change: impl FnOnce(&mut Versioned)) -> Result<Foreign, String> {
        let raw = tensor(DType::UInt16).0.to_dlpack::<Versioned>(0).unwrap().into_raw();
        // SAFETY: it was just made, and is used here alone; it goes back into a handle.
        let handle = unsafe {
            change(&mut *raw.as_ptr());
            Handle::from_raw(raw)
        };
        Foreign::new(handle)
    }

    #[test]
    fn tensors_that_make_no_sense_are_refused() {
        assert!(changed(|_| ()).is_ok());
        assert!(changed(|m| m.tensor.strides = std::ptr::null_mut()).is_ok());
        assert!(changed(|m| m.version.major = 2).is_err());
        assert!(changed(|m| m.tensor.ndim = -1).is_err());
        assert!(changed(|m| m.tensor.ndim = i32::MAX).is_err());
        assert!(changed(|m| m.tensor.shape = std::ptr::null_mut()).is_err());
        assert!(changed(|m| m.tensor.data = std::ptr::null_mut()).is_err());
        assert!(changed(|m| m.tensor.dtype.lanes = 2).is_err());
        assert!(changed(|m| m.tensor.byte_offset = u64::MAX).is_err());
        // SAFETY: three axes were made.
        let axis = |m: &mut Versioned, n: i64| unsafe { *m.tensor.shape = n };
        assert!(changed(|m| axis(m, -1)).is_err());
        assert!(changed(|m| axis(m, i64::MAX)).is_err());
        // SAFETY: as above.
        assert!(changed(|m| unsafe { *m.tensor.strides = 13 }).unwrap_err().contains("contiguous"));
    }
}
