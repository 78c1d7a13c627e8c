//! The kernels: what they are called with, and the packed file they come from.
//!
//! The structs mirror `kernels/abi.h`, field by field; a test lets C++ read what they write.

pub mod launch;
pub mod reduce;
pub mod write;

use std::collections::HashMap;
use std::io::Read;
use std::sync::{Mutex, PoisonError};

use crate::ffi::driver::{Argument, Arguments, Context, Failure, Function, Module, Shape, Stream};

/// Machine code for all devices, made by `make kernels`.
static PACKED: &[u8] = include_bytes!("../kernels/kernels.bin");

/// The kernel that places every format, and is the slowest.
const ANY: &str = "place_any";

/// Status of a tile that is full while its data go on.
pub const STATUS_LONGER: u32 = 6;

/// One compressed tile.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tile {
    /// Its bytes.
    pub input: u64,
    /// Where it goes.
    pub output: u64,
    /// How many bytes it has.
    pub in_bytes: u32,
    /// How many it must give.
    pub out_bytes: u32,
    /// Place of its status.
    pub id: u32,
}

impl Tile {
    /// Bytes on the device.
    pub const SIZE: u64 = 32;

    /// As the device has it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.input.to_le_bytes());
        out.extend(self.output.to_le_bytes());
        for field in [self.in_bytes, self.out_bytes, self.id, 0] {
            out.extend(field.to_le_bytes());
        }
    }
}

/// A part of a decoded tile on its way to its place.
#[derive(Debug, Clone, Copy, Default)]
pub struct Place {
    /// Its first wanted row; 0 for a fill.
    pub input: u64,
    /// The array of its window.
    pub output: u64,
    /// First wanted pixel of each row.
    pub x: u32,
    /// Wanted rows.
    pub height: u32,
    /// Wanted pixels of a row.
    pub width: u32,
    /// Row in the array.
    pub at_y: u32,
    /// Column in the array.
    pub at_x: u32,
    /// Band of the file that a planar tile holds.
    pub plane: u32,
}

impl Place {
    /// Bytes on the device.
    pub const SIZE: u64 = 40;

    /// As the device has it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.input.to_le_bytes());
        out.extend(self.output.to_le_bytes());
        for field in [self.x, self.height, self.width, self.at_y, self.at_x, self.plane] {
            out.extend(field.to_le_bytes());
        }
    }
}

/// Samples on their way to a whole plane.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    /// The samples.
    pub input: u64,
    /// The plane.
    pub output: u64,
    /// Bytes of a row of samples.
    pub pitch: u32,
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Columns and rows that share a sample.
    pub step: (u32, u32),
    /// What samples are.
    pub kind: SpreadKind,
}

/// What samples are, and become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // as in spread.cu
pub enum SpreadKind {
    Bytes = 0,
    Words = 1,
    WordsToBytes = 2,
}

/// What is undone after decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // as in abi.h
pub enum Predictor {
    #[default]
    None = 0,
    Horizontal = 1,
    Float = 2,
}

/// How samples stand in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // as in abi.h
pub enum Depth {
    #[default]
    Whole = 0,
    Bits = 1,
    Float24 = 2,
}

/// How the rows of all tiles of a batch are unpacked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)] // as in abi.h
pub struct Format {
    pub row_bytes: u64,
    pub out_row: u64,
    pub out_band: u64,
    pub tile_width: u32,
    pub samples: u32,
    pub depth: Depth,
    pub bits: u32,
    pub is_signed: bool,
    pub size: u32,
    pub word: u32,
    pub swap: u32,
    pub big: bool,
    pub predictor: Predictor,
    pub planar: bool,
    /// For each band of the array its band in the file.
    pub band_of: Vec<u16>,
    pub all: bool,
    pub reversed: bool,
    pub fill: [u8; 16],
    pub nodata: Option<[u8; 16]>,
}

impl Format {
    /// Bytes on the device.
    pub const SIZE: usize = 128;

    /// As a kernel gets it; the list of bands stands at `band_of`.
    pub fn bytes(&self, band_of: u64) -> [u8; Self::SIZE] {
        let mut out = Vec::with_capacity(Self::SIZE);
        for field in [self.row_bytes, self.out_row, self.out_band] {
            out.extend(field.to_le_bytes());
        }
        for field in [
            self.tile_width,
            self.samples,
            self.depth as u32,
            self.bits,
            self.is_signed.into(),
            self.size,
            self.word,
            self.swap,
            self.big.into(),
            self.predictor as u32,
            self.planar.into(),
            self.band_of.len() as u32,
            self.all.into(),
            self.reversed.into(),
            self.nodata.is_some().into(),
            0,
        ] {
            out.extend(field.to_le_bytes());
        }
        out.extend(band_of.to_le_bytes());
        out.extend(self.fill);
        out.extend(self.nodata.unwrap_or_default());
        let mut bytes = [0; Self::SIZE];
        bytes.copy_from_slice(&out);
        bytes
    }

    /// Which kernel takes it, as the head of `place.cu` says.
    fn kernel(&self) -> &'static str {
        if self.depth != Depth::Whole || self.reversed || self.size == 16 {
            return ANY;
        }
        let float = self.predictor == Predictor::Float;
        let names = match (self.size, float) {
            (1, false) => ["place_1_1", "place_1_2", "place_1_3", "place_1_4", "place_1_many"],
            (2, false) => ["place_2_1", "place_2_2", "place_2_3", "place_2_4", "place_2_many"],
            (4, false) => ["place_4_1", "place_4_2", "place_4_3", "place_4_4", "place_4_many"],
            (8, false) => ["place_8_1", "place_8_2", "place_8_3", "place_8_4", "place_8_many"],
            (2, true) => ["place_floats_2_1", ANY, ANY, ANY, ANY],
            (4, true) => ["place_floats_4_1", "place_floats_4_2", "place_floats_4_3", "place_floats_4_4", ANY],
            (8, true) => ["place_floats_8_1", ANY, ANY, ANY, ANY],
            _ => [ANY; 5],
        };
        names[(self.samples as usize).clamp(1, 5) - 1]
    }
}

/// The kernels of one device. Each source is loaded when one of its kernels is first asked for.
pub struct Kernels {
    context: Context,
    capability: (i32, i32),
    loaded: Mutex<Loaded>,
}

#[derive(Default)]
struct Loaded {
    modules: HashMap<&'static str, Module>,
    functions: HashMap<(&'static str, u32), Function>,
}

impl Kernels {
    /// For a device of this capability.
    pub fn load(context: &Context, capability: (i32, i32)) -> Result<Self, Failure> {
        let kernels = Self { context: *context, capability, loaded: Mutex::default() };
        // What every read needs; a device that takes none of the code is refused at once.
        kernels.function("place", "place_any", 0)?;
        Ok(kernels)
    }

    /// A kernel of a source, with so much shared memory.
    pub fn function(&self, source: &'static str, name: &'static str, shared: u32) -> Result<Function, Failure> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = loaded.functions.get(&(name, shared)) {
            return Ok(*function);
        }
        if !loaded.modules.contains_key(source) {
            let module = self.module(source)?;
            loaded.modules.insert(source, module);
        }
        let function = loaded.modules[source].function(name, shared)?;
        loaded.functions.insert((name, shared), function);
        Ok(function)
    }

    /// Machine code where there is some for the device, else PTX, which the driver compiles.
    fn module(&self, source: &str) -> Result<Module, Failure> {
        let mut refusal = Failure {
            call: "loading kernels",
            code: 0,
            reason: format!("no code of {source} for compute capability {}.{}", self.capability.0, self.capability.1),
        };
        for entry in entries(PACKED).into_iter().flatten().filter(|entry| entry.name == source) {
            if !entry.serves(self.capability) {
                continue;
            }
            let Some(image) = entry.image(PACKED) else { continue };
            match self.context.module(&image) {
                Ok(module) => return Ok(module),
                Err(failure) => refusal = failure,
            }
        }
        Err(refusal)
    }

    /// Makes the word at `first`, all ones before, name the first bad one of `count` statuses.
    pub fn first_bad(&self, stream: &Stream, statuses: u64, count: u32, first: u64) -> Result<(), Failure> {
        const BLOCK: u32 = 256;
        let function = self.function("status", "status_first", 0)?;
        let shape = Shape { grid: (count.div_ceil(BLOCK), 1), block: BLOCK, shared: 0 };
        function.launch(shape, stream, &[&statuses as &dyn Arguments, &count, &first])
    }

    /// Makes a whole plane of samples that pixels share.
    pub fn spread(&self, stream: &Stream, spread: &Spread) -> Result<(), Failure> {
        const BLOCK: u64 = 256;
        let Spread { input, output, pitch, width, height, step, kind } = spread;
        let blocks = (u64::from(*width) * u64::from(*height)).div_ceil(BLOCK);
        let shape = Shape { grid: (u32::try_from(blocks).unwrap_or(u32::MAX), 1), block: BLOCK as u32, shared: 0 };
        let kind = *kind as u32;
        let arguments: [&dyn Arguments; 8] = [input, output, pitch, width, height, &step.0, &step.1, &kind];
        self.function("spread", "spread", 0)?.launch(shape, stream, &arguments)
    }

    /// Puts the parts of tiles in their places; `places` stand at an address, `tallest` is the largest height.
    pub fn place(
        &self,
        stream: &Stream,
        (places, count, tallest): (u64, u32, u32),
        format: &Format,
        band_of: u64,
    ) -> Result<(), Failure> {
        /// Rows of a warp.
        const ROWS: u32 = 4;
        /// Warps of a block.
        const WARPS: u32 = 8;
        /// Warps of one launch.
        const MOST: u32 = 1 << 30;
        let function = self.function("place", format.kernel(), 0)?;
        let per_place = tallest.div_ceil(ROWS).max(1);
        let step = (MOST / per_place).max(1);
        let format = Argument::new(format.bytes(band_of));
        for first in (0..count).step_by(step as usize) {
            let count = step.min(count - first);
            let shape = Shape { grid: ((count * per_place).div_ceil(WARPS), 1), block: 32 * WARPS, shared: 0 };
            let places = places + u64::from(first) * Place::SIZE;
            function.launch(shape, stream, &[&places as &dyn Arguments, &count, &per_place, &format])?;
        }
        Ok(())
    }
}

/// One entry of the packed file.
struct Entry {
    name: String,
    ptx: bool,
    arch: i32,
    offset: usize,
    packed: usize,
    size: usize,
}

impl Entry {
    /// A cubin serves devices of its major version from its minor one on, PTX all from its own on.
    fn serves(&self, (major, minor): (i32, i32)) -> bool {
        let (own_major, own_minor) = (self.arch / 10, self.arch % 10);
        if self.ptx { (own_major, own_minor) <= (major, minor) } else { own_major == major && own_minor <= minor }
    }

    fn image(&self, file: &[u8]) -> Option<Vec<u8>> {
        let packed = file.get(self.offset..self.offset.checked_add(self.packed)?)?;
        let mut image = Vec::with_capacity(self.size + 1);
        flate2::read::ZlibDecoder::new(packed).take(self.size as u64).read_to_end(&mut image).ok()?;
        // PTX is text that ends with a zero.
        image.push(0);
        (image.len() == self.size + 1).then_some(image)
    }
}

/// The entries of the packed file, the best for a device that several serve first; `None` when it is no such file.
fn entries(file: &[u8]) -> Option<Vec<Entry>> {
    const HEAD: usize = 8 + 4 + 4 + 32;
    const ENTRY: usize = 48;
    let number = |at: usize| Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?));
    if file.get(..8)? != b"TJKERNEL" || number(8)? != 1 {
        return None;
    }
    let mut entries = (0..number(12)? as usize)
        .map(|i| {
            let at = HEAD + i * ENTRY;
            let name = file.get(at..at + 24)?.split(|&b| b == 0).next()?;
            Some(Entry {
                name: String::from_utf8_lossy(name).into_owned(),
                ptx: number(at + 24)? == 1,
                arch: number(at + 28)? as i32,
                offset: number(at + 32)? as usize,
                packed: number(at + 36)? as usize,
                size: number(at + 40)? as usize,
            })
        })
        .collect::<Option<Vec<_>>>()?;
    entries.sort_by_key(|entry| (entry.ptx, -entry.arch));
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::mirrored;

    fn entry(ptx: bool, arch: i32) -> Entry {
        Entry { name: "x".into(), ptx, arch, offset: 0, packed: 0, size: 0 }
    }

    #[test]
    fn machine_code_serves_its_major_version_and_ptx_all_later_ones() {
        assert!(entry(false, 80).serves((8, 6)));
        assert!(!entry(false, 80).serves((9, 0)));
        assert!(!entry(false, 90).serves((8, 9)));
        assert!(entry(true, 75).serves((12, 1)));
        assert!(entry(false, 120).serves((12, 1)));
        assert!(!entry(true, 75).serves((7, 0)));
    }

    #[test]
    fn every_entry_of_the_packed_file_unpacks() {
        let entries = entries(PACKED).unwrap();
        assert!(entries.iter().any(|entry| entry.name == "place" && entry.serves((9, 0)) && !entry.ptx));
        for entry in entries {
            assert!(entry.image(PACKED).is_some(), "{} for {}", entry.name, entry.arch);
        }
    }

    #[test]
    fn structs_have_their_sizes() {
        let (mut tile, mut place) = (Vec::new(), Vec::new());
        Tile::default().write(&mut tile);
        Place::default().write(&mut place);
        assert_eq!((tile.len() as u64, place.len() as u64), (Tile::SIZE, Place::SIZE));
        Format::default().bytes(0);
    }

    /// Lets C++ read what the structs here write, and say what the headers of the kernels say.
    #[test]
    fn host_and_device_agree() {
        let number = |n: u32| 0x0101_0101 * n;
        let wide = |n: u64| 0x0101_0101_0101_0101 * n;
        let tile = Tile { input: wide(1), output: wide(2), in_bytes: number(3), out_bytes: number(4), id: number(5) };
        let place = Place {
            input: wide(1),
            output: wide(2),
            x: number(3),
            height: number(4),
            width: number(5),
            at_y: number(6),
            at_x: number(7),
            plane: number(8),
        };
        let format = Format {
            row_bytes: wide(1),
            out_row: wide(2),
            out_band: wide(3),
            tile_width: number(4),
            samples: number(5),
            depth: Depth::Float24,
            bits: number(6),
            is_signed: true,
            size: number(7),
            word: number(8),
            swap: number(9),
            big: true,
            predictor: Predictor::Float,
            planar: true,
            band_of: vec![0; 300],
            all: true,
            reversed: true,
            fill: [10; 16],
            nodata: Some([11; 16]),
        };
        let mut bytes = Vec::new();
        tile.write(&mut bytes);
        place.write(&mut bytes);
        bytes.extend(format.bytes(wide(12)));
        bytes.extend(written(number, wide));
        let text = abi(&bytes);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("structs agree"));
        let (deflate, zstd) = (mirrored::DEFLATE, mirrored::ZSTD);
        let launches =
            deflate.iter().map(|launch| ("deflate", launch)).chain(zstd.iter().map(|launch| ("zstd", launch)));
        for (codec, (name, threads, blocks, shared)) in launches {
            assert_eq!(lines.next(), Some(&*format!("{codec} {threads} {blocks} {shared}")), "{name}");
        }
        let (threads, blocks, shared) = mirrored::ENTROPY;
        assert_eq!(lines.next(), Some(&*format!("entropy {threads} {blocks} {shared}")));
        let (lzw, packbits) = (mirrored::LZW, mirrored::PACKBITS);
        assert_eq!(lines.next(), Some(&*format!("shared {lzw} {packbits}")));
        let all = launch::shared::ALL;
        let all = [all.adler, all.offsets, all.packbits_sum, all.lzw_encode, all.zstd_encode, all.deflate_encode];
        assert_eq!(lines.next(), Some(&*format!("writing {}", all.map(|n| n.to_string()).join(" "))));
        let (rows, blob, lzw, room) = (launch::PACK_ROWS, launch::BLOB_PIECE, launch::LZW_PIECE, launch::LZW_ROOM);
        let (zstd, deflate) = (launch::ZSTD_BLOCK, launch::DEFLATE_BLOCK);
        assert_eq!(lines.next(), Some(&*format!("rows {rows}, pieces {blob} {lzw} {zstd} {deflate}, room {room}")));
    }

    /// The structs of writing.
    fn written(number: fn(u32) -> u32, wide: fn(u64) -> u64) -> Vec<u8> {
        use super::reduce::{Level, Reduction};
        use super::write::{Blob, Lengths, PackFormat, PackTile, Strided, collect_copy};
        let signed = |n| wide(n).cast_signed();
        let mut bytes = Vec::new();
        let tile = PackTile {
            input: wide(1),
            output: wide(2),
            strides: [signed(3), signed(4), signed(5)],
            height: number(6),
            width: number(7),
            rows: number(8),
        };
        tile.write(&mut bytes);
        assert_eq!(bytes.len() as u64, PackTile::SIZE);
        let format = PackFormat {
            row_bytes: wide(1),
            tile_width: number(2),
            samples: number(3),
            size: number(4),
            bits: number(5),
            is_signed: true,
            predictor: tiffjet::layout::Predictor::Float,
            carried: true,
            nan: Some(vec![6; 4]),
            absent: Some(vec![7, 8]),
        };
        bytes.extend(format.bytes());
        let from = Strided { address: wide(1), strides: [signed(3), signed(4), signed(5)] };
        let to = Strided { address: wide(2), strides: [signed(6), signed(7), signed(8)] };
        bytes.extend(collect_copy(&from, &to, [number(9), number(10), number(11)], number(12), Some(&[13; 4])));
        bytes.extend(Lengths { sizes: wide(1), statuses: wide(2), differs: wide(3), extra: number(4) }.bytes());
        let blob = Blob {
            lengths: wide(1),
            offsets: wide(2),
            out: wide(3),
            room: wide(4),
            first: number(5),
            count: number(6),
        };
        bytes.extend(blob.bytes());
        let plan = tiffjet::OverviewPlan {
            from: (24, 12),
            to: (12, 6),
            bands: 2,
            dtype: tiffjet::DType::UInt8,
            bits: 7,
            resampling: tiffjet::Resampling::Average,
            nodata: Some(vec![14]),
            mask: true,
            palette: false,
        };
        let level = |n: u32, m: u32| Level {
            pixels: wide(n.into()),
            band: wide(u64::from(n) + 1),
            row: wide(u64::from(n) + 2),
            mask: wide(u64::from(n) + 3),
            first: number(m),
            rows: number(m + 1),
        };
        let reduction = Reduction::new(&plan).unwrap();
        bytes.extend(reduction.bytes(4096, &level(1, 5), &level(7, 11), wide(13)));
        bytes
    }

    /// What `emulate/abi.cpp` says of these bytes.
    fn abi(bytes: &[u8]) -> String {
        use std::io::Write;
        use std::process::{Command, Stdio};
        let kernels = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("abi");
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
        let source = kernels.join("emulate/abi.cpp");
        let built = Command::new(compiler).args(["-std=c++17", "-o"]).args([&program, &source]).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}
