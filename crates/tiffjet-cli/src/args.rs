//! Arguments that several verbs take.

use std::ffi::OsString;
use std::io::Read;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use tiffjet::source::{MemorySource, redacted};
use tiffjet::{Backend, Cpu, Error, Image, Io, Limits, OpenOptions, ReadOptions, Window};
use tiffjet_cuda::Cuda;

use crate::terminal::Waiting;

/// A file to read: a path, an address, or `-` for standard input.
#[derive(Debug, Clone)]
pub struct Input(PathBuf);

impl From<OsString> for Input {
    fn from(text: OsString) -> Self {
        Self(text.into())
    }
}

impl Input {
    /// The name for errors.
    pub fn name(&self) -> Arc<str> {
        if self.is_stdin() { "<stdin>".into() } else { redacted(&self.0.to_string_lossy()).into() }
    }

    fn is_stdin(&self) -> bool {
        self.0.as_os_str() == "-"
    }

    /// Opens it; of a file the header alone is read, of standard input all.
    pub fn open(&self) -> tiffjet::Result<Image> {
        let _waiting = Waiting::on(format!("opening {}", self.name()));
        self.open_silently()
    }

    /// The same without a sign of life.
    pub fn open_silently(&self) -> tiffjet::Result<Image> {
        if self.is_stdin() {
            let source = MemorySource::named("<stdin>", self.stdin()?);
            return Image::from_source(Arc::new(source), &OpenOptions::default());
        }
        tiffjet::open(&self.0)
    }

    /// Standard input can't be read at offsets, so it is held in memory: half of what the machine has at most.
    fn stdin(&self) -> tiffjet::Result<Vec<u8>> {
        let allowed = Limits::default().output_bytes / 2;
        let mut bytes = Vec::new();
        let stdin = std::io::stdin().lock();
        stdin.take(allowed + 1).read_to_end(&mut bytes).map_err(|e| Error::io(&self.name(), e))?;
        if bytes.len() as u64 > allowed {
            return Err(Error::limit(&self.name(), "bytes of standard input", bytes.len() as u64, allowed));
        }
        Ok(bytes)
    }
}

/// Which pixels of which file.
#[derive(Args)]
pub struct Pixels {
    /// The file to read: a path, an address (http://, https://, s3://, gs://, az://), or - for standard input
    pub file: Input,
    /// Overview level, 0 is full size
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub level: usize,
    #[command(flatten)]
    pub part: Part,
}

/// Which part of an image.
#[derive(Args)]
pub struct Part {
    /// Rows and columns, first included, last not
    #[arg(long, value_name = "Y0:Y1,X0:X1", value_parser = parse_window)]
    pub window: Option<(Range<u32>, Range<u32>)>,
    /// Bands, counted from 1
    #[arg(long, value_name = "1,3", value_delimiter = ',')]
    pub bands: Option<Vec<u16>>,
}

impl Part {
    /// The same of a level, for the library.
    pub fn of_level(&self, level: usize) -> Window {
        let (rows, cols) = self.window.clone().unzip();
        Window { level, rows, cols, bands: self.bands.clone() }
    }
}

impl Pixels {
    /// The same for the library.
    pub fn window(&self) -> Window {
        self.part.of_level(self.level)
    }
}

fn parse_window(text: &str) -> Result<(Range<u32>, Range<u32>), String> {
    let range = |text: &str| -> Option<Range<u32>> {
        let (a, b) = text.split_once(':')?;
        Some(a.trim().parse().ok()?..b.trim().parse().ok()?)
    };
    text.split_once(',')
        .and_then(|(rows, cols)| Some((range(rows)?, range(cols)?)))
        .ok_or_else(|| "a window is Y0:Y1,X0:X1, for example 0:512,1024:1536".to_owned())
}

/// Where pixels are decoded and encoded.
#[derive(Args)]
pub struct On {
    /// Where pixels are decoded and encoded: auto, cpu, cuda or cuda:N
    #[arg(long, default_value = "auto", value_name = "D")]
    device: DeviceChoice,
}

/// How pixels are read.
#[derive(Args)]
pub struct Reading {
    /// How bytes get to a GPU: cufile (from storage, past the memory of the host), pread, or auto
    #[arg(long, default_value = "auto", value_name = "W")]
    io: IoChoice,
}

impl Reading {
    /// The same for the library.
    pub fn options(&self) -> ReadOptions {
        let io = match self.io {
            IoChoice::Auto => Io::Auto,
            IoChoice::Cufile => Io::Direct,
            IoChoice::Pread => Io::Staged,
        };
        ReadOptions { io, ..ReadOptions::default() }
    }
}

impl On {
    /// The GPU that is asked for, none for the CPU; `auto` is a GPU where one can be used.
    pub fn cuda(&self, name: &Arc<str>) -> tiffjet::Result<Option<Cuda>> {
        match self.device {
            DeviceChoice::Cpu => Ok(None),
            DeviceChoice::Cuda(ordinal) => match Cuda::new(ordinal.unwrap_or(0)) {
                Ok(cuda) => Ok(Some(cuda)),
                Err(Error::Unavailable { library, hint, .. }) => {
                    Err(Error::Unavailable { name: name.clone(), library, hint })
                }
                Err(error) => Err(error),
            },
            DeviceChoice::Auto => Ok(tiffjet_cuda::available().and_then(|()| Cuda::new(0)).ok()),
        }
    }

    /// What decodes there.
    pub fn backend(&self, name: &Arc<str>) -> tiffjet::Result<Box<dyn Backend>> {
        match self.cuda(name)? {
            Some(cuda) => Ok(Box::new(cuda)),
            None => Ok(Box::new(Cpu::shared()?)),
        }
    }

    /// What encodes pixels of the host; `auto` is the CPU, where they are.
    pub fn encoder(&self, name: &Arc<str>) -> tiffjet::Result<Arc<dyn Backend>> {
        match self.device {
            DeviceChoice::Auto => Ok(Arc::new(Cpu::shared()?)),
            _ => self.backend(name).map(Arc::from),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum IoChoice {
    Auto,
    Cufile,
    Pread,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeviceChoice {
    Auto,
    Cpu,
    Cuda(Option<i32>),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "auto" => Ok(Self::Auto),
            None if text == "cpu" => Ok(Self::Cpu),
            None if text == "cuda" => Ok(Self::Cuda(None)),
            Some(("cuda", id)) => match id.parse() {
                Ok(id) if id >= 0 => Ok(Self::Cuda(Some(id))),
                _ => Err("cuda:N takes a number".into()),
            },
            _ => Err("a device is auto, cpu, cuda or cuda:N".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_rows_then_columns() {
        assert_eq!(parse_window("0:512,10:20"), Ok((0..512, 10..20)));
        assert!(parse_window("0:512").is_err());
        assert!(parse_window("a:b,1:2").is_err());
        assert!(parse_window("-1:2,1:2").is_err());
    }

    #[test]
    fn devices_have_four_forms() {
        assert_eq!("auto".parse(), Ok(DeviceChoice::Auto));
        assert_eq!("cuda:3".parse(), Ok(DeviceChoice::Cuda(Some(3))));
        assert!("cuda:-1".parse::<DeviceChoice>().is_err());
        assert!("cuda:x".parse::<DeviceChoice>().is_err());
        assert!("gpu".parse::<DeviceChoice>().is_err());
    }
}
