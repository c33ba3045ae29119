"""Checksums beside what was saved, and files that are read only when they are intact.

    FOLDER/checksums.json       size and CRC-32 of the folder's other files, itself sealed
    a JSON document             may carry a checksum of its own, and then needs no list

Files without a checksum, as earlier versions wrote them, are read as they are. A document's
own checksum counts more than the list: it may have been written anew since.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from avow.core import checksums
from avow.core.documents import parse_object, read_file
from avow.core.files import write_text

LIST = "checksums.json"
_LISTED = (".json", ".safetensors", ".npy", ".pt")


class Damaged(ValueError):
    """A file is not what was written; the text says how it differs."""


def write_list(folder: Path, names: Iterable[str] | None = None) -> None:
    """List the size and checksum of the named files of `folder`; of all data in it else."""
    if names is None:
        names = sorted(path.name for path in folder.iterdir() if path.suffix in _LISTED)
    paths = [folder / name for name in names if name != LIST]
    listed = {
        path.name: {"bytes": path.stat().st_size, "crc32": checksums.of_file(path)}
        for path in paths
    }
    write_document(folder / LIST, {"files": listed}, indent=1)


def read_list(folder: Path) -> dict[str, dict[str, Any]]:
    """The listed files of a folder; none where there is no list."""
    try:
        document = json.loads(read_file(folder / LIST))
        files = document["files"]
        good = checksums.intact(document) and all(
            isinstance(entry["bytes"], int) and isinstance(entry["crc32"], str)
            for entry in files.values()
        )
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Damaged(
            f"the list {str(folder / LIST)!r} cannot be read ({error.strerror})"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        files, good = {}, False
    if not good:
        raise Damaged(f"the list {str(folder / LIST)!r} is damaged")
    return files


def check(path: Path, data: bytes | None = None) -> None:
    """Raise `Damaged` unless a file is as the list beside it says, or is not listed."""
    entry = read_list(path.parent).get(path.name)
    if entry is None:
        return
    check_size(path, entry)
    checksum = checksums.of_file(path) if data is None else checksums.of_bytes(data)
    if checksum != entry["crc32"]:
        raise Damaged(
            f"its checksum is {checksum}, and was {entry['crc32']} when it was written"
        )


def check_size(path: Path, entry: dict[str, Any]) -> None:
    if not path.is_file():
        raise Damaged("it is missing")
    size = path.stat().st_size
    if size != entry["bytes"]:
        raise Damaged(f"it has {size} bytes, and had {entry['bytes']} when it was written")


def read_bytes(path: Path) -> bytes:
    """The content of a file that is intact or not listed; OSError or `Damaged` otherwise."""
    if path.exists() and not path.is_file():  # a pipe would be waited for without end
        raise Damaged("it is not a file")
    data = path.read_bytes()
    check(path, data)
    return data


def write_document(path: Path, content: dict[str, Any], indent: int | None = None) -> None:
    """Write a JSON object with a checksum over everything in it."""
    plain = json.loads(json.dumps(content))  # keys and tuples as they will be read
    write_text(path, json.dumps(checksums.sealed(plain), indent=indent))


def read_document(path: Path) -> dict[str, Any]:
    """A JSON object that is intact, without its checksum.

    Raises OSError, or ValueError with what is wrong: `Damaged`, or it is no such JSON.
    """
    data = read_file(path)
    try:
        content = parse_object(data.decode("utf-8"))
    except ValueError:
        check(path, data)  # says more than that it cannot be parsed
        raise
    if not _as_listed(path, data):
        state = checksums.intact(content)
        if state is False:
            raise Damaged("its checksum does not fit its content")
        if state is None:
            check(path, data)
    content.pop(checksums.KEY, None)
    return content


def _as_listed(path: Path, data: bytes) -> bool:
    """Whether a file is byte for byte the one in the list beside it.

    Much quicker than a document's own checksum, for which it is written out again.
    """
    try:
        entry = read_list(path.parent).get(path.name)
    except (OSError, Damaged):
        return False
    return entry is not None and (len(data), checksums.of_bytes(data)) == (
        entry["bytes"],
        entry["crc32"],
    )
