//! How many requests it takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tiffjet::sink::MemorySink;
use tiffjet::source::{RemoteSource, Source};
use tiffjet::{
    Backend, Blocks, Cpu, DType, HostBuffer, Image, Limits, OpenOptions, ReadJob, ReadOptions, RowsView, Storage,
    Window, WriteOptions, Writer,
};
use tiffjet_testkit::{Compression, Tiff};

use crate::server::{Fate, Reply, Server};
use crate::{File, cog, open, quick};

fn serving(file: &File) -> Server {
    let bytes = file.bytes.clone();
    Server::start(move |request| Reply::part(request, &bytes, "\"one\""))
}

fn rows_of(file: &File, rows: std::ops::Range<usize>, cols: std::ops::Range<usize>) -> Vec<u8> {
    let width = file.options.shape[2];
    rows.flat_map(|y| file.pixels[(y * width + cols.start) * 2..(y * width + cols.end) * 2].to_vec()).collect()
}

fn window(rows: std::ops::Range<u32>, cols: std::ops::Range<u32>) -> Window {
    Window { rows: Some(rows), cols: Some(cols), ..Window::default() }
}

#[test]
fn a_cog_opens_with_one_request_and_knows_where_it_lies() {
    let file = cog(256, 2048, |_| ());
    let server = serving(&file);
    let image = open(&server.url("a.tif")).unwrap();
    assert!(image.levels().len() > 1);
    let _ = image.geo();
    image.plan(&Window::default()).unwrap();
    assert_eq!(server.log().len(), 1);
}

#[test]
fn it_is_known_how_long_an_answer_takes() {
    const LATE: Duration = Duration::from_millis(30);
    let file = cog(64, 64, |_| ());
    let bytes = file.bytes.clone();
    let server = Server::start(move |request| {
        std::thread::sleep(LATE);
        Reply::part(request, &bytes, "\"one\"")
    });
    // The second time it is asked for its ETag alone.
    for _ in 0..2 {
        let distance = open(&server.url("a.tif")).unwrap().source().distance();
        assert!(distance.wait >= LATE && !distance.is_brisk(), "{distance:?}");
    }
    assert_eq!(server.log().len(), 2);
}

#[test]
fn a_window_takes_one_request_for_each_row_of_tiles_and_fewer_where_they_are_near() {
    // A row of tiles has 2 MiB: too far to be fetched in vain.
    let file = cog(256, 16384, |_| ());
    let server = serving(&file);
    let image = open(&server.url("a.tif")).unwrap();
    server.take_log();
    let tensor = image.read(&window(10..190, 100..300)).unwrap();
    assert_eq!(tensor.bytes().unwrap(), rows_of(&file, 10..190, 100..300));
    assert_eq!(server.take_log().len(), 3);
    // Whole rows stand one behind the other, and are cut where they have more than 8 MiB.
    let tensor = image.read(&Window::default()).unwrap();
    assert_eq!(tensor.bytes().unwrap(), file.pixels);
    assert_eq!(server.take_log().len(), 2);
    // In a narrow image the next row is near.
    let file = cog(256, 512, |_| ());
    let server = serving(&file);
    let image = open(&server.url("b.tif")).unwrap();
    server.take_log();
    let tensor = image.read(&window(0..256, 0..128)).unwrap();
    assert_eq!(tensor.bytes().unwrap(), rows_of(&file, 0..256, 0..128));
    assert_eq!(server.take_log().len(), 1);
}

#[test]
fn a_large_tile_index_takes_one_request_more() {
    let file = cog(2048, 2048, |options| {
        options.blocks = tiffjet::Blocks::Tiles { width: 16, height: 16 };
    });
    let server = serving(&file);
    let image = open(&server.url("a.tif")).unwrap();
    assert_eq!(server.take_log().len(), 1);
    let tensor = image.read(&window(2000..2016, 2000..2016)).unwrap();
    assert_eq!(tensor.bytes().unwrap(), rows_of(&file, 2000..2016, 2000..2016));
    assert_eq!(server.take_log().len(), 2);
    // It is known now, for all windows.
    image.read(&window(0..16, 0..16)).unwrap();
    assert_eq!(server.take_log().len(), 1);
}

#[test]
fn a_huge_tile_index_is_read_in_pages_and_the_order_of_a_cog_spares_half_of_them() {
    let mut options = WriteOptions::new([1, 8192, 10240], DType::UInt8);
    options.blocks = Blocks::Tiles { width: 16, height: 16 };
    options.overviews = tiffjet::Overviews::None;
    options.compression = "packbits".into();
    options.cog = true;
    let sink = MemorySink::new();
    let mut writer = Writer::create(sink.clone(), &options).unwrap();
    let pixels: Vec<u8> = (0..8192 * 10240).map(|i| (i / 10240 / 16 + i % 10240 / 16) as u8).collect();
    writer.push(&RowsView::new(&pixels, [1, 8192, 10240], DType::UInt8).unwrap()).unwrap();
    writer.finish().unwrap();
    let bytes = Arc::new(sink.take().unwrap());
    let server = Server::start(move |request| Reply::part(request, &bytes, "\"one\""));
    let image = open(&server.url("a.tif")).unwrap();
    for (y, x) in [(4000, 5000), (8160, 10000), (0, 0)] {
        let tensor = image.read(&window(y..y + 32, x..x + 32)).unwrap();
        let expected = (y..y + 32).flat_map(|y| (x..x + 32).map(move |x| (y / 16 + x / 16) as u8));
        assert!(tensor.bytes().unwrap().iter().copied().eq(expected), "{y}, {x}");
    }
    let log = server.log();
    assert!(log.iter().all(|r| r.range().is_some_and(|(a, b)| b - a <= 128 << 10)));
    // One to open, and for each window one for offsets and one for tiles; a page may begin between two rows.
    assert!(log.len() <= 1 + 3 * 3, "{} requests", log.len());
}

#[test]
fn directories_may_stand_anywhere() {
    for seed in 0..3 {
        let tiff = Tiff::new(300, 200).bits(16).tile(64, 64).compression(Compression::Zstd);
        let pixels = tiff.noise(seed);
        let bytes = Arc::new(tiff.build(&pixels));
        let local =
            Image::from_source(Arc::new(tiffjet::source::MemorySource::new(bytes.to_vec())), &OpenOptions::default())
                .unwrap();
        let shared = bytes.clone();
        let server = Server::start(move |request| Reply::part(request, &shared, "\"one\""));
        let image = open(&server.url("a.tif")).unwrap();
        let read = image.read(&Window::default()).unwrap();
        assert_eq!(read.bytes().unwrap(), local.read(&Window::default()).unwrap().bytes().unwrap());
    }
}

#[test]
fn rows_that_are_not_compressed_come_to_their_place_whatever_is_around_them() {
    let plain = |width, height| Tiff::new(width, height).bits(16);
    let spaced = |rows: &[u8]| [rows, &[0xee; 70][..]].concat();
    let files = [
        plain(256, 192).tile(64, 64),
        plain(256, 192).tile(64, 64).big_endian(),
        plain(256, 192).tile(64, 64).big_endian().compress_with(1, spaced),
        plain(250, 190).tile(64, 64),
        plain(256, 200).tile(64, 64),
        plain(300, 500).strips(7).big_endian(),
        plain(256, 192).tile(64, 64).samples(2).planar(),
        plain(256, 192).tile(64, 64).samples(2),
        plain(256, 192).tile(64, 64).reversed_bits(),
        plain(256, 192).tile(64, 64).sparse([3]).shared(5, 6),
    ];
    for (i, tiff) in files.into_iter().enumerate() {
        let bytes = tiff.build(&tiff.noise(i as u64));
        let local = Arc::new(tiffjet::source::MemorySource::new(bytes.clone()));
        let local = Image::from_source(local, &OpenOptions::default()).unwrap();
        let server = Server::start(move |request| Reply::part(request, &bytes, "\"one\""));
        let image = open(&server.url("a.tif")).unwrap();
        for window in [Window::default(), window(30..150, 0..200), window(64..128, 64..128)] {
            let (near, far) = (local.read(&window).unwrap(), image.read(&window).unwrap());
            assert!(far.bytes().unwrap() == near.bytes().unwrap(), "file {i}, {window:?}");
            assert_eq!(far.report.tiles, near.report.tiles, "file {i}, {window:?}");
        }
    }
}

#[test]
fn a_file_that_was_opened_before_is_asked_for_its_etag_alone() {
    let old = cog(128, 128, |_| ());
    let new = cog(64, 128, |_| ());
    let turn = Arc::new(AtomicUsize::new(0));
    let (now, files) = (turn.clone(), [old.bytes.clone(), new.bytes.clone()]);
    let server = Server::start(move |request| {
        let turn = now.load(Ordering::SeqCst);
        Reply::part(request, &files[turn], ["\"old\"", "\"new\""][turn])
    });
    let url = server.url("cached.tif");
    assert_eq!(open(&url).unwrap().shape(), [1, 128, 128]);
    assert_eq!(open(&url).unwrap().shape(), [1, 128, 128]);
    let log = server.take_log();
    assert_eq!(log.len(), 2);
    assert_eq!(log[1].header("if-none-match"), Some("\"old\""));
    // Within the age that is allowed it is not asked at all.
    assert_eq!(Image::open(&url, &quick(&[("header_age", "60")])).unwrap().shape(), [1, 128, 128]);
    assert_eq!(server.take_log().len(), 0);
    turn.store(1, Ordering::SeqCst);
    assert_eq!(open(&url).unwrap().shape(), [1, 64, 128]);
    assert_eq!(server.take_log().len(), 1);
}

#[test]
fn windows_of_many_files_are_fetched_side_by_side_over_few_connections() {
    let file = cog(256, 256, |options| options.compression = "zstd".into());
    let bytes = file.bytes.clone();
    let (busy, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (b, m) = (busy.clone(), most.clone());
    let server = Server::start(move |request| {
        let now = b.fetch_add(1, Ordering::SeqCst) + 1;
        m.fetch_max(now, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(20));
        b.fetch_sub(1, Ordering::SeqCst);
        Reply::part(request, &bytes, "\"one\"")
    });
    let images: Vec<Image> = (0..64).map(|i| open(&server.url(&format!("{i}.tif"))).unwrap()).collect();
    let plans: Vec<_> = images.iter().map(|image| image.plan(&window(0..256, 0..256)).unwrap()).collect();
    // What the first range brought need not be fetched: these files are small, so they are asked for again as larger ones.
    let sources: Vec<Far> = images.iter().map(|image| Far(image.source().clone(), server.url("x.tif"))).collect();
    let jobs: Vec<ReadJob<'_>> = sources.iter().zip(&plans).map(|(source, plan)| ReadJob { source, plan }).collect();
    let tensor = Cpu::shared().unwrap().read(&jobs, &ReadOptions::default()).unwrap();
    assert!(tensor.bytes().unwrap().chunks(file.pixels.len()).all(|window| window == file.pixels));
    let most = most.load(Ordering::SeqCst);
    assert!((8..=32).contains(&most), "{most} requests at once");
    // Of those made ahead some may have come too late.
    assert!(server.connections() <= 38, "{} connections", server.connections());
}

/// A source that opens another one anew for what it is asked, so that nothing is there already.
struct Far(Arc<dyn Source>, String);

impl Source for Far {
    fn name(&self) -> &Arc<str> {
        self.0.name()
    }
    fn version(&self) -> &tiffjet::source::Version {
        self.0.version()
    }
    fn read(
        &self,
        ranges: &[std::ops::Range<u64>],
        out: &mut [&mut [u8]],
        landed: &mut dyn FnMut(usize),
    ) -> tiffjet::Result<()> {
        let again = tiffjet::source::RemoteSource::open(&self.1, &quick(&[]).remote, &Limits::default())?;
        again.read(ranges, out, landed)
    }
    fn distance(&self) -> tiffjet::source::Distance {
        tiffjet::source::Distance::FAR
    }
}

#[test]
fn ranges_are_fetched_whatever_their_order_and_size() {
    let bytes: Arc<Vec<u8>> = Arc::new((0..20_000_000u32).map(|i| (i.wrapping_mul(2654435761) >> 24) as u8).collect());
    let shared = bytes.clone();
    let server = Server::start(move |request| Reply::part(request, &shared, "\"one\""));
    let source =
        tiffjet::source::RemoteSource::open(&server.url("raw"), &quick(&[]).remote, &Limits::default()).unwrap();
    server.take_log();
    // One that is cut, one inside it, one that overlaps, an empty one, one that is here already, one at the end.
    let ranges: [std::ops::Range<u64>; 6] =
        [100_000..18_000_000, 500_000..600_000, 17_000_000..19_000_000, 5..5, 10..20, 19_999_990..20_000_000];
    let mut out: Vec<Vec<u8>> = ranges.iter().map(|r| vec![0; (r.end - r.start) as usize]).collect();
    let mut slices: Vec<&mut [u8]> = out.iter_mut().map(|o| &mut o[..]).collect();
    let mut landed = vec![0; ranges.len()];
    source.read(&ranges, &mut slices, &mut |i| landed[i] += 1).unwrap();
    assert_eq!(landed, [1; 6]);
    for (range, out) in ranges.iter().zip(&out) {
        assert!(out[..] == bytes[range.start as usize..range.end as usize], "{range:?}");
    }
    assert!(server.take_log().iter().all(|r| r.range().is_some_and(|(a, b)| b - a <= 8 << 20)));
    let past = 19_999_999..20_000_001;
    assert!(source.read_range(past, &mut [0; 2]).is_err());
}

#[test]
fn responses_in_chunks_are_read_too() {
    let file = cog(256, 1024, |_| ());
    let bytes = file.bytes.clone();
    let server = Server::start(move |request| Reply { chunked: true, ..Reply::part(request, &bytes, "\"one\"") });
    let image = open(&server.url("a.tif")).unwrap();
    assert_eq!(image.read(&Window::default()).unwrap().bytes().unwrap(), file.pixels);
}

#[test]
fn ranges_are_given_away_as_they_arrive_and_never_asked_for_again() {
    let bytes: Vec<u8> = (0..20_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let (file, uncut) = (bytes.clone(), AtomicBool::new(true));
    let server = Server::start(move |request| {
        let reply = Reply::part(request, &file, "\"one\"");
        // The first answer after that of the header ends in the middle of its second range.
        let cut = request.range().is_some_and(|(first, _)| first > 0) && uncut.swap(false, Ordering::Relaxed);
        if cut { reply.fate(Fate::Closed(150_000)) } else { reply }
    });
    let source = RemoteSource::open(&server.url("a.bin"), &quick(&[]).remote, &Limits::default()).unwrap();
    let take = |ranges: &[std::ops::Range<u64>]| {
        let mut landed = Vec::new();
        let mut memory = |i: usize| HostBuffer::take((ranges[i].end - ranges[i].start) as usize);
        source.deliver(ranges, &mut memory, &mut |i, memory| landed.push((i, memory))).unwrap();
        for (i, memory) in &landed {
            assert!(memory.host() == Some(&bytes[ranges[*i].start as usize..ranges[*i].end as usize]), "range {i}");
        }
        landed.into_iter().map(|(i, _)| i).collect::<Vec<_>>()
    };
    // One came with the header, the others with one request, which goes on where it was cut off.
    let first = 1_000_000;
    assert_eq!(take(&[first..first + 100_000, 10..20, first + 120_000..first + 400_000]), [1, 0, 2]);
    let asked: Vec<_> = server.take_log().iter().map(|request| request.range().unwrap()).collect();
    assert_eq!(asked[1..], [(1_000_000, 1_400_000), (1_150_000, 1_400_000)]);
    // More than one request may bring.
    assert_eq!(take(&[first..first + 10_000_000, 0..0]), [0, 1]);
    assert_eq!(server.take_log().len(), 2);
    // Without memory there is an end, and soon.
    let refused = source.deliver(&[first..first + 10, first..first], &mut |_| None, &mut |_, _| ());
    assert!(matches!(refused, Err(tiffjet::Error::Io { .. })), "{refused:?}");
    let refused = source.deliver(&[first..first + 10, 10..20], &mut |i| HostBuffer::take(i * 10), &mut |_, _| ());
    assert!(matches!(refused, Err(tiffjet::Error::Io { .. })), "{refused:?}");
    assert_eq!(server.take_log().len(), 1);
}

#[test]
fn requests_that_follow_the_first_find_connections_ready_and_spare_ones_are_closed() {
    let file = cog(256, 16384, |_| ());
    let server = serving(&file);
    let image = open(&server.url("a.tif")).unwrap();
    let until = |done: &dyn Fn() -> bool| {
        let end = Instant::now() + Duration::from_secs(20);
        while !done() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until(&|| server.connections() == 6);
    assert_eq!(server.connections(), 6);
    std::thread::sleep(Duration::from_millis(100)); // the client has them a moment later
    // Three requests, for as many rows of tiles, need no other.
    image.read(&window(10..190, 100..300)).unwrap();
    assert_eq!((server.take_log().len(), server.connections()), (4, 6));

    let server = serving(&file);
    open(&server.url("a.tif")).unwrap();
    until(&|| server.closed() == 5);
    assert_eq!((server.connections(), server.closed()), (6, 5));
}
