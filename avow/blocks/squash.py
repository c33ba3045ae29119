"""From a published score of whatever range to a similarity in [-1, 1].

auto     divided by its largest value where the score has one, otherwise tanh
none     as published, of whatever range: a hinge margin means what it does in the paper
sigmoid  0 to 1
tanh     -1 to 1
"""

from typing import Literal

from jaxtyping import Float
from torch import Tensor

Squash = Literal["auto", "none", "sigmoid", "tanh"]


def squashed(
    score: Float[Tensor, "*shape"], kind: Squash, largest: float | None
) -> Float[Tensor, "*shape"]:
    """Every kind but `none` keeps the order and stays within [-1, 1]."""
    if kind == "none":
        return score
    if kind == "auto" and largest is not None:
        return score / largest
    return score.sigmoid() if kind == "sigmoid" else score.tanh()
