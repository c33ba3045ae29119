"""How each query part differs from what it looks at, squared and projected, part by part.

The squared gap between a word and what it attends to is as wide as the common space, and
there is one per image and word: at 128 x 128 pairs it takes gigabytes. Here it lives in
blocks that are projected at once and forgotten. For the gradient only the attention is
kept, and the gap is formed a second time: 36 products per number, where the projection
that follows takes 256.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import mse_loss


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
        for block in _blocks(len(context), step):
            attended = _attended(weights, context, queries, block)
            # "mse" without its mean: difference and square in one pass over memory
            square = mse_loss(attended, queries.expand_as(attended), reduction="none")
            torch.addmm(bias, square.flatten(0, 1), matrix.T, out=out[block].flatten(0, 1))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        weights, context, queries, matrix = ctx.saved_tensors
        (given,) = gradients
        given = given.contiguous()
        to_weights = None if weights is None else torch.empty_like(weights)
        to_context = torch.empty_like(context)
        # sums over blocks are kept in full precision
        kind = torch.promote_types(queries.dtype, torch.float32)
        to_queries = torch.zeros_like(queries, dtype=kind)
        to_matrix = torch.zeros_like(matrix, dtype=kind)
        for block in _blocks(len(context), ctx.step):
            gap = _attended(weights, context, queries, block) - queries
            narrow = given[block].flatten(0, 1)
            to_matrix += narrow.T @ gap.square().flatten(0, 1)
            pull = (narrow @ matrix).view_as(gap).mul_(gap)
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
            None,
        )


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
