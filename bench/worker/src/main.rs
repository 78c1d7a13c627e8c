//! tiffjet as an engine of the benchmark: a request a line on stdin, a JSON object a line on stdout.
//!
//! The protocol is that of `bench/serve.py`, with one request more, `floor PATH`: see [`floor`]; and that of
//! `bench/serve_writer.py`.

mod buffer;
mod clock;
mod floor;
mod library;
mod windows;

use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufWriter, Write};
use std::time::Instant;

use serde_json::{Value, json};

use crate::buffer::Buffer;
use crate::clock::clocked;
use crate::floor::Floor;
use crate::library::{Picture, Pixels, Way};
use crate::windows::{SIDE, windows};

type Answer = Result<Value, Box<dyn Error>>;

fn main() -> io::Result<()> {
    let mut worker = Worker::default();
    let mut replies = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let answer = worker.answer(&line?).unwrap_or_else(|error| json!({ "error": error.to_string() }));
        writeln!(replies, "{answer}")?;
        replies.flush()?;
    }
    Ok(())
}

/// What is kept from one request to the next.
#[derive(Default)]
struct Worker {
    pixels: Buffer,
    /// The file whose windows are asked.
    open: Option<(String, Picture)>,
    /// The file whose floor is asked, with its tiles in memory.
    floor: Option<(String, Floor)>,
    /// What is to be written.
    source: Option<Pixels>,
}

impl Worker {
    fn answer(&mut self, line: &str) -> Answer {
        let words: Vec<&str> = line.split('\t').collect();
        match words[..] {
            ["versions"] => Ok(json!({ "tiffjet": env!("CARGO_PKG_VERSION") })),
            ["read", path] => self.read(path),
            ["check", path, out] => self.check(path, out),
            ["load", path, header, bands, height, width, dtype] => {
                let shape = [bands.parse()?, height.parse()?, width.parse()?];
                self.load(path, header.parse()?, shape, dtype)
            }
            ["write", path, codec, level, predictor, tile, layout] => {
                let level = if level == "-" { None } else { Some(level.parse()?) };
                self.write(path, &Way { codec, level, predictor, tile: tile.parse()?, cog: layout == "cog" })
            }
            ["open", path, count] => open(path, count.parse()?),
            ["windows", path, seed, count, height, width] => {
                let corners = windows(seed.parse()?, count.parse()?, height.parse()?, width.parse()?)?;
                self.windows(path, &corners)
            }
            ["checkwindows", path, seed, count, height, width, out] => {
                let corners = windows(seed.parse()?, count.parse()?, height.parse()?, width.parse()?)?;
                self.check_windows(path, &corners, out)
            }
            ["floor", path] => self.floor(path),
            _ => Err(format!("unknown request: {line}").into()),
        }
    }

    fn read(&self, path: &str) -> Answer {
        let (clocks, _pixels) = clocked(|| Picture::open(path)?.read())?;
        Ok(clocks.json())
    }

    fn check(&self, path: &str, out: &str) -> Answer {
        let picture = Picture::open(path)?;
        let pixels = picture.read()?;
        std::fs::write(out, pixels.bytes().unwrap_or_default())?;
        Ok(json!({ "shape": picture.shape(), "dtype": picture.dtype() }))
    }

    fn windows(&mut self, path: &str, corners: &[(u32, u32)]) -> Answer {
        let picture = keep(&mut self.open, path, Picture::open)?;
        let mut seconds = Vec::with_capacity(corners.len());
        for &(row, col) in corners {
            let begun = Instant::now();
            std::hint::black_box(picture.window(row, col, SIDE)?);
            seconds.push(begun.elapsed().as_secs_f64());
        }
        Ok(json!({ "seconds": seconds }))
    }

    fn check_windows(&mut self, path: &str, corners: &[(u32, u32)], out: &str) -> Answer {
        let picture = keep(&mut self.open, path, Picture::open)?;
        let mut file = BufWriter::new(File::create(out)?);
        for &(row, col) in corners {
            let pixels = picture.window(row, col, SIDE)?;
            file.write_all(pixels.bytes().unwrap_or_default())?;
        }
        file.flush()?;
        Ok(json!({ "dtype": picture.dtype() }))
    }

    /// Keeps the pixels of a NumPy file, whose header has so many bytes.
    fn load(&mut self, path: &str, header: usize, shape: [usize; 3], dtype: &str) -> Answer {
        let mut bytes = std::fs::read(path)?;
        bytes.drain(..header.min(bytes.len()));
        let dtype = tiffjet::DType::from_name(dtype).ok_or("no such type")?;
        self.source = Some(Pixels { bytes, shape, dtype });
        Ok(json!({}))
    }

    fn write(&self, path: &str, way: &Way<'_>) -> Answer {
        let source = self.source.as_ref().ok_or("nothing is loaded")?;
        let (clocks, bytes) = clocked(|| source.write(path, way))?;
        let mut answer = clocks.json();
        answer["bytes"] = json!(bytes);
        Ok(answer)
    }

    fn floor(&mut self, path: &str) -> Answer {
        let floor = keep(&mut self.floor, path, Floor::load)?;
        let (clocks, ()) = clocked(|| floor.run(&mut self.pixels))?;
        Ok(clocks.json())
    }
}

fn open(path: &str, count: u32) -> Answer {
    let (clocks, ()) = clocked(|| {
        for _ in 0..count {
            std::hint::black_box(Picture::open(path)?.describe());
        }
        Ok(())
    })?;
    Ok(clocks.per(count).json())
}

/// What is kept for this path, made anew when it is another path than before.
fn keep<'a, T>(
    kept: &'a mut Option<(String, T)>,
    path: &str,
    make: impl FnOnce(&str) -> Result<T, Box<dyn Error>>,
) -> Result<&'a mut T, Box<dyn Error>> {
    let fresh = match kept.take() {
        Some(old) if old.0 == path => old,
        _ => (path.to_owned(), make(path)?),
    };
    Ok(&mut kept.insert(fresh).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_request_is_an_error_and_not_the_end() {
        let mut worker = Worker::default();
        assert!(worker.answer("fly\taway").is_err());
        assert!(worker.answer("read").is_err());
        assert!(worker.answer("versions").is_ok());
    }

    #[test]
    fn a_missing_file_is_an_error() {
        assert!(Worker::default().answer("read\t/no/such/file.tif").is_err());
        assert!(Worker::default().answer("floor\t/no/such/file.tif").is_err());
    }

    #[test]
    fn a_file_is_kept_until_another_is_asked() {
        let mut kept = None;
        let mut made = 0;
        for path in ["a", "a", "b", "a"] {
            keep(&mut kept, path, |p| {
                made += 1;
                Ok(p.to_owned())
            })
            .unwrap();
        }
        assert_eq!(made, 3);
        assert!(keep(&mut kept, "c", |_| Err("no".into())).is_err());
        assert!(kept.is_none());
    }
}
