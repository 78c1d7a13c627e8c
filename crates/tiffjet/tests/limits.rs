//! What a reader does not do: invent pixels, take more than it may, mix two states of a file, or keep the place of an
//! error to itself.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions as FileOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tiffjet::source::MemorySource;
use tiffjet::{Error, Image, Limits, OpenOptions, Result, Window};
use tiffjet_testkit::{Compression, Pixels, Tiff, Value, naive, tag};

fn open(file: Vec<u8>, limits: Limits) -> Result<Image> {
    let options = OpenOptions { limits, ..OpenOptions::default() };
    Image::from_source(Arc::new(MemorySource::named("made.tif", file)), &options)
}

fn at_level(level: usize) -> Window {
    Window { level, ..Window::default() }
}

fn native(pixels: &Pixels) -> Vec<u8> {
    assert!(cfg!(target_endian = "little") || pixels.format.size() == 1);
    pixels.to_le_bytes()
}

/// Three levels: the full image, half and a quarter.
fn pyramid(compression: Compression) -> (Tiff, Vec<Pixels>) {
    let image = |width, height| Tiff::new(width, height).bits(16).tile(16, 16).compression(compression.clone());
    let (full, half, quarter) = (image(60, 44), image(30, 22).overview(), image(15, 11).overview());
    let pixels = vec![full.terrain(1), half.noise(2), quarter.terrain(3)];
    (full.directory(half, &pixels[1]).directory(quarter, &pixels[2]), pixels)
}

#[test]
fn a_file_cut_short_gives_right_pixels_or_none() {
    let compressions =
        [Compression::None, Compression::PackBits, Compression::Lzw, Compression::Deflate, Compression::Zstd];
    let arrangements = [
        ("as-is", (|t| t) as fn(Tiff) -> Tiff),
        ("directories-last", |t| t.directories_last().big_endian().big_tiff()),
        ("cog", |t| t.cog()),
        ("no-byte-counts", |t| t.without_byte_counts()),
    ];
    for compression in compressions {
        for (arrangement, arrange) in arrangements {
            let (image, levels) = pyramid(compression.clone());
            let file = arrange(image).build(&levels[0]);
            let expected: Vec<Vec<u8>> = levels.iter().map(native).collect();
            let edges = tile_edges(&file);
            // Headers byte by byte, then where tiles begin and end, and steps that are no multiple of anything.
            let chosen = |n: &usize| *n < 700 || n.is_multiple_of(13) || n + 20 > file.len() || edges.contains(n);
            for length in (0..file.len()).filter(chosen) {
                let place = format!("{compression:?}, {arrangement}, {length} of {} bytes", file.len());
                let Ok(image) = open(file[..length].to_vec(), Limits::default()) else { continue };
                check_levels(&image, &levels, &expected, &place);
            }
        }
    }
}

/// Offsets of the tiles of a file and of the bytes around their ends.
fn tile_edges(file: &[u8]) -> BTreeSet<usize> {
    let (_, directories) = naive::directories(file).unwrap();
    let mut edges = BTreeSet::new();
    for tags in directories.iter().map(|d| &d.tags) {
        let offsets = tags[&tag::TILE_OFFSETS].numbers().unwrap();
        let counts = tags.get(&tag::TILE_BYTE_COUNTS).map(|f| f.numbers().unwrap()).unwrap_or_default();
        for (tile, offset) in offsets.iter().enumerate() {
            let offset = *offset as usize;
            let end = offset + counts.get(tile).map_or(0, |count| *count as usize);
            edges.extend([offset, offset + 1, end - 1, end]);
        }
    }
    edges
}

/// Every level of a damaged file that can be read, whole or in part, is what was written.
fn check_levels(image: &Image, levels: &[Pixels], expected: &[Vec<u8>], place: &str) {
    for (number, level) in image.levels().iter().enumerate() {
        // Of a broken chain some levels are left; their sizes tell which.
        let known = levels.iter().position(|p| (p.width, p.height) == (level.layout.width, level.layout.height));
        let known = known.unwrap_or_else(|| panic!("{place}: level {number} has a size that was never written"));
        assert!(number > 0 || known == 0, "{place}: an overview became the image");
        if let Ok(tensor) = image.read(&at_level(number)) {
            assert!(tensor.bytes() == Some(&expected[known][..]), "{place}: wrong pixels at level {number}");
        }
        let row = level.layout.height / 2;
        let window = Window { rows: Some(row..row + 1), ..at_level(number) };
        if let Ok(tensor) = image.read(&window) {
            let bytes = levels[known].width as usize * 2;
            let part = &expected[known][row as usize * bytes..][..bytes];
            assert!(tensor.bytes() == Some(part), "{place}: wrong pixels in row {row} of level {number}");
        }
    }
}

/// A limit that is just met opens the file; one less refuses it and names both numbers.
fn assert_limited(file: &[u8], needed: u64, limits: impl Fn(u64) -> Limits) {
    let read = |allowed| open(file.to_vec(), limits(allowed))?.read(&Window::default());
    read(needed).unwrap_or_else(|error| panic!("{needed} is enough: {error}"));
    match read(needed - 1) {
        Err(Error::Limit { name, asked, allowed, .. }) => {
            assert_eq!((&*name, asked, allowed), ("made.tif", needed, needed - 1));
        }
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("{needed} bytes were taken where {} are allowed", needed - 1),
    }
}

#[test]
fn directories_are_limited() {
    let (image, pixels) = pyramid(Compression::None);
    let file = image.build(&pixels[0]);
    assert_limited(&file, 3, |n| Limits { directories: n as usize, ..Limits::default() });
}

#[test]
fn sub_directories_are_limited() {
    let child = Tiff::new(8, 8).overview();
    let pixels = child.gradient();
    let image = (0..5).fold(Tiff::new(32, 32), |image, _| image.sub_directory(child.clone(), &pixels));
    let file = image.build(&image.gradient());
    let levels =
        |directories| open(file.clone(), Limits { directories, ..Limits::default() }).map(|image| image.levels().len());
    assert_eq!(levels(6).unwrap(), 6);
    assert!(matches!(levels(5), Err(Error::Limit { asked: 6, allowed: 5, .. })), "{:?}", levels(5));
}

#[test]
fn tag_values_are_limited() {
    let image = Tiff::new(16, 16).samples(1000);
    let file = image.build(&image.gradient());
    assert_limited(&file, 2000, |n| Limits { value_bytes: n, ..Limits::default() });
}

#[test]
fn fields_of_a_directory_are_limited() {
    let image = Tiff::new(16, 16);
    let file = image.build(&image.gradient());
    let opened = |fields| open(file.clone(), Limits { fields, ..Limits::default() });
    assert!(opened(100).is_ok());
    assert!(matches!(opened(3), Err(Error::Limit { allowed: 3, .. })));
}

#[test]
fn levels_beyond_the_limit_are_passed_over() {
    let (image, pixels) = pyramid(Compression::None);
    let file = image.build(&pixels[0]);
    let image = open(file, Limits { levels: 1, ..Limits::default() }).unwrap();
    assert_eq!(image.levels().len(), 2);
    assert!(image.warnings().iter().any(|w| w.contains("passed over")), "{:?}", image.warnings());
}

#[test]
fn shared_chrominance_is_three_bands_of_eight_bits() {
    for (samples, bits) in [(1, 8), (4, 8), (3, 16), (3, 4)] {
        let image = Tiff::new(16, 16).samples(samples).bits(bits).tag(tag::PHOTOMETRIC, Value::Short(vec![6]));
        let file = image.build(&image.gradient());
        assert!(matches!(open(file, Limits::default()), Err(Error::Unsupported { .. })), "{samples} x {bits}");
    }
}

#[test]
fn tiles_are_limited() {
    let image = Tiff::new(40, 40).bits(12).samples(3).tile(32, 32).compression(Compression::Deflate);
    let file = image.build(&image.gradient());
    let needed = image.tile_bytes() as u64;
    assert_limited(&file, needed, |n| Limits { tile_bytes: n, ..Limits::default() });
}

#[test]
fn rows_of_uncompressed_tiles_are_limited() {
    let image = Tiff::new(1000, 8).bits(16).samples(2);
    let file = image.build(&image.gradient());
    assert_limited(&file, 4000, |n| Limits { tile_bytes: n, ..Limits::default() });
}

#[test]
fn output_is_limited() {
    let image = Tiff::new(50, 30).bits(12).samples(3);
    let file = image.build(&image.gradient());
    assert_limited(&file, 50 * 30 * 3 * 2, |n| Limits { output_bytes: n, ..Limits::default() });
    // A part of it may still be read.
    let image = open(file, Limits { output_bytes: 600, ..Limits::default() }).unwrap();
    let rows = |n| Window { rows: Some(0..n), ..Window::default() };
    assert_eq!(image.read(&rows(2)).unwrap().shape, [3, 2, 50]);
    assert!(matches!(image.read(&rows(3)), Err(Error::Limit { asked: 900, allowed: 600, .. })));
    let repeated = Window { bands: Some(vec![1; 8]), ..rows(1) };
    assert!(matches!(image.read(&repeated), Err(Error::Limit { asked: 800, allowed: 600, .. })));
}

/// Found by fuzzing: of an image without nodata no pixel is read, so nothing else asked how large its mask is.
#[test]
fn a_mask_is_limited() {
    let image = Tiff::new(16, 16).tag(tag::IMAGE_WIDTH, Value::Long(vec![2048]));
    let tall = Value::Long(vec![1 << 30]);
    let image = image.tag(tag::IMAGE_LENGTH, tall.clone()).tag(tag::ROWS_PER_STRIP, tall);
    let image = open(image.build(&Tiff::new(16, 16).gradient()), Limits { output_bytes: 5000, ..Limits::default() });
    let image = image.unwrap();
    let asked = 2048 << 30;
    match image.read_mask(&Window::default()) {
        Err(Error::Limit { asked: found, allowed: 5000, .. }) => assert_eq!(found, asked),
        other => panic!("{:?}", other.map(|mask| mask.shape)),
    }
    let two_rows = Window { rows: Some(0..2), ..Window::default() };
    assert!(image.read_mask(&two_rows).unwrap().bytes().unwrap().iter().all(|&valid| valid == 255));
}

#[test]
fn windows_outside_the_image_are_refused() {
    let (image, pixels) = pyramid(Compression::Lzw);
    let image = open(image.build(&pixels[0]), Limits::default()).unwrap();
    for window in [
        Window { rows: Some(44..45), ..at_level(0) },
        Window { rows: Some(0..45), ..at_level(0) },
        Window { cols: Some(60..61), ..at_level(0) },
        Window { cols: Some(0..u32::MAX), ..at_level(0) },
        Window { rows: Some(0..23), ..at_level(1) },
        Window { bands: Some(vec![0]), ..at_level(0) },
        Window { bands: Some(vec![2]), ..at_level(0) },
        at_level(3),
        at_level(usize::MAX),
    ] {
        let error = image.read(&window).expect_err("a window outside the image");
        assert!(matches!(error, Error::OutOfBounds { .. }), "{window:?}: {error}");
        assert_eq!(error.name(), "made.tif");
    }
    #[expect(clippy::reversed_empty_ranges)]
    let backwards = Window { rows: Some(5..3), ..at_level(0) };
    let empty = Window { cols: Some(5..5), ..at_level(0) };
    let no_band = Window { bands: Some(vec![]), ..at_level(0) };
    for window in [backwards, empty, no_band] {
        let error = image.read(&window).expect_err("an empty window");
        assert!(matches!(error, Error::InvalidArgument { .. }), "{window:?}: {error}");
    }
}

/// A file of a thousand tiles on disk: its tile arrays are not read when it is opened.
struct OnDisk {
    path: PathBuf,
    bytes: Vec<u8>,
    pixels: Pixels,
    _folder: tempfile::TempDir,
}

impl OnDisk {
    fn new(compression: Compression) -> Self {
        let image = Tiff::new(512, 512).tile(8, 8).compression(compression);
        let pixels = image.noise(1);
        let bytes = image.build(&pixels);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("open.tif");
        fs::write(&path, &bytes).unwrap();
        // Some time ago, so that a change at any moment shows.
        Self::date(&path, SystemTime::now() - Duration::from_secs(60));
        Self { path, bytes, pixels, _folder: folder }
    }

    fn date(path: &PathBuf, time: SystemTime) {
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    fn open(&self) -> Image {
        tiffjet::open(&self.path).unwrap()
    }

    fn assert_changed(&self, image: &Image, how: &str) {
        match image.read(&Window::default()) {
            Err(Error::Changed { name }) => assert_eq!(*name, *self.path.to_string_lossy()),
            Err(other) => panic!("{how}: another error: {other}"),
            Ok(_) => panic!("{how}: the change was not seen"),
        }
    }
}

#[test]
fn a_file_that_changes_while_open_is_an_error() {
    for compression in [Compression::None, Compression::Deflate] {
        let file = OnDisk::new(compression.clone());
        let options = || FileOptions::new().write(true).open(&file.path).unwrap();
        let changes: [(&str, &dyn Fn()); 5] = [
            ("longer", &|| {
                FileOptions::new().append(true).open(&file.path).unwrap().write_all(b"more").unwrap();
            }),
            ("shorter", &|| options().set_len(file.bytes.len() as u64 / 2).unwrap()),
            ("emptied", &|| options().set_len(0).unwrap()),
            ("other pixels", &|| {
                let last = file.bytes.len() as u64 - 1;
                options().write_all_at(&[!file.bytes[last as usize]], last).unwrap();
            }),
            ("other bytes all over", &|| {
                options().write_all_at(&vec![0xa5; file.bytes.len()], 0).unwrap();
            }),
        ];
        for (how, change) in changes {
            fs::write(&file.path, &file.bytes).unwrap();
            OnDisk::date(&file.path, SystemTime::now() - Duration::from_secs(60));
            let (fresh, used) = (file.open(), file.open());
            let tensor = used.read(&Window::default()).unwrap();
            assert!(tensor.bytes() == Some(&native(&file.pixels)[..]));
            change();
            // Whether the tile arrays are known already or must be read from the changed file.
            file.assert_changed(&used, &format!("{how}, {compression:?}, read before"));
            file.assert_changed(&fresh, &format!("{how}, {compression:?}, not read before"));
        }
    }
}

#[test]
fn a_file_that_is_replaced_while_open_is_still_the_old_one() {
    let file = OnDisk::new(Compression::Lzw);
    let image = file.open();
    let other = file.path.with_extension("new");
    fs::write(&other, b"not a TIFF").unwrap();
    fs::rename(&other, &file.path).unwrap();
    assert!(image.read(&Window::default()).unwrap().bytes() == Some(&native(&file.pixels)[..]));
    assert!(tiffjet::open(&file.path).is_err());
}

/// Checks that an error names its place, as fields and in words.
fn assert_names_tile(error: &Error, place: (usize, u32, u32), codec_name: &str) {
    let Error::Tile { name, level, row, col, codec, .. } = error else { panic!("not of a tile: {error}") };
    assert_eq!((&**name, (*level, *row, *col), *codec), ("made.tif", place, codec_name));
    let text = error.to_string();
    let words = format!("made.tif: level {}, tile row {}, column {}, {codec_name}: ", place.0, place.1, place.2);
    assert!(text.starts_with(&words) && text.len() > words.len(), "{text}");
}

#[test]
fn errors_name_the_tile() {
    for (compression, codec) in [
        (Compression::PackBits, "packbits"),
        (Compression::Lzw, "lzw"),
        (Compression::Deflate, "deflate"),
        (Compression::Zstd, "zstd"),
    ] {
        let full = Tiff::new(100, 80).tile(16, 16);
        // Tile 7 of the overview, row 1 and column 3 of 4 across, is half as long as it should be.
        let half = Tiff::new(64, 48).tile(16, 16).compression(compression).overview();
        let pixels = half.noise(1);
        let counts = vec![1000, 1000, 1000, 1000, 1000, 1000, 1000, 8, 1000, 1000, 1000, 1000];
        let half = half.tag(tag::TILE_BYTE_COUNTS, Value::Long(counts));
        let image = open(full.clone().directory(half, &pixels).build(&full.gradient()), Limits::default()).unwrap();
        let error = image.read(&at_level(1)).expect_err("a damaged tile");
        assert_names_tile(&error, (1, 1, 3), codec);
        // What is beside it can be read.
        let beside = Window { cols: Some(0..48), ..at_level(1) };
        let expected = Pixels::from_fn((48, 48, 1), pixels.format, |band, y, x| pixels.get(band, y, x));
        assert!(image.read(&beside).unwrap().bytes() == Some(&native(&expected)[..]));
        image.read(&at_level(0)).unwrap();
    }
}

#[test]
fn tiles_outside_the_file_are_named_too() {
    for (compression, codec) in [(Compression::None, "none"), (Compression::Deflate, "deflate")] {
        let image = Tiff::new(64, 48).tile(16, 16).compression(compression);
        let mut offsets = vec![8; 12];
        offsets[6] = 0x7fff_ff00;
        let file = image.clone().tag(tag::TILE_OFFSETS, Value::Long(offsets)).build(&image.gradient());
        let first_rows = Window { rows: Some(16..17), cols: Some(32..40), ..Window::default() };
        let error = open(file, Limits::default()).unwrap().read(&first_rows).expect_err("a tile past the end");
        assert_names_tile(&error, (0, 1, 2), codec);
    }
}

/// The ends of strips without byte counts are found without comparing all with all.
#[test]
fn a_hundred_thousand_strips_without_byte_counts_are_read_at_once() {
    let image = Tiff::new(3, 100_000).strips(1).compression(Compression::PackBits).without_byte_counts();
    let pixels = image.noise(1);
    let begun = Instant::now();
    let tensor = open(image.build(&pixels), Limits::default()).unwrap().read(&Window::default()).unwrap();
    assert!(tensor.bytes() == Some(&native(&pixels)[..]));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn a_mask_that_is_not_stored_covers_all() {
    let mask = Tiff::new(32, 32).bits(1).tile(16, 16).mask().sparse([1]);
    let valid = Pixels::from_fn(mask.shape(), mask.format(), |_, y, x| u128::from(y >= 16 || x < 16));
    let image = Tiff::new(32, 32).tile(16, 16).nodata("255").directory(mask, &valid);
    let image = open(image.build(&image.gradient()), Limits::default()).unwrap();
    let expected: Vec<u8> = valid.values.iter().map(|v| *v as u8 * 255).collect();
    assert!(image.read_mask(&Window::default()).unwrap().bytes() == Some(&expected[..]));
}
