//! Files of other machines, from servers that keep the rules and from servers that break them.

mod faults;
mod requests;
mod server;
mod stores;

use std::sync::Arc;

use tiffjet::sink::MemorySink;
use tiffjet::source::Remote;
use tiffjet::{Blocks, DType, Image, OpenOptions, RowsView, WriteOptions, Writer};

/// A COG and its pixels.
struct File {
    bytes: Arc<Vec<u8>>,
    pixels: Vec<u8>,
    options: WriteOptions,
}

/// A COG of 16-bit pixels in tiles of 64 x 64. Uncompressed, so that it is known where they stand.
fn cog(height: usize, width: usize, change: impl FnOnce(&mut WriteOptions)) -> File {
    let mut options = WriteOptions::new([1, height, width], DType::UInt16);
    options.cog = true;
    options.blocks = Blocks::Tiles { width: 64, height: 64 };
    options.compression = "none".into();
    change(&mut options);
    let pixels: Vec<u8> = (0..height * width)
        .flat_map(|i| ((i as u32).wrapping_mul(2654435761) >> 16).to_le_bytes()[..2].to_vec())
        .collect();
    let sink = MemorySink::new();
    let mut writer = Writer::create(sink.clone(), &options).unwrap();
    writer.push(&RowsView::new(&pixels, [1, height, width], DType::UInt16).unwrap()).unwrap();
    writer.finish().unwrap();
    File { bytes: Arc::new(sink.take().unwrap()), pixels, options }
}

/// Settings that make failures quick.
fn quick(more: &[(&str, &str)]) -> OpenOptions {
    let all = [("timeout", "0.4"), ("connect_timeout", "2"), ("retries", "3"), ("backoff", "0.01")];
    let remote = Remote::new(all.iter().chain(more).copied()).unwrap();
    OpenOptions { remote, ..OpenOptions::default() }
}

fn open(url: &str) -> tiffjet::Result<Image> {
    Image::open(url, &quick(&[]))
}
