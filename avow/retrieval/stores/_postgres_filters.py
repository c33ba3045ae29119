"""A filter in PostgreSQL's language: a condition over one table, and its values."""

from typing import Any

from avow.retrieval.stores._filter_parts import like, times_of
from avow.retrieval.where import Where
from avow.retrieval.where_tree import Comparison, Joined, Negated, Tree

Condition = tuple[str, list[Any]]
_PLACES = {
    "path": "{path}",
    "name": "regexp_replace({path}, '^.*/', '')",
    "folder": "coalesce(nullif(regexp_replace({path}, '/[^/]*$', ''), ''), '/')",
}


def condition_of(where: Where | None, kind: str) -> Condition:
    """kind: "image" (and moments of videos) or "text"."""
    wanted, values = ("is_text" if kind == "text" else "NOT is_text"), []
    if where is not None:
        condition, values = _written(where.tree)
        wanted = f"{wanted} AND {condition}"
    return wanted, values


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


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
                like(str(values[0]), _escaped)
            ]
        return "tags @> ARRAY[%s]::text[]", values
    if sign == "~":
        pattern = like(str(values[0]), _escaped)
        return f"{_PLACES[name].format(path='path_folded')} LIKE %s", [pattern]
    if name == "taken":
        if sign == "between":
            return "left(taken, 10) BETWEEN %s AND %s", values
        return f"left(taken, 10) {sign} %s", values
    return f"{_PLACES.get(name, name).format(path='path')} {sign} %s", values


def _modified(tree: Comparison) -> Condition:
    bounds = times_of(tree)
    condition = " AND ".join(f"mtime_ns {sign} %s" for sign, _ in bounds)
    return condition, [time for _, time in bounds]
