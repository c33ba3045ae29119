"""Items as the catalogue describes them, verified when they are read.

An item that is shown is verified alone. Before the first filter, all items are, as damage to
any path or tag could change which items pass.
"""

import sqlite3
import threading
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from avow.core.camera import place_of, without_place
from avow.core.moments import Moment
from avow.core.searching import LONGEST_TEXT
from avow.retrieval.store.indexed_folders import outside
from avow.retrieval.store.row_checksums import damaged, intact, is_sealed, seal_tags

TAGS_SHOWN = 100
TAG_LETTERS = 200


@dataclass(frozen=True)
class Item:
    """A photograph, a moment of a video or a text of an index."""

    id: int
    kind: str
    path: str
    part: str
    text: str | None
    size: int
    width: int | None
    height: int | None
    modified: float
    taken: str | None
    content: str
    tags: tuple[str, ...]
    """The first ones."""
    same_as: int | None
    tags_total: int = 0
    """How many there are."""
    latitude: float | None = None
    """Where a camera says it was; None where it does not say."""
    longitude: float | None = None

    @property
    def moment(self) -> Moment | None:
        """When it is shown in its video; None for pictures and texts."""
        return Moment.parse(self.part) if self.kind == "video" else None


def read_items(link: sqlite3.Connection, ids: list[int], index: Path) -> dict[int, Item]:
    """The items with these numbers, as far as there are any."""
    sealed, marks = is_sealed(link), ",".join("?" * len(ids))
    check = f"{intact('items')} AND {intact('files')}, tagged" if sealed else "1, 0"
    rows = link.execute(
        "SELECT items.id, kind, path, part, text, size, width, height, "
        f"mtime_ns / 1e9, taken, items.content, same_as, {check} FROM items "
        f"JOIN files ON files.id = items.file WHERE items.id IN ({marks})",
        ids,
    ).fetchall()
    tags: dict[int, list[str]] = {}
    for item, tag in link.execute(
        f"SELECT item, tag FROM tags WHERE item IN ({marks}) ORDER BY item, tag", ids
    ):
        tags.setdefault(item, []).append(tag)
    for row in rows:
        whole = row[12] and not any(isinstance(cell, bytes) for cell in row)
        if not whole or (sealed and row[13] != seal_tags(tags.get(row[0], ()))):
            raise damaged(index, f"the description of item {row[0]} has changed")
    items = {row[0]: _item(row, tags.get(row[0], [])) for row in rows}
    hidden = outside(
        index, {described.path for described in items.values() if described.kind == "text"}
    )
    return {
        number: replace(described, text=None) if described.path in hidden else described
        for number, described in items.items()
    }


def _item(row: tuple[Any, ...], tags: list[str]) -> Item:
    """A row of the catalogue, within the bounds of what is shown."""
    number, kind, path, part, text, *rest = row[:11]
    place, tags = place_of(tags) or (None, None), without_place(tags)
    return Item(
        *(number, kind, path, part, None if text is None else text[:LONGEST_TEXT], *rest),
        tags=tuple(tag[:TAG_LETTERS] for tag in tags[:TAGS_SHOWN]),
        same_as=row[11],
        tags_total=len(tags),
        latitude=place[0],
        longitude=place[1],
    )


def read_segments(link: sqlite3.Connection, number: int) -> list[int]:
    """The live segments of the video that an item is of, in order of time."""
    rows = link.execute(
        "SELECT id, part FROM items WHERE gone = 0 AND kind = 'video' AND file = "
        "(SELECT file FROM items WHERE id = ? AND kind = 'video')",
        [number],
    )
    times = {row[0]: moment.start for row in rows if (moment := Moment.parse(row[1]))}
    return sorted(times, key=lambda item: (times[item], item))


def count_videos(link: sqlite3.Connection) -> tuple[int, int]:
    """Files of videos, and segments of them."""
    query = "SELECT count(DISTINCT file), count(*) FROM items WHERE kind = 'video' AND gone = 0"
    return link.execute(query).fetchone()


class ItemCheck:
    """All items verified for a filter: once, and after that what was added."""

    def __init__(self, index: Path):
        self.index = index
        self._lock = threading.Lock()
        self._upto, self._sums = 0, (0, 0.0, 0.0)
        """The highest number that was verified; count and checksums of the items up to it."""

    def check(self, link: sqlite3.Connection) -> None:
        """Refuse an index whose items are not all there, each as it was written.

        link: inside a read transaction, or alone with the catalogue.
        """
        with self._lock:
            self._check(link)

    def _check(self, link: sqlite3.Connection) -> None:
        if self._upto and self._up_to(link) != self._sums:
            self._upto, self._sums = 0, (0, 0.0, 0.0)
        wrong, present = damaged_items(link, self._upto)
        if wrong:
            raise damaged(self.index, f"the description of item {wrong[0]} has changed")
        count = link.execute("SELECT count FROM sums WHERE name = 'items'").fetchone()
        if count is None or count[0] != len(present) + self._sums[0]:
            raise damaged(self.index, "rows of the table 'items' are missing")
        if present:
            self._upto = max(present)
            self._sums = self._up_to(link)

    def _up_to(self, link: sqlite3.Connection) -> tuple[int, float, float]:
        return link.execute(
            "SELECT count(*), total(items.checksum), total(files.checksum) FROM items "
            "NOT INDEXED CROSS JOIN files ON files.id = items.file WHERE items.id <= ?",
            [self._upto],
        ).fetchone()


def damaged_items(link: sqlite3.Connection, after: int = 0) -> tuple[list[int], set[int]]:
    """Items with a higher number: which are damaged, and which are there at all.

    They are read the way a filter reads them, so that a damaged search tree is noticed.
    """
    rows = link.execute(
        f"SELECT items.id, tagged, {intact('items')} AND {intact('files')} FROM items "
        "NOT INDEXED CROSS JOIN files ON files.id = items.file WHERE items.id > ?",
        [after],
    ).fetchall()
    tagged = {row[0]: row[1] for row in rows if row[1]}
    pairs = link.execute(
        "SELECT items.id, tag FROM items NOT INDEXED CROSS JOIN tags ON tags.item = items.id "
        "WHERE items.id > ? ORDER BY items.id",
        [after],
    )
    sealed = {
        item: seal_tags([tag for _, tag in group])
        for item, group in groupby(pairs, itemgetter(0))
    }
    wrong = {row[0] for row in rows if not row[2]}
    both = tagged.keys() | sealed.keys()
    wrong |= {item for item in both if tagged.get(item) != sealed.get(item)}
    return sorted(wrong), {row[0] for row in rows}
