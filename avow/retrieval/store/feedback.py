"""What people say of answers: kept in the catalogue through a connection of its own.

A write waits a moment for another writer (a scan that commits) and then gives up with a
sentence; searches go on meanwhile, because readers of the catalogue never wait for writers.
"""

import json
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from avow.core.errors import BadQuery, Unavailable
from avow.retrieval.store.catalogue import changing_for_good, open_catalogue, sentences

LONGEST = 20_000
"""Characters of a query that comes with feedback, as JSON."""
PATIENCE = 2.0
"""Seconds to wait for another writer."""


@dataclass(frozen=True)
class Feedback:
    """Whether somebody called an answer good."""

    query: dict[str, Any]
    item_id: int
    good: bool
    when: float


def set_feedback(
    folder: Path, query: dict[str, Any], item_id: int, good: bool | None, *, replace: bool
) -> None:
    """Keep an opinion on an answer; None only takes back. replace: take back earlier ones."""
    asked = checked(query)
    with closing(open_catalogue(folder)) as link, sentences(folder):
        link.execute(f"PRAGMA busy_timeout = {round(1000 * PATIENCE)}")
        try:
            with changing_for_good(link):  # acknowledged, so a power loss may not take it
                if replace or good is None:
                    link.execute(
                        "DELETE FROM feedback WHERE query = ? AND item = ?",
                        [asked, int(item_id)],
                    )
                if good is not None:
                    link.execute(
                        "INSERT INTO feedback (query, item, good, happened) "
                        "VALUES (?, ?, ?, ?)",
                        [asked, int(item_id), bool(good), time.time()],
                    )
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (
                sqlite3.SQLITE_BUSY,
                sqlite3.SQLITE_LOCKED,
            ):
                raise
            raise Unavailable(
                f"The index {str(folder)!r} is being written by another process, so the "
                "feedback was not kept. Try again in a moment."
            ) from error


def read_feedback(link: sqlite3.Connection) -> list[Feedback]:
    """All feedback, oldest first; rows that hold no query have an empty one."""
    rows = link.execute(
        "SELECT query, item, good, happened FROM feedback ORDER BY id"
    ).fetchall()
    return [Feedback(_query(row[0]), row[1], bool(row[2]), row[3]) for row in rows]


def checked(query: dict[str, Any]) -> str:
    """The query as it is stored, or a sentence on why it cannot be."""
    try:
        written = json.dumps(query, sort_keys=True)
        json.dumps(query, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise BadQuery(
            "The query holds half of a character (a lone surrogate such as '\\ud800'). "
            "Expected a text that can be written as UTF-8; send the query that was asked."
        ) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise BadQuery(
            f"The query cannot be written as JSON ({error}). Expected the query of a search "
            "result; send that one."
        ) from error
    if len(written) > LONGEST:
        raise BadQuery(
            f"The query has more than {LONGEST} letters. Expected the one that was asked; "
            "send that one."
        )
    return written


def _query(stored: object) -> dict[str, Any]:
    try:
        content = json.loads(stored) if isinstance(stored, str | bytes) else None
    except (ValueError, RecursionError):
        content = None
    return content if isinstance(content, dict) else {}
