//! What the writer writes is what the reader reads, and the same bytes however the rows came.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use tiffjet::backend::{EncodeJob, ReadJob, ReadOptions};
use tiffjet::sink::{FileSink, MemorySink, Patches, Sink, StreamSink};
use tiffjet::source::MemorySource;
use tiffjet::tiff::{Directory, Field, FieldType, Head, Header, tag};
use tiffjet::{
    Backend, BigTiff, Blocks, Cpu, DType, EncodedRows, Error, Fallback, Image, Layout, Limits, Nodata, OpenOptions,
    Overviews, Prediction, ReadPlan, Resampling, Result, RowsView, SampleKind, Window, WriteOptions, Writer,
};

/// xorshift64: the tests need no better chance than this.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Pixels that compress a little and are different everywhere, within some number of bits.
fn pixels(shape: [usize; 3], dtype: DType, bits: u16) -> Vec<u8> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (shape[2] as u64) << 8 ^ u64::from(bits));
    let count: usize = shape.iter().product();
    let mut out = Vec::with_capacity(count * dtype.size());
    for i in 0..count {
        let noise = random.next();
        let value = if noise.is_multiple_of(3) { noise >> 20 } else { (i / 5) as u64 };
        if dtype.kind() == SampleKind::Unsigned && bits < 64 {
            out.extend_from_slice(&(value & ((1 << bits) - 1)).to_le_bytes()[..dtype.size()]);
        } else {
            out.extend_from_slice(&(u128::from(value) << 64 | u128::from(noise)).to_le_bytes()[..dtype.size()]);
        }
    }
    out
}

/// An image to write.
#[derive(Clone)]
struct Case {
    options: WriteOptions,
    pixels: Vec<u8>,
    mask: Option<Vec<u8>>,
}

impl Case {
    fn new(shape: [usize; 3], dtype: DType, change: impl FnOnce(&mut WriteOptions)) -> Self {
        let mut options = WriteOptions::new(shape, dtype);
        options.blocks = Blocks::Tiles { width: 32, height: 16 };
        options.resampling = Some(Resampling::Nearest); // which is easily told from the pixels above
        change(&mut options);
        let bits = options.bits.unwrap_or(dtype.size() as u16 * 8);
        let [_, height, width] = shape;
        let mask = options.mask.then(|| (0..height * width).map(|i| u8::from(i % 7 < 4) * 255).collect());
        Self { pixels: pixels(shape, dtype, bits), mask, options }
    }

    /// Rows from `first` on, all bands.
    fn rows(&self, rows: Range<usize>) -> RowsView<'_> {
        let [bands, height, width] = self.options.shape;
        let row = width * self.options.dtype.size();
        let shape = [bands, rows.len(), width];
        let view = RowsView::strided(&self.pixels[rows.start * row..], shape, self.options.dtype, height * row);
        let view = view.unwrap();
        match &self.mask {
            Some(mask) => view.with_mask(&mask[rows.start * width..rows.end * width]).unwrap(),
            None => view,
        }
    }

    fn push(&self, writer: &mut Writer, pieces: &[usize]) -> Result<()> {
        let height = self.options.shape[1];
        let mut y = 0;
        for piece in pieces.iter().cycle() {
            if y == height {
                break;
            }
            let end = (y + piece).min(height);
            writer.push(&self.rows(y..end))?;
            y = end;
        }
        Ok(())
    }

    /// The file when rows come in pieces of these sizes, again and again.
    fn write(&self, pieces: &[usize]) -> Vec<u8> {
        self.write_on(&Cpu::shared().unwrap(), pieces)
    }

    fn write_on(&self, cpu: &Cpu, pieces: &[usize]) -> Vec<u8> {
        let sink = MemorySink::new();
        let mut writer = Writer::create_on(Arc::new(cpu.clone()), Box::new(sink.clone()), &self.options).unwrap();
        self.push(&mut writer, pieces).unwrap();
        let written = writer.finish().unwrap();
        let bytes = sink.take().unwrap();
        assert_eq!(written.bytes, bytes.len() as u64);
        bytes
    }

    /// Writes, reads back all levels and masks, and compares.
    fn check(&self) -> Vec<u8> {
        let bytes = self.write(&[usize::MAX / 2]);
        let images = read(&bytes);
        let sizes: Vec<(usize, usize)> =
            images.iter().filter(|i| !i.is_mask).map(|i| (i.layout.width as usize, i.layout.height as usize)).collect();
        let [bands, height, width] = self.options.shape;
        let size = self.options.dtype.size();
        for image in images {
            let (w, h) = (image.layout.width as usize, image.layout.height as usize);
            let (source, count, size) = match (image.is_mask, &self.mask) {
                (true, Some(mask)) => (mask, 1, 1),
                (true, None) => panic!("a mask that nobody gave"),
                (false, _) => (&self.pixels, bands, size),
            };
            let mut expected = reduced(source, [count, height, width], size, &sizes, (w, h));
            if image.is_mask {
                expected.iter_mut().for_each(|v| *v = u8::from(*v != 0));
            }
            assert_eq!(image.pixels.len(), expected.len());
            assert!(image.pixels == expected, "level {w} x {h}, mask {}", image.is_mask);
        }
        bytes
    }
}

/// The pixels of a level, each made from the level above it.
fn reduced(source: &[u8], shape: [usize; 3], size: usize, sizes: &[(usize, usize)], to: (usize, usize)) -> Vec<u8> {
    let [bands, mut height, mut width] = shape;
    let mut pixels = source.to_vec();
    for &(w, h) in sizes[1..].iter().take_while(|&&(w, h)| w >= to.0 && h >= to.1) {
        let pick = |i: usize, from: usize, to: usize| (0.5 + i as f64 * (from as f64 / to as f64)) as usize;
        let mut out = Vec::new();
        for band in 0..bands {
            for y in 0..h {
                for x in 0..w {
                    let row = band * height + pick(y, height, h).min(height - 1);
                    let at = row * width + pick(x, width, w).min(width - 1);
                    out.extend_from_slice(&pixels[at * size..][..size]);
                }
            }
        }
        (pixels, width, height) = (out, w, h);
    }
    pixels
}

struct Read {
    layout: Arc<Layout>,
    is_mask: bool,
    pixels: Vec<u8>,
    absent: usize,
}

/// All images of a file.
fn read(bytes: &[u8]) -> Vec<Read> {
    let source = Arc::new(MemorySource::new(bytes.to_vec()));
    let head = Head::new(source.clone(), Limits::default()).unwrap();
    let header = Header::read(&head).unwrap();
    let cpu = Cpu::shared().unwrap();
    let mut images = Vec::new();
    let mut offset = header.first;
    while offset != 0 {
        let directory = Directory::read(&head, &header, offset).unwrap();
        let layout = Arc::new(Layout::new(&head, &header, &directory).unwrap());
        let kind = directory.number(&head, tag::NEW_SUBFILE_TYPE).unwrap().unwrap_or(0);
        let fill = vec![0; layout.dtype().size()];
        let locate = |tile| layout.index.locate(&head, &layout, 0, tile);
        let plan = ReadPlan::new(head.name(), &layout, &Window::default(), fill, locate).unwrap();
        let tensor = cpu.read(&[ReadJob { source: &*source, plan: &plan }], &ReadOptions::default()).unwrap().only();
        let (pixels, absent) = (tensor.bytes().unwrap().to_vec(), tensor.report.sparse);
        images.push(Read { layout, is_mask: kind & 4 != 0, pixels, absent });
        offset = directory.next;
    }
    images
}

const CODECS: [&str; 6] = ["none", "packbits", "lzw", "deflate", "zstd", "lzma"];

#[test]
fn every_type_comes_back() {
    for dtype in DType::ALL {
        for codec in CODECS {
            for predictor in [Prediction::Auto, Prediction::None] {
                for (bands, planar) in [(1, false), (3, false), (3, true)] {
                    let case = Case::new([bands, 37, 71], dtype, |o| {
                        o.compression = codec.into();
                        o.predictor = predictor;
                        o.planar = planar;
                    });
                    case.check();
                }
            }
        }
    }
}

#[test]
fn horizontal_differences_come_back_for_floats_too() {
    for dtype in [DType::Float16, DType::Float32, DType::Float64, DType::Int64, DType::UInt32] {
        for bands in [1, 2, 5] {
            Case::new([bands, 20, 45], dtype, |o| o.predictor = Prediction::Horizontal).check();
        }
    }
}

#[test]
fn any_number_of_bits_comes_back() {
    for (dtype, range) in
        [(DType::UInt8, 1..8), (DType::UInt16, 9..16), (DType::UInt32, 17..32), (DType::UInt64, 33..63)]
    {
        for bits in range {
            for bands in [1, 3] {
                Case::new([bands, 18, 35], dtype, |o| o.bits = Some(bits)).check();
            }
        }
    }
}

#[test]
fn every_layout_comes_back() {
    let strips = |rows| Blocks::Strips { rows };
    let tiles = |width, height| Blocks::Tiles { width, height };
    for shape in [[1, 1, 1], [1, 100, 7], [3, 16, 32], [4, 33, 65], [2, 130, 129]] {
        for blocks in [strips(None), strips(Some(1)), strips(Some(7)), tiles(16, 16), tiles(48, 16), tiles(256, 256)] {
            for planar in [false, true] {
                for big in [BigTiff::No, BigTiff::Yes] {
                    for overviews in [Overviews::None, Overviews::Factors(vec![2, 4])] {
                        let case = Case::new(shape, DType::Int16, |o| {
                            o.blocks = blocks;
                            o.planar = planar;
                            o.big = big;
                            o.overviews = overviews.clone();
                            o.mask = shape[0] != 2;
                        });
                        let bytes = case.check();
                        assert_eq!(bytes[2], if big == BigTiff::Yes { 43 } else { 42 });
                    }
                }
            }
        }
    }
}

/// Offsets and sizes of all tiles of a file, in the order of its directories.
fn tiles(bytes: &[u8]) -> Vec<Vec<(u64, u64)>> {
    let head = Head::new(Arc::new(MemorySource::new(bytes.to_vec())), Limits::default()).unwrap();
    let header = Header::read(&head).unwrap();
    let mut all = Vec::new();
    let mut offset = header.first;
    while offset != 0 {
        let directory = Directory::read(&head, &header, offset).unwrap();
        let offsets = directory.numbers(&head, tag::TILE_OFFSETS).unwrap().unwrap();
        let counts = directory.numbers(&head, tag::TILE_BYTE_COUNTS).unwrap().unwrap();
        all.push(offsets.into_iter().zip(counts).collect());
        offset = directory.next;
    }
    all
}

#[test]
fn cogs_come_back_in_the_order_they_promise() {
    for (bands, planar, mask) in [(1, false, false), (3, false, true), (3, true, false), (2, true, true)] {
        for big in [BigTiff::Auto, BigTiff::Yes] {
            let case = Case::new([bands, 150, 99], DType::UInt16, |o| {
                o.cog = true;
                o.planar = planar;
                o.mask = mask;
                o.big = big;
            });
            let bytes = case.check();
            let ghost = if big == BigTiff::Yes { 16 } else { 8 };
            assert!(bytes[ghost..].starts_with(b"GDAL_STRUCTURAL_METADATA_SIZE=000"));
            // Sizes and last bytes stand around each tile, and nothing between.
            let mut all: Vec<(u64, u64)> = tiles(&bytes).concat();
            all.sort_unstable();
            let mut end = all[0].0 - 4;
            for &(offset, count) in &all {
                assert_eq!(offset, end + 4);
                let (at, len) = (offset as usize, count as usize);
                assert_eq!(bytes[at - 4..at], (count as u32).to_le_bytes());
                assert_eq!(bytes[at + len - 4..at + len], bytes[at + len..at + len + 4]);
                end = offset + count + 4;
            }
            assert_eq!(end, bytes.len() as u64);
            // Smaller levels first; a mask that follows stands behind its tile.
            let images = tiles(&bytes);
            let overviews = (images.len() / if mask { 2 } else { 1 }) - 1;
            let first_overview = if mask { 2 } else { 1 };
            let starts: Vec<u64> = (first_overview..first_overview + overviews).map(|i| images[i][0].0).collect();
            assert!(overviews == 4 && starts.is_sorted_by(|a, b| a > b) && images[0][0].0 > starts[0]);
            for image in &images {
                assert!(image.is_sorted());
            }
            if mask && !planar {
                assert!(images[0].iter().zip(&images[1]).all(|(i, m)| m.0 == i.0 + i.1 + 8));
            }
        }
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for codec in ["none", "lzw", "deflate", "zstd"] {
        for (cog, planar, mask) in
            [(true, false, true), (true, true, false), (false, false, false), (false, true, true)]
        {
            cases.push(Case::new([3, 151, 83], DType::Float32, |o| {
                o.compression = codec.into();
                o.cog = cog;
                o.planar = planar;
                o.mask = mask;
            }));
        }
    }
    cases.push(Case::new([2, 151, 83], DType::UInt8, |o| {
        o.blocks = Blocks::Strips { rows: Some(5) };
        o.overviews = Overviews::Factors(vec![2, 4]);
        o.sparse = true;
    }));
    cases
}

#[test]
fn bytes_do_not_depend_on_how_rows_come() {
    let (one, many) = (Cpu::new(1).unwrap(), Cpu::new(5).unwrap());
    for case in cases() {
        let whole = case.write(&[151]);
        for pieces in [&[1][..], &[16], &[7, 40, 1, 3], &[150, 1]] {
            assert!(case.write(pieces) == whole, "{:?}: {pieces:?}", case.options);
        }
        assert!(case.write_on(&one, &[151]) == whole);
        assert!(case.write_on(&many, &[13]) == whole);
        // As little memory as there can be: batches of one tile row, and a spool in a file.
        let mut poor = case.clone();
        poor.options.memory = Some(0);
        assert!(poor.write(&[29]) == whole);
    }
}

#[test]
fn bytes_do_not_depend_on_the_sink() {
    let dir = tempfile::tempdir().unwrap();
    for (i, case) in cases().iter().enumerate() {
        let whole = case.write(&[151]);
        let path = dir.path().join(format!("{i}.tif"));
        let mut writer = Writer::create(FileSink::create(&path).unwrap(), &case.options).unwrap();
        case.push(&mut writer, &[10]).unwrap();
        writer.finish().unwrap();
        assert!(std::fs::read(&path).unwrap() == whole);
        let (mut reader, pipe) = std::io::pipe().unwrap();
        let mut writer = Writer::create(StreamSink::new("pipe", pipe), &case.options).unwrap();
        case.push(&mut writer, &[10]).unwrap();
        let received = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut reader, &mut bytes).map(|_| bytes)
        });
        writer.finish().unwrap();
        assert!(received.join().unwrap().unwrap() == whole);
    }
}

/// All tile rows of a case, as another machine would encode them.
fn encoded(case: &Case) -> Vec<EncodedRows<'static>> {
    let cpu = Cpu::shared().unwrap();
    let sink = MemorySink::new();
    let writer = Writer::create(sink, &case.options).unwrap();
    let plan = writer.plan();
    let [bands, height, width] = case.options.shape;
    let size = case.options.dtype.size();
    let name: Arc<str> = "elsewhere".into();
    let sizes: Vec<(usize, usize)> = plan.levels.iter().map(|l| (l.width as usize, l.height as usize)).collect();
    let mut all = Vec::new();
    for image in plan.levels.iter().chain(&plan.masks) {
        let to = (image.width as usize, image.height as usize);
        let (pixels, count) = match image.mask {
            true => (reduced(case.mask.as_ref().unwrap(), [1, height, width], 1, &sizes, to), 1),
            false => (reduced(&case.pixels, [bands, height, width], size, &sizes, to), bands),
        };
        let view = RowsView::new(&pixels, [count, to.1, to.0], image.format.dtype).unwrap();
        for row in 0..image.down {
            let tile = image.format.height as usize;
            let first = row as usize * tile;
            let rows = view.part(first, tile.min(to.1 - first));
            let fallback = Fallback::Allow;
            let job = EncodeJob { name: &name, rows: (&rows).into(), plan: image, first: row, fallback };
            let mut keep = |rows: EncodedRows<'_>| {
                all.push(rows.into_owned());
                Ok(())
            };
            cpu.encode(&job, &mut keep).unwrap();
        }
    }
    all
}

#[test]
fn tiles_encoded_elsewhere_in_any_order_give_the_same_bytes() {
    for case in cases() {
        let whole = case.write(&[151]);
        let mut rows = encoded(&case);
        let mut random = Random(7);
        for _ in 0..2 {
            let sink = MemorySink::new();
            let mut writer = Writer::create(sink.clone(), &case.options).unwrap();
            rows.iter().for_each(|rows| writer.append(rows).unwrap());
            writer.finish().unwrap();
            assert!(sink.take().unwrap() == whole);
            rows.sort_by_cached_key(|_| random.next());
        }
    }
}

#[test]
fn tiles_that_do_not_belong_are_refused() {
    let case = Case::new([1, 40, 40], DType::UInt8, |_| ());
    let good = encoded(&case);
    let refused = |change: &dyn Fn(&mut EncodedRows<'static>)| {
        let mut writer = Writer::create(MemorySink::new(), &case.options).unwrap();
        writer.append(&good[0]).unwrap();
        let mut rows = good[1].clone();
        change(&mut rows);
        let error = writer.append(&rows).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
        assert!(writer.finish().is_err());
    };
    refused(&|rows| rows.level = 1);
    refused(&|rows| rows.mask = true);
    refused(&|rows| rows.plane = 1);
    refused(&|rows| rows.row = 3);
    refused(&|rows| rows.row = 0);
    refused(&|rows| rows.tiles.clear());
    refused(&|rows| rows.col = 1);
    refused(&|rows| rows.col = u32::MAX);
    refused(&|rows| rows.tiles[0] = Cow::Borrowed(&[]));
    let mut writer = Writer::create(MemorySink::new(), &case.options).unwrap();
    good[1..].iter().for_each(|rows| writer.append(rows).unwrap());
    assert!(writer.finish().unwrap_err().to_string().contains("tile 0 of 6 never came"));
}

#[test]
fn sparse_files_leave_out_what_holds_nothing() {
    for cog in [false, true] {
        let mut case = Case::new([2, 70, 70], DType::Int16, |o| {
            o.sparse = true;
            o.cog = cog;
            o.mask = true;
        });
        case.pixels.iter_mut().for_each(|b| *b = 0);
        case.pixels[2 * (70 * 33 + 40)] = 9;
        case.mask.as_mut().unwrap().fill(0);
        let bytes = case.check();
        let images = read(&bytes);
        assert_eq!(images[0].absent, 14, "all tiles but one");
        assert!(images[1].absent == 15 && images[1].is_mask);
        let sparse = tiles(&bytes);
        assert!(sparse.concat().iter().all(|(offset, count)| (*offset == 0) == (*count == 0)));
    }
}

#[test]
fn nan_becomes_nodata_in_the_file_alone() {
    let value = -9984f64; // half precision holds it
    for (dtype, nan, nodata) in [
        (DType::Float16, 0xfe01u16.to_ne_bytes().to_vec(), 0xf0e0u16.to_ne_bytes().to_vec()),
        (DType::Float32, f32::NAN.to_ne_bytes().to_vec(), (value as f32).to_ne_bytes().to_vec()),
        (DType::Float64, f64::NAN.to_ne_bytes().to_vec(), value.to_ne_bytes().to_vec()),
    ] {
        let mut case = Case::new([2, 40, 40], dtype, |o| {
            o.nodata = Some(Nodata::Float(value));
            o.nan_to_nodata = true;
        });
        let size = dtype.size();
        for (i, v) in case.pixels.chunks_exact_mut(size).enumerate() {
            if i % 3 == 0 {
                v.copy_from_slice(&nan);
            } else {
                v.fill(0x11);
            }
        }
        let before = case.pixels.clone();
        let bytes = case.write(&[7]);
        assert!(case.pixels == before);
        assert!(case.write(&[40]) == bytes);
        let image = &read(&bytes)[0];
        for (i, (got, given)) in image.pixels.chunks_exact(size).zip(before.chunks_exact(size)).enumerate() {
            assert_eq!(got, if i % 3 == 0 { &nodata } else { given });
        }
    }
}

#[test]
fn other_fields_are_carried() {
    let case = Case::new([1, 40, 40], DType::UInt8, |o| {
        o.geo.pixel_scale = vec![10.0, 10.0, 0.0];
        o.geo.tiepoints = vec![0.0, 0.0, 0.0, 5e5, 4e6, 0.0];
        o.geo.key_directory = vec![1, 1, 0, 1, 1024, 0, 1, 1];
        o.geo.ascii_params = b"WGS 84|".to_vec();
        o.geo.gdal_metadata = Some("<GDALMetadata/>".into());
        o.nodata = Some(Nodata::Float(7.0));
        o.colour_map = Some((0..768).collect());
        o.tags = vec![
            Field::text(tag::SOFTWARE, "tester"),
            Field::new(tag::XMP, FieldType::Byte, b"<x/>".to_vec()),
            Field::new(tag::ICC_PROFILE, FieldType::Undefined, vec![1; 131]),
        ];
        o.overviews = Overviews::Factors(vec![2]);
    });
    let source = Arc::new(MemorySource::new(case.check()));
    let image = Image::from_source(source, &OpenOptions::default()).unwrap();
    let text = |tag| image.tag(tag).unwrap().unwrap().text();
    assert_eq!(text(tag::SOFTWARE), "tester");
    assert_eq!(text(tag::GDAL_NODATA), "7");
    assert_eq!(text(tag::GDAL_METADATA), "<GDALMetadata/>");
    assert_eq!(text(tag::GEO_ASCII_PARAMS), "WGS 84|");
    assert_eq!(image.tag(tag::ICC_PROFILE).unwrap().unwrap().bytes, [1; 131]);
    assert_eq!(image.tag(tag::COLOR_MAP).unwrap().unwrap().unsigned().unwrap().len(), 768);
    assert_eq!(image.levels()[0].layout.format.photometric, 3);
    assert_eq!(image.levels()[1].layout.format.photometric, 3);
    assert_eq!(image.tag(tag::MODEL_PIXEL_SCALE).unwrap().unwrap().floats(), [10.0, 10.0, 0.0]);
}

#[test]
fn rows_that_do_not_belong_are_refused() {
    let case = Case::new([1, 40, 40], DType::UInt8, |_| ());
    let wide = vec![0; 41];
    let mut writer = Writer::create(MemorySink::new(), &case.options).unwrap();
    assert!(writer.push(&RowsView::new(&wide, [1, 1, 41], DType::UInt8).unwrap()).is_err());
    assert!(writer.push(&RowsView::new(&wide[..40], [1, 1, 40], DType::Int8).unwrap()).is_err());
    let masked = RowsView::new(&wide[..40], [1, 1, 40], DType::UInt8).unwrap().with_mask(&wide[..40]).unwrap();
    assert!(writer.push(&masked).is_err());
    writer.push(&case.rows(0..39)).unwrap();
    assert!(writer.push(&case.rows(38..40)).is_err());
    // Nothing of it was taken: the writer goes on.
    writer.push(&case.rows(39..40)).unwrap();
    writer.finish().unwrap();
    let mut short = Writer::create(MemorySink::new(), &case.options).unwrap();
    short.push(&case.rows(0..39)).unwrap();
    assert!(short.finish().unwrap_err().to_string().contains("39 of 40 rows"));
}

/// Counts bytes and forgets them.
struct Nowhere {
    name: Arc<str>,
}

impl Sink for Nowhere {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn write(&mut self, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }

    fn patches(&self) -> Patches {
        Patches::Anywhere
    }

    fn patch(&mut self, _at: u64, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Writes an image of 70 000 columns and as many rows with tiles of these sizes in the first row and none elsewhere.
fn write_huge(cog: bool, big: BigTiff, first_row: &[usize]) -> Result<tiffjet::Written> {
    let mut options = WriteOptions::new([1, 70_000, 70_000], DType::UInt8);
    options.blocks = Blocks::Tiles { width: 1024, height: 1024 };
    options.sparse = true;
    options.cog = cog;
    options.overviews = Overviews::None;
    options.big = big;
    let mut writer = Writer::create(Nowhere { name: "nowhere".into() }, &options)?;
    for row in 0..writer.plan().levels[0].down {
        let mut tiles = vec![Cow::Borrowed(&[][..]); 69];
        if row == 0 {
            tiles.iter_mut().zip(first_row).for_each(|(tile, &length)| *tile = vec![0; length].into());
        }
        writer.append(&EncodedRows { level: 0, mask: false, plane: 0, row, col: 0, tiles })?;
    }
    writer.finish()
}

#[test]
fn files_that_could_pass_4_gib_are_big_and_no_other_passes() {
    const GIB: usize = 1 << 30;
    assert!(write_huge(false, BigTiff::Auto, &[]).unwrap().big);
    // What a COG holds is known when it is laid out.
    assert!(!write_huge(true, BigTiff::Auto, &[100]).unwrap().big);
    assert!(write_huge(true, BigTiff::Yes, &[100]).unwrap().big);
    assert!(!write_huge(false, BigTiff::No, &[GIB, GIB, GIB, GIB - 200_000]).unwrap().big);
    let error = write_huge(false, BigTiff::No, &[GIB, GIB, GIB, GIB]).unwrap_err();
    assert!(matches!(error, Error::Limit { .. }), "{error}");
    let written = write_huge(false, BigTiff::Auto, &[GIB; 5]).unwrap();
    assert!(written.bytes > 5 * GIB as u64 && written.absent == 69 * 69 - 5);
}

/// A file that fails after some bytes, in the middle of a write.
struct Faulty {
    inner: FileSink,
    left: usize,
    error: i32,
}

impl Faulty {
    fn spend(&mut self, bytes: &[u8]) -> Result<usize> {
        let fits = bytes.len().min(self.left);
        self.left -= fits;
        Ok(fits)
    }

    fn fault(&self) -> Error {
        Error::io(self.inner.name(), std::io::Error::from_raw_os_error(self.error))
    }
}

impl Sink for Faulty {
    fn name(&self) -> &Arc<str> {
        self.inner.name()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let fits = self.spend(bytes)?;
        self.inner.write(&bytes[..fits])?;
        if fits < bytes.len() { Err(self.fault()) } else { Ok(()) }
    }

    fn patches(&self) -> Patches {
        self.inner.patches()
    }

    fn patch(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let fits = self.spend(bytes)?;
        self.inner.patch(at, &bytes[..fits])?;
        if fits < bytes.len() { Err(self.fault()) } else { Ok(()) }
    }

    fn commit(self: Box<Self>) -> Result<()> {
        if self.left == 0 { Err(self.fault()) } else { Box::new(self.inner).commit() }
    }
}

#[test]
fn a_write_that_fails_leaves_the_old_file_alone() {
    const EIO: i32 = 5;
    const ENOSPC: i32 = 28;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tif");
    let names = || std::fs::read_dir(dir.path()).unwrap().count();
    for cog in [false, true] {
        let case = Case::new([1, 100, 90], DType::UInt8, |o| o.cog = cog);
        let whole = case.write(&[100]);
        std::fs::write(&path, "old").unwrap();
        // Every byte once in the plain file, the directories among them twice: zeros first.
        let end = whole.len() * 2 + 10;
        let mut failed = 0;
        for left in (0..end).step_by(61) {
            let error = if left % 2 == 0 { EIO } else { ENOSPC };
            let sink = Faulty { inner: FileSink::create(&path).unwrap(), left, error };
            let result = Writer::create(sink, &case.options).and_then(|mut writer| {
                case.push(&mut writer, &[9])?;
                writer.finish()
            });
            match result {
                Err(Error::Io { source, .. }) => {
                    assert_eq!(source.raw_os_error(), Some(error));
                    assert_eq!(std::fs::read(&path).unwrap(), b"old");
                    failed += 1;
                }
                Err(other) => panic!("{other}"),
                Ok(_) => {
                    assert!(std::fs::read(&path).unwrap() == whole);
                    std::fs::write(&path, "old").unwrap();
                }
            }
            assert_eq!(names(), 1, "no other file is left");
        }
        assert!(failed > 20 && failed < end.div_ceil(61));
    }
}

#[test]
fn a_full_device_is_an_error() {
    let case = Case::new([1, 100, 90], DType::UInt8, |o| o.cog = true);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut writer = Writer::create(StreamSink::new("/dev/full", full), &case.options).unwrap();
    case.push(&mut writer, &[100]).unwrap();
    assert!(matches!(writer.finish(), Err(Error::Io { .. })));
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let case = Case::new([1, 100, 90], DType::UInt8, |o| {
        o.cog = true;
        o.memory = Some(0);
    });
    let mut writer = Writer::create(FileSink::create(dir.path().join("a.tif")).unwrap(), &case.options).unwrap();
    case.push(&mut writer, &[100]).unwrap();
    drop(writer);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// What the child of the next test does: begins to write and stands still at a chosen call.
const STILL_AT: &str = "TIFFJET_TEST_STAND_STILL_AT";
const TARGET: &str = "TIFFJET_TEST_TARGET";

/// Stands still at one of its calls, after telling so.
struct Still {
    inner: FileSink,
    left: usize,
}

impl Still {
    fn call(&mut self) {
        if self.left == 0 {
            use std::io::Write;
            std::io::stdout().write_all(b"\nstill\n").unwrap();
            std::io::stdout().flush().unwrap();
            loop {
                std::thread::park();
            }
        }
        self.left -= 1;
    }
}

impl Sink for Still {
    fn name(&self) -> &Arc<str> {
        self.inner.name()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.call();
        self.inner.write(bytes)
    }

    fn patches(&self) -> Patches {
        Patches::Anywhere
    }

    fn patch(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.call();
        self.inner.patch(at, bytes)
    }

    fn commit(mut self: Box<Self>) -> Result<()> {
        self.call();
        Box::new(self.inner).commit()
    }
}

fn killed_case() -> Case {
    Case::new([1, 100, 90], DType::UInt8, |o| o.overviews = Overviews::Factors(vec![2]))
}

#[test]
fn child_that_is_killed() {
    let (Ok(at), Ok(target)) = (std::env::var(STILL_AT), std::env::var(TARGET)) else { return };
    let sink = Still { inner: FileSink::create(target).unwrap(), left: at.parse().unwrap() };
    let case = killed_case();
    let mut writer = Writer::create(sink, &case.options).unwrap();
    case.push(&mut writer, &[9]).unwrap();
    writer.finish().unwrap();
}

#[test]
fn a_process_that_is_killed_leaves_the_old_file_and_the_next_one_cleans_up() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tif");
    std::fs::write(&path, "old").unwrap();
    let whole = killed_case().write(&[100]);
    let names = || std::fs::read_dir(dir.path()).unwrap().count();
    let mut killed = 0;
    for at in (0..).step_by(4) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "child_that_is_killed"])
            .env(STILL_AT, at.to_string())
            .env(TARGET, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let still = lines.map_while(std::io::Result::ok).any(|line| line == "still");
        if !still {
            assert!(child.wait().unwrap().success());
            break;
        }
        // Another process leaves alone what this one holds.
        drop(FileSink::create(&path).unwrap());
        assert_eq!(names(), 2);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), names()), (b"old".to_vec(), 2));
        drop(FileSink::create(&path).unwrap());
        assert_eq!((std::fs::read(&path).unwrap(), names()), (b"old".to_vec(), 1));
        killed += 1;
    }
    assert!(killed >= 5, "{killed}");
    assert!(std::fs::read(&path).unwrap() == whole && names() == 1);
}
