//! What a file says of itself, as one JSON object with stable keys.

use serde_json::{Map, Value, json};
use tiffjet::geo::{Affine, BandMetadata, Crs, CrsKind, Gcp, Geo, Rpc};
use tiffjet::layout::Predictor;
use tiffjet::tiff::tag;
use tiffjet::validate::Severity;
use tiffjet::{ByteOrder, Image, Layout, Level, Result, cog};

use crate::checksum::nodata_json;

/// Larger tile indexes are not added up: that would read all of them.
const CHEAP_TILES: u64 = 1 << 16;
/// Control points that are listed; the others are counted.
const LISTED_GCPS: usize = 1000;

/// Texts of the first directory that are worth showing.
const TEXTS: [u16; 9] = [
    tag::DOCUMENT_NAME,
    tag::IMAGE_DESCRIPTION,
    tag::MAKE,
    tag::MODEL,
    tag::SOFTWARE,
    tag::DATE_TIME,
    tag::ARTIST,
    tag::HOST_COMPUTER,
    tag::COPYRIGHT,
];

pub fn facts(image: &Image) -> Result<Value> {
    let mut out = Map::new();
    for part in [pixels(image), place(image), rest(image), cog_facts(image)?] {
        if let Value::Object(part) = part {
            out.extend(part);
        }
    }
    Ok(Value::Object(out))
}

/// How pixels are stored.
fn pixels(image: &Image) -> Value {
    let main = &image.levels()[0].layout;
    json!({
        "file": **image.name(),
        "file_size": image.source().length(),
        "byte_order": if image.header().order == ByteOrder::Little { "little" } else { "big" },
        "bigtiff": image.header().big,
        "pages": image.pages(),
        "page": image.page(),
        "width": main.width,
        "height": main.height,
        "bands": main.bands,
        "dtype": main.dtype().name(),
        "bits": main.format.bits,
        "compression": main.codec.name(),
        "compression_tag": main.format.compression,
        "predictor": predictor(main.predictor),
        "interleave": interleave(main),
        "tiled": main.tiled,
        "tile": [main.format.width, main.format.height],
        "tiles": main.tiles(),
        "photometric": photometric(main.format.photometric),
        "photometric_tag": main.format.photometric,
        "extra_samples": main.extra_samples.iter().map(|&kind| extra_sample(kind)).collect::<Vec<_>>(),
        "orientation": main.orientation,
        "color_map": image.colour_map().ok().flatten().map(|map| map.len()),
        "uncompressed_size": uncompressed(main),
        "compressed_size": compressed(&image.levels()[0]),
        "levels": image.levels().iter().enumerate().map(|(i, level)| level_facts(image, i, level)).collect::<Vec<_>>(),
        "overviews": image.levels()[1..].iter().map(|l| [l.layout.width, l.layout.height]).collect::<Vec<_>>(),
        "mask": mask(image),
    })
}

/// Where the image lies.
fn place(image: &Image) -> Value {
    let main = &image.levels()[0].layout;
    let geo = image.geo();
    json!({
        "crs": geo.crs.as_ref().map(crs),
        "transform": geo.transform.map(|t| t.map(number)),
        "bounds": geo.transform.map(|t| bounds(t, main).map(number)),
        "pixel_size": geo.transform.map(|t| pixel_size(t).map(number)),
        "area_or_point": geo.pixel_is_point.map(|point| if point { "Point" } else { "Area" }),
        "gcp_count": geo.gcps.len(),
        "gcps": geo.gcps.iter().take(LISTED_GCPS).map(gcp).collect::<Vec<_>>(),
        "gcp_crs": geo.gcp_crs.as_ref().map(crs),
        "rpc": geo.rpc.as_ref().map(rpc),
        "nodata": geo.nodata(0).map(nodata_json),
    })
}

/// What the values mean, and what else the file says.
fn rest(image: &Image) -> Value {
    let bands = image.shape()[0];
    let geo = image.geo();
    json!({
        "band_info": (0..bands).map(|band| band_facts(geo, band)).collect::<Vec<_>>(),
        "metadata": geo.metadata.domains,
        "tags": texts(image),
        "xmp": bytes_of(image, tag::XMP),
        "icc_profile": bytes_of(image, tag::ICC_PROFILE),
        "sidecars": image.sidecars(),
        "warnings": image.warnings().iter().chain(&geo.warnings).collect::<Vec<_>>(),
    })
}

/// Whether it is a COG, as far as the head of the file tells: `validate` looks at every tile.
fn cog_facts(image: &Image) -> Result<Value> {
    let findings = cog::check(image)?;
    let texts = |severity: Severity| {
        let chosen = findings.iter().filter(|finding| finding.severity == severity);
        chosen.map(|finding| finding.what.as_str()).collect::<Vec<_>>()
    };
    let errors = texts(Severity::Error);
    Ok(json!({"cog": errors.is_empty(), "cog_errors": errors, "cog_warnings": texts(Severity::Warning)}))
}

fn level_facts(image: &Image, number: usize, level: &Level) -> Value {
    let layout = &level.layout;
    let beside = level.source().name() != image.name();
    json!({
        "level": number,
        "width": layout.width,
        "height": layout.height,
        "dtype": layout.dtype().name(),
        "compression": layout.codec.name(),
        "predictor": predictor(layout.predictor),
        "interleave": interleave(layout),
        "photometric": photometric(layout.format.photometric),
        "tiled": layout.tiled,
        "tile": [layout.format.width, layout.format.height],
        "tiles": layout.tiles(),
        "offset": layout.offset,
        "compressed_size": compressed(level),
        "mask": level.mask.is_some(),
        "file": beside.then(|| level.source().name().to_string()),
    })
}

/// Bytes of all tiles in the file, where adding them up is cheap and the file states them.
fn compressed(level: &Level) -> Option<u64> {
    let tiles = level.layout.tiles();
    if tiles > CHEAP_TILES {
        return None;
    }
    let stated = level.stated_tiles(0..tiles).ok()?;
    stated.into_iter().try_fold(0u64, |sum, (_, count)| sum.checked_add(count?))
}

fn uncompressed(layout: &Layout) -> u64 {
    let values = u64::from(layout.width).saturating_mul(layout.height.into()).saturating_mul(layout.bands.into());
    values.saturating_mul(layout.dtype().size() as u64)
}

fn predictor(predictor: Predictor) -> &'static str {
    match predictor {
        Predictor::None => "none",
        Predictor::Horizontal => "horizontal",
        Predictor::Float => "float",
    }
}

fn interleave(layout: &Layout) -> &'static str {
    if layout.planar { "band" } else { "pixel" }
}

fn photometric(code: u16) -> String {
    match code {
        0 => "min-is-white",
        1 => "min-is-black",
        2 => "rgb",
        3 => "palette",
        4 => "transparency-mask",
        5 => "separated",
        6 => "ycbcr",
        8 => "cielab",
        9 => "icclab",
        10 => "itulab",
        32803 => "cfa",
        32844 => "logl",
        32845 => "logluv",
        34892 => "linear-raw",
        51177 => "depth",
        other => return other.to_string(),
    }
    .to_owned()
}

fn extra_sample(kind: u16) -> String {
    match kind {
        0 => "unspecified".into(),
        1 => "premultiplied-alpha".into(),
        2 => "alpha".into(),
        other => other.to_string(),
    }
}

/// What tells the valid pixels, as reading the mask takes it.
fn mask(image: &Image) -> &'static str {
    let level = &image.levels()[0];
    match &level.mask {
        Some(mask) if mask.source().name() == image.name() => "internal",
        Some(_) => "sidecar",
        None if level.layout.alpha_band().is_some() => "alpha",
        None if image.geo().nodata(0).is_some() => "nodata",
        None => "none",
    }
}

/// A number, or its name where JSON has no number for it.
fn number(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { json!(value.to_string().to_lowercase()) }
}

fn crs(crs: &Crs) -> Value {
    json!({
        "epsg": crs.epsg,
        "name": crs.name,
        "kind": crs.kind.map(|kind| match kind {
            CrsKind::Geographic2D => "geographic",
            CrsKind::Geographic3D => "geographic-3d",
            CrsKind::Geocentric => "geocentric",
            CrsKind::Projected => "projected",
            CrsKind::Vertical => "vertical",
            CrsKind::Compound => "compound",
            CrsKind::Engineering => "engineering",
        }),
        "wkt": crs.to_wkt(),
    })
}

/// Left, bottom, right, top of the rectangle around the image, whichever way it is turned.
fn bounds([a, b, c, d, e, f]: Affine, layout: &Layout) -> [f64; 4] {
    let (w, h) = (f64::from(layout.width), f64::from(layout.height));
    let corners = [(0.0, 0.0), (w, 0.0), (0.0, h), (w, h)];
    let xs = corners.map(|(x, y)| a * x + b * y + c);
    let ys = corners.map(|(x, y)| d * x + e * y + f);
    let low = |v: [f64; 4]| v.into_iter().fold(f64::INFINITY, f64::min);
    let high = |v: [f64; 4]| v.into_iter().fold(f64::NEG_INFINITY, f64::max);
    [low(xs), low(ys), high(xs), high(ys)]
}

/// Lengths of the sides of a pixel.
fn pixel_size([a, b, _, d, e, _]: Affine) -> [f64; 2] {
    [a.hypot(d), b.hypot(e)]
}

fn gcp(point: &Gcp) -> Value {
    json!({
        "id": point.id,
        "column": number(point.column),
        "row": number(point.row),
        "x": number(point.x),
        "y": number(point.y),
        "z": number(point.z),
    })
}

fn rpc(rpc: &Rpc) -> Value {
    let list = |values: &[f64]| values.iter().map(|&v| number(v)).collect::<Vec<_>>();
    json!({
        "err_bias": number(rpc.err_bias),
        "err_rand": number(rpc.err_rand),
        "line_off": number(rpc.line_off),
        "samp_off": number(rpc.samp_off),
        "lat_off": number(rpc.lat_off),
        "long_off": number(rpc.long_off),
        "height_off": number(rpc.height_off),
        "line_scale": number(rpc.line_scale),
        "samp_scale": number(rpc.samp_scale),
        "lat_scale": number(rpc.lat_scale),
        "long_scale": number(rpc.long_scale),
        "height_scale": number(rpc.height_scale),
        "line_num": list(&rpc.line_num),
        "line_den": list(&rpc.line_den),
        "samp_num": list(&rpc.samp_num),
        "samp_den": list(&rpc.samp_den),
    })
}

fn band_facts(geo: &Geo, band: usize) -> Value {
    let said: &BandMetadata = geo.metadata.band(band);
    json!({
        "band": band + 1,
        "nodata": geo.nodata(band).map(nodata_json),
        "scale": said.scale.map(number),
        "offset": said.offset.map(number),
        "unit": said.unit,
        "description": said.description,
        "color_interp": said.color_interp,
        "color_table": (!said.color_table.is_empty()).then_some(said.color_table.len()),
        "categories": (!said.categories.is_empty()).then_some(&said.categories),
        "statistics": said.statistics().map(|s| json!({
            "minimum": number(s.minimum),
            "maximum": number(s.maximum),
            "mean": number(s.mean),
            "stddev": number(s.stddev),
        })),
        "metadata": said.domains,
    })
}

fn texts(image: &Image) -> Value {
    // A text that can't be read is left out: `validate` says why.
    let text = |tag| Some((tag::name(tag).to_owned(), json!(image.tag(tag).ok()??.text())));
    Value::Object(TEXTS.into_iter().filter_map(text).collect::<Map<_, _>>())
}

/// Length of the value of a tag.
fn bytes_of(image: &Image, tag: u16) -> Option<u64> {
    image.directory().get(tag).map(|entry| entry.length())
}
