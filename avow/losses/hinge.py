"""Triplet hinge: a match must beat every other candidate by a margin.

The first epochs may sum over all negatives of the batch; after that only the hardest
negative of each query counts, which learns better once training is under way.

Paper: Faghri et al., "VSE++: Improving Visual-Semantic Embeddings with Hard Negatives",
BMVC 2018, Eq. 5 (sum) and Eq. 6 (hardest).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from avow.core.contracts import Lesson, Loss, Scores, Similarities
from avow.losses._shapes import QueryMatches, QueryScores, Value

Reduce = Literal["sum", "mean", "pairs"]


def violation(
    scores: QueryScores, match: QueryMatches, margin: float | Float[Tensor, "#queries #K"]
) -> QueryScores:
    """How far each wrong candidate comes within `margin` of the weakest match."""
    weakest = scores.masked_fill(~match, torch.inf).amin(-1, keepdim=True)
    return (margin + scores - weakest).clamp(min=0).masked_fill(match, 0)


@dataclass(frozen=True)
class Hinge(Loss):
    """Summed over both directions and over the queries of the batch, or a mean of them."""

    margin: float
    hardest: bool
    warm_up: int
    reduce: Reduce
    risk_steps: int
    # pyrefly: ignore [bad-override]  (frozen)
    views: int = 1

    def steps(self, similarities: Similarities, lesson: Lesson) -> Iterator[Value]:
        for _ in range(self.risk_steps):
            (scores,) = similarities()
            yield self._value(scores, lesson)

    def _value(self, scores: Scores, lesson: Lesson) -> Value:
        to_text = violation(scores, lesson.match, self.margin)
        to_image = violation(scores.T, lesson.match.T, self.margin)
        if self.hardest and lesson.epoch >= self.warm_up:
            value = to_text.amax(-1).sum() + to_image.amax(-1).sum()
        else:
            value = to_text.sum() + to_image.sum()
        if self.reduce == "pairs":
            return value / self._compared(lesson)
        return value / len(scores) if self.reduce == "mean" else value

    def _compared(self, lesson: Lesson) -> Int[Tensor, ""] | int:
        """How many violations were added up, of both directions."""
        if self.hardest and lesson.epoch >= self.warm_up:
            return sum(lesson.match.shape)
        return (2 * (~lesson.match).sum()).clamp(min=1)


def build(
    margin: float = 0.2,
    hardest: bool = True,
    warm_up: int = 1,
    reduce: Reduce = "sum",
    risk_steps: int = 1,
) -> Hinge:
    """warm_up: epochs that sum over all negatives before the hardest one takes over.

    reduce: sum over the batch, as most systems have it; mean, as DivE does; or pairs, the mean
    over all negatives that count, as CE does with `hardest = false`. risk_steps: steps per
    batch; more than 1 compares losses at equal numbers of steps.
    """
    return Hinge(margin, hardest, warm_up, reduce, risk_steps)
