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

from avow.trust.sight import TEMPERATURES, Sight, Usual, with_background


def look_at_best(
    best: Float[Tensor, "views queries k"],
    sampled: Float[Tensor, "queries sample"],
    left: Bool[Tensor, "queries sample"],
    gallery: int,
    tau: float = 0.05,
    *,
    usual_best: Usual | None = None,
    usual_sample: Float[Tensor, " sample"] | None = None,
    shown: int = 32,
) -> Sight:
    """What is seen of queries of which only the best k and a sample are known.

    best: in order of their mean over views. sampled: that mean, for the sample. left: which
    sampled items are not among the best. usual_best, usual_sample: what is usual for them,
    where the gallery keeps it; of the sample, the usual log-evidence, mean of the views.
    """
    queries, kept = best.shape[1:]
    variance, mean = torch.var_mean(sampled, -1, correction=0)
    front, behind = best.mean(0)[None] / tau, sampled[None] / tau
    apart = None
    if usual_best is not None and usual_sample is not None:
        # all sums at once: at this size a call costs more than what it computes
        apart = front[0] - usual_best.log_mean.mean(0)
        heat = torch.tensor(TEMPERATURES, dtype=best.dtype)[:, None, None]
        front = torch.cat([front, apart / heat])
        behind = torch.cat([behind, (behind[0] - usual_sample) / heat])
    sums = _totals(front, behind, left, gallery)
    sight = Sight(
        torch.full((queries,), gallery), tau, best[..., :shown], mean, variance.sqrt(), sums[0]
    )
    if apart is None or usual_best is None:
        return sight
    cut = Usual(
        usual_best.log_mean[..., :shown],
        usual_best.mean[..., :shown],
        usual_best.spread[..., :shown],
        usual_best.eighth[..., :shown],
    )
    return with_background(sight, cut, apart[:, : min(shown, kept)], sums[1:])


def _totals(
    front: Float[Tensor, "sums queries k"],
    sampled: Float[Tensor, "sums queries sample"],
    left: Bool[Tensor, "queries sample"],
    gallery: int,
) -> Float[Tensor, "sums queries"]:
    """Logarithms of sums over the gallery: the best as they are, the rest by its mean."""
    first = front.logsumexp(-1)
    rest = gallery - front.shape[-1]
    if rest <= 0:
        return first
    seen = left.sum(-1).clamp(min=1)
    tail = sampled.masked_fill(~left, -torch.inf).logsumexp(-1) + math.log(rest) - seen.log()
    return torch.logaddexp(first, tail)
