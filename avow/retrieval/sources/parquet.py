"""Parquet tables whose rows hold a picture as bytes, or the URL of one (img2dataset's output).

The picture is in the first of `BYTES` that is a column, or else its URL in the first of `URLS`.
The name of an item is the column `key`, or else the number of its row.
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from avow.core.errors import MissingExtra
from avow.core.storage import is_url
from avow.core.web import fetch_public
from avow.retrieval.sharding.source import Record, ShardSource, bounded, inside, picture_name
from avow.retrieval.store.reading import LARGEST_FILE, Unreadable
from avow.retrieval.store.walk import INSIDE, FileStat

BYTES = ("jpg", "jpeg", "png", "webp", "image", "bytes")
URLS = ("url", "image_url", "URL")
KEYS = ("key", "id")
ROWS_AT_ONCE = 32
LARGEST_GROUP = 8 * 2**30
"""Bytes of a group of rows, unpacked: a library reads a group as a whole."""
LARGEST_FETCHED = 512 * 2**20
"""The same where the table lies at a URL and one picture of it is wanted."""
_BEGINNINGS = {b"\xff\xd8\xff": "jpg", b"\x89PNG": "png", b"RIFF": "webp", b"GIF8": "gif"}


class Parquet(ShardSource):
    kind = "parquet"
    suffix = ".parquet"

    def unpacked(self, stat: FileStat, stream: Any) -> Iterator[Record]:
        table, column, key = _opened(stream)
        read = [column, key] if key else [column]
        used: set[str] = set()
        for number, row in enumerate(_rows(table, columns=read)):
            yield _record(stat, row, column, _name(row, key, number, used))

    def found(self, stat: FileStat, stream: Any, path: str) -> Record | None:
        """Names are read up to it, and then the pictures of its group of rows."""
        wanted = path.removeprefix(f"{stat.path}{INSIDE}").rpartition(".")[0]
        table, column, key = _opened(stream)
        number = _number_of(wanted, table, key)
        if number is None:
            return None
        for group in range(table.num_row_groups):
            rows = table.metadata.row_group(group).num_rows
            if number < rows:
                _check_group(table, group, LARGEST_FETCHED if is_url(stat.path) else None)
                found = _rows(table, columns=[column], row_groups=[group])
                return _record(stat, next(islice(found, number, None)), column, wanted)
            number -= rows
        return None


def _opened(stream: Any) -> tuple[Any, str, str | None]:
    """The table, the column of its pictures, and that of their names."""
    try:
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise MissingExtra("Reading Parquet", "pyarrow", "tables") from None
    table = parquet.ParquetFile(stream)
    for group in range(table.num_row_groups):
        _check_group(table, group)
    names = table.schema_arrow.names
    column = next((name for name in (*BYTES, *URLS) if name in names), None)
    if column is None:
        expected = ", ".join((*BYTES, *URLS))
        raise Unreadable(f"no column of pictures: expected one of {expected}")
    return table, column, next((name for name in KEYS if name in names), None)


def _check_group(table: Any, group: int, most: int | None = None) -> None:
    size, most = table.metadata.row_group(group).total_byte_size, most or LARGEST_GROUP
    if size > most:
        raise Unreadable(f"a group of rows of {size} bytes; {most} at most")


def _rows(table: Any, **which: Any) -> Iterator[dict[str, Any]]:
    for batch in table.iter_batches(ROWS_AT_ONCE, **which):
        yield from batch.to_pylist()


def _number_of(wanted: str, table: Any, key: str | None) -> int | None:
    """The row whose picture has a name."""
    if key is None:
        return int(wanted) if wanted.isascii() and wanted.isdigit() else None
    used: set[str] = set()
    rows = enumerate(_rows(table, columns=[key]))
    return next((at for at, row in rows if _name(row, key, at, used) == wanted), None)


def _name(row: dict[str, Any], key: str | None, number: int, used: set[str]) -> str:
    name = str(row[key]) if key and row[key] is not None else f"{number:09}"
    if picture_name(f"{name}.jpg") or name in used:
        name = f"{number:09}"
    used.add(name)
    return name


def _record(stat: FileStat, row: dict[str, Any], column: str, name: str) -> Record:
    cell = row[column]
    if isinstance(cell, dict):  # as `datasets` keeps pictures
        cell = cell.get("bytes")
    if column in URLS:
        about = inside(stat, f"{name}.jpg", 0)
        if not isinstance(cell, str) or not cell:
            return Record(about, why="no URL in this row")
        return Record(about, fetch=partial(fetch_public, cell, LARGEST_FILE))
    if not isinstance(cell, bytes) or not cell:
        return Record(inside(stat, f"{name}.jpg", 0), why="no picture in this row")
    kind = next((kind for head, kind in _BEGINNINGS.items() if cell.startswith(head)), "jpg")
    about = inside(stat, f"{name}.{kind}", len(cell))
    try:
        bounded(len(cell))
    except Unreadable as error:
        return Record(about, why=str(error))
    return Record(about, cell)


def recognises(name: str) -> bool:
    return name.lower().endswith(Parquet.suffix)


def build(name: str) -> Parquet:
    return Parquet(name)
