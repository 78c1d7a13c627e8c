use super::*;
use crate::codec::{Settings, TileFormat};

fn format(dtype: DType, width: u32, height: u32, samples: u16, additional: u32) -> TileFormat {
    TileFormat { lerc: [4, additional], ..TileFormat::new(34887, (width, height), samples, dtype) }
}

fn encode(format: &TileFormat, bytes: &[u8], max_z_error: f64) -> Result<Vec<u8>, Cause> {
    let settings = Settings { max_z_error, ..Settings::default() };
    let mut out = Vec::new();
    Lerc.encode(&Plain { bytes, rows: format.height, format, settings: &settings }, &mut out)?;
    Ok(out)
}

fn decode(format: &TileFormat, bytes: &[u8]) -> Result<Vec<u8>, Cause> {
    // Filled with a pattern, so that a value that is not written shows.
    let mut out = vec![0xa5; format.row_samples_bytes() * format.height as usize];
    Lerc.decode(&Encoded { bytes, rows: format.height, index: 0, format }, &mut out)?;
    Ok(out)
}

/// Numbers without a pattern, the same ones each time.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

fn bytes_of<T: Value>(values: &[T]) -> Vec<u8> {
    let mut bytes = vec![0; values.len() * T::SIZE];
    bytes.chunks_exact_mut(T::SIZE).zip(values).for_each(|(cell, v)| v.put(cell));
    bytes
}

fn values_of<T: Value>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(T::SIZE).map(T::get).collect()
}

/// What the tiles of the tests look like.
#[derive(Debug, Clone, Copy)]
enum Scene {
    Constant,
    Zero,
    /// Another constant in each sample.
    ConstantSamples,
    /// Hills and a little noise.
    Smooth,
    /// Few values that lie far apart: tables.
    Classes,
    /// One class in large patches: large blocks.
    Patches,
    /// All bits of the type.
    Noise,
    /// Fractions that no power of two divides.
    Thirds,
}

const SCENES: [Scene; 8] = [
    Scene::Constant,
    Scene::Zero,
    Scene::ConstantSamples,
    Scene::Smooth,
    Scene::Classes,
    Scene::Patches,
    Scene::Noise,
    Scene::Thirds,
];

fn scene<T: Value>(scene: Scene, width: usize, rows: usize, samples: usize) -> Vec<T> {
    let mut noise = Noise(0x1234_5678_9abc_def1);
    let mut values = Vec::new();
    for k in 0..width * rows {
        let (x, y) = ((k % width) as f64, (k / width) as f64);
        for sample in 0..samples {
            values.push(match scene {
                Scene::Constant => T::from_f64(42.0),
                Scene::Zero => T::from_f64(0.0),
                Scene::ConstantSamples => T::from_f64(7.0 + sample as f64),
                Scene::Smooth => {
                    let hill = 60.0 + 50.0 * (x / 20.0).sin() * (y / 15.0).cos();
                    T::from_f64((hill + sample as f64 + noise.below(3) as f64).floor())
                }
                Scene::Classes => T::from_f64([0.0, 3.0, 77.0, 120.0][noise.below(4)]),
                Scene::Patches => T::from_f64(if (k / 100) % 17 == 3 { 100.0 } else { 5.0 }),
                Scene::Noise if T::FLOAT => T::from_f64(noise.next() as f64 / 1e9 - 1e9),
                Scene::Noise => T::from_i64(noise.next() as i64),
                Scene::Thirds => T::from_f64(x / 3.0 + y / 7.0 + 1.0),
            });
        }
    }
    values
}

fn round_trip<T: Value>(dtype: DType) {
    for (width, rows) in [(1, 1), (1, 9), (13, 7), (37, 41), (256, 33)] {
        for samples in [1, 2, 3, 5] {
            for pattern in SCENES {
                let format = format(dtype, width as u32, rows as u32, samples as u16, 0);
                let values = scene::<T>(pattern, width, rows, samples);
                for error in [0.0, 0.01, 1.0, 3.7] {
                    let case = format!("{dtype} {width}x{rows}x{samples} {pattern:?} {error}");
                    let blob = encode(&format, &bytes_of(&values), error).expect(&case);
                    let back = values_of::<T>(&decode(&format, &blob).expect(&case));
                    for (a, b) in values.iter().zip(&back) {
                        assert!((a.to_f64() - b.to_f64()).abs() <= error, "{case}: {} {}", a.to_f64(), b.to_f64());
                    }
                }
            }
        }
    }
}

#[test]
fn every_type_comes_back_within_the_error() {
    round_trip::<i8>(DType::Int8);
    round_trip::<u8>(DType::UInt8);
    round_trip::<i16>(DType::Int16);
    round_trip::<u16>(DType::UInt16);
    round_trip::<i32>(DType::Int32);
    round_trip::<u32>(DType::UInt32);
    round_trip::<f32>(DType::Float32);
    round_trip::<f64>(DType::Float64);
}

#[test]
fn floats_without_error_come_back_bit_by_bit() {
    let special = [0.0f32, -0.0, 1.5, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE, f32::MAX, 1e-40, -7.25];
    let mut noise = Noise(99);
    for kinds in [1, 2, 3, 5, special.len()] {
        let values: Vec<f32> = (0..50 * 30).map(|_| special[noise.below(kinds)]).collect();
        let format = format(DType::Float32, 50, 30, 1, 0);
        let bytes = bytes_of(&values);
        assert_eq!(decode(&format, &encode(&format, &bytes, 0.0).unwrap()).unwrap(), bytes, "{kinds}");
    }
}

#[test]
fn binary_fractions_are_kept_in_fewer_bits() {
    let values: Vec<f32> = (0..128 * 128).map(|k| 100.0 + (k % 97) as f32 / 8.0).collect();
    let format = format(DType::Float32, 128, 128, 1, 0);
    let bytes = bytes_of(&values);
    let blob = encode(&format, &bytes, 0.0).unwrap();
    assert!(blob.len() * 3 < bytes.len(), "{}", blob.len());
    assert_eq!(decode(&format, &blob).unwrap(), bytes);
}

/// Compares floats with NaN equal to itself.
fn assert_near(a: &[f32], b: &[f32], error: f64, case: &str) {
    for (k, (a, b)) in a.iter().zip(b).enumerate() {
        let near = (f64::from(*a) - f64::from(*b)).abs() <= error;
        assert!(near || (a.is_nan() && b.is_nan()), "{case}, value {k}: {a} {b}");
    }
}

#[test]
fn nan_hides_pixels() {
    let mut noise = Noise(5);
    for (width, rows, samples) in [(1, 1, 1), (37, 23, 1), (64, 64, 2), (19, 50, 3)] {
        for (holes, mixed) in [(1, false), (2, true), (9, false), (9, true), (50, true)] {
            let mut values = scene::<f32>(Scene::Thirds, width, rows, samples);
            for pixel in values.chunks_exact_mut(samples) {
                for k in 0..samples {
                    if noise.below(holes) == 0 {
                        if mixed { pixel[k] = f32::NAN } else { pixel.fill(f32::NAN) }
                    }
                }
            }
            let format = format(DType::Float32, width as u32, rows as u32, samples as u16, 0);
            for error in [0.0, 0.01] {
                let case = format!("{width}x{rows}x{samples} {holes} {mixed} {error}");
                let blob = encode(&format, &bytes_of(&values), error).unwrap();
                assert_near(&values, &values_of(&decode(&format, &blob).unwrap()), error, &case);
            }
        }
    }
}

#[test]
fn frames_go_round_the_blob() {
    let values = scene::<i16>(Scene::Smooth, 64, 48, 3);
    let bytes = bytes_of(&values);
    for additional in [1, 2] {
        let format = format(DType::Int16, 64, 48, 3, additional);
        let framed = encode(&format, &bytes, 0.0).unwrap();
        assert!(!Header::starts(&framed));
        assert_eq!(decode(&format, &framed).unwrap(), bytes);
        let followed = [&framed[..], b"what comes after"].concat();
        assert_eq!(decode(&format, &followed).unwrap(), bytes);
        for end in 0..framed.len() {
            assert!(decode(&format, &framed[..end]).is_err());
        }
    }
    let unknown = format(DType::Int16, 64, 48, 3, 3);
    assert!(matches!(encode(&unknown, &bytes, 0.0), Err(Cause::Unsupported(_))));
    assert!(matches!(decode(&unknown, &bytes), Err(Cause::Unsupported(_))));
}

#[test]
fn a_frame_that_swells_is_refused() {
    let small = format(DType::UInt8, 8, 8, 1, 0);
    for additional in [1, 2] {
        let mut framed = Vec::new();
        wrap(&vec![0; 4 << 20], additional, None, &mut framed).unwrap();
        let small = TileFormat { lerc: [4, additional], ..small.clone() };
        assert!(decode(&small, &framed).is_err());
    }
}

/// A blob of `depth` bytes for each pixel whose mask hides every third pixel.
fn masked_bytes(width: usize, rows: usize, depth: usize) -> Vec<u8> {
    let pixels = width * rows;
    let mut mask = mask::Mask::hidden(pixels);
    (0..pixels).filter(|k| k % 3 > 0).for_each(|k| mask.show(k));
    let header = Header {
        version: 4,
        rows,
        width,
        depth,
        valid: mask.count(),
        block: 8,
        size: 0,
        code: u8::CODE,
        error: 0.5,
        min: 9.0,
        max: 9.0,
        stand_in: None,
    };
    let mut code = Vec::new();
    mask.write(&mut code);
    let mut out = Vec::new();
    header.write(&mut out);
    (code.len() as i32).push_le(&mut out);
    out.extend_from_slice(&code);
    header::seal(&mut out, 0).unwrap();
    out
}

#[test]
fn a_mask_stands_for_alpha() {
    for samples in [2usize, 4] {
        let format = format(DType::UInt8, 10, 6, samples as u16, 0);
        let out = decode(&format, &masked_bytes(10, 6, samples - 1)).unwrap();
        for (k, pixel) in out.chunks_exact(samples).enumerate() {
            let (value, alpha) = if k % 3 > 0 { (9, 255) } else { (0, 0) };
            assert!(pixel[..samples - 1].iter().all(|&v| v == value), "{k}");
            assert_eq!(pixel[samples - 1], alpha, "{k}");
        }
    }
}

#[test]
fn two_blobs_are_two_samples() {
    let format = format(DType::UInt8, 10, 6, 2, 0);
    let mut blobs = masked_bytes(10, 6, 1);
    blobs.extend(masked_bytes(10, 6, 1));
    let out = decode(&format, &blobs).unwrap();
    assert!(out.chunks_exact(2).enumerate().all(|(k, pixel)| pixel == if k % 3 > 0 { [9, 9] } else { [0, 0] }));
}

#[test]
fn a_blob_must_fit_the_tile() {
    let values = scene::<u16>(Scene::Smooth, 16, 16, 1);
    let blob = encode(&format(DType::UInt16, 16, 16, 1, 0), &bytes_of(&values), 0.0).unwrap();
    for wrong in [
        format(DType::UInt16, 16, 15, 1, 0),
        format(DType::UInt16, 15, 16, 1, 0),
        format(DType::UInt16, 16, 16, 2, 0),
        format(DType::Int16, 16, 16, 1, 0),
        format(DType::Float32, 16, 16, 1, 0),
    ] {
        assert!(matches!(decode(&wrong, &blob), Err(Cause::Damaged(_))), "{wrong:?}");
    }
    assert!(matches!(decode(&format(DType::UInt64, 16, 16, 1, 0), &blob), Err(Cause::Unsupported(_))));
    assert!(matches!(decode(&format(DType::UInt16, 16, 16, 1, 0), b"CntZImage ......"), Err(Cause::Unsupported(_))));
}

/// Blobs of every way to store an image.
fn samples_of_blobs() -> Vec<(TileFormat, Vec<u8>)> {
    fn add<T: Value>(dtype: DType, samples: usize, error: f64, hidden: bool, out: &mut Vec<(TileFormat, Vec<u8>)>) {
        for pattern in SCENES {
            let format = format(dtype, 21, 18, samples as u16, 0);
            let mut values = scene::<T>(pattern, 21, 18, samples);
            if hidden {
                values.chunks_exact_mut(samples).step_by(5).for_each(|pixel| pixel.fill(T::HIDDEN));
            }
            let blob = encode(&format, &bytes_of(&values), error).unwrap();
            out.push((format, blob));
        }
    }
    let mut out = Vec::new();
    add::<u8>(DType::UInt8, 1, 0.0, false, &mut out);
    add::<i8>(DType::Int8, 3, 0.0, false, &mut out);
    add::<u16>(DType::UInt16, 2, 0.0, false, &mut out);
    add::<f32>(DType::Float32, 1, 0.01, true, &mut out);
    add::<f64>(DType::Float64, 2, 0.01, false, &mut out);
    out
}

#[test]
fn truncation_is_an_error_at_every_length() {
    for (format, blob) in samples_of_blobs() {
        for end in 0..blob.len() {
            assert!(decode(&format, &blob[..end]).is_err(), "{end} of {}", blob.len());
        }
    }
}

#[test]
fn a_changed_byte_fails_the_checksum() {
    for (format, blob) in samples_of_blobs() {
        for at in 14..blob.len() {
            let mut changed = blob.clone();
            changed[at] ^= 0x10;
            assert!(decode(&format, &changed).is_err(), "{at} of {}", blob.len());
        }
    }
}

#[test]
fn mutated_blobs_with_a_right_checksum_never_panic() {
    let mut noise = Noise(77);
    let mut decoded = 0;
    for (format, blob) in samples_of_blobs() {
        for round in 0..400 {
            let mut mutant = blob.clone();
            for _ in 0..1 + round % 3 {
                // Mostly in the header and the tables behind it.
                let reach = if noise.below(2) == 0 { mutant.len().min(140) } else { mutant.len() };
                mutant[10 + noise.below(reach - 10)] = noise.next() as u8;
            }
            // A version that reads the same body by other rules.
            if round % 4 == 0 {
                mutant[6] = 1 + noise.below(6) as u8;
            }
            mutant[34..38].copy_from_slice(&(blob.len() as i32).to_le_bytes());
            let sum = header::fletcher32(&mutant[14..]);
            mutant[10..14].copy_from_slice(&sum.to_le_bytes());
            decoded += usize::from(decode(&format, &mutant).is_ok());
        }
    }
    assert!(decoded > 100, "{decoded}: the checksums were wrong");
}

#[test]
fn mutated_bodies_of_every_version_never_panic() {
    let mut noise = Noise(3);
    for (format, blob) in samples_of_blobs() {
        let (header, input) = Header::read(&blob).unwrap();
        for round in 0..300 {
            let mut body = input.rest().to_vec();
            for _ in 0..round % 4 {
                let at = noise.below(body.len());
                body[at] = noise.next() as u8;
            }
            let header = Header { version: 1 + round % 6, ..header.clone() };
            let error = [header.error, 0.0, 0.5][noise.below(3)];
            let header = Header { error, ..header };
            let mut out = vec![0; format.row_samples_bytes() * format.height as usize];
            let mut place =
                decode::Place { out: &mut out, width: 21, rows: 18, stride: format.samples.into(), first: 0 };
            let result = dispatch!(format.dtype, read_body(&header, &body, &mut place));
            drop(result);
        }
    }
}

fn read_body<T: Value>(header: &Header, body: &[u8], place: &mut decode::Place<'_>) -> Result<(), Cause> {
    decode::image::<T>(header, value::Input::new(body), place, &mut None)
}

#[test]
fn the_checksum_is_fletchers() {
    let slow = |bytes: &[u8]| {
        let (mut low, mut high) = (0xffff_u64, 0xffff_u64);
        for word in bytes.chunks(2) {
            low += u64::from(word[0]) * 256 + word.get(1).map_or(0, |&b| u64::from(b));
            high += low;
        }
        let fold = |sum: u64| (sum - 1) % 65535 + 1;
        (fold(high) << 16 | fold(low)) as u32
    };
    let mut noise = Noise(8);
    for len in (0..100).chain([8191, 8192, 8193, 20_001]) {
        let bytes: Vec<u8> = (0..len).map(|_| noise.next() as u8).collect();
        assert_eq!(header::fletcher32(&bytes), slow(&bytes), "{len}");
        assert_eq!(header::fletcher32(&vec![255; len]), slow(&vec![255; len]), "{len}");
    }
}

#[test]
fn arrays_of_every_width_come_back() {
    let mut noise = Noise(21);
    for width in 0..=31 {
        for len in [1, 7, 8, 64, 255, 256, 1024] {
            let mut values: Vec<u32> = (0..len).map(|_| (noise.next() as u32) & ((1u64 << width) - 1) as u32).collect();
            values[len / 2] = ((1u64 << width) - 1) as u32;
            let mut stuffer = bits::Stuffer::default();
            let size = stuffer.plan(&values, values[len / 2]);
            let mut out = Vec::new();
            stuffer.write(&values, &mut out);
            assert_eq!(out.len(), size, "{width} {len}");
            let mut back = bits::Values::new();
            back.read(&mut value::Input::new(&out), 4, len).unwrap();
            assert_eq!(back.get(), values, "{width} {len}");
        }
    }
}

#[test]
fn arrays_before_version_3_begin_at_the_high_bits() {
    // Five values of 7 bits: 35 bits, so a whole word and the high byte of the next one.
    let values = [1u32, 127, 64, 5, 99];
    let bits = values.iter().fold(0u64, |bits, v| bits << 7 | u64::from(*v)) << 29;
    let mut out = vec![7 | 2 << 6, 5];
    out.extend(((bits >> 32) as u32).to_le_bytes());
    out.push((bits >> 24) as u8);
    let mut back = bits::Values::new();
    back.read(&mut value::Input::new(&out), 2, 5).unwrap();
    assert_eq!(back.get(), values);
}

#[test]
fn a_table_pays_for_few_values_far_apart() {
    let values: Vec<u32> = (0..64).map(|k| [0, 5000, 1 << 20][k % 3]).collect();
    let mut stuffer = bits::Stuffer::default();
    assert!(stuffer.plan(&values, 1 << 20) < 30);
}

#[test]
fn deep_huffman_codes_are_found() {
    // Fibonacci's numbers make the deepest tree: codes far longer than one look finds.
    let mut histogram = [0u32; 256];
    let (mut a, mut b) = (1, 1);
    for n in histogram.iter_mut().skip(240) {
        *n = a;
        (a, b) = (b, a + b);
    }
    for n in histogram.iter_mut().take(22) {
        *n = a;
        (a, b) = (b, a + b);
    }
    let encoder = huffman::Encoder::new(&histogram);
    let mut out = Vec::new();
    encoder.write_table(&mut out);
    let mut bits = bits::HighBitsWriter::default();
    let symbols: Vec<u8> = (0..=255).filter(|&s| histogram[usize::from(s)] > 0).collect();
    symbols.iter().for_each(|&s| encoder.push(s, &mut bits, &mut out));
    bits.finish(&mut out);
    let mut input = value::Input::new(&out);
    let decoder = huffman::Decoder::read(&mut input, 4).unwrap();
    let mut bits = bits::HighBits::new(input.rest());
    let back: Option<Vec<u8>> = symbols.iter().map(|_| decoder.next(&mut bits)).collect();
    assert_eq!(back, Some(symbols));
    bits.check().unwrap();
}

/// A blob of version 6 around planes of floats.
fn float_blob<T: Value>(width: usize, rows: usize, depth: usize, ranges: &[T], body: &[u8]) -> Vec<u8> {
    let header = Header {
        version: 6,
        rows,
        width,
        depth,
        valid: width * rows,
        block: 8,
        size: 0,
        code: T::CODE,
        error: 0.0,
        min: -1.0,
        max: 1.0,
        stand_in: None,
    };
    let mut four = Vec::new();
    header.write(&mut four);
    // Version 6 has eight bytes more before the error, and two numbers more at the end.
    let mut out = four[..46].to_vec();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&four[46..]);
    out.extend_from_slice(&[0; 16]);
    out[6] = 6;
    0i32.push_le(&mut out);
    ranges.iter().for_each(|v| v.push_le(&mut out));
    out.extend_from_slice(&[0, 3]);
    out.extend_from_slice(body);
    header::seal(&mut out, 0).unwrap();
    out
}

/// Bytes of one plane, coded in the way of that number.
fn plane(way: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![way];
    match way {
        0 => {
            let mut histogram = [0; 256];
            bytes.iter().for_each(|&b| histogram[usize::from(b)] += 1);
            let encoder = huffman::Encoder::new(&histogram);
            encoder.write_table(&mut out);
            let mut bits = bits::HighBitsWriter::default();
            bytes.iter().for_each(|&b| encoder.push(b, &mut bits, &mut out));
            bits.finish(&mut out);
        }
        1 => {
            out.push(bytes[0]);
            (bytes.len() as u32).push_le(&mut out);
        }
        2 => out.extend_from_slice(bytes),
        _ => {
            // One byte twice as a run of two, the others as literals.
            for pair in bytes.chunks(2) {
                match pair {
                    [a, b] if a == b => out.extend_from_slice(&[128, *a]),
                    _ => {
                        out.push(pair.len() as u8 - 1);
                        out.extend_from_slice(pair);
                    }
                }
            }
        }
    }
    out
}

/// Planes of values as version 6 stores them; `units` are rows of `width` words.
fn float_body(predictor: u8, level: u8, size: usize, width: usize, units: &[u64]) -> Vec<u8> {
    let mantissa: u64 = if size == 4 { (1 << 23) - 1 } else { (1 << 52) - 1 };
    let minus = |a: u64, b: u64| a.wrapping_sub(b) & mantissa | (a & !mantissa).wrapping_sub(b & !mantissa) & !mantissa;
    let mut words = units.to_vec();
    if predictor >= 1 {
        for k in (0..words.len()).rev().filter(|k| k % width > 0) {
            words[k] = minus(words[k], words[k - 1]);
        }
    }
    if predictor == 2 {
        for k in (width..words.len()).rev() {
            words[k] = minus(words[k], words[k - width]);
        }
    }
    let mut body = vec![predictor];
    for byte in (0..size).rev() {
        let mut bytes: Vec<u8> = words.iter().map(|w| w.to_le_bytes()[byte]).collect();
        for first in 1..=usize::from(level) {
            for k in (first..bytes.len()).rev() {
                bytes[k] = bytes[k].wrapping_sub(bytes[k - 1]);
            }
        }
        let same = bytes.iter().all(|b| *b == bytes[0]);
        let code = plane(if same { 1 } else { [0, 2, 3][byte % 3] }, &bytes);
        body.extend_from_slice(&[byte as u8, level]);
        (code.len() as u32).push_le(&mut body);
        body.extend_from_slice(&code);
    }
    body
}

#[test]
fn planes_of_floats_come_back() {
    let (width, rows) = (23, 17);
    for predictor in 0..3 {
        for level in 0..6 {
            for depth in [1, 2] {
                let row = if depth == 1 { width } else { depth };
                let values = scene::<f32>(Scene::Thirds, width, rows, depth);
                // The sign moves below the exponent.
                let unit = |v: &f32| {
                    let v = v.to_bits();
                    u64::from(v & 0x7f_ffff | v >> 31 << 23 | v << 1 >> 24 << 24)
                };
                let units: Vec<u64> = values.iter().map(unit).collect();
                let body = float_body(predictor, level, 4, row, &units);
                let ranges: Vec<f32> = (0..2 * depth).map(|k| k as f32).collect();
                let blob = float_blob(width, rows, depth, &ranges, &body);
                let single = format(DType::Float32, width as u32, rows as u32, depth as u16, 0);
                assert_eq!(decode(&single, &blob).unwrap(), bytes_of(&values), "{predictor} {level} {depth}");

                let values = scene::<f64>(Scene::Noise, width, rows, depth);
                let units: Vec<u64> = values.iter().map(|v| v.to_bits()).collect();
                let body = float_body(predictor, level, 8, row, &units);
                let ranges: Vec<f64> = (0..2 * depth).map(|k| k as f64).collect();
                let blob = float_blob(width, rows, depth, &ranges, &body);
                let double = format(DType::Float64, width as u32, rows as u32, depth as u16, 0);
                assert_eq!(decode(&double, &blob).unwrap(), bytes_of(&values), "{predictor} {level} {depth}");
                for end in 0..blob.len() {
                    assert!(decode(&double, &blob[..end]).is_err());
                }
            }
        }
    }
}

#[test]
fn mutated_planes_never_panic() {
    let units: Vec<u64> = scene::<f64>(Scene::Smooth, 11, 9, 1).iter().map(|v| v.to_bits()).collect();
    let body = float_body(2, 1, 8, 11, &units);
    let format = format(DType::Float64, 11, 9, 1, 0);
    let mut noise = Noise(4);
    let mut decoded = 0;
    for _ in 0..4000 {
        let mut mutant = body.clone();
        mutant[noise.below(body.len())] = noise.next() as u8;
        decoded += usize::from(decode(&format, &float_blob(11, 9, 1, &[0.0, 1.0], &mutant)).is_ok());
    }
    assert!((100..4000).contains(&decoded), "{decoded}");
}

#[test]
fn version_5_stores_differences_between_samples() {
    // One block of 2x2 pixels with two samples: the second one is the first plus 1, 2, 3, 4.
    let header = Header {
        version: 5,
        rows: 2,
        width: 2,
        depth: 2,
        valid: 4,
        block: 8,
        size: 0,
        code: u16::CODE,
        error: 0.5,
        min: 10.0,
        max: 44.0,
        stand_in: None,
    };
    let mut body = Vec::new();
    0i32.push_le(&mut body);
    [10u16, 11, 40, 44].iter().for_each(|v| v.push_le(&mut body));
    body.push(0); // in blocks
    body.push(0); // as they are
    [10u16, 20, 30, 40].iter().for_each(|v| v.push_le(&mut body));
    body.extend_from_slice(&[1 | 4 | 3 << 6, 1]); // quantised differences above 1, which is a byte
    body.extend_from_slice(&[2 | 2 << 6, 4, 0b11_10_01_00]);
    let mut out = vec![0; 16];
    let mut place = decode::Place { out: &mut out, width: 2, rows: 2, stride: 2, first: 0 };
    read_body::<u16>(&header, &body, &mut place).unwrap();
    assert_eq!(values_of::<u16>(&out), [10, 11, 20, 22, 30, 33, 40, 44]);
}

#[test]
fn a_huge_mark_does_not_spoil_its_tile() {
    let format = format(DType::Float32, 128, 128, 1, 0);
    for (pattern, error) in [(Scene::Thirds, 0.01), (Scene::Smooth, 0.0), (Scene::Smooth, 0.01)] {
        for mark in [f32::MIN, f32::INFINITY, -1e20] {
            let mut values = scene::<f32>(pattern, 128, 128, 1);
            let plain = encode(&format, &bytes_of(&values), error).unwrap();
            values[..128 * 20].fill(mark);
            let blob = encode(&format, &bytes_of(&values), error).unwrap();
            // Sixteen blocks have both values and marks, and are kept as they are.
            assert!(blob.len() < plain.len() + 16 * 256, "{} {}", blob.len(), plain.len());
            for (a, b) in values.iter().zip(values_of::<f32>(&decode(&format, &blob).unwrap())) {
                assert!(*a == b || (f64::from(*a) - f64::from(b)).abs() <= error, "{a} {b}");
            }
        }
    }
}

/// A blob that GDAL 3.10 wrote into a big-endian file: 4 x 2 samples of 16 bits, 7, 10, 13 and so on.
#[rustfmt::skip]
const GDAL_BIG_ENDIAN: &[u8] = &[
    0x4c, 0x65, 0x72, 0x63, 0x32, 0x20, 0x04, 0x00, 0x00, 0x00, 0xe5, 0x3a, 0x07, 0x35, 0x02, 0x00, 0x00, 0x00,
    0x04, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x5b, 0x00,
    0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xe0, 0x3f, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x9c, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xbc, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07,
    0x00, 0x1c, 0x01, 0x00, 0x07, 0x00, 0x0a, 0x00, 0x0d, 0x00, 0x10, 0x00, 0x13, 0x00, 0x16, 0x00, 0x19, 0x00,
    0x1c,
];

#[test]
fn samples_of_big_endian_files_are_turned_round() {
    let values: Vec<u16> = (0..8).map(|i| 7 + 3 * i).collect();
    let pixels = bytes_of(&values);
    for additional in [NOTHING, ZLIB, ZSTD] {
        let mut format = format(DType::UInt16, 4, 2, 1, additional);
        format.order = ByteOrder::Big;
        let blob = encode(&format, &pixels, 0.0).unwrap();
        assert_eq!(decode(&format, &blob).unwrap(), pixels);
        // What the blob itself holds.
        format.order = ByteOrder::Little;
        let turned: Vec<u16> = values.iter().map(|v| v.swap_bytes()).collect();
        assert_eq!(values_of::<u16>(&decode(&format, &blob).unwrap()), turned);
    }
    let mut format = format(DType::UInt16, 4, 2, 1, NOTHING);
    format.order = ByteOrder::Big;
    assert_eq!(decode(&format, GDAL_BIG_ENDIAN).unwrap(), pixels);
}

/// Blobs of Esri's library with a mask, one with Huffman codes of differences, one with those of values: 24 x 20 bytes.
#[rustfmt::skip]
const MASKED_DIFFERENCES: &str = "\
    4c6572633220040000002fc4f4d11400000018000000010000005d010000080000001601000001000000000000000000e03f0000000000 \
    0000000000000000003e40400000003c007b6f6dedbdb7b6f6dedbdb7b6f6dedbdb7b6f6dedbdb7b6f6dedbdb7b6f6dedbdb7b6f6dedbd \
    b7b6f6dedbdb7b6f6dedbdb7b6f6dedbdb7b6f6dedbd0080001e00010400000000010000e200000010010000832e040003800100000000 \
    000008000200038002206401104c607755dbb6aa8abd68dbaaeaded65ab5f1d1dab6ba8db6ba77dce8a3d21e3f172dc9f86951ccb8b9ca \
    47732ac04c748c679452e506949201818003297360a64c0391598152851002061136c1a6a0a00a85c24c11868216a00585c2008407c300 \
    000000";
#[rustfmt::skip]
const MASKED_VALUES: &str = "\
    4c657263322004000000cdc0a9c11400000018000000010000005d010000080000003201000001000000000000000000e03f0000000000 \
    0008400000000000406f40400000003c007b6f6dedbdb7b6f6dedbdb7b6f6dedbdb7b6f6dedbdb7b6f6dedbdb7b6f6dedbdb7b6f6dedbd \
    b7b6f6dedbdb7b6f6dedbdb7b6f6dedbdb7b6f6dedbd008003fa00020400000000010000c800000004010000843c020000000000000000 \
    0080878768777678660867677068677708000000108500024030200302090244724651b0283160340b3c1c4fc30000001e5da465dadbb8 \
    7bb87cd7f14aef40df2e75da2da3e53e6da2dfed03dae8dbc9772a3dba25966997d0fca16deef477df65dd2afa02760deda27dee269dbe \
    fbf8a55fa4bf0536daad417009add24dfb425bdb88efbe1e749be81b0102f0";

#[test]
fn huffman_codes_beside_hidden_pixels() {
    let differences = |x: u64, y: u64| (x * x + 3 * y * y) / 40 % 7 * 5;
    let values = |x: u64, y: u64| match (x * 2_654_435_761 + y * 40_503 * 24) % 251 {
        0..150 => 3,
        150..220 => 200,
        other => other,
    };
    check_masked(MASKED_DIFFERENCES, differences);
    check_masked(MASKED_VALUES, values);
}

fn check_masked(blob: &str, value: impl Fn(u64, u64) -> u64) {
    let digits: Vec<u8> = blob.bytes().filter(|b| *b != b' ').collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let blob: Vec<u8> = digits.chunks(2).map(byte).collect();
    let seen = |x: u64, y: u64| (x * 7 + y * 3) % 11 > 2;
    let pixel = |i: u64| if seen(i % 24, i / 24) { value(i % 24, i / 24) as u8 } else { 0 };
    let format = format(DType::UInt8, 24, 20, 1, NOTHING);
    assert_eq!(decode(&format, &blob).unwrap(), (0..480).map(pixel).collect::<Vec<_>>());
    for end in 0..blob.len() {
        let _ = decode(&format, &blob[..end]);
    }
}
