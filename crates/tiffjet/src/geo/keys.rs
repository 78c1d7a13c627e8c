//! The GeoKey directory: which key has which value, borrowed from the tags.

use std::borrow::Cow;

use super::GeoTags;

const DIRECTORY_TAG: u16 = 34735;
const DOUBLES_TAG: u16 = 34736;
const ASCII_TAG: u16 = 34737;

/// What GeoTIFF writes for "defined by the other keys".
pub(crate) const USER_DEFINED: u16 = 32767;

/// Names of the keys, as in the GeoTIFF standard.
#[allow(missing_docs)]
pub(crate) mod key {
    pub const MODEL_TYPE: u16 = 1024;
    pub const RASTER_TYPE: u16 = 1025;
    pub const CITATION: u16 = 1026;
    pub const GEOGRAPHIC_TYPE: u16 = 2048;
    pub const GEOG_CITATION: u16 = 2049;
    pub const GEODETIC_DATUM: u16 = 2050;
    pub const PRIME_MERIDIAN: u16 = 2051;
    pub const GEOG_LINEAR_UNITS: u16 = 2052;
    pub const GEOG_LINEAR_UNIT_SIZE: u16 = 2053;
    pub const ANGULAR_UNITS: u16 = 2054;
    pub const ANGULAR_UNIT_SIZE: u16 = 2055;
    pub const ELLIPSOID: u16 = 2056;
    pub const SEMI_MAJOR: u16 = 2057;
    pub const SEMI_MINOR: u16 = 2058;
    pub const INV_FLATTENING: u16 = 2059;
    pub const PRIME_MERIDIAN_LONG: u16 = 2061;
    pub const TO_WGS84: u16 = 2062;
    pub const PROJECTED_TYPE: u16 = 3072;
    pub const PCS_CITATION: u16 = 3073;
    pub const PROJECTION: u16 = 3074;
    pub const PROJ_METHOD: u16 = 3075;
    pub const LINEAR_UNITS: u16 = 3076;
    pub const LINEAR_UNIT_SIZE: u16 = 3077;
    pub const VERTICAL_TYPE: u16 = 4096;
    pub const VERTICAL_CITATION: u16 = 4097;
    pub const VERTICAL_DATUM: u16 = 4098;
    pub const VERTICAL_UNITS: u16 = 4099;
}

#[derive(Debug, Clone, Copy)]
enum Value<'a> {
    Short(u16),
    Doubles(&'a [f64]),
    Ascii(&'a [u8]),
}

/// The keys of one image. Values are borrowed, so a directory whose entries all point at the same megabyte costs
/// nothing.
#[derive(Debug, Default)]
pub(crate) struct Keys<'a> {
    entries: Vec<(u16, Value<'a>)>,
    /// Key revision, major and minor: 1.0 or 1.1.
    pub revision: (u16, u16),
}

impl<'a> Keys<'a> {
    /// Reads the directory; entries that point outside their tag are left out and named in `warnings`.
    pub fn new(tags: &'a GeoTags, warnings: &mut Vec<String>) -> Self {
        let directory = &tags.key_directory;
        if directory.is_empty() {
            return Self::default();
        }
        let [version, major, minor, count, rest @ ..] = directory.as_slice() else {
            warnings.push(format!("GeoKeyDirectory has {} values, its header alone needs 4", directory.len()));
            return Self::default();
        };
        if *version != 1 {
            warnings.push(format!("GeoKeyDirectory version {version} is unknown"));
            return Self::default();
        }
        let mut keys = Self { entries: Vec::new(), revision: (*major, *minor) };
        let mut damaged = 0usize;
        for entry in rest.chunks_exact(4).take(usize::from(*count)) {
            let (id, location) = (entry[0], entry[1]);
            let (count, offset) = (usize::from(entry[2]), usize::from(entry[3]));
            if id == 0 {
                continue;
            }
            match value(tags, location, count, offset, entry[3]) {
                Some(value) => keys.entries.push((id, value)),
                None => damaged += 1,
            }
        }
        if damaged > 0 {
            warnings.push(format!("{damaged} GeoKeys point outside their tags"));
        }
        if rest.len() / 4 < usize::from(*count) {
            warnings.push(format!("GeoKeyDirectory says {count} keys, {} are there", rest.len() / 4));
        }
        // The first of two equal keys counts.
        keys.entries.sort_by_key(|(id, _)| *id);
        keys
    }

    /// Some key beside the raster type.
    pub fn has_crs(&self) -> bool {
        self.entries.iter().any(|(id, _)| *id != key::RASTER_TYPE)
    }

    fn get(&self, id: u16) -> Option<Value<'a>> {
        let at = self.entries.partition_point(|(other, _)| *other < id);
        self.entries.get(at).filter(|(other, _)| *other == id).map(|(_, value)| *value)
    }

    /// A code; 0 is "undefined" and counts as absent.
    pub fn short(&self, id: u16) -> Option<u16> {
        match self.get(id)? {
            Value::Short(0) => None,
            Value::Short(value) => Some(value),
            Value::Doubles([value]) if *value >= 1.0 && *value <= 65535.0 => Some(*value as u16),
            _ => None,
        }
    }

    /// A code that is neither absent nor "user-defined".
    pub fn code(&self, id: u16) -> Option<u32> {
        self.short(id).filter(|code| *code != USER_DEFINED).map(u32::from)
    }

    /// A finite number.
    pub fn double(&self, id: u16) -> Option<f64> {
        match self.get(id)? {
            Value::Short(value) => Some(f64::from(value)),
            Value::Doubles(values) => values.first().copied().filter(|value| value.is_finite()),
            Value::Ascii(_) => None,
        }
    }

    /// Several numbers.
    pub fn doubles(&self, id: u16) -> &'a [f64] {
        match self.get(id) {
            Some(Value::Doubles(values)) => values,
            _ => &[],
        }
    }

    /// A text without its closing bar.
    pub fn text(&self, id: u16) -> Option<Cow<'a, str>> {
        let Value::Ascii(bytes) = self.get(id)? else { return None };
        let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let bytes = bytes.strip_suffix(b"|").unwrap_or(bytes);
        (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes))
    }
}

fn value(tags: &GeoTags, location: u16, count: usize, offset: usize, inline: u16) -> Option<Value<'_>> {
    let end = offset.checked_add(count)?;
    match location {
        0 => Some(Value::Short(inline)),
        DIRECTORY_TAG => tags.key_directory.get(offset).map(|value| Value::Short(*value)),
        DOUBLES_TAG => tags.double_params.get(offset..end).map(Value::Doubles),
        // Some writers count the closing NUL, some do not store it.
        ASCII_TAG => {
            let text = &tags.ascii_params;
            text.get(offset..end.min(text.len())).map(Value::Ascii)
        }
        _ => None,
    }
}

/// Builds the three tags of a directory.
#[derive(Debug, Default)]
pub(crate) struct KeyWriter {
    entries: Vec<[u16; 4]>,
    doubles: Vec<f64>,
    ascii: Vec<u8>,
}

impl KeyWriter {
    /// A code.
    pub fn short(&mut self, id: u16, value: u16) {
        self.entries.push([id, 0, 1, value]);
    }

    /// Numbers; too many for the 16-bit offsets of GeoTIFF are left out.
    pub fn doubles(&mut self, id: u16, values: &[f64]) {
        if let (Ok(count), Ok(offset)) = (u16::try_from(values.len()), u16::try_from(self.doubles.len())) {
            self.entries.push([id, DOUBLES_TAG, count, offset]);
            self.doubles.extend_from_slice(values);
        }
    }

    /// A text and its closing bar; one too long for the 16-bit offsets of GeoTIFF is left out.
    pub fn text(&mut self, id: u16, text: &str) {
        let bytes: Vec<u8> = text.bytes().filter(|byte| *byte != 0).chain([b'|']).collect();
        if let (Ok(count), Ok(offset)) = (u16::try_from(bytes.len()), u16::try_from(self.ascii.len())) {
            self.entries.push([id, ASCII_TAG, count, offset]);
            self.ascii.extend_from_slice(&bytes);
        }
    }

    /// Puts the tags into `tags`, keys in ascending order as the standard demands.
    pub fn finish(mut self, minor: u16, tags: &mut GeoTags) {
        self.entries.sort_by_key(|entry| entry[0]);
        let count = u16::try_from(self.entries.len()).unwrap_or(u16::MAX);
        tags.key_directory = [1, 1, minor, count].into_iter().chain(self.entries.into_iter().flatten()).collect();
        tags.double_params = self.doubles;
        tags.ascii_params = self.ascii;
    }
}
