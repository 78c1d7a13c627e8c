//! Overviews made by the emulated kernels, against the CPU backend: every resampling, every type, nodata, masks, NaN and
//! infinities, all sizes. Not a bit may differ.

mod emulated;
#[allow(dead_code)] // the tests take a part
#[path = "../src/kernels/reduce.rs"]
mod reduce;

use std::sync::LazyLock;

use emulated::Emulated;
use emulated::streams::Random;
use reduce::{Level, Reduction};
use tiffjet::{Cpu, DType, OverviewPlan, Resampling, RowsBuf, RowsView};

static KERNELS: LazyLock<Emulated> = LazyLock::new(|| Emulated::build("reduce"));

/// A level above, and what must become of it.
struct Case {
    plan: OverviewPlan,
    pixels: Vec<u8>,
    mask: Option<Vec<u8>>,
    expected: Vec<u8>,
    expected_mask: Vec<u8>,
}

impl Case {
    fn new(plan: OverviewPlan, pixels: Vec<u8>, mask: Option<Vec<u8>>) -> Self {
        let (width, height) = (plan.from.0 as usize, plan.from.1 as usize);
        let rows = RowsView::new(&pixels, [plan.bands, height, width], plan.dtype).unwrap();
        let rows = mask.as_ref().map_or(rows, |mask| rows.with_mask(mask).unwrap());
        let mut out = RowsBuf::new(plan.bands, plan.to.0 as usize, plan.dtype, plan.mask);
        let mut reducer = Cpu::new(1).unwrap().reducer(&plan).unwrap();
        reducer.push(&rows, &mut out).unwrap();
        reducer.finish(&mut out).unwrap();
        let view = out.view();
        assert_eq!(view.rows(), plan.to.1 as usize);
        let expected = (0..plan.bands).flat_map(|band| view.band(band).to_vec()).collect();
        let expected_mask = view.mask().unwrap_or_default().to_vec();
        Self { plan, pixels, mask, expected, expected_mask }
    }

    /// Appends the launch that makes some rows, of no more rows above than they need.
    fn write(&self, input: &mut Vec<u8>, first: u32, count: u32) {
        let plan = &self.plan;
        let reduction = Reduction::new(plan).unwrap();
        let rows = reduction.needs(first).start..reduction.needs(first + count - 1).end;
        let row = plan.from.0 as usize * plan.dtype.size();
        let band = row * plan.from.1 as usize;
        let part = rows.start as usize * row..rows.end as usize * row;
        let above: Vec<u8> = (0..plan.bands).flat_map(|b| self.pixels[b * band..][part.clone()].to_vec()).collect();
        let mask = self.mask.as_ref().map(|mask| {
            let width = plan.from.0 as usize;
            mask[rows.start as usize * width..rows.end as usize * width].to_vec()
        });
        let out_row = plan.to.0 as usize * plan.dtype.size();
        let from = Level {
            pixels: 1,
            band: ((rows.end - rows.start) as usize * row) as u64,
            row: row as u64,
            mask: mask.is_some().into(),
            first: rows.start,
            rows: rows.end - rows.start,
        };
        let to = Level {
            pixels: 1,
            band: (count as usize * out_row) as u64,
            row: out_row as u64,
            mask: plan.mask.into(),
            first,
            rows: count,
        };
        for name in [reduction.marker().unwrap_or_default(), reduction.kernel()] {
            let mut field = [0; 24];
            field[..name.len()].copy_from_slice(name.as_bytes());
            input.extend(field);
        }
        input.extend(reduction.bytes(0, &from, &to, 1));
        let mask_bytes = if plan.mask { plan.to.0 * count } else { 0 };
        input.extend((plan.bands as u32).to_le_bytes());
        for bytes in [reduction.table(), &above, mask.as_deref().unwrap_or_default()] {
            input.extend((bytes.len() as u32).to_le_bytes());
            input.extend(bytes);
        }
        let out_bytes = (plan.bands * count as usize * out_row) as u32;
        for word in [out_bytes, mask_bytes, reduction.scratch(from.rows) as u32] {
            input.extend(word.to_le_bytes());
        }
    }
}

/// Runs the kernels over all cases, some rows at a time.
fn check(cases: &[Case], at_once: u32, seed: u64) {
    let (mut input, mut launches) = (Vec::new(), 0u32);
    for case in cases {
        for first in (0..case.plan.to.1).step_by(at_once as usize) {
            case.write(&mut input, first, at_once.min(case.plan.to.1 - first));
            launches += 1;
        }
    }
    let all = [&seed.to_le_bytes()[..], &launches.to_le_bytes(), &input].concat();
    let output = KERNELS.exchange(all);
    let mut rest = &output[..];
    for case in cases {
        let plan = &case.plan;
        let row = plan.to.0 as usize * plan.dtype.size();
        let band = row * plan.to.1 as usize;
        for first in (0..plan.to.1).step_by(at_once as usize) {
            let count = at_once.min(plan.to.1 - first) as usize;
            let start = first as usize * row;
            for b in 0..plan.bands {
                let (given, after) = rest.split_at(count * row);
                rest = after;
                let due = &case.expected[b * band + start..][..count * row];
                let wrong =
                    given.chunks(plan.dtype.size()).zip(due.chunks(plan.dtype.size())).position(|(a, b)| a != b);
                if let Some(at) = wrong {
                    let value = |bytes: &[u8]| bytes[at * plan.dtype.size()..][..plan.dtype.size()].to_vec();
                    panic!(
                        "{plan:?}: rows from {first} of band {b}, value {at}: {:?}, not {:?}",
                        value(given),
                        value(due)
                    );
                }
            }
            if plan.mask {
                let (given, after) = rest.split_at(count * plan.to.0 as usize);
                rest = after;
                let due = &case.expected_mask[first as usize * plan.to.0 as usize..][..given.len()];
                assert_eq!(given, due, "{plan:?}: mask of rows from {first}");
            }
        }
    }
    assert!(rest.is_empty());
}

fn plan(from: (u32, u32), to: (u32, u32), dtype: DType, resampling: Resampling) -> OverviewPlan {
    let bits = 8 * dtype.size() as u16;
    OverviewPlan { from, to, bands: 1, dtype, bits, resampling, nodata: None, mask: false, palette: false }
}

/// One number as a value of a type; of complex ones both halves.
fn value(dtype: DType, number: f64) -> Vec<u8> {
    let half = |number: f64| -> u16 {
        // Small whole numbers, and what stands for none.
        match number {
            n if n.is_nan() => 0x7e00,
            n if n.is_infinite() => 0x7c00 | u16::from(n < 0.0) << 15,
            n if n == 0.0 => u16::from(n.is_sign_negative()) << 15,
            n => {
                let exponent = n.abs().log2().floor();
                let fraction = ((n.abs() / exponent.exp2() - 1.0) * 1024.0) as u16;
                u16::from(n < 0.0) << 15 | ((exponent as i16 + 15) as u16) << 10 | fraction
            }
        }
    };
    match dtype {
        DType::UInt8 => (number as u8).to_le_bytes().to_vec(),
        DType::Int8 => (number as i8).to_le_bytes().to_vec(),
        DType::UInt16 => (number as u16).to_le_bytes().to_vec(),
        DType::Int16 => (number as i16).to_le_bytes().to_vec(),
        DType::UInt32 => (number as u32).to_le_bytes().to_vec(),
        DType::Int32 => (number as i32).to_le_bytes().to_vec(),
        DType::UInt64 => (number as u64).to_le_bytes().to_vec(),
        DType::Int64 => (number as i64).to_le_bytes().to_vec(),
        DType::Float16 => half(number).to_le_bytes().to_vec(),
        DType::Float32 => (number as f32).to_le_bytes().to_vec(),
        DType::Float64 => number.to_le_bytes().to_vec(),
        DType::ComplexInt16 => [value(DType::Int16, number), value(DType::Int16, -number)].concat(),
        DType::ComplexInt32 => [value(DType::Int32, number), value(DType::Int32, 7.0 - number)].concat(),
        DType::Complex64 => [value(DType::Float32, number), value(DType::Float32, number / 3.0)].concat(),
        DType::Complex128 => [value(DType::Float64, number), value(DType::Float64, number / 3.0)].concat(),
    }
}

/// What the pixels of a case are like.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Content {
    /// Any bits at all.
    Noise,
    /// Few small numbers, so that results are often nodata.
    Few,
    /// Numbers with fractions, and now and then a hole.
    Holes,
    /// Rows without a hole and rows full of them; infinities and zeros of both signs.
    Odd,
}

fn pixels(dtype: DType, content: Content, (width, height): (u32, u32), bands: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed | 1 << 40);
    let count = (width * height) as usize * bands;
    let mut out = Vec::new();
    for i in 0..count {
        let row = i / width as usize;
        let bytes = match content {
            Content::Noise => random.bytes(dtype.size()),
            Content::Few => value(dtype, [3.0, 4.0, 5.0, 4.0][random.below(4)]),
            Content::Holes if random.below(40) == 0 => value(dtype, [f64::NAN, 4.0][random.below(2)]),
            Content::Holes => value(dtype, random.below(4000) as f64 / 16.0 - 60.0),
            Content::Odd if row % 7 > 3 => value(dtype, 100.25 + random.below(90) as f64),
            Content::Odd => {
                let some = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 4.0, 1.0, -1.0, 3e38, -3e38];
                value(dtype, some[random.below(some.len())])
            }
        };
        out.extend(bytes);
    }
    out
}

fn is_made(dtype: DType, resampling: Resampling) -> bool {
    !dtype.is_complex() || matches!(resampling, Resampling::Nearest | Resampling::Average)
}

#[test]
fn every_type_and_every_resampling() {
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        for resampling in Resampling::ALL {
            if !is_made(dtype, resampling) {
                continue;
            }
            for (i, content) in [Content::Noise, Content::Few, Content::Holes, Content::Odd].into_iter().enumerate() {
                for (from, to) in [((24, 14), (12, 7)), ((23, 13), (12, 7))] {
                    for nodata in [None, Some(4.0)] {
                        let mut plan = plan(from, to, dtype, resampling);
                        plan.nodata = nodata.map(|number| value(dtype, number));
                        let pixels = pixels(dtype, content, from, 1, i as u64 + 3);
                        cases.push(Case::new(plan, pixels, None));
                    }
                }
            }
        }
    }
    check(&cases, 100, 0);
}

#[test]
fn masks_of_every_resampling() {
    let mut cases = Vec::new();
    let mut random = Random(6);
    for dtype in [DType::UInt8, DType::Int16, DType::Float32, DType::Float64, DType::Complex64] {
        for resampling in Resampling::ALL {
            if !is_made(dtype, resampling) {
                continue;
            }
            for (from, to) in [((24, 14), (12, 7)), ((23, 13), (12, 7)), ((30, 21), (10, 7))] {
                for (nodata, holes) in [(None, 3), (Some(4.0), 3), (None, 1), (None, 40)] {
                    let mut plan = plan(from, to, dtype, resampling);
                    plan.bands = 2;
                    plan.nodata = nodata.map(|number| value(dtype, number));
                    plan.mask = true;
                    let count = from.0 * from.1;
                    let mask = (0..count).map(|i| match i / from.0 % 6 {
                        0 => 255,
                        _ => [0, 1, 255, 128][if random.below(holes) == 0 { random.below(4) } else { 1 }],
                    });
                    let mask = mask.collect();
                    let pixels = pixels(dtype, Content::Holes, from, 2, 5);
                    cases.push(Case::new(plan, pixels, Some(mask)));
                }
            }
        }
    }
    check(&cases, 100, 4);
}

#[test]
fn sizes_of_every_ratio() {
    let mut cases = Vec::new();
    for dtype in [DType::UInt8, DType::Int32, DType::UInt64, DType::Float32, DType::Float16] {
        for resampling in Resampling::ALL {
            for (from, to) in [
                ((1, 1), (1, 1)),
                ((2, 2), (1, 1)),
                ((2, 3), (1, 2)),
                ((3, 1), (2, 1)),
                ((5, 5), (5, 5)),
                ((40, 31), (10, 8)),
                ((37, 29), (7, 3)),
                ((50, 40), (49, 39)),
                ((31, 30), (1, 1)),
                ((600, 8), (300, 4)),
                ((601, 9), (301, 5)),
            ] {
                for content in [Content::Holes, Content::Few] {
                    let plan = plan(from, to, dtype, resampling);
                    let mut with_nodata = plan.clone();
                    with_nodata.nodata = Some(value(dtype, 4.0));
                    let pixels = pixels(dtype, content, from, 1, 9);
                    cases.push(Case::new(plan, pixels.clone(), None));
                    cases.push(Case::new(with_nodata, pixels, None));
                }
            }
        }
    }
    check(&cases, 100, 0);
}

#[test]
fn rows_are_the_same_however_they_are_cut() {
    let mut cases = Vec::new();
    for dtype in [DType::UInt16, DType::Float32] {
        for resampling in Resampling::ALL {
            for content in [Content::Holes, Content::Odd] {
                let mut plan = plan((21, 41), (11, 21), dtype, resampling);
                plan.bands = 3;
                let pixels = pixels(dtype, content, plan.from, 3, 2);
                cases.push(Case::new(plan, pixels, None));
            }
        }
    }
    for at_once in [1, 4] {
        check(&cases, at_once, 3);
    }
}

#[test]
fn few_bits_and_nodata_at_the_limits() {
    let mut cases = Vec::new();
    for (dtype, bits, limits) in [
        (DType::UInt8, 3, [0.0, 7.0]),
        (DType::UInt8, 8, [0.0, 255.0]),
        (DType::Int8, 5, [-16.0, 15.0]),
        (DType::UInt16, 12, [0.0, 4095.0]),
        (DType::Int16, 16, [-32768.0, 32767.0]),
        (DType::Float32, 32, [f64::from(f32::MAX), f64::NAN]),
        (DType::Float16, 16, [65504.0, -0.0]),
        (DType::Float64, 64, [f64::MAX, 0.0]),
        (DType::Int64, 64, [i64::MIN as f64, i64::MAX as f64]),
    ] {
        for resampling in Resampling::ALL {
            for nodata in limits {
                let mut plan = plan((26, 16), (13, 8), dtype, resampling);
                plan.bits = bits;
                plan.nodata = Some(value(dtype, nodata));
                // Numbers on both sides of nodata, whose means are often just that.
                let mut random = Random(17);
                let near = |n: f64| [n, n - 1.0, n + 1.0, n - 2.0, n * 0.5];
                let some: Vec<Vec<u8>> = limits.iter().flat_map(|&n| near(n)).map(|n| value(dtype, n)).collect();
                let pixels = (0..26 * 16).flat_map(|_| some[random.below(some.len())].clone()).collect();
                cases.push(Case::new(plan, pixels, None));
            }
        }
    }
    check(&cases, 100, 0);
}

#[test]
fn modes_of_huge_windows_are_left_to_the_host() {
    assert!(Reduction::new(&plan((33, 33), (1, 1), DType::UInt8, Resampling::Mode)).is_none());
    assert!(Reduction::new(&plan((32, 32), (1, 1), DType::UInt8, Resampling::Mode)).is_some());
}
