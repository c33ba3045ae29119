"""What is done today: doubt an answer by the scores themselves, or by their softmax.

None of it needs evidence or a second network, so it is what everything else must beat.

Papers: Hendrycks & Gimpel, "A Baseline for Detecting Misclassified and Out-of-Distribution
Examples in Neural Networks", ICLR 2017 (largest probability); Guo et al., "On Calibration
of Modern Neural Networks", ICML 2017 (fitting the temperature).
"""

import math
from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from avow.core.contracts import Probe, QueryBatch
from avow.core.errors import BadData
from avow.uncertainty._answers import Measures, in_blocks

_GOLDEN = (math.sqrt(5) - 1) / 2
_COLDEST, _HOTTEST = 1e-4, 1e2


@dataclass(frozen=True)
class Scores(Probe):
    """The averaged scores of a query, and their softmax at one temperature."""

    temperature: float

    def measure(self, asked: QueryBatch) -> Measures:
        return in_blocks(asked.similarity, lambda views: self._look(views.mean(0)))

    def _look(self, scores: Float[Tensor, "queries candidates"]) -> Measures:
        best = scores.topk(min(2, scores.shape[-1])).values
        log_p = (scores / self.temperature).log_softmax(-1)
        return {
            "largest": -best[:, 0],
            "lead": best[:, -1] - best[:, 0],  # a lone candidate leads by nothing
            "spread": -scores.std(-1, correction=0),
            "probability": -log_p.amax(-1).exp(),
            "entropy": -(log_p.exp() * log_p).sum(-1),
        }


def fit_temperature(
    similarity: Float[Tensor, "queries candidates"],
    match: Bool[Tensor, "queries candidates"],
) -> float:
    """The temperature at which the softmax makes the true answers most likely.

    Where a query has several matches the best of them is the answer, which is how the
    retrieval posterior is read. In 1/T the likelihood then has one peak, and a golden
    section finds it, within 0.0001 to 100.
    """
    if not bool(match.any(-1).all()):
        row = int((~match.any(-1)).nonzero()[0])
        raise BadData(
            f"Query number {row} has no match. Expected at least one for every query; leave "
            "out the queries whose answer is not in the gallery."
        )
    best = similarity.masked_fill(~match, -math.inf).amax(-1)

    def cost(log_temperature: float) -> float:
        temperature = math.exp(log_temperature)
        total = (similarity / temperature).logsumexp(-1).double()
        return float((total - best.double() / temperature).mean())

    low, high = math.log(_COLDEST), math.log(_HOTTEST)
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = cost(left), cost(right)
    while high - low > 1e-4:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = cost(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = cost(right)
    return math.exp((low + high) / 2)


def build(*, temperature: float = 0.05) -> Probe:
    """temperature: of the softmax; `fit_temperature` finds one on a dev split."""
    return Scores(temperature)
