"""GDAL's virtual rasters: the XML becomes layers of files, as plain data. No pixel and no source is touched here."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

import numpy

from ._tiffjet import FormatError

# What a description of files may ask for.
MOST_BYTES = 64 << 20
_MOST_ELEMENTS = 4_000_000
_MOST_DEPTH = 32

# GDAL's names of types.
_TYPES = {
    "Byte": "uint8", "UInt8": "uint8", "Int8": "int8", "UInt16": "uint16", "Int16": "int16", "UInt32": "uint32",
    "Int32": "int32", "UInt64": "uint64", "Int64": "int64", "Float16": "float16", "Float32": "float32",
    "Float64": "float64", "CFloat32": "complex64", "CFloat64": "complex128",
}

# File systems of GDAL, and the URLs that they stand for.
_REMOTE = {"/vsicurl/": "", "/vsis3/": "s3://", "/vsigs/": "gs://", "/vsiaz/": "az://"}


# ---------------------------------------------------------------------------------------------- XML


@dataclass
class Element:
    """A part of the document: children by name come in their order."""

    name: str
    attributes: dict[str, str]
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def all(self, name: str) -> list[Element]:
        return [child for child in self.children if child.name == name]

    def get(self, name: str) -> Element | None:
        return next((child for child in self.children if child.name == name), None)

    def said(self, name: str) -> str | None:
        """The text of a child that has some."""
        child = self.get(name)
        return None if child is None or not child.text.strip() else child.text.strip()


def parse_xml(text: bytes, name: str) -> Element:
    """The document, when it is small, plain and without declarations: entities are how XML bombs are made."""
    if len(text) > MOST_BYTES:
        raise FormatError(f"{name}: {len(text)} bytes of XML, {MOST_BYTES} are allowed")
    root = Element("", {})
    open_elements, count = [root], 0

    def begin(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > _MOST_ELEMENTS or len(open_elements) > _MOST_DEPTH:
            raise FormatError(f"{name}: more than {_MOST_ELEMENTS} elements, or more than {_MOST_DEPTH} in each other")
        element = Element(tag, attributes)
        open_elements[-1].children.append(element)
        open_elements.append(element)

    def said(data: str) -> None:
        open_elements[-1].text += data

    def refuse(*_: Any) -> None:
        raise FormatError(f"{name}: it declares a document type or an entity, and no list of files needs those")

    parser = expat.ParserCreate()
    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda tag: open_elements.pop()
    parser.CharacterDataHandler = said
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise FormatError(f"{name}: no XML: {error}") from error
    return root


# ---------------------------------------------------------------------------------------------- layers


@dataclass(frozen=True)
class Layer:
    """A rectangle of a file that lies on a rectangle of a mosaic of the same size, for some of its bands."""

    place: Any  # what `open` takes, or a file that is named already
    source: tuple[int, int]  # row and column in the file
    target: tuple[int, int]  # row and column in the mosaic
    size: tuple[int, int]
    bands: tuple[tuple[int, int], ...]  # band of the mosaic, band of the file
    nodata: tuple[float | int | None, ...]  # for each of these: pixels that are left out
    scale: tuple[float, float] | None = None  # factor and offset
    masked: bool = False  # pixels outside of the file's mask are left out

    @property
    def is_opaque(self) -> bool:
        return not self.masked and all(value is None for value in self.nodata)


@dataclass
class Band:
    """What is said of one band."""

    dtype: numpy.dtype
    nodata: float | int | None = None
    background: float | int = 0
    scale: float = 1.0
    offset: float = 0.0
    description: str | None = None
    unit: str | None = None
    metadata: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass
class Vrt:
    """A virtual raster."""

    shape: tuple[int, int, int]
    transform: tuple[float, ...] | None
    crs: str | None
    bands: list[Band]
    layers: list[Layer]
    tile: tuple[int, int]
    metadata: dict[str, dict[str, str]]


def parse(text: bytes, name: str, folder: str | None, root: str | None) -> Vrt:
    """Reads a description. `folder` is where it lies, `root` the folder that its files must be in."""
    document = parse_xml(text, name).get("VRTDataset")
    if document is None:
        raise FormatError(f"{name}: no VRTDataset")
    if document.attributes.get("subClass"):
        raise NotImplementedError(f"{name}: a {document.attributes['subClass']}, whose pixels are computed")
    width, height = (_whole(document.attributes.get(key), name, key) for key in ("rasterXSize", "rasterYSize"))
    if not (0 < width < 1 << 31 and 0 < height < 1 << 31):
        raise FormatError(f"{name}: {width} x {height} pixels")
    found = document.all("VRTRasterBand")
    if not found:
        raise FormatError(f"{name}: no band")
    lists: list[list[Layer]] = []
    bands = []
    for number, element in enumerate(found, 1):
        bands.append(_band(element, name))
        finder = _Finder(name, folder, root)
        layers = [_layer(source, number, name, finder) for source in _sources(element, name)]
        lists.append([layer for layer in layers if layer is not None])
    return Vrt(
        shape=(len(bands), height, width), transform=_transform(document.said("GeoTransform"), name),
        crs=document.said("SRS"), bands=bands, layers=merged(lists), tile=_tile(found[0]), metadata=_metadata(document),
    )


def merged(lists: list[list[Layer]]) -> list[Layer]:
    """Layers of all bands, in order; those that only differ in their band become one, so that a file is read once."""
    first = lists[0]

    def alike(layers: list[Layer]) -> bool:
        return len(layers) == len(first) and all(_without_bands(a) == _without_bands(b) for a, b in zip(layers, first))

    if not all(alike(layers) for layers in lists):
        return [layer for layers in lists for layer in layers]
    out = []
    for group in zip(*lists):
        bands = tuple(pair for layer in group for pair in layer.bands)
        nodata = tuple(value for layer in group for value in layer.nodata)
        layer = group[0]
        out.append(Layer(layer.place, layer.source, layer.target, layer.size, bands, nodata, layer.scale, layer.masked))
    return out


def _without_bands(layer: Layer) -> tuple[Any, ...]:
    return layer.place, layer.source, layer.target, layer.size, layer.scale, layer.masked


def _sources(band: Element, name: str) -> list[Element]:
    known = {"SimpleSource", "ComplexSource"}
    for child in band.children:
        if child.name.endswith("Source") and child.name not in known:
            raise NotImplementedError(f"{name}: a {child.name}")
    return [child for child in band.children if child.name in known]


def _band(element: Element, name: str) -> Band:
    if element.attributes.get("subClass") not in (None, "VRTSourcedRasterBand"):
        raise NotImplementedError(f"{name}: a {element.attributes['subClass']}, whose pixels are computed")
    kind = element.attributes.get("dataType", "Byte")
    if kind not in _TYPES:
        raise NotImplementedError(f"{name}: pixels of type {kind}")
    dtype = numpy.dtype(_TYPES[kind])
    nodata = _value(element.said("NoDataValue"), dtype, name)
    hidden = (element.said("HideNoDataValue") or "0") not in ("0", "NO", "FALSE")
    return Band(
        dtype=dtype, nodata=None if hidden else nodata, background=0 if nodata is None else nodata,
        scale=_number(element.said("Scale") or "1", name), offset=_number(element.said("Offset") or "0", name),
        description=element.said("Description") or element.attributes.get("Description"),
        unit=element.said("UnitType"), metadata=_metadata(element),
    )


def _layer(source: Element, band: int, name: str, finder: _Finder) -> Layer | None:
    place = finder.find(source.get("SourceFilename"))
    for child in ("LUT", "ColorTableComponent", "Exponent", "ScaleExponent", "OpenOptions"):
        if source.get(child) is not None:
            raise NotImplementedError(f"{name}: {child} of the source {place}")
    number = source.said("SourceBand") or "1"
    if not number.isdecimal():
        raise NotImplementedError(f"{name}: band {number!r} of the source {place}")
    from_rect, to_rect = (_rectangle(source.get(key), name) for key in ("SrcRect", "DstRect"))
    if from_rect is None or to_rect is None:
        raise NotImplementedError(f"{name}: the source {place} has no rectangles")
    if from_rect[2:] != to_rect[2:]:
        raise NotImplementedError(
            f"{name}: the source {place} is resampled, {from_rect[2:]} to {to_rect[2:]} rows and columns; "
            "a mosaic has the pixels of its files"
        )
    nodata = scale = None
    masked = False
    if source.name == "ComplexSource":
        said = source.said("NODATA")
        nodata = None if said is None else _number(said, name)
        scale = _number(source.said("ScaleRatio") or "1", name), _number(source.said("ScaleOffset") or "0", name)
        scale = None if scale == (1.0, 0.0) else scale
        masked = (source.said("UseMaskBand") or "false").lower() in ("true", "1", "yes")
    return Layer(
        place, from_rect[:2], to_rect[:2], from_rect[2:], ((band, int(number)),), (nodata,), scale, masked,
    )


class _Finder:
    """Which file a name means, and whether it may be read."""

    def __init__(self, name: str, folder: str | None, root: str | None) -> None:
        self._name = name
        self._folder = folder
        # None: its own folder and what is below. "anywhere" is for those who trust the description.
        self._root = None if root == "anywhere" else os.path.realpath(root if root is not None else folder or ".")
        self._known: dict[tuple[str, bool], str] = {}

    def find(self, element: Element | None) -> str:
        text = "" if element is None else element.text.strip()
        if not text or "\0" in text:
            raise FormatError(f"{self._name}: a source without a name")
        relative = element is not None and element.attributes.get("relativeToVRT", "0") not in ("0", "")
        key = (text, relative)
        if key not in self._known:
            self._known[key] = self._place(text, relative)
        return self._known[key]

    def _place(self, text: str, relative: bool) -> str:
        remote = next((url + text[len(prefix) :] for prefix, url in _REMOTE.items() if text.startswith(prefix)), text)
        if "://" in remote:
            if self._root is not None:
                raise self._refusal(text)
            return remote
        if text.startswith("/vsi"):
            raise NotImplementedError(f"{self._name}: the source {text}")
        if relative and self._folder is None:
            raise FormatError(f"{self._name}: the source {text} lies beside it, and it has no folder")
        path = os.path.abspath(os.path.join(self._folder or ".", text) if relative else text)
        if self._root is not None:
            real = os.path.realpath(path)
            if os.path.commonpath([real, self._root]) != self._root:
                raise self._refusal(text)
        return path

    def _refusal(self, text: str) -> Exception:
        return PermissionError(
            f"{self._name}: the source {text} is not in {self._root}; root= names the folder that sources may be in, "
            "root='anywhere' allows all"
        )


def _rectangle(element: Element | None, name: str) -> tuple[int, int, int, int] | None:
    """Row, column, rows, columns."""
    if element is None:
        return None
    values = []
    for key in ("yOff", "xOff", "ySize", "xSize"):
        value = _number(element.attributes.get(key, ""), name)
        whole = round(value)
        if abs(value - whole) > 1e-3 or abs(whole) >= 1 << 31:
            raise NotImplementedError(f"{name}: a source that lies between pixels ({key} is {value})")
        values.append(whole)
    if values[2] < 1 or values[3] < 1:
        raise FormatError(f"{name}: a source of {values[2]} x {values[3]} pixels")
    return values[0], values[1], values[2], values[3]


def _whole(text: str | None, name: str, what: str) -> int:
    if text is None or not text.strip().isdecimal() or len(text) > 12:
        raise FormatError(f"{name}: {what} is {text!r}")
    return int(text)


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise FormatError(f"{name}: {text!r} is no number") from error


def _value(text: str | None, dtype: numpy.dtype, name: str) -> float | int | None:
    """A nodata value that pixels can have; GDAL too forgets others."""
    if text is None:
        return None
    value = _number(text, name)
    if dtype.kind not in "iu":
        return value
    if not math.isfinite(value):
        return None
    exact = int(text) if text.strip().lstrip("+-").isdecimal() else round(value)
    info = numpy.iinfo(dtype)
    return exact if info.min <= exact <= info.max else None


def _transform(text: str | None, name: str) -> tuple[float, ...] | None:
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != 6:
        raise FormatError(f"{name}: GeoTransform has {len(parts)} numbers")
    c, a, b, f, d, e = (_number(part, name) for part in parts)
    return a, b, c, d, e, f


def _tile(band: Element) -> tuple[int, int]:
    """The tiles of the first source, where it says so."""
    for source in band.children:
        properties = source.get("SourceProperties")
        if properties is not None:
            sides = [properties.attributes.get(key, "") for key in ("BlockYSize", "BlockXSize")]
            if all(side.isdecimal() and 0 < int(side) <= 1 << 16 for side in sides):
                return int(sides[0]), int(sides[1])
    return 512, 512


def _metadata(element: Element) -> dict[str, dict[str, str]]:
    domains: dict[str, dict[str, str]] = {}
    for part in element.all("Metadata"):
        items = {item.attributes.get("key", ""): item.text for item in part.all("MDI")}
        if items:
            domains[part.attributes.get("domain", "")] = items
    return domains
