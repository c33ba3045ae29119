"""Unit vectors, as the SCAN family of systems makes them."""

import torch
from jaxtyping import Float
from torch import Tensor


def unit(x: Float[Tensor, "*shape dim"], eps: float = 1e-8) -> Float[Tensor, "*shape dim"]:
    """x / (|x| + eps): the eps stands outside the root, unlike `F.normalize`."""
    return x / (torch.linalg.vector_norm(x, dim=-1, keepdim=True) + eps)


def precise(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The same in float32 at least: sums and roots of bfloat16 numbers need more digits."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
