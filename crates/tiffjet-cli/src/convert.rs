//! `tiffjet convert`: reads and writes, streaming.

mod carry;
mod cast;
pub mod choices;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use serde_json::{Value, json};
use tiffjet::sink::StreamSink;
use tiffjet::source::{Remote, redacted};
use tiffjet::{
    Backend, Cpu, DType, DeviceRows, Error, Image, Result, RowsView, Tensor, Window, WriteOptions, Writer, Written,
};

use crate::Outcome;
use crate::args::{Input, On, Part};
use crate::output::print;
use crate::pieces::{Pieces, in_proportion};
use crate::terminal::{Progress, Waiting};
use cast::Cast;
use choices::Choices;

/// Write a file anew: as a COG, with another codec, cut out, with other bands or another type
///
/// Georeferencing, nodata, metadata, colour map, mask, XMP and ICC profile are carried over. With --dtype values are
/// rounded (halves away from zero) and those that do not fit become the nearest that does, as GDAL has it; of complex
/// numbers the real part is kept.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tiffjet convert scene.tif cog.tif --cog
  tiffjet convert scene.tif part.tif --window 0:512,1024:1536 --bands 4,3,2 --compress deflate
  tiffjet convert scene.tif small.tif --dtype uint8 --compress jpeg --quality 90 --bands 1,2,3
  tiffjet convert scene.tif - --compress none | tiffjet checksum -")]
pub struct Convert {
    /// The file to read: a path, an address (http://, https://, s3://, gs://, az://), or - for standard input
    file: Input,
    /// The file to write: a path, an object (s3://, gs://, az://), or - for standard output
    out: PathBuf,
    #[command(flatten)]
    choices: Choices,
    #[command(flatten)]
    part: Part,
    #[command(flatten)]
    on: On,
    /// Bytes of memory for pixels, with K, M or G behind the number
    #[arg(long, default_value = "256M", value_name = "BYTES", value_parser = parse_bytes)]
    memory: u64,
    /// Print one line of JSON of what was written
    #[arg(long)]
    json: bool,
}

fn parse_bytes(text: &str) -> std::result::Result<u64, String> {
    let (digits, shift) = match text.trim().strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 10),
        None => match text.trim().strip_suffix(['M', 'm']) {
            Some(digits) => (digits, 20),
            None => text.trim().strip_suffix(['G', 'g']).map_or((text.trim(), 0), |digits| (digits, 30)),
        },
    };
    let bytes = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
    bytes.filter(|&n| n > 0).ok_or_else(|| "a number of bytes, for example 268435456 or 256M".into())
}

impl Convert {
    pub fn run(&self) -> Outcome {
        let backend = self.on.encoder(&self.file.name())?;
        let image = self.file.open()?;
        let window = self.part.of_level(0);
        let shape = image.plan_shape(&window)?;
        in_proportion(&image, window.level, shape)?;
        let options = self.options(&image, &window, shape)?;
        let writer = self.create(backend.clone(), &options)?;
        if image.pages() > 1 {
            note(&format!("{}: the first of {} pages is converted", image.name(), image.pages()));
        }
        match stream(&image, &window, shape, &options, (&*backend, writer), self.piece_bytes()) {
            Err(Error::Io { source, .. }) if self.to_stdout() && source.kind() == std::io::ErrorKind::BrokenPipe => {
                Ok(ExitCode::FAILURE) // nobody listens any more
            }
            done => {
                let written = done?;
                written.report.fallbacks.iter().for_each(|what| note(what));
                if self.json && !self.to_stdout() {
                    print(&format!("{}\n", self.told(shape, &written)))?;
                }
                Ok(ExitCode::SUCCESS)
            }
        }
    }

    fn told(&self, shape: [usize; 3], written: &Written) -> Value {
        json!({
            "file": redacted(&self.out.to_string_lossy()),
            "shape": shape,
            "bytes": written.bytes,
            "bigtiff": written.big,
            "levels": written.levels,
            "tiles": written.tiles,
            "sparse_tiles": written.absent,
            "routes": written.report.routes.iter().map(|(route, tiles)| json!({"route": route, "tiles": tiles})).collect::<Vec<_>>(),
            "fallbacks": written.report.fallbacks,
        })
    }

    fn to_stdout(&self) -> bool {
        self.out.as_os_str() == "-"
    }

    /// Bytes of pixels that are read at once, as far as the file's tiles allow.
    fn piece_bytes(&self) -> u64 {
        self.memory / 16
    }

    fn options(&self, image: &Image, window: &Window, shape: [usize; 3]) -> Result<WriteOptions> {
        let mut options = WriteOptions::new(shape, self.choices.dtype.unwrap_or(image.dtype()));
        // One piece is read while another is written; where tiles make pieces large, the writer has less.
        let piece = pieces(image, window, shape, self.piece_bytes())?.rows().min(shape[1] as u32);
        let row_bytes = (shape[0] as u64).saturating_mul(shape[2] as u64).saturating_mul(image.dtype().size() as u64);
        let held = u64::from(piece).saturating_mul(row_bytes).saturating_mul(2);
        options.memory = Some(self.memory.saturating_sub(held).max(self.memory / 4));
        self.choices.apply(&mut options);
        carry::carry(image, window, &self.choices, &mut options)?;
        Ok(options)
    }

    fn create(&self, backend: Arc<dyn Backend>, options: &WriteOptions) -> Result<Writer> {
        if self.to_stdout() {
            let sink = StreamSink::new("<stdout>", std::io::stdout());
            return Writer::create_on(backend, Box::new(sink), options);
        }
        // What can't be written is refused before a file is begun.
        let name = redacted(&self.out.to_string_lossy()).into();
        tiffjet::WritePlan::new(&name, options)?;
        Writer::create_on(backend, tiffjet::sink::create(&self.out, &Remote::default())?, options)
    }
}

/// A line for the user that is no error.
fn note(text: &str) {
    // Where nobody can read it there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "tiffjet: {text}");
}

/// Reads pieces of whole rows in one thread while the other writes the piece before.
fn stream(
    image: &Image,
    window: &Window,
    shape: [usize; 3],
    options: &WriteOptions,
    (backend, mut writer): (&dyn Backend, Writer),
    piece_bytes: u64,
) -> Result<Written> {
    let progress = Progress::new(shape[1] as u64);
    let cast = Cast::new(image.dtype(), options);
    let top = window.rows.as_ref().map_or(0, |rows| rows.start);
    // Pixels that nobody else must see stay where they are decoded.
    let backend = (cast.is_none() && !options.mask).then_some(backend);
    let pieces = pieces(image, window, shape, piece_bytes)?.cut(top..top + shape[1] as u32);
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(0);
        // Each tile is wanted once, and memory is bounded: nothing is kept.
        let cpu = Cpu::shared()?.with_cache(0);
        scope.spawn(move || {
            for rows in pieces {
                let piece = Window { rows: Some(rows), ..window.clone() };
                // A writer that has failed takes no more.
                if sender.send(read(image, &piece, backend.unwrap_or(&cpu), options.mask)).is_err() {
                    return;
                }
            }
        });
        for piece in receiver {
            let (pixels, mask) = piece?;
            push(&mut writer, &cast, &pixels, mask.as_ref(), options.dtype)?;
            progress.advance(pixels.shape[1] as u64);
        }
        Ok::<(), Error>(())
    })?;
    drop(progress);
    let _waiting = Waiting::on("putting the file together".to_owned());
    writer.finish()
}

fn read(image: &Image, piece: &Window, backend: &dyn Backend, masked: bool) -> Result<(Tensor, Option<Tensor>)> {
    let pixels = image.read_on(backend, piece)?;
    let mask = if masked { Some(image.read_mask(piece)?) } else { None };
    Ok((pixels, mask))
}

fn push(writer: &mut Writer, cast: &Cast, pixels: &Tensor, mask: Option<&Tensor>, dtype: DType) -> Result<()> {
    if let Some(rows) = DeviceRows::of(pixels) {
        return writer.push(&rows);
    }
    let bytes = cast.apply(pixels.bytes().unwrap_or_default());
    let rows = RowsView::new(&bytes, pixels.shape, dtype);
    let rows = rows.and_then(|rows| match mask.and_then(Tensor::bytes) {
        Some(mask) => rows.with_mask(mask),
        None => Some(rows),
    });
    // The shapes come from one window: they fit.
    let rows = rows.ok_or_else(|| Error::invalid(&"<rows>".into(), "pixels and mask differ in shape"))?;
    writer.push(&rows)
}

fn pieces(image: &Image, window: &Window, shape: [usize; 3], bytes: u64) -> Result<Pieces> {
    let layout = &image.level(window.level)?.layout;
    let row_bytes = (shape[0] as u64).saturating_mul(shape[2] as u64).saturating_mul(layout.dtype().size() as u64);
    Ok(Pieces::new(layout, row_bytes, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("64M"), Ok(64 << 20));
        assert_eq!(parse_bytes("2g"), Ok(2 << 30));
        for bad in ["", "0", "M", "-1", "99999999999G"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }
}
