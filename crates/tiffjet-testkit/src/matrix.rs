//! Valid files of every kind: each way of storing pixels combined with each other, and the oddities one by one.

use crate::builder::{IndexField, Tiff};
use crate::compression::Compression;
use crate::field::{Order, Value};
use crate::pixels::Pixels;
use crate::sample::{Format, Kind};
use crate::tag;

/// A file and what is in it.
#[derive(Debug, Clone)]
pub struct Case {
    /// What is special about it; no two are alike.
    pub name: String,
    /// The file.
    pub file: Vec<u8>,
    /// The pixels of every image, in the order of [`naive::decode`](crate::naive::decode).
    pub levels: Vec<Pixels>,
}

impl Case {
    fn new(name: impl Into<String>, image: &Tiff, pixels: Pixels) -> Self {
        Self { name: name.into(), file: image.build(&pixels), levels: vec![pixels] }
    }
}

/// Depths of every kind of sample: all that differ in how they are stored.
pub const FORMATS: &[(Kind, &[u16])] = &[
    (Kind::Unsigned, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 20, 24, 31, 32, 33, 63, 64]),
    (Kind::Signed, &[2, 7, 8, 12, 16, 24, 32, 64]),
    (Kind::Float, &[16, 24, 32, 64]),
    (Kind::ComplexInt, &[32, 64]),
    (Kind::ComplexFloat, &[64, 128]),
];

const COMPRESSIONS: &[Compression] = &[
    Compression::None,
    Compression::PackBits,
    Compression::Lzw,
    Compression::Deflate,
    Compression::OldDeflate,
    Compression::Zstd,
];

/// All of them: some ten thousand small files, made one at a time.
pub fn cases() -> impl Iterator<Item = Case> {
    grid().chain(oddities())
}

/// Every format, byte order, header, tiling, arrangement of samples, predictor and compression combined.
pub fn grid() -> impl Iterator<Item = Case> {
    let formats =
        FORMATS.iter().flat_map(|(kind, depths)| depths.iter().map(|bits| Format { bits: *bits, kind: *kind }));
    let files = formats.flat_map(|format| {
        [Order::Little, Order::Big].into_iter().flat_map(move |order| [false, true].map(|big| (format, order, big)))
    });
    let arrangements = files.flat_map(|file| {
        ["strip", "strips", "tiles"].into_iter().flat_map(move |tiling| {
            [("gray", 1, false), ("chunky", 3, false), ("planar", 3, true)].map(|samples| (file, tiling, samples))
        })
    });
    let encodings = arrangements.flat_map(|(file, tiling, samples)| {
        predictors(file.0).iter().flat_map(move |predictor| {
            let compressions = COMPRESSIONS.iter().filter(|c| *predictor == 1 || c.has_predictor());
            compressions.map(move |compression| (file, tiling, samples, *predictor, compression))
        })
    });
    encodings.enumerate().map(|(number, ((format, order, big), tiling, samples, predictor, compression))| {
        let (arrangement, samples, planar) = samples;
        let name = format!(
            "{}{}-{order:?}-{}-{tiling}-{arrangement}-predictor{predictor}-{compression:?}",
            kind_name(format.kind),
            format.bits,
            if big { "big" } else { "classic" },
        );
        let mut image = Tiff::new(37, 29)
            .bits(format.bits)
            .kind(format.kind)
            .samples(samples)
            .order(order)
            .predictor(predictor)
            .compression(compression.clone());
        image = match tiling {
            "strips" => image.strips(8),
            "tiles" => image.tile(16, 32),
            _ => image,
        };
        if big {
            image = image.big_tiff();
        }
        if planar {
            image = image.planar();
        }
        // Smooth, patchy and rough images take different paths through predictors and codecs.
        let pixels = match number % 4 {
            0 => image.noise(number as u64),
            1 => image.gradient(),
            2 => image.terrain(number as u64),
            _ => image.land_cover(number as u64),
        };
        Case::new(name, &image, pixels)
    })
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Unsigned => "uint",
        Kind::Signed => "int",
        Kind::Float => "float",
        Kind::ComplexInt => "cint",
        Kind::ComplexFloat => "cfloat",
    }
}

fn predictors(format: Format) -> &'static [u16] {
    match (format.kind, format.bits) {
        (Kind::Unsigned | Kind::Signed, 8 | 16 | 32 | 64) => &[1, 2],
        (Kind::Float, 16 | 32 | 64) => &[1, 2, 3],
        (Kind::Float, 24) => &[1, 3],
        _ => &[1],
    }
}

/// What files may be like besides how their pixels are stored.
pub fn oddities() -> impl Iterator<Item = Case> {
    [layouts(), tiles(), directories(), tags()].into_iter().flatten()
}

/// Where things lie in the file.
fn layouts() -> Vec<Case> {
    let tiled = |bits| Tiff::new(100, 70).bits(bits).tile(32, 16).compression(Compression::Deflate);
    let images = [
        ("directories-last", tiled(16).directories_last()),
        ("directories-last-big-endian-bigtiff", tiled(16).directories_last().big_endian().big_tiff()),
        ("unsorted-tags", tiled(8).unsorted()),
        ("unsorted-tags-bigtiff", tiled(8).unsorted().big_tiff().big_endian()),
        ("index-short", Tiff::new(40, 40).strips(1).index_field(IndexField::Short)),
        ("index-short-inline", Tiff::new(40, 40).strips(20).index_field(IndexField::Short)),
        ("index-short-inline-big-endian", Tiff::new(40, 40).strips(20).index_field(IndexField::Short).big_endian()),
        ("index-long-bigtiff", tiled(8).big_tiff().index_field(IndexField::Long)),
        ("index-long8-classic", tiled(8).index_field(IndexField::Long8)),
        ("cog-of-one-level", tiled(8).cog()),
    ];
    images.map(|(name, image)| Case::new(name, &image, image.terrain(1))).to_vec()
}

/// Tiles that are missing, shared, turned round or of odd sizes.
fn tiles() -> Vec<Case> {
    let mut cases = Vec::new();
    for compression in COMPRESSIONS {
        let image = Tiff::new(50, 40).compression(compression.clone());
        let plain = |name: &str, image: Tiff| {
            let pixels = image.land_cover(7);
            Case::new(format!("{name}-{compression:?}"), &image, pixels)
        };
        cases.push(plain("reversed-bits-1", image.clone().bits(1).strips(9).reversed_bits()));
        cases.push(plain("reversed-bits-8", image.clone().tile(16, 16).reversed_bits()));
        cases.push(plain("reversed-bits-16-big-endian", image.clone().bits(16).big_endian().reversed_bits()));
        if !compression.has_predictor() {
            cases.push(plain("predictor-without-effect", image.clone().tile(16, 16).predictor(2)));
        }
        cases.push(plain("no-byte-counts", image.clone().without_byte_counts()));
        cases.push(plain("no-byte-counts-directories-last", image.clone().without_byte_counts().directories_last()));
    }
    let sizes = [
        ("tile-larger-than-image", Tiff::new(20, 10).tile(256, 256)),
        ("tile-of-odd-size", Tiff::new(100, 70).bits(12).samples(3).tile(33, 17)),
        ("tile-of-one-pixel", Tiff::new(9, 7).tile(1, 1)),
        ("one-pixel", Tiff::new(1, 1).bits(1)),
        ("one-row", Tiff::new(1000, 1).bits(4)),
        ("one-column", Tiff::new(1, 1000).strips(7).bits(16)),
        ("rows-per-strip-over-height", Tiff::new(30, 20).tag(tag::ROWS_PER_STRIP, Value::Long(vec![u32::MAX]))),
        ("rows-per-strip-missing", Tiff::new(30, 20).without(tag::ROWS_PER_STRIP)),
        ("twenty-bands", Tiff::new(30, 20).samples(20).tile(16, 16).compression(Compression::Zstd)),
        ("twenty-planes", Tiff::new(30, 20).samples(20).tile(16, 16).planar().compression(Compression::Lzw)),
    ];
    cases.extend(sizes.map(|(name, image)| Case::new(name, &image, image.noise(3))));
    cases.extend(sparse_and_shared());
    cases
}

fn sparse_and_shared() -> Vec<Case> {
    // A 2 x 2 grid of whole tiles; a tile that is not stored shows `hole`.
    let with_hole =
        |name: &str, image: Tiff, hole: u128| {
            let full = image.noise(11);
            let pixels = Pixels::from_fn(image.shape(), image.format(), |band, y, x| {
                if y < 16 && x >= 16 { hole } else { full.get(band, y, x) }
            });
            Case::new(name, &image, pixels)
        };
    let image = || Tiff::new(32, 32).tile(16, 16).sparse([1]);
    let repeated = Tiff::new(32, 32).tile(16, 16).shared(3, 0).compression(Compression::Lzw);
    let tile = repeated.noise(12);
    let same = Pixels::from_fn(repeated.shape(), repeated.format(), |band, y, x| {
        if y >= 16 && x >= 16 { tile.get(band, y - 16, x - 16) } else { tile.get(band, y, x) }
    });
    vec![
        with_hole("sparse", image(), 0),
        with_hole("sparse-three-bands", image().samples(3).compression(Compression::Deflate), 0),
        with_hole("sparse-bigtiff", image().bits(16).big_tiff(), 0),
        with_hole("sparse-nodata", image().nodata("255"), 255),
        with_hole("sparse-nodata-signed", image().signed(16).nodata("-9999"), (-9999i16 as u16).into()),
        with_hole("sparse-nodata-float", image().float(32).nodata("-9999.5"), (-9999.5f32).to_bits().into()),
        with_hole("sparse-nodata-out-of-range", image().nodata("-9999"), 0),
        Case::new("shared-tile", &repeated, same),
    ]
}

/// Several images in one file.
fn directories() -> Vec<Case> {
    let mut cases = Vec::new();
    for (variant, prepare) in [
        ("classic", (|t| t) as fn(Tiff) -> Tiff),
        ("bigtiff", |t| t.big_tiff()),
        ("big-endian", |t| t.big_endian()),
        ("big-endian-bigtiff-last", |t| t.big_endian().big_tiff().directories_last()),
        ("cog", |t| t.cog()),
        ("cog-bigtiff", |t| t.cog().big_tiff()),
    ] {
        let image = |width, height| Tiff::new(width, height).tile(16, 16).bits(16).compression(Compression::Deflate);
        let (full, half, quarter) = (image(80, 60), image(40, 30).overview(), image(20, 15).overview());
        let mask = Tiff::new(80, 60).bits(1).tile(16, 16).mask();
        let small_mask = Tiff::new(40, 30).bits(1).tile(16, 16).mask().overview();
        let (p0, p1, p2) = (full.terrain(1), half.terrain(2), quarter.terrain(3));
        let (m0, m1) = (mask.land_cover(4), small_mask.land_cover(5));
        let mut add = |name: &str, file: Tiff, levels: &[&Pixels]| {
            cases.push(Case {
                name: format!("{name}-{variant}"),
                file: prepare(file).build(levels[0]),
                levels: levels.iter().copied().cloned().collect(),
            });
        };
        let chain = full.clone().directory(half.clone(), &p1).directory(quarter.clone(), &p2);
        add("overviews", chain, &[&p0, &p1, &p2]);
        let masked = full.clone().directory(mask, &m0).directory(half.clone(), &p1).directory(small_mask, &m1);
        add("masks", masked, &[&p0, &m0, &p1, &m1]);
        let subs = full.clone().sub_directory(half.clone(), &p1).sub_directory(quarter.clone(), &p2);
        add("sub-directories", subs, &[&p0, &p1, &p2]);
        let nested = full.clone().sub_directory(half.clone().sub_directory(quarter, &p2), &p1);
        add("nested-sub-directories", nested, &[&p0, &p1, &p2]);
        let page = Tiff::new(33, 21).samples(3).photometric(2).page();
        let text = page.noise(6);
        let pages = full.clone().page().directory(page.clone(), &text).directory(image(80, 60).page(), &p0);
        add("pages", pages, &[&p0, &text, &p0]);
        let pages_with_subs =
            full.page().sub_directory(half.clone(), &p1).directory(page.sub_directory(half, &p1), &text);
        add("pages-with-sub-directories", pages_with_subs, &[&p0, &p1, &text, &p1]);
    }
    cases
}

/// What a directory may say.
fn tags() -> Vec<Case> {
    let image = || Tiff::new(30, 20);
    let ramp: Vec<u16> = (0..3 * 256).map(|i| (i % 256 * 257) as u16).collect();
    let every_field = [
        Value::Byte(vec![1, 2, 255]),
        Value::ascii("text longer than eight bytes"),
        Value::Short(vec![1, 65535]),
        Value::Long(vec![1, u32::MAX]),
        Value::Rational(vec![(1, 3), (5, 1)]),
        Value::SByte(vec![-1, 127]),
        Value::Undefined(vec![0; 11]),
        Value::SShort(vec![-1, i16::MIN]),
        Value::SLong(vec![-1, i32::MIN]),
        Value::SRational(vec![(-1, 3)]),
        Value::Float(vec![1.5, -0.0]),
        Value::Double(vec![std::f64::consts::PI]),
    ];
    let everything = |tiff: Tiff| every_field.iter().cloned().zip(65000..).fold(tiff, |t, (v, tag)| t.tag(tag, v));
    let images = [
        ("every-field-type", everything(image())),
        ("every-field-type-big-endian", everything(image().big_endian())),
        (
            "every-field-type-bigtiff",
            everything(image().big_tiff())
                .tag(65100, Value::Long8(vec![u64::MAX, 1]))
                .tag(65101, Value::SLong8(vec![-1, i64::MIN])),
        ),
        ("color-map", image().color_map(ramp)),
        ("color-map-4-bits", image().bits(4).color_map((0..48).map(|i| i * 1000).collect())),
        ("white-is-zero", image().photometric(0)),
        ("rgb", image().samples(3).photometric(2)),
        ("rgba", image().samples(4).photometric(2).extra_samples(&[2])),
        ("rgba-premultiplied-planar", image().samples(4).photometric(2).extra_samples(&[1]).planar()),
        ("cmyk", image().samples(4).photometric(5).extra_samples(&[])),
        ("projected", image().geo((10.0, 10.0), (500_000.0, 4_600_000.0)).epsg(32633).nodata("0")),
        ("geographic", image().geo((0.25, 0.25), (-180.0, 90.0)).epsg(4326).big_endian()),
        (
            "rotated",
            image().epsg(32633).transformation([5., 2., 0., 1e5, 2., -5., 0., 2e5, 0., 0., 0., 0., 0., 0., 0., 1.]),
        ),
        (
            "gdal-metadata",
            image().gdal_metadata(
                "<GDALMetadata>\n  <Item name=\"SCALE\" sample=\"0\" role=\"scale\">0.1</Item>\n</GDALMetadata>\n",
            ),
        ),
        ("no-sample-format", image().without(tag::SAMPLE_FORMAT)),
        ("no-samples-per-pixel", image().without(tag::SAMPLES_PER_PIXEL)),
        ("no-bits-per-sample", image().bits(1).without(tag::BITS_PER_SAMPLE)),
        ("no-compression", image().without(tag::COMPRESSION)),
        ("size-as-short", {
            let short = |n| Value::Short(vec![n]);
            image().tag(tag::IMAGE_WIDTH, short(30)).tag(tag::IMAGE_LENGTH, short(20)).big_endian()
        }),
    ];
    images.map(|(name, image)| Case::new(name, &image, image.land_cover(9))).to_vec()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::naive;

    fn check(case: &Case) {
        let levels = naive::decode(&case.file).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert_eq!(levels.len(), case.levels.len(), "{}", case.name);
        for (level, pixels) in levels.iter().zip(&case.levels) {
            assert_eq!(level.dtype, pixels.dtype(), "{}", case.name);
            let shape = (level.width, level.height, level.samples);
            assert_eq!(shape, (pixels.width, pixels.height, pixels.samples), "{}", case.name);
            assert!(level.bytes == pixels.to_le_bytes(), "{}: other pixels", case.name);
        }
    }

    #[test]
    fn the_grid_reads_back() {
        let mut count = 0;
        for case in grid() {
            check(&case);
            count += 1;
        }
        assert!(count > 10_000, "{count}");
    }

    #[test]
    fn oddities_read_back() {
        oddities().for_each(|case| check(&case));
    }

    #[test]
    fn names_are_unique() {
        let mut names = BTreeSet::new();
        for case in oddities() {
            assert!(names.insert(case.name.clone()), "{}", case.name);
        }
    }
}
