//! What all embedded image formats must stand: round trips, damage, and headers that lie.

use std::sync::Arc;

use super::*;

struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32
    }
}

fn format(compression: u16, width: u32, height: u32, samples: u16, dtype: DType) -> TileFormat {
    let photometric = if samples >= 3 { 2 } else { 1 };
    TileFormat { photometric, ..TileFormat::new(compression, (width, height), samples, dtype) }
}

/// A smooth picture with a little noise.
fn picture(format: &TileFormat) -> Vec<u8> {
    let mut noise = Noise(7);
    let mut out = Vec::new();
    for y in 0..format.height {
        for x in 0..format.width {
            for s in 0..u32::from(format.samples) {
                let wave = (x as f64 / 9.0 + s as f64).sin() * (y as f64 / 7.0).cos();
                let value = 0.5 + 0.4 * wave;
                match format.dtype.size() {
                    1 => out.push((value * 250.0) as u8 ^ (noise.next() & 3) as u8),
                    _ => out.extend(((value * 65000.0) as u16 ^ (noise.next() & 63) as u16).to_ne_bytes()),
                }
            }
        }
    }
    out
}

fn encode(format: &TileFormat, pixels: &[u8], quality: Option<u8>) -> Vec<u8> {
    let settings = Settings { quality, ..Settings::default() };
    let mut out = Vec::new();
    let codec = find(format.compression).unwrap();
    codec.encode(&Plain { bytes: pixels, rows: format.height, format, settings: &settings }, &mut out).unwrap();
    out
}

fn decode(format: &TileFormat, bytes: &[u8]) -> Result<Vec<u8>, Cause> {
    let mut out = vec![0; format.row_samples_bytes() * format.height as usize];
    let tile = Encoded { bytes, rows: format.height, index: 0, format };
    find(format.compression).unwrap().decode(&tile, &mut out).map(|()| out)
}

fn worst(a: &[u8], b: &[u8]) -> u8 {
    a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).max().unwrap()
}

fn mean(a: &[u8], b: &[u8]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(a.abs_diff(*b))).sum::<f64>() / a.len() as f64
}

/// Every format that can be written, with a picture in it.
fn streams() -> Vec<(TileFormat, Vec<u8>)> {
    let mut out = Vec::new();
    for (compression, quality) in [(7, Some(85)), (34712, None), (50001, None), (50001, Some(70))] {
        let format = format(compression, 45, 37, 3, DType::UInt8);
        let bytes = encode(&format, &picture(&format), quality);
        out.push((format, bytes));
    }
    let mut colour = format(7, 45, 37, 3, DType::UInt8);
    (colour.photometric, colour.subsampling) = (6, (2, 2));
    let bytes = encode(&colour, &picture(&colour), None);
    out.push((colour, bytes));
    out.push((format(50002, 4, 3, 1, DType::UInt8), jxl_stream()));
    out.push((format(50002, 36, 6, 4, DType::UInt8), lossy_jxl_stream().0));
    out
}

/// A lossless JPEG XL codestream of 4 x 3 grey pixels, 0 to 11 in order times 20.
fn jxl_stream() -> Vec<u8> {
    vec![
        0xFF, 0x0A, 0x10, 0x30, 0x10, 0x14, 0x37, 0x02, 0x08, 0x04, 0x01, 0x00, 0x58, 0x00, 0x4B, 0x18, 0x8B, 0x15,
        0x52, 0x5C, 0x0A, 0x71, 0x77, 0x70, 0x00, 0x10, 0x86, 0x00, 0x81, 0x26, 0x24, 0x7F, 0xB8, 0xE8, 0x5C, 0x4C,
    ]
}

/// A lossy JPEG XL codestream of 36 x 6 pixels of RGB and alpha, and what libjxl 0.12 makes of it.
fn lossy_jxl_stream() -> (Vec<u8>, Vec<u8>) {
    let stream = vec![
        0xFF, 0x0A, 0x28, 0x00, 0x46, 0x80, 0x9D, 0x40, 0x59, 0x80, 0x68, 0x00, 0xA4, 0x01, 0x89, 0x58, 0x17, 0x00,
        0x80, 0x0A, 0x95, 0x51, 0xC6, 0x0D, 0x5E, 0xCE, 0xF5, 0x7C, 0xF9, 0xA1, 0xC3, 0x62, 0xDA, 0xC6, 0x75, 0x86,
        0xB6, 0xDA, 0xB6, 0xB0, 0x84, 0xB1, 0xD9, 0x9E, 0x0B, 0x05, 0x83, 0x84, 0x84, 0x13, 0xD8, 0x86, 0x48, 0x29,
        0xED, 0x9F, 0xCF, 0x6C, 0xBB, 0xAE, 0x67, 0xB4, 0x79, 0x42, 0x25, 0x68, 0xA2, 0xAC, 0xEB, 0xF2, 0xD9, 0x35,
        0x8B, 0x01, 0x42, 0x29, 0x48, 0xAA, 0x2C, 0xEB, 0xFA, 0x39, 0x00, 0x80, 0x58, 0x09, 0x92, 0x2A, 0xCB, 0xBA,
        0xDE, 0xFC, 0x70, 0x37, 0x1E, 0x52, 0x48, 0x6F, 0xE8, 0x32, 0xCD, 0xBE, 0x58, 0xB7, 0xB3, 0x80, 0x4A, 0x12,
        0xC7, 0xE0, 0xBC, 0xAD, 0x02, 0xF8, 0xC3, 0x77, 0x5E, 0x10, 0x14,
    ];
    let pixels = vec![
        0x69, 0xEF, 0xCA, 0x70, 0x6A, 0xEE, 0xCA, 0x6B, 0x6B, 0xED, 0xC9, 0x63, 0x77, 0xE9, 0xC5, 0x59, 0x82, 0xE4,
        0xC1, 0x52, 0x8F, 0xDE, 0xBC, 0x4B, 0x9B, 0xD7, 0xB5, 0x44, 0xA6, 0xCC, 0xAC, 0x3D, 0xB0, 0xC3, 0xA4, 0x37,
        0xB9, 0xB8, 0x9A, 0x31, 0xC0, 0xAC, 0x90, 0x2E, 0xC5, 0x9E, 0x85, 0x29, 0xC9, 0x93, 0x7C, 0x27, 0xCB, 0x85,
        0x71, 0x27, 0xCC, 0x7B, 0x67, 0x27, 0xCC, 0x70, 0x5E, 0x27, 0xCA, 0x6A, 0x58, 0x27, 0xC9, 0x64, 0x51, 0x27,
        0xC9, 0x65, 0x4B, 0x27, 0xC7, 0x67, 0x4D, 0x27, 0xC4, 0x6B, 0x4F, 0x27, 0xC2, 0x75, 0x4E, 0x28, 0xBF, 0x7E,
        0x52, 0x2C, 0xBB, 0x8C, 0x59, 0x31, 0xB7, 0x9A, 0x60, 0x36, 0xB1, 0xA9, 0x69, 0x3D, 0xA9, 0xB6, 0x71, 0x42,
        0x9F, 0xC4, 0x7A, 0x49, 0x96, 0xD0, 0x7F, 0x50, 0x8B, 0xD9, 0x85, 0x58, 0x83, 0xDE, 0x8D, 0x5E, 0x77, 0xE2,
        0x98, 0x66, 0x6F, 0xE2, 0xA3, 0x6F, 0x6D, 0xE1, 0xAB, 0x77, 0x6D, 0xE2, 0xAB, 0x7F, 0x6D, 0xE2, 0xAB, 0x83,
        0x6A, 0xEE, 0xCA, 0x7A, 0x69, 0xEE, 0xCA, 0x74, 0x70, 0xEC, 0xC8, 0x6C, 0x7C, 0xE9, 0xC5, 0x64, 0x85, 0xE3,
        0xC1, 0x5C, 0x92, 0xDD, 0xBA, 0x54, 0x9D, 0xD6, 0xB5, 0x4D, 0xA9, 0xCC, 0xAB, 0x47, 0xB3, 0xC3, 0xA4, 0x41,
        0xBB, 0xB7, 0x9A, 0x3B, 0xC2, 0xAB, 0x90, 0x37, 0xC7, 0x9E, 0x84, 0x32, 0xCA, 0x92, 0x7B, 0x2F, 0xCD, 0x85,
        0x70, 0x2D, 0xCD, 0x7A, 0x67, 0x2A, 0xCD, 0x70, 0x5D, 0x29, 0xCC, 0x69, 0x56, 0x28, 0xCB, 0x64, 0x4F, 0x28,
        0xCA, 0x64, 0x49, 0x2A, 0xC8, 0x65, 0x4C, 0x2C, 0xC5, 0x6A, 0x4E, 0x2E, 0xC3, 0x74, 0x4D, 0x31, 0xC1, 0x7D,
        0x51, 0x36, 0xBE, 0x8C, 0x58, 0x3B, 0xB9, 0x99, 0x5F, 0x40, 0xB2, 0xA8, 0x68, 0x46, 0xAB, 0xB6, 0x70, 0x4B,
        0xA2, 0xC3, 0x79, 0x53, 0x98, 0xCF, 0x7E, 0x59, 0x8F, 0xD8, 0x85, 0x61, 0x87, 0xDE, 0x8B, 0x69, 0x7B, 0xE1,
        0x98, 0x71, 0x72, 0xE2, 0xA3, 0x78, 0x6D, 0xE1, 0xAB, 0x81, 0x6D, 0xE2, 0xAB, 0x88, 0x6D, 0xE2, 0xAB, 0x8E,
        0x6E, 0xEE, 0xCA, 0x89, 0x73, 0xED, 0xC9, 0x84, 0x7A, 0xEB, 0xC7, 0x7D, 0x83, 0xE7, 0xC3, 0x74, 0x8D, 0xE3,
        0xBF, 0x6C, 0x99, 0xDB, 0xB9, 0x64, 0xA3, 0xD5, 0xB2, 0x5E, 0xAE, 0xCB, 0xAA, 0x57, 0xB7, 0xC1, 0xA2, 0x52,
        0xC0, 0xB5, 0x98, 0x4B, 0xC5, 0xAA, 0x8F, 0x47, 0xCB, 0x9C, 0x83, 0x42, 0xCD, 0x90, 0x79, 0x3F, 0xD0, 0x83,
        0x6E, 0x3C, 0xD0, 0x78, 0x64, 0x3A, 0xCF, 0x6D, 0x5B, 0x39, 0xCE, 0x67, 0x54, 0x38, 0xCD, 0x61, 0x4D, 0x39,
        0xCC, 0x62, 0x47, 0x39, 0xCB, 0x64, 0x4A, 0x3C, 0xC8, 0x68, 0x4B, 0x3E, 0xC6, 0x72, 0x4A, 0x42, 0xC3, 0x7C,
        0x4E, 0x46, 0xC0, 0x8A, 0x55, 0x4B, 0xBC, 0x97, 0x5D, 0x4F, 0xB6, 0xA7, 0x66, 0x56, 0xB0, 0xB4, 0x6E, 0x5C,
        0xA6, 0xC2, 0x77, 0x63, 0x9F, 0xCD, 0x7C, 0x6A, 0x95, 0xD7, 0x82, 0x71, 0x8C, 0xDD, 0x89, 0x79, 0x80, 0xE0,
        0x97, 0x80, 0x76, 0xE1, 0xA3, 0x88, 0x6E, 0xE2, 0xAB, 0x91, 0x6E, 0xE2, 0xAB, 0x99, 0x6D, 0xE2, 0xAB, 0x9E,
        0x79, 0xEC, 0xC8, 0x9A, 0x7E, 0xEB, 0xC7, 0x96, 0x84, 0xE9, 0xC5, 0x8D, 0x8D, 0xE5, 0xC1, 0x84, 0x96, 0xE1,
        0xBE, 0x7D, 0xA1, 0xDA, 0xB7, 0x75, 0xA9, 0xD3, 0xB1, 0x6F, 0xB4, 0xC9, 0xA9, 0x68, 0xBD, 0xBF, 0xA0, 0x63,
        0xC5, 0xB3, 0x96, 0x5D, 0xCA, 0xA8, 0x8C, 0x58, 0xCF, 0x9A, 0x81, 0x54, 0xD1, 0x8E, 0x76, 0x50, 0xD3, 0x81,
        0x6C, 0x4D, 0xD3, 0x75, 0x62, 0x4B, 0xD3, 0x6B, 0x59, 0x4A, 0xD1, 0x63, 0x51, 0x4A, 0xD0, 0x5F, 0x4A, 0x4A,
        0xCF, 0x5F, 0x44, 0x4B, 0xCE, 0x61, 0x46, 0x4D, 0xCB, 0x65, 0x48, 0x50, 0xC9, 0x6F, 0x46, 0x53, 0xC7, 0x7A,
        0x4B, 0x58, 0xC4, 0x88, 0x52, 0x5C, 0xC1, 0x95, 0x5A, 0x60, 0xBB, 0xA4, 0x63, 0x68, 0xB5, 0xB2, 0x6A, 0x6D,
        0xAC, 0xC0, 0x74, 0x75, 0xA5, 0xCC, 0x79, 0x7B, 0x9D, 0xD6, 0x80, 0x83, 0x94, 0xDB, 0x87, 0x89, 0x88, 0xDE,
        0x94, 0x92, 0x7B, 0xE0, 0xA1, 0x99, 0x72, 0xE1, 0xAA, 0xA3, 0x70, 0xE1, 0xAB, 0xAA, 0x70, 0xE1, 0xAA, 0xAF,
        0x84, 0xEB, 0xC6, 0xA5, 0x88, 0xE9, 0xC5, 0xA3, 0x8D, 0xE8, 0xC3, 0x9C, 0x95, 0xE4, 0xC0, 0x92, 0x9D, 0xDF,
        0xBC, 0x8B, 0xA7, 0xD8, 0xB5, 0x83, 0xB0, 0xD1, 0xAF, 0x7D, 0xBA, 0xC7, 0xA6, 0x76, 0xC1, 0xBD, 0x9F, 0x70,
        0xC9, 0xB2, 0x93, 0x6A, 0xCE, 0xA5, 0x8A, 0x66, 0xD3, 0x98, 0x7F, 0x62, 0xD5, 0x8B, 0x74, 0x5D, 0xD6, 0x7E,
        0x69, 0x5B, 0xD6, 0x73, 0x5F, 0x59, 0xD6, 0x69, 0x55, 0x58, 0xD4, 0x61, 0x4E, 0x57, 0xD1, 0x5D, 0x49, 0x58,
        0xD1, 0x5D, 0x42, 0x59, 0xD1, 0x5F, 0x42, 0x5B, 0xCE, 0x62, 0x45, 0x5E, 0xCC, 0x6D, 0x42, 0x61, 0xCB, 0x77,
        0x48, 0x65, 0xC7, 0x86, 0x4E, 0x6A, 0xC4, 0x93, 0x56, 0x6E, 0xBF, 0xA3, 0x60, 0x75, 0xB9, 0xB0, 0x68, 0x7B,
        0xB1, 0xBE, 0x70, 0x82, 0xAC, 0xCA, 0x76, 0x89, 0xA3, 0xD4, 0x7C, 0x90, 0x9C, 0xD9, 0x84, 0x97, 0x8E, 0xDE,
        0x92, 0x9F, 0x80, 0xE0, 0xA0, 0xA7, 0x76, 0xE0, 0xA9, 0xB0, 0x74, 0xE1, 0xAA, 0xB8, 0x73, 0xE1, 0xAA, 0xBA,
        0x8A, 0xE9, 0xC5, 0xA5, 0x8E, 0xE8, 0xC5, 0xA5, 0x92, 0xE7, 0xC2, 0xA4, 0x9A, 0xE2, 0xBE, 0x9A, 0xA2, 0xDD,
        0xBA, 0x93, 0xAB, 0xD7, 0xB4, 0x8B, 0xB4, 0xD0, 0xAE, 0x85, 0xBD, 0xC6, 0xA5, 0x7E, 0xC5, 0xBC, 0x9D, 0x78,
        0xCC, 0xB0, 0x93, 0x72, 0xD1, 0xA5, 0x89, 0x6D, 0xD5, 0x96, 0x7D, 0x69, 0xD7, 0x8B, 0x73, 0x66, 0xD8, 0x7D,
        0x67, 0x62, 0xD8, 0x72, 0x5E, 0x61, 0xD7, 0x66, 0x53, 0x5F, 0xD4, 0x61, 0x4D, 0x5F, 0xD1, 0x5E, 0x49, 0x60,
        0xD1, 0x5E, 0x42, 0x60, 0xD0, 0x5D, 0x42, 0x63, 0xCF, 0x61, 0x42, 0x66, 0xCE, 0x6B, 0x40, 0x69, 0xCC, 0x76,
        0x45, 0x6D, 0xCA, 0x84, 0x4C, 0x71, 0xC7, 0x92, 0x54, 0x77, 0xC2, 0xA1, 0x5E, 0x7D, 0xBC, 0xAF, 0x66, 0x82,
        0xB5, 0xBE, 0x6F, 0x8A, 0xAF, 0xC8, 0x75, 0x90, 0xA7, 0xD2, 0x7B, 0x98, 0x9F, 0xD9, 0x83, 0x9F, 0x91, 0xDC,
        0x92, 0xA7, 0x84, 0xDF, 0xA0, 0xAE, 0x78, 0xE0, 0xA9, 0xB8, 0x75, 0xE1, 0xA9, 0xBA, 0x75, 0xE0, 0xA9, 0xBA,
    ];
    (stream, pixels)
}

#[test]
fn jpeg_round_trips_within_its_quality() {
    for samples in 1..=4 {
        for (width, height) in [(8, 8), (1, 1), (17, 31), (64, 5)] {
            let format = format(7, width, height, samples, DType::UInt8);
            let pixels = picture(&format);
            let back = decode(&format, &encode(&format, &pixels, Some(100))).unwrap();
            assert!(worst(&pixels, &back) <= 2, "{samples} samples, {width} x {height}");
        }
    }
}

#[test]
fn jpeg_round_trips_in_ycbcr_with_any_subsampling() {
    for subsampling in [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (4, 2), (4, 4), (2, 4)] {
        for width in [3, 16, 45, 70] {
            let mut format = format(7, width, 37, 3, DType::UInt8);
            (format.photometric, format.subsampling) = (6, subsampling);
            let grey: Vec<u8> = picture(&format).chunks_exact(3).flat_map(|p| [p[0]; 3]).collect();
            let back = decode(&format, &encode(&format, &grey, Some(95))).unwrap();
            assert!(mean(&grey, &back) < 1.5, "{subsampling:?}");
        }
    }
}

#[test]
fn jpeg_tables_serve_the_tiles_and_are_not_repeated() {
    let mut format = format(7, 64, 64, 3, DType::UInt8);
    (format.photometric, format.subsampling) = (6, (2, 2));
    let pixels = picture(&format);
    let alone = encode(&format, &pixels, Some(60));
    let settings = Settings { quality: Some(60), ..Settings::default() };
    format.jpeg_tables = Some(jpeg_tables(&settings, &format).into());
    let shared = encode(&format, &pixels, Some(60));
    assert_eq!(alone.len(), shared.len() + format.jpeg_tables.as_ref().unwrap().len() - 4);
    let with_tables = decode(&format, &shared).unwrap();
    // A tile with tables of its own must not leave them to the next one.
    let other = encode(&format, &pixels, Some(5));
    decode(&format, &other).unwrap();
    assert_eq!(decode(&format, &shared).unwrap(), with_tables);
    format.jpeg_tables = None;
    assert_eq!(decode(&format, &alone).unwrap(), with_tables);
    assert!(decode(&format, &shared).is_err(), "tables of an other image");
}

#[test]
fn jpeg_that_is_larger_than_the_tile_is_cut() {
    let large = format(7, 40, 40, 3, DType::UInt8);
    let bytes = encode(&large, &picture(&large), Some(90));
    let whole = decode(&large, &bytes).unwrap();
    let small = format(7, 23, 31, 3, DType::UInt8);
    let cut = decode(&small, &bytes).unwrap();
    for (a, b) in cut.chunks_exact(23 * 3).zip(whole.chunks_exact(40 * 3)) {
        assert_eq!(a, &b[..23 * 3]);
    }
}

#[test]
fn jpeg2000_is_lossless() {
    for dtype in [DType::UInt8, DType::Int8, DType::UInt16, DType::Int16] {
        for samples in [1, 2, 3, 4, 7] {
            let format = format(34712, 33, 29, samples, dtype);
            let pixels = picture(&format);
            assert_eq!(decode(&format, &encode(&format, &pixels, None)).unwrap(), pixels, "{dtype}, {samples}");
        }
    }
    let format = format(34712, 64, 64, 3, DType::UInt8);
    let pixels = picture(&format);
    let bytes = encode(&format, &pixels, Some(25));
    assert!(bytes.len() < pixels.len() / 3);
    assert!(mean(&pixels, &decode(&format, &bytes).unwrap()) < 3.0);
}

#[test]
fn webp_is_lossless_or_close() {
    for samples in [3, 4] {
        let format = format(50001, 50, 41, samples, DType::UInt8);
        let pixels = picture(&format);
        assert_eq!(decode(&format, &encode(&format, &pixels, None)).unwrap(), pixels);
        assert_eq!(decode(&format, &encode(&format, &pixels, Some(100))).unwrap(), pixels);
        let bytes = encode(&format, &pixels, Some(80));
        assert!(mean(&pixels, &decode(&format, &bytes).unwrap()) < 12.0);
    }
}

#[test]
fn jxl_gives_the_exact_integers() {
    let want: Vec<u8> = (0..12).map(|i| i * 20).collect();
    assert_eq!(decode(&format(50002, 4, 3, 1, DType::UInt8), &jxl_stream()).unwrap(), want);
}

#[test]
fn lossy_jxl_gives_the_pixels_of_the_reference() {
    let (stream, want) = lossy_jxl_stream();
    assert_eq!(decode(&format(50002, 36, 6, 4, DType::UInt8), &stream).unwrap(), want);
}

#[test]
fn truncated_streams_are_refused() {
    for (format, bytes) in streams() {
        assert!(decode(&format, &bytes).is_ok());
        let step = (bytes.len() / 60).max(1);
        // The last bytes may be an end marker that nobody needs.
        for length in (0..bytes.len().saturating_sub(16)).step_by(step) {
            let result = decode(&format, &bytes[..length]);
            assert!(result.is_err(), "{} of {} bytes of {}", length, bytes.len(), format.compression);
        }
    }
}

#[test]
fn mutated_streams_end_in_pixels_or_an_error() {
    let mut noise = Noise(3);
    for (format, bytes) in streams() {
        for _ in 0..150 {
            let mut bytes = bytes.clone();
            for _ in 0..=noise.next() % 4 {
                let at = noise.next() as usize % bytes.len();
                bytes[at] = noise.next() as u8;
            }
            let _ = decode(&format, &bytes);
        }
    }
}

#[test]
fn sizes_that_lie_are_refused() {
    for (format, bytes) in streams() {
        // The stream is smaller than the tile.
        for (width, height) in [(format.width + 1, format.height), (format.width, format.height + 1)] {
            let larger = TileFormat { width, height, ..format.clone() };
            assert!(matches!(decode(&larger, &bytes), Err(Cause::Damaged(_))), "{}", format.compression);
        }
    }
    let format = format(7, 16, 16, 1, DType::UInt8);
    let mut bytes = encode(&format, &picture(&format), None);
    let frame = bytes.windows(2).position(|w| w == [0xFF, 0xC0]).unwrap();
    bytes[frame + 5..frame + 9].copy_from_slice(&[0xFF; 4]);
    assert!(matches!(decode(&format, &bytes), Err(Cause::Damaged(_))));
}

#[test]
fn old_jpeg_takes_tables_from_tags_or_from_a_header() {
    let mut format = format(7, 48, 32, 3, DType::UInt8);
    (format.photometric, format.subsampling) = (6, (1, 1));
    let bytes = encode(&format, &picture(&format), Some(80));
    let want = decode(&format, &bytes).unwrap();
    format.compression = 6;
    let scan = bytes.windows(2).position(|w| w == [0xFF, 0xDA]).unwrap();
    let data = &bytes[scan + 14..];
    let mut tags = OldJpeg { image: (48, 32), ..OldJpeg::default() };
    let mut at = 2;
    while at < scan {
        let length = u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]) as usize;
        let table = bytes[at + 5..at + 2 + length].to_vec();
        match (bytes[at + 1], bytes[at + 4] >> 4) {
            (0xDB, _) => tags.q_tables.push(table),
            (0xC4, 0) => tags.dc_tables.push(table),
            (0xC4, _) => tags.ac_tables.push(table),
            _ => {}
        }
        at += 2 + length;
    }
    let header = OldJpeg { interchange: Some(bytes[..scan].to_vec()), image: (48, 32), ..OldJpeg::default() };
    let whole = OldJpeg { interchange: Some(bytes.clone()), image: (48, 32), ..OldJpeg::default() };
    for (tags, data) in [(tags, data), (header.clone(), data), (header, &bytes[scan..]), (whole.clone(), &[])] {
        format.old_jpeg = Some(Arc::new(tags));
        assert!(worst(&decode(&format, data).unwrap(), &want) <= 1);
    }
    // The strips of a stream in one piece are cuts of it.
    format.old_jpeg = Some(Arc::new(whole));
    format.height = 20;
    let mut strip = vec![0; 48 * 3 * 12];
    OLD.decode(&Encoded { bytes: &[], rows: 12, index: 1, format: &format }, &mut strip).unwrap();
    assert!(worst(&strip, &want[48 * 3 * 20..]) <= 1);
    format.old_jpeg = None;
    assert!(decode(&format, data).is_err());
}

const OLD: old_jpeg::OldJpegCodec = old_jpeg::OldJpegCodec;

fn from_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.chunks_exact(2).map(|d| d[0] << 4 | d[1]).collect()
}

fn words(values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

/// 5 x 4 pixels of 16 bits with predictors 1 to 7.
const LOSSLESS: [&str; 7] = [
    "ffd8ffc3000b100004000501011100ffc4001800010101010100000000000000000000000d060a0710ffda0008010100010000f52d2950 \
     8ae2ee12c2c0a8f5743709777654d2bb7b84e8dd18aa5579bfffd9",
    "ffd8ffc3000b100004000501011100ffc4001700010101010000000000000000000000000a060d10ffda0008010100020000ea5a5ca84d \
     5c5708e3dcd3a5760e11c7b9a74aec1c238f734e95d87fffd9",
    "ffd8ffc3000b100004000501011100ffc4001700010101010000000000000000000000000a0d0610ffda0008010100030000ed2e965425 \
     5c5708ed1dfce29b2eae11dfbca9c696601c23ca7ab38fecc5ff00ffd9",
    "ffd8ffc3000b100004000501011100ffc40018000100030100000000000000000000000004060a0d10ffda0008010100040000e92c972a \
     135716f08b5ad77845ad6bbc22d6b5ff00ffd9",
    "ffd8ffc3000b100004000501011100ffc400190000020301000000000000000000000000060f050a0d10ffda0008010100050000e2525c \
     a84d5c5bc24f4f3d53915db78423237aa9a2bcaf085252f559457c7fffd9",
    "ffd8ffc3000b100004000501011100ffc40018000100030100000000000000000000000009060a0d10ffda0008010100060000e92c972a \
     135716f08e6ba6ec3bd784735d3761debc239ae9bb0ef7ffd9",
    "ffd8ffc3000b100004000501011100ffc400190000020301000000000000000000000000090f060a0d10ffda0008010100070000e92c97 \
     2a135716f08780f2bdc6d197f7843ca7adee408cc5bc21eb3e0f72646657ffd9",
];

#[test]
fn lossless_jpeg_is_exact_with_every_predictor() {
    let format = format(7, 5, 4, 1, DType::UInt16);
    let value = |x: u16, y: u16| (x * 37 + y * x * 11 + y * 900) % 5000 + if x == 3 { 60000 } else { 0 };
    let want: Vec<u16> = (0..20).map(|i| value(i % 5, i / 5)).collect();
    for (i, hex) in LOSSLESS.iter().enumerate() {
        assert_eq!(decode(&format, &from_hex(hex)).unwrap(), words(&want), "predictor {}", i + 1);
    }
}

/// 8 x 8 grey pixels in many scans.
const PROGRESSIVE: &str = "ffd8ffdb0043000302020302020303030304030304050805050404050a070706080c0a0c0c0b0a0b0b0d0e12100d0e110e0b0b10161011 \
     13141515150c0f171816141812141514ffc2000b080008000801011100ffc40014000100000000000000000000000000000005ffda0008 \
     01010000000103ffc400161000030000000000000000000000000000000506ffda000801010001050292527fffc4001610000300000000 \
     00000000000000000000000221ffda0008010100063f02487fffc40014100100000000000000000000000000000000ffda000801010001 \
     3f216fffda0008010100000010ff00ffc4001610000300000000000000000000000000000041a1ffda0008010100013f108c8fffd9";

#[test]
fn progressive_jpeg_gives_the_pixels_of_the_reference() {
    let want = [
        1, 20, 41, 61, 80, 100, 121, 140, 10, 29, 51, 70, 90, 109, 131, 150, 21, 39, 61, 80, 100, 119, 141, 160, 30,
        49, 71, 90, 110, 129, 151, 170, 41, 60, 81, 100, 120, 140, 161, 180, 50, 69, 91, 110, 130, 149, 171, 190, 61,
        80, 101, 120, 140, 160, 181, 200, 70, 89, 111, 130, 150, 169, 191, 209,
    ];
    let format = format(7, 8, 8, 1, DType::UInt8);
    assert_eq!(decode(&format, &from_hex(PROGRESSIVE)).unwrap(), want);
}

/// 8 x 8 grey pixels of 12 bits.
const TWELVE_BITS: &str = "ffd8ffdb0043000302020302020303030304030304050805050404050a070706080c0a0c0c0b0a0b0b0d0e12100d0e110e0b0b10161011 \
     13141515150c0f171816141812141514ffc1000b0c0008000801011100ffc40014000100000000000000000000000000000009ffc4001c \
     1000000603000000000000000000000000000b0c273845556273ffda0008010100003f002dd0e11551005a0c15772d47ffd9";

#[test]
fn twelve_bit_jpeg_gives_the_pixels_of_the_reference() {
    let want = [
        0, 401, 799, 1199, 1600, 2000, 2399, 2801, 150, 551, 950, 1350, 1751, 2151, 2550, 2951, 298, 700, 1098, 1499,
        1899, 2300, 2698, 3100, 450, 852, 1250, 1651, 2051, 2452, 2850, 3252, 598, 1000, 1398, 1799, 2199, 2600, 2998,
        3400, 750, 1152, 1550, 1951, 2351, 2752, 3150, 3552, 899, 1300, 1699, 2099, 2500, 2900, 3299, 3700, 1049, 1451,
        1850, 2250, 2651, 3051, 3449, 3851,
    ];
    let mut format = format(7, 8, 8, 1, DType::UInt16);
    format.bits = 12;
    assert_eq!(decode(&format, &from_hex(TWELVE_BITS)).unwrap(), words(&want));
}

#[test]
fn damaged_progressive_and_lossless_streams_end_in_pixels_or_an_error() {
    let mut noise = Noise(11);
    let cases =
        [(PROGRESSIVE, 8, 8, DType::UInt8), (LOSSLESS[6], 5, 4, DType::UInt16), (TWELVE_BITS, 8, 8, DType::UInt16)];
    for (hex, width, height, dtype) in cases {
        let (format, bytes) = (format(7, width, height, 1, dtype), from_hex(hex));
        for _ in 0..2000 {
            let mut bytes = bytes.clone();
            let at = noise.next() as usize % bytes.len();
            bytes[at] = noise.next() as u8;
            bytes.truncate(bytes.len() - noise.next() as usize % 8);
            let _ = decode(&format, &bytes);
        }
    }
}
