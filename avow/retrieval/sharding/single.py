"""One picture of a shard of this machine, opened again to be shown or explained."""

from PIL import Image

from avow.core import photographs
from avow.core.errors import BadData
from avow.retrieval.sharding.opening import open_source
from avow.retrieval.store.walk import look, shard_of


def open_picture(path: str) -> Image.Image:
    """The picture at `SHARD!/NAME`; the shard is read up to it."""
    shard = shard_of(path)
    stat = None if shard is None else look(shard)
    if stat is not None:
        for record in open_source(stat.path).records(stat):
            if record.stat.path == path and record.data is not None:
                try:
                    return photographs.read(record.data)
                except photographs.Unreadable as error:
                    raise _gone(path, str(error)) from error
    raise _gone(path, "it is not there")


def _gone(path: str, why: str) -> BadData:
    return BadData(
        f"The picture {path!r} cannot be opened ({why}). Expected the shard as it was indexed, "
        "with the picture in it; run `avow index` again."
    )
