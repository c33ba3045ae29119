"""The catalogue opened for writing; a rebuild first sets a damaged one aside.

    catalogue.sqlite  -> catalogue.damaged-1.sqlite, renamed and never removed
                      -> a new catalogue with every file, item and judgement that is intact

Items keep their numbers, so that what people judged still belongs to the same pictures.
"""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from avow.retrieval.store.catalogue import FILE, changing, open_catalogue
from avow.retrieval.store.inspection import catalogue_damage
from avow.retrieval.store.row_checksums import check_sums, intact, seal_tags, teach
from avow.retrieval.store.schema import COLUMNS
from avow.retrieval.store.upgrade import upgrade

UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What reading damage raises: a message of SQLite may repeat bytes that are no text."""

_AT_ONCE = 512
_CHECKED = ("files", "items", "models", "generations", "skipped")


def open_for_writing(index: Path, rebuild: bool) -> tuple[sqlite3.Connection, list[str]]:
    """The catalogue, made where there is none, and sentences about what was repaired."""
    if rebuild and (index / FILE).is_file() and catalogue_damage(index):
        return _repaired(index)
    link = open_catalogue(index, make=True)
    try:
        upgrade(link, index)
        if not rebuild:
            check_sums(link, index, _CHECKED)
    except BaseException:
        link.close()
        raise
    return link, []


def _repaired(index: Path) -> tuple[sqlite3.Connection, list[str]]:
    aside = set_aside(index)
    link = open_catalogue(index, make=True)
    try:
        with changing(link):
            counts = salvage(aside, link)
    except BaseException:
        link.close()
        raise
    sentence = (
        f"The catalogue was damaged and is kept as {str(aside)!r}. Its intact rows were taken "
        f"over: {counts['files']} files, {counts['items']} items, {counts['feedback']} "
        "judgements."
    )
    return link, [sentence]


def set_aside(index: Path) -> Path:
    """Rename the catalogue, with its log; its new path."""
    number = 1
    while (index / f"catalogue.damaged-{number}.sqlite").exists():
        number += 1
    aside = index / f"catalogue.damaged-{number}.sqlite"
    for ending in ("-wal", "-shm", ""):
        path = index / f"{FILE}{ending}"
        if path.exists():
            path.rename(aside.with_name(aside.name + ending))
    return aside


def salvage(aside: Path, link: sqlite3.Connection) -> dict[str, int]:
    """Copy the intact files, items, tags and judgements of a damaged catalogue."""
    old = sqlite3.connect(aside, isolation_level=None)
    try:
        teach(old)
        files = {row[0] for row in _copied(old, link, "files", lambda row: not row[-1])}
        # some of their items may be lost: until they are read again, all files look changed
        link.execute("UPDATE files SET size = -1, mtime_ns = 0, inode = 0")
        items = _copied(old, link, "items", lambda row: _is_whole(old, row, files))
        judged = _copied(old, link, "feedback", lambda row: True)
    finally:
        old.close()
    _never_again(link, [row[2] for row in judged])
    return {"files": len(files), "items": len(items), "feedback": len(judged)}


def _copied(
    old: sqlite3.Connection,
    link: sqlite3.Connection,
    table: str,
    wanted: Callable[[tuple], bool],
) -> list[tuple]:
    """Rows that are intact, wanted, and fit to what was copied before."""
    columns = COLUMNS[table].split()
    copied = []
    insert = (
        f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) "
        f"VALUES ({', '.join('?' * len(columns))})"
    )
    for row in _readable(old, table):
        try:
            if wanted(row) and link.execute(insert, row).rowcount:
                copied.append(row)
                if table == "items":
                    tags = [(row[0], tag) for tag in _tags(old, row[0])]
                    link.executemany("INSERT INTO tags VALUES (?, ?)", tags)
        except (sqlite3.Error, TypeError, ValueError, OverflowError):
            continue
    return copied


def _readable(old: sqlite3.Connection, table: str) -> Iterator[tuple]:
    """Every row that can be read and is as it was written, by its number."""
    columns = COLUMNS[table]
    try:
        old.execute(f"SELECT checksum FROM {table} LIMIT 1").fetchone()
        condition = intact(table)
    except UNREADABLE:  # of format 1, or beyond reading
        columns, condition = columns.replace(" tagged", ""), "1"
    question = (
        f"SELECT {', '.join(columns.split())} FROM {table} NOT INDEXED "
        f"WHERE id BETWEEN ? AND ? AND {condition} ORDER BY id"
    )
    for first in range(1, _highest(old, table) + 1, _AT_ONCE):
        for row in _between(old, question, first, first + _AT_ONCE - 1):
            full = len(row) == len(COLUMNS[table].split())
            yield row if full else (*row, seal_tags(_tags(old, row[0])))


def _between(old: sqlite3.Connection, question: str, first: int, last: int) -> Iterator[tuple]:
    """Rows of a range of numbers; around one that cannot be read, ever smaller ranges."""
    try:
        rows = old.execute(question, [first, last]).fetchall()
    except UNREADABLE:
        if first < last:
            middle = (first + last) // 2
            yield from _between(old, question, first, middle)
            yield from _between(old, question, middle + 1, last)
        return
    yield from rows


def _highest(old: sqlite3.Connection, table: str) -> int:
    """The highest number of a table, or a guess that is too high rather than too low."""
    for question in (
        f"SELECT max(id) FROM {table}",
        f"SELECT seq FROM sqlite_sequence WHERE name = '{table}'",
        f"SELECT count FROM sums WHERE name = '{table}'",
    ):
        try:
            row = old.execute(question).fetchone()
        except UNREADABLE:
            continue
        if row is not None and isinstance(row[0], int) and 0 < row[0] < 2**31:
            return row[0]
    return 0


def _is_whole(old: sqlite3.Connection, row: tuple, files: set[int]) -> bool:
    """Whether an item is live, has its file, and all of its tags."""
    about = dict(zip(COLUMNS["items"].split(), row, strict=True))
    if about["gone"] or about["file"] not in files:
        return False
    return about["tagged"] == seal_tags(_tags(old, about["id"]))


def _tags(old: sqlite3.Connection, item: int) -> list[str]:
    return [row[0] for row in old.execute("SELECT tag FROM tags WHERE item = ?", [item])]


def _never_again(link: sqlite3.Connection, judged: list[int]) -> None:
    """Numbers of items that are lost, and were judged, are not given to other items."""
    highest = max([0, *judged])
    row = link.execute("SELECT seq FROM sqlite_sequence WHERE name = 'items'").fetchone()
    if row is None:
        link.execute("INSERT INTO sqlite_sequence VALUES ('items', ?)", [highest])
    elif row[0] < highest:
        link.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'items'", [highest])
