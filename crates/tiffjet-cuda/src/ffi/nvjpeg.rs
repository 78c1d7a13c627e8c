//! The part of nvJPEG that is used, as safe functions.
//!
//! What makes them safe is what makes those of nvJPEG2000 safe: a [`State`] owns the bytes that the library reads.

#![allow(unsafe_code)] // calls functions of the library

use std::ffi::{c_int, c_uint};
use std::ops::Range;
use std::sync::OnceLock;

use super::driver::{Context, Failure, Handle};
use super::lend::{Allocator, Lender, Refusal, checked};
use super::load::{Library, Missing, Version, Wanted, functions};
use super::turn::{Pixels, Turn};

/// The library.
pub const WANTED: Wanted = Wanted {
    name: "nvJPEG",
    sonames: &["libnvjpeg.so.13", "libnvjpeg.so.12"],
    wheels: &["nvidia/cu13/lib", "nvidia/nvjpeg/lib"],
    enables: "JPEG on the GPU",
    hint: "pip install nvidia-nvjpeg (or nvidia-nvjpeg-cu12, as the driver is)",
};

type Status = c_int;
/// Threads of the library's own for a batch.
const THREADS: c_int = 2;
/// Components that the library counts.
const COMPONENTS: usize = 4;

functions! {
    struct Functions {
        fn nvjpegGetProperty(c_int, *mut c_int) -> Status;
        fn nvjpegCreateExV2(c_int, *mut Allocator, *mut Allocator, c_uint, *mut Handle) -> Status;
        fn nvjpegJpegStateCreate(Handle, *mut Handle) -> Status;
        fn nvjpegJpegStateDestroy(Handle) -> Status;
        fn nvjpegGetImageInfo(Handle, *const u8, usize, *mut c_int, *mut c_int, *mut c_int, *mut c_int) -> Status;
        fn nvjpegDecodeBatchedInitialize(Handle, Handle, c_int, c_int, c_int) -> Status;
        fn nvjpegDecodeBatched(Handle, Handle, *const *const u8, *const usize, *mut Image, Handle) -> Status;
    }
}

functions! {
    struct EncodeFunctions {
        fn nvjpegEncoderStateCreate(Handle, *mut Handle, Handle) -> Status;
        fn nvjpegEncoderStateDestroy(Handle) -> Status;
        fn nvjpegEncoderParamsCreate(Handle, *mut Handle, Handle) -> Status;
        fn nvjpegEncoderParamsDestroy(Handle) -> Status;
        fn nvjpegEncoderParamsSetQuality(Handle, c_int, Handle) -> Status;
        fn nvjpegEncoderParamsSetOptimizedHuffman(Handle, c_int, Handle) -> Status;
        fn nvjpegEncoderParamsSetSamplingFactors(Handle, c_int, Handle) -> Status;
        fn nvjpegEncodeImage(Handle, Handle, Handle, *const Image, c_int, c_int, c_int, Handle) -> Status;
        fn nvjpegEncodeYUV(Handle, Handle, Handle, *const Image, c_int, c_int, c_int, Handle) -> Status;
        fn nvjpegEncodeRetrieveBitstream(Handle, Handle, *mut u8, *mut usize, Handle) -> Status;
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Image {
    planes: [*mut u8; COMPONENTS],
    pitches: [usize; COMPONENTS],
}

/// What comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Components as they are, each in a plane of its own.
    Planes = 0,
    /// YCbCr as red, green and blue, pixel by pixel.
    Pixels = 5,
}

/// One image of a batch.
#[derive(Debug, Clone)]
pub struct Picture {
    /// Its bytes in the input of the state.
    pub bytes: Range<usize>,
    /// Device memory; planes stand one behind the other.
    pub output: u64,
    /// Pixels of a row, and of a row of each plane.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Components.
    pub components: usize,
}

/// The library, loaded.
pub struct Nvjpeg {
    functions: Functions,
    /// Not all builds have them.
    encoding: Result<EncodeFunctions, Missing>,
    library: Library,
    version: Version,
}

impl Nvjpeg {
    /// The library of this machine, loaded when it is first asked for.
    pub fn get() -> Result<&'static Self, &'static Missing> {
        static LIBRARY: OnceLock<Result<Nvjpeg, Missing>> = OnceLock::new();
        LIBRARY.get_or_init(Self::load).as_ref()
    }

    fn load() -> Result<Self, Missing> {
        let library = Library::open(WANTED)?;
        // SAFETY: the types are those of the header, which are the same in versions 12 and 13.
        let functions = unsafe { Functions::load(&library) }?;
        // SAFETY: the function is what is asked for here.
        let version = unsafe { Version::ask(functions.nvjpegGetProperty) };
        if !(12..=13).contains(&version.major) {
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
    library: &'static Nvjpeg,
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
    pub fn new(library: &'static Nvjpeg, context: Context, lender: &'static Lender) -> Result<Self, Refusal> {
        /// Codes are decoded by kernels. Decoders that some devices have beside them are no faster with all that is
        /// around them, and a trial with four threads that gave them batches did not come to its end.
        const KERNELS: c_int = 2;
        /// Chrominance that pixels share is interpolated, as the host does it.
        const INTERPOLATE: c_uint = 1 << 5;
        let (mut device, mut locked) = (lender.device(), lender.locked());
        let mut handle = std::ptr::null_mut();
        // SAFETY: the allocators are copied, and what they name lives as long as the process.
        let code = unsafe {
            (library.functions.nvjpegCreateExV2)(KERNELS, &mut device, &mut locked, INTERPOLATE, &mut handle)
        };
        checked(lender, "nvjpegCreateExV2", code)?;
        Ok(Self { library, context, lender, handle })
    }

    /// What one batch at a time needs.
    pub fn state(&self) -> Result<State, Refusal> {
        let mut state = State {
            library: self.library,
            lender: self.lender,
            handle: self.handle,
            state: std::ptr::null_mut(),
            turn: Turn::new(self.context)?,
        };
        // SAFETY: the handle is live; writes one handle, which `State` gives back.
        let code = unsafe { (self.library.functions.nvjpegJpegStateCreate)(self.handle, &mut state.state) };
        checked(self.lender, "nvjpegJpegStateCreate", code)?;
        Ok(state)
    }
}

/// One batch at a time: its memory, its stream and the bytes it reads.
pub struct State {
    library: &'static Nvjpeg,
    lender: &'static Lender,
    handle: Handle,
    state: Handle,
    turn: Turn,
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

    /// The bytes of an image of the batch.
    pub fn bytes(&self, picture: &Picture) -> &[u8] {
        self.turn.bytes(picture.bytes.clone())
    }

    /// Whether the library sees in the bytes what they are thought to be: it writes as much as it sees.
    pub fn agrees(&self, picture: &Picture, shape: Shape) -> bool {
        let bytes = self.bytes(picture);
        let (mut components, mut sampling) = (0, 0);
        let (mut widths, mut heights) = ([0 as c_int; COMPONENTS], [0 as c_int; COMPONENTS]);
        // SAFETY: reads the bytes and writes these numbers, `COMPONENTS` of the latter two.
        let code = unsafe {
            (self.library.functions.nvjpegGetImageInfo)(
                self.handle,
                bytes.as_ptr(),
                bytes.len(),
                &mut components,
                &mut sampling,
                widths.as_mut_ptr(),
                heights.as_mut_ptr(),
            )
        };
        let size = (picture.width as c_int, picture.height as c_int);
        let sized = if shape == Shape::Planes { picture.components } else { 1 };
        code == 0
            && components == picture.components as c_int
            && widths.into_iter().zip(heights).take(sized).all(|found| found == size)
    }

    /// Puts the decode of a batch into the stream.
    pub fn decode(&mut self, pictures: &[Picture], shape: Shape) -> Result<(), Refusal> {
        let functions = &self.library.functions;
        let count = pictures.len() as c_int;
        // SAFETY: handles are live. It also forgets a batch that failed.
        let code = unsafe {
            (functions.nvjpegDecodeBatchedInitialize)(self.handle, self.state, count, THREADS, shape as c_int)
        };
        checked(self.lender, "nvjpegDecodeBatchedInitialize", code)?;
        let (bytes, lengths): (Vec<*const u8>, Vec<usize>) =
            pictures.iter().map(|picture| self.bytes(picture)).map(|bytes| (bytes.as_ptr(), bytes.len())).unzip();
        let mut images: Vec<Image> = pictures.iter().map(|picture| picture.image(shape)).collect();
        self.turn.begin();
        // SAFETY: as many bytes, lengths and images as the batch was made for; the bytes live as long as the state and
        // stay as they are until the batch is done; the images are device memory with room for what `agrees` found.
        let code = unsafe {
            (functions.nvjpegDecodeBatched)(
                self.handle,
                self.state,
                bytes.as_ptr(),
                lengths.as_ptr(),
                images.as_mut_ptr(),
                self.turn.stream().handle(),
            )
        };
        checked(self.lender, "nvjpegDecodeBatched", code)
    }
}

impl Picture {
    fn image(&self, shape: Shape) -> Image {
        let mut image = Image { planes: [std::ptr::null_mut(); COMPONENTS], pitches: [0; COMPONENTS] };
        let plane = (self.width * self.height) as u64;
        match shape {
            Shape::Pixels => {
                image.planes[0] = self.output as *mut u8;
                image.pitches[0] = self.width * self.components;
            }
            Shape::Planes => {
                for (i, (at, pitch)) in
                    image.planes.iter_mut().zip(&mut image.pitches).take(self.components).enumerate()
                {
                    *at = (self.output + i as u64 * plane) as *mut u8;
                    *pitch = self.width;
                }
            }
        }
        image
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // Where the driver does not answer any more, neither does the library.
        if !self.turn.ends() {
            return;
        }
        if !self.state.is_null() {
            // SAFETY: it is live and destroyed once; nothing of it is in use.
            unsafe { (self.library.functions.nvjpegJpegStateDestroy)(self.state) };
        }
    }
}

/// Pixels that share a sample of colour; one sample alone is brightness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // across and down
pub enum Sampling {
    By1x1 = 0,
    By2x1 = 1,
    By2x2 = 2,
    By1x2 = 3,
    By4x1 = 4,
    By4x2 = 5,
    Grey = 6,
}

/// An encoder of one device, for the life of the process.
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
    /// Of this context, with memory of this lender.
    pub fn new(library: &'static Nvjpeg, context: Context, lender: &'static Lender) -> Result<Self, Refusal> {
        let functions = library.encoding.as_ref().map_err(|missing| {
            Refusal::Data(Failure { call: "loading encoders", code: 0, reason: missing.to_string() })
        })?;
        let (mut device, mut locked) = (lender.device(), lender.locked());
        let mut handle = std::ptr::null_mut();
        // SAFETY: the allocators are copied, and what they name lives as long as the process.
        let code = unsafe { (library.functions.nvjpegCreateExV2)(0, &mut device, &mut locked, 0, &mut handle) };
        checked(lender, "nvjpegCreateExV2", code)?;
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
            turn: Turn::new(self.context)?,
            length: Box::new(0),
        };
        let stream = state.turn.stream().handle();
        state.turn.begin();
        // SAFETY: the handle is live; each writes one handle, which the state gives back.
        let code = unsafe { (self.functions.nvjpegEncoderStateCreate)(self.handle, &mut state.state, stream) };
        checked(self.lender, "nvjpegEncoderStateCreate", code)?;
        // SAFETY: as above.
        let code = unsafe { (self.functions.nvjpegEncoderParamsCreate)(self.handle, &mut state.parameters, stream) };
        checked(self.lender, "nvjpegEncoderParamsCreate", code)?;
        Ok(state)
    }
}

/// One encode at a time: its memory, its stream and the bytes it gives.
pub struct EncodeState {
    functions: &'static EncodeFunctions,
    lender: &'static Lender,
    handle: Handle,
    state: Handle,
    parameters: Handle,
    turn: Turn,
    /// What the library may write at any time until the stream has been waited for.
    length: Box<usize>,
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

    /// Puts the encode of pixels, red, green and blue or grey, into the stream.
    pub fn encode(&mut self, pixels: &Pixels, quality: u8, sampling: Sampling) -> Result<(), Refusal> {
        const PIXELS: c_int = Shape::Pixels as c_int;
        let Self { functions, lender, handle, state, parameters, turn, .. } = self;
        let stream = turn.stream().handle();
        // SAFETY: the parameters and the stream are live.
        let codes = unsafe {
            [
                (
                    "nvjpegEncoderParamsSetQuality",
                    (functions.nvjpegEncoderParamsSetQuality)(*parameters, quality.into(), stream),
                ),
                // The tables of the standard: they are the same for all tiles, and stand in the file once.
                (
                    "nvjpegEncoderParamsSetOptimizedHuffman",
                    (functions.nvjpegEncoderParamsSetOptimizedHuffman)(*parameters, 0, stream),
                ),
                (
                    "nvjpegEncoderParamsSetSamplingFactors",
                    (functions.nvjpegEncoderParamsSetSamplingFactors)(*parameters, sampling as c_int, stream),
                ),
            ]
        };
        codes.into_iter().try_for_each(|(call, code)| checked(lender, call, code))?;
        let mut image = Image { planes: [std::ptr::null_mut(); COMPONENTS], pitches: [0; COMPONENTS] };
        image.planes[0] = pixels.address as *mut u8;
        image.pitches[0] = pixels.width as usize * usize::from(pixels.samples);
        let (width, height) = (pixels.width as c_int, pixels.height as c_int);
        turn.begin();
        // SAFETY: handles are live; the struct lives during the call, which copies it; the pixels are device memory of
        // that size, which its owner keeps until this state has been waited for.
        let (call, code) = unsafe {
            match sampling {
                Sampling::Grey => {
                    let encode = functions.nvjpegEncodeYUV;
                    let grey = sampling as c_int;
                    ("nvjpegEncodeYUV", encode(*handle, *state, *parameters, &image, grey, width, height, stream))
                }
                _ => {
                    let encode = functions.nvjpegEncodeImage;
                    ("nvjpegEncodeImage", encode(*handle, *state, *parameters, &image, PIXELS, width, height, stream))
                }
            }
        };
        checked(lender, call, code)
    }

    /// Waits for the encode, and for its bytes; gives them.
    pub fn bytes(&mut self) -> Result<&[u8], Refusal> {
        let length = self.retrieve(None)?;
        let written = self.retrieve(Some(length))?;
        Ok(self.turn.bytes(0..length.min(written)))
    }

    /// Asks for the length, or for the bytes where it is known; waits for the answer.
    fn retrieve(&mut self, length: Option<usize>) -> Result<usize, Refusal> {
        *self.length = length.unwrap_or(0);
        let out = match length {
            Some(length) => self.turn.input(length)?.as_mut_ptr(),
            None => std::ptr::null_mut(),
        };
        self.turn.begin();
        // SAFETY: handles are live; there is room for as many bytes as the call is told of; they and the number stay
        // where they are until the stream has been waited for.
        let code = unsafe {
            (self.functions.nvjpegEncodeRetrieveBitstream)(
                self.handle,
                self.state,
                out,
                &mut *self.length,
                self.turn.stream().handle(),
            )
        };
        checked(self.lender, "nvjpegEncodeRetrieveBitstream", code)?;
        self.turn.settle()?;
        Ok(*self.length)
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
                (self.functions.nvjpegEncoderStateDestroy)(self.state);
            }
            if !self.parameters.is_null() {
                (self.functions.nvjpegEncoderParamsDestroy)(self.parameters);
            }
        }
    }
}
