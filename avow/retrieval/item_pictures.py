"""The picture of an item: its file, or the key frame of a moment of a video."""

from pathlib import Path

from PIL import Image

from avow.core.errors import BadData, BadQuery
from avow.core.photographs import open_photograph
from avow.core.storage import is_url
from avow.retrieval.store.items import Item
from avow.retrieval.store.walk import INSIDE


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
