"""The table of engines: ourselves, every rival, and the floors.

An engine is a process that speaks the line protocol of `serve.py`. A new one in Python is a file beside this one and
a line in `ENGINES`; a new one in anything else is a command that speaks the protocol, and a line.
"""

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
WORKER = Path(os.environ.get("TIFFJET_BENCH_WORKER", HERE.parent / "target" / "release" / "tiffjet-bench"))

# GDAL lists the folder of every file it opens unless told not to; a rival gets its best setting.
NO_LISTING = {"GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR"}
# Megabytes: about the tiles of one window, so that a second window finds nothing of the first.
SMALL_CACHE = NO_LISTING | {"GDAL_CACHEMAX": "8"}


@dataclass(frozen=True, eq=False)
class Engine:
    """One line of the table."""

    name: str
    kind: str  # "ours", "rival" or "floor"
    module: str = ""  # engines/MODULE.py, served by serve.py; empty: the Rust worker
    arguments: tuple = ()  # of the module's Adapter
    env: dict = field(default_factory=dict)
    roles: frozenset = frozenset({"read", "open", "windows"})
    note: str = ""

    def command(self):
        if not self.module:
            return [str(WORKER)]
        return [sys.executable, str(HERE / "serve.py"), self.module, *map(str, self.arguments)]


def only(*roles):
    return frozenset(roles)


ENGINES = [
    Engine("tiffjet", "ours", note="all cores"),
    Engine("tiffjet-cold", "ours", env={"TIFFJET_BENCH_CACHE": "0"}, roles=only("windows"), note="no cache of tiles"),
    Engine("gdal-1", "rival", "gdal", ("GTiff", 1), NO_LISTING, note="GTiff, one thread"),
    Engine("gdal-n", "rival", "gdal", ("GTiff", "ALL_CPUS"), NO_LISTING, note="GTiff, all cores"),
    Engine("libertiff-n", "rival", "gdal", ("LIBERTIFF", "ALL_CPUS"), NO_LISTING, note="LIBERTIFF, all cores"),
    Engine("tifffile-1", "rival", "tiff_file", (1,), note="one worker"),
    Engine("tifffile-n", "rival", "tiff_file", (0,), note="as many workers as cores"),
    Engine("async-geotiff", "rival", "async_geotiff", note="its own thread pool"),
    Engine("xarray-spatial", "rival", "xarray_spatial", note="its own thread pool"),
    Engine("rioxarray", "rival", "rioxarray_", (), NO_LISTING, note="GTiff, one thread, into a DataArray"),
    Engine("cog3pio", "rival", "cog3pio_", roles=only("read"), note="one thread"),
    Engine("rasterio", "rival", "gdal", ("", ""), roles=only("open"), note="rasterio.open(path), nothing set"),
    Engine("gdal-1-cold", "rival", "gdal", ("GTiff", 1), SMALL_CACHE, only("windows"), "block cache of 8 MB"),
    Engine("gdal-n-cold", "rival", "gdal", ("GTiff", "ALL_CPUS"), SMALL_CACHE, only("windows"), "block cache of 8 MB"),
    Engine("floor-tiffjet", "floor", roles=only("read"), note="tiffjet's codecs alone"),
    Engine("floor-imagecodecs", "floor", "floor", roles=only("read"), note="imagecodecs alone, in threads"),
]

# Engines whose kept-open file answers from decoded blocks of earlier windows. LIBERTIFF is none of them: with threads
# it decodes past GDAL's block cache, and its windows take the same time with a cache of any size.
WARM_CACHE = {"tiffjet", "gdal-1", "gdal-n", "rioxarray"}


def pick(names, role):
    """The engines of a role, all of them or those named."""
    unknown = set(names) - {e.name for e in ENGINES}
    if unknown:
        raise SystemExit(f"no such engine: {', '.join(sorted(unknown))}")
    return [e for e in ENGINES if role in e.roles and (not names or e.name in names)]
