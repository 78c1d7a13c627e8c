//! Georeferencing: GeoKeys to CRS and back, transform, nodata, GDAL metadata, GCPs. Carries, never reprojects.
