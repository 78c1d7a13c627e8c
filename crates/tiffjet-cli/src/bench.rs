//! `tiffjet bench`: how fast this machine reads a file, against its own limits.

mod limits;
mod sample;

use std::fmt::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tiffjet::{Backend, Cpu, Image, Result, Window};
use tiffjet_cuda::Cuda;

use crate::Outcome;
use crate::args::{Input, On};
use crate::convert::choices::parse_codec;
use crate::output::print;
use crate::pieces::{Pieces, in_proportion};
use crate::terminal::{Progress, Waiting};
use limits::Limit;
use sample::Sample;

/// Bytes of pixels that are read at once, as far as the file's tiles allow: more would measure nothing else.
const MOST: u64 = 512 << 20;
/// Side of the windows that are read at random places.
const WINDOW: u32 = 512;
/// How often each thing is done, at least and at most.
const ROUNDS: (usize, usize) = (3, 100);

/// Measure how fast this machine reads a file, and how far that is from what it could do
///
/// Opens the file, reads it whole (or the middle of it, where it is large) and in small windows, and measures what such a
/// read can't beat: bytes from the page cache, pixels through memory, the codec on all cores; on a GPU its phases.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tiffjet bench scene.tif
  tiffjet bench scene.tif --device cpu --seconds 0.2 --json
  tiffjet bench --size 1024 --compress deflate --seconds 0.1")]
pub struct Bench {
    /// The file to read; without one a raster is made
    file: Option<Input>,
    #[command(flatten)]
    on: On,
    /// Seconds for each measurement
    #[arg(long, default_value_t = 1.0, value_name = "S", value_parser = parse_seconds)]
    seconds: f64,
    /// Rows and columns of the raster that is made
    #[arg(long, default_value_t = 4096, value_name = "N", conflicts_with = "file",
          value_parser = clap::value_parser!(u32).range(64..=32768))]
    size: u32,
    /// Its codec
    #[arg(long, default_value = "zstd", value_name = "C", conflicts_with = "file", value_parser = parse_codec)]
    compress: String,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

fn parse_seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|s| *s > 0.0 && *s <= 600.0);
    seconds.ok_or_else(|| "a number of seconds, 600 at most".into())
}

/// What was measured, in seconds.
struct Figures {
    device: String,
    pixels: u64,
    bytes: u64,
    tiles: usize,
    open: f64,
    read: f64,
    windows: Option<f64>,
    limits: Vec<Limit>,
}

impl Figures {
    /// The limit that is nearest, and how much of the time it would take.
    fn nearest(&self) -> Option<(&Limit, f64)> {
        let longest = self.limits.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
        Some((longest, longest.seconds / self.read))
    }
}

impl Bench {
    pub fn run(&self) -> Outcome {
        let made = match &self.file {
            Some(_) => None,
            None => {
                let _waiting = Waiting::on(format!("making a raster of {} x {}", self.size, self.size));
                Some(Sample::make(self.size, &self.compress)?)
            }
        };
        let input = match (&self.file, &made) {
            (Some(file), _) => file.clone(),
            (None, Some(sample)) => sample.input(),
            (None, None) => return Ok(ExitCode::FAILURE), // one of them is there
        };
        let image = input.open()?;
        let figures = self.measure(&input, &image)?;
        print(&if self.json { format!("{}\n", json(&image, &figures)) } else { text(&image, &figures) })?;
        Ok(ExitCode::SUCCESS)
    }

    fn measure(&self, input: &Input, image: &Image) -> Result<Figures> {
        let cuda = self.on.cuda(&input.name())?;
        // Tiles that stay in a cache would measure the cache.
        let cpu = Cpu::shared()?.with_cache(0);
        let backend: &dyn Backend = cuda.as_ref().map_or(&cpu as &dyn Backend, |cuda: &Cuda| cuda);
        let window = middle(image)?;
        let plan = image.plan(&window)?;
        let progress = Progress::new(6);
        let mut clock = Clock { seconds: self.seconds, progress: &progress };
        let open = clock.median(|| input.open_silently().map(drop))?;
        let read = clock.median(|| image.read_on(backend, &window).map(drop))?;
        let windows = match small_windows(image) {
            windows if windows.is_empty() => None,
            windows => {
                let mut turn = windows.iter().cycle();
                let mut one = || turn.next().map_or(Ok(()), |window| image.read_on(backend, window).map(drop));
                Some(clock.median(&mut one)?)
            }
        };
        let limits = match &cuda {
            Some(cuda) => limits::of_device(cuda, image, &plan)?,
            None => limits::of_cores(image, &window, &plan, cpu.threads(), &mut clock)?,
        };
        Ok(Figures {
            device: backend.name().to_owned(),
            pixels: plan.output_bytes().unwrap_or(0) as u64,
            bytes: plan.input_bytes(),
            tiles: plan.tiles().len(),
            open,
            read,
            windows,
            limits,
        })
    }
}

/// Measures one thing after the other.
pub struct Clock<'a> {
    seconds: f64,
    progress: &'a Progress,
}

impl Clock<'_> {
    /// The median of what something takes, the first time left out.
    pub fn median(&mut self, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
        work()?;
        let until = Instant::now() + Duration::from_secs_f64(self.seconds);
        let mut samples = Vec::new();
        while samples.len() < ROUNDS.0 || (samples.len() < ROUNDS.1 && Instant::now() < until) {
            let begun = Instant::now();
            work()?;
            samples.push(begun.elapsed().as_secs_f64());
        }
        self.progress.advance(1);
        samples.sort_by(f64::total_cmp);
        Ok(samples[samples.len() / 2])
    }
}

/// All rows, or as many in the middle as are worth it.
fn middle(image: &Image) -> Result<Window> {
    let [bands, height, width] = image.shape();
    in_proportion(image, 0, [bands, height, width])?;
    let layout = &image.level(0)?.layout;
    let row_bytes = (bands as u64).saturating_mul(width as u64).saturating_mul(layout.dtype().size() as u64);
    let rows = Pieces::new(layout, row_bytes, MOST).rows().min(height as u32);
    let tile = layout.format.height.max(1);
    let top = (height as u32 - rows) / 2 / tile * tile;
    Ok(Window { rows: Some(top..top + rows), ..Window::default() })
}

/// Squares at places that are the same each time; none where the image is hardly larger than one.
fn small_windows(image: &Image) -> Vec<Window> {
    let [_, height, width] = image.shape().map(|n| n as u32);
    if height < 2 * WINDOW || width < 2 * WINDOW {
        return Vec::new();
    }
    let mut state = 1u64;
    let mut below = |end: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(end)) as u32
    };
    let mut window = || {
        let (y, x) = (below(height - WINDOW), below(width - WINDOW));
        Window { rows: Some(y..y + WINDOW), cols: Some(x..x + WINDOW), ..Window::default() }
    };
    (0..64).map(|_| window()).collect()
}

fn json(image: &Image, figures: &Figures) -> Value {
    let nearest = figures.nearest();
    json!({
        "file": **image.name(),
        "shape": image.shape(),
        "dtype": image.dtype().name(),
        "compression": image.levels()[0].layout.codec.name(),
        "device": figures.device,
        "pixel_bytes": figures.pixels,
        "file_bytes": figures.bytes,
        "tiles": figures.tiles,
        "open_seconds": figures.open,
        "read_seconds": figures.read,
        "bytes_per_second": figures.pixels as f64 / figures.read,
        "window_seconds": figures.windows,
        "limits": figures.limits.iter().map(|l| json!({"what": l.what, "seconds": l.seconds})).collect::<Vec<_>>(),
        "nearest_limit": nearest.map(|(limit, _)| limit.what),
        "share_of_limit": nearest.map(|(_, share)| share),
    })
}

fn text(image: &Image, figures: &Figures) -> String {
    let [bands, height, width] = image.shape();
    let codec = image.levels()[0].layout.codec.name();
    let gb = |bytes: u64, seconds: f64| bytes as f64 / seconds / 1e9;
    let mut out = String::new();
    // Writing to a string can't fail.
    let _ = writeln!(out, "file     {width} x {height} x {bands} {}, {codec}, {} tiles", image.dtype(), figures.tiles);
    let _ = writeln!(out, "open     {:.0} µs", 1e6 * figures.open);
    let _ = writeln!(
        out,
        "read     {:.1} ms on {}: {:.2} GB/s of pixels, {:.2} GB/s of the file",
        1e3 * figures.read,
        figures.device,
        gb(figures.pixels, figures.read),
        gb(figures.bytes, figures.read)
    );
    if let Some(windows) = figures.windows {
        let _ = writeln!(out, "window   {:.2} ms for {WINDOW} x {WINDOW} at a random place", 1e3 * windows);
    }
    for limit in &figures.limits {
        let _ = writeln!(out, "limit    {:.1} ms: {}", 1e3 * limit.seconds, limit.what);
    }
    if let Some((limit, share)) = figures.nearest() {
        let _ = writeln!(
            out,
            "so       {:.0} % of what this machine could do; the limit nearest to it: {}",
            100.0 * share,
            limit.what
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_bounded() {
        assert_eq!(parse_seconds("0.5"), Ok(0.5));
        for bad in ["0", "-1", "nan", "inf", "601", "x"] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }
}
