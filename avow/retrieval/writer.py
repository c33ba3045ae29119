"""An index opened for writing: items go in, vectors first and their names after.

    bytes of the rows -> disk -> one transaction that names them

A kill at any moment leaves the catalogue naming only rows that are there. Every batch is
one transaction, so a run that was cut off goes on where it stopped.
"""

import os
import shutil
import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from avow.core.contracts import Encoder
from avow.retrieval.catalogue import changing
from avow.retrieval.reading import Fresh
from avow.retrieval.spaces import Space
from avow.retrieval.walk import Seen

_COPIED_AT_ONCE = 8192


@dataclass
class Filing:
    """A file on its way into the catalogue."""

    seen: Seen
    content: str
    file: int | None
    keep: set[int]
    """Items of it that stay."""


@dataclass(frozen=True)
class Entry:
    """An item to file: a new one, or one that is known and lacks a vector."""

    filing: Filing
    fresh: Fresh
    item: int | None
    last: bool
    """Whether it is the last one of its file."""


class Writer:
    """One generation of one model's rows, and the catalogue that names them."""

    def __init__(
        self, link: sqlite3.Connection, space: Space, about: dict[str, Any], generation: int
    ):
        self.link, self.space, self.about, self.generation = link, space, about, generation
        self.model = space.fingerprint
        self.rows = self._count()
        self._vectors = space.vectors(generation, about)
        self._usual = space.usual(generation, about)
        self._vectors.settle(self.rows)
        if self._usual is not None:
            self._usual.settle(self.rows)

    @classmethod
    def begin(
        cls, link: sqlite3.Connection, index: Path, encoder: Encoder, engine: str, half: bool
    ) -> "Writer":
        """Make room for a model that the index does not know."""
        space = Space(index, encoder.fingerprint)
        shutil.rmtree(space.folder, ignore_errors=True)
        about = space.make(encoder, engine, half)
        with changing(link):
            link.execute(
                "INSERT INTO models VALUES (?, 0, 0, ?)", [space.fingerprint, time.time()]
            )
            link.execute("INSERT INTO generations VALUES (?, 0, 0)", [space.fingerprint])
        return cls(link, space, about, 0)

    def file(self, entries: Iterable[Entry], vectors: Float32[np.ndarray, "items dim"]) -> None:
        """Store vectors, then name them and their items, all at once."""
        entries = list(entries)
        if self._usual is not None and len(entries):
            rows = self.space.usual_rows(vectors, self.about)
            rows[[entry.fresh.kind == "text" for entry in entries]] = np.nan
            self._usual.write(self.rows, rows)
        self._vectors.write(self.rows, vectors)
        with changing(self.link):
            for row, entry in enumerate(entries, self.rows):
                self._file_one(entry, row)
            self.link.execute(
                "UPDATE generations SET rows = ? WHERE model = ? AND number = ?",
                [self.rows + len(entries), self.model, self.generation],
            )
            self._stamp()
        self.rows += len(entries)

    def settle_file(self, filing: Filing) -> None:
        """Finish a file of which nothing needed a vector."""
        with changing(self.link):
            self._settle(filing)
            self._stamp()

    def move(self, number: int, seen: Seen) -> None:
        """A known file is found at another place."""
        with changing(self.link):
            self.link.execute(
                "UPDATE files SET path = ?, folder = ?, name = ?, size = ?, mtime_ns = ?, "
                "inode = ? WHERE id = ?",
                [*_place(seen), seen.size, seen.mtime_ns, seen.inode, number],
            )
            self.link.execute("DELETE FROM skipped WHERE path = ?", [seen.path])
            self._stamp()

    def forget(self, files: Iterable[int]) -> None:
        """Files that are gone, with all their items."""
        with changing(self.link):
            for number in files:
                self.link.execute("UPDATE items SET gone = 1 WHERE file = ?", [number])
                self.link.execute("UPDATE files SET gone = 1 WHERE id = ?", [number])
            self._stamp()

    def skip(self, path: str, why: str, seen: Seen | None = None, again: bool = False) -> None:
        """List a file that cannot be indexed."""
        about = (seen.size, seen.mtime_ns, seen.inode) if seen else (None, None, None)
        with changing(self.link):
            self.link.execute(
                "INSERT OR REPLACE INTO skipped VALUES (?, ?, ?, ?, ?, ?, ?)",
                [path, why, time.time(), *about, again],
            )

    def unskip(self, paths: Iterable[str]) -> None:
        with changing(self.link):
            self.link.executemany("DELETE FROM skipped WHERE path = ?", [(p,) for p in paths])

    def use(self) -> None:
        """Make this generation the one that readers see, and this model the default."""
        with changing(self.link):
            before = self.link.execute(
                "SELECT generation FROM models WHERE fingerprint = ?", [self.model]
            ).fetchone()[0]
            self.link.execute(
                "UPDATE models SET generation = ?, used = ? WHERE fingerprint = ?",
                [self.generation, time.time(), self.model],
            )
            if before != self.generation:
                for table, column in (("stored", "generation"), ("generations", "number")):
                    self.link.execute(
                        f"DELETE FROM {table} WHERE model = ? AND {column} != ?",
                        [self.model, self.generation],
                    )
                self._stamp()
        self.space.remove_others({self.generation})

    def vector(self, row: int) -> Float32[np.ndarray, " dim"]:
        return np.asarray(self._vectors.read(self.rows)[row], np.float32)

    def _file_one(self, entry: Entry, row: int) -> None:
        filing, fresh = entry.filing, entry.fresh
        if filing.file is None:
            # complete only when its last item is in: until then it looks changed
            filing.file = self.link.execute(
                "INSERT INTO files (path, folder, name, size, mtime_ns, inode, content) "
                "VALUES (?, ?, ?, -1, 0, 0, '')",
                _place(filing.seen),
            ).lastrowid
        number = entry.item
        if number is None:
            self.link.execute(
                "UPDATE items SET gone = 1 WHERE file = ? AND part = ? AND gone = 0",
                [filing.file, fresh.part],
            )
            number = self.link.execute(
                "INSERT INTO items (file, part, kind, content, text, width, height, taken, "
                "look) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    *(filing.file, fresh.part, fresh.kind, fresh.content, fresh.text),
                    *(fresh.width, fresh.height, fresh.taken, fresh.look),
                ],
            ).lastrowid
            self.link.executemany(
                "INSERT OR IGNORE INTO tags VALUES (?, ?)",
                [(number, tag) for tag in fresh.tags],
            )
        assert number is not None
        filing.keep.add(number)
        self.link.execute(
            "INSERT OR REPLACE INTO stored VALUES (?, ?, ?, ?)",
            [self.model, self.generation, number, row],
        )
        if entry.last:
            self._settle(filing)

    def _settle(self, filing: Filing) -> None:
        seen = filing.seen
        for (number,) in self.link.execute(
            "SELECT id FROM items WHERE file = ? AND gone = 0", [filing.file]
        ).fetchall():
            if number not in filing.keep:
                self.link.execute("UPDATE items SET gone = 1 WHERE id = ?", [number])
        self.link.execute(
            "UPDATE files SET size = ?, mtime_ns = ?, inode = ?, content = ? WHERE id = ?",
            [seen.size, seen.mtime_ns, seen.inode, filing.content, filing.file],
        )
        self.link.execute("DELETE FROM skipped WHERE path = ?", [seen.path])

    def _stamp(self) -> None:
        self.link.execute("UPDATE models SET stamp = stamp + 1")

    def _count(self) -> int:
        return self.link.execute(
            "SELECT rows FROM generations WHERE model = ? AND number = ?",
            [self.model, self.generation],
        ).fetchone()[0]


def _place(seen: Seen) -> tuple[str, str, str]:
    return seen.path, *os.path.split(seen.path)
