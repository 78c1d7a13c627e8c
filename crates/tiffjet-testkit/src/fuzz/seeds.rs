//! Where fuzzing begins: inputs with a meaning.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use tiffjet::codec::{self, Codec, Encoded, Plain, Settings, TileFormat, Unit};
use tiffjet::geo::Sidecars;
use tiffjet::source::MemorySource;
use tiffjet::{DType, GeoTags, Image, Limits, OpenOptions, Window};

use super::{Target, codec as tiles, geo};
use crate::hostile;
use crate::matrix;
use crate::pixels::mix;

/// The largest that is worth mutating.
const LARGEST: usize = 16 << 10;

/// Made here: files of the matrix, hostile ones among them, and tiles of every codec that is written.
pub fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let mut all = match target.name {
        "open" | "read" | "window" | "convert" => files().iter().flat_map(|file| as_input(target.name, file)).collect(),
        "geo" => said(),
        name => codec::CODECS
            .iter()
            .filter(|codec| name == format!("codec_{}", codec.name().replace('-', "_")))
            .flat_map(|codec| encoded(*codec))
            .collect(),
    };
    let of_files: Vec<Vec<u8>> = files().iter().flat_map(|file| extract(target, file)).collect();
    all.extend(of_files);
    all.retain(|seed| seed.len() <= LARGEST);
    all.sort();
    all.dedup();
    all
}

/// What a file is for a target of files, with the bytes before it that choose what is done.
fn as_input(name: &str, file: &[u8]) -> Vec<Vec<u8>> {
    let choice = mix(file.len() as u64 ^ u64::from(file.last().copied().unwrap_or(0)) << 32).to_le_bytes();
    match name {
        "window" => vec![[&[0, 3, 0, 5, 0, 9, 0, 7, 0, choice[0]][..], file].concat()],
        "convert" => vec![[&choice[..4], file].concat()],
        _ => vec![file.to_vec()],
    }
}

/// Some of every kind.
fn files() -> &'static [Vec<u8>] {
    static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
        let valid = matrix::oddities().chain(matrix::grid().step_by(61)).map(|case| case.file);
        let bad = hostile::cases().into_iter().map(|case| case.bytes);
        valid.chain(bad).filter(|file| (1..=LARGEST).contains(&file.len())).collect()
    });
    &FILES
}

/// What a file holds for a target: itself, its georeferencing, or the tiles of a codec.
pub fn extract(target: &Target, file: &[u8]) -> Vec<Vec<u8>> {
    let source = Arc::new(MemorySource::new(file.to_vec()));
    let limits = Limits { tile_bytes: 1 << 20, output_bytes: 1 << 24, ..Limits::default() };
    let options = OpenOptions { limits, ..OpenOptions::default() };
    let Ok(image) = Image::from_source(source, &options) else { return Vec::new() };
    if target.name == "geo" {
        let tags = image.geo_tags();
        let bare = tags == GeoTags::default();
        let said = geo::describe(&tags, &Sidecars::default(), "", image.shape()[0], image.dtype());
        return if bare { Vec::new() } else { vec![said] };
    }
    let mut found = Vec::new();
    for (number, level) in image.levels().iter().enumerate() {
        let codec = level.layout.codec.name();
        if target.name != format!("codec_{}", codec.replace('-', "_")) {
            continue;
        }
        // A few tiles of each level: a plan of all may be large.
        let rows = Some(0..level.layout.height.min(64));
        let Ok(plan) = image.plan(&Window { level: number, rows, ..Window::default() }) else { continue };
        for tile in plan.tiles().iter().take(4) {
            let Some(bytes) = file.get(tile.range.start as usize..tile.range.end as usize) else { continue };
            let mut bytes = bytes.to_vec();
            if level.layout.reversed {
                codec::reverse_bits(&mut bytes);
            }
            let format = &level.layout.format;
            found.extend(tiles::describe(&Encoded { bytes: &bytes, rows: tile.rows, index: 0, format }));
        }
    }
    found.retain(|seed| seed.len() <= LARGEST);
    found
}

/// The same for all files of a folder, and for the targets of files those themselves.
pub fn of_corpus(target: &Target, folder: &Path) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let Ok(file) = std::fs::read(&path) else { continue };
            if matches!(target.name, "open" | "read" | "window" | "convert") {
                found.extend(as_input(target.name, &file));
            } else {
                found.extend(extract(target, &file));
            }
        }
    }
    found.retain(|seed| seed.len() <= LARGEST);
    found.sort();
    found.dedup();
    found
}

/// Texts and keys that are right.
fn said() -> Vec<Vec<u8>> {
    const XML: &str = "<GDALMetadata><Item name=\"k\">v</Item><Item name=\"SCALE\" sample=\"0\" role=\"scale\">2</Item>\
        <Item name=\"STATISTICS_MEAN\" sample=\"0\">1.5</Item><Item name=\"d\" domain=\"IMAGERY\">&amp;&#65;</Item></GDALMetadata>";
    const AUX: &str = "<PAMDataset><SRS>EPSG:32631</SRS><GeoTransform>5, 1, 0, 6, 0, -1</GeoTransform>\
        <GCPList Projection=\"EPSG:4326\"><GCP Id=\"1\" Pixel=\"0\" Line=\"0\" X=\"1\" Y=\"2\" Z=\"3\"/></GCPList>\
        <Metadata><MDI key=\"k\">aux</MDI></Metadata><PAMRasterBand band=\"1\"><NoDataValue>9</NoDataValue>\
        <Description>d</Description><Scale>2</Scale><Offset>1</Offset></PAMRasterBand></PAMDataset>";
    let place = GeoTags {
        pixel_scale: vec![1.0, 1.0, 0.0],
        tiepoints: vec![0.0, 0.0, 0.0, 10.0, 20.0, 0.0],
        key_directory: vec![1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32633],
        gdal_metadata: Some(XML.into()),
        gdal_nodata: Some("-9999".into()),
        ..GeoTags::default()
    };
    let user = GeoTags {
        transformation: vec![1.0, 0.5, 0.0, 3.0, 0.5, -1.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
        #[rustfmt::skip]
        key_directory: vec![
            1, 1, 0, 12, 1024, 0, 1, 1, 1025, 0, 1, 2, 1026, 34737, 6, 0, 2048, 0, 1, 4326, 2054, 0, 1, 9102, 2057, 34736, 1, 0,
            2059, 34736, 1, 1, 3072, 0, 1, 32767, 3074, 0, 1, 32767, 3075, 0, 1, 8, 3076, 0, 1, 9001, 3078, 34736, 1, 2,
        ],
        double_params: vec![6_378_137.0, 298.257_223_563, 45.0, 46.0, 0.0],
        ascii_params: b"place|\0".to_vec(),
        rpc: (0..92).map(f64::from).collect(),
        ..GeoTags::default()
    };
    let beside = Sidecars { aux_xml: Some(AUX.into()), world_file: Some("2\n0\n0\n-2\n101\n199\n".into()) };
    let alone = Sidecars { aux_xml: None, world_file: Some("2\n0\n0\n-2\n101\n199\n".into()) };
    let mut all = vec![
        geo::describe(&place, &Sidecars::default(), "EPSG:4326", 1, DType::Float32),
        geo::describe(&user, &beside, "", 3, DType::UInt8),
        geo::describe(&GeoTags::default(), &alone, "", 1, DType::Int16),
    ];
    // WKT of every kind of CRS, as it is written here.
    for code in [4326, 4979, 4978, 32633, 3857, 2056, 27700, 5514, 3855, 5773, 7415, 9518, 2193, 3031, 6933, 2263] {
        let Some(wkt) = tiffjet::geo::Crs::from_epsg(code).to_wkt() else { continue };
        all.push(geo::describe(&GeoTags::default(), &Sidecars::default(), &wkt, 1, DType::UInt8));
        let crs = Some(tiffjet::geo::Crs::from_epsg(code));
        let written = tiffjet::geo::Geo { crs, transform: Some([1.0, 0.0, 2.0, 0.0, -1.0, 3.0]), ..Default::default() };
        all.extend(written.to_tags().map(|tags| geo::describe(&tags, &Sidecars::default(), "", 1, DType::UInt8)));
    }
    all
}

/// Small pictures in every format that the codec encodes.
fn encoded(codec: &dyn Codec) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for &number in codec.compression() {
        for dtype in DType::ALL {
            for samples in [1, 2, 3, 4] {
                for photometric in [1, 2, 6] {
                    found.extend(encoded_as(codec, number, dtype, samples, photometric));
                }
            }
        }
    }
    found
}

fn encoded_as(codec: &dyn Codec, number: u16, dtype: DType, samples: u16, photometric: u16) -> Vec<Vec<u8>> {
    let mut format = TileFormat { photometric, ..TileFormat::new(number, (24, 16), samples, dtype) };
    if photometric == 6 {
        if number != 7 || samples != 3 {
            return Vec::new();
        }
        format.subsampling = (2, 2);
    }
    let row = if codec.unit() == Unit::Bytes { format.row_bytes() } else { format.row_samples_bytes() };
    let size = dtype.size();
    let plain: Vec<u8> =
        (0..row * 16).map(|i| if i % size == 0 { (i / size / 3) as u8 } else { (i / row) as u8 & 1 }).collect();
    let mut found = Vec::new();
    for additional in 0..if codec.name() == "lerc" { 3 } else { 1 } {
        for quality in [None, Some(60)] {
            format.lerc = [4, additional];
            let settings = Settings { quality, ..Settings::default() };
            let mut format = format.clone();
            let mut bytes = Vec::new();
            let made = codec.prepare(&mut format, &settings).is_ok()
                && codec
                    .encode(&Plain { bytes: &plain, rows: 16, format: &format, settings: &settings }, &mut bytes)
                    .is_ok();
            if made {
                found.extend(tiles::describe(&Encoded { bytes: &bytes, rows: 16, index: 0, format: &format }));
            }
        }
    }
    found
}
