//! WebP, by libwebp.
#![allow(unsafe_code)] // the library is C

use libwebp_sys as ffi;

use super::jpeg::check_out;
use super::{Cause, Codec, Encoded, Plain, Unit};
use crate::dtype::DType;

/// WebP.
#[derive(Debug)]
pub struct WebP;

/// The format has no larger images.
const LARGEST: u32 = 16383;

impl Codec for WebP {
    fn name(&self) -> &'static str {
        "webp"
    }

    fn compression(&self) -> &'static [u16] {
        &[50001]
    }

    fn unit(&self) -> Unit {
        Unit::Samples
    }

    fn decode(&self, tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
        let format = tile.format;
        check_out(tile, out)?;
        let mode = match format.samples {
            3 => ffi::WEBP_CSP_MODE::MODE_RGB,
            // A tile that is opaque all over may come without alpha.
            4 => ffi::WEBP_CSP_MODE::MODE_RGBA,
            n => return Err(Cause::unsupported(format!("WebP in {n} samples"))),
        };
        if format.dtype != DType::UInt8 {
            return Err(Cause::unsupported(format!("WebP in {}", format.dtype)));
        }
        let mut config = ffi::WebPDecoderConfig::new().map_err(|()| version())?;
        // SAFETY: the pointer and the length are those of one slice; `config.input` is plain data.
        let status = unsafe { ffi::WebPGetFeatures(tile.bytes.as_ptr(), tile.bytes.len(), &mut config.input) };
        check(status)?;
        let (width, height) = (config.input.width as u32, config.input.height as u32);
        if config.input.has_animation != 0 {
            return Err(Cause::unsupported("animated WebP"));
        }
        if width < format.width || height < tile.rows || width > LARGEST || height > LARGEST {
            let message = format!("WebP of {width} x {height} pixels in a tile of {} x {}", format.width, tile.rows);
            return Err(Cause::damaged(message));
        }
        if u64::from(width) * u64::from(height) > (u64::from(format.width) * u64::from(tile.rows) * 4).max(1 << 16) {
            return Err(Cause::damaged(format!("WebP of {width} x {height} pixels in a far smaller tile")));
        }
        // Both sides are at least 1 and at most 16383, since the image is no smaller.
        config.options.use_cropping = (width != format.width || height != tile.rows) as _;
        config.options.crop_width = format.width as _;
        config.options.crop_height = tile.rows as _;
        config.output.colorspace = mode;
        config.output.is_external_memory = 1;
        config.output.u.RGBA =
            ffi::WebPRGBABuffer { rgba: out.as_mut_ptr(), stride: format.row_samples_bytes() as _, size: out.len() };
        // SAFETY: the input is a slice; the output is `out`, with its size, which the library checks against the
        // cropped size before it writes. It is external memory, so the library frees nothing of it.
        check(unsafe { ffi::WebPDecode(tile.bytes.as_ptr(), tile.bytes.len(), &mut config) })
    }

    fn encode(&self, tile: &Plain<'_>, out: &mut Vec<u8>) -> Result<(), Cause> {
        let format = tile.format;
        let (width, height, samples) = (format.width, tile.rows, format.samples);
        if format.dtype != DType::UInt8 || !(3..=4).contains(&samples) {
            return Err(Cause::unsupported(format!("WebP of {samples} samples of {}", format.dtype)));
        }
        if !(1..=LARGEST).contains(&width) || !(1..=LARGEST).contains(&height) {
            return Err(Cause::unsupported(format!("WebP of {width} x {height} pixels")));
        }
        if tile.bytes.len() != format.row_samples_bytes() * height as usize {
            return Err(Cause::damaged("the tile has not the size of its pixels"));
        }
        let config = configure(tile)?;
        let mut picture = Picture(ffi::WebPPicture::new().map_err(|()| version())?);
        let mut writer = Writer::new();
        picture.0.use_argb = config.lossless;
        picture.0.width = width as _;
        picture.0.height = height as _;
        picture.0.writer = Some(ffi::WebPMemoryWrite);
        picture.0.custom_ptr = (&raw mut writer.0).cast();
        let stride = format.row_samples_bytes() as _;
        // SAFETY: the pixels are `height` rows of `stride` bytes, as checked above; the picture is initialised.
        let imported = unsafe {
            if samples == 3 {
                ffi::WebPPictureImportRGB(&mut picture.0, tile.bytes.as_ptr(), stride)
            } else {
                ffi::WebPPictureImportRGBA(&mut picture.0, tile.bytes.as_ptr(), stride)
            }
        };
        // SAFETY: config and picture are initialised; the writer that `custom_ptr` names outlives the call.
        if imported == 0 || unsafe { ffi::WebPEncode(&config, &mut picture.0) } == 0 {
            return Err(Cause::damaged(format!("WebP encoder: {:?}", picture.0.error_code)));
        }
        out.extend_from_slice(writer.bytes());
        Ok(())
    }
}

/// The user's quality; without one, or with 100, lossless to the last bit, also where nothing is seen.
fn configure(tile: &Plain<'_>) -> Result<ffi::WebPConfig, Cause> {
    let mut config = ffi::WebPConfig::new().map_err(|()| version())?;
    let quality = tile.settings.quality.unwrap_or(100).min(100);
    config.exact = 1;
    if quality == 100 {
        let level = tile.settings.level.unwrap_or(6).clamp(0, 9);
        // SAFETY: the config is initialised.
        if unsafe { ffi::WebPConfigLosslessPreset(&mut config, level) } == 0 {
            return Err(version());
        }
        config.exact = 1;
    } else {
        config.quality = quality as f32;
        config.method = tile.settings.level.unwrap_or(4).clamp(0, 6);
    }
    Ok(config)
}

/// A picture that frees what the library gave it.
struct Picture(ffi::WebPPicture);

impl Drop for Picture {
    fn drop(&mut self) {
        // SAFETY: the picture was initialised, and is freed once.
        unsafe { ffi::WebPPictureFree(&mut self.0) }
    }
}

/// Memory that the library writes to and frees.
struct Writer(ffi::WebPMemoryWriter);

impl Writer {
    fn new() -> Self {
        let mut writer = ffi::WebPMemoryWriter { mem: std::ptr::null_mut(), size: 0, max_size: 0, pad: [0] };
        // SAFETY: the pointer is that of a live value.
        unsafe { ffi::WebPMemoryWriterInit(&mut writer) };
        Self(writer)
    }

    fn bytes(&self) -> &[u8] {
        if self.0.mem.is_null() {
            return &[];
        }
        // SAFETY: `mem` holds `size` bytes that were written, and lives as long as the writer.
        unsafe { std::slice::from_raw_parts(self.0.mem, self.0.size) }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // SAFETY: the writer was initialised, and is cleared once.
        unsafe { ffi::WebPMemoryWriterClear(&mut self.0) }
    }
}

fn version() -> Cause {
    Cause::unsupported("this version of libwebp")
}

fn check(status: ffi::VP8StatusCode) -> Result<(), Cause> {
    use ffi::VP8StatusCode::*;
    match status {
        VP8_STATUS_OK => Ok(()),
        VP8_STATUS_NOT_ENOUGH_DATA => Err(Cause::damaged("WebP data ends too soon")),
        VP8_STATUS_UNSUPPORTED_FEATURE => Err(Cause::unsupported("feature of WebP")),
        VP8_STATUS_OUT_OF_MEMORY => Err(Cause::damaged("WebP needs more memory than there is")),
        _ => Err(Cause::damaged("WebP data is damaged")),
    }
}
