//! Colours of one band.

/// Colours from low values to high ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Ramp {
    Grey,
    Viridis,
    Magma,
    Terrain,
    Diverging,
}

impl Ramp {
    /// Colours at equal distances.
    fn stops(self) -> &'static [u32] {
        match self {
            Self::Grey => &[0x00_0000, 0xff_ffff],
            Self::Viridis => &[
                0x44_0154, 0x48_2878, 0x3e_4989, 0x31_688e, 0x26_828e, 0x1f_9e89, 0x35_b779, 0x6d_cd59, 0xb4_de2c,
                0xfd_e725,
            ],
            Self::Magma => &[
                0x00_0004, 0x18_0f3d, 0x44_0f76, 0x72_1f81, 0x9e_2f7f, 0xcd_4071, 0xf1_605d, 0xfd_9668, 0xfe_ca8d,
                0xfc_fdbf,
            ],
            Self::Terrain => &[0x2f_6b4f, 0x7f_a35a, 0xd9_cf8c, 0xb0_8a5b, 0x8a_6a58, 0xf7_f5f2],
            Self::Diverging => &[0x2b_5ca8, 0x8f_b4de, 0xf2_f2f2, 0xe3_9a83, 0xa8_2b2b],
        }
    }

    /// The colour of a value between 0 and 1.
    pub fn colour(self, share: f64) -> [u8; 3] {
        let stops = self.stops();
        // What is not a number is transparent anyway.
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        let place = share * (stops.len() - 1) as f64;
        let low = (place as usize).min(stops.len() - 2);
        let part = place - low as f64;
        let channel = |stop: u32, i: usize| f64::from(stop.to_be_bytes()[i + 1]);
        std::array::from_fn(|i| {
            (channel(stops[low], i) * (1.0 - part) + channel(stops[low + 1], i) * part).round() as u8
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ramps_begin_and_end_with_their_stops() {
        assert_eq!(Ramp::Viridis.colour(0.0), [0x44, 0x01, 0x54]);
        assert_eq!(Ramp::Viridis.colour(1.0), [0xfd, 0xe7, 0x25]);
        assert_eq!(Ramp::Grey.colour(0.5), [128; 3]);
        assert_eq!(Ramp::Terrain.colour(f64::NAN), Ramp::Terrain.colour(0.0));
    }
}
