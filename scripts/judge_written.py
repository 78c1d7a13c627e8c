#!/usr/bin/env python3
"""Lets programs that others wrote judge files that tiffjet wrote: GDAL (rasterio), tifffile and rio-cogeo.

    judge_written.py FOLDER [--check check_written.py] [--every N]

FOLDER holds what `cargo run --example matrix` makes: NAME.tif, and NAME.json with what was handed to the writer. GDAL must
read every band, overview and mask without a warning and find the pixels, place, nodata and mask that were handed over;
its second driver LIBERTIFF, where it has it, and tifffile the same pixels; rio-cogeo must find a COG where one was asked
for. `--check` names another judge that is run for each N-th file with `--expect NAME.json`, and `--cog` where due. What that
one can't judge is counted by reason; all its other faults count as faults.
"""

import argparse
import collections
import hashlib
import json
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import rasterio
import tifffile
from rio_cogeo.cogeo import cog_validate

# How far pixels of a lossy file may be off in the mean; they are below 128.
LOSSY = 4.0
# What GDAL before 3.11 calls half precision.
WIDENED = {"float16": "float32"}
LIBERTIFF = tuple(map(int, rasterio.__gdal_version__.split(".")[:2])) >= (3, 11)


# What the other judge can't judge: its parts, of which files, and why. The judges here see the pixels of them all.
UNABLE = (
    (
        {"gdal-new", "rio-cogeo", "gdal-cog"},
        lambda expect: expect["codec"] == "jpeg2000",
        "GDAL's wheels come without JPEG 2000",
    ),
    (
        {"tifffile"},
        lambda expect: expect["dtype"] == "complex_int32",
        "GDAL and tifffile give complex int32 as different types",
    ),
    (
        {"expect", "tifffile"},
        lambda expect: expect["dtype"] in WIDENED,
        "rasterio before 1.5 gives float16 as float32",
    ),
    (
        {"tifffile"},
        lambda expect: expect["codec"] == "jpeg" and expect["planar"],
        "tifffile takes the planes of a JPEG for pixels",
    ),
)


class Warnings(logging.Handler):
    """What GDAL has to say."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def digest(band: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(band).tobytes()).hexdigest()


def stored(band: np.ndarray, dtype: str) -> np.ndarray:
    """The band as it was handed to the writer, should a reader have a wider type for it."""
    if dtype.startswith("complex_int"):
        part = np.dtype(dtype.removeprefix("complex_"))
        return np.stack([band.real, band.imag], axis=-1).astype(part)
    return band.astype(dtype) if dtype in WIDENED else band


def compare(bands: list[np.ndarray], expect: dict, who: str) -> Iterator[str]:
    if list(np.shape(bands)) != expect["shape"]:
        yield f"{who}: shape {np.shape(bands)}"
    elif expect.get("lossy"):
        y, x = np.indices(expect["shape"][1:])
        for i, band in enumerate(bands):
            scale = 200.0 if "16" in expect["dtype"] else 1.0
            due = ((x + y // 2 + 9 * i) // 2 + 1.5) * scale
            off = np.abs(band.astype(float) - due).mean() / scale
            if off > LOSSY:
                yield f"{who}: band {i + 1} is off by {off:.1f}"
    elif [digest(stored(band, expect["dtype"])) for band in bands] != expect["bands"]:
        yield f"{who}: other pixels ({bands[0].dtype})"


def gdal(path: Path, expect: dict) -> Iterator[str]:
    heard = Warnings()
    log = logging.getLogger("rasterio")
    log.addHandler(heard)
    log.propagate = False
    try:
        with rasterio.open(path, driver="GTiff") as image:
            yield from compare([image.read(band) for band in image.indexes], expect, "gdal")
            if list(image.transform)[:6] != expect["transform"]:
                yield f"gdal: transform {list(image.transform)[:6]}"
            if image.crs is None or image.crs.to_epsg() != expect["epsg"]:
                yield f"gdal: CRS {image.crs}"
            if image.nodata != expect.get("nodata"):
                yield f"gdal: nodata {image.nodata}"
            if "mask" in expect and digest(image.read_masks(1)) != expect["mask"]:
                yield "gdal: another mask"
            levels = 1 + len(image.overviews(1))
            layout = image.tags(ns="IMAGE_STRUCTURE").get("LAYOUT")
        if levels != expect["levels"]:
            yield f"gdal: {levels} levels, {expect['levels']} were written"
        if (layout == "COG") != expect["cog"]:
            yield f"gdal: layout {layout}"
        for level in range(levels - 1):
            with rasterio.open(path, driver="GTiff", OVERVIEW_LEVEL=level) as image:
                image.read()
                image.read_masks(1)
    finally:
        log.removeHandler(heard)
    yield from (f"gdal: {line}" for line in heard.lines)


def libertiff(path: Path, expect: dict) -> Iterator[str]:
    with rasterio.open(path, driver="LIBERTIFF") as image:
        yield from compare([image.read(band) for band in image.indexes], expect, "libertiff")


def tiff_file(path: Path, expect: dict) -> Iterator[str]:
    with tifffile.TiffFile(path) as file:
        page = file.pages[0]
        pixels = page.asarray()
        if "S" in page.axes:
            pixels = np.moveaxis(pixels, page.axes.index("S"), 0)
        yield from compare(list(pixels.reshape(-1, *pixels.shape[-2:])), expect, "tifffile")


def rio_cogeo(path: Path, expect: dict) -> Iterator[str]:
    valid, errors, remarks = cog_validate(path, strict=True, quiet=True)
    if not valid:
        yield f"rio-cogeo: {'; '.join(errors + remarks)}"


def judges(expect: dict) -> Iterator:
    """Those who know the codec and the type. GDAL's wheels come without JPEG 2000; NumPy has no complex integers."""
    picture = expect["codec"] == "jpeg2000"
    complex_int = expect["dtype"].startswith("complex_int")
    if not picture:
        yield gdal
    if LIBERTIFF and not picture and not complex_int and expect["dtype"] != "float16":
        yield libertiff
    # tifffile takes the planes of a JPEG for pixels, those that GDAL wrote too.
    if not complex_int and not (expect["codec"] == "jpeg" and expect["planar"]):
        yield tiff_file
    if expect["cog"] and not picture:
        yield rio_cogeo


def judge(path: Path) -> list[str]:
    expect = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    faults: list[str] = []
    for judge_of in judges(expect):
        try:
            faults += judge_of(path, expect)
        except Exception as error:  # noqa: BLE001  whatever a judge dies of is a fault
            faults.append(f"{judge_of.__name__}: {type(error).__name__}: {error}")
    return faults


def check(job: tuple[str, Path]) -> tuple[list[str], str | None]:
    """The verdict of another judge, and why it has none."""
    script, path = job
    told_of = path.with_suffix(".json")
    expect = json.loads(told_of.read_text(encoding="utf-8"))
    command = [sys.executable, script, path, "--expect", told_of, *(["--cog"] if expect["cog"] else [])]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    if told.returncode == 0:
        return [], None
    lines = (told.stdout + told.stderr).splitlines()
    failed = {line.split()[1] for line in lines if line.startswith("FAIL")}
    for parts, applies, reason in UNABLE:
        if failed and failed <= parts and applies(expect):
            return [], reason
    return [f"check: {line}" for line in lines if not line.startswith(("PASS", "note"))], None


def silent() -> None:
    warnings.simplefilter("ignore")
    logging.getLogger("tifffile").setLevel(logging.CRITICAL)
    os.environ.update(GDAL_PAM_ENABLED="NO", GDAL_DISABLE_READDIR_ON_OPEN="EMPTY_DIR")


def report(files: list[Path], verdicts: Iterator[list[str]], faults: collections.Counter) -> int:
    bad = 0
    for path, verdict in zip(files, verdicts):
        bad += bool(verdict)
        if verdict:
            print(path.stem, *(f"    {line}" for line in verdict), sep="\n", flush=True)
            faults.update(line.split(":")[0] for line in verdict)
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check")
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    files = sorted(path for path in options.folder.glob("*.tif") if path.with_suffix(".json").exists())
    if not files:
        print(f"{options.folder} has no files to judge")
        return 1
    faults: collections.Counter[str] = collections.Counter()
    with ProcessPoolExecutor(initializer=silent) as pool:
        bad = report(files, pool.map(judge, files, chunksize=16), faults)
        if options.check:
            chosen = files[:: options.every]
            verdicts = list(pool.map(check, [(options.check, path) for path in chosen]))
            bad += report(chosen, iter(verdict for verdict, _ in verdicts), faults)
            unable = collections.Counter(reason for _, reason in verdicts if reason)
            print(f"{len(chosen)} files shown to {Path(options.check).name}, {unable.total()} of which it can't judge")
            for reason, count in unable.most_common():
                print(f"    {count}: {reason}")
    versions = f"GDAL {rasterio.__gdal_version__}, tifffile {tifffile.__version__}"
    print(f"{len(files)} files judged by {versions} and rio-cogeo: {bad} with faults", dict(faults) or "")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
