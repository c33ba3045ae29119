"""The picture of an item: its file, or the key frame of a moment of a video.

A picture in a shard of this machine is read from it. One that lies at a URL is fetched only
where whoever runs Avow has said so (AVOW_FETCH_PICTURES=1): an index that somebody sent must
not make this machine ask servers that it names.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PIL import Image

from avow.core import storage
from avow.core.errors import BadData, BadQuery
from avow.core.photographs import open_photograph
from avow.core.storage import is_url
from avow.retrieval.store.items import Item
from avow.retrieval.store.reading import LARGEST_FILE
from avow.retrieval.store.walk import INSIDE

_FETCH = "AVOW_FETCH_PICTURES"
_WEB = ("http", "https")
"""Asked from public addresses only, and for whole files: no shard is searched there."""


def open_item(item: Item) -> Image.Image:
    """Opened, upright where it is a frame; a text is refused."""
    if item.moment is not None:
        from avow.core.videos import frame_at  # searches do without

        return Image.fromarray(frame_at(Path(item.path), item.moment.key).image)
    if item.kind == "text":
        raise BadQuery(
            f"Item {item.id} ({item.path!r}) is a text. Expected a picture; choose another hit."
        )
    if is_url(item.path):  # a search asks no server, whatever an index says
        raise BadData(
            f"Item {item.id} lies at {item.path!r}. Expected a file of this machine; download "
            "it, and ask about the copy."
        )
    if INSIDE in item.path and not Path(item.path).exists():
        from avow.retrieval.sharding.single import open_picture  # most indexes do without

        return open_picture(item.path)
    return open_photograph(Path(item.path))


def bytes_elsewhere(item: Item, noted: Sequence[str]) -> Callable[[], bytes] | None:
    """What reads the file of a picture that is no file here; None where it must be one.

    noted: the folders and sources of the index; a shard outside of them is not opened.
    """
    if is_url(item.path):
        return partial(_fetched, item, noted)
    if INSIDE not in item.path or Path(item.path).exists():
        return None
    from avow.retrieval.sharding.single import lies_inside, picture_bytes

    return (
        partial(picture_bytes, item.path, _may_fetch())
        if lies_inside(item.path, noted)
        else None
    )


def why_not_fetched(item: Item) -> str:
    """Why a picture at a URL is not asked for at all; empty where it may be tried."""
    in_shard, may = INSIDE in item.path, _may_fetch()
    if not is_url(item.path) or (may and not (in_shard and _scheme(item) in _WEB)):
        return ""
    return (
        f"Item {item.id} lies at {item.path!r}. Expected a file of this machine; copy the "
        f"{'shard' if in_shard else 'picture'} here and index that"
        + ("." if may else f", or set {_FETCH}=1 to fetch pictures that lie at URLs.")
    )


def _may_fetch() -> bool:
    return os.environ.get(_FETCH) == "1"


def _scheme(item: Item) -> str:
    return item.path.partition(":")[0].lower()


def _fetched(item: Item, noted: Sequence[str]) -> bytes:
    if why := why_not_fetched(item):
        raise BadData(why)
    if INSIDE in item.path:
        from avow.retrieval.sharding.single import lies_inside, picture_bytes

        if not lies_inside(item.path, noted):
            raise BadData(
                f"Item {item.id} lies at {item.path!r}. Expected a shard that was indexed; "
                "run `avow index` with its name."
            )
        return picture_bytes(item.path, fetch=True)
    try:
        if _scheme(item) in _WEB:
            from avow.core.web import fetch_public  # few indexes need it

            return fetch_public(item.path, LARGEST_FILE)
        return storage.read(item.path, LARGEST_FILE)
    except ValueError as error:
        raise BadData(f"Item {item.id} cannot be fetched: {error}.") from error
