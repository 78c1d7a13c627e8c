//! The part of nvJPEG2000 that is used, as safe functions.
//!
//! What makes them safe: a [`State`] owns the bytes that the library reads and waits for its last decode before they
//! change; addresses of device memory are numbers that the host never follows.

#![allow(unsafe_code)] // calls functions of the library

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use super::driver::{Context, Failure, Handle, Pool};
use super::lend::{Allocator, Lender, Refusal, checked};
use super::load::{Library, Missing, Version, Wanted, functions};
use super::turn::{Pixels, Turn};

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

functions! {
    struct EncodeFunctions {
        fn nvjpeg2kEncoderCreateSimple(*mut Handle) -> Status;
        fn nvjpeg2kEncodeStateCreate(Handle, *mut Handle) -> Status;
        fn nvjpeg2kEncodeStateDestroy(Handle) -> Status;
        fn nvjpeg2kEncodeParamsCreate(*mut Handle) -> Status;
        fn nvjpeg2kEncodeParamsDestroy(Handle) -> Status;
        fn nvjpeg2kEncodeParamsSetEncodeConfig(Handle, *mut EncodeConfig) -> Status;
        fn nvjpeg2kEncodeParamsSpecifyQuality(Handle, c_int, f64) -> Status;
        fn nvjpeg2kEncodeParamsSetInputFormat(Handle, c_int) -> Status;
        fn nvjpeg2kEncode(Handle, Handle, Handle, *const Image, Handle) -> Status;
        fn nvjpeg2kEncodeRetrieveBitstream(Handle, Handle, *mut u8, *mut usize, Handle) -> Status;
    }
}

/// Precincts that the library counts.
const RESOLUTIONS: usize = 33;

#[repr(C)]
struct EncodeConfig {
    stream_kind: c_int,
    colours: c_int,
    profile: u16,
    width: u32,
    height: u32,
    tiled: u32,
    tile_width: u32,
    tile_height: u32,
    components: u32,
    component: *mut Component,
    packet_starts: u32,
    packet_ends: u32,
    order: c_int,
    layers: u32,
    transform: u32,
    resolutions: u32,
    block_width: u32,
    block_height: u32,
    modes: u32,
    irreversible: u32,
    precincts: u32,
    precinct_widths: [u32; RESOLUTIONS],
    precinct_heights: [u32; RESOLUTIONS],
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
    /// Not all versions have them.
    encoding: Result<EncodeFunctions, Missing>,
    library: Library,
    version: Version,
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
        // SAFETY: the function is what is asked for here.
        let version = unsafe { Version::ask(functions.nvjpeg2kGetProperty) };
        // Version 1 may change what the same names mean.
        if version.major != 0 || version.minor < 8 {
            return Err(library.refuse(version));
        }
        // SAFETY: as above.
        let encoding = unsafe { EncodeFunctions::load(&library) };
        Ok(Self { functions, encoding, library, version })
    }

    /// Where it was found.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Its version.
    pub fn version(&self) -> String {
        self.version.to_string()
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

    /// Bytes that it has room for.
    pub fn room(&self) -> usize {
        self.turn.room()
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

/// An encoder of one device, for the life of the process. It takes memory for its states by itself: the library has no
/// allocators for them.
pub struct Encoder {
    functions: &'static EncodeFunctions,
    context: Context,
    lender: &'static Lender,
    handle: Handle,
}

// SAFETY: the library's handle may be used by many threads at once.
unsafe impl Send for Encoder {}
// SAFETY: as above.
unsafe impl Sync for Encoder {}

impl Encoder {
    /// Of this context, which must be current.
    pub fn new(library: &'static Nvjpeg2k, context: Context, lender: &'static Lender) -> Result<Self, Refusal> {
        let functions = library.encoding.as_ref().map_err(|missing| {
            Refusal::Data(Failure { call: "loading encoders", code: 0, reason: missing.to_string() })
        })?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        let code = unsafe { (functions.nvjpeg2kEncoderCreateSimple)(&mut handle) };
        checked(lender, "nvjpeg2kEncoderCreateSimple", code)?;
        Ok(Self { functions, context, lender, handle })
    }

    /// What one encode at a time needs.
    pub fn state(&self) -> Result<EncodeState, Refusal> {
        let mut state = EncodeState {
            functions: self.functions,
            lender: self.lender,
            handle: self.handle,
            state: std::ptr::null_mut(),
            parameters: std::ptr::null_mut(),
            lossy: false,
            turn: Turn::new(self.context)?,
        };
        // SAFETY: the handle is live; writes one handle, which the state gives back.
        let code = unsafe { (self.functions.nvjpeg2kEncodeStateCreate)(self.handle, &mut state.state) };
        checked(self.lender, "nvjpeg2kEncodeStateCreate", code)?;
        state.renew(false)?;
        Ok(state)
    }
}

/// How samples are encoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coding {
    /// What samples are.
    pub sample: Sample,
    /// Bits of them.
    pub bits: u8,
    /// Times that the image is halved, and once more.
    pub resolutions: u32,
    /// What samples are divided by before they are coded; none for every bit of them.
    pub step: Option<f64>,
}

/// One encode at a time: its memory, its stream and the bytes it gives.
pub struct EncodeState {
    functions: &'static EncodeFunctions,
    lender: &'static Lender,
    handle: Handle,
    state: Handle,
    parameters: Handle,
    /// Whether the parameters have been told of a step.
    lossy: bool,
    turn: Turn,
}

// SAFETY: a state has one owner at a time, and the library does not care which thread that is.
unsafe impl Send for EncodeState {}

impl EncodeState {
    /// What it does, and with which bytes.
    pub fn turn(&mut self) -> &mut Turn {
        &mut self.turn
    }

    /// Whether its last work is done.
    pub fn is_settled(&self) -> bool {
        self.turn.is_settled()
    }

    /// Bytes that it has room for.
    pub fn room(&self) -> usize {
        self.turn.room()
    }

    /// Makes new parameters: those that know of a step refuse to do without.
    fn renew(&mut self, lossy: bool) -> Result<(), Refusal> {
        if !self.parameters.is_null() {
            // SAFETY: they are live and destroyed once; the encode that used them has been waited for.
            unsafe { (self.functions.nvjpeg2kEncodeParamsDestroy)(self.parameters) };
            self.parameters = std::ptr::null_mut();
        }
        // SAFETY: writes one handle, which the state gives back.
        let code = unsafe { (self.functions.nvjpeg2kEncodeParamsCreate)(&mut self.parameters) };
        self.lossy = lossy;
        checked(self.lender, "nvjpeg2kEncodeParamsCreate", code)
    }

    fn configure(&mut self, pixels: &Pixels, coding: &Coding) -> Result<(), Refusal> {
        if self.parameters.is_null() || self.lossy != coding.step.is_some() {
            self.renew(coding.step.is_some())?;
        }
        const BLOCK: u32 = 64;
        const RGB: c_int = 1;
        const GREY: c_int = 2;
        const DIVIDED: c_int = 1;
        const INTERLEAVED: c_int = 1;
        let component = Component {
            width: pixels.width,
            height: pixels.height,
            precision: coding.bits,
            signed: (coding.sample == Sample::Int16).into(),
        };
        let mut components = [component; MOST_COMPONENTS];
        let mut config = EncodeConfig {
            stream_kind: 0,
            colours: if pixels.samples >= 3 { RGB } else { GREY },
            profile: 0,
            width: pixels.width,
            height: pixels.height,
            tiled: 0,
            tile_width: pixels.width,
            tile_height: pixels.height,
            components: pixels.samples.into(),
            component: components.as_mut_ptr(),
            packet_starts: 0,
            packet_ends: 0,
            order: 0,
            layers: 1,
            transform: (pixels.samples == 3).into(),
            resolutions: coding.resolutions,
            block_width: BLOCK,
            block_height: BLOCK,
            modes: 0,
            irreversible: coding.step.is_some().into(),
            precincts: 0,
            precinct_widths: [0; RESOLUTIONS],
            precinct_heights: [0; RESOLUTIONS],
        };
        // SAFETY: the parameters are live; the struct and its components, as many as it says at most, live during the
        // call, which copies them.
        let code = unsafe { (self.functions.nvjpeg2kEncodeParamsSetEncodeConfig)(self.parameters, &mut config) };
        checked(self.lender, "nvjpeg2kEncodeParamsSetEncodeConfig", code)?;
        // SAFETY: the parameters are live.
        let code = unsafe { (self.functions.nvjpeg2kEncodeParamsSetInputFormat)(self.parameters, INTERLEAVED) };
        checked(self.lender, "nvjpeg2kEncodeParamsSetInputFormat", code)?;
        if let Some(step) = coding.step {
            // SAFETY: the parameters are live.
            let code = unsafe { (self.functions.nvjpeg2kEncodeParamsSpecifyQuality)(self.parameters, DIVIDED, step) };
            checked(self.lender, "nvjpeg2kEncodeParamsSpecifyQuality", code)?;
        }
        Ok(())
    }

    /// Puts the encode of pixels into the stream.
    pub fn encode(&mut self, pixels: &Pixels, coding: &Coding) -> Result<(), Refusal> {
        if usize::from(pixels.samples) > MOST_COMPONENTS {
            let reason = format!("{} components", pixels.samples);
            return Err(Refusal::Data(Failure { call: "nvjpeg2kEncode", code: 0, reason }));
        }
        self.configure(pixels, coding)?;
        let size = if coding.sample == Sample::UInt8 { 1 } else { 2 };
        // One plane holds them all; there is room for more names, as the library counts components.
        let mut planes = [pixels.address as *mut c_void; MOST_COMPONENTS];
        let mut pitches = [pixels.width as usize * usize::from(pixels.samples) * size; MOST_COMPONENTS];
        let image = Image {
            planes: planes.as_mut_ptr(),
            pitches: pitches.as_mut_ptr(),
            kind: coding.sample as c_int,
            components: pixels.samples.into(),
        };
        self.turn.begin();
        // SAFETY: handles are live; the struct and its lists live during the call, which copies them; the pixels are
        // device memory of that size, which its owner keeps until this state has been waited for.
        let code = unsafe {
            (self.functions.nvjpeg2kEncode)(
                self.handle,
                self.state,
                self.parameters,
                &image,
                self.turn.stream().handle(),
            )
        };
        checked(self.lender, "nvjpeg2kEncode", code)
    }

    /// Waits for the encode; gives the bytes it came to.
    pub fn length(&mut self) -> Result<usize, Refusal> {
        let mut length = 0;
        // SAFETY: handles are live; asked without room for the bytes, the call returns when the number is written.
        let code = unsafe {
            (self.functions.nvjpeg2kEncodeRetrieveBitstream)(
                self.handle,
                self.state,
                std::ptr::null_mut(),
                &mut length,
                self.turn.stream().handle(),
            )
        };
        checked(self.lender, "nvjpeg2kEncodeRetrieveBitstream", code)?;
        Ok(length)
    }

    /// Waits for the bytes, of this length, and gives them.
    pub fn bytes(&mut self, length: usize) -> Result<&[u8], Refusal> {
        let mut written = length;
        let out = self.turn.input(length)?.as_mut_ptr();
        self.turn.begin();
        // SAFETY: handles are live; there is room for as many bytes as the call is told of, and they stay where they are
        // until the stream has been waited for.
        let code = unsafe {
            (self.functions.nvjpeg2kEncodeRetrieveBitstream)(
                self.handle,
                self.state,
                out,
                &mut written,
                self.turn.stream().handle(),
            )
        };
        checked(self.lender, "nvjpeg2kEncodeRetrieveBitstream", code)?;
        self.turn.settle()?;
        Ok(self.turn.bytes(0..length.min(written)))
    }
}

impl Drop for EncodeState {
    fn drop(&mut self) {
        // Where the driver does not answer any more, neither does the library.
        if !self.turn.ends() {
            return;
        }
        // SAFETY: each is live and destroyed once; nothing of them is in use.
        unsafe {
            if !self.state.is_null() {
                (self.functions.nvjpeg2kEncodeStateDestroy)(self.state);
            }
            if !self.parameters.is_null() {
                (self.functions.nvjpeg2kEncodeParamsDestroy)(self.parameters);
            }
        }
    }
}
