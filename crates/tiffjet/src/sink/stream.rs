//! Anything that takes bytes in order: a pipe, a socket, a compressor.

use std::io::Write;
use std::sync::Arc;

use super::Sink;
use crate::error::{Error, Result};

/// Writes to anything that takes bytes in order. Nothing is sent before the file is whole.
#[derive(Debug)]
pub struct StreamSink<W> {
    name: Arc<str>,
    stream: W,
}

impl<W: Write + Send> StreamSink<W> {
    /// Takes the stream; the name is for errors.
    pub fn new(name: &str, stream: W) -> Self {
        Self { name: name.into(), stream }
    }
}

impl<W: Write + Send> Sink for StreamSink<W> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).map_err(|e| Error::io(&self.name, e))
    }

    fn commit(mut self: Box<Self>) -> Result<()> {
        self.stream.flush().map_err(|e| Error::io(&self.name, e))
    }
}
