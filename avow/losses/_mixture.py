"""Two bell curves over one number per pair: how likely it comes from the lower, or higher.

Expectation maximisation from the two-means split, in float64, without chance: the same
numbers give the same answer.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def chance_of_higher(
    values: Float[Tensor, " items"],
    rounds: int = 100,
    enough: float = 1e-6,
    least_variance: float = 1e-6,
    monotone: bool = True,
) -> Float[Tensor, " items"]:
    """The probability that each value comes from the curve with the larger mean.

    monotone: beyond the two means nothing changes any more. A wide curve lies above a narrow
    one on both sides of it, which would make extreme values look like the other kind.
    """
    x = values.double()
    if len(x) < 2 or x.max() - x.min() < 1e-12:
        return torch.ones_like(values)
    share = _two_means(x)
    last = -math.inf
    for _ in range(rounds):
        weight, mean, variance = _curves(x, share, least_variance)
        log_parts = _log_parts(x, weight, mean, variance)
        whole = log_parts.logsumexp(0)
        share = (log_parts - whole).exp()
        if abs(float(whole.mean()) - last) < enough:
            break
        last = float(whole.mean())
    weight, mean, variance = _curves(x, share, least_variance)
    if monotone:
        x = x.clamp(float(mean.min()), float(mean.max()))
    chance = _log_parts(x, weight, mean, variance).softmax(0)[int(mean.argmax())]
    return chance.to(values.dtype)


def _two_means(x: Float[Tensor, " items"]) -> Float[Tensor, "2 items"]:
    """Who is nearer to which of two centres, once the centres stand still."""
    centres = torch.stack([x.min(), x.max()])
    upper = x > centres.mean()
    for _ in range(100):
        fresh = torch.stack([x[~upper].mean(), x[upper].mean()])
        if torch.equal(fresh, centres):
            break
        centres = fresh
        upper = x > centres.mean()
    return torch.stack([~upper, upper]).double()


def _curves(
    x: Float[Tensor, " items"], share: Float[Tensor, "2 items"], least_variance: float
) -> tuple[Float[Tensor, "2 1"], Float[Tensor, "2 1"], Float[Tensor, "2 1"]]:
    """Weight, mean and variance of each curve."""
    count = share.sum(1, keepdim=True) + 1e-12
    mean = (share * x).sum(1, keepdim=True) / count
    variance = (share * (x - mean).square()).sum(1, keepdim=True) / count
    return count / len(x), mean, variance + least_variance


def _log_parts(
    x: Float[Tensor, " items"],
    weight: Float[Tensor, "2 1"],
    mean: Float[Tensor, "2 1"],
    variance: Float[Tensor, "2 1"],
) -> Float[Tensor, "2 items"]:
    distance = (x - mean).square() / variance
    return weight.log() - 0.5 * (variance.log() + math.log(2 * math.pi) + distance)
