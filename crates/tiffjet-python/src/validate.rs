//! Whether a file keeps the rules.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tiffjet::OpenOptions;
use tiffjet::source::Remote;
use tiffjet::validate::{Finding, Severity, Verdict};

use crate::error::raise;
use crate::interrupt::run;
use crate::source;

/// What breaks the rules of TIFF, GeoTIFF and COG, and at which byte, as `tiffjet validate --json` says it.
#[pyfunction]
#[pyo3(name = "_validate")]
pub fn validate<'py>(src: &Bound<'py, PyAny>, storage_options: Vec<(String, String)>) -> PyResult<Bound<'py, PyDict>> {
    let py = src.py();
    let options = OpenOptions { remote: Remote::new(storage_options).map_err(raise)?, ..OpenOptions::default() };
    let verdict = match source::try_open(src, &options)?.0 {
        Ok(image) => run(py, || Verdict::of(&image))?,
        Err(error) => Verdict::unreadable(error).map_err(raise)?,
    };
    let out = PyDict::new(py);
    out.set_item("valid", verdict.is_valid())?;
    out.set_item("tiff", verdict.is_tiff())?;
    out.set_item("geotiff", verdict.is_geotiff())?;
    out.set_item("cog", verdict.is_cog())?;
    out.set_item("claims_cog", verdict.claims_cog)?;
    out.set_item("errors", listed(py, &verdict, Severity::Error)?)?;
    out.set_item("warnings", listed(py, &verdict, Severity::Warning)?)?;
    Ok(out)
}

fn listed<'py>(py: Python<'py>, verdict: &Verdict, severity: Severity) -> PyResult<Bound<'py, PyList>> {
    let geotiff = verdict.geotiff.as_deref().unwrap_or_default();
    let out = PyList::empty(py);
    for (rules, findings) in [("tiff", &verdict.tiff[..]), ("geotiff", geotiff), ("cog", &verdict.cog[..])] {
        for finding in findings.iter().filter(|finding| finding.severity == severity) {
            out.append(entry(py, rules, finding)?)?;
        }
    }
    Ok(out)
}

fn entry<'py>(py: Python<'py>, rules: &str, finding: &Finding) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("rules", rules)?;
    out.set_item("offset", finding.offset)?;
    out.set_item("what", &finding.what)?;
    Ok(out)
}
