//! How the tiles of an image become bytes: on the device, or by the host's codec.

use std::sync::Arc;

use tiffjet::{Error, Fallback, LevelPlan, Result};

use super::picture::Picture;
use crate::ffi::driver::{Failure, Stream};
use crate::ffi::nvcomp::{Method, Nvcomp};
use crate::kernels::launch::{deflate_scratch, lzw_scratch, packbits_scratch, shared, zstd_scratch};
use crate::memory::Gpu;

/// Which way tiles go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// As they are.
    Plain,
    /// Own kernels.
    PackBits,
    /// Own kernels.
    Lzw,
    /// Own kernels.
    Zstd,
    /// Own kernels, with a zlib frame.
    Deflate,
    /// nvCOMP, with a zlib frame around Deflate.
    Nvcomp(Method),
    /// A library that encodes pictures, each on its own.
    Picture(Picture),
    /// Packed on the device, encoded by the host's codec.
    Host,
}

/// A route, and why it is not the one that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub route: Route,
    pub fallback: Option<String>,
}

/// Bytes of device memory that tiles need on a route.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// A plain tile, with what keeps the next one aligned.
    pub plain: u64,
    /// Memory of its own for a compressed tile, or for what leads to it.
    pub slot: u64,
    /// Scratch of all tiles of a wave.
    pub scratch: u64,
    /// No tile is longer in the file.
    pub longest: u64,
}

/// Codecs that the device encodes, at some level at least, by own kernels.
pub const ENCODED: [&str; 5] = ["none", "packbits", "lzw", "deflate", "zstd"];

/// Levels of Deflate by nvCOMP's algorithm that gives files at least as small. The own kernels stand for level 1.
const NVCOMP_DEFLATE: [(std::ops::RangeInclusive<i32>, i32); 2] = [(2..=6, 4), (7..=9, 5)];
/// Levels of ZSTD that nvCOMP's, which has none, is worth. The own kernels stand for level 1.
const NVCOMP_ZSTD: std::ops::RangeInclusive<i32> = 2..=3;

/// The route of an image. What the device can't do is refused where no other way is allowed.
pub fn choose(name: &Arc<str>, plan: &LevelPlan, gpu: &Gpu, fallback: Fallback) -> Result<Choice> {
    match on_device(plan, gpu) {
        Ok(route) => Ok(Choice { route, fallback: None }),
        Err(why) => on_host(name, plan, fallback, &why),
    }
}

/// The route by the host's codec, where it is allowed.
pub fn on_host(name: &Arc<str>, plan: &LevelPlan, fallback: Fallback, why: &str) -> Result<Choice> {
    let codec = plan.codec.name();
    match fallback {
        Fallback::Allow => {
            let why = format!("{codec} is encoded by the host's codec: {why}");
            Ok(Choice { route: Route::Host, fallback: Some(why) })
        }
        Fallback::Forbid => {
            Err(Error::unsupported(name, format!("encoding {codec} on the GPU ({why})"), "fallback is forbidden"))
        }
    }
}

/// The route on the device, or why there is none.
fn on_device(plan: &LevelPlan, gpu: &Gpu) -> Result<Route, String> {
    match Picture::find(gpu, plan) {
        Some(picture) => picture.map(Route::Picture),
        None => compressed(plan, gpu.shared_memory),
    }
}

/// The route of tiles that are no pictures.
fn compressed(plan: &LevelPlan, shared_memory: u32) -> Result<Route, String> {
    let level = plan.settings.level.unwrap_or(1);
    let own = |route: Route, needed: u32| match needed <= shared_memory {
        true => Ok(route),
        false => Err("the GPU has too little shared memory for it".to_owned()),
    };
    let codec = plan.codec.name();
    let method = match codec {
        "none" => return Ok(Route::Plain),
        "packbits" => return Ok(Route::PackBits),
        "lzw" => return Ok(Route::Lzw),
        "zstd" if level == 1 => return own(Route::Zstd, shared::ALL.zstd_encode),
        "deflate" if level == 1 => return own(Route::Deflate, shared::ALL.deflate_encode),
        "zstd" => NVCOMP_ZSTD.contains(&level).then_some(Method::Zstd),
        "deflate" => {
            let found = NVCOMP_DEFLATE.iter().find(|(levels, _)| levels.contains(&level));
            found.map(|(_, algorithm)| Method::Deflate(*algorithm))
        }
        _ => return Err("the GPU has no encoder for it".into()),
    };
    let method = method.ok_or_else(|| format!("the GPU has no level {level} of {codec}"))?;
    let (bytes, most) = (plan.plain_bytes(plan.format.height), Nvcomp::largest(method));
    if bytes > most {
        return Err(format!("tiles of {bytes} bytes are too large for nvCOMP, which takes {most}"));
    }
    Nvcomp::get().map(|_| Route::Nvcomp(method)).map_err(ToString::to_string)
}

impl Route {
    /// What `count` tiles of an image need.
    pub fn needs(self, plan: &LevelPlan, count: u32, stream: &Stream) -> Result<Needs, Failure> {
        let bytes = plan.plain_bytes(plan.format.height);
        let plain = bytes.next_multiple_of(16) + 16;
        let none = Needs { plain, longest: bytes, ..Needs::default() };
        match self {
            Self::Plain | Self::Picture(_) | Self::Host => Ok(none),
            Self::PackBits => {
                let row = plan.plain_bytes(1).max(1);
                // A row that does not compress has a byte more for every 128.
                let longest = bytes + bytes / row * row.div_ceil(128);
                Ok(Needs { slot: packbits_scratch(bytes, row).next_multiple_of(16), longest, ..none })
            }
            Self::Lzw | Self::Zstd | Self::Deflate => {
                let scratch = match self {
                    Self::Lzw => lzw_scratch(bytes),
                    Self::Zstd => zstd_scratch(bytes),
                    _ => deflate_scratch(bytes),
                };
                let slot = scratch.next_multiple_of(16);
                Ok(Needs { slot, longest: slot + self.frame(), ..none })
            }
            Self::Nvcomp(method) => {
                let nvcomp = found()?;
                let [_, out, _] = nvcomp.alignments(method)?;
                let most = nvcomp.most(method, bytes)?;
                let scratch = nvcomp.scratch(method, count, bytes, stream)?;
                Ok(Needs { slot: most.next_multiple_of(out.max(16)), scratch, longest: most + self.frame(), ..none })
            }
        }
    }

    /// Bytes that a frame adds to a compressed tile.
    pub fn frame(self) -> u64 {
        match self {
            Self::Deflate | Self::Nvcomp(Method::Deflate(_)) => 6,
            _ => 0,
        }
    }

    /// Whether tiles are encoded in the stream of their wave.
    pub fn encodes(self) -> bool {
        !matches!(self, Self::Plain | Self::Picture(_) | Self::Host)
    }
}

/// nvCOMP, which was there when the route was chosen.
pub fn found() -> Result<&'static Nvcomp, Failure> {
    Nvcomp::get().map_err(|missing| Failure { call: "loading nvCOMP", code: 0, reason: missing.to_string() })
}

#[cfg(test)]
mod tests {
    use tiffjet::codec::{CODECS, writes};
    use tiffjet::{DType, WriteOptions, WritePlan};

    use super::*;

    #[test]
    fn the_list_of_encoders_is_true() {
        for codec in CODECS.iter().filter(|codec| writes(**codec)) {
            let mut options = WriteOptions::new([3, 64, 64], DType::UInt8);
            options.compression = codec.name().to_owned();
            options.blocks = tiffjet::Blocks::Tiles { width: 64, height: 64 };
            let plan = WritePlan::new(&"a.tif".into(), &options).expect("a plan");
            let there = compressed(&plan.levels[0], u32::MAX).is_ok();
            assert_eq!(there, ENCODED.contains(&codec.name()), "{}", codec.name());
        }
    }
}
