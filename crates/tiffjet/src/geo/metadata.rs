//! GDAL's metadata: items by domain, and what it says of each band.

use std::collections::BTreeMap;

use roxmltree::{Document, Node, ParsingOptions};

use super::nodata::{Nodata, format_number, parse_number};

/// The longest XML text that is read.
const MAX_XML: usize = 16 << 20;
/// The most nodes of an XML text.
const MAX_NODES: u32 = 500_000;
/// The deepest XML text that is read; GDAL writes three levels.
const MAX_DEPTH: usize = 64;

/// Name to text.
pub type Items = BTreeMap<String, String>;
/// Domain to items; the default domain is `""`.
pub type Domains = BTreeMap<String, Items>;

/// What a file says about itself beside pixels and place.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// Items of the image by domain.
    pub domains: Domains,
    /// Bands that say something, from 0. See [`Metadata::band`].
    pub bands: BTreeMap<usize, BandMetadata>,
}

/// What a file says about one band.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BandMetadata {
    /// `true value = pixel · scale + offset`; 1 where absent.
    pub scale: Option<f64>,
    /// See `scale`; 0 where absent.
    pub offset: Option<f64>,
    /// Unit of the true values.
    pub unit: Option<String>,
    /// Name of the band.
    pub description: Option<String>,
    /// Meaning of the band in GDAL's words: `Red`, `Gray`, `Undefined`, …
    pub color_interp: Option<String>,
    /// Nodata of a side-car file, stronger than the tag.
    pub nodata: Option<Nodata>,
    /// Red, green, blue, alpha by pixel value, from a side-car file.
    pub color_table: Vec<[u16; 4]>,
    /// Names of classes by pixel value, from a side-car file.
    pub categories: Vec<String>,
    /// Items by domain.
    pub domains: Domains,
}

/// Statistics of a band as GDAL has written them.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub struct Statistics {
    pub minimum: f64,
    pub maximum: f64,
    pub mean: f64,
    pub stddev: f64,
}

static EMPTY_BAND: BandMetadata = BandMetadata {
    scale: None,
    offset: None,
    unit: None,
    description: None,
    color_interp: None,
    nodata: None,
    color_table: Vec::new(),
    categories: Vec::new(),
    domains: BTreeMap::new(),
};

impl BandMetadata {
    /// An item of the default domain.
    pub fn item(&self, name: &str) -> Option<&str> {
        self.domains.get("")?.get(name).map(String::as_str)
    }

    /// The statistics, when all four are there.
    pub fn statistics(&self) -> Option<Statistics> {
        let number = |name| self.item(name)?.trim().parse().ok();
        Some(Statistics {
            minimum: number("STATISTICS_MINIMUM")?,
            maximum: number("STATISTICS_MAXIMUM")?,
            mean: number("STATISTICS_MEAN")?,
            stddev: number("STATISTICS_STDDEV")?,
        })
    }
}

impl Metadata {
    /// What is said of a band, from 0; nothing is said of most.
    pub fn band(&self, index: usize) -> &BandMetadata {
        self.bands.get(&index).unwrap_or(&EMPTY_BAND)
    }

    /// An item of the default domain.
    pub fn item(&self, name: &str) -> Option<&str> {
        self.domains.get("")?.get(name).map(String::as_str)
    }

    /// Reads the XML of tag 42112. Items of bands that are not there are left out.
    pub(crate) fn from_tag(xml: &str, bands: usize, warnings: &mut Vec<String>) -> Self {
        let mut out = Self::default();
        let read = with_xml(xml, |root| {
            if root.tag_name().name() != "GDALMetadata" {
                return Err(format!("root element {:?}", root.tag_name().name()));
            }
            for item in root.children().filter(|node| node.has_tag_name("Item")) {
                out.add_item(item, bands);
            }
            Ok(())
        });
        if let Err(what) = read {
            warnings.push(format!("GDAL metadata is not readable: {what}"));
        }
        out
    }

    fn add_item(&mut self, item: Node<'_, '_>, bands: usize) {
        let Some(name) = item.attribute("name") else { return };
        // GDAL escapes values twice, once by hand and once as XML.
        let value = unescape(text_of(item));
        if value.is_empty() {
            return;
        }
        let domain = item.attribute("domain").unwrap_or_default();
        let Some(sample) = item.attribute("sample") else {
            self.domains.entry(domain.into()).or_default().insert(name.into(), value);
            return;
        };
        let Some(sample) = sample.trim().parse::<usize>().ok().filter(|sample| *sample < bands) else { return };
        let band = self.bands.entry(sample).or_default();
        match item.attribute("role").unwrap_or_default() {
            "scale" => band.scale = Some(parse_number(&value)),
            "offset" => band.offset = Some(parse_number(&value)),
            "unittype" => band.unit = Some(value),
            "description" => band.description = Some(value),
            "colorinterp" => band.color_interp = Some(value),
            _ => {
                band.domains.entry(domain.into()).or_default().insert(name.into(), value);
            }
        }
    }

    /// The XML of tag 42112; `None` when there is nothing to say.
    pub fn to_tag(&self) -> Option<String> {
        let mut out = String::new();
        for (domain, items) in &self.domains {
            for (name, value) in items {
                // The raster type is a GeoKey, the image structure is the TIFF itself.
                if domain == "IMAGE_STRUCTURE" || (domain.is_empty() && name == "AREA_OR_POINT") {
                    continue;
                }
                write_item(&mut out, name, None, None, domain, value);
            }
        }
        for (&index, band) in &self.bands {
            for (domain, items) in &band.domains {
                for (name, value) in items {
                    write_item(&mut out, name, Some(index), None, domain, value);
                }
            }
            let number = |value: Option<f64>| value.map(format_number);
            for (role, value) in [
                ("offset", number(band.offset)),
                ("scale", number(band.scale)),
                ("unittype", band.unit.clone()),
                ("description", band.description.clone()),
                ("colorinterp", band.color_interp.clone()),
            ] {
                if let Some(value) = value {
                    write_item(&mut out, &role.to_uppercase(), Some(index), Some(role), "", &value);
                }
            }
        }
        (!out.is_empty()).then(|| format!("<GDALMetadata>\n{out}</GDALMetadata>\n"))
    }

    /// Lets `stronger` overrule.
    pub(crate) fn merge(&mut self, stronger: Self) {
        merge_domains(&mut self.domains, stronger.domains);
        for (index, band) in stronger.bands {
            let own = self.bands.entry(index).or_default();
            own.scale = band.scale.or(own.scale);
            own.offset = band.offset.or(own.offset);
            own.nodata = band.nodata.or(own.nodata);
            own.unit = band.unit.or(own.unit.take());
            own.description = band.description.or(own.description.take());
            own.color_interp = band.color_interp.or(own.color_interp.take());
            if !band.color_table.is_empty() {
                own.color_table = band.color_table;
            }
            if !band.categories.is_empty() {
                own.categories = band.categories;
            }
            merge_domains(&mut own.domains, band.domains);
        }
    }
}

fn merge_domains(own: &mut Domains, stronger: Domains) {
    for (domain, items) in stronger {
        own.entry(domain).or_default().extend(items);
    }
}

fn write_item(out: &mut String, name: &str, sample: Option<usize>, role: Option<&str>, domain: &str, value: &str) {
    out.push_str("  <Item name=\"");
    escape(out, name);
    out.push('"');
    if let Some(sample) = sample {
        out.push_str(&format!(" sample=\"{sample}\""));
    }
    if let Some(role) = role {
        out.push_str(&format!(" role=\"{role}\""));
    }
    if !domain.is_empty() {
        out.push_str(" domain=\"");
        escape(out, domain);
        out.push('"');
    }
    out.push('>');
    let mut escaped = String::with_capacity(value.len());
    escape(&mut escaped, value);
    escape(out, &escaped);
    out.push_str("</Item>\n");
}

/// Escapes for text and attributes; characters that XML can't carry at all are dropped.
fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' => out.push(c),
            '\r' => out.push_str("&#13;"),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => {}
            _ => out.push(c),
        }
    }
}

/// Undoes [`escape`]; what is no entity stays as it is.
fn unescape(text: String) -> String {
    if !text.contains('&') {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        // The longest entity is `&#x10ffff;`.
        let end = rest.bytes().take(10).position(|byte| byte == b';');
        match end.and_then(|end| Some((entity(&rest[1..end])?, end))) {
            Some((c, end)) => {
                out.push(c);
                rest = &rest[end + 1..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn entity(name: &str) -> Option<char> {
    Some(match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
    })
}

/// All text inside a node.
pub(crate) fn text_of(node: Node<'_, '_>) -> String {
    node.children().filter(Node::is_text).filter_map(|text| text.text()).collect()
}

/// Parses XML within limits and hands over its root.
pub(crate) fn with_xml<T>(xml: &str, read: impl FnOnce(Node<'_, '_>) -> Result<T, String>) -> Result<T, String> {
    let xml = xml.split('\0').next().unwrap_or_default();
    let xml = xml.trim_start_matches('\u{feff}').trim();
    if xml.len() > MAX_XML {
        return Err(format!("{} bytes of XML, at most {MAX_XML} are read", xml.len()));
    }
    if depth(xml.as_bytes()) > MAX_DEPTH {
        return Err(format!("XML deeper than {MAX_DEPTH} levels"));
    }
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(xml, options).map_err(|error| error.to_string())?;
    read(document.root_element())
}

/// An upper bound of the nesting: the parser works recursively, so it must not see a deep text.
fn depth(xml: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0usize, 0usize);
    for pair in xml.windows(2) {
        match pair {
            [b'<', b'/'] | [b'/', b'>'] => depth = depth.saturating_sub(1),
            [b'<', b'!' | b'?'] => {}
            [b'<', _] => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(xml: &str) -> (Metadata, Vec<String>) {
        let mut warnings = Vec::new();
        (Metadata::from_tag(xml, 2, &mut warnings), warnings)
    }

    #[test]
    fn items_roles_and_domains() {
        let (m, warnings) = read(
            "\u{feff}\n <GDALMetadata><Item name=\"a\">&#233;&amp;&lt;</Item><Item name=\"b\" domain=\"D\"><![CDATA[<x>]]></Item>\
             <Item name=\"SCALE\" sample=\"0\" role=\"scale\"> 2 </Item><Item name=\"OFFSET\" sample=\"0\" role=\"offset\">-1</Item>\
             <Item name=\"DESCRIPTION\" sample=\"1\" role=\"description\">red</Item><Item name=\"UNITTYPE\" sample=\"1\" role=\"unittype\">m</Item>\
             <Item name=\"q\" sample=\"1\">z</Item><Item name=\"q\" sample=\"2\">no such band</Item></GDALMetadata>\0",
        );
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(m.item("a"), Some("é&<"));
        assert_eq!(m.domains["D"]["b"], "<x>");
        assert_eq!((m.band(0).scale, m.band(0).offset), (Some(2.0), Some(-1.0)));
        assert_eq!(m.band(1).description.as_deref(), Some("red"));
        assert_eq!(m.band(1).unit.as_deref(), Some("m"));
        assert_eq!(m.band(1).item("q"), Some("z"));
        assert_eq!(m.band(2), &BandMetadata::default());
    }

    #[test]
    fn values_are_escaped_twice() {
        let (m, _) =
            read("<GDALMetadata><Item name=\"a\">&amp;quot;&amp;#233;&amp;#xe9;&amp;x;&amp;</Item></GDALMetadata>");
        assert_eq!(m.item("a"), Some("\"éé&x;&"));
        assert!(m.to_tag().unwrap().contains(">&amp;quot;éé&amp;amp;x;&amp;amp;</Item>"));
    }

    #[test]
    fn statistics_need_all_four() {
        let item = |name, value| format!("<Item name=\"STATISTICS_{name}\" sample=\"0\">{value}</Item>");
        let three = item("MINIMUM", "1") + &item("MAXIMUM", "3") + &item("MEAN", "2");
        assert_eq!(read(&format!("<GDALMetadata>{three}</GDALMetadata>")).0.band(0).statistics(), None);
        let four = three + &item("STDDEV", "0.5");
        let statistics = read(&format!("<GDALMetadata>{four}</GDALMetadata>")).0.band(0).statistics();
        assert_eq!(statistics, Some(Statistics { minimum: 1.0, maximum: 3.0, mean: 2.0, stddev: 0.5 }));
    }

    #[test]
    fn hostile_xml_is_a_warning() {
        let deep = "<a>".repeat(200_000);
        let bomb = "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><GDALMetadata>&b;</GDALMetadata>";
        let many = format!("<GDALMetadata>{}</GDALMetadata>", "<i/>".repeat(MAX_NODES as usize + 1));
        for xml in [&*deep, bomb, &many, "<GDALMetadata>", "<other/>", "", "\u{1}"] {
            let (m, warnings) = read(xml);
            assert_eq!(m, Metadata::default());
            assert_eq!(warnings.len(), 1);
        }
    }

    #[test]
    fn written_metadata_reads_back() {
        let mut m = Metadata::default();
        m.domains.entry(String::new()).or_default().insert("a\"<".into(), "1 & 2 <3>\n\"é\"\u{1}".into());
        m.domains.entry("D".into()).or_default().insert("k".into(), "v".into());
        let band = m.bands.entry(1).or_default();
        band.scale = Some(0.0001);
        band.offset = Some(1e300);
        band.unit = Some("m".into());
        band.description = Some("a<b".into());
        band.domains.entry(String::new()).or_default().insert("k".into(), "v".into());
        let xml = m.to_tag().unwrap();
        let (mut back, warnings) = read(&xml);
        assert!(warnings.is_empty(), "{warnings:?} {xml}");
        let text = back.domains.get_mut("").unwrap().get_mut("a\"<").unwrap();
        assert_eq!(text, "1 & 2 <3>\n\"é\"");
        text.push('\u{1}');
        assert_eq!(back, m);
        assert_eq!(Metadata::default().to_tag(), None);
    }
}
