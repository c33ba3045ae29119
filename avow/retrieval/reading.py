"""From a file to items that can be encoded: bytes are read once, checked and decoded.

Files come from anywhere. Decoders of broken files raise almost anything, so everything
they raise is a reason to skip the file; only formats named here are decoded at all.
"""

import csv
import datetime
import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import (
    BmpImagePlugin,
    ExifTags,
    GifImagePlugin,
    Image,
    ImageOps,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from avow.retrieval.walk import HEIF, PICTURES, TABLES, Seen

LARGEST_FILE = 512 * 2**20
LARGEST_TEXT = 2**20
LARGEST_PICTURE = 89_478_485
"""Pixels; a picture that unpacks to more is a trap or a mistake."""
FORMATS = ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP"]
_PLUGINS = (  # Pillow knows a format by name once its module is imported
    BmpImagePlugin,
    GifImagePlugin,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)
_KEYWORDS = 0x9C9E
_MOMENT = re.compile(r"(\d{4}):(\d\d):(\d\d)(?: (\d\d):(\d\d):(\d\d))?", re.ASCII)


class Unreadable(Exception):
    """Why a file is skipped; `again` where trying again may help."""

    def __init__(self, why: str, again: bool = False):
        super().__init__(why)
        self.again = again


@dataclass(frozen=True)
class Fresh:
    """One item as it was read."""

    part: str
    kind: str
    content: str
    text: str | None = None
    width: int | None = None
    height: int | None = None
    taken: str | None = None
    look: int | None = None
    tags: tuple[str, ...] = ()
    pixels: np.ndarray | None = None
    vector: np.ndarray | None = None
    """Where it is known already."""


@dataclass(frozen=True)
class Loaded:
    """A file's bytes by name, and its items; none where the content is known already."""

    seen: Seen
    content: str
    items: list[Fresh] = field(default_factory=list)
    known: bool = False


def load(
    seen: Seen, prepare: Callable[[Image.Image], np.ndarray], known: Container[str]
) -> Loaded:
    """Read one file. known: contents whose vectors are at hand, so that none is decoded."""
    try:
        return _load(seen, prepare, known)
    except Unreadable:
        raise
    except MemoryError as error:
        raise Unreadable("needs more memory than there is", again=True) from error
    except Exception as error:  # whatever one file does, the others are read
        told = " ".join(str(error).split())[:200] or type(error).__name__
        if "cannot identify" in told:
            told = "not a picture of a known format"
        raise Unreadable(f"cannot be decoded ({told})") from error


def _load(
    seen: Seen, prepare: Callable[[Image.Image], np.ndarray], known: Container[str]
) -> Loaded:
    data, seen = _bytes_of(seen)
    content = hashlib.sha256(data).hexdigest()[:32]
    if seen.suffix in PICTURES:
        if content in known:
            return Loaded(seen, content, known=True)
        return Loaded(seen, content, [_picture(data, content, prepare, seen.suffix)])
    text = _decoded(data)
    if seen.suffix in TABLES:
        return Loaded(seen, content, _table(text, seen.suffix))
    text = text.strip()
    if not text:
        raise Unreadable("holds no text")
    if len(data) > LARGEST_TEXT:
        raise Unreadable(f"a text of {len(data)} bytes; {LARGEST_TEXT} at most")
    return Loaded(seen, content, [Fresh("", "text", _named(text), text)])


def register_heif() -> bool:
    """Let Pillow read HEIC, where the package for it is installed."""
    try:
        import pillow_heif
    except ImportError:
        return False
    pillow_heif.register_heif_opener()
    return True


def _bytes_of(seen: Seen) -> tuple[bytes, Seen]:
    try:
        # a file that became a pipe since it was listed must not hold us up
        handle = os.open(seen.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(handle, "rb") as stream:
            about = os.fstat(handle)
            if about.st_size > LARGEST_FILE:
                raise Unreadable(f"{about.st_size} bytes; {LARGEST_FILE} at most")
            data = stream.read(LARGEST_FILE)
    except OSError as error:
        raise Unreadable(f"cannot be read ({error.strerror or error})", again=True) from error
    if not data:
        raise Unreadable("empty: zero bytes")
    return data, Seen(seen.path, about.st_size, about.st_mtime_ns, about.st_ino)


def _picture(
    data: bytes, content: str, prepare: Callable[[Image.Image], np.ndarray], suffix: str
) -> Fresh:
    heif = suffix in HEIF
    if heif and not register_heif():
        raise Unreadable("HEIC needs the package pillow-heif (pip install pillow-heif)", True)
    photograph = Image.open(io.BytesIO(data), formats=[*FORMATS, *["HEIF"] * heif])
    pixels = photograph.width * photograph.height
    if pixels > LARGEST_PICTURE:
        raise Unreadable(f"{pixels} pixels; {LARGEST_PICTURE} at most")
    size, exif = photograph.size, photograph.getexif()
    if exif.get(ExifTags.Base.Orientation, 1) in (5, 6, 7, 8):
        size = size[1], size[0]
    prepared = prepare(photograph)
    look = difference_hash(photograph)
    return Fresh(
        "", "image", content, None, *size, _taken(exif), look, _keywords(exif), prepared
    )


def difference_hash(photograph: Image.Image) -> int:
    """Sixty-four bits: whether each spot of a 9 x 8 miniature is brighter than the next."""
    small = ImageOps.exif_transpose(photograph.resize((36, 32), reducing_gap=2.0))
    tones = np.asarray(small.convert("L").resize((9, 8), Image.Resampling.BOX), np.int16)
    bits = np.packbits(tones[:, 1:] > tones[:, :-1]).tobytes()
    return int.from_bytes(bits, "big", signed=True)


def _taken(exif: Image.Exif) -> str | None:
    """When a camera says it took the picture; what it wrote may be anything."""
    try:
        inner = exif.get_ifd(ExifTags.IFD.Exif)
        told = inner.get(ExifTags.Base.DateTimeOriginal) or exif.get(ExifTags.Base.DateTime)
        match = _MOMENT.match(str(told or ""))
        if not match:
            return None
        year, month, day, hour, minute, second = map(int, match.groups("0"))
        return datetime.datetime(year, month, day, hour, minute, second).isoformat()
    except Exception:
        return None


def _keywords(exif: Image.Exif) -> tuple[str, ...]:
    """Words that photo software keeps with a picture, as Windows writes them."""
    told = exif.get(_KEYWORDS)
    if not isinstance(told, bytes):
        return ()
    words = told.decode("utf-16-le", "ignore").rstrip("\0").split(";")
    return tuple(dict.fromkeys(word.strip() for word in words if word.strip()))


def _decoded(data: bytes) -> str:
    if b"\0" in data:
        raise Unreadable("not a text: it holds zero bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"not a text in UTF-8 (byte {error.start})") from error


def _table(text: str, suffix: str) -> list[Fresh]:
    items, places = [], set()
    for number, row in enumerate(_rows(text, suffix), 1):
        words = row.get("text") or row.get("caption")
        if not isinstance(words, str) or not words.strip():
            continue
        name = str(row.get("id") or row.get("path") or number)
        part = name if name not in places else f"{name}#{number}"
        places.add(part)
        tags = _tags(row.get("tags"))
        part.encode()  # a half of a character cannot be stored
        content = _named("\0".join([words.strip(), *tags]))
        items.append(Fresh(part, "text", content, words.strip(), tags=tags))
    if not items:
        raise Unreadable("no captions: expected a column called text or caption")
    return items


def _rows(text: str, suffix: str) -> Iterator[dict[str, Any]]:
    try:
        if suffix == ".csv":
            for row in csv.DictReader(io.StringIO(text, newline="")):
                yield {str(key).strip().lower(): value for key, value in row.items()}
            return
        for line in text.splitlines():
            row = json.loads(line) if line.strip() else {}
            if isinstance(row, dict):
                yield row
    except (csv.Error, ValueError, RecursionError) as error:
        raise Unreadable(f"a broken table ({' '.join(str(error).split())[:120]})") from error


def _tags(told: Any) -> tuple[str, ...]:
    words = told if isinstance(told, list) else str(told or "").replace(",", ";").split(";")
    return tuple(dict.fromkeys(str(word).strip() for word in words if str(word).strip()))


def _named(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
