"""The promise of a source: it lists files, and gives the items in each as records.

A listed file is an item itself (a picture in a folder), or a shard that holds many (a tar).
An item of a shard has the path `SHARD!/NAME`.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from avow.core import storage
from avow.core.errors import AvowError, BadData
from avow.core.formats import is_picture
from avow.core.written_text import ReadText
from avow.retrieval.store.reading import LARGEST_FILE, Loaded, Unreadable, load, too_large
from avow.retrieval.store.walk import INSIDE, FileStat, Walk, look, readable, shard_of, walk

LONGEST_NAME = 500
"""Characters of the name of an item in a shard."""
AHEAD = 2**20
"""Bytes of a shard at a URL that are asked for at once where one picture of it is wanted."""
_WILD = frozenset("*?[")


@dataclass(frozen=True)
class Record:
    """One item of a source before it is decoded."""

    stat: FileStat
    data: bytes | None = None
    fetch: Callable[[], bytes] | None = None
    """Gives the bytes; called in a thread. None, and no `data`: a file of this machine."""
    why: str = ""
    """Why there are no bytes; empty where there are."""
    again: bool = False

    def load(
        self, prepare: Callable[[Image.Image], np.ndarray], read_text: ReadText | None
    ) -> Loaded:
        if self.why:
            raise Unreadable(self.why, self.again)
        data = self.data if self.fetch is None else self._fetched()
        return load(self.stat, prepare, (), read_text, data)

    def _fetched(self) -> bytes:
        assert self.fetch is not None
        try:
            return self.fetch()
        except AvowError as error:
            raise Unreadable(str(error), again=True) from error
        except ValueError as error:
            raise Unreadable(str(error)) from error


class Source(ABC):
    """Files that may lie anywhere, and the items in them."""

    many: bool = False
    """Whether a listed file is a shard."""

    @abstractmethod
    def listing(self, leave_out: Path) -> Walk:
        """Every file, in an order that does not change. leave_out: the index folder."""

    @abstractmethod
    def records(self, stat: FileStat) -> Iterator[Record]:
        """The items of one listed file, in their order."""

    def noted(self, listing: Walk) -> list[str]:
        """What the index notes, so that a later run over all it covers looks here again."""
        return listing.roots

    def covers(self, path: str, listing: Walk) -> bool:
        """Whether `listing` would have met an indexed path if it were there."""
        return listing.covers(path)


class ShardSource(Source):
    """Files of one suffix, here or at a URL, each of which holds many pictures."""

    many = True
    suffix: str
    kind: str
    """The name of its module."""

    def __init__(self, name: str):
        self.name = name

    def listing(self, leave_out: Path) -> Walk:
        return listed_files(self.name, self._is_shard)

    def records(self, stat: FileStat) -> Iterator[Record]:
        try:
            with opened_file(stat) as stream:
                yield from self.unpacked(stat, stream)
        except Unreadable as error:
            yield Record(stat, why=str(error), again=error.again)
        except MemoryError:
            yield Record(stat, why="needs more memory than there is", again=True)
        except AvowError as error:
            yield Record(stat, why=str(error), again=True)
        except ValueError as error:
            yield Record(stat, why=f"a broken shard ({_short(error)})")
        except Exception as error:  # every library of a store has errors of its own
            yield Record(stat, why=f"cannot be read ({_short(error)})", again=True)

    def noted(self, listing: Walk) -> list[str]:
        place = self.name if storage.is_url(self.name) else os.path.abspath(self.name)
        return [f"{self.kind}:{place}"]

    def covers(self, path: str, listing: Walk) -> bool:
        shard = shard_of(path)
        return shard is not None and self._is_shard(shard) and fits(self.name, shard, listing)

    def record(self, stat: FileStat, path: str) -> Record | None:
        """The item of a listed file that has this path, to be shown again."""
        with opened_file(stat, AHEAD) as stream:
            return self.found(stat, stream, path)

    def found(self, stat: FileStat, stream: Any, path: str) -> Record | None:
        """The same of an open shard; one that can be entered anywhere reads less."""
        rows = self.unpacked(stat, stream)
        return next((one for one in rows if one.stat.path == path), None)

    @abstractmethod
    def unpacked(self, stat: FileStat, stream: Any) -> Iterator[Record]:
        """The pictures of one shard; what this raises is why the rest of it is not read."""

    def _is_shard(self, path: str) -> bool:
        return path.lower().endswith(self.suffix)


def fits(name: str, path: str, listing: Walk) -> bool:
    """Whether a file is one that the name of a source, a folder or a pattern, stands for."""
    pattern = name.rpartition("/")[2]
    if not _WILD & set(pattern):
        return listing.covers(path)
    root = f"{listing.roots[0]}/"
    rest = path.removeprefix(root)
    return path.startswith(root) and "/" not in rest and fnmatchcase(rest, pattern)


def place_of(name: str) -> str:
    """The folder or file that holds what a name stands for, which may be a pattern."""
    folder, _, pattern = name.rpartition("/")
    return folder if _WILD & set(pattern) else name


def inside(stat: FileStat, name: str, size: int) -> FileStat:
    """An item of a shard as the catalogue knows it: it changes when its shard does."""
    return FileStat(f"{stat.path}{INSIDE}{name}", size, stat.mtime_ns, stat.inode)


def listed_files(name: str, wanted: Callable[[str], bool]) -> Walk:
    """The files at a URL, in a folder or at a path that are `wanted`, as a walk lists them.

    The last part of a name may be a pattern.
    """
    folder, _, pattern = name.rpartition("/")
    if _WILD & set(folder):
        raise BadData(
            f"The pattern {name!r} has a * before its last /. Expected one in the last part "
            "only; name each folder."
        )
    if not storage.is_url(name):
        return _local_files(name, wanted)
    listing = Walk([folder if _WILD & set(pattern) else name.rstrip("/")])
    for file in storage.listed(name):
        if wanted(file.url):
            stat = FileStat(file.url, file.size, file.modified_ns, file.tag)
            listing.files[file.url] = stat
    return listing


def _local_files(name: str, wanted: Callable[[str], bool]) -> Walk:
    folder, _, pattern = name.rpartition("/")
    if _WILD & set(pattern):
        roots = walk([folder or "."]).roots
        paths = [str(path) for path in sorted(Path(roots[0]).glob(pattern))]
    else:
        roots = walk([name]).roots  # says where there is nothing
        below = sorted(Path(roots[0]).rglob("*")) if Path(roots[0]).is_dir() else [roots[0]]
        paths = [str(path) for path in below]
    listing = Walk(roots)
    for path in paths:
        stat = look(path) if wanted(path) else None
        if stat is None:
            continue
        if readable(path) == path:
            listing.files[path] = stat
        else:
            listing.skip(path, "its name is not valid UTF-8; rename it")
    return listing


@contextmanager
def opened_file(stat: FileStat, ahead: int | None = None) -> Iterator[Any]:
    """A listed file as a stream, wherever it lies. ahead: as in `storage.opened`."""
    if storage.is_url(stat.path):
        with storage.opened(stat.path, ahead) as stream:
            yield stream
        return
    try:
        with open(stat.path, "rb") as stream:
            yield stream
    except OSError as error:
        raise Unreadable(f"cannot be read ({error.strerror or error})", again=True) from error


def picture_name(name: str) -> str:
    """Why a name in a shard is not one of a picture; empty where it is."""
    if not is_picture(Path(name).suffix.lower()):
        return "no picture"
    if len(name) > LONGEST_NAME or readable(name) != name or not name.isprintable():
        return "its name is longer than 500 characters, or not printable"
    return ""


def bounded(size: int) -> None:
    """Refuse a picture that is larger than any that is read."""
    if size > LARGEST_FILE:
        raise Unreadable(too_large(size))


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120]
