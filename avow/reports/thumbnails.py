"""Photographs made small enough to be part of a page."""

import base64
import io
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from avow.core.photographs import open_photograph, upright_rgb

Pictures = Callable[[str], Path | None]
"""Where the photograph of an image lies, for images that have one."""

LARGEST = (280, 160)
"""Width and height within which a photograph is kept."""
_QUALITY = 80


def embedded(name: str, pictures: Pictures | None) -> dict[str, str | int] | None:
    """The attributes of an `img` that holds the photograph, where there is one."""
    path = pictures(name) if pictures is not None else None
    if path is None:
        return None
    image, stream = thumbnail(path), io.BytesIO()
    image.save(stream, format="JPEG", quality=_QUALITY, optimize=True)
    text = base64.b64encode(stream.getvalue()).decode("ascii")
    source = f"data:image/jpeg;base64,{text}"
    return {"src": source, "width": image.width, "height": image.height}


def thumbnail(path: Path) -> Image.Image:
    """A photograph the right way up, small enough to be part of a page."""
    image = upright_rgb(open_photograph(path))
    image.thumbnail(LARGEST, Image.Resampling.LANCZOS)
    return image
