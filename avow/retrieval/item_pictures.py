"""The picture of an item: its file, or the key frame of a moment of a video."""

from pathlib import Path

from PIL import Image

from avow.core.errors import BadQuery
from avow.core.photographs import open_photograph
from avow.retrieval.store.items import Item


def open_item(item: Item) -> Image.Image:
    """Opened, upright where it is a frame; a text is refused."""
    if item.moment is not None:
        from avow.core.videos import frame_at  # searches do without

        return Image.fromarray(frame_at(Path(item.path), item.moment.key).image)
    if item.kind == "text":
        raise BadQuery(
            f"Item {item.id} ({item.path!r}) is a text. Expected a picture; choose another hit."
        )
    return open_photograph(Path(item.path))
