//! From storage straight to the device without either: a recorded fake of the library beside the fake driver.

mod fake;

use std::path::PathBuf;

use fake::{count, read, timeline};
use tiffjet::codec::{self, Plain, TileFormat};
use tiffjet::{DType, Error, Fallback, Image, Io, ReadOptions, Window};
use tiffjet_cuda::{Cuda, Settings};
use tiffjet_testkit::{Compression, Tiff};

const DIRECT: ReadOptions = ReadOptions { fallback: Fallback::Allow, io: Io::Direct, fill_failed: None };
const FORBID: ReadOptions = ReadOptions { fallback: Fallback::Forbid, io: Io::Direct, fill_failed: None };

/// Batches as the library takes them, small ones, and none.
const BATCHES: [(&str, &str); 3] = [("FAKELIB_BATCH", "128"), ("FAKELIB_BATCH", "3"), WITHOUT];
const WITHOUT: (&str, &str) = ("FAKELIB_BATCH", "0");

/// A file on storage.
struct Stored {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Stored {
    fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stored.tif");
        std::fs::write(&path, bytes).unwrap();
        Self { _folder: folder, path }
    }

    fn open(&self) -> Image {
        tiffjet::open(&self.path).unwrap()
    }
}

fn sample(compression: Compression) -> Stored {
    let tiff = Tiff::new(300, 200).bits(16).tile(64, 64).compression(compression);
    Stored::new(&tiff.build(&tiff.noise(3)))
}

fn host(image: &Image) -> Vec<u8> {
    image.read(&Window::default()).unwrap().bytes().unwrap().to_vec()
}

#[test]
fn every_codec_gives_the_same_pixels() {
    for batch in BATCHES {
        timeline("child_codecs", &[batch]);
    }
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_codecs() {
    let cuda = Cuda::new(0).unwrap();
    let codecs = [Compression::None, Compression::PackBits, Compression::Lzw, Compression::Deflate, Compression::Zstd];
    for compression in codecs {
        let image = sample(compression.clone()).open();
        for group in [u64::MAX, 4000, 1] {
            let cuda = cuda.with(Settings { group, ..Settings::default() });
            let (pixels, report) = read(&image, &cuda, &FORBID).unwrap();
            assert!(pixels == host(&image), "{compression:?}");
            assert!(report.routes[0].0.ends_with("on cuda:0, read by cuFile"), "{:?}", report.routes);
            assert_eq!(report.fallbacks.len(), 1, "no GPUDirect Storage here: {:?}", report.fallbacks);
        }
    }
    // Whose bits are turned round, and whose tiles the host decodes, go by way of the host.
    let reversed = Tiff::new(300, 200).bits(16).tile(64, 64).compression(Compression::Lzw).reversed_bits();
    let lzma = Tiff::new(300, 200).tile(64, 64).compress_with(34925, |rows| {
        let format = TileFormat::new(34925, (rows.len() as u32, 1), 1, DType::UInt8);
        let mut out = Vec::new();
        let plain = Plain { bytes: rows, rows: 1, format: &format, settings: &codec::Settings::default() };
        codec::find(34925).unwrap().encode(&plain, &mut out).unwrap();
        out
    });
    for tiff in [reversed, lzma] {
        let image = Stored::new(&tiff.build(&tiff.terrain(3))).open();
        assert!(read(&image, &cuda, &DIRECT).unwrap().0 == host(&image));
    }
}

#[test]
fn all_reads_are_submitted_before_anything_is_waited_for() {
    let timeline = timeline("child_structure", &[]);
    let submits: Vec<usize> =
        (timeline.iter().enumerate()).filter_map(|(i, line)| line.starts_with("submit ").then_some(i)).collect();
    let waited = timeline.iter().position(|line| line.starts_with("wait")).unwrap();
    assert!(submits.len() >= 2 && submits[submits.len() - 1] < waited, "{timeline:?}");
    let under_way = |i: &usize| timeline[*i].rsplit(' ').next().unwrap().parse().unwrap();
    let most: usize = submits.iter().map(under_way).max().unwrap();
    assert!(most >= 256, "{most} under way at once");
    assert_eq!(count(&timeline, "cuFileRead"), 0, "{timeline:?}");
    assert_eq!(count(&timeline, "wait for stream"), 1, "{timeline:?}");
    assert_eq!(count(&timeline, "wait for event"), 0, "{timeline:?}");
    // The pixels, and one buffer for all that is read, registered.
    assert_eq!(count(&timeline, "take"), 2, "{timeline:?}");
    assert_eq!(count(&timeline, "register"), 1);
}

#[test]
fn no_more_reads_are_under_way_than_the_library_holds_and_batches_are_kept() {
    let timeline = timeline("child_lanes", &[("FAKELIB_DEPTH", "40"), ("FAKELIB_BATCH", "8")]);
    let under_way = timeline.iter().filter(|line| line.starts_with("submit "));
    let most = under_way.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).max();
    assert!((20..=40).contains(&most.unwrap()), "{most:?}");
    assert!(count(&timeline, "set up") <= 40 && count(&timeline, "submit") > 90, "{timeline:?}");
}

#[test]
fn memory_that_is_used_again_is_waited_for_and_no_more_batches_are_under_way_than_may_be() {
    let timeline = timeline("child_lanes", &[("FAKELIB_BATCH", "2")]);
    assert!(count(&timeline, "submit") > 100, "{timeline:?}");
    let under_way = timeline.iter().filter(|line| line.starts_with("submit "));
    let most = under_way.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).max();
    assert!((20..=64).contains(&most.unwrap()), "{most:?}");
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_lanes() {
    let tiff = Tiff::new(1024, 1024).tile(64, 64);
    let image = Stored::new(&spread(&tiff)).open();
    let cuda = Cuda::new(0).unwrap();
    for lanes in [1, 2, 8] {
        let cuda = cuda.with(Settings { group: 300_000, lanes, ..Settings::default() });
        assert!(read(&image, &cuda, &FORBID).unwrap().0 == host(&image), "{lanes} lanes");
    }
}

#[test]
fn without_batches_reads_do_not_wait_for_each_other_nor_for_the_device() {
    let timeline = timeline("child_structure", &[WITHOUT]);
    let reads = count(&timeline, "cuFileRead");
    assert!(reads >= 256, "{reads} reads");
    assert_eq!(count(&timeline, "wait for stream"), 1, "{timeline:?}");
    // Where the memory of a lane is free from the beginning, its reads wait for that once.
    assert!(count(&timeline, "wait for event") <= 8, "{timeline:?}");
    // The pixels, and one buffer for all that is read, registered.
    assert_eq!(count(&timeline, "take"), 2, "{timeline:?}");
    assert_eq!(count(&timeline, "register"), 1);
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_structure() {
    // Tiles with room between them: each is a read of its own.
    let tiff = Tiff::new(1024, 1024).tile(64, 64).sparse([]);
    let image = Stored::new(&spread(&tiff)).open();
    let cuda = Cuda::new(0).unwrap();
    image.read_with(&cuda, &Window::default(), &FORBID).unwrap();
}

/// Tiles of a file with three pages between one and the next, so that none can be read with its neighbour.
fn spread(tiff: &Tiff) -> Vec<u8> {
    let tile = tiff.tile_bytes();
    let compress = move |rows: &[u8]| [rows, &vec![0; 3 * 4096][..]].concat();
    let file = tiff.clone().compress_with(1, compress).build(&tiff.terrain(3));
    assert!(tile >= 4096);
    file
}

#[test]
fn the_buffer_is_kept_from_read_to_read() {
    let timeline = timeline("child_twice", &[]);
    assert_eq!(count(&timeline, "register"), 1, "{timeline:?}");
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_twice() {
    let cuda = Cuda::new(0).unwrap();
    for compression in [Compression::Deflate, Compression::None, Compression::Zstd] {
        let image = sample(compression).open();
        assert!(read(&image, &cuda, &FORBID).unwrap().0 == host(&image));
    }
}

#[test]
fn reads_that_come_short_or_are_refused_are_done_by_the_host_and_the_report_says_so() {
    for rule in ["FAKELIB_SHORT=1", "FAKELIB_SHORT=3", "FAKELIB_FAIL=cuFileRead=5030@2,batch=5030@2"] {
        let (name, value) = rule.split_once('=').unwrap();
        for (codec, batch) in [("none", BATCHES[0]), ("deflate", BATCHES[1]), ("none", WITHOUT), ("deflate", WITHOUT)] {
            timeline("child_short", &[(name, value), ("CODEC", codec), batch]);
        }
    }
}

#[test]
fn batches_that_are_refused_are_calls() {
    for rule in ["cuFileBatchIOSetUp=5022", "cuFileBatchIOSubmit=5035", "cuFileBatchIOSubmit=5035@2"] {
        let timeline = timeline("child_twice", &[("FAKELIB_FAIL", rule), ("FAKELIB_BATCH", "4")]);
        assert!(count(&timeline, "cuFileRead") > 0, "{timeline:?}");
    }
}

#[test]
fn a_batch_whose_end_is_not_known_is_called_off_and_the_next_read_has_none() {
    let timeline = timeline("child_lost", &[("FAKELIB_FAIL", "cuFileBatchIOGetStatus=5041@2")]);
    assert!(count(&timeline, "cancel") >= 1, "{timeline:?}");
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_lost() {
    let image = sample(Compression::Deflate).open();
    let cuda = Cuda::new(0).unwrap();
    let cuda = cuda.with(Settings { group: 4000, ..Settings::default() });
    let error = read(&image, &cuda, &FORBID).unwrap_err().to_string();
    assert!(error.contains("cuFileBatchIOGetStatus failed with 5041"), "{error}");
    assert!(read(&image, &cuda, &FORBID).unwrap().0 == host(&image));
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_short() {
    let compression = match std::env::var("CODEC").unwrap().as_str() {
        "none" => Compression::None,
        _ => Compression::Deflate,
    };
    let tiff = Tiff::new(2000, 1500).bits(16).tile(256, 256).compression(compression);
    let image = Stored::new(&tiff.build(&tiff.noise(3))).open();
    let cuda = Cuda::new(0).unwrap();
    let (pixels, report) = read(&image, &cuda, &DIRECT).unwrap();
    assert!(pixels == host(&image));
    assert!(report.fallbacks.iter().any(|what| what.contains("read again by the host")), "{:?}", report.fallbacks);
    let again = report.fallbacks.last().unwrap().split(' ').next().unwrap().parse::<usize>().unwrap();
    assert!((1..20).contains(&again), "{again} of {} tiles", report.tiles);
}

#[test]
fn what_cannot_be_read_that_way_is_read_by_the_host_or_an_error() {
    for rule in ["cuFileDriverOpen=5001", "cuFileHandleRegister=5027"] {
        timeline("child_refused", &[("FAKELIB_FAIL", rule), ("EXPECTED", rule.split('=').next().unwrap())]);
    }
    // A registration that fails is a slower read, and no more.
    timeline("child_twice", &[("FAKELIB_FAIL", "cuFileBufRegister=5036")]);
    fake::child("child_refused", &[("EXPECTED", "cuFile")]);
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_refused() {
    let image = sample(Compression::Deflate).open();
    let cuda = Cuda::new(0).unwrap();
    let (pixels, report) = read(&image, &cuda, &DIRECT).unwrap();
    assert!(pixels == host(&image));
    let word = std::env::var("EXPECTED").unwrap();
    assert!(report.fallbacks[0].contains(&word), "{:?}", report.fallbacks);
    let error = read(&image, &cuda, &FORBID).unwrap_err().to_string();
    assert!(error.contains(&word), "{error}");
}

#[test]
fn auto_reads_by_the_host_where_the_library_would_only_copy() {
    let timeline = timeline("child_auto", &[]);
    assert_eq!(count(&timeline, "cuFile") + count(&timeline, "register"), 0, "{timeline:?}");
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_auto() {
    let image = sample(Compression::Deflate).open();
    let cuda = Cuda::new(0).unwrap();
    for io in [Io::Auto, Io::Staged] {
        let (pixels, report) = read(&image, &cuda, &ReadOptions { io, ..FORBID }).unwrap();
        assert!(pixels == host(&image));
        assert_eq!(report.fallbacks, [""; 0]);
    }
}

#[test]
fn memory_that_is_refused_is_named() {
    timeline("child_no_memory", &[("FAKECUDA_FAIL", "cuMemAlloc_v2=2")]);
    timeline("child_guarded", &[("FAKECUDA_MEMORY", "200000")]);
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_no_memory() {
    let image = sample(Compression::Deflate).open();
    let error = read(&image, &Cuda::new(0).unwrap(), &FORBID).unwrap_err();
    assert!(matches!(&error, Error::Limit { what, .. } if what.contains("cuMemAlloc_v2 failed with 2")), "{error}");
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_guarded() {
    let tiff = Tiff::new(512, 256).tile(256, 256).compression(Compression::None);
    let image = Stored::new(&tiff.build(&tiff.noise(3))).open();
    // 131072 bytes of pixels leave too few for a tile: nothing is taken.
    let error = read(&image, &Cuda::new(0).unwrap(), &FORBID).unwrap_err();
    assert!(matches!(error, Error::Limit { asked, .. } if asked >= 65536), "{error}");
}

#[test]
fn tiles_that_are_not_in_the_file_and_windows_of_few_tiles_ask_for_what_they_need() {
    timeline("child_parts", &[]);
}

#[test]
#[ignore = "in a process with the fake libraries"]
fn child_parts() {
    let cuda = Cuda::new(0).unwrap();
    let tiff = Tiff::new(300, 200).bits(16).tile(64, 64).compression(Compression::Zstd).sparse([0, 7, 19]);
    let image = Stored::new(&tiff.build(&tiff.terrain(3))).open();
    assert!(read(&image, &cuda, &FORBID).unwrap().0 == host(&image));
    let window = Window { rows: Some(70..130), cols: Some(60..200), ..Window::default() };
    let part = image.read_with(&cuda, &window, &FORBID).unwrap();
    let mut bytes = vec![0; part.storage().length()];
    part.storage().to_host(&mut bytes).unwrap();
    assert_eq!(bytes, image.read(&window).unwrap().bytes().unwrap());
}
