//! What the kernels of overviews are called with: pure, so that their tests take it as it is.
//!
//! The structs mirror `kernels/abi.h`, field by field; a test lets C++ read what they write.

use std::hint::black_box;
use std::ops::Range;

use tiffjet::plan::axis::{Span, Taps, bells, blocks, cubics, places, spans, triangles};
use tiffjet::{DType, OverviewPlan, Resampling, SampleKind};

/// Pixels of a window in which the most frequent is looked for on the device: the time grows with their square.
const MOST_OF_MODE: u64 = 1024;

/// Pixels above, along one axis, that a pixel is made from.
#[derive(Debug, Clone, PartialEq)]
struct Window {
    start: u32,
    weights: Vec<f64>,
    whole: f64,
    pair: bool,
}

impl Window {
    fn span(span: &Span) -> Self {
        let weights = span.range().map(|at| span.weight(at)).collect();
        Self { start: span.start as u32, weights, whole: span.whole(), pair: span.is_pair() }
    }

    fn taps(taps: &Taps) -> Self {
        Self { start: taps.start as u32, weights: taps.weights.clone(), whole: 0.0, pair: false }
    }

    fn pixel(at: usize) -> Self {
        Self { start: at as u32, weights: vec![1.0], whole: 1.0, pair: false }
    }

    fn range(&self) -> Range<u32> {
        self.start..self.start + self.weights.len() as u32
    }
}

/// The windows of an axis, as the method of a plan cuts it.
fn windows(plan: &OverviewPlan, from: u32, to: u32) -> Vec<Window> {
    let factor = f64::from(plan.from.1) / f64::from(plan.to.1);
    let of_spans = |spans: Vec<Span>| spans.iter().map(Window::span).collect();
    let of_taps = |taps: Vec<Taps>| taps.iter().map(Window::taps).collect();
    match plan.resampling {
        Resampling::Nearest => places(from, to).into_iter().map(Window::pixel).collect(),
        Resampling::Average if plan.dtype.is_complex() => of_spans(blocks(from, to)),
        Resampling::Average | Resampling::Rms | Resampling::Mode | Resampling::Min | Resampling::Max => {
            of_spans(spans(from, to))
        }
        Resampling::Bilinear => of_taps(triangles(from, to)),
        Resampling::Cubic => of_taps(cubics(from, to)),
        Resampling::Gauss => of_taps(bells(from, to, factor)),
    }
}

/// Rows of a level on the device. Columns are dense, and so are the rows of a mask.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Level {
    /// The first row here, of the first band.
    pub pixels: u64,
    /// Bytes from one band to the next.
    pub band: u64,
    /// Bytes from one row to the next.
    pub row: u64,
    /// A byte a pixel; 0 for none.
    pub mask: u64,
    /// Number of the first row, counted from the top of the level.
    pub first: u32,
    /// How many there are.
    pub rows: u32,
}

/// How one level is made from the one above.
#[derive(Debug, Clone)]
pub struct Reduction {
    plan: OverviewPlan,
    rows: Vec<Range<u32>>,
    table: Vec<u8>,
    /// Where in the table the rows and the weights begin.
    rows_at: u64,
    weights_at: u64,
    pairs: bool,
    trios: bool,
}

impl Reduction {
    /// Of a plan that the CPU's reducer takes. `None` where the device would take too long.
    pub fn new(plan: &OverviewPlan) -> Option<Self> {
        let columns = windows(plan, plan.from.0, plan.to.0);
        let rows = windows(plan, plan.from.1, plan.to.1);
        let most = |windows: &[Window]| windows.iter().map(|window| window.weights.len() as u64).max().unwrap_or(0);
        if plan.resampling == Resampling::Mode && most(&columns) * most(&rows) > MOST_OF_MODE {
            return None;
        }
        let (mut table, mut weights) = (Vec::new(), Vec::<f64>::new());
        for window in columns.iter().chain(&rows) {
            table.extend(window.whole.to_le_bytes());
            let count = window.weights.len() as u32;
            for field in [window.start, count, u32::try_from(weights.len()).ok()?, window.pair.into()] {
                table.extend(field.to_le_bytes());
            }
            weights.extend(&window.weights);
        }
        let rows_at = 24 * columns.len() as u64;
        let weights_at = table.len() as u64;
        weights.iter().for_each(|weight| table.extend(weight.to_le_bytes()));
        Some(Self {
            rows: rows.iter().map(Window::range).collect(),
            table,
            rows_at,
            weights_at,
            pairs: columns.iter().all(|window| window.pair),
            trios: most(&columns) <= 3 && plan.from.0 >= 3,
            plan: plan.clone(),
        })
    }

    /// What the device needs all the time: goes to memory that is aligned to 16 bytes.
    pub fn table(&self) -> &[u8] {
        &self.table
    }

    /// Rows above that row `y` is made from. Neither end goes back as `y` grows.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn needs(&self, y: u32) -> Range<u32> {
        self.rows[y as usize].clone()
    }

    /// Bytes of scratch for a launch over so many rows above.
    pub fn scratch(&self, rows: u32) -> u64 {
        if self.marks() { self.plan.bands as u64 * u64::from(rows) } else { 0 }
    }

    /// Bands of both levels.
    pub fn bands(&self) -> u32 {
        self.plan.bands as u32
    }

    /// Columns that are made.
    pub fn width(&self) -> u32 {
        self.plan.to.0
    }

    /// Whether rows of which all pixels count are made in another way than those of which some do.
    fn marks(&self) -> bool {
        let plan = &self.plan;
        let both =
            matches!(plan.resampling, Resampling::Average | Resampling::Rms | Resampling::Bilinear | Resampling::Cubic);
        both && !plan.dtype.is_complex() && (plan.nodata.is_some() || plan.mask || plan.dtype.is_float())
    }

    /// The kernel that marks such rows, where it is needed.
    pub fn marker(&self) -> Option<&'static str> {
        let name = match self.plan.dtype {
            DType::UInt8 => "reduce_whole_u8",
            DType::Int8 => "reduce_whole_i8",
            DType::UInt16 => "reduce_whole_u16",
            DType::Int16 => "reduce_whole_i16",
            DType::UInt32 => "reduce_whole_u32",
            DType::Int32 => "reduce_whole_i32",
            DType::UInt64 => "reduce_whole_u64",
            DType::Int64 => "reduce_whole_i64",
            DType::Float16 => "reduce_whole_f16",
            DType::Float32 => "reduce_whole_f32",
            DType::Float64 => "reduce_whole_f64",
            DType::ComplexInt16 | DType::ComplexInt32 | DType::Complex64 | DType::Complex128 => return None,
        };
        self.marks().then_some(name)
    }

    /// The kernel that makes pixels.
    pub fn kernel(&self) -> &'static str {
        let [mean, other] = match self.plan.dtype {
            _ if self.plan.resampling == Resampling::Nearest => ["reduce_nearest"; 2],
            DType::UInt8 => ["reduce_mean_u8", "reduce_u8"],
            DType::Int8 => ["reduce_mean_i8", "reduce_i8"],
            DType::UInt16 => ["reduce_mean_u16", "reduce_u16"],
            DType::Int16 => ["reduce_mean_i16", "reduce_i16"],
            DType::UInt32 => ["reduce_mean_u32", "reduce_u32"],
            DType::Int32 => ["reduce_mean_i32", "reduce_i32"],
            DType::UInt64 => ["reduce_mean_u64", "reduce_u64"],
            DType::Int64 => ["reduce_mean_i64", "reduce_i64"],
            DType::Float16 => ["reduce_mean_f16", "reduce_f16"],
            DType::Float32 => ["reduce_mean_f32", "reduce_f32"],
            DType::Float64 => ["reduce_mean_f64", "reduce_f64"],
            DType::ComplexInt16 => ["reduce_complex_i16"; 2],
            DType::ComplexInt32 => ["reduce_complex_i32"; 2],
            DType::Complex64 => ["reduce_complex_f32"; 2],
            DType::Complex128 => ["reduce_complex_f64"; 2],
        };
        if matches!(self.plan.resampling, Resampling::Average | Resampling::Rms) { mean } else { other }
    }

    /// As kernels get it; the table stands at `table`.
    pub fn bytes(&self, table: u64, above: &Level, below: &Level, scratch: u64) -> [u8; 192] {
        let plan = &self.plan;
        let method = match plan.resampling {
            Resampling::Nearest => 0,
            Resampling::Average => 1,
            Resampling::Mode => 2,
            Resampling::Min => 3,
            Resampling::Max => 4,
            Resampling::Bilinear => 5,
            Resampling::Cubic => 6,
            Resampling::Rms => 7,
            Resampling::Gauss => 8,
        };
        // What has no result is NaN, of a sign that depends on the processor.
        let nan = black_box(f64::INFINITY) - black_box(f64::INFINITY);
        let size = plan.dtype.size() as u32;
        let (low, high) = limits(plan);
        let mut out = Vec::with_capacity(192);
        let marks = if self.marks() { scratch } else { 0 };
        for long in [table, table + self.rows_at, table + self.weights_at, above.pixels, above.band, above.row] {
            out.extend(long.to_le_bytes());
        }
        for long in [above.mask, below.pixels, below.band, below.row, below.mask, marks] {
            out.extend(long.to_le_bytes());
        }
        for word in [above.first, above.rows, below.first, below.rows, plan.from.0, plan.to.0, size, method] {
            out.extend(word.to_le_bytes());
        }
        let flags = [self.pairs, self.trios, plan.mask, plan.nodata.is_some(), nan.is_sign_negative(), false];
        flags.iter().for_each(|&flag| out.extend(u32::from(flag).to_le_bytes()));
        let mut nodata = [0; 16];
        let given = plan.nodata.as_deref().unwrap_or_default();
        nodata.iter_mut().zip(given).for_each(|(to, from)| *to = *from);
        out.extend(nodata);
        out.extend(beside(plan.dtype, nodata, high));
        // The low bytes of an integer are those of the same one of fewer bytes.
        out.extend((low as u64).to_le_bytes());
        out.extend((high as u64).to_le_bytes());
        let mut bytes = [0; 192];
        bytes.copy_from_slice(&out);
        bytes
    }
}

/// The range of integers that the file can hold; of no meaning for others.
fn limits(plan: &OverviewPlan) -> (i128, i128) {
    let whole = 8 * plan.dtype.size() as u32;
    let bits = if plan.bits == 0 { whole } else { whole.min(plan.bits.into()) }.min(64);
    match plan.dtype.kind() {
        SampleKind::Signed => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}

/// The number beside nodata: above, or below where there is none.
fn beside(dtype: DType, nodata: [u8; 16], highest: i128) -> [u8; 8] {
    let wide = u64::from_le_bytes(nodata[..8].try_into().unwrap_or_default());
    let unused = 64 - 8 * dtype.size().min(8) as u32;
    let beside = match dtype {
        DType::Float64 => {
            let value = f64::from_bits(wide);
            if value < f64::MAX { value.next_up() } else { value.next_down() }.to_bits()
        }
        DType::Float32 => {
            let value = f32::from_bits(wide as u32);
            if value < f32::MAX { value.next_up() } else { value.next_down() }.to_bits().into()
        }
        DType::Float16 => match wide as u16 {
            0x7bff..0x8000 => 0x7bfe,
            0x8000 => 1,
            bits @ 0x8001.. => (bits - 1).into(),
            bits => (bits + 1).into(),
        },
        _ => {
            let signed = dtype.kind() == SampleKind::Signed;
            let value = if signed { i128::from((wide << unused) as i64 >> unused) } else { wide.into() };
            let lowest = if signed { -(1i128 << (63 - unused)) } else { 0 };
            (if value < highest { value + 1 } else { (value - 1).max(lowest) }) as u64
        }
    };
    beside.to_le_bytes()
}
