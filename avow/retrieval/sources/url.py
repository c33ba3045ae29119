"""Pictures and texts at a URL: s3, gs, http, hf, by fsspec."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from avow.core import storage
from avow.core.formats import is_picture, is_video
from avow.retrieval.sharding.source import Record, Source, fits, listed_files
from avow.retrieval.store.reading import LARGEST_FILE, too_large
from avow.retrieval.store.walk import TABLES, TEXTS, FileStat, Walk

VIDEOS = "a video at a URL; copy it to a folder and index that"


class Url(Source):
    def __init__(self, name: str):
        self.name = name

    def listing(self, leave_out: Path) -> Walk:
        return listed_files(self.name, _indexable)

    def noted(self, listing: Walk) -> list[str]:
        return [self.name]

    def covers(self, path: str, listing: Walk) -> bool:
        return super().covers(path, listing) and fits(self.name, path, listing)

    def records(self, stat: FileStat) -> Iterator[Record]:
        if is_video(stat.suffix):
            yield Record(stat, why=VIDEOS)
        elif stat.size > LARGEST_FILE:
            yield Record(stat, why=too_large(stat.size))
        else:
            yield Record(stat, fetch=partial(storage.read, stat.path, LARGEST_FILE))


def _indexable(url: str) -> bool:
    suffix = os.path.splitext(url)[1].lower()
    return is_picture(suffix) or is_video(suffix) or suffix in TEXTS | TABLES


def recognises(name: str) -> bool:
    return storage.is_url(name)


def build(name: str) -> Url:
    return Url(name)
