"""Notes of a store in Milvus: texts by subject and key, long ones in several rows."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from avow.retrieval.store_contract import item_id
from avow.retrieval.stores._milvus_filters import following, literal
from avow.retrieval.stores._milvus_link import PATIENCE
from avow.retrieval.stores._milvus_reading import by_ids, each

_LETTERS = 16_000
"""Of one row's content; four bytes each at most."""
_FIELDS = ("id", "subject", "key", "part", "parts", "content")
STATE = "state"
"""The subject of what readers see: `published`; "stamp 1" and `noted` change with it."""
NOTED = "noted"


def changed(what: str) -> dict[str, str]:
    """A note of a state that was never before."""
    return {what: uuid.uuid4().hex}


def write(
    client: Any, collection: str, subject: str, notes: Mapping[str, str], told: bool = True
) -> None:
    """Write notes, those of 500 rows at once. told: readers look again for notes."""
    rows = [row for key, content in notes.items() for row in _rows(subject, key, content)]
    if told:
        rows += [row for item in changed(NOTED).items() for row in _rows(STATE, *item)]
    for start in range(0, len(rows), 500):
        client.upsert(collection, rows[start : start + 500], **PATIENCE)


def read(client: Any, collection: str, subject: str, starting: str = "") -> dict[str, str]:
    """The notes on a subject whose keys begin like this, in the order of the keys."""
    condition = f"subject == {literal(subject)}"
    if starting:
        first, last = literal(starting), literal(following(starting))
        condition += f" and key >= {first} and key < {last}"
    return dict(sorted(_joined(each(client, collection, condition, _FIELDS, 2000)).items()))


def read_keys(
    client: Any, collection: str, subject: str, keys: Iterable[str]
) -> dict[str, str]:
    """Notes by their keys: quicker than `read`, as nothing else is looked at."""
    numbers = [_number(subject, key, 0) for key in keys]
    first = by_ids(client, collection, numbers, _FIELDS)
    others = [
        _number(subject, row["key"], part)
        for row in first.values()
        for part in range(1, row["parts"])
    ]
    return _joined([*first.values(), *by_ids(client, collection, others, _FIELDS).values()])


def erase(client: Any, collection: str, subject: str, keys: Iterable[str]) -> None:
    """Remove notes with all their rows."""
    numbers = [_number(subject, key, 0) for key in keys]
    first = by_ids(client, collection, numbers, _FIELDS).values()
    gone = [_number(subject, row["key"], part) for row in first for part in range(row["parts"])]
    for start in range(0, len(gone), 1000):
        client.delete(collection, ids=gone[start : start + 1000], **PATIENCE)
    write(client, collection, STATE, {})


def _number(subject: str, key: str, part: int) -> int:
    return item_id(subject, str(part), key)


def _rows(subject: str, key: str, content: str) -> list[dict[str, Any]]:
    pieces = [content[n : n + _LETTERS] for n in range(0, len(content), _LETTERS)] or [""]
    return [
        {
            "id": _number(subject, key, part),
            "subject": subject,
            "key": key,
            "part": part,
            "parts": len(pieces),
            "content": piece,
            "vector": [0.0, 0.0],
        }
        for part, piece in enumerate(pieces)
    ]


def _joined(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """An earlier, longer note may have left rows behind: the first one says how many count."""
    by_key: dict[str, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for row in rows:
        by_key[row["key"]][row["part"]] = row
    return {
        key: "".join(parts[n]["content"] for n in range(parts[0]["parts"]))
        for key, parts in by_key.items()
        if 0 in parts and all(n in parts for n in range(parts[0]["parts"]))
    }
