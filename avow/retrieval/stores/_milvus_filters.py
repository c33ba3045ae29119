"""A filter in Milvus's language: one expression, with its values written into it.

Values of users stand in it as quoted texts and plain numbers, never as anything else. What LIKE
or a quotation mark would read in its own way is kept as other letters (`veiled`), both in the
rows and in the patterns, so that there is nothing to escape.
"""

import math
from collections.abc import Callable, Sequence

from avow.retrieval.stores._filter_parts import like, times_of
from avow.retrieval.where import Where
from avow.retrieval.where_tree import Comparison, Joined, Negated, Tree

TOMBSTONE, PICTURE, TEXT = 0, 1, 2
"""Of the field `shown`: a row that is deleted, that of a picture or a moment, of a text."""
UNKNOWN = -1
"""A width, height or length that an item does not have."""
NOWHERE = 1000.0
"""A latitude or longitude that an item does not have."""
_EVERYTHING = "id >= 0"
_NOTHING = f"not ({_EVERYTHING})"
_LARGEST = 2**63 - 1
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_VEILED = (*range(32), *map(ord, "%_\\\"'"), 127)
_VEIL = {code: 0xE000 + code for code in _VEILED}
_VEIL |= {0xE000 + code: 0xF0000 + code for code in _VEILED}
"""Letters that are kept as others of the private areas of Unicode, and those of the first."""
_WHOLE = ("size", "width", "height")
Patterns = Callable[[str, str], str]
"""Writes that a field matches a pattern of `~`."""


def expression_of(where: Where | None, kind: str, patterns: Patterns) -> str:
    """kind: "image" (and moments of videos) or "text"."""
    wanted = f"shown == {TEXT if kind == 'text' else PICTURE}"
    if where is None:
        return wanted
    return f"{wanted} and {_written(where.tree, patterns)}"


def liked(field: str, pattern: str, most_tags: int) -> str:
    """A pattern as LIKE. most_tags: of one item at most."""
    written = literal(like(pattern, veiled))
    if field != "tag":
        return f"{field}_like like {written}"
    each = (
        f"(array_length(tags_like) > {place} and tags_like[{place}] like {written})"
        for place in range(most_tags)
    )
    return " or ".join(each) or _NOTHING


def among(ids: Sequence[int]) -> str:
    """A pattern as the rows that match it."""
    return f"id in [{', '.join(map(str, ids))}]" if ids else _NOTHING


def asks_for_tags(tree: Tree) -> bool:
    """Whether a pattern is compared with tags: the most that one item has must be known."""
    if isinstance(tree, Negated):
        return asks_for_tags(tree.part)
    if isinstance(tree, Joined):
        return any(asks_for_tags(part) for part in tree.parts)
    return (tree.field, tree.sign) == ("tag", "~")


def literal(text: str) -> str:
    """A text that the expression reads as this text, whatever is in it."""
    return '"' + "".join(_ESCAPES.get(letter, letter) for letter in text) + '"'


def veiled(text: str) -> str:
    """A text without letters that LIKE or a quotation reads as something else."""
    return text.translate(_VEIL)


def beginning(folder: str) -> str:
    """The paths that begin like this, by their order: LIKE reads some letters as others."""
    return f"(path >= {literal(folder)} and path < {literal(following(folder))})"


def following(start: str) -> str:
    """The first text, by order, that is behind all that begin with `start`."""
    return start[:-1] + chr(ord(start[-1]) + 1)


def _written(tree: Tree, patterns: Patterns) -> str:
    if isinstance(tree, Negated):
        return f"(not {_written(tree.part, patterns)})"
    if isinstance(tree, Joined):
        parts = [_written(part, patterns) for part in tree.parts]
        return f"({f' {tree.word} '.join(parts)})"
    return f"({_compared(tree, patterns)})"


def _compared(tree: Comparison, patterns: Patterns) -> str:
    name, sign = tree.field, tree.sign
    if sign == "any":
        return _EVERYTHING
    if sign == "unknown":
        return 'taken == ""' if name == "taken" else f"{name} >= {NOWHERE}"
    if name == "modified":
        return " and ".join(f"mtime_ns {sign} {time}" for sign, time in times_of(tree))
    value = tree.values[0]
    if sign == "~":
        return patterns(name, str(value))
    if name == "tag":
        return f"array_contains(tags, {literal(str(value))})"
    if name == "taken":
        return _taken(tree)
    if isinstance(value, str):
        return f"{name} == {literal(value)}"
    return _number(name, sign, value)


def _taken(tree: Comparison) -> str:
    first, last = literal(str(tree.values[0])), literal(str(tree.values[-1]))
    if tree.sign == "between":
        return f"taken >= {first} and taken <= {last}"
    return f'taken != "" and taken {_sign(tree.sign)} {first}'


def _number(name: str, sign: str, value: int | float) -> str:
    known = (
        f"{name} < {NOWHERE}" if name in ("latitude", "longitude") else f"{name} > {UNKNOWN}"
    )
    if name not in _WHOLE:
        return f"{known} and {name} {_sign(sign)} {float(value)!r}"
    if sign == "=" and value != int(value):
        return _NOTHING
    whole = math.ceil(value) if sign in ("<", ">=") else math.floor(value)
    return f"{known} and {name} {_sign(sign)} {min(whole, _LARGEST)}"


def _sign(sign: str) -> str:
    return "==" if sign == "=" else sign
