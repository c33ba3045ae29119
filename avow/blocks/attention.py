"""How much each query part looks at each context part: the attention of SCAN.

Words may look at regions or regions at words; the same function serves both. It takes the
raw products and gives weights, so a caller never has to form what is attended where only
its products are needed.

Paper: Lee et al., "Stacked Cross Attention for Image-Text Matching", ECCV 2018.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

FocusNorm = Literal[
    "softmax", "l2norm", "clipped_l2norm", "l1norm", "clipped_l1norm", "clipped", "none"
]
_EPSILON = 1e-8  # outside the root, as `normalise.unit` has it
_SLOPE = 0.1  # what is left of negative products once they are clipped


def focus(
    products: Float[Tensor, "*pairs queries context"],
    query_present: Bool[Tensor, "*#pairs queries"],
    context_present: Bool[Tensor, "*#pairs context"],
    smooth: float,
    norm: FocusNorm = "clipped_l2norm",
) -> Float[Tensor, "*pairs queries context"]:
    """Weights over the context that sum to one for every query part.

    The products are first made comparable *across query parts* (`norm`), so that a region
    that resembles every word is not chosen by every word; then sharpened by `smooth`.
    Padded query parts take no part in that, and get weights that mean nothing.
    """
    if norm.startswith("clipped"):
        products = torch.nn.functional.leaky_relu(products, _SLOPE)
    real = query_present[..., None]
    if norm == "softmax":
        products = products.masked_fill(~real, -torch.inf).softmax(-2)
    elif norm.endswith("l2norm"):
        products = products * real
        length = torch.linalg.vector_norm(products, dim=-2, keepdim=True)
        products = products / (length + _EPSILON)
    elif norm.endswith("l1norm"):
        products = products * real
        products = products / (products.abs().sum(-2, keepdim=True) + _EPSILON)
    hidden = ~context_present[..., None, :]
    return (smooth * products).masked_fill(hidden, -torch.inf).softmax(-1)
