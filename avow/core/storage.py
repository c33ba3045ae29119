"""Files at URLs, through fsspec: listed, read within limits, every fault a sentence.

    listed("s3://bucket/pictures")      files with sizes and what changes when they change
    read("s3://bucket/a.jpg", most)     the bytes of one
    opened("s3://bucket/00000.tar")     a stream, to be read piece by piece
    described("s3://bucket/00000.tar")  one file with its size, and what changes with it

Which account is used is said by the environment of each library, such as AWS_PROFILE and
AWS_ENDPOINT_URL. Only URLs that the user typed, or that lie below one, come here.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from avow.core.errors import AvowError, BadData, MissingExtra, Unavailable

SCHEMES = {
    "s3": ("s3fs", "s3"),
    "gs": ("gcsfs", None),
    "gcs": ("gcsfs", None),
    "http": ("aiohttp", "s3"),
    "https": ("aiohttp", "s3"),
    "hf": ("huggingface_hub", "train"),
    "file": ("fsspec", "ray"),
}
"""What may be read, with the package that reads it and the extra that brings that package."""
MOST_LISTED = 50_000_000
UNCOMPARABLE = -1
"""The `tag` of a file of which nothing is known that changes with its content."""
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_TAGS = ("ETag", "etag", "md5Hash", "generation", "sha256", "blob_id", "oid")
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "created")


@dataclass(frozen=True)
class RemoteFile:
    """A file at a URL, as its server describes it."""

    url: str
    size: int
    modified_ns: int
    """0 where it is not known."""
    tag: int
    """Changes with the content; `UNCOMPARABLE` where nothing is known that does."""


def is_url(name: str) -> bool:
    return _URL.match(name) is not None


def listed(url: str) -> list[RemoteFile]:
    """The file at a URL, the files below it, or those that fit its pattern, by URL."""
    with _spelt(url), told(url):
        system, path = _system(url)
        system.invalidate_cache()
        if any(sign in path for sign in "*?["):
            entries = system.glob(path, detail=True)
        else:
            entries = system.find(path, detail=True, withdirs=False)
        entries = {name: about for name, about in entries.items() if _is_file(about)}
        if len(entries) > MOST_LISTED:
            raise BadData(
                f"There are {len(entries)} files at {url!r}. Expected at most {MOST_LISTED}; "
                "name a folder inside it, or pack the files into tars."
            )
        files = [
            _described(system.unstrip_protocol(name), about) for name, about in entries.items()
        ]
    if not files:
        raise BadData(
            f"There is nothing at {url!r}. Expected files; check its spelling, and whether "
            "this account may list it."
        )
    return sorted(files, key=lambda file: file.url)


def read(url: str, most: int) -> bytes:
    """The bytes of a file; ValueError where there are more than `most`."""
    with told(url), opened(url) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise ValueError(f"more than {most} bytes")
    return data


def described(url: str) -> RemoteFile:
    """The file at a URL as its server describes it now."""
    with told(url):
        system, path = _system(url)
        system.invalidate_cache()
        return _described(url, system.info(path))


@contextmanager
def opened(url: str, ahead: int | None = None) -> Iterator[Any]:
    """A stream of bytes; what goes wrong while it is read is the caller's to tell.

    ahead: bytes that are asked for at once; None: as the library of the store sees fit.
    """
    with told(url):
        system, path = _system(url)
        stream = system.open(path, "rb", block_size=ahead)
    with stream:
        yield stream


@contextmanager
def told(url: str) -> Iterator[None]:
    """Faults of a server or of an account as sentences."""
    try:
        yield
    except (AvowError, ValueError, MemoryError):
        raise
    except FileNotFoundError as error:
        raise BadData(
            f"There is nothing at {url!r}. Expected a file or a folder; check its spelling."
        ) from error
    except PermissionError as error:
        raise BadData(
            f"Reading {url!r} is not allowed ({_short(error)}). Expected an account that may "
            "read it; set its name and key in the environment."
        ) from error
    except Exception as error:  # every library of a store has errors of its own
        raise Unavailable(
            f"{url!r} cannot be read ({_short(error)}). Expected a server that answers; check "
            "the connection and the account, then run the same command again."
        ) from error


@contextmanager
def _spelt(url: str) -> Iterator[None]:
    """What the library of a store finds wrong with a URL as a sentence."""
    try:
        yield
    except ValueError as error:
        if isinstance(error, AvowError):
            raise
        raise BadData(
            f"{url!r} cannot be read as a URL ({_short(error)}). Expected one such as "
            "https://host/folder/file.tar; check its spelling."
        ) from error


def _system(url: str) -> tuple[Any, str]:
    found = _URL.match(url)
    scheme = found[1].lower() if found else "file"
    if scheme not in SCHEMES:
        raise BadData(
            f"The URL {url!r} begins with {scheme!r}. Expected one of: {', '.join(SCHEMES)}."
        )
    package, extra = SCHEMES[scheme]
    try:
        from fsspec.core import url_to_fs
    except ModuleNotFoundError:
        raise MissingExtra(f"Reading {url!r}", "fsspec", "ray") from None
    try:
        return url_to_fs(url)
    except ImportError as error:
        if extra is not None:
            raise MissingExtra(f"Reading {url!r}", package, extra) from error
        raise BadData(
            f"Reading {url!r} needs the package {package!r}, which is not installed. Install "
            f"it with: pip install {package}."
        ) from error


def _is_file(about: dict[str, Any]) -> bool:
    return about.get("type", "file") == "file"


def _described(url: str, about: dict[str, Any]) -> RemoteFile:
    marks = [str(about[key]) for key in _TAGS if about.get(key)]
    moment = next((about[key] for key in _TIMES if about.get(key)), None)
    if moment is not None and not marks:
        marks.append(str(moment))
    digest = hashlib.sha256("\0".join(marks).encode()).digest()
    tag = int.from_bytes(digest[:7], "big") if marks else UNCOMPARABLE
    return RemoteFile(url, int(about.get("size") or 0), _nanoseconds(moment), tag)


def _nanoseconds(moment: Any) -> int:
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return 0
    if isinstance(moment, datetime):
        moment = moment.timestamp()
    return int(moment * 10**9) if isinstance(moment, int | float) else 0


def _short(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
