"""Checksums that reveal damage: CRC-32 of bytes, of files and of JSON documents.

They find what disks, copies and half-finished transfers do to a file. They do not protect
against somebody who changes a file and its checksum together.

    sealed({"dim": 512})            {"dim": 512, "checksum": "590b2b75"}
    intact(document)                True, False, or None where there is no checksum
"""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

KEY = "checksum"
_READ_AT_ONCE = 2**20


def of_bytes(data: bytes | memoryview) -> str:
    return f"{zlib.crc32(data):08x}"


def of_file(path: Path) -> str:
    """The checksum of a file's bytes, read in blocks; OSError where it cannot be read."""
    if path.exists() and not path.is_file():  # a pipe would be waited for without end
        raise OSError(f"{str(path)!r} is not a file")
    total = 0
    with path.open("rb") as stream:
        while block := stream.read(_READ_AT_ONCE):
            total = zlib.crc32(block, total)
    return f"{total:08x}"


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a JSON document with a checksum over everything else in it."""
    content = {key: value for key, value in document.items() if key != KEY}
    return content | {KEY: _of_document(content)}


def intact(document: Mapping[str, Any]) -> bool | None:
    """Whether a document is as it was sealed; None where it was written without a checksum."""
    if KEY not in document:
        return None
    content = {key: value for key, value in document.items() if key != KEY}
    return document[KEY] == _of_document(content)


def _of_document(content: Mapping[str, Any]) -> str:
    """Independent of spaces and of the order of keys."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return of_bytes(text.encode())
