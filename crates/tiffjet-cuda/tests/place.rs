//! Tiles put in their place by the emulated kernels, against the CPU backend, over everything that a format can be.

mod emulated;

use std::path::Path;
use std::sync::{Arc, LazyLock};

use emulated::Emulated;
use tiffjet::codec::Encoded;
use tiffjet::layout::Predictor;
use tiffjet::plan::TileRead;
use tiffjet::source::MemorySource;
use tiffjet::{ByteOrder, Image, OpenOptions, ReadPlan, SampleKind, Window};
use tiffjet_testkit::{Kind, Tiff, Value, tag};

const WHOLE: u32 = 0;
const BITS: u32 = 1;
const FLOAT24: u32 = 2;

/// The kernel that takes every format.
const ANY: &str = "place_any";

/// `struct Format`, but for its pointer.
#[derive(Debug, Clone, Default)]
struct Format {
    row_bytes: u64,
    out_row: u64,
    out_band: u64,
    tile_width: u32,
    samples: u32,
    depth: u32,
    bits: u32,
    is_signed: u32,
    size: u32,
    word: u32,
    swap: u32,
    big: u32,
    predictor: u32,
    planar: u32,
    bands: u32,
    all: u32,
    reversed: u32,
    nodata: u32,
    fill: [u8; 16],
    nodata_value: [u8; 16],
}

impl Format {
    fn new(plan: &ReadPlan) -> Self {
        let layout = plan.layout();
        let format = &layout.format;
        let size = layout.dtype().size();
        let depth = match (format.kind, format.bits) {
            (SampleKind::Float, 24) => FLOAT24,
            (_, bits) if usize::from(bits) == size * 8 => WHOLE,
            _ => BITS,
        };
        let unit = match (layout.predictor, layout.dtype().is_complex(), format.bits) {
            (Predictor::Float, ..) => 1,
            (Predictor::None, true, bits) => bits / 16,
            (_, _, bits @ (16 | 32 | 64)) => bits / 8,
            _ => 1,
        };
        let foreign = format.order != ByteOrder::NATIVE && unit > 1;
        let part = plan.part();
        let out_row = part.width as usize * size;
        let mut fill = [0; 16];
        fill[..size].copy_from_slice(plan.fill());
        Self {
            row_bytes: format.row_bytes() as u64,
            out_row: out_row as u64,
            out_band: (out_row * part.height as usize) as u64,
            tile_width: format.width,
            samples: format.samples.into(),
            depth,
            bits: format.bits.into(),
            is_signed: (format.kind == SampleKind::Signed).into(),
            size: size as u32,
            word: u32::from(format.bits) / 8,
            swap: if foreign { unit.into() } else { 0 },
            big: (format.order == ByteOrder::Big).into(),
            predictor: match layout.predictor {
                Predictor::None => 0,
                Predictor::Horizontal => 1,
                Predictor::Float => 2,
            },
            planar: layout.planar.into(),
            bands: plan.bands().len() as u32,
            all: plan.bands().iter().copied().eq(0..layout.bands).into(),
            reversed: (layout.reversed && layout.codec.name() == "none").into(),
            nodata: 0,
            fill,
            nodata_value: [0; 16],
        }
    }

    /// The rule at the head of `place.cu`.
    fn entry(&self) -> String {
        match (self.depth, self.reversed, self.predictor, self.samples, self.size) {
            (BITS | FLOAT24, ..) | (_, 1, ..) | (.., 16) => ANY.into(),
            (_, _, 2, samples @ 1, size) | (_, _, 2, samples @ 2..=4, size @ 4) => {
                format!("place_floats_{size}_{samples}")
            }
            (_, _, 2, ..) => ANY.into(),
            (.., samples @ 1..=4, size) => format!("place_{size}_{samples}"),
            (.., size) => format!("place_{size}_many"),
        }
    }

    fn write(&self, input: &mut Vec<u8>) {
        for long in [self.row_bytes, self.out_row, self.out_band] {
            input.extend(long.to_le_bytes());
        }
        #[rustfmt::skip]
        let words = [
            self.tile_width, self.samples, self.depth, self.bits, self.is_signed, self.size, self.word, self.swap,
            self.big, self.predictor, self.planar, self.bands, self.all, self.reversed, self.nodata,
        ];
        words.iter().for_each(|w| input.extend(w.to_le_bytes()));
        input.extend(self.fill);
        input.extend(self.nodata_value);
    }
}

/// A window of a file, what the kernels get of it and what must come out.
struct Case {
    name: String,
    format: Format,
    bands: Vec<u16>,
    tiles: Vec<(Vec<u8>, TileRead)>,
    expected: Vec<u8>,
}

impl Case {
    fn new(name: &str, file: &[u8], window: &Window) -> Self {
        let source = Arc::new(MemorySource::named(name, file.to_vec()));
        let image = Image::from_source(source, &OpenOptions::default()).unwrap();
        let plan = image.plan(window).unwrap();
        let tiles = plan.tiles().iter().map(|tile| (decoded(&plan, file, tile), tile.clone())).collect();
        let expected = image.read(window).unwrap().bytes().unwrap().to_vec();
        let name = format!("{name} {window:?}");
        Self { name, format: Format::new(&plan), bands: plan.bands().to_vec(), tiles, expected }
    }

    /// Appends the case, with the array and every tile at an alignment of their own.
    fn write(&self, input: &mut Vec<u8>, entry: &str, number: u32) {
        let mut name = [0; 24];
        name[..entry.len()].copy_from_slice(entry.as_bytes());
        input.extend(name);
        self.format.write(input);
        self.bands.iter().for_each(|b| input.extend(b.to_le_bytes()));
        let mut words = |words: &[u32]| words.iter().for_each(|w| input.extend(w.to_le_bytes()));
        words(&[number * self.format.size % 16, self.expected.len() as u32, self.tiles.len() as u32]);
        for ((bytes, tile), i) in self.tiles.iter().zip(0..) {
            let mut words = |words: &[u32]| words.iter().for_each(|w| input.extend(w.to_le_bytes()));
            words(&[(number + i) * 5 % 16, bytes.len() as u32]);
            input.extend(bytes);
            let mut words = |words: &[u32]| words.iter().for_each(|w| input.extend(w.to_le_bytes()));
            let part = tile.part;
            words(&[part.x, part.height, part.width, tile.at.0, tile.at.1, tile.plane.into()]);
        }
    }
}

/// The rows of a tile from the first wanted one on, as the codec gives them; none for a tile that is not in the file.
fn decoded(plan: &ReadPlan, file: &[u8], tile: &TileRead) -> Vec<u8> {
    let layout = plan.layout();
    let row_bytes = layout.format.row_bytes();
    if tile.range.is_empty() {
        return Vec::new();
    }
    let bytes = &file[tile.range.start as usize..tile.range.end as usize];
    let encoded = Encoded { bytes, rows: tile.rows, index: tile.tile, format: &layout.format };
    let mut rows = vec![0; row_bytes * tile.rows as usize];
    layout.codec.decode(&encoded, &mut rows).unwrap();
    rows.drain(..(tile.part.y - tile.first_row) as usize * row_bytes);
    rows
}

/// Runs the kernels that the rule names, and `place_any`, over all cases.
fn check(cases: &[Case]) {
    static KERNELS: LazyLock<Emulated> = LazyLock::new(|| Emulated::build("place"));
    if let Some(folder) = std::env::var_os("TIFFJET_SEEDS") {
        write_seeds(cases, Path::new(&folder));
    }
    for (seed, any) in [(0u64, false), (7, false), (1, true)] {
        let mut input = seed.to_le_bytes().to_vec();
        input.extend((cases.len() as u32).to_le_bytes());
        for (case, number) in cases.iter().zip(0..) {
            let entry = if any { ANY.into() } else { case.format.entry() };
            case.write(&mut input, &entry, number);
        }
        let output = KERNELS.exchange(input);
        let mut rest = &output[..];
        for case in cases {
            let (given, after) = rest.split_at(case.expected.len());
            rest = after;
            let wrong = given.iter().zip(&case.expected).position(|(a, b)| a != b);
            assert!(wrong.is_none(), "{}: byte {wrong:?}, seed {seed}, {:?}", case.name, case.format);
        }
        assert!(rest.is_empty());
    }
}

/// Every so many cases as an input of its own: what fuzzing of the kernels begins with.
fn write_seeds(cases: &[Case], folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    for (number, case) in cases.iter().enumerate().filter(|(number, _)| number.is_multiple_of(7)) {
        for entry in [ANY.to_owned(), case.format.entry()] {
            let mut input = [&0u64.to_le_bytes()[..], &1u32.to_le_bytes()].concat();
            case.write(&mut input, &entry, number as u32);
            std::fs::write(folder.join(format!("{entry}-{}-{number}", cases.len())), input).unwrap();
        }
    }
}

/// LZW by the host's codec, so that a predictor counts.
fn lzw(bytes: &[u8]) -> Vec<u8> {
    use tiffjet::codec::{Plain, Settings, TileFormat, find};
    let format = TileFormat::new(5, (bytes.len() as u32, 1), 1, tiffjet::DType::UInt8);
    let mut out = Vec::new();
    let plain = Plain { bytes, rows: 1, format: &format, settings: &Settings::default() };
    find(5).unwrap().encode(&plain, &mut out).unwrap();
    out
}

/// Whole, cut on all sides, one pixel; some of the bands, in any order and more than once.
fn windows(width: u32, height: u32, bands: u16) -> Vec<Window> {
    let window = |rows: std::ops::Range<u32>, cols: std::ops::Range<u32>, bands: Option<Vec<u16>>| Window {
        level: 0,
        rows: Some(rows),
        cols: Some(cols),
        bands,
    };
    let (last, middle) = (bands, bands.div_ceil(2));
    vec![
        Window::default(),
        window(1..height - 2, 3..width - 1, None),
        window(0..height, 1..width, Some(vec![last])),
        window(2..3, width - 1..width, Some(vec![middle, 1, middle])),
    ]
}

fn cases_of(name: &str, image: Tiff, all_windows: bool) -> Vec<Case> {
    let (width, height, bands) = image.shape();
    let file = image.build(&image.noise(11));
    let count = if all_windows { 4 } else { 2 };
    windows(width, height, bands).iter().take(count).map(|window| Case::new(name, &file, window)).collect()
}

#[test]
fn whole_samples_of_every_kind() {
    let mut cases = Vec::new();
    for (bits, kind) in [
        (8, Kind::Unsigned),
        (16, Kind::Signed),
        (32, Kind::Unsigned),
        (64, Kind::Signed),
        (16, Kind::Float),
        (32, Kind::Float),
        (64, Kind::Float),
        (32, Kind::ComplexInt),
        (64, Kind::ComplexInt),
        (64, Kind::ComplexFloat),
        (128, Kind::ComplexFloat),
    ] {
        for samples in [1, 2, 3, 4, 5, 8, 11] {
            for predictor in [1, 2, 3] {
                for big in [false, true] {
                    let float = matches!(kind, Kind::Float);
                    if (predictor == 3 && !float) || (predictor == 2 && bits == 128) || (big && bits == 8) {
                        continue;
                    }
                    let (width, tile) = if samples == 1 { (301, 160) } else { (83, 48) };
                    let name = format!("{kind:?} {bits} × {samples}, predictor {predictor}, big {big}");
                    let image = Tiff::new(width, 9).bits(bits).kind(kind).samples(samples).tile(tile, 16);
                    let image = if big { image.big_endian() } else { image };
                    let image = if predictor == 1 { image } else { image.compress_with(5, lzw) };
                    // Pixels are noise and so are differences: the tag alone makes them that.
                    let image = image.tag(tag::PREDICTOR, Value::Short(vec![predictor]));
                    cases.extend(cases_of(&name, image.clone(), predictor != 1));
                    if samples == 3 {
                        cases.extend(cases_of(&(name + ", planar"), image.planar(), true));
                    }
                }
            }
        }
    }
    check(&cases);
}

#[test]
fn floats_in_rows_of_whole_steps() {
    let mut cases = Vec::new();
    for (bits, samples) in [(16, 1), (32, 1), (32, 2), (32, 3), (32, 4), (64, 1)] {
        for (width, tile) in [(300, 256), (500, 128), (400, 384)] {
            let image = Tiff::new(width, 5).float(bits).samples(samples).tile(tile, 16);
            let image = image.compress_with(5, lzw).predictor(3);
            cases.extend(cases_of(&format!("float {bits} × {samples}, tiles of {tile}"), image, true));
        }
    }
    check(&cases);
}

#[test]
fn every_bit_depth() {
    let mut cases = Vec::new();
    for bits in 1..=64 {
        for kind in [Kind::Unsigned, Kind::Signed] {
            let samples = [1, 3][usize::from(bits) % 2];
            let image = Tiff::new(53, 5).bits(bits).kind(kind).samples(samples).strips(3);
            let image = if bits % 3 == 0 { image.big_endian() } else { image };
            let image = if bits % 5 == 0 { image.reversed_bits() } else { image };
            let name = format!("{kind:?} {bits} × {samples}");
            if Image::from_source(
                Arc::new(MemorySource::named(&name, image.build(&image.noise(3)))),
                &OpenOptions::default(),
            )
            .is_ok()
            {
                cases.extend(cases_of(&name, image, false));
            }
        }
    }
    assert!(cases.len() > 200);
    check(&cases);
}

#[test]
fn floats_of_24_bits_strips_and_tiles_that_are_not_there() {
    let mut cases = Vec::new();
    for predictor in [1, 3] {
        for big in [false, true] {
            for samples in [1, 2] {
                let image = Tiff::new(61, 7).float(24).samples(samples).tile(32, 16);
                let image = if big { image.big_endian() } else { image };
                let image = if predictor == 1 { image } else { image.compress_with(5, lzw).predictor(3) };
                cases.extend(cases_of(&format!("float24 × {samples}, predictor {predictor}"), image, true));
            }
        }
    }
    for (bits, kind) in [(8, Kind::Unsigned), (16, Kind::Unsigned), (32, Kind::Float), (64, Kind::Float)] {
        for samples in [1, 3] {
            let image = Tiff::new(101, 40).bits(bits).kind(kind).samples(samples).nodata("7");
            let image = image.compress_with(5, lzw).predictor(2);
            let sparse = image.clone().tile(32, 16).sparse([0, 2, 4, 5]);
            cases.extend(cases_of("sparse", sparse.clone(), true));
            cases.extend(cases_of("sparse, planar", sparse.planar(), true));
            for rows in [1, 3, 40] {
                cases.extend(cases_of(&format!("strips of {rows} rows"), image.clone().strips(rows), true));
            }
            let reversed = Tiff::new(33, 6).bits(bits).kind(kind).samples(samples).reversed_bits();
            cases.extend(cases_of("reversed", reversed, true));
        }
    }
    check(&cases);
}

#[test]
fn nodata_becomes_nan() {
    let mut cases = Vec::new();
    for (bits, size) in [(16, 2), (32, 4), (64, 8)] {
        for (predictor, samples) in [(1, 1), (1, 3), (2, 1), (3, 1), (3, 2), (2, 5)] {
            for nodata in [0.0, -1.0] {
                let image = Tiff::new(70, 5).float(bits).samples(samples).tile(48, 16);
                let image = if predictor == 1 { image } else { image.compress_with(5, lzw).predictor(predictor) };
                // Zero of both signs, one of them common.
                let values = [0.0, -1.0, 2.0, -0.0];
                let pixels = tiffjet_testkit::Pixels::from_numbers(image.shape(), image.format(), |b, y, x| {
                    values[((x * 7 + y * 3 + b) % 4) as usize]
                });
                let mut case = Case::new("nodata", &image.build(&pixels), &Window::default());
                let bits_of = |value: f64| match size {
                    2 => [0x0000u16, 0xbc00][usize::from(value < 0.0)].to_le_bytes().to_vec(),
                    4 => (value as f32).to_le_bytes().to_vec(),
                    _ => value.to_le_bytes().to_vec(),
                };
                let nan = match size {
                    2 => 0x7e00u16.to_le_bytes().to_vec(),
                    4 => 0x7fc0_0000u32.to_le_bytes().to_vec(),
                    _ => 0x7ff8_0000_0000_0000u64.to_le_bytes().to_vec(),
                };
                case.format.nodata = 1;
                case.format.nodata_value[..size].copy_from_slice(&bits_of(nodata));
                let mut hits = 0;
                for value in case.expected.chunks_exact_mut(size) {
                    let mut positive = value.to_vec();
                    positive[size - 1] &= 0x7f;
                    let zero = nodata == 0.0 && positive.iter().all(|b| *b == 0);
                    if zero || *value == bits_of(nodata)[..] {
                        value.copy_from_slice(&nan);
                        hits += 1;
                    }
                }
                assert!(hits > 0);
                cases.push(case);
            }
        }
    }
    check(&cases);
}
