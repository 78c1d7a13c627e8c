//! Windows and bands as callers write them.

use std::ops::Range;

use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PySlice};
use tiffjet::Window;

/// What is asked, from the arguments `window`, `bands` and `level`. `size` (rows, columns) is that of the level.
pub fn window(
    window: Option<&Bound<'_, PyAny>>,
    bands: Option<&Bound<'_, PyAny>>,
    level: usize,
    size: (u32, u32),
) -> PyResult<Window> {
    let (rows, cols) = match window {
        Some(window) => rectangle(window, size)?,
        None => (None, None),
    };
    let bands = bands.map(band_list).transpose()?;
    Ok(Window { level, rows, cols, bands })
}

type Rectangle = (Option<Range<u32>>, Option<Range<u32>>);

/// `((y0, y1), (x0, x1))`, two slices, or an object like rasterio's `Window`.
fn rectangle(window: &Bound<'_, PyAny>, (height, width): (u32, u32)) -> PyResult<Rectangle> {
    if window.hasattr("row_off")? && window.hasattr("col_off")? {
        let side = |offset: &str, length: &str| -> PyResult<Range<u32>> {
            let start = whole(&window.getattr(offset)?)?;
            let end = start.checked_add(whole(&window.getattr(length)?)?);
            range(start, end.ok_or_else(outside)?)
        };
        return Ok((Some(side("row_off", "height")?), Some(side("col_off", "width")?)));
    }
    let (rows, cols) = pair(window, "window: ((y0, y1), (x0, x1)), a pair of slices or a rasterio Window is meant")?;
    Ok((Some(side(&rows, height)?), Some(side(&cols, width)?)))
}

/// Two things, in a tuple or whatever else has them in order.
fn pair<'py>(object: &Bound<'py, PyAny>, meant: &str) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let refuse = || PyTypeError::new_err(meant.to_owned());
    let items: PyResult<Vec<_>> = object.try_iter().map_err(|_| refuse())?.take(3).collect();
    <[Bound<'py, PyAny>; 2]>::try_from(items?).map(Into::into).map_err(|_| refuse())
}

fn side(side: &Bound<'_, PyAny>, length: u32) -> PyResult<Range<u32>> {
    let Ok(slice) = side.cast::<PySlice>() else {
        let (start, end) = pair(side, "window: a side is (first, last + 1) or a slice")?;
        return range(whole(&start)?, whole(&end)?);
    };
    let step = slice.getattr("step")?;
    if !step.is_none() && step.extract::<i64>()? != 1 {
        return Err(PyValueError::new_err("window: slices have no step"));
    }
    let end = |name: &str, open: i64| -> PyResult<i64> {
        let value = slice.getattr(name)?;
        if value.is_none() { Ok(open) } else { whole(&value) }
    };
    range(end("start", 0)?, end("stop", length.into())?)
}

/// A whole number; a float that is one counts.
fn whole(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    if value.is_instance_of::<PyBool>() {
        return Err(PyTypeError::new_err("window: a number is meant"));
    }
    if let Ok(number) = value.extract::<i64>() {
        return Ok(number);
    }
    let number: f64 = value.extract()?;
    if number.fract() != 0.0 || number.abs() > 2f64.powi(53) {
        return Err(PyValueError::new_err(format!("window: {number} is no whole number of pixels")));
    }
    Ok(number as i64)
}

fn range(start: i64, end: i64) -> PyResult<Range<u32>> {
    let number = |n: i64| u32::try_from(n).map_err(|_| outside());
    Ok(number(start)?..number(end)?)
}

fn outside() -> PyErr {
    PyIndexError::new_err("window: outside the image")
}

/// One band or several, counted from 1.
fn band_list(bands: &Bound<'_, PyAny>) -> PyResult<Vec<u16>> {
    let list: Vec<i64> = match bands.extract::<i64>() {
        Ok(band) if !bands.is_instance_of::<PyBool>() => vec![band],
        _ => bands.extract().map_err(|_| PyTypeError::new_err("bands: a number or a list of numbers from 1 on"))?,
    };
    if list.is_empty() {
        return Err(PyValueError::new_err("bands: none are asked for"));
    }
    let band = |&band: &i64| match u16::try_from(band) {
        Ok(band) if band > 0 => Ok(band),
        _ => Err(PyIndexError::new_err(format!("bands: there is no band {band}, they are counted from 1"))),
    };
    list.iter().map(band).collect()
}
