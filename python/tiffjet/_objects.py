"""Files that other libraries reach: those of fsspec, and of obstore and whatever has its methods.

They are known by what they can do, so neither library is needed. A file system or store with a path is given as a pair:
`(fs, "bucket/file.tif")`.
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# What tells one version of a file from the next, under the names that file systems have for it.
_MARKS = ("ETag", "etag", "e_tag", "md5Hash", "LastModified", "last_modified", "updated", "mtime", "created")


class Ranges(ABC):
    """A file in a store of another library: the extension module reads it by ranges, many in one call."""

    def __init__(self, store: Any, path: str) -> None:
        self.store = store
        self.path = path

    @property
    def name(self) -> str:
        """For errors."""
        return self.path

    @abstractmethod
    def version(self) -> tuple[int, str | None]:
        """Bytes of the file, and what changes when it does; asks the store."""

    @abstractmethod
    def read_ranges(self, starts: Sequence[int], ends: Sequence[int]) -> Sequence[Any]:
        """The bytes between some starts and ends, one request for each or for several."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.path == self.path and bool(other.store == self.store)

    def __hash__(self) -> int:
        return hash((type(self), self.path))  # stores need not be hashable

    def __reduce__(self) -> Any:
        return type(self), (self.store, self.path)

    def __dask_tokenize__(self) -> Any:
        return type(self).__name__, self.path, self.store


class FileSystemRanges(Ranges):
    """A file of fsspec."""

    def version(self) -> tuple[int, str | None]:
        info = self.store.info(self.path)
        if info.get("size") is None:
            raise OSError(f"{self.name}: the file system does not say how long it is")
        mark = next((info[name] for name in _MARKS if info.get(name) is not None), None)
        return int(info["size"]), None if mark is None else str(mark)

    def read_ranges(self, starts: Sequence[int], ends: Sequence[int]) -> Sequence[Any]:
        return self.store.cat_ranges([self.path] * len(starts), list(starts), list(ends), on_error="raise")


class StoreRanges(Ranges):
    """An object of obstore, or of a store with its methods (obspec)."""

    def version(self) -> tuple[int, str | None]:
        info = self.store.head(self.path)
        mark = info.get("e_tag") or info.get("last_modified")
        return int(info["size"]), None if mark is None else str(mark)

    def read_ranges(self, starts: Sequence[int], ends: Sequence[int]) -> Sequence[Any]:
        return self.store.get_ranges(self.path, starts=list(starts), ends=list(ends))


def _is_file_system(store: Any) -> bool:
    return hasattr(store, "cat_ranges") and hasattr(store, "info")


def _is_store(store: Any) -> bool:
    return hasattr(store, "get_ranges") and hasattr(store, "head")


def _is_local(fs: Any) -> bool:
    protocol = getattr(fs, "protocol", ())
    return "file" in ((protocol,) if isinstance(protocol, str) else tuple(protocol))


def _pair(value: Any) -> tuple[Any, str] | None:
    """A file system or store and a path in it; None for anything else."""
    if isinstance(value, tuple):
        if len(value) == 2 and isinstance(value[1], (str, os.PathLike)):
            store, path = value
            if _is_file_system(store) or _is_store(store):
                return store, os.fspath(path)
        raise TypeError(f"a pair is (file system or store, path), not {tuple(type(part).__name__ for part in value)}")
    fs, path = getattr(value, "fs", None), getattr(value, "path", None)
    if _is_file_system(fs) and isinstance(path, str):
        return fs, path
    return None


def source(src: Any) -> Any:
    """What the extension module opens: an object of fsspec or obstore as `Ranges` or a path, all else as it is."""
    if isinstance(src, (str, bytes, Ranges)):
        return src
    pair = _pair(src)
    if pair is None:
        opens = not hasattr(src, "read") and not hasattr(src, "__fspath__") and hasattr(src, "open")
        return src.open() if opens else src
    store, path = pair
    if not _is_file_system(store):
        return StoreRanges(store, path)
    if getattr(src, "compression", None) is not None:
        return src.open()  # its bytes are not those of the store
    if _is_local(store):
        return store._strip_protocol(path)
    if getattr(store, "async_impl", False):
        return FileSystemRanges(store, path)
    # No requests to save, and perhaps a cache to use: as a file.
    return src if hasattr(src, "read") else store.open(path, "rb")


def is_object(dst: Any) -> bool:
    """Whether it is the URL of an object of a store that the extension module writes to."""
    return isinstance(dst, str) and dst.lower().startswith(("s3://", "gs://", "az://", "azure://", "abfs://", "abfss://"))


@contextlib.contextmanager
def destination(dst: Any) -> Iterator[Any]:
    """What the extension module writes to. A file that is opened here appears when all went well, and not else."""
    pair = None if isinstance(dst, (str, bytes)) or hasattr(dst, "write") else _pair(dst)
    if pair is None:
        yield dst
        return
    store, path = pair
    if not _is_file_system(store):
        from obstore import open_writer

        writer = open_writer(store, path)
        yield writer
        writer.close()  # the object appears now; without it, never
    elif _is_local(store):
        yield store._strip_protocol(path)
    else:
        with _FileSystemWriter(store, path) as file:
            yield file


class _FileSystemWriter:
    """A file of fsspec that takes its place at the end, or is thrown away."""

    def __init__(self, fs: Any, path: str) -> None:
        self._file = fs.open(path, "wb", autocommit=False)

    def __enter__(self) -> Any:
        return self._file

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if kind is None:
            self._file.close()
            self._file.commit()
        else:
            self._file.discard()
            self._file.closed = True  # or it would be written when it is forgotten


def flat_options(options: Mapping[str, Any] | None) -> tuple[tuple[str, str], ...]:
    """`storage_options` as pairs of texts: truths and numbers spelt out, mappings (`client_kwargs`) put in line."""
    pairs: dict[str, str] = {}
    for key, value in (options or {}).items():
        if isinstance(value, Mapping):
            prefix = "header." if key == "headers" else ""
            pairs.update((prefix + name, text) for name, text in flat_options(value))
        elif value is not None:
            pairs[str(key)] = str(value).lower() if isinstance(value, bool) else str(value)
    return tuple(sorted(pairs.items()))
