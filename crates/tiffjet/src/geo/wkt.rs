//! Reads WKT: version 1 of OGC, GDAL and Esri, and version 2.

use super::definition::{
    Axes, Conversion, Datum, Definition, Ellipsoid, Geodetic, GeodeticKind, Meridian, Projected, Unit, Vertical,
};
use super::method::{Method, ParamKind, method, method_by_epsg, method_by_name, param};
use super::registry::{self, fold};

/// The longest text that is read.
const MAX_LEN: usize = 1 << 17;
/// The deepest nesting that is read; real ones have under ten levels.
const MAX_DEPTH: usize = 32;

#[derive(Debug)]
enum Item<'a> {
    Text(String),
    Word(&'a str),
    Node(Node<'a>),
}

/// `KEYWORD[item, …]`
#[derive(Debug)]
struct Node<'a> {
    keyword: &'a str,
    items: Vec<Item<'a>>,
}

impl<'a> Node<'a> {
    fn is(&self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.keyword.eq_ignore_ascii_case(keyword))
    }

    fn children(&self) -> impl Iterator<Item = &Node<'a>> {
        self.items.iter().filter_map(|item| match item {
            Item::Node(node) => Some(node),
            _ => None,
        })
    }

    fn child(&self, keywords: &[&str]) -> Option<&Node<'a>> {
        self.children().find(|node| node.is(keywords))
    }

    /// The text at the front.
    fn name(&self) -> String {
        match self.items.first() {
            Some(Item::Text(text)) => text.clone(),
            _ => String::new(),
        }
    }

    fn number(&self, index: usize) -> Option<f64> {
        let text = match self.items.get(index)? {
            Item::Text(text) => text.as_str(),
            Item::Word(word) => word,
            Item::Node(_) => return None,
        };
        text.trim().parse().ok().filter(|value: &f64| value.is_finite())
    }

    fn word(&self, index: usize) -> &str {
        match self.items.get(index) {
            Some(Item::Word(word)) => word,
            Some(Item::Text(text)) => text,
            _ => "",
        }
    }

    fn epsg(&self) -> Option<u32> {
        let id = self.child(&["ID", "AUTHORITY"])?;
        if !id.name().eq_ignore_ascii_case("EPSG") {
            return None;
        }
        id.word(1).trim().parse().ok()
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn node(&mut self, depth: usize) -> Option<Node<'a>> {
        let keyword = self.bare_word();
        self.items(keyword, depth)
    }

    fn items(&mut self, keyword: &'a str, depth: usize) -> Option<Node<'a>> {
        if depth > MAX_DEPTH || keyword.is_empty() || !matches!(self.peek()?, b'[' | b'(') {
            return None;
        }
        self.at += 1;
        let mut items = Vec::new();
        loop {
            match self.peek()? {
                b']' | b')' => {
                    self.at += 1;
                    return Some(Node { keyword, items });
                }
                b',' => self.at += 1,
                b'"' => items.push(Item::Text(self.quoted()?)),
                _ => {
                    let word = self.bare_word();
                    if word.is_empty() {
                        return None;
                    }
                    if matches!(self.peek()?, b'[' | b'(') {
                        items.push(Item::Node(self.items(word, depth + 1)?));
                    } else {
                        items.push(Item::Word(word));
                    }
                }
            }
        }
    }

    fn bare_word(&mut self) -> &'a str {
        self.peek();
        let rest = self.text.get(self.at..).unwrap_or_default();
        let end = rest.find(|c: char| c.is_whitespace() || "[](),\"".contains(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn quoted(&mut self) -> Option<String> {
        let mut out = String::new();
        loop {
            self.at += 1;
            let rest = self.text.get(self.at..)?;
            let end = rest.find('"')?;
            out.push_str(&rest[..end]);
            self.at += end + 1;
            // A doubled quote is one quote of the text.
            if self.text.as_bytes().get(self.at) != Some(&b'"') {
                return Some(out);
            }
            out.push('"');
        }
    }
}

/// Reads a CRS; `None` where the text is no WKT or uses what is not known.
pub(crate) fn parse(text: &str) -> Option<Definition> {
    if text.len() > MAX_LEN {
        return None;
    }
    let node = Parser { text, at: 0 }.node(0)?;
    definition(&node)
}

const GEODETIC: &[&str] = &["GEOGCS", "GEOGCRS", "GEODCRS", "GEOCCS", "GEOGRAPHICCRS", "GEODETICCRS"];
const BASE: &[&str] = &["GEOGCS", "BASEGEOGCRS", "BASEGEODCRS", "GEOGCRS", "GEODCRS"];
const PROJECTED: &[&str] = &["PROJCS", "PROJCRS", "PROJECTEDCRS"];
const VERTICAL: &[&str] = &["VERT_CS", "VERTCRS", "VERTICALCRS", "VERTCS"];
const COMPOUND: &[&str] = &["COMPD_CS", "COMPOUNDCRS"];
const ENGINEERING: &[&str] = &["LOCAL_CS", "ENGCRS", "ENGINEERINGCRS"];
/// What a compound CRS is made of.
const PARTS: &[&str] = &[
    "GEOGCS",
    "GEOGCRS",
    "GEODCRS",
    "GEOGRAPHICCRS",
    "GEODETICCRS",
    "PROJCS",
    "PROJCRS",
    "PROJECTEDCRS",
    "BOUNDCRS",
    "LOCAL_CS",
    "ENGCRS",
    "VERT_CS",
    "VERTCRS",
    "VERTICALCRS",
    "VERTCS",
];
const UNIT: &[&str] = &["UNIT", "LENGTHUNIT", "ANGLEUNIT"];

fn definition(node: &Node<'_>) -> Option<Definition> {
    if node.is(COMPOUND) {
        // A compound has plain parts: with compounds inside, the work could grow with the text.
        let plain = |part: &&Node<'_>| part.is(PARTS);
        let mut parts = node.children().filter(plain).take(2).filter_map(definition);
        let (horizontal, Definition::Vertical(vertical)) = (parts.next()?, parts.next()?) else { return None };
        let (name, code) = (node.name(), node.epsg());
        return Some(Definition::Compound { name, horizontal: Box::new(horizontal), vertical, code });
    }
    if node.is(&["BOUNDCRS"]) {
        let source = node.child(&["SOURCECRS"])?.children().next()?;
        return with_shift(definition(source)?, node.child(&["ABRIDGEDTRANSFORMATION"]));
    }
    if node.is(PROJECTED) {
        let base = node.child(BASE)?;
        return with_towgs84(Definition::Projected(projected(node, base)?), base);
    }
    if node.is(GEODETIC) {
        return with_towgs84(Definition::Geodetic(geodetic(node)?), node);
    }
    if node.is(VERTICAL) {
        return vertical(node).map(Definition::Vertical);
    }
    node.is(ENGINEERING).then(|| Definition::Engineering { name: node.name(), unit: length_unit(node) })
}

fn with_towgs84(base: Definition, geodetic: &Node<'_>) -> Option<Definition> {
    let shift = geodetic.child(&["DATUM"]).and_then(|datum| datum.child(&["TOWGS84"]));
    let Some(shift) = shift else { return Some(base) };
    let values: [f64; 7] = std::array::from_fn(|i| shift.number(i).unwrap_or(0.0));
    Some(bind(base, values))
}

fn with_shift(base: Definition, transformation: Option<&Node<'_>>) -> Option<Definition> {
    let mut values = [0.0; 7];
    for parameter in transformation?.children().filter(|node| node.is(&["PARAMETER"])) {
        let slot = parameter.epsg()?.checked_sub(8605)? as usize;
        let value = parameter.number(1)?;
        *values.get_mut(slot)? = if slot == 6 { (value - 1.0) * 1e6 } else { value };
    }
    Some(bind(base, values))
}

/// A shift of nothing is no transformation.
fn bind(base: Definition, to_wgs84: [f64; 7]) -> Definition {
    if to_wgs84.iter().all(|value| *value == 0.0) {
        return base;
    }
    Definition::Bound { base: Box::new(base), to_wgs84 }
}

fn unit_of(node: &Node<'_>) -> Option<Unit> {
    let factor = node.number(1).filter(|factor| *factor > 0.0)?;
    let name = match fold(&node.name()).as_str() {
        "meter" | "metre" => "metre".to_owned(),
        "degree" => "degree".to_owned(),
        _ => node.name(),
    };
    Some(Unit { name, factor, code: node.epsg() })
}

/// The unit of a node, or of its first axis.
fn own_unit(node: &Node<'_>) -> Option<Unit> {
    let axis = || node.child(&["AXIS"]).and_then(|axis| axis.child(UNIT));
    node.child(UNIT).or_else(axis).and_then(unit_of)
}

fn length_unit(node: &Node<'_>) -> Unit {
    own_unit(node).unwrap_or_else(Unit::metre)
}

fn geodetic(node: &Node<'_>) -> Option<Geodetic> {
    let datum_node = node.child(&["DATUM", "GEODETICDATUM", "TRF", "ENSEMBLE"])?;
    let ellipsoid_node = datum_node.child(&["SPHEROID", "ELLIPSOID"])?;
    let ellipsoid_unit = ellipsoid_node.child(UNIT).and_then(unit_of).unwrap_or_else(Unit::metre);
    let ellipsoid = Ellipsoid {
        name: ellipsoid_node.name(),
        semi_major: ellipsoid_node.number(1).filter(|a| *a > 0.0)? * ellipsoid_unit.factor,
        inv_flattening: ellipsoid_node.number(2).filter(|f| *f >= 0.0)?,
        code: ellipsoid_node.epsg(),
    };
    let geocentric = node.is(&["GEOCCS"]) || node.child(&["CS"]).is_some_and(|cs| cs.name_or_word() == "Cartesian");
    let axes = node.children().filter(|child| child.is(&["AXIS"])).count();
    let kind = match (geocentric, axes) {
        (true, _) => GeodeticKind::Geocentric,
        (false, 3) => GeodeticKind::Geographic3D,
        _ => GeodeticKind::Geographic2D,
    };
    let unit = own_unit(node).unwrap_or_else(if geocentric { Unit::metre } else { Unit::degree });
    let angle = if geocentric { Unit::degree() } else { unit.clone() };
    let mut out = Geodetic {
        name: node.name(),
        kind,
        datum: Datum { name: datum_node.name(), ellipsoid, code: datum_node.epsg() },
        meridian: node.child(&["PRIMEM"]).map_or_else(Meridian::greenwich, |primem| meridian(primem, &angle)),
        unit,
        code: node.epsg(),
    };
    super::crs::identify_geodetic(&mut out);
    if out.code.is_none() {
        drop_esri_prefixes(&mut out);
    }
    Some(out)
}

/// Esri marks its names, and knows no spaces.
fn drop_esri_prefixes(crs: &mut Geodetic) {
    if let Some(name) = crs.datum.name.strip_prefix("D_") {
        crs.datum.name = name.replace('_', " ");
        crs.datum.ellipsoid.name = crs.datum.ellipsoid.name.replace('_', " ");
        crs.name = crs.name.strip_prefix("GCS_").unwrap_or(&crs.name).replace('_', " ");
    }
}

impl Node<'_> {
    fn name_or_word(&self) -> &str {
        self.word(0)
    }
}

fn meridian(node: &Node<'_>, angle: &Unit) -> Meridian {
    let unit = node.child(UNIT).and_then(unit_of).unwrap_or_else(|| angle.clone());
    let longitude = (node.number(1).unwrap_or(0.0) * unit.factor).to_degrees();
    Meridian { name: node.name(), longitude, code: node.epsg() }
}

fn vertical(node: &Node<'_>) -> Option<Vertical> {
    let datum = node.child(&["VERT_DATUM", "VDATUM", "VERTICALDATUM", "VRF", "ENSEMBLE", "VDATUM"])?;
    let axis = node.child(&["AXIS"]);
    let mut out = Vertical {
        name: node.name(),
        datum: datum.name(),
        datum_code: datum.epsg(),
        unit: length_unit(node),
        down: axis.is_some_and(|axis| axis.word(1).eq_ignore_ascii_case("down")),
        code: node.epsg(),
    };
    if out.code.is_none() {
        out.code = registry::identify_vertical(&out);
    }
    Some(out)
}

fn projected(node: &Node<'_>, base: &Node<'_>) -> Option<Projected> {
    let base = geodetic(base)?;
    let unit = length_unit(node);
    let conversion = match node.child(&["CONVERSION"]) {
        Some(conversion) => conversion_2(conversion, &unit)?,
        None => conversion_1(node, &base.unit, &unit)?,
    };
    let mut out = Projected { name: node.name(), base, conversion, unit, axes: axes(node), code: node.epsg() };
    if out.code.is_none() {
        out.code = registry::identify_projected(&out);
    }
    Some(out)
}

fn axes(node: &Node<'_>) -> Axes {
    let letters: String = node
        .children()
        .filter(|child| child.is(&["AXIS"]))
        .filter_map(|axis| axis.word(1).chars().next())
        .map(|letter| letter.to_ascii_lowercase())
        .collect();
    if letters.len() >= 2 { Axes::from_letters(&letters) } else { Axes::EAST_NORTH }
}

fn conversion_2(node: &Node<'_>, unit: &Unit) -> Option<Conversion> {
    let method_node = node.child(&["METHOD", "PROJECTION"])?;
    let method = method_node.epsg().and_then(method_by_epsg).or_else(|| method_by_name(&fold(&method_node.name())))?;
    let mut params = Vec::new();
    for &id in method.params {
        let wanted = param(id);
        let found = node
            .children()
            .filter(|child| child.is(&["PARAMETER"]))
            .find(|child| child.epsg() == Some(u32::from(id)) || fold(&child.name()) == fold(wanted.name));
        let value = found.and_then(|found| {
            let own = found.child(&["LENGTHUNIT", "ANGLEUNIT", "SCALEUNIT", "UNIT"]).and_then(unit_of);
            let value = found.number(1)?;
            Some(match wanted.kind {
                ParamKind::Angle => own.map_or(value, |own| (value * own.factor).to_degrees()),
                ParamKind::Length => value * own.map_or(unit.factor, |own| own.factor),
                ParamKind::Scale => value * own.map_or(1.0, |own| own.factor),
            })
        });
        params.push((id, value.unwrap_or_else(|| absent(id))));
    }
    Some(Conversion { name: node.name(), method, params, code: node.epsg() })
}

/// The value of a parameter that is not given.
pub(crate) fn absent(id: u16) -> f64 {
    match id {
        8814 => 90.0,
        _ if param(id).kind == ParamKind::Scale => 1.0,
        _ => 0.0,
    }
}

fn conversion_1(node: &Node<'_>, angle: &Unit, length: &Unit) -> Option<Conversion> {
    let name = fold(&node.child(&["PROJECTION"])?.name());
    let given = |alias: &str| {
        node.children()
            .filter(|child| child.is(&["PARAMETER"]))
            .find(|child| fold(&child.name()) == alias)
            .and_then(|child| child.number(1))
    };
    let extension = node.child(&["EXTENSION"]).map(|extension| extension.word(1).to_owned()).unwrap_or_default();
    let method = method_1(&name, &extension, &given)?;
    let mut params = Vec::new();
    for &id in method.params {
        let wanted = param(id);
        let value = wanted.aliases.iter().find_map(|alias| given(alias));
        let value = value.map(|value| match wanted.kind {
            ParamKind::Angle => (value * angle.factor).to_degrees(),
            ParamKind::Length => value * length.factor,
            ParamKind::Scale => value,
        });
        // The Swiss grid is an oblique Mercator that looks due east.
        let preset = if name == "swissobliquecylindrical" && id == 8813 { 90.0 } else { absent(id) };
        params.push((id, value.unwrap_or(preset)));
    }
    Some(Conversion { name: "unnamed".into(), method, params, code: None })
}

/// WKT 1 has names that stand for several methods; the parameters tell which.
fn method_1(name: &str, extension: &str, given: &dyn Fn(&str) -> Option<f64>) -> Option<&'static Method> {
    Some(match name {
        "polarstereographic" if given("latitudeoforigin").is_some_and(|lat| lat.abs() < 89.999_999) => {
            method("Polar Stereographic (variant B)")
        }
        "lambertconformalconic" if given("standardparallel2").is_none() => method("Lambert Conic Conformal (1SP)"),
        "mercator1sp" if extension.contains("nadgrids=@null") => method("Popular Visualisation Pseudo Mercator"),
        "mercator1sp" if given("standardparallel1").is_some() => method("Mercator (variant B)"),
        "geostationarysatellite" if extension.contains("sweep=x") || given("option") == Some(1.0) => {
            method("Geostationary Satellite (Sweep X)")
        }
        "swissobliquecylindrical" => method("Hotine Oblique Mercator (variant B)"),
        _ => method_by_name(name)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_survives_its_own_wkt() {
        for code in [32631, 2046, 6808, 29873, 3035, 3857, 5456, 26746, 5329, 3032, 28992, 2065, 5514, 27200, 3031] {
            let definition = registry::definition(code).unwrap();
            let back = parse(&definition.wkt()).unwrap();
            assert_eq!(back.code(), Some(code));
            let (Definition::Projected(a), Definition::Projected(b)) = (&definition, &back) else { panic!() };
            assert!(a.conversion.same(&b.conversion), "{code}: {:?} {:?}", a.conversion, b.conversion);
            assert_eq!(a.axes, b.axes);
        }
        for code in [4326, 4979, 4978, 9518, 3855, 4807] {
            let definition = registry::definition(code).unwrap();
            let back = parse(&definition.wkt()).unwrap();
            assert_eq!(back.code(), Some(code));
            assert_eq!(back.wkt(), definition.wkt());
        }
    }

    #[test]
    fn esri_names_are_understood() {
        let wkt = r#"PROJCS["WGS_1984_Web_Mercator_Auxiliary_Sphere",GEOGCS["GCS_WGS_1984",DATUM["D_WGS_1984",
            SPHEROID["WGS_1984",6378137.0,298.257223563]],PRIMEM["Greenwich",0.0],UNIT["Degree",0.0174532925199433]],
            PROJECTION["Mercator_Auxiliary_Sphere"],PARAMETER["False_Easting",0.0],PARAMETER["False_Northing",0.0],
            PARAMETER["Central_Meridian",0.0],PARAMETER["Standard_Parallel_1",0.0],
            PARAMETER["Auxiliary_Sphere_Type",0.0],UNIT["Meter",1.0]]"#;
        assert_eq!(parse(wkt).unwrap().code(), Some(3857));
    }

    #[test]
    fn wkt_1_without_authority_is_identified() {
        let wkt = r#"PROJCS["UTM 33",GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],
            PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]],PROJECTION["Transverse_Mercator"],
            PARAMETER["latitude_of_origin",0],PARAMETER["central_meridian",15],PARAMETER["scale_factor",0.9996],
            PARAMETER["false_easting",500000],PARAMETER["false_northing",0],UNIT["metre",1]]"#;
        assert_eq!(parse(wkt).unwrap().code(), Some(32633));
    }

    #[test]
    fn hostile_text_is_refused() {
        let deep = "A[".repeat(100_000);
        let open = "PROJCS[\"".to_owned() + &"x".repeat(10_000);
        let long = "A[".to_owned() + &"1,".repeat(MAX_LEN) + "1]";
        for text in ["", "[", "A", "A[", "A[]", "]", "\"", "é[é]", "GEOGCS[\"x\"]", &deep, &open, &long] {
            assert_eq!(parse(text), None);
        }
    }
}
