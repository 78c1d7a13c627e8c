//! Cloud-optimised GeoTIFF: file order, ghost header, validation.
