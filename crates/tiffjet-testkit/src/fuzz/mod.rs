//! What bytes of any kind are thrown at, and what must hold whatever they are: no panic, no endless work, and the
//! promises that a machine can check.
//!
//! A [`Target`] is a function of bytes. `fuzz/` feeds them from libFuzzer, by coverage and under sanitizers; a plain test
//! feeds them from [`Mutator`], a few thousand times, everywhere.

mod codec;
mod files;
mod geo;
mod mutate;
mod seeds;

use std::sync::LazyLock;

use tiffjet::codec::CODECS;

pub use mutate::Mutator;
pub use seeds::{extract, of_corpus, seeds};

/// One thing to throw bytes at.
#[derive(Clone, Copy)]
pub struct Target {
    /// As in `make fuzz`; those of codecs are `codec_` and the name of the codec.
    pub name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Plain(fn(&[u8])),
    Codec(&'static dyn tiffjet::codec::Codec),
}

impl Target {
    /// An input of a codec as kernels are fuzzed with it: the size of the tile in four bytes, then the stream.
    pub fn stream(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        match self.kind {
            Kind::Codec(codec) => Some(codec::stream(codec, bytes)),
            Kind::Plain(_) => None,
        }
    }

    /// Feeds it.
    ///
    /// # Panics
    /// When anything that is promised does not hold.
    pub fn run(&self, bytes: &[u8]) {
        match self.kind {
            Kind::Plain(run) => run(bytes),
            Kind::Codec(codec) => codec::run(codec, bytes),
        }
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All of them: files, georeferencing, and every codec in the table of the core.
pub fn targets() -> &'static [Target] {
    static TARGETS: LazyLock<Vec<Target>> = LazyLock::new(|| {
        let plain = |name, run| Target { name, kind: Kind::Plain(run) };
        let mut all = vec![
            plain("open", files::open),
            plain("read", files::read),
            plain("window", files::window),
            plain("convert", files::convert),
            plain("geo", geo::run),
        ];
        all.extend(CODECS.iter().map(|&codec| Target {
            // Once for each codec in the life of the process.
            name: String::leak(format!("codec_{}", codec.name().replace('-', "_"))),
            kind: Kind::Codec(codec),
        }));
        all
    });
    &TARGETS
}

/// The target of that name.
pub fn find(name: &str) -> Option<Target> {
    targets().iter().copied().find(|target| target.name == name)
}

/// Bytes taken from the front, zeros where there are none left.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// At most so many.
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        front
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
