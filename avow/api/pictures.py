"""Pictures that come in and go out: uploads, thumbnails, heat maps.

A picture goes out only when its file is in the index and, with every link followed, still
lies in a folder or a shard that was indexed. Thumbnails stand upright and carry no data of the
camera.
"""

import io
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

import numpy as np
from PIL import Image, ImageOps

from avow.api.refusals import Refusal
from avow.core import formats, photographs, videos
from avow.core.errors import AvowError, UnreadableVideo
from avow.retrieval.item_pictures import bytes_elsewhere
from avow.retrieval.store.indexed_folders import inside
from avow.retrieval.store.items import Item

SIZES = (128, 256, 512, 1024, 1536)
"""Edges of thumbnails; a size in between gets the next larger one."""
_STATUS = {"size": 413, "package": 415}
_WARM = (255, 92, 20)
_COVER = 0.68  # how much of the picture the strongest place hides
_HEAT_EDGE = 384


def uploaded(content: bytes, pixels: int) -> Image.Image:
    """The picture somebody sent, decoded and upright.

    A larger one than `pixels` is refused even where it could be read in part: unpacking a
    small file of a thousand million pixels takes half a minute.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            width, height = photographs.size(content)
            if width * height > pixels:
                raise Refusal(
                    413,
                    f"The picture has {width} x {height} pixels. At most "
                    f"{pixels / 1e6:.0f} million are read; send a smaller one.",
                )
            return ImageOps.exif_transpose(photographs.read(content, pixels))
    except Refusal:
        raise
    except Exception as error:  # decoders of broken files raise almost anything
        if (refusal := _limit(error)) is not None:
            raise refusal from error
        raise Refusal(
            415,
            f"The upload is no picture that can be read. Expected a {formats.titles()} file; "
            "send another one.",
        ) from error


def confined(path: str, folders: Sequence[str]) -> Path:
    """The real file behind an indexed path, if it still lies in an indexed folder."""
    real = inside(path, folders)
    if real is None:
        raise _gone()
    return real


Origin = Path | Callable[[], bytes]
"""The file of a picture, or what reads it from where else it lies."""


def origin(item: Item, folders: Sequence[str]) -> Origin:
    """Where the bytes of a picture or a video come from, if it lies where it was indexed."""
    return bytes_elsewhere(item, folders) or confined(item.path, folders)


def content_of(place: Callable[[], bytes]) -> bytes:
    """The bytes from elsewhere; why there are none is for the asker."""
    try:
        return place()
    except AvowError as error:
        raise Refusal(404, str(error)) from error


def media_type(file: Path | bytes) -> str:
    """What kind of picture a file really is; anything else is not handed out."""
    try:
        with (
            file.open("rb") if isinstance(file, Path) else io.BytesIO(file) as stream,
            photographs.identify(stream) as picture,
        ):
            return Image.MIME.get(picture.format or "", "application/octet-stream")
    except Exception as error:  # decoders of broken files raise almost anything
        raise _limit(error) or _broken() from error


_Key = tuple[str, float | None, int]


class Thumbnails:
    """Thumbnails by content, time and size, kept while there is room."""

    def __init__(self, most: int, pixels: int):
        self.most = most
        self.pixels = pixels
        self.held = 0
        self._cache: OrderedDict[_Key, bytes] = OrderedDict()
        self._lock = Lock()

    def make(self, place: Origin, content: str, size: int, time: float | None = None) -> bytes:
        """A JPEG whose longer edge is at most `size`, rounded up to one of `SIZES`.

        time: of the frame of a video; None: the file is a picture.
        """
        edge = next((offered for offered in SIZES if offered >= size), SIZES[-1])
        key = (content, time, edge)
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        if isinstance(place, Path) and time is not None:
            jpeg = _frame(place, edge, time)
        else:
            jpeg = _thumbnail(place, edge, self.pixels)
        self._keep(key, jpeg)
        return jpeg

    def _keep(self, key: _Key, jpeg: bytes) -> None:
        with self._lock:
            if key in self._cache or len(jpeg) > self.most:
                return
            self._cache[key] = jpeg
            self.held += len(jpeg)
            while self.held > self.most:
                _, oldest = self._cache.popitem(last=False)
                self.held -= len(oldest)


def heat(cells: np.ndarray) -> bytes:
    """A transparent picture to lay over the photograph: warm where the match rests."""
    warm = np.nan_to_num(np.maximum(cells, 0))
    low, high = float(warm.min(initial=np.inf)), float(warm.max(initial=0))
    strength = (warm - low) / max(high - low, 1e-12)
    small = Image.fromarray((255 * strength).astype(np.uint8))
    smooth = small.resize((_HEAT_EDGE, _HEAT_EDGE), Image.Resampling.BICUBIC)
    layer = Image.new("RGBA", smooth.size, (*_WARM, 0))
    layer.putalpha(smooth.point(lambda tone: int(_COVER * tone)))
    return _written(layer, "PNG", compress_level=6)


def _thumbnail(place: Origin, edge: int, pixels: int) -> bytes:
    content = place if isinstance(place, Path) else content_of(place)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(content, Path):
                picture = photographs.thumbnail(content, edge, pixels)
            else:
                upright = ImageOps.exif_transpose(photographs.read(content, pixels))
                upright.thumbnail((edge, edge), Image.Resampling.LANCZOS)
                picture = photographs.on_paper(upright)
        return _written(picture, "JPEG", quality=82, optimize=True)
    except Exception as error:  # decoders of broken files raise almost anything
        raise _limit(error) or _broken() from error


def _frame(path: Path, edge: int, time: float) -> bytes:
    """A frame of a video; `edge` bounds its longer side."""
    try:
        picture = Image.fromarray(videos.frame_at(path, time, edge).image)
    except UnreadableVideo as error:
        sentence = (
            f"The frame of this item cannot be shown: {error.why}. Scan its folder again."
        )
        raise Refusal(415, sentence) from error
    return _written(picture, "JPEG", quality=82, optimize=True)


def _limit(error: Exception) -> Refusal | None:
    """The refusal of a picture that is whole but cannot be decoded here."""
    if not isinstance(error, photographs.Unreadable) or error.reason not in _STATUS:
        return None
    return Refusal(_STATUS[error.reason], f"The picture cannot be shown or used: {error}.")


def _written(picture: Image.Image, kind: str, **settings: int | bool) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind, **settings)
    return stream.getvalue()


def _gone() -> Refusal:
    return Refusal(
        404,
        "The file of this item is not where it was indexed. Scan its folder again, and "
        "what moved is found.",
    )


def _broken() -> Refusal:
    return Refusal(
        415, "The file of this item is no picture that can be read. Scan its folder again."
    )
