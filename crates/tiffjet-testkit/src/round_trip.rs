//! Any options and any pixels: what is written is what is read, on every backend.

use std::ops::Range;
use std::sync::Arc;

use tiffjet::sink::MemorySink;
use tiffjet::source::MemorySource;
use tiffjet::{
    Backend, BigTiff, Blocks, DType, Error, Image, Nodata, OpenOptions, Overviews, Prediction, Resampling, Result,
    RowsView, SampleKind, Window, WriteOptions, Writer,
};

use crate::naive;
use crate::pixels::mix;

/// Codecs that lose nothing, with these settings.
const LOSSLESS: [&str; 11] =
    ["none", "packbits", "lzw", "deflate", "zstd", "lzma", "lerc", "lerc_deflate", "lerc_zstd", "webp", "jpeg2000"];
/// Those that the naive decoder knows.
const PLAIN: [&str; 5] = ["none", "packbits", "lzw", "deflate", "zstd"];

/// How many of them, and which.
#[derive(Debug, Clone, Copy)]
pub struct Trips {
    /// Images that are written and read.
    pub count: u64,
    /// The number of the first; each number is always the same image.
    pub first: u64,
    /// Rows and columns at the most.
    pub side: usize,
}

impl Trips {
    /// So many, or what the environment says: `TIFFJET_TRIPS` how many, `TIFFJET_SEED` from which number on.
    pub fn of(count: u64, side: usize) -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        Self { count: number("TIFFJET_TRIPS").unwrap_or(count), first: number("TIFFJET_SEED").unwrap_or(1), side }
    }

    /// Writes and reads on a backend.
    ///
    /// # Panics
    /// Where pixels come back changed, or where an image fails that was allowed: with its number and options.
    pub fn run(&self, backend: &Arc<dyn Backend>) {
        for (number, trip) in self.trips() {
            if let Err(what) = trip.write(backend).map_err(said("writing")).and_then(|file| trip.check(&file, backend))
            {
                panic!("TIFFJET_SEED={number} TIFFJET_TRIPS=1: {what}\n{:#?}", trip.options);
            }
        }
    }

    /// The files that a backend makes of them.
    ///
    /// # Panics
    /// Where one can't be written.
    pub fn files(&self, backend: &Arc<dyn Backend>) -> impl Iterator<Item = Vec<u8>> {
        self.trips().map(|(number, trip)| trip.write(backend).unwrap_or_else(|error| panic!("{number}: {error}")))
    }

    fn trips(&self) -> impl Iterator<Item = (u64, Trip)> {
        // What can't go together is said before the first row, and another image is made.
        let made = |number| (0..64).map(|part| Trip::new(number, part, self.side)).find(Trip::is_allowed);
        (self.first..self.first + self.count)
            .map(move |number| (number, made(number).expect("options that go together")))
    }
}

fn said(what: &str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

/// Numbers that look like chance and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.roll() % end.max(1) as u64) as usize
    }

    /// Once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// Some part of that many, one at least.
    fn part(&mut self, end: usize) -> Range<u32> {
        let start = self.below(end);
        start as u32..(start + 1 + self.below(end - start)) as u32
    }
}

struct Trip {
    options: WriteOptions,
    /// (band, y, x).
    pixels: Vec<u8>,
    mask: Option<Vec<u8>>,
    /// Rows of a push.
    cut: usize,
    window: Window,
}

impl Trip {
    fn new(number: u64, part: u64, side: usize) -> Self {
        let mut dice = Dice(mix(number).wrapping_add(mix(part) << 1));
        let shape = [dice.of(&[1, 1, 1, 2, 3, 4, 6]), 1 + dice.below(side), 1 + dice.below(side)];
        let options = options(&mut dice, shape);
        let [bands, height, width] = shape;
        let mask = options.mask.then(|| (0..height * width).map(|_| u8::from(!dice.once_in(3)) * 255).collect());
        let window = Window {
            level: 0,
            rows: Some(dice.part(height)),
            cols: Some(dice.part(width)),
            bands: dice.once_in(2).then(|| vec![1 + dice.below(bands) as u16]),
        };
        Self { pixels: pixels(&mut dice, &options), mask, cut: 1 + dice.below(height), window, options }
    }

    fn is_allowed(&self) -> bool {
        Writer::create(MemorySink::new(), &self.options).is_ok()
    }

    fn check(&self, file: &[u8], backend: &Arc<dyn Backend>) -> std::result::Result<(), String> {
        let source = Arc::new(MemorySource::named("trip", file.to_vec()));
        let image = Image::from_source(source, &OpenOptions::default()).map_err(said("opening"))?;
        if (image.shape(), image.dtype()) != (self.options.shape, self.options.dtype) {
            return Err(format!("a {:?} of {:?} came back", image.dtype(), image.shape()));
        }
        let read = |window: &Window| -> Result<Vec<u8>> {
            let tensor = image.read_on(&**backend, window)?;
            let mut bytes = vec![0; tensor.storage().length()];
            tensor.storage().to_host(&mut bytes)?;
            Ok(bytes)
        };
        self.compare("the image", &self.pixels, &read(&Window::default()).map_err(said("reading"))?)?;
        self.compare("a window", &self.part(), &read(&self.window).map_err(said("reading a window"))?)?;
        for level in 1..image.levels().len() {
            read(&Window { level, ..Window::default() }).map_err(said("reading an overview"))?;
        }
        if let Some(mask) = &self.mask {
            let tensor = image.read_mask(&Window::default()).map_err(said("reading the mask"))?;
            if tensor.bytes() != Some(mask) {
                return Err("another mask came back".into());
            }
        }
        if PLAIN.contains(&self.options.compression.as_str()) {
            let levels = naive::decode(file).map_err(|error| format!("the naive decoder: {error}"))?;
            self.compare("the image by the naive decoder", &self.pixels, &levels[0].bytes)?;
        }
        Ok(())
    }

    fn write(&self, backend: &Arc<dyn Backend>) -> Result<Vec<u8>> {
        let sink = MemorySink::new();
        let mut writer = Writer::create_on(backend.clone(), Box::new(sink.clone()), &self.options)?;
        let [bands, height, width] = self.options.shape;
        let row = width * self.options.dtype.size();
        for first in (0..height).step_by(self.cut) {
            let shape = [bands, self.cut.min(height - first), width];
            let rows = RowsView::strided(&self.pixels[first * row..], shape, self.options.dtype, height * row)
                .expect("rows of the image");
            writer.push(&match &self.mask {
                Some(mask) => rows.with_mask(&mask[first * width..][..shape[1] * width]).expect("their mask"),
                None => rows,
            })?;
        }
        writer.finish()?;
        Ok(sink.take().expect("a file"))
    }

    /// The pixels of the window.
    fn part(&self) -> Vec<u8> {
        let [bands, height, width] = self.options.shape;
        let size = self.options.dtype.size();
        let Window { rows, cols, bands: chosen, .. } = &self.window;
        let (rows, cols) = (rows.clone().unwrap_or(0..height as u32), cols.clone().unwrap_or(0..width as u32));
        let chosen = chosen.clone().unwrap_or_else(|| (1..=bands as u16).collect());
        let mut out = Vec::new();
        for band in chosen {
            for y in rows.clone() {
                let at = ((usize::from(band) - 1) * height + y as usize) * width + cols.start as usize;
                out.extend_from_slice(&self.pixels[at * size..][..cols.len() * size]);
            }
        }
        out
    }

    /// Bit by bit; but LERC has one NaN only, as has a tile that is left out because it is all nodata.
    fn compare(&self, what: &str, before: &[u8], after: &[u8]) -> std::result::Result<(), String> {
        let nan_is_nan = self.options.compression.starts_with("lerc") || self.options.sparse;
        let size = self.options.dtype.size();
        let equal = |(a, b): (&[u8], &[u8])| {
            a == b || nan_is_nan && is_nan(self.options.dtype, a) && is_nan(self.options.dtype, b)
        };
        if before.len() != after.len() {
            return Err(format!("{what}: {} bytes became {}", before.len(), after.len()));
        }
        match before.chunks(size).zip(after.chunks(size)).position(|pair| !equal(pair)) {
            None => Ok(()),
            Some(at) => Err(format!(
                "{what}: value {at} was {:?}, is {:?}",
                &before[at * size..][..size],
                &after[at * size..][..size]
            )),
        }
    }
}

fn is_nan(dtype: DType, value: &[u8]) -> bool {
    match dtype {
        DType::Float16 => value.try_into().is_ok_and(|bytes| u16::from_ne_bytes(bytes) & 0x7fff > 0x7c00),
        DType::Float32 => value.try_into().is_ok_and(|bytes| f32::from_ne_bytes(bytes).is_nan()),
        DType::Float64 => value.try_into().is_ok_and(|bytes| f64::from_ne_bytes(bytes).is_nan()),
        _ => false,
    }
}

fn options(dice: &mut Dice, shape: [usize; 3]) -> WriteOptions {
    let mut options = WriteOptions::new(shape, dice.of(&DType::ALL));
    options.compression = dice.of(&LOSSLESS).into();
    match options.compression.as_str() {
        "webp" | "jpeg2000" => options.settings.quality = Some(100),
        "deflate" | "zstd" | "lzma" if dice.once_in(2) => options.settings.level = Some(1 + dice.below(9) as i32),
        _ => {}
    }
    let bits = options.dtype.size() * 8;
    if options.dtype.kind() == SampleKind::Unsigned && dice.once_in(4) {
        options.bits = Some(1 + dice.below(bits) as u16);
    }
    options.predictor =
        dice.of(&[Prediction::Auto, Prediction::Auto, Prediction::None, Prediction::Horizontal, Prediction::Float]);
    options.blocks = match dice.below(4) {
        0 => Blocks::Strips { rows: dice.once_in(2).then(|| 1 + dice.below(shape[1] + 9) as u32) },
        _ => Blocks::Tiles { width: 16 + 16 * dice.below(6) as u32, height: 16 + 16 * dice.below(6) as u32 },
    };
    options.planar = dice.once_in(3);
    options.big = dice.of(&[BigTiff::Auto, BigTiff::Yes, BigTiff::No]);
    options.cog = dice.once_in(3);
    options.overviews = dice.of(&[
        Overviews::Auto,
        Overviews::Auto,
        Overviews::None,
        Overviews::Factors(vec![2, 4]),
        Overviews::Factors(vec![3]),
    ]);
    options.resampling = dice.once_in(2).then(|| dice.of(&Resampling::ALL));
    options.mask = dice.once_in(4);
    options.sparse = dice.once_in(4);
    if !options.mask && dice.once_in(3) {
        options.nodata = Some(match options.dtype {
            DType::Int64 => Nodata::Int(-3),
            DType::UInt64 => Nodata::UInt(u64::MAX),
            dtype if dtype.is_float() => Nodata::Float(dice.of(&[0.0, -9999.0, f64::NAN])),
            _ => Nodata::Float(0.0),
        });
    }
    if dice.once_in(8) {
        options.memory = Some(1 << (12 + dice.below(12)));
    }
    options
}

/// Noise, a slope, a few values again and again, or one: they take different paths through predictors and codecs.
fn pixels(dice: &mut Dice, options: &WriteOptions) -> Vec<u8> {
    let size = options.dtype.size();
    let count: usize = options.shape.iter().product();
    let few: Vec<u128> =
        (0..1 + dice.below(5)).map(|_| u128::from(dice.roll()) << 64 | u128::from(dice.roll())).collect();
    let kind = dice.below(4);
    let fits = options.bits.filter(|&bits| bits < 64).map_or(u128::MAX, |bits| (1 << bits) - 1);
    let mut out = Vec::with_capacity(count * size);
    for i in 0..count {
        let value = match kind {
            0 => u128::from(dice.roll()) << 64 | u128::from(dice.roll()),
            1 => (i as u128 / 3) << (size as u32 * 8).saturating_sub(16),
            2 => few[(dice.roll() >> 7) as usize % few.len()],
            _ => 0,
        };
        out.extend_from_slice(&(value & fits).to_le_bytes()[..size]);
    }
    out
}
