//! The dither that libjxl adds when it rounds to 8 bits or fewer.
//!
//! Decoded samples are real numbers. For samples of 16 bits libjxl rounds them to the nearest integer, but for 8
//! bits or fewer it first adds an offset in (-0.5, 0.5) that depends on the place, which hides the bands in smooth
//! areas. Whoever rounds without it differs by one in a quarter of all samples. The format does not ask for it, but
//! the pixels of a file should not depend on the program that reads it, so the same is done here. Samples that are
//! integers already, as in lossless files, stay as they are.
//!
//! The numbers were measured: for each place in a period, what libjxl 0.12 made of many samples of known value
//! brackets the offset to less than the step between two levels.

/// Columns and rows after which the pattern repeats.
const PERIOD: usize = 32;
/// How much further on in the pattern each next channel of an image begins: rows, columns.
const CHANNEL_SHIFT: (usize, usize) = (13, 23);
/// The greatest offset; the least is its negative.
const REACH: f32 = 63.0 / 128.0;

/// Rounds the rows of one image.
pub struct Dither {
    max: u8,
    /// Columns of one period, each with all channels of the plane.
    pattern: Vec<f32>,
}

impl Dither {
    /// To `bits` of at most 8.
    pub fn new(bits: u8) -> Self {
        Self { max: u8::MAX >> (8 - bits.clamp(1, 8)), pattern: Vec::new() }
    }

    /// Rounds row `y` of a plane whose pixels have `count` channels, of which the first is the image's channel
    /// `first`: from native `f32`s, nominally of 0 to 1, to integers.
    pub fn round(&mut self, y: usize, first: usize, count: usize, row: &[u8], out: &mut [u8]) {
        self.pattern.clear();
        let places = (0..PERIOD).flat_map(|x| (first..first + count).map(move |channel| (x, channel)));
        self.pattern.extend(places.map(|(x, channel)| offset(x, y, channel)));
        let scale = f32::from(self.max);
        let periods = row.chunks(self.pattern.len() * 4).zip(out.chunks_mut(self.pattern.len()));
        for (row, out) in periods {
            for ((value, offset), out) in row.as_chunks().0.iter().zip(&self.pattern).zip(out) {
                let value = f32::from_ne_bytes(*value) * scale + offset;
                // The half makes a nearest integer of the cast's rounding towards zero; below 0 it gives 0.
                *out = ((value + 0.5) as u8).min(self.max);
            }
        }
    }
}

fn offset(x: usize, y: usize, channel: usize) -> f32 {
    let row = &LEVELS[(y + CHANNEL_SHIFT.0 * channel) % PERIOD];
    let level = row[(x + CHANNEL_SHIFT.1 * channel) % PERIOD];
    (f32::from(level) / 255.0 * 2.0 - 1.0) * REACH
}

/// The offsets of channel 0, from the least (0) to the greatest (255): each level four times.
#[rustfmt::skip]
const LEVELS: [[u8; PERIOD]; PERIOD] = [
    [60, 212, 182, 119, 100, 171, 239, 3, 125, 47, 192, 36, 121, 62, 135, 154, 54, 127, 188, 240, 66, 175, 45, 99, 34, 195, 78, 51, 233, 103, 156, 1],
    [169, 35, 80, 221, 54, 38, 75, 148, 220, 20, 251, 71, 95, 242, 19, 83, 231, 215, 40, 138, 7, 198, 84, 229, 181, 14, 120, 174, 20, 132, 192, 255],
    [125, 149, 234, 6, 138, 250, 195, 112, 92, 166, 136, 204, 9, 186, 166, 104, 30, 179, 90, 165, 104, 253, 24, 144, 112, 58, 240, 95, 202, 68, 43, 88],
    [18, 189, 67, 97, 176, 157, 14, 63, 236, 182, 54, 110, 148, 222, 47, 206, 119, 146, 17, 226, 55, 129, 160, 70, 205, 223, 163, 5, 151, 220, 115, 228],
    [53, 109, 242, 199, 29, 86, 123, 206, 42, 23, 84, 233, 33, 126, 78, 235, 59, 249, 71, 202, 117, 185, 217, 11, 90, 39, 138, 77, 245, 31, 183, 142],
    [208, 164, 40, 129, 217, 50, 228, 163, 143, 101, 216, 155, 66, 178, 4, 139, 25, 190, 155, 0, 81, 34, 49, 246, 124, 191, 26, 108, 176, 60, 99, 10],
    [249, 83, 21, 147, 103, 184, 75, 1, 244, 130, 190, 17, 253, 97, 196, 164, 87, 109, 44, 221, 237, 177, 146, 99, 168, 226, 53, 200, 127, 213, 157, 73],
    [133, 174, 226, 65, 12, 254, 118, 197, 32, 69, 172, 48, 203, 115, 36, 239, 218, 128, 171, 94, 137, 110, 210, 22, 64, 152, 82, 251, 16, 44, 232, 195],
    [4, 96, 115, 202, 154, 168, 89, 56, 221, 94, 112, 10, 81, 132, 152, 52, 68, 15, 246, 27, 56, 73, 8, 187, 234, 114, 3, 170, 141, 89, 119, 32],
    [57, 216, 47, 238, 28, 43, 135, 179, 149, 237, 209, 162, 246, 225, 22, 210, 105, 183, 205, 148, 197, 163, 253, 88, 134, 37, 218, 101, 238, 66, 186, 151],
    [244, 180, 140, 72, 191, 109, 231, 8, 25, 124, 41, 142, 59, 185, 74, 167, 139, 7, 85, 116, 37, 224, 124, 48, 205, 181, 58, 196, 162, 24, 206, 105],
    [17, 161, 90, 6, 126, 218, 79, 201, 66, 187, 86, 29, 106, 2, 122, 89, 252, 45, 230, 63, 176, 19, 154, 106, 27, 144, 76, 11, 129, 41, 224, 78],
    [121, 35, 212, 248, 172, 54, 155, 251, 103, 167, 240, 219, 173, 198, 234, 33, 192, 158, 131, 213, 98, 80, 236, 67, 170, 247, 227, 115, 87, 255, 173, 137],
    [233, 188, 62, 106, 21, 96, 35, 141, 19, 51, 133, 72, 153, 48, 98, 217, 59, 109, 24, 243, 143, 1, 190, 218, 13, 95, 159, 49, 198, 147, 2, 52],
    [201, 82, 152, 133, 207, 236, 181, 118, 211, 194, 9, 113, 248, 20, 130, 146, 12, 170, 74, 184, 50, 202, 113, 136, 43, 125, 210, 31, 176, 99, 68, 111],
    [25, 223, 9, 45, 165, 69, 0, 225, 77, 93, 229, 36, 204, 65, 182, 79, 245, 209, 93, 123, 34, 161, 61, 241, 84, 188, 70, 244, 18, 214, 238, 158],
    [93, 178, 118, 244, 191, 88, 149, 42, 129, 160, 178, 143, 87, 165, 222, 117, 42, 194, 6, 224, 254, 103, 21, 177, 150, 6, 108, 138, 58, 120, 185, 39],
    [250, 71, 145, 28, 55, 111, 200, 241, 61, 26, 255, 56, 107, 3, 238, 28, 156, 137, 57, 168, 147, 70, 213, 227, 37, 200, 167, 232, 153, 85, 8, 136],
    [51, 209, 100, 231, 131, 215, 14, 172, 105, 189, 12, 215, 127, 46, 189, 94, 69, 110, 232, 84, 15, 131, 90, 117, 52, 248, 92, 26, 44, 204, 227, 169],
    [13, 196, 160, 18, 183, 76, 35, 140, 222, 120, 72, 151, 235, 175, 139, 205, 251, 23, 199, 46, 208, 173, 192, 9, 142, 77, 128, 221, 190, 102, 64, 125],
    [82, 113, 38, 63, 252, 167, 98, 245, 85, 44, 209, 97, 32, 79, 61, 13, 162, 122, 179, 100, 239, 32, 63, 234, 156, 183, 61, 4, 116, 163, 31, 241],
    [177, 137, 220, 91, 149, 122, 49, 3, 158, 180, 16, 193, 164, 116, 228, 217, 39, 77, 143, 2, 153, 126, 107, 215, 20, 101, 207, 172, 254, 75, 148, 214],
    [1, 48, 235, 187, 12, 211, 193, 229, 67, 132, 237, 55, 249, 5, 133, 104, 184, 243, 62, 222, 52, 250, 79, 165, 46, 241, 34, 139, 50, 19, 193, 97],
    [247, 157, 73, 108, 29, 60, 144, 112, 203, 23, 104, 145, 86, 199, 47, 155, 91, 16, 194, 114, 93, 188, 11, 135, 197, 120, 81, 224, 92, 233, 131, 59],
    [119, 23, 200, 173, 134, 242, 88, 38, 166, 76, 124, 223, 27, 178, 70, 212, 30, 128, 207, 159, 26, 171, 38, 231, 67, 151, 15, 187, 111, 160, 36, 207],
    [102, 145, 227, 41, 80, 219, 182, 18, 254, 213, 184, 41, 161, 114, 230, 140, 252, 174, 45, 71, 226, 141, 211, 110, 95, 247, 169, 62, 204, 11, 174, 85],
    [186, 8, 56, 126, 161, 5, 102, 154, 53, 96, 0, 65, 243, 98, 10, 57, 83, 108, 4, 239, 121, 57, 78, 179, 0, 31, 214, 127, 42, 75, 252, 216],
    [68, 237, 96, 208, 249, 69, 198, 121, 136, 232, 194, 150, 130, 203, 21, 164, 191, 216, 150, 89, 199, 17, 253, 153, 196, 55, 142, 101, 240, 150, 135, 29],
    [168, 152, 33, 175, 114, 22, 223, 40, 76, 169, 30, 86, 50, 180, 236, 123, 37, 65, 134, 181, 33, 105, 132, 40, 235, 118, 225, 83, 5, 197, 53, 113],
    [220, 128, 193, 87, 49, 144, 185, 245, 14, 206, 117, 248, 219, 73, 145, 91, 225, 16, 246, 51, 230, 166, 189, 92, 72, 170, 22, 186, 162, 228, 94, 15],
    [46, 74, 247, 10, 230, 64, 91, 156, 106, 58, 141, 7, 102, 25, 43, 111, 171, 201, 157, 116, 80, 13, 219, 60, 7, 208, 107, 39, 64, 122, 177, 242],
    [140, 107, 24, 159, 203, 130, 30, 211, 180, 82, 229, 159, 175, 212, 195, 255, 2, 74, 100, 27, 210, 147, 123, 243, 158, 134, 250, 146, 214, 28, 81, 201],
];

#[cfg(test)]
mod tests {
    use super::*;

    fn round(bits: u8, values: &[f32], y: usize, channels: usize) -> Vec<u8> {
        let row: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let mut out = vec![0; values.len()];
        Dither::new(bits).round(y, 0, channels, &row, &mut out);
        out
    }

    #[test]
    fn integers_stay_as_they_are() {
        for bits in 1..=8 {
            let max = u8::MAX >> (8 - bits);
            let integers: Vec<u8> = (0..=255u8).map(|i| i & max).collect();
            let values: Vec<f32> = integers.iter().map(|&i| f32::from(i) / f32::from(max)).collect();
            for y in 0..PERIOD {
                for channels in [1, 3] {
                    assert_eq!(round(bits, &values, y, channels), integers, "{bits} bits, row {y}");
                }
            }
        }
    }

    #[test]
    fn values_out_of_range_are_cut() {
        let values = [-0.1, f32::NEG_INFINITY, 1.1, f32::INFINITY, f32::NAN];
        assert_eq!(round(8, &values, 0, 1), [0, 0, 255, 255, 0]);
        assert_eq!(round(5, &values, 0, 1), [0, 0, 31, 31, 0]);
    }

    #[test]
    fn the_pattern_is_even() {
        let mut counts = [0; 256];
        LEVELS.as_flattened().iter().for_each(|&level| counts[usize::from(level)] += 1);
        assert_eq!(counts, [4; 256]);
    }
}
