//! Coordinate reference systems, in the words that pyproj and rasterio understand.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tiffjet::geo;

/// A coordinate reference system. It has `to_wkt` and `to_epsg`, so pyproj and rasterio take it as it is.
#[pyclass(frozen, module = "tiffjet")]
#[derive(Debug, Clone)]
pub struct Crs(pub geo::Crs);

impl Crs {
    /// From an EPSG code, `EPSG:n` or WKT.
    pub fn parse(value: &Bound<'_, PyAny>) -> PyResult<geo::Crs> {
        if let Ok(crs) = value.cast::<Self>() {
            return Ok(crs.get().0.clone());
        }
        if let Ok(code) = value.extract::<u32>() {
            return Ok(geo::Crs::from_epsg(code));
        }
        let text: String = value.extract()?;
        geo::Crs::from_text(&text).ok_or_else(|| PyValueError::new_err(format!("crs: {text:?} can't be read")))
    }
}

#[pymethods]
impl Crs {
    #[new]
    fn new(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::parse(value).map(Self)
    }

    /// EPSG code, where the whole CRS is one of the dataset.
    #[getter]
    fn epsg(&self) -> Option<u32> {
        self.0.epsg
    }

    /// Name, as the file or the dataset says.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// WKT 2; None only for an EPSG code that is not in the bundled tables.
    #[getter]
    fn wkt(&self) -> Option<String> {
        self.0.to_wkt()
    }

    /// WKT 2; an EPSG code that is not in the bundled tables is given as such. `version` is there for pyproj's sake.
    #[pyo3(signature = (version=None))]
    fn to_wkt(&self, version: Option<&Bound<'_, PyAny>>) -> String {
        let _ = version;
        self.0.to_wkt().unwrap_or_else(|| self.__str__())
    }

    /// EPSG code, where the whole CRS is one of the dataset.
    #[pyo3(signature = (confidence_threshold=None))]
    fn to_epsg(&self, confidence_threshold: Option<&Bound<'_, PyAny>>) -> Option<u32> {
        let _ = confidence_threshold;
        self.0.epsg
    }

    fn __str__(&self) -> String {
        match self.0.epsg {
            Some(code) => format!("EPSG:{code}"),
            None => self.0.to_wkt().unwrap_or_default(),
        }
    }

    fn __repr__(&self) -> String {
        match self.0.epsg {
            Some(code) => format!("Crs(\"EPSG:{code}\")"),
            None => format!("Crs({:?})", self.0.name),
        }
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().__str__() == self.__str__())
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.__str__().hash(&mut hasher);
        hasher.finish()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let text = slf.get().__str__();
        Ok((slf.get_type().into_any(), (text,)))
    }
}
