"""An index opened for writing: items go in, vectors first and their names after.

    bytes of the rows -> disk -> one transaction that names them

A kill at any moment leaves the catalogue naming only rows that are there. Every batch is
one transaction, so a run that was cut off goes on where it stopped.
"""

import os
import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float32, Int64

from avow.core.vector_forms import FORMS, Decoded
from avow.retrieval.store.catalogue import changing
from avow.retrieval.store.model_folder import Space
from avow.retrieval.store.reading import Fresh
from avow.retrieval.store.row_blocks import Blocks, Noted, continued, note, noted
from avow.retrieval.store.row_checksums import damaged, intact, seal_tags
from avow.retrieval.store.rows import Rows
from avow.retrieval.store.walk import FileStat


@dataclass
class Filing:
    """A file on its way into the catalogue."""

    stat: FileStat
    content: str
    file: int | None
    keep: set[int]
    """Items of it that stay."""
    written: dict[int, str] = field(default_factory=dict)
    """What was recognised in pictures that stay."""


@dataclass(frozen=True)
class Entry:
    """An item to file: a new one, or one in the catalogue that lacks a vector."""

    filing: Filing
    fresh: Fresh
    item: int | None
    last: bool
    """Whether it is the last one of its file."""


FILES = ("vectors", "usual")
"""The files of rows that a generation has."""


class Writer:
    """One generation of one model's rows, and the catalogue that names them."""

    def __init__(self, link: sqlite3.Connection, space: Space, generation: int):
        self.link, self.space, self.generation = link, space, generation
        self.model, self.about = space.fingerprint, space.manifest()
        row = link.execute(
            f"SELECT rows, half, engine, sealed, {intact('generations')} FROM generations "
            "WHERE model = ? AND number = ?",
            [self.model, generation],
        ).fetchone()
        if row is None or not row[4]:
            raise damaged(
                space.folder.parent.parent, "a row of the table 'generations' has changed"
            )
        self.rows, self.engine = row[0], row[2]
        self.sealed, self.vectors_as = bool(row[3]), FORMS[row[1]]
        self.form = space.form(self.vectors_as, self.about)
        self._vectors = space.vectors(generation, self.form)
        self._usual = space.usual(generation, self.about)
        self._checksums = {name: noted(link, self.model, generation, name) for name in FILES}
        self._blocks: dict[str, Blocks] = {}
        for rows in self.files():
            rows.settle(self.rows)

    def files(self) -> list[Rows]:
        return [rows for rows in (self._vectors, self._usual) if rows is not None]

    def file(self, entries: Iterable[Entry], vectors: Float32[np.ndarray, "items dim"]) -> None:
        """Store vectors, then name them and their items, all at once."""
        entries = list(entries)
        fresh: dict[str, Noted] = {}
        if self._usual is not None and len(entries):
            rows = self.space.usual_rows(vectors, self.about)
            rows[[entry.fresh.kind == "text" for entry in entries]] = np.nan
            fresh["usual"] = self._write("usual", self._usual, rows)
        fresh["vectors"] = self._write("vectors", self._vectors, self.form.encode(vectors))
        with changing(self.link):
            for name, blocks in fresh.items() if self.sealed else ():
                note(self.link, self.model, self.generation, name, blocks)
            for row, entry in enumerate(entries, self.rows):
                self._file_one(entry, row)
            self.link.execute(
                "UPDATE generations SET rows = ? WHERE model = ? AND number = ?",
                [self.rows + len(entries), self.model, self.generation],
            )
            self.stamp()
        self.rows += len(entries)
        for name, blocks in fresh.items():
            self._checksums[name] |= blocks

    def settle_file(self, filing: Filing) -> None:
        """Finish a file of which nothing needed a vector."""
        with changing(self.link):
            self._settle(filing)
            self.stamp()

    def move(self, number: int, stat: FileStat) -> None:
        """An indexed file has moved to another path."""
        with changing(self.link):
            self.link.execute(
                "UPDATE files SET path = ?, folder = ?, name = ?, size = ?, mtime_ns = ?, "
                "inode = ? WHERE id = ?",
                [*_place(stat), stat.size, stat.mtime_ns, stat.inode, number],
            )
            self.link.execute("DELETE FROM skipped WHERE path = ?", [stat.path])
            self.stamp()

    def forget(self, files: Iterable[int]) -> None:
        """Files that are gone, with all their items."""
        files = list(files)
        if not files:
            return
        with changing(self.link):
            for number in files:
                self.link.execute("UPDATE items SET gone = 1 WHERE file = ?", [number])
                self.link.execute("UPDATE files SET gone = 1 WHERE id = ?", [number])
            self.stamp()

    def read_videos_again(self) -> int:
        """Make every video look changed, so that the next survey lists it; how many there are.

        What is known of them stays to be searched until it is replaced. Their items no longer
        count as read from this content: at another frame rate none of them would be as it is.
        """
        found = "SELECT DISTINCT file FROM items WHERE kind = 'video' AND gone = 0"
        files = self.link.execute(found).fetchall()
        with changing(self.link):
            for row in files:
                self.link.execute(
                    "UPDATE items SET content = '-' || content WHERE file = ? AND gone = 0 "
                    "AND content NOT LIKE '-%'",
                    row,
                )
                self.link.execute(
                    "UPDATE files SET size = -1, mtime_ns = 0, inode = 0, content = '' "
                    "WHERE id = ?",
                    row,
                )
            self.stamp()
        return len(files)

    def list_skipped(self, skipped: dict[str, str], gone: Iterable[str]) -> None:
        """Note what a walk could not enter, and forget what it did not meet again."""
        before = "SELECT path, why FROM skipped WHERE size IS NULL"
        listed = dict(self.link.execute(before).fetchall())
        with changing(self.link):
            for path in gone:
                self.link.execute("DELETE FROM skipped WHERE path = ?", [path])
            for path, why in skipped.items():
                if listed.get(path) != why:
                    self._skip(path, why, None, False)

    def skip(self, stat: FileStat, why: str, again: bool = False) -> None:
        """List a file that cannot be indexed."""
        with changing(self.link):
            self._skip(stat.path, why, stat, again)

    def group(self, heads: dict[int, int]) -> None:
        """Note which items are like which; all others are like none."""
        with changing(self.link):
            self.link.execute("UPDATE items SET same_as = NULL WHERE same_as IS NOT NULL")
            self.link.executemany(
                "UPDATE items SET same_as = ? WHERE id = ?",
                [(head, item) for item, head in heads.items()],
            )
            self.stamp()

    def purge(self) -> None:
        """Forget items that were gone before this run; readers had time to notice."""
        with changing(self.link):
            self.link.execute("DELETE FROM items WHERE gone = 1")
            self.link.execute(
                "DELETE FROM files WHERE gone = 1 AND NOT EXISTS "
                "(SELECT 1 FROM items WHERE file = files.id)"
            )

    def live(self) -> Int64[np.ndarray, " rows"]:
        """Ids by row, -1 where a row is dead."""
        ids = np.full(self.rows, -1, np.int64)
        for item, row in self.link.execute(NAMED, [self.model, self.generation]):
            ids[row] = item
        return ids

    def vectors(self) -> Decoded:
        """The vectors of all rows, verified."""
        return Decoded(self.verified(self._vectors).data, self.form, self.about["dim"])

    def vector(self, row: int) -> Float32[np.ndarray, " dim"]:
        rows = self.verified(self._vectors, np.array([row]))
        return self.form.decode(rows.data[row : row + 1])[0]

    def verified(self, rows: Rows, places: Int64[np.ndarray, " some"] | None = None) -> Blocks:
        """The rows of a file, of which these are verified; default: all."""
        name = rows.path.stem
        checksums = self._checksums[name] if self.sealed else None
        blocks = Blocks(rows, rows.read(self.rows), checksums, self._blocks.get(name))
        self._blocks[name] = blocks
        blocks.check(places)
        return blocks

    def _write(self, name: str, rows: Rows, values: np.ndarray) -> Noted:
        data = rows.write(self.rows, values)
        return continued(self._checksums[name], rows, self.rows, data) if self.sealed else {}

    def _skip(self, path: str, why: str, stat: FileStat | None, again: bool) -> None:
        about = (stat.size, stat.mtime_ns, stat.inode) if stat else (None, None, None)
        self.link.execute(
            "INSERT INTO skipped (path, why, happened, size, mtime_ns, inode, again) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET why = excluded.why, "
            "happened = excluded.happened, size = excluded.size, "
            "mtime_ns = excluded.mtime_ns, inode = excluded.inode, again = excluded.again",
            [path, why, time.time(), *about, again],
        )

    def _file_one(self, entry: Entry, row: int) -> None:
        filing, fresh = entry.filing, entry.fresh
        if filing.file is None:
            # complete only when its last item is in: until then it looks changed
            filing.file = self.link.execute(
                "INSERT INTO files (path, folder, name, size, mtime_ns, inode, content) "
                "VALUES (?, ?, ?, -1, 0, 0, '')",
                _place(filing.stat),
            ).lastrowid
        number = entry.item
        if number is None:
            self.link.execute(
                "UPDATE items SET gone = 1 WHERE file = ? AND part = ? AND gone = 0",
                [filing.file, fresh.part],
            )
            number = self.link.execute(
                "INSERT INTO items (file, part, kind, content, text, width, height, taken, "
                "look, tagged) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    *(filing.file, fresh.part, fresh.kind, fresh.content, fresh.text),
                    *(fresh.width, fresh.height, fresh.taken, fresh.look),
                    seal_tags(fresh.tags),
                ],
            ).lastrowid
            self.link.executemany(
                "INSERT OR IGNORE INTO tags VALUES (?, ?)",
                [(number, tag) for tag in fresh.tags],
            )
        assert number is not None
        filing.keep.add(number)
        self.link.execute(
            "INSERT INTO stored VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET row = excluded.row",
            [self.model, self.generation, number, row],
        )
        if entry.last:
            self._settle(filing)

    def _settle(self, filing: Filing) -> None:
        stat = filing.stat
        for (number,) in self.link.execute(
            "SELECT id FROM items WHERE file = ? AND gone = 0", [filing.file]
        ).fetchall():
            if number not in filing.keep:
                self.link.execute("UPDATE items SET gone = 1 WHERE id = ?", [number])
        self.link.executemany(
            "UPDATE items SET text = ? WHERE id = ? AND text IS NOT ?",
            [(text, number, text) for number, text in filing.written.items()],
        )
        self.link.execute(
            "UPDATE files SET size = ?, mtime_ns = ?, inode = ?, content = ? WHERE id = ?",
            [stat.size, stat.mtime_ns, stat.inode, filing.content, filing.file],
        )
        self.link.execute("DELETE FROM skipped WHERE path = ?", [stat.path])

    def stamp(self) -> None:
        self.link.execute("UPDATE models SET stamp = stamp + 1")


NAMED = """
SELECT item, row FROM stored JOIN items ON items.id = item
WHERE model = ? AND generation = ? AND gone = 0 ORDER BY row
"""


def _place(stat: FileStat) -> tuple[str, str, str]:
    return stat.path, *os.path.split(stat.path)
