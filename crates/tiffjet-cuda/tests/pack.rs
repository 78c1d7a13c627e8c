//! Tiles packed and rows collected by the emulated kernels, against the CPU backend, over everything that can be written
//! and all ways in which pixels can lie in memory.

mod emulated;
#[allow(dead_code)] // the tests take a part
#[path = "../src/kernels/write.rs"]
mod write;

use std::sync::{Arc, LazyLock};

use emulated::Emulated;
use emulated::streams::Random;
use tiffjet::backend::EncodeJob;
use tiffjet::codec::Encoded;
use tiffjet::{
    Backend, Blocks, Cpu, DType, Fallback, LevelPlan, Nodata, Prediction, RowsView, WriteOptions, WritePlan,
};
use write::{PACK_ANY, PackFormat, PackTile, Strided, collect_copy};

static KERNELS: LazyLock<Emulated> = LazyLock::new(|| Emulated::build("pack"));

/// Ways in which pixels lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lie {
    /// Dense rows, band by band.
    Bands,
    /// The bands of a pixel together.
    Pixels,
    /// Rows of a larger array, at an odd place.
    Part,
    /// Columns before rows, from the end on.
    Turned,
    /// Every other column, from right to left.
    Mirrored,
}

/// Pixels as they lie, and where the first one is.
struct Lying {
    bytes: Vec<u8>,
    first: u64,
    strides: [i64; 3],
}

impl Lie {
    const ALL: [Self; 5] = [Self::Bands, Self::Pixels, Self::Part, Self::Turned, Self::Mirrored];

    fn strides(self, [bands, rows, columns]: [usize; 3], size: usize) -> [i64; 3] {
        let [bands, rows, columns, size] = [bands, rows, columns, size].map(|n| n as i64);
        match self {
            Self::Bands => [rows * columns * size, columns * size, size],
            Self::Pixels => [size, columns * bands * size, bands * size],
            Self::Part => [(rows + 3) * (columns + 5) * size, (columns + 5) * size, size],
            Self::Turned => [rows * columns * size, -size, -rows * size],
            Self::Mirrored => [rows * columns * 2 * size, columns * 2 * size, -2 * size],
        }
    }

    /// Dense pixels as they would lie this way.
    fn lay(self, pixels: &[u8], shape: [usize; 3], size: usize) -> Lying {
        let strides = self.strides(shape, size);
        let at = |place: [usize; 3]| -> i64 { place.iter().zip(&strides).map(|(i, stride)| *i as i64 * stride).sum() };
        let low: i64 = shape.iter().zip(&strides).map(|(n, stride)| (*n as i64 - 1) * stride.min(&0)).sum();
        let high: i64 = shape.iter().zip(&strides).map(|(n, stride)| (*n as i64 - 1) * stride.max(&0)).sum();
        let mut bytes = vec![0xa5; (high - low) as usize + size];
        for (i, value) in pixels.chunks_exact(size).enumerate() {
            let place = [i / shape[2] / shape[1], i / shape[2] % shape[1], i % shape[2]];
            let start = (at(place) - low) as usize;
            bytes[start..start + size].copy_from_slice(value);
        }
        Lying { bytes, first: (-low) as u64, strides }
    }
}

/// One image, what the kernels get of it and what must come out.
struct Case {
    name: String,
    entry: &'static str,
    format: PackFormat,
    lying: Lying,
    tiles: Vec<PackTile>,
    /// None where the tile is left out.
    expected: Vec<Option<Vec<u8>>>,
}

/// Packed tiles of the CPU backend: what the codec gives back of what it was given.
fn packed(plan: &LevelPlan, rows: &RowsView<'_>) -> Vec<Option<Vec<u8>>> {
    let name = Arc::from("packed");
    let cpu = Cpu::new(1).unwrap();
    let mut tiles = Vec::new();
    let job = EncodeJob { name: &name, rows: rows.into(), plan, first: 0, fallback: Fallback::Allow };
    cpu.encode(&job, &mut |encoded| {
        for bytes in encoded.tiles {
            if bytes.is_empty() {
                tiles.push(None);
                continue;
            }
            let rows = plan.rows_in_tile(encoded.row);
            let mut out = vec![0; plan.plain_bytes(rows) as usize];
            let tile = Encoded { bytes: &bytes, rows, index: 0, format: &plan.format };
            plan.codec.decode(&tile, &mut out).unwrap();
            tiles.push(Some(out));
        }
        Ok(())
    })
    .unwrap();
    tiles
}

impl Case {
    fn new(options: &WriteOptions, pixels: &[u8], lie: Lie, nan: Option<&[u8]>) -> Self {
        let plan = WritePlan::new(&"packed".into(), options).unwrap();
        let mut replaced = pixels.to_vec();
        if let Some(nan) = nan {
            replaced.chunks_exact_mut(nan.len()).filter(|v| is_nan(v)).for_each(|v| v.copy_from_slice(nan));
        }
        let rows = RowsView::new(&replaced, options.shape, options.dtype).unwrap();
        let lying = lie.lay(pixels, options.shape, options.dtype.size());
        let what = format!("{:?} {} {lie:?} {:?}", options.dtype, options.compression, plan.levels[0]);
        Self::of(what, &plan.levels[0], &rows, lying, nan)
    }

    fn of(name: String, plan: &LevelPlan, rows: &RowsView<'_>, lying: Lying, nan: Option<&[u8]>) -> Self {
        let format = PackFormat::new(plan, nan);
        let (width, height) = (plan.format.width, plan.format.height);
        let strides = lying.strides;
        let mut tiles = Vec::new();
        for row in 0..plan.down {
            for plane in 0..i64::from(plan.planes()) {
                for col in 0..plan.across {
                    let (top, left) = (row * height, col * width);
                    let place = plane * strides[0] + i64::from(top) * strides[1] + i64::from(left) * strides[2];
                    tiles.push(PackTile {
                        input: lying.first.wrapping_add_signed(place),
                        output: 0,
                        strides,
                        height: (plan.height - top).min(height),
                        width: (plan.width - left).min(width),
                        rows: plan.rows_in_tile(row),
                    });
                }
            }
        }
        let entry = format.kernel(&tiles);
        Self { name, entry, format, lying, tiles, expected: packed(plan, rows) }
    }

    /// Appends the case, with its pixels at an alignment of their own.
    fn write(&self, input: &mut Vec<u8>, entry: &str, number: u32) {
        name(input, entry);
        input.extend(self.format.bytes());
        // Halves of complex values are aligned, no more.
        let unit = if self.format.size > 1 { self.format.size / 2 } else { 1 };
        input.extend((number * unit % 16).to_le_bytes());
        input.extend((self.lying.bytes.len() as u32).to_le_bytes());
        input.extend(&self.lying.bytes);
        input.extend((self.tiles.len() as u32).to_le_bytes());
        self.tiles.iter().for_each(|tile| tile.write(input));
    }
}

fn name(input: &mut Vec<u8>, entry: &str) {
    let mut name = [0; 24];
    name[..entry.len()].copy_from_slice(entry.as_bytes());
    input.extend(name);
}

fn is_nan(value: &[u8]) -> bool {
    match value.len() {
        2 => u16::from_le_bytes(value.try_into().unwrap()) & 0x7fff > 0x7c00,
        4 => f32::from_le_bytes(value.try_into().unwrap()).is_nan(),
        _ => f64::from_le_bytes(value.try_into().unwrap()).is_nan(),
    }
}

/// Runs the kernels that the rule names, and `pack_any`, over all cases.
fn check(cases: &[Case]) {
    for (seed, any) in [(0u64, false), (7, false), (1, true)] {
        let mut input = seed.to_le_bytes().to_vec();
        input.extend((cases.len() as u32).to_le_bytes());
        for (case, number) in cases.iter().zip(0..) {
            case.write(&mut input, if any { PACK_ANY } else { case.entry }, number);
        }
        let output = KERNELS.exchange(input);
        let mut rest = &output[..];
        for case in cases {
            for (i, (tile, expected)) in case.tiles.iter().zip(&case.expected).enumerate() {
                let (differs, after) = rest.split_first_chunk::<4>().unwrap();
                let (given, after) = after.split_at((u64::from(tile.rows) * case.format.row_bytes) as usize);
                rest = after;
                let what = || format!("{}, tile {i} by {}, seed {seed}, any {any}", case.name, case.entry);
                if case.format.absent.is_some() {
                    assert_eq!(u32::from_le_bytes(*differs) == 0, expected.is_none(), "{}", what());
                }
                if let Some(expected) = expected {
                    let wrong = given.iter().zip(expected).position(|(a, b)| a != b);
                    assert!(wrong.is_none() && given.len() == expected.len(), "{}: byte {wrong:?}", what());
                }
            }
        }
        assert!(rest.is_empty());
    }
}

fn options(shape: [usize; 3], dtype: DType, tile: u32) -> WriteOptions {
    let blocks = Blocks::Tiles { width: tile, height: 16 };
    WriteOptions { compression: "lzw".into(), blocks, ..WriteOptions::new(shape, dtype) }
}

fn noise(shape: [usize; 3], dtype: DType, seed: u64) -> Vec<u8> {
    Random(seed).bytes(shape.iter().product::<usize>() * dtype.size())
}

#[test]
fn every_type_lies_in_every_way() {
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        for bands in [1, 2, 3, 4, 7] {
            for predictor in [Prediction::None, Prediction::Horizontal, Prediction::Float] {
                for planar in [false, true] {
                    if planar && bands != 3 {
                        continue;
                    }
                    let shape = [bands, 21, if bands == 1 { 229 } else { 77 }];
                    let tile = if bands == 1 { 144 } else { 48 };
                    let options = WriteOptions { predictor, planar, ..options(shape, dtype, tile) };
                    if WritePlan::new(&"packed".into(), &options).is_err() {
                        continue;
                    }
                    let pixels = noise(shape, dtype, 9);
                    for lie in Lie::ALL {
                        if bands == 1 || bands == 3 || matches!(lie, Lie::Bands | Lie::Pixels) {
                            cases.push(Case::new(&options, &pixels, lie, None));
                        }
                    }
                }
            }
        }
    }
    // Each of the kernels has its cases.
    let mut entries: Vec<_> = cases.iter().map(|case| case.entry).collect();
    entries.sort_unstable();
    entries.dedup();
    assert_eq!(entries.len(), 23, "{entries:?}");
    check(&cases);
}

#[test]
fn tiles_of_whole_steps_and_strips_of_odd_ones() {
    let mut cases = Vec::new();
    for (dtype, bands) in [
        (DType::UInt8, 1),
        (DType::UInt8, 3),
        (DType::UInt16, 1),
        (DType::UInt16, 4),
        (DType::Float32, 1),
        (DType::Float32, 3),
        (DType::Float64, 1),
        (DType::Float16, 1),
    ] {
        for lie in [Lie::Bands, Lie::Pixels] {
            let shape = [bands, 17, 512];
            let pixels = noise(shape, dtype, 5);
            cases.push(Case::new(&options(shape, dtype, 256), &pixels, lie, None));
            for rows in [1, 5, 17] {
                let shape = [bands, 17, 131];
                let pixels = noise(shape, dtype, 6);
                let strips = WriteOptions { blocks: Blocks::Strips { rows: Some(rows) }, ..options(shape, dtype, 16) };
                cases.push(Case::new(&strips, &pixels, lie, None));
            }
        }
    }
    check(&cases);
}

#[test]
fn every_bit_depth() {
    let mut cases = Vec::new();
    for dtype in [
        DType::UInt8,
        DType::Int8,
        DType::UInt16,
        DType::Int16,
        DType::UInt32,
        DType::Int32,
        DType::UInt64,
        DType::Int64,
    ] {
        for bits in 1..64 {
            let bands = [1, 3][bits % 2];
            let shape = [bands, 5, 53];
            let options = WriteOptions { bits: Some(bits as u16), ..options(shape, dtype, 32) };
            if bits >= 8 * dtype.size() || WritePlan::new(&"packed".into(), &options).is_err() {
                continue;
            }
            // Values near the limits, so that many fit and many do not.
            let mut random = Random(bits as u64);
            let mut pixels = Vec::new();
            for _ in 0..shape.iter().product() {
                let value = random.next() >> random.below(64);
                let value = if random.below(2) == 0 { value } else { value.wrapping_neg() };
                pixels.extend(&value.to_le_bytes()[..dtype.size()]);
            }
            cases.push(Case::new(&options, &pixels, Lie::ALL[bits % 5], None));
        }
    }
    assert!(cases.len() > 100, "{}", cases.len());
    check(&cases);
}

#[test]
fn masks_are_single_bits() {
    let mut cases = Vec::new();
    for width in [16, 61, 300] {
        let shape = [1, 19, width];
        let options = WriteOptions { mask: true, ..options(shape, DType::UInt8, 48) };
        let plan = WritePlan::new(&"packed".into(), &options).unwrap();
        let mut random = Random(3);
        let mask: Vec<u8> = (0..19 * width).map(|_| [0, 1, 255, 2][random.below(4)]).collect();
        let rows = RowsView::new(&mask, shape, DType::UInt8).unwrap();
        let lying = Lie::Bands.lay(&mask, shape, 1);
        cases.push(Case::of(format!("mask of {width}"), &plan.masks[0], &rows, lying, None));
    }
    assert!(cases.iter().all(|case| case.format.bits == 1));
    check(&cases);
}

#[test]
fn pictures_are_carried_on() {
    let mut cases = Vec::new();
    for (dtype, bands) in [(DType::UInt8, 1), (DType::UInt8, 3), (DType::Int16, 1), (DType::Float32, 2)] {
        let shape = [bands, 21, 77];
        let options = WriteOptions { compression: "lerc".into(), ..options(shape, dtype, 48) };
        // Numbers, for codecs that know of them.
        let mut random = Random(8);
        let value =
            |n: usize| if dtype == DType::Float32 { (n as f32).to_le_bytes() } else { (n as u32).to_le_bytes() };
        let pixels: Vec<u8> =
            (0..bands * 21 * 77).flat_map(|_| value(random.below(200))[..dtype.size()].to_vec()).collect();
        for lie in [Lie::Bands, Lie::Pixels, Lie::Turned] {
            cases.push(Case::new(&options, &pixels, lie, None));
        }
    }
    assert!(cases.iter().all(|case| case.format.carried));
    check(&cases);
}

/// Mostly one value, whole tiles of it, with some others.
fn holes(shape: [usize; 3], value: &[u8], others: &[&[u8]], seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut pixels = Vec::new();
    for i in 0..shape.iter().product::<usize>() {
        let other = i % shape[2] > shape[2] / 2 && random.below(3) == 0;
        pixels.extend(if other { others[random.below(others.len())] } else { value });
    }
    pixels
}

#[test]
fn tiles_of_one_value_are_told() {
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        for (bands, planar) in [(1, false), (3, false), (3, true)] {
            for nodata in [None, Some(7.0)] {
                let shape = [bands, 37, 151];
                let size = dtype.size();
                let nodata = nodata.filter(|_| !dtype.is_complex());
                let options = WriteOptions {
                    planar,
                    sparse: true,
                    nodata: nodata.map(Nodata::Float),
                    ..options(shape, dtype, 32)
                };
                let plan = WritePlan::new(&"packed".into(), &options).unwrap();
                let value = plan.levels[0].absent.clone().unwrap();
                let mut other = value.clone();
                other[size - 1] ^= 1;
                let pixels = holes(shape, &value, &[&other], 4);
                for lie in [Lie::Bands, Lie::Pixels, Lie::Mirrored] {
                    cases.push(Case::new(&options, &pixels, lie, None));
                }
                // One value only, in the last pixel of the last tile.
                let mut pixels = value.repeat(shape.iter().product());
                *pixels.last_mut().unwrap() ^= 1;
                cases.push(Case::new(&options, &pixels, Lie::Bands, None));
            }
        }
    }
    assert!(cases.iter().any(|case| case.expected.iter().any(Option::is_none)));
    check(&cases);
}

/// A NaN of each sign, one that signals, infinities and a number.
fn floats(size: usize) -> Vec<Vec<u8>> {
    let wide: [u64; 6] = [0x7ff8 << 48, 0xfff8 << 48, (0x7ff0 << 48) + 1, 0x7ff0 << 48, 0xfff0 << 48, 1.5f64.to_bits()];
    let single: [u32; 6] = [0x7fc0_0000, 0xffc0_0000, 0x7f80_0001, 0x7f80_0000, 0xff80_0000, 1.5f32.to_bits()];
    let half: [u16; 6] = [0x7e00, 0xfe00, 0x7c01, 0x7c00, 0xfc00, 0x3e00];
    match size {
        2 => half.map(|v| v.to_le_bytes().to_vec()).to_vec(),
        4 => single.map(|v| v.to_le_bytes().to_vec()).to_vec(),
        _ => wide.map(|v| v.to_le_bytes().to_vec()).to_vec(),
    }
}

#[test]
fn nan_becomes_nodata() {
    let mut cases = Vec::new();
    for dtype in [DType::Float16, DType::Float32, DType::Float64] {
        let others = floats(dtype.size());
        let others: Vec<&[u8]> = others.iter().map(|v| &v[..]).collect();
        for bands in [1, 2, 5] {
            for predictor in [Prediction::None, Prediction::Horizontal, Prediction::Float] {
                let shape = [bands, 20, 151];
                let options = WriteOptions {
                    predictor,
                    sparse: true,
                    nodata: Some(Nodata::Float(-9.0)),
                    nan_to_nodata: true,
                    ..options(shape, dtype, 32)
                };
                let Ok(plan) = WritePlan::new(&"packed".into(), &options) else { continue };
                let nan = plan.nan.unwrap();
                let pixels = holes(shape, others[0], &others, 5);
                for lie in [Lie::Bands, Lie::Pixels, Lie::Turned] {
                    cases.push(Case::new(&options, &pixels, lie, Some(&nan)));
                }
            }
        }
    }
    assert!(cases.len() > 40);
    check(&cases);
}

/// Rows to be collected: what the kernel gets, and what must come out.
fn collected(size: usize, [from, to]: [Lie; 2], nan: Option<&[u8]>, number: u32) -> (Vec<u8>, Vec<u8>) {
    let shape = [[1, 1, 1], [3, 7, 53], [2, 5, 517]][number as usize % 3];
    let mut pixels = Random(11 + u64::from(number)).bytes(shape.iter().product::<usize>() * size);
    if nan.is_some() {
        let values = floats(size);
        pixels.chunks_exact_mut(size).enumerate().for_each(|(i, v)| v.copy_from_slice(&values[i % 7 % 6]));
    }
    let lying = from.lay(&pixels, shape, size);
    if let Some(nan) = nan {
        pixels.chunks_exact_mut(size).filter(|v| is_nan(v)).for_each(|v| v.copy_from_slice(nan));
    }
    let mut due = to.lay(&pixels, shape, size);
    // What is not written keeps what it had.
    let [zeros, ones] = [0, 0xff].map(|byte| to.lay(&vec![byte; pixels.len()], shape, size).bytes);
    for ((byte, zero), one) in due.bytes.iter_mut().zip(&zeros).zip(&ones) {
        *byte = if zero == one { 0x5a } else { *byte };
    }
    let mut input = Vec::new();
    name(&mut input, "collect");
    let from = Strided { address: lying.first, strides: lying.strides };
    let to = Strided { address: due.first, strides: due.strides };
    input.extend(collect_copy(&from, &to, shape.map(|n| n as u32), size as u32, nan));
    let unit = if nan.is_none() && size > 1 { size / 2 } else { size } as u32;
    for word in [number * unit % 16, number * 3 * unit % 16, due.bytes.len() as u32, lying.bytes.len() as u32] {
        input.extend(word.to_le_bytes());
    }
    input.extend(&lying.bytes);
    (input, due.bytes)
}

#[test]
fn rows_are_collected_from_anywhere_to_anywhere() {
    let mut cases = Vec::new();
    for size in [1, 2, 4, 8, 16] {
        for ways in Lie::ALL.iter().flat_map(|&from| Lie::ALL.map(|to| [from, to])) {
            for nan in [None, Some(vec![0x41; size])] {
                if nan.is_none() || matches!(size, 2 | 4 | 8) {
                    // Each of the shapes.
                    cases.extend([(); 3].map(|()| (size, ways, nan.clone())));
                }
            }
        }
    }
    let mut input = 3u64.to_le_bytes().to_vec();
    input.extend((cases.len() as u32).to_le_bytes());
    let mut expected = Vec::new();
    for ((size, ways, nan), number) in cases.iter().zip(0..) {
        let (bytes, due) = collected(*size, *ways, nan.as_deref(), number);
        input.extend(bytes);
        expected.push(due);
    }
    let output = KERNELS.exchange(input);
    let mut rest = &output[..];
    for (case, due) in cases.iter().zip(expected) {
        let (given, after) = rest.split_at(due.len());
        rest = after;
        let wrong = given.iter().zip(&due).position(|(a, b)| a != b);
        assert!(wrong.is_none(), "{case:?}: byte {wrong:?}");
    }
    assert!(rest.is_empty());
}
