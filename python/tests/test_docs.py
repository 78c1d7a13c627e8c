"""Examples in docstrings run, stubs are true, the tutorial works."""

import doctest
import importlib
import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

import tiffjet

MODULES = {"tiffjet": [], "tiffjet._files": [], "tiffjet._read": [], "tiffjet._write": [], "tiffjet._doctor": [],
           "tiffjet.windows": [], "tiffjet.xarray": ["xarray"], "tiffjet.mosaic": ["xarray"], "tiffjet.dask": ["dask"]}


@pytest.mark.parametrize("name", MODULES)
def test_examples(name, folder):
    for needed in MODULES[name]:
        pytest.importorskip(needed)
    module = importlib.import_module(name)
    outcome = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert outcome.failed == 0


def test_stubs(folder):
    """Every name, argument and default of the extension module is as its stub says."""
    pytest.importorskip("mypy.stubtest")
    command = [sys.executable, "-m", "mypy.stubtest", "tiffjet._tiffjet"]
    outcome = subprocess.run(command, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_the_package_says_that_it_is_typed():
    assert (pathlib.Path(tiffjet.__file__).parent / "py.typed").exists()
    assert tiffjet._tiffjet.__file__.endswith(".so")


def test_the_tutorial(folder, monkeypatch):
    for needed in ("nbclient", "ipykernel", "xarray", "dask"):
        pytest.importorskip(needed)
    import nbformat
    from nbclient import NotebookClient

    path = pathlib.Path(__file__).parents[2] / "docs" / "guides" / "tutorial.ipynb"
    notebook = nbformat.read(path, as_version=4)
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(folder))
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": os.getcwd()}}).execute()
    written = tiffjet.validate("masked.tif")
    assert written["valid"] and written["cog"]
