"""Studies of several seeds read as one: every number is a mean, with its spread.

A study is what `study.json` holds. Recalls and what is made of them (areas, curves, median
ranks) are percentages or ranks there; every other share is a number from 0 to 1. Any part
may be missing, in all seeds or in some, and what is missing is empty here.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from avow.core.errors import BadData

NOTHING = "\N{EN DASH}"
"""Stands where a table has no number."""


@dataclass(frozen=True)
class Number:
    """One number of the study, as every seed found it."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds; a single seed has none."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def text(self, digits: int = 1, scale: int = 1) -> str:
        """The mean, and where there are several seeds its spread: 24.6 ± 0.4."""
        shown = plain(self.mean * scale, digits)
        if self.spread is None:
            return shown
        return f"{shown} ± {plain(self.spread * scale, digits)}"


@dataclass(frozen=True)
class Seeds:
    """One place of the study in every seed that has it."""

    found: tuple[Any, ...]

    @classmethod
    def of(cls, studies: Sequence[dict[str, Any]]) -> "Seeds":
        if not studies:
            raise BadData(
                "There is no study to report. Expected the content of at least one "
                "study.json; measure a run first."
            )
        for key in ("recipe", "dataset", "split"):
            named = {str(study.get("about", {}).get(key, "")) for study in studies}
            if len(named) > 1:
                listed = ", ".join(repr(name) for name in sorted(named))
                raise BadData(
                    f"The studies are of more than one {key}: {listed}. Expected seeds of "
                    "one recipe on one split; write a report for each."
                )
        return cls(tuple(studies))

    def __bool__(self) -> bool:
        return bool(self.found)

    def at(self, *path: str) -> "Seeds":
        """What lies further in; empty where no seed has it."""
        here = self.found
        for key in path:
            within = (place.get(key) for place in here if isinstance(place, dict))
            here = tuple(place for place in within if not _is_empty(place))
        return Seeds(here)

    @property
    def names(self) -> list[str]:
        """The keys that any seed has here, in order."""
        known: dict[str, None] = {}
        for place in self.found:
            known |= dict.fromkeys(place)
        return list(known)

    @property
    def first(self) -> Any:
        """What the first seed has here, for what cannot be averaged."""
        return self.found[0] if self.found else None

    @property
    def number(self) -> Number | None:
        values = tuple(float(value) for value in self.found if _is_number(value))
        return Number(values) if values else None

    def numbers(self) -> list[Number]:
        """A list of numbers, place by place."""
        return [Number(tuple(column)) for column in self.lines().T.tolist()]

    def lines(self) -> Float[np.ndarray, "seeds points"]:
        """Lists of numbers, one row per seed; lists of other lengths are left out."""
        length = len(self.first)
        return np.array([row for row in self.found if len(row) == length], np.float64)

    def rows(self, *keys: str) -> list["Seeds"]:
        """A list of objects, gathered over seeds by what they have under `keys`."""
        gathered: dict[tuple[Any, ...], list[Any]] = {}
        for place in self.found:
            for row in place:
                gathered.setdefault(tuple(row.get(key) for key in keys), []).append(row)
        return [Seeds(tuple(rows)) for rows in gathered.values()]


def value(number: Number | None) -> float:
    """The mean, or NaN where there is no number."""
    return math.nan if number is None else number.mean


def text(number: Number | None, digits: int = 1, scale: int = 1) -> str:
    return NOTHING if number is None else number.text(digits, scale)


def plain(number: float, digits: int) -> str:
    """Rounded, with a comma in thousands and never a minus before nothing."""
    if not math.isfinite(number):
        return NOTHING
    return f"{round(number, digits) + 0.0:,.{digits}f}"


def span(low: float, high: float, digits: int = 3) -> str:
    """An interval: 0.827-0.851, with the dash that stands for "to"."""
    return f"{plain(low, digits)}{NOTHING}{plain(high, digits)}"


def best(numbers: Iterable[Number | None], lowest: bool = False) -> int | None:
    """Which of them is best, where any is known."""
    known = [(value(number), place) for place, number in enumerate(numbers) if number]
    if not known:
        return None
    return (min(known) if lowest else max(known, key=lambda pair: (pair[0], -pair[1])))[1]


def _is_number(place: Any) -> bool:
    if isinstance(place, bool) or not isinstance(place, int | float):
        return False
    return math.isfinite(place)


def _is_empty(place: Any) -> bool:
    return place is None or (isinstance(place, dict | list | str) and not place)
