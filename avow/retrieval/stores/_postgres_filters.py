"""A filter in PostgreSQL's language: a condition over one table, and its values."""

from datetime import date, datetime, timedelta
from typing import Any

from avow.retrieval.patterns import folded
from avow.retrieval.where import Where
from avow.retrieval.where_tree import Comparison, Joined, Negated, Tree

Condition = tuple[str, list[Any]]
_PLACES = {
    "path": "{path}",
    "name": "regexp_replace({path}, '^.*/', '')",
    "folder": "coalesce(nullif(regexp_replace({path}, '/[^/]*$', ''), ''), '/')",
}
_SECOND = 10**9


def condition_of(where: Where | None, kind: str) -> Condition:
    """kind: "image" (and moments of videos) or "text"."""
    wanted, values = ("is_text" if kind == "text" else "NOT is_text"), []
    if where is not None:
        condition, values = _written(where.tree)
        wanted = f"{wanted} AND {condition}"
    return wanted, values


def like(pattern: str) -> str:
    """A pattern of `~` as LIKE reads it: * is any text, ? any character."""
    pattern = folded(pattern)
    escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    if "*" not in pattern and "?" not in pattern:
        return f"%{escaped}%"
    return escaped.replace("*", "%").replace("?", "_")


def days(first: str, last: str) -> tuple[int, int]:
    """From the start of the first day to that of the day after the last, in nanoseconds."""
    begin = datetime.fromisoformat(first)
    return _nanoseconds(begin), _nanoseconds(_day_after(last))


def _day_after(day: str) -> datetime:
    last = date.fromisoformat(day)
    if last == date.max:
        return datetime.max
    return datetime.combine(last + timedelta(days=1), datetime.min.time())


def _nanoseconds(moment: datetime) -> int:
    try:
        return int(moment.timestamp()) * _SECOND
    except (OverflowError, ValueError, OSError):  # before or after what the system counts
        return (-1 if moment.year < 1970 else 1) * (2**63 - 1)


def _written(tree: Tree, denied: bool = False) -> Condition:
    """denied: under a NOT, where what is not known must be false and not unknown.

    Elsewhere both leave a row out, and a plain condition lets the server use its indexes.
    """
    if isinstance(tree, Negated):
        condition, values = _written(tree.part, True)
        return f"(NOT {condition})", values
    if isinstance(tree, Joined):
        parts = [_written(part, denied) for part in tree.parts]
        joined = f" {tree.word.upper()} ".join(condition for condition, _ in parts)
        return f"({joined})", [value for _, values in parts for value in values]
    condition, values = _compared(tree)
    return f"coalesce({condition}, false)" if denied else f"({condition})", values


def _compared(tree: Comparison) -> Condition:
    name, sign, values = tree.field, tree.sign, list(tree.values)
    if sign == "any":
        return "true", []
    if sign == "unknown":
        return f"{name} IS NULL", []
    if name == "modified":
        return _modified(tree)
    if name == "tag":
        if sign == "~":
            return "EXISTS (SELECT FROM unnest(tags_folded) t WHERE t LIKE %s)", [
                like(str(values[0]))
            ]
        return "tags @> ARRAY[%s]::text[]", values
    if sign == "~":
        return f"{_PLACES[name].format(path='path_folded')} LIKE %s", [like(str(values[0]))]
    if name == "taken":
        if sign == "between":
            return "left(taken, 10) BETWEEN %s AND %s", values
        return f"left(taken, 10) {sign} %s", values
    return f"{_PLACES.get(name, name).format(path='path')} {sign} %s", values


def _modified(tree: Comparison) -> Condition:
    """Days of this machine's clock, as a folder on it is asked."""
    first, last = str(tree.values[0]), str(tree.values[-1])
    begin, end = days(first, last)
    if tree.sign == "between":
        return "mtime_ns >= %s AND mtime_ns < %s", [begin, end]
    if tree.sign in ("<", ">="):
        return f"mtime_ns {tree.sign} %s", [begin]
    return f"mtime_ns {'<' if tree.sign == '<=' else '>='} %s", [end]
