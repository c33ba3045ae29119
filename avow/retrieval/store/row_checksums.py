"""Checksums of the rows of a catalogue, kept by triggers and verified where rows are read.

Every row of `COLUMNS` carries a CRC-32 of its cells; `sums` counts the rows of a table and
adds up their checksums, so that a lost row shows, too. The rows of `stored` are added up in
their generation, the tags of an item are summed up in `items.tagged`, and `items.mark` holds
the kind of an item and whether it is gone, in a form that shows damage without any other cell.

The triggers belong to one connection. They refuse to change a row that is damaged, as its
new checksum would make the damage look right.
"""

import sqlite3
import zlib
from collections.abc import Iterable
from pathlib import Path

from avow.core.errors import WrongIndex
from avow.retrieval.store.schema import COLUMNS, FORMAT, KEYS

DAMAGED = "damaged row in"
PRIME = 2**31 - 1
FACTOR = 1_000_003
"""Of the number that stands for a pair of numbers; see `state.mixed`."""


def seal(*cells: object) -> int:
    """The checksum of a row: its table and its cells."""
    return zlib.crc32(ascii(cells).encode())


def seal_tags(tags: Iterable[str]) -> int:
    """The checksum of an item's tags; 0 where it has none."""
    return zlib.crc32(ascii(sorted(set(tags))).encode()) if tags else 0


def teach(link: sqlite3.Connection) -> None:
    """Give a connection the function of the checksums."""
    link.create_function("seal", -1, seal, deterministic=True)


def is_sealed(link: sqlite3.Connection) -> bool:
    """Whether the catalogue has checksums at all."""
    return link.execute("PRAGMA user_version").fetchone()[0] == FORMAT


def intact(table: str) -> str:
    """SQL for: this row of `table` is as it was written."""
    mark = f" AND items.mark IS {_mark('items')}" if table == "items" else ""
    return f"({table}.checksum IS {_sealed(table, table)}{mark})"


def arm(link: sqlite3.Connection) -> None:
    """Make a connection keep the checksums of whatever it changes."""
    if link.execute("SELECT 1 FROM sqlite_temp_master LIMIT 1").fetchone():
        return
    for table in COLUMNS:
        for trigger in _triggers(table):
            link.execute(trigger)
    pair = _mixed_sql("{0}.item", "{0}.row")
    for event, sign, row in (("INSERT", "+", "NEW"), ("DELETE", "-", "OLD")):
        link.execute(
            f"CREATE TEMP TRIGGER stored_{event} AFTER {event} ON main.stored BEGIN "
            f"UPDATE generations SET named = named {sign} 1, "
            f"total = total {sign} {pair.format(row)} "
            f"WHERE model = {row}.model AND number = {row}.generation; END"
        )
    link.execute(
        "CREATE TEMP TRIGGER stored_UPDATE AFTER UPDATE ON main.stored BEGIN "
        f"UPDATE generations SET total = total - {pair.format('OLD')} + {pair.format('NEW')} "
        "WHERE model = NEW.model AND number = NEW.generation; END"
    )


def seal_everything(link: sqlite3.Connection) -> None:
    """Give every row a checksum, for a catalogue that had none; inside a transaction."""
    tags: dict[int, list[str]] = {}
    for item, tag in link.execute("SELECT item, tag FROM tags"):
        tags.setdefault(item, []).append(tag)
    link.executemany(
        "UPDATE items SET tagged = ? WHERE id = ?",
        [(seal_tags(names), item) for item, names in tags.items()],
    )
    link.execute(f"UPDATE items SET mark = {_mark('items')}")
    for table in COLUMNS:
        link.execute(f"UPDATE {table} SET checksum = {_sealed(table, table)}")
        link.execute(
            "INSERT OR REPLACE INTO sums SELECT ?, count(*), coalesce(sum(checksum), 0) "
            f"FROM {table}",
            [table],
        )
    link.execute(
        "UPDATE generations SET (named, total) = (SELECT count(*), "
        f"coalesce(sum({_mixed_sql('item', 'row')}), 0) FROM stored "
        "WHERE model = generations.model AND generation = number)"
    )


def note_definitions(link: sqlite3.Connection) -> None:
    """Keep the checksum of the tables' definitions."""
    values = ["schema", 0, _definitions(link)]
    link.execute("INSERT OR REPLACE INTO sums VALUES (?, ?, ?)", values)


def definitions_intact(link: sqlite3.Connection) -> bool:
    row = link.execute("SELECT total FROM sums WHERE name = 'schema'").fetchone()
    return row is not None and row[0] == _definitions(link)


def check_sums(link: sqlite3.Connection, index: Path, tables: Iterable[str]) -> None:
    """Refuse a catalogue that has lost rows, or has more than were written."""
    for table in tables:
        if not sums_agree(link, table):
            raise damaged(index, f"rows of the table {table!r} are missing or changed")


def sums_agree(link: sqlite3.Connection, table: str) -> bool:
    there = f"SELECT count(*), coalesce(sum(checksum), 0) FROM {table} NOT INDEXED"
    noted = "SELECT count, total FROM sums WHERE name = ?"
    return link.execute(there).fetchone() == link.execute(noted, [table]).fetchone()


def damaged(index: Path, what: str) -> WrongIndex:
    """The refusal of a catalogue with a damaged row."""
    return WrongIndex(
        f"The catalogue of the index {str(index)!r} is damaged: {what}. Expected what "
        "`avow index` wrote; see all of it with `avow check`, and make the index anew with "
        "`avow index --rebuild`, which keeps everything that is intact."
    )


def _triggers(table: str) -> list[str]:
    columns = ", ".join(COLUMNS[table].split())
    where = " AND ".join(f"{key} = NEW.{key}" for key in KEYS[table].split())
    mark = f"mark = {_mark('NEW')}, " if table == "items" else ""
    write = f"UPDATE {table} SET {mark}checksum = {_sealed(table, 'NEW')} WHERE {where}"
    refuse = (
        f"SELECT RAISE(ABORT, '{DAMAGED} {table}') "
        f"WHERE OLD.checksum IS NOT {_sealed(table, 'OLD')}"
    )
    name, on = f"CREATE TEMP TRIGGER {table}", f"ON main.{table}"
    of = f"WHERE name = '{table}'"
    return [
        f"{name}_INSERT AFTER INSERT {on} BEGIN {write}; "
        f"UPDATE sums SET count = count + 1 {of}; END",
        f"{name}_refuse BEFORE UPDATE OF {columns} {on} BEGIN {refuse}; END",
        f"{name}_UPDATE AFTER UPDATE OF {columns} {on} BEGIN {write}; END",
        f"{name}_sum AFTER UPDATE OF checksum {on} BEGIN UPDATE sums SET total = "
        f"total - coalesce(OLD.checksum, 0) + NEW.checksum {of}; END",
        f"{name}_keep BEFORE DELETE {on} BEGIN {refuse}; END",
        f"{name}_DELETE AFTER DELETE {on} BEGIN UPDATE sums SET count = count - 1, "
        f"total = total - OLD.checksum {of}; END",
    ]


def _sealed(table: str, row: str) -> str:
    cells = ", ".join(f"{row}.{column}" for column in COLUMNS[table].split())
    return f"seal('{table}', {cells})"


def _mark(row: str) -> str:
    low = f"(({row}.kind = 'text') * 2 + {row}.gone)"
    return f"({_mixed_sql(f'{row}.id', low)} * 4 + {low})"


def _mixed_sql(first: str, second: str) -> str:
    base = f"(({first} * {FACTOR} + {second}) % {PRIME})"
    return f"({base} * {base} % {PRIME} * {base} % {PRIME})"


def _definitions(link: sqlite3.Connection) -> int:
    rows = link.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master "
        "WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name"
    )
    return seal(*rows)
