"""Where a DataArray says it lies: coordinates, `spatial_ref`, attributes."""

from __future__ import annotations

import json
from typing import Any

import numpy

from ._write import _KNOWN_ATTRS, Place

# Parts of a pixel that coordinates may be off the grid.
_OFF_GRID = 1e-3


def of_data_array(data: Any, y: Any, x: Any, count: int) -> Place:
    """All that a DataArray says beside its pixels."""
    reference = _grid_mapping(data)
    place = Place()
    place.crs = _crs(data, reference)
    place.gcps = _gcps(reference)
    if not place.gcps:
        place.transform = _transform(data, reference, y, x)
    place.nodata = _nodata(data)
    if data.attrs.get("AREA_OR_POINT") in ("Area", "Point"):
        place.area_or_point = data.attrs["AREA_OR_POINT"]
    _describe(data, place, count)
    items = {
        str(name): str(value)
        for name, value in data.attrs.items()
        if name not in _KNOWN_ATTRS
        and not str(name).startswith(("STATISTICS_", "TIFFTAG_"))
        and isinstance(value, (str, int, float, numpy.integer, numpy.floating))
    }
    if items:
        place.metadata = {"": items}
    return place


def _grid_mapping(data: Any) -> dict[str, Any]:
    """Attributes of the coordinate that says where the grid lies."""
    name = data.encoding.get("grid_mapping") or data.attrs.get("grid_mapping") or "spatial_ref"
    return dict(data.coords[name].attrs) if name in data.coords else {}


def _crs(data: Any, reference: dict[str, Any]) -> Any:
    for text in (reference.get("crs_wkt"), reference.get("spatial_ref"), data.attrs.get("crs"), data.attrs.get("crs_wkt")):
        if text is not None:
            return text
    return None


def _gcps(reference: dict[str, Any]) -> list[tuple[float, float, float, float, float, str]]:
    """Control points, in the GeoJSON that rioxarray keeps."""
    text = reference.get("gcps")
    if text is None:
        return []
    features = (json.loads(text) if isinstance(text, str) else text).get("features", [])
    points = []
    for number, feature in enumerate(features):
        said, where = feature["properties"], feature["geometry"]["coordinates"]
        z = float(where[2]) if len(where) > 2 else 0.0
        name = str(said.get("id") or number + 1)
        points.append((float(said["col"]), float(said["row"]), float(where[0]), float(where[1]), z, name))
    return points


def _stored_transform(data: Any, reference: dict[str, Any]) -> tuple[float, ...] | None:
    text = reference.get("GeoTransform")
    if text is not None:
        c, a, b, f, d, e = (float(part) for part in str(text).split())
        return a, b, c, d, e, f
    stored = data.attrs.get("transform")
    return None if stored is None else tuple(float(part) for part in tuple(stored)[:6])


def _transform(data: Any, reference: dict[str, Any], y: Any, x: Any) -> tuple[float, ...] | None:
    """The transform of the coordinates as they are now; what is stored gives the exact numbers where it fits."""
    stored = _stored_transform(data, reference)
    xs, ys = _axis(data, x), _axis(data, y)
    if xs is None or ys is None:
        return stored
    if stored is not None and stored[1] == 0 and stored[3] == 0:
        across = _along(xs, stored[0], stored[2])
        down = _along(ys, stored[4], stored[5])
        if across is not None and down is not None:
            return across[0], 0.0, across[1], 0.0, down[0], down[1]
    (a, c), (e, f) = _fit(xs, x), _fit(ys, y)
    return a, 0.0, c, 0.0, e, f


def _axis(data: Any, dim: Any) -> numpy.ndarray | None:
    """The coordinate along a dim, where it is a number."""
    if dim not in data.coords or data.coords[dim].ndim != 1:
        return None
    values = data.coords[dim].values
    return values.astype("float64") if values.dtype.kind in "iuf" else None


def _along(values: numpy.ndarray, step: float, origin: float) -> tuple[float, float] | None:
    """Step and origin of coordinates that lie on a known grid, every pixel of it or every n-th."""
    if step == 0:
        return None
    every = 1 if len(values) == 1 else round((values[-1] - values[0]) / step / (len(values) - 1))
    if every == 0:
        return None
    # A block of `every` pixels has its centre where the coordinate is.
    first = (values[0] - origin) / step - every / 2
    whole = round(first)
    due = origin + step * (whole + every * (numpy.arange(len(values)) + 0.5))
    if abs(first - whole) > _OFF_GRID or numpy.abs(values - due).max() > abs(step) * _OFF_GRID:
        return None
    return step * every, origin + step * whole


def _fit(values: numpy.ndarray, dim: Any) -> tuple[float, float]:
    """Step and origin of equidistant coordinates."""
    if len(values) < 2:
        raise ValueError(f"{dim}: one coordinate does not tell the size of a pixel; give transform=")
    step = (values[-1] - values[0]) / (len(values) - 1)
    due = values[0] + step * numpy.arange(len(values))
    if step == 0 or not numpy.isfinite(step) or numpy.abs(values - due).max() > abs(step) * _OFF_GRID:
        raise ValueError(f"{dim}: the coordinates are not equidistant")
    return float(step), float(values[0] - step / 2)


def _nodata(data: Any) -> Any:
    attrs, encoding = data.attrs, data.encoding
    for said in (attrs.get("_FillValue"), attrs.get("nodata"), attrs.get("missing_value"), encoding.get("_FillValue")):
        if said is not None:
            return said.item() if hasattr(said, "item") else said
    values = attrs.get("nodatavals")
    return values[0] if values else None


def _describe(data: Any, place: Place, count: int) -> None:
    """Names, units, scales and offsets of bands, one for all or one for each."""

    def each(value: Any) -> list[Any]:
        if isinstance(value, (list, tuple, numpy.ndarray)):
            return list(value)
        return [value] * count

    attrs = data.attrs
    sources = (
        ("description", attrs.get("long_name"), None),
        ("unit", attrs.get("units"), None),
        ("scale", attrs.get("scale_factor", attrs.get("scales")), 1),
        ("offset", attrs.get("add_offset", attrs.get("offsets")), 0),
    )
    for what, value, plain in sources:
        values = [] if value is None else each(value)
        # What was said of all bands says nothing of some that were chosen.
        if len(values) == count and any(v is not None and v != plain for v in values):
            convert = str if what in ("description", "unit") else float
            place.describe(what, [None if v is None else convert(v) for v in values], count)
