"""What a batch of tries found, and the sum of many batches."""

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KEPT = 20
"""Losses and tracebacks that are kept as texts; all of them are counted."""


@dataclass
class Batch:
    """How some tries ended."""

    tries: int = 0
    losses: list[str] = field(default_factory=list)
    """Where the promise did not hold; each begins with the number of its try."""
    tracebacks: list[str] = field(default_factory=list)
    """Where Avow ended in neither a result nor a sentence."""
    counts: Counter[str] = field(default_factory=Counter)
    """What happened how often; added up over batches."""
    peaks: dict[str, float] = field(default_factory=dict)
    """The largest seen; the largest of all batches is kept."""

    def to_dict(self) -> dict[str, Any]:
        return vars(self) | {"counts": dict(self.counts)}

    def peak(self, name: str, value: float) -> None:
        self.peaks[name] = max(value, self.peaks.get(name, value))

    def ended(self, told: str, lost: Callable[[], str | None]) -> bool:
        """Run a try, and keep what it lost, or its traceback; whether it came to an end."""
        try:
            what = lost()
        except Exception as error:
            self.tracebacks.append(f"{told}: {line_of(error)}")
            return False
        if what:
            self.losses.append(f"{told}: {what}")
        return True


def added(before: dict[str, Any] | None, batch: Batch) -> dict[str, Any]:
    """The figures of a promise after one more batch, as they are written down."""
    before = before or {}
    names = set(before.get("peaks", {})) | set(batch.peaks)
    return {
        "tries": before.get("tries", 0) + batch.tries,
        "losses": before.get("losses", 0) + len(batch.losses),
        "tracebacks": before.get("tracebacks", 0) + len(batch.tracebacks),
        "told": [*before.get("told", []), *batch.losses, *batch.tracebacks][:KEPT],
        "counts": dict(sorted((Counter(before.get("counts", {})) + batch.counts).items())),
        "peaks": {
            name: max(
                value
                for one in (before.get("peaks", {}), batch.peaks)
                if (value := one.get(name)) is not None
            )
            for name in sorted(names)
        },
    }


def line_of(error: BaseException) -> str:
    """Where an error came from, in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if "/avow/" in one.filename] or frames
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
    return f"{type(error).__name__} at {where}: {' '.join(str(error).split())[:120]}"
