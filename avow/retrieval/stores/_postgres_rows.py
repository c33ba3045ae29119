"""Items as rows of a table in PostgreSQL, and back."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from avow.retrieval.patterns import folded
from avow.retrieval.store_contract import Row, Stored
from avow.retrieval.stores._filter_parts import place_and_length
from avow.retrieval.stores._postgres_schema import COLUMNS


def cells_of(row: Row) -> tuple[Any, ...]:
    tags = [clean(tag) for tag in row.tags]
    text = None if row.text is None else clean(row.text)
    return (
        *(row.id, row.kind, row.kind == "text", row.path, folded(row.path), row.part),
        *(row.content, row.file_content, row.file_items, row.size, row.mtime_ns, text),
        *(row.width, row.height, row.taken, row.look, tags, [folded(tag) for tag in tags]),
        *place_and_length(row),
    )


def stored(rows: Sequence[Sequence[Any]], dim: int, numbers: Callable[[Any], Any]) -> Stored:
    """Rows as they were read. numbers: of a vector as the database gives it."""
    usual = [np.frombuffer(row[-1], np.float32) for row in rows]
    vectors = [np.asarray(numbers(row[-2]), np.float32) for row in rows]
    return Stored(
        tuple(_row_of(row) for row in rows),
        np.array(vectors, np.float32).reshape(len(rows), dim),
        np.array(usual, np.float32).reshape(len(rows), -1 if rows else 0),
    )


def _row_of(cells: Sequence[Any]) -> Row:
    named: dict[str, Any] = dict(zip(COLUMNS, cells, strict=True))
    named["tags"] = tuple(named["tags"])
    return Row(**{name: named[name] for name in Row.__dataclass_fields__})


def clean(text: str) -> str:
    """PostgreSQL keeps no zero bytes."""
    return text.replace("\0", "")
