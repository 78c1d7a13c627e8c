//! Map projection methods and their parameters: one table for GeoKeys, WKT and EPSG.

/// How a parameter is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParamKind {
    Angle,
    Length,
    Scale,
}

/// A parameter, by its EPSG code.
#[derive(Debug)]
pub(crate) struct Param {
    pub code: u16,
    pub name: &'static str,
    pub kind: ParamKind,
    /// GeoKeys that may hold it, the usual one first.
    pub keys: &'static [u16],
    /// Names in WKT 1 of OGC and Esri, folded.
    pub aliases: &'static [&'static str],
}

/// A projection method.
#[derive(Debug)]
pub(crate) struct Method {
    /// EPSG code, 0 where EPSG has none.
    pub epsg: u16,
    pub name: &'static str,
    /// GeoTIFF's coordinate transformation code, 0 where GeoTIFF has none.
    pub geotiff: u16,
    /// Codes of its parameters, in EPSG's order.
    pub params: &'static [u16],
    /// Names in WKT 1 of OGC and Esri, folded.
    pub aliases: &'static [&'static str],
}

use ParamKind::{Angle, Length, Scale};

/// Not in EPSG: height of a geostationary satellite.
pub(crate) const SATELLITE_HEIGHT: u16 = 1;

const LATITUDES: &[&str] = &["latitudeoforigin", "latitudeofcenter", "latitudeofcentre", "standardparallel1"];
const LONGITUDES: &[&str] = &["centralmeridian", "longitudeofcenter", "longitudeofcentre", "longitudeoforigin"];
const NATURAL_LAT: &[u16] = &[3081, 3089, 3085];
const NATURAL_LON: &[u16] = &[3080, 3088, 3084];
const EASTING: &[u16] = &[3082, 3090, 3086];
const NORTHING: &[u16] = &[3083, 3091, 3087];

const fn p(
    code: u16,
    name: &'static str,
    kind: ParamKind,
    keys: &'static [u16],
    aliases: &'static [&'static str],
) -> Param {
    Param { code, name, kind, keys, aliases }
}

static PARAMS: &[Param] = &[
    p(SATELLITE_HEIGHT, "Satellite Height", Length, &[], &["satelliteheight", "height"]),
    p(1036, "Co-latitude of cone axis", Angle, &[3094], &["azimuth"]),
    p(1038, "Ellipsoid scaling factor", Scale, &[], &["ellipsoidscalingfactor", "scalefactor"]),
    p(1039, "Projection plane origin height", Length, &[], &["projectionplaneoriginheight", "height"]),
    p(8801, "Latitude of natural origin", Angle, NATURAL_LAT, LATITUDES),
    p(8802, "Longitude of natural origin", Angle, NATURAL_LON, LONGITUDES),
    p(8805, "Scale factor at natural origin", Scale, &[3092, 3093], &["scalefactor"]),
    p(8806, "False easting", Length, EASTING, &["falseeasting"]),
    p(8807, "False northing", Length, NORTHING, &["falsenorthing"]),
    p(
        8811,
        "Latitude of projection centre",
        Angle,
        &[3089, 3081, 3085],
        &["latitudeofcenter", "latitudeofcentre", "latitudeoforigin"],
    ),
    p(
        8812,
        "Longitude of projection centre",
        Angle,
        &[3088, 3080, 3084],
        &["longitudeofcenter", "longitudeofcentre", "centralmeridian"],
    ),
    p(8813, "Azimuth at projection centre", Angle, &[3094], &["azimuth"]),
    p(8814, "Angle from Rectified to Skew Grid", Angle, &[3096], &["rectifiedgridangle", "xyplanerotation"]),
    p(8815, "Scale factor at projection centre", Scale, &[3093, 3092], &["scalefactor"]),
    p(8816, "Easting at projection centre", Length, EASTING, &["falseeasting"]),
    p(8817, "Northing at projection centre", Length, NORTHING, &["falsenorthing"]),
    p(8818, "Latitude of pseudo standard parallel", Angle, &[3078], &["pseudostandardparallel1"]),
    p(8819, "Scale factor on pseudo standard parallel", Scale, &[3092], &["scalefactor"]),
    p(8821, "Latitude of false origin", Angle, &[3085, 3081, 3089], LATITUDES),
    p(8822, "Longitude of false origin", Angle, &[3084, 3080, 3088], LONGITUDES),
    p(8823, "Latitude of 1st standard parallel", Angle, &[3078], &["standardparallel1"]),
    p(8824, "Latitude of 2nd standard parallel", Angle, &[3079], &["standardparallel2"]),
    p(8826, "Easting at false origin", Length, &[3086, 3082, 3090], &["falseeasting"]),
    p(8827, "Northing at false origin", Length, &[3087, 3083, 3091], &["falsenorthing"]),
    p(8830, "Initial longitude", Angle, &[], &["initiallongitude"]),
    p(8831, "Zone width", Angle, &[], &["zonewidth"]),
    p(
        8832,
        "Latitude of standard parallel",
        Angle,
        NATURAL_LAT,
        &["standardparallel1", "latitudeoforigin", "latitudeofcenter"],
    ),
    p(8833, "Longitude of origin", Angle, &[3095, 3080, 3088, 3084], LONGITUDES),
];

const NATURAL: &[u16] = &[8801, 8802, 8806, 8807];
const NATURAL_SCALED: &[u16] = &[8801, 8802, 8805, 8806, 8807];
const CONIC: &[u16] = &[8821, 8822, 8823, 8824, 8826, 8827];
const PARALLEL: &[u16] = &[8823, 8802, 8806, 8807];
const MERIDIAN: &[u16] = &[8802, 8806, 8807];
const KROVAK: &[u16] = &[8811, 8833, 1036, 8818, 8819, 8806, 8807];
const OBLIQUE_A: &[u16] = &[8811, 8812, 8813, 8814, 8815, 8806, 8807];
const OBLIQUE_B: &[u16] = &[8811, 8812, 8813, 8814, 8815, 8816, 8817];
const POLAR: &[u16] = &[8832, 8833, 8806, 8807];
const SATELLITE: &[u16] = &[8802, SATELLITE_HEIGHT, 8806, 8807];

const fn m(
    epsg: u16,
    name: &'static str,
    geotiff: u16,
    params: &'static [u16],
    aliases: &'static [&'static str],
) -> Method {
    Method { epsg, name, geotiff, params, aliases }
}

/// Where one GeoTIFF code or WKT name stands for several methods, the first is the one meant when nothing else is said.
static METHODS: &[Method] = &[
    m(9807, "Transverse Mercator", 1, NATURAL_SCALED, &["transversemercator", "gausskruger"]),
    m(9808, "Transverse Mercator (South Orientated)", 27, NATURAL_SCALED, &["transversemercatorsouthorientated"]),
    m(
        9812,
        "Hotine Oblique Mercator (variant A)",
        3,
        OBLIQUE_A,
        &[
            "hotineobliquemercator",
            "hotineobliquemercatorazimuthnaturalorigin",
            "rectifiedskeworthomorphicnaturalorigin",
        ],
    ),
    m(
        9815,
        "Hotine Oblique Mercator (variant B)",
        9815,
        OBLIQUE_B,
        &["obliquemercator", "hotineobliquemercatorazimuthcenter", "rectifiedskeworthomorphiccenter"],
    ),
    m(9813, "Laborde Oblique Mercator", 4, &[8811, 8812, 8813, 8815, 8806, 8807], &["labordeobliquemercator"]),
    m(9804, "Mercator (variant A)", 7, NATURAL_SCALED, &["mercator1sp"]),
    m(9805, "Mercator (variant B)", 0, PARALLEL, &["mercator2sp", "mercator"]),
    m(1024, "Popular Visualisation Pseudo Mercator", 0, NATURAL, &["mercatorauxiliarysphere"]),
    m(9801, "Lambert Conic Conformal (1SP)", 9, NATURAL_SCALED, &["lambertconformalconic1sp"]),
    m(9802, "Lambert Conic Conformal (2SP)", 8, CONIC, &["lambertconformalconic2sp", "lambertconformalconic"]),
    m(9803, "Lambert Conic Conformal (2SP Belgium)", 0, CONIC, &["lambertconformalconic2spbelgium"]),
    m(
        1051,
        "Lambert Conic Conformal (2SP Michigan)",
        0,
        &[8821, 8822, 8823, 8824, 8826, 8827, 1038],
        &["lambertconformalconic2spmichigan"],
    ),
    m(1102, "Lambert Conic Conformal (1SP variant B)", 0, &[8801, 8805, 8821, 8822, 8826, 8827], &[]),
    m(9826, "Lambert Conic Conformal (West Orientated)", 0, NATURAL_SCALED, &[]),
    m(9817, "Lambert Conic Near-Conformal", 0, NATURAL_SCALED, &[]),
    m(9820, "Lambert Azimuthal Equal Area", 10, NATURAL, &["lambertazimuthalequalarea"]),
    m(1027, "Lambert Azimuthal Equal Area (Spherical)", 0, NATURAL, &[]),
    m(9822, "Albers Equal Area", 11, CONIC, &["albersconicequalarea", "albers"]),
    m(1125, "Azimuthal Equidistant", 12, NATURAL, &["azimuthalequidistant"]),
    m(9832, "Modified Azimuthal Equidistant", 0, NATURAL, &[]),
    m(9831, "Guam Projection", 0, NATURAL, &[]),
    m(1119, "Equidistant Conic", 13, CONIC, &["equidistantconic"]),
    m(0, "Stereographic", 14, NATURAL_SCALED, &["stereographic"]),
    m(9810, "Polar Stereographic (variant A)", 15, NATURAL_SCALED, &["polarstereographic"]),
    m(
        9829,
        "Polar Stereographic (variant B)",
        0,
        POLAR,
        &["stereographicnorthpole", "stereographicsouthpole", "polarstereographicvariantb"],
    ),
    m(9830, "Polar Stereographic (variant C)", 0, &[8832, 8833, 8826, 8827], &[]),
    m(9809, "Oblique Stereographic", 16, NATURAL_SCALED, &["obliquestereographic", "doublestereographic"]),
    m(1028, "Equidistant Cylindrical", 17, PARALLEL, &["equirectangular", "equidistantcylindrical", "platecarree"]),
    m(1029, "Equidistant Cylindrical (Spherical)", 0, PARALLEL, &[]),
    m(9823, "Equidistant Cylindrical (Spherical)", 0, NATURAL, &[]),
    m(9842, "Equidistant Cylindrical", 0, &[8801, 8822, 8806, 8807], &[]),
    m(9806, "Cassini-Soldner", 18, NATURAL, &["cassinisoldner", "cassini"]),
    m(9833, "Hyperbolic Cassini-Soldner", 0, NATURAL, &[]),
    m(0, "Gnomonic", 19, NATURAL, &["gnomonic"]),
    m(0, "Miller Cylindrical", 20, MERIDIAN, &["millercylindrical"]),
    m(9840, "Orthographic", 21, NATURAL, &["orthographic"]),
    m(1130, "Local Orthographic", 0, &[8811, 8812, 8813, 8815, 8816, 8817], &[]),
    m(9818, "American Polyconic", 22, NATURAL, &["polyconic"]),
    m(0, "Robinson", 23, MERIDIAN, &["robinson"]),
    m(0, "Sinusoidal", 24, MERIDIAN, &["sinusoidal"]),
    m(0, "Van Der Grinten", 25, MERIDIAN, &["vandergrinten", "vandergrinteni"]),
    m(9811, "New Zealand Map Grid", 26, NATURAL, &["newzealandmapgrid"]),
    m(9835, "Lambert Cylindrical Equal Area", 28, PARALLEL, &["cylindricalequalarea"]),
    m(9834, "Lambert Cylindrical Equal Area (Spherical)", 0, PARALLEL, &[]),
    m(9819, "Krovak", 0, KROVAK, &["krovak"]),
    m(1041, "Krovak (North Orientated)", 0, KROVAK, &[]),
    m(1042, "Krovak Modified", 0, KROVAK, &[]),
    m(1043, "Krovak Modified (North Orientated)", 0, KROVAK, &[]),
    m(9827, "Bonne", 0, NATURAL, &["bonne"]),
    m(9828, "Bonne (South Orientated)", 0, NATURAL, &[]),
    m(9816, "Tunisia Mining Grid", 0, &[8821, 8822, 8826, 8827], &["tunisiamininggrid"]),
    m(9824, "Transverse Mercator Zoned Grid System", 0, &[8801, 8830, 8831, 8805, 8806, 8807], &[]),
    m(1111, "Transverse Mercator 3D", 0, NATURAL_SCALED, &[]),
    m(9841, "Mercator (1SP) (Spherical)", 0, NATURAL_SCALED, &[]),
    m(1052, "Colombia Urban", 0, &[8801, 8802, 8806, 8807, 1039], &[]),
    m(1078, "Equal Earth", 0, MERIDIAN, &["equalearth"]),
    m(0, "Geostationary Satellite (Sweep Y)", 0, SATELLITE, &["geostationarysatellite"]),
    m(0, "Geostationary Satellite (Sweep X)", 0, SATELLITE, &[]),
    m(0, "Mollweide", 0, MERIDIAN, &["mollweide"]),
    m(0, "Eckert I", 0, MERIDIAN, &["eckerti"]),
    m(0, "Eckert II", 0, MERIDIAN, &["eckertii"]),
    m(0, "Eckert III", 0, MERIDIAN, &["eckertiii"]),
    m(0, "Eckert IV", 0, MERIDIAN, &["eckertiv"]),
    m(0, "Eckert V", 0, MERIDIAN, &["eckertv"]),
    m(0, "Eckert VI", 0, MERIDIAN, &["eckertvi"]),
    m(0, "Goode Homolosine", 0, MERIDIAN, &["goodehomolosine", "goodeshomolosine"]),
    m(0, "Interrupted Goode Homolosine", 0, MERIDIAN, &["interruptedgoodehomolosine"]),
    m(0, "Gall Stereographic", 0, MERIDIAN, &["gallstereographic"]),
    m(0, "Natural Earth", 0, MERIDIAN, &["naturalearth"]),
];

/// Method of an EPSG code.
pub(crate) fn method_by_epsg(code: u32) -> Option<&'static Method> {
    METHODS.iter().find(|method| code != 0 && u32::from(method.epsg) == code)
}

/// Method of a GeoTIFF coordinate transformation code.
pub(crate) fn method_by_geotiff(code: u16) -> Option<&'static Method> {
    METHODS.iter().find(|method| code != 0 && method.geotiff == code)
}

/// Method of a folded name, of any dialect.
pub(crate) fn method_by_name(folded: &str) -> Option<&'static Method> {
    METHODS
        .iter()
        .find(|method| super::registry::fold(method.name) == folded)
        .or_else(|| METHODS.iter().find(|method| method.aliases.contains(&folded)))
}

/// Method of its exact name.
pub(crate) fn method(name: &str) -> &'static Method {
    METHODS.iter().find(|method| method.name == name).unwrap_or(&METHODS[0])
}

/// A parameter by its code.
pub(crate) fn param(code: u16) -> &'static Param {
    PARAMS.iter().find(|param| param.code == code).unwrap_or(&PARAMS[0])
}

/// The GeoKey that other readers expect a parameter in.
pub(crate) fn written_key(method: &Method, id: u16) -> Option<u16> {
    let centred = matches!(method.geotiff, 10 | 12 | 17 | 19 | 20 | 21 | 23 | 24 | 25);
    let cone_without_false_origin = matches!(method.geotiff, 11 | 13);
    match id {
        8801 if centred => Some(3089),
        8802 if centred => Some(3088),
        8821 if cone_without_false_origin => Some(3081),
        8822 if cone_without_false_origin => Some(3080),
        8826 if cone_without_false_origin => Some(3082),
        8827 if cone_without_false_origin => Some(3083),
        8802 if method.geotiff == 15 => Some(3095),
        _ => param(id).keys.first().copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_of_every_method_is_known() {
        for method in METHODS {
            for id in method.params {
                assert_eq!(param(*id).code, *id, "{}", method.name);
            }
            assert_eq!(self::method(method.name).name, method.name);
        }
    }

    #[test]
    fn every_geotiff_code_has_one_method() {
        for code in (1..=28).chain([9815]) {
            let known = METHODS.iter().filter(|method| method.geotiff == code).count();
            let expected = usize::from(!matches!(code, 2 | 5 | 6));
            assert_eq!(known, expected, "code {code}");
        }
    }
}
