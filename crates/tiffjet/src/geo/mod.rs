//! Georeferencing: GeoKeys to CRS and back, transform, nodata, GDAL metadata, GCPs. Carries, never reprojects.
//!
//! All of it is pure: the reader hands over the tags and the texts of the files beside the image, and gets a [`Geo`].
//! Damage in them is a warning, never an error: the pixels can still be read.

mod crs;
mod definition;
mod keys;
mod metadata;
mod method;
mod nodata;
mod registry;
mod sidecar;
mod transform;
mod wkt;

pub use crs::Crs;
pub use metadata::{BandMetadata, Domains, Items, Metadata, Statistics};
pub use nodata::{Nodata, format_nodata, parse_nodata};
pub use registry::{CrsKind, epsg_kind};
pub use transform::{Affine, Gcp, Rpc};

use crate::DType;
use keys::{KeyWriter, Keys, key};
use sidecar::Aux;

/// The georeferencing tags of a directory, as written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GeoTags {
    /// ModelPixelScale, 33550.
    pub pixel_scale: Vec<f64>,
    /// ModelTiepoint, 33922.
    pub tiepoints: Vec<f64>,
    /// ModelTransformation, 34264.
    pub transformation: Vec<f64>,
    /// GeoKeyDirectory, 34735. Readers take it only where its type is SHORT.
    pub key_directory: Vec<u16>,
    /// GeoDoubleParams, 34736.
    pub double_params: Vec<f64>,
    /// GeoAsciiParams, 34737: bytes, as the keys count them.
    pub ascii_params: Vec<u8>,
    /// GDAL_METADATA, 42112.
    pub gdal_metadata: Option<String>,
    /// GDAL_NODATA, 42113.
    pub gdal_nodata: Option<String>,
    /// RPCCoefficient, 50844.
    pub rpc: Vec<f64>,
}

/// The texts of files beside an image.
#[derive(Debug, Clone, Default)]
pub struct Sidecars {
    /// `image.tif.aux.xml`.
    pub aux_xml: Option<String>,
    /// `image.tfw`, `image.tifw` or `image.wld`.
    pub world_file: Option<String>,
}

/// Bands that are told to hold heights. More of them than this is a hostile file.
const MAX_HEIGHT_BANDS: usize = 1 << 12;

/// Where an image lies and what its values mean.
#[derive(Debug, Clone, Default)]
pub struct Geo {
    /// Pixel to map, of pixel corners.
    pub transform: Option<Affine>,
    /// Control points, where there is no transform.
    pub gcps: Vec<Gcp>,
    /// CRS of the transform.
    pub crs: Option<Crs>,
    /// CRS of the control points.
    pub gcp_crs: Option<Crs>,
    /// GTRasterType: `Some(true)` where pixels are points, `None` where the file does not say.
    pub pixel_is_point: Option<bool>,
    /// Camera model.
    pub rpc: Option<Rpc>,
    /// Items, and what is said of each band.
    pub metadata: Metadata,
    /// Nodata of the tag, for all bands. See [`Geo::nodata`].
    pub tag_nodata: Option<Nodata>,
    /// What was damaged or doubtful.
    pub warnings: Vec<String>,
}

impl Geo {
    /// Reads everything. What a side-car says is stronger than the tags; a world file only fills a gap.
    pub fn new(tags: &GeoTags, sidecars: &Sidecars, bands: usize, dtype: DType) -> Self {
        let mut warnings = Vec::new();
        let keys = Keys::new(tags, &mut warnings);
        let pixel_is_point = keys.short(key::RASTER_TYPE).map(|raster| raster == 2);
        let (transform, gcps) = transform::from_tags(tags, pixel_is_point == Some(true), &mut warnings);
        let place = crs::from_keys(&keys, &mut warnings);
        let (crs, gcp_crs) = if gcps.is_empty() { (place.crs, None) } else { (None, place.crs) };
        let xml = tags.gdal_metadata.as_deref().filter(|xml| !xml.trim_matches(['\0', ' ']).is_empty());
        let mut geo = Self {
            transform,
            gcps,
            crs,
            gcp_crs,
            pixel_is_point,
            rpc: Rpc::from_tag(&tags.rpc),
            metadata: xml.map(|xml| Metadata::from_tag(xml, bands, &mut warnings)).unwrap_or_default(),
            tag_nodata: tags.gdal_nodata.as_deref().and_then(|text| parse_nodata(text, dtype)),
            warnings,
        };
        geo.add_raster_type();
        if let Some(unit) = place.vertical_unit {
            geo.add_unit(&unit, bands);
        }
        geo.add_height_scale(tags, bands);
        let placed = geo.transform.is_some() || !geo.gcps.is_empty();
        if let Some(xml) = &sidecars.aux_xml {
            let aux = Aux::new(xml, bands, dtype, &mut geo.warnings);
            geo.overrule(aux);
        }
        if let (None, false, Some(text)) = (geo.transform, placed, &sidecars.world_file) {
            geo.transform = transform::from_world_file(text, &mut geo.warnings);
        }
        geo
    }

    /// Nodata of a band, from 0.
    pub fn nodata(&self, band: usize) -> Option<Nodata> {
        self.metadata.band(band).nodata.or(self.tag_nodata)
    }

    fn add_raster_type(&mut self) {
        if let Some(point) = self.pixel_is_point {
            let value = if point { "Point" } else { "Area" };
            let items = self.metadata.domains.entry(String::new()).or_default();
            items.insert("AREA_OR_POINT".into(), value.into());
        }
    }

    /// Heights have the unit of the vertical CRS unless the metadata says otherwise.
    fn add_unit(&mut self, unit: &str, bands: usize) {
        for band in 0..bands.min(MAX_HEIGHT_BANDS) {
            self.metadata.bands.entry(band).or_default().unit.get_or_insert_with(|| unit.to_owned());
        }
    }

    /// The third axis of scale and tie point tells heights of pixel values, where the CRS has heights.
    fn add_height_scale(&mut self, tags: &GeoTags, bands: usize) {
        let (&[_, _, scale, ..], &[_, _, value, _, _, height, ..]) =
            (tags.pixel_scale.as_slice(), tags.tiepoints.as_slice())
        else {
            return;
        };
        let offset = height - value * scale;
        let compound = self.crs.as_ref().is_some_and(|crs| crs.kind == Some(CrsKind::Compound));
        // Most writers put 0: no scale, rather than a flat world.
        if !compound || scale == 0.0 || !scale.is_finite() || !offset.is_finite() || (scale, offset) == (1.0, 0.0) {
            return;
        }
        for band in 0..bands.min(MAX_HEIGHT_BANDS) {
            let band = self.metadata.bands.entry(band).or_default();
            if band.scale.is_none() && band.offset.is_none() {
                (band.scale, band.offset) = (Some(scale), Some(offset));
            }
        }
    }

    fn overrule(&mut self, aux: Aux) {
        if let Some(text) = &aux.srs {
            match Crs::from_text(text) {
                Some(crs) => self.crs = Some(crs),
                None => self.warnings.push(".aux.xml has a CRS that is not readable".into()),
            }
        }
        if let Some(transform) = aux.transform {
            self.transform = Some(transform);
            self.gcps.clear();
            self.crs = self.crs.take().or(self.gcp_crs.take());
        }
        if !aux.gcps.is_empty() {
            self.gcps = aux.gcps;
            self.gcp_crs = aux.gcp_srs.as_deref().and_then(Crs::from_text).or(self.gcp_crs.take());
        }
        self.metadata.merge(aux.metadata);
    }

    /// The tags that say all this. `Err` names what TIFF tags can't say.
    pub fn to_tags(&self) -> Result<GeoTags, String> {
        let mut tags = GeoTags {
            gdal_metadata: self.metadata.to_tag(),
            // One tag for all bands: GDAL knows no other way either.
            gdal_nodata: self.nodata(0).map(format_nodata),
            rpc: self.rpc.as_ref().map(Rpc::to_tag).unwrap_or_default(),
            ..GeoTags::default()
        };
        let point = self.pixel_is_point == Some(true);
        transform::to_tags(self.transform, &self.gcps, point, &mut tags);
        let crs = self.crs.as_ref().or(self.gcp_crs.as_ref());
        if crs.is_none() && !point {
            return Ok(tags);
        }
        let mut keys = KeyWriter::default();
        keys.short(key::RASTER_TYPE, if point { 2 } else { 1 });
        let mut minor = 0;
        if let Some(crs) = crs {
            let written = crs::to_keys(crs, &mut keys);
            if !written.whole {
                return Err(format!("GeoTIFF has no way to say the CRS {:?} alone", crs.name));
            }
            minor = written.minor;
        }
        keys.finish(minor, &mut tags);
        Ok(tags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags() -> GeoTags {
        GeoTags {
            pixel_scale: vec![1.0, 1.0, 0.0],
            tiepoints: vec![0.0, 0.0, 0.0, 10.0, 20.0, 0.0],
            key_directory: vec![1, 1, 0, 3, 1024, 0, 1, 2, 1025, 0, 1, 1, 2048, 0, 1, 4326],
            gdal_nodata: Some("7\0".into()),
            gdal_metadata: Some("<GDALMetadata><Item name=\"k\">tag</Item></GDALMetadata>\0".into()),
            ..GeoTags::default()
        }
    }

    fn read(tags: &GeoTags, aux_xml: Option<&str>, world_file: Option<&str>) -> Geo {
        let sidecars = Sidecars { aux_xml: aux_xml.map(Into::into), world_file: world_file.map(Into::into) };
        Geo::new(tags, &sidecars, 1, DType::UInt8)
    }

    const WORLD: &str = "2\n0\n0\n-2\n101\n199\n";
    const AUX: &str = "<PAMDataset><SRS>EPSG:32631</SRS><GeoTransform>5, 1, 0, 6, 0, -1</GeoTransform>\
        <Metadata><MDI key=\"k\">aux</MDI></Metadata>\
        <PAMRasterBand band=\"1\"><NoDataValue>9</NoDataValue></PAMRasterBand></PAMDataset>";

    #[test]
    fn tags_alone() {
        let geo = read(&tags(), None, None);
        assert_eq!(geo.transform, Some([1.0, 0.0, 10.0, 0.0, -1.0, 20.0]));
        assert_eq!(geo.crs.as_ref().unwrap().epsg, Some(4326));
        assert_eq!(geo.nodata(0), Some(Nodata::Float(7.0)));
        assert_eq!(geo.metadata.item("k"), Some("tag"));
        assert_eq!(geo.metadata.item("AREA_OR_POINT"), Some("Area"));
        assert!(geo.warnings.is_empty(), "{:?}", geo.warnings);
    }

    #[test]
    fn aux_xml_is_stronger_than_the_tags() {
        let geo = read(&tags(), Some(AUX), Some(WORLD));
        assert_eq!(geo.transform, Some([1.0, 0.0, 5.0, 0.0, -1.0, 6.0]));
        assert_eq!(geo.crs.as_ref().unwrap().epsg, Some(32631));
        assert_eq!(geo.nodata(0), Some(Nodata::Float(9.0)));
        assert_eq!(geo.metadata.item("k"), Some("aux"));
    }

    #[test]
    fn a_world_file_only_fills_a_gap() {
        assert_eq!(read(&tags(), None, Some(WORLD)).transform, Some([1.0, 0.0, 10.0, 0.0, -1.0, 20.0]));
        assert_eq!(read(&GeoTags::default(), None, Some(WORLD)).transform, Some([2.0, 0.0, 100.0, 0.0, -2.0, 200.0]));
    }

    #[test]
    fn control_points_have_a_crs_of_their_own() {
        let mut tags = tags();
        tags.pixel_scale.clear();
        let geo = read(&tags, None, None);
        assert_eq!((geo.transform, geo.crs, geo.gcps.len()), (None, None, 1));
        assert_eq!(geo.gcp_crs.unwrap().epsg, Some(4326));
    }

    #[test]
    fn what_is_read_can_be_written_and_read_again() {
        let mut geo = read(&tags(), Some(AUX), None);
        geo.pixel_is_point = Some(true);
        geo.metadata.bands.entry(0).or_default().scale = Some(0.1);
        let back = read(&geo.to_tags().unwrap(), None, None);
        assert_eq!(back.transform, geo.transform);
        assert_eq!(back.crs.unwrap().epsg, Some(32631));
        assert_eq!(back.pixel_is_point, Some(true));
        assert_eq!(back.tag_nodata, Some(Nodata::Float(9.0)));
        assert_eq!(back.metadata.band(0).scale, Some(0.1));
        assert!(back.warnings.is_empty(), "{:?}", back.warnings);
    }

    #[test]
    fn a_third_axis_scales_heights() {
        let mut tags = tags();
        (tags.pixel_scale[2], tags.tiepoints[2], tags.tiepoints[5]) = (2.0, 3.0, 5.0);
        assert_eq!(read(&tags, None, None).metadata.band(0).scale, None);
        tags.key_directory = vec![1, 1, 1, 3, 1024, 0, 1, 2, 2048, 0, 1, 4326, 4096, 0, 1, 3855];
        let geo = read(&tags, None, None);
        assert_eq!((geo.metadata.band(0).scale, geo.metadata.band(0).offset), (Some(2.0), Some(-1.0)));
        tags.pixel_scale[2] = 0.0;
        assert_eq!(read(&tags, None, None).metadata.band(0).scale, None);
    }

    #[test]
    fn heights_alone_are_no_place() {
        let geo = Geo { crs: Some(Crs::from_epsg(3855)), ..Geo::default() };
        assert!(geo.to_tags().unwrap_err().contains("EGM2008"));
    }

    #[test]
    fn a_million_bands_cost_nothing() {
        let mut tags = tags();
        tags.key_directory = vec![1, 1, 1, 3, 1024, 0, 1, 2, 2048, 0, 1, 4326, 4096, 0, 1, 3855];
        let geo = Geo::new(&tags, &Sidecars::default(), usize::MAX, DType::UInt8);
        assert!(geo.metadata.bands.len() <= 1 << 12);
        assert_eq!(geo.metadata.band(0).unit.as_deref(), Some("metre"));
        assert_eq!(geo.nodata(usize::MAX), Some(Nodata::Float(7.0)));
    }
}
