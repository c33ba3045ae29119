"""What a family says of a recorded array: its own value, that it is an input, or not yet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

When = Literal["start", "after"]
ROUNDING = 8 * np.finfo(np.float64).eps  # what the last digits of a float64 may differ by


@dataclass(frozen=True)
class Bounds:
    """The recorded number may lie anywhere between: the order of ties is an accident."""

    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Claim:
    """One line of the table."""

    array: str
    found: Any = None
    when: When = "start"
    """Which tolerance holds: for the starting weights, or after steps of training."""
    part: slice | None = None
    """Some entries of the array, where not all have the same tolerance."""
    expected: Any = None
    """What to compare with, where that is not the recorded array."""
    note: str = ""
    """What of it is compared, where the name does not tell."""
    kind: Literal["value", "input", "not yet"] = "value"
    why: str = ""

    @property
    def label(self) -> str:
        if self.part is not None:
            return f"{self.array}[{'0' if self.part.stop else '1:'}]"
        return f"{self.array} {self.note}".strip()


def inputs(*arrays: str) -> Iterator[Claim]:
    """Arrays that were given to the published system, or are notes."""
    return (Claim(array, kind="input") for array in arrays)


def not_yet(arrays: Sequence[str], why: str) -> Iterator[Claim]:
    """Arrays that nothing in Avow computes so far."""
    return (Claim(array, kind="not yet", why=why) for array in arrays)


def note(log: dict[str, list[float]], **found: float | list[float]) -> None:
    """Add what one step logged; a name may have several values, or none."""
    for name, values in found.items():
        log.setdefault(name, []).extend(values if isinstance(values, list) else [values])


def stepwise(array: str, values: Sequence[float]) -> Iterator[Claim]:
    """One entry per training step; all but the first come after a step was taken."""
    ours = np.array(values)
    if len(ours) == 1:
        yield Claim(array, ours)
    else:
        yield Claim(array, ours[:1], part=slice(0, 1))
        yield Claim(array, ours[1:], "after", part=slice(1, None))


def error(found: Any, expected: Any) -> float:
    """The largest difference, relative to the largest recorded number."""
    recorded = np.asarray(expected, np.float64)
    if isinstance(found, Bounds):
        below, above = found.low - recorded, recorded - found.high
        gap = np.maximum(np.maximum(below, above), 0)
    else:
        ours = np.asarray(found, np.float64)
        if ours.size != recorded.size:
            return float("inf")
        gap = np.abs(ours.reshape(recorded.shape) - recorded)
    if not recorded.size:
        return 0.0
    largest = np.abs(recorded).max()
    relative = float(gap.max() / largest) if largest > 0 else float(gap.max())
    return 0.0 if relative <= ROUNDING else relative
