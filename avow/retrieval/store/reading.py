"""From a file to items that can be encoded: bytes are read once, checked and decoded.

Files come from anywhere. Decoders of broken files raise almost anything, so everything
they raise is a reason to skip the file; only formats named here are decoded at all.
"""

import csv
import hashlib
import io
import json
import os
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from avow.core import camera, photographs
from avow.core.formats import (
    NEEDS_PYAV,
    is_picture,
    is_video,
    may_be_readable_now,
    videos_are_readable,
)
from avow.core.written_text import ReadText
from avow.retrieval.store.walk import TABLES, FileStat

LARGEST_FILE = 512 * 2**20
LARGEST_TEXT = 2**20
LONGEST_TEXT = 10_000
"""Characters of one item's text; the rest is cut off. Models read a few hundred words."""
MOST_TAGS = 256
"""Tags of one item; further ones are left out."""
LONGEST_TAG = 200
"""Characters; a longer tag is left out, as a cut one would be another."""
EMPTY = "empty: zero bytes"
_LONGEST_PART = 1000
_READ_AT_ONCE = 2**20


NOT_FROM_STRANGERS = "videos are not decoded where AVOW_UNTRUSTED is set"


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
    """Of a picture, what is written in it; None where nobody looked."""
    width: int | None = None
    height: int | None = None
    taken: str | None = None
    look: int | None = None
    tags: tuple[str, ...] = ()
    pixels: np.ndarray | None = None
    vector: np.ndarray | None = None
    """Where the index has it already."""


@dataclass(frozen=True)
class Loaded:
    """The hash of a file's content, and its items; none where the index has that content."""

    stat: FileStat
    content: str
    items: list[Fresh] = field(default_factory=list)
    """Of a video none yet: `video_reading` makes them while its frames are encoded."""
    is_stored: bool = False


def load(
    stat: FileStat,
    prepare: Callable[[Image.Image], np.ndarray],
    stored_contents: Container[str],
    read_text: ReadText | None = None,
    data: bytes | None = None,
) -> Loaded:
    """Read one file.

    stored_contents: hashes of pictures and videos whose vectors are stored; these are not
    decoded. read_text: recognises what is written in pictures; None: nobody asked for it.
    data: what is in the file, where it is no file of this machine.
    """
    try:
        return _load(stat, prepare, stored_contents, read_text, data)
    except Unreadable:
        raise
    except MemoryError as error:
        raise Unreadable("needs more memory than there is", again=True) from error
    except Exception as error:  # whatever one file does, the others are read
        raise Unreadable(photographs.why_unreadable(error)) from error


def _load(
    stat: FileStat,
    prepare: Callable[[Image.Image], np.ndarray],
    stored_contents: Container[str],
    read_text: ReadText | None,
    data: bytes | None,
) -> Loaded:
    if is_video(stat.suffix) and photographs.untrusted("videos"):
        raise Unreadable(NOT_FROM_STRANGERS, again=True)
    if is_video(stat.suffix) and data is None:
        content, stat = _hashed(stat)
        return Loaded(stat, content, is_stored=content in stored_contents)
    if data is None:
        data, stat = _bytes_of(stat)
    elif not data:
        raise Unreadable(EMPTY)
    content = hashlib.sha256(data).hexdigest()[:32]
    if is_picture(stat.suffix):
        if content in stored_contents:
            return Loaded(stat, content, is_stored=True)
        return Loaded(stat, content, [_picture(data, content, prepare, stat.suffix, read_text)])
    text = _decoded(data)
    if stat.suffix in TABLES:
        return Loaded(stat, content, _table(text, stat.suffix))
    if len(data) > LARGEST_TEXT:
        raise Unreadable(f"a text of {len(data)} bytes; {LARGEST_TEXT} at most")
    text = _cut(text)
    if not text:
        raise Unreadable("holds no text")
    return Loaded(stat, content, [Fresh("", "text", _named(text), text)])


def _bytes_of(stat: FileStat) -> tuple[bytes, FileStat]:
    with _opened(stat) as (stream, about):
        if about.st_size > LARGEST_FILE:
            raise Unreadable(too_large(about.st_size))
        data = stream.read(LARGEST_FILE)
    if not data:
        raise Unreadable(EMPTY)
    return data, FileStat(stat.path, about.st_size, about.st_mtime_ns, about.st_ino)


def too_large(size: int) -> str:
    return f"{size} bytes; {LARGEST_FILE} at most"


def _hashed(stat: FileStat) -> tuple[str, FileStat]:
    """The hash of a video, read piece by piece: videos may be larger than memory."""
    if not videos_are_readable():
        raise Unreadable(NEEDS_PYAV, again=True)
    digest = hashlib.sha256()
    with _opened(stat) as (stream, about):
        while piece := stream.read(_READ_AT_ONCE):
            digest.update(piece)
    if not about.st_size:
        raise Unreadable(EMPTY)
    changed = FileStat(stat.path, about.st_size, about.st_mtime_ns, about.st_ino)
    return digest.hexdigest()[:32], changed


@contextmanager
def _opened(stat: FileStat) -> Iterator[tuple[io.BufferedIOBase, os.stat_result]]:
    try:
        # a file that became a pipe since it was listed must not hold us up
        handle = os.open(stat.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(handle, "rb") as stream:
            about = os.fstat(handle)
            if about.st_ino != stat.inode:  # a link may have taken its place
                raise Unreadable("replaced while it was being read", again=True)
            yield stream, about
    except OSError as error:
        raise Unreadable(f"cannot be read ({error.strerror or error})", again=True) from error


def _picture(
    data: bytes,
    content: str,
    prepare: Callable[[Image.Image], np.ndarray],
    suffix: str,
    read_text: ReadText | None,
) -> Fresh:
    try:
        with photographs.opened(io.BytesIO(data)) as photograph:
            taken, words = camera.taken(photograph.exif), _words(photograph.exif)
            prepared = prepare(photograph.image)
            look = difference_hash(photograph.image)
            written = None if read_text is None else read_text(photograph.image)
    except photographs.Unreadable as error:
        needs_package = error.reason == "package" and may_be_readable_now(suffix) is not None
        raise Unreadable(str(error), again=needs_package) from error
    size = photograph.width, photograph.height
    return Fresh("", "image", content, written, *size, taken, look, words, prepared)


def difference_hash(photograph: Image.Image) -> int:
    """Sixty-four bits: whether each spot of a 9 x 8 miniature is brighter than the next."""
    small = ImageOps.exif_transpose(photograph.resize((36, 32), reducing_gap=2.0))
    tones = np.asarray(small.convert("L").resize((9, 8), Image.Resampling.BOX), np.int16)
    bits = np.packbits(tones[:, 1:] > tones[:, :-1]).tobytes()
    return int.from_bytes(bits, "big", signed=True)


def _words(exif: Image.Exif) -> tuple[str, ...]:
    """The tags of a picture: its place first, which no number of words pushes out."""
    return _bounded([*camera.place_tags(exif), *camera.keywords(exif)])


def _decoded(data: bytes) -> str:
    if b"\0" in data:
        raise Unreadable("not a text: it holds zero bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"not a text in UTF-8 (byte {error.start})") from error


def _table(table: str, suffix: str) -> list[Fresh]:
    items, places = [], set()
    for number, row in enumerate(_rows(table, suffix), 1):
        words = row.get("text") or row.get("caption")
        if not isinstance(words, str) or not words.strip():
            continue
        name = str(row.get("id") or row.get("path") or number)
        if len(name) > _LONGEST_PART:
            name = str(number)
        part = name if name not in places else f"{name}#{number}"
        places.add(part)
        tags, text = _tags(row.get("tags")), _cut(words)
        part.encode()  # a half of a character cannot be stored
        content = _named("\0".join([text, *tags]))
        items.append(Fresh(part, "text", content, text, tags=tags))
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


def _tags(cell: Any) -> tuple[str, ...]:
    words = cell if isinstance(cell, list) else str(cell or "").replace(",", ";").split(";")
    return _bounded(str(word) for word in words)


def _bounded(words: Iterable[str]) -> tuple[str, ...]:
    """The first different words, as many and as long as tags may be."""
    bounded: dict[str, None] = {}
    for word in words:
        word = word.strip()
        if word and len(word) <= LONGEST_TAG:
            bounded[word] = None
            if len(bounded) == MOST_TAGS:
                break
    return tuple(bounded)


def _cut(text: str) -> str:
    return text.strip()[:LONGEST_TEXT].rstrip()


def _named(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
