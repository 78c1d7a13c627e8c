//! The part of nvJPEG2000 that is used, as safe functions.
//!
//! What makes them safe: a [`State`] owns the bytes that the library reads and waits for its last decode before they
//! change; addresses of device memory are numbers that the host never follows.

#![allow(unsafe_code)] // calls functions of the library

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use super::driver::{Context, Failure, Handle, Pool};
use super::lend::{Allocator, Lender, Refusal, checked};
use super::load::{Library, Missing, Wanted, functions};
use super::turn::Turn;

/// The library.
pub const WANTED: Wanted = Wanted {
    name: "nvJPEG2000",
    sonames: &["libnvjpeg2k.so.0"],
    wheels: &["nvidia/nvjpeg2k/lib"],
    enables: "JPEG 2000 on the GPU",
    hint: "pip install nvidia-nvjpeg2k-cu13 (or -cu12, as the driver is)",
};

type Status = c_int;

functions! {
    struct Functions {
        fn nvjpeg2kGetProperty(c_int, *mut c_int) -> Status;
        fn nvjpeg2kCreateV2(c_int, *mut Allocator, *mut Allocator, *mut Handle) -> Status;
        fn nvjpeg2kDecodeStateCreate(Handle, *mut Handle) -> Status;
        fn nvjpeg2kDecodeStateDestroy(Handle) -> Status;
        fn nvjpeg2kStreamCreate(*mut Handle) -> Status;
        fn nvjpeg2kStreamDestroy(Handle) -> Status;
        fn nvjpeg2kStreamParse(Handle, *const u8, usize, c_int, c_int, Handle) -> Status;
        fn nvjpeg2kStreamGetImageInfo(Handle, *mut ImageInfo) -> Status;
        fn nvjpeg2kStreamGetImageComponentInfo(Handle, *mut Component, u32) -> Status;
        fn nvjpeg2kDecode(Handle, Handle, Handle, *mut Image, Handle) -> Status;
    }
}

#[repr(C)]
#[derive(Default)]
struct ImageInfo {
    width: u32,
    height: u32,
    tile_width: u32,
    tile_height: u32,
    tiles_across: u32,
    tiles_down: u32,
    components: u32,
}

/// What the library says of a component.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Component {
    /// Samples of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bits.
    pub precision: u8,
    /// 1 where samples have a sign.
    pub signed: u8,
}

#[repr(C)]
struct Image {
    planes: *mut *mut c_void,
    pitches: *mut usize,
    kind: c_int,
    components: u32,
}

/// What samples become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // as in the header of the library
pub enum Sample {
    UInt8 = 0,
    UInt16 = 1,
    Int16 = 2,
}

/// Where a component goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plane {
    /// Device memory.
    pub address: u64,
    /// Bytes from one row to the next.
    pub pitch: usize,
}

/// The most components of an image.
pub const MOST_COMPONENTS: usize = 4;

/// The library, loaded.
pub struct Nvjpeg2k {
    functions: Functions,
    library: Library,
    version: (i32, i32, i32),
}

impl Nvjpeg2k {
    /// The library of this machine, loaded when it is first asked for.
    pub fn get() -> Result<&'static Self, &'static Missing> {
        static LIBRARY: OnceLock<Result<Nvjpeg2k, Missing>> = OnceLock::new();
        LIBRARY.get_or_init(Self::load).as_ref()
    }

    fn load() -> Result<Self, Missing> {
        let library = Library::open(WANTED)?;
        // SAFETY: the types are those of the header, which has kept them since the first version that has them all.
        let functions = unsafe { Functions::load(&library) }?;
        let property = |which: c_int| {
            let mut value = 0;
            // SAFETY: writes one number.
            let status = unsafe { (functions.nvjpeg2kGetProperty)(which, &mut value) };
            if status == 0 { value } else { -1 }
        };
        let version @ (major, minor, patch) = (property(0), property(1), property(2));
        // Version 1 may change what the same names mean.
        if major != 0 || minor < 8 {
            return Err(library.refuse(format!("{major}.{minor}.{patch}")));
        }
        Ok(Self { functions, library, version })
    }

    /// Where it was found.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Its version.
    pub fn version(&self) -> String {
        let (major, minor, patch) = self.version;
        format!("{major}.{minor}.{patch}")
    }
}

/// A decoder of one device, for the life of the process.
pub struct Decoder {
    library: &'static Nvjpeg2k,
    context: Context,
    lender: &'static Lender,
    handle: Handle,
}

// SAFETY: the library's handle may be used by many threads at once.
unsafe impl Send for Decoder {}
// SAFETY: as above.
unsafe impl Sync for Decoder {}

impl Decoder {
    /// Of this context, with memory of this lender.
    pub fn new(library: &'static Nvjpeg2k, context: Context, lender: &'static Lender) -> Result<Self, Refusal> {
        let (mut device, mut locked) = (lender.device(), lender.locked());
        let mut handle = std::ptr::null_mut();
        // SAFETY: the allocators are copied, and what they name lives as long as the process.
        let code = unsafe { (library.functions.nvjpeg2kCreateV2)(0, &mut device, &mut locked, &mut handle) };
        checked(lender, "nvjpeg2kCreateV2", code)?;
        Ok(Self { library, context, lender, handle })
    }

    /// What one decode at a time needs.
    pub fn state(&self) -> Result<State, Refusal> {
        let mut state = State {
            library: self.library,
            lender: self.lender,
            handle: self.handle,
            state: std::ptr::null_mut(),
            parsed: std::ptr::null_mut(),
            turn: Turn::new(self.context)?,
            spare: (0, 0),
        };
        // SAFETY: the handle is live; each writes one handle, which `State` gives back.
        let code = unsafe { (self.library.functions.nvjpeg2kDecodeStateCreate)(self.handle, &mut state.state) };
        checked(self.lender, "nvjpeg2kDecodeStateCreate", code)?;
        // SAFETY: as above.
        let code = unsafe { (self.library.functions.nvjpeg2kStreamCreate)(&mut state.parsed) };
        checked(self.lender, "nvjpeg2kStreamCreate", code)?;
        Ok(state)
    }
}

/// One decode at a time: its memory, its stream and the bytes it reads.
pub struct State {
    library: &'static Nvjpeg2k,
    lender: &'static Lender,
    handle: Handle,
    state: Handle,
    parsed: Handle,
    turn: Turn,
    /// Device memory for samples that are not yet what they shall be.
    spare: (u64, usize),
}

// SAFETY: a state has one owner at a time, and the library does not care which thread that is.
unsafe impl Send for State {}

impl State {
    /// What it does, and with which bytes.
    pub fn turn(&mut self) -> &mut Turn {
        &mut self.turn
    }

    /// Whether its last work is done.
    pub fn is_settled(&self) -> bool {
        self.turn.is_settled()
    }

    /// Device memory of `length` bytes at least, for work in its stream.
    pub fn spare(&mut self, pool: &Pool, length: usize) -> Result<u64, Failure> {
        if self.spare.1 < length {
            if self.spare.1 > 0 {
                self.turn.stream().give_back(std::mem::take(&mut self.spare).0)?;
            }
            self.spare = (pool.lend(length, self.turn.stream().handle())?, length);
        }
        Ok(self.spare.0)
    }

    /// Parses `length` bytes of its input from `start` on; gives the components.
    pub fn parse(&mut self, start: usize, length: usize) -> Result<Vec<Component>, Refusal> {
        let functions = &self.library.functions;
        let bytes = self.turn.bytes(start..start.saturating_add(length));
        // SAFETY: the bytes live as long as the state and stay as they are until the decode is done.
        let code =
            unsafe { (functions.nvjpeg2kStreamParse)(self.handle, bytes.as_ptr(), bytes.len(), 0, 0, self.parsed) };
        checked(self.lender, "nvjpeg2kStreamParse", code)?;
        let mut info = ImageInfo::default();
        // SAFETY: fills the struct.
        let code = unsafe { (functions.nvjpeg2kStreamGetImageInfo)(self.parsed, &mut info) };
        checked(self.lender, "nvjpeg2kStreamGetImageInfo", code)?;
        (0..info.components.min(MOST_COMPONENTS as u32 + 1))
            .map(|i| {
                let mut component = Component::default();
                // SAFETY: fills the struct; there is a component of this number.
                let code = unsafe { (functions.nvjpeg2kStreamGetImageComponentInfo)(self.parsed, &mut component, i) };
                checked(self.lender, "nvjpeg2kStreamGetImageComponentInfo", code).map(|()| component)
            })
            .collect()
    }

    /// Puts the decode of what was parsed into the stream. There is a plane for each component.
    pub fn decode(&mut self, planes: &[Plane], sample: Sample) -> Result<(), Refusal> {
        let mut addresses: Vec<*mut c_void> = planes.iter().map(|plane| plane.address as *mut c_void).collect();
        let mut pitches: Vec<usize> = planes.iter().map(|plane| plane.pitch).collect();
        let mut image = Image {
            planes: addresses.as_mut_ptr(),
            pitches: pitches.as_mut_ptr(),
            kind: sample as c_int,
            components: planes.len() as u32,
        };
        self.turn.begin();
        // SAFETY: handles are live; the struct and its lists live during the call, which copies them; the planes are
        // device memory with room for the components, which the caller compared with what `parse` gave.
        let code = unsafe {
            (self.library.functions.nvjpeg2kDecode)(
                self.handle,
                self.state,
                self.parsed,
                &mut image,
                self.turn.stream().handle(),
            )
        };
        checked(self.lender, "nvjpeg2kDecode", code)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // Where the driver does not answer any more, neither does the library.
        if !self.turn.ends() {
            return;
        }
        if self.spare.1 > 0 {
            let _ = self.turn.stream().give_back(self.spare.0);
        }
        let functions = &self.library.functions;
        // SAFETY: each is live and destroyed once; nothing of them is in use.
        unsafe {
            if !self.state.is_null() {
                (functions.nvjpeg2kDecodeStateDestroy)(self.state);
            }
            if !self.parsed.is_null() {
                (functions.nvjpeg2kStreamDestroy)(self.parsed);
            }
        }
    }
}
