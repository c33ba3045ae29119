"""IMRAM's memory where a gradient is wanted: gates are not kept, but made once more.

    pre = U query + b + weights (V context)        two halves: gate and fresh content
    new = fresh + gate (query - fresh),            gate = sigmoid(pre_0), fresh = tanh(pre_1)

For regions that look at words, every pair has 36 x 1,024 numbers in each of these. Autograd
keeps five such tensors a step; here only the new state is kept, and both halves of `pre` are
formed again on the way back. What is per number is one kernel forth and one back, where
Triton is. Numbers of a pair, in thousands, for one step:

                  kept  read and written forth  back
    autograd       184             553          1,250
    here            37             370            740  (`pre` once more included)
"""

from types import ModuleType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from avow.blocks import fused


def remembered(
    query: Float[Tensor, "#contexts rows dim"],
    weights: Float[Tensor, "contexts rows parts"],
    context: Float[Tensor, "contexts parts twice"],
    matrix: Float[Tensor, "twice dim"],
    bias: Float[Tensor, " twice"],
) -> Float[Tensor, "contexts rows dim"]:
    """The new state of every query; `context` is V of the context, `matrix` is U."""
    return _Remembered.apply(query, weights, context, matrix, bias)  # type: ignore[return-value]


class _Remembered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Tensor) -> Tensor:
        ctx.save_for_backward(*given)
        own, heard = _halves(*given)
        return _forth(own, heard, given[0])

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, ...]:
        query, weights, context, matrix, _ = ctx.saved_tensors
        own, heard = _halves(*ctx.saved_tensors)
        slope, passed = _back(own, heard, query, slopes[0].contiguous())
        weights_slope = torch.bmm(slope, context.mT)
        context_slope = torch.bmm(weights.mT, slope)
        if len(query) < len(slope):  # the query is shared by all contexts
            kind = torch.promote_types(slope.dtype, torch.float32)
            slope, passed = (
                one.sum(0, keepdim=True, dtype=kind).to(slope.dtype) for one in (slope, passed)
            )
        rows = slope.flatten(0, 1)
        query_slope = torch.addmm(passed.flatten(0, 1), rows, matrix).view_as(query)
        matrix_slope = rows.T @ query.flatten(0, 1)
        kind = torch.promote_types(rows.dtype, torch.float32)
        bias_slope = rows.sum(0, dtype=kind).to(rows.dtype)
        return query_slope, weights_slope, context_slope, matrix_slope, bias_slope


def _halves(
    query: Tensor, weights: Tensor, context: Tensor, matrix: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """What the query says to gate and fresh content, and what it attends to says."""
    return torch.nn.functional.linear(query, matrix, bias), torch.bmm(weights, context)


def _forth(own: Tensor, heard: Tensor, query: Tensor) -> Tensor:
    (contexts, rows, dim), how = (*heard.shape[:2], query.shape[2]), fused.CHOICES["remember"]
    state = heard.new_empty(contexts, rows, dim)

    def launch(kernels: ModuleType) -> None:
        kernels.remember[(contexts * rows, fused.tiles(dim, how["COLUMNS"]))](
            own.contiguous(),
            heard,
            query.contiguous(),
            state,
            len(own) * rows,
            D=dim,
            **how,
        )

    if fused.can_learn(heard) and fused.done("remember", heard, launch):
        return state
    gate, fresh = (own + heard).chunk(2, -1)
    return torch.lerp(fresh.tanh(), query.expand_as(fresh), gate.sigmoid())


def _back(own: Tensor, heard: Tensor, query: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """The slopes of both halves, which may be written over `heard`, and of the query."""
    (contexts, rows, dim), how = slope.shape, fused.CHOICES["remember_back"]
    passed = torch.empty_like(slope)

    def launch(kernels: ModuleType) -> None:
        kernels.remember_back[(contexts * rows, fused.tiles(dim, how["COLUMNS"]))](
            own.contiguous(),
            heard,
            query.contiguous(),
            slope,
            passed,
            len(own) * rows,
            D=dim,
            **how,
        )

    if fused.can_learn(heard) and fused.done("remember_back", heard, launch):
        return heard, passed
    gate, fresh = (own + heard).chunk(2, -1)
    gate, fresh = gate.sigmoid(), fresh.tanh()
    of_gate = slope * (query - fresh) * gate * (1 - gate)
    of_fresh = slope * (1 - gate) * (1 - fresh.square())
    return torch.cat([of_gate, of_fresh], -1), slope * gate
