//! What goes from the old file to the new one beside pixels.

use tiffjet::codec::{CODECS, Unit};
use tiffjet::geo::{Geo, GeoTags, Metadata, Nodata, Sidecars};
use tiffjet::tiff::{Array, Field, FieldType, Nested, tag};
use tiffjet::{ByteOrder, DType, Error, Image, Layout, Result, SampleKind, Window, WriteOptions};

use super::choices::Choices;
use super::note;

const IPTC: u16 = 33723;
const PHOTOSHOP: u16 = 34377;
/// A field of EXIF that points to yet another directory.
const INTEROPERABILITY: u16 = 40965;
/// ExtraSamples of alpha that colours are not multiplied with.
const UNASSOCIATED_ALPHA: u16 = 2;
const MIN_IS_BLACK: u16 = 1;
const RGB: u16 = 2;
const PALETTE: u16 = 3;
const YCBCR: u16 = 6;
const LOG_L: u16 = 32844;
const LOG_LUV: u16 = 32845;

/// Fields that mean the same in the new file.
const FIELDS: [u16; 19] = [
    tag::DOCUMENT_NAME,
    tag::IMAGE_DESCRIPTION,
    tag::MAKE,
    tag::MODEL,
    tag::ORIENTATION,
    tag::X_RESOLUTION,
    tag::Y_RESOLUTION,
    tag::RESOLUTION_UNIT,
    tag::SOFTWARE,
    tag::DATE_TIME,
    tag::ARTIST,
    tag::HOST_COMPUTER,
    tag::WHITE_POINT,
    tag::PRIMARY_CHROMATICITIES,
    tag::XMP,
    tag::COPYRIGHT,
    tag::ICC_PROFILE,
    IPTC,
    PHOTOSHOP,
];

/// Fills in what the file decides.
pub fn carry(image: &Image, window: &Window, choices: &Choices, options: &mut WriteOptions) -> Result<()> {
    let layout = &image.levels()[0].layout;
    // Bands of the new file, counted from 0 in the old one.
    let bands: Vec<usize> = match &window.bands {
        Some(bands) => bands.iter().map(|&band| usize::from(band).saturating_sub(1)).collect(),
        None => (0..usize::from(layout.bands)).collect(),
    };
    options.planar = layout.planar && !options.cog;
    options.mask = image.levels()[0].mask.is_some();
    options.bits = bits(layout, options);
    colours(image, layout, &bands, options)?;
    options.resampling = choices.resampling;
    options.tags = FIELDS.iter().filter_map(|&tag| field(image, tag)).collect();
    if choices.dtype.is_none() {
        let values = [tag::MIN_SAMPLE_VALUE, tag::MAX_SAMPLE_VALUE, tag::TRANSFER_FUNCTION];
        options.tags.extend(values.iter().filter_map(|&tag| field(image, tag)));
    }
    if options.photometric == Some(YCBCR) {
        let chroma = [tag::YCBCR_COEFFICIENTS, tag::REFERENCE_BLACK_WHITE];
        options.tags.extend(chroma.iter().filter_map(|&tag| field(image, tag)));
    }
    options.nested = [tag::EXIF, tag::GPS].iter().map(|&tag| nested(image, tag)).collect();
    let geo = moved(image, window, &bands, choices.dtype.is_some());
    nodata(image, &geo, choices, options)?;
    place(image, geo, options)
}

/// Samples narrower than their type stay so where the codec has a way.
fn bits(layout: &Layout, options: &WriteOptions) -> Option<u16> {
    let format = &layout.format;
    let packs = CODECS.iter().any(|codec| codec.name() == options.compression && codec.unit() == Unit::Bytes);
    let narrow = usize::from(format.bits) < 8 * format.dtype.size();
    let integer = format.kind == SampleKind::Unsigned;
    (packs && narrow && integer && options.dtype == format.dtype).then_some(format.bits)
}

/// Meaning of the bands: colour map, colours, alpha.
fn colours(image: &Image, layout: &Layout, bands: &[usize], options: &mut WriteOptions) -> Result<()> {
    let indices = bands.first() == Some(&0) && options.dtype == layout.dtype();
    if indices && matches!(options.dtype, DType::UInt8 | DType::UInt16) {
        options.colour_map = colour_map(image, layout, options.bits)?;
        if options.colour_map.is_some() {
            options.photometric = image.colour_map()?.map(|_| layout.format.photometric);
            options.extra_samples = Some(extra_samples(layout, &bands[1..]));
            return Ok(());
        }
    }
    let photometric = match layout.shown_photometric() {
        PALETTE => MIN_IS_BLACK,
        // JPEG would take these for red, green and blue.
        YCBCR if options.compression == "jpeg" => MIN_IS_BLACK,
        other => other,
    };
    // The kind of image says which bands are colours, whatever ExtraSamples makes of the others.
    let due = match photometric {
        RGB | YCBCR | 8..=10 | LOG_LUV => 3,
        5 => 4,
        _ => 1,
    };
    let whole = bands.len() >= due && bands[..due].iter().copied().eq(0..due);
    let known = matches!(photometric, 0..=2 | 5 | YCBCR | 8..=10 | LOG_L | LOG_LUV);
    let (photometric, due) = if whole && known { (photometric, due) } else { (MIN_IS_BLACK, 1) };
    options.extra_samples = Some(extra_samples(layout, &bands[due..]));
    // JPEG stores colours its own way unless it is told not to.
    let jpeg = options.compression == "jpeg" && photometric == RGB && bands.len() == 3 && options.dtype == DType::UInt8;
    options.photometric = (!jpeg).then_some(photometric);
    Ok(())
}

/// The kinds of bands that are no colours.
fn extra_samples(layout: &Layout, bands: &[usize]) -> Vec<u16> {
    let first = usize::from(layout.bands).saturating_sub(layout.extra_samples.len());
    let kind = |&band: &usize| {
        if layout.shows_inks_as_light() && band == 3 {
            return UNASSOCIATED_ALPHA;
        }
        let extra = band.checked_sub(first).and_then(|i| layout.extra_samples.get(i));
        extra.copied().filter(|&kind| kind <= 2).unwrap_or(0)
    };
    bands.iter().map(kind).collect()
}

/// All red, all green, all blue, as many as the bits of a sample can name.
fn colour_map(image: &Image, layout: &Layout, bits: Option<u16>) -> Result<Option<Vec<u16>>> {
    let table = &image.geo().metadata.band(0).color_table;
    // GDAL takes a colour map for one even where the photometric interpretation is another, and none that is too short.
    let indices = layout.bands == 1 || layout.format.photometric == PALETTE;
    let whole = |map: &Vec<[u16; 3]>| indices && map.len() == 1 << layout.format.bits.min(16);
    let colours: Vec<[u16; 3]> = match image.colour_map()?.filter(whole) {
        Some(map) => map,
        None if table.is_empty() => return Ok(None),
        None => table.iter().map(|&[r, g, b, _]| [r, g, b].map(|v| v.min(255) * 257)).collect(),
    };
    let entries = 1 << bits.unwrap_or(8 * layout.dtype().size() as u16);
    let value = |i: usize, colour: usize| colours.get(i).map_or(0, |rgb| rgb[colour]);
    Ok(Some((0..3).flat_map(|colour| (0..entries).map(move |i| (i, colour))).map(|(i, c)| value(i, c)).collect()))
}

/// A field as the old file has it, in native byte order; one that can't be read is left behind.
fn field(image: &Image, tag: u16) -> Option<Field> {
    let array = image.tag(tag).ok()??;
    if WriteOptions::carries(tag) { native(tag, array) } else { None }
}

/// A directory as the old file has it, but for what only makes sense in that file; one that can't be read is left
/// behind.
fn nested(image: &Image, tag: u16) -> Nested {
    let values = image.nested(tag).unwrap_or_default();
    let fields = values.into_iter().filter(|(tag, _)| *tag != INTEROPERABILITY);
    Nested { tag, fields: fields.filter_map(|(tag, array)| native(tag, array)).collect() }
}

fn native(tag: u16, mut array: Array) -> Option<Field> {
    let pointer = matches!(array.kind, FieldType::Ifd | FieldType::Ifd8);
    let eight = matches!(array.kind, FieldType::Long8 | FieldType::SLong8);
    if array.bytes.is_empty() || pointer || eight {
        return None;
    }
    let word = match array.kind {
        FieldType::Rational | FieldType::SRational => 4,
        kind => kind.size(),
    };
    if array.order != ByteOrder::NATIVE {
        array.bytes.chunks_exact_mut(word).for_each(<[u8]>::reverse);
    }
    Some(Field::new(tag, array.kind, array.bytes))
}

/// The georeferencing of a window and of some bands.
fn moved(image: &Image, window: &Window, bands: &[usize], other_type: bool) -> Geo {
    let mut geo = image.geo().clone();
    let left = f64::from(window.cols.as_ref().map_or(0, |r| r.start));
    let top = f64::from(window.rows.as_ref().map_or(0, |r| r.start));
    geo.transform =
        geo.transform.map(|[a, b, c, d, e, f]| [a, b, a * left + b * top + c, d, e, d * left + e * top + f]);
    for point in &mut geo.gcps {
        point.column -= left;
        point.row -= top;
    }
    if let Some(rpc) = &mut geo.rpc {
        rpc.samp_off -= left;
        rpc.line_off -= top;
    }
    let old = std::mem::take(&mut geo.metadata.bands);
    let chosen = bands.iter().enumerate().filter_map(|(new, band)| Some((new, old.get(band)?.clone())));
    geo.metadata.bands = chosen.collect();
    if image.levels()[0].layout.shows_inks_as_light() {
        geo.metadata.bands.values_mut().for_each(|band| band.color_interp = None);
    }
    if other_type || window.rows.is_some() || window.cols.is_some() {
        forget_statistics(&mut geo.metadata);
    }
    geo
}

/// They were of other pixels.
fn forget_statistics(metadata: &mut Metadata) {
    for items in metadata.bands.values_mut().flat_map(|band| band.domains.values_mut()) {
        items.retain(|name, _| !name.starts_with("STATISTICS_"));
    }
}

fn nodata(image: &Image, geo: &Geo, choices: &Choices, options: &mut WriteOptions) -> Result<()> {
    let dtype = options.dtype;
    let value = match choices.nodata.as_deref() {
        Some("none") => None,
        Some(text) => {
            let value = parse_nodata(text, dtype);
            let value =
                value.ok_or_else(|| Error::invalid(image.name(), format!("--nodata {text} is not a number")))?;
            options.nan_to_nodata = matches!(dtype, DType::Float16 | DType::Float32 | DType::Float64);
            Some(value)
        }
        None => inherited(image, geo, options)?,
    };
    let kept = choices.nodata.is_none() && dtype == image.dtype();
    let Some(value) = value else {
        if kept && geo.tag_nodata.is_none() {
            options.geo.gdal_nodata = image.geo_tags().gdal_nodata;
        }
        return Ok(());
    };
    if value.bytes(dtype).is_some() {
        options.nodata = Some(value);
        return Ok(());
    }
    if kept {
        // No pixel has it, but the file says so, and so will the new one.
        options.geo.gdal_nodata = image.geo_tags().gdal_nodata;
        return Ok(());
    }
    let text = value.text(dtype);
    Err(Error::invalid(image.name(), format!("{dtype} can't hold the nodata value {text}: give another with --nodata")))
}

/// The nodata of the file. A TIFF has one for all bands.
fn inherited(image: &Image, geo: &Geo, options: &WriteOptions) -> Result<Option<Nodata>> {
    let first = geo.nodata(0);
    let same = |a: Option<Nodata>, b: Option<Nodata>| match (a, b) {
        (Some(a), Some(b)) => a == b || (a.as_f64().is_nan() && b.as_f64().is_nan()),
        (a, b) => a.is_none() && b.is_none(),
    };
    if (1..options.shape[0]).any(|band| !same(geo.nodata(band), first)) {
        note(&format!("{}: bands differ in nodata, that of the first is written", image.name()));
    }
    Ok(match (first, options.dtype) {
        (Some(value), DType::Int64) if value.as_f64().fract() == 0.0 => parse_nodata(&exact(value), DType::Int64),
        (Some(value), DType::UInt64) if value.as_f64().fract() == 0.0 => parse_nodata(&exact(value), DType::UInt64),
        (value, _) => value,
    })
}

fn exact(value: Nodata) -> String {
    match value {
        Nodata::Float(value) => format!("{value}"),
        Nodata::Int(value) => value.to_string(),
        Nodata::UInt(value) => value.to_string(),
    }
}

fn parse_nodata(text: &str, dtype: DType) -> Option<Nodata> {
    match dtype {
        DType::Int64 => text.parse().ok().map(Nodata::Int),
        DType::UInt64 => text.parse().ok().map(Nodata::UInt),
        _ => text.parse().ok().map(Nodata::Float),
    }
}

/// The tags of the place. Keys of the old file are taken as they are: nothing of a CRS gets lost.
fn place(image: &Image, mut geo: Geo, options: &mut WriteOptions) -> Result<()> {
    geo.tag_nodata = None; // the writer has its own word for it
    let old = image.geo_tags();
    let alone = Geo::new(&old, &Sidecars::default(), image.shape()[0], image.dtype());
    let own = !old.key_directory.is_empty()
        && alone.crs.as_ref().or(alone.gcp_crs.as_ref()) == geo.crs.as_ref().or(geo.gcp_crs.as_ref());
    let mut tags = match geo.to_tags() {
        Ok(tags) => tags,
        Err(_) if own => without_crs(geo, image)?,
        Err(what) => return Err(Error::unsupported(image.name(), what, "")),
    };
    if own {
        tags.key_directory = old.key_directory;
        tags.double_params = old.double_params;
        tags.ascii_params = old.ascii_params;
    }
    let gdal_nodata = options.geo.gdal_nodata.take();
    options.geo = GeoTags { gdal_nodata, ..tags };
    Ok(())
}

fn without_crs(mut geo: Geo, image: &Image) -> Result<GeoTags> {
    geo.crs = None;
    geo.gcp_crs = None;
    geo.to_tags().map_err(|what| Error::unsupported(image.name(), what, ""))
}
