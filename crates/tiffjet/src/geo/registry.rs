//! The EPSG dataset, as far as a GeoTIFF needs it.
//!
//! The tables under `epsg/` hold facts of the EPSG Geodetic Parameter Dataset v12.029 (owned by IOGP, epsg.org), read
//! from PROJ's database. One row a line, sorted by code, columns parted by tabs; angles are in degrees. A missing name
//! of a projected CRS is "base / conversion", of a compound CRS "horizontal + vertical".

use super::definition::{
    Axes, Conversion, Datum, Definition, Ellipsoid, Geodetic, GeodeticKind, Meridian, Projected, Unit, Vertical,
};
use super::method::{ParamKind, method_by_epsg, param};

struct Table(&'static str);

static UNITS: Table = Table(include_str!("epsg/unit.tsv"));
static ELLIPSOIDS: Table = Table(include_str!("epsg/ellipsoid.tsv"));
static MERIDIANS: Table = Table(include_str!("epsg/meridian.tsv"));
static DATUMS: Table = Table(include_str!("epsg/datum.tsv"));
static GEODETIC: Table = Table(include_str!("epsg/geodetic.tsv"));
static CONVERSIONS: Table = Table(include_str!("epsg/conversion.tsv"));
static PROJECTED: Table = Table(include_str!("epsg/projected.tsv"));
static VERTICAL_DATUMS: Table = Table(include_str!("epsg/vertical_datum.tsv"));
static VERTICAL: Table = Table(include_str!("epsg/vertical.tsv"));
static COMPOUND: Table = Table(include_str!("epsg/compound.tsv"));
static REPLACED: Table = Table(include_str!("epsg/replaced.tsv"));

/// One line of a table.
#[derive(Clone, Copy)]
struct Row(&'static str);

impl Row {
    fn text(self, column: usize) -> &'static str {
        self.0.split('\t').nth(column).unwrap_or_default()
    }
    fn number(self, column: usize) -> f64 {
        self.text(column).parse().unwrap_or_default()
    }
    fn code(self, column: usize) -> u32 {
        self.text(column).parse().unwrap_or_default()
    }
}

impl Table {
    /// Binary search in the text itself: no index to build, nothing to allocate.
    fn row(&self, code: u32) -> Option<Row> {
        let text = self.0;
        let (mut low, mut high) = (0, text.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let start = text.as_bytes()[..middle].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let end =
                text.as_bytes()[middle..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |n| middle + n);
            let row = Row(text.get(start..end)?);
            match row.code(0).cmp(&code) {
                std::cmp::Ordering::Equal => return Some(row),
                std::cmp::Ordering::Less => low = end + 1,
                std::cmp::Ordering::Greater => high = start,
            }
        }
        None
    }

    fn rows(&self) -> impl Iterator<Item = Row> {
        self.0.lines().map(Row)
    }
}

/// What a code of the EPSG dataset stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CrsKind {
    Geographic2D,
    Geographic3D,
    Geocentric,
    Projected,
    Vertical,
    Compound,
    /// A local grid with no tie to the earth.
    Engineering,
}

/// The kind of an EPSG code; `None` where the bundled dataset has no such CRS.
pub fn epsg_kind(code: u32) -> Option<CrsKind> {
    if PROJECTED.row(code).is_some() {
        Some(CrsKind::Projected)
    } else if let Some(row) = GEODETIC.row(code) {
        Some(match geodetic_kind(row) {
            GeodeticKind::Geographic2D => CrsKind::Geographic2D,
            GeodeticKind::Geographic3D => CrsKind::Geographic3D,
            GeodeticKind::Geocentric => CrsKind::Geocentric,
        })
    } else if VERTICAL.row(code).is_some() {
        Some(CrsKind::Vertical)
    } else {
        COMPOUND.row(code).map(|_| CrsKind::Compound)
    }
}

/// The code that took the place of a withdrawn one.
pub(crate) fn current(code: u32) -> u32 {
    REPLACED.row(code).map_or(code, |row| row.code(1))
}

/// The whole definition of an EPSG code.
pub(crate) fn definition(code: u32) -> Option<Definition> {
    if let Some(row) = COMPOUND.row(code) {
        let horizontal = definition(row.code(1)).filter(|d| !matches!(d, Definition::Compound { .. }))?;
        let vertical = vertical(row.code(2))?;
        let name = match row.text(3) {
            "" => format!("{} + {}", horizontal.name(), vertical.name),
            name => name.to_owned(),
        };
        return Some(Definition::Compound { name, horizontal: Box::new(horizontal), vertical, code: Some(code) });
    }
    if let Some(projected) = projected(code) {
        return Some(Definition::Projected(projected));
    }
    if let Some(geodetic) = geodetic(code) {
        return Some(Definition::Geodetic(geodetic));
    }
    vertical(code).map(Definition::Vertical)
}

/// A unit of length or angle.
pub(crate) fn unit(code: u32) -> Option<Unit> {
    let row = UNITS.row(code)?;
    Some(Unit { name: row.text(3).into(), factor: row.number(2), code: Some(code) })
}

/// A unit of length.
pub(crate) fn length_unit(code: u32) -> Option<Unit> {
    UNITS.row(code).filter(|row| row.text(1) == "l").and_then(|_| unit(code))
}

/// A unit of angle. Sexagesimal notations count as degrees; see `crs::degrees` for how their values are read.
pub(crate) fn angle_unit(code: u32) -> Option<Unit> {
    match code {
        9107 | 9108 | 9110 => unit(9102),
        _ => UNITS.row(code).filter(|row| row.text(1) == "a").and_then(|_| unit(code)),
    }
}

pub(crate) fn ellipsoid(code: u32) -> Option<Ellipsoid> {
    let row = ELLIPSOIDS.row(code)?;
    Some(Ellipsoid {
        semi_major: row.number(1),
        inv_flattening: row.number(2),
        name: row.text(3).into(),
        code: Some(code),
    })
}

pub(crate) fn meridian(code: u32) -> Option<Meridian> {
    let row = MERIDIANS.row(code)?;
    Some(Meridian { longitude: row.number(1), name: row.text(2).into(), code: Some(code) })
}

pub(crate) fn datum(code: u32) -> Option<Datum> {
    let row = DATUMS.row(code)?;
    Some(Datum { ellipsoid: ellipsoid(row.code(1))?, name: row.text(3).into(), code: Some(code) })
}

/// The prime meridian that belongs to a datum.
pub(crate) fn datum_meridian(code: u32) -> Option<Meridian> {
    meridian(DATUMS.row(code)?.code(2))
}

/// The datum that goes by a name of EPSG or Esri and has this ellipsoid.
pub(crate) fn datum_by_name(name: &str, ellipsoid: &Ellipsoid) -> Option<u32> {
    let name = fold(name);
    DATUMS
        .rows()
        .filter(|row| fold(row.text(3)) == name || fold(row.text(4)) == name)
        .find(|row| self::ellipsoid(row.code(1)).is_some_and(|own| own.same(ellipsoid)))
        .map(|row| row.code(0))
}

fn geodetic_kind(row: Row) -> GeodeticKind {
    match row.text(1) {
        "2" => GeodeticKind::Geographic2D,
        "3" => GeodeticKind::Geographic3D,
        _ => GeodeticKind::Geocentric,
    }
}

pub(crate) fn geodetic(code: u32) -> Option<Geodetic> {
    let row = GEODETIC.row(code)?;
    let datum_code = row.code(2);
    Some(Geodetic {
        name: row.text(5).into(),
        kind: geodetic_kind(row),
        datum: datum(datum_code)?,
        meridian: datum_meridian(datum_code)?,
        unit: unit(row.code(3)).unwrap_or_else(Unit::degree),
        code: Some(code),
    })
}

/// The CRS of this kind on a datum; current ones before withdrawn ones, a name that fits before all.
pub(crate) fn geodetic_by_datum(datum: u32, kind: GeodeticKind, name: &str) -> Option<u32> {
    let name = fold(name);
    let fits = |row: &Row| fold(row.text(5)) == name || fold(row.text(6)) == name;
    let rows = GEODETIC.rows().filter(|row| row.code(2) == datum && geodetic_kind(*row) == kind);
    rows.min_by_key(|row| (!fits(row), row.code(4), row.code(0))).map(|row| row.code(0))
}

/// The geographic CRS that goes by a name of EPSG or Esri and has this ellipsoid.
pub(crate) fn geographic_by_name(name: &str, ellipsoid: &Ellipsoid) -> Option<u32> {
    let name = fold(name);
    GEODETIC
        .rows()
        .filter(|row| row.text(1) == "2" && row.text(4) == "0")
        .filter(|row| fold(row.text(5)) == name || fold(row.text(6)) == name)
        .find(|row| datum(row.code(2)).is_some_and(|own| own.ellipsoid.same(ellipsoid)))
        .map(|row| row.code(0))
}

/// A map projection with its parameters.
pub(crate) fn conversion(code: u32) -> Option<Conversion> {
    let row = CONVERSIONS.row(code)?;
    let method = method_by_epsg(row.code(1))?;
    let values: Vec<&str> = row.text(3).split(' ').collect();
    if values.len() != method.params.len() {
        return None;
    }
    let mut params = Vec::with_capacity(values.len());
    for (&id, value) in method.params.iter().zip(values) {
        let (value, unit) = value.split_once('@').unwrap_or((value, ""));
        let mut value: f64 = value.parse().ok()?;
        if param(id).kind == ParamKind::Length && !unit.is_empty() {
            value *= length_unit(unit.parse().ok()?)?.factor;
        }
        params.push((id, value));
    }
    Some(Conversion { name: row.text(2).into(), method, params, code: Some(code) })
}

pub(crate) fn projected(code: u32) -> Option<Projected> {
    projected_of(PROJECTED.row(code)?)
}

fn projected_of(row: Row) -> Option<Projected> {
    let base = geodetic(row.code(1))?;
    let conversion = conversion(row.code(2))?;
    let name = match row.text(5) {
        "" => format!("{} / {}", base.name, conversion.name),
        name => name.to_owned(),
    };
    let axes = Axes::from_letters(row.text(4).trim_end_matches('-'));
    Some(Projected { name, base, conversion, unit: unit(row.code(3))?, axes, code: Some(row.code(0)) })
}

/// The code of a projected CRS with this very definition, whatever its name says.
pub(crate) fn identify_projected(wanted: &Projected) -> Option<u32> {
    let base = wanted.base.code?;
    let name = fold(&wanted.name);
    let tangent = mercator_a(wanted);
    let conversion = tangent.as_ref().unwrap_or(&wanted.conversion);
    PROJECTED
        .rows()
        .filter(|row| row.code(1) == base)
        .filter_map(|row| Some((row, projected_of(row)?)))
        .filter(|(_, found)| {
            let conversions = [&wanted.conversion, conversion];
            found.unit.same(&wanted.unit) && conversions.iter().any(|conversion| found.conversion.same(conversion))
        })
        .min_by_key(|(row, found)| {
            let found = fold(&found.name);
            let alike = common_suffix(&found, &name);
            (found != name, row.text(4).ends_with('-'), std::cmp::Reverse(alike), row.code(0))
        })
        .map(|(row, _)| row.code(0))
}

/// Mercator told by its standard parallel, told by its scale instead.
fn mercator_a(crs: &Projected) -> Option<Conversion> {
    if crs.conversion.method.epsg != 9805 {
        return None;
    }
    let value = |id| crs.conversion.param(id).unwrap_or_default();
    let inverse = crs.base.datum.ellipsoid.inv_flattening;
    let flattening = if inverse == 0.0 { 0.0 } else { 1.0 / inverse };
    let eccentricity2 = flattening * (2.0 - flattening);
    let (sin, cos) = value(8823).to_radians().sin_cos();
    let scale = cos / (1.0 - eccentricity2 * sin * sin).sqrt();
    let params = vec![(8801, 0.0), (8802, value(8802)), (8805, scale), (8806, value(8806)), (8807, value(8807))];
    Some(Conversion { name: String::new(), method: method_by_epsg(9804)?, params, code: None })
}

/// Twins differ in the name of the map, which comes last.
fn common_suffix(a: &str, b: &str) -> usize {
    a.bytes().rev().zip(b.bytes().rev()).take_while(|(a, b)| a == b).count()
}

pub(crate) fn vertical(code: u32) -> Option<Vertical> {
    let row = VERTICAL.row(code)?;
    let datum_code = row.code(1);
    Some(Vertical {
        name: row.text(4).into(),
        datum: vertical_datum(datum_code)?.into(),
        datum_code: Some(datum_code),
        unit: unit(row.code(2))?,
        down: row.text(3) == "d",
        code: Some(code),
    })
}

/// The name of a vertical datum.
pub(crate) fn vertical_datum(code: u32) -> Option<&'static str> {
    VERTICAL_DATUMS.row(code).map(|row| row.text(1))
}

/// The code of a vertical CRS of this name, datum and unit.
pub(crate) fn identify_vertical(wanted: &Vertical) -> Option<u32> {
    VERTICAL
        .rows()
        .filter(|row| Some(row.code(1)) == wanted.datum_code && (row.text(3) == "d") == wanted.down)
        .find(|row| unit(row.code(2)).is_some_and(|unit| unit.same(&wanted.unit)))
        .map(|row| row.code(0))
}

/// The code of the compound CRS of these two.
pub(crate) fn compound_of(horizontal: u32, vertical: u32) -> Option<u32> {
    COMPOUND.rows().find(|row| row.code(1) == horizontal && row.code(2) == vertical).map(|row| row.code(0))
}

/// A name without case, spaces and signs: `RT90_5_gon_O` is `RT90 5 gon O`.
pub(crate) fn fold(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row is found by its code, and every CRS of the dataset has a definition unless its method is exotic.
    #[test]
    fn tables_are_sorted_and_whole() {
        for table in [&UNITS, &DATUMS, &GEODETIC, &CONVERSIONS, &PROJECTED, &VERTICAL, &COMPOUND, &REPLACED] {
            for row in table.rows() {
                assert_eq!(table.row(row.code(0)).map(|found| found.0), Some(row.0));
            }
        }
        assert!(PROJECTED.row(1).is_none() && PROJECTED.row(u32::MAX).is_none());
        let without = PROJECTED.rows().filter(|row| projected_of(*row).is_none()).count();
        assert!(without * 100 < PROJECTED.rows().count(), "{without} projected CRS have no definition");
        for row in GEODETIC.rows() {
            assert!(geodetic(row.code(0)).is_some(), "{}", row.0);
        }
        for row in VERTICAL.rows() {
            assert!(vertical(row.code(0)).is_some(), "{}", row.0);
        }
    }

    #[test]
    fn kinds() {
        assert_eq!(epsg_kind(4326), Some(CrsKind::Geographic2D));
        assert_eq!(epsg_kind(4979), Some(CrsKind::Geographic3D));
        assert_eq!(epsg_kind(4978), Some(CrsKind::Geocentric));
        assert_eq!(epsg_kind(32631), Some(CrsKind::Projected));
        assert_eq!(epsg_kind(3855), Some(CrsKind::Vertical));
        assert_eq!(epsg_kind(9518), Some(CrsKind::Compound));
        assert_eq!(epsg_kind(32767), None);
    }

    #[test]
    fn withdrawn_codes_have_successors() {
        assert_eq!(current(21892), 21897);
        assert_eq!(current(4326), 4326);
    }

    #[test]
    fn mercator_is_known_by_its_parallel_too() {
        let mut wanted = projected(3001).unwrap();
        wanted.code = None;
        let params = vec![(8823, 4.454_051_545_897_48), (8802, 110.0), (8806, 3_900_000.0), (8807, 900_000.0)];
        let method = method_by_epsg(9805).unwrap();
        wanted.conversion = Conversion { name: String::new(), method, params, code: None };
        assert_eq!(identify_projected(&wanted), Some(3001));
        wanted.conversion.params[0].1 = 5.0;
        assert_eq!(identify_projected(&wanted), None);
    }

    #[test]
    fn every_projected_crs_identifies_itself_or_a_twin() {
        for code in [2046, 2154, 3035, 3857, 5329, 5456, 6808, 26746, 28992, 32633, 27700, 2056] {
            let mut wanted = projected(code).unwrap();
            wanted.code = None;
            assert_eq!(identify_projected(&wanted), Some(code));
        }
    }
}
