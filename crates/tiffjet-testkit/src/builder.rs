//! A writer of TIFF files that does what it is told, right or wrong, one step after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::compression::Compression;
use crate::field::{Order, Value};
use crate::pixels::Pixels;
use crate::sample::{Format, Kind};
use crate::tag;

/// One directory, and for the first one the file around it.
///
/// Without further word: little-endian, classic, unsigned 8 bits, one sample, one uncompressed strip, directories
/// before the data.
#[derive(Debug, Clone)]
pub struct Tiff {
    width: u32,
    height: u32,
    samples: u16,
    format: Format,
    tiling: Tiling,
    planar: bool,
    predictor: u16,
    compression: Compression,
    fill_order: u16,
    photometric: u16,
    extra_samples: Option<Vec<u16>>,
    subfile_type: u32,
    tags: BTreeMap<u16, Value>,
    without: BTreeSet<u16>,
    sparse: BTreeSet<usize>,
    shared: BTreeMap<usize, usize>,
    index_field: Option<IndexField>,
    reversed_tags: bool,
    next: Next,
    children: Vec<Child>,
    file: File,
}

/// What only the first directory decides.
#[derive(Debug, Clone)]
struct File {
    order: Order,
    big: bool,
    directories_last: bool,
    ghost: bool,
}

#[derive(Debug, Clone, Copy)]
enum Tiling {
    Strips { rows: u32 },
    Tiles { width: u32, height: u32 },
}

#[derive(Debug, Clone)]
struct Child {
    sub: bool,
    image: Tiff,
    pixels: Pixels,
}

/// Field type of the arrays of offsets and byte counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum IndexField {
    Short,
    Long,
    Long8,
}

/// Where a directory says the next one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Where it is; nowhere for the last one and for SubIFDs.
    Natural,
    /// At the directory of this number, in order of writing.
    Directory(usize),
    /// At this byte.
    Offset(u64),
}

impl Tiff {
    /// An image of this many columns and rows.
    pub fn new(width: u32, height: u32) -> Self {
        Self {
            width,
            height,
            samples: 1,
            format: Format { bits: 8, kind: Kind::Unsigned },
            tiling: Tiling::Strips { rows: height },
            planar: false,
            predictor: 1,
            compression: Compression::None,
            fill_order: 1,
            photometric: 1,
            extra_samples: None,
            subfile_type: 0,
            tags: BTreeMap::new(),
            without: BTreeSet::new(),
            sparse: BTreeSet::new(),
            shared: BTreeMap::new(),
            index_field: None,
            reversed_tags: false,
            next: Next::Natural,
            children: Vec::new(),
            file: File { order: Order::Little, big: false, directories_last: false, ghost: false },
        }
    }

    // How pixels are stored.

    /// Bits of a sample.
    pub fn bits(mut self, bits: u16) -> Self {
        self.format.bits = bits;
        self
    }

    /// SampleFormat.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.format.kind = kind;
        self
    }

    /// Floats of 16, 24, 32 or 64 bits.
    pub fn float(self, bits: u16) -> Self {
        self.bits(bits).kind(Kind::Float)
    }

    /// Signed numbers of this many bits.
    pub fn signed(self, bits: u16) -> Self {
        self.bits(bits).kind(Kind::Signed)
    }

    /// Samples of a pixel.
    pub fn samples(mut self, samples: u16) -> Self {
        self.samples = samples;
        self
    }

    /// Tiles of this size; what hangs over the image is filled with ones, which a reader must cut off.
    pub fn tile(mut self, width: u32, height: u32) -> Self {
        self.tiling = Tiling::Tiles { width, height };
        self
    }

    /// Strips of this many rows.
    pub fn strips(mut self, rows: u32) -> Self {
        self.tiling = Tiling::Strips { rows };
        self
    }

    /// PlanarConfiguration 2: a plane for each sample.
    pub fn planar(mut self) -> Self {
        self.planar = true;
        self
    }

    /// 1 none, 2 horizontal differences, 3 floating point. Without compression, and with PackBits, the tag is written
    /// and has no effect.
    pub fn predictor(mut self, predictor: u16) -> Self {
        self.predictor = predictor;
        self
    }

    /// How tiles are compressed.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Tiles are what `compress` makes of their packed rows; `number` is the value of tag 259.
    pub fn compress_with(self, number: u16, compress: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        self.compression(Compression::Custom(number, Arc::new(compress)))
    }

    /// FillOrder 2: the bits of every compressed byte turned round.
    pub fn reversed_bits(mut self) -> Self {
        self.fill_order = 2;
        self
    }

    /// Tiles of these numbers are not stored: offset and byte count are 0.
    pub fn sparse(mut self, tiles: impl IntoIterator<Item = usize>) -> Self {
        self.sparse.extend(tiles);
        self
    }

    /// Tile `tile` is not stored: its offset and byte count are those of tile `of`.
    pub fn shared(mut self, tile: usize, of: usize) -> Self {
        self.shared.insert(tile, of);
        self
    }

    /// No StripByteCounts or TileByteCounts.
    pub fn without_byte_counts(self) -> Self {
        self.without(tag::STRIP_BYTE_COUNTS).without(tag::TILE_BYTE_COUNTS)
    }

    /// Field type of offsets and byte counts: LONG in classic files and LONG8 in BigTIFF if nothing is said.
    pub fn index_field(mut self, field: IndexField) -> Self {
        self.index_field = Some(field);
        self
    }

    // What the directory says.

    /// Sets a tag, over what the builder would write.
    pub fn tag(mut self, tag: u16, value: Value) -> Self {
        self.tags.insert(tag, value);
        self
    }

    /// Leaves a tag out.
    pub fn without(mut self, tag: u16) -> Self {
        self.without.insert(tag);
        self
    }

    /// PhotometricInterpretation: 1, black is zero, if nothing is said.
    pub fn photometric(mut self, photometric: u16) -> Self {
        self.photometric = photometric;
        self
    }

    /// ExtraSamples; as many unspecified ones as the photometric interpretation needs if nothing is said.
    pub fn extra_samples(mut self, extra: &[u16]) -> Self {
        self.extra_samples = Some(extra.to_vec());
        self
    }

    /// A colour map of `3 << bits` entries, all reds first.
    pub fn color_map(self, map: Vec<u16>) -> Self {
        self.photometric(3).tag(tag::COLOR_MAP, Value::Short(map))
    }

    /// A smaller version of another image.
    pub fn overview(mut self) -> Self {
        self.subfile_type |= 1;
        self
    }

    /// One page of many.
    pub fn page(mut self) -> Self {
        self.subfile_type |= 2;
        self
    }

    /// A transparency mask.
    pub fn mask(mut self) -> Self {
        self.subfile_type |= 4;
        self.photometric(4)
    }

    /// Width and height of a pixel on the ground, and where the upper left corner lies.
    pub fn geo(self, pixel: (f64, f64), origin: (f64, f64)) -> Self {
        self.tag(tag::MODEL_PIXEL_SCALE, Value::Double(vec![pixel.0, pixel.1, 0.0]))
            .tag(tag::MODEL_TIEPOINT, Value::Double(vec![0.0, 0.0, 0.0, origin.0, origin.1, 0.0]))
    }

    /// ModelTransformation, row after row.
    pub fn transformation(self, matrix: [f64; 16]) -> Self {
        self.tag(tag::MODEL_TRANSFORMATION, Value::Double(matrix.to_vec()))
    }

    /// GeoKeys that name an EPSG code: geographic from 4000 to 4999, else projected; a pixel is an area.
    pub fn epsg(self, code: u16) -> Self {
        let (model, key) = if (4000..5000).contains(&code) { (2, 2048) } else { (1, 3072) };
        let citation = format!("EPSG {code}|");
        #[rustfmt::skip]
        let keys = vec![
            1, 1, 0, 4,
            1024, 0, 1, model,
            1025, 0, 1, 1,
            1026, tag::GEO_ASCII_PARAMS, citation.len() as u16, 0,
            key, 0, 1, code,
        ];
        self.tag(tag::GEO_KEY_DIRECTORY, Value::Short(keys)).tag(tag::GEO_ASCII_PARAMS, Value::ascii(&citation))
    }

    /// GDAL_NODATA.
    pub fn nodata(self, nodata: &str) -> Self {
        self.tag(tag::GDAL_NODATA, Value::ascii(nodata))
    }

    /// GDAL_METADATA.
    pub fn gdal_metadata(self, xml: &str) -> Self {
        self.tag(tag::GDAL_METADATA, Value::ascii(xml))
    }

    /// Tags in falling order, which no reader should mind.
    pub fn unsorted(mut self) -> Self {
        self.reversed_tags = true;
        self
    }

    /// Where this directory says the next one is.
    pub fn next(mut self, next: Next) -> Self {
        self.next = next;
        self
    }

    // Further directories, and the file.

    /// A directory after this one. Of `image`, byte order and the like do not count: they are the file's.
    pub fn directory(mut self, image: Tiff, pixels: &Pixels) -> Self {
        self.children.push(Child { sub: false, image, pixels: pixels.clone() });
        self
    }

    /// A directory that the SubIFDs tag of this one names.
    pub fn sub_directory(mut self, image: Tiff, pixels: &Pixels) -> Self {
        self.children.push(Child { sub: true, image, pixels: pixels.clone() });
        self
    }

    /// `MM`: big-endian.
    pub fn big_endian(self) -> Self {
        self.order(Order::Big)
    }

    /// Byte order of the file.
    pub fn order(mut self, order: Order) -> Self {
        self.file.order = order;
        self
    }

    /// BigTIFF.
    pub fn big_tiff(mut self) -> Self {
        self.file.big = true;
        self
    }

    /// Directories after the data, as files that were written in one go have them.
    pub fn directories_last(mut self) -> Self {
        self.file.directories_last = true;
        self
    }

    /// The layout of a COG: the ghost area, directories, then the data from the last directory to the first, each
    /// tile between its size and a repetition of its last four bytes.
    pub fn cog(mut self) -> Self {
        self.file.ghost = true;
        self
    }

    // Pixels that fit this directory.

    /// [`Pixels::gradient`].
    pub fn gradient(&self) -> Pixels {
        Pixels::gradient(self.shape(), self.format)
    }

    /// [`Pixels::noise`].
    pub fn noise(&self, seed: u64) -> Pixels {
        Pixels::noise(self.shape(), self.format, seed)
    }

    /// [`Pixels::terrain`].
    pub fn terrain(&self, seed: u64) -> Pixels {
        Pixels::terrain(self.shape(), self.format, seed)
    }

    /// [`Pixels::land_cover`].
    pub fn land_cover(&self, seed: u64) -> Pixels {
        Pixels::land_cover(self.shape(), self.format, seed)
    }

    /// Columns, rows, bands.
    pub fn shape(&self) -> (u32, u32, u16) {
        (self.width, self.height, self.samples)
    }

    /// Bits and kind of its samples.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Bytes of one full tile before compression.
    pub fn tile_bytes(&self) -> usize {
        let (width, height) = self.tile_size();
        self.row_bytes(width) * height as usize
    }

    /// How many tiles there are, all planes together.
    pub fn tile_count(&self) -> usize {
        let (width, height) = self.tile_size();
        let planes = if self.planar { usize::from(self.samples) } else { 1 };
        self.width.div_ceil(width) as usize * self.height.div_ceil(height) as usize * planes
    }

    /// The file.
    pub fn build(&self, pixels: &Pixels) -> Vec<u8> {
        let mut directories = Vec::new();
        self.collect(pixels, &mut directories);
        Writer { file: &self.file, directories }.write()
    }

    /// This directory and all that hang on it, in order of writing. Returns its number.
    fn collect<'a>(&'a self, pixels: &'a Pixels, directories: &mut Vec<Directory<'a>>) -> usize {
        self.check(pixels);
        let number = directories.len();
        let tiles = self.tiles(pixels, self.file_order(directories));
        directories.push(Directory { image: self, tiles, subs: Vec::new(), next: None });
        for child in self.children.iter().filter(|c| c.sub) {
            let sub = child.image.collect(&child.pixels, directories);
            directories[number].subs.push(sub);
        }
        let mut last = number;
        for child in self.children.iter().filter(|c| !c.sub) {
            let next = child.image.collect(&child.pixels, directories);
            directories[last].next = Some(next);
            last = next;
        }
        number
    }

    fn file_order(&self, directories: &[Directory<'_>]) -> Order {
        directories.first().map_or(self.file.order, |first| first.image.file.order)
    }

    fn check(&self, pixels: &Pixels) {
        let shape = (pixels.width, pixels.height, pixels.samples);
        assert_eq!(shape, self.shape(), "the pixels have another shape than the image");
        assert_eq!(pixels.format, self.format, "the pixels have another format than the image");
        let allowed: &[u16] = match (self.predictor, self.format.kind) {
            (1, _) => return,
            (2, Kind::Unsigned | Kind::Signed | Kind::Float) => &[8, 16, 32, 64],
            (3, Kind::Float) => &[16, 24, 32, 64],
            _ => &[],
        };
        assert!(allowed.contains(&self.format.bits), "predictor {} of {:?}", self.predictor, self.format);
    }

    fn tile_size(&self) -> (u32, u32) {
        match self.tiling {
            Tiling::Strips { rows } => (self.width, rows),
            Tiling::Tiles { width, height } => (width, height),
        }
    }

    fn row_bytes(&self, width: u32) -> usize {
        let samples = if self.planar { 1 } else { usize::from(self.samples) };
        (width as usize * samples * usize::from(self.format.bits)).div_ceil(8)
    }

    /// The bytes of every tile, plane after plane, row after row; `None` where it is not stored.
    fn tiles(&self, pixels: &Pixels, order: Order) -> Vec<Option<Vec<u8>>> {
        let (tile_width, tile_height) = self.tile_size();
        let all: Vec<u32> = (0..u32::from(self.samples)).collect();
        let planes: Vec<&[u32]> = if self.planar { all.chunks(1).collect() } else { vec![&all] };
        let mut tiles = Vec::new();
        for bands in planes {
            for top in (0..self.height).step_by(tile_height as usize) {
                for left in (0..self.width).step_by(tile_width as usize) {
                    let number = tiles.len();
                    let stored = !self.sparse.contains(&number) && !self.shared.contains_key(&number);
                    tiles.push(stored.then(|| self.encode(pixels, order, bands, left, top)));
                }
            }
        }
        tiles
    }

    fn encode(&self, pixels: &Pixels, order: Order, bands: &[u32], left: u32, top: u32) -> Vec<u8> {
        let (width, mut height) = self.tile_size();
        if let Tiling::Strips { .. } = self.tiling {
            height = height.min(self.height - top);
        }
        let rows: Vec<Vec<u8>> = (top..top + height)
            .map(|y| {
                let mut row = Vec::new();
                for x in left..left + width {
                    for band in bands {
                        let inside = x < self.width && y < self.height;
                        row.push(if inside { pixels.get(*band, y, x) } else { self.format.mask() });
                    }
                }
                self.pack(row, order, bands.len())
            })
            .collect();
        let mut bytes = self.compression.compress(&rows);
        if self.fill_order == 2 {
            bytes.iter_mut().for_each(|b| *b = b.reverse_bits());
        }
        bytes
    }

    /// One row of a tile, predictor applied.
    fn pack(&self, mut row: Vec<u128>, order: Order, stride: usize) -> Vec<u8> {
        let predictor = if self.compression.has_predictor() { self.predictor } else { 1 };
        match predictor {
            2 => {
                // From the right, so that the left neighbour is still the original.
                for i in (stride..row.len()).rev() {
                    row[i] = row[i].wrapping_sub(row[i - stride]) & self.format.mask();
                }
                pack_bits(&row, self.format, order)
            }
            3 => {
                let size = u32::from(self.format.bits / 8);
                // All most significant bytes, then all of the next, whatever the byte order of the file.
                let mut bytes: Vec<u8> =
                    (0..size).rev().flat_map(|byte| row.iter().map(move |v| (*v >> (8 * byte)) as u8)).collect();
                for i in (stride..bytes.len()).rev() {
                    bytes[i] = bytes[i].wrapping_sub(bytes[i - stride]);
                }
                bytes
            }
            _ => pack_bits(&row, self.format, order),
        }
    }

    /// The tags, once it is known where everything lies.
    fn entries(&self, file: &File, offsets: &[u64], counts: &[u64], subs: &[u64]) -> BTreeMap<u16, Value> {
        let repeated = |value: u16| Value::Short(vec![value; usize::from(self.samples)]);
        let mut tags = BTreeMap::from([
            (tag::NEW_SUBFILE_TYPE, Value::Long(vec![self.subfile_type])),
            (tag::IMAGE_WIDTH, Value::Long(vec![self.width])),
            (tag::IMAGE_LENGTH, Value::Long(vec![self.height])),
            (tag::BITS_PER_SAMPLE, repeated(self.format.bits)),
            (tag::COMPRESSION, Value::Short(vec![self.compression.number()])),
            (tag::PHOTOMETRIC, Value::Short(vec![self.photometric])),
            (tag::SAMPLES_PER_PIXEL, Value::Short(vec![self.samples])),
            (tag::PLANAR_CONFIGURATION, Value::Short(vec![if self.planar { 2 } else { 1 }])),
            (tag::SAMPLE_FORMAT, repeated(self.format.kind.number())),
        ]);
        if self.fill_order != 1 {
            tags.insert(tag::FILL_ORDER, Value::Short(vec![self.fill_order]));
        }
        if self.predictor != 1 {
            tags.insert(tag::PREDICTOR, Value::Short(vec![self.predictor]));
        }
        let extra = self.extra_samples.clone().unwrap_or_else(|| {
            let colors = if matches!(self.photometric, 2 | 6 | 8) { 3 } else { 1 };
            vec![0; usize::from(self.samples.saturating_sub(colors))]
        });
        if !extra.is_empty() {
            tags.insert(tag::EXTRA_SAMPLES, Value::Short(extra));
        }
        let (offsets_tag, counts_tag) = match self.tiling {
            Tiling::Strips { rows } => {
                tags.insert(tag::ROWS_PER_STRIP, Value::Long(vec![rows]));
                (tag::STRIP_OFFSETS, tag::STRIP_BYTE_COUNTS)
            }
            Tiling::Tiles { width, height } => {
                tags.insert(tag::TILE_WIDTH, Value::Long(vec![width]));
                tags.insert(tag::TILE_LENGTH, Value::Long(vec![height]));
                (tag::TILE_OFFSETS, tag::TILE_BYTE_COUNTS)
            }
        };
        let field = self.index_field.unwrap_or(if file.big { IndexField::Long8 } else { IndexField::Long });
        tags.insert(offsets_tag, index(field, offsets));
        tags.insert(counts_tag, index(field, counts));
        if !subs.is_empty() {
            let value = if file.big { Value::Ifd8(subs.to_vec()) } else { Value::Ifd(longs(subs)) };
            tags.insert(tag::SUB_IFDS, value);
        }
        tags.extend(self.tags.clone());
        tags.retain(|tag, _| !self.without.contains(tag));
        tags
    }
}

fn longs(numbers: &[u64]) -> Vec<u32> {
    numbers.iter().map(|n| u32::try_from(*n).expect("a number of 32 bits")).collect()
}

fn index(field: IndexField, numbers: &[u64]) -> Value {
    match field {
        IndexField::Short => {
            Value::Short(numbers.iter().map(|n| u16::try_from(*n).expect("a number of 16 bits")).collect())
        }
        IndexField::Long => Value::Long(longs(numbers)),
        IndexField::Long8 => Value::Long8(numbers.to_vec()),
    }
}

/// Samples as bytes: whole words in the byte order of the file, other depths bit by bit, the row padded with zeros.
fn pack_bits(row: &[u128], format: Format, order: Order) -> Vec<u8> {
    if let Some(word) = format.word() {
        let words = usize::from(format.bits) / 8 / word;
        return row
            .iter()
            .flat_map(|v| (0..words).flat_map(move |i| order.bytes(*v >> (8 * word * i), word)))
            .collect();
    }
    let bits = row.iter().flat_map(|v| (0..format.bits).rev().map(move |bit| (*v >> bit & 1) as u8));
    let mut bytes = vec![0; (row.len() * usize::from(format.bits)).div_ceil(8)];
    for (i, bit) in bits.enumerate() {
        bytes[i / 8] |= bit << (7 - i % 8);
    }
    bytes
}

/// A directory on its way into the file.
struct Directory<'a> {
    image: &'a Tiff,
    tiles: Vec<Option<Vec<u8>>>,
    subs: Vec<usize>,
    next: Option<usize>,
}

struct Writer<'a> {
    file: &'a File,
    directories: Vec<Directory<'a>>,
}

/// What comes after `GDAL_STRUCTURAL_METADATA_SIZE`.
const GHOST: &str = "LAYOUT=IFDS_BEFORE_DATA\nBLOCK_ORDER=ROW_MAJOR\nBLOCK_LEADER=SIZE_AS_UINT4\n\
                     BLOCK_TRAILER=LAST_4_BYTES_REPEATED\nKNOWN_INCOMPATIBLE_EDITION=NO\n ";

impl Writer<'_> {
    fn write(&self) -> Vec<u8> {
        let mut out = vec![0; if self.file.big { 16 } else { 8 }];
        let (places, offsets);
        if self.file.directories_last {
            offsets = self.write_tiles(&mut out);
            places = self.places(out.len());
        } else {
            if self.file.ghost {
                out.extend(format!("GDAL_STRUCTURAL_METADATA_SIZE={:06} bytes\n{GHOST}", GHOST.len()).bytes());
            }
            places = self.places(out.len());
            out.resize(places[places.len() - 1], 0);
            offsets = self.write_tiles(&mut out);
        }
        let header = self.header(places[0] as u64);
        out[..header.len()].copy_from_slice(&header);
        for (number, directory) in self.directories.iter().enumerate() {
            let subs: Vec<u64> = directory.subs.iter().map(|sub| places[*sub] as u64).collect();
            let next = match directory.image.next {
                Next::Natural => directory.next.map_or(0, |next| places[next] as u64),
                Next::Directory(next) => places[next] as u64,
                Next::Offset(offset) => offset,
            };
            let bytes = self.directory_bytes(directory, places[number], &offsets[number], &subs, next);
            let end = places[number] + bytes.len();
            out.resize(out.len().max(end), 0);
            out[places[number]..end].copy_from_slice(&bytes);
        }
        out
    }

    fn number(&self, number: u64, size: usize) -> Vec<u8> {
        self.file.order.bytes(u128::from(number), size)
    }

    /// Bytes of an offset in the file.
    fn word(&self) -> usize {
        if self.file.big { 8 } else { 4 }
    }

    fn header(&self, first: u64) -> Vec<u8> {
        let mut header = if self.file.order == Order::Little { b"II".to_vec() } else { b"MM".to_vec() };
        if self.file.big {
            header.extend(self.number(43, 2));
            header.extend(self.number(8, 2));
            header.extend(self.number(0, 2));
        } else {
            header.extend(self.number(42, 2));
        }
        header.extend(self.number(first, self.word()));
        header
    }

    /// Where each directory starts, and at the very end where the last one ends. Their sizes do not depend on what
    /// the offsets in them are, so any will do here.
    fn places(&self, start: usize) -> Vec<usize> {
        let mut places = vec![start.next_multiple_of(8)];
        for (number, directory) in self.directories.iter().enumerate() {
            let offsets = vec![0; directory.tiles.len()];
            let subs = vec![0; directory.subs.len()];
            let size = self.directory_bytes(directory, 0, &offsets, &subs, 0).len();
            places.push((places[number] + size).next_multiple_of(8));
        }
        places
    }

    /// Appends the tiles of all directories. Returns where they are.
    fn write_tiles(&self, out: &mut Vec<u8>) -> Vec<Vec<u64>> {
        let mut offsets: Vec<Vec<u64>> = self.directories.iter().map(|d| vec![0; d.tiles.len()]).collect();
        let mut numbers: Vec<usize> = (0..self.directories.len()).collect();
        if self.file.ghost {
            numbers.reverse();
        }
        for number in numbers {
            for (tile, offset) in self.directories[number].tiles.iter().zip(&mut offsets[number]) {
                let Some(tile) = tile else { continue };
                if self.file.ghost {
                    out.extend((tile.len() as u32).to_le_bytes());
                }
                *offset = out.len() as u64;
                out.extend_from_slice(tile);
                if self.file.ghost {
                    out.extend_from_slice(&tile[tile.len().saturating_sub(4)..]);
                }
            }
            for (tile, of) in &self.directories[number].image.shared {
                offsets[number][*tile] = offsets[number][*of];
            }
        }
        offsets
    }

    /// One directory at `at`, and after it the values that do not fit into its entries.
    fn directory_bytes(
        &self,
        directory: &Directory<'_>,
        at: usize,
        offsets: &[u64],
        subs: &[u64],
        next: u64,
    ) -> Vec<u8> {
        let size = |tile: usize| directory.tiles[tile].as_ref().map_or(0, Vec::len) as u64;
        let shared = &directory.image.shared;
        let counts: Vec<u64> = (0..offsets.len()).map(|tile| size(*shared.get(&tile).unwrap_or(&tile))).collect();
        let mut entries: Vec<(u16, Value)> =
            directory.image.entries(self.file, offsets, &counts, subs).into_iter().collect();
        if directory.image.reversed_tags {
            entries.reverse();
        }
        let (count_size, word) = if self.file.big { (8, 8) } else { (2, 4) };
        let table = count_size + entries.len() * (4 + 2 * word) + word;
        let mut out = self.number(entries.len() as u64, count_size);
        let mut values = Vec::new();
        for (tag, value) in entries {
            out.extend(self.number(u64::from(tag), 2));
            out.extend(self.number(u64::from(value.field()), 2));
            out.extend(self.number(value.count(), word));
            let mut bytes = value.bytes(self.file.order);
            if bytes.len() <= word {
                bytes.resize(word, 0);
                out.extend(bytes);
            } else {
                // TIFF wants values on even bytes.
                values.resize((table + values.len()).next_multiple_of(2) - table, 0);
                out.extend(self.number((at + table + values.len()) as u64, word));
                values.extend(bytes);
            }
        }
        out.extend(self.number(next, word));
        out.extend(values);
        out
    }
}

/// Bytes worked out by hand: the builder and the naive decoder must not agree on the same mistake.
#[cfg(test)]
mod tests {
    use super::*;

    /// The stored bytes of an image of one row that is not compressed, predictor or not.
    fn stored(image: Tiff, values: &[u128]) -> Vec<u8> {
        let image = image.compress_with(1, <[u8]>::to_vec);
        let (width, height, samples) = image.shape();
        let pixels = Pixels { width, height, samples, format: image.format(), values: values.to_vec() };
        let file = image.build(&pixels);
        file[file.len() - image.tile_bytes() * image.tile_count()..].to_vec()
    }

    #[test]
    fn the_smallest_file() {
        let image = Tiff::new(2, 1).big_endian();
        let mut expected = b"MM\0\x2a\0\0\0\x08".to_vec();
        expected.extend([0, 12]);
        let mut entry = |tag: u16, field: u16, value: [u8; 4]| {
            expected.extend(tag.to_be_bytes());
            expected.extend(field.to_be_bytes());
            expected.extend([0, 0, 0, 1]);
            expected.extend(value);
        };
        entry(254, 4, [0, 0, 0, 0]);
        entry(256, 4, [0, 0, 0, 2]);
        entry(257, 4, [0, 0, 0, 1]);
        entry(258, 3, [0, 8, 0, 0]);
        entry(259, 3, [0, 1, 0, 0]);
        entry(262, 3, [0, 1, 0, 0]);
        entry(273, 4, [0, 0, 0, 160]);
        entry(277, 3, [0, 1, 0, 0]);
        entry(278, 4, [0, 0, 0, 1]);
        entry(279, 4, [0, 0, 0, 2]);
        entry(284, 3, [0, 1, 0, 0]);
        entry(339, 3, [0, 1, 0, 0]);
        expected.extend([0; 4]);
        // 158 bytes so far: data starts at a multiple of eight.
        expected.resize(160, 0);
        expected.extend([0, 1]);
        assert_eq!(image.build(&image.gradient()), expected);
    }

    #[test]
    fn bits_are_packed_from_the_top() {
        assert_eq!(stored(Tiff::new(3, 1).bits(12), &[0xabc, 0x123, 0xfff]), [0xab, 0xc1, 0x23, 0xff, 0xf0]);
        assert_eq!(stored(Tiff::new(3, 1).bits(12).big_endian(), &[0xabc, 0x123, 0xfff])[..2], [0xab, 0xc1]);
        assert_eq!(stored(Tiff::new(9, 1).bits(1), &[1, 0, 1, 0, 0, 0, 0, 0, 1]), [0xa0, 0x80]);
        assert_eq!(stored(Tiff::new(1, 1).bits(24), &[0x123456]), [0x12, 0x34, 0x56]);
        assert_eq!(stored(Tiff::new(9, 1).bits(1).reversed_bits(), &[1, 0, 1, 0, 0, 0, 0, 0, 1]), [0x05, 0x01]);
    }

    #[test]
    fn words_follow_the_byte_order() {
        assert_eq!(stored(Tiff::new(1, 1).bits(32), &[0x1234_5678]), [0x78, 0x56, 0x34, 0x12]);
        assert_eq!(stored(Tiff::new(1, 1).bits(32).big_endian(), &[0x1234_5678]), [0x12, 0x34, 0x56, 0x78]);
        assert_eq!(stored(Tiff::new(1, 1).float(24), &[0x12_3456]), [0x56, 0x34, 0x12]);
        let complex = Tiff::new(1, 1).bits(32).kind(Kind::ComplexInt);
        assert_eq!(stored(complex.clone(), &[0x3344_1122]), [0x22, 0x11, 0x44, 0x33]);
        assert_eq!(stored(complex.big_endian(), &[0x3344_1122]), [0x11, 0x22, 0x33, 0x44], "real part first");
    }

    #[test]
    fn differences_run_over_the_padding() {
        let image = Tiff::new(3, 1).tile(4, 1).predictor(2);
        assert_eq!(stored(image, &[10, 13, 11]), [10, 3, 254, 244], "255 - 11");
        let image = Tiff::new(2, 1).bits(16).predictor(2).big_endian();
        assert_eq!(stored(image, &[0x01ff, 0x0200]), [0x01, 0xff, 0x00, 0x01], "as numbers, not as bytes");
        let image = Tiff::new(2, 1).samples(2).predictor(2);
        assert_eq!(stored(image, &[1, 4, 50, 70]), [1, 50, 3, 20], "each band by itself");
    }

    #[test]
    fn float_planes_start_with_the_most_significant() {
        let values = [0x1122_3344, 0x1525_3949];
        let expected = [0x11, 4, 0x22 - 0x15, 3, 0x33 - 0x25, 6, 0x44 - 0x39, 5];
        assert_eq!(stored(Tiff::new(2, 1).float(32).predictor(3), &values), expected);
        assert_eq!(stored(Tiff::new(2, 1).float(32).predictor(3).big_endian(), &values), expected);
    }

    #[test]
    fn a_cog_frames_its_tiles() {
        let overview = Tiff::new(1, 1).tile(2, 2).overview();
        let image = Tiff::new(2, 2).tile(2, 2).cog();
        let pixels = Pixels { width: 2, height: 2, samples: 1, format: image.format(), values: vec![1, 2, 3, 4] };
        let small = Pixels { width: 1, height: 1, values: vec![9], ..pixels.clone() };
        let file = image.directory(overview, &small).build(&pixels);
        let head = b"GDAL_STRUCTURAL_METADATA_SIZE=000140 bytes\nLAYOUT=IFDS_BEFORE_DATA\n";
        assert_eq!(&file[8..8 + head.len()], head);
        let frames = [4, 0, 0, 0, 9, 255, 255, 255, 9, 255, 255, 255, 4, 0, 0, 0, 1, 2, 3, 4, 1, 2, 3, 4];
        assert_eq!(file[file.len() - frames.len()..], frames, "the overview comes first");
    }
}
