"""What tiffjet finds on this machine."""

import importlib.metadata
import platform
import sys
from typing import Any

from . import _tiffjet

# What each optional package is for.
_PACKAGES = {
    "numpy": "arrays",
    "xarray": "open_geotiff, the engine and the accessor",
    "pyproj": "the full text of an EPSG code in spatial_ref",
    "dask": "chunks= and streamed writing",
    "distributed": "dask on several processes",
    "rioxarray": "da.rio",
    "rasterix": "lazy coordinates",
    "cupy": "DataArrays on CUDA",
    "torch": "tensors on either side",
    "tqdm": "progress=True",
}


def doctor() -> dict[str, Any]:
    """What is here: versions, devices, codecs, optional packages.

    Examples
    --------
    >>> import tiffjet
    >>> facts = tiffjet.doctor()
    >>> facts["devices"][0]["device"]
    'cpu'
    >>> "zstd" in facts["codecs"]
    True
    """
    return {
        "tiffjet": _tiffjet.__version__,
        "python": platform.python_version(),
        "free_threaded": not getattr(sys, "_is_gil_enabled", lambda: True)(),
        "platform": platform.platform(),
        "devices": [{"device": device, "what": what} for device, what in _tiffjet._devices()],
        "libraries": [
            {"library": name, "path": path, "version": version, "for": use, "problem": problem}
            for name, path, version, use, problem in _tiffjet._libraries()
        ],
        "codecs": _tiffjet._codecs(),
        "packages": {name: {"version": _version(name), "for": use} for name, use in _PACKAGES.items()},
    }


def _version(name: str) -> str | None:
    names = (name, f"{name}-cuda12x", f"{name}-cuda13x") if name == "cupy" else (name,)
    for candidate in names:
        try:
            return importlib.metadata.version(candidate)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None
