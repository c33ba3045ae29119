"""Which files of some folders can be indexed, and which cannot, with the reason.

Links are followed after everything else, so that a file counts under its own path; a link
back to a folder already seen ends there. A link that leads out of the folders is skipped,
whatever it leads to: nothing but what lies in the chosen folders is indexed. Hidden files
are passed over.
"""

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from avow.core.errors import BadData
from avow.core.formats import is_picture

OUTSIDE = "a link that leads out of the indexed folders; index what it leads to itself"
TEXTS = frozenset([".txt"])
TABLES = frozenset([".csv", ".jsonl"])


@dataclass(frozen=True)
class Seen:
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
    """What was found under some roots."""

    roots: list[str]
    files: dict[str, Seen] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    unlisted: list[str] = field(default_factory=list)
    """Folders that could not be read: what was known of them is neither here nor gone."""
    outside: list[str] = field(default_factory=list)
    """Links that lead out of the roots."""
    _folders: set[tuple[int, int]] = field(default_factory=set)
    _inodes: set[tuple[int, int]] = field(default_factory=set)
    _links: list[str] = field(default_factory=list)

    def covers(self, path: str) -> bool:
        """Whether this walk would have met `path` if it were there."""
        return under(path, self.roots) and not under(path, self.unlisted)

    def skip(self, path: str, why: str) -> None:
        self.skipped[readable(path)] = why


def walk(folders: Iterable[str | Path], leave_out: Path | None = None) -> Walk:
    """Every file below `folders` that looks like a photograph or a text.

    leave_out: a folder not to enter, such as the index itself.
    """
    roots = _roots(folders)
    found = Walk(roots)
    without = os.path.realpath(leave_out) if leave_out else ""
    for root in roots:
        if os.path.isdir(root):
            _enter(root, found, without)
        else:
            _meet(root, found)
    for link in iter(lambda: found._links.pop() if found._links else None, None):
        _follow(link, found, without)
    return found


def look(path: str) -> Seen | None:
    """A regular file as the system describes it; nothing where there is none."""
    try:
        about = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(about.st_mode):
        return None
    return Seen(path, about.st_size, about.st_mtime_ns, about.st_ino)


def readable(path: str) -> str:
    """A path that any terminal and any file of text can hold."""
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


def _roots(folders: Iterable[str | Path]) -> list[str]:
    """Absolute paths, none inside another."""
    real = []
    for folder in folders:
        path = os.path.realpath(os.path.expanduser(folder))
        if not os.path.exists(path):
            raise BadData(
                f"There is no folder {readable(str(folder))!r}. Expected a folder of "
                "photographs or texts; check its spelling, or mount its disk."
            )
        real.append(path)
    real = sorted(set(real))
    return [path for path in real if not under(path, [r for r in real if r != path])]


def under(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of some folders or lies in one, going by its letters alone."""
    return any(path == one or path.startswith(os.path.join(one, "")) for one in folders)


def _enter(folder: str, found: Walk, without: str) -> None:
    """Look at a folder and all real folders below it."""
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            about = os.stat(here)
            place = (about.st_dev, about.st_ino)
            if place in found._folders or os.path.realpath(here) == without:
                continue
            found._folders.add(place)
            with os.scandir(here) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            found.unlisted.append(here)
            found.skip(here, f"the folder cannot be read ({error.strerror})")
            continue
        for entry in listed:
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                found._links.append(entry.path)
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            else:
                _meet(entry.path, found)


def _follow(link: str, found: Walk, without: str) -> None:
    try:
        about = os.stat(link)
    except OSError as error:
        if _indexable(link):
            found.skip(link, f"the link leads nowhere ({error.strerror})")
        return
    place = (about.st_dev, about.st_ino)
    folder = stat.S_ISDIR(about.st_mode)
    if (folder or stat.S_ISREG(about.st_mode)) and not under(
        os.path.realpath(link), found.roots
    ):
        found.outside.append(link)
        if folder or _indexable(link):
            found.skip(link, OUTSIDE)
        return
    if folder:
        if place in found._folders:
            found.skip(link, "a link to a folder that was looked at already")
        else:
            _enter(link, found, without)
    elif place in found._inodes:
        found.skip(link, "a link to a file that was looked at already")
    else:
        _meet(link, found)


def _indexable(path: str) -> bool:
    suffix = os.path.splitext(path)[1].lower()
    return suffix in TEXTS or suffix in TABLES or is_picture(suffix)


def _meet(path: str, found: Walk) -> None:
    if not _indexable(path):
        return
    try:
        about = os.stat(path)
        path.encode("utf-8")
    except UnicodeEncodeError:
        found.skip(path, "its name is not valid UTF-8; rename it")
        return
    except OSError as error:
        found.skip(path, f"cannot be read ({error.strerror})")
        return
    if not stat.S_ISREG(about.st_mode):
        found.skip(path, "not a regular file")
        return
    found._inodes.add((about.st_dev, about.st_ino))
    found.files[path] = Seen(path, about.st_size, about.st_mtime_ns, about.st_ino)
