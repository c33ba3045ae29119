"""SelHN: the hardest negative, except for queries that cannot tell it from their match.

Where match and hardest negative score alike, the gradient of the hardest negative alone
pulls everything to one point; such a query learns from the mean over its negatives instead.
So no warm-up epochs are needed.

Paper: Li et al., "Selectively Hard Negative Mining for Alleviating Gradient Vanishing in
Image-Text Matching", IEEE TCSVT 2025. Its RVSE++ is this loss on the encoders of
VSE-infinity with `method.bend_from = "projection"`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from avow.core.contracts import Lesson, Loss, Similarities
from avow.losses._shapes import PerQuery, QueryMatches, QueryScores, Value
from avow.losses.hinge import violation


def selected(scores: QueryScores, match: QueryMatches, margin: float, near: float) -> PerQuery:
    """Each query's mean violation where its hardest negative is `near`, else the largest."""
    violations = violation(scores, match, margin)
    mean = violations.sum(-1) / (~match).sum(-1).clamp(min=1)
    # one of several equal candidates takes the whole gradient, as published
    hardest = violations.max(-1).values
    weakest_match = scores.masked_fill(~match, torch.inf).amin(-1)
    rival = scores.masked_fill(match, -torch.inf).amax(-1)
    return torch.where((weakest_match - rival).abs() < near, mean, hardest)


@dataclass(frozen=True)
class SelHN(Loss):
    """The mean over the queries of the batch and over both directions, as published."""

    margin: float
    near: float
    # pyrefly: ignore [bad-override]  (frozen)
    views: int = 1

    def steps(self, similarities: Similarities, lesson: Lesson) -> Iterator[Value]:
        (scores,) = similarities()
        to_text = selected(scores, lesson.match, self.margin, self.near)
        to_image = selected(scores.T, lesson.match.T, self.margin, self.near)
        yield (to_text.mean() + to_image.mean()) / 2


def build(margin: float = 0.2, near: float = 0.01) -> SelHN:
    """near: how close match and hardest negative may score before the mean is learnt from."""
    return SelHN(margin, near)
