//! Pixel to map: the affine transform, ground control points and RPCs.

use super::GeoTags;

/// `[a, b, c, d, e, f]`: `x = a·column + b·row + c`, `y = d·column + e·row + f`; whole numbers are pixel corners.
pub type Affine = [f64; 6];

/// A point known both in the image and on the map.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gcp {
    /// Name of the point, often empty.
    pub id: String,
    /// Column, whole numbers are pixel corners.
    pub column: f64,
    /// Row, whole numbers are pixel corners.
    pub row: f64,
    /// Map coordinate.
    pub x: f64,
    /// Map coordinate.
    pub y: f64,
    /// Height.
    pub z: f64,
}

/// Rational polynomial coefficients: the camera model of a satellite image.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // the names are those of the RPC00B standard
pub struct Rpc {
    pub err_bias: f64,
    pub err_rand: f64,
    pub line_off: f64,
    pub samp_off: f64,
    pub lat_off: f64,
    pub long_off: f64,
    pub height_off: f64,
    pub line_scale: f64,
    pub samp_scale: f64,
    pub lat_scale: f64,
    pub long_scale: f64,
    pub height_scale: f64,
    pub line_num: [f64; 20],
    pub line_den: [f64; 20],
    pub samp_num: [f64; 20],
    pub samp_den: [f64; 20],
}

impl Rpc {
    /// Values of tag 50844.
    pub const LEN: usize = 92;

    /// Reads tag 50844.
    pub fn from_tag(values: &[f64]) -> Option<Self> {
        let values: &[f64; Self::LEN] = values.try_into().ok()?;
        let polynomial = |at: usize| std::array::from_fn(|i| values[at + i]);
        Some(Self {
            err_bias: values[0],
            err_rand: values[1],
            line_off: values[2],
            samp_off: values[3],
            lat_off: values[4],
            long_off: values[5],
            height_off: values[6],
            line_scale: values[7],
            samp_scale: values[8],
            lat_scale: values[9],
            long_scale: values[10],
            height_scale: values[11],
            line_num: polynomial(12),
            line_den: polynomial(32),
            samp_num: polynomial(52),
            samp_den: polynomial(72),
        })
    }

    /// The values of tag 50844.
    pub fn to_tag(&self) -> Vec<f64> {
        let mut out = vec![
            self.err_bias,
            self.err_rand,
            self.line_off,
            self.samp_off,
            self.lat_off,
            self.long_off,
            self.height_off,
            self.line_scale,
            self.samp_scale,
            self.lat_scale,
            self.long_scale,
            self.height_scale,
        ];
        for polynomial in [&self.line_num, &self.line_den, &self.samp_num, &self.samp_den] {
            out.extend_from_slice(polynomial);
        }
        out
    }
}

/// The transform that the tags say, or the control points.
pub(crate) fn from_tags(
    tags: &GeoTags,
    pixel_is_point: bool,
    warnings: &mut Vec<String>,
) -> (Option<Affine>, Vec<Gcp>) {
    let transform = match (tags.pixel_scale.as_slice(), tags.transformation.as_slice()) {
        ([x, y, ..], _) if *x != 0.0 && *y != 0.0 => scaled(*x, *y, &tags.tiepoints, warnings),
        (_, m) if m.len() == 16 => Some([m[0], m[1], m[3], m[4], m[5], m[7]]),
        (_, m) => {
            if !m.is_empty() {
                warnings.push(format!("ModelTransformation has {} values, not 16", m.len()));
            }
            return (None, control_points(&tags.tiepoints, pixel_is_point));
        }
    };
    let transform = transform.filter(|t| {
        let finite = t.iter().all(|value| value.is_finite());
        if !finite {
            warnings.push("the transform is not finite".into());
        }
        finite
    });
    (transform.map(|t| if pixel_is_point { corner_of_centre(t) } else { t }), Vec::new())
}

fn scaled(x: f64, y: f64, tiepoints: &[f64], warnings: &mut Vec<String>) -> Option<Affine> {
    if y < 0.0 {
        warnings.push("ModelPixelScale has a negative y; rows still go down the map".into());
    }
    let [column, row, _, map_x, map_y, _, more @ ..] = tiepoints else {
        warnings.push("ModelPixelScale without a tie point".into());
        return None;
    };
    if more.len() >= 6 {
        warnings.push("several tie points beside ModelPixelScale: only the first counts".into());
    }
    let down = -y.abs();
    Some([x, 0.0, map_x - column * x, 0.0, down, map_y - row * down])
}

/// The same grid, told from pixel corners instead of pixel centres.
pub(crate) fn corner_of_centre(t: Affine) -> Affine {
    let [a, b, c, d, e, f] = t;
    [a, b, c - (a * 0.5 + b * 0.5), d, e, f - (d * 0.5 + e * 0.5)]
}

/// The same grid, told from pixel centres instead of pixel corners.
pub(crate) fn centre_of_corner(t: Affine) -> Affine {
    let [a, b, c, d, e, f] = t;
    [a, b, c + (a * 0.5 + b * 0.5), d, e, f + (d * 0.5 + e * 0.5)]
}

fn control_points(tiepoints: &[f64], pixel_is_point: bool) -> Vec<Gcp> {
    let shift = if pixel_is_point { 0.5 } else { 0.0 };
    tiepoints
        .chunks_exact(6)
        .enumerate()
        .map(|(i, p)| Gcp {
            id: (i + 1).to_string(),
            column: p[0] + shift,
            row: p[1] + shift,
            x: p[3],
            y: p[4],
            z: p[5],
        })
        .collect()
}

/// Puts transform or control points into the tags. A transform that turns or mirrors needs the full matrix.
pub(crate) fn to_tags(transform: Option<Affine>, gcps: &[Gcp], pixel_is_point: bool, tags: &mut GeoTags) {
    if let Some(t) = transform {
        let [a, b, c, d, e, f] = if pixel_is_point { centre_of_corner(t) } else { t };
        if b == 0.0 && d == 0.0 && a != 0.0 && e < 0.0 {
            tags.pixel_scale = vec![a, -e, 0.0];
            tags.tiepoints = vec![0.0, 0.0, 0.0, c, f, 0.0];
        } else {
            tags.transformation = vec![a, b, 0.0, c, d, e, 0.0, f, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        }
        return;
    }
    let shift = if pixel_is_point { 0.5 } else { 0.0 };
    tags.tiepoints = gcps.iter().flat_map(|p| [p.column - shift, p.row - shift, 0.0, p.x, p.y, p.z]).collect();
}

/// Reads a world file: six lines, of pixel centres.
pub(crate) fn from_world_file(text: &str, warnings: &mut Vec<String>) -> Option<Affine> {
    let numbers: Vec<f64> = text
        .split_whitespace()
        .take(6)
        .map(|word| word.replace(',', ".").parse::<f64>().ok().filter(|value| value.is_finite()))
        .collect::<Option<_>>()
        .unwrap_or_default();
    let [a, d, b, e, c, f] = numbers[..] else {
        warnings.push("the world file is not six numbers".into());
        return None;
    };
    // A transform that maps every pixel onto one line is no georeference.
    if (a == 0.0 && b == 0.0) || (d == 0.0 && e == 0.0) {
        warnings.push("the world file's transform is degenerate".into());
        return None;
    }
    Some(corner_of_centre([a, b, c, d, e, f]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(scale: &[f64], tiepoints: &[f64], matrix: &[f64]) -> GeoTags {
        GeoTags {
            pixel_scale: scale.to_vec(),
            tiepoints: tiepoints.to_vec(),
            transformation: matrix.to_vec(),
            ..GeoTags::default()
        }
    }

    fn read(tags: &GeoTags, point: bool) -> (Option<Affine>, Vec<Gcp>) {
        from_tags(tags, point, &mut Vec::new())
    }

    const MATRIX: [f64; 16] =
        [1.5, -5.0, 0.0, 1_841_000.0, -5.0, -1.5, 0.0, 1_144_000.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];

    #[test]
    fn scale_and_a_tie_point_anywhere() {
        let t = tags(&[30.0, 30.0, 0.0], &[5.0, 3.0, 0.0, 500_000.0, 4_600_000.0, 0.0], &[]);
        assert_eq!(read(&t, false).0, Some([30.0, 0.0, 499_850.0, 0.0, -30.0, 4_600_090.0]));
    }

    #[test]
    fn pixel_is_point_shifts_by_half_a_pixel() {
        let t = tags(&[2.0, 2.0, 0.0], &[0.0, 0.0, 0.0, -1.0, 53.0, 0.0], &[]);
        assert_eq!(read(&t, true).0, Some([2.0, 0.0, -2.0, 0.0, -2.0, 54.0]));
        let t = tags(&[], &[], &MATRIX);
        assert_eq!(read(&t, true).0, Some([1.5, -5.0, 1_841_001.75, -5.0, -1.5, 1_144_003.25]));
        assert_eq!(read(&t, false).0, Some([1.5, -5.0, 1_841_000.0, -5.0, -1.5, 1_144_000.0]));
    }

    #[test]
    fn negative_y_scale_still_goes_down() {
        let t = tags(&[60.0, -60.0, 0.0], &[0.0, 0.0, 0.0, 440_720.0, 3_751_320.0, 0.0], &[]);
        assert_eq!(read(&t, false).0, Some([60.0, 0.0, 440_720.0, 0.0, -60.0, 3_751_320.0]));
    }

    #[test]
    fn tie_points_alone_are_control_points() {
        let t = tags(&[0.0, 0.0, 0.0], &[0.0, 0.0, 0.0, 5.0, 6.0, 7.0], &[]);
        let (transform, gcps) = read(&t, true);
        assert_eq!(transform, None);
        assert_eq!(gcps, [Gcp { id: "1".into(), column: 0.5, row: 0.5, x: 5.0, y: 6.0, z: 7.0 }]);
    }

    #[test]
    fn damaged_tags_are_no_transform() {
        for t in [
            tags(&[1.0], &[], &[]),
            tags(&[1.0, 1.0], &[], &[]),
            tags(&[f64::NAN, 1.0], &[0.0; 6], &[]),
            tags(&[], &[], &MATRIX[..12]),
        ] {
            assert_eq!(read(&t, false).0, None, "{t:?}");
        }
    }

    #[test]
    fn world_file_tells_pixel_centres() {
        let affine = from_world_file("2.0\n0\n0,0\n-2.0\n101.0\n199.0\n", &mut Vec::new());
        assert_eq!(affine, Some([2.0, 0.0, 100.0, 0.0, -2.0, 200.0]));
        for bad in ["", "1 2 3", "1 0 0 x 0 0", "0 0 0 0 0 0", "nan 0 0 1 0 0"] {
            let mut warnings = Vec::new();
            assert_eq!(from_world_file(bad, &mut warnings), None);
            assert_eq!(warnings.len(), 1);
        }
    }

    #[test]
    fn written_transforms_read_back() {
        for transform in [[2.0, 0.0, 10.0, 0.0, -2.0, 20.0], [1.0, 0.5, 3.0, 0.25, 2.0, 4.0]] {
            for point in [false, true] {
                let mut t = GeoTags::default();
                to_tags(Some(transform), &[], point, &mut t);
                assert_eq!(read(&t, point).0, Some(transform));
            }
        }
    }

    #[test]
    fn rpc_round_trip() {
        let values: Vec<f64> = (0..92).map(f64::from).collect();
        assert_eq!(Rpc::from_tag(&values).unwrap().to_tag(), values);
        assert_eq!(Rpc::from_tag(&values[..91]), None);
    }
}
