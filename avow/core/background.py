"""Statistics of a candidate over a bank of reference queries: how much of a hub it is.

Some candidates are hubs: they score well with every query, and a high score of theirs
means little. A bank of reference queries (training captions, for example) shows it. Its
scores are summed up per candidate, so that a gallery of any size keeps a few numbers for
each item and needs no bank at search time.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from avow.core.evidence import logsumexp
from avow.core.shapes import Bool, Float, Int


@dataclass(frozen=True)
class Background:
    """Per view and candidate, a summary of its scores over a bank of reference queries."""

    queries: int
    """How many reference queries there were."""
    tau: float
    log_mean: Float[np.ndarray, "views candidates"]
    """Logarithm of the mean of exp(s / tau): the evidence it usually gets."""
    mean: Float[np.ndarray, "views candidates"]
    spread: Float[np.ndarray, "views candidates"]
    """Standard deviation."""
    top: Float[np.ndarray, "views candidates kept"]
    """The largest scores, descending."""

    @classmethod
    def from_scores(
        cls,
        blocks: Iterable[Float[np.ndarray, "views _ candidates"]],
        tau: float,
        kept: int = 32,
    ) -> "Background":
        """Sum up scores that come in blocks of reference queries."""
        count, total, squares, log_sum, top = 0, 0.0, 0.0, None, None
        for block in blocks:
            count += block.shape[1]
            total = total + block.sum(1).astype(np.float64)
            squares = squares + np.square(block).sum(1).astype(np.float64)
            columns = block.swapaxes(1, 2)
            gathered = logsumexp(columns / tau).astype(np.float64)
            log_sum = gathered if log_sum is None else np.logaddexp(log_sum, gathered)
            top = _largest(columns if top is None else np.concatenate([top, columns], -1), kept)
        if top is None or log_sum is None:
            raise ValueError("a background needs at least one block of reference queries")
        mean = np.asarray(total) / count
        variance = np.maximum(np.asarray(squares) / count - np.square(mean), 0)
        log_mean = (log_sum - math.log(count)).astype(np.float32)
        spread = np.sqrt(variance).astype(np.float32)
        return cls(count, tau, log_mean, mean.astype(np.float32), spread, top)

    def of(
        self,
        candidates: Int[np.ndarray, " some"] | Bool[np.ndarray, " candidates"],
    ) -> "Background":
        """The same for a choice of candidates (positions or a mask)."""
        return Background(
            self.queries,
            self.tau,
            self.log_mean[:, candidates],
            self.mean[:, candidates],
            self.spread[:, candidates],
            self.top[:, candidates],
        )


def _largest(
    values: Float[np.ndarray, "views candidates n"], count: int
) -> Float[np.ndarray, "views candidates kept"]:
    """The `count` largest of every row, descending."""
    if values.shape[-1] > count:
        values = np.partition(values, -count, axis=-1)[..., -count:]
    return np.ascontiguousarray(np.sort(values, axis=-1)[..., ::-1])
