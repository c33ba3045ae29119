"""What has to be encoded, cut into units, and the files that remember how far it is.

    INDEX/work/plan.json          the units, and what they were made from
    INDEX/work/ingested           how many units are in the index
    INDEX/work/000012.part        a unit that is encoded and waits for its turn
    INDEX/shards.jsonl            shards that are in the index as they are now

Units go into the index in the order of the plan. A run that was cut off goes on with the same
plan while the listed files are the same, so that the index is that of one run.
"""

import json
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from avow.core.documents import read_object
from avow.core.files import write_text
from avow.core.fingerprint import of_text
from avow.core.storage import UNCOMPARABLE
from avow.retrieval.sharding.source import Source
from avow.retrieval.store.changes import Survey, files_lacking
from avow.retrieval.store.walk import FileStat, Walk, shard_of, under

FILES_AT_ONCE = 256
"""Files of one unit, where they are pictures; a shard is a unit by itself."""


@dataclass(frozen=True)
class Unit:
    """Files of one source that are encoded together."""

    source: int
    files: tuple[FileStat, ...]


@dataclass
class Plan:
    folder: Path
    units: list[Unit]
    ingested: int = 0

    def part(self, number: int) -> Path:
        return self.folder / f"{number:06}.part"

    def finished(self, number: int) -> None:
        """Note that the units up to this one are in the index; its part is not needed."""
        write_text(self.folder / "ingested", str(number + 1))
        self.ingested = number + 1
        self.part(number).unlink(missing_ok=True)

    def close(self) -> None:
        """All is in the index."""
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass
class Shards:
    """Shards whose every item is in one generation of an index, as they were then.

    A line is added when a shard is finished. A line that was cut off, or a lost file, costs a
    second reading of a shard and nothing else.
    """

    path: Path
    model: str
    generation: int
    known: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    @classmethod
    def open(cls, index: Path, model: str, generation: int) -> "Shards":
        shards = cls(index / "shards.jsonl", model, generation)
        if shards.path.is_file():
            for line in shards.path.read_text("utf-8", "replace").splitlines():
                try:
                    *rows, path, size, modified, tag = json.loads(line)
                except (ValueError, TypeError, RecursionError):
                    continue
                if rows == [model, generation]:
                    shards.known[str(path)] = (int(size), int(modified), int(tag))
        return shards

    def unchanged(self, stat: FileStat) -> bool:
        return stat.inode != UNCOMPARABLE and self.known.get(stat.path) == about(stat)

    def add(self, stat: FileStat) -> None:
        self.known[stat.path] = about(stat)
        line = json.dumps([self.model, self.generation, stat.path, *about(stat)])
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(f"\n{line}")  # the line before may have been cut off
            stream.flush()
            os.fsync(stream.fileno())


def survey_sources(
    link: sqlite3.Connection,
    sources: Sequence[Source],
    walks: Sequence[Walk],
    shards: Shards,
    read_text: bool,
) -> tuple[Survey, list[Unit]]:
    """How the listed files differ from the catalogue, and the units with the difference."""
    changes, units = Survey(merged(walks)), []
    indexed = {row[0]: row[1:] for row in link.execute(_INDEXED)}
    refused = {row[0]: row[1:] for row in link.execute(_REFUSED)}
    lacking = files_lacking(link, shards.model, shards.generation, read_text)
    in_shards = Counter(shard_of(path) for path in indexed)
    for number, (source, walk) in enumerate(zip(sources, walks, strict=True)):
        waiting: list[FileStat] = []
        for path, stat in walk.files.items():
            file, *before = indexed.get(path, (None,))[:4]
            same = stat.inode != UNCOMPARABLE and tuple(before) == about(stat)
            if source.many and shards.unchanged(stat):
                changes.unchanged += in_shards[path]
            elif not source.many and same and file not in lacking:
                changes.unchanged += 1
            elif not source.many and refused.get(path) == about(stat):
                changes.still_skipped += 1
            else:
                waiting.append(stat)
        units += cut(number, source, waiting)
    listed = changes.walk.files.keys() | changes.walk.skipped.keys()

    def gone(path: str) -> bool:
        there = path in listed or shard_of(path) in listed
        pairs = zip(sources, walks, strict=True)
        return not there and any(source.covers(path, walk) for source, walk in pairs)

    for path, (number, *_, content) in indexed.items():
        if gone(path):
            changes.missing[number] = (path, content)
    if changes.missing:
        changes.indexed_before = {
            root: sum(under(path, [root]) for path in indexed) for root in changes.walk.roots
        }
    every = link.execute("SELECT path FROM skipped").fetchall()
    changes.skips_gone = [path for (path,) in every if gone(path)]
    return changes, units


def merged(walks: Sequence[Walk]) -> Walk:
    """What several sources list, as one list."""
    every = Walk([root for walk in walks for root in walk.roots])
    for walk in walks:
        every.files |= walk.files
        every.skipped |= walk.skipped
        every.unlisted += walk.unlisted
        every.outside += walk.outside
    return every


_INDEXED = "SELECT path, id, size, mtime_ns, inode, content FROM files WHERE gone = 0"
_REFUSED = "SELECT path, size, mtime_ns, inode FROM skipped WHERE NOT again"


def open_plan(
    index: Path, made_from: Sequence[Any], walks: Sequence[Walk], units: list[Unit]
) -> Plan:
    """The plan that was cut off, where it was made from the same files; else a new one.

    made_from: what else a part depends on: the sources, the model and the settings.
    """
    parts = [json.dumps(list(made_from))]
    parts += [repr(astuple(stat)) for walk in walks for stat in walk.files.values()]
    digest = of_text(parts)
    folder = index / "work"
    try:
        noted = read_object(folder / "plan.json")
        if noted["made_from"] == digest:
            ingested = int((folder / "ingested").read_text())
            return Plan(folder, [_unit(one) for one in noted["units"]], ingested)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_text(folder / "ingested", "0")
    listed = [[unit.source, [astuple(stat) for stat in unit.files]] for unit in units]
    write_text(folder / "plan.json", json.dumps({"made_from": digest, "units": listed}))
    return Plan(folder, units)


def _unit(noted: Any) -> Unit:
    source, files = noted
    return Unit(int(source), tuple(FileStat(*about) for about in files))


def about(stat: FileStat) -> tuple[int, int, int]:
    """What is different when a file is."""
    return stat.size, stat.mtime_ns, stat.inode


def cut(number: int, source: Source, files: Sequence[FileStat]) -> Iterator[Unit]:
    """Files of one source in units; a shard is one by itself. number: of the source."""
    size = 1 if source.many else FILES_AT_ONCE
    for start in range(0, len(files), size):
        yield Unit(number, tuple(files[start : start + size]))
