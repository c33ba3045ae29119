"""One picture of a shard of this machine, read again to be shown or explained."""

from collections.abc import Sequence

from PIL import Image

from avow.core import photographs
from avow.core.errors import AvowError, BadData
from avow.retrieval.sharding.opening import kind_of, open_source
from avow.retrieval.sharding.source import ShardSource, place_of
from avow.retrieval.store import indexed_folders
from avow.retrieval.store.reading import Unreadable
from avow.retrieval.store.walk import look, shard_of


def open_picture(path: str) -> Image.Image:
    """The picture at `SHARD!/NAME`, decoded."""
    try:
        return photographs.read(picture_bytes(path))
    except photographs.Unreadable as error:
        raise _gone(path, str(error)) from error


def picture_bytes(path: str, fetch: bool = False) -> bytes:
    """The file at `SHARD!/NAME`. fetch: also from the URL that stands in its place."""
    shard = shard_of(path)
    stat = None if shard is None else look(shard)
    if stat is None:
        raise _gone(path, "it is not there")
    try:
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
    return shard is not None and indexed_folders.inside(shard, places) is not None


def _gone(path: str, why: str) -> BadData:
    return BadData(
        f"The picture {path!r} cannot be opened ({why}). Expected the shard as it was indexed, "
        "with the picture in it; run `avow index` again."
    )
