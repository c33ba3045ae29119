"""Does a measure agree with people who graded the same items?

    tau-c    Kendall's rank correlation of a measure with grades, each person's on its own
    AUROC    chance that an item called right has the larger measure, ties counting half

Both count pairs of items that the measure and the grades order alike (P) or oppositely (Q).
Grades are few, so P - Q comes from cumulative counts per grade in one sort; a bootstrap
only changes the weights of the items and never sorts again.

Papers: Stuart, "The Estimation and Comparison of Strengths of Association in Contingency
Tables", Biometrika 1953 (tau-c); Hessel et al., "CLIPScore", EMNLP 2021 (each person's grade
is one observation).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Bool, Float, Int, Num

DRAWS = 1000
LEVEL = 0.95

Interval = tuple[float, float, float]
"""The value, and the two ends of its interval."""
Weights = Float[np.ndarray, " items"]
Measure = Num[np.ndarray, " items"]
People = Int[np.ndarray, "items people"]
"""The score that every person gave every item."""


@dataclass(frozen=True)
class _Graded:
    """Items sorted into places by a measure, with how often each got each grade."""

    place: Int[np.ndarray, " items"]
    counts: Float[np.ndarray, "grades items"]

    @classmethod
    def of(cls, measure: Measure, scores: People) -> "_Graded":
        _, place = np.unique(measure, return_inverse=True)
        counts = [(scores == grade).sum(1) for grade in np.unique(scores)]
        return cls(place, np.array(counts, np.float64))

    def held(self, weights: Weights) -> Float[np.ndarray, "grades places"]:
        places = int(self.place.max()) + 1
        return np.stack(
            [np.bincount(self.place, weights * count, places) for count in self.counts]
        )


def kendall_tau_c(measure: Measure, scores: People) -> float:
    """Stuart's tau-c over all (item, person) observations."""
    return _tau_c(_Graded.of(measure, scores), np.ones(len(measure)))


def tau_c_interval(
    measure: Measure,
    scores: People,
    groups: Int[np.ndarray, " items"],
    draws: int = DRAWS,
    seed: int = 0,
) -> Interval:
    """tau-c with a percentile interval; groups (photographs) are redrawn as a whole."""
    return _bootstrap(partial(_tau_c, _Graded.of(measure, scores)), groups, draws, seed)


def auroc_interval(
    measure: Measure,
    right: Bool[np.ndarray, " items"],
    groups: Int[np.ndarray, " items"],
    draws: int = DRAWS,
    seed: int = 0,
) -> Interval:
    """AUROC of the right items above the others, with a percentile interval."""
    graded = _Graded.of(measure, right[:, None].astype(np.int64))
    return _bootstrap(partial(_auroc, graded), groups, draws, seed)


def _excess(held: Float[np.ndarray, "grades places"]) -> float:
    """P - Q: pairs ordered alike by measure and grade, less those ordered oppositely."""
    below = np.cumsum(held, 1) - held
    above = held.sum(1, keepdims=True) - held - below
    lower = np.cumsum(below - above, 0) - (below - above)
    return float((held * lower).sum())


def _tau_c(graded: _Graded, weights: Weights) -> float:
    held = graded.held(weights)
    count = held.sum()
    classes = min((held.sum(0) > 0).sum(), (held.sum(1) > 0).sum())
    if classes < 2:
        return float("nan")
    return float(2 * _excess(held) / (count**2 * (classes - 1) / classes))


def _auroc(graded: _Graded, weights: Weights) -> float:
    held = graded.held(weights)
    pairs = held.sum(1).prod() if len(held) == 2 else 0.0
    return float(0.5 + _excess(held) / (2 * pairs)) if pairs else float("nan")


def _bootstrap(
    statistic: Callable[[Weights], float],
    groups: Int[np.ndarray, " items"],
    draws: int,
    seed: int,
) -> Interval:
    """The statistic, and the ends of its interval over redrawn groups."""
    value = statistic(np.ones(len(groups)))
    if not draws or np.isnan(value):
        return (value, float("nan"), float("nan"))
    _, owner = np.unique(groups, return_inverse=True)
    count = int(owner.max()) + 1
    rng = np.random.default_rng(seed)
    drawn = np.array(
        [
            statistic(rng.multinomial(count, np.full(count, 1 / count))[owner].astype(float))
            for _ in range(draws)
        ]
    )
    low, high = np.nanquantile(drawn, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return (value, float(low), float(high))
