"""WebDataset: tars of pictures, as img2dataset writes them; captions in them are left out."""

import tarfile
from collections.abc import Iterator
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


class WebDataset(ShardSource):
    kind = "webdataset"
    suffix = ".tar"

    def unpacked(self, stat: FileStat, stream: Any) -> Iterator[Record]:
        try:
            with tarfile.open(fileobj=stream, mode="r|") as tar:
                for member, about, why in _members(stat, tar):
                    yield _record(tar, member, about, why)
                if 0 < stat.size - tar.offset < tarfile.BLOCKSIZE:  # taken for the end
                    raise Unreadable("a broken shard (it ends inside a header)", again=True)
        except tarfile.TarError as error:
            raise ValueError(str(error)) from error

    def found(self, stat: FileStat, stream: Any, path: str) -> Record | None:
        """Only headers are read up to it: a shard may be a gigabyte."""
        try:
            with tarfile.open(fileobj=stream, mode="r:") as tar:
                for member, about, why in _members(stat, tar):
                    if about.path == path:
                        return _record(tar, member, about, why)
        except tarfile.TarError as error:
            raise ValueError(str(error)) from error
        return None


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
