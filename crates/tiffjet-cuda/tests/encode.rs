//! Writing by way of the CUDA backend, on a driver and an nvCOMP without a GPU: files hold what was pushed, however it
//! was cut and wherever it stood; budgets are kept; what fails leaves nothing behind.

#![allow(unsafe_code)] // names memory of the fake device, which is the host's

mod fake;

use std::ops::Range;
use std::sync::Arc;

use tiffjet::sink::{FileSink, MemorySink, Patches, Sink};
use tiffjet::source::MemorySource;
use tiffjet::{
    Backend, Blocks, Cpu, DType, Device, DeviceMemory, DeviceRows, EncodeJob, EncodedRows, Error, Fallback, Image,
    Nodata, OpenOptions, Overviews, Prediction, Resampling, Result, Rows, RowsView, Window, WriteOptions, Writer,
    Written,
};
use tiffjet_cuda::Cuda;

/// An image to be written.
struct Case {
    name: String,
    options: WriteOptions,
    /// (band, y, x).
    pixels: Vec<u8>,
    mask: Option<Vec<u8>>,
}

fn noise(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// Smooth values with some noise, and a corner of one value.
fn pixels([bands, height, width]: [usize; 3], dtype: DType) -> Vec<u8> {
    let mut random = noise(7);
    let mut out = Vec::new();
    for band in 0..bands {
        for y in 0..height {
            for x in 0..width {
                let flat = y < height / 2 && x < width / 2;
                let value = if flat { 3 } else { (x * 3 + y * 2 + band * 40) as u64 + random() % 5 };
                match dtype {
                    DType::UInt8 => out.push(value as u8),
                    DType::UInt16 => out.extend((value as u16).to_ne_bytes()),
                    DType::Int32 => out.extend((value as i32 - 300).to_ne_bytes()),
                    DType::Float32 => out.extend((value as f32 * 0.25).to_ne_bytes()),
                    DType::Float64 => out.extend((value as f64 * 0.1).to_ne_bytes()),
                    other => panic!("{other}"),
                }
            }
        }
    }
    out
}

fn case(name: &str, shape: [usize; 3], dtype: DType, change: impl FnOnce(&mut WriteOptions)) -> Case {
    let mut options = WriteOptions::new(shape, dtype);
    options.blocks = Blocks::Tiles { width: 48, height: 32 };
    options.fallback = Fallback::Forbid;
    change(&mut options);
    let mask = options.mask.then(|| {
        let mut random = noise(3);
        (0..shape[1] * shape[2]).map(|i| u8::from(i % 5 > 0 && !random().is_multiple_of(9)) * 255).collect()
    });
    Case { name: name.into(), options, pixels: pixels(shape, dtype), mask }
}

impl Case {
    fn rows(&self, rows: Range<usize>) -> RowsView<'_> {
        let [bands, height, width] = self.options.shape;
        let row = width * self.options.dtype.size();
        let (first, shape) = (rows.start, [bands, rows.len(), width]);
        let view = RowsView::strided(&self.pixels[first * row..], shape, self.options.dtype, height * row).unwrap();
        match &self.mask {
            Some(mask) => view.with_mask(&mask[rows.start * width..rows.end * width]).unwrap(),
            None => view,
        }
    }

    /// Pushes rows in pieces of these sizes, again and again.
    fn write_on(&self, backend: Arc<dyn Backend>, cuts: &[usize]) -> Result<(Vec<u8>, Written)> {
        self.pushed(backend, cuts, |writer, rows| writer.push(&self.rows(rows)))
    }

    fn pushed(
        &self,
        backend: Arc<dyn Backend>,
        cuts: &[usize],
        mut push: impl FnMut(&mut Writer, Range<usize>) -> Result<()>,
    ) -> Result<(Vec<u8>, Written)> {
        let sink = MemorySink::new();
        let mut writer = Writer::create_on(backend, Box::new(sink.clone()), &self.options)?;
        let height = self.options.shape[1];
        let mut first = 0;
        for cut in cuts.iter().cycle() {
            let end = height.min(first + cut);
            push(&mut writer, first..end)?;
            first = end;
            if first == height {
                break;
            }
        }
        let written = writer.finish()?;
        Ok((sink.take().unwrap(), written))
    }

    /// The same from memory of the device, bands last where `last`.
    fn write_from_device(&self, cuda: &Cuda, cuts: &[usize], last: bool) -> Result<Vec<u8>> {
        let [bands, height, width] = self.options.shape;
        let size = self.options.dtype.size();
        let mut turned = self.pixels.clone();
        if last {
            for (i, value) in self.pixels.chunks_exact(size).enumerate() {
                let (band, pixel) = (i / (height * width), i % (height * width));
                turned[(pixel * bands + band) * size..][..size].copy_from_slice(value);
            }
        }
        let device = Device { kind: 2, id: 0 };
        let named = |bytes: &[u8]| {
            // SAFETY: memory of the fake device is that of the host; it lives as long as this function.
            unsafe { DeviceMemory::new(device, bytes.as_ptr() as usize, bytes.len(), 0) }
        };
        let (row, column) = if last { (width * bands, bands) } else { (width, 1) };
        let band = if last { 1 } else { height * width };
        let before = turned.clone();
        let written = self.pushed(Arc::new(cuda.clone()), cuts, |writer, rows| {
            let shape = [bands, rows.len(), width];
            let strides = [band * size, row * size, column * size].map(|n| n as isize);
            let view = DeviceRows::new(named(&turned), rows.start * row * size, shape, self.options.dtype, strides);
            let mut view = view.unwrap();
            if let Some(mask) = &self.mask {
                view = view.with_mask(named(mask), rows.start * width, [width as isize, 1]).unwrap();
            }
            writer.push(&view)
        })?;
        assert_eq!(turned, before, "{}: the pixels of the caller stay as they are", self.name);
        Ok(written.0)
    }

    fn on_cpu(&self) -> Vec<u8> {
        self.write_on(Arc::new(Cpu::shared().unwrap()), &[usize::MAX]).unwrap().0
    }
}

fn open(bytes: Vec<u8>) -> Image {
    Image::from_source(Arc::new(MemorySource::new(bytes)), &OpenOptions::default()).unwrap()
}

/// Both files hold the same pixels on all levels, and the same masks.
fn same_pixels(name: &str, one: &[u8], other: &[u8]) {
    let (one, other) = (open(one.to_vec()), open(other.to_vec()));
    assert_eq!(one.levels().len(), other.levels().len(), "{name}");
    for level in 0..one.levels().len() {
        let window = Window { level, ..Window::default() };
        let (a, b) = (one.read(&window).unwrap(), other.read(&window).unwrap());
        assert_eq!(a.shape, b.shape, "{name}, level {level}");
        assert!(a.bytes() == b.bytes(), "{name}, level {level}: pixels differ");
        let (a, b) = (one.read_mask(&window).unwrap(), other.read_mask(&window).unwrap());
        assert!(a.bytes() == b.bytes(), "{name}, level {level}: masks differ");
    }
}

const DEVICE_CODECS: [&str; 5] = ["none", "packbits", "lzw", "deflate", "zstd"];

/// Images of all kinds, small ones: the device is slow.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for codec in DEVICE_CODECS {
        let with = |name: &str, shape, dtype, change: &dyn Fn(&mut WriteOptions)| {
            case(&format!("{codec} {name}"), shape, dtype, |o| {
                o.compression = codec.into();
                change(o);
            })
        };
        cases.push(with("floats", [1, 70, 100], DType::Float32, &|_| {}));
        if ["deflate", "zstd"].contains(&codec) {
            cases.push(with("nvCOMP", [2, 90, 100], DType::Float32, &|o| {
                o.settings.level = Some(3);
                o.mask = true;
                o.sparse = true;
            }));
        }
        cases.push(with("rgb", [3, 65, 97], DType::UInt8, &|_| {}));
        cases.push(with("planar", [2, 70, 60], DType::UInt16, &|o| o.planar = true));
        cases.push(with("strips", [2, 75, 61], DType::Int32, &|o| o.blocks = Blocks::Strips { rows: Some(7) }));
        cases.push(with("sparse", [1, 100, 150], DType::UInt8, &|o| {
            o.sparse = true;
            o.nodata = Some(Nodata::Float(3.0));
        }));
        cases.push(with("mask", [1, 66, 90], DType::UInt16, &|o| o.mask = true));
        cases.push(with("bits", [1, 40, 70], DType::UInt16, &|o| o.bits = Some(11)));
    }
    cases
}

/// Images with overviews.
fn pyramids() -> Vec<Case> {
    let mut cases = Vec::new();
    for (codec, dtype) in [("zstd", DType::Float32), ("deflate", DType::UInt16), ("none", DType::UInt8)] {
        for resampling in [Resampling::Average, Resampling::Nearest, Resampling::Cubic, Resampling::Mode] {
            cases.push(case(&format!("cog {codec} {resampling:?}"), [2, 203, 170], dtype, |o| {
                o.compression = codec.into();
                o.blocks = Blocks::Tiles { width: 32, height: 32 };
                o.resampling = Some(resampling);
                o.cog = true;
                o.nodata = Some(Nodata::Float(3.0));
                o.mask = resampling == Resampling::Average;
            }));
        }
    }
    cases.push(case("factors", [1, 150, 140], DType::Float32, |o| {
        o.blocks = Blocks::Tiles { width: 16, height: 16 };
        o.overviews = Overviews::Factors(vec![3, 8]);
        o.resampling = Some(Resampling::Bilinear);
    }));
    cases
}

#[test]
fn files_hold_what_was_pushed() {
    fake::child_in(&fake::with_nvcomp(5), "child_files", &[]);
    fake::child_in(&fake::with_nvcomp(6), "child_files", &[]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_files() {
    let cuda = Cuda::new(0).unwrap();
    for case in cases() {
        let cpu = case.on_cpu();
        let (whole, written) = case.write_on(Arc::new(cuda.clone()), &[usize::MAX]).unwrap();
        same_pixels(&case.name, &whole, &cpu);
        assert!(written.report.fallbacks.is_empty(), "{}: {:?}", case.name, written.report);
        assert!(written.report.device_memory > 0 && written.report.tiles as u64 == written.tiles, "{written:?}");
        assert_eq!(written.report.sparse as u64, written.absent);
        if ["none", "packbits"].contains(&case.options.compression.as_str()) {
            assert!(whole == cpu, "{}: not the CPU's bytes", case.name);
        }
        for cuts in [&[1][..], &[7, 40, 3], &[32]] {
            assert!(case.write_on(Arc::new(cuda.clone()), cuts).unwrap().0 == whole, "{} {cuts:?}", case.name);
        }
        for (cuts, last) in [(&[usize::MAX][..], false), (&[9, 31], false), (&[usize::MAX], true), (&[33, 2], true)] {
            assert!(case.write_from_device(&cuda, cuts, last).unwrap() == whole, "{} {cuts:?} {last}", case.name);
        }
    }
}

#[test]
fn overviews_are_those_of_the_cpu() {
    fake::child_in(&fake::with_nvcomp(6), "child_overviews", &[]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_overviews() {
    let cuda = Cuda::new(0).unwrap();
    for case in pyramids() {
        let whole = case.write_from_device(&cuda, &[usize::MAX], false).unwrap();
        same_pixels(&case.name, &whole, &case.on_cpu());
        assert!(case.write_on(Arc::new(cuda.clone()), &[50, 1]).unwrap().0 == whole, "{}", case.name);
        let mut poor = case;
        poor.options.memory = Some(1);
        assert!(
            poor.write_from_device(&cuda, &[17], true).unwrap() == whole,
            "{}: one tile row of each level",
            poor.name
        );
    }
}

#[test]
fn nan_becomes_nodata_in_the_file_alone() {
    fake::child_in(&fake::with_nvcomp(5), "child_nan", &[]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_nan() {
    let cuda = Cuda::new(0).unwrap();
    for (codec, predictor) in [("zstd", Prediction::Float), ("none", Prediction::None), ("deflate", Prediction::Auto)] {
        let mut case = case(&format!("nan {codec}"), [2, 140, 90], DType::Float32, |o| {
            o.compression = codec.into();
            o.predictor = predictor;
            o.nodata = Some(Nodata::Float(-9999.0));
            o.nan_to_nodata = true;
            o.overviews = Overviews::Factors(vec![2, 4]);
            o.resampling = Some(Resampling::Average);
        });
        for (i, value) in case.pixels.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            if i % 7 == 0 || (20..60).contains(&(i / 90 % 140)) {
                *value = f32::NAN.to_ne_bytes();
            }
        }
        let whole = case.write_from_device(&cuda, &[usize::MAX], false).unwrap();
        same_pixels(&case.name, &whole, &case.on_cpu());
        assert!(case.write_from_device(&cuda, &[5, 64], true).unwrap() == whole, "{}", case.name);
        assert!(case.write_on(Arc::new(cuda.clone()), &[11]).unwrap().0 == whole, "{}", case.name);
    }
}

#[test]
fn budgets_are_kept() {
    fake::child_in(&fake::with_nvcomp(5), "child_budgets", &[("FAKENVCOMP_SCRATCH", "10000")]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_budgets() {
    let cuda = Cuda::new(0).unwrap();
    let mut case = case("budget", [1, 300, 256], DType::UInt16, |o| {
        (o.compression, o.settings.level) = ("deflate".into(), Some(6));
        o.blocks = Blocks::Tiles { width: 64, height: 32 };
        o.overviews = Overviews::Factors(vec![2, 4]);
    });
    let mut all = Vec::new();
    // One tile row of each level is 16 + 8 + 4 KiB; one tile 4 KiB, its room and scratch some 30 more.
    for budget in [u64::MAX, 1 << 20, 200 << 10, 96 << 10] {
        case.options.memory = Some(budget);
        let (bytes, written) = case.write_on(Arc::new(cuda.clone()), &[70]).unwrap();
        let used = written.report.device_memory;
        assert!(used <= budget && used > 0, "{used} of {budget}");
        if all.is_empty() {
            assert_eq!(cuda.peak_memory().unwrap(), used, "the library knows what it takes");
        }
        all.push((bytes, used));
    }
    assert!(all.windows(2).all(|pair| pair[0].0 == pair[1].0 && pair[0].1 >= pair[1].1));
    case.options.memory = Some(1000);
    let refused = case.write_on(Arc::new(cuda.clone()), &[70]).unwrap_err();
    assert!(refused.to_string().contains("1000 are allowed"), "{refused}");
    case.options.fallback = Fallback::Allow;
    let (bytes, written) = case.write_on(Arc::new(cuda.clone()), &[70]).unwrap();
    assert!(written.report.fallbacks.len() == 1 && bytes == case.on_cpu(), "{:?}", written.report);
}

#[test]
fn without_nvcomp_the_host_compresses_and_says_so() {
    fake::child("child_without", &[]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_without() {
    let cuda = Cuda::new(0).unwrap();
    for codec in ["deflate", "lzma"] {
        let mut case = case(codec, [1, 100, 90], DType::UInt16, |o| {
            (o.compression, o.settings.level) = (codec.into(), Some(6));
            o.mask = true;
        });
        let error = case.write_on(Arc::new(cuda.clone()), &[50]).unwrap_err();
        assert!(matches!(&error, Error::Unsupported { feature, .. } if feature.contains(codec)), "{error}");
        case.options.fallback = Fallback::Allow;
        let (bytes, written) = case.write_on(Arc::new(cuda.clone()), &[9]).unwrap();
        assert!(bytes == case.on_cpu(), "{codec}: the host's codec gives the host's bytes");
        let [why] = &written.report.fallbacks[..] else { panic!("{:?}", written.report) };
        assert!(why.contains(codec) && (codec == "lzma" || why.contains("pip install")), "{why}");
    }
}

#[test]
fn levels_that_the_device_does_not_have_are_the_hosts() {
    fake::child_in(&fake::with_nvcomp(6), "child_levels", &[]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_levels() {
    let cuda = Cuda::new(0).unwrap();
    for (codec, level, honoured) in [
        ("deflate", 1, true),
        ("deflate", 6, true),
        ("deflate", 12, false),
        ("zstd", 1, true),
        ("zstd", 3, true),
        ("zstd", 19, false),
    ] {
        let mut case = case(codec, [1, 64, 64], DType::UInt8, |o| {
            o.compression = codec.into();
            o.settings.level = Some(level);
        });
        assert_eq!(case.write_on(Arc::new(cuda.clone()), &[64]).is_ok(), honoured, "{codec} {level}");
        case.options.fallback = Fallback::Allow;
        let (bytes, written) = case.write_on(Arc::new(cuda.clone()), &[64]).unwrap();
        same_pixels(codec, &bytes, &case.on_cpu());
        assert_eq!(written.report.fallbacks.len(), usize::from(!honoured), "{:?}", written.report);
    }
}

#[test]
fn tile_rows_are_encoded_apart() {
    fake::child_in(&fake::with_nvcomp(6), "child_apart", &[]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_apart() {
    let cuda = Cuda::new(0).unwrap();
    for case in cases() {
        let whole = case.write_on(Arc::new(cuda.clone()), &[usize::MAX]).unwrap().0;
        let sink = MemorySink::new();
        let mut writer = Writer::create(sink.clone(), &case.options).unwrap();
        let name: Arc<str> = "apart".into();
        let mut all: Vec<EncodedRows<'static>> = Vec::new();
        for image in writer.plan().levels.iter().chain(&writer.plan().masks) {
            let tile = image.format.height as usize;
            for row in (0..image.down).rev() {
                let first = row as usize * tile;
                let rows = case.rows(first..(first + tile).min(image.height as usize));
                let shape = [1, rows.rows(), rows.width()];
                let rows = match image.mask {
                    true => RowsView::new(rows.mask().unwrap(), shape, DType::UInt8).unwrap(),
                    false => rows,
                };
                let fallback = Fallback::Allow;
                let job = EncodeJob { name: &name, rows: Rows::Host(rows), plan: image, first: row, fallback };
                let mut keep = |rows: EncodedRows<'_>| {
                    all.push(rows.into_owned());
                    Ok(())
                };
                cuda.encode(&job, &mut keep).unwrap();
            }
        }
        all.iter().for_each(|rows| writer.append(rows).unwrap());
        writer.finish().unwrap();
        assert!(sink.take().unwrap() == whole, "{}", case.name);
    }
}

/// A sink that is full after some bytes.
struct Full(usize);

impl Sink for Full {
    fn name(&self) -> &Arc<str> {
        static NAME: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| "full".into());
        &NAME
    }
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or_else(|| Error::invalid(self.name(), "the sink is full"))?;
        Ok(())
    }
    fn copy(&mut self, _: &mut std::fs::File, range: Range<u64>) -> Result<()> {
        self.write(&vec![0; (range.end - range.start) as usize])
    }
    fn patches(&self) -> Patches {
        Patches::Anywhere
    }
    fn patch(&mut self, _: u64, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn directory(&self) -> Option<&std::path::Path> {
        None
    }
    fn commit(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn what_fails_leaves_nothing_behind() {
    let nvcomp = fake::with_nvcomp(5);
    for (variable, rule, word) in [
        ("FAKECUDA_FAIL", "cuMemAllocFromPoolAsync=2", "memory"),
        ("FAKECUDA_FAIL", "cuMemcpyHtoDAsync_v2=1@3", "cuMemcpyHtoDAsync"),
        ("FAKECUDA_FAIL", "cuMemcpyDtoHAsync_v2=1@2", "cuMemcpyDtoHAsync"),
        ("FAKECUDA_FAIL", "cuEventSynchronize=700@1", "700"),
        ("FAKECUDA_FAIL", "lost@1", "719"),
        ("FAKECUDA_FAIL", "lost@5", "719"),
        ("FAKECUDA_MEMORY", "20000", "memory"),
        ("FAKENVCOMP_BAD", "5", "did not compress"),
        ("FAKENVCOMP_REFUSE", "1", "nvcompBatchedDeflateCompressAsync"),
        ("NONE", "0", "the sink is full"),
    ] {
        fake::child_in(&nvcomp, "child_failing", &[(variable, rule), ("EXPECTED", word)]);
    }
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_failing() {
    let word = std::env::var("EXPECTED").unwrap();
    let cuda = Cuda::new(0).unwrap();
    let mut case = case("failing", [1, 160, 96], DType::UInt16, |o| {
        (o.compression, o.settings.level) = ("deflate".into(), Some(6));
    });
    case.options.memory = Some(100_000);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.tif");
    std::fs::write(&path, "old").unwrap();
    let write = || {
        let full = word.contains("full");
        let sink: Box<dyn Sink> = if full { Box::new(Full(9000)) } else { Box::new(FileSink::create(&path)?) };
        let mut writer = Writer::create_on(Arc::new(cuda.clone()), sink, &case.options)?;
        for first in (0..160).step_by(20) {
            writer.push(&case.rows(first..first + 20))?;
        }
        writer.finish().map(drop)
    };
    let error = write().unwrap_err().to_string();
    assert!(error.contains(&word), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left");
    if word == "the sink is full" || word == "did not compress" {
        // The next write on the same device is not worse for it.
        let whole = case.write_on(Arc::new(cuda.clone()), &[33]).unwrap().0;
        same_pixels("after a failure", &whole, &case.on_cpu());
    }
}

#[test]
fn rows_of_another_device_are_refused() {
    fake::child("child_elsewhere", &[]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_elsewhere() {
    let case = case("elsewhere", [1, 20, 20], DType::UInt8, |o| o.compression = "none".into());
    // SAFETY: nobody gets as far as the memory.
    let memory = unsafe { DeviceMemory::new(Device { kind: 2, id: 1 }, 4096, 400, 0) };
    let rows = DeviceRows::new(memory, 0, [1, 20, 20], DType::UInt8, [400, 20, 1]).unwrap();
    for backend in [Arc::new(Cuda::new(0).unwrap()) as Arc<dyn Backend>, Arc::new(Cpu::shared().unwrap())] {
        let refused = case.pushed(backend, &[20], |writer, _| writer.push(&rows));
        assert!(matches!(refused, Err(Error::InvalidArgument { .. })), "{refused:?}");
    }
}

#[test]
fn any_options_and_any_pixels() {
    fake::child_in(fake::libraries(), "child_any_options_and_any_pixels", &[]);
}

/// What is written by way of the device is read by way of it.
#[test]
#[ignore = "in a process with the fake driver"]
fn child_any_options_and_any_pixels() {
    let cuda: Arc<dyn Backend> = Arc::new(Cuda::new(0).unwrap());
    tiffjet_testkit::Trips::of(60, 60).run(&cuda);
}
