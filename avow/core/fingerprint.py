"""Short names for content: the same bytes give the same sixteen letters."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

LENGTH = 16


def of_text(parts: Iterable[str]) -> str:
    """The fingerprint of a sequence of strings; where one ends matters."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:LENGTH]


def of_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:LENGTH]


def of_file(path: Path) -> str:
    """The fingerprint of a file's bytes, read in blocks; OSError where it cannot be read."""
    if path.exists() and not path.is_file():  # a pipe would be waited for without end
        raise OSError(f"{str(path)!r} is not a file")
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:LENGTH]
