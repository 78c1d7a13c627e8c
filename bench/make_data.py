#!/usr/bin/env python3
"""Makes the benchmark's files: synthetic, deterministic, no network.

    python bench/make_data.py [--data build/bench-data] [--size 4096] [--set small|full] [--only GLOB] [--list]

Source arrays, axes (band, y, x), kept as DATA/SIZE/source/NAME.npy; the pixel check compares with them:

    dem  float32 x 1  fractal terrain rounded to centimetres (so the low mantissa bits are not zero, as in real float
                      elevation models), flat lakes, a slanted nodata collar
    s2   uint16 x 4   correlated bands: fractal reflectance, field parcels, fine texture, sensor noise
    rgb  uint8 x 3    aerial photograph: parcels, texture, noise
    lc   uint8 x 1    land cover: large patches with fractal borders, a little speckle (compresses to a tenth)

Files, DATA/SIZE/files/SOURCE_LAYOUT_CODEC.tif, written by GDAL:

    layout  t256 t512  square tiles, pixel-interleaved     t512b  the same, planes apart
            s1 s16     strips of 1 and of 16 rows          cog    512 tiles and overviews, by GDAL's COG driver
    codec   none deflate zstd lzw jpeg webp webpll lerc, with _p2 or _p3 for the predictor

What exists is not made again. DATA/SIZE/manifest.json says what there is.
"""

import argparse
import fnmatch
import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import rasterio
import rasterio.shutil
from rasterio.transform import from_origin

SEED = 20240
NODATA = -9999.0


# ---- source arrays


def fractal(n, beta, rng, flat_below=1.0):
    """A Gaussian field of power spectrum k^-beta, mean 0, deviation 1; flat below a wave number: patch size."""
    ky = np.fft.fftfreq(n, 1.0 / n).astype(np.float32)[:, None]
    kx = np.fft.rfftfreq(n, 1.0 / n).astype(np.float32)[None, :]
    spectrum = np.empty((n, n // 2 + 1), np.complex64)
    step = max(1, (1 << 24) // n)
    for top in range(0, n, step):  # blocks of rows bound the memory; the order of the draws is fixed
        rows = slice(top, min(n, top + step))
        k2 = np.maximum(ky[rows] ** 2 + kx**2, np.float32(flat_below**2))
        amplitude = k2 ** np.float32(-beta / 4)
        draw = rng.standard_normal((*k2.shape, 2), dtype=np.float32)
        spectrum[rows].real = draw[..., 0] * amplitude
        spectrum[rows].imag = draw[..., 1] * amplitude
    spectrum[0, 0] = 0
    field = np.fft.irfft2(spectrum, s=(n, n)).astype(np.float32, copy=False)
    field -= field.mean(dtype=np.float64)
    field /= np.float32(field.std(dtype=np.float64))
    return field


def parcels(n, cell, rng, levels=4096):
    """A mosaic of fields in [0, 1): the hash of a warped lattice."""
    warp_y, warp_x = fractal(n, 3.6, rng), fractal(n, 3.6, rng)
    y = (np.arange(n, dtype=np.float32)[:, None] + warp_y * (cell * 1.5)) / cell
    x = (np.arange(n, dtype=np.float32)[None, :] + warp_x * (cell * 1.5)) / (cell * 1.6)
    iy = np.floor(y).astype(np.int64) & 0xFFFF
    ix = np.floor(x).astype(np.int64) & 0xFFFF
    table = rng.random(levels).astype(np.float32)
    return table[((iy * 73856093) ^ (ix * 19349663)) % levels]


def dem(n, rng):
    z = fractal(n, 3.4, rng) * np.float32(280) + np.float32(640)
    lake = np.float32(np.quantile(z[::16, ::16], 0.05))
    z = (np.round(np.maximum(z, lake).astype(np.float64) * 100) / 100).astype(np.float32)
    y, x = np.arange(n)[:, None], np.arange(n)[None, :]
    z[((x + 0.12 * y) < 0.05 * n) | ((x - 0.08 * y) > 0.97 * n)] = NODATA
    return z[None]


def s2(n, rng):
    base, fields, texture = fractal(n, 2.6, rng), parcels(n, 90, rng), fractal(n, 1.4, rng)
    gains = [(900, 160, -260, 35), (1100, 190, -220, 40), (1250, 260, -420, 50), (2700, 330, 1700, 90)]
    out = np.empty((len(gains), n, n), np.uint16)
    for band, (mean, of_base, of_fields, of_texture) in zip(out, gains):
        v = mean + of_base * base + of_fields * (fields - np.float32(0.5)) + of_texture * texture
        v += rng.standard_normal((n, n), dtype=np.float32) * np.float32(12)
        band[:] = np.rint(np.clip(v, 1, 10000))
    return out


def rgb(n, rng):
    base, fields, texture = fractal(n, 2.4, rng), parcels(n, 140, rng), fractal(n, 1.6, rng)
    out = np.empty((3, n, n), np.uint8)
    for band, (mean, of_fields, of_base, of_texture) in zip(out, [(118, 70, 16, 9), (126, 55, 18, 9), (98, 40, 14, 8)]):
        v = mean + of_fields * (fields - np.float32(0.5)) + of_base * base + of_texture * texture
        v += rng.standard_normal((n, n), dtype=np.float32) * np.float32(2.5)
        band[:] = np.rint(np.clip(v, 0, 255))
    return out


def lc(n, rng):
    codes = np.array([10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 100], np.uint8)
    best = np.full((n, n), -np.inf, np.float32)
    out = np.zeros((n, n), np.uint8)
    for code in codes:
        field = fractal(n, 3.2, rng, flat_below=12)
        field += np.float32(0.35 if code in (10, 30, 40) else 0)
        higher = field > best
        best[higher] = field[higher]
        out[higher] = code
    specks = n * n // 2000
    out[rng.integers(0, n, specks), rng.integers(0, n, specks)] = rng.choice(codes, specks)
    return out[None]


SOURCES = {"dem": dem, "s2": s2, "rgb": rgb, "lc": lc}


def source(root, name, size):
    """The memory-mapped source array, made first where it is missing; and its facts."""
    path = root / "source" / f"{name}.npy"
    facts = path.with_suffix(".json")
    if not facts.exists():
        start = time.perf_counter()
        pixels = SOURCES[name](size, np.random.default_rng([SEED, *name.encode()]))
        np.save(path, pixels)
        digest = hashlib.sha256(pixels.tobytes()).hexdigest()
        facts.write_text(json.dumps({"shape": pixels.shape, "dtype": str(pixels.dtype), "sha256": digest}))
        print(f"source {name} {pixels.shape} {pixels.dtype} {time.perf_counter() - start:.1f} s", flush=True)
    return np.load(path, mmap_mode="r"), json.loads(facts.read_text())


# ---- files


@dataclass(frozen=True)
class Case:
    """One file to be made."""

    source: str
    layout: str
    codec: str
    options: dict
    small: bool

    @property
    def name(self):
        return f"{self.source}_{self.layout}_{self.codec}"

    @property
    def lossy(self):
        return self.codec in ("jpeg", "webp")


CODECS = {
    "none": {"COMPRESS": "NONE"},
    "deflate": {"COMPRESS": "DEFLATE", "ZLEVEL": 6},
    "zstd": {"COMPRESS": "ZSTD", "ZSTD_LEVEL": 9},
    "lzw": {"COMPRESS": "LZW"},
    "lerc": {"COMPRESS": "LERC", "MAX_Z_ERROR": 0},
    "jpeg": {"COMPRESS": "JPEG", "JPEG_QUALITY": 75, "PHOTOMETRIC": "YCBCR"},
    "webp": {"COMPRESS": "WEBP", "WEBP_LEVEL": 75},
    "webpll": {"COMPRESS": "WEBP", "WEBP_LOSSLESS": "YES"},
}

# source and layout -> codecs; those after the bar belong to the full set only
MATRIX = {
    "dem t512": "none deflate deflate_p3 zstd zstd_p3 lzw_p2 lerc | deflate_p2 zstd_p2 lzw lzw_p3",
    "dem t256": "none zstd_p3 | deflate_p3 lzw_p2 lerc",
    "dem s1": "none deflate_p3 | zstd_p3 lzw_p2",
    "dem s16": "none zstd_p3 | deflate_p3 lzw_p2",
    "dem cog": "deflate_p3 zstd_p3 | lzw_p3 lerc",
    "s2 t512": "none deflate_p2 zstd_p2 lzw_p2 | deflate zstd lzw lerc",
    "s2 t256": "zstd_p2 | none deflate_p2 lzw_p2",
    "s2 t512b": "zstd_p2 | none deflate_p2 lzw_p2",
    "s2 s1": "| none deflate_p2 zstd_p2",
    "s2 s16": "deflate_p2 | none zstd_p2 lzw_p2",
    "s2 cog": "deflate_p2 | zstd_p2",
    "rgb t512": "none deflate_p2 zstd_p2 jpeg webp | lzw_p2 webpll deflate lzw",
    "rgb t256": "jpeg | none lzw_p2 webp",
    "rgb s1": "| none lzw_p2",
    "rgb s16": "lzw_p2 | none jpeg deflate_p2",
    "rgb cog": "jpeg | webp",
    "lc t512": "deflate zstd | none lzw",
    "lc s16": "| lzw deflate",
    "lc cog": "deflate | lzw",
}


def cases():
    """Every file there can be, in the order in which they are made."""
    out = []
    for place, codecs in MATRIX.items():
        source_name, layout = place.split()
        small, full = codecs.split("|") if "|" in codecs else (codecs, "")
        for codec in [*small.split(), *full.split()]:
            kind, _, predictor = codec.partition("_p")
            options = CODECS[kind] | ({"PREDICTOR": int(predictor)} if predictor else {})
            out.append(Case(source_name, layout, codec, options, codec in small.split()))
    return out


def layout_options(case):
    if case.layout.startswith("s"):
        return {"BLOCKYSIZE": int(case.layout[1:]), "INTERLEAVE": "PIXEL"}
    side = int(case.layout[1:].rstrip("b"))
    planes = "BAND" if case.layout.endswith("b") else "PIXEL"
    return {"TILED": "YES", "BLOCKXSIZE": side, "BLOCKYSIZE": side, "INTERLEAVE": planes}


COG_NAMES = {"ZLEVEL": "LEVEL", "ZSTD_LEVEL": "LEVEL", "JPEG_QUALITY": "QUALITY", "WEBP_LEVEL": "QUALITY"}
COG_PREDICTORS = {2: "STANDARD", 3: "FLOATING_POINT"}


def cog_options(case):
    out = {"BLOCKSIZE": 512, "OVERVIEW_RESAMPLING": "NEAREST" if case.source == "lc" else "AVERAGE"}
    for key, value in case.options.items():
        if key == "PREDICTOR":
            out[key] = COG_PREDICTORS[value]
        elif key != "PHOTOMETRIC":  # the COG driver takes YCbCr by itself
            out[COG_NAMES.get(key, key)] = value
    return out


def write(path, case, pixels):
    bands, height, width = pixels.shape
    profile = {
        "width": width,
        "height": height,
        "count": bands,
        "dtype": str(pixels.dtype),
        "crs": "EPSG:32633",
        "transform": from_origin(300000.0, 5200000.0, 10.0, 10.0),
        "nodata": NODATA if case.source == "dem" else None,
    }
    common = {"NUM_THREADS": "ALL_CPUS", "BIGTIFF": "IF_SAFER"}
    if case.layout != "cog":
        with rasterio.open(
            path, "w", driver="GTiff", **profile, **common, **case.options, **layout_options(case)
        ) as out:
            out.write(pixels)
        return
    with rasterio.MemoryFile() as memory:  # the COG driver copies from a dataset
        with memory.open(driver="GTiff", TILED="YES", BIGTIFF="YES", INTERLEAVE="PIXEL", **profile) as out:
            out.write(pixels)
        with memory.open() as whole:
            rasterio.shutil.copy(whole, path, driver="COG", **common, **cog_options(case))


def mean_error(decoded, pixels):
    """Mean absolute difference, band by band to bound the memory."""
    errors = [np.abs(a.astype(np.float32) - b).mean(dtype=np.float64) for a, b in zip(decoded, pixels, strict=True)]
    return float(np.mean(errors))


def make(root, case, pixels):
    """Makes the file where it is missing; returns its entry of the manifest."""
    path = root / "files" / f"{case.name}.tif"
    facts = root / "files" / f"{case.name}.json"
    if not facts.exists():
        start = time.perf_counter()
        part = path.with_suffix(".part")
        write(part, case, pixels)
        with rasterio.open(part) as written:
            error = mean_error(written.read(), pixels)
        if error and not case.lossy:
            raise SystemExit(f"{case.name}: GDAL does not read back what it wrote")
        part.replace(path)
        entry = {
            "file": f"files/{path.name}",
            "source": case.source,
            "layout": case.layout,
            "codec": case.codec,
            "small": case.small,
            "bytes": path.stat().st_size,
            "decoded": pixels.nbytes,
            "shape": pixels.shape,
            "dtype": str(pixels.dtype),
            "mean_error": error,  # of a lossy codec, as GDAL decodes it; 0 means that pixels must be exact
        }
        facts.write_text(json.dumps(entry))
        ratio = entry["bytes"] / pixels.nbytes
        print(
            f"file {case.name} {ratio:.2f} of {pixels.nbytes / 1e6:.0f} MB {time.perf_counter() - start:.1f} s",
            flush=True,
        )
    return json.loads(facts.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("build/bench-data"))
    parser.add_argument("--size", type=int, default=4096, help="rows and columns")
    parser.add_argument("--set", choices=["small", "full"], default="small")
    parser.add_argument("--only", default="*", help="glob over names")
    parser.add_argument("--list", action="store_true", help="names only")
    args = parser.parse_args()

    wanted = [c for c in cases() if (c.small or args.set == "full") and fnmatch.fnmatch(c.name, args.only)]
    if args.list:
        print("\n".join(c.name for c in wanted))
        return
    root = args.data / str(args.size)
    for folder in ("source", "files"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for case in wanted:
        pixels, _ = source(root, case.source, args.size)
        make(root, case, pixels)
    entries = {p.stem: json.loads(p.read_text()) for p in sorted((root / "files").glob("*.json"))}
    sources = {p.stem: json.loads(p.read_text()) for p in sorted((root / "source").glob("*.json"))}
    manifest = {
        "seed": SEED,
        "size": args.size,
        "gdal": rasterio.__gdal_version__,
        "sources": sources,
        "files": entries,
    }
    (root / "manifest.json").write_text(json.dumps(manifest, indent=1))
    print(f"{len(wanted)} files, {sum(e['bytes'] for e in entries.values()) / 1e9:.2f} GB under {root}")


if __name__ == "__main__":
    main()
