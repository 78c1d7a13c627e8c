//! JPEG 2000, by OpenJPEG: bare codestreams and JP2 files.
//!
//! The samples are those of the codestream, its own component transform undone; the YCbCr that compression 33003
//! stands for is left as stored.
#![allow(unsafe_code)] // the library is C

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use openjpeg_sys as ffi;

use super::jpeg::check_out;
use super::{Cause, Codec, Encoded, Plain, TileFormat, Unit};
use crate::dtype::DType;

/// JPEG 2000.
#[derive(Debug)]
pub struct Jpeg2000;

/// What the library moves in one call.
const CHUNK: usize = 1 << 16;

impl Codec for Jpeg2000 {
    fn name(&self) -> &'static str {
        "jpeg2000"
    }

    fn compression(&self) -> &'static [u16] {
        &[34712, 33003, 33005]
    }

    fn unit(&self) -> Unit {
        Unit::Samples
    }

    fn decode(&self, tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
        check_out(tile, out)?;
        check_dtype(tile.format.dtype)?;
        let mut messages = Messages::default();
        let mut reader = Reader { bytes: tile.bytes, pos: 0 };
        let codec = Handle::decoder(tile.bytes, &mut messages)?;
        let stream = Stream::reading(&mut reader)?;
        let mut image = Image(ptr::null_mut());
        // SAFETY: codec and stream are live; the image is written by the library and freed by its guard.
        let read = unsafe { ffi::opj_read_header(stream.0, codec.0, &mut image.0) };
        if read == 0 || image.0.is_null() {
            return Err(messages.cause());
        }
        check_image(tile, &image)?;
        // SAFETY: as above; the header was read, so the image is the one that belongs to the codec.
        let decoded = unsafe { ffi::opj_decode(codec.0, stream.0, image.0) };
        if decoded == 0 {
            return Err(messages.cause());
        }
        check_tiles(tile.bytes)?;
        store(tile, &image, out)
    }

    fn encode(&self, tile: &Plain<'_>, out: &mut Vec<u8>) -> Result<(), Cause> {
        let format = tile.format;
        check_dtype(format.dtype)?;
        if tile.bytes.len() != format.row_samples_bytes() * tile.rows as usize || tile.bytes.is_empty() {
            return Err(Cause::damaged("the tile has not the size of its pixels"));
        }
        let mut messages = Messages::default();
        let image = Image::from_samples(tile)?;
        let mut parameters = parameters(tile);
        let mut writer = Writer { bytes: Vec::new(), pos: 0 };
        {
            let codec = Handle::encoder(&mut messages)?;
            // SAFETY: codec, parameters and image are live and initialised.
            if unsafe { ffi::opj_setup_encoder(codec.0, &mut parameters, image.0) } == 0 {
                return Err(messages.cause());
            }
            let stream = Stream::writing(&mut writer)?;
            // SAFETY: codec, image and stream are live and belong together since the setup.
            let encoded = unsafe {
                ffi::opj_start_compress(codec.0, image.0, stream.0) != 0
                    && ffi::opj_encode(codec.0, stream.0) != 0
                    && ffi::opj_end_compress(codec.0, stream.0) != 0
            };
            if !encoded {
                return Err(messages.cause());
            }
        }
        out.append(&mut writer.bytes);
        Ok(())
    }
}

fn check_dtype(dtype: DType) -> Result<(), Cause> {
    match dtype {
        DType::UInt8 | DType::Int8 | DType::UInt16 | DType::Int16 => Ok(()),
        other => Err(Cause::unsupported(format!("JPEG 2000 in {other}"))),
    }
}

/// Refuses an image that does not cover the tile, and one so much larger that its header must be a lie.
fn check_image(tile: &Encoded<'_>, image: &Image) -> Result<(), Cause> {
    let format = tile.format;
    let (width, height) = image.size();
    let pixels = u64::from(format.width) * u64::from(tile.rows);
    if width < format.width || height < tile.rows || u64::from(width) * u64::from(height) > (pixels * 4).max(1 << 16) {
        let message = format!("JPEG 2000 of {width} x {height} pixels in a tile of {} x {}", format.width, tile.rows);
        return Err(Cause::damaged(message));
    }
    let components = image.components();
    if components.len() < format.samples as usize || components.len() > format.samples as usize + 4 {
        let message = format!("JPEG 2000 of {} components in a tile of {}", components.len(), format.samples);
        return Err(Cause::damaged(message));
    }
    for c in components {
        if c.dx == 0 || c.dy == 0 || !(1..=format.dtype.size() as u32 * 8).contains(&c.prec) {
            return Err(Cause::damaged(format!("JPEG 2000 of {} bits in samples of {}", c.prec, format.dtype)));
        }
    }
    Ok(())
}

/// Refuses a codestream without all of its tiles: the library gives zeros for those that are not there.
fn check_tiles(bytes: &[u8]) -> Result<(), Cause> {
    const START: [u8; 4] = [0xFF, 0x4F, 0xFF, 0x51];
    const TILE: u32 = 0xFF90;
    let damaged = || Cause::damaged("JPEG 2000 without a header");
    let start = bytes.windows(4).position(|window| window == START).ok_or_else(damaged)?;
    let stream = &bytes[start..];
    let number = |at: usize, size: usize| {
        let part = stream.get(at..at.checked_add(size)?)?;
        Some(part.iter().fold(0u32, |number, &byte| number << 8 | u32::from(byte)))
    };
    // Size of the grid, where tiles begin on it, and their size, at these places behind the two markers.
    let across = |size: usize, tile: usize, from: usize| -> Option<u64> {
        let (size, tile, from) = (number(size, 4)?, number(tile, 4)?, number(from, 4)?);
        (tile > 0).then(|| u64::from(size.saturating_sub(from).div_ceil(tile)))
    };
    let due = across(8, 24, 32).zip(across(12, 28, 36)).map(|(x, y)| x * y).ok_or_else(damaged)?;
    let mut seen = BTreeSet::new();
    let mut at = 2;
    while let Some((marker, length)) = number(at, 2).zip(number(at + 2, 2)).filter(|&(_, length)| length >= 2) {
        at += match marker {
            TILE => {
                seen.extend(number(at + 4, 2));
                match number(at + 6, 4) {
                    // Up to the end, or no length at all: it is the last.
                    Some(part) if part > 12 => part as usize,
                    _ => break,
                }
            }
            _ => 2 + length as usize,
        };
    }
    match seen.len() as u64 {
        there if there < due => Err(Cause::damaged(format!("JPEG 2000 with {there} of its {due} tiles"))),
        _ => Ok(()),
    }
}

/// Components to interleaved samples; those that are subsampled are repeated.
fn store(tile: &Encoded<'_>, image: &Image, out: &mut [u8]) -> Result<(), Cause> {
    let format = tile.format;
    let samples = format.samples as usize;
    for (c, component) in image.components().iter().enumerate().take(samples) {
        let (w, h, dx, dy) = (component.w as usize, component.h as usize, component.dx as usize, component.dy as usize);
        let covers = w * dx >= format.width as usize && h * dy >= tile.rows as usize;
        if component.data.is_null() || !covers || w == 0 || h == 0 {
            return Err(Cause::damaged("JPEG 2000 data without the samples of a component"));
        }
        // SAFETY: after a decode, `data` holds `w * h` values, and lives as long as the image.
        let values = unsafe { std::slice::from_raw_parts(component.data, w * h) };
        for (y, out) in out.chunks_exact_mut(format.row_samples_bytes()).enumerate() {
            let row = &values[y / dy * w..][..w];
            match (format.dtype, dx) {
                (DType::UInt8, 1) => put(row.iter(), out, c, samples, |v| [v.clamp(0, 255) as u8]),
                (DType::UInt8, _) => put(spread(row, dx), out, c, samples, |v| [v.clamp(0, 255) as u8]),
                (DType::Int8, _) => put(spread(row, dx), out, c, samples, |v| [v.clamp(-128, 127) as u8]),
                (DType::UInt16, _) => {
                    put(spread(row, dx), out, c, samples, |v| (v.clamp(0, 65535) as u16).to_ne_bytes());
                }
                (_, _) => {
                    put(spread(row, dx), out, c, samples, |v| (v.clamp(-32768, 32767) as i16).to_ne_bytes());
                }
            }
        }
    }
    Ok(())
}

fn spread(row: &[i32], dx: usize) -> impl Iterator<Item = &i32> {
    row.iter().flat_map(move |v| std::iter::repeat_n(v, dx))
}

fn put<'a, const N: usize>(
    values: impl Iterator<Item = &'a i32>,
    out: &mut [u8],
    component: usize,
    samples: usize,
    convert: impl Fn(i32) -> [u8; N],
) {
    for (out, &value) in out.chunks_exact_mut(N * samples).zip(values) {
        out[component * N..][..N].copy_from_slice(&convert(value));
    }
}

/// Lossless without a quality or with 100; else a share of the plain size in percent.
fn parameters(tile: &Plain<'_>) -> ffi::opj_cparameters_t {
    let mut parameters = MaybeUninit::uninit();
    // SAFETY: the library fills the whole struct.
    let mut parameters = unsafe {
        ffi::opj_set_default_encoder_parameters(parameters.as_mut_ptr());
        parameters.assume_init()
    };
    let quality = tile.settings.quality.unwrap_or(100).clamp(1, 100);
    parameters.tcp_numlayers = 1;
    parameters.cp_disto_alloc = 1;
    parameters.tcp_rates[0] = if quality == 100 { 0.0 } else { 100.0 / f32::from(quality) };
    parameters.irreversible = (quality < 100) as _;
    parameters.tcp_mct = (tile.format.samples == 3) as _;
    // A level halves both sides: no more levels than the smaller one has halves.
    let smaller = tile.format.width.min(tile.rows).max(1);
    parameters.numresolution = (smaller.ilog2() as i32 + 1).min(6);
    parameters
}

/// What the library said.
#[derive(Default)]
struct Messages {
    error: Option<String>,
}

impl Messages {
    fn cause(&self) -> Cause {
        let said = self.error.as_deref().unwrap_or("the library gives no reason");
        Cause::damaged(format!("JPEG 2000: {}", said.trim()))
    }
}

unsafe extern "C" fn keep_message(message: *const c_char, messages: *mut c_void) {
    if message.is_null() || messages.is_null() {
        return;
    }
    // SAFETY: the library passes a C string and the pointer that was registered with it, which names live `Messages`.
    let (message, messages) = unsafe { (CStr::from_ptr(message), &mut *messages.cast::<Messages>()) };
    messages.error.get_or_insert_with(|| message.to_string_lossy().into_owned());
}

/// A codec of the library.
struct Handle(*mut ffi::opj_codec_t);

impl Handle {
    fn new(handle: *mut ffi::opj_codec_t, messages: &mut Messages) -> Result<Self, Cause> {
        if handle.is_null() {
            return Err(Cause::unsupported("this version of OpenJPEG"));
        }
        // SAFETY: the handle is live, and `messages` outlives it in both callers.
        unsafe { ffi::opj_set_error_handler(handle, Some(keep_message), ptr::from_mut(messages).cast()) };
        Ok(Self(handle))
    }

    fn decoder(bytes: &[u8], messages: &mut Messages) -> Result<Self, Cause> {
        let bare = bytes.starts_with(&[0xFF, 0x4F, 0xFF, 0x51]);
        let format = if bare { ffi::CODEC_FORMAT::OPJ_CODEC_J2K } else { ffi::CODEC_FORMAT::OPJ_CODEC_JP2 };
        // SAFETY: no pointers go in.
        let codec = Self::new(unsafe { ffi::opj_create_decompress(format) }, messages)?;
        let mut parameters = MaybeUninit::uninit();
        // SAFETY: the library fills the parameters whole; the codec is live.
        let set = unsafe {
            ffi::opj_set_default_decoder_parameters(parameters.as_mut_ptr());
            ffi::opj_setup_decoder(codec.0, parameters.as_mut_ptr()) != 0
                && ffi::opj_decoder_set_strict_mode(codec.0, 1) != 0
        };
        if set { Ok(codec) } else { Err(messages.cause()) }
    }

    fn encoder(messages: &mut Messages) -> Result<Self, Cause> {
        // SAFETY: no pointers go in.
        Self::new(unsafe { ffi::opj_create_compress(ffi::CODEC_FORMAT::OPJ_CODEC_J2K) }, messages)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and destroyed once.
        unsafe { ffi::opj_destroy_codec(self.0) }
    }
}

/// An image of the library.
struct Image(*mut ffi::opj_image_t);

impl Image {
    /// The samples of a tile, component by component.
    fn from_samples(tile: &Plain<'_>) -> Result<Self, Cause> {
        let format = tile.format;
        let samples = format.samples as usize;
        let signed = matches!(format.dtype, DType::Int8 | DType::Int16);
        let component = ffi::opj_image_comptparm {
            dx: 1,
            dy: 1,
            w: format.width,
            h: tile.rows,
            x0: 0,
            y0: 0,
            prec: precision(format),
            bpp: precision(format),
            sgnd: signed as u32,
        };
        let mut components = vec![component; samples];
        let space = match samples {
            3 | 4 => ffi::COLOR_SPACE::OPJ_CLRSPC_SRGB,
            _ => ffi::COLOR_SPACE::OPJ_CLRSPC_GRAY,
        };
        // SAFETY: the parameters are `samples` live values; the library copies them.
        let image = Self(unsafe { ffi::opj_image_create(u32::from(format.samples), components.as_mut_ptr(), space) });
        if image.0.is_null() {
            return Err(Cause::damaged("JPEG 2000 needs more memory than there is"));
        }
        // SAFETY: the image is live and ours alone.
        unsafe {
            (*image.0).x1 = format.width;
            (*image.0).y1 = tile.rows;
        }
        let pixels = format.width as usize * tile.rows as usize;
        for (c, component) in image.components().iter().enumerate() {
            if component.data.is_null() {
                return Err(Cause::damaged("JPEG 2000 needs more memory than there is"));
            }
            // SAFETY: the library made `data` with a value a pixel, zeroed, and nothing else refers to it.
            let values = unsafe { std::slice::from_raw_parts_mut(component.data, pixels) };
            let size = format.dtype.size();
            for (value, pixel) in values.iter_mut().zip(tile.bytes.chunks_exact(size * samples)) {
                *value = match (format.dtype, &pixel[c * size..][..size]) {
                    (DType::UInt8, b) => i32::from(b[0]),
                    (DType::Int8, b) => i32::from(b[0] as i8),
                    (DType::UInt16, b) => i32::from(u16::from_ne_bytes([b[0], b[1]])),
                    (_, b) => i32::from(i16::from_ne_bytes([b[0], b[1]])),
                };
            }
        }
        Ok(image)
    }

    fn size(&self) -> (u32, u32) {
        // SAFETY: callers have an image that is not null.
        let image = unsafe { &*self.0 };
        (image.x1.saturating_sub(image.x0), image.y1.saturating_sub(image.y0))
    }

    fn components(&self) -> &[ffi::opj_image_comp_t] {
        // SAFETY: callers have an image that is not null; `comps` holds `numcomps` values where it is not null.
        unsafe {
            let image = &*self.0;
            if image.comps.is_null() {
                return &[];
            }
            std::slice::from_raw_parts(image.comps, image.numcomps as usize)
        }
    }
}

/// Bits of the samples: those of the file where it has fewer than the type.
fn precision(format: &TileFormat) -> u32 {
    u32::from(format.bits).clamp(1, format.dtype.size() as u32 * 8)
}

impl Drop for Image {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the image is live, and destroyed once.
            unsafe { ffi::opj_image_destroy(self.0) }
        }
    }
}

/// Bytes that the library reads.
struct Reader<'a> {
    bytes: &'a [u8],
    pos: usize,
}

/// Bytes that the library writes.
struct Writer {
    bytes: Vec<u8>,
    pos: usize,
}

/// A stream of the library over a [`Reader`] or a [`Writer`], which must outlive it.
struct Stream(*mut ffi::opj_stream_t);

impl Stream {
    fn reading(reader: &mut Reader<'_>) -> Result<Self, Cause> {
        let length = reader.bytes.len() as u64;
        // SAFETY: the callbacks take the user data for what it is here, a `Reader` that outlives the stream.
        unsafe {
            let stream = Self::new(1)?;
            ffi::opj_stream_set_read_function(stream.0, Some(read));
            ffi::opj_stream_set_skip_function(stream.0, Some(skip_read));
            ffi::opj_stream_set_seek_function(stream.0, Some(seek_read));
            ffi::opj_stream_set_user_data(stream.0, ptr::from_mut(reader).cast(), None);
            ffi::opj_stream_set_user_data_length(stream.0, length);
            Ok(stream)
        }
    }

    fn writing(writer: &mut Writer) -> Result<Self, Cause> {
        // SAFETY: the callbacks take the user data for what it is here, a `Writer` that outlives the stream.
        unsafe {
            let stream = Self::new(0)?;
            ffi::opj_stream_set_write_function(stream.0, Some(write));
            ffi::opj_stream_set_skip_function(stream.0, Some(skip_write));
            ffi::opj_stream_set_seek_function(stream.0, Some(seek_write));
            ffi::opj_stream_set_user_data(stream.0, ptr::from_mut(writer).cast(), None);
            Ok(stream)
        }
    }

    fn new(input: i32) -> Result<Self, Cause> {
        // SAFETY: no pointers go in.
        let stream = unsafe { ffi::opj_stream_create(CHUNK, input) };
        if stream.is_null() {
            return Err(Cause::damaged("JPEG 2000 needs more memory than there is"));
        }
        Ok(Self(stream))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream is live, and destroyed once.
        unsafe { ffi::opj_stream_destroy(self.0) }
    }
}

unsafe extern "C" fn read(buffer: *mut c_void, size: usize, data: *mut c_void) -> usize {
    // SAFETY: the user data is the `Reader` of `Stream::reading`.
    let reader = unsafe { &mut *data.cast::<Reader<'_>>() };
    let rest = reader.bytes.get(reader.pos..).unwrap_or_default();
    let n = rest.len().min(size);
    if n == 0 {
        return usize::MAX;
    }
    // SAFETY: the library gives room for `size` bytes; the source has `n`; they do not overlap.
    unsafe { ptr::copy_nonoverlapping(rest.as_ptr(), buffer.cast(), n) };
    reader.pos += n;
    n
}

unsafe extern "C" fn skip_read(by: i64, data: *mut c_void) -> i64 {
    // SAFETY: the user data is the `Reader` of `Stream::reading`.
    let reader = unsafe { &mut *data.cast::<Reader<'_>>() };
    match reader.pos.checked_add_signed(by as isize) {
        Some(pos) if pos <= reader.bytes.len() => {
            reader.pos = pos;
            by
        }
        _ => -1,
    }
}

unsafe extern "C" fn seek_read(to: i64, data: *mut c_void) -> i32 {
    // SAFETY: the user data is the `Reader` of `Stream::reading`.
    let reader = unsafe { &mut *data.cast::<Reader<'_>>() };
    match usize::try_from(to) {
        Ok(pos) if pos <= reader.bytes.len() => {
            reader.pos = pos;
            1
        }
        _ => 0,
    }
}

unsafe extern "C" fn write(buffer: *mut c_void, size: usize, data: *mut c_void) -> usize {
    // SAFETY: the user data is the `Writer` of `Stream::writing`; the library gives `size` bytes to read.
    let (writer, bytes) =
        unsafe { (&mut *data.cast::<Writer>(), std::slice::from_raw_parts(buffer.cast::<u8>(), size)) };
    let end = writer.pos + size;
    if writer.bytes.len() < end {
        writer.bytes.resize(end, 0);
    }
    writer.bytes[writer.pos..end].copy_from_slice(bytes);
    writer.pos = end;
    size
}

unsafe extern "C" fn skip_write(by: i64, data: *mut c_void) -> i64 {
    // SAFETY: the user data is the `Writer` of `Stream::writing`.
    let writer = unsafe { &mut *data.cast::<Writer>() };
    match writer.pos.checked_add_signed(by as isize) {
        Some(pos) => {
            writer.pos = pos;
            by
        }
        None => -1,
    }
}

unsafe extern "C" fn seek_write(to: i64, data: *mut c_void) -> i32 {
    // SAFETY: the user data is the `Writer` of `Stream::writing`.
    let writer = unsafe { &mut *data.cast::<Writer>() };
    match usize::try_from(to) {
        Ok(pos) => {
            writer.pos = pos;
            1
        }
        Err(_) => 0,
    }
}
