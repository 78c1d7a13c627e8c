//! Which level serves best.

/// How large or how fine pixels are wanted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wanted {
    /// Pixels of the longer side.
    Size(u32),
    /// Width and height of a pixel, in units of the CRS.
    Resolution((f64, f64)),
}

/// The level with the fewest pixels that has as many as are wanted, or pixels no larger than are wanted; the first where
/// none has. `sizes` are width and height of each level, full size first; `pixel` is the size of a pixel of the first, where
/// that is known.
pub fn level_for(sizes: &[(u32, u32)], pixel: Option<(f64, f64)>, wanted: Wanted) -> usize {
    let Some(&(width, height)) = sizes.first() else { return 0 };
    // Overviews are rounded up: one of 63 pixels for 62.5 is as fine as is wanted.
    let fine = |pixel: f64, full: u32, size: u32, wanted: f64| {
        pixel * f64::from(full) <= wanted * (f64::from(size) + 0.5) * (1.0 + 1e-9)
    };
    let serves = |&(w, h): &(u32, u32)| match (wanted, pixel) {
        (Wanted::Size(size), _) => w.max(h) >= size,
        (Wanted::Resolution((x, y)), Some((px, py))) => fine(px, width, w, x) && fine(py, height, h, y),
        (Wanted::Resolution(_), None) => false,
    };
    let pixels = |&(w, h): &(u32, u32)| u64::from(w) * u64::from(h);
    (0..sizes.len()).filter(|&i| serves(&sizes[i])).min_by_key(|&i| pixels(&sizes[i])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [(u32, u32); 4] = [(1001, 500), (501, 250), (251, 125), (126, 63)];

    #[test]
    fn the_smallest_that_is_large_enough() {
        let of = |size| level_for(&SIZES, None, Wanted::Size(size));
        assert_eq!([of(1), of(126), of(127), of(251), of(252), of(1001), of(5000)], [3, 3, 2, 2, 1, 0, 0]);
    }

    #[test]
    fn the_coarsest_that_is_fine_enough() {
        let of = |x, y| level_for(&SIZES, Some((10.0, 10.0)), Wanted::Resolution((x, y)));
        assert_eq!([of(10.0, 10.0), of(20.0, 20.0), of(39.0, 40.0), of(40.0, 40.0), of(80.0, 80.0)], [0, 1, 1, 2, 3]);
        assert_eq!([of(5.0, 5.0), of(80.0, 10.0), of(f64::NAN, 1.0), of(f64::INFINITY, f64::INFINITY)], [0, 0, 0, 3]);
        assert_eq!(level_for(&SIZES, None, Wanted::Resolution((80.0, 80.0))), 0);
        assert_eq!(level_for(&[], None, Wanted::Size(1)), 0);
    }
}
