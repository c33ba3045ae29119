"""One picture of a shard, here or in a bucket, read again to be shown or explained."""

from collections.abc import Sequence

from PIL import Image

from avow.core import photographs, storage
from avow.core.errors import AvowError, BadData
from avow.core.storage import is_url
from avow.retrieval.sharding.opening import kind_of, open_source
from avow.retrieval.sharding.source import ShardSource, place_of
from avow.retrieval.store import indexed_folders
from avow.retrieval.store.reading import Unreadable
from avow.retrieval.store.walk import FileStat, look, shard_of

LARGEST_SHARD = 4 * 2**30
"""Bytes of a shard at a URL: to find a picture in a tar, all headers before it are read."""


def open_picture(path: str) -> Image.Image:
    """The picture at `SHARD!/NAME`, decoded."""
    try:
        return photographs.read(picture_bytes(path))
    except photographs.Unreadable as error:
        raise _gone(path, str(error)) from error


def picture_bytes(path: str, fetch: bool = False) -> bytes:
    """The file at `SHARD!/NAME`.

    fetch: also from a shard in a bucket, and from the URL that stands in its place.
    """
    try:
        stat = _stat(shard_of(path), fetch)
        if stat is None:
            raise Unreadable("it is not there")
        source = open_source(stat.path)
        assert isinstance(source, ShardSource)  # by the end of its name
        record = source.record(stat, path)
        if record is not None and record.fetch is not None and fetch:
            return record.fetch()
    except (AvowError, Unreadable, ValueError) as error:
        raise _gone(path, str(error)) from error
    if record is None or record.data is None:
        raise _gone(path, "it is not there" if record is None else record.why or "it is a URL")
    return record.data


def lies_inside(path: str, noted: Sequence[str]) -> bool:
    """Whether the shard of a path, every link followed, is in what an index was made from."""
    shard = shard_of(path)
    places = [place_of(kind_of(name)[1]) for name in noted]
    if shard is not None and is_url(shard):
        return any(f"{shard}/".startswith(f"{place.rstrip('/')}/") for place in places)
    return shard is not None and indexed_folders.inside(shard, places) is not None


def _stat(shard: str | None, fetch: bool) -> FileStat | None:
    if shard is None or not is_url(shard):
        return None if shard is None else look(shard)
    if not fetch:
        return None
    file = storage.described(shard)
    if file.size > LARGEST_SHARD:
        raise Unreadable(f"its shard has {file.size} bytes; {LARGEST_SHARD} at most")
    return FileStat(shard, file.size, file.modified_ns, file.tag)


def _gone(path: str, why: str) -> BadData:
    return BadData(
        f"The picture {path!r} cannot be opened ({why}). Expected the shard as it was indexed, "
        "with the picture in it; run `avow index` again."
    )
