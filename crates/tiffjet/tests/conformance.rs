//! The CPU backend reads what was written, with one thread and with several.

use std::sync::Arc;

use tiffjet::source::MemorySource;
use tiffjet::{Cpu, Image, OpenOptions, Window};
use tiffjet_testkit::{Tiff, Value, conformance};

#[test]
fn one_thread() {
    conformance(&Cpu::new(1).unwrap());
}

#[test]
fn several_threads() {
    conformance(&Cpu::new(5).unwrap());
}

/// Chrominance that several pixels share, in files without JPEG, which the naive decoder does not know.
#[test]
fn shared_chrominance_is_spread() {
    const YCBCR: u16 = 6;
    const YCBCR_SUBSAMPLING: u16 = 530;
    let (width, height) = (5, 3);
    for (h, v) in [(2, 1), (2, 2), (4, 2)] {
        let luma = |x: usize, y: usize| (40 + 30 * x + 7 * y) as u8;
        let chroma = |block: usize| [(100 + 12 * block) as u8, (150 - 9 * block) as u8];
        let across = 5_usize.div_ceil(h);
        let packed = move |_: &[u8]| {
            let block = |i: usize| {
                let (left, top) = (i % across * h, i / across * v);
                let pixels = (0..h * v).map(move |k| luma(left + k % h, top + k / h));
                pixels.chain(chroma(i)).collect::<Vec<u8>>()
            };
            (0..across * 3_usize.div_ceil(v)).flat_map(block).collect()
        };
        let subsampling = Value::Short(vec![h as u16, v as u16]);
        let tiff = Tiff::new(width, height).samples(3).photometric(YCBCR).tag(YCBCR_SUBSAMPLING, subsampling);
        let tiff = tiff.compress_with(1, packed);
        let source = Arc::new(MemorySource::new(tiff.build(&tiff.gradient())));
        let tensor = Image::from_source(source, &OpenOptions::default()).unwrap().read(&Window::default()).unwrap();
        let bytes = tensor.bytes().unwrap();
        for (i, (x, y)) in (0..height as usize).flat_map(|y| (0..width as usize).map(move |x| (x, y))).enumerate() {
            let [cb, cr] = chroma(y / v * across + x / h).map(|c| f64::from(c) - 128.0);
            let y = f64::from(luma(x, y));
            let rgb = [y + 1.402 * cr, y - 0.344 * cb - 0.714 * cr, y + 1.772 * cb];
            for (band, due) in rgb.into_iter().enumerate() {
                let is = f64::from(bytes[band * 15 + i]);
                assert!(
                    (is - due.clamp(0.0, 255.0)).abs() <= 2.0,
                    "{h} x {v}, pixel {i}, band {band}: {is}, not {due}"
                );
            }
        }
    }
}
