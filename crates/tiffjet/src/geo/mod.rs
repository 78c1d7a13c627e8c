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
        if let Some(xml) = &sidecars.aux_xml {
            let aux = Aux::new(xml, bands, dtype, &mut geo.warnings);
            geo.overrule(aux);
        }
        if let (None, true, Some(text)) = (geo.transform, geo.gcps.is_empty(), &sidecars.world_file) {
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
        // A million bands of one height unit is a hostile file; the first thousands are told.
        for band in 0..bands.min(1 << 12) {
            self.metadata.bands.entry(band).or_default().unit.get_or_insert_with(|| unit.to_owned());
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
            gdal_nodata: self.tag_nodata.map(format_nodata),
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
