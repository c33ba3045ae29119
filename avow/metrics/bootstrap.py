"""Intervals for any number that is computed from queries: redraw images, not captions.

Captions of one image succeed and fail together. Redrawn one by one they would seem to say
more than they do, so whole groups are redrawn and bring all their queries along.

Papers: Efron, "Bootstrap Methods: Another Look at the Jackknife", Annals of Statistics
1979; Davison and Hinkley, "Bootstrap Methods and their Application", Cambridge 1997,
section 3.8 (groups).
"""

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Int

Statistic = Callable[[Int[np.ndarray, " drawn"]], float]
"""A number, from the positions of the queries that were drawn; some come repeatedly."""


def interval(
    statistic: Statistic,
    groups: Int[np.ndarray, " queries"],
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[float, float]:
    """The percentile interval of a statistic when whole groups are redrawn.

    For the AUROC of a confidence, with the image of every caption as its group:

        interval(lambda q: auroc(sure[q][right[q]], sure[q][~right[q]]), image_of)

    Two systems are compared by the interval of their difference, which redraws the same
    queries for both. Draws that have no value (NaN) are left out.
    """
    values = np.array([statistic(drawn) for drawn in redrawn(groups, draws, seed)], float)
    values = values[~np.isnan(values)]
    if not len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(values, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high)


def redrawn(
    groups: Int[np.ndarray, " queries"], draws: int, seed: int
) -> Iterator[Int[np.ndarray, " _"]]:
    """Positions of the queries of as many groups as there are, drawn with replacement."""
    _, owner, count = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.argsort(owner, kind="stable")
    first = np.cumsum(count) - count
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        picked = rng.integers(0, len(count), len(count))
        lengths = count[picked]
        begins = first[picked] - (np.cumsum(lengths) - lengths)
        yield order[np.repeat(begins, lengths) + np.arange(lengths.sum())]
