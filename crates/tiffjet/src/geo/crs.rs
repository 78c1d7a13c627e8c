//! GeoKeys to a coordinate reference system and back.

use super::definition::{
    Axes, Conversion, Datum, Definition, Ellipsoid, Geodetic, GeodeticKind, Meridian, Projected, Unit, Vertical, close,
};
use super::keys::{KeyWriter, Keys, USER_DEFINED, key};
use super::method::{Method, ParamKind, method, method_by_geotiff, param, written_key};
use super::registry::{self, CrsKind};
use super::wkt;

const MODEL_PROJECTED: u16 = 1;
const MODEL_GEOGRAPHIC: u16 = 2;
const MODEL_GEOCENTRIC: u16 = 3;
/// GeoTIFF 1.0's codes of heights above an ellipsoid.
const ELLIPSOID_HEIGHTS: std::ops::RangeInclusive<u32> = 5001..=5035;
/// ProjStraightVertPoleLong.
const STRAIGHT_POLE: u16 = 3095;
const PE_STRING: &str = "ESRI PE String = ";

/// A coordinate reference system.
#[derive(Debug, Clone, PartialEq)]
pub struct Crs {
    /// EPSG code, where the whole CRS is one of the dataset.
    pub epsg: Option<u32>,
    /// WKT 2 (ISO 19162:2019) of a CRS without EPSG code; for the others see [`Crs::to_wkt`].
    pub wkt: Option<String>,
    /// Name, as the file or the dataset says.
    pub name: String,
    /// Kind; `None` for a code that the bundled dataset does not have.
    pub kind: Option<CrsKind>,
    definition: Option<Definition>,
}

impl Crs {
    /// The CRS of an EPSG code. A code that is not in the bundled dataset is carried as it is.
    pub fn from_epsg(code: u32) -> Self {
        match registry::definition(code) {
            Some(definition) => Self::from_definition(definition),
            None => Self {
                epsg: Some(code),
                wkt: None,
                name: format!("EPSG:{code}"),
                kind: registry::epsg_kind(code),
                definition: None,
            },
        }
    }

    /// The CRS of `EPSG:nnnn`, or of a WKT 1 or WKT 2 text. `None` where the text can't be read.
    pub fn from_text(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some((authority, code)) = text.split_once(':')
            && authority.eq_ignore_ascii_case("EPSG")
        {
            return code.trim().parse().ok().map(Self::from_epsg);
        }
        wkt::parse(text).map(Self::from_definition)
    }

    fn from_definition(definition: Definition) -> Self {
        let epsg = definition.code();
        Self {
            epsg,
            wkt: epsg.is_none().then(|| definition.wkt()),
            name: definition.name().into(),
            kind: Some(kind(&definition)),
            definition: Some(definition),
        }
    }

    /// WKT 2 (ISO 19162:2019); `None` only for a code that the bundled dataset does not have.
    pub fn to_wkt(&self) -> Option<String> {
        self.definition.as_ref().map(Definition::wkt)
    }
}

fn kind(definition: &Definition) -> CrsKind {
    match definition {
        Definition::Geodetic(crs) => match crs.kind {
            GeodeticKind::Geographic2D => CrsKind::Geographic2D,
            GeodeticKind::Geographic3D => CrsKind::Geographic3D,
            GeodeticKind::Geocentric => CrsKind::Geocentric,
        },
        Definition::Projected(_) => CrsKind::Projected,
        Definition::Vertical(_) => CrsKind::Vertical,
        Definition::Compound { .. } => CrsKind::Compound,
        Definition::Engineering { .. } => CrsKind::Engineering,
        Definition::Bound { base, .. } => kind(base),
    }
}

/// What the keys say of the place: the CRS, and the unit of heights.
#[derive(Debug, Default)]
pub(crate) struct FromKeys {
    pub crs: Option<Crs>,
    pub vertical_unit: Option<String>,
}

/// Reads the CRS of a key directory.
pub(crate) fn from_keys(keys: &Keys<'_>, warnings: &mut Vec<String>) -> FromKeys {
    if !keys.has_crs() {
        return FromKeys::default();
    }
    let vertical = vertical(keys);
    let vertical_unit =
        vertical.as_ref().map(|vertical| &vertical.unit.name).filter(|name| *name != "unknown").cloned();
    let crs = match horizontal(keys, warnings) {
        Some(Err(code)) => {
            warnings.push(format!("EPSG:{code} is not in the bundled dataset"));
            Some(Crs::from_epsg(code))
        }
        // GeoTIFF 1.0 had no rule for vertical keys and files carry arbitrary ones: heights count from 1.1 on.
        Some(Ok(horizontal)) if keys.revision >= (1, 1) => {
            Some(Crs::from_definition(with_height(horizontal, vertical, keys)))
        }
        Some(Ok(horizontal)) => Some(Crs::from_definition(horizontal)),
        None => None,
    };
    let vertical_unit = vertical_unit.filter(|_| crs.is_some());
    FromKeys { crs, vertical_unit }
}

/// The plane part of a CRS, or a code that the bundled dataset does not have.
type Horizontal = Result<Definition, u32>;

fn horizontal(keys: &Keys<'_>, warnings: &mut Vec<String>) -> Option<Horizontal> {
    let model = keys.short(key::MODEL_TYPE).filter(|model| *model != USER_DEFINED);
    let projection = keys.short(key::PROJECTED_TYPE).or(keys.short(key::PROJ_METHOD)).or(keys.short(key::PROJECTION));
    let known = match model {
        Some(MODEL_GEOCENTRIC) => geodetic(keys, GeodeticKind::Geocentric, warnings).map(Definition::Geodetic),
        Some(MODEL_GEOGRAPHIC) => return geographic(keys, warnings),
        None if projection.is_none() && keys.short(key::GEOGRAPHIC_TYPE).is_some() && !has_pe_string(keys) => {
            return geographic(keys, warnings);
        }
        _ => return projected(keys, warnings),
    };
    known.map(Ok)
}

fn has_pe_string(keys: &Keys<'_>) -> bool {
    pe_string(keys).is_some()
}

fn pe_string(keys: &Keys<'_>) -> Option<String> {
    [key::PCS_CITATION, key::CITATION]
        .into_iter()
        .filter_map(|id| keys.text(id))
        .find_map(|text| text.split_once(PE_STRING).map(|(_, wkt)| wkt.to_owned()))
}

fn geographic(keys: &Keys<'_>, warnings: &mut Vec<String>) -> Option<Horizontal> {
    if let Some(code) = keys.code(key::GEOGRAPHIC_TYPE).map(registry::current)
        && registry::geodetic(code).is_none()
    {
        return Some(Err(code));
    }
    let crs = geodetic(keys, GeodeticKind::Geographic2D, warnings)?;
    Some(Ok(bound(Definition::Geodetic(crs), keys)))
}

/// Adds the file's own transformation to WGS 84. EPSG's systems need none.
fn bound(base: Definition, keys: &Keys<'_>) -> Definition {
    let values = keys.doubles(key::TO_WGS84);
    let usable = values.len() >= 3 && values.iter().all(|value| value.is_finite());
    if base.code().is_some() || !usable || values.iter().all(|value| *value == 0.0) {
        return base;
    }
    let to_wgs84 = std::array::from_fn(|i| values.get(i).copied().unwrap_or(0.0));
    Definition::Bound { base: Box::new(base), to_wgs84 }
}

/// A value in the file's unit of angle, in degrees.
fn degrees(value: f64, code: Option<u32>, unit: &Unit) -> f64 {
    match code {
        // DDD.MMSSsss
        Some(9110) => {
            let scaled = value.abs() * 100.0;
            let (whole, seconds) = (scaled.trunc(), scaled.fract() * 100.0);
            let (degrees, minutes) = ((whole / 100.0).trunc(), whole % 100.0);
            (degrees + minutes / 60.0 + seconds / 3600.0).copysign(value)
        }
        _ if close(unit.factor, 1f64.to_radians()) => value,
        _ => (value * unit.factor).to_degrees(),
    }
}

fn angular_unit(keys: &Keys<'_>) -> Unit {
    match keys.code(key::ANGULAR_UNITS) {
        Some(9102) | None if keys.double(key::ANGULAR_UNIT_SIZE).is_none() => Unit::degree(),
        Some(9102) => Unit::degree(),
        Some(code) => registry::angle_unit(code).unwrap_or_else(Unit::degree),
        None => match keys.double(key::ANGULAR_UNIT_SIZE).filter(|size| *size > 0.0) {
            Some(factor) if (factor - 1f64.to_radians()).abs() > 1e-9 => {
                Unit { name: "unknown".into(), factor, code: None }
            }
            _ => Unit::degree(),
        },
    }
}

fn geodetic(keys: &Keys<'_>, kind: GeodeticKind, warnings: &mut Vec<String>) -> Option<Geodetic> {
    if let Some(code) = keys.code(key::GEOGRAPHIC_TYPE).map(registry::current) {
        if let Some(known) = registry::geodetic(code) {
            return Some(known);
        }
        warnings.push(format!("geographic CRS {code} is not in the bundled dataset"));
    }
    let citation = GeogCitation::new(keys);
    let angle = angular_unit(keys);
    let datum = datum(keys, &citation, warnings)?;
    let mut crs = Geodetic {
        name: citation.name.clone().unwrap_or_else(|| match datum.code {
            Some(_) => datum.name.clone(),
            None => "unknown".into(),
        }),
        kind,
        meridian: meridian(keys, &citation, &datum, &angle),
        unit: if kind == GeodeticKind::Geocentric {
            linear_unit(keys, key::GEOG_LINEAR_UNITS, key::GEOG_LINEAR_UNIT_SIZE).unwrap_or_else(Unit::metre)
        } else {
            angle
        },
        datum,
        code: None,
    };
    identify_geodetic(&mut crs);
    Some(crs)
}

/// Finds the code of a geodetic CRS that is defined in full, and of its datum.
pub(crate) fn identify_geodetic(crs: &mut Geodetic) {
    if crs.code.is_some() {
        return;
    }
    if crs.datum.code.is_none() {
        crs.datum.code = registry::datum_by_name(&crs.datum.name, &crs.datum.ellipsoid);
    }
    let unit = if crs.kind == GeodeticKind::Geocentric { Unit::metre() } else { Unit::degree() };
    let by_datum = crs.datum.code.and_then(|datum| registry::geodetic_by_datum(datum, crs.kind, &crs.name));
    // Esri's names of datums are not all known, its names of whole systems are.
    let by_name = || registry::geographic_by_name(&crs.name, &crs.datum.ellipsoid);
    let found = by_datum.or_else(|| (crs.kind == GeodeticKind::Geographic2D).then(by_name).flatten());
    let Some(known) = found.and_then(registry::geodetic) else { return };
    let same_unit = known.unit.same(&crs.unit) || (known.unit.code == Some(9122) && crs.unit.same(&unit));
    if same_unit && close(known.meridian.longitude, crs.meridian.longitude) {
        *crs = known;
    }
}

fn datum(keys: &Keys<'_>, citation: &GeogCitation, warnings: &mut Vec<String>) -> Option<Datum> {
    if let Some(datum) = keys.code(key::GEODETIC_DATUM).and_then(registry::datum) {
        return Some(datum);
    }
    let ellipsoid = ellipsoid(keys, citation, warnings)?;
    Some(Datum { name: citation.datum.clone().unwrap_or_else(|| "unknown".into()), ellipsoid, code: None })
}

fn ellipsoid(keys: &Keys<'_>, citation: &GeogCitation, warnings: &mut Vec<String>) -> Option<Ellipsoid> {
    if let Some(known) = keys.code(key::ELLIPSOID).and_then(registry::ellipsoid) {
        return Some(known);
    }
    let unit = linear_unit(keys, key::GEOG_LINEAR_UNITS, key::GEOG_LINEAR_UNIT_SIZE).map_or(1.0, |unit| unit.factor);
    let Some(semi_major) = keys.double(key::SEMI_MAJOR) else {
        return registry::ellipsoid(7030);
    };
    let semi_major = semi_major * unit;
    let inv_flattening = match (keys.double(key::INV_FLATTENING), keys.double(key::SEMI_MINOR)) {
        (Some(given), _) => given,
        (None, Some(semi_minor)) if semi_minor * unit != semi_major => semi_major / (semi_major - semi_minor * unit),
        _ => 0.0,
    };
    let sound = semi_major > 0.0 && semi_major.is_finite() && inv_flattening.is_finite() && inv_flattening >= 0.0;
    if !sound {
        warnings.push(format!("an ellipsoid of {semi_major} m and 1/{inv_flattening} is impossible"));
        return None;
    }
    let name = citation.ellipsoid.clone().unwrap_or_else(|| "unknown".into());
    Some(Ellipsoid { name, semi_major, inv_flattening, code: None })
}

fn meridian(keys: &Keys<'_>, citation: &GeogCitation, datum: &Datum, angle: &Unit) -> Meridian {
    if let Some(known) = keys.code(key::PRIME_MERIDIAN).and_then(registry::meridian) {
        return known;
    }
    match keys.double(key::PRIME_MERIDIAN_LONG) {
        Some(longitude) if longitude != 0.0 => Meridian {
            name: citation.meridian.clone().unwrap_or_else(|| "unknown".into()),
            longitude: degrees(longitude, keys.code(key::ANGULAR_UNITS), angle),
            code: None,
        },
        Some(_) => match &citation.meridian {
            Some(name) if !name.eq_ignore_ascii_case("Greenwich") => {
                Meridian { name: name.clone(), longitude: 0.0, code: None }
            }
            _ => Meridian::greenwich(),
        },
        None => datum.code.and_then(registry::datum_meridian).unwrap_or_else(Meridian::greenwich),
    }
}

/// `GCS Name = …|Datum = …|Ellipsoid = …|Primem = …|`, or simply a name.
#[derive(Debug, Default)]
struct GeogCitation {
    name: Option<String>,
    datum: Option<String>,
    ellipsoid: Option<String>,
    meridian: Option<String>,
}

impl GeogCitation {
    fn new(keys: &Keys<'_>) -> Self {
        let Some(text) = keys.text(key::GEOG_CITATION) else { return Self::default() };
        let part = |label: &str| {
            let parts = text.split('|').filter_map(|part| part.split_once('='));
            let mut values = parts.filter(|(name, _)| name.trim().eq_ignore_ascii_case(label));
            values.next().map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let name = part("GCS Name").or_else(|| {
            let plain = text.split('|').next().unwrap_or_default().trim();
            (!plain.is_empty() && !plain.contains('=')).then(|| plain.to_owned())
        });
        Self { name, datum: part("Datum"), ellipsoid: part("Ellipsoid"), meridian: part("Primem") }
    }
}

/// A unit by code or size.
fn linear_unit(keys: &Keys<'_>, code: u16, size: u16) -> Option<Unit> {
    if let Some(unit) = keys.code(code).and_then(registry::length_unit) {
        return Some(unit);
    }
    let factor = keys.double(size).filter(|factor| *factor > 0.0)?;
    Some(Unit { name: "unknown".into(), factor, code: None })
}

/// The unit of the map: a key, or what ERDAS IMAGINE writes into its citations.
fn map_unit(keys: &Keys<'_>) -> Option<Unit> {
    linear_unit(keys, key::LINEAR_UNITS, key::LINEAR_UNIT_SIZE).or_else(|| {
        let text = keys.text(key::CITATION).filter(|text| text.starts_with("IMAGINE GeoTIFF Support"))?;
        let line = text.lines().find_map(|line| line.trim().strip_prefix("Units = ").map(str::to_owned))?;
        registry::length_unit(match registry::fold(&line).as_str() {
            "internationalfeet" => 9002,
            "ussurveyfeet" | "feet" => 9003,
            "meters" | "metres" => 9001,
            _ => return None,
        })
    })
}

fn name_of_map(keys: &Keys<'_>) -> Option<String> {
    let imagine = |text: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.trim().strip_prefix("Projection Name = ").map(str::to_owned))
    };
    let name = [key::CITATION, key::PCS_CITATION]
        .into_iter()
        .filter_map(|id| keys.text(id))
        .find(|text| !text.starts_with(PE_STRING))?;
    let name = imagine(&name).unwrap_or_else(|| name.into_owned());
    let name = name.strip_prefix("PCS Name = ").unwrap_or(&name);
    Some(name.replace(['\n', '\r'], " ").trim().to_owned()).filter(|name| !name.is_empty())
}

fn projected(keys: &Keys<'_>, warnings: &mut Vec<String>) -> Option<Horizontal> {
    let unit = map_unit(keys);
    if let Some(code) = keys.code(key::PROJECTED_TYPE).map(|code| current(keys, code)) {
        return Some(match registry::projected(code) {
            Some(known) => Ok(Definition::Projected(with_unit(known, unit))),
            None => Err(code),
        });
    }
    if let Some(text) = pe_string(keys) {
        if let Some(definition) = wkt::parse(&text) {
            return Some(Ok(definition));
        }
        warnings.push("the Esri PE string is not readable".into());
    }
    let unit = unit.unwrap_or_else(Unit::metre);
    let base = geodetic(keys, GeodeticKind::Geographic2D, warnings);
    let name = name_of_map(keys).unwrap_or_else(|| "unnamed".into());
    let conversion = match keys.code(key::PROJECTION).and_then(registry::conversion) {
        Some(known) => Some(known),
        None => conversion(keys, &unit, warnings),
    };
    let Some(conversion) = conversion else {
        return Some(Ok(Definition::Engineering { name, unit }));
    };
    let axes = axes(&conversion);
    let mut crs = Projected { name, base: base?, conversion, unit, axes, code: None };
    if let Some(known) = registry::identify_projected(&crs).and_then(registry::projected) {
        crs = known;
    }
    Some(Ok(bound(Definition::Projected(crs), keys)))
}

/// The successor of a withdrawn code, unless the file insists by its name.
fn current(keys: &Keys<'_>, code: u32) -> u32 {
    let successor = registry::current(code);
    let insists = || {
        let old = registry::projected(code)?;
        let name = name_by_pcs_citation(keys)?;
        Some(registry::fold(&name) == registry::fold(&old.name))
    };
    if successor != code && insists() == Some(true) { code } else { successor }
}

fn name_by_pcs_citation(keys: &Keys<'_>) -> Option<String> {
    keys.text(key::PCS_CITATION).or_else(|| keys.text(key::CITATION)).map(std::borrow::Cow::into_owned)
}

/// A map known by code but measured in another unit is another map.
fn with_unit(mut crs: Projected, unit: Option<Unit>) -> Projected {
    let Some(unit) = unit.filter(|unit| !unit.same(&crs.unit)) else { return crs };
    crs.unit = unit;
    crs.code = registry::identify_projected(&crs);
    crs
}

/// GeoTIFF knows no axes; they follow from the method.
fn axes(conversion: &Conversion) -> Axes {
    let pole = match conversion.method.epsg {
        9810 => conversion.param(8801),
        9829 | 9830 => conversion.param(8832),
        9808 => return Axes(["west", "south"]),
        _ => None,
    };
    match pole {
        Some(latitude) if latitude > 0.0 => Axes(["south", "south"]),
        Some(_) => Axes(["north", "north"]),
        None => Axes::EAST_NORTH,
    }
}

fn conversion(keys: &Keys<'_>, unit: &Unit, warnings: &mut Vec<String>) -> Option<Conversion> {
    let code = keys.short(key::PROJ_METHOD)?;
    let swiss = code == 5;
    let Some(method) = method_by_geotiff(if swiss { 9815 } else { code }) else {
        warnings.push(format!("projection method {code} is unknown"));
        return None;
    };
    let method = variant(method, keys);
    let angle = angular_unit(keys);
    let params = method
        .params
        .iter()
        .map(|&id| {
            let pole = (method.geotiff == 15 && id == 8802).then(|| keys.double(STRAIGHT_POLE)).flatten();
            let given = pole.or_else(|| param(id).keys.iter().find_map(|key| keys.double(*key)));
            let value = given.map(|value| match param(id).kind {
                ParamKind::Angle => degrees(value, keys.code(key::ANGULAR_UNITS), &angle),
                ParamKind::Length => value * unit.factor,
                ParamKind::Scale => value,
            });
            // The Swiss grid is an oblique Mercator that looks due east.
            let preset = if swiss && id == 8813 { 90.0 } else { wkt::absent(id) };
            (id, value.unwrap_or(preset))
        })
        .collect();
    Some(Conversion { name: "unnamed".into(), method, params, code: None })
}

/// Two GeoTIFF codes stand for two variants each; the parameters tell which.
fn variant(found: &'static Method, keys: &Keys<'_>) -> &'static Method {
    let latitude = || param(8801).keys.iter().find_map(|key| keys.double(*key));
    match found.geotiff {
        7 if keys.double(3078).is_some() => method("Mercator (variant B)"),
        15 if latitude().is_some_and(|latitude| latitude.abs() < 89.999_999) => {
            method("Polar Stereographic (variant B)")
        }
        _ => found,
    }
}

fn vertical(keys: &Keys<'_>) -> Option<Vertical> {
    let unit = keys.code(key::VERTICAL_UNITS).and_then(registry::length_unit);
    if let Some(code) = keys.code(key::VERTICAL_TYPE) {
        let mut known = registry::vertical(registry::current(code))?;
        if let Some(unit) = unit.filter(|unit| !unit.same(&known.unit)) {
            (known.unit, known.code) = (unit, None);
        }
        return Some(known);
    }
    let datum_code = keys.code(key::VERTICAL_DATUM).filter(|code| registry::vertical_datum(*code).is_some());
    let citation = keys.text(key::VERTICAL_CITATION);
    if datum_code.is_none() && citation.is_none() && unit.is_none() {
        return None;
    }
    let name = citation.map_or_else(|| "unknown".to_owned(), std::borrow::Cow::into_owned);
    let mut crs = Vertical {
        datum: datum_code.and_then(registry::vertical_datum).unwrap_or("unknown").to_owned(),
        name,
        datum_code,
        unit: unit.unwrap_or_else(Unit::metre),
        down: false,
        code: None,
    };
    crs.code = registry::identify_vertical(&crs);
    Some(crs)
}

/// Puts height on a horizontal CRS.
fn with_height(horizontal: Definition, vertical: Option<Vertical>, keys: &Keys<'_>) -> Definition {
    if let (Definition::Geodetic(crs), Some(code)) = (&horizontal, keys.code(key::VERTICAL_TYPE))
        && let Some(three) = three_dimensional(crs, code)
    {
        return Definition::Geodetic(three);
    }
    let stands = matches!(horizontal, Definition::Geodetic(_) | Definition::Projected(_) | Definition::Bound { .. });
    let Some(vertical) = vertical.filter(|_| stands) else { return horizontal };
    let code = match (horizontal.code(), vertical.code) {
        (Some(horizontal), Some(vertical)) => registry::compound_of(horizontal, vertical),
        _ => None,
    };
    let name = format!("{} + {}", horizontal.name(), vertical.name);
    Definition::Compound { name, horizontal: Box::new(horizontal), vertical, code }
}

fn three_dimensional(crs: &Geodetic, vertical: u32) -> Option<Geodetic> {
    let code = if ELLIPSOID_HEIGHTS.contains(&vertical) {
        registry::geodetic_by_datum(crs.datum.code?, GeodeticKind::Geographic3D, &crs.name)?
    } else {
        registry::current(vertical)
    };
    registry::geodetic(code).filter(|three| three.kind == GeodeticKind::Geographic3D)
}

/// Writes a CRS as GeoKeys.
pub(crate) fn to_keys(crs: &Crs, keys: &mut KeyWriter) -> Written {
    match &crs.definition {
        Some(definition) => definition_to_keys(definition, keys),
        // A code that is not in the dataset: most such codes are newer projected systems.
        None => {
            code_to_keys(crs.epsg, key::PROJECTED_TYPE, MODEL_PROJECTED, keys);
            Written { whole: short(crs.epsg) != USER_DEFINED, minor: 0 }
        }
    }
}

/// How a CRS could be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    /// Nothing of it was lost.
    pub whole: bool,
    /// Minor revision of the key set: heights need 1.1.
    pub minor: u16,
}

impl Written {
    const WHOLE: Self = Self { whole: true, minor: 0 };
    const LOST: Self = Self { whole: false, minor: 0 };
}

fn code_to_keys(code: Option<u32>, id: u16, model: u16, keys: &mut KeyWriter) {
    keys.short(key::MODEL_TYPE, model);
    keys.short(id, short(code));
}

fn short(code: Option<u32>) -> u16 {
    code.and_then(|code| u16::try_from(code).ok()).unwrap_or(USER_DEFINED)
}

fn definition_to_keys(definition: &Definition, keys: &mut KeyWriter) -> Written {
    match definition {
        Definition::Geodetic(crs) => {
            let geocentric = crs.kind == GeodeticKind::Geocentric;
            keys.short(key::MODEL_TYPE, if geocentric { MODEL_GEOCENTRIC } else { MODEL_GEOGRAPHIC });
            if crs.kind != GeodeticKind::Geographic3D {
                geodetic_to_keys(crs, keys);
                return Written::WHOLE;
            }
            // GeoTIFF 1.1 tells the plane by the 2D code and the height by the 3D code.
            let flat = crs.datum.code.and_then(|datum| {
                registry::geodetic(registry::geodetic_by_datum(datum, GeodeticKind::Geographic2D, &crs.name)?)
            });
            geodetic_to_keys(flat.as_ref().unwrap_or(crs), keys);
            keys.short(key::VERTICAL_TYPE, short(crs.code));
            Written { whole: crs.code.is_some(), minor: 1 }
        }
        Definition::Projected(crs) => projected_to_keys(crs, keys),
        Definition::Compound { name, horizontal, vertical, .. } => {
            keys.text(key::CITATION, name);
            let written = definition_to_keys(horizontal, keys);
            vertical_to_keys(vertical, keys);
            Written { minor: 1, ..written }
        }
        Definition::Bound { base, to_wgs84 } => {
            let written = definition_to_keys(base, keys);
            let shift_only = to_wgs84[3..].iter().all(|value| *value == 0.0);
            keys.doubles(key::TO_WGS84, &to_wgs84[..if shift_only { 3 } else { 7 }]);
            written
        }
        Definition::Engineering { name, unit } => {
            keys.short(key::MODEL_TYPE, MODEL_PROJECTED);
            keys.text(key::PCS_CITATION, name);
            length_to_keys(unit, key::LINEAR_UNITS, key::LINEAR_UNIT_SIZE, keys);
            Written::WHOLE
        }
        Definition::Vertical(crs) => {
            vertical_to_keys(crs, keys);
            Written { minor: 1, ..Written::LOST }
        }
    }
}

fn length_to_keys(unit: &Unit, id: u16, size: u16, keys: &mut KeyWriter) {
    let code = unit.code.or_else(|| close(unit.factor, 1.0).then_some(9001));
    let code = code.filter(|code| registry::length_unit(*code).is_some_and(|known| known.same(unit)));
    keys.short(id, short(code));
    if code.is_none() {
        keys.doubles(size, &[unit.factor]);
    }
}

fn geodetic_to_keys(crs: &Geodetic, keys: &mut KeyWriter) {
    keys.short(key::GEOGRAPHIC_TYPE, short(crs.code));
    if crs.code.is_some() {
        keys.text(key::GEOG_CITATION, &crs.name);
        return;
    }
    let bar = |text: &str| text.replace('|', " ");
    keys.text(
        key::GEOG_CITATION,
        &format!(
            "GCS Name = {}|Datum = {}|Ellipsoid = {}|Primem = {}|",
            bar(&crs.name),
            bar(&crs.datum.name),
            bar(&crs.datum.ellipsoid.name),
            bar(&crs.meridian.name)
        ),
    );
    keys.short(key::GEODETIC_DATUM, short(crs.datum.code));
    let ellipsoid = &crs.datum.ellipsoid;
    keys.short(key::ELLIPSOID, short(ellipsoid.code));
    keys.doubles(key::SEMI_MAJOR, &[ellipsoid.semi_major]);
    if ellipsoid.inv_flattening == 0.0 {
        keys.doubles(key::SEMI_MINOR, &[ellipsoid.semi_major]);
    } else {
        keys.doubles(key::INV_FLATTENING, &[ellipsoid.inv_flattening]);
    }
    let angle = if crs.kind == GeodeticKind::Geocentric { &Unit::degree() } else { &crs.unit };
    if angle.same(&Unit::degree()) {
        keys.short(key::ANGULAR_UNITS, 9102);
    } else {
        let code = angle.code.filter(|code| registry::angle_unit(*code).is_some_and(|known| known.same(angle)));
        keys.short(key::ANGULAR_UNITS, short(code));
        keys.doubles(key::ANGULAR_UNIT_SIZE, &[angle.factor]);
    }
    match crs.meridian.code {
        Some(code) => keys.short(key::PRIME_MERIDIAN, short(Some(code))),
        None => keys.doubles(key::PRIME_MERIDIAN_LONG, &[crs.meridian.longitude.to_radians() / angle.factor]),
    }
}

fn projected_to_keys(crs: &Projected, keys: &mut KeyWriter) -> Written {
    length_to_keys(&crs.unit, key::LINEAR_UNITS, key::LINEAR_UNIT_SIZE, keys);
    if crs.code.is_some() {
        code_to_keys(crs.code, key::PROJECTED_TYPE, MODEL_PROJECTED, keys);
        keys.text(key::PCS_CITATION, &crs.name);
        return Written::WHOLE;
    }
    geodetic_to_keys(&crs.base, keys);
    let Some(method) = geotiff_method(crs.conversion.method) else {
        // GeoTIFF has no code for the method. Readers then look for WKT in the citation, if the model is "other".
        keys.short(key::MODEL_TYPE, USER_DEFINED);
        keys.text(key::PCS_CITATION, &format!("{PE_STRING}{}", Definition::Projected(crs.clone()).wkt()));
        return Written::WHOLE;
    };
    code_to_keys(None, key::PROJECTED_TYPE, MODEL_PROJECTED, keys);
    keys.text(key::PCS_CITATION, &crs.name);
    keys.short(key::PROJECTION, USER_DEFINED);
    keys.short(key::PROJ_METHOD, method.geotiff);
    let angle = if crs.base.kind == GeodeticKind::Geocentric { Unit::degree() } else { crs.base.unit.clone() };
    for &(id, value) in &crs.conversion.params {
        let Some(id_key) = written_key(method, id) else { continue };
        let value = match param(id).kind {
            ParamKind::Angle if angle.same(&Unit::degree()) => value,
            ParamKind::Angle => value.to_radians() / angle.factor,
            ParamKind::Length => value / crs.unit.factor,
            ParamKind::Scale => value,
        };
        keys.doubles(id_key, &[value]);
    }
    Written::WHOLE
}

/// The method whose GeoTIFF code carries this one.
fn geotiff_method(of: &'static Method) -> Option<&'static Method> {
    match of.epsg {
        9805 => method_by_geotiff(7),
        9829 => method_by_geotiff(15),
        1029 => method_by_geotiff(17),
        9834 => method_by_geotiff(28),
        1027 => method_by_geotiff(10),
        _ => (of.geotiff != 0).then_some(of),
    }
}

fn vertical_to_keys(crs: &Vertical, keys: &mut KeyWriter) {
    keys.short(key::VERTICAL_TYPE, short(crs.code));
    keys.text(key::VERTICAL_CITATION, &crs.name);
    if crs.code.is_none() {
        keys.short(key::VERTICAL_DATUM, short(crs.datum_code));
    }
    let code = crs.unit.code.or_else(|| close(crs.unit.factor, 1.0).then_some(9001));
    keys.short(key::VERTICAL_UNITS, short(code));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::GeoTags;

    /// Keys from codes, numbers and texts.
    #[derive(Default)]
    struct Build(KeyWriter);

    impl Build {
        fn short(mut self, id: u16, value: u16) -> Self {
            self.0.short(id, value);
            self
        }
        fn double(mut self, id: u16, values: &[f64]) -> Self {
            self.0.doubles(id, values);
            self
        }
        fn text(mut self, id: u16, text: &str) -> Self {
            self.0.text(id, text);
            self
        }
        fn read(self, minor: u16) -> (FromKeys, Vec<String>) {
            let mut tags = GeoTags::default();
            self.0.finish(minor, &mut tags);
            let mut warnings = Vec::new();
            let keys = Keys::new(&tags, &mut warnings);
            let found = from_keys(&keys, &mut warnings);
            (found, warnings)
        }
        fn crs(self) -> Crs {
            self.read(0).0.crs.unwrap()
        }
    }

    fn wgs84_map(method: u16) -> Build {
        let build = Build::default().short(1024, 1).short(2048, 4326).short(2054, 9102).short(3072, 32767);
        build.short(3074, 32767).short(3075, method).short(3076, 9001)
    }

    #[test]
    fn codes() {
        assert_eq!(Build::default().short(1024, 1).short(3072, 32631).crs().epsg, Some(32631));
        assert_eq!(Build::default().short(1024, 2).short(2048, 4326).crs().epsg, Some(4326));
        assert_eq!(Build::default().short(1024, 3).short(2048, 4978).crs().epsg, Some(4978));
        let (found, warnings) = Build::default().short(1024, 1).short(3072, 30000).read(0);
        let crs = found.crs.unwrap();
        assert_eq!((crs.epsg, crs.kind, warnings.len()), (Some(30000), None, 1));
    }

    #[test]
    fn a_withdrawn_code_gives_way_unless_its_name_is_there() {
        let keys = || Build::default().short(1024, 1).short(3072, 27582);
        assert_eq!(keys().crs().epsg, Some(27572));
        assert_eq!(keys().text(3073, "NTF (Paris) / France II").crs().epsg, Some(27582));
    }

    #[test]
    fn parameters_are_identified() {
        let utm = wgs84_map(1).double(3080, &[15.0]).double(3081, &[0.0]).double(3082, &[500_000.0]);
        assert_eq!(utm.double(3083, &[0.0]).double(3092, &[0.9996]).crs().epsg, Some(32633));
        let polar = wgs84_map(15).double(3081, &[-71.0]).double(3082, &[6e6]).double(3083, &[6e6]);
        assert_eq!(polar.double(3092, &[1.0]).double(3095, &[70.0]).crs().epsg, Some(3032));
        let projection = Build::default().short(1024, 1).short(2048, 4326).short(3072, 32767).short(3074, 3856);
        assert_eq!(projection.crs().epsg, Some(3857));
    }

    #[test]
    fn a_datum_by_code_or_name_is_identified() {
        let keys = Build::default().short(1024, 2).short(2048, 32767).short(2050, 6742).short(2054, 9102);
        assert_eq!(keys.crs().epsg, Some(4742));
        let named = || {
            let text = "GCS Name = mine|Datum = D_WGS_1984|Ellipsoid = WGS_1984|Primem = Greenwich|";
            Build::default().short(1024, 2).short(2048, 32767).text(2049, text).double(2057, &[6_378_137.0])
        };
        assert_eq!(named().double(2059, &[298.257223563]).crs().epsg, Some(4326));
        assert_eq!(named().double(2059, &[297.0]).crs().epsg, None);
        assert_eq!(named().double(2059, &[298.257223563]).short(2054, 9104).crs().epsg, None);
    }

    #[test]
    fn another_unit_is_another_map() {
        let crs = Build::default().short(1024, 1).short(3072, 26967).short(3076, 9003).crs();
        assert_eq!(crs.epsg, None);
        assert!(crs.wkt.unwrap().contains("US survey foot"));
        let imagine = "IMAGINE GeoTIFF Support\nERDAS\nProjection Name = x\nUnits = us_survey_feet\n";
        let crs = Build::default().short(1024, 1).short(3072, 26967).text(1026, imagine).crs();
        assert_eq!(crs.epsg, None);
    }

    #[test]
    fn both_variants_of_mercator_and_polar_stereographic() {
        let wkt = |build: Build| build.crs().wkt.unwrap();
        assert!(wkt(wgs84_map(7).double(3080, &[1.0])).contains("Mercator (variant A)"));
        assert!(wkt(wgs84_map(7).double(3078, &[40.0])).contains("Mercator (variant B)"));
        let a = wkt(wgs84_map(15).double(3081, &[-90.0]).double(3092, &[0.9]).double(3095, &[10.0]));
        assert!(a.contains("(variant A)") && a.contains("\"Longitude of natural origin\",10,"), "{a}");
        assert!(wkt(wgs84_map(15).double(3081, &[60.0])).contains("(variant B)"));
    }

    #[test]
    fn heights_count_from_version_1_1() {
        let keys = || Build::default().short(1024, 2).short(2048, 4326).short(4096, 3855);
        assert_eq!(keys().read(0).0.crs.unwrap().epsg, Some(4326));
        let (found, _) = keys().read(1);
        assert_eq!(found.crs.unwrap().epsg, Some(9518));
        assert_eq!(found.vertical_unit.as_deref(), Some("metre"));
        for height in [4979, 5030] {
            let keys = Build::default().short(1024, 2).short(2048, 4326).short(4096, height);
            assert_eq!(keys.read(1).0.crs.unwrap().epsg, Some(4979));
        }
        let crs = Build::default().short(1024, 1).short(3072, 32617).short(4096, 3855).read(1).0.crs.unwrap();
        assert_eq!((crs.epsg, crs.kind), (None, Some(CrsKind::Compound)));
    }

    #[test]
    fn an_esri_string_speaks_for_itself() {
        let wkt = registry::definition(32631).unwrap().wkt();
        let crs = Build::default().short(1024, 32767).text(3073, &format!("{PE_STRING}{wkt}")).crs();
        assert_eq!(crs.epsg, Some(32631));
    }

    #[test]
    fn a_local_grid_and_nothing() {
        let crs = Build::default().short(1024, 1).text(1026, "my own grid").crs();
        assert_eq!((crs.kind, crs.name.as_str()), (Some(CrsKind::Engineering), "my own grid"));
        assert!(Build::default().read(0).0.crs.is_none());
        assert!(Build::default().short(1025, 2).read(0).0.crs.is_none());
    }

    #[test]
    fn an_impossible_ellipsoid_is_no_crs() {
        let keys = Build::default().short(1024, 2).short(2048, 32767).double(2057, &[-1.0]).double(2059, &[200.0]);
        let (found, warnings) = keys.read(0);
        assert!(found.crs.is_none());
        assert_eq!(warnings.len(), 1);
    }

    #[test]
    fn sexagesimal_angles() {
        let unit = Unit::degree();
        assert!(close(degrees(44.4530, Some(9110), &unit), 44.758_333_333_333_3));
        assert!(close(degrees(-44.4530, Some(9110), &unit), -44.758_333_333_333_3));
        assert!(close(degrees(100.0, Some(9105), &registry::angle_unit(9105).unwrap()), 90.0));
    }

    #[test]
    fn a_shift_to_wgs84_is_kept() {
        let keys = Build::default().short(1024, 2).short(2048, 32767).short(2050, 32767).short(2056, 7004);
        let crs = keys.double(2062, &[1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 4.0]).crs();
        assert!(crs.wkt.unwrap().starts_with("BOUNDCRS["));
    }

    /// Every code that can be written is read back the same.
    #[test]
    fn written_codes_read_back() {
        for code in [4326, 4979, 4978, 32631, 3857, 9518, 2193, 28992, 5514, 4807, 3031] {
            let mut writer = KeyWriter::default();
            let written = to_keys(&Crs::from_epsg(code), &mut writer);
            assert!(written.whole);
            assert_eq!(Build(writer).read(written.minor).0.crs.unwrap().epsg, Some(code));
        }
    }

    /// Every method as user-defined keys.
    #[test]
    fn written_definitions_read_back() {
        for code in
            [32631, 2046, 6808, 29873, 3035, 5456, 26746, 5329, 3032, 28992, 2065, 27200, 5041, 3031, 4087, 3410]
        {
            let Some(Definition::Projected(mut crs)) = registry::definition(code) else { panic!("{code}") };
            (crs.code, crs.name) = (None, "mine".into());
            // A scale that no system of the dataset has, so that nothing is identified.
            for (id, value) in &mut crs.conversion.params {
                if matches!(id, 8806 | 8816 | 8826) {
                    *value += 1234.5;
                }
            }
            let crs = Crs::from_definition(Definition::Projected(crs));
            let mut writer = KeyWriter::default();
            assert!(to_keys(&crs, &mut writer).whole);
            let back = Build(writer).crs();
            let (Some(Definition::Projected(a)), Some(Definition::Projected(b))) = (&crs.definition, &back.definition)
            else {
                panic!("{code}")
            };
            let twin = a.conversion.params.iter().zip(&b.conversion.params).all(|(a, b)| close(a.1, b.1));
            assert!(twin && a.conversion.params.len() == b.conversion.params.len(), "{code}\n{a:?}\n{b:?}");
            assert_eq!((&a.name, a.base.code), (&b.name, b.base.code));
        }
    }

    #[test]
    fn hostile_directories_are_harmless() {
        let full: Vec<u16> = (0..65_535u32).map(|i| (i * 7919 % 65_536) as u16).collect();
        for directory in [
            vec![],
            vec![1],
            vec![1, 1, 0, 9],
            vec![2, 1, 0, 0],
            vec![1, 1, 0, 2, 1024, 34735, 1, 65535, 2048, 34735, 65535, 3],
            vec![1, 1, 0, 2, 1026, 34737, 65535, 65535, 2057, 34736, 65535, 1],
            [vec![1, 1, 1, 65535], full].concat(),
        ] {
            let tags = GeoTags {
                key_directory: directory,
                double_params: vec![f64::NAN, f64::INFINITY, -0.0],
                ascii_params: vec![0xff, b'|', 0],
                ..GeoTags::default()
            };
            let mut warnings = Vec::new();
            let keys = Keys::new(&tags, &mut warnings);
            from_keys(&keys, &mut warnings);
        }
    }
}
