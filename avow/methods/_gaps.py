"""How each query part differs from what it looks at, squared and projected, part by part.

The squared gap between a word and what it attends to is as wide as the common space, and
there is one per image and word: at 128 x 128 pairs it takes gigabytes. Here it lives in
blocks that are projected at once and forgotten. For the gradient only the attention is
kept, and the gap is formed a second time: 36 products per number, where the projection
that follows takes 256.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from avow.blocks import fused


def projected_gaps(
    weights: Float[Tensor, "images queries context"] | None,
    context: Float[Tensor, "images context dim"],
    queries: Float[Tensor, "queries dim"],
    layer: nn.Linear,
    most: int,
) -> Float[Tensor, "images queries narrow"]:
    """`layer` of (attended - query)^2, where attended is the weighted sum of the context.

    weights: None where the context is one part, which every query attends to.
    most: bytes that one block of gaps may take.
    """
    step = max(1, most // (queries.numel() * queries.element_size()))
    kind = queries.dtype
    matrix, bias = layer.weight.to(kind), layer.bias.to(kind)
    return _ProjectedGaps.apply(weights, context, queries, matrix, bias, step)  # type: ignore[return-value]


def write_gaps(
    weights: Tensor | None,
    context: Tensor,
    queries: Tensor,
    layer: fused.Layer,
    out: Float[Tensor, "images queries narrow"],
    step: int,
) -> None:
    """The same into `out`, without a gradient, `step` images at a time."""
    for block in _blocks(len(context), step):
        attended = _attended(weights, context, queries, block)
        # "mse" without its mean: difference and square in one pass over memory
        square = mse_loss(attended, queries.expand_as(attended), reduction="none")
        rows = square.flatten(0, 1)
        torch.addmm(layer[1], rows, layer[0].T, out=out[block].flatten(0, 1))


class _ProjectedGaps(torch.autograd.Function):
    """The gradient is written out, because only so the wide gap need not be kept."""

    @staticmethod
    def forward(
        ctx: Any,
        weights: Tensor | None,
        context: Tensor,
        queries: Tensor,
        matrix: Tensor,
        bias: Tensor,
        step: int,
    ) -> Tensor:
        ctx.save_for_backward(weights, context, queries, matrix)
        ctx.step = step
        out = queries.new_empty(len(context), len(queries), len(matrix))
        write_gaps(weights, context, queries, (matrix, bias), out, step)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        weights, context, queries, matrix = ctx.saved_tensors
        given = gradients[0].contiguous()
        return *gaps_back(weights, context, queries, matrix, given, ctx.step), None


def gaps_back(
    weights: Tensor | None,
    context: Tensor,
    queries: Tensor,
    matrix: Tensor,
    given: Float[Tensor, "images queries narrow"],
    step: int,
) -> tuple[Tensor | None, Tensor, Tensor, Tensor, Tensor]:
    """The slopes of weights, context, queries, matrix and bias; `given` is that of the gaps."""
    to_weights = None if weights is None else torch.empty_like(weights)
    to_context = torch.empty_like(context)
    # sums over blocks are kept in full precision
    kind = torch.promote_types(queries.dtype, torch.float32)
    to_queries = torch.zeros_like(queries, dtype=kind)
    to_matrix = torch.zeros_like(matrix, dtype=kind)
    for block in _blocks(len(context), step):
        narrow = given[block].flatten(0, 1)
        attended = _attended(weights, context, queries, block)
        pull = (narrow @ matrix).view(attended.shape)
        square = _pulled(attended, queries, pull, own=weights is not None)
        to_matrix += narrow.T @ square.flatten(0, 1)
        if weights is None or to_weights is None:
            torch.sum(pull, 1, keepdim=True, out=to_context[block])
        else:
            torch.bmm(pull, context[block].mT, out=to_weights[block])
            torch.bmm(weights[block].mT, pull, out=to_context[block])
        to_queries += pull.sum(0, dtype=kind)
    return (
        None if to_weights is None else to_weights.mul_(2),
        to_context.mul_(2),
        to_queries.mul_(-2).to(queries.dtype),
        to_matrix.to(matrix.dtype),
        given.sum((0, 1), dtype=kind).to(matrix.dtype),
    )


def _pulled(attended: Tensor, queries: Tensor, pull: Tensor, own: bool) -> Tensor:
    """The squared gaps; `pull` is multiplied by the gaps.

    own: whether `attended` may be written over, being nobody else's.
    """
    how, dim = fused.CHOICES["gap_back"], queries.shape[1]

    def launch(kernels: ModuleType) -> None:
        rows = attended.shape[0] * attended.shape[1]
        kernels.gap_back[(rows, fused.tiles(dim, how["COLUMNS"]))](
            attended, queries.contiguous(), pull, len(queries), D=dim, **how
        )

    if own and fused.can_learn(pull) and fused.done("gap_back", pull, launch):
        return attended
    gap = attended - queries
    pull.mul_(gap)
    return gap.square()


def _attended(
    weights: Tensor | None, context: Tensor, queries: Tensor, block: slice
) -> Float[Tensor, "block queries dim"]:
    """What every query attends to in the images of one block."""
    if weights is None:
        return context[block].expand(-1, len(queries), -1)
    return torch.bmm(weights[block], context[block])


def _blocks(count: int, step: int) -> Iterator[slice]:
    for start in range(0, count, step):
        yield slice(start, start + step)
