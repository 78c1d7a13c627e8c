use super::*;
use crate::cpu::Cpu;

fn plan(from: (u32, u32), to: (u32, u32), dtype: DType, resampling: Resampling) -> OverviewPlan {
    OverviewPlan {
        from,
        to,
        bands: 1,
        dtype,
        bits: 8 * dtype.size() as u16,
        resampling,
        nodata: None,
        mask: false,
        palette: false,
    }
}

/// All rows of a level from rows that come `cut` at a time.
fn reduce(plan: &OverviewPlan, bytes: &[u8], mask: Option<&[u8]>, cuts: &[usize]) -> RowsBuf {
    let (width, height) = (plan.from.0 as usize, plan.from.1 as usize);
    let mut view = RowsView::new(bytes, [plan.bands, height, width], plan.dtype).unwrap();
    if let Some(mask) = mask {
        view = view.with_mask(mask).unwrap();
    }
    let mut reducer = reducer(plan, Cpu::shared().unwrap().pool).unwrap();
    let mut out = RowsBuf::new(plan.bands, plan.to.0 as usize, plan.dtype, plan.mask);
    let mut first = 0;
    for &cut in cuts.iter().cycle() {
        let count = cut.min(height - first);
        reducer.push(&view.part(first, count), &mut out).unwrap();
        first += count;
        if first == height {
            break;
        }
    }
    reducer.finish(&mut out).unwrap();
    assert_eq!(out.rows(), plan.to.1 as usize);
    out
}

fn bytes<T: Sample<Raw = [u8; N]>, const N: usize>(values: &[T]) -> Vec<u8> {
    values.iter().flat_map(|v| v.raw()).collect()
}

/// Result for an image of `width` columns that is halved.
fn half<T: Sample<Raw = [u8; N]>, const N: usize>(
    dtype: DType,
    resampling: Resampling,
    width: u32,
    values: &[T],
    nodata: Option<T>,
) -> Vec<T> {
    let height = values.len() as u32 / width;
    let mut plan = plan((width, height), (width.div_ceil(2), height.div_ceil(2)), dtype, resampling);
    plan.nodata = nodata.map(|v| v.raw().to_vec());
    let out = reduce(&plan, &bytes(values), None, &[1]);
    T::raws(out.view().band(0)).iter().map(|&raw| T::get(raw)).collect()
}

fn half_u8(resampling: Resampling, width: u32, values: &[u8], nodata: Option<u8>) -> Vec<u8> {
    half(DType::UInt8, resampling, width, values, nodata)
}

use Resampling::*;

#[test]
fn averages_round_halves_up_or_away_from_zero() {
    assert_eq!(half_u8(Average, 4, &[1, 2, 3, 4, 2, 2, 5, 255], None), [2, 67]); // 7 / 4, 267 / 4
    assert_eq!(half_u8(Average, 2, &[0, 1, 0, 1], None), [1]);
    assert_eq!(half(DType::Int16, Average, 4, &[-1i16, 0, 1, 0, -1, 0, 1, 0], None), [-1, 1]);
    assert_eq!(half(DType::UInt16, Average, 2, &[65535u16, 65535, 65535, 65533], None), [65535]); // 65534.5
    assert_eq!(half(DType::Int32, Average, 2, &[i32::MIN, i32::MIN, i32::MIN, i32::MIN + 4], None), [i32::MIN + 1]);
    assert_eq!(half(DType::Float64, Average, 2, &[f64::MAX; 4], None), [f64::MAX]);
    let halves = [1.0, 2.0, 3.0, 4.5].map(Half::from_double);
    assert_eq!(half(DType::Float16, Average, 2, &halves, None)[0].real(), 2.625);
}

#[test]
fn nodata_never_counts() {
    assert_eq!(half_u8(Average, 4, &[0, 4, 0, 0, 0, 5, 0, 0], Some(0)), [5, 0]);
    // A mean that happens to be nodata stands beside it.
    assert_eq!(half_u8(Average, 4, &[4, 6, 5, 5, 4, 6, 5, 5], Some(5)), [6, 5]);
    assert_eq!(half_u8(Average, 2, &[254, 255, 255, 254], Some(255)), [254]);
    assert_eq!(half(DType::Int16, Average, 2, &[-9999i16, 3, -9999, 4], Some(-9999)), [4]);
    assert_eq!(half_u8(Min, 4, &[0, 4, 0, 0, 9, 5, 0, 0], Some(0)), [4, 0]);
    assert_eq!(half_u8(Max, 4, &[255, 4, 255, 255, 9, 5, 255, 255], Some(255)), [9, 255]);
    assert_eq!(half_u8(Rms, 2, &[0, 3, 0, 0], Some(0)), [3]);
    assert_eq!(half_u8(Mode, 4, &[2, 2, 2, 2, 1, 3, 2, 2], Some(2)), [1, 2]);
    assert_eq!(half_u8(Gauss, 2, &[0, 3, 0, 0], Some(0)), [3]);
    assert_eq!(half_u8(Bilinear, 4, &[0, 7, 99, 21], Some(99)), [4, 18]); // 3.5, 17.5
    assert_eq!(half_u8(Cubic, 4, &[9; 4], Some(9)), [9, 9]);
}

#[test]
fn nan_never_counts() {
    let nan = f32::NAN;
    for resampling in Resampling::ALL.into_iter().filter(|&r| r != Nearest) {
        let values = [nan, 5.0, nan, nan, 5.0, 5.0, nan, nan];
        let out = half(DType::Float32, resampling, 4, &values, None);
        assert_eq!(out[0], 5.0, "{resampling:?}");
        let far = half(DType::Float32, resampling, 2, &[nan; 4], None);
        assert!(far[0].is_nan(), "{resampling:?}");
        assert_eq!(half(DType::Float32, resampling, 2, &[nan; 4], Some(-1.0)), [-1.0], "{resampling:?}");
    }
    // The text of a nodata value is often a last digit off.
    let near = f32::from_bits((-3.4e38f32).to_bits() + 1);
    assert_eq!(half(DType::Float32, Average, 2, &[near, 1.0, 2.0, near], Some(-3.4e38)), [1.5]);
}

#[test]
fn odd_sizes_share_the_pixel_in_the_middle() {
    assert_eq!(half_u8(Average, 3, &[0, 6, 12], None), [2, 10]); // (0 + 6/2) / 1.5, (6/2 + 12) / 1.5
    assert_eq!(half_u8(Average, 3, &[0, 6, 12, 0, 6, 12, 0, 6, 12], None), [2, 10, 2, 10]);
    assert_eq!(half_u8(Min, 3, &[7, 6, 12], None), [6, 6]);
    assert_eq!(half_u8(Max, 3, &[0, 6, 12], None), [6, 12]);
    assert_eq!(half_u8(Mode, 3, &[1, 6, 6], None), [1, 6]);
    assert_eq!(half_u8(Average, 1, &[9], None), [9]);
    assert_eq!(half_u8(Average, 3, &[3, 9, 12], Some(9)), [3, 12]);
}

#[test]
fn the_first_value_to_be_the_most_frequent_wins() {
    assert_eq!(half_u8(Mode, 2, &[1, 2, 2, 1], None), [2]);
    assert_eq!(half_u8(Mode, 2, &[7, 5, 6, 4], None), [7]);
    assert_eq!(half(DType::Float32, Mode, 2, &[1.0f32, 0.0, -0.0, 2.0], None), [0.0]);
    // Many values are counted in another way, with the same result.
    for seed in 0..50u64 {
        let values: Vec<u16> = (0..60).map(|i| ((i * 7919 + seed * 104_729) >> 3) as u16 % 9).collect();
        let few = |values: &[u16]| {
            let count = |i: usize| values[..=i].iter().filter(|v| **v == values[i]).count();
            (0..values.len()).rev().max_by_key(|&i| count(i)).map(|i| values[i])
        };
        assert_eq!(choose::mode(&values), few(&values), "{seed}");
        assert_eq!(choose::mode(&values[..20]), few(&values[..20]), "{seed}");
    }
}

#[test]
fn kernels_by_hand() {
    assert_eq!(half_u8(Rms, 4, &[0, 0, 3, 4, 0, 2, 3, 4], None), [1, 3]); // roots of 1 and 12.5, which is nearer to 9
    assert_eq!(half(DType::Float64, Rms, 2, &[1.0, -1.0, 7.0, 7.0], None), [5.0]);
    assert_eq!(half_u8(Bilinear, 4, &[0, 7, 14, 21], None), [5, 16]); // (0.75, 0.75, 0.25) / 1.75, and mirrored
    assert_eq!(half_u8(Gauss, 4, &[0, 4, 8, 13], None), [4, 11]); // (1, 2, 1) / 4, (1, 2) / 3
    let step = [0u16, 0, 0, 0, 4095, 4095, 4095, 4095];
    assert_eq!(half(DType::UInt16, Cubic, 8, &step, None)[3], 4146); // 4095 * 1.890625 / 1.8671875
    let mut narrow = plan((8, 1), (4, 1), DType::UInt16, Cubic);
    narrow.bits = 12;
    assert_eq!(reduce(&narrow, &bytes(&step), None, &[1]).view().band(0)[6..], 4095u16.to_ne_bytes());
    for resampling in Resampling::ALL {
        let flat = half(DType::Int8, resampling, 9, &[-77i8; 63], None);
        assert_eq!(flat, [if resampling == Rms { 77 } else { -77 }; 20], "{resampling:?}");
    }
}

#[test]
fn masked_pixels_never_count() {
    let masked = |resampling, values: &[u8], mask: &[u8]| {
        let mut plan = plan((4, 2), (2, 1), DType::UInt8, resampling);
        plan.mask = true;
        let out = reduce(&plan, values, Some(mask), &[1]);
        (out.view().band(0).to_vec(), out.view().mask().unwrap().to_vec())
    };
    let (values, mask) = ([10, 20, 9, 9, 30, 40, 9, 9], [1, 0, 0, 0, 0, 1, 0, 0]);
    assert_eq!(masked(Average, &values, &mask), (vec![25, 0], vec![1, 0]));
    assert_eq!(masked(Min, &values, &mask), (vec![10, 0], vec![1, 0]));
    assert_eq!(masked(Max, &values, &mask), (vec![40, 0], vec![1, 0]));
    assert_eq!(masked(Nearest, &values, &mask), (vec![10, 9], vec![1, 0]));
    // The mask is reduced as the values are: here by what is first to be the most frequent.
    assert_eq!(masked(Mode, &values, &mask), (vec![10, 0], vec![0, 0]));
    assert_eq!(masked(Mode, &values, &[1, 1, 0, 0, 0, 1, 0, 1]), (vec![10, 9], vec![1, 0]));
    let (values, mask) = ([10, 20, 30, 9, 10, 20, 30, 9], [1, 1, 0, 0, 1, 1, 0, 0]);
    assert_eq!(masked(Bilinear, &values, &mask), (vec![15, 20], vec![1, 1]));
    assert_eq!(masked(Gauss, &values, &mask), (vec![17, 0], vec![1, 0])); // (10 + 2 * 20) / 3

    // What is NaN under no mask stays so; what is masked is 0.
    let mut plan = plan((4, 2), (2, 1), DType::Float32, Average);
    plan.mask = true;
    let out = reduce(&plan, &bytes(&[f32::NAN; 8]), Some(&[1, 1, 0, 0, 1, 1, 0, 0]), &[2]);
    let out: Vec<f32> = f32::raws(out.view().band(0)).iter().map(|&raw| f32::get(raw)).collect();
    assert!(out[0].is_nan() && out[1] == 0.0, "{out:?}");
}

#[test]
fn complex_numbers_are_averaged_by_halves() {
    let plan = plan((3, 1), (2, 1), DType::Complex64, Average);
    let out = reduce(&plan, &bytes(&[1f32, 10.0, 3.0, 30.0, 7.0, -7.0]), None, &[1]);
    assert_eq!(out.view().band(0), bytes(&[2f32, 20.0, 7.0, -7.0]));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let pool = Cpu::shared().unwrap().pool;
    let refused = |plan: &OverviewPlan| reducer(plan, pool.clone()).err().map(|e| e.to_string()).unwrap_or_default();
    let mut palette = plan((4, 4), (2, 2), DType::UInt8, Average);
    palette.palette = true;
    assert!(refused(&palette).contains("colour map"), "{}", refused(&palette));
    palette.resampling = Mode;
    assert_eq!(refused(&palette), "");
    let complex = plan((4, 4), (2, 2), DType::ComplexInt16, Cubic);
    assert!(refused(&complex).contains("cubic resampling of complex_int16"), "{}", refused(&complex));
    let mut early = reducer(&plan((4, 4), (2, 2), DType::UInt8, Average), pool.clone()).unwrap();
    assert!(early.finish(&mut RowsBuf::new(1, 2, DType::UInt8, false)).is_err());
}

/// Values of no pattern.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn rows_are_the_same_however_they_are_cut() {
    let (from, bands) = ((37u32, 61u32), 2);
    let pixels = (from.0 * from.1) as usize;
    let mask: Vec<u8> = noise(pixels).iter().map(|&v| u8::from(v > 60)).collect();
    for to in [(19, 31), (18, 30), (10, 16), (37, 20), (1, 1)] {
        for (resampling, dtype) in Resampling::ALL.into_iter().flat_map(|r| DType::ALL.map(|d| (r, d))) {
            if dtype.is_complex() && !matches!(resampling, Nearest | Average) {
                continue;
            }
            let values = noise(bands * pixels * dtype.size());
            for (masked, nodata) in [(false, false), (true, false), (false, true), (true, true)] {
                let mut plan = plan(from, to, dtype, resampling);
                plan.bands = bands;
                plan.mask = masked;
                plan.nodata = nodata.then(|| values[..dtype.size()].to_vec());
                let mask = masked.then_some(&mask[..]);
                let whole = reduce(&plan, &values, mask, &[61]);
                for cuts in [&[1][..], &[2], &[7, 1, 0, 20]] {
                    let cut = reduce(&plan, &values, mask, cuts);
                    for band in 0..bands {
                        assert!(
                            cut.view().band(band) == whole.view().band(band),
                            "{resampling:?} {dtype} to {to:?} by {cuts:?}, mask {masked}, nodata {nodata}"
                        );
                    }
                    assert_eq!(cut.view().mask(), whole.view().mask(), "{resampling:?}");
                }
            }
        }
    }
}
