//! A coordinate reference system as data, and its WKT 2.

use super::method::{Method, ParamKind, param};
use super::registry;

/// Metres or radians of one unit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unit {
    pub name: String,
    pub factor: f64,
    pub code: Option<u32>,
}

impl Unit {
    pub fn degree() -> Self {
        Self { name: "degree".into(), factor: 1f64.to_radians(), code: Some(9122) }
    }
    pub fn metre() -> Self {
        Self { name: "metre".into(), factor: 1.0, code: Some(9001) }
    }
    pub fn same(&self, other: &Self) -> bool {
        close(self.factor, other.factor)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ellipsoid {
    pub name: String,
    /// Metres.
    pub semi_major: f64,
    /// 0 for a sphere.
    pub inv_flattening: f64,
    pub code: Option<u32>,
}

impl Ellipsoid {
    pub fn same(&self, other: &Self) -> bool {
        // Files round the flattening; 1e-6 of it is under a micrometre on the ground.
        (self.semi_major - other.semi_major).abs() < 1e-3
            && (self.inv_flattening - other.inv_flattening).abs() < 1e-6 * self.inv_flattening.max(1.0)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Meridian {
    pub name: String,
    /// Degrees east of Greenwich.
    pub longitude: f64,
    pub code: Option<u32>,
}

impl Meridian {
    pub fn greenwich() -> Self {
        Self { name: "Greenwich".into(), longitude: 0.0, code: Some(8901) }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Datum {
    pub name: String,
    pub ellipsoid: Ellipsoid,
    pub code: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GeodeticKind {
    Geographic2D,
    Geographic3D,
    Geocentric,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Geodetic {
    pub name: String,
    pub kind: GeodeticKind,
    pub datum: Datum,
    pub meridian: Meridian,
    /// Of angles; of lengths for a geocentric CRS.
    pub unit: Unit,
    pub code: Option<u32>,
}

/// A method and its parameters: angles in degrees, lengths in metres.
#[derive(Debug, Clone)]
pub(crate) struct Conversion {
    pub name: String,
    pub method: &'static Method,
    pub params: Vec<(u16, f64)>,
    pub code: Option<u32>,
}

impl PartialEq for Conversion {
    fn eq(&self, other: &Self) -> bool {
        self.same(other)
    }
}

impl Conversion {
    pub fn param(&self, id: u16) -> Option<f64> {
        self.params.iter().find(|(other, _)| *other == id).map(|(_, value)| *value)
    }

    /// The same mathematics, whatever the names.
    pub fn same(&self, other: &Self) -> bool {
        self.method.name == other.method.name
            && self.params.len() == other.params.len()
            && self.params.iter().all(|(id, value)| other.param(*id).is_some_and(|own| same_value(*id, own, *value)))
    }
}

/// Which way the axes of a map point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Axes(pub [&'static str; 2]);

impl Axes {
    pub const EAST_NORTH: Self = Self(["east", "north"]);

    /// From letters as in `en`, `ne`, `ws`.
    pub fn from_letters(letters: &str) -> Self {
        let mut axes = Self::EAST_NORTH;
        for (axis, letter) in axes.0.iter_mut().zip(letters.bytes()) {
            *axis = match letter {
                b'n' => "north",
                b's' => "south",
                b'w' => "west",
                _ => "east",
            };
        }
        axes
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Projected {
    pub name: String,
    pub base: Geodetic,
    pub conversion: Conversion,
    pub unit: Unit,
    pub axes: Axes,
    pub code: Option<u32>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Vertical {
    pub name: String,
    pub datum: String,
    pub datum_code: Option<u32>,
    pub unit: Unit,
    pub down: bool,
    pub code: Option<u32>,
}

/// A whole CRS.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Definition {
    Geodetic(Geodetic),
    Projected(Projected),
    Vertical(Vertical),
    Compound {
        name: String,
        horizontal: Box<Definition>,
        vertical: Vertical,
        code: Option<u32>,
    },
    Engineering {
        name: String,
        unit: Unit,
    },
    /// With the seven parameters of a transformation to WGS 84.
    Bound {
        base: Box<Definition>,
        to_wgs84: [f64; 7],
    },
}

impl Definition {
    pub fn name(&self) -> &str {
        match self {
            Self::Geodetic(crs) => &crs.name,
            Self::Projected(crs) => &crs.name,
            Self::Vertical(crs) => &crs.name,
            Self::Compound { name, .. } | Self::Engineering { name, .. } => name,
            Self::Bound { base, .. } => base.name(),
        }
    }

    pub fn code(&self) -> Option<u32> {
        match self {
            Self::Geodetic(crs) => crs.code,
            Self::Projected(crs) => crs.code,
            Self::Vertical(crs) => crs.code,
            Self::Compound { code, .. } => *code,
            Self::Engineering { .. } => None,
            // A transformation of one's own is no part of the EPSG definition, and no reason to deny it.
            Self::Bound { base, .. } => base.code(),
        }
    }

    /// WKT 2 (ISO 19162:2019), one line.
    pub fn wkt(&self) -> String {
        let mut out = Wkt::default();
        out.definition(self);
        out.0
    }
}

/// An angle is the same after a full turn.
fn same_value(id: u16, a: f64, b: f64) -> bool {
    close(a, b) || (param(id).kind == ParamKind::Angle && (close(a, b + 360.0) || close(a + 360.0, b)))
}

/// Equal as numbers of a CRS are: to 1 part in 10^10.
pub(crate) fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-10 * a.abs().max(b.abs()).max(1e-3)
}

/// Fifteen digits: what a double holds for sure, so values that went through a unit look as they were meant.
pub(crate) fn digits15(value: f64) -> String {
    let value: f64 = format!("{value:.14e}").parse().unwrap_or(value);
    if value != 0.0 && !(1e-5..1e16).contains(&value.abs()) { format!("{value:E}") } else { format!("{value}") }
}

#[derive(Default)]
struct Wkt(String);

impl Wkt {
    fn open(&mut self, keyword: &str, name: &str) {
        self.separate();
        self.0.push_str(keyword);
        self.0.push_str("[\"");
        self.0.push_str(&name.replace('"', "\"\""));
        self.0.push('"');
    }

    fn close(&mut self) {
        self.0.push(']');
    }

    fn separate(&mut self) {
        if !self.0.is_empty() && !self.0.ends_with('[') {
            self.0.push(',');
        }
    }

    fn raw(&mut self, text: &str) {
        self.separate();
        self.0.push_str(text);
    }

    fn number(&mut self, value: f64) {
        self.raw(&digits15(value));
    }

    fn id(&mut self, code: Option<u32>) {
        if let Some(code) = code {
            self.raw(&format!("ID[\"EPSG\",{code}]"));
        }
    }

    fn unit(&mut self, keyword: &str, unit: &Unit) {
        self.open(keyword, &unit.name);
        self.number(unit.factor);
        self.close();
    }

    fn axis(&mut self, name: &str, direction: &str, order: usize, keyword: &str, unit: &Unit) {
        self.open("AXIS", name);
        self.raw(direction);
        self.raw(&format!("ORDER[{order}]"));
        self.unit(keyword, unit);
        self.close();
    }

    fn definition(&mut self, definition: &Definition) {
        match definition {
            Definition::Geodetic(crs) => self.geodetic(crs),
            Definition::Projected(crs) => self.projected(crs),
            Definition::Vertical(crs) => self.vertical(crs),
            Definition::Compound { name, horizontal, vertical, code } => {
                self.open("COMPOUNDCRS", name);
                self.definition(horizontal);
                self.vertical(vertical);
                self.id(*code);
                self.close();
            }
            Definition::Engineering { name, unit } => {
                self.open("ENGCRS", name);
                self.raw("EDATUM[\"Unknown engineering datum\"]");
                self.raw("CS[Cartesian,2]");
                self.axis("(E)", "east", 1, "LENGTHUNIT", unit);
                self.axis("(N)", "north", 2, "LENGTHUNIT", unit);
                self.close();
            }
            Definition::Bound { base, to_wgs84 } => self.bound(base, to_wgs84),
        }
    }

    fn datum(&mut self, datum: &Datum, meridian: &Meridian) {
        self.open("DATUM", &datum.name);
        self.open("ELLIPSOID", &datum.ellipsoid.name);
        self.number(datum.ellipsoid.semi_major);
        self.number(datum.ellipsoid.inv_flattening);
        self.unit("LENGTHUNIT", &Unit::metre());
        self.id(datum.ellipsoid.code);
        self.close();
        self.id(datum.code);
        self.close();
        self.open("PRIMEM", &meridian.name);
        self.number(meridian.longitude);
        self.unit("ANGLEUNIT", &Unit::degree());
        self.close();
    }

    fn geodetic(&mut self, crs: &Geodetic) {
        let geocentric = crs.kind == GeodeticKind::Geocentric;
        self.open(if geocentric { "GEODCRS" } else { "GEOGCRS" }, &crs.name);
        self.datum(&crs.datum, &crs.meridian);
        if geocentric {
            self.raw("CS[Cartesian,3]");
            for (i, axis) in ["X", "Y", "Z"].into_iter().enumerate() {
                self.axis(&format!("({axis})"), &format!("geocentric{axis}"), i + 1, "LENGTHUNIT", &crs.unit);
            }
        } else {
            let three = crs.kind == GeodeticKind::Geographic3D;
            self.raw(if three { "CS[ellipsoidal,3]" } else { "CS[ellipsoidal,2]" });
            self.axis("geodetic latitude (Lat)", "north", 1, "ANGLEUNIT", &crs.unit);
            self.axis("geodetic longitude (Lon)", "east", 2, "ANGLEUNIT", &crs.unit);
            if three {
                self.axis("ellipsoidal height (h)", "up", 3, "LENGTHUNIT", &Unit::metre());
            }
        }
        self.id(crs.code);
        self.close();
    }

    fn projected(&mut self, crs: &Projected) {
        self.open("PROJCRS", &crs.name);
        self.open("BASEGEOGCRS", &crs.base.name);
        self.datum(&crs.base.datum, &crs.base.meridian);
        self.id(crs.base.code);
        self.close();
        self.conversion(&crs.conversion, &crs.unit);
        self.raw("CS[Cartesian,2]");
        for (i, direction) in crs.axes.0.into_iter().enumerate() {
            self.axis(axis_name(crs.axes, i), direction, i + 1, "LENGTHUNIT", &crs.unit);
        }
        self.id(crs.code);
        self.close();
    }

    fn conversion(&mut self, conversion: &Conversion, unit: &Unit) {
        self.open("CONVERSION", &conversion.name);
        self.open("METHOD", conversion.method.name);
        self.id((conversion.method.epsg != 0).then(|| conversion.method.epsg.into()));
        self.close();
        for &(id, value) in &conversion.params {
            let param = param(id);
            self.open("PARAMETER", param.name);
            match param.kind {
                ParamKind::Angle => {
                    self.number(value);
                    self.unit("ANGLEUNIT", &Unit::degree());
                }
                ParamKind::Length => {
                    self.number(value / unit.factor);
                    self.unit("LENGTHUNIT", unit);
                }
                ParamKind::Scale => {
                    self.number(value);
                    self.raw("SCALEUNIT[\"unity\",1]");
                }
            }
            self.id((id > 1).then(|| id.into()));
            self.close();
        }
        self.id(conversion.code);
        self.close();
    }

    fn vertical(&mut self, crs: &Vertical) {
        self.open("VERTCRS", &crs.name);
        self.open("VDATUM", &crs.datum);
        self.id(crs.datum_code);
        self.close();
        self.raw("CS[vertical,1]");
        let (name, direction) = if crs.down { ("depth (D)", "down") } else { ("gravity-related height (H)", "up") };
        self.axis(name, direction, 1, "LENGTHUNIT", &crs.unit);
        self.id(crs.code);
        self.close();
    }

    fn bound(&mut self, base: &Definition, to_wgs84: &[f64; 7]) {
        self.0.push_str("BOUNDCRS[SOURCECRS[");
        self.definition(base);
        self.close();
        self.0.push_str(",TARGETCRS[");
        if let Some(wgs84) = registry::geodetic(4326) {
            self.geodetic(&wgs84);
        }
        self.close();
        self.open("ABRIDGEDTRANSFORMATION", "Transformation to WGS 84");
        let names = [
            "X-axis translation",
            "Y-axis translation",
            "Z-axis translation",
            "X-axis rotation",
            "Y-axis rotation",
            "Z-axis rotation",
            "Scale difference",
        ];
        let shift_only = to_wgs84[3..].iter().all(|value| *value == 0.0);
        self.raw(if shift_only {
            "METHOD[\"Geocentric translations (geog2D domain)\",ID[\"EPSG\",9603]]"
        } else {
            "METHOD[\"Position Vector transformation (geog2D domain)\",ID[\"EPSG\",9606]]"
        });
        for (i, name) in names.into_iter().enumerate().take(if shift_only { 3 } else { 7 }) {
            self.open("PARAMETER", name);
            // WKT's abridged form tells the scale as a factor, not as parts per million.
            self.number(if i == 6 { 1.0 + to_wgs84[i] * 1e-6 } else { to_wgs84[i] });
            self.id(u32::try_from(8605 + i).ok());
            self.close();
        }
        self.close();
        self.close();
    }
}

fn axis_name(axes: Axes, index: usize) -> &'static str {
    // At a pole both axes point the same way, so their direction does not name them.
    if axes.0[0] == axes.0[1] {
        return ["easting (E)", "northing (N)"][index];
    }
    match axes.0[index] {
        "north" => "northing (N)",
        "south" => "southing (S)",
        "west" => "westing (W)",
        _ => "easting (E)",
    }
}
