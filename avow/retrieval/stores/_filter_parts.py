"""What filters of all databases share: days as times, patterns as LIKE, fields of a row."""

from collections.abc import Callable
from datetime import date, datetime, timedelta

from avow.core.camera import place_of
from avow.core.moments import duration_of
from avow.retrieval.patterns import folded
from avow.retrieval.store_contract import Row
from avow.retrieval.where_tree import Comparison

_SECOND = 10**9
_LARGEST_INTEGER = 2**63 - 1


def like(pattern: str, kept: Callable[[str], str]) -> str:
    """A pattern of `~` as LIKE reads it: * is any text, ? any character.

    kept: writes what is not to be read as a wildcard.
    """
    pattern = folded(pattern)
    written = kept(pattern)
    if "*" not in pattern and "?" not in pattern:
        return f"%{written}%"
    return written.replace("*", "%").replace("?", "_")


def times_of(tree: Comparison) -> list[tuple[str, int]]:
    """Days of `modified` as signs and nanoseconds, all of which must hold.

    Days of this machine's clock, as a folder on it is asked.
    """
    begin, end = _days(str(tree.values[0]), str(tree.values[-1]))
    if tree.sign == "between":
        return [(">=", begin), ("<", end)]
    if tree.sign in ("<", ">="):
        return [(tree.sign, begin)]
    return [("<" if tree.sign == "<=" else ">=", end)]


def place_and_length(row: Row) -> tuple[float | None, float | None, float | None]:
    """Latitude and longitude of a row, and how long its video lasts."""
    latitude, longitude = place_of(list(row.tags)) or (None, None)
    return latitude, longitude, duration_of(row.part) if row.kind == "video" else None


def _days(first: str, last: str) -> tuple[int, int]:
    """From the start of the first day to that of the day after the last, in nanoseconds."""
    begin = datetime.fromisoformat(first)
    return _nanoseconds(begin), _nanoseconds(_day_after(last))


def _day_after(day: str) -> datetime:
    last = date.fromisoformat(day)
    if last == date.max:
        return datetime.max
    return datetime.combine(last + timedelta(days=1), datetime.min.time())


def _nanoseconds(moment: datetime) -> int:
    """Within what a database counts: until the year 2262."""
    try:
        return max(-_LARGEST_INTEGER, min(int(moment.timestamp()) * _SECOND, _LARGEST_INTEGER))
    except (OverflowError, ValueError, OSError):  # before or after what the system counts
        return (-1 if moment.year < 1970 else 1) * _LARGEST_INTEGER
