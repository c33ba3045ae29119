"""Run a filter over the catalogue, with an end to its work.

    comparisons x items too many -> refused before it starts
    longer than its deadline     -> stopped

Every filter has a connection of its own: nobody waits for it but its asker.
"""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from avow.core.errors import BadQuery
from avow.core.moments import duration_of
from avow.core.shapes import Int64
from avow.retrieval.patterns import matches_any
from avow.retrieval.store.catalogue import damage_told, open_catalogue, reading
from avow.retrieval.store.items import ItemCheck
from avow.retrieval.store.row_checksums import is_sealed
from avow.retrieval.where import Where

MOST_WORK = 20_000_000
"""Comparisons of one filter times items of the index."""
SECONDS = 10.0
_STEPS = 5000  # of SQLite's machine between two looks at the clock


class _TooLate(Exception):
    """The deadline passed inside a comparison."""


def choose(
    folder: Path,
    where: Where,
    kind: str,
    items: int,
    check: ItemCheck,
    seconds: float | None = None,
) -> Int64[np.ndarray, " n"]:
    """The numbers of the items that pass.

    items: how many there are to compare. check: verifies them before they are compared.
    """
    if where.comparisons * items > MOST_WORK:
        raise BadQuery(
            f"The filter {where.text[:200]!r} makes {where.comparisons} comparisons for each "
            f"of {items} items. Expected at most {max(1, MOST_WORK // items)} comparisons for "
            "so many; use fewer alternatives, or one pattern with * for several."
        )
    seconds = SECONDS if seconds is None else seconds
    end = float("inf")

    def alike(text: str | None, patterns: str) -> bool:
        if time.monotonic() > end:
            raise _TooLate
        return matches_any(text, patterns)

    condition, values = where.sql()
    with closing(open_catalogue(folder)) as link, damage_told(folder), reading(link):
        if is_sealed(link):
            check.check(link)
        end = time.monotonic() + seconds
        link.create_function("alike", 2, alike, deterministic=True)
        link.create_function("duration_of", 1, duration_of, deterministic=True)
        link.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        try:
            rows = link.execute(
                "SELECT items.id FROM items NOT INDEXED CROSS JOIN files "
                "ON files.id = items.file "
                f"WHERE items.gone = 0 AND (items.kind = 'text') = ? AND ({condition})",
                [kind == "text", *values],
            )
            return np.fromiter((row[0] for row in rows), np.int64)
        except sqlite3.OperationalError as error:
            if time.monotonic() <= end:
                raise
            raise BadQuery(
                f"The filter {where.text[:200]!r} took longer than {seconds:g} seconds and was "
                "stopped. Use fewer alternatives, or '=' in place of '~'."
            ) from error
        finally:
            link.set_progress_handler(None, 0)  # the end of the reading must not be stopped
