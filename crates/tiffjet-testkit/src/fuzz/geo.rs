//! GeoKeys, transforms, texts and XML.

use tiffjet::geo::{Crs, Geo, Sidecars};
use tiffjet::{DType, GeoTags};

use super::Input;

/// What a file and those beside it say of its place.
struct Said {
    tags: GeoTags,
    sidecars: Sidecars,
    wkt: String,
    bands: usize,
    dtype: DType,
}

fn parse(bytes: &[u8]) -> Said {
    let mut input = Input(bytes);
    let dtype = DType::ALL[usize::from(input.byte()) % DType::ALL.len()];
    let bands = usize::from(input.byte()) + 1;
    let mut part = || {
        let length = usize::from(input.short());
        input.take(length)
    };
    let shorts = |bytes: &[u8]| bytes.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b)).collect();
    let doubles = |bytes: &[u8]| bytes.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let given = |bytes: &[u8]| (!bytes.is_empty()).then(|| text(bytes));
    let tags = GeoTags {
        key_directory: shorts(part()),
        double_params: doubles(part()),
        ascii_params: part().to_vec(),
        pixel_scale: doubles(part()),
        tiepoints: doubles(part()),
        transformation: doubles(part()),
        rpc: doubles(part()),
        gdal_metadata: given(part()),
        gdal_nodata: given(part()),
    };
    let sidecars = Sidecars { aux_xml: given(part()), world_file: given(part()) };
    Said { tags, sidecars, wkt: text(part()), bands, dtype }
}

/// The bytes that [`parse`] understands so.
pub fn describe(tags: &GeoTags, sidecars: &Sidecars, wkt: &str, bands: usize, dtype: DType) -> Vec<u8> {
    let place = DType::ALL.iter().position(|&t| t == dtype).unwrap_or(0);
    let mut out = vec![place as u8, (bands.clamp(1, 256) - 1) as u8];
    let mut part = |bytes: &[u8]| {
        let bytes = &bytes[..bytes.len().min(u16::MAX.into())];
        out.extend((bytes.len() as u16).to_le_bytes());
        out.extend(bytes);
    };
    let doubles = |values: &[f64]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let text = |text: &Option<String>| text.clone().unwrap_or_default().into_bytes();
    part(&tags.key_directory.iter().flat_map(|k| k.to_le_bytes()).collect::<Vec<u8>>());
    part(&doubles(&tags.double_params));
    part(&tags.ascii_params);
    part(&doubles(&tags.pixel_scale));
    part(&doubles(&tags.tiepoints));
    part(&doubles(&tags.transformation));
    part(&doubles(&tags.rpc));
    part(&text(&tags.gdal_metadata));
    part(&text(&tags.gdal_nodata));
    part(&text(&sidecars.aux_xml));
    part(&text(&sidecars.world_file));
    part(wkt.as_bytes());
    out
}

/// Whatever is said is understood or passed over; and what is written of it can be read again.
pub fn run(bytes: &[u8]) {
    let Said { tags, sidecars, wkt, bands, dtype } = parse(bytes);
    let geo = Geo::new(&tags, &sidecars, bands, dtype);
    for band in [0, bands - 1, bands] {
        let nodata = geo.nodata(band);
        let _ = nodata.and_then(|nodata| nodata.bytes(dtype));
    }
    if let Ok(tags) = geo.to_tags() {
        let again = Geo::new(&tags, &Sidecars::default(), bands, dtype);
        let placed = |geo: &Geo| geo.transform.is_some_and(|t| t.iter().all(|n| n.is_finite()));
        assert!(!placed(&geo) || again.transform.is_some(), "{geo:?} became {again:?}");
    }
    for crs in [Crs::from_text(&wkt), geo.crs, geo.gcp_crs].into_iter().flatten() {
        let _ = crs.to_wkt().map(|text| Crs::from_text(&text));
    }
}
