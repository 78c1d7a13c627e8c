//! Whether a file keeps the rules: of TIFF, of GeoTIFF, of a cloud-optimised GeoTIFF. Pixels are not decoded.

use std::collections::HashSet;

use crate::cog::{self, Ghost};
use crate::error::{Error, Result};
use crate::image::Image;
use crate::layout::Layout;
use crate::tiff::{Directory, FieldType, Head, Header, tag};

/// Tiles whose index entries are looked at together.
pub(crate) const CHUNK: u64 = 4096;
/// Findings that are told one by one; the others are counted.
const TOLD: usize = 100;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Readers cope.
    Warning,
    /// A rule is broken.
    Error,
}

impl Severity {
    /// `error` or `warning`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A rule that is not kept, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// Which rule.
    pub what: String,
}

/// Findings of one check: the first hundred errors and warnings, and how many more there are.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    errors: Few,
    warnings: Few,
}

#[derive(Debug, Default)]
struct Few {
    told: Vec<Finding>,
    /// How many more there are, and where the first of them is.
    more: Option<(u64, u64)>,
}

impl Few {
    fn push(&mut self, severity: Severity, offset: u64, what: impl Into<String>) {
        if self.told.len() < TOLD {
            self.told.push(Finding { severity, offset, what: what.into() });
        } else {
            self.more.get_or_insert((0, offset)).0 += 1;
        }
    }

    fn done(mut self, severity: Severity) -> Vec<Finding> {
        if let Some((count, offset)) = self.more {
            let what = format!("and {count} more {}s, the first of them here", severity.name());
            self.told.push(Finding { severity, offset, what });
        }
        self.told
    }
}

impl Findings {
    pub(crate) fn error(&mut self, offset: u64, what: impl Into<String>) {
        self.errors.push(Severity::Error, offset, what);
    }

    pub(crate) fn warning(&mut self, offset: u64, what: impl Into<String>) {
        self.warnings.push(Severity::Warning, offset, what);
    }

    /// An error of the reader, where it is one of the file and not of the system.
    pub(crate) fn add(&mut self, error: Error) -> Result<()> {
        match error {
            Error::Malformed { offset, what, .. } => self.error(offset, what),
            Error::Unsupported { feature, .. } => self.warning(0, format!("not supported: {feature}")),
            Error::Limit { what, asked, allowed, .. } => {
                self.warning(0, format!("not checked: {what}: the file asks for {asked}, the limit is {allowed}"));
            }
            other => return Err(other),
        }
        Ok(())
    }

    pub(crate) fn done(self) -> Vec<Finding> {
        let mut all = self.errors.done(Severity::Error);
        all.extend(self.warnings.done(Severity::Warning));
        all
    }
}

/// What was found in a file.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// Against the rules of TIFF.
    pub tiff: Vec<Finding>,
    /// Against those of GeoTIFF; `None` when the file is none.
    pub geotiff: Option<Vec<Finding>>,
    /// Against those of a COG.
    pub cog: Vec<Finding>,
    /// The file declares itself a COG.
    pub claims_cog: bool,
}

fn clean(findings: &[Finding]) -> bool {
    findings.iter().all(|f| f.severity != Severity::Error)
}

impl Verdict {
    /// Looks at an open file: every directory, every entry of its tile index.
    pub fn of(image: &Image) -> Result<Self> {
        let mut findings = Findings::default();
        chain(image, &mut findings)?;
        let mut seen = HashSet::new();
        for directory in image.directories() {
            seen.insert(directory.offset);
            check_directory(image.head(), image.header(), directory, &mut findings)?;
            match Layout::new(image.head(), image.header(), directory) {
                Ok(layout) => check_layout(image.head(), &layout, &mut findings)?,
                Err(error) => findings.add(error)?,
            }
        }
        // Overviews and masks outside the chain.
        for level in image.levels() {
            let mask = level.mask.as_ref().map(|mask| (mask.head(), &mask.layout));
            for (head, layout) in [Some((level.head(), &level.layout)), mask].into_iter().flatten() {
                if std::ptr::eq(head, image.head()) && seen.insert(layout.offset) {
                    check_layout(head, layout, &mut findings)?;
                }
            }
        }
        let claims_cog = match Ghost::read(image.head(), image.header()) {
            Ok(ghost) => ghost.is_some_and(|ghost| ghost.get("LAYOUT").is_some()),
            Err(error) => {
                findings.add(error)?;
                true
            }
        };
        let mut cog = Findings::default();
        let cog = match cog::validate(image) {
            Ok(found) => found,
            Err(error) => {
                cog.add(error)?;
                cog.done()
            }
        };
        Ok(Self { tiff: findings.done(), geotiff: geotiff(image), cog, claims_cog })
    }

    /// Of a file that can't be opened. An error of the system stays one, and so does what this library can't read.
    pub fn unreadable(error: Error) -> Result<Self> {
        let mut findings = Findings::default();
        match error {
            Error::Unsupported { .. } | Error::Limit { .. } => return Err(error),
            error => findings.add(error)?,
        }
        Ok(Self { tiff: findings.done(), ..Self::default() })
    }

    /// A valid TIFF.
    pub fn is_tiff(&self) -> bool {
        clean(&self.tiff)
    }

    /// A valid GeoTIFF.
    pub fn is_geotiff(&self) -> bool {
        self.is_tiff() && self.geotiff.as_deref().is_some_and(clean)
    }

    /// A valid COG.
    pub fn is_cog(&self) -> bool {
        self.is_tiff() && clean(&self.cog)
    }

    /// Whether the file is what it claims to be.
    pub fn is_valid(&self) -> bool {
        self.is_tiff() && self.geotiff.as_deref().is_none_or(clean) && (!self.claims_cog || self.is_cog())
    }
}

/// Whether the chain of directories ends as it should.
fn chain(image: &Image, findings: &mut Findings) -> Result<()> {
    let Some(last) = image.directories().last() else { return Ok(()) };
    if last.next == 0 {
        return Ok(());
    }
    match Directory::read(image.head(), image.header(), last.next) {
        Ok(_) => findings.error(last.offset, format!("the chain of directories returns to byte {}", last.next)),
        Err(error) => findings.add(error)?,
    }
    Ok(())
}

/// The entries as they stand: sorted, each tag once, known types, values inside the file.
fn check_directory(head: &Head, header: &Header, directory: &Directory, findings: &mut Findings) -> Result<()> {
    if !directory.offset.is_multiple_of(2) {
        findings.warning(directory.offset, "a directory at an odd byte");
    }
    let start = directory.offset + if header.big { 8 } else { 2 };
    let mut before = None;
    for entry in raw_entries(head, header, directory)?.chunks_exact(header.entry()).enumerate() {
        let (number, bytes) = entry;
        let at = start + (number * header.entry()) as u64;
        let tag = header.order.u16([bytes[0], bytes[1]]);
        let kind = header.order.u16([bytes[2], bytes[3]]);
        let name = format!("tag {tag} ({})", tag::name(tag));
        match before {
            Some(before) if before == tag => findings.warning(at, format!("{name} stands twice")),
            Some(before) if before > tag => findings.warning(at, format!("{name} stands behind tag {before}")),
            _ => {}
        }
        before = Some(tag);
        if FieldType::from_code(kind).is_none() {
            findings.warning(at, format!("{name} has the unknown type {kind}"));
        }
    }
    for entry in &directory.entries {
        let end = entry.offset().checked_add(entry.length());
        if end.is_none_or(|end| end > head.length()) {
            let name = format!("tag {} ({})", entry.tag, tag::name(entry.tag));
            let what = format!("the value of {name} takes {} bytes, past the end of the file", entry.length());
            findings.error(entry.offset(), what);
        }
    }
    Ok(())
}

fn raw_entries(head: &Head, header: &Header, directory: &Directory) -> Result<Vec<u8>> {
    let width = if header.big { 8 } else { 2 };
    let count = head.bytes(directory.offset, width, "directory")?;
    let count = match header.big {
        true => header.number(&count).unwrap_or(0),
        false => u64::from(header.order.u16([count[0], count[1]])),
    };
    head.bytes(directory.offset + width, count.saturating_mul(header.entry() as u64), "directory")
}

/// Sizes of tiles, and where each of them stands.
fn check_layout(head: &Head, layout: &Layout, findings: &mut Findings) -> Result<()> {
    let (width, height) = (layout.format.width, layout.format.height);
    if layout.tiled && (width % 16 != 0 || height % 16 != 0) {
        findings.warning(layout.offset, format!("tiles of {width} x {height}, not multiples of 16"));
    }
    if layout.codec.compression().is_empty() {
        findings.warning(layout.offset, format!("not supported: compression {}", layout.format.compression));
    }
    let (tiles, index) = (layout.tiles(), &layout.index);
    if index.count() > tiles {
        findings.warning(index.offset(), format!("{} tiles where the image has {tiles}", index.count()));
    }
    if index.byte_counts().is_none() {
        findings.warning(layout.offset, "the byte counts of the tiles are missing");
    }
    let mut at = 0;
    while at < tiles {
        let chunk = at..(at + CHUNK).min(tiles);
        let stated = match index.stated(head, chunk.clone()) {
            Ok(stated) => stated,
            Err(error) => return findings.add(error),
        };
        for (tile, (offset, count)) in chunk.clone().zip(stated) {
            check_tile(head, layout, tile, offset, count, findings);
        }
        at = chunk.end;
    }
    Ok(())
}

fn check_tile(head: &Head, layout: &Layout, tile: u64, offset: u64, count: Option<u64>, findings: &mut Findings) {
    if offset == 0 || count == Some(0) {
        return; // not stored
    }
    let count = count.unwrap_or(0);
    if offset.checked_add(count).is_none_or(|end| end > head.length()) {
        let what = format!("tile {tile} takes {count} bytes, past the end of the file ({} bytes)", head.length());
        return findings.error(offset, what);
    }
    if offset < 8 {
        return findings.error(offset, format!("tile {tile} stands in the header"));
    }
    let row = (tile / u64::from(layout.across) % u64::from(layout.down)) as u32;
    let needed = layout.decoded_bytes(layout.rows_in_tile(row));
    if layout.rows_are_bytes() && count != 0 && count < needed {
        findings.error(offset, format!("tile {tile} has {count} bytes, its pixels take {needed}"));
    }
}

/// What is wrong with the georeferencing; `None` where the file has none.
fn geotiff(image: &Image) -> Option<Vec<Finding>> {
    let tags = [tag::GEO_KEY_DIRECTORY, tag::MODEL_TIEPOINT, tag::MODEL_TRANSFORMATION];
    let entry = tags.iter().find_map(|&tag| image.directory().get(tag))?;
    let warnings = image.geo().warnings.iter();
    Some(
        warnings
            .map(|what| Finding { severity: Severity::Warning, offset: entry.offset(), what: what.clone() })
            .collect(),
    )
}
