//! A raster to measure with, where none is given.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use tiffjet::sink::FileSink;
use tiffjet::{DType, Error, Result, RowsView, WriteOptions, Writer};

use crate::args::Input;

/// A file that goes away with this, in a folder that nobody else can write to.
pub struct Sample {
    folder: PathBuf,
}

impl Sample {
    /// Heights like those of a landscape, with the noise that real ones have.
    pub fn make(size: u32, codec: &str) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("tiffjet-bench-{}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|error| Error::io(&folder.to_string_lossy().into(), error))?;
        let sample = Self { folder };
        let mut options = WriteOptions::new([1, size as usize, size as usize], DType::Float32);
        codec.clone_into(&mut options.compression);
        let mut writer = Writer::create(FileSink::create(sample.path())?, &options)?;
        let mut state = 1u32;
        for y in 0..size {
            let row: Vec<u8> = (0..size).flat_map(|x| height(y, x, &mut state).to_ne_bytes()).collect();
            let rows = RowsView::new(&row, [1, 1, size as usize], DType::Float32);
            writer.push(&rows.ok_or_else(|| Error::invalid(&"<rows>".into(), "a row of another size"))?)?;
        }
        writer.finish()?;
        Ok(sample)
    }

    fn path(&self) -> PathBuf {
        self.folder.join("heights.tif")
    }

    pub fn input(&self) -> Input {
        self.path().into_os_string().into()
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        // What can't be removed is left to whoever cleans that folder.
        let _ = std::fs::remove_dir_all(&self.folder);
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
