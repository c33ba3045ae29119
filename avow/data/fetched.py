"""A folder at a URL as a folder of this machine: what changed there is copied, and checked.

    fetched("s3://bucket/features/flickr8k")     AVOW_HOME/fetched/…

Several processes of a run may ask at once: one copies, the others wait. A copy that was cut off
goes on, file by file. Whoever opens the folder checks what is in it, as with any other folder.
"""

import json
import shutil
from pathlib import Path, PurePosixPath

from avow.core import storage
from avow.core.documents import read_object
from avow.core.errors import BadData, Unavailable
from avow.core.files import locked, new_file, write_text
from avow.core.fingerprint import of_text
from avow.core.places import avow_home

LARGEST = 2**40
"""Bytes of one folder."""
_NOTES = "fetched.json"
_AT_ONCE = 2**22


def fetched(url: str, home: Path | None = None) -> Path:
    """The local copy of a folder, up to date with its URL."""
    place = (home or avow_home() / "fetched") / of_text([url.rstrip("/")])
    place.mkdir(parents=True, exist_ok=True)
    with locked(place):
        files = {_name(url, file.url): file for file in storage.listed(url)}
        size = sum(file.size for file in files.values())
        if size > LARGEST:
            raise BadData(f"{url!r} has {size} bytes. Expected at most {LARGEST}.")
        noted = _noted(place)
        for name, file in files.items():
            about = [file.size, file.tag]
            known = noted.get(name) == about and file.tag != storage.UNCOMPARABLE
            if not known or not (place / "files" / name).is_file():
                _copy(file, place / "files" / name)
                noted[name] = about
                write_text(place / _NOTES, json.dumps(noted))
        for name in noted.keys() - files.keys():
            (place / "files" / name).unlink(missing_ok=True)
    return place / "files"


def _copy(file: storage.RemoteFile, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with storage.told(file.url), storage.opened(file.url) as stream, new_file(path) as fresh:
        with fresh.open("r+b") as out:
            shutil.copyfileobj(stream, out, _AT_ONCE)
        size = fresh.stat().st_size
        if size != file.size:
            raise Unavailable(
                f"{file.url!r} gave {size} bytes. Expected {file.size}; run the same command "
                "again."
            )


def _name(url: str, file: str) -> str:
    """The path of a file below its URL; none that leads out of the folder."""
    name = file.removeprefix(url.rstrip("/")).lstrip("/")
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or PurePosixPath(name).is_absolute() or "\\" in name:
        raise BadData(
            f"The file {file!r} does not lie below {url!r}. Expected a folder of features."
        )
    return name


def _noted(place: Path) -> dict[str, list[int]]:
    try:
        return read_object(place / _NOTES)
    except (OSError, ValueError):
        return {}
