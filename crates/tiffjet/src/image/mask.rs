//! Which pixels are there: the file's mask, else alpha, else nodata, else all.

use std::ops::Range;
use std::sync::Arc;

use super::{Image, Mask};
use crate::backend::{Backend, ReadJob, ReadOptions};
use crate::cpu::Cpu;
use crate::dtype::{DType, SampleKind};
use crate::error::Result;
use crate::layout::Layout;
use crate::plan::Window;
use crate::tensor::{HostBuffer, Report, Tensor};
use crate::{Error, geo};

/// Bytes of pixels that are compared with nodata at once, as far as the file's tiles allow.
const PIECE: u64 = 64 << 20;

impl Image {
    /// Which pixels of a window are valid: 255 where they are, 0 where not; between them where alpha says so. The bands
    /// of the window do not matter.
    pub fn read_mask(&self, window: &Window) -> Result<Tensor> {
        let level = self.level(window.level)?;
        let window = Window { bands: None, ..window.clone() };
        if let Some(mask) = &level.mask {
            return self.stored_mask(mask, &window);
        }
        if let Some(alpha) = level.layout.alpha_band() {
            return self.alpha_mask(alpha, &level.layout, &window);
        }
        self.nodata_mask(&window)
    }

    fn stored_mask(&self, mask: &Mask, window: &Window) -> Result<Tensor> {
        let window = Window { bands: Some(vec![1]), ..window.clone() };
        // Nodata is a value of the image: where the mask is not stored, nothing is valid.
        let fill = vec![0; mask.layout.dtype().size()];
        let plan = self.plan_of(&mask.file, &mask.layout, &window, fill)?;
        let job = ReadJob { source: &**mask.file.head.source(), plan: &plan };
        let pixels = Cpu::shared()?.read(&[job], &ReadOptions::default())?.only();
        match mask.layout.format.bits {
            bits @ ..=8 => self.masked(&pixels, scaled(bits)),
            _ => self.masked(&pixels, not_zero),
        }
    }

    fn alpha_mask(&self, alpha: u16, layout: &Layout, window: &Window) -> Result<Tensor> {
        let pixels = self.read(&Window { bands: Some(vec![alpha]), ..window.clone() })?;
        match layout.format.kind {
            SampleKind::Unsigned => self.masked(&pixels, scaled(layout.format.bits)),
            _ => self.masked(&pixels, not_zero),
        }
    }

    /// A pixel is valid when one of its bands is.
    fn nodata_mask(&self, window: &Window) -> Result<Tensor> {
        let [bands, height, width] = self.plan_shape(window)?;
        let mut valid = self.buffer(height * width)?;
        let mut report = Report::default();
        let nodata: Option<Vec<geo::Nodata>> = (0..bands).map(|band| self.geo().nodata(band)).collect();
        match nodata {
            // A band without nodata is valid everywhere.
            None => valid.bytes_mut().fill(255),
            Some(nodata) => {
                let layout = &self.level(window.level)?.layout;
                let top = window.rows.as_ref().map_or(0, |rows| rows.start);
                valid.bytes_mut().fill(0);
                for (rows, together) in pieces(layout, top..top + height as u32, [bands, width]) {
                    let at = (rows.start - top) as usize * width;
                    let valid = &mut valid.bytes_mut()[at..][..rows.len() * width];
                    self.compare(
                        &Window { rows: Some(rows), ..window.clone() },
                        &nodata,
                        together,
                        valid,
                        &mut report,
                    )?;
                }
            }
        }
        Ok(Tensor::new([1, height, width], DType::UInt8, Arc::new(valid), report))
    }

    /// Marks the pixels of a piece that are valid, so many bands at a time, until all are.
    fn compare(
        &self,
        piece: &Window,
        nodata: &[geo::Nodata],
        together: usize,
        valid: &mut [u8],
        report: &mut Report,
    ) -> Result<()> {
        for (group, nodata) in nodata.chunks(together).enumerate() {
            let first = group * together;
            let bands = (first..first + nodata.len()).map(|band| band as u16 + 1).collect();
            let pixels = self.read(&Window { bands: Some(bands), ..piece.clone() })?;
            report.add(&pixels.report);
            for (band, &nodata) in nodata.iter().enumerate() {
                let is_nodata = comparison(nodata, pixels.dtype);
                let values = pixels.band(band).unwrap_or_default().chunks_exact(pixels.dtype.size());
                for (valid, value) in valid.iter_mut().zip(values) {
                    if !is_nodata(value) {
                        *valid = 255;
                    }
                }
            }
            if valid.iter().all(|&v| v == 255) {
                break;
            }
        }
        Ok(())
    }

    fn masked(&self, pixels: &Tensor, value: impl Fn(&[u8]) -> u8) -> Result<Tensor> {
        let [_, height, width] = pixels.shape;
        let mut out = self.buffer(height * width)?;
        let values = pixels.bytes().unwrap_or_default().chunks_exact(pixels.dtype.size());
        for (out, pixel) in out.bytes_mut().iter_mut().zip(values) {
            *out = value(pixel);
        }
        Ok(Tensor::new([1, height, width], DType::UInt8, Arc::new(out), pixels.report.clone()))
    }

    /// Memory of a mask. Nothing may have been read before it: what is allowed is asked here.
    fn buffer(&self, length: usize) -> Result<HostBuffer> {
        let allowed = self.head().limits().output_bytes;
        if length as u64 > allowed {
            return Err(Error::limit(self.name(), "bytes of a mask", length as u64, allowed));
        }
        HostBuffer::take(length).ok_or_else(|| Error::limit(self.name(), "bytes of a mask in memory", length as u64, 0))
    }
}

/// Rows of whole tiles, so that none is decoded twice, with the number of bands to read together: all of them where
/// they share tiles and fit in memory.
fn pieces(layout: &Layout, rows: Range<u32>, [bands, width]: [usize; 2]) -> impl Iterator<Item = (Range<u32>, usize)> {
    let step = if layout.rows_are_bytes() { 1 } else { layout.format.height };
    let row_bytes = (width as u64).saturating_mul(layout.dtype().size() as u64).max(1);
    let together = match layout.planar {
        true => 1,
        false => (PIECE / row_bytes.saturating_mul(step.into())).clamp(1, bands.max(1) as u64),
    };
    let fit = u32::try_from(PIECE / row_bytes.saturating_mul(together)).unwrap_or(u32::MAX);
    let down = (fit / step).max(1).saturating_mul(step);
    let mut y = rows.start;
    std::iter::from_fn(move || {
        let end = (y / step * step).saturating_add(down).min(rows.end);
        let piece = y..end;
        y = end;
        (!piece.is_empty()).then_some((piece, together as usize))
    })
}

/// A number of some bits as one of 8: the largest is 255.
fn scaled(bits: u16) -> impl Fn(&[u8]) -> u8 {
    let bits = u32::from(bits).clamp(1, 64);
    // 32 of them are more than enough, and can be multiplied.
    let spare = bits.saturating_sub(32);
    let top = u64::MAX >> (64 - bits) >> spare;
    move |pixel| {
        let mut value = [0; 8];
        let n = pixel.len().min(8);
        if cfg!(target_endian = "big") {
            value[8 - n..].copy_from_slice(&pixel[..n]);
        } else {
            value[..n].copy_from_slice(&pixel[..n]);
        }
        let value = u64::from_ne_bytes(value);
        // Some write alpha of 0 to 255 with more bits: what is not 0 stays so.
        ((value >> spare).min(top) * 255 / top).max(u64::from(value != 0)) as u8
    }
}

fn not_zero(pixel: &[u8]) -> u8 {
    if pixel.iter().any(|&b| b != 0) { 255 } else { 0 }
}

/// Tells whether the bytes of a pixel are nodata.
type IsNodata = Box<dyn Fn(&[u8]) -> bool>;

/// Whether a pixel is nodata: equal in value, and not a number where nodata is not.
fn comparison(nodata: geo::Nodata, dtype: DType) -> IsNodata {
    let value = nodata.as_f64();
    match dtype {
        DType::Float32 => Box::new(move |b| {
            let pixel = b.first_chunk().map_or(0.0, |b| f32::from_ne_bytes(*b));
            pixel == value as f32 || (pixel.is_nan() && value.is_nan())
        }),
        DType::Float64 => Box::new(move |b| {
            let pixel = b.first_chunk().map_or(0.0, |b| f64::from_ne_bytes(*b));
            pixel == value || (pixel.is_nan() && value.is_nan())
        }),
        DType::Float16 => match nodata.bytes(dtype).as_deref().map(half) {
            Some(value) => Box::new(move |b| {
                let pixel = half(b);
                // Both zeros are one value, and all that is not a number is alike.
                let nan = |bits: u16| bits & 0x7fff > 0x7c00;
                pixel == value || (pixel | value) & 0x7fff == 0 || (nan(pixel) && nan(value))
            }),
            None => Box::new(|_| false),
        },
        // Integers and pairs are equal when their bytes are; a value they can't hold equals none.
        _ => match nodata.bytes(dtype) {
            Some(bytes) => Box::new(move |b| b == bytes),
            None => Box::new(|_| false),
        },
    }
}

/// The bits of a half-precision number.
fn half(bytes: &[u8]) -> u16 {
    bytes.first_chunk().map_or(0, |b| u16::from_ne_bytes(*b))
}

#[cfg(test)]
mod tests {
    use tiffjet_testkit::{Compression, Pixels, Tiff};

    use super::*;
    use crate::OpenOptions;
    use crate::source::MemorySource;

    fn mask(file: &Tiff, pixels: &Pixels, window: &Window) -> Tensor {
        let source = Arc::new(MemorySource::new(file.build(pixels)));
        Image::from_source(source, &OpenOptions::default()).unwrap().read_mask(window).unwrap()
    }

    #[test]
    fn the_largest_number_of_any_bits_is_opaque() {
        for (bits, half) in [(1, 0), (2, 85), (4, 119), (8, 127), (12, 127), (16, 127), (32, 127)] {
            let top = (1u128 << bits) - 1;
            let file = Tiff::new(3, 1).samples(2).bits(bits).extra_samples(&[2]);
            let pixels = Pixels::from_fn(file.shape(), file.format(), |_, _, x| [0, top / 2, top][x as usize]);
            let valid = mask(&file, &pixels, &Window::default());
            assert_eq!(valid.bytes(), Some(&[0, half, 255][..]), "{bits} bits");
        }
    }

    #[test]
    fn alpha_that_uses_few_of_its_bits_is_not_nothing() {
        let file = Tiff::new(3, 1).samples(2).bits(16).extra_samples(&[2]);
        let pixels = Pixels::from_fn(file.shape(), file.format(), |_, _, x| [0, 1, 256][x as usize]);
        assert_eq!(mask(&file, &pixels, &Window::default()).bytes(), Some(&[0, 1, 1][..]));
    }

    #[test]
    fn any_number_of_a_wide_mask_is_valid() {
        let mask_of = |bits: u16| {
            let inner = Tiff::new(3, 1).bits(bits).mask();
            let values = Pixels::from_fn(inner.shape(), inner.format(), |_, _, x| [0, 256, 1][x as usize]);
            let file = Tiff::new(3, 1).directory(inner, &values);
            mask(&file, &file.gradient(), &Window::default())
        };
        for bits in [16, 32] {
            assert_eq!(mask_of(bits).bytes(), Some(&[0, 255, 255][..]), "{bits} bits");
        }
    }

    #[test]
    fn bands_that_share_tiles_are_decoded_once() {
        let file = Tiff::new(40, 50).samples(5).tile(16, 16).nodata("7");
        let nodata = |y: u32, x: u32| x.is_multiple_of(3) || y == 20;
        let pixels =
            Pixels::from_fn(
                file.shape(),
                file.format(),
                |b, y, x| if nodata(y, x) { 7 } else { u128::from(b == 4) + 7 },
            );
        let window = Window { rows: Some(10..45), cols: Some(5..39), ..Window::default() };
        let valid = mask(&file, &pixels, &window);
        let expected: Vec<u8> =
            (10..45).flat_map(|y| (5..39).map(move |x| if nodata(y, x) { 0 } else { 255 })).collect();
        assert_eq!(valid.bytes(), Some(&expected[..]));
        assert_eq!(valid.report.tiles, 9);
    }

    #[test]
    fn a_band_that_is_valid_everywhere_ends_the_search() {
        let file = Tiff::new(32, 32).samples(4).planar().tile(16, 16).nodata("7");
        let pixels = Pixels::from_fn(file.shape(), file.format(), |_, _, _| 1);
        let valid = mask(&file, &pixels, &Window::default());
        assert_eq!((valid.bytes(), valid.report.tiles), (Some(&[255; 32 * 32][..]), 4));
    }

    #[test]
    fn halves_are_compared_by_value() {
        let is = |nodata: f64, bits: u16| comparison(geo::Nodata::Float(nodata), DType::Float16)(&bits.to_ne_bytes());
        assert!(is(0.0, 0x8000) && is(-0.0, 0) && !is(0.0, 1));
        assert!(is(f64::NAN, 0x7e00) && is(f64::NAN, 0xfc01) && !is(f64::NAN, 0x7c00));
        assert!(is(1.0, 0x3c00) && !is(1e9, 0x7c00));
    }

    #[test]
    fn pieces_are_rows_of_whole_tiles() {
        let file = Tiff::new(40, 50).samples(5).tile(16, 16).compression(Compression::Deflate);
        let source = Arc::new(MemorySource::new(file.build(&file.gradient())));
        let image = Image::from_source(source, &OpenOptions::default()).unwrap();
        let layout = &image.levels()[0].layout;
        let wide = (PIECE / 32) as usize;
        let cut: Vec<_> = pieces(layout, 10..45, [5, wide]).collect();
        assert_eq!(cut, [(10..16, 2), (16..32, 2), (32..45, 2)]);
    }
}
