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
            yield from _members(stat, stream)
        except tarfile.TarError as error:
            raise ValueError(str(error)) from error


def _members(stat: FileStat, stream: Any) -> Iterator[Record]:
    names: set[str] = set()
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for number, member in enumerate(tar):
            name = member.name.removeprefix("./")
            why = picture_name(name)
            if not member.isreg() or why == "no picture":
                continue
            if why:
                yield Record(inside(stat, f"{number}.jpg", member.size), why=why)
                continue
            if name in names:  # a tar may hold a name twice
                name = f"{number}/{name}"
            names.add(name)
            about = inside(stat, name, member.size)
            try:
                bounded(member.size)
            except Unreadable as error:
                yield Record(about, why=str(error))
                continue
            packed = tar.extractfile(member)
            yield Record(about, b"" if packed is None else packed.read())
        if 0 < stat.size - tar.offset < tarfile.BLOCKSIZE:  # tarfile takes it for the end
            raise Unreadable("a broken shard (it ends inside a header)", again=True)


def recognises(name: str) -> bool:
    return name.lower().endswith(WebDataset.suffix)


def build(name: str) -> WebDataset:
    return WebDataset(name)
