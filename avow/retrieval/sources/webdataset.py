"""WebDataset: tars of pictures, as img2dataset writes them; captions in them are left out."""

import tarfile
from collections import OrderedDict
from collections.abc import Iterator
from tarfile import ReadError, TarFile
from threading import Lock
from typing import Any

from avow.retrieval.sharding.source import (
    Record,
    ShardSource,
    bounded,
    inside,
    picture_name,
)
from avow.retrieval.store.reading import Unreadable
from avow.retrieval.store.walk import FileStat

MOST_KEPT = 200_000
"""Pictures of tars whose places are remembered."""
_InvalidHeader: type[tarfile.TarError] = getattr(tarfile, "InvalidHeaderError")  # noqa: B009 (no stub names it)


class WebDataset(ShardSource):
    kind = "webdataset"
    suffix = ".tar"

    def unpacked(self, stat: FileStat, stream: Any) -> Iterator[Record]:
        try:
            with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as tar:
                for member, about, why in _members(stat, tar):
                    yield _record(tar, member, about, why)
                if 0 < stat.size - tar.offset < tarfile.BLOCKSIZE:  # taken for the end
                    raise Unreadable("a broken shard (it ends inside a header)", again=True)
        except tarfile.TarError as error:
            raise ValueError(str(error)) from error

    def found(self, stat: FileStat, stream: Any, path: str) -> Record | None:
        """Headers alone are read, once: a shard may be a gigabyte, and far away."""
        try:
            member = _contents.of(stat, stream).get(path)
        except tarfile.TarError as error:
            raise ValueError(str(error)) from error
        if member is None:
            return None
        about, start, why = member
        if why:
            return Record(about, why=why)
        stream.seek(start)
        return Record(about, stream.read(about.size))


class _Member(tarfile.TarInfo):
    """A header inside a tar that is none is damage; `tarfile` takes it for the end."""

    @classmethod
    def fromtarfile(cls, tarfile: TarFile) -> "_Member":
        try:
            return super().fromtarfile(tarfile)
        except _InvalidHeader as error:
            raise ReadError(str(error)) from error


_Contents = dict[str, tuple[FileStat, int, str]]


class _KeptContents:
    """Where the pictures of the tars lie that were looked into last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[FileStat, _Contents] = OrderedDict()

    def of(self, stat: FileStat, stream: Any) -> _Contents:
        """By path: the picture as the catalogue knows it, where it begins, why it is not read.

        One at a time: a page asks for many pictures of a tar at once, which is read once.
        """
        with self._lock:
            if stat not in self._kept:
                with tarfile.open(fileobj=stream, mode="r:", tarinfo=_Member) as tar:
                    self._kept[stat] = _places(stat, tar)
            self._kept.move_to_end(stat)
            while len(self._kept) > 1 and sum(map(len, self._kept.values())) > MOST_KEPT:
                self._kept.popitem(last=False)
            return self._kept[stat]


_contents = _KeptContents()


def _places(stat: FileStat, tar: tarfile.TarFile) -> _Contents:
    places: _Contents = {}
    try:
        for member, about, why in _members(stat, tar):
            why = why or ("a sparse file" if member.issparse() else "")
            places[about.path] = about, member.offset_data, why
    except tarfile.TarError:
        if not places:  # what lies before the damage can be read
            raise
    return places


def _members(
    stat: FileStat, tar: tarfile.TarFile
) -> Iterator[tuple[tarfile.TarInfo, FileStat, str]]:
    """Each picture, how the catalogue knows it, and why it is not read (or nothing)."""
    names: set[str] = set()
    for number, member in enumerate(tar):
        name = member.name.removeprefix("./")
        why = picture_name(name)
        if not member.isreg() or why == "no picture":
            continue
        if why:
            name = f"{number}.jpg"
        elif name in names:  # a tar may hold a name twice
            name = f"{number}/{name}"
        names.add(name)
        try:
            bounded(member.size)
        except Unreadable as error:
            why = why or str(error)
        yield member, inside(stat, name, member.size), why


def _record(tar: tarfile.TarFile, member: tarfile.TarInfo, about: FileStat, why: str) -> Record:
    packed = None if why else tar.extractfile(member)
    return Record(about, None if why else b"" if packed is None else packed.read(), why=why)


def recognises(name: str) -> bool:
    return name.lower().endswith(WebDataset.suffix)


def build(name: str) -> WebDataset:
    return WebDataset(name)
