//! A raster to measure with, where none is given.

use std::path::PathBuf;

use tiffjet::sink::FileSink;
use tiffjet::{DType, Error, Result, RowsView, WriteOptions, Writer};

use crate::args::Input;

/// A file that goes away with this.
pub struct Sample {
    path: PathBuf,
}

impl Sample {
    /// Heights like those of a landscape, with the noise that real ones have.
    pub fn make(size: u32, codec: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("tiffjet-bench-{}.tif", std::process::id()));
        let mut options = WriteOptions::new([1, size as usize, size as usize], DType::Float32);
        codec.clone_into(&mut options.compression);
        let mut writer = Writer::create(FileSink::create(&path)?, &options)?;
        let sample = Self { path };
        let mut state = 1u32;
        for y in 0..size {
            let row: Vec<u8> = (0..size).flat_map(|x| height(y, x, &mut state).to_ne_bytes()).collect();
            let rows = RowsView::new(&row, [1, 1, size as usize], DType::Float32);
            writer.push(&rows.ok_or_else(|| Error::invalid(&"<rows>".into(), "a row of another size"))?)?;
        }
        writer.finish()?;
        Ok(sample)
    }

    pub fn input(&self) -> Input {
        self.path.clone().into_os_string().into()
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        // A file that is not there was never finished.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn height(y: u32, x: u32, state: &mut u32) -> f32 {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    let (y, x) = (y as f32, x as f32);
    let waves = (x / 310.0).sin() * (y / 270.0).cos() * 900.0 + ((x + 2.0 * y) / 41.0).sin() * 60.0;
    // Steps of a centimetre, as instruments give them.
    ((1200.0 + waves + (*state >> 24) as f32 / 100.0) * 100.0).round() / 100.0
}
