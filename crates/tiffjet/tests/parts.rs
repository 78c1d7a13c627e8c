//! Parts of an image that are encoded and reduced apart from each other give the file that the writer makes of all rows.

use std::sync::Arc;

use tiffjet::sink::MemorySink;
use tiffjet::{
    Blocks, Cpu, DType, EncodedRows, Encoder, Error, Nodata, Overviews, Part, Resampling, RowsBuf, RowsView,
    WriteOptions, Writer,
};

/// Rows that one part has in each level: they are whole tiles.
const BAND: usize = 32;

fn options(change: impl FnOnce(&mut WriteOptions)) -> WriteOptions {
    let mut options = WriteOptions::new([2, 151, 93], DType::Int16);
    options.blocks = Blocks::Tiles { width: 32, height: 16 };
    options.cog = true;
    options.overviews = Overviews::Factors(vec![2, 4, 8]);
    change(&mut options);
    options
}

fn pixels(options: &WriteOptions) -> Vec<u8> {
    let [bands, height, width] = options.shape;
    (0..bands * height * width).flat_map(|i| ((i * 7919 % 1009) as i16 - 300).to_ne_bytes()).collect()
}

fn mask(options: &WriteOptions) -> Option<Vec<u8>> {
    let [_, height, width] = options.shape;
    options.mask.then(|| (0..height * width).map(|i| u8::from(i * i % 11 < 7)).collect())
}

fn view<'a>(pixels: &'a [u8], mask: Option<&'a [u8]>, shape: [usize; 3]) -> RowsView<'a> {
    let view = RowsView::new(pixels, shape, DType::Int16).unwrap();
    mask.map_or(view, |mask| view.with_mask(mask).unwrap())
}

/// All rows by one writer.
fn whole(options: &WriteOptions) -> Vec<u8> {
    let (sink, mask) = (MemorySink::new(), mask(options));
    let mut writer = Writer::create(sink.clone(), options).unwrap();
    writer.push(&view(&pixels(options), mask.as_deref(), options.shape)).unwrap();
    writer.finish().unwrap();
    sink.take().unwrap()
}

/// Every level in bands, every band in columns of `cols` tiles, every band of an overview from the rows it needs alone.
fn in_parts(options: &WriteOptions, cols: u32) -> Vec<EncodedRows<'static>> {
    let encoder = Encoder::new(Arc::new(Cpu::shared().unwrap()), "parts", options).unwrap();
    let levels = encoder.plan().levels.clone();
    let mut above = RowsBuf::new(options.shape[0], options.shape[2], DType::Int16, options.mask);
    above.extend(&view(&pixels(options), mask(options).as_deref(), options.shape));
    let mut tiles = Vec::new();
    for (level, plan) in levels.iter().enumerate() {
        let height = plan.height as usize;
        if level > 0 {
            let mut made = RowsBuf::new(options.shape[0], plan.width as usize, DType::Int16, options.mask);
            for first in (0..height).step_by(BAND) {
                let ys = first..height.min(first + BAND);
                let needed = encoder.needs(level, ys.clone()).unwrap();
                let rows = above.view().part(needed.start, needed.len());
                made.extend(&encoder.reduce(level, &rows, needed.start, ys).unwrap().view());
            }
            above = made;
        }
        let all = above.view();
        for first in (0..height).step_by(BAND) {
            let rows = all.part(first, BAND.min(height - first));
            for left in (0..plan.across).step_by(cols as usize) {
                let cols = left..plan.across.min(left + cols);
                let part = Part { level, mask: false, row: first as u32 / plan.format.height, cols };
                let columns = columns(&rows, &part, plan.format.width as usize);
                tiles.extend(encoder.encode(&part, (&columns.view()).into()).unwrap());
                if let Some(mask) = columns.view().mask() {
                    let mask = RowsView::new(mask, [1, rows.rows(), columns.view().width()], DType::UInt8).unwrap();
                    tiles.extend(encoder.encode(&Part { mask: true, ..part }, (&mask).into()).unwrap());
                }
            }
        }
    }
    tiles
}

/// Some columns of rows, with their mask.
fn columns(rows: &RowsView<'_>, part: &Part, tile: usize) -> RowsBuf {
    let (left, right) = (part.cols.start as usize * tile, rows.width().min(part.cols.end as usize * tile));
    let mut out = RowsBuf::new(rows.bands(), right - left, DType::Int16, rows.mask().is_some());
    let mut new = out.grow(rows.rows());
    for y in 0..rows.rows() {
        for band in 0..rows.bands() {
            new.row(band, y).copy_from_slice(&rows.row(band, y)[2 * left..2 * right]);
        }
        if let (Some(to), Some(from)) = (new.mask_row(y), rows.mask_row(y)) {
            to.copy_from_slice(&from[left..right]);
        }
    }
    out
}

fn collected(options: &WriteOptions, tiles: &[EncodedRows<'_>]) -> Vec<u8> {
    let sink = MemorySink::new();
    let mut writer = Writer::collect(Box::new(sink.clone()), options).unwrap();
    tiles.iter().for_each(|tiles| writer.append(tiles).unwrap());
    writer.finish().unwrap();
    sink.take().unwrap()
}

#[test]
fn parts_give_the_bytes_of_the_whole() {
    for resampling in Resampling::ALL {
        let options = options(|o| {
            o.resampling = Some(resampling);
            o.nodata = Some(Nodata::Float(17.0));
        });
        let mut tiles = in_parts(&options, 2);
        tiles.reverse();
        assert!(collected(&options, &tiles) == whole(&options), "{}", resampling.name());
    }
    let masked = options(|o| o.mask = true);
    assert!(collected(&masked, &in_parts(&masked, 1)) == whole(&masked), "masked");
    let planar = options(|o| {
        o.planar = true;
        o.cog = false;
    });
    assert!(collected(&planar, &in_parts(&planar, 3)) == whole(&planar), "planar");
}

#[test]
fn parts_that_do_not_belong_are_refused() {
    let options = options(|_| ());
    let encoder = Encoder::new(Arc::new(Cpu::shared().unwrap()), "parts", &options).unwrap();
    let pixels = pixels(&options);
    let all = view(&pixels, None, options.shape);
    let part = Part { level: 0, mask: false, row: 0, cols: 0..3 };
    assert!(encoder.encode(&part, (&all.part(0, 16)).into()).is_ok());
    let refused = |part: &Part, first, count| {
        let error = encoder.encode(part, (&all.part(first, count)).into()).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    };
    refused(&part, 0, 15);
    refused(&part, 0, 0);
    refused(&Part { row: 9, ..part.clone() }, 0, 16);
    refused(&Part { row: u32::MAX, ..part.clone() }, 0, 16);
    refused(&Part { cols: 0..2, ..part.clone() }, 0, 16);
    refused(&Part { cols: 0..4, ..part.clone() }, 0, 16);
    refused(&Part { level: 4, ..part.clone() }, 0, 16);
    refused(&Part { mask: true, ..part.clone() }, 0, 16);
    assert!(encoder.needs(0, 0..1).is_err() && encoder.needs(1, 0..77).is_err() && encoder.needs(9, 0..1).is_err());
    assert!(encoder.reduce(1, &all.part(0, 10), 0, 0..6).is_err(), "rows above are missing");
    let mut writer = Writer::collect(Box::new(MemorySink::new()), &options).unwrap();
    assert!(writer.push(&all).is_err());
}
