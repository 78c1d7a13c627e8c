//! The whole path without a GPU: a fake driver that puts work off as long as it may, and kernels on the emulation.

mod fake;

use std::ops::Range;
use std::sync::Arc;

use tiffjet::codec::{self, Plain, TileFormat};
use tiffjet::source::{Distance, MemorySource, Source, Version};
use tiffjet::{
    Backend, Cpu, DType, Destination, Error, Fallback, Image, Io, Limits, OpenOptions, ReadJob, ReadOptions, Tensor,
    Window,
};
use tiffjet_cuda::{Cuda, Settings};
use tiffjet_testkit::{Compression, Tiff, conformance_of, hostile, matrix};

#[test]
fn conformance() {
    fake::child("child_conformance", &[]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_conformance() {
    // All of them take an hour on the emulation, and a minute on a GPU: `examples/conformance.rs`.
    let step = std::env::var("TIFFJET_STEP").ok().and_then(|step| step.parse().ok()).unwrap_or(397);
    let backend = Cuda::new(0).unwrap();
    conformance_of(&backend, matrix::grid().step_by(step).chain(matrix::oddities()));
}

#[test]
fn hostile_files() {
    fake::child("child_hostile_files", &[]);
}

/// Every hostile file gives what the CPU gives, and the device goes on after it.
#[test]
#[ignore = "in a process with the fake driver"]
fn child_hostile_files() {
    // Tens of thousands of pixels or tiles: seconds on the emulation, and no other path than those of the rest.
    const SLOW: [&str; 2] = ["samples-65535", "bomb-deflate-thousandfold"];
    let cuda = Cuda::new(0).unwrap();
    let good = sample(Compression::Deflate);
    let limits = Limits { output_bytes: 1 << 24, tile_bytes: 1 << 24, ..Limits::default() };
    let options = OpenOptions { limits, ..OpenOptions::default() };
    let mut opened = 0;
    for case in hostile::cases().into_iter().filter(|case| !SLOW.contains(&case.name.as_str())) {
        let source: Arc<dyn Source> = Arc::new(MemorySource::named(&case.name, case.bytes));
        let Ok(image) = Image::from_source(source, &options) else { continue };
        same(&image, &cuda, &ReadOptions::default());
        opened += 1;
        if opened % 16 == 0 {
            same(&good, &cuda, &FORBID);
        }
    }
    same(&good, &cuda, &FORBID);
    assert!(opened > 200, "{opened}");
}

fn open(name: &str, file: Vec<u8>) -> Image {
    let source: Arc<dyn Source> = Arc::new(MemorySource::named(name, file));
    Image::from_source(source, &OpenOptions::default()).unwrap()
}

fn bytes(tensor: &Tensor) -> Vec<u8> {
    let mut bytes = vec![0; tensor.storage().length()];
    tensor.storage().to_host(&mut bytes).unwrap();
    bytes
}

/// The same pixels or the same error.
fn same(image: &Image, backend: &dyn Backend, options: &ReadOptions) {
    let cpu = image.read(&Window::default()).map(|t| bytes(&t)).map_err(|e| e.to_string());
    let cuda = image.read_with(backend, &Window::default(), options).map(|t| bytes(&t)).map_err(|e| e.to_string());
    assert!(cpu == cuda, "{}: {:?} / {:?}", image.name(), cpu.map(|b| b.len()), cuda.map(|b| b.len()));
}

fn sample(compression: Compression) -> Image {
    let tiff = Tiff::new(100, 90).bits(16).tile(32, 32).compression(compression);
    open("sample", tiff.build(&tiff.terrain(3)))
}

const FORBID: ReadOptions = ReadOptions { fallback: Fallback::Forbid, io: Io::Auto, fill_failed: None };

#[test]
fn settings() {
    fake::child("child_settings", &[]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_settings() {
    let cuda = Cuda::new(0).unwrap();
    for compression in [Compression::None, Compression::Lzw, Compression::Deflate, Compression::Zstd] {
        let image = sample(compression);
        // One group, several at once, and more of them than lanes.
        for group in [u64::MAX, 4000, 1] {
            same(&image, &cuda.with(Settings { group, ..Settings::default() }), &FORBID);
        }
        for threads in [1, 2] {
            same(&image, &cuda.with(Settings { group: 1, threads, ..Settings::default() }), &FORBID);
        }
    }
}

#[test]
fn memory_is_guarded() {
    fake::child("child_memory", &[("FAKECUDA_MEMORY", "400000")]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_memory() {
    let cuda = Cuda::new(0).unwrap();
    let image = sample(Compression::Deflate);
    let budget = 50_000;
    let tight = cuda.with(Settings { budget, ..Settings::default() });
    same(&image, &tight, &FORBID);
    let output = 100 * 90 * 2;
    assert!(tight.peak_memory().unwrap() <= output + budget, "{}", tight.peak_memory().unwrap());
    let none = cuda.with(Settings { budget: 1000, ..Settings::default() });
    let error = image.read_on(&none, &Window::default()).unwrap_err();
    assert!(matches!(error, Error::Limit { asked, allowed: 1000, .. } if asked > 4096), "{error}");
    let large = Tiff::new(700, 700).tile(64, 64);
    let large = open("large", large.build(&large.gradient()));
    let error = large.read_on(&cuda, &Window::default()).unwrap_err();
    assert!(matches!(error, Error::Limit { asked: 490_000, .. }), "{error}");
    same(&image, &cuda, &FORBID);
}

#[test]
fn host_codecs_go_the_same_way() {
    fake::child("child_host", &[]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_host() {
    let cuda = Cuda::new(0).unwrap();
    let lzma = codec::find(34925).unwrap();
    let compress = move |rows: &[u8]| {
        let format = TileFormat::new(34925, (rows.len() as u32, 1), 1, DType::UInt8);
        let mut out = Vec::new();
        let plain = Plain { bytes: rows, rows: 1, format: &format, settings: &codec::Settings::default() };
        lzma.encode(&plain, &mut out).unwrap();
        out
    };
    let tiff = Tiff::new(100, 90).bits(16).samples(3).tile(32, 32).compress_with(34925, compress);
    let image = open("lzma", tiff.build(&tiff.terrain(4)));
    same(&image, &cuda, &ReadOptions::default());
    let tensor = image.read_on(&cuda, &Window::default()).unwrap();
    assert_eq!(tensor.report.routes, [("lzma on host".to_owned(), 12)]);
    assert_eq!(tensor.report.fallbacks.len(), 1);
    let error = image.read_with(&cuda, &Window::default(), &FORBID).unwrap_err();
    assert!(matches!(&error, Error::Unsupported { feature, .. } if feature.contains("lzma")), "{error}");
}

#[test]
fn damaged_tiles_are_the_hosts_matter() {
    fake::child("child_damaged", &[]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_damaged() {
    let cuda = Cuda::new(0).unwrap();
    for compression in [Compression::PackBits, Compression::Lzw, Compression::Deflate, Compression::Zstd] {
        let tiff = Tiff::new(100, 90).tile(32, 32).compression(compression.clone());
        let good = tiff.build(&tiff.terrain(3));
        let image = open("good", good.clone());
        let tiles: Vec<_> = image.plan(&Window::default()).unwrap().tiles().iter().map(|t| t.range.clone()).collect();
        for (n, range) in tiles.iter().enumerate().step_by(3) {
            let mut file = good.clone();
            let at = (range.start + (range.end - range.start) * n as u64 / tiles.len() as u64) as usize;
            file[at] ^= 0x55;
            file[range.end as usize - 1] ^= 0x0f;
            let damaged = open(&format!("damaged {compression:?} {n}"), file);
            same(&damaged, &cuda, &ReadOptions::default());
            let forbidden = damaged.read_with(&cuda, &Window::default(), &FORBID).map(|t| bytes(&t));
            if let Ok(pixels) = forbidden {
                assert_eq!(pixels, bytes(&damaged.read(&Window::default()).unwrap()));
            }
            same(&image, &cuda, &FORBID);
        }
    }
}

#[test]
fn windows_that_cannot_be_read_are_filled() {
    fake::child("child_filled", &[]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_filled() {
    let cuda = Cuda::new(0).unwrap();
    let tiff = Tiff::new(64, 64).bits(16).tile(16, 16).compression(Compression::Zstd);
    let good = tiff.build(&tiff.noise(1));
    let mut bad = good.clone();
    let end = bad.len();
    bad[end / 2..].fill(0xff);
    let images = [open("good", good), open("bad", bad)];
    let plans: Vec<_> = images.iter().map(|image| image.plan(&Window::default()).unwrap()).collect();
    let jobs: Vec<ReadJob<'_>> =
        images.iter().zip(&plans).map(|(image, plan)| ReadJob { source: &**image.source(), plan }).collect();
    let options = ReadOptions { fill_failed: Some(vec![9, 0]), ..ReadOptions::default() };
    let (host, device) = (Cpu::shared().unwrap().read(&jobs, &options), cuda.read(&jobs, &options));
    let (host, device) = (host.unwrap(), device.unwrap());
    assert_eq!(bytes(&host), bytes(&device));
    assert_eq!(host.report.failures, device.report.failures);
    assert_eq!(device.dims(), [2, 1, 64, 64]);
    assert!(cuda.read(&jobs, &ReadOptions::default()).is_err());
}

#[test]
fn windows_that_share_tiles_have_them_decoded_once() {
    fake::child("child_windows", &[]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_windows() {
    let cuda = Cuda::new(0).unwrap();
    let small = cuda.with(Settings { group: 3000, lanes: 2, ..Settings::default() });
    for compression in [Compression::None, Compression::Lzw, Compression::Deflate, Compression::Zstd] {
        let tiff = Tiff::new(130, 100).bits(16).tile(32, 32).compression(compression.clone());
        let good = tiff.build(&tiff.terrain(3));
        let mut bad = good.clone();
        let damaged = open("good", good.clone()).plan(&Window::default()).unwrap().tiles()[6].range.clone();
        bad[damaged.start as usize..damaged.end as usize].fill(0xff);
        for image in [open("good", good), open("bad", bad)] {
            let window = |i: u32| (7 * i % 60, 11 * i % 80);
            let plans: Vec<_> = (0..20)
                .map(window)
                .map(|(y, x)| Window { rows: Some(y..y + 40), cols: Some(x..x + 50), ..Window::default() })
                .map(|window| image.plan(&window).unwrap())
                .collect();
            let jobs: Vec<_> = plans.iter().map(|plan| ReadJob { source: &**image.source(), plan }).collect();
            let options = ReadOptions { fill_failed: Some(vec![9, 0]), ..ReadOptions::default() };
            let host = Cpu::shared().unwrap().read(&jobs, &options).unwrap();
            for backend in [&cuda, &small] {
                let device = backend.read(&jobs, &options).unwrap();
                assert!(bytes(&host) == bytes(&device), "{compression:?}");
                assert_eq!(host.report.failures, device.report.failures);
                for options in [ReadOptions::default(), FORBID] {
                    match backend.read(&jobs, &options) {
                        Ok(device) => assert!(bytes(&host) == bytes(&device), "{compression:?}"),
                        Err(Error::Tile { row, col, .. }) => assert_eq!((row, col), (1, 1), "{compression:?}"),
                        Err(other) => panic!("{other}"),
                    }
                    assert_eq!(backend.read(&jobs, &options).is_err(), !host.report.failures.is_empty());
                }
            }
        }
    }
}

#[test]
fn bytes_from_far_away_come_in_any_order() {
    fake::child("child_far", &[]);
}

/// A file of another machine: what is asked for comes in one order or the other, and one byte never does.
struct Far {
    inner: MemorySource<Vec<u8>>,
    backwards: bool,
    lost: Option<u64>,
}

impl Source for Far {
    fn name(&self) -> &Arc<str> {
        self.inner.name()
    }

    fn version(&self) -> &Version {
        self.inner.version()
    }

    fn distance(&self) -> Distance {
        Distance::FAR
    }

    fn read(&self, ranges: &[Range<u64>], out: &mut [&mut [u8]], landed: &mut dyn FnMut(usize)) -> Result<(), Error> {
        let turn = |i: usize| if self.backwards { ranges.len() - 1 - i } else { i };
        for i in (0..ranges.len()).map(turn) {
            if self.lost.is_some_and(|lost| ranges[i].contains(&lost)) {
                return Err(Error::Changed { name: self.name().clone() });
            }
            self.inner.read_range(ranges[i].clone(), out[i])?;
            landed(i);
        }
        Ok(())
    }
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_far() {
    let cuda = Cuda::new(0).unwrap();
    let plain = Tiff::new(200, 120).bits(16).tile(32, 32);
    let turned = Tiff::new(200, 120).bits(8).strips(120).reversed_bits();
    for tiff in [plain.clone(), plain.compression(Compression::Lzw), turned] {
        let file = tiff.build(&tiff.noise(5));
        let due = bytes(&open("near", file.clone()).read(&Window::default()).unwrap());
        for backwards in [false, true] {
            let source = Far { inner: MemorySource::named("far", file.clone()), backwards, lost: None };
            let image = Image::from_source(Arc::new(source), &OpenOptions::default()).unwrap();
            let read = image.read_with(&cuda, &Window::default(), &FORBID).unwrap();
            assert!(bytes(&read) == due);
        }
        // A window that can't be read is an error, or filled, and others are whole.
        let near = open("near", file.clone());
        let lost = near.plan(&Window::default()).unwrap().tiles().last().unwrap().range.end - 1;
        let source = Far { inner: MemorySource::named("far", file.clone()), backwards: false, lost: Some(lost) };
        let height = near.shape()[1] as u32;
        let halves = [0..height / 2, height / 2..height].map(|rows| Window { rows: Some(rows), ..Window::default() });
        let plans = halves.clone().map(|half| near.plan(&half).unwrap());
        let jobs = plans.each_ref().map(|plan| ReadJob { source: &source, plan });
        assert!(cuda.read(&jobs, &ReadOptions::default()).is_err());
        let filled = ReadOptions { fill_failed: Some(vec![9; near.dtype().size()]), ..ReadOptions::default() };
        let got = cuda.read(&jobs, &filled).unwrap();
        let whole = bytes(&near.read(&halves[0]).unwrap());
        assert!(bytes(&got)[..whole.len()] == whole);
        assert_eq!(got.report.failures.iter().map(|(job, _)| *job).collect::<Vec<_>>(), [1]);
    }
}

#[test]
fn what_the_driver_refuses_is_an_error_and_no_more() {
    for (rule, word) in [
        ("cuInit=100", "not available"),
        ("cuDevicePrimaryCtxRetain=2", "cuDevicePrimaryCtxRetain"),
        ("cuModuleLoadData=222", "222"),
        ("cuMemHostAlloc=2", "memory"),
        ("cuMemAllocFromPoolAsync=2@1", "memory"),
        ("cuMemAllocFromPoolAsync=2@3", "memory"),
        ("cuMemcpyHtoDAsync_v2=1", "cuMemcpyHtoDAsync"),
        ("cuStreamSynchronize=719", "719"),
        ("lost@1", "719"),
        ("lost@2", "719"),
        ("lost@4", "719"),
    ] {
        fake::child("child_refused", &[("FAKECUDA_FAIL", rule), ("EXPECTED", word)]);
    }
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_refused() {
    let word = std::env::var("EXPECTED").unwrap();
    let image = sample(Compression::Deflate);
    let read = Cuda::new(0).and_then(|cuda| {
        let cuda = cuda.with(Settings { group: 4000, ..Settings::default() });
        image.read_on(&cuda, &Window::default()).map(drop)
    });
    let error = read.unwrap_err().to_string();
    assert!(error.contains(&word), "{error}");
}

#[test]
fn a_driver_without_a_symbol_is_named() {
    fake::child_in(fake::folder(true), "child_part", &[]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_part() {
    let error = tiffjet_cuda::available().unwrap_err();
    assert!(matches!(&error, Error::Unavailable { library, .. } if library.contains("cuLaunchKernel")), "{error}");
    assert!(Cuda::new(0).is_err());
}

#[test]
fn ptx_serves_where_no_machine_code_does() {
    fake::child("child_good", &[("FAKECUDA_NO_CUBIN", "1")]);
}

#[test]
fn a_call_that_fails_once_leaves_the_rest_alone() {
    fake::child("child_once", &[("FAKECUDA_FAIL", "cuMemcpyHtoDAsync_v2=1@1")]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_once() {
    let cuda = Cuda::new(0).unwrap();
    assert!(sample(Compression::Lzw).read_on(&cuda, &Window::default()).is_err());
    child_good();
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_good() {
    let cuda = Cuda::new(0).unwrap();
    same(&sample(Compression::Lzw), &cuda, &FORBID);
    let error = Cuda::new(1).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    // Memory of the wrong size is refused before anything happens.
    let image = sample(Compression::None);
    let plan = image.plan(&Window::default()).unwrap();
    let job = ReadJob { source: &**image.source(), plan: &plan };
    let refused = cuda.read_into(&[job], Destination::Host(&mut [0; 10]), &ReadOptions::default());
    assert!(matches!(refused, Err(Error::InvalidArgument { .. })));
}

#[test]
fn many_reads_at_once_share_the_device() {
    fake::child("child_reads", &[]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_reads() {
    const THREADS: usize = 12;
    let backends = [Cuda::new(0).unwrap(), Cuda::new(0).unwrap()];
    for compression in [Compression::None, Compression::Deflate, Compression::Zstd] {
        let tiff = Tiff::new(700, 600).bits(16).tile(64, 64).compression(compression);
        let image = open("shared", tiff.build(&tiff.terrain(3)));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (image, backend) = (&image, &backends[thread % 2]);
                scope.spawn(move || {
                    for turn in 0..3 {
                        let (top, left) = (30 * thread as u32, 100 * turn);
                        let window =
                            Window { rows: Some(top..top + 250), cols: Some(left..left + 333), ..Window::default() };
                        let expected = image.read(&window).unwrap();
                        assert!(bytes(&image.read_on(backend, &window).unwrap()) == bytes(&expected), "{window:?}");
                    }
                });
            }
        });
    }
}

#[test]
fn many_copies_to_the_host_at_once_do_not_wait_for_each_other() {
    fake::child("child_copies", &[]);
}

#[test]
#[ignore = "in a process with the fake driver"]
fn child_copies() {
    // More threads than there are slots for all that they would like to have on their way.
    const THREADS: usize = 24;
    let tiff = Tiff::new(4096, 5000).tile(1024, 1024);
    let cuda = Cuda::new(0).unwrap();
    let image = open("copies", tiff.build(&tiff.terrain(3)));
    let tensor = image.read_on(&cuda, &Window::default()).unwrap();
    let expected = bytes(&tensor);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (tell, tensor, expected) = (tell.clone(), &tensor, &expected);
            scope.spawn(move || tell.send(bytes(tensor) == *expected));
        }
        for _ in 0..THREADS {
            // A scope waits for its threads: where they wait for each other, the process has to end.
            match told.recv_timeout(std::time::Duration::from_secs(120)) {
                Ok(same) => assert!(same),
                Err(_) => std::process::abort(),
            }
        }
    });
}
