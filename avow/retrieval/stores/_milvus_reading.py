"""Read many rows from Milvus, whose answers have a largest size and no order.

Numbers of rows are hashes, spread evenly: a window that holds too many of them is cut in two.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from avow.retrieval.stores._milvus_link import PATIENCE

MOST = 16_384
"""Rows of one answer."""
NUMBERS = 2**53
"""How many ids there can be."""
STRONG: dict[str, Any] = {"consistency_level": "Strong", **PATIENCE}
"""Every write that was acknowledged is seen."""


def each(
    client: Any, collection: str, condition: str, fields: Sequence[str], most: int = MOST
) -> Iterator[dict[str, Any]]:
    """All rows that pass, windows of ids in ascending order."""
    windows = [(0, NUMBERS)]
    while windows:
        low, high = windows.pop()
        inside = "" if high - low == NUMBERS else f" and id >= {low} and id < {high}"
        rows = client.query(
            collection,
            filter=f"({condition}){inside}",
            output_fields=list(fields),
            limit=most,
            **STRONG,
        )
        if len(rows) < most or high - low < 2:
            yield from rows
        else:
            middle = (low + high) // 2
            windows += [(middle, high), (low, middle)]


def by_ids(
    client: Any, collection: str, ids: Sequence[int], fields: Sequence[str]
) -> dict[int, dict[str, Any]]:
    """Rows by their numbers; those that are not there are left out."""
    found: dict[int, dict[str, Any]] = {}
    for start in range(0, len(ids), 1000):
        part = ", ".join(str(int(number)) for number in ids[start : start + 1000])
        rows = client.query(
            collection, filter=f"id in [{part}]", output_fields=list(fields), **STRONG
        )
        found |= {row["id"]: row for row in rows}
    return found


def counted(client: Any, collection: str, condition: str) -> int:
    rows = client.query(collection, filter=condition, output_fields=["count(*)"], **STRONG)
    return int(rows[0]["count(*)"])


def smallest(
    client: Any, collection: str, condition: str, size: int, passing: int
) -> list[int]:
    """The smallest ids that pass, ascending. passing: how many pass, roughly."""
    top = NUMBERS if passing <= size else int(NUMBERS * (1.2 * size / passing)) + 1
    while True:
        bounded = condition if top >= NUMBERS else f"({condition}) and id < {top}"
        found = sorted(row["id"] for row in each(client, collection, bounded, ["id"]))
        if len(found) >= size or top >= NUMBERS:
            return found[:size]
        top *= 2
