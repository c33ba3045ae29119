"""Answer only what one is sure of: what is gained by rejecting the least trusted queries.

    sort queries by confidence --keep the first k--> recall (or risk) of those kept

Queries of equal confidence are kept or rejected in no particular order, so every number
here is the mean over all orders of such queries: a constant confidence gives chance.

Papers: Hama et al., "Exploring Uncertainty Measures for Image-Caption
Embedding-and-Retrieval Task", arXiv 2019, section 4.3 (rejection curves and their area);
Geifman et al., "Bias-Reduced Uncertainty Estimation for Deep Neural Classifiers", ICLR
2019 (AURC and its excess).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Num

Values = Float[np.ndarray, " queries"]
Right = Bool[np.ndarray, " queries"]
Measure = Num[np.ndarray, " queries"] | Right
"""What is averaged over the queries that are answered: hits, errors, gains."""


@dataclass(frozen=True)
class RejectionCurve:
    """How good the answers are when only the most trusted share is answered."""

    coverage: Float[np.ndarray, " points"]
    """Share of the queries that are answered; the last is 1."""
    value: Float[np.ndarray, " points"]
    """Mean of the measure (a hit at K, say) over those answered."""

    @property
    def area(self) -> float:
        """Mean of the value over all coverages; at chance it is the last value."""
        return float(self.value.mean())

    @property
    def chance(self) -> float:
        """The area when queries are rejected at random."""
        return float(self.value[-1])


def rejection_curve(confidence: Values, measure: Measure) -> RejectionCurve:
    """The curve of any per-query measure, most trusted queries first."""
    order, expected = _expected(confidence, measure)
    count = np.arange(1, len(order) + 1)
    return RejectionCurve(count / len(order), np.cumsum(expected) / count)


def median_rank_curve(
    confidence: Values,
    ranks: Num[np.ndarray, " queries"],
    points: int = 100,
) -> RejectionCurve:
    """The curve of the median rank, at `points` coverages; equal queries stay in order."""
    ordered = ranks[np.argsort(-confidence, kind="stable")]
    counts = np.unique(np.linspace(1, len(ranks), points).round().astype(int))
    medians = [float(np.median(ordered[:count])) for count in counts]
    return RejectionCurve(counts / len(ranks), np.array(medians))


def aurc(confidence: Values, right: Right) -> float:
    """Area under the risk-coverage curve: the mean error rate over all coverages."""
    return rejection_curve(confidence, ~right).area


def excess_aurc(confidence: Values, right: Right) -> float:
    """AURC above that of an oracle that trusts exactly the right answers."""
    return aurc(confidence, right) - aurc(right.astype(float), right)


def normalised_auc(
    confidence: Values,
    measure: Measure,
    rates: int = 10,
) -> float:
    """nAUC as MTEB reports it: 0 is rejection at random, 1 is an oracle's.

    The measure is averaged over what is left after rejecting 0, 1/rates, 2/rates … of the
    queries, and the area is taken by trapezoids. NaN where all queries are alike.
    """
    steps = np.arange(rates) / rates

    def area(by: np.ndarray) -> float:
        curve = rejection_curve(by, measure)
        kept = len(measure) - (steps * len(measure)).astype(int)
        value = curve.value[kept - 1]
        return float(np.diff(steps) @ (value[1:] + value[:-1]) / 2)

    flat = float(np.mean(measure) * (steps[-1] - steps[0]))
    best = area(np.asarray(measure, float))
    return (area(confidence) - flat) / (best - flat) if best != flat else float("nan")


def coverage_at_risk(
    confidence: Values,
    right: Right,
    risk: float,
) -> float:
    """The largest share that can be answered with at most `risk` of it wrong."""
    curve = rejection_curve(confidence, ~right)
    allowed = curve.coverage[curve.value <= risk + 1e-12]
    return float(allowed.max()) if len(allowed) else 0.0


def risk_at_coverage(
    confidence: Values,
    right: Right,
    coverage: float,
) -> float:
    """The error rate of the most trusted `coverage` of the queries."""
    curve = rejection_curve(confidence, ~right)
    kept = max(1, round(coverage * len(right)))
    return float(curve.value[kept - 1])


def auroc(positive: Float[np.ndarray, " a"], negative: Float[np.ndarray, " b"]) -> float:
    """Chance that a positive scores above a negative, ties counting half.

    With the confidences of right and wrong top answers: how well trust tells them apart.
    NaN where one side is empty.
    """
    if not len(positive) or not len(negative):
        return float("nan")
    together = np.concatenate([positive, negative])
    _, place, count = np.unique(together, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    rank = (last - (count - 1) / 2)[place]  # the mean rank of equal values
    above = rank[: len(positive)].sum() - len(positive) * (len(positive) + 1) / 2
    return float(above / (len(positive) * len(negative)))


def _expected(confidence: Values, measure: Measure) -> tuple[np.ndarray, Values]:
    """The order of trust, and the measure in it with equal queries sharing their mean."""
    _, group = np.unique(-confidence, return_inverse=True)
    mean = np.bincount(group, measure) / np.bincount(group)
    order = np.argsort(group, kind="stable")
    return order, mean[group[order]]
