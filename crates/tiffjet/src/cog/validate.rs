//! Whether a file keeps the order that makes it cloud-optimised.

use std::ops::Range;

use super::Ghost;
use crate::error::Result;
use crate::image::Image;
use crate::layout::Layout;
use crate::tiff::Head;
use crate::validate::{CHUNK, Finding, Findings};

/// Images up to this many pixels a side need neither tiles nor overviews.
const SMALL: u32 = 512;

/// The rules that need no more than the head of the file: whether it is a COG as far as a reader can tell cheaply.
pub fn check(image: &Image) -> Result<Vec<Finding>> {
    let ghost = Ghost::read(image.head(), image.header())?;
    let mut findings = Findings::default();
    levels(image, &mut findings);
    directories(image, ghost.as_ref(), &mut findings);
    data_order(image, &mut findings)?;
    Ok(findings.done())
}

/// All rules, for every tile: order, leaders, trailers and interleaved masks where the file declares them.
pub fn validate(image: &Image) -> Result<Vec<Finding>> {
    let mut all = check(image)?;
    let Some(ghost) = Ghost::read(image.head(), image.header())? else { return Ok(all) };
    for (number, level) in image.levels().iter().enumerate() {
        let mut findings = Findings::default();
        if !std::ptr::eq(level.head(), image.head()) {
            continue;
        }
        tiles(level.head(), &level.layout, &ghost, &level_name(number), &mut findings)?;
        if let Some(mask) = level.mask.as_ref().filter(|mask| std::ptr::eq(mask.head(), image.head())) {
            // Masks between the tiles of the image are in order when each follows its tile.
            if ghost.interleaved_masks() {
                interleaved(level.head(), &level.layout, &mask.layout, &ghost, &level_name(number), &mut findings)?;
            }
            tiles(mask.head(), &mask.layout, &ghost, &format!("mask of {}", level_name(number)), &mut findings)?;
        }
        all.extend(findings.done());
    }
    Ok(all)
}

fn level_name(number: usize) -> String {
    if number == 0 { "the full image".into() } else { format!("overview {number}") }
}

/// Tiles, overviews inside the file, each smaller than the one before.
fn levels(image: &Image, findings: &mut Findings) {
    let main = &image.levels()[0].layout;
    let large = main.width > SMALL || main.height > SMALL;
    if large && !main.tiled {
        findings.error(main.offset, format!("{} x {} pixels, but not tiled", main.width, main.height));
    }
    if large && image.levels().len() == 1 {
        let what = format!("{} x {} pixels without overviews", main.width, main.height);
        findings.warning(main.offset, what);
    }
    for (number, pair) in image.levels().windows(2).enumerate() {
        let [before, level] = pair else { continue };
        let name = level_name(number + 1);
        if !std::ptr::eq(level.head(), image.head()) {
            findings.error(0, format!("{name} stands in {}, not in the file", level.source().name()));
            continue;
        }
        let (a, b) = (&before.layout, &level.layout);
        if b.width > a.width || b.height > a.height {
            findings.error(b.offset, format!("{name} is larger than {}", level_name(number)));
        }
        if !b.tiled && (b.width > SMALL || b.height > SMALL) {
            findings.error(b.offset, format!("{name} is not tiled"));
        }
    }
}

/// The first directory follows the header and the ghost area, the overviews' follow in order.
fn directories(image: &Image, ghost: Option<&Ghost>, findings: &mut Findings) {
    let header = image.header();
    let expected = ghost.map_or(header.size(), |ghost| ghost.end.next_multiple_of(2));
    // Up to the next multiple of 8, directories are as near as alignment allows.
    if header.first != expected && header.first != expected.next_multiple_of(8) {
        let what = format!("the first directory should stand at byte {expected}, not {}", header.first);
        findings.error(header.first, what);
    }
    if let Some(ghost) = ghost.filter(|ghost| ghost.broken()) {
        let what = "the file declares that it was changed by a program that did not keep the order of a COG";
        findings.error(ghost.offset, what);
    }
    if let Some(ghost) = ghost.filter(|ghost| ghost.get("LAYOUT").is_some() && !ghost.directories_first()) {
        findings.error(ghost.offset, "the ghost area names a layout other than IFDS_BEFORE_DATA");
    }
    for (number, pair) in image.levels().windows(2).enumerate() {
        let [before, level] = pair else { continue };
        if std::ptr::eq(level.head(), image.head()) && level.layout.offset < before.layout.offset {
            let what =
                format!("the directory of {} stands before that of {}", level_name(number + 1), level_name(number));
            findings.error(level.layout.offset, what);
        }
    }
}

/// Pixels follow all directories: the smallest overview first, the full image last.
fn data_order(image: &Image, findings: &mut Findings) -> Result<()> {
    let own = image.levels().iter().enumerate().filter(|(_, level)| std::ptr::eq(level.head(), image.head()));
    let mut last_directory = 0;
    let mut firsts: Vec<(String, u64)> = Vec::new();
    for (number, level) in own {
        last_directory = last_directory.max(level.layout.offset);
        if let Some(offset) = first_tile(level.head(), &level.layout, findings)? {
            firsts.push((level_name(number), offset));
        }
    }
    for (name, offset) in &firsts {
        if *offset < last_directory {
            let what = format!("pixels of {name} stand before the last directory, at byte {last_directory}");
            findings.error(*offset, what);
        }
    }
    for pair in firsts.windows(2) {
        let [(large, first), (small, behind)] = pair else { continue };
        if first < behind {
            findings.error(*first, format!("pixels of {large} stand before those of {small}"));
        }
    }
    Ok(())
}

/// Where the first stored tile stands, as far as the start of the index tells.
fn first_tile(head: &Head, layout: &Layout, findings: &mut Findings) -> Result<Option<u64>> {
    match layout.index.stated(head, 0..layout.tiles().min(CHUNK)) {
        Ok(tiles) => Ok(tiles.into_iter().find(|&tile| stored(tile).is_some()).map(|(offset, _)| offset)),
        Err(error) => findings.add(error).map(|()| None),
    }
}

/// Bytes of a tile that is in the file.
fn stored((offset, count): (u64, Option<u64>)) -> Option<Range<u64>> {
    let count = count?;
    (offset != 0 && count != 0).then(|| offset..offset.saturating_add(count))
}

/// Order, leaders and trailers of the tiles of one level.
fn tiles(head: &Head, layout: &Layout, ghost: &Ghost, name: &str, findings: &mut Findings) -> Result<()> {
    let plane = u64::from(layout.across) * u64::from(layout.down);
    let mut last = 0;
    let mut at = 0;
    while at < layout.tiles() {
        let chunk = at..(at + CHUNK).min(layout.tiles());
        let stated = match layout.index.stated(head, chunk.clone()) {
            Ok(stated) => stated,
            Err(error) => return findings.add(error),
        };
        for (tile, stated) in chunk.clone().zip(stated) {
            if tile % plane == 0 {
                last = 0; // planes may stand side by side
            }
            let Some(range) = stored(stated) else { continue };
            if ghost.row_major() && range.start < last {
                findings.error(range.start, format!("tile {tile} of {name} stands before the tile before it"));
            }
            last = range.start;
            frame(head, &range, ghost, || format!("tile {tile} of {name}"), findings)?;
        }
        at = chunk.end;
    }
    Ok(())
}

/// The bytes right before and right behind a tile.
fn frame(
    head: &Head,
    tile: &Range<u64>,
    ghost: &Ghost,
    name: impl Fn() -> String,
    findings: &mut Findings,
) -> Result<()> {
    let count = tile.end - tile.start;
    if ghost.leaders() {
        match word(head, tile.start.checked_sub(4))?.map(u32::from_le_bytes) {
            Some(size) if u64::from(size) == count => {}
            Some(size) => {
                findings.error(tile.start - 4, format!("{} has {count} bytes, its leader says {size}", name()));
            }
            None => findings.error(tile.start, format!("{} has no leader", name())),
        }
    }
    if ghost.trailers() && count >= 4 {
        match word(head, Some(tile.end))? {
            Some(trailer) if word(head, Some(tile.end - 4))? == Some(trailer) => {}
            Some(_) => findings.error(tile.end, format!("the trailer of {} does not repeat its last bytes", name())),
            None => findings.error(tile.end, format!("{} has no trailer", name())),
        }
    }
    Ok(())
}

/// Four bytes of the file, where it has them.
fn word(head: &Head, offset: Option<u64>) -> Result<Option<[u8; 4]>> {
    let Some(range) = offset.and_then(|o| Some(o..o.checked_add(4)?)).filter(|r| r.end <= head.length()) else {
        return Ok(None);
    };
    let mut bytes = [0; 4];
    head.source().read_range(range, &mut bytes)?;
    Ok(Some(bytes))
}

/// Each tile of the mask follows the tile it masks, with nothing but trailer and leader between them.
fn interleaved(
    head: &Head,
    image: &Layout,
    mask: &Layout,
    ghost: &Ghost,
    name: &str,
    findings: &mut Findings,
) -> Result<()> {
    if image.tiles() != mask.tiles() {
        findings.error(mask.offset, format!("the mask of {name} has other tiles than the image"));
        return Ok(());
    }
    let between = 4 * u64::from(ghost.leaders()) + 4 * u64::from(ghost.trailers());
    let mut at = 0;
    while at < image.tiles() {
        let chunk = at..(at + CHUNK).min(image.tiles());
        let both =
            image.index.stated(head, chunk.clone()).and_then(|a| Ok((a, mask.index.stated(head, chunk.clone())?)));
        let (tiles, masks) = match both {
            Ok(both) => both,
            Err(error) => return findings.add(error),
        };
        for ((tile, image), mask) in chunk.clone().zip(tiles).zip(masks) {
            let (Some(image), Some(mask)) = (stored(image), stored(mask)) else { continue };
            if Some(mask.start) != image.end.checked_add(between) {
                findings.error(mask.start, format!("the mask of tile {tile} of {name} does not follow the tile"));
            }
        }
        at = chunk.end;
    }
    Ok(())
}
