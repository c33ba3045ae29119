"""Parts by the weight of their place among the largest, summed: sorted, or only ranked.

To sort the parts of every column moves them, and where they came from, through memory many
times. On a CUDA device with Triton a kernel counts for each part how many are larger, and
nothing is moved; the way back is a kernel too, which adds up in the same order each time.
"""

from types import ModuleType
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from avow.blocks import fused

_FAR_BELOW = -1e4  # sorts behind every real feature
_MOST_PARTS = 128  # that a program holds in its registers


def weighed_by_rank(
    parts: Float[Tensor, "items parts dim"],
    present: Bool[Tensor, "items parts"],
    weight: Float[Tensor, "items parts"],
) -> Float[Tensor, "items dim"]:
    """weight: of the largest part, the second and so on; 0 beyond the parts of an item."""
    if _is_possible(parts):
        try:
            return _Ranked.apply(parts.contiguous(), present, weight)  # type: ignore[return-value]
        except _CannotRun:
            pass
    return _sorted(parts, present, weight)


def _is_possible(parts: Tensor) -> bool:
    return parts.is_cuda and 0 < parts.shape[1] <= _MOST_PARTS and fused.is_ready()


def _sorted(parts: Tensor, present: Tensor, weight: Tensor) -> Tensor:
    filled = parts.masked_fill(~present[..., None], _FAR_BELOW)
    ordered = filled.sort(dim=1, descending=True).values
    # beyond an item's own parts the weight is 0, which silences the filling
    return torch.einsum("npd,np->nd", ordered, weight.to(parts.dtype))


class _CannotRun(Exception):
    """A kernel failed; the warning has been logged."""


class _Ranked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, parts: Tensor, present: Tensor, weight: Tensor) -> Tensor:
        (items, count, dim), how = parts.shape, fused.CHOICES["rank"]
        present, weights = present.to(torch.uint8), weight.float().contiguous()
        places = torch.empty_like(parts, dtype=torch.uint8)
        pooled = parts.new_empty(items, dim)

        def launch(kernels: ModuleType) -> None:
            kernels.rank[(items, fused.tiles(dim, how["COLUMNS"]))](
                parts,
                present,
                weights,
                places,
                pooled,
                count,
                dim,
                P=fused.power(count),
                **how,
            )

        if not fused.done("rank", parts, launch):
            raise _CannotRun
        ctx.save_for_backward(parts, present, weights, places)
        ctx.kind = weight.dtype
        return pooled

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, Tensor]:
        parts, present, weights, places = ctx.saved_tensors
        (items, count, dim), how = parts.shape, fused.CHOICES["rank_back"]
        tiles = fused.tiles(dim, how["COLUMNS"])
        part_slope = torch.empty_like(parts)
        weight_slope = weights.new_empty(items, tiles, count)

        def launch(kernels: ModuleType) -> None:
            kernels.rank_back[(items, tiles)](
                parts,
                present,
                weights,
                places,
                slopes[0].contiguous(),
                part_slope,
                weight_slope,
                count,
                dim,
                tiles,
                P=fused.power(count),
                **how,
            )

        if fused.done("rank_back", parts, launch):
            return part_slope, None, weight_slope.sum(1).to(ctx.kind)
        with torch.enable_grad():
            again = [one.detach().requires_grad_() for one in (parts, weights)]
            pooled = _sorted(again[0], present != 0, again[1])
        part_slope, slope = torch.autograd.grad(pooled, again, slopes[0])
        return part_slope, None, slope.to(ctx.kind)
