//! JPEG XL.

mod dither;

use std::panic::{AssertUnwindSafe, catch_unwind};

use jxl::api::{
    AlphaMode, Endianness, Event, ExtraChannel, JxlColorType, JxlDataFormat, JxlDecoder, JxlDecoderOptions,
    JxlOutputBuffer, JxlPixelFormat, ProfileLevel,
};

use self::dither::Dither;
use super::jpeg::check_out;
use super::{Cause, Codec, Encoded, Unit};
use crate::dtype::DType;

/// JPEG XL.
#[derive(Debug)]
pub struct JpegXl;

impl Codec for JpegXl {
    fn name(&self) -> &'static str {
        "jxl"
    }

    fn compression(&self) -> &'static [u16] {
        &[50002, 52546]
    }

    fn unit(&self) -> Unit {
        Unit::Samples
    }

    fn decode(&self, tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
        check_out(tile, out)?;
        // The decoder says that it may panic; a damaged tile must not take the program with it.
        catch_unwind(AssertUnwindSafe(|| decode(tile, out)))
            .unwrap_or_else(|_| Err(Cause::damaged("JPEG XL data that the decoder can't stand")))
    }
}

fn decode(tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
    let format = tile.format;
    let mut rounding = rounding(tile);
    let data_format = data_format(tile)?;
    let samples = format.samples as usize;
    let pixels = format.width as usize * tile.rows as usize;

    let mut options = JxlDecoderOptions::default();
    options.adjust_orientation = false;
    options.render_spot_colors = false;
    options.alpha_mode = AlphaMode::AsIs;
    options.max_profile_level = ProfileLevel::Main10;
    options.sample_limit = Some((pixels * samples.max(3) * 4).max(1 << 18));
    let mut decoder = JxlDecoder::new(options);
    let mut input = tile.bytes;
    advance(&mut decoder, &mut input, None, Event::BasicInfo)?;
    let info = decoder.basic_info().ok_or_else(short)?.clone();
    let (width, height) = info.size;
    if width < format.width as usize
        || height < tile.rows as usize
        || width.saturating_mul(height) > (pixels * 4).max(1 << 16)
    {
        let message = format!("JPEG XL of {width} x {height} pixels in a tile of {} x {}", format.width, tile.rows);
        return Err(Cause::damaged(message));
    }
    let grey = decoder.current_pixel_format().is_some_and(|f| f.color_type.is_grayscale());
    let colours = if grey { 1 } else { 3 };
    let extras = info.extra_channels.len();
    if colours + extras < samples || samples < colours {
        let message = format!("JPEG XL of {} channels in a tile of {samples} samples", colours + extras);
        return Err(Cause::damaged(message));
    }
    // Extra channels that the tile has no sample for are not made.
    let used = samples - colours;
    let set = decoder.set_pixel_format(JxlPixelFormat {
        color_type: if grey { JxlColorType::Grayscale } else { JxlColorType::Rgb },
        color_data_format: Some(data_format),
        extra_channel_format: (0..extras).map(|i| (i < used).then_some(data_format)).collect(),
    });
    set.map_err(damaged)?;
    advance(&mut decoder, &mut input, None, Event::FrameHeader)?;

    let made = data_format.bytes_per_sample();
    let mut planes = Vec::with_capacity(1 + used);
    planes.push(Aligned::new(width * height * made * colours));
    planes.extend((0..used).map(|_| Aligned::new(width * height * made)));
    {
        let mut buffers: Vec<_> = planes
            .iter_mut()
            .enumerate()
            .map(|(i, plane)| {
                JxlOutputBuffer::new(plane.bytes(), height, width * made * if i == 0 { colours } else { 1 })
            })
            .collect();
        let done =
            advance(&mut decoder, &mut input, Some(&mut buffers), Event::FrameComplete { has_more_frames: false });
        done?;
    }
    let size = format.dtype.size();
    let mut rounded = vec![0; if rounding.is_some() { width * colours } else { 0 }];
    let mut first = 0;
    for (i, plane) in planes.iter_mut().enumerate() {
        let n = if i == 0 { colours } else { 1 };
        // Readers built on libjxl ask for alpha together with the colours, and for any other extra channel apart, where
        // the pattern begins anew.
        let alpha = i > 0 && info.extra_channels[i - 1].ec_type == ExtraChannel::Alpha;
        let pattern = if alpha { colours } else { 0 };
        let rows = out.chunks_exact_mut(format.row_samples_bytes());
        for (y, (out, mut row)) in rows.zip(plane.bytes().chunks_exact(width * n * made)).enumerate() {
            if let Some(dither) = &mut rounding {
                dither.round(y, pattern, n, row, &mut rounded);
                row = &rounded[..width * n];
            }
            if samples == n {
                out.copy_from_slice(&row[..out.len()]);
                continue;
            }
            let first = first * size;
            for (out, pixel) in out.chunks_exact_mut(samples * size).zip(row.chunks_exact(n * size)) {
                out[first..first + n * size].copy_from_slice(pixel);
            }
        }
        first += n;
    }
    Ok(())
}

/// Goes on until `wanted` comes.
fn advance(
    decoder: &mut JxlDecoder,
    input: &mut &[u8],
    mut buffers: Option<&mut [JxlOutputBuffer<'_>]>,
    wanted: Event,
) -> Result<(), Cause> {
    loop {
        let event = decoder.process(input, buffers.as_deref_mut(), None).map_err(damaged)?;
        match event {
            Event::NeedMoreInput { .. } => return Err(short()),
            event if std::mem::discriminant(&event) == std::mem::discriminant(&wanted) => return Ok(()),
            Event::Complete => return Err(Cause::damaged("JPEG XL data without an image")),
            _ => {}
        }
    }
}

/// How the decoder's samples become those of the tile where it does not make them itself.
///
/// All samples of 8 bits go this way: a stream does not tell beforehand whether it is lossless, and one made from a
/// JPEG says the same of itself as a lossless one.
fn rounding(tile: &Encoded<'_>) -> Option<Dither> {
    (tile.format.dtype == DType::UInt8).then(|| Dither::new(tile.format.bits.min(8) as u8))
}

/// What the decoder is to make.
fn data_format(tile: &Encoded<'_>) -> Result<JxlDataFormat, Cause> {
    let (bits, endianness) = (tile.format.bits.min(16) as u8, Endianness::native());
    match tile.format.dtype {
        DType::UInt8 | DType::Float32 => Ok(JxlDataFormat::F32 { endianness }),
        DType::UInt16 => Ok(JxlDataFormat::U16 { endianness, bit_depth: bits }),
        DType::Float16 => Ok(JxlDataFormat::F16 { endianness }),
        other => Err(Cause::unsupported(format!("JPEG XL in {other}"))),
    }
}

/// Bytes that begin at a multiple of 4, as the decoder asks.
struct Aligned {
    buffer: Vec<u8>,
    start: usize,
}

impl Aligned {
    fn new(size: usize) -> Self {
        let buffer = vec![0; size + 3];
        let start = buffer.as_ptr().align_offset(4).min(3);
        Self { buffer, start }
    }

    fn bytes(&mut self) -> &mut [u8] {
        let end = self.buffer.len() - (3 - self.start);
        &mut self.buffer[self.start..end]
    }
}

fn short() -> Cause {
    Cause::damaged("JPEG XL data ends too soon")
}

fn damaged(error: impl std::fmt::Display) -> Cause {
    Cause::damaged(format!("JPEG XL: {error}"))
}
