"""Items as rows of a table in PostgreSQL, and back."""

from collections.abc import Sequence
from typing import Any

from avow.retrieval.patterns import folded
from avow.retrieval.store_contract import Row
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


def row_of(cells: Sequence[Any]) -> Row:
    named: dict[str, Any] = dict(zip(COLUMNS, cells, strict=True))
    named["tags"] = tuple(named["tags"])
    return Row(**{name: named[name] for name in Row.__dataclass_fields__})


def clean(text: str) -> str:
    """PostgreSQL keeps no zero bytes."""
    return text.replace("\0", "")
