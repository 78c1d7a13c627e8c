//! What a library does one thing at a time with: a stream, the bytes it reads, and word of when it is done with them.

use std::ops::Range;

use super::driver::{Context, Event, EventKind, Failure, Locked, Stream};

/// Pixels in device memory that a library encodes: samples of a pixel side by side, rows one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pixels {
    /// Where they begin.
    pub address: u64,
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Samples of a pixel.
    pub samples: u16,
}

/// The work of one state of a library.
#[derive(Debug)]
pub struct Turn {
    context: Context,
    stream: Stream,
    done: Event,
    /// Whether work may still be in the stream.
    busy: bool,
    input: Option<Locked>,
}

impl Turn {
    /// Nothing to do yet.
    pub fn new(context: Context) -> Result<Self, Failure> {
        Ok(Self {
            context,
            stream: context.stream()?,
            done: context.event(EventKind::Plain)?,
            busy: false,
            input: None,
        })
    }

    /// Its stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Whether its last work is done.
    pub fn is_settled(&self) -> bool {
        !self.busy || self.done.is_done().unwrap_or(true)
    }

    /// Bytes that it has room for.
    pub fn room(&self) -> usize {
        self.input.as_ref().map_or(0, |input| input.bytes().len())
    }

    /// Room for the bytes that the next work reads or writes; waits for the last one, which may still use them.
    pub fn input(&mut self, length: usize) -> Result<&mut [u8], Failure> {
        if self.busy {
            self.done.wait()?;
            self.busy = false;
        }
        Locked::grow(&mut self.input, &self.context, length)
    }

    /// Some of those bytes; none where there are fewer. They stay where they are until the next input.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.input.as_ref().and_then(|input| input.bytes().get(range)).unwrap_or_default()
    }

    /// Work may be in the stream from now on, even where the library then says no.
    pub fn begin(&mut self) {
        self.busy = true;
    }

    /// Marks the end of what is in its stream so far.
    pub fn finish(&mut self) -> Result<&Event, Failure> {
        self.done.record(&self.stream)?;
        self.busy = true;
        Ok(&self.done)
    }

    /// Waits for all that is in its stream so far: its bytes may be read and written again.
    pub fn settle(&mut self) -> Result<(), Failure> {
        self.finish()?.wait()?;
        self.busy = false;
        Ok(())
    }

    /// Waits for all of its stream; `false` where the driver does not answer any more, and neither will the library.
    pub fn ends(&self) -> bool {
        !self.busy || self.stream.wait().is_ok()
    }
}
