"""Folders of this machine, or of a disk that all machines share, and tables of captions."""

from collections.abc import Iterator
from pathlib import Path

from avow.core import storage
from avow.retrieval.sharding.source import Record, Source
from avow.retrieval.store.walk import FileStat, Walk, walk


class Folder(Source):
    def __init__(self, name: str):
        self.name = name

    def listing(self, leave_out: Path) -> Walk:
        return walk([self.name], leave_out)

    def records(self, stat: FileStat) -> Iterator[Record]:
        yield Record(stat)


def recognises(name: str) -> bool:
    return not storage.is_url(name)


def build(name: str) -> Folder:
    return Folder(name)
