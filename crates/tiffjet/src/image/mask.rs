//! Which pixels are there: the file's mask, else alpha, else nodata, else all.

use std::sync::Arc;

use super::{Image, Mask};
use crate::backend::{Backend, ReadJob};
use crate::cpu::Cpu;
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::Layout;
use crate::plan::Window;
use crate::tensor::{HostBuffer, Tensor};
use crate::{Error, geo};

impl Image {
    /// Which pixels of a window are valid: 255 where they are, 0 where not; between them where alpha says so. The bands
    /// of the window do not matter.
    pub fn read_mask(&self, window: &Window) -> Result<Tensor> {
        let level = self.level(window.level)?;
        let window = Window { bands: None, ..window.clone() };
        if let Some(mask) = &level.mask {
            return self.stored_mask(mask, &window);
        }
        if let Some(alpha) = alpha_band(&level.layout) {
            return self.alpha_mask(alpha, &window);
        }
        self.nodata_mask(&window)
    }

    fn stored_mask(&self, mask: &Mask, window: &Window) -> Result<Tensor> {
        let window = Window { bands: Some(vec![1]), ..window.clone() };
        // Nodata is a value of the image: where the mask is not stored, nothing is valid.
        let fill = vec![0; mask.layout.dtype().size()];
        let plan = self.plan_of(&mask.file, &mask.layout, &window, fill)?;
        let pixels = Cpu::shared()?.read(&ReadJob { source: &**mask.file.head.source(), plan: &plan })?;
        let top = if mask.layout.format.bits < 8 { (1u64 << mask.layout.format.bits) - 1 } else { 255 };
        self.masked(&pixels, |pixel| if top == 255 { pixel[0] } else { (u64::from(pixel[0]) * 255 / top) as u8 })
    }

    fn alpha_mask(&self, alpha: u16, window: &Window) -> Result<Tensor> {
        let pixels = self.read(&Window { bands: Some(vec![alpha]), ..window.clone() })?;
        match pixels.dtype {
            DType::UInt8 => self.masked(&pixels, |pixel| pixel[0]),
            // 65535 is as opaque as 255.
            DType::UInt16 => self.masked(&pixels, |pixel| (u16::from_ne_bytes([pixel[0], pixel[1]]) / 257) as u8),
            _ => self.masked(&pixels, |pixel| if pixel.iter().any(|&b| b != 0) { 255 } else { 0 }),
        }
    }

    /// A pixel is valid when one of its bands is.
    fn nodata_mask(&self, window: &Window) -> Result<Tensor> {
        let [bands, height, width] = self.plan_shape(window)?;
        let mut valid = self.buffer(height * width)?;
        let mut report = crate::Report::default();
        valid.bytes_mut().fill(0);
        for band in 0..bands {
            let Some(nodata) = self.geo().nodata(band) else {
                valid.bytes_mut().fill(255);
                break;
            };
            let pixels = self.read(&Window { bands: Some(vec![band as u16 + 1]), ..window.clone() })?;
            let is_nodata = comparison(nodata, pixels.dtype);
            let values = pixels.bytes().unwrap_or_default().chunks_exact(pixels.dtype.size());
            for (valid, value) in valid.bytes_mut().iter_mut().zip(values) {
                if !is_nodata(value) {
                    *valid = 255;
                }
            }
            report.add(&pixels.report);
        }
        Ok(Tensor::new([1, height, width], DType::UInt8, Arc::new(valid), report))
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

    fn buffer(&self, length: usize) -> Result<HostBuffer> {
        HostBuffer::take(length).ok_or_else(|| Error::limit(self.name(), "bytes of a mask in memory", length as u64, 0))
    }
}

/// The band, from 1, that ExtraSamples names as alpha.
fn alpha_band(layout: &Layout) -> Option<u16> {
    let extra = &layout.extra_samples;
    let first = usize::from(layout.bands).checked_sub(extra.len())?;
    extra.iter().position(|&kind| kind == 1 || kind == 2).map(|i| (first + i + 1) as u16)
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
        // Integers, halves and pairs are equal when their bytes are; a value they can't hold equals none.
        _ => match nodata.to_bytes(dtype) {
            Some(bytes) if value.fract() == 0.0 || dtype.is_float() => Box::new(move |b| b == bytes),
            _ => Box::new(|_| false),
        },
    }
}
