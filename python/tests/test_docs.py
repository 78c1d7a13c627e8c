"""Examples in docstrings run, stubs are true, the tutorial works."""

import doctest
import importlib
import importlib.util
import inspect
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


@pytest.mark.parametrize("name", ["open", "read_many", "to_geotiff", "xarray.open_geotiff", "mosaic.open_mosaic"])
def test_every_option_is_explained(name):
    *module, function = name.split(".")
    if module:
        pytest.importorskip("xarray")
    called = getattr(importlib.import_module(".".join(["tiffjet", *module])), function)
    explained = {word.strip() for line in inspect.getdoc(called).splitlines() for word in line.split(",") if " " not in word.strip()}
    assert set(inspect.signature(called).parameters) <= explained


@pytest.mark.parametrize("name", ["xarray.open_geotiff", "mosaic.open_mosaic"])
def test_functions_that_need_xarray_say_how_they_are_called(name, monkeypatch):
    module, function = name.split(".")
    shown = inspect.signature(getattr(tiffjet, function)).parameters.values()
    if importlib.util.find_spec("xarray"):
        real = inspect.signature(getattr(importlib.import_module(f"tiffjet.{module}"), function)).parameters.values()
        assert [(p.name, p.kind, p.default) for p in shown] == [(p.name, p.kind, p.default) for p in real]
    for absent in ("xarray", f"tiffjet.{module}"):
        monkeypatch.delitem(sys.modules, absent, raising=False)
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(tiffjet.UnavailableError, match=r"tiffjet\[xarray\]"):
        getattr(tiffjet, function)("any.tif")


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
