"""The same sight from what a search engine returns: its best k, and a fixed sample.

    best k of the engine, exact --.
    sample of the gallery --------+--> Sight, at a cost that does not grow with the gallery

Sums over the gallery are those of the best, plus the sample's mean for everything else. A
sample of the whole gallery gives the exact sight; `trust.tail` bounds the error otherwise.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from avow.core.background import Background
from avow.trust.sight import TEMPERATURES, Sight, Usual, relative_evidence, with_background


def look_at_best(
    best: Float[Tensor, "views queries k"],
    sampled: Float[Tensor, "views queries sample"],
    left: Bool[Tensor, "queries sample"],
    gallery: int,
    tau: float = 0.05,
    *,
    usual_best: Usual | None = None,
    usual_sample: Background | None = None,
    shown: int = 32,
) -> Sight:
    """What is seen of queries of which only the best k and a sample are known.

    best: in order of their mean over views. left: which sampled items are not among the
    best. usual_best, usual_sample: what is usual for them, where the gallery keeps it.
    """
    queries, kept = best.shape[1:]
    together = sampled.mean(0)
    mean = together.mean(-1)
    spread = (together - mean[:, None]).square().mean(-1).sqrt()
    sight = Sight(
        torch.full((queries,), gallery),
        tau,
        best[..., :shown],
        mean,
        spread,
        _total(best.mean(0) / tau, together / tau, left, gallery),
    )
    if usual_best is None or usual_sample is None:
        return sight
    front = (best / tau - usual_best.log_mean).mean(0)
    behind = relative_evidence(sampled, usual_sample, tau)
    sums = torch.stack([_total(front / t, behind / t, left, gallery) for t in TEMPERATURES])
    cut = Usual(
        usual_best.log_mean[..., :shown],
        usual_best.mean[..., :shown],
        usual_best.spread[..., :shown],
        usual_best.eighth[..., :shown],
    )
    return with_background(sight, cut, front[:, : min(shown, kept)], sums)


def _total(
    front: Float[Tensor, "queries k"],
    sampled: Float[Tensor, "queries sample"],
    left: Bool[Tensor, "queries sample"],
    gallery: int,
) -> Float[Tensor, " queries"]:
    """Logarithm of a sum over the gallery: the best as they are, the rest by its mean."""
    first = front.logsumexp(-1)
    rest = gallery - front.shape[1]
    if rest <= 0:
        return first
    seen = left.sum(-1).clamp(min=1)
    tail = sampled.masked_fill(~left, -torch.inf).logsumexp(-1) + math.log(rest) - seen.log()
    return torch.logaddexp(first, tail)
