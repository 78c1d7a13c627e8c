//! The part of nvCOMP that compresses, as safe functions.
//!
//! One symbol has other arguments in another major version, so each version is bound by a table of its own. What makes
//! the functions safe is what makes those of the driver safe: addresses of device memory are numbers to the host.

#![allow(unsafe_code)] // calls functions of nvCOMP

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use super::driver::{Driver, Failure, Result, Stream};
use super::load::{Library, Missing, Wanted, functions};

/// nvCOMP's library.
pub const WANTED: Wanted = Wanted {
    name: "nvCOMP",
    sonames: &["libnvcomp.so.6", "libnvcomp.so.5"],
    wheels: &["nvidia/libnvcomp/lib64", "nvidia/nvcomp"],
    enables: "levels 2 and 3 of ZSTD and 2 to 9 of Deflate when writing on the GPU",
    hint: "pip install nvidia-libnvcomp-cu13 or nvidia-libnvcomp-cu12, version 5 or 6",
};

type Handle = *mut c_void;
type Status = c_int;

functions! {
    /// The same in all versions.
    struct Functions {
        fn nvcompBatchedZstdCompressGetRequiredAlignments(Options, *mut Alignments) -> Status;
        fn nvcompBatchedZstdCompressGetMaxOutputChunkSize(usize, Options, *mut usize) -> Status;
        fn nvcompBatchedZstdCompressAsync(u64, u64, usize, usize, u64, usize, u64, u64, Options, u64, Handle) -> Status;
        fn nvcompBatchedDeflateCompressGetRequiredAlignments(Options, *mut Alignments) -> Status;
        fn nvcompBatchedDeflateCompressGetMaxOutputChunkSize(usize, Options, *mut usize) -> Status;
        fn nvcompBatchedDeflateCompressAsync(u64, u64, usize, usize, u64, usize, u64, u64, Options, u64, Handle) -> Status;
    }
}

functions! {
    /// What tells the version of all others.
    struct First {
        fn nvcompGetProperties(*mut Properties) -> Status;
    }
}

functions! {
    /// As version 5 has them.
    struct Five {
        fn nvcompBatchedZstdCompressGetTempSizeAsync(usize, usize, Options, *mut usize, usize) -> Status;
        fn nvcompBatchedDeflateCompressGetTempSizeAsync(usize, usize, Options, *mut usize, usize) -> Status;
    }
}

functions! {
    /// As version 6 has them.
    struct Six {
        fn nvcompBatchedZstdCompressGetTempSize(usize, usize, Options, *mut usize, usize, Handle) -> Status;
        fn nvcompBatchedDeflateCompressGetTempSize(usize, usize, Options, *mut usize, usize, Handle) -> Status;
    }
}

enum Scratch {
    Five(Five),
    Six(Six),
}

#[repr(C)]
#[derive(Default)]
struct Properties {
    /// 5300 is 5.3.0.
    version: u32,
    /// 13000 is CUDA 13.0.
    runtime: u32,
}

/// Options of every method: 64 bytes, of which Deflate uses four and ZSTD none.
#[repr(C)]
#[derive(Clone, Copy)]
struct Options {
    algorithm: c_int,
    reserved: [u8; 60],
}

#[repr(C)]
#[derive(Default)]
struct Alignments {
    input: usize,
    output: usize,
    scratch: usize,
}

/// How chunks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// One frame of a chunk.
    Zstd,
    /// A stream without a frame around it, by one of the algorithms of nvCOMP.
    Deflate(i32),
}

/// Chunks to be compressed: arrays on the device of one entry each.
#[derive(Debug, Clone, Copy)]
pub struct Chunks {
    /// How many.
    pub count: u32,
    /// Addresses of plain chunks.
    pub inputs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of the largest.
    pub largest: u64,
    /// Addresses of memory for compressed chunks, as much as [`Nvcomp::most`] says.
    pub outputs: u64,
    /// Where the bytes of compressed chunks go.
    pub sizes: u64,
    /// Where the outcome of each goes, four bytes: 0 is good.
    pub statuses: u64,
    /// Memory as much as [`Nvcomp::scratch`] says.
    pub scratch: (u64, u64),
}

/// nvCOMP, loaded.
pub struct Nvcomp {
    library: Library,
    functions: Functions,
    scratch: Scratch,
    version: u32,
}

// SAFETY: the functions may be called from any thread.
unsafe impl Send for Nvcomp {}
// SAFETY: as above.
unsafe impl Sync for Nvcomp {}

impl Nvcomp {
    /// The one of this machine, loaded when it is first asked for.
    pub fn get() -> Result<&'static Self, &'static Missing> {
        static NVCOMP: OnceLock<Result<Nvcomp, Missing>> = OnceLock::new();
        NVCOMP.get_or_init(Self::load).as_ref()
    }

    fn load() -> Result<Self, Missing> {
        let library = Library::open(WANTED)?;
        // SAFETY: the type is that of nvcomp.h in all versions that have the symbol.
        let first = unsafe { First::load(&library) }?;
        let mut properties = Properties::default();
        // SAFETY: it writes a struct of this layout.
        let status = unsafe { (first.nvcompGetProperties)(&mut properties) };
        let Properties { version, runtime } = properties;
        let served = Driver::get().map_or(0, |driver| driver.version().0);
        if status != 0 || !matches!(version / 1000, 5 | 6) {
            return Err(library.refuse(spell(version)));
        }
        if (runtime / 1000) as i32 > served {
            return Err(library.refuse(format!("{} for CUDA {}", spell(version), runtime / 1000)));
        }
        // SAFETY: the types are those of the headers of versions 5 and 6, and it is one of them.
        let functions = unsafe { Functions::load(&library) }?;
        let scratch = match version / 1000 {
            // SAFETY: the types are those of the headers of version 5.
            5 => Scratch::Five(unsafe { Five::load(&library) }?),
            // SAFETY: the types are those of the headers of version 6.
            _ => Scratch::Six(unsafe { Six::load(&library) }?),
        };
        Ok(Self { library, functions, scratch, version })
    }

    /// Where it was found.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Its version as people write it.
    pub fn version(&self) -> String {
        spell(self.version)
    }

    /// The largest chunk that a method takes, as its documentation has it.
    pub fn largest(method: Method) -> u64 {
        match method {
            Method::Zstd => 16_000_000,
            Method::Deflate(_) => 1 << 31,
        }
    }

    /// Alignment of plain chunks, of compressed ones and of scratch.
    pub fn alignments(&self, method: Method) -> Result<[u64; 3]> {
        let mut found = Alignments::default();
        let f = &self.functions;
        let (name, call) = match method {
            Method::Zstd => {
                ("nvcompBatchedZstdCompressGetRequiredAlignments", f.nvcompBatchedZstdCompressGetRequiredAlignments)
            }
            Method::Deflate(_) => (
                "nvcompBatchedDeflateCompressGetRequiredAlignments",
                f.nvcompBatchedDeflateCompressGetRequiredAlignments,
            ),
        };
        // SAFETY: it writes a struct of this layout.
        checked(name, unsafe { call(options(method), &mut found) })?;
        Ok([found.input, found.output, found.scratch].map(|n| n.max(1) as u64))
    }

    /// No chunk of so many bytes becomes longer.
    pub fn most(&self, method: Method, bytes: u64) -> Result<u64> {
        let mut most = 0;
        let f = &self.functions;
        let (name, call) = match method {
            Method::Zstd => {
                ("nvcompBatchedZstdCompressGetMaxOutputChunkSize", f.nvcompBatchedZstdCompressGetMaxOutputChunkSize)
            }
            Method::Deflate(_) => (
                "nvcompBatchedDeflateCompressGetMaxOutputChunkSize",
                f.nvcompBatchedDeflateCompressGetMaxOutputChunkSize,
            ),
        };
        // SAFETY: it writes one number.
        checked(name, unsafe { call(bytes as usize, options(method), &mut most) })?;
        Ok(most as u64)
    }

    /// Bytes of scratch for so many chunks of at most so many bytes. The device is the one of this thread.
    pub fn scratch(&self, method: Method, count: u32, largest: u64, stream: &Stream) -> Result<u64> {
        let mut bytes = 0;
        let (n, most, all) = (count as usize, largest as usize, (u64::from(count) * largest) as usize);
        let o = options(method);
        let (name, status) = match (&self.scratch, method) {
            // SAFETY: it writes one number.
            (Scratch::Five(f), Method::Zstd) => ("nvcompBatchedZstdCompressGetTempSizeAsync", unsafe {
                (f.nvcompBatchedZstdCompressGetTempSizeAsync)(n, most, o, &mut bytes, all)
            }),
            // SAFETY: as above.
            (Scratch::Five(f), Method::Deflate(_)) => ("nvcompBatchedDeflateCompressGetTempSizeAsync", unsafe {
                (f.nvcompBatchedDeflateCompressGetTempSizeAsync)(n, most, o, &mut bytes, all)
            }),
            // SAFETY: as above; the stream is alive.
            (Scratch::Six(f), Method::Zstd) => ("nvcompBatchedZstdCompressGetTempSize", unsafe {
                (f.nvcompBatchedZstdCompressGetTempSize)(n, most, o, &mut bytes, all, stream.handle())
            }),
            // SAFETY: as above.
            (Scratch::Six(f), Method::Deflate(_)) => ("nvcompBatchedDeflateCompressGetTempSize", unsafe {
                (f.nvcompBatchedDeflateCompressGetTempSize)(n, most, o, &mut bytes, all, stream.handle())
            }),
        };
        checked(name, status)?;
        Ok(bytes as u64)
    }

    /// Puts the compression of chunks into a stream of the device of this thread.
    pub fn compress(&self, method: Method, chunks: &Chunks, stream: &Stream) -> Result<()> {
        let f = &self.functions;
        let (name, call) = match method {
            Method::Zstd => ("nvcompBatchedZstdCompressAsync", f.nvcompBatchedZstdCompressAsync),
            Method::Deflate(_) => ("nvcompBatchedDeflateCompressAsync", f.nvcompBatchedDeflateCompressAsync),
        };
        let Chunks { count, inputs, bytes, largest, outputs, sizes, statuses, scratch } = *chunks;
        // SAFETY: it submits work on addresses of the device, which the host does not follow; the stream is alive.
        checked(name, unsafe {
            call(
                inputs,
                bytes,
                largest as usize,
                count as usize,
                scratch.0,
                scratch.1 as usize,
                outputs,
                sizes,
                options(method),
                statuses,
                stream.handle(),
            )
        })
    }
}

fn options(method: Method) -> Options {
    let algorithm = match method {
        Method::Zstd => 0,
        Method::Deflate(algorithm) => algorithm,
    };
    Options { algorithm, reserved: [0; 60] }
}

fn checked(call: &'static str, status: Status) -> Result<()> {
    match status {
        0 => Ok(()),
        code => Err(Failure { call, code, reason: "a status of nvCOMP".into() }),
    }
}

/// 5300 is 5.3.0.
fn spell(version: u32) -> String {
    format!("{}.{}.{}", version / 1000, version % 1000 / 100, version % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_are_those_of_the_headers() {
        assert_eq!((size_of::<Options>(), size_of::<Properties>(), size_of::<Alignments>()), (64, 8, 24));
        assert_eq!(spell(5312), "5.3.12");
    }
}
