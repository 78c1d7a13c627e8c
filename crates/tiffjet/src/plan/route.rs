//! Where tiles are decoded: on a device, or some of them on the cores beside it.
//!
//! A device decodes many tiles at once, each of them slower than a core would. A few huge ones leave it idle, so that the
//! cores may be faster, or help.

/// Whether pixels may be decoded or encoded by another route than the backend's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fallback {
    /// They may, and the [`Report`](crate::Report) says so.
    #[default]
    Allow,
    /// They may not: what has no route is an error.
    Forbid,
}

/// Bytes a second.
type Rate = f64;

/// How fast one codec is decoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// One tile on the device, however idle it is.
    pub device_tile: Rate,
    /// The device with all it can take.
    pub device: Rate,
    /// One core.
    pub core: Rate,
    /// Cores.
    pub cores: usize,
    /// Pixels on their way from the cores to the device.
    pub upload: Rate,
    /// Seconds that are worth the trouble.
    pub worth: f64,
}

/// How many tiles the cores shall decode, of so many with so many decoded bytes each; the device decodes the rest.
pub fn route(tiles: usize, bytes: u64, costs: &Costs) -> usize {
    let bytes = bytes as f64;
    let device = |n: usize| match n {
        0 => 0.0,
        _ => (n as f64 * bytes / costs.device).max(bytes / costs.device_tile),
    };
    let host = |n: usize| {
        let rounds = n.div_ceil(costs.cores.max(1)) as f64;
        rounds * bytes / costs.core + n as f64 * bytes / costs.upload
    };
    let alone = device(tiles);
    // A device that has all it can take is best left alone: the cores have reading to do.
    if alone <= costs.worth || tiles as f64 * costs.device_tile > costs.device {
        return 0;
    }
    // More rounds of the cores than this take longer than the device does for all.
    let most = ((alone * costs.core / bytes) as usize + 1).saturating_mul(costs.cores.max(1)).min(tiles);
    let with = |n: usize| device(tiles - n).max(host(n));
    let best = (0..=most).min_by(|&a, &b| with(a).total_cmp(&with(b))).unwrap_or(0);
    // A little sooner is not worth busy cores.
    if with(best) + costs.worth < alone { best } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs { device_tile: 0.4e9, device: 80e9, core: 0.7e9, cores: 16, upload: 50e9, worth: 1e-3 };

    #[test]
    fn many_tiles_stay_on_the_device() {
        assert_eq!(route(1024, 256 << 10, &COSTS), 0);
        assert_eq!(route(100_000, 64 << 10, &COSTS), 0);
        assert_eq!(route(1, 64 << 10, &COSTS), 0, "nobody waits for that");
        assert_eq!(route(0, 1 << 20, &COSTS), 0);
    }

    #[test]
    fn a_few_huge_ones_go_to_the_cores() {
        assert_eq!(route(1, 256 << 20, &COSTS), 1);
        assert_eq!(route(16, 16 << 20, &COSTS), 16);
    }

    #[test]
    fn cores_that_do_not_help_stay_out() {
        // Cores that are no faster than the device take what they can in the time that one tile takes there.
        let even = Costs { core: 0.41e9, upload: 1e12, device: 10e9, ..COSTS };
        assert_eq!(route(20, 64 << 20, &even), 0, "nothing is won while one tile is left on the device");
        let slow = Costs { core: 1e6, ..COSTS };
        assert_eq!(route(16, 32 << 20, &slow), 0);
        assert_eq!(route(4000, 32 << 20, &COSTS), 0);
    }
}
