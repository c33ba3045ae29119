"""Clips that come in to search with, and how a video is told from a picture."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from avow.retrieval.question import ClipFile

HEAD = 64
"""First bytes of a file that tell what it is."""
_MATROSKA = b"\x1a\x45\xdf\xa3"
_STILL = (b"heic", b"heix", b"heim", b"heis", b"mif1", b"avif")
_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")


def container_of(head: bytes) -> str | None:
    """The suffix of the container that a file's first bytes begin; None: it is no video.

    Photographs in HEIC and AVIF begin as MP4 files do, with a brand of their own.
    """
    if head[4:8] == b"ftyp" and head[8:12] in _STILL:
        return None
    if head[4:8] in _BOXES:
        return ".mp4"
    if head.startswith(_MATROSKA):
        return ".webm"
    return ".avi" if head.startswith(b"RIFF") and head[8:12] == b"AVI " else None


@contextmanager
def uploaded_clip(content: bytes, suffix: str, longest: float) -> Iterator[ClipFile]:
    """What somebody sent as a file that can be decoded, for as long as the search lasts."""
    with NamedTemporaryFile(prefix="avow-clip-", suffix=suffix) as file:
        file.write(content)
        file.flush()
        yield ClipFile(Path(file.name), "a clip", longest)
