"""Which files of some folders can be indexed, and which cannot, with the reason.

Links are followed after everything else, so that a file counts under its own path; a link
back to a folder that was entered already is not followed. A link that leads out of the
folders is skipped, whatever it leads to: nothing but what lies in the chosen folders is
indexed. Hidden files are passed over.
"""

import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from avow.core.errors import BadData
from avow.core.formats import is_picture, is_video

OUTSIDE = "a link that leads out of the indexed folders; index what it leads to itself"
TEXTS = frozenset([".txt"])
TABLES = frozenset([".csv", ".jsonl"])
INSIDE = "!/"
"""Stands between a shard and the name of an item in it (`retrieval/sharding`)."""
_SHARD = re.compile(r"(.*?\.(?:tar|parquet))!/", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class FileStat:
    """A regular file, as the system describes it."""

    path: str
    size: int
    mtime_ns: int
    inode: int

    @property
    def suffix(self) -> str:
        return os.path.splitext(self.path)[1].lower()


@dataclass
class Walk:
    """The files below some roots, and what was skipped."""

    roots: list[str]
    files: dict[str, FileStat] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    unlisted: list[str] = field(default_factory=list)
    """Folders that could not be read; the items indexed from them stay."""
    outside: list[str] = field(default_factory=list)
    """Links that lead out of the roots."""
    _folders: set[tuple[int, int]] = field(default_factory=set)
    _inodes: set[tuple[int, int]] = field(default_factory=set)
    _links: list[str] = field(default_factory=list)

    def covers(self, path: str) -> bool:
        """Whether this walk would have met `path` if it were there."""
        listed = under(path, self.roots) and not under(path, self.unlisted)
        return listed and shard_of(path) is None

    def skip(self, path: str, why: str) -> None:
        self.skipped[readable(path)] = why


def walk(folders: Iterable[str | Path], leave_out: Path | None = None) -> Walk:
    """Every file below `folders` that looks like a photograph, a video or a text.

    leave_out: a folder not to enter, such as the index itself.
    """
    roots = roots_of(folders)
    listing = Walk(roots)
    without = os.path.realpath(leave_out) if leave_out else ""
    for root in roots:
        if os.path.isdir(root):
            _enter(root, listing, without)
        else:
            _meet(root, listing)
    for link in iter(lambda: listing._links.pop() if listing._links else None, None):
        _follow(link, listing, without)
    return listing


def look(path: str) -> FileStat | None:
    """A regular file as the system describes it; None where there is no such file."""
    try:
        about = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(about.st_mode):
        return None
    return FileStat(path, about.st_size, about.st_mtime_ns, about.st_ino)


def shard_of(path: str) -> str | None:
    """The shard that an indexed path lies in; None where it is a file by itself."""
    found = _SHARD.match(path)
    return found[1] if found else None


def readable(path: str) -> str:
    """A path that any terminal and any file of text can hold."""
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


def roots_of(folders: Iterable[str | Path]) -> list[str]:
    """Absolute paths, none inside another; one that is not there is named."""
    real = []
    for folder in folders:
        named = str(folder)
        path = "" if "\0" in named else os.path.realpath(os.path.expanduser(named))
        if not os.path.exists(path):
            raise BadData(
                f"There is no folder {readable(named)!r}. Expected a folder of "
                "photographs, videos or texts; check its spelling, or mount its disk."
            )
        real.append(path)
    real = sorted(set(real))
    return [path for path in real if not under(path, [r for r in real if r != path])]


def under(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of some folders or lies in one, going by its letters alone."""
    return any(
        path == folder or path.startswith(os.path.join(folder, "")) for folder in folders
    )


def _enter(folder: str, listing: Walk, without: str) -> None:
    """Look at a folder and all real folders below it."""
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            about = os.stat(here)
            place = (about.st_dev, about.st_ino)
            if place in listing._folders or os.path.realpath(here) == without:
                continue
            listing._folders.add(place)
            with os.scandir(here) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            listing.unlisted.append(here)
            listing.skip(here, f"the folder cannot be read ({error.strerror})")
            continue
        for entry in listed:
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                listing._links.append(entry.path)
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            else:
                _meet(entry.path, listing)


def _follow(link: str, listing: Walk, without: str) -> None:
    try:
        about = os.stat(link)
    except OSError as error:
        if _indexable(link):
            listing.skip(link, f"the link leads nowhere ({error.strerror})")
        return
    place = (about.st_dev, about.st_ino)
    folder = stat.S_ISDIR(about.st_mode)
    if (folder or stat.S_ISREG(about.st_mode)) and not under(
        os.path.realpath(link), listing.roots
    ):
        listing.outside.append(link)
        if folder or _indexable(link):
            listing.skip(link, OUTSIDE)
        return
    if folder:
        if place in listing._folders:
            listing.skip(link, "a link to a folder that was looked at already")
        else:
            _enter(link, listing, without)
    elif place in listing._inodes:
        listing.skip(link, "a link to a file that was looked at already")
    else:
        _meet(link, listing)


def _indexable(path: str) -> bool:
    suffix = os.path.splitext(path)[1].lower()
    return suffix in TEXTS or suffix in TABLES or is_picture(suffix) or is_video(suffix)


def _meet(path: str, listing: Walk) -> None:
    if not _indexable(path):
        return
    try:
        about = os.stat(path)
        path.encode("utf-8")
    except UnicodeEncodeError:
        listing.skip(path, "its name is not valid UTF-8; rename it")
        return
    except OSError as error:
        listing.skip(path, f"cannot be read ({error.strerror})")
        return
    if not stat.S_ISREG(about.st_mode):
        listing.skip(path, "not a regular file")
        return
    listing._inodes.add((about.st_dev, about.st_ino))
    listing.files[path] = FileStat(path, about.st_size, about.st_mtime_ns, about.st_ino)
