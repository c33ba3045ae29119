"""A filter as a tree, for stores that speak another language than SQLite's.

    not tag=dog and taken>=2024   ->   Joined("and", (Negated(tag = dog), taken >= 2024-01-01))

A store writes the tree down in its own language. What an item does not have compares with
nothing: a comparison of it is false, and its negation is true.
"""

from dataclasses import dataclass
from typing import Literal

Sign = Literal["=", "<", "<=", ">", ">=", "~", "between", "unknown", "any"]


@dataclass(frozen=True)
class Comparison:
    """A field compared with values.

    "between" has two values, both inside; "unknown" asks for what is not there, and "any" for
    everything: they have none. A value of "~" is a pattern as `patterns` reads it. Days of
    `taken` and `modified` are texts such as "2024-05-31".
    """

    field: str
    sign: Sign
    values: tuple[str | int | float, ...] = ()


@dataclass(frozen=True)
class Negated:
    part: "Tree"


@dataclass(frozen=True)
class Joined:
    word: Literal["and", "or"]
    parts: tuple["Tree", ...]


Tree = Comparison | Negated | Joined
EVERYTHING = Comparison("p", "any")
