"""Patterns of `~` for Milvus servers before 2.4, which compare only how a text begins.

Names, or tags, are read from the server and compared here; what matches is named by its id.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from avow.core.errors import BadQuery
from avow.retrieval.patterns import matches
from avow.retrieval.stores._milvus_filters import among

MOST = 20_000
"""Rows that a filter may name by their ids."""


def matching(rows: Iterable[Mapping[str, Any]], field: str, pattern: str) -> list[int]:
    """Ids of the rows in which this field, or one of its texts, matches."""
    return [
        row["id"] for row in rows if any(matches(text, pattern) for text in _texts(row[field]))
    ]


def named(ids: Sequence[int], pattern: str) -> str:
    """What matches a pattern, as an expression."""
    if len(ids) > MOST:
        raise BadQuery(
            f"The pattern {pattern!r} of the filter matches {len(ids)} items. Expected "
            f"{MOST} at most with a Milvus before 2.4, which does not compare patterns itself; "
            "write more of the name, or use a newer server."
        )
    return among(ids)


def _texts(value: str | Sequence[str]) -> Sequence[str]:
    return [value] if isinstance(value, str) else value
