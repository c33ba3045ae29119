"""What an index has to do: the files of some folders compared with the catalogue.

A file whose size, time and inode are as they were is not read. This looks at no vector
and needs no model, so that a second run over unchanged folders is quick.
"""

import os
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from avow.core import formats
from avow.core.errors import BadData, WrongIndex
from avow.retrieval.store.indexed_folders import covered, leads_out
from avow.retrieval.store.walk import FileStat, Walk, look, under, walk

FEW = 10
"""Files that may go from a folder without a question, whatever share of it they are."""


@dataclass(frozen=True)
class Job:
    """A file to read."""

    stat: FileStat
    file: int | None
    """Its number in the catalogue, where it was indexed before."""


@dataclass
class Survey:
    """How the files of some folders differ from those in the catalogue."""

    walk: Walk
    jobs: list[Job] = field(default_factory=list)
    missing: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Path and content of files that are not where they were."""
    indexed_before: dict[str, int] = field(default_factory=dict)
    """How many files below each root were in the index; filled where some are missing."""
    unchanged: int = 0
    still_skipped: int = 0
    """Files that could not be read before, and have not changed."""
    skips_gone: list[str] = field(default_factory=list)
    """Listed as skipped, and no longer there or no longer met."""
    skips_new: bool = False

    def absent(self, missing: Iterable[int]) -> dict[str, list[int]]:
        """Missing files by root, where they are most of the files indexed below it.

        That is what a disk that is not mounted looks like. Files behind links out of the
        root do not count: they are no longer indexed.
        """
        by_root: dict[str, list[int]] = {}
        for number in missing:
            path = self.missing[number][0]
            if not under(path, self.walk.outside):
                root = next(root for root in self.walk.roots if under(path, [root]))
                by_root.setdefault(root, []).append(number)
        return {
            root: numbers
            for root, numbers in by_root.items()
            if len(numbers) > FEW and 2 * len(numbers) > self.indexed_before[root]
        }

    @property
    def nothing_to_do(self) -> bool:
        return not (self.jobs or self.missing or self.skips_gone or self.skips_new)


def survey(
    link: sqlite3.Connection,
    folders: Sequence[str | Path],
    index: Path,
    model: str,
    generation: int,
    read_text: bool = False,
) -> Survey:
    """Compare `folders` with the catalogue, for one generation of one model's rows."""
    walked = walk(folders, leave_out=index)
    changes = Survey(walked)
    indexed = {row[0]: row[1:] for row in link.execute(_INDEXED)}
    refused = {row[0]: row[1:] for row in link.execute(_REFUSED)}
    lacking = files_lacking(link, model, generation, read_text)
    for path, stat in walked.files.items():
        about = (stat.size, stat.mtime_ns, stat.inode)
        if path in indexed:
            number, *before, _ = indexed[path]
            if tuple(before) == about and number not in lacking:
                changes.unchanged += 1
            else:
                changes.jobs.append(Job(stat, number))
        elif (
            path in refused
            and refused[path][:3] == about
            and not (refused[path][3] and may_work_now(stat))
        ):
            changes.still_skipped += 1
        else:
            changes.jobs.append(Job(stat, None))
    homes = _noted_folders(index)
    for path, (number, *_, content) in indexed.items():
        if path in walked.files:
            continue
        if walked.covers(path):
            changes.missing[number] = (path, content)
        elif (
            number in lacking
            and not (homes and leads_out(path, homes))
            and (stat := look(path)) is not None
        ):
            # of another folder, and new to this model: an index has one set of items
            changes.jobs.append(Job(stat, number))
    if changes.missing:
        changes.indexed_before = {
            root: sum(under(path, [root]) for path in indexed) for root in walked.roots
        }
    met = walked.files.keys() | walked.skipped.keys()
    changes.skips_gone = [path for path in refused if path not in met and walked.covers(path)]
    changes.skips_new = bool(walked.skipped.keys() - refused.keys())
    if not (walked.files or walked.skipped or changes.missing):
        listed = ", ".join(repr(str(folder)) for folder in folders)
        raise BadData(
            f"There is nothing to index in {listed}. Expected photographs "
            f"({formats.titles()}), videos ({', '.join(formats.VIDEO_SUFFIXES)}) or texts "
            "(.txt, .csv, .jsonl); check the folder."
        )
    return changes


_INDEXED = "SELECT path, id, size, mtime_ns, inode, content FROM files WHERE gone = 0"
_REFUSED = "SELECT path, size, mtime_ns, inode, again FROM skipped"
_LACKING = """
SELECT DISTINCT file FROM items WHERE gone = 0 AND NOT EXISTS (
  SELECT 1 FROM stored WHERE model = ? AND generation = ? AND item = items.id)
"""
_UNREAD = " UNION SELECT file FROM items WHERE gone = 0 AND kind = 'image' AND text IS NULL"


def files_lacking(
    link: sqlite3.Connection, model: str, generation: int, read_text: bool
) -> set[int]:
    """Files of which something is not there yet: a vector, or the text that was asked for."""
    question = _LACKING + (_UNREAD if read_text else "")
    return {row[0] for row in link.execute(question, [model, generation])}


def skipped_files(link: sqlite3.Connection) -> list[tuple[str, str]]:
    """Path and reason of every file that is not in the index."""
    rows = link.execute("SELECT path, why FROM skipped ORDER BY path")
    return [(path, why) for path, why in rows]


def may_work_now(stat: FileStat) -> bool:
    """Whether a file that could not be read may be readable now."""
    installed = formats.may_be_readable_now(stat.suffix)
    return installed is not False and os.access(stat.path, os.R_OK)


def _noted_folders(index: Path) -> list[str]:
    """The folders that were indexed before; a damaged list is refused or replaced later."""
    try:
        return covered(index)
    except WrongIndex:
        return []
