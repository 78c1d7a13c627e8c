//! The random windows: the same as those of `bench/windows.py`, number by number.

/// Rows and columns of a window.
pub const SIDE: u32 = 512;

/// SplitMix64.
struct Numbers(u64);

impl Iterator for Numbers {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Some(z ^ (z >> 31))
    }
}

/// Top-left corners, row and column, of `count` windows inside an image.
pub fn windows(seed: u64, count: usize, height: u32, width: u32) -> Result<Vec<(u32, u32)>, &'static str> {
    if height < SIDE || width < SIDE {
        return Err("the image is smaller than a window");
    }
    let mut numbers = Numbers(seed);
    let mut below = |end: u32| numbers.next().map_or(0, |n| (n % u64::from(end)) as u32);
    Ok((0..count).map(|_| (below(height - SIDE + 1), below(width - SIDE + 1))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_splitmix64() {
        assert_eq!(Numbers(0).take(2).collect::<Vec<_>>(), [0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4]);
    }

    #[test]
    fn the_windows_are_those_of_the_python_engines() {
        assert_eq!(windows(7, 3, 2048, 4096), Ok(vec![(1020, 699), (7, 198), (685, 1755)]));
    }

    #[test]
    fn an_image_smaller_than_a_window_is_refused() {
        assert!(windows(7, 1, 511, 4096).is_err());
        assert_eq!(windows(7, 1, 512, 512), Ok(vec![(0, 0)]));
    }
}
