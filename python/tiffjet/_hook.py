"""Importing one module right after another, so that `import tiffjet` need not import xarray."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType


class _After(importlib.abc.Loader):
    """The loader of a module, and then another module."""

    def __init__(self, loader: importlib.abc.Loader, then: str) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # From here on the module looks as if nobody had waited for it.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        importlib.import_module(self._then)


class _Waiting(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, then: str) -> None:
        self._name = name
        self._then = then

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _After(spec.loader, self._then)
        return spec


def when_imported(name: str, then: str) -> None:
    """Imports module `then` as soon as somebody has imported module `name`."""
    sys.meta_path.insert(0, _Waiting(name, then))
