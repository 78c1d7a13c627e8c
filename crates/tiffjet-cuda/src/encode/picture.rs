//! Tiles that a library encodes: JPEG by nvJPEG, JPEG 2000 by nvJPEG2000.
//!
//! A state of a library holds one picture, from its pixels to its bytes, and how long it came out is known to the host
//! alone: so threads of the pool have two states each, and while one encodes, the bytes of the other come back. A state
//! waits for its own work, nobody for the device.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use tiffjet::codec::TileFormat;
use tiffjet::{DType, LevelPlan};

use crate::codec::abbreviate;
use crate::ffi::driver::Failure;
use crate::ffi::lend::Refusal;
use crate::ffi::nvjpeg::{self, Sampling};
use crate::ffi::nvjpeg2k::{self, Coding, MOST_COMPONENTS, Sample};
use crate::ffi::turn::{Pixels, Turn};
use crate::memory::Gpu;
use crate::states::{Maker, States};

/// Which library encodes tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Picture {
    /// nvJPEG.
    Jpeg,
    /// nvJPEG2000.
    Jpeg2000,
}

/// Quality where nobody says.
const QUALITY: u8 = 75;
/// PhotometricInterpretation YCbCr.
const YCBCR: u16 = 6;

impl Picture {
    /// What encodes a codec.
    pub fn of(codec: &str) -> Option<Self> {
        match codec {
            "jpeg" => Some(Self::Jpeg),
            "jpeg2000" => Some(Self::Jpeg2000),
            _ => None,
        }
    }

    /// Name of the library.
    pub fn library(self) -> &'static str {
        match self {
            Self::Jpeg => nvjpeg::WANTED.name,
            Self::Jpeg2000 => nvjpeg2k::WANTED.name,
        }
    }

    /// The library for a codec, where it is there and takes such pixels; or why not. `None` for other codecs.
    pub fn find(gpu: &Gpu, plan: &LevelPlan) -> Option<Result<Self, String>> {
        let picture = Self::of(plan.codec.name())?;
        let (takes, absence) = match picture {
            Self::Jpeg => (Jpeg::new(plan).is_some(), gpu.jpeg_encoders().err()),
            Self::Jpeg2000 => (Jpeg2000::new(plan).is_some(), gpu.jpeg2000_encoders().err()),
        };
        Some(match (takes, absence) {
            (false, _) => Err(format!("{} does not take their pixels", picture.library())),
            (true, Some(absence)) => Err(absence.to_owned()),
            (true, None) => Ok(picture),
        })
    }

    /// Encodes tiles, all of one plan, whose pixels are there; a tile that the library refuses comes with its reason.
    pub fn encode(
        self,
        gpu: &Gpu,
        plan: &LevelPlan,
        tiles: &[Pixels],
    ) -> Result<Vec<Result<Vec<u8>, Failure>>, Failure> {
        match self {
            Self::Jpeg => match (gpu.jpeg_encoders(), Jpeg::new(plan)) {
                (Ok(states), Some(how)) => encode(gpu, states, &how, tiles),
                _ => Ok(vec![Err(nobody()); tiles.len()]),
            },
            Self::Jpeg2000 => match (gpu.jpeg2000_encoders(), Jpeg2000::new(plan)) {
                (Ok(states), Some(how)) => encode(gpu, states, &how, tiles),
                _ => Ok(vec![Err(nobody()); tiles.len()]),
            },
        }
    }
}

/// Why tiles are not encoded that no state took.
fn nobody() -> Failure {
    Failure { call: "encoding", code: 0, reason: "no state of the library takes it".into() }
}

/// What encodes one tile at a time.
trait Encoder: Send {
    /// What all tiles of a file share.
    type How: Sync;

    /// Its stream and memory.
    fn turn(&mut self) -> &mut Turn;

    /// Puts the encode of a tile into its stream.
    fn begin(&mut self, pixels: &Pixels, how: &Self::How) -> Result<(), Refusal>;

    /// Waits for the bytes of that tile.
    fn finish(&mut self, pixels: &Pixels, how: &Self::How) -> Result<Vec<u8>, Refusal>;
}

/// How tiles of JPEG are encoded.
struct Jpeg {
    quality: u8,
    sampling: Sampling,
    tables: Arc<[u8]>,
}

impl Jpeg {
    fn new(plan: &LevelPlan) -> Option<Self> {
        let format = &plan.format;
        let quality = plan.settings.quality.unwrap_or(QUALITY).clamp(1, 100);
        let bytes = format.dtype == DType::UInt8 && format.bits == 8;
        let tables = format.jpeg_tables.clone().filter(|_| bytes)?;
        Some(Self { quality, sampling: sampling(format)?, tables })
    }
}

/// What the library calls pixels that share a sample of colour. Three samples that are no YCbCr are the host's matter.
fn sampling(format: &TileFormat) -> Option<Sampling> {
    match (format.samples, format.photometric, format.subsampling) {
        (1, ..) => Some(Sampling::Grey),
        (3, YCBCR, (1, 1)) => Some(Sampling::By1x1),
        (3, YCBCR, (2, 1)) => Some(Sampling::By2x1),
        (3, YCBCR, (1, 2)) => Some(Sampling::By1x2),
        (3, YCBCR, (2, 2)) => Some(Sampling::By2x2),
        (3, YCBCR, (4, 1)) => Some(Sampling::By4x1),
        (3, YCBCR, (4, 2)) => Some(Sampling::By4x2),
        _ => None,
    }
}

impl Encoder for nvjpeg::EncodeState {
    type How = Jpeg;

    fn turn(&mut self) -> &mut Turn {
        self.turn()
    }

    fn begin(&mut self, pixels: &Pixels, how: &Jpeg) -> Result<(), Refusal> {
        self.encode(pixels, how.quality, how.sampling)
    }

    fn finish(&mut self, _: &Pixels, how: &Jpeg) -> Result<Vec<u8>, Refusal> {
        abbreviate(self.bytes()?, &how.tables).ok_or_else(|| {
            let reason = "what it made is not one baseline image".into();
            Refusal::Data(Failure { call: "nvjpegEncode", code: 0, reason })
        })
    }
}

/// How tiles of JPEG 2000 are encoded.
struct Jpeg2000 {
    sample: Sample,
    bits: u8,
    /// Bytes of a sample.
    size: usize,
    /// The part of the plain size that a tile may have; all where nothing may be lost.
    percent: Option<u8>,
}

impl Jpeg2000 {
    fn new(plan: &LevelPlan) -> Option<Self> {
        let format = &plan.format;
        // The library has no bytes with a sign.
        let sample = match format.dtype {
            DType::UInt8 => Sample::UInt8,
            DType::UInt16 => Sample::UInt16,
            DType::Int16 => Sample::Int16,
            _ => return None,
        };
        let size = format.dtype.size();
        let percent = plan.settings.quality.map(|quality| quality.clamp(1, 100)).filter(|&quality| quality < 100);
        let known = usize::from(format.samples) <= MOST_COMPONENTS;
        known.then_some(Self { sample, bits: format.bits.clamp(1, 8 * size as u16) as u8, size, percent })
    }

    fn coding(&self, pixels: &Pixels, step: Option<f64>) -> Coding {
        // A level halves both sides: no more levels than the smaller one has halves.
        let smaller = pixels.width.min(pixels.height).max(1);
        Coding { sample: self.sample, bits: self.bits, resolutions: (smaller.ilog2() + 1).min(6), step }
    }

    fn search(&self, pixels: &Pixels) -> Option<Search> {
        let samples = f64::from(pixels.width) * f64::from(pixels.height) * f64::from(pixels.samples);
        self.percent.map(|percent| Search::new(samples, self.size, self.bits, percent))
    }
}

impl Encoder for nvjpeg2k::EncodeState {
    type How = Jpeg2000;

    fn turn(&mut self) -> &mut Turn {
        self.turn()
    }

    fn begin(&mut self, pixels: &Pixels, how: &Jpeg2000) -> Result<(), Refusal> {
        let step = how.search(pixels).map(|search| search.step());
        self.encode(pixels, &how.coding(pixels, step))
    }

    fn finish(&mut self, pixels: &Pixels, how: &Jpeg2000) -> Result<Vec<u8>, Refusal> {
        let mut length = self.length()?;
        if let Some(mut search) = how.search(pixels) {
            while let Some(step) = search.after(length) {
                self.encode(pixels, &how.coding(pixels, Some(step)))?;
                length = self.length()?;
            }
            if !search.found(length) {
                let reason = "no step gives the size that was asked for".into();
                return Err(Refusal::Data(Failure { call: "nvjpeg2kEncode", code: 0, reason }));
            }
        }
        Ok(self.bytes(length)?.to_vec())
    }
}

/// The way to the step that makes a tile as long as it may be. It depends on the tile alone: the same tile comes out the
/// same, whatever was encoded before it.
#[derive(Debug, Clone, PartialEq)]
struct Search {
    samples: f64,
    /// Bytes that a tile may have.
    target: f64,
    /// The step that was tried last; all steps are powers of two.
    at: f64,
    /// The largest step that was too small, and the smallest that was not, with the bytes they gave where they were tried.
    low: (f64, Option<f64>),
    high: (f64, Option<f64>),
    tries: u32,
}

impl Search {
    /// Encodes of a tile at most, but for one to come back to the best.
    const TRIES: u32 = 7;
    /// The part of the target that is near enough, and the one that is aimed at.
    const NEAR: f64 = 0.9;
    const AIM: f64 = 0.95;
    /// The smallest power of two for a step.
    const LEAST: f64 = -8.0;

    fn new(samples: f64, size: usize, bits: u8, percent: u8) -> Self {
        let target = samples * size as f64 * f64::from(percent) / 100.0;
        let most = f64::from(bits) + 4.0;
        let mut search = Self { samples, target, at: 0.0, low: (Self::LEAST, None), high: (most, None), tries: 1 };
        // Half of the bits of many pictures are noise.
        let guess = f64::from(bits) * 0.5 - search.detail(target * Self::AIM);
        search.at = guess.clamp(Self::LEAST, most);
        search
    }

    /// The step to try.
    fn step(&self) -> f64 {
        self.at.exp2()
    }

    /// Whether a tile of this length will do.
    fn found(&self, length: usize) -> bool {
        length as f64 <= self.target
    }

    /// How many doublings of the step are between samples that come to so many bytes and those that come to a bit each.
    fn detail(&self, bytes: f64) -> f64 {
        ((8.0 * bytes.max(1.0) / self.samples).exp2() - 1.0).max(1e-9).log2()
    }

    /// After a try that came to so many bytes: the next one, or none when it is the one to keep.
    fn after(&mut self, length: usize) -> Option<f64> {
        let bytes = length as f64;
        let fits = self.found(length);
        if self.tries > Self::TRIES || fits && (bytes >= self.target * Self::NEAR || self.at <= Self::LEAST) {
            return None;
        }
        *(if fits { &mut self.high } else { &mut self.low }) = (self.at, Some(bytes));
        if self.tries == Self::TRIES && fits {
            return None;
        }
        self.at = if self.tries == Self::TRIES { self.high.0 } else { self.guess(bytes, fits) };
        self.tries += 1;
        Some(self.step())
    }

    /// Between two tries on a line; before there are two, by what pictures are like.
    fn guess(&self, bytes: f64, fits: bool) -> f64 {
        let ((low, above), (high, below)) = (self.low, self.high);
        if let (Some(above), Some(below)) = (above, below) {
            let part = (above / (self.target * Self::AIM)).log2() / (above / below.max(1.0)).log2();
            return low + (high - low) * part.clamp(0.1, 0.9);
        }
        let guess = self.at + self.detail(bytes) - self.detail(self.target * Self::AIM);
        match guess > low && guess < high {
            true => guess,
            false if fits => Self::LEAST,
            false => f64::midpoint(self.at, high),
        }
    }
}

/// The states of one thread, each with the tile that it encodes.
struct Hands<'a, M: Maker> {
    states: &'a States<M>,
    held: VecDeque<(M::State, Option<usize>)>,
}

impl<'a, M: Maker> Hands<'a, M>
where
    M::State: Encoder,
{
    /// One state, and another where that waits for nothing.
    fn take(states: &'a States<M>) -> Result<Self, Refusal> {
        let mut held = VecDeque::from([(states.take(0)?, None)]);
        // One alone will do.
        if let Ok(Some(second)) = states.take_free() {
            held.push_back((second, None));
        }
        Ok(Self { states, held })
    }

    /// Encodes tiles as long as there are some.
    fn work(&mut self, tiles: &[Pixels], how: &<M::State as Encoder>::How, next: &AtomicUsize) -> Outcomes {
        let mut done = Vec::new();
        loop {
            let number = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&number| number < tiles.len());
            let Some((state, tile)) = self.held.front_mut() else { return Ok(done) };
            if let Some(tile) = tile.take() {
                done.push((tile, kept(state.finish(&tiles[tile], how))?));
            }
            match number {
                Some(number) => match kept(state.begin(&tiles[number], how))? {
                    Ok(()) => *tile = Some(number),
                    Err(failure) => done.push((number, Err(failure))),
                },
                None if self.held.iter().all(|(_, tile)| tile.is_none()) => return Ok(done),
                None => {}
            }
            self.held.rotate_left(1);
        }
    }
}

impl<M: Maker> Drop for Hands<'_, M> {
    fn drop(&mut self) {
        self.held.drain(..).for_each(|(state, _)| self.states.give_back(state));
    }
}

/// Tiles by their number, each with its bytes or with why there are none.
type Outcomes = Result<Vec<(usize, Result<Vec<u8>, Failure>)>, Failure>;

/// What a library refuses is no failure.
fn kept<T>(outcome: Result<T, Refusal>) -> Result<Result<T, Failure>, Failure> {
    match outcome {
        Ok(value) => Ok(Ok(value)),
        Err(Refusal::Data(failure)) => Ok(Err(failure)),
        Err(Refusal::Failed(failure)) => Err(failure),
    }
}

/// Encodes tiles by all threads.
fn encode<M: Maker>(
    gpu: &Gpu,
    states: &States<M>,
    how: &<M::State as Encoder>::How,
    tiles: &[Pixels],
) -> Result<Vec<Result<Vec<u8>, Failure>>, Failure>
where
    M::State: Encoder,
{
    let next = AtomicUsize::new(0);
    // What a thread has done, or why it has no state.
    let work = |_: usize| {
        let _current = gpu.enter()?;
        let mut hands = match kept(Hands::take(states))? {
            Ok(hands) => hands,
            Err(failure) => return Ok((Vec::new(), Some(failure))),
        };
        let outcome = hands.work(tiles, how, &next);
        if outcome.is_err() {
            // Nothing of it may read pixels any more when their memory is given to somebody else.
            hands.held.iter_mut().for_each(|(state, _)| drop(state.turn().stream().wait()));
        }
        outcome.map(|done| (done, None))
    };
    let workers = gpu.threads.current_num_threads().min(tiles.len());
    let shares = gpu.threads.install(|| (0..workers).into_par_iter().map(work).collect::<Vec<_>>());
    let shares = shares.into_iter().collect::<Result<Vec<_>, Failure>>()?;
    let without = shares.iter().find_map(|(_, without)| without.clone()).unwrap_or_else(nobody);
    let mut outcomes = vec![Err(without); tiles.len()];
    for (number, outcome) in shares.into_iter().flat_map(|(done, _)| done) {
        outcomes[number] = outcome;
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a picture with so many bits of detail comes to with a step; some have all of it everywhere, some in places.
    fn length(samples: f64, detail: f64, places: bool, step: f64) -> usize {
        let bits = |more: f64| (1.0 + (detail + more - step.log2()).exp2()).log2();
        let bits = if places { 0.7 * bits(-2.0) + 0.2 * bits(1.0) + 0.1 * bits(3.0) } else { bits(0.0) };
        (samples * bits / 8.0) as usize + 90
    }

    #[test]
    fn sizes_are_met_in_few_tries_whatever_the_picture_is_like() {
        let samples = 512.0 * 512.0 * 3.0;
        for (size, bits) in [(1, 8), (2, 12), (2, 16)] {
            for (percent, places) in [1, 2, 5, 10, 25, 50, 80, 99].into_iter().flat_map(|p| [(p, false), (p, true)]) {
                for detail in [-3.0, 0.0, 2.0, 4.0, 6.0, 9.0, 13.0] {
                    let mut search = Search::new(samples, size, bits, percent);
                    let least = length(samples, detail, places, search.high.0.exp2()) as f64;
                    let most = length(samples, detail, places, Search::LEAST.exp2()) as f64;
                    let (mut tries, mut came) = (1, length(samples, detail, places, search.step()));
                    while let Some(step) = search.after(came) {
                        (tries, came) = (tries + 1, length(samples, detail, places, step));
                    }
                    let target = search.target;
                    let what = format!("{bits} bits, {percent} %, detail {detail}: {came} of {target} in {tries}");
                    assert!(tries <= 6 || least > target, "{what}");
                    assert!(search.found(came) || least > target, "{what}");
                    assert!(came as f64 >= target * Search::NEAR || most <= target, "{what}");
                }
            }
        }
    }

    #[test]
    fn what_no_step_can_do_ends() {
        for came in [0, 1, 1 << 30] {
            let mut search = Search::new(1e5, 1, 8, 10);
            let tries = std::iter::from_fn(|| search.after(came)).count();
            assert!(tries <= Search::TRIES as usize, "{tries} for {came}");
        }
    }

    #[test]
    fn the_same_tile_takes_the_same_way() {
        let mut one = Search::new(1e5, 1, 8, 10);
        let mut other = one.clone();
        for came in [90_000, 30_000, 9_000, 9_900] {
            assert_eq!(one.after(came), other.after(came));
        }
    }

    #[test]
    fn colours_that_the_library_does_not_know_are_the_hosts() {
        let format = |samples, photometric, subsampling| {
            let mut format = TileFormat::new(7, (64, 64), samples, DType::UInt8);
            (format.photometric, format.subsampling) = (photometric, subsampling);
            format
        };
        assert_eq!(sampling(&format(3, 6, (2, 2))), Some(Sampling::By2x2));
        assert_eq!(sampling(&format(1, 1, (1, 1))), Some(Sampling::Grey));
        for other in [format(3, 2, (1, 1)), format(4, 5, (1, 1)), format(3, 6, (4, 4)), format(2, 1, (1, 1))] {
            assert_eq!(sampling(&other), None);
        }
    }
}
