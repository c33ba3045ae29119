"""Scored queries of one direction, in numpy: what probes and trust read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from avow.core.background import Background
from avow.core.evidence import EvidenceKind
from avow.core.shapes import Float


@dataclass(frozen=True)
class QueryBatch:
    """Queries (rows) of one direction with all their candidates: what a probe reads."""

    similarity: Float[np.ndarray, "views queries candidates"]
    own: int
    """The view that learnt this direction."""
    tau: float = 0.05
    kind: EvidenceKind = "exp"
    background: Background | None = None
    """What is usual for each candidate, where a bank of reference queries is at hand."""
    runs: Float[np.ndarray, "runs queries candidates"] | None = None
    """The same scores by independently trained runs."""
    draws: Callable[[], Iterator[Any]] | None = None
    """Gives `Draw`s: the same queries again under dropout or drawn statistics."""

    @property
    def together(self) -> Float[np.ndarray, "queries candidates"]:
        """The averaged similarity, by which candidates are ranked."""
        return self.similarity.mean(0)
