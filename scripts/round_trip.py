#!/usr/bin/env python3
"""Converts every TIFF of a corpus with a lossless codec and lets GDAL tell whether anything got lost.

    TIFFJET_CORPUS=folder scripts/round_trip.py [--compress zstd] [--cog] [--only 'glob'] [--report out.json]

Needs rasterio. GDAL opens the old file and the new one; pixels, CRS, transform, GCPs, RPCs, nodata, scale, offset, units,
descriptions, metadata of all domains, colour table, meaning of bands and mask must be the same. A file whose pixels tiffjet
does not read exactly (`tiffjet checksum` against GDAL) does not count, nor one that GDAL can't read. Exit 1 when a file
differs, 77 without a corpus.
"""

import argparse
import collections
import fnmatch
import hashlib
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import rasterio

SKIPPED = 77
SECONDS = 60
# A file beyond this (pixels of all bands, in bytes) is no test of metadata but of patience.
LARGEST = 1 << 29

# Domains that describe how a file is stored, or name the file itself.
STORAGE = {"IMAGE_STRUCTURE", "DERIVED_SUBDATASETS", "SUBDATASETS", "TIFF", "COG"}
# Items of IMAGE_STRUCTURE that say what pixels mean.
MEANING = {"NBITS", "MINISWHITE", "PIXELTYPE"}

# Differences that are meant; docs/reference/convert.md argues them.
KNOWN = (
    r"metadata: \d+ structure: \{'NBITS': '24'\} -> None",  # floats of 24 bits become floats of 32
    r"colours: \['gray', 'undefined', 'undefined'\] -> \['red', 'green', 'blue'\]",  # no PhotometricInterpretation
    r"metadata: 0 : \w+: é -> é&<",  # GDAL stops at the entity behind a numbered one
    r"metadata: 0 EXIF: \w+:  -> None",  # a field without values
)


def facts(path: Path) -> dict[str, object]:
    """All that GDAL sees of a file."""
    with rasterio.open(path, driver="GTiff") as image:
        size = image.count * image.height * image.width * np.dtype(numpy_type(image.dtypes[0])).itemsize
        if size > LARGEST:
            raise ValueError("too large to compare")
        points, points_crs = image.gcps
        seen = {
            "shape": (image.count, image.height, image.width),
            "dtype": image.dtypes,
            "crs": image.crs.to_wkt() if image.crs else None,
            "transform": tuple(image.transform)[:6],
            "gcps": [(p.row, p.col, p.x, p.y, p.z, p.id, p.info) for p in points],
            "gcp crs": points_crs.to_wkt() if points_crs else None,
            "rpcs": image.rpcs.to_dict() if image.rpcs else None,
            "nodata": [repr(value) for value in image.nodatavals],
            "scale": image.scales,
            "offset": image.offsets,
            "units": image.units,
            "descriptions": image.descriptions,
            "colours": [c.name for c in image.colorinterp],
            "metadata": metadata(image),
            "colour table": [table(image, band) for band in image.indexes],
            "mask kind": [[flag.name for flag in flags] for flags in image.mask_flag_enums],
            "pixels": [digest(image.read(band)) for band in image.indexes],
        }
        kinds = seen["mask kind"]
        if any(kind not in (["all_valid"], ["nodata"]) for kind in kinds):
            masks = [image.read_masks(band) for band in image.indexes]
            if not any(kinds):
                # A mask for each band, as stored, that is the same for all is one for all.
                masks = [np.where(mask, np.uint8(255), np.uint8(0)) for mask in masks]
                if len({digest(mask) for mask in masks}) == 1:
                    seen["mask kind"] = [["per_dataset"]] * image.count
            seen["mask"] = [digest(mask) for mask in masks]
        return seen


def numpy_type(name: str) -> str:
    return {"complex_int16": "complex64"}.get(name, name)


def metadata(image: rasterio.DatasetReader) -> dict[str, object]:
    found: dict[str, object] = {}
    for band in (0, *image.indexes):
        for domain in (None, *image.tag_namespaces(band)):
            if domain not in STORAGE:
                found[f"{band} {domain or ''}"] = image.tags(band, ns=domain)
        structure = image.tags(band, ns="IMAGE_STRUCTURE")
        found[f"{band} structure"] = {key: value for key, value in structure.items() if key in MEANING}
    return {key: value for key, value in found.items() if value}


def table(image: rasterio.DatasetReader, band: int) -> object:
    try:
        return image.colormap(band)
    except ValueError:
        return None


def digest(pixels: np.ndarray) -> str:
    if pixels.dtype.byteorder == ">":
        pixels = pixels.astype(pixels.dtype.newbyteorder("<"))
    return hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest()


def differences(old: object, new: object, name: str) -> list[str]:
    """Where the two are not the same, each in a line."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [line for key in {**old, **new} for line in differences(old.get(key), new.get(key), f"{name}{key}: ")]
    if old == new or repr(old) == repr(new):  # NaN is like NaN
        return []
    return [f"{name}{short(old)} -> {short(new)}"]


def short(value: object) -> str:
    text = str(value)
    return text if len(text) < 300 else f"{text[:290]}… ({hashlib.sha256(text.encode()).hexdigest()[:6]})"


def exact(tiffjet: str, path: Path, old: dict[str, object]) -> bool:
    """Whether tiffjet reads what GDAL reads."""
    told = subprocess.run([tiffjet, "checksum", "--json", path], capture_output=True, timeout=SECONDS, check=False)
    return told.returncode == 0 and json.loads(told.stdout)["sha256"] == old["pixels"]


def judge(job: tuple[str, Path, list[str]]) -> tuple[str, list[str]]:
    """What became of one file: a word, and what there is to say about it."""
    tiffjet, path, choices = job
    try:
        old = facts(path)
    except Exception as error:  # noqa: BLE001  whatever GDAL refuses
        return "not read by GDAL", [str(error)[:200]]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.tif"
        try:
            done = subprocess.run(
                [tiffjet, "convert", path, out, *choices], capture_output=True, timeout=SECONDS, check=False, text=True
            )
        except subprocess.TimeoutExpired:
            return "different", ["time is up"]
        if done.returncode:
            if done.returncode not in range(1, 64):
                return "different", [f"exit {done.returncode}: {done.stderr.strip()[-200:]}"]
            kind = "refused" if exact(tiffjet, path, old) else "not exact"
            return kind, [done.stderr.strip()[-200:]]
        try:
            lines = differences(old, facts(out), "")
        except Exception as error:  # noqa: BLE001
            return "different", [f"GDAL does not read it: {error}"]
        pixels = [line for line in lines if line.startswith("pixels")]
        if lines == pixels and pixels and not exact(tiffjet, path, old):
            return "not exact", lines
        unknown = [line for line in lines if not any(re.match(known, line) for known in KNOWN)]
        return ("different" if unknown else "known" if lines else "equal"), unknown or lines


def silent() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.update(GDAL_PAM_ENABLED="YES", GDAL_CACHEMAX="256")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compress", default="zstd")
    parser.add_argument("--cog", action="store_true")
    parser.add_argument("--only", default="*")
    parser.add_argument("--every", type=int, default=1, help="only each n-th file")
    parser.add_argument("--tiffjet", default="target/release/tiffjet")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    root = os.environ.get("TIFFJET_CORPUS")
    if not root:
        print("skipped: TIFFJET_CORPUS names no folder")
        return SKIPPED
    choices = ["--compress", options.compress, *(["--cog"] if options.cog else ["--overviews", "none"])]
    files = sorted(path for path in Path(root).rglob("*") if path.suffix.lower() in {".tif", ".tiff"})
    files = [path for path in files if fnmatch.fnmatch(str(path.relative_to(root)), options.only)][:: options.every]
    counts: collections.Counter[str] = collections.Counter()
    results = {}
    with ProcessPoolExecutor(initializer=silent) as pool:
        jobs = [(options.tiffjet, path, choices) for path in files]
        for path, (kind, lines) in zip(files, pool.map(judge, jobs, chunksize=8)):
            counts[kind] += 1
            name = str(path.relative_to(root))
            results[name] = {"kind": kind, "lines": lines}
            if kind in {"different", "refused"}:
                print(f"{kind}  {name}", *(f"    {line}" for line in lines), sep="\n", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())), f"of {len(files)} files")
    if options.report:
        options.report.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 1 if counts["different"] or counts["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
