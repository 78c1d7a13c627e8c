//! Arguments that several verbs take.

use std::ops::Range;
use std::path::PathBuf;

use clap::Args;
use tiffjet::Window;

/// Which pixels of which file.
#[derive(Args)]
pub struct Pixels {
    /// The file to read
    pub file: PathBuf,
    /// Overview level, 0 is full size
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub level: usize,
    /// Rows and columns, first included, last not
    #[arg(long, value_name = "Y0:Y1,X0:X1", value_parser = parse_window)]
    pub window: Option<(Range<u32>, Range<u32>)>,
    /// Bands, counted from 1
    #[arg(long, value_name = "1,3", value_delimiter = ',')]
    pub bands: Option<Vec<u16>>,
}

impl Pixels {
    /// The same for the library.
    pub fn window(&self) -> Window {
        let (rows, cols) = self.window.clone().unzip();
        Window { level: self.level, rows, cols, bands: self.bands.clone() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_rows_then_columns() {
        assert_eq!(parse_window("0:512,10:20"), Ok((0..512, 10..20)));
        assert!(parse_window("0:512").is_err());
        assert!(parse_window("a:b,1:2").is_err());
    }
}
