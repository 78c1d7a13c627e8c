//! GDAL's `.aux.xml` beside an image.

use roxmltree::Node;

use super::metadata::{BandMetadata, Domains, Metadata, text_of, with_xml};
use super::nodata::{parse_nodata, parse_number};
use super::transform::{Affine, Gcp};
use crate::DType;

/// Entries of a colour table that are read: all values of 16 bits.
const MAX_ENTRIES: usize = 1 << 16;

/// What an `.aux.xml` says.
#[derive(Debug, Default)]
pub(crate) struct Aux {
    pub srs: Option<String>,
    pub transform: Option<Affine>,
    pub gcps: Vec<Gcp>,
    pub gcp_srs: Option<String>,
    pub metadata: Metadata,
}

impl Aux {
    /// Reads the text; what can't be read becomes a warning.
    pub fn new(xml: &str, bands: usize, dtype: DType, warnings: &mut Vec<String>) -> Self {
        let mut out = Self::default();
        let read = with_xml(xml, |root| {
            if root.tag_name().name() != "PAMDataset" {
                return Err(format!("root element {:?}", root.tag_name().name()));
            }
            for node in root.children().filter(Node::is_element) {
                out.add(node, bands, dtype);
            }
            Ok(())
        });
        if let Err(what) = read {
            warnings.push(format!(".aux.xml is not readable: {what}"));
        }
        out
    }

    fn add(&mut self, node: Node<'_, '_>, bands: usize, dtype: DType) {
        match node.tag_name().name() {
            "SRS" => self.srs = non_empty(text_of(node)),
            "GeoTransform" => self.transform = geotransform(&text_of(node)),
            "GCPList" => {
                self.gcp_srs = node
                    .attribute("Projection")
                    .map(str::to_owned)
                    .or_else(|| child(node, "SRS").map(text_of))
                    .and_then(non_empty);
                self.gcps = node.children().filter(|point| point.has_tag_name("GCP")).map(control_point).collect();
            }
            "Metadata" => add_domain(&mut self.metadata.domains, node),
            "PAMRasterBand" => {
                let number = node.attribute("band").and_then(|band| band.trim().parse::<usize>().ok());
                if let Some(index) = number.and_then(|number| number.checked_sub(1)).filter(|index| *index < bands) {
                    add_band(self.metadata.bands.entry(index).or_default(), node, dtype);
                }
            }
            _ => {}
        }
    }
}

fn child<'a, 'd>(node: Node<'a, 'd>, name: &str) -> Option<Node<'a, 'd>> {
    node.children().find(|child| child.has_tag_name(name))
}

fn non_empty(text: String) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// GDAL's order is `c a b f d e`.
fn geotransform(text: &str) -> Option<Affine> {
    let numbers: Option<Vec<f64>> = text.split(',').take(7).map(|number| number.trim().parse().ok()).collect();
    let [c, a, b, f, d, e] = numbers?[..] else { return None };
    let affine = [a, b, c, d, e, f];
    affine.iter().all(|value| value.is_finite()).then_some(affine)
}

fn control_point(node: Node<'_, '_>) -> Gcp {
    let number = |name| node.attribute(name).map_or(0.0, parse_number);
    Gcp {
        id: node.attribute("Id").unwrap_or_default().to_owned(),
        column: number("Pixel"),
        row: number("Line"),
        x: number("X"),
        y: number("Y"),
        z: number("Z"),
    }
}

fn add_domain(domains: &mut Domains, node: Node<'_, '_>) {
    let domain = node.attribute("domain").unwrap_or_default();
    // An XML domain is one document, not items.
    if node.attribute("format") == Some("xml") {
        if let Some(root) = node.first_element_child() {
            let text = &root.document().input_text()[root.range()];
            domains.entry(domain.into()).or_default().insert(domain.into(), text.into());
        }
        return;
    }
    let items = node.children().filter(|item| item.has_tag_name("MDI"));
    let items = items.filter_map(|item| Some((item.attribute("key")?.to_owned(), text_of(item))));
    domains.entry(domain.into()).or_default().extend(items);
}

fn add_band(band: &mut BandMetadata, node: Node<'_, '_>, dtype: DType) {
    for node in node.children().filter(Node::is_element) {
        let text = || text_of(node);
        match node.tag_name().name() {
            "Description" => band.description = non_empty(text()),
            "NoDataValue" => band.nodata = parse_nodata(text().trim(), dtype),
            "UnitType" => band.unit = non_empty(text()),
            "Offset" => band.offset = Some(parse_number(&text())),
            "Scale" => band.scale = Some(parse_number(&text())),
            "ColorInterp" => band.color_interp = non_empty(text()),
            "CategoryNames" => {
                let names = node.children().filter(|name| name.has_tag_name("Category"));
                band.categories = names.take(MAX_ENTRIES).map(text_of).collect();
            }
            "ColorTable" => {
                let entries = node.children().filter(|entry| entry.has_tag_name("Entry"));
                band.color_table = entries.take(MAX_ENTRIES).map(color).collect();
            }
            "Metadata" => add_domain(&mut band.domains, node),
            _ => {}
        }
    }
}

fn color(node: Node<'_, '_>) -> [u16; 4] {
    let part = |name, absent| node.attribute(name).and_then(|value| value.trim().parse().ok()).unwrap_or(absent);
    [part("c1", 0), part("c2", 0), part("c3", 0), part("c4", 255)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::Nodata;

    #[test]
    fn everything_gdal_writes() {
        let xml = r#"<PAMDataset>
          <SRS dataAxisToSRSAxisMapping="2,1">EPSG:4326</SRS>
          <GeoTransform>  1.0e+02,  2.0, 0.0,  2.0e+02, 0.0, -2.0</GeoTransform>
          <GCPList Projection="W"><GCP Id="a" Pixel="1" Line="2" X="3" Y="4" Z="5"/></GCPList>
          <Metadata><MDI key="k">v</MDI></Metadata>
          <Metadata domain="xml:X" format="xml"><r a="1"/></Metadata>
          <PAMRasterBand band="1"><Description>d</Description><NoDataValue>-1.5e1</NoDataValue><UnitType>m</UnitType>
            <Offset>3</Offset><Scale>0.5</Scale><ColorInterp>Palette</ColorInterp>
            <CategoryNames><Category>none</Category><Category>some</Category></CategoryNames>
            <ColorTable><Entry c1="1" c2="2" c3="3" c4="4"/><Entry c1="9" c2="8" c3="7"/></ColorTable>
            <Metadata><MDI key="STATISTICS_MEAN">7</MDI></Metadata></PAMRasterBand>
          <PAMRasterBand band="0"><Scale>9</Scale></PAMRasterBand><PAMRasterBand band="2"><Scale>9</Scale></PAMRasterBand>
        </PAMDataset>"#;
        let mut warnings = Vec::new();
        let aux = Aux::new(xml, 1, DType::Int16, &mut warnings);
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(aux.srs.as_deref(), Some("EPSG:4326"));
        assert_eq!(aux.transform, Some([2.0, 0.0, 100.0, 0.0, -2.0, 200.0]));
        assert_eq!(aux.gcp_srs.as_deref(), Some("W"));
        assert_eq!(aux.gcps, [Gcp { id: "a".into(), column: 1.0, row: 2.0, x: 3.0, y: 4.0, z: 5.0 }]);
        assert_eq!(aux.metadata.item("k"), Some("v"));
        assert_eq!(aux.metadata.domains["xml:X"]["xml:X"], "<r a=\"1\"/>");
        assert_eq!(aux.metadata.bands.len(), 1);
        let band = aux.metadata.band(0);
        assert_eq!(band.description.as_deref(), Some("d"));
        assert_eq!(band.nodata, Some(Nodata::Float(-15.0)));
        assert_eq!((band.scale, band.offset), (Some(0.5), Some(3.0)));
        assert_eq!(band.unit.as_deref(), Some("m"));
        assert_eq!(band.color_interp.as_deref(), Some("Palette"));
        assert_eq!(band.categories, ["none", "some"]);
        assert_eq!(band.color_table, [[1, 2, 3, 4], [9, 8, 7, 255]]);
        assert_eq!(band.item("STATISTICS_MEAN"), Some("7"));
    }

    #[test]
    fn damage_is_a_warning() {
        for xml in ["", "<PAMDataset>", "<VRTDataset/>"] {
            let mut warnings = Vec::new();
            assert!(Aux::new(xml, 1, DType::UInt8, &mut warnings).transform.is_none());
            assert_eq!(warnings.len(), 1);
        }
        let bad = "<PAMDataset><GeoTransform>1,2,3</GeoTransform></PAMDataset>";
        assert_eq!(Aux::new(bad, 1, DType::UInt8, &mut Vec::new()).transform, None);
    }
}
